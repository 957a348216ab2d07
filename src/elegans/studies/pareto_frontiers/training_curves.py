"""How single networks learn (figure 1, right): error on the sample and on held-out examples, against steps.

The paper's boxed cells cannot be read, nor their (n, k): (50, 3) here, and cells that stand for what its text tells:
too few examples; grokking, with both initialisations; a network too narrow for its sample; examples in plenty.
"""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.experiments.tables import error_courses, grokking
from elegans.plots import error_curves, figure_of
from elegans.probes import Probe, TestError, TrainError
from elegans.studies.pareto_frontiers.success_frontier import trial
from elegans.sweeps import Sweep, grid
from elegans.training import Trial

CELLS = (
    ("dense", 1000, 300),
    ("dense", 1000, 1000),
    ("dense", 100, 1000),
    ("dense", 1000, 10_000),
    ("sparse:2", 1000, 300),
    ("sparse:2", 1000, 700),
    ("sparse:2", 100, 1000),
    ("sparse:2", 1000, 10_000),
)
"""Initialisation, width and sample size of each panel."""


def boxes(base: Trial, cells: tuple[tuple[str, int, int], ...], trials: int) -> Sweep:
    """Return the trials of each panel; none stops when it is solved."""
    base = base.replace("training.stopping.stop", False)
    parts = [
        grid(base, {"model.init": [init], "model.width": [width], "regime": [f"sample:{size}"]}, seeds=trials)
        for init, width, size in cells
    ]
    return sum(parts[1:], start=parts[0])


def smoke(trials: int) -> Sweep:
    """Return two panels of (30, 3)."""
    return boxes(trial(n=30, k=3, steps=2000, every=100), (("dense", 300, 700), ("sparse:2", 300, 700)), trials)


def laptop(trials: int) -> Sweep:
    """Return all panels, with 20000 steps."""
    return boxes(trial(n=50, k=3, steps=20_000, every=100), CELLS, trials)


def paper(trials: int) -> Sweep:
    """Return all panels, with the paper's steps."""
    return boxes(trial(n=50, k=3, steps=100_000, every=250), CELLS, trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the two errors, measured whenever success is checked."""
    assert one.training is not None
    every = one.training.stopping.every
    return TrainError(every=every), TestError(every=every)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial and measured step: both errors, and the trial's grokking delay (see ``findings``)."""
    return error_courses(trials, ("task.n", "task.k", "model.init", "model.width", "regime.size", "seed"))


def plot(table: pd.DataFrame) -> Figure:
    """Draw a panel a cell, dense networks above sparse ones."""
    return figure_of(error_curves(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return each cell's grokking delay: from a train error of at most 1% to a test error of at most 10%, in steps.

    Medians, with order-statistic intervals, over the trials that fitted their sample: the delay of one that had not
    generalised at the end of its training is censored, and counts as infinite. ``test_error_when_fitted`` is the
    median test error when the sample is fitted.
    """
    found = {}
    for (init, width, size), rows in table.groupby(["model.init", "model.width", "regime.size"]):
        found[f"{init}, width {width}, {size:.0f} examples"] = grokking(rows)
    return found


EXPERIMENT = Experiment(
    name="training-curves",
    shows="How single networks learn: some fit their sample thousands of steps before they generalise (grokking)",
    source="figure 1 (right)",
    scales={
        "smoke": Scale(smoke, trials=3, time="about 3 seconds"),
        "laptop": Scale(laptop, trials=10, time="about a minute on 2 cores with AVX-512"),
        "paper": Scale(paper, trials=10, time="about 10 minutes on 2 cores with AVX-512"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
