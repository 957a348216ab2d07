"""Rules shared by this study's claims: intervals of means over seeds."""

import math
from typing import Any

import numpy as np

from elegans.experiments import InsufficientData, Verdict
from elegans.experiments.claims import shared
from elegans.experiments.rules import LEVEL, by_interval


@shared(1)
def mean_interval(values: Any, needs: str, least: int = 5, level: float = LEVEL) -> tuple[float, tuple[float, float]]:
    """Return a mean over seeds and its t interval; ``InsufficientData`` with fewer seeds than the rule requires."""
    from scipy.stats import t

    numbers = np.asarray(values, float)
    if len(numbers) < least or not np.isfinite(numbers).all():
        raise InsufficientData(needs)
    mean = float(numbers.mean())
    half = float(t.ppf(1 - level / 2, len(numbers) - 1)) * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return mean, (mean - half, mean + half)


@shared(1)
def by_mean(what: str, values: Any, needs: str, *, least: int = 5, level: float = LEVEL, **claimed: float) -> Verdict:
    """Decide where a mean over seeds lies, by its t interval; ``above`` and ``below`` are the thresholds."""
    mean, interval = mean_interval(values, needs, least, level)
    return by_interval(what, mean, interval, error_rate=level, needs="more seeds", **claimed)
