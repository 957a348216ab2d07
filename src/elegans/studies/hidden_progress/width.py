"""What width buys: fewer unlucky networks, but not the speed of a parallel search (figures 5.4, left, and B.10).

ReLU networks from one neuron to thousands. If training were a random search, r neurons would search r times as fast:
the reference curve. Networks of one or two neurons cannot represent a parity of three signs; for them weak learning
counts: an accuracy of 55% at ten checks in a row, from which the support could be read off.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from elegans.analysis import finite_or_none, quantile
from elegans.boolean.learning import random_search_time
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.plots.style import COLOURS, GREY, SMALL, logarithmic, panels, title_panels
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.settings import configuration, repeated
from elegans.studies.hidden_progress.tables import stated, timed
from elegans.studies.hidden_progress.width_claims import CLAIMS
from elegans.sweeps import Sweep

NARROW = (*range(1, 11), 30, 100, 300)
WEAK = StoppingRule(error=0.45, examples=8192, every=10, consecutive=10)
"""The criterion for networks with fewer neurons than the parity has signs."""
EXACT = 3
"""The smallest width at which perfect accuracy is possible."""
KEYS = ("task.n", "task.k", "model.width")


def widths(sizes: Sequence[int], chosen: Sequence[int], trials: int, steps: int = 100_000) -> Sweep:
    """Return ReLU networks of each width on the (n, 3)-parity, narrow ones first."""
    cells = []
    for n in sizes:
        base = configuration("ii", n, 3, batch_size=128, learning_rate=0.1, steps=steps)
        for width in chosen:
            cell = base.replace("model.width", width)
            cells.append(cell.replace("training.stopping", WEAK) if width < EXACT else cell)
    return repeated(cells, trials)


def paper(trials: int) -> Sweep:
    """Return widths up to three million at n = 30, 40 and 50."""
    wide = tuple(factor * 10**power for power in range(3, 7) for factor in (1, 3))
    return widths((40, 30, 50), (*NARROW, *wide), trials)


def part(trials: int) -> Sweep:
    """Return narrow widths and tenfold ones up to 10^5, the widest of which, which vary least, have fewer trials."""
    return (
        widths((30, 40), (1, 2), max(1, trials * 3 // 10))
        + widths((30, 40, 50), (6, 10, 30, 100, 1000), trials)
        + widths((30, 40, 50), (10_000,), max(1, trials // 4))
        + widths((30,), (100_000,), max(1, trials // 20))
    )


def analyse(results: Results) -> Tables:
    """Return ``table``, one row per width, and ``times``, one row per trial."""
    times = results.trials[[*KEYS, "seed", "solved_at"]]
    return {"table": summarise(results.trials), "times": times}


def summarise(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per width: rates, times and their box plot, and the time that random search would take.

    Unsolved trials have infinite times. ``lower`` and ``upper`` are the quartiles; whiskers end at the last time
    within 1.5 interquartile ranges of the box, from ``whisker_low`` to ``whisker_high``; ``fastest`` and ``slowest``
    are the extremes; ``random_search`` is the expected time of as many independent searches as there are neurons.
    """
    found = timed(trials, KEYS)
    times = [own.to_numpy(float, na_value=np.nan) for _, own in trials.groupby(list(KEYS), sort=False)["solved_at"]]
    search = [random_search_time(*row) for row in found[list(KEYS)].itertuples(index=False)]
    return pd.concat([found, pd.DataFrame(map(_box, times))], axis=1).assign(random_search=search)


def _box(times: np.ndarray) -> dict[str, float]:
    times = np.sort(np.where(np.isnan(times), np.inf, times))
    lower, upper = (np.nan_to_num(quantile(times, share), nan=np.inf) for share in (0.25, 0.75))
    inside = times  # where the upper quartile is infinite, so are the whiskers
    if np.isfinite(upper):
        reach = 1.5 * (upper - lower)
        inside = times[(times >= lower - reach) & (times <= upper + reach)]
    return {
        "lower": lower,
        "upper": upper,
        "whisker_low": inside[0],
        "whisker_high": inside[-1],
        "fastest": times[0],
        "slowest": times[-1],
    }


def plot(tables: Tables) -> Figure:
    """Draw one panel per problem: a box of the times to solve for each width, and the line of random search.

    Boxes span the quartiles, with the median; whiskers reach the last time within 1.5 interquartile ranges; crosses
    are the fastest and the slowest trial. Unsolved trials are infinite: a box or whisker that leaves the panel at the
    top has no end, and the share solved is printed above it. Grey: networks too narrow for perfect accuracy.
    """
    table = tables["table"]
    groups = list(table.groupby("task.n"))
    figure, drawn = panels(1, len(groups), height=2.7, width=max(2.3 * len(groups) + 0.1, 5.0), sharey=True)
    times = table[["whisker_low", "slowest", "median_steps", "whisker_high", "fastest"]].to_numpy(float)
    known = times[np.isfinite(times)]
    top, bottom = known.max() * 2.5, known.min() * 0.6
    for ax, (_, rows) in zip(drawn[0], groups, strict=True):
        _boxes(ax, rows.sort_values("model.width"), top)
        ax.set_ylim(bottom, top)
        logarithmic(ax)
        ax.set_xlabel("width")
    drawn[0, 0].set_ylabel("steps to solve")
    title_panels(drawn[0], [f"n = {n}" for n, _ in groups])
    handles = drawn[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", fontsize=SMALL, frameon=False, ncols=2)
    return figure


def _boxes(ax: Axes, rows: pd.DataFrame, top: float) -> None:
    high = 10 * top  # what has no end leaves the panel at the top
    ends = rows[["median_steps", "lower", "upper", "whisker_low", "whisker_high"]].fillna(high).clip(upper=high)
    stats = [dict(zip(("med", "q1", "q3", "whislo", "whishi"), row, strict=True)) for row in ends.to_numpy(float)]
    lines = {"color": COLOURS[0], "linewidth": 0.8}
    style: dict[str, Any] = {"boxprops": lines, "whiskerprops": lines, "capprops": lines}
    width = rows["model.width"].to_numpy(float)
    share = min([0.45, *(0.7 * (width[1:] / width[:-1] - 1))])
    ax.set_xscale("log")
    style |= {"medianprops": {**lines, "linewidth": 1.6}, "showfliers": False, "manage_ticks": False}
    ax.bxp(stats, positions=width, widths=share * width, **style)
    for name in ("fastest", "slowest"):
        ax.plot(width, np.minimum(rows[name], high), "x", color=COLOURS[0], markersize=2.4, markeredgewidth=0.6)
    reference: dict[str, Any] = {"color": COLOURS[1], "linewidth": 1.2, "linestyle": "--"}
    grid = np.geomspace(width[0], width[-1], 50)
    n, k = (int(rows[name].iloc[0]) for name in ("task.n", "task.k"))
    search = [random_search_time(n, k, neurons) for neurons in grid]
    ax.plot(grid, search, label="as many random searches as neurons", **reference)
    ends_at = 0.4 * width[0], 2 * width[-1]
    if width[0] < EXACT:
        label = "too narrow: solved at an error of 45%"
        ax.axvspan(ends_at[0], np.sqrt(EXACT * (EXACT - 1)), color="0.92", linewidth=0, zorder=0, label=label)
    for place, (solved, trials) in zip(width, rows[["solved", "trials"]].to_numpy(int), strict=True):
        if solved < trials:
            text = f"{100 * solved / trials:.3g}%"
            ax.text(place, 0.9 * top, text, fontsize=SMALL, color=GREY, ha="center", va="top")
    ax.set_xlim(*ends_at)
    logarithmic(ax, "x")
    ax.xaxis.set_minor_locator(NullLocator())


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each problem, times by width, the speed-up over width 10, and how the spread shrinks.

    ``speed_up`` is the median time at width 10 over that at the width given; a random search would have the ratio of
    widths. ``spread`` is the slowest trial's time over the median.
    """
    found: dict[str, Any] = {}
    for (n, k), rows in tables["table"].groupby(["task.n", "task.k"], sort=False):
        by_width = {int(row["model.width"]): row for row in rows.to_dict("records")}
        base = by_width[10]["median_steps"] if 10 in by_width else np.nan
        found[f"({n}, {k})"] = {f"width {width}": _stated(row, base) for width, row in by_width.items()}
    return found


def _stated(row: dict[Any, Any], base: float) -> dict[str, Any]:
    return {
        **stated(row),
        "random_search": finite_or_none(row["random_search"], 4),
        "speed_up": finite_or_none(base / row["median_steps"], 4) if row["median_steps"] else None,
        "spread": finite_or_none(row["slowest"] / row["median_steps"], 4) if row["median_steps"] else None,
    }


EXPERIMENT = Experiment(
    name="width",
    shows="Wider networks are less often unlucky but hardly faster: training is not a random search run in parallel",
    source="figures 5.4 (left) and B.10",
    scales={
        "smoke": Scale(lambda trials: widths((15,), (1, 3, 10, 30, 100), trials, steps=5000), trials=5),
        "laptop": Scale(lambda trials: widths((30, 40), (*NARROW, 1000), trials), trials=50),
        "part": Scale(part, trials=200, part="widths up to 10^5, with 10 to 200 trials"),
        "paper": Scale(paper, trials=1000),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    claims=CLAIMS,
)
