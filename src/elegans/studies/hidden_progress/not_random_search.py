"""Random search or hidden progress? The distribution of times to solve the task, and what they depend on (figure 5.2).

If training were a random search that tries one subset per step, its time would be geometric with p = 1/C(n, k): without
memory, and with successes from the first step on. It would also depend on the data alone; networks with the same
initial values are therefore trained on many streams of examples. The source names neither the architectures nor (n, k):
here they are PolyNet and the sinusoidal neuron at (20, 3), and for the common initial values the sinusoidal neuron and
the ReLU network of width 10 at (30, 3), and others at the larger scales. The local exponents of the figure's third
panel are in ``convergence-scaling``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import VarianceComponents, finite_or_none, quantile, variance_components
from elegans.experiments import Experiment, Option, Results, Scale, Tables, parts, summary_by
from elegans.models import SeededInit
from elegans.plots.marks import estimates
from elegans.plots.style import COLOURS, GREY, SMALL, figure_legend, panels, short, title_figure, title_panels
from elegans.studies.hidden_progress.not_random_search_claims import CLAIMS
from elegans.studies.hidden_progress.plots import plain
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.tables import identified, labels
from elegans.sweeps import Sweep

INITS = {"xiv": 0.01, "i": 0.1}
"""The configurations that are trained from common initial values, and the learning rate of each."""
PUBLISHED_INITS = dict.fromkeys(("xiv", "xv", "iv", "i", "ii"), 0.01)
"""The same at the published learning rate; the choice of configurations is ours."""
KEYS = ("configuration", "network", "task.n", "task.k")
BINS = 60


def independent(identifiers: Sequence[str], n: int, k: int, trials: int, every: int = 10) -> Sweep:
    """Return many trials of each configuration, each with its own network and data, checked at intervals."""
    cells = [configuration(name, n, k).replace("training.stopping.every", every) for name in identifiers]
    return Sweep.of(cells, trials)


def common(
    n: int, k: int, inits: Sequence[int], streams: int, steps: int = 100_000, rates: Mapping[str, float] = INITS
) -> Sweep:
    """Return networks with common initial values, each trained on several streams of examples with one support.

    Args:
        n: the number of signs.
        k: the size of the parity.
        inits: the indices of the initial values.
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
    return Sweep.of(cells, streams)


def part(trials: int) -> Sweep:
    """Return three networks checked at every step, and initial values with 10 streams each of five networks.

    The z^k network has 400 of them, since its share of the variance lies near the claimed half; the others 40.
    """
    return independent(("xv", "xiv", "ii"), 20, 3, trials, every=1) + of_inits(range(40), range(100, 500))


def of_inits(most: Sequence[int], near: Sequence[int]) -> Sweep:
    """Return the initial values ``near`` of the z^k network and ``most`` of four others, with 10 streams each."""
    others = dict(PUBLISHED_INITS)
    cubic = {"iv": others.pop("iv")}
    return common(30, 3, most, 10, rates=others) + common(30, 3, near, 10, rates=cubic)


def inits_alone(experiment: Experiment) -> Experiment:
    """Return only the times from common initial values: others than the scales have, and more of the z^k network."""
    scales = {
        name: replace(
            scale,
            sweep=partial(_inits_alone, *((2, 4) if name == "smoke" else (40, 16_000))),
            trials=10,
            part="initial values with ten streams each",
        )
        for name, scale in experiment.scales.items()
    }
    return replace(experiment, scales=scales, plot=None, findings=None)


def _inits_alone(most: int, near: int, _: int) -> Sweep:
    return of_inits(range(6000, 6000 + most), range(10_000, 10_000 + near))


def analyse(results: Results) -> Tables:
    """Return histograms of each configuration's times, the times themselves, and the times with shared initial values.

    Rows of ``histograms`` are bins: trials solved at more than ``above`` and at most ``until`` steps are ``count`` of
    ``trials``; a random search would have had ``random_search`` of them there, and a search without memory of the same
    median time ``memoryless``. Each row repeats the ``fastest`` time, the ``median_steps``, the 95% quantile ``q95``
    and the ``slowest`` time, and how many trials of either search would have been earlier than the fastest
    (``search_earlier``, ``memoryless_earlier``). ``times`` has how many ``trials`` took so many ``steps`` (NaN:
    unsolved). Rows of ``inits`` have the number ``init`` of the initial values, the ``seed`` of the data, and
    ``steps``, the time to solve (NaN where unsolved).
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
    return {name: pd.concat(tables, ignore_index=True) for name, tables in found.items() if tables}


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
    """Draw how early the first trials are solved, how late the last, and how much of the luck is the network's.

    Times are over each network's median, on logarithmic axes. Black: a search without memory of the same median;
    dotted: a random search of one subset per step. On the right, the share of the variance of the logarithm of the time
    that lies between initial values, with 95% F intervals.
    """
    figure, ((first, last, share),) = panels(1, 3, height=2.9)
    grid = np.geomspace(0.003, 100, 400)
    networks = list(tables["times"].groupby(["network", "task.n", "task.k"], sort=False))
    for colour, (_, rows) in zip(COLOURS, networks, strict=False):
        network, n, k = (rows[name].iloc[0] for name in ("network", "task.n", "task.k"))
        steps, trials = rows["steps"].to_numpy(float), rows["trials"].to_numpy()
        middle, done = quantile(np.repeat(steps, trials), 0.5), np.cumsum(trials) / trials.sum()
        shown = np.isfinite(steps)
        search = np.exp(grid * middle * math.log1p(-1 / math.comb(n, k)))
        label = f"{plain(network)}, {short(trials.sum())} trials"
        for ax, own, random in ((first, done, 1 - search), (last, 1 - done, search)):
            ax.step(steps[shown] / middle, own[shown], where="post", color=colour, linewidth=1.3, label=label)
            ax.plot(grid, random, color=colour, linewidth=0.9, linestyle=":")
    least = min(0.5 / rows["trials"].sum() for _, rows in networks)
    for ax, memoryless in ((first, 1 - 2.0**-grid), (last, 2.0**-grid)):
        ax.plot(grid, memoryless, color="black", linewidth=0.9, label="no memory, same median")
        ax.set(xscale="log", yscale="log", ylim=(least, 1.5))
        ax.set_xlabel("steps / median steps")
    first.set(xlim=(0.01, 2))
    last.set(xlim=(0.3, 40))
    first.set_ylabel("share of trials solved")
    last.set_ylabel("share of trials not solved yet")
    _shares(share, tables["inits"])
    first.plot([], [], color=GREY, linewidth=0.9, linestyle=":", label="random search, one subset per step")
    findings = ("No trial is lucky early", "Some take much longer", "Luck is in the initial weights")
    title_panels((first, last, share), findings)
    figure_legend(figure, first)
    inits = tables["inits"].iloc[0]
    title_figure(
        figure,
        "Times to solve a parity differ from a random search's",
        f"a, b: ({n}, {k}) parity; c: ({inits['task.n']}, {inits['task.k']}) parity, share of the variance of log "
        "times that lies between initial weights, with 95% F intervals; dotted in c: one half",
    )
    return figure


def _shares(ax: Axes, inits: pd.DataFrame) -> None:
    """Draw the share of the variance of log times that lies between initial values, for each network."""
    names = []
    for place, (network, rows) in enumerate(inits.groupby("network", sort=False)):
        spread = _between_inits(rows.dropna(subset="steps"))
        middle, low, high = (ratio / (1 + ratio) for ratio in (spread.ratio, spread.low, spread.high))
        estimates(ax, [place], [middle], [low], [high], across=True)
        names.append(f"{plain(str(network))},\n{spread.groups} initial weights")
    ax.axvline(0.5, color=GREY, linewidth=0.8, linestyle=":")
    ax.set(xlim=(0, 1), ylim=(len(names) - 0.5, -0.5))
    ax.set_yticks(range(len(names)), names, fontsize=SMALL)
    ax.set_xlabel("share of the variance")


def findings(tables: Tables) -> dict[str, Any]:
    """Return how early the luckiest trial was, how heavy the upper tail is, and how much of the luck is the network's.

    ``expected_before_fastest`` is how many trials would have been faster than the fastest if times had no memory: the
    times of a random search, and times with the same median. The variances are of the logarithm of the time, with the
    95% interval of their ratio; trials that were not solved are left out of them.
    """
    by, title = ["configuration", "task.n", "task.k"], "{} ({}, {})"
    luck = summary_by(
        tables["histograms"].drop_duplicates(by),
        by,
        title,
        trials=lambda rows: int(rows["trials"].iloc[0]),
        solved=lambda rows: int(rows["solved"].iloc[0]),
        fastest=lambda rows: finite_or_none(rows["fastest"].iloc[0], 4),
        median_steps=lambda rows: finite_or_none(rows["median_steps"].iloc[0], 4),
        slowest=lambda rows: finite_or_none(rows["slowest"].iloc[0], 4),
        fastest_over_median=lambda rows: finite_or_none((rows["fastest"] / rows["median_steps"]).iloc[0], 4),
        q95_over_median=lambda rows: finite_or_none((rows["q95"] / rows["median_steps"]).iloc[0], 4),
        expected_before_fastest=lambda rows: {
            "random_search": finite_or_none(rows["search_earlier"].iloc[0], 1),
            "memoryless": finite_or_none(rows["memoryless_earlier"].iloc[0], 1),
        },
    )
    variances = tables["inits"].groupby(by, sort=False)
    return {"luck": luck, "inits": {title.format(*key): _variances(rows) for key, rows in variances}}


def _variances(rows: pd.DataFrame) -> dict[str, Any]:
    solved = rows.dropna(subset="steps")
    spread = _between_inits(solved)
    return {
        "inits": spread.groups,
        "trials": len(rows),
        "solved": len(solved),
        "between_inits": finite_or_none(spread.between, 4),
        "within": finite_or_none(spread.within, 4),
        "ratio": finite_or_none(spread.ratio, 2),
        "interval": [finite_or_none(spread.low, 2), finite_or_none(spread.high, 2)],
    }


def _between_inits(solved: pd.DataFrame) -> VarianceComponents:
    """Return the variance of log times between and within initial values."""
    return variance_components([np.log(times.to_numpy(float)) for _, times in solved.groupby("init")["steps"]])


EXPERIMENT = Experiment(
    name="not-random-search",
    shows="No trial is lucky early, and the time to solve depends more on the initial weights than on the data",
    source="figure 5.2",
    scales={
        "smoke": Scale(
            lambda trials: independent(("xv", "xiv"), 12, 3, trials) + common(12, 3, range(4), streams=3, steps=20_000),
            trials=100,
        ),
        "laptop": Scale(
            lambda trials: independent(("xv", "xiv"), 20, 3, trials) + common(30, 3, range(20), streams=12),
            trials=10_000,
        ),
        "part": Scale(part, trials=10_000, part="10^4 trials per network in place of 10^6"),
        "paper": Scale(
            lambda trials: part(max(1, trials // 100)) + independent(("xv",), 20, 3, trials, every=1), trials=1_000_000
        ),
    },
    analyse=analyse,
    labels=labels,
    plot=plot,
    findings=findings,
    claims=CLAIMS,
    options={"parts": Option("all, or inits: only how times depend on the initial values", parts(inits=inits_alone))},
)
