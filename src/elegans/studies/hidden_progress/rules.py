"""Rules of decision that this study's claims share."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import median, median_interval
from elegans.experiments import InsufficientData, Tables, Verdict
from elegans.experiments.claims import UNDECIDED, shared
from elegans.experiments.rules import LEVEL, by_interval, decided, share_limits, table

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
    found = np.asarray(values, float)
    if len(found) < least:
        raise InsufficientData(f"{what} of at least {least} trials")
    found = np.nan_to_num(found, nan=NEVER, posinf=NEVER)
    return by_interval(
        what, median(found), median_interval(found, 1 - 2 * level), above=above, below=below, error_rate=level
    )


@shared(1)
def enough(tables: Tables, name: str, needs: str, least: int, **where: object) -> pd.DataFrame:
    """Return the rows of a table that a rule requires, checking that there are enough of them."""
    rows = table(tables, name, needs, **where)
    if len(rows) < least:
        raise InsufficientData(needs)
    return rows


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
def by_solved(what: str, rows: pd.DataFrame, *, above: float, level: float = LEVEL) -> Verdict:
    """Decide whether more than a share of a cell's trials is solved, from the columns ``solved`` and ``trials``."""
    return by_bounds(
        f"{what} solved",
        int(rows["solved"].sum()),
        int(rows["trials"].sum()),
        holds_above=above,
        fails_below=above,
        level=level,
    )


@shared(1)
def tried(decide: Callable[..., Verdict], *given: Any, **named: Any) -> Verdict:
    """Return a part's verdict: undecided where the tables lack its cells, so that the other parts still count."""
    try:
        return decide(*given, **named)
    except InsufficientData as lacking:
        return Verdict(UNDECIDED, "there are too few trials", needs=str(lacking))


@shared(1)
def ratio_interval(
    first: Any, second: Any, *, share: float = 0.5, level: float = LEVEL, resamples: int = 1000
) -> tuple[float, float, float]:
    """Return the ratio of a quantile of two samples of times with its bootstrap interval; NaN counts as infinite.

    Each end has the error rate ``level``.
    """
    generator = np.random.default_rng(0)
    samples = [np.nan_to_num(np.asarray(own, float), nan=NEVER) for own in (first, second)]
    found = [np.quantile(own, share, method="lower") for own in samples]
    drawn = [
        np.quantile(generator.choice(own, (resamples, len(own))), share, axis=1, method="lower") for own in samples
    ]
    low, high = np.quantile(drawn[0] / drawn[1], [level, 1 - level])
    return float(found[0] / found[1]), float(low), float(high)


@shared(1)
def times_by(rows: pd.DataFrame, size: str) -> dict[float, list[float]]:
    """Return the trials' times to solve for each value of a column, infinite where unsolved."""
    times = rows["solved_at"].astype(float).fillna(np.inf)
    return {float(at): times[rows[size] == at].tolist() for at in sorted(set(rows[size]))}
