"""The XOR with batches smaller than the theorem's, down to single examples, and with full batches of a fixed sample.

The step size is 0.05 m / d, at most 0.1, so that small batches average gradients over as many examples.
"""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median
from elegans.experiments import Experiment, Results, Scale, Tables, summary_by
from elegans.plots.marks import dots
from elegans.plots.style import COLOURS, figure_legend, logarithmic, panels, title_figure
from elegans.studies.xor_two_phases.settings import LEARNING_RATE, UNPUBLISHED, dimension_axis, trial
from elegans.sweeps import Sweep
from elegans.tasks import XOR, Sample
from elegans.training import Trial
from elegans.training.states import FINISHED

SHARES = {"m = 1": 0.0, "m = d/8": 1 / 8, "m = d/2": 1 / 2, "m = 2d": 2.0, "m = 10d": 10.0}
"""Batches in units of d; 0 stands for single examples."""
SETS = (2, 8, 32)
"""The factors K of fixed sets of K d log d examples."""
TIME = 30
DIMENSIONS = (32, 64, 128, 256)
SEED = 0


def runs(dimensions: Sequence[int], trials: int, sets: Sequence[int] = SETS) -> Sweep:
    """Return fresh batches of each size, and full batches of fixed sets, for each dimension."""
    cells = []
    for n in dimensions:
        cells += [online(n, max(1, round(share * n))) for share in SHARES.values()]
        cells += [fixed(n, round(K * n * math.log(n))) for K in sets]
    return Sweep.of(cells, trials)


def online(n: int, batch: int) -> Trial:
    """Return a run on fresh batches that ends when 1% of the held-out examples are wrong, or at eta t = 30."""
    rate = min(LEARNING_RATE, 0.05 * batch / n)
    steps = math.ceil(TIME / rate)
    every = max(1, steps // 150)
    return trial(XOR(n=n), width=128, batch_size=batch, steps=steps, every=every, rate=rate, stop=True)


def fixed(n: int, count: int) -> Trial:
    """Return full-batch descent on a fixed set, up to eta t = 30."""
    one = trial(XOR(n=n), width=128, batch_size=count, steps=round(TIME / LEARNING_RATE), every=10, stop=True)
    return one.replace("regime", Sample(count)).replace("training.batches", "epochs")


def analyse(results: Results) -> Tables:
    """Return one row per trial: ``arm``, ``task.n``, ``examples`` to an error of 1% (NaN if it is not reached)."""
    ended = results.trials[results.trials["state"].isin(FINISHED)]
    fresh, size = ended["regime"] == "online", ended["training.batch_size"].astype(int)
    steps = ended["solved_at"].astype(float)
    sets = steps.where(fresh | steps.isna(), 1.0)  # a fixed set is drawn once
    arms = [_arm(*row) for row in zip(ended["task.n"].astype(int), size, fresh, strict=True)]
    columns = {"arm": arms, "task.n": ended["task.n"].astype(int), "seed": ended["seed"], "examples": sets * size}
    return {"table": pd.DataFrame(columns).reset_index(drop=True)}


def _arm(n: int, size: int, fresh: bool) -> str:
    if not fresh:
        return f"fixed, K = {size / (n * math.log(n)):.0f}"
    return next(name for name, share in SHARES.items() if max(1, round(share * n)) == size)


def plot(tables: Tables) -> Figure:
    """Draw the examples to an error of 1% against the dimension, one dot per trial, one colour per batch size."""
    figure, ((ax,),) = panels(1, 1, height=3.0, width=6.0)
    rows = tables["table"]
    dimension_axis(ax, sorted(rows["task.n"].unique()))
    for number, (arm, runs) in enumerate(rows[rows["arm"].isin(SHARES)].groupby("arm", sort=False)):
        shift = 0.1 * (number - len(SHARES) // 2)
        dots(ax, runs["task.n"], runs["examples"], COLOURS[number], spread=0.07, shift=shift, label=str(arm))
    ax.set_ylabel("examples to an error of 1%")
    logarithmic(ax)
    title_figure(
        figure,
        "Batches of up to 2d need no more examples than single examples; 10d need more",
        "XOR of two of d signs; ReLU network with 128 neurons, SGD on m fresh examples per step; one dot per run",
    )
    figure_legend(figure, ax, columns=5)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return for each arm and dimension how many runs reach an error of 1%, and from how many examples."""
    return summary_by(
        tables["table"],
        ["arm", "task.n"],
        "{}, d = {}",
        solved=lambda runs: f"{int(runs['examples'].notna().sum())} of {len(runs)}",
        examples=lambda runs: finite_or_none(median(runs["examples"].to_numpy(float)), 4),
    )


EXPERIMENT = Experiment(
    name="xor-batches",
    shows="SGD learns the XOR from single examples and from fixed samples; the analysis covers neither",
    source="section 5, no figure",
    scales={
        "smoke": Scale(lambda trials: runs((12,), trials, SETS[:1]), trials=1),
        "laptop": Scale(lambda trials: runs((16, 32, 64), trials), trials=5),
        "paper": Scale(lambda trials: runs(DIMENSIONS, trials), trials=10, part=UNPUBLISHED),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
)
