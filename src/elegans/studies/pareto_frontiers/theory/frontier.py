"""The frontier of data, compute, width and luck: provably impossible combinations, and families that provably succeed.

Lines for plots: constants and logarithms that a theorem leaves open are dropped where a docstring says so.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    n: the number of inputs.
    k: the size of the support, from 1 to n.
    steps: the number T of gradient steps.
    form: "strict" for the constant that the proof gives, "printed" for the paper's.
    sample: the sample size m.
    parameters: the number r of parameters.
    tau: the tolerance, above 0.
"""

import math
from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

from elegans.calculators.domain import (
    AtMost,
    Binomial,
    Listed,
    Number,
    binomial,
    power,
    require,
    require_form,
    require_over_sparse,
    require_parity,
    require_positive,
    require_probability,
    require_under_sparse,
)

SQForm = Literal["strict", "printed"]
"""Which constant the lower bound has: the strictly valid 1/4, or the printed 1/2."""


class Resources(NamedTuple):
    """A point of the frontier, up to the constants that the docstring of its function names.

    Args:
        width: the width.
        sample: the sample size.
    """

    width: Fraction
    sample: Fraction


def information_bits(n: int, k: int) -> float:
    """Return how many bits identify the support: at least as many examples are needed, since each label is one bit.

    Formula: log2 C(n, k).
    Source: Pareto frontiers, section 2.1.
    """
    require_parity(n, k, "an (n, k)-parity")
    return math.log2(binomial(n, k))


def p_ambiguous_bound(n: int, k: int, sample: Listed) -> Fraction:
    """Return a bound on the probability that another k-parity agrees with all labels of a random sample.

    Formula: (C(n, k) - 1) 2^-m, at most 1.
    Source: union bound over parities, each agreeing with probability 2^-m; Pareto frontiers, section 2.1.
    """
    require_parity(n, k, "an (n, k)-parity")
    require(sample >= 0, "sample must be at least 0", sample=sample)
    return min(Fraction(1), Fraction(binomial(n, k) - 1, 2**sample))


def statistical_limit(n: int, k: int, delta: float = 0.01) -> int:
    """Return the sample size that identifies the support with probability at least 1 - delta, ignoring compute.

    Formula: the smallest m with (C(n, k) - 1) 2^-m <= delta; of order k log n.
    Source: Pareto frontiers, section 2.1; with ``information_bits`` the two sides of the statistical limit.

    Args:
        delta: the probability that the sample leaves another parity consistent, between 0 and 1.
    """
    require_parity(n, k, "an (n, k)-parity")
    require_probability("delta", delta, "a probability of failure")
    sample = 0
    while p_ambiguous_bound(n, k, sample) > delta:
        sample += 1
    return sample


def sq_precision(sample: int) -> float:
    """Return the precision of means over a sample, logarithms dropped.

    Formula: tau = m^(-1/2).
    Source: Pareto frontiers, Assumption 2 and the discussion of Proposition 3.
    """
    require_positive("Proposition 3", sample=sample)
    return 1 / math.sqrt(sample)


def mlp_parameters(n: int, width: int) -> int:
    """Return how many parameters a two-layer network with biases has: the r of the lower bound.

    Formula: r (n + 2) + 1 for r hidden units.
    Source: counting; Pareto frontiers, section 3.1 counts parameters, its experiments count units.

    Args:
        width: the number of hidden units.
    """
    return width * (n + 2) + 1


def sq_resource(parameters: int, steps: int, tau: Number, delta: Number) -> float:
    """Return the combined resource of a gradient method: what the lower bound weighs against C(n, k).

    Formula: r T / (tau^2 delta); with tau = m^(-1/2) it is r T m / delta.
    Source: Pareto frontiers, Proposition 3.

    Args:
        parameters: the number r of parameters (each a query of every step).
        tau: the gradient precision; ``sq_precision(m)`` for a sample of m.
        delta: luck: the success probability over the initialisation that is acceptable.
    """
    require_positive("Proposition 3", parameters=parameters, steps=steps, tau=tau, delta=delta)
    require(delta <= 1, "delta must be at most 1 (Proposition 3)", delta=delta)
    return float(parameters) * steps / (float(tau) ** 2 * float(delta))


def sq_threshold(n: int, k: Annotated[int, AtMost(10_000)], form: SQForm = "strict") -> Fraction:
    """Return the resource below which noisy gradient descent cannot reach some parity.

    Noise of at most tau must cancel a deviation, for which Assumption 2 leaves tau / 2. Markov's inequality then asks
    for an expected squared deviation of at most delta tau^2 / 4: with the printed 1/2 the probability of failure can
    reach 2 delta instead of the promised delta.

    Formula: C(n, k) / 4; printed: C(n, k) / 2.
    Source: Pareto frontiers, Proposition 3.
    """
    require_parity(n, k, "Proposition 3")
    require_form(form, ("strict", "printed"))
    return Fraction(binomial(n, k), 4 if form == "strict" else 2)


def sq_excluded(
    n: int, k: int, *, parameters: int, steps: int, tau: Number, delta: Number, form: SQForm = "strict"
) -> bool:
    """Return whether the lower bound applies: some parity leaves no trace in the iterates, up to luck delta.

    Formula: r T / (tau^2 delta) <= C(n, k) / 4; printed: <= C(n, k) / 2.
    Source: Pareto frontiers, Proposition 3.

    Args:
        tau: the gradient precision, the adversary's largest noise.
        delta: the probability over initialisations that the iterates still depend on the target.

    Returns:
        True where success is excluded; False says nothing.
    """
    return sq_resource(parameters, steps, tau, delta) <= sq_threshold(n, k, form)


def sq_smallest_sample(n: int, k: int, *, parameters: int, steps: int, delta: Number, form: SQForm = "strict") -> float:
    """Return the sample size at which the lower bound stops to apply: a line for a plot of width and data.

    Formula: m = C(n, k) delta / (4 r T); printed: C(n, k) delta / (2 r T). Logarithms in tau dropped.
    Source: Pareto frontiers, Proposition 3 with tau = m^(-1/2).

    Args:
        delta: the acceptable success probability, above 0 and at most 1.
    """
    return float(sq_threshold(n, k, form)) / sq_resource(parameters, steps, 1, delta)


def sq_correlated_fraction(n: int, k: Annotated[int, AtMost(10_000)], tau: Number) -> Fraction:
    """Return a bound on the share of parities whose correlation with one statistical query exceeds its tolerance.

    Formula: 1 / (tau^2 C(n, k)), at most 1, for a query bounded by 1 (Bessel: squared correlations add to at most 1).
    Source: thesis, appendix B.1.1; Kearns, "Efficient noise-tolerant learning from statistical queries" (1998).
    """
    require_parity(n, k, "an (n, k)-parity")
    require_positive("statistical queries", tau=tau)
    return min(Fraction(1), 1 / (Fraction(tau) ** 2 * binomial(n, k)))


def sq_queries(n: int, k: Annotated[int, AtMost(10_000)], tau: Number) -> int:
    """Return the least number of statistical queries that may identify a parity, when answers may err by a tolerance.

    An adversary answers 0 as long as it can: each answer rules out fewer than 1 / tau^2 parities, and all but one must
    go.

    Formula: T >= (C(n, k) - 1) tau^2, so T / tau^2 is of order n^k.
    Source: thesis, appendix B.1.1, with its constant.
    """
    require_parity(n, k, "an (n, k)-parity")
    require_positive("statistical queries", tau=tau)
    return math.ceil((binomial(n, k) - 1) * Fraction(tau) ** 2)


def over_sparse_frontier(n: int, k: int, s: int, *, truncated: bool = False) -> Resources:
    """Return the width and sample of over-sparse initialisation, constants and logarithms dropped.

    As s falls the width rises and the sample falls; width x sample = n^(k + 2) / (s k^(k - 1)).

    Formula: width (n / s)^k, sample n^2 (s / k)^(k - 1); without the n^2 where gradients are truncated.
    Source: Pareto frontiers, Theorem 4 and its footnote on truncation.

    Args:
        k: the size of the support, even.
        s: how many weights of each neuron are 1, odd, above k and at most n.
        truncated: whether gradients below a threshold are set to 0.

    Returns:
        Exact powers, with all constants (which depend on k) set to 1.
    """
    require_over_sparse(k, s, "Theorem 4", n)
    return Resources(power(Fraction(n, s), k), (1 if truncated else n**2) * power(Fraction(s, k), k - 1))


def under_sparse_frontier(n: int, k: int, s: int) -> Resources:
    """Return the width and sample of under-sparse initialisation, constants and logarithms dropped.

    Width x sample = (n / k)^(k - 1) for every s.

    Formula: width (n / k)^s, sample (n / k)^(k - s - 1).
    Source: Pareto frontiers, Theorem 5.

    Args:
        k: the size of the support, even.
        s: how many weights of each neuron are large: 0, 2, …, k - 2.

    Returns:
        Exact powers, with all constants set to 1.
    """
    require_under_sparse(n, k, s, "Theorem 5")
    return Resources(power(Fraction(n, k), s), power(Fraction(n, k), k - s - 1))


def dense_frontier(n: Binomial, k: int) -> tuple[Resources, Resources]:
    """Return the width and the range of samples claimed for dense initialisation, constants dropped.

    No proof is given: it is the limit of both sparse families, s = 0 and s of order n.

    Formula: width 1, sample from n^(k - 1) to n^(k + 1).
    Source: Pareto frontiers, discussion of Theorems 4 and 5.

    Returns:
        The point with the smaller sample and the point with the larger.
    """
    require_parity(n, k, "dense initialisation")
    return Resources(Fraction(1), power(n, k - 1)), Resources(Fraction(1), power(n, k + 1))


def selection_sample(n: int, width: int, gap: Number, delta: float) -> int:
    """Return the sample size at which every neuron's empirical gradient is within half a gap of its mean.

    Then a threshold in the middle of the gap keeps exactly the coordinates above it, for all neurons at once.

    Formula: ceil(16 ln(4 n r / delta) / gap^2).
    Source: Pareto frontiers, Lemma 10 with tau = gap / 2.

    Args:
        width: the number r of neurons.
        gap: |relevant| - |irrelevant| correlation, as ``over_sparse_relevant`` and its siblings give them.
        delta: the probability of failure, between 0 and 1.
    """
    require_positive("Lemma 10", n=n, width=width, gap=gap)
    require_probability("delta", delta, "Lemma 10")
    return math.ceil(16 * math.log(4 * n * width / delta) / float(gap) ** 2)
