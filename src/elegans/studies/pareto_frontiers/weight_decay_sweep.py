"""How the transitions move with weight decay, at two widths and with both initialisations."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.experiments.tables import timed_cells
from elegans.plots import figure_of
from elegans.studies.pareto_frontiers.plots import success_and_time
from elegans.studies.pareto_frontiers.success_frontier import INITS, trial
from elegans.sweeps import Sweep, grid
from elegans.training import Trial

DECAYS = (0.0, 0.001, 0.003, 0.01, 0.03)


def rows(base: Trial, sizes: Sequence[int], widths: Sequence[int], trials: int) -> Sweep:
    """Return a row of sample sizes, online last, for each weight decay, width and initialisation."""
    axes = {
        "regime": [*(f"sample:{size}" for size in sizes), "online"],
        "training.weight_decay": DECAYS,
        "model.width": widths,
        "model.init": INITS,
    }
    return grid(base, axes, seeds=trials)


def smoke(trials: int) -> Sweep:
    """Return two sizes of (30, 3)."""
    return rows(trial(n=30, k=3, steps=1600), (1000, 3000), (30,), trials)


def laptop(trials: int) -> Sweep:
    """Return (50, 3) at widths 30 and 300."""
    sizes = (1000, 600, 2000, 800, 1500, 3000, 10_000, 30_000)
    return rows(trial(n=50, k=3, steps=20_000), sizes, (30, 300), trials)


def paper(trials: int) -> Sweep:
    """Return (50, 3) at four widths with all steps."""
    sizes = (300, 600, 800, 1000, 1500, 2000, 3000, 6000, 10_000, 30_000, 100_000)
    return rows(trial(n=50, k=3, steps=100_000, every=250), sizes, (30, 100, 300, 1000), trials)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a cell, with the network of each in words."""
    found = timed_cells(trials)
    names = found["model.init"].str.partition(":")[0]
    return found.assign(network=names + ", width " + found["model.width"].astype(str))


def plot(table: pd.DataFrame) -> Figure:
    """Draw one row of panels a network, one curve a weight decay."""
    return figure_of(success_and_time(table, curve="training.weight_decay", panel="network"))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each network and decay, the first size at which at least half of the trials were solved."""
    half = table[table["rate"] >= 0.5].dropna(subset=["regime.size"])
    found: dict[str, dict[str, int | None]] = {}
    for network in sorted(table["network"].unique()):
        sizes = half[half["network"] == network].groupby("training.weight_decay")["regime.size"].min()
        found[network] = {f"{decay:g}": int(sizes[decay]) if decay in sizes else None for decay in DECAYS}
    return {"half_solved_from": found}


EXPERIMENT = Experiment(
    name="weight-decay-sweep",
    shows="Where the transitions lie depends on weight decay",
    source="section 4 (the location of the transitions)",
    scales={
        "smoke": Scale(smoke, trials=4, time="about 4 seconds"),
        "laptop": Scale(laptop, trials=10, time="about 2 minutes on 2 cores with AVX-512"),
        "paper": Scale(paper, trials=50, time="about a day on 2 cores with AVX-512"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
)
