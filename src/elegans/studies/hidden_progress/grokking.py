"""Finite samples: grokking, and what weight decay does to it (figures 5.4, right, and B.11).

ReLU networks of width 100 on a fixed sample of m examples over many epochs. The source names neither (n, k) nor
m nor the weight decays: here they are (30, 3) and values around the transitions. Minibatches are drawn
with replacement, and weight decay is a part of the gradient; the thesis shrinks the parameters themselves by
1 - lambda, which is the same with lambda = learning rate x weight decay (``SGD(decay="parameters")``).
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from elegans.analysis import error_courses, grokking_summary
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.plots import error_lines
from elegans.plots.style import COLOURS, RATES, SMALL, HouseFigure, contrast_colour, in_house_style, short, title_panels
from elegans.probes import HeldOutErrorRate, Probe, TrainErrorRate
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.grokking_claims import CLAIMS
from elegans.studies.hidden_progress.settings import configuration
from elegans.sweeps import Sweep, grid
from elegans.training import Trial

SOLVED = 0.01
"""The test error at which a trial counts as solved: without weight decay many networks do not quite reach 0."""
NAMES = ("task.n", "task.k", "regime.size", "training.weight_decay", "seed")


def samples(
    n: int, k: int, sizes: Sequence[int], decays: Sequence[float], trials: int, steps: int, every: int
) -> Sweep:
    """Return ReLU networks of width 100 for each sample size and weight decay; none stops when it is solved.

    Args:
        n: the number of signs.
        k: the size of the parity.
        sizes: the numbers m of examples.
        decays: the weight decays.
        trials: per cell.
        steps: of every trial.
        every: how many steps lie between two measurements.
    """
    base = configuration("ii", n, k, learning_rate=0.1, steps=steps)
    base = base.replace("training.stopping", StoppingRule(error=SOLVED, examples=8192, every=every, stop=False))
    axes = {"training.weight_decay": decays, "regime": [f"sample:{size}" for size in sizes]}
    return grid(base, axes, seeds=trials)


def paper(trials: int) -> Sweep:
    """Return a finer grid at (50, 3) with ten times the steps."""
    sizes = (20_000, 10_000, 5000, 2000, 1500, 1000, 700, 500, 300)
    return samples(50, 3, sizes, (0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1), trials, steps=300_000, every=500)


def part(trials: int) -> Sweep:
    """Return the laptop's grid with stronger weight decay, and the smallest sample for longer."""
    sizes, decays = (5000, 2000, 1000, 500, 300), (0.0, 0.001, 0.01, 0.03, 0.1, 0.3)
    grid_of = samples(30, 3, sizes, decays, trials, steps=30_000, every=100)
    return grid_of + samples(30, 3, (200,), (0.01,), trials * 6 // 5, steps=100_000, every=500)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the two errors, measured whenever the stopping rule is checked."""
    rule = one.stopping
    return TrainErrorRate(every=rule.every), HeldOutErrorRate(every=rule.every, examples=rule.examples)


def analyse(results: Results) -> Tables:
    """Return every network's two errors at each measured step, and its grokking delay."""
    return {"table": error_courses(results.trials, results.measures, NAMES, test=SOLVED)}


def plot(tables: Tables) -> Figure:
    """Draw the delay between fit and generalisation of every cell, and train (grey) and test errors of up to four.

    A cell's colour and upper number are its median delay in steps, where at least half of the networks that fit their
    sample generalise; the lower number says how many networks do in all. The errors are those of the cell with the
    longest delay (framed), of the cell with the same sample and no weight decay, and of the largest and the smallest
    sample with the same weight decay.
    """
    cells: dict[Any, Any] = dict(list(tables["table"].groupby(["training.weight_decay", "regime.size"])))
    found = {key: grokking_summary(rows) for key, rows in cells.items()}
    delays = {key: one["delay"] for key, one in found.items() if one.get("delay") is not None}
    figure = HouseFigure(figsize=(7.0, 3.9), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=(1.25, 1))
    left, right = parts
    decays, sizes = (sorted({key[place] for key in cells}) for place in (0, 1))
    longest = max(delays, key=lambda key: delays[key]) if delays else next(iter(cells))
    ax = left.subplots()
    in_house_style(ax)
    _delays(ax, decays, sizes, found, delays, longest)
    decay, size = longest
    own = [each for each in sizes if (decay, each) in cells]
    chosen = dict.fromkeys([longest, (decays[0], size), (decay, own[-1]), (decay, own[0])])
    shown = [key for key in chosen if key in cells]
    drawn = right.subplots(2, 2, sharex=True, sharey=True)
    in_house_style(*drawn.ravel())
    for panel, key in zip(drawn.ravel(), shown, strict=False):
        error_lines(panel, cells[key], COLOURS[0], SOLVED)
    for panel in drawn.ravel()[len(shown) :]:
        panel.set_axis_off()
    for panel in drawn[-1]:
        panel.set_xlabel("steps")
    for panel in drawn[:, 0]:
        panel.set_ylabel("error")
    title_panels(
        (ax, *drawn.ravel()),
        ("Median delay from fit to generalisation, in steps", *(f"m = {m:,}, λ = {w:g}" for w, m in shown)),
    )
    return figure


def _delays(
    ax: Axes,
    decays: Sequence[float],
    sizes: Sequence[int],
    found: Mapping[tuple[float, int], Mapping[str, Any]],
    delays: Mapping[tuple[float, int], float],
    framed: tuple[float, int],
) -> None:
    """Draw the map of delays, one row per weight decay and one column per sample size."""
    top = np.log10(1 + max([1, *delays.values()]))
    for (row, decay), (column, size) in product(enumerate(decays), enumerate(sizes)):
        one = found.get((decay, size))
        if one is None:
            continue
        delay = delays.get((decay, size))
        colour: Any = "0.93" if delay is None else RATES(1 - 0.85 * np.log10(1 + delay) / top)
        frame: dict[str, Any] = {"edgecolor": "black", "linewidth": 1.6, "zorder": 2} if (decay, size) == framed else {}
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **{"facecolor": colour, "edgecolor": "white", **frame}))
        said = "" if delay is None else f"{short(delay)}\n"
        text = f"{said}{one['solved']}/{one['trials']}"
        ax.text(column, row, text, ha="center", va="center", fontsize=SMALL, color=contrast_colour(colour), zorder=3)
    ax.set(xlim=(-0.5, len(sizes) - 0.5), ylim=(len(decays) - 0.5, -0.5))
    ax.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    ax.set_yticks(range(len(decays)), [f"{decay:g}" for decay in decays])
    ax.set(xlabel="examples m", ylabel="weight decay λ")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=SMALL)


def findings(tables: Tables) -> dict[str, Any]:
    """Return each cell's times and grokking delay, and from which size on each weight decay solves at least half.

    A sample is fitted at a train error of at most 1%, and a trial solved at a test error of at most 1%.
    """
    found: dict[str, Any] = {}
    least: dict[str, int | None] = {}
    for decay, rows in tables["table"].groupby("training.weight_decay"):
        cells = {int(own["regime.size"].iloc[0]): grokking_summary(own) for _, own in rows.groupby("regime.size")}
        found |= {f"weight decay {decay:g}, {size} examples": cell for size, cell in cells.items()}
        enough = [size for size, cell in cells.items() if 2 * cell["solved"] >= cell["trials"]]
        least[f"{decay:g}"] = min(enough) if enough else None
    return {"half_solved_from": least, "cells": found}


EXPERIMENT = Experiment(
    name="grokking",
    shows="Networks that fit a sample may generalise long after, and weight decay widens the range of sample sizes "
    "that suffice",
    source="figures 5.4 (right) and B.11",
    scales={
        "smoke": Scale(
            lambda trials: samples(15, 3, (1000, 150), (0.0, 0.01), trials, steps=3000, every=100), trials=3
        ),
        "laptop": Scale(
            lambda trials: samples(
                30, 3, (5000, 2000, 1000, 500, 300), (0.0, 0.001, 0.01, 0.03, 0.1), trials, steps=30_000, every=100
            ),
            trials=10,
        ),
        "part": Scale(part, trials=60, part="(30, 3), which the source does not name, and 30,000 steps"),
        "paper": Scale(paper, trials=25),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)
