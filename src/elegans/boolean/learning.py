"""Quantities for learning parities that several works use: lucky neurons, readouts, learning rates, random search.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

import numpy as np

from elegans.calculators.domain import (
    AtMost,
    Number,
    binomial,
    require,
    require_parity,
    require_positive,
    require_probability,
)
from elegans.calculators.rational import Vector


def parity_of_sum(k: Annotated[int, AtMost(50_000)]) -> Vector:
    """Return the parity of k signs for each value -k, -k + 2, …, k of their sum.

    The paper writes it as the sum mod 2, which is the same for all of these values.

    Formula: chi(s) = (-1)^((k - s) / 2).
    Source: Pareto frontiers, proof of Lemma 11.

    Args:
        k: the number of signs.

    Returns:
        k + 1 signs.
    """
    return tuple(Fraction((-1) ** ((k - s) // 2)) for s in range(-k, k + 1, 2))


@lru_cache(maxsize=4096)
def sums_of_signs(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return P and the partial mean of a sum of m signs with at most -1, 0, …, m of them +1, correctly rounded."""
    chance, mean = np.zeros(m + 2), np.zeros(m + 2)
    ways, passed, whole = 1, 0, 2**m
    for plus in range(m + 1):
        passed += ways
        chance[plus + 1] = passed / whole
        # sum_{j <= J} (2j - m) C(m, j) = -m C(m - 1, J) = -(m - J) C(m, J)
        mean[plus + 1] = -((m - plus) * ways) / whole
        ways = ways * (m - plus) // (plus + 1)
    return chance, mean


def neurons_for_any_good(p: Number, delta: float) -> int:
    """Return how many neurons include a good one with probability at least 1 - delta.

    Formula: ceil(ln(1 / delta) / -ln(1 - p)).
    Source: independence of the neurons.

    Args:
        p: the probability that one is good, above 0.
        delta: the probability of failure, between 0 and 1.

    Returns:
        The number of independently drawn neurons: half the width if each has a mirrored copy.
    """
    require(0 < p <= 1, "p must be above 0 and at most 1", p=p)
    require_probability("delta", delta, "a probability of failure")
    return 1 if p == 1 else max(1, math.ceil(math.log(1 / delta) / -math.log1p(-float(p))))


def random_search_time(n: int, k: int, copies: int = 1) -> float:
    """Return the expected number of steps until one of several independent random searches tries the right parity.

    They have no memory: each tries a uniform parity at each step. This would be the speed-up from width if training
    were random search.

    Formula: 1 / (1 - (1 - 1 / C(n, k))^r), about C(n, k) / r.
    Source: thesis, section 5.5 (width); the mean of a geometric distribution.

    Args:
        n: the number of inputs.
        k: the size of the support, from 1 to n.
        copies: the number r of searches.

    Returns:
        Steps.
    """
    require_parity(n, k, "random search")
    require_positive("random search", copies=copies)
    total = binomial(n, k)
    return 1.0 if total == 1 else -1 / math.expm1(copies * math.log1p(-1 / total))


def readout_decay(epsilon: float, norm: float) -> float:
    """Return the weight decay of the readout's training; its step sizes are 1 / (decay x t), t = 1, 2, ….

    Formula: lambda = epsilon / B_k^2, eta_t = 1 / (lambda t).
    Source: Pareto frontiers, proof of Lemma 14; the schedule after Shamir and Zhang (2013).

    Args:
        epsilon: the target loss, between 0 and 1/2.
        norm: B_k, as returned by ``readout_norm``.

    Returns:
        The coefficient of half the squared norm.
    """
    require(0 < epsilon < 0.5, "epsilon must lie between 0 and 1/2 (Lemma 14)", epsilon=epsilon)
    require(norm > 0, "norm must be positive (Lemma 14)", norm=norm)
    return epsilon / norm**2


def convex_sgd_rate(norm: float, gradient: float, steps: int) -> float:
    """Return the learning rate of stochastic gradient descent from 0 on a convex function.

    Formula: eta = M / (rho sqrt(T)).
    Source: thesis, Theorem B.6; Shalev-Shwartz and Ben-David, "Understanding Machine Learning" (2014), Theorem 14.8.

    Args:
        norm: the bound M on the comparator's norm.
        gradient: the bound rho on stochastic gradients' norms.
        steps: the number T of steps.
    """
    require_positive("Theorem B.6", norm=norm, gradient=gradient, steps=steps)
    return norm / (gradient * math.sqrt(steps))
