"""More data can hurt: success over sample size at fixed width (sample-wise double descent).

In rows of the paper's grid success is reached, lost and reached again; it names n = 200. Here the cells are (100, 3)
with narrow and medium-sized networks, for most of which the number of steps suffices.
"""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import fisher_exact

from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Tables, one_table
from elegans.studies.pareto_frontiers.double_descent_claims import CLAIMS
from elegans.studies.pareto_frontiers.plots import success_and_time, timed_cells
from elegans.studies.pareto_frontiers.rules import STEPS
from elegans.studies.pareto_frontiers.settings import SIZES, regimes, trial
from elegans.sweeps import Sweep, grid

Cells = tuple[tuple[str, int], ...]
CELLS: Cells = (("dense", 10), ("dense", 100), ("dense", 300), ("sparse:2", 100))
DECISIVE: Cells = (("dense", 100), ("sparse:2", 100), ("dense", 300), ("dense", 1000), ("dense", 3000))


def rows(n: int, steps: int, sizes: tuple[int, ...], trials: int, every: int = 200, cells: Cells = CELLS) -> Sweep:
    """Return all sample sizes, in the order in which they run, and online for each network."""
    base = trial(n, 3, steps, every)
    parts = [
        grid(base, {"model.init": [init], "model.width": [width], "regime": [regime]}, seeds=trials)
        for regime in regimes(sizes)
        for init, width in cells
    ]
    return sum(parts, Sweep(()))


def smoke(trials: int) -> Sweep:
    """Return three sizes of (30, 3)."""
    return rows(30, 2000, (1000, 10_000), trials)


def laptop(trials: int) -> Sweep:
    """Return (100, 3) with 60000 steps."""
    return rows(100, 60_000, (10_000, 100_000, 3000, 30_000, 6000, 2000, 1000), trials)


def part(trials: int) -> Sweep:
    """Return the cells of (100, 3) that decide most claims, and a narrow network on (50, 3), with all steps."""
    wide = rows(100, STEPS, (10_000, 100_000), trials, every=250, cells=DECISIVE)
    return wide + rows(50, STEPS, (10_000, 100_000), trials, every=250, cells=(("sparse:2", 30),))


def paper(trials: int) -> Sweep:
    """Return (200, 3) on the paper's sizes with all its steps."""
    return rows(200, STEPS, SIZES[4:], trials, every=250)


def summarise(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell; the network's name includes the task where there are several."""
    found = timed_cells(trials)
    task = ", n = " + found["task.n"].astype(str)
    return found.assign(network=found["network"] + task) if found["task.n"].nunique() > 1 else found


def plot(tables: Tables) -> Figure:
    """Draw one curve per network."""
    return success_and_time(tables["table"], curve="network")


def findings(tables: Tables) -> dict[str, Any]:
    """Return each network's best fixed sample, the worst larger one, and online: rates with Wilson 95% intervals.

    ``p`` are one-sided exact tests (Fisher) that the success rate at 100000 examples is below that at 10000, and below
    online. The best and the worst are chosen after the fact; the claim's own sizes are given too.
    """
    found: dict[str, dict[str, Any]] = {}
    for network, cells in tables["table"].groupby("network"):
        size = cells["regime.size"]
        fixed = cells.dropna(subset=["regime.size"])
        best = fixed.iloc[int(fixed["rate"].argmax())]
        larger = fixed[fixed["regime.size"] > best["regime.size"]]
        own = {f"{one}": cells[size == one].iloc[0] for one in (10_000, 100_000) if (size == one).any()}
        chosen = {"best": best, "online": cells[size.isna()].iloc[0], **own}
        if len(larger):
            chosen["worst_larger"] = larger.iloc[int(larger["rate"].argmin())]
        found[str(network)] = {name: _stated(cell) for name, cell in chosen.items()}
        if len(own) == 2:
            few, many = own.values()
            found[str(network)] |= {
                "p_100000_below_10000": _below(many, few),
                "p_100000_below_online": _below(many, chosen["online"]),
            }
    return found


def _stated(cell: pd.Series) -> dict[str, Any]:
    median = cell["median_steps"]
    return {
        "regime": cell["regime"],
        "solved": int(cell["solved"]),
        "trials": int(cell["trials"]),
        "rate_low": round(cell["low"], 4),
        "rate_high": round(cell["high"], 4),
        "median_steps": None if pd.isna(median) else float(median),
    }


def _below(one: pd.Series, other: pd.Series) -> float:
    """Return the one-sided p-value of Fisher's exact test that the first success rate is lower."""
    counts = [[cell["solved"], cell["trials"] - cell["solved"]] for cell in (one, other)]
    return float(f"{fisher_exact(counts, alternative='less').pvalue:.2g}")


EXPERIMENT = Experiment(
    name="double-descent",
    shows="More examples can hurt: success is reached, lost and reached again as the sample grows",
    source="section 4 and figure 4",
    scales={
        "smoke": Scale(smoke, trials=4),
        "laptop": Scale(laptop, trials=20),
        "part": Scale(part, trials=50, part="five networks on (100, 3), one on (50, 3): two sample sizes and online"),
        "paper": Scale(paper, trials=50, part="(200, 3), four networks"),
    },
    analyse=one_table(summarise),
    plot=plot,
    findings=findings,
    claims=CLAIMS,
)
