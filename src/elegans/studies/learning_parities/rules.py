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

    found = np.asarray(values, float)
    if len(found) < least or not np.isfinite(found).all():
        raise InsufficientData(needs)
    mean = float(found.mean())
    half = float(t.ppf(1 - level / 2, len(found) - 1)) * float(found.std(ddof=1)) / math.sqrt(len(found))
    return mean, (mean - half, mean + half)


@shared(1)
def by_mean(what: str, values: Any, needs: str, *, least: int = 5, level: float = LEVEL, **claimed: float) -> Verdict:
    """Decide where a mean over seeds lies, by its t interval; ``above`` and ``below`` are the thresholds."""
    mean, interval = mean_interval(values, needs, least, level)
    return by_interval(what, mean, interval, error_rate=level, needs="more seeds", **claimed)
