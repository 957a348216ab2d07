"""The distribution of w . xi for a neuron's weights outside the plane, xi being uniform signs.

Four ways to compute it: over all signs, over sampled ones, as a binomial if all weights have equal magnitude, and as a
Gaussian. Ties |w . xi| = limit count half, as they do in gradients with relu'(0) = 0 once (z, xi) and (-z, -xi) are
averaged.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from elegans import random
from elegans.boolean.fourier import sign_table
from elegans.boolean.learning import sums_of_signs
from elegans.calculators.domain import Seed, require

Distribution = Literal["auto", "exact", "binomial", "gaussian", "sampled"]
"""How the distribution of w . xi is computed."""

LARGEST_EXACT = 20
"""The largest d for which all signs are enumerated."""

DRAWN = 2**14
"""The number of sign vectors sampled by default; standard errors of probabilities are at most 0.004."""

_TIE = 1e-12
_ENTRIES = 2**22


class NoiseSums(NamedTuple):
    """The statistics of w . xi that gradients need, each of shape (p,).

    Args:
        within: P(|w . xi| <= limit).
        beyond: E[|w . xi|; |w . xi| > limit].
    """

    within: np.ndarray
    beyond: np.ndarray


def noise_sums(rest: np.ndarray, limit: np.ndarray, distribution: Distribution, seed: Seed = 0) -> NoiseSums:
    """Return P(|w . xi| <= limit) and E[|w . xi|; |w . xi| > limit] for the rows w of ``rest``.

    Args:
        rest: the weights outside the plane, shape (p, d - 2).
        limit: at least 0, shape (p,).
        distribution: "exact" sums over all signs (d <= 20); "binomial" needs nonzero weights of one size; "gaussian"
            takes w . xi as N(0, ||w||^2); "sampled" draws 2^14 signs (stream ``probe``); "auto" takes the first of
            exact, binomial and sampled that applies.
        seed: the seed of the sampled signs.
    """
    require(
        distribution in ("auto", "exact", "binomial", "gaussian", "sampled"),
        "distribution must be one of auto, exact, binomial, gaussian, sampled",
        distribution=distribution,
    )
    d = rest.shape[1] + 2
    magnitude = np.abs(rest).max(axis=1, initial=0)
    even = bool(((np.abs(rest) - magnitude[:, None] > -1e-9 * magnitude[:, None]) | (rest == 0)).all())
    if distribution == "auto":
        distribution = "exact" if d <= LARGEST_EXACT else "binomial" if even else "sampled"
    if distribution == "gaussian":
        return _gaussian(np.linalg.norm(rest, axis=1), limit)
    if distribution == "binomial":
        require(even, "weights outside the plane must be 0 or of equal magnitude (binomial distribution)", d=d)
        return _binomial(magnitude, (rest != 0).sum(axis=1), limit)
    require(
        distribution == "sampled" or d <= LARGEST_EXACT,
        f"d must be at most {LARGEST_EXACT} for the exact distribution",
        d=d,
    )
    signs = half_signs(rest.shape[1]) if distribution == "exact" else drawn_signs(rest.shape[1], seed)
    return _counted(rest, limit, signs)


def half_signs(size: int) -> np.ndarray:
    """Return one of every pair of opposite sign vectors, float64 of shape (2^(size - 1), size)."""
    return sign_table(size)[: max(1, 2**size // 2)].astype(float)


def drawn_signs(size: int, seed: Seed) -> np.ndarray:
    """Return random sign vectors, float64 of shape (2^14, size)."""
    return np.asarray(random.rademacher(random.stream(seed, "probe"), np.arange(DRAWN, dtype=np.uint32), size), float)


def within_half(size: np.ndarray, limit: Any) -> np.ndarray:
    """Return 1 where sizes are below a limit, 1/2 where they equal it to rounding, 0 above."""
    slack = _TIE * (1 + np.abs(limit))
    return np.asarray(((size < limit - slack).astype(float) + (size <= limit + slack)) / 2)


def blocks(count: int, width: int) -> list[slice]:
    """Return slices of ``count`` rows that keep tables of ``width`` columns small."""
    size = max(1, _ENTRIES // width)
    return [slice(first, first + size) for first in range(0, count, size)]


def _counted(rest: np.ndarray, limit: np.ndarray, signs: np.ndarray) -> NoiseSums:
    within, beyond = np.zeros(len(rest)), np.zeros(len(rest))
    for rows in blocks(len(rest), len(signs)):
        size = np.abs(rest[rows] @ signs.T)
        inside = within_half(size, limit[rows, None])
        within[rows] = inside.mean(axis=1)
        beyond[rows] = (size * (1 - inside)).mean(axis=1)
    return NoiseSums(within, beyond)


def _gaussian(norm: np.ndarray, limit: np.ndarray) -> NoiseSums:
    from scipy.special import erf

    ratio = np.divide(limit, norm, out=np.full(len(norm), np.inf), where=norm > 0)
    return NoiseSums(erf(ratio / math.sqrt(2)), norm * math.sqrt(2 / math.pi) * np.exp(-(ratio**2) / 2))


def _binomial(magnitude: np.ndarray, count: np.ndarray, limit: np.ndarray) -> NoiseSums:
    within, beyond = np.ones(len(count)), np.zeros(len(count))
    for row in np.flatnonzero(count):
        m = int(count[row])
        chance = np.diff(sums_of_signs(m)[0])
        size = magnitude[row] * np.abs(2 * np.arange(m + 1) - m)
        inside = within_half(size, limit[row])
        within[row], beyond[row] = chance @ inside, chance @ (size * (1 - inside))
    return NoiseSums(within, beyond)
