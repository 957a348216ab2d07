"""Is there a plateau at all? Wide z^k networks against ReLU networks.

A plateau is measured by when the error first reaches 45%, as a share of the time to an error of 5%. The wider a z^k
network, the more of its neurons correlate with the parity from the first step, each a little, and the sooner the error
falls; ReLU networks stay at chance until the relevant weights have grown.

Source: thesis, chapter 5 and appendix B.3.8 (figure B.13), which names no learning rate.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median, median_interval
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.plots.style import GREY, SMALL, panels, percent, shades, title_panels
from elegans.probes import HeldOutErrorRate, Probe
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.no_plateau_claims import CLAIMS
from elegans.studies.hidden_progress.settings import configuration
from elegans.sweeps import Sweep, grid
from elegans.training import Trial

LEAVES, ENDS = 0.45, 0.05
"""The errors at which a plateau ends, and at which the task is practically learned."""
NETWORKS = {"z^k": ("v", 0.03), "relu": ("ii", 0.1)}
"""The thesis' id whose width is varied, and the learning rate."""
TITLES = {"z^k": "$z^k$", "relu": "ReLU"}
CELL = ("network", "model.width", "training.batch_size", "training.learning_rate")


def networks(
    n: int, widths: Sequence[int], relu_widths: Sequence[int], batch_sizes: Sequence[int], trials: int, every: int = 10
) -> Sweep:
    """Return z^3 and ReLU networks on the (n, 3)-parity, by width and batch size; training ends at an error of 2%.

    Args:
        n: the number of signs.
        widths: of z^3 networks.
        relu_widths: of ReLU networks.
        batch_sizes: of both.
        trials: per cell.
        every: how many steps lie between checks and measurements.
    """
    stopping = StoppingRule(error=0.02, examples=4096, every=every)
    parts = []
    for (identifier, rate), chosen in zip(NETWORKS.values(), (widths, relu_widths), strict=True):
        base = configuration(identifier, n, 3, learning_rate=rate, steps=50_000).replace("training.stopping", stopping)
        axes = {"model.width": chosen, "training.batch_size": batch_sizes}
        parts.append(grid(base, axes, seeds=trials).parts)
    return Sweep(tuple(chain.from_iterable(parts)))


def lines(
    kind: str, rate: float, widths: Sequence[int], batch_sizes: Sequence[int], trials: int, every: int = 10
) -> Sweep:
    """Return networks of one kind on the (50, 3)-parity at a learning rate, by width and batch size."""
    stopping = StoppingRule(error=0.02, examples=4096, every=every)
    base = configuration(NETWORKS[kind][0], 50, 3, learning_rate=rate).replace("training.stopping", stopping)
    return grid(base, {"model.width": widths, "training.batch_size": batch_sizes}, seeds=trials)


def paper(trials: int) -> Sweep:
    """Return widths 10 to 1000 of both kinds, wider z^3 networks, and batches from 1 to 4096 on (50, 3)."""
    widths = (10, 100, 1000)
    return networks(50, (*widths, 10_000), widths, (1, 4, 16, 64, 256, 1024, 4096), trials)


def part(trials: int) -> Sweep:
    """Return both kinds at the laptop's learning rates, batches of 1 to 4096; z^3 networks at other rates too."""
    widths, batches = (10, 100, 1000), (32, 128, 1024)
    return (
        lines("z^k", 0.03, widths, batches, trials)
        + lines("z^k", 0.03, (100, 1000), (4096,), trials)
        + lines("z^k", 0.01, (100, 1000), (1024,), trials)
        + lines("z^k", 0.003, (100,), (1024,), trials)
        + lines("z^k", 0.001, (1000,), (1,), trials, every=100)
        + lines("relu", 0.1, widths, (32, 1024, 4096), trials)
        + lines("relu", 0.1, widths, (1,), trials, every=100)
    )


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the test error, measured whenever the stopping rule is checked."""
    return (HeldOutErrorRate(every=one.stopping.every, examples=one.stopping.examples),)


def analyse(results: Results) -> Tables:
    """Return one row per trial and measured step: the test error, when the trial left its plateau, and when it ended.

    ``plateau`` is the ratio of the two, ``halfway`` the error at half of the time to the end: NaN where there is none.
    """
    names = ["task.n", "task.k", "model.width", "training.batch_size", "training.learning_rate"]
    trials = results.trials[names].assign(network=np.where(results.trials["model.activation"] == "relu", "relu", "z^k"))
    found = results.measures["test-error"].join(trials, on="trial")
    for name, level in (("leaves", LEAVES), ("ends", ENDS)):
        first = found[found["error"] <= level].groupby("trial")["step"].first()
        found[name] = found["trial"].map(first).astype(float)
    halfway = {
        trial: np.interp(own["ends"].iloc[0] / 2, own["step"], own["error"]) for trial, own in found.groupby("trial")
    }
    halves = found["trial"].map(halfway).where(found["ends"].notna())
    return {"table": found.assign(plateau=found["leaves"] / found["ends"], halfway=halves).drop(columns="trial")}


def plot(tables: Tables) -> Figure:
    """Draw test errors against the share of the time to an error of 5%, by network and width; colours are batch sizes.

    Medians and the bands of the middle 80% of networks, as figure B.13 with time in units of each trial's own. Dotted:
    the error of 45% at which a plateau ends.
    """
    table = tables["table"]
    usual = table["network"].map({network: rate for network, (_, rate) in NETWORKS.items()})
    table = table[table["training.learning_rate"] == usual].dropna(subset=["ends"])
    groups = [rows for _, rows in table.groupby(["network", "model.width"], sort=False)]
    columns = min(3, len(groups))
    down = -(-len(groups) // columns)
    figure, drawn = panels(down, columns, height=2.1 + 0.4 / down, sharex=True, sharey=True)
    axes = drawn.ravel()
    sizes = sorted(table["training.batch_size"].unique())
    colours = dict(zip(sizes, shades(len(sizes)), strict=True))
    titles = []
    for ax, rows in zip(axes, groups, strict=False):
        _draw(ax, rows, colours)
        first = rows.iloc[0]
        titles.append(f"{TITLES[first['network']]}, width {first['model.width']:,}")
    for ax in axes[len(groups) :]:
        ax.set_axis_off()
    for ax in drawn[-1]:
        ax.set_xlabel("steps / steps to an error of 5%")
    for ax in drawn[:, 0]:
        ax.set_ylabel("test error")
    title_panels(axes, titles)
    handles = [
        axes[0].plot([], [], color=colour, label=f"{size} example{'s' if size > 1 else ''} per step")[0]
        for size, colour in colours.items()
    ]
    figure.legend(handles=handles, fontsize=SMALL, frameon=False, ncols=4, loc="outside lower center")
    return figure


def _draw(ax: Axes, rows: pd.DataFrame, colours: dict[Any, Any]) -> None:
    shares = np.linspace(0, 1, 61)
    for size, cell in rows.groupby("training.batch_size"):
        errors = [np.interp(shares, own["step"] / own["ends"], own["error"]) for _, own in cell.groupby("seed")]
        low, middle, high = np.quantile(errors, (0.1, 0.5, 0.9), axis=0)
        ax.fill_between(shares, low, high, color=colours[size], alpha=0.18, linewidth=0)
        ax.plot(shares, middle, color=colours[size], linewidth=1.2)
    ax.axhline(LEAVES, color=GREY, linewidth=0.6, linestyle=":")
    ax.set(xlim=(0, 1), ylim=(0, 0.53))
    percent(ax)


def findings(tables: Tables) -> dict[str, Any]:
    """Return each cell's median plateau share, halfway error and end, with order-statistic intervals."""
    found = {}
    for (network, width, batch_size, rate), rows in tables["table"].groupby(list(CELL), sort=False):
        last = rows.groupby("seed").last()
        stated: dict[str, Any] = {"trials": len(last), "ended": int(last["ends"].notna().sum())}
        for name in ("plateau", "halfway", "ends"):
            values = last[name].to_numpy(float)
            stated[name] = finite_or_none(median(values), 4)
            stated[f"{name}_interval"] = [finite_or_none(end, 4) for end in median_interval(values)]
        chosen = "" if rate == NETWORKS[str(network)][1] else f", rate {rate:g}"
        found[f"{network}, width {width}, batches of {batch_size}{chosen}"] = stated
    return found


EXPERIMENT = Experiment(
    name="no-plateau",
    shows="The test error of wide z^k networks falls from the start, where that of ReLU networks stays at chance",
    source="appendix B.3.8, figure B.13",
    scales={
        "smoke": Scale(lambda trials: networks(20, (30,), (30,), (32,), trials), trials=3),
        "laptop": Scale(
            lambda trials: networks(50, (10, 100, 1000, 3000), (100, 1000), (32, 128, 1024), trials), trials=6
        ),
        "part": Scale(part, trials=25, part="widths up to 1000 and batches of 1, 32, 128, 1024 and 4096"),
        "paper": Scale(paper, trials=25),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)
