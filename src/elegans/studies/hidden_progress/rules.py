"""Rules of decision that this study's claims share."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import median, median_interval
from elegans.experiments import InsufficientData, Verdict
from elegans.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED, shared
from elegans.experiments.rules import LEVEL, at_least, by_interval, combine, decided, share_limits

PLATEAU, CONTINUOUS = 0.5, 0.25
"""Plateau shares above which there is a plateau, and below which there is none (ours). A straight line has 0.11."""
NEVER = 1e300
"""Stands for an infinite time."""
SHORT, OPEN = "falls short", "is open"
"""Words for a learning rate at which a claim does not hold, as its limits show, and one at which it is not decided."""
TAIL = 20
"""The smallest number of resamples beyond either end of a bootstrap interval."""


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
def by_middle_bounds(what: str, values: Any, holds_above: float, fails_below: float, *, level: float) -> Verdict:
    """Decide a median by two thresholds: ``holds`` above the one, ``fails`` below the other."""
    above = by_middle(what, values, above=holds_above, level=level)
    if above.verdict != FAILS or above.numbers["interval"][1] < fails_below:
        return above
    return above.but(UNDECIDED, needs=f"a median that is not between {fails_below:g} and {holds_above:g}")


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
    bootstrap sample are the values at the places of those of uniform numbers, which are drawn directly.
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


@shared(1)
def by_rates(cells: Mapping[tuple[str, float], Mapping[str, Verdict]]) -> Verdict:
    """Combine verdicts at several learning rates, for which the source is silent, and say where the claim turns.

    At a rate the claim *holds* if all parts hold, *fails* if one fails, and *falls short* if the limits of one lie
    below the threshold that it claims; otherwise the rate *is open*. Over all rates it holds or fails if it does at
    each of them, and holds in part if it holds at some and fails or falls short at others; rates between them may be
    open.

    Args:
        cells: by setting and learning rate, the verdicts of the parts by name, "" for a single one.
    """
    rates: dict[str, dict[str, list[float]]] = {}
    for (setting, rate), parts in cells.items():
        rates.setdefault(setting, {}).setdefault(_at_rate(parts), []).append(rate)
    flat = {
        f"{setting}, rate {rate:g}" + (f": {name}" if name else ""): part
        for (setting, rate), parts in cells.items()
        for name, part in parts.items()
    }
    lines = [
        f"{setting}: "
        + ", ".join(f"{word} at {_listed(found[word])}" for word in (HOLDS, OPEN, SHORT, FAILS) if word in found)
        for setting, found in rates.items()
    ]
    words = {word for found in rates.values() for word in found}
    verdict = IN_PART if HOLDS in words and words & {SHORT, FAILS} else UNDECIDED
    if words in ({HOLDS}, {FAILS}):
        (verdict,) = words
    whole = combine(flat)
    needs = "; ".join(lines) if verdict in (IN_PART, UNDECIDED) else ""
    return Verdict(verdict, whole.because, whole.numbers, whole.error_rate, needs)


def _at_rate(parts: Mapping[str, Verdict]) -> str:
    """Return whether a claim holds, fails, falls short or is open at one learning rate."""
    verdicts = {part.verdict for part in parts.values()}
    if verdicts == {HOLDS} or FAILS in verdicts:
        return HOLDS if verdicts == {HOLDS} else FAILS
    return SHORT if any(map(_short, parts.values())) else OPEN


def _short(part: Verdict) -> bool:
    limits = part.numbers.get("limits", part.numbers.get("interval"))
    return limits is not None and limits[1] < np.min(part.numbers["claimed"])


def _listed(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in sorted(rates))
