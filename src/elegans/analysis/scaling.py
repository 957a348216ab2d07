"""Scaling exponents: the slope of a quantity against a size, both on logarithmic axes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elegans.analysis.intervals import Resamples, check_bootstrap, median, percentile_interval, quantile
from elegans.display import displayed
from elegans.errors import AnalysisError, shown


@displayed
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
        undefined: the number of further samples without an exponent, because some cell's statistic was not finite and
            positive, such as a median where half of the trials are unsolved. If there are many, the interval is too
            narrow.
    """

    exponent: float
    low: float
    high: float
    factor: float
    confidence: float
    resamples: int
    undefined: int


@displayed
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
        undefined: the number of bootstrap samples without a change: some cell's statistic was not finite and positive.
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
    (exponent, intercept), draws = _bootstrap(values, _line, statistic, generator, resamples)
    low, high = percentile_interval(draws[0], confidence)
    defined = draws.shape[1]
    return Scaling(exponent, low, high, math.exp(intercept), confidence, defined, resamples - defined)


def elbow(
    cells: Mapping[float, Sequence[float]],
    *,
    generator: np.random.Generator,
    statistic: Callable[[Any], float] = median,
    resamples: Resamples = 1000,
    confidence: float = 0.95,
) -> Elbow:
    """Compare the exponents of the lower and the upper half of the sizes, and bootstrap their difference.

    Arguments are the same as for ``scaling_exponent``.

    Source: thesis, chapter 5, figure 5.1 (right): the slopes worsen at larger n; we added the comparison of halves.
    """
    if len(cells) < 3:
        raise AnalysisError(f"an elbow must have at least three sizes: sizes={list(cells)}")
    values = _checked(cells, resamples, confidence)
    (lower, upper), draws = _bootstrap(values, _half_slopes, statistic, generator, resamples)
    low, high = percentile_interval(draws[1] - draws[0], confidence)
    middle = list(values)[len(values) // 2]
    return Elbow(lower, upper, middle, upper - lower, low, high, resamples - draws.shape[1])


def local_exponents(sizes: Sequence[float], values: Sequence[float]) -> np.ndarray:
    """Return the slope of log value against log size between each size and the one before, NaN for the first.

    Args:
        sizes: positive, in increasing order.
        values: one per size; slopes to or from values that are not finite and positive are NaN.
    """
    size, heights = np.asarray(sizes, float), np.asarray(values, float)
    if len(size) != len(heights) or not (np.diff(size, prepend=0) > 0).all():
        raise AnalysisError(
            f"sizes must be positive and increasing, one per value: sizes={shown(sizes)}, values={len(heights)}"
        )
    heights = np.where(np.isfinite(heights) & (heights > 0), heights, np.nan)
    return np.concatenate([[np.nan], np.diff(np.log(heights)) / np.diff(np.log(size))])[: len(size)]


def _checked(cells: Mapping[float, Sequence[float]], resamples: int, confidence: float) -> dict[float, np.ndarray]:
    check_bootstrap(resamples, confidence)
    if len(cells) < 2:
        raise AnalysisError(f"a power law must have at least two sizes: sizes={list(cells)}")
    for size, trials in cells.items():
        if not size > 0:
            raise AnalysisError(f"a size must be positive: size={size}")
        if not len(trials):
            raise AnalysisError(f"a cell must have at least one trial: size={size}, trials=0")
    return {size: np.asarray(cells[size], float) for size in sorted(cells)}


def _bootstrap(
    cells: Mapping[float, np.ndarray],
    fit: Callable[[np.ndarray, np.ndarray], np.ndarray],
    statistic: Callable[[Any], float],
    generator: np.random.Generator,
    resamples: int,
) -> tuple[list[float], np.ndarray]:
    """Return the two numbers of a fit of log statistics against log sizes, and the same for each bootstrap sample.

    Samples whose statistics have no logarithm are left out: (2, samples).
    """
    size, values = np.log(list(cells)), np.array([statistic(trials) for trials in cells.values()], float)
    if not _have_logarithms(values):
        by_size = dict(zip(cells, values.tolist(), strict=True))
        raise AnalysisError(f"the statistic of every cell must be finite and positive: {by_size}")
    samples = [generator.choice(trials, (resamples, len(trials))) for trials in cells.values()]
    draws = np.array([_of_samples(statistic, rows) for rows in samples], float)
    return fit(size, np.log(values)).tolist(), fit(size, np.log(draws[:, _have_logarithms(draws)]))


def _of_samples(statistic: Callable[[Any], float], rows: np.ndarray) -> Any:
    """Return a statistic of each row; medians and means are taken of all at once."""
    if statistic is median:
        return quantile(rows, 0.5)
    return rows.mean(axis=1) if statistic is np.mean else list(map(statistic, rows))


def _have_logarithms(values: np.ndarray) -> Any:
    return (np.isfinite(values) & (values > 0)).all(axis=0)


def _half_slopes(size: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return the slopes of the lower and the upper half, which share the middle: (2, …)."""
    middle = len(size) // 2
    return np.stack([_line(size[: middle + 1], logs[: middle + 1])[0], _line(size[middle:], logs[middle:])[0]])


def _line(size: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return slope and intercept of logs (sizes, …): (2, …)."""
    line: np.ndarray = np.polyfit(size, logs, 1)
    return line
