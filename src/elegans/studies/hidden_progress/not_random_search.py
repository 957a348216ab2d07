"""Random search or hidden progress? How times to solve are spread, and what they depend on (figure 5.2).

Were training a random search that tries one subset per step, its time would be geometric with p = 1/C(n, k):
no memory, and successes from the first step on. And it would depend on the data alone; so networks with the same
initial values are trained on many streams of examples. The source names neither the architectures nor (n, k): here
they are PolyNet and the sinusoidal neuron at (20, 3), and for the common initial values the sinusoidal neuron and the
ReLU network of width 10 at (30, 3), and others at the larger scales. The local exponents of the figure's third panel
are in ``convergence-scaling``.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import components, finite, quantile
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.models import SeededInit
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, logarithmic, panels, quiet, short
from elegans.studies.hidden_progress.not_random_search_claims import CLAIMS
from elegans.studies.hidden_progress.settings import configuration, repeated
from elegans.studies.hidden_progress.tables import identified
from elegans.sweeps import Sweep

INITS = {"xiv": 0.01, "i": 0.1}
"""The configurations that are trained from common initial values, and the learning rate of each."""
PUBLISHED_INITS = dict.fromkeys(("xiv", "xv", "iv", "i", "ii"), 0.01)
"""The same at the published learning rate; the configurations are ours."""
KEYS = ("configuration", "network", "task.n", "task.k")
BINS = 60


def independent(identifiers: Sequence[str], n: int, k: int, trials: int, every: int = 10) -> Sweep:
    """Return many trials of each configuration, each with its own network and its own data, checked now and then."""
    cells = [configuration(name, n, k).replace("training.stopping.every", every) for name in identifiers]
    return repeated(cells, trials)


def common(
    n: int, k: int, inits: Sequence[int], streams: int, steps: int = 100_000, rates: Mapping[str, float] = INITS
) -> Sweep:
    """Return networks with common initial values, each trained on several streams of examples; the support is one.

    Args:
        n: the number of signs.
        k: the size of the parity.
        inits: the numbers of the initial values.
        streams: how many streams of examples for each of them.
        steps: the largest number of steps.
        rates: the configurations, and the learning rate of each.
    """
    cells = []
    for name, rate in rates.items():
        base = configuration(name, n, k, batch_size=128, learning_rate=rate, steps=steps)
        base = base.replace("task.support", tuple(range(k)))
        init = base.columns()["model.init"]
        cells += [base.replace("model.init", SeededInit(of=init, seed=seed)) for seed in inits]
    return repeated(cells, streams)


def smoke(trials: int) -> Sweep:
    """Return few trials at (12, 3)."""
    return independent(("xv", "xiv"), 12, 3, trials) + common(12, 3, range(4), streams=3, steps=20_000)


def laptop(trials: int) -> Sweep:
    """Return independent trials at (20, 3), and 20 initial values with 12 streams each."""
    return independent(("xv", "xiv"), 20, 3, trials) + common(30, 3, range(20), streams=12)


def part(trials: int) -> Sweep:
    """Return three networks checked at every step, and initial values with 10 streams each of five networks.

    The z^k network has 400 of them, since its share of the variance lies near the claimed half; the others 40.
    """
    shown = independent(("xv", "xiv", "ii"), 20, 3, trials, every=1)
    rates = dict(PUBLISHED_INITS)
    near = {"iv": rates.pop("iv")}
    return shown + common(30, 3, range(40), 10, rates=rates) + common(30, 3, range(100, 500), 10, rates=near)


def paper(trials: int) -> Sweep:
    """Return the same with a million trials of PolyNet, a hundredth of as many of the others."""
    return part(max(1, trials // 100)) + independent(("xv",), 20, 3, trials, every=1)


def analyse(results: Results) -> Tables:
    """Return histograms of each configuration's times, the times themselves, and those with common initial values.

    Rows of ``histograms`` are bins: trials solved at more than ``above`` and at most ``until`` steps are ``count`` of
    ``trials``; a random search would have had ``random_search`` of them there, and a search without memory of the same
    median time ``memoryless``. They repeat the ``fastest``, the ``median_steps``, the 95% quantile ``q95`` and the
    ``slowest`` time, and how many would have been ``search_earlier`` and ``memoryless_earlier`` than the fastest.
    ``times`` has how many ``trials`` took so many ``steps`` (NaN: unsolved). Rows of ``inits`` have the number ``init``
    of the initial values, the ``seed`` of the data, and ``steps``, the time to solve (NaN where unsolved).
    """
    bins, counts, inits = [], [], []
    for template, rows in results.by_cell("solved_at"):
        columns = {**identified(pd.DataFrame([template.columns()])).iloc[0]}
        problem = {name: columns[name] for name in (*KEYS, "training.batch_size", "training.learning_rate")}
        kind, _, number = str(columns["model.init"]).partition(":")
        times = rows["solved_at"].to_numpy(float)
        if kind == "seeded":
            inits.append(pd.DataFrame({**problem, "seed": rows["seed"], "init": int(number), "steps": times}))
            continue
        bins.append(_histogram(problem, times, columns["training.stopping.every"]))
        steps, trials = np.unique(times, return_counts=True)
        counts.append(pd.DataFrame({**problem, "steps": steps, "trials": trials}))
    found = {"histograms": bins, "times": counts, "inits": inits}
    return {name: pd.concat(tables, ignore_index=True) for name, tables in found.items()}


def _histogram(problem: dict[str, Any], times: np.ndarray, every: int) -> pd.DataFrame:
    solved = np.sort(times[np.isfinite(times)])
    middle = quantile(times, 0.5)
    width = every * max(1, math.ceil(solved[int(0.999 * (len(solved) - 1))] / (every * BINS)))
    edges = np.arange(0, solved[-1] + width, width)
    search = math.log1p(-1 / math.comb(problem["task.n"], problem["task.k"]))
    memoryless = -math.log(2) / middle
    earlier = np.array([0, solved[0] - every])
    return pd.DataFrame(
        {
            **problem,
            "above": edges[:-1],
            "until": edges[1:],
            "count": np.histogram(solved - every / 2, edges)[0],
            "random_search": _geometric(edges, search, len(times)),
            "memoryless": _geometric(edges, memoryless, len(times)),
            "trials": len(times),
            "solved": len(solved),
            "fastest": solved[0],
            "median_steps": middle,
            "q95": quantile(times, 0.95),
            "slowest": solved[-1],
            "search_earlier": _geometric(earlier, search, len(times))[0],
            "memoryless_earlier": _geometric(earlier, memoryless, len(times))[0],
        }
    )


def _geometric(edges: np.ndarray, decay: float, trials: int) -> np.ndarray:
    """Return how many trials a geometric distribution has in each bin, given the logarithm of its survival per step."""
    return trials * (np.exp(decay * edges[:-1]) - np.exp(decay * edges[1:]))


def plot(tables: Tables) -> Figure:
    """Draw the histogram of times to solve of each network, and of networks with common initial values each time."""
    by = ["network", "task.n", "task.k"]
    shown = [(draw, *group) for draw, name in DRAWN for group in tables[name].groupby(by, sort=False)]
    rows = -(-len(shown) // 2)
    figure, drawn = panels(rows, 2, height=2.2 + 0.5 / rows)
    for ax, (draw, (network, n, k), own) in zip(drawn.ravel(), shown, strict=False):
        draw(ax, own)
        ax.set_title(f"{network}, n = {n}, k = {k}", loc="left", fontsize=MEDIUM)
        quiet(ax)
    for ax in drawn.ravel()[len(shown) :]:
        ax.set_axis_off()
    note = (
        "Above: a new network and new data in each trial. Below: each column is one network's initial values, each dot "
        "one stream of examples."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    return figure


def _bars(ax: Axes, rows: pd.DataFrame) -> None:
    left, right, first = rows["above"].to_numpy(float), rows["until"].to_numpy(float), rows.iloc[0]
    label = f"{first['trials']:,} trials"
    ax.bar(left, rows["count"], right - left, align="edge", color=COLOURS[0], alpha=0.75, label=label)
    searches = {"random_search": ("random search, p = 1/C(n, k)", "--"), "memoryless": ("no memory, same median", ":")}
    for name, (label, style) in searches.items():
        ax.plot((left + right) / 2, rows[name], color=COLOURS[1], linewidth=1.2, linestyle=style, label=label)
    cumulative = np.cumsum(rows["count"].to_numpy())
    last = right[min(np.searchsorted(cumulative, 0.998 * cumulative[-1]), len(right) - 1)]
    ax.set_xlim(0, last)
    label = f"fastest trial: {first['fastest']:.0f}"
    ax.axvline(first["fastest"], color=GREY, linewidth=0.8, label=label)
    ax.set_xlabel("steps to solve", fontsize=MEDIUM)
    ax.set_ylabel("trials", fontsize=MEDIUM)
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    ax.legend(fontsize=SMALL, frameon=False, loc="upper right")


def _dots(ax: Axes, rows: pd.DataFrame) -> None:
    middles = rows.assign(steps=rows["steps"].fillna(np.inf)).groupby("init")["steps"].median().sort_values()
    x = rows["init"].map({init: order for order, init in enumerate(middles.index)})
    ax.plot(x, rows["steps"], "o", color=COLOURS[0], markersize=2.2, alpha=0.5, markeredgewidth=0)
    ax.plot(range(len(middles)), middles, "_", color=COLOURS[1], markersize=6, markeredgewidth=1.2, label="median")
    logarithmic(ax)
    ax.set_xticks([])
    ax.set_xlabel("initial values, from fastest to slowest", fontsize=MEDIUM)
    ax.set_ylabel("steps to solve", fontsize=MEDIUM)
    ax.legend(fontsize=SMALL, frameon=False, loc="upper left")


DRAWN = ((_bars, "histograms"), (_dots, "inits"))


def findings(tables: Tables) -> dict[str, Any]:
    """Return how early the luckiest trial was and how heavy the upper tail, and what part of the luck is the network's.

    ``expected_before_fastest`` is how many trials would have been faster than the fastest if times had no memory:
    those of a random search, and those of the same median time. The variances are of the logarithm of the time, with
    the 95% interval of their ratio; trials that were not solved are left out of them.
    """
    by = ["configuration", "task.n", "task.k"]
    groups = {name: tables[name].groupby(by, sort=False) for name in ("histograms", "inits")}
    return {
        "luck": {f"{name} ({n}, {k})": _luck(rows.iloc[0]) for (name, n, k), rows in groups["histograms"]},
        "inits": {f"{name} ({n}, {k})": _variances(rows) for (name, n, k), rows in groups["inits"]},
    }


def _luck(row: pd.Series) -> dict[str, Any]:
    middle = row["median_steps"]
    return {
        "trials": int(row["trials"]),
        "solved": int(row["solved"]),
        "fastest": finite(row["fastest"], 4),
        "median_steps": finite(middle, 4),
        "slowest": finite(row["slowest"], 4),
        "fastest_over_median": finite(row["fastest"] / middle, 4),
        "q95_over_median": finite(row["q95"] / middle, 4),
        "expected_before_fastest": {
            "random_search": finite(row["search_earlier"], 1),
            "memoryless": finite(row["memoryless_earlier"], 1),
        },
    }


def _variances(rows: pd.DataFrame) -> dict[str, Any]:
    solved = rows[rows["steps"].notna()]
    groups = [np.log(own["steps"].to_numpy(float)) for _, own in solved.groupby("init")]
    found = components([own for own in groups if len(own)])
    return {
        "inits": found.groups,
        "trials": len(rows),
        "solved": len(solved),
        "between_inits": finite(found.between, 4),
        "within": finite(found.within, 4),
        "ratio": finite(found.ratio, 2),
        "interval": [finite(found.low, 2), finite(found.high, 2)],
    }


EXPERIMENT = Experiment(
    name="not-random-search",
    shows="No trial is lucky early, and the time to solve depends on the initial values more than on the data",
    source="figure 5.2",
    scales={
        "smoke": Scale(smoke, trials=100),
        "laptop": Scale(laptop, trials=10_000),
        "part": Scale(part, trials=10_000, part="10^4 trials per network in place of 10^6"),
        "paper": Scale(paper, trials=1_000_000),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    claims=CLAIMS,
)
