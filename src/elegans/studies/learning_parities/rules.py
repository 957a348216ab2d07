"""Rules shared by this study's claims: intervals of means over seeds."""

from typing import Any

import numpy as np

from elegans.analysis import mean_interval
from elegans.experiments import InsufficientData, Verdict
from elegans.experiments.claims import shared
from elegans.experiments.rules import LEVEL, by_interval


@shared(1)
def mean_and_interval(
    values: Any, needs: str, least: int = 5, level: float = LEVEL
) -> tuple[float, tuple[float, float]]:
    """Return a mean over seeds and its t interval; ``InsufficientData`` with fewer seeds than the rule requires."""
    numbers = np.asarray(values, float)
    if len(numbers) < least or not np.isfinite(numbers).all():
        raise InsufficientData(needs)
    return float(numbers.mean()), mean_interval(numbers, 1 - level)


@shared(1)
def by_mean(what: str, values: Any, needs: str, *, least: int = 5, level: float = LEVEL, **claimed: float) -> Verdict:
    """Decide where a mean over seeds lies, by its t interval; ``above`` and ``below`` are the thresholds."""
    mean, interval = mean_and_interval(values, needs, least, level)
    return by_interval(what, mean, interval, error_rate=level, needs="more seeds", **claimed)
