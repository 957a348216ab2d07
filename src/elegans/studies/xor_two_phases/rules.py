"""Rules that claims on the XOR share: groups of enough runs, means over runs, shares of runs, and growth with log d."""

import math
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import mean_interval
from elegans.experiments import InsufficientData, Verdict
from elegans.experiments.claims import UNDECIDED, shared
from elegans.experiments.rules import LEVEL, by_interval, by_share, share_limits


@shared(1)
def groups(rows: pd.DataFrame, by: list[str], count: int, least: int, needs: str) -> dict[Any, pd.DataFrame]:
    """Return rows by the values of columns, if there are ``count`` groups of at least ``least`` rows each."""
    by_key = dict(iter(rows.groupby(by)))
    if len(by_key) < count or min(map(len, by_key.values())) < least:
        raise InsufficientData(needs)
    return by_key


@shared(2)
def by_mean(what: str, values: Any, above: float = -math.inf, below: float = math.inf, level: float = LEVEL) -> Verdict:
    """Decide where a mean over runs lies, by the t interval that misses it with probability ``level``."""
    if not np.isfinite(np.asarray(values, float)).all():
        raise InsufficientData(f"{what} of every run")
    mean, ends = float(np.mean(values)), mean_interval(values, 1 - level)
    room = min(abs(mean - above), abs(mean - below))
    more = math.ceil(len(values) * ((ends[1] - mean) / room) ** 2 * 1.1) if room else 0
    needs = f"about {more} runs of this spread" if more else "more runs: the mean is the threshold"
    return by_interval(what, mean, ends, above=above, below=below, error_rate=level, needs=needs)


@shared(1)
def wider(estimate: float, ends: tuple[float, float], level: float) -> tuple[float, float]:
    """Return a 95% interval stretched from its estimate to the coverage 1 - level, as a normal law would have it.

    For bootstrap intervals whose trials are no longer known.
    """
    from scipy.stats import norm

    factor = float(norm.isf(level / 2) / norm.isf(0.025))
    low, high = (estimate + factor * (end - estimate) for end in ends)
    return low, high


@shared(1)
def by_most(what: str, successes: int, trials: int, *, above: float, level: float) -> Verdict:
    """Decide whether a share exceeds a threshold as ``by_share`` does; undecided, name how many runs would decide.

    These are the fewest that decide with as many misses as now, and with one more.
    """
    verdict = by_share(what, successes, trials, above=above, level=level)
    if verdict.verdict != UNDECIDED:
        return verdict
    misses = trials - successes
    fewest, room = (_fewest(count, above, level) for count in (misses, misses + 1))
    return verdict.but(UNDECIDED, needs=f"{fewest} runs with {misses} misses, or {room} with {misses + 1}")


def _fewest(misses: int, above: float, level: float) -> int:
    """Return the least number of trials that show, with the given misses, that a share exceeds a threshold."""
    trials = misses + 1
    while share_limits(trials - misses, trials, level)[0] <= above:
        trials += 1
    return trials


@shared(2)
def slope_on_log(n: "pd.Series[int]", values: Any, level: float = LEVEL) -> tuple[float, tuple[float, float]]:
    """Return the slope of values on log d with the t interval that misses it with probability ``level``."""
    from scipy.stats import linregress, t

    if not np.isfinite(np.asarray(values, float)).all():
        raise InsufficientData("runs that reach all marks")
    line = linregress(np.log(n), values)
    half = float(t.ppf(1 - level / 2, len(n) - 2) * line.stderr)
    return float(line.slope), (float(line.slope) - half, float(line.slope) + half)
