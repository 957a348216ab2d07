"""Numbers for an experiment's findings: in JSON types, rounded, with their intervals."""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from elegans.analysis.intervals import median, median_interval, wilson

SPREAD_CONFIDENCE = 0.9
"""Confidence of medians: the interval of five trials is their range, which contains the median 15 times in 16."""


def finite_or_none(number: float, digits: int | None = None) -> float | None:
    """Return a number, rounded to a number of decimals if given; None if it is not finite."""
    if not np.isfinite(number):
        return None
    return float(number) if digits is None else round(float(number), digits)


def round_significant(number: float, digits: int = 4) -> float | None:
    """Return a number rounded to some significant digits; None if it is not finite."""
    if not np.isfinite(number):
        return None
    rounded = float(f"{number:.{digits}g}")
    return rounded if np.isfinite(rounded) else float(number)  # the largest floats would be rounded up to infinity


def describe(values: Float[Any, " trials"], digits: int = 4) -> dict[str, Any]:
    """Return how a quantity is distributed over trials; NaN or infinity means that it was not reached.

    Returns:
        ``median`` (values that were not reached being infinite) with its order-statistic ``interval`` of at least
        90%, None if an end is infinite or there are fewer than five trials; the ``range`` of those reached; and
        how many were ``reached``. Numbers have ``digits`` significant digits.
    """
    numbers = np.asarray(values, float)
    low, high = median_interval(numbers, SPREAD_CONFIDENCE)
    reached = numbers[np.isfinite(numbers)]
    interval = [round_significant(end, digits) for end in (low, high)]
    return {
        "median": round_significant(median(numbers), digits),
        "interval": interval if np.isfinite([low, high]).all() else None,
        "range": [round_significant(end, digits) for end in (reached.min(), reached.max())] if len(reached) else None,
        "reached": f"{len(reached)} of {len(numbers)}",
    }


def proportion(holds: pd.Series) -> dict[str, Any]:
    """Return for how many trials something holds, with the Wilson 95% interval of their share.

    Args:
        holds: one value per trial, indexed by seed.

    Returns:
        ``count``, ``of``, ``interval`` (None without trials), and the seeds that are ``exceptions``.
    """
    holds = holds.astype(bool)
    count, trials = int(holds.sum()), len(holds)
    low, high = wilson(count, trials)
    return {
        "count": count,
        "of": trials,
        "interval": [round(low, 4), round(high, 4)] if trials else None,
        "exceptions": [int(seed) for seed in holds.index[~holds]],
    }
