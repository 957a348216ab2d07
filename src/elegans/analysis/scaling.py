"""Scaling exponents: the slope of a quantity against a size, both on logarithmic axes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elegans.analysis.intervals import median


@dataclass(frozen=True)
class Scaling:
    """A power law, value = factor * size^exponent, with the interval of its exponent.

    Args:
        exponent: the least-squares slope of log value against log size.
        low: the lower end of the exponent's percentile bootstrap interval.
        high: the upper end.
        factor: the fitted value at size 1.
        confidence: of the interval.
        resamples: how many bootstrap samples the interval rests on.
        undefined: how many further ones had no exponent, since some cell's statistic was not finite and positive
            (as the median where half of the resampled trials are unsolved). Many of them make the interval too narrow.
    """

    exponent: float
    low: float
    high: float
    factor: float
    confidence: float
    resamples: int
    undefined: int


def scaling_exponent(
    cells: Mapping[float, Sequence[float]],
    *,
    generator: np.random.Generator,
    statistic: Callable[[Any], float] = median,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> Scaling:
    """Fit a power law to a statistic of each cell, and bootstrap its exponent.

    Trials are drawn anew, with replacement, within each cell: the sizes are fixed by the design of the experiment.
    The percentile interval covers what varies between seeds, not whether a power law holds.

    Args:
        cells: by size, the values of its trials (as times to solve, NaN where unsolved).
        generator: where the resampling draws from; give a seeded one, and the interval is the same every time.
        statistic: what is fitted, of the values of one cell; by default the median, unsolved trials being infinite.
        resamples: how many bootstrap samples.
        confidence: of the interval, between 0 and 1.

    Raises:
        ValueError: fewer than two sizes, a size that is not positive, or a cell whose statistic is not finite and
            positive.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapters 9 and 13.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1: confidence={confidence}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1: resamples={resamples}")
    values = _checked(cells)
    size = np.log(list(values))
    fitted = _fit(size, [statistic(own) for own in values.values()])
    if fitted is None:
        known = {each: statistic(own) for each, own in values.items()}
        raise ValueError(f"the statistic of every cell must be finite and positive: {known}")
    drawn = [
        _fit(size, [statistic(generator.choice(own, len(own))) for own in values.values()]) for _ in range(resamples)
    ]
    slopes = [found[0] for found in drawn if found is not None]
    ends = (math.nan, math.nan) if not slopes else np.quantile(slopes, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Scaling(
        exponent=fitted[0],
        low=float(ends[0]),
        high=float(ends[1]),
        factor=math.exp(fitted[1]),
        confidence=confidence,
        resamples=len(slopes),
        undefined=resamples - len(slopes),
    )


def _checked(cells: Mapping[float, Sequence[float]]) -> dict[float, np.ndarray]:
    if len(cells) < 2:
        raise ValueError(f"a power law must have at least two sizes: sizes={list(cells)}")
    for size, own in cells.items():
        if not size > 0:
            raise ValueError(f"a size must be positive: size={size}")
        if not len(own):
            raise ValueError(f"a cell must have at least one trial: size={size}, trials=0")
    return {size: np.asarray(cells[size], float) for size in sorted(cells)}


def _fit(size: np.ndarray, statistics: Sequence[float]) -> tuple[float, float] | None:
    """Return slope and intercept on logarithmic axes, or None where a value has no logarithm."""
    values = np.asarray(statistics, float)
    if not (np.isfinite(values) & (values > 0)).all():
        return None
    slope, intercept = np.polyfit(size, np.log(values), 1)
    return float(slope), float(intercept)
