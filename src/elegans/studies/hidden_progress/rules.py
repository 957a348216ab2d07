"""Rules of decision that this study's claims share."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import median, median_interval
from elegans.experiments import InsufficientData, Verdict
from elegans.experiments.claims import shared
from elegans.experiments.rules import LEVEL, at_least, by_interval, decided, share_limits

PLATEAU, CONTINUOUS = 0.5, 0.25
"""Plateau shares above which there is a plateau, and below which there is none (ours). A straight line has 0.11."""
MIDDLE = (0.4, 0.45, 0.5, 0.55, 0.6)
"""The shares of the time to an error of 45% at which errors are averaged."""
FLAT = 0.4875
"""The error there above which the initial phase is a plateau: halfway between a plateau and a straight line (ours)."""
NEVER = 1e300
"""Stands for an infinite time."""
TAIL = 20
"""The smallest number of resamples beyond either end of a bootstrap interval."""


@shared(1)
def by_middle(
    what: str, values: Any, *, above: float = -math.inf, below: float = math.inf, level: float = LEVEL, least: int = 6
) -> Verdict:
    """Decide where a median lies by its interval from order statistics; each end has the error rate ``level``.

    NaN counts as infinite: events that did not occur remain in the median.
    """
    numbers = at_least(least, np.asarray(values, float), f"{what} of at least {least} trials")
    numbers = np.nan_to_num(numbers, nan=NEVER, posinf=NEVER)
    interval = median_interval(numbers, 1 - 2 * level)
    return by_interval(what, median(numbers), interval, above=above, below=below, error_rate=level)


@shared(1)
def middle_errors(rows: pd.DataFrame) -> list[float]:
    """Return each trial's mean error over the middle fifth of its initial phase, NaN where the phase does not end.

    Rows have a trial's ``seed``, ``step`` and ``error``, and in ``leaves`` the step at which its initial phase ends.
    """
    return [
        float(np.interp(np.array(MIDDLE) * own["leaves"].iloc[0], own["step"], own["error"]).mean())
        if own["leaves"].notna().all()
        else np.nan
        for _, own in rows.groupby("seed")
    ]


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
def resampled_quantiles(
    values: Any, shares: Sequence[float], resamples: int, generator: np.random.Generator
) -> np.ndarray:
    """Return bootstrap draws of some quantiles, shape (shares, resamples); NaN counts as infinite.

    Quantiles are the lower ones of two order statistics, in increasing order of their shares. The order statistics of a
    bootstrap sample are the values at the places given by order statistics of uniform numbers, which are drawn
    directly.
    """
    ordered = np.sort(np.nan_to_num(np.asarray(values, float), nan=NEVER, posinf=NEVER))
    count, rank, place = len(ordered), 0, np.zeros(resamples)
    drawn = []
    for share in shares:
        steps = int(share * (count - 1)) + 1 - rank
        if steps:
            place = place + (1 - place) * generator.beta(steps, count - rank - steps + 1, resamples)
            rank += steps
        drawn.append(ordered[np.minimum((count * place).astype(int), count - 1)])
    return np.array(drawn)


@shared(2)
def ratio_interval(first: Any, second: Any, *, share: float = 0.5, level: float = LEVEL) -> tuple[float, float, float]:
    """Return the ratio of a quantile of two samples of times with its bootstrap interval; NaN counts as infinite.

    Each end has the error rate ``level``.
    """
    generator, resamples = np.random.default_rng(0), max(1000, math.ceil(TAIL / level))
    known = [np.nan_to_num(np.asarray(sample, float), nan=NEVER, posinf=NEVER) for sample in (first, second)]
    above, below = (float(np.quantile(times, share, method="lower")) for times in known)
    drawn, other = (resampled_quantiles(times, [share], resamples, generator)[0] for times in known)
    low, high = np.quantile(drawn / other, [level, 1 - level])
    return above / below, float(low), float(high)


@shared(1)
def enough(share: float, level: float) -> int:
    """Return how many trials, all of them successes, show at an error rate that more than some share succeed."""
    return math.ceil(math.log(level) / math.log(share))


@shared(1)
def times_by(rows: pd.DataFrame, size: str) -> dict[float, list[float]]:
    """Return the trials' times to solve for each value of a column, infinite where unsolved."""
    times = rows["solved_at"].astype(float).fillna(np.inf)
    return {float(at): times[rows[size] == at].tolist() for at in sorted(set(rows[size]))}
