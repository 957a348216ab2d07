"""Finite samples: grokking, and what weight decay does to it (figures 5.4, right, and B.11).

ReLU networks of width 100 on a fixed sample of m examples, passed over many times. The source names neither (n, k) nor
m nor the weight decays: here they are (30, 3) and values around those at which things change. Minibatches are drawn
with replacement, and weight decay is a part of the gradient; the thesis shrinks the parameters themselves by
1 - lambda, which is the same with lambda = learning rate x weight decay (``SGD(decay="parameters")``).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from elegans.analysis import error_courses, grokking_summary
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.plots import error_lines
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, panels
from elegans.probes import Probe, TestError, TrainError
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.grokking_claims import CLAIMS
from elegans.studies.hidden_progress.settings import configuration
from elegans.sweeps import Sweep, grid
from elegans.training import Trial

SOLVED = 0.01
"""The test error at which a trial counts as solved: without weight decay many networks stay a little short of 0."""
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


def smoke(trials: int) -> Sweep:
    """Return two sizes and two weight decays at (15, 3)."""
    return samples(15, 3, (1000, 150), (0.0, 0.01), trials, steps=3000, every=100)


def laptop(trials: int) -> Sweep:
    """Return five sizes and five weight decays at (30, 3)."""
    return samples(30, 3, (5000, 2000, 1000, 500, 300), (0.0, 0.001, 0.01, 0.03, 0.1), trials, steps=30_000, every=100)


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
    return TrainError(every=rule.every), TestError(every=rule.every, examples=rule.examples)


def analyse(results: Results) -> Tables:
    """Return both errors of every network at every measured step, and its grokking delay."""
    return {"table": error_courses(results.trials, results.measures, NAMES, test=SOLVED)}


def plot(tables: Tables) -> Figure:
    """Draw train (grey) and test errors, one panel per sample size and weight decay, sizes falling to the right."""
    table = tables["table"]
    decays = sorted(table["training.weight_decay"].unique())
    sizes = sorted(table["regime.size"].unique(), reverse=True)
    height, width = 1.15 + 0.6 / len(decays), max(1.35 * len(sizes) + 0.5, 4.5)
    figure, drawn = panels(len(decays), len(sizes), height=height, width=width, sharex=True, sharey=True)
    cells = table.groupby(["training.weight_decay", "regime.size"])
    for (row, column), ax in np.ndenumerate(drawn):
        if (decays[row], sizes[column]) not in cells.groups:
            ax.set_axis_off()
            continue
        cell = cells.get_group((decays[row], sizes[column]))
        error_lines(ax, cell, COLOURS[0], SOLVED)
        last = cell.groupby("seed").last()
        count = f"{last['test_at'].notna().sum()}/{len(last)}"
        ax.text(0.03, 0.06, count, transform=ax.transAxes, fontsize=SMALL, color=GREY)
    for ax, size in zip(drawn[0], sizes, strict=True):
        ax.set_title(f"m = {size:,.0f}", loc="left", fontsize=MEDIUM)
    for ax, decay in zip(drawn[:, 0], decays, strict=True):
        ax.set_ylabel(f"weight decay = {decay:g}\nerror", fontsize=SMALL)
    for ax in drawn[-1]:
        ax.set_xlabel("steps", fontsize=MEDIUM)
    drawn[0, -1].legend(fontsize=SMALL, frameon=False, loc="center right")
    note = (
        f"{cells['seed'].nunique().min()} networks per panel. Numbers: how many reached a test error of "
        f"{100 * SOLVED:g}% (dotted)."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    return figure


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
    shows="Networks that fit a sample may generalise long after, and weight decay widens the samples that suffice",
    source="figures 5.4 (right) and B.11",
    scales={
        "smoke": Scale(smoke, trials=3),
        "laptop": Scale(laptop, trials=10),
        "part": Scale(part, trials=60, part="(30, 3), which the source does not name, and 30,000 steps"),
        "paper": Scale(paper, trials=25),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)
