"""Scaling exponents: the slope of a quantity against a size, both on logarithmic axes."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elegans.analysis.intervals import Resamples, median, quantile
from elegans.errors import AnalysisError, shown


@dataclass(frozen=True)
class Scaling:
    """A power law, value = factor * size^exponent, with the interval of its exponent.

    Args:
        exponent: the least-squares slope of log value against log size.
        low: the lower end of the exponent's percentile bootstrap interval.
        high: the upper end.
        factor: the fitted value at size 1.
        confidence: the confidence of the interval.
        resamples: the number of bootstrap samples that the interval is based on.
        undefined: the number of further ones without an exponent, because some cell's statistic was not finite and
            positive (as is the median if half of the resampled trials are unsolved). If there are many, the interval is
            too narrow.
    """

    exponent: float
    low: float
    high: float
    factor: float
    confidence: float
    resamples: int
    undefined: int


@dataclass(frozen=True)
class Elbow:
    """How much steeper a curve is in the upper half of its sizes than in the lower, on logarithmic axes.

    Args:
        lower: the exponent over the lower half of the sizes, including the middle one.
        upper: the exponent over the upper half, including the middle one.
        middle: the size that both halves share; for an even number of sizes, the first of the upper half.
        change: ``upper - lower``: 0 where one power law holds for all sizes.
        low: the lower end of the change's percentile bootstrap interval.
        high: the upper end.
        undefined: the number of bootstrap samples without a change, because some cell's statistic was not finite and
            positive.
    """

    lower: float
    upper: float
    middle: float
    change: float
    low: float
    high: float
    undefined: int


def scaling_exponent(
    cells: Mapping[float, Sequence[float]],
    *,
    generator: np.random.Generator,
    statistic: Callable[[Any], float] = median,
    resamples: Resamples = 2000,
    confidence: float = 0.95,
) -> Scaling:
    """Fit a power law to a statistic of each cell, and bootstrap its exponent.

    Trials are resampled with replacement within each cell, since the sizes are fixed by the design of the experiment.
    The percentile interval covers variation between seeds, not whether a power law holds.

    Args:
        cells: the values of the trials by size (such as times to solve, NaN where unsolved).
        generator: the generator for resampling; a seeded one gives the same interval every time.
        statistic: the statistic of one cell's values to fit; by default the median, unsolved trials being infinite.
        resamples: the number of bootstrap samples.
        confidence: the confidence of the interval, between 0 and 1.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapters 9 and 13.
    """
    values = _checked(cells, resamples, confidence)
    size = np.log(list(values))
    known = _statistics(values, statistic)
    fitted = _fit(size, known)
    if fitted is None:
        raise _no_logarithm(values, known)
    drawn = [_fit(size, again) for again in _resampled(values, statistic, generator, resamples)]
    slopes = [found[0] for found in drawn if found is not None]
    low, high = _ends(slopes, confidence)
    return Scaling(
        exponent=fitted[0],
        low=low,
        high=high,
        factor=math.exp(fitted[1]),
        confidence=confidence,
        resamples=len(slopes),
        undefined=resamples - len(slopes),
    )


def elbow(
    cells: Mapping[float, Sequence[float]],
    *,
    generator: np.random.Generator,
    statistic: Callable[[Any], float] = median,
    resamples: Resamples = 1000,
    confidence: float = 0.95,
) -> Elbow:
    """Compare the exponents of the lower and the upper half of the sizes, and bootstrap their difference.

    Arguments are those of ``scaling_exponent``.

    Source: thesis, chapter 5, figure 5.1 (right): the slopes worsen at larger n; the comparison of halves is ours.
    """
    if len(cells) < 3:
        raise AnalysisError(f"an elbow must have at least three sizes: sizes={list(cells)}")
    values = _checked(cells, resamples, confidence)
    size = np.log(list(values))
    known = _statistics(values, statistic)
    slopes = _slopes(size, known)
    if slopes is None:
        raise _no_logarithm(values, known)
    drawn = [_slopes(size, again) for again in _resampled(values, statistic, generator, resamples)]
    changes = [found[1] - found[0] for found in drawn if found is not None]
    low, high = _ends(changes, confidence)
    return Elbow(
        lower=slopes[0],
        upper=slopes[1],
        middle=list(values)[len(values) // 2],
        change=slopes[1] - slopes[0],
        low=low,
        high=high,
        undefined=resamples - len(changes),
    )


def local_exponents(sizes: Sequence[float], values: Sequence[float]) -> np.ndarray:
    """Return the slope of log value against log size between each size and the one before, NaN for the first.

    Args:
        sizes: positive, in increasing order.
        values: one per size; slopes to or from values that are not finite and positive are NaN.
    """
    places, heights = np.asarray(sizes, float), np.asarray(values, float)
    if len(places) != len(heights) or not (np.diff(places, prepend=0) > 0).all():
        raise AnalysisError(
            f"sizes must be positive and increasing, one per value: sizes={shown(sizes)}, values={len(heights)}"
        )
    heights = np.where(np.isfinite(heights) & (heights > 0), heights, np.nan)
    return np.concatenate([[np.nan], np.diff(np.log(heights)) / np.diff(np.log(places))])[: len(places)]


def _checked(cells: Mapping[float, Sequence[float]], resamples: int, confidence: float) -> dict[float, np.ndarray]:
    if not 0 < confidence < 1:
        raise AnalysisError(f"confidence must lie between 0 and 1: confidence={confidence}")
    if resamples < 1:
        raise AnalysisError(f"resamples must be at least 1: resamples={resamples}")
    if len(cells) < 2:
        raise AnalysisError(f"a power law must have at least two sizes: sizes={list(cells)}")
    for size, own in cells.items():
        if not size > 0:
            raise AnalysisError(f"a size must be positive: size={size}")
        if not len(own):
            raise AnalysisError(f"a cell must have at least one trial: size={size}, trials=0")
    return {size: np.asarray(cells[size], float) for size in sorted(cells)}


def _statistics(values: Mapping[float, np.ndarray], statistic: Callable[[Any], float]) -> list[float]:
    return [statistic(own) for own in values.values()]


def _resampled(
    values: Mapping[float, np.ndarray], statistic: Callable[[Any], float], generator: np.random.Generator, count: int
) -> Iterator[tuple[float, ...]]:
    """Yield the cells' statistics for each bootstrap sample; medians of all samples are taken at once."""
    drawn = [generator.choice(own, (count, len(own))) for own in values.values()]
    return zip(
        *(quantile(samples, 0.5) if statistic is median else map(statistic, samples) for samples in drawn), strict=True
    )


def _ends(drawn: Sequence[float], confidence: float) -> tuple[float, float]:
    if not drawn:
        return math.nan, math.nan
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _no_logarithm(values: Mapping[float, np.ndarray], known: Sequence[float]) -> AnalysisError:
    found = dict(zip(values, known, strict=True))
    return AnalysisError(f"the statistic of every cell must be finite and positive: {found}")


def _slopes(size: np.ndarray, statistics: Sequence[float]) -> tuple[float, float] | None:
    """Return the slopes of the lower and the upper half, which share the middle, or None if one is undefined."""
    middle = len(size) // 2
    lower, upper = _fit(size[: middle + 1], statistics[: middle + 1]), _fit(size[middle:], statistics[middle:])
    return None if lower is None or upper is None else (lower[0], upper[0])


def _fit(size: np.ndarray, statistics: Sequence[float]) -> tuple[float, float] | None:
    """Return slope and intercept on logarithmic axes, or None if a value has no logarithm."""
    values = np.asarray(statistics, float)
    if not (np.isfinite(values) & (values > 0)).all():
        return None
    slope, intercept = np.polyfit(size, np.log(values), 1)
    return float(slope), float(intercept)
