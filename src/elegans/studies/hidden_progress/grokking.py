"""Finite samples: grokking, and what weight decay does to it (figures 5.4, right, and B.11).

ReLU networks of width 100 on a fixed sample of m examples, passed over many times. The source names neither (n, k) nor
m nor the weight decays: here they are (30, 3) and values around those at which things change. Minibatches are drawn
with replacement, and decay is a part of the gradient; the thesis shrinks the parameters themselves by 1 - lambda, which
is the same with lambda = learning rate x weight decay (``SGD(decay="parameters")``).
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.experiments.tables import error_courses, grokking
from elegans.plots import error_grid, figure_of
from elegans.probes import Probe, TestError, TrainError
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.settings import configuration
from elegans.sweeps import Sweep, grid
from elegans.training import Trial

SOLVED = 0.01
"""The test error at which a trial counts as solved: without decay many networks stay a little short of 0."""
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
        trials: how many trials a cell.
        steps: how many steps.
        every: how many steps lie between two measurements.
    """
    base = configuration("ii", n, k, learning_rate=0.1, steps=steps)
    base = base.replace("training.stopping", StoppingRule(error=SOLVED, examples=8192, every=every, stop=False))
    axes = {"training.weight_decay": decays, "regime": [f"sample:{size}" for size in sizes]}
    return grid(base, axes, seeds=trials)


def smoke(trials: int) -> Sweep:
    """Return two sizes and two decays at (15, 3)."""
    return samples(15, 3, (1000, 150), (0.0, 0.01), trials, steps=3000, every=100)


def laptop(trials: int) -> Sweep:
    """Return five sizes and five decays at (30, 3)."""
    return samples(30, 3, (5000, 2000, 1000, 500, 300), (0.0, 0.001, 0.01, 0.03, 0.1), trials, steps=30_000, every=100)


def paper(trials: int) -> Sweep:
    """Return a finer grid at (50, 3) with ten times the steps."""
    sizes = (20_000, 10_000, 5000, 2000, 1500, 1000, 700, 500, 300)
    return samples(50, 3, sizes, (0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1), trials, steps=300_000, every=500)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the two errors, measured whenever success is checked."""
    success = one.stopping
    return TrainError(every=success.every), TestError(every=success.every, examples=success.examples)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial and measured step: both errors, and the trial's grokking delay."""
    return error_courses(trials, NAMES, test=SOLVED)


def plot(table: pd.DataFrame) -> Figure:
    """Draw a panel a sample size and decay, sizes falling from left to right."""
    axes = error_grid(table, row="training.weight_decay", column="regime.size", solved=SOLVED)
    return figure_of(axes)


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return each cell's times and grokking delay, and from which sample size on each decay solves at least half.

    A sample is fitted at a train error of at most 1%, and a trial solved at a test error of at most 1%.
    """
    found: dict[str, Any] = {}
    least: dict[str, int | None] = {}
    for decay, rows in table.groupby("training.weight_decay"):
        cells = {size: grokking(rows[rows["regime.size"] == size]) for size in sorted(set(rows["regime.size"]))}
        found |= {f"weight decay {decay:g}, {size} examples": cell for size, cell in cells.items()}
        enough = [size for size, cell in cells.items() if 2 * cell["solved"] >= cell["trials"]]
        least[f"{decay:g}"] = int(min(enough)) if enough else None
    return {"half_solved_from": least, "cells": found}


EXPERIMENT = Experiment(
    name="grokking",
    shows="Networks that fit a sample may generalise long after, and weight decay widens the samples that suffice",
    source="figures 5.4 (right) and B.11",
    scales={
        "smoke": Scale(smoke, trials=3, time="about 3 seconds"),
        "laptop": Scale(laptop, trials=10, time="about a minute on 2 cores with AVX-512"),
        "paper": Scale(paper, trials=25, time="about 3 hours on 2 cores with AVX-512"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
