"""How sparse an initialisation should be: one to eight non-zero weights per neuron.

The paper found two to be best for widths of 1000 and more in a coarse search, and leaves it unexplained.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments import Experiment, InsufficientData, Scale, Tables, Verdict, claim, one_table
from elegans.experiments.claims import FAILS, UNDECIDED
from elegans.experiments.rules import LEVEL, combine, decided, faster, holm, table
from elegans.models import SparseInit
from elegans.studies.pareto_frontiers.plots import success_and_time, timed_cells
from elegans.studies.pareto_frontiers.rules import STEPS, times
from elegans.studies.pareto_frontiers.settings import trial
from elegans.sweeps import Sweep, grid

NONZEROS = (1, 2, 3, 4, 8)
SETTINGS = ((50, 3, 1000), (100, 3, 3000), (50, 4, 1000))
"""n, k and sample size, near the edge at width 1000 (ours): two non-zeros are one fewer than k = 3, two fewer than k =
4."""
TRIALS = 40


def columns(n: int, sample: int, widths: Sequence[int], steps: int, trials: int) -> Sweep:
    """Return every number of non-zeros, and the dense initialisation, at each width."""
    base = trial(n, 3, steps).replace("regime", f"sample:{sample}")
    inits = [*(f"sparse:{nonzeros}" for nonzeros in NONZEROS), "dense"]
    return grid(base, {"model.init": inits, "model.width": widths}, seeds=trials)


def decisive(trials: int) -> Sweep:
    """Return the settings that decide the claim at width 1000; one has non-zeros of 1/sqrt(s) in place of 1."""
    inits: list[Any] = [*(f"sparse:{nonzeros}" for nonzeros in NONZEROS), "dense"]
    scaled = [SparseInit(nonzeros, value=1 / math.sqrt(nonzeros)) for nonzeros in NONZEROS if nonzeros > 1]
    parts = [
        grid(trial(n, k, STEPS).replace("regime", f"sample:{sample}"), {"model.init": inits}, seeds=trials)
        for n, k, sample in SETTINGS
    ]
    base = trial(50, 3, STEPS).replace("regime", "sample:1000")
    return sum([*parts, grid(base, {"model.init": scaled}, seeds=trials)], Sweep(()))


def summarise(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell, with the number of non-zeros (none for the dense initialisation)."""
    found = timed_cells(trials)
    nonzeros = pd.to_numeric(found["model.init"].str.partition(":")[2], errors="coerce")
    return found.assign(**{"model.init.nonzeros": nonzeros})


def plot(tables: Tables) -> Figure:
    """Draw one curve per width, or per task where there are several."""
    cells = tables["table"]
    if cells["task.n"].nunique() == 1:
        return success_and_time(cells, curve="model.width", x="model.init.nonzeros")
    cells = cells[cells["model.init.value"].fillna(1) == 1]
    words = "(" + cells["task.n"].astype(str) + ", " + cells["task.k"].astype(str) + "), "
    words += cells["regime.size"].astype(int).astype(str) + " examples, width " + cells["model.width"].astype(str)
    return success_and_time(cells.assign(problem=words), curve="problem", x="model.init.nonzeros")


def findings(tables: Tables) -> dict[str, Any]:
    """Return the initialisation with the lowest median time at each width, beside that of two non-zeros."""
    found = {}
    every = tables["table"]
    usual = every[(every[["task.n", "task.k"]] == every[["task.n", "task.k"]].iloc[0]).all(axis=1)]
    if "model.init.value" in usual:
        usual = usual[usual["model.init.value"].fillna(1) == 1]
    for width, cells in usual.dropna(subset=["median_steps"]).groupby("model.width"):
        fastest = cells.iloc[int(cells["median_steps"].argmin())]
        two = cells[cells["model.init"] == "sparse:2"]
        found[f"width {width}"] = {"fastest": _stated(fastest), "sparse:2": _stated(two.iloc[0]) if len(two) else None}
    return found


def _stated(cell: pd.Series) -> dict[str, Any]:
    high = cell["median_high"]
    interval = [float(cell["median_low"]), float(high) if high < float("inf") else None]
    return {"init": cell["model.init"], "median_steps": float(cell["median_steps"]), "interval": interval}


@claim(
    id="pareto/two-sparse-is-best",
    statement="Of the sparsities tried, two non-zero weights per neuron are best for widths of 1000 and more.",
    source="section 4.1 (3), appendix C.1",
    setting="the protocol of appendix C.1; silent: which sparsities, tasks and samples, what best means, the size of "
    "the non-zeros; ours: time to solve at width 1000 near the edge, non-zeros of 1 and of 1/sqrt(s)",
    rule="50 trials per cell (at least 40): log-rank tests of s = 2 against 1, 3, 4, 8 and dense in four settings: "
    "(50, 3), (100, 3), (50, 4), and (50, 3) with non-zeros of 1/sqrt(s); Holm over the 20, 2.5% each way. A setting "
    "holds if s = 2 is faster than all others, fails if another is faster. Holds if all four do; in part if some hold "
    "and others fail or none is open; fails if none holds and two or more fail.",
)
def two_is_best(tables: Tables) -> Verdict:
    """Decide in each setting whether two non-zeros are faster than every other number, and than dense weights."""
    rows = table(tables, "table", "the scale part", model__width=1000, steps=STEPS)
    if "model.init.value" not in rows:
        raise InsufficientData("non-zeros of another size (the scale part)")
    times_of = {
        (f"({n}, {k}), {m} examples{'' if scaled == 'of 1' else ', non-zeros of 1/sqrt(s)'}", nonzeros): times(
            _cell(rows, n, k, m, nonzeros, scaled=scaled != "of 1")
        )
        for (n, k, m), scaled in [*product(SETTINGS, ["of 1"]), (SETTINGS[0], "scaled")]
        for nonzeros in (*NONZEROS, None)
    }
    names = list(dict.fromkeys(name for name, _ in times_of))
    others = [nonzeros for nonzeros in (*NONZEROS, None) if nonzeros != 2]
    pairs = [(times_of[name, 2], times_of[name, other]) for name, other in product(names, others)]
    faster_than = np.reshape(holm([faster(two, other, STEPS) for two, other in pairs]), (len(names), -1))
    slower_than = np.reshape(holm([faster(other, two, STEPS) for two, other in pairs]), (len(names), -1))
    parts = {}
    for name, quicker, slower in zip(names, faster_than, slower_than, strict=True):
        medians = {str(one or "dense"): float(np.median(times_of[name, one])) for one in (*NONZEROS, None)}
        because = f"median steps {', '.join(f'{one}: {median:g}' for one, median in medians.items())}"
        numbers = {"medians": medians, "p_two_faster": quicker, "p_two_slower": slower}
        yes, no = bool((quicker <= LEVEL / 2).all()), bool((slower <= LEVEL / 2).any())
        parts[name] = decided(yes, no, because, numbers, LEVEL, "more trials")
    verdict = combine(parts, LEVEL)
    failing = [name for name, one in parts.items() if one.verdict == FAILS]
    if verdict.verdict == UNDECIDED and len(failing) > 1:
        return replace(verdict, verdict=FAILS, needs="")
    return verdict


def _cell(rows: pd.DataFrame, n: int, k: int, size: int, nonzeros: int | None, *, scaled: bool) -> pd.DataFrame:
    value = 1 / math.sqrt(nonzeros) if scaled and nonzeros else 1.0
    here = rows[(rows["task.n"] == n) & (rows["task.k"] == k) & (rows["regime.size"] == size)]
    same = here["model.init"] == ("dense" if nonzeros is None else f"sparse:{nonzeros}")
    found = here[same & np.isclose(here["model.init.value"].fillna(value), value)]
    if found.empty or found["trials"].min() < TRIALS:
        raise InsufficientData(f"{TRIALS} trials of ({n}, {k}), {size} examples, non-zeros: {nonzeros or 'dense'}")
    return found


@claim(
    id="pareto/exact-sparsity-subnetwork",
    statement="With s = k and width of order n^k up to logarithms, the initialisation holds a subnetwork with good "
    "features with high probability.",
    source="section 3.2.1 (exact sparsity)",
    setting="k known; that training selects the subnetwork from few examples is conjectured only, and not tested",
    rule="Exact: the probability that at least k of n^k log(kn) neurons have exactly the support, for n = 50 to 300 "
    "and k = 3, 4; high is 0.99 (ours). No trials are needed.",
)
def exact_subnetwork(tables: Tables) -> Verdict:
    """Compute how likely n^k log(kn) neurons with k non-zeros include k on the support, at all published n and k."""
    sure = {}
    for n, k in product(range(50, 301, 50), (3, 4)):
        width = math.ceil(n**k * math.log(k * n))
        chance = 1 / math.comb(n, k)
        # log of the probability of exactly j such neurons among ``width``
        few = [
            math.log(math.comb(width, j)) + j * math.log(chance) + (width - j) * math.log1p(-chance) for j in range(k)
        ]
        sure[f"({n}, {k})"] = 1 - sum(map(math.exp, few))
    least = min(sure.values())
    because = f"the least probability over {len(sure)} tasks is 1 - {1 - least:.1g}; claimed: high (ours: 0.99)"
    return decided(least >= 0.99, least < 0.5, because, sure, 0.0, "a width of larger order")


EXPERIMENT = Experiment(
    name="sparsity-sweep",
    shows="How sparse to start: wide networks learn fastest from about two non-zero weights per neuron",
    source="appendix C.1 (choice of the sparse initialisation)",
    scales={
        "smoke": Scale(lambda trials: columns(30, 1000, (100,), 1600, trials), trials=4),
        "laptop": Scale(lambda trials: columns(50, 1000, (100, 300, 1000), 20_000, trials), trials=20),
        "part": Scale(decisive, trials=50, part="(50, 3), (100, 3) and (50, 4) at width 1000, one sample size each"),
        "paper": Scale(
            lambda trials: decisive(trials) + columns(50, 1000, (300, 1000, 3000, 10_000), STEPS, trials), trials=50
        ),
    },
    analyse=one_table(summarise),
    plot=plot,
    findings=findings,
    claims=[two_is_best, exact_subnetwork],
)
