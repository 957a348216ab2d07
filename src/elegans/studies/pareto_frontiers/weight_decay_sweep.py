"""How the transitions move with weight decay, at two widths and with both initialisations."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Tables, one_table
from elegans.studies.pareto_frontiers.plots import half_solved_from, success_and_time, timed_cells
from elegans.studies.pareto_frontiers.settings import INITS, regimes, trial
from elegans.sweeps import Sweep, grid
from elegans.training import Trial

DECAYS = (0.0, 0.001, 0.003, 0.01, 0.03)


def rows(base: Trial, sizes: Sequence[int], widths: Sequence[int], trials: int) -> Sweep:
    """Return sample sizes, online last, for each weight decay, width and initialisation."""
    axes = {
        "regime": regimes(sizes),
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


def plot(tables: Tables) -> Figure:
    """Draw one row of panels for each network, one curve for each weight decay."""
    return success_and_time(tables["table"], curve="training.weight_decay", panel="network")


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each network and decay, the first size at which at least half of the trials were solved."""
    found: dict[str, dict[str, int | None]] = {}
    for network, cells in tables["table"].groupby("network"):
        first = half_solved_from(cells, "training.weight_decay")
        found[str(network)] = {f"{decay:g}": int(first[decay]) if decay in first else None for decay in DECAYS}
    return {"half_solved_from": found}


EXPERIMENT = Experiment(
    name="weight-decay-sweep",
    shows="Where the transitions lie depends on weight decay",
    source="section 4 (the location of the transitions)",
    scales={
        "smoke": Scale(smoke, trials=4),
        "laptop": Scale(laptop, trials=10),
        "paper": Scale(paper, trials=50),
    },
    analyse=one_table(timed_cells),
    plot=plot,
    findings=findings,
)
