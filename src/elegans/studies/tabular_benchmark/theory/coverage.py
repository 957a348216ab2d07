"""Coverage: how likely it is that two columns meet in a sparsely initialised neuron."""

from fractions import Fraction

from elegans.calculators.domain import require


def pair_coverage(columns: int, neurons: int, inputs: int = 1) -> float:
    """Return the probability that some neuron with two random inputs has one in each of two given columns.

    Formula: 1 - (1 - p)^r for r neurons and c columns of b inputs each, with p = 2 b / (c (c b - 1)), the share of
        pairs of inputs that lie one in each column; p = 2 / (c (c - 1)) with one input per column.
    Source: counting; the initialisation ("sparse:2") comes from Pareto frontiers, section 4, on inputs of this lab.

    Args:
        columns: how many columns there are, at least 2.
        neurons: how many neurons draw two distinct inputs each.
        inputs: how many inputs each column has, such as bins.
    """
    require(columns >= 2, "columns must be at least 2", columns=columns)
    require(
        neurons >= 0 and inputs >= 1, "neurons must be at least 0, inputs at least 1", neurons=neurons, inputs=inputs
    )
    p = Fraction(2 * inputs, columns * (columns * inputs - 1))
    return float(1 - (1 - float(p)) ** neurons)
