"""The claims on width: no parallel search, shorter upper tails, and weak learning of narrow networks (figure 5.4)."""

from itertools import pairwise

import numpy as np

from elegans.analysis import rank_correlation
from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.rules import by_interval, by_share, combine, decided, table
from elegans.studies.hidden_progress.rules import NEVER, ratio_interval

TENFOLD, SEARCH, TOTAL, SHRINKS, WEAKLY = 2.0, 5.0, 10.0, 2.0, 0.5
"""Thresholds, ours."""
SPREAD_OF = (6, 10, 30, 100, 1000)
RESAMPLES = 1000

SETTING = "ReLU, (30, 3), (40, 3), (50, 3), B = 128, rate 0.1, widths 1 to 3 10^6, 1000 runs; silent: times"


@claim(
    id="progress/width-no-parallel-speedup",
    statement="Widening a network does not speed it up in proportion: times flatten at large width, unlike those "
    "of parallel random searches.",
    source="figures 5.4 (left) and B.10; section 5.5; appendix B.3.4",
    setting=SETTING,
    rule="Each tenfold width from 100 on is less than 2 times as fast by the median (fails: more than 5 times), "
    "and the widest less than a tenth of the ratio of widths times as fast as width 10 (ours); bootstrap intervals "
    "at 0.5% each. n = 30 must have width 10^5.",
)
def no_parallel_speedup(tables: Tables) -> Verdict:
    """Decide whether tenfold widths are faster by less than a factor of 2, and all of them by far less than tenfold."""
    found = {n: _times(tables, n, 10) for n in (30, 40, 50)}
    if 100_000 not in found[30]:
        raise InsufficientData("ten trials of width 10^5 at (30, 3)")
    parts = {}
    for n, times in found.items():
        wide = [width for width in sorted(times) if width >= 100 and np.log10(width) % 1 == 0]
        for narrow, wider in pairwise(wide):
            ratio, low, high = ratio_interval(times[narrow], times[wider], level=0.005)
            because = f"width {wider:,} is {ratio:.3g} ({low:.3g} to {high:.3g}) times as fast as {narrow:,}"
            numbers = {"speed_up": ratio, "interval": [low, high]}
            name = f"n = {n}, {narrow:,} to {wider:,}"
            parts[name] = decided(high < TENFOLD, low > SEARCH, because, numbers, 0.005, "more trials")
        ratio, low, high = ratio_interval(times[10], times[wide[-1]], level=0.005)
        what = f"the speed-up from width 10 to {wide[-1]:,}"
        bound = wide[-1] / 10 / TOTAL
        parts[f"n = {n}, in all"] = by_interval(what, ratio, (low, high), below=bound, error_rate=0.005)
    return combine(parts)


@claim(
    id="progress/width-reduces-spread",
    statement="What width buys is a shorter upper tail of the times.",
    source="appendix B.3.4; figure B.10, caption",
    setting=SETTING,
    rule="At (30, 3) and (40, 3), 200 trials per width: the rank correlation of q90 / median with the width is "
    "below 0 over widths 6 to 1000, and q90 / median - 1 shrinks by over 2 between them (ours); bootstrap "
    "intervals at 1.25% each.",
)
def shorter_tails(tables: Tables) -> Verdict:
    """Decide whether the 90% quantile over the median falls with the width."""
    parts = {}
    generator = np.random.default_rng(0)
    for n in (30, 40):
        times = _times(tables, n, 200)
        if not set(SPREAD_OF) <= times.keys():
            raise InsufficientData(f"200 trials of widths {', '.join(map(str, SPREAD_OF))} at n = 30 and 40")
        drawn = [generator.choice(times[width], (RESAMPLES, len(times[width]))) for width in SPREAD_OF]
        spreads = np.array([_spread(own) for own in drawn]).T
        trend = rank_correlation(spreads, np.array(SPREAD_OF, float))
        ratio = (spreads[:, 0] - 1) / (spreads[:, -1] - 1)
        known = [float(_spread(times[width][None])[0]) for width in SPREAD_OF]
        ends = [np.quantile(values, [0.0125, 0.9875], method="nearest") for values in (trend, ratio)]
        middle = float(rank_correlation(np.array(known), np.array(SPREAD_OF, float)))
        what = f"the rank correlation of q90 / median with the width ({', '.join(f'{one:.3g}' for one in known)})"
        parts[f"n = {n}, trend"] = by_interval(what, middle, ends[0], below=0, error_rate=0.0125)
        what = "q90 / median - 1 at width 6 over that at 1000"
        estimate = (known[0] - 1) / (known[-1] - 1)
        parts[f"n = {n}, ratio"] = by_interval(what, estimate, ends[1], above=SHRINKS, error_rate=0.0125)
    return combine(parts)


@claim(
    id="progress/underparameterised-learn-weakly",
    statement="Networks too narrow to represent the parity still get a useful gradient: they reach 55% accuracy.",
    source="figures 5.4 and B.10; appendix B.4.2",
    setting=f"{SETTING}; ten consecutive batches at 55% or more; silent: which share does",
    rule="Over half (ours) of 59 trials or more of widths 1 and 2 at k = 3 have 55% accuracy on 8192 held-out "
    "examples at ten checks in a row; exact limits at 1.25%. Minibatches, as published, are easier by chance.",
)
def weak_learning(tables: Tables) -> Verdict:
    """Decide whether networks of one and two neurons reach an accuracy of 55%."""
    parts = {}
    for n in (30, 40):
        times = _times(tables, n, 59)
        for width in (1, 2):
            if width not in times:
                raise InsufficientData("59 trials of widths 1 and 2 at n = 30 and 40")
            reached = int((times[width] < NEVER).sum())
            what = "trials with 55% at ten checks in a row"
            parts[f"n = {n}, width {width}"] = by_share(what, reached, len(times[width]), above=WEAKLY, level=0.0125)
    return combine(parts)


def _times(tables: Tables, n: int, least: int) -> dict[int, np.ndarray]:
    """Return the times of each width that has enough trials, a large number where unsolved."""
    needs = f"{least} trials per width at ({n}, 3)"
    rows = table(tables, "times", needs, task__n=n, task__k=3)
    times = rows["solved_at"].astype(float).fillna(NEVER).groupby(rows["model.width"])
    return {int(width): own.to_numpy() for width, own in times if len(own) >= least}


def _spread(times: np.ndarray) -> np.ndarray:
    high, middle = np.quantile(times, [0.9, 0.5], axis=-1, method="lower")
    return np.asarray(high / middle)


CLAIMS = (no_parallel_speedup, shorter_tails, weak_learning)
