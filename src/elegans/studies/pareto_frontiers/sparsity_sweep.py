"""How sparse an initialisation should be: one to eight non-zero weights per neuron.

The paper found two to be best for widths of 1000 and more in a coarse search, and leaves it unexplained.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Tables, one_table
from elegans.studies.pareto_frontiers.plots import success_and_time, timed_cells
from elegans.studies.pareto_frontiers.settings import trial
from elegans.sweeps import Sweep, grid

NONZEROS = (1, 2, 3, 4, 8)


def columns(n: int, sample: int, widths: Sequence[int], steps: int, trials: int) -> Sweep:
    """Return every number of non-zeros, and the dense initialisation, at each width."""
    base = trial(n, 3, steps).replace("regime", f"sample:{sample}")
    inits = [*(f"sparse:{nonzeros}" for nonzeros in NONZEROS), "dense"]
    return grid(base, {"model.init": inits, "model.width": widths}, seeds=trials)


def smoke(trials: int) -> Sweep:
    """Return (30, 3) at one width."""
    return columns(30, 1000, (100,), 1600, trials)


def laptop(trials: int) -> Sweep:
    """Return (50, 3) with 1000 examples, at widths 100 to 1000."""
    return columns(50, 1000, (100, 300, 1000), 20_000, trials)


def paper(trials: int) -> Sweep:
    """Return (50, 3) with 1000 examples, wide and with all steps."""
    return columns(50, 1000, (300, 1000, 3000, 10_000), 100_000, trials)


def summarise(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell, with the number of non-zeros (none for the dense initialisation)."""
    found = timed_cells(trials)
    nonzeros = pd.to_numeric(found["model.init"].str.partition(":")[2], errors="coerce")
    return found.assign(**{"model.init.nonzeros": nonzeros})


def plot(tables: Tables) -> Figure:
    """Draw one curve per width."""
    return success_and_time(tables["table"], curve="model.width", x="model.init.nonzeros")


def findings(tables: Tables) -> dict[str, Any]:
    """Return the initialisation with the lowest median time at each width, beside that of two non-zeros."""
    found = {}
    for width, cells in tables["table"].dropna(subset=["median_steps"]).groupby("model.width"):
        fastest = cells.iloc[int(cells["median_steps"].argmin())]
        two = cells[cells["model.init"] == "sparse:2"]
        found[f"width {width}"] = {"fastest": _stated(fastest), "sparse:2": _stated(two.iloc[0]) if len(two) else None}
    return found


def _stated(cell: pd.Series) -> dict[str, Any]:
    high = cell["median_high"]
    interval = [float(cell["median_low"]), float(high) if high < float("inf") else None]
    return {"init": cell["model.init"], "median_steps": float(cell["median_steps"]), "interval": interval}


EXPERIMENT = Experiment(
    name="sparsity-sweep",
    shows="How sparse to begin: wide networks learn fastest from two or so non-zero weights per neuron",
    source="appendix C.1 (choice of the sparse initialisation)",
    scales={
        "smoke": Scale(smoke, trials=4),
        "laptop": Scale(laptop, trials=20),
        "paper": Scale(paper, trials=50),
    },
    analyse=one_table(summarise),
    plot=plot,
    findings=findings,
)
