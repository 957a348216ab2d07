"""Exponents in the width, with intervals that resample seeds for all widths at once."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from elegans.analysis.intervals import percentile_interval
from elegans.experiments import rules

SEED, RESAMPLES = 0, 2000
LEVEL = rules.LEVEL / 2
"""The error rate of a claim of this study: half of the usual one, to keep the sum over all studies below three."""
Statistic = Callable[[np.ndarray], np.ndarray]


class Slope(NamedTuple):
    """A slope on log2 n with the ends of its bootstrap interval."""

    estimate: float
    low: float
    high: float

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends."""
        return self.low, self.high


def root_mean_square(values: np.ndarray) -> np.ndarray:
    """Return log2 of the root mean square over the first axis."""
    return np.asarray(np.log2(np.square(values).mean(axis=0)) / 2)


def mean(values: np.ndarray) -> np.ndarray:
    """Return the mean over the first axis."""
    return np.asarray(values.mean(axis=0))


def log_mean(values: np.ndarray) -> np.ndarray:
    """Return log2 of the mean over the first axis."""
    return np.asarray(np.log2(values.mean(axis=0)))


def log_deviation(values: np.ndarray) -> np.ndarray:
    """Return log2 of the standard deviation over the first axis."""
    return np.asarray(np.log2(values.std(axis=0, ddof=1)))


def slope_on_width(rows: pd.DataFrame, column: str, statistic: Statistic, level: float = 0.05) -> Slope:
    """Return the least-squares slope, on log2 n, of a statistic over seeds.

    Args:
        rows: one row per ``width`` and ``seed``, with the same seeds at all widths.
        column: the values.
        statistic: from values (seeds, widths) to one number per width.
        level: one minus the confidence of the interval.
    """
    values = rows.pivot(index="seed", columns="width", values=column)
    heights, logs = values.to_numpy(float), np.log2(values.columns.to_numpy(float))
    generator = np.random.default_rng(SEED)
    chosen = generator.integers(len(heights), size=(RESAMPLES, len(heights)))
    draws = np.stack([statistic(heights[each]) for each in chosen])
    estimate = np.polyfit(logs, statistic(heights), 1)[0]
    return Slope(float(estimate), *percentile_interval(np.polyfit(logs, draws.T, 1)[0], 1 - level))
