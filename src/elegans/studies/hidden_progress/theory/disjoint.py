"""The exact error of a disjoint PolyNet, and how long gradient flow stays on its plateau.

The network is f(x) = prod_i <w_i, x_i> over k blocks of n' signs each. The parity has the first sign of each block, so
the first weight of a block is relevant, v_i, and the others, u_i, are not. An output of 0 counts as an error.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    block: the size n' of a block, at least 2.
    k: the number of blocks, at least 3.
    gamma: how far below 1/2 the error is at the plateau's end, between 0 and 1/2.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np

from elegans.calculators.domain import AtMost, Form, Number, require, require_form

MOST_SUMS = 2**18
"""The largest number of distinct sums of irrelevant weights whose distribution is tabulated."""

LARGEST_PRODUCTS = 10**8
"""Maximum number of multiplications in the products of all blocks but one."""

BERRY_ESSEEN = 0.56
"""The constant of the Berry-Esseen theorem for sums of independent variables that the thesis uses."""

Crossing = Literal["first", "last"]
"""Whether a plateau ends at the first time with an error of at most the level, or at the last time with an error of at
least the level."""


def refuse_long_products(blocks: np.ndarray) -> None:
    """Refuse one number per block where the products over all other blocks take minutes."""
    k = blocks.shape[-1]
    require(blocks.size * k <= LARGEST_PRODUCTS, f"blocks times k must be at most {LARGEST_PRODUCTS}", k=k)


def disjoint_gradient(weights: Any) -> np.ndarray:
    """Return the population gradient of a disjoint PolyNet's correlation loss: only relevant weights have one.

    Formula: g_i = -(prod_{j != i} v_j) e_1.
    Source: thesis, section 5.4.2.

    Args:
        weights: shape (..., k, n'), the relevant weight of a block first.

    Returns:
        float64 of the same shape.
    """
    rows = np.asarray(weights, np.float64)
    relevant = rows[..., 0]
    refuse_long_products(relevant)
    gradient = np.zeros_like(rows)
    for i in range(relevant.shape[-1]):
        gradient[..., i, 0] = -np.delete(relevant, i, axis=-1).prod(axis=-1)
    return gradient


def disjoint_error(weights: Iterable[Sequence[Number]]) -> Fraction:
    """Return the exact error rate of a disjoint PolyNet over all inputs.

    Formula: 1 - (prod_i (1 - z_i) + prod_i s_i) / 2 with X_i = u_i . x, z_i = P(X_i = v_i) and
        s_i = P(X_i < v_i) - P(X_i > v_i); without ties (1 - prod_i s_i) / 2.
    Source: derived here from the thesis' Lemma B.9, whose proof counts ties twice.

    Args:
        weights: k rows of n' weights, the relevant one first. Integers (or few distinct values) in any number, others
            up to 18 per block. Give fractions: a float is the dyadic rational that it stores.
    """
    apart, signs = Fraction(1), Fraction(1)
    for row in weights:
        require(len(row) >= 2, "a block must have irrelevant weights (Lemma B.9)", row=row)
        below, equal, above = _law(row)
        total = below + equal + above
        apart *= Fraction(below + above, total)
        signs *= Fraction(below - above, total)
    return 1 - (apart + signs) / 2


def _law(row: Sequence[Number]) -> tuple[int, int, int]:
    """Return how many irrelevant inputs have u . x below, at and above v."""
    exact = [Fraction(value) for value in row]
    scale = math.lcm(*(value.denominator for value in exact))
    level, *steps = (int(value * scale) for value in exact)
    counts = {0: 1}
    for step in steps:
        following: dict[int, int] = {}
        for value, count in counts.items():
            following[value + step] = following.get(value + step, 0) + count
            following[value - step] = following.get(value - step, 0) + count
        counts = following
        require(
            len(counts) <= MOST_SUMS,
            f"irrelevant weights must have at most {MOST_SUMS} distinct sums for an exact error (else use "
            "disjoint_error_normal)",
            block=len(row),
        )
    below = sum(count for value, count in counts.items() if value < level)
    return below, counts.get(level, 0), sum(counts.values()) - below - counts.get(level, 0)


def disjoint_error_normal(weights: Any) -> np.ndarray:
    """Return the error of disjoint PolyNets with sums of irrelevant weights taken as normal.

    Formula: (1 - prod_i erf(v_i / (sqrt(2) ||u_i||_2))) / 2.
    Source: thesis, Lemma B.9 with the Berry-Esseen term dropped.

    Args:
        weights: shape (..., k, n'), the relevant weight of a block first and not all others 0.

    Returns:
        float64 of shape (...).
    """
    return np.asarray((1 - _normal_factors(weights)[0].prod(axis=-1)) / 2)


def disjoint_error_bounds(weights: Any, form: Form = "corrected") -> tuple[np.ndarray, np.ndarray]:
    """Return bounds on the error of disjoint PolyNets.

    The printed exponent lacks the 1/2 of Hoeffding's inequality for signs, and its bound fails: at n' = 11, u all ones
    and v = 9.7 it allows a tail of 8.2e-5 where 9.8e-4 is exact. The printed power of ||u||_2 makes the lower bound
    depend on the scale of the weights, which the error does not; the distance is also two-sided, which doubles it. That
    bound fails too: three blocks of n' = 10, u all ones and v = 1.5 err on 0.440 of inputs, where it gives 0.467.

    Formula: (1 - prod_i min(1, erf(|v_i| / (sqrt(2) ||u_i||_2)) + 2c ||u_i||_inf / ||u_i||_2)) / 2 <= error
        <= 2 sum_i exp(-v_i^2 / (2 ||u_i||_2^2)), c = 0.56; printed: c ||u_i||_inf / ||u_i||_2^3 and
        exp(-v_i^2 / ||u_i||_2^2).
    Source: thesis, Lemma B.9.

    Args:
        weights: shape (..., k, n'), the relevant weight of a block first and not all others 0, with a positive product
            of relevant weights.
        form: "corrected" for bounds that hold, "printed" for the thesis'.

    Returns:
        The lower and the upper bound, float64 of shape (...).
    """
    require_form(form)
    factors, relevant, norm, largest = _normal_factors(weights)
    require(bool((relevant.prod(axis=-1) > 0).all()), "relevant weights must have a positive product (Lemma B.9)")
    if form == "corrected":
        slack, exponent = 2 * BERRY_ESSEEN * largest / norm, relevant**2 / (2 * norm**2)
    else:
        slack, exponent = BERRY_ESSEEN * largest / norm**3, relevant**2 / norm**2
    lower = (1 - np.minimum(1, np.abs(factors) + slack).prod(axis=-1)) / 2
    return np.asarray(lower), np.asarray(2 * np.exp(-exponent).sum(axis=-1))


def _normal_factors(weights: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return erf(v / (sqrt(2) ||u||_2)), v, ||u||_2 and ||u||_inf, each of shape (..., k)."""
    from scipy.special import erf

    rows = np.asarray(weights, np.float64)
    relevant, others = rows[..., 0], rows[..., 1:]
    norm = np.linalg.norm(others, axis=-1)
    require(bool((norm > 0).all()), "a block must have irrelevant weights that are not 0 (Lemma B.9)")
    return erf(relevant / (math.sqrt(2) * norm)), relevant, norm, np.abs(others).max(axis=-1)


def odd_probability(probabilities: Iterable[Number]) -> Number:
    """Return the probability that an odd number of independent events happens.

    Formula: (1 - prod_i (1 - 2 p_i)) / 2.
    Source: thesis, proof of Lemma B.9.

    Args:
        probabilities: the p_i.

    Returns:
        The probability, exact for fractions.
    """
    events = list(probabilities)
    require(all(0 <= p <= 1 for p in events), "probabilities must lie in 0..1 (Lemma B.9)", probabilities=events)
    return (1 - math.prod((1 - 2 * p for p in events), start=Fraction(1))) / 2


def plateau_level(
    block: Annotated[int, AtMost(2_000)], k: Annotated[int, AtMost(100)], gamma: Number, crossing: Crossing = "first"
) -> int:
    """Return the size of the relevant weights at which gradient flow from weights of 1 and -1 leaves its plateau.

    All relevant weights then have the same size b(t), and sums of irrelevant weights are integers: the error falls in
    steps as b passes one of them, and at that instant is larger by the ties, which count as errors.

    Formula: first: the least b with P(|X| <= b)^k >= 2 gamma; last: the largest b with
        (1 - P(X = b))^k + (P(X < b) - P(X > b))^k <= 1 + 2 gamma; X a sum of n' - 1 signs.
    Source: derived here, for the thesis' Theorem 5.7 ("first") and Corollary B.10 ("last").

    Args:
        crossing: "first" for the first time with an error of at most 1/2 - gamma, "last" for the last time with an
            error of at least that.

    Returns:
        The size, a whole number from 1 to n' - 1.
    """
    _require_plateau(block, k, gamma)
    require_form(crossing, ("first", "last"))
    signs, target = block - 1, 2 * Fraction(gamma)
    total, above = 2**signs, 0
    level = signs
    # from the largest level down: `above` counts the sums that exceed it
    while level >= 1:
        equal = math.comb(signs, (signs - level) // 2)
        if crossing == "first":
            if Fraction(total - 2 * above - 2 * equal, total) ** k < target:
                return level
        elif Fraction((total - equal) ** k + (total - equal - 2 * above) ** k, total**k) <= 1 + target:
            return level
        above += equal
        level -= 2
    return 1


def plateau_ratio(
    block: Annotated[int, AtMost(2_000)], k: Annotated[int, AtMost(100)], gamma: Number, crossing: Crossing = "first"
) -> float:
    """Return the share of the time to zero error that gradient flow from weights of 1 and -1 spends on its plateau.

    With "first" the time ends as the relevant weights pass n' - 1, with "last" at the explosion. The two ratios differ
    at feasible sizes (0.673 and 0.857 at n' = 100, k = 3, gamma = 0.01); both tend to 1.

    Formula: T(1/2 - gamma) / T(0) = (1 - b^(2 - k)) / (1 - (n' - 1)^(2 - k)) with b of ``plateau_level``;
        last: 1 - b^(2 - k).
    Source: thesis, Theorem 5.7 ("first") and Corollary B.10 ("last"), exactly.

    Args:
        block: the size n' of a block, at least 3.
        crossing: "first" for first times with an error of at most 1/2 - gamma and 0, "last" for last times with errors
            of at least these.

    Returns:
        The share, from 0 to 1.
    """
    require(block >= 3, "block must be at least 3 (Theorem 5.7)", block=block)
    level = plateau_level(block, k, gamma, crossing)
    plateau, whole = 1 - 1 / float(level) ** (k - 2), 1 - 1 / float(block - 1) ** (k - 2)
    return plateau / whole if crossing == "first" else plateau


def plateau_ratio_normal(block: int, k: int, gamma: float) -> float:
    """Return the leading form of the share of time on the plateau for large blocks.

    Formula: 1 - b^(2 - k), b = sqrt(pi n' / 2) (2 gamma)^(1/k); of order 1 - O(n'^(1 - k/2) gamma^(2/k - 1)).
    Source: thesis, Corollary B.10, with the constant of its order (there gamma stands for 2 gamma).

    Returns:
        The leading form; 0 where b is below 1.
    """
    _require_plateau(block, k, gamma)
    level = math.sqrt(math.pi * block / 2) * float((2 * gamma) ** (1 / k))
    return max(0.0, 1 - 1 / level ** (k - 2))


def _require_plateau(block: int, k: int, gamma: Number) -> None:
    require(block >= 2, "block must be at least 2 (Theorem 5.7)", block=block)
    require(k >= 3, "k must be at least 3 (Theorem 5.7)", k=k)
    require(0 < gamma < 0.5, "gamma must lie between 0 and 1/2 (Theorem 5.7)", gamma=gamma)
