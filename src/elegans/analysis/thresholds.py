"""Thresholds and their growth with size: like a logarithm or like a power."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from elegans.analysis.intervals import Resamples
from elegans.display import displayed
from elegans.errors import AnalysisError, shown

POWERS = np.linspace(-1, 2, 301)
"""Powers to try: from slower than a logarithm, which is power 0, to faster than proportional."""


@displayed
class Growth(NamedTuple):
    """Least-squares fits of values to a + b log T, a + b T and a + b T^c.

    Args:
        intercept: a of the logarithm.
        slope: its b, of the natural logarithm.
        residual: the root mean square residual of the logarithm.
        linear_residual: the same for the line a + b T.
        power: c, to a hundredth, from -1 to 2; 0 stands for the logarithm, the limit of a + b (T^c - 1) / c.
        power_residual: the same for the power, at most the two others.
    """

    intercept: float
    slope: float
    residual: float
    linear_residual: float
    power: float
    power_residual: float


def estimate_threshold(
    sizes: Sequence[float], solved: Float[Any, "... sizes"], trials: Float[Any, "..."], level: float = 0.8
) -> Float[np.ndarray, "..."] | np.float64:
    """Return the smallest size at which at least a given share of the trials is solved, or infinity.

    Args:
        sizes: in increasing order.
        solved: how many trials are solved at each size, shape (..., sizes).
        trials: how many trials there are, broadcast against it; sizes without trials cannot be thresholds.
        level: the share, above 0 and at most 1.
    """
    size = np.asarray(sizes, float)
    if not len(size) or not (np.diff(size) > 0).all():
        raise AnalysisError(f"sizes must increase, and there must be at least one: sizes={list(sizes)}")
    if not 0 < level <= 1:
        raise AnalysisError(f"level must be above 0 and at most 1: level={level}")
    hits, out_of = np.broadcast_arrays(np.asarray(solved, float), np.asarray(trials, float))
    if not ((hits >= 0) & (hits <= out_of)).all():
        raise AnalysisError(f"solved must lie in 0..trials: solved={shown(solved)}, trials={shown(trials)}")
    enough = (hits >= level * out_of - 1e-9) & (out_of > 0)
    smallest: Float[np.ndarray, ...] = np.where(enough.any(axis=-1), size[enough.argmax(axis=-1)], np.inf)
    return smallest[()]


def threshold_draws(
    sizes: Sequence[float],
    solved: Sequence[int],
    trials: Sequence[int],
    *,
    generator: np.random.Generator,
    level: float = 0.8,
    resamples: Resamples = 2000,
) -> Float[np.ndarray, " resamples"]:
    """Return the threshold of each bootstrap sample, in which every size's trials are resampled independently.

    A size with all or none of its trials solved is the same in every sample, so few trials make the spread too small.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 6.
    """
    hits, out_of = np.asarray(solved, float), np.asarray(trials)
    share = np.divide(hits, out_of, out=np.zeros(len(hits)), where=out_of > 0)
    return np.asarray(
        estimate_threshold(sizes, generator.binomial(out_of, share, (resamples, len(hits))), out_of, level)
    )


def growth(sizes: Sequence[float], values: Float[np.ndarray, "*samples sizes"]) -> list[Growth]:
    """Fit how values grow with sizes, once for each sample.

    Args:
        sizes: at least three, positive and distinct.
        values: finite, one row per sample, or a single one of shape (sizes,).
    """
    size, rows = np.asarray(sizes, float), np.atleast_2d(np.asarray(values, float))
    if len(set(sizes)) != len(size) or len(size) < 3 or not (size > 0).all():
        raise AnalysisError(f"growth must have at least three sizes, positive and distinct: sizes={list(sizes)}")
    if not np.isfinite(rows).all():
        raise AnalysisError("growth must have finite values")
    centred = rows - rows.mean(axis=1, keepdims=True)
    # (T^c - 1) / c, which is log T where c is 0
    bent = np.array([np.log(size) if abs(power) < 1e-9 else (size**power - 1) / power for power in POWERS])
    bent = bent - bent.mean(axis=1, keepdims=True)
    along = centred @ bent.T / np.linalg.norm(bent, axis=1)
    residuals = np.sqrt(np.maximum((centred**2).sum(axis=1, keepdims=True) - along**2, 0) / len(size))
    logarithm, line = int(np.abs(POWERS).argmin()), int(np.abs(POWERS - 1).argmin())
    slopes = centred @ bent[logarithm] / (bent[logarithm] ** 2).sum()
    intercepts = rows.mean(axis=1) - slopes * np.log(size).mean()
    return [
        Growth(*map(float, (a, b, residual[logarithm], residual[line], POWERS[best], residual[best])))
        for a, b, residual, best in zip(intercepts, slopes, residuals, residuals.argmin(axis=1), strict=True)
    ]
