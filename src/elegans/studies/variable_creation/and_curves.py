"""Above and below the threshold of conjunctions: training comes to 100% either way, held-out accuracy does not.

Of each replicate, a support with a sample, the start is shown that comes to the highest held-out accuracy.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import wilson
from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.probes import Probe, TestError, TrainError
from elegans.studies.variable_creation.plots import accuracy_curves
from elegans.studies.variable_creation.settings import conjunction
from elegans.sweeps import Sweep, grid
from elegans.training import Trial
from elegans.training.outcome import FINISHED

SOLVED = 0.99
"""The held-out accuracy above which a network has found the conjunction: another is right on 0.8 at the most."""


def replicates(n: int, sizes: tuple[int, ...], starts: int, steps: int, every: int, trials: int) -> Sweep:
    """Return all starts of each replicate, each trained to the end.

    Args:
        n: the number of bits.
        sizes: the numbers of examples.
        starts: how many starts a replicate has.
        steps: how many steps a start has.
        every: how many steps lie between two looks at accuracies.
        trials: how many replicates.
    """
    cells = [conjunction(n, size, steps=steps, every=every, stop=False) for size in sizes]
    parts = [grid(cell, {"restart": range(starts)}, seeds=trials) for cell in cells]
    return Sweep(tuple(part for sweep in parts for part in sweep.parts))


def smoke(trials: int) -> Sweep:
    """Return few steps with 20 bits."""
    return replicates(20, (60, 10), 2, 100, 20, trials)


def laptop(trials: int) -> Sweep:
    """Return the published sizes, with three starts and half of the steps."""
    return replicates(300, (200, 50), 3, 500, 20, trials)


def paper(trials: int) -> Sweep:
    """Return the published curves."""
    return replicates(300, (200, 50), 5, 1000, 10, trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the looks at held-out and training accuracy, as often as success is checked."""
    return TestError(every=one.stopping.every), TrainError(every=one.stopping.every)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each look at the best start of each replicate.

    Columns: ``n``, ``m``, ``seed``, ``start``, ``step``, ``held_out`` and ``training``, the accuracies, and, the same
    in all rows of a replicate, ``best``, the highest held-out accuracy, and ``loss``, the mean minibatch loss of the
    last steps.
    """
    ended = trials[trials["state"].isin(FINISHED)]
    runs = [_run(row) for row in ended.to_dict("records")]
    best: dict[tuple[int, int], pd.DataFrame] = {}
    for key, run in runs:
        if key not in best or run["best"].iloc[0] > best[key]["best"].iloc[0]:
            best[key] = run
    return pd.concat(list(best.values()), ignore_index=True)


def _run(row: Mapping[Any, Any]) -> tuple[tuple[int, int], pd.DataFrame]:
    outcome = row["outcome"]
    held_out, training = outcome.measures["test-error"], outcome.measures["train-error"]
    accuracy = 1 - np.asarray(held_out["error"], float)
    size, seed = int(row["regime.size"]), int(row["seed"])
    columns = {
        "n": int(row["task.n"]),
        "m": size,
        "seed": seed,
        "start": int(row["restart"]),
        "step": held_out["step"],
        "held_out": accuracy,
        "training": 1 - np.asarray(training["error"], float),
        "best": accuracy.max(),
        "loss": outcome.curve.loss[-1],
    }
    return (size, seed), pd.DataFrame(columns)


def plot(table: pd.DataFrame) -> Figure:
    """Draw held-out and training accuracy against steps, a curve a replicate."""
    return figure_of(accuracy_curves(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each number of examples, how many replicates generalise, and how their accuracies are spread.

    Rates have 95% Wilson intervals; ``held_out`` and ``loss`` are least, median and largest at the end, ``best`` those
    of the highest held-out accuracies.
    """
    found = {}
    for size, rows in table.groupby("m", sort=False):
        last = rows.groupby("seed").last()
        solved, fitted = int((last["best"] > SOLVED).sum()), int((rows.groupby("seed")["training"].max() == 1).sum())
        found[str(size)] = {
            "replicates": len(last),
            "generalise": solved,
            "interval": [round(end, 3) for end in wilson(solved, len(last))],
            "all_of_the_sample_right": fitted,
            "all_of_the_sample_right_at_the_end": int((last["training"] == 1).sum()),
            "best": _spread(last["best"]),
            "held_out": _spread(last["held_out"]),
            "loss": _spread(last["loss"], 6),
        }
    return found


def _spread(values: "pd.Series[float]", digits: int = 4) -> list[float]:
    return [round(float(value), digits) for value in (values.min(), values.median(), values.max())]


EXPERIMENT = Experiment(
    name="and-curves",
    shows="With 200 examples of 300 bits transformers find the conjunction, with 50 they fit the sample alone",
    source="figure 4.3 (left) and appendix A.3.1",
    scales={
        "smoke": Scale(smoke, trials=2, time="about 3 seconds"),
        "laptop": Scale(laptop, trials=10, time="about 10 minutes on 2 cores with AVX-512"),
        "paper": Scale(paper, trials=40, time="about an hour on 2 cores with AVX-512"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
    partial=True,
)
