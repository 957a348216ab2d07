"""Rules of decision that this study's claims share."""

import math
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import median, median_interval
from elegans.experiments import InsufficientData, Verdict
from elegans.experiments.claims import shared
from elegans.experiments.rules import LEVEL, at_least, by_interval, decided, share_limits

PLATEAU, CONTINUOUS = 0.5, 0.25
"""Plateau shares above which there is a plateau, and below which there is none (ours). A straight line has 0.11."""
NEVER = 1e300
"""Stands for an infinite time."""


@shared(1)
def by_middle(
    what: str, values: Any, *, above: float = -math.inf, below: float = math.inf, level: float = LEVEL, least: int = 6
) -> Verdict:
    """Decide where a median lies by its order-statistic interval, each end of which has the error rate ``level``.

    NaN counts as infinite: events that did not occur remain in the median.
    """
    numbers = at_least(least, np.asarray(values, float), f"{what} of at least {least} trials")
    numbers = np.nan_to_num(numbers, nan=NEVER, posinf=NEVER)
    interval = median_interval(numbers, 1 - 2 * level)
    return by_interval(what, median(numbers), interval, above=above, below=below, error_rate=level)


@shared(1)
def by_bounds(what: str, hits: int, trials: int, *, holds_above: float, fails_below: float, level: float) -> Verdict:
    """Decide a share by two thresholds and exact limits: ``holds`` above the one, ``fails`` below the other."""
    if not trials:
        raise InsufficientData(f"trials of: {what}")
    low, high = share_limits(hits, trials, level)
    because = f"{what}: {hits} of {trials} ({low:.3g} to {high:.3g}); claimed: above {holds_above:g}"
    numbers = {"successes": hits, "trials": trials, "limits": [low, high], "claimed": holds_above}
    needs = f"a share that is not between {fails_below:g} and {holds_above:g}, or more trials"
    return decided(low > holds_above, high < fails_below, because, numbers, level, needs)


@shared(1)
def ratio_interval(
    first: Any, second: Any, *, share: float = 0.5, level: float = LEVEL, resamples: int = 1000
) -> tuple[float, float, float]:
    """Return the ratio of a quantile of two samples of times with its bootstrap interval; NaN counts as infinite.

    Each end has the error rate ``level``.
    """
    generator = np.random.default_rng(0)
    quantiles, drawn = [], []
    for times in (np.nan_to_num(np.asarray(sample, float), nan=NEVER) for sample in (first, second)):
        quantiles.append(np.quantile(times, share, method="lower"))
        resampled = generator.choice(times, (resamples, len(times)))
        drawn.append(np.quantile(resampled, share, axis=1, method="lower"))
    low, high = np.quantile(drawn[0] / drawn[1], [level, 1 - level])
    return float(quantiles[0] / quantiles[1]), float(low), float(high)


@shared(1)
def times_by(rows: pd.DataFrame, size: str) -> dict[float, list[float]]:
    """Return the trials' times to solve for each value of a column, infinite where unsolved."""
    times = rows["solved_at"].astype(float).fillna(np.inf)
    return {float(at): times[rows[size] == at].tolist() for at in sorted(set(rows[size]))}
