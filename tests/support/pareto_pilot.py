"""A small independent measurement of success-frontier, and how ours compares with it.

The pilot was made with another program (NumPy, float32): n=50, k=3, hinge loss, learning rate 0.1, weight decay
0.01, batches of 32, 2000 held-out examples, a check every 200 steps, T = 20000 and 5 trials per cell. Run this file
to train ours (20 trials per cell, 10000 held-out examples) and print the comparison as a table:
``python tests/support/pareto_pilot.py``.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import fisher_exact

import elegans as el
from elegans.analysis import median, median_interval, wilson
from elegans.studies.pareto_frontiers.settings import trial

SIZES = (300, 600, 1000, 2000, 10_000, None)
WIDTHS = (10, 100, 1000)
TRIALS = 5
PILOT: dict[tuple[str, int], list[tuple[int, int | None]]] = {
    ("dense", 10): [(0, None), (0, None), (0, None), (3, 8600), (5, 3800), (4, 7200)],
    ("dense", 100): [(0, None), (0, None), (0, None), (5, 3000), (5, 2000), (5, 2000)],
    ("dense", 1000): [(0, None), (0, None), (5, 7200), (5, 2800), (5, 1600), (5, 2000)],
    ("sparse:2", 10): [(0, None), (0, None), (0, None), (4, 7800), (5, 4800), (5, 4600)],
    ("sparse:2", 100): [(0, None), (0, None), (2, None), (5, 2400), (5, 1800), (5, 3200)],
    ("sparse:2", 1000): [(0, None), (3, 19400), (5, 3200), (5, 1400), (5, 800), (5, 800)],
}
"""By (initialisation, width), for each sample size: how many of 5 trials were solved, and the median time to solve."""


def sweep(trials: int = 20, widths: Sequence[int] = WIDTHS) -> el.Sweep:
    """The cells of the pilot, or some of its widths, with more trials."""
    regimes = ["online" if size is None else f"sample:{size}" for size in SIZES]
    axes = {"model.init": ["dense", "sparse:2"], "model.width": list(widths), "regime": regimes}
    return el.grid(trial(n=50, k=3, steps=20_000), axes, seeds=trials)


def compare(table: pd.DataFrame, draws: int = 20_000, widths: Sequence[int] = WIDTHS) -> pd.DataFrame:
    """Return one row per cell of some widths: counts, medians, whether the pilot's lie in our 95% intervals, p-values.

    ``p_rate`` is Fisher's exact test of equal success rates, two-sided. ``p_time`` is twice the smaller tail of the
    pilot's median among medians of 5 trials drawn from ours with replacement (ties count in both tails).
    """
    rng = np.random.default_rng(0)
    rows = []
    for (init, width, regime, solved, time), times in zip(_pilots(widths), _times(table, widths), strict=True):
        cell = _cell(times, solved, time or math.inf, rng, draws)
        rows.append({"init": init, "width": width, "regime": regime, **cell})
    return pd.DataFrame(rows)


def outside_by_chance(table: pd.DataFrame, repetitions: int = 1000) -> tuple[float, np.ndarray]:
    """Return the mean and a 95% range of the cells that fall outside although both programs have one distribution.

    The distribution of a cell is taken to be that of our trials: 20 and 5 are resampled from them with replacement.
    """
    rng, cells = np.random.default_rng(0), _times(table)
    counts = [sum(_falls_outside(times, rng) for times in cells) for _ in range(repetitions)]
    return float(np.mean(counts)), np.quantile(counts, [0.025, 0.975])


def _falls_outside(times: np.ndarray, rng: np.random.Generator) -> bool:
    ours, pilot = rng.choice(times, len(times)), rng.choice(times, TRIALS)
    low, high = wilson(np.isfinite(ours).sum(), len(ours))
    first, last = median_interval(ours)
    return not (low <= np.isfinite(pilot).mean() <= high and first <= np.median(pilot) <= last)


def _pilots(widths: Sequence[int]) -> Iterator[tuple[str, int, str, int, int | None]]:
    for init, width in (key for key in PILOT if key[1] in widths):
        cells = PILOT[init, width]
        for size, (solved, time) in zip(SIZES, cells, strict=True):
            yield init, width, "online" if size is None else f"sample:{size}", solved, time


def _times(table: pd.DataFrame, widths: Sequence[int] = WIDTHS) -> list[np.ndarray]:
    """Return our times of each of the pilot's cells, infinite where unsolved."""
    found = []
    for init, width, regime, *_ in _pilots(widths):
        mine = table[(table["model.init"] == init) & (table["model.width"] == width) & (table["regime"] == regime)]
        found.append(np.where(mine["solved_at"].isna(), np.inf, mine["solved_at"].to_numpy(float)))
    return found


def _cell(times: np.ndarray, solved: int, time: float, rng: np.random.Generator, draws: int) -> dict[str, Any]:
    ours, count = int(np.isfinite(times).sum()), len(times)
    low, high = wilson(ours, count)
    first, last = median_interval(times)
    medians = np.sort(rng.choice(times, (draws, TRIALS)), axis=1)[:, TRIALS // 2]
    return {
        "pilot": solved,
        "solved": ours,
        "trials": count,
        "low": low,
        "high": high,
        "rate_inside": low <= solved / TRIALS <= high,
        "p_rate": fisher_exact([[ours, count - ours], [solved, TRIALS - solved]]).pvalue,
        "pilot_median": time,
        "median": median(times),
        "first": first,
        "last": last,
        "time_inside": first <= time <= last,
        "p_time": min(1.0, 2 * min((medians <= time).mean(), (medians >= time).mean())),
    }


def markdown(found: pd.DataFrame) -> str:
    """Return the comparison as a table for the experiment's page."""
    names = ["initialisation", "width", "sample", "pilot", "ours", "interval", "inside", "p"]
    names += ["pilot median", *names[4:]]
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    row: Any
    for row in found.itertuples():
        cells = [
            row.init,
            row.width,
            row.regime.removeprefix("sample:"),
            f"{row.pilot}/5",
            f"{row.solved}/{row.trials}",
            f"{100 * row.low:.0f} to {100 * row.high:.0f}%",
            _tick(row.rate_inside),
            f"{row.p_rate:.2g}",
            *map(_steps, (row.pilot_median, math.inf if math.isnan(row.median) else row.median)),
            f"{_steps(row.first)} to {_steps(row.last)}" if math.isfinite(row.first) else "not solved",
            _tick(row.time_inside),
            f"{row.p_time:.2g}",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _tick(inside: bool) -> str:
    return "yes" if inside else "**no**"


def _steps(time: float) -> str:
    return "∞" if math.isinf(time) else f"{time:.0f}"


if __name__ == "__main__":
    store = sys.argv[1] if len(sys.argv) > 1 else None
    table = el.run(sweep(), store)
    found = compare(table)
    print(markdown(found))
    rate, time = ~found["rate_inside"], ~found["time_inside"]
    print(f"\n{rate.sum()} rates and {time.sum()} medians lie outside, in {(rate | time).sum()} cells")
    print(f"the least p: {found[['p_rate', 'p_time']].min().min():.2g}")
    mean, (low, high) = outside_by_chance(table)
    print(f"cells outside if both programs have one distribution: {mean:.1f}, 95% of the time {low:.0f} to {high:.0f}")
