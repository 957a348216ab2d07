"""From covering numbers to generalisation: Rademacher complexity, the gap between risks, and the sample that closes it.

The constants of the two inequalities that the thesis quotes are arguments: it derives neither.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    largest: A, a bound on the absolute values of the class.
    constant: c, universal and unnamed.
    lipschitz: Lip, of the loss in its first argument.
    loss_bound: b: the loss is at most b.
    failure: delta.
"""

import math

from elegans.calculators.domain import least_count, require, require_positive, require_probability
from elegans.studies.variable_creation.theory.covering import LogCover

LARGEST_SAMPLE = 2**200
"""The largest sample that is considered."""


def dudley_bound(
    log_cover: LogCover, largest: float, m: int, *, delta: float | None = None, constant: float = 1.0
) -> float:
    """Return the entropy-integral bound on the empirical Rademacher complexity.

    Formula: c (delta + integral from delta to A of sqrt(log N(eps) / m) d eps), for any delta in (0, A]; the infimum is
        where log N(delta) = m, since covers only shrink as eps grows.
    Source: thesis, Lemma A.2, after Dudley (1967); c is a universal constant.

    Args:
        log_cover: log N by precision.
        delta: the lower limit; None for the best one.
        constant: c.
    """
    from scipy.integrate import quad

    require_positive("Lemma A.2", largest=largest, m=m, constant=constant)
    delta = _best_limit(log_cover, largest, m) if delta is None else delta
    require(0 < delta <= largest, "delta must lie in (0, A] (Lemma A.2)", delta=delta, A=largest)
    # in log eps, in which integrands that fall like 1 / eps are flat
    area, _ = quad(lambda u: math.exp(u) * math.sqrt(log_cover(math.exp(u)) / m), math.log(delta), math.log(largest))
    return float(constant * (delta + area))


def _best_limit(log_cover: LogCover, largest: float, m: int) -> float:
    """Return the precision up to A at which the integrand falls to 1, found by bisection in its logarithm."""
    low, high = math.log(largest) - 80, math.log(largest)
    if log_cover(largest) >= m:
        return largest
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if log_cover(math.exp(middle)) > m else (low, middle)
    return math.exp(high)


def rademacher_bound(capacity: float, largest: float, m: int, constant: float = 1.0) -> float:
    """Return a bound on the empirical Rademacher complexity of a class with log N(epsilon) <= C / epsilon^2.

    Formula: c sqrt(C/m) (1 + log(A sqrt(m/C))): the entropy integral from delta = sqrt(C/m), its best lower limit.
    Source: thesis, Corollary A.3.

    Args:
        m: the number of examples, at least C / A^2.
    """
    require_positive("Corollary A.3", capacity=capacity, largest=largest, m=m, constant=constant)
    least = math.sqrt(capacity / m)
    require(least <= largest, "sqrt(C/m) must be at most A (Corollary A.3)", C=capacity, m=m, A=largest)
    return constant * least * (1 + math.log(largest / least))


def risk_gap(
    rademacher: float,
    m: int,
    *,
    lipschitz: float = 1.0,
    loss_bound: float = 1.0,
    failure: float = 0.05,
    complexity_factor: float = 4.0,
    deviation_factor: float = 2.0,
) -> float:
    """Return a bound on |risk - empirical risk|, for all functions of a class at once.

    Formula: 4 Lip Rad + 2 b sqrt(log(1/delta) / (2 m)), with probability at least 1 - delta.
    Source: thesis, Theorem A.4, after Bartlett and Mendelson (2002); 4 and 2 are quoted there, not derived.

    Args:
        rademacher: the empirical Rademacher complexity of the class.
        complexity_factor: the factor of Lip Rad.
        deviation_factor: the factor of b sqrt(...).
    """
    require(rademacher >= 0, "rademacher must be at least 0 (Theorem A.4)", rademacher=rademacher)
    require_positive("Theorem A.4", m=m, lipschitz=lipschitz, loss_bound=loss_bound)
    require_positive("Theorem A.4", complexity_factor=complexity_factor, deviation_factor=deviation_factor)
    require_probability("failure", failure, "Theorem A.4")
    deviation = loss_bound * math.sqrt(math.log(1 / failure) / (2 * m))
    return complexity_factor * lipschitz * rademacher + deviation_factor * deviation


def generalisation_gap(
    capacity: float,
    largest: float,
    m: int,
    *,
    lipschitz: float = 1.0,
    loss_bound: float = 1.0,
    failure: float = 0.05,
    constant: float = 1.0,
) -> float:
    """Return a bound on |risk - empirical risk| of a class with log N(epsilon) <= C / epsilon^2.

    Formula: 4 c Lip sqrt(C/m) (1 + log(A sqrt(m/C))) + 2 b sqrt(log(1/delta) / (2 m)), with probability 1 - delta.
    Source: thesis, Lemma A.5 (Lemma 4.2).

    Args:
        capacity: C, at the number of examples m if it grows with it.
        m: the number of examples, at least C / A^2.
    """
    complexity = rademacher_bound(capacity, largest, m, constant)
    return risk_gap(complexity, m, lipschitz=lipschitz, loss_bound=loss_bound, failure=failure)


def generalisation_sample(
    capacity: float,
    largest: float,
    gap: float,
    *,
    growth: float = 0.0,
    lipschitz: float = 1.0,
    loss_bound: float = 1.0,
    failure: float = 0.05,
    constant: float = 1.0,
) -> int:
    """Return the smallest sample at which the bound on |risk - empirical risk| is below a target.

    The bound decreases from m = C / A^2, where it starts to apply. Capacities of attention heads grow with log m:
    give the one at m = 1 and its increase per unit of log m.

    Formula: min {m : ``generalisation_gap``(C + C' log m, A, m) <= gap}.
    Source: the inverse of the thesis' Lemma A.5, derived here.

    Args:
        capacity: C, at m = 1.
        gap: the target.
        growth: C', by how much C grows with log m; 0 for a capacity that does not.
    """
    require(growth >= 0, "growth must be at least 0", growth=growth)
    require_positive("Lemma A.5", capacity=capacity, largest=largest, gap=gap)

    def enough(m: int) -> bool:
        require(m <= LARGEST_SAMPLE, "a sample below 2^200 must reach the gap", gap=gap)
        grown = capacity + growth * math.log(m)
        if grown > m * largest**2:
            return False
        bound = generalisation_gap(
            grown, largest, m, lipschitz=lipschitz, loss_bound=loss_bound, failure=failure, constant=constant
        )
        return bound <= gap

    return 1 if enough(1) else least_count(enough, 1)
