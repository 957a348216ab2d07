"""More data can hurt: success over sample size at fixed width (sample-wise double descent).

The paper sees success entered, left and entered again along rows of its grid, and names n = 200; here the cells are
(100, 3) with narrow and middling networks, where the number of steps suffices for most.
"""

import math
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import wilson
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.tables import timed_cells
from elegans.plots import figure_of
from elegans.studies.pareto_frontiers.plots import success_and_time
from elegans.studies.pareto_frontiers.success_frontier import SIZES, trial
from elegans.sweeps import Sweep, grid

CELLS = (("dense", 10), ("dense", 100), ("dense", 300), ("sparse:2", 100))


def rows(n: int, steps: int, sizes: tuple[int, ...], trials: int, every: int = 200) -> Sweep:
    """Return a row of sample sizes, online last, for each of the four networks; the sizes in the order of work."""
    base = trial(n, 3, steps, every)
    regimes = [*(f"sample:{size}" for size in sizes), "online"]
    parts = [
        grid(base, {"model.init": [init], "model.width": [width], "regime": [regime]}, seeds=trials)
        for regime in regimes
        for init, width in CELLS
    ]
    return sum(parts[1:], start=parts[0])


def smoke(trials: int) -> Sweep:
    """Return three sizes of (30, 3)."""
    return rows(30, 2000, (1000, 10_000), trials)


def laptop(trials: int) -> Sweep:
    """Return (100, 3) with 60000 steps."""
    return rows(100, 60_000, (10_000, 100_000, 3000, 30_000, 6000, 2000, 1000), trials)


def paper(trials: int) -> Sweep:
    """Return (200, 3) on the paper's sizes with all its steps."""
    return rows(200, 100_000, SIZES[4:], trials, every=250)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a cell, with the network of each in words."""
    found = timed_cells(trials)
    names = {"dense": "dense", "sparse:2": "sparse"}
    network = [
        f"{names[init]}, width {width}" for init, width in zip(found["model.init"], found["model.width"], strict=True)
    ]
    return found.assign(network=network)


def plot(table: pd.DataFrame) -> Figure:
    """Draw one curve a network."""
    return figure_of(success_and_time(table, curve="network"))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return each network's best fixed sample, the worst larger one, and online: rates with Wilson 95% intervals.

    ``p`` are one-sided exact tests (Fisher) that the larger sample is worse than the best one, and than online. The
    best and the worst are chosen after the fact; the claim's own sizes are 10000 and 100000, and are given too.
    """
    found = {}
    for network, cells in table.groupby("network"):
        fixed = cells.dropna(subset=["regime.size"])
        best = fixed.iloc[int(fixed["rate"].argmax())]
        larger = fixed[fixed["regime.size"] > best["regime.size"]]
        online = cells[cells["regime.size"].isna()].iloc[0]
        sizes = {"best": best, "online": online, **{f"{size:.0f}": _at(fixed, size) for size in (10_000, 100_000)}}
        if len(larger):
            sizes["worst_larger"] = larger.iloc[int(larger["rate"].argmin())]
        stated = {name: _stated(cell) for name, cell in sizes.items() if cell is not None}
        found[str(network)] = {**stated, **_tests(sizes)}
    return found


def _at(cells: pd.DataFrame, size: float) -> pd.Series | None:
    here = cells[cells["regime.size"] == size]
    return here.iloc[0] if len(here) else None


def _stated(cell: pd.Series) -> dict[str, Any]:
    low, high = wilson(cell["solved"], cell["trials"])
    median = cell["median_steps"]
    return {
        "regime": cell["regime"],
        "solved": int(cell["solved"]),
        "trials": int(cell["trials"]),
        "rate_low": round(low, 4),
        "rate_high": round(high, 4),
        "median_steps": None if pd.isna(median) else float(median),
    }


def _tests(sizes: dict[str, Any]) -> dict[str, float]:
    """Return the two tests at the claim's own sizes: 100000 below 10000, and 100000 below online."""
    few, many, online = sizes["10000"], sizes["100000"], sizes["online"]
    if few is None or many is None:
        return {}
    return {"p_100000_below_10000": _below(many, few), "p_100000_below_online": _below(many, online)}


def _below(one: pd.Series, other: pd.Series) -> float:
    """Return the one-sided p-value of Fisher's exact test: so few successes of the first, given those of both."""
    few, first, second = int(one["solved"]), int(one["trials"]), int(other["trials"])
    both = few + int(other["solved"])
    ways = sum(
        math.comb(first, count) * math.comb(second, both - count) for count in range(max(0, both - second), few + 1)
    )
    return float(f"{ways / math.comb(first + second, both):.2g}")


EXPERIMENT = Experiment(
    name="double-descent",
    shows="More examples can hurt: success is entered, left and entered again as the sample grows",
    source="section 4 and figure 4",
    scales={
        "smoke": Scale(smoke, trials=4, time="about 3 seconds"),
        "laptop": Scale(laptop, trials=20, time="about 2 minutes on 2 cores with AVX-512"),
        "paper": Scale(paper, trials=50, time="about an hour on 2 cores with AVX-512"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
)
