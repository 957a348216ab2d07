"""The robust space: SGD learns sparse parities with nearly every network, loss, batch size and initialisation.

The criterion of the thesis (section 5.3.1): a cell holds where, with the best learning rate of the grid, at least a
fifth of the trials are solved. Tables B.3 to B.5 give the 10th percentile of the time, the share of trials solved and a
coarse exponent alpha, the smallest with t(n) <= t(n_0) (n - 9)^alpha at all n, where n_0 = 10 is the smallest n.

The laptop scale is a reduced grid: two of the four learning rates, those that suit the configuration; two n, two k and
three batch sizes; and 20000 steps in the place of 100000.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.studies.hidden_progress.plot_robust import robust_space
from elegans.studies.hidden_progress.settings import CONFIGURATIONS, configuration
from elegans.studies.hidden_progress.tables import finite, identified, timed
from elegans.sweeps import Sweep

ROBUST = tuple(CONFIGURATIONS)[:15]
"""The configurations (i) to (xv), for which the thesis claims the criterion at every batch size."""
LOSSES = ("hinge", "square", "logistic")
INITS = ("dense", "gaussian", "bernoulli")
GRID_RATES = (1.0, 0.1, 0.01, 0.001)
LEAST = 0.2
"""The share of trials that have to be solved in a cell that holds."""
FIRST = 9
"""The n_0 of the coarse exponent."""
CELL = ("configuration", "network", "task.k", "task.n", "training.batch_size", "model.init", "training.loss")
"""What makes a cell of the criterion: everything but learning rate and seed."""


@dataclass(frozen=True)
class Space:
    """A grid of the robust space.

    Args:
        rates: the learning rates of each configuration.
        sizes: the numbers n of signs.
        degrees: the sizes k of the parity.
        batches: the batch sizes.
        inits: the initialisations.
        losses: the losses.
        steps: after how many steps a trial is given up.
    """

    rates: Mapping[str, Sequence[float]]
    sizes: Sequence[int]
    degrees: Sequence[int]
    batches: Sequence[int]
    inits: Sequence[str] = INITS
    losses: Sequence[str] = LOSSES
    steps: int = 100_000

    def sweep(self, trials: int) -> Sweep:
        """Return the grid, with what the figure shows first: hinge loss and uniform initialisation."""
        kinds = sorted(product(self.losses, self.inits), key=lambda kind: kind != ("hinge", "dense"))
        cells = [
            configuration(name, n, k, batch_size=batch, learning_rate=rate, loss=loss, init=init, steps=self.steps)
            for loss, init in kinds
            for n, k, batch in product(self.sizes, self.degrees, self.batches)
            for name, rates in self.rates.items()
            for rate in rates
        ]
        seeds = range(trials)
        return Sweep(tuple((cell, seeds) for cell in cells))


RATES = {**dict.fromkeys(ROBUST, (0.1, 0.01)), "v": (0.01, 0.001), "vi": (0.01, 0.001)}
"""The two learning rates of the grid that suit each configuration."""

SMOKE = Space(
    {name: RATES[name] for name in ("i", "ii", "xiv", "xv")}, (10, 14), (2, 3), (16,), ("dense",), ("hinge",), 3000
)
LAPTOP = Space(RATES, (10, 20), (2, 3), (1, 16, 256), steps=20_000)
PAPER = Space(dict.fromkeys(ROBUST, GRID_RATES), (10, 20, 30), (2, 3, 4), tuple(2**power for power in range(11)))


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a cell and learning rate: how often, how fast; which rate is ``best``; whether the cell ``holds``.

    The best learning rate of a cell is that with which most trials are solved, and of those the fastest by the 10th
    percentile. ``alpha`` is the coarse exponent over the n of the cell's line, at the best learning rate of each n (NaN
    where fewer than a tenth of the trials are solved at some n).
    """
    found = timed(identified(trials), (*CELL, "training.learning_rate"))
    order = found.assign(tenth=found["tenth"].fillna(np.inf)).sort_values(["rate", "tenth"], ascending=[False, True])
    best = order.groupby(list(CELL), sort=False).head(1).index
    found = found.assign(best=found.index.isin(best))
    rate = found.groupby(list(CELL))["rate"].transform("max")
    found = found.assign(holds=rate >= LEAST)
    line = [name for name in CELL if name != "task.n"]
    alphas = [(*key, _alpha(cells)) for key, cells in found[found["best"]].groupby(line, sort=False)]
    return found.merge(pd.DataFrame(alphas, columns=[*line, "alpha"]), on=line, how="left")


def _alpha(cells: pd.DataFrame) -> float:
    """Return the smallest alpha with t(n) <= t(n_0) ((n - 9) / (n_0 - 9))^alpha, and at least 0."""
    cells = cells.sort_values("task.n")
    size, time = cells["task.n"].to_numpy(float) - FIRST, cells["tenth"].to_numpy(float)
    if len(cells) < 2 or size[0] <= 0 or not np.isfinite(time).all():
        return np.nan
    return max(0.0, float((np.log(time[1:] / time[0]) / np.log(size[1:] / size[0])).max()))


def plot(table: pd.DataFrame) -> Figure:
    """Draw the tables of hinge loss and uniform initialisation, and how many losses and initialisations hold."""
    return figure_of(robust_space(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return how many cells hold, of all and of each configuration; which fail; and the coarse exponents.

    Exponents are those of hinge loss and uniform initialisation, by k and batch size.
    """
    cells = table[table["best"]]
    failing = cells[~cells["holds"]]
    plain = cells[(cells["training.loss"] == "hinge") & (cells["model.init"] == "dense")]
    return {
        "cells": len(cells),
        "hold": int(cells["holds"].sum()),
        "by_configuration": {
            str(name): {"cells": len(rows), "hold": int(rows["holds"].sum())}
            for name, rows in cells.groupby("configuration", sort=False)
        },
        "failing": [_named(row) for _, row in failing.iterrows()],
        "alpha": {
            str(name): {f"k = {k}, B = {batch}": finite(own["alpha"].iloc[0], 2) for (k, batch), own in _lines(rows)}
            for name, rows in plain.groupby("configuration", sort=False)
        },
    }


def _lines(rows: pd.DataFrame) -> Any:
    return rows.groupby(["task.k", "training.batch_size"])


def _named(row: pd.Series) -> str:
    return (
        f"({row['configuration']}) n={row['task.n']} k={row['task.k']} B={row['training.batch_size']} "
        f"{row['model.init']} {row['training.loss']}: {row['solved']} of {row['trials']}"
    )


EXPERIMENT = Experiment(
    name="robust-space",
    shows="Nearly every network, loss, batch size and initialisation learns sparse parities by SGD",
    source="section 5.3.1 and figures B.3 to B.5",
    scales={
        "smoke": Scale(SMOKE.sweep, trials=2, time="about 5 seconds"),
        "laptop": Scale(LAPTOP.sweep, trials=5, time="about 5 minutes on 2 cores with AVX-512"),
        "paper": Scale(PAPER.sweep, trials=25, time="weeks on 2 cores with AVX-512"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
)
