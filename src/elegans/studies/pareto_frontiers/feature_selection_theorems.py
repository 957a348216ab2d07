"""Theorems 4 and 5 in practice: one step of a sparse network, then a readout; the luck and the samples it takes.

Theorem 4 has the repaired list of biases: with the printed one no readout represents the parity. Besides whole
trainings, single good neurons are simulated, whose sample sizes decide the theorems' exponents, and dense neurons, of
which the best of many is drawn: no theorem covers these.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import wilson
from elegans.experiments import Experiment, Line, Option, Results, Scale, Tables, parts
from elegans.experiments.checks import COMPUTED
from elegans.models import MLP
from elegans.plots.marks import estimates
from elegans.plots.style import COLOURS, GREY, logarithmic, panel_legend, panels, percent, title_panels
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.pareto_frontiers import neuron_tables
from elegans.studies.pareto_frontiers.feature_selection_theorems_claims import CLAIMS
from elegans.studies.pareto_frontiers.probes import GoodNeurons
from elegans.studies.pareto_frontiers.theory import luck, under_sparse
from elegans.studies.pareto_frontiers.theory.frontier import over_sparse_frontier, under_sparse_frontier
from elegans.studies.pareto_frontiers.training import OverSparse, OverSparseInit, UnderSparse, UnderSparseInit
from elegans.sweeps import Sweep
from elegans.tasks import Sample, SparseParity
from elegans.training import FeatureSelection, Trial
from elegans.training.layerwise.readouts import Constructed, Readout

AT_END = 2**31
STOPPING = StoppingRule(error=0, examples=4000, every=AT_END, stop=False)
CONSTANT = 150
"""The constant of Theorem 5's sample, chosen on other seeds."""
CELL = [
    "training", "task.n", "task.k", "model.init.nonzeros", "model.width", "regime.size", "training.truncate",
    "training.threshold", "training.readout",
]  # fmt: skip
HINGE, ERROR, CORRELATION = 0.3, 0.1, 0.5
"""The target loss, the error of a network that has learned, and the correlation of a subnetwork with the label."""


def over(n: int, s: int, width: int, sample: int, *, truncate: bool = True, readout: str = "ridge") -> Trial:
    """Return the algorithm of Theorem 4 on the (n, 2)-parity."""
    steps = 1 + Readout.parse(readout).default_steps
    return Trial(
        task=SparseParity(n=n, k=2),
        regime=Sample(sample),
        model=MLP(width=width, init=OverSparseInit(s)),
        training=OverSparse(truncate=truncate, readout=Readout.parse(readout), steps=steps, stopping=STOPPING),
    )


def under(n: int, k: int, s: int, threshold: under_sparse.ThresholdForm = "midpoint") -> Trial:
    """Return the algorithm of Theorem 5, its width and sample of the order of the theorem, with its own subnetwork."""
    width = 2 * round(2 * k**2 * (n / k) ** s)
    sample = math.ceil(CONSTANT * (n / k) ** (k - s - 1) * math.log(n * width))
    return Trial(
        task=SparseParity(n=n, k=k),
        regime=Sample(sample),
        model=MLP(width=width, init=UnderSparseInit(s)),
        training=UnderSparse(threshold=threshold, readout=Constructed(), steps=2, stopping=STOPPING),
    )


def lucky_width(n: int, s: int) -> int:
    """Return the width that has a good neuron with probability 0.99 at k = 2, where there is only one bias."""
    return 2 * luck.neurons_for_all_biases(luck.p_good_over(n, 2, s), 1, 0.01)


def sweep(sizes: Sequence[int], samples: Sequence[int], fives: Sequence[int], least: int, trials: int) -> Sweep:
    """Return the trainings; cells that estimate probabilities have all trials, the others three fifths of them.

    Args:
        sizes: the n of over-sparse networks of about eight good neurons, with and without truncation.
        samples: their samples.
        fives: the n of Theorem 5.
        least: the sample size from which on (20, 2) is learned.
        trials: the trials per cell.
    """
    few = range(max(1, 3 * trials // 5))
    enough = lucky_width(20, 9)
    widths = sorted({max(2, 2 * round(enough * share / 2)) for share in (0.25, 0.5, 1, 2)})
    cells = [(over(20, 9, width, least), range(trials)) for width in widths]
    cells += [(over(20, 9, 400, least, truncate=False), range(3 * trials))]
    cells += [(over(20, 9, 400, least, readout="last-iterate"), range(3 * trials))]
    cells += [
        (over(n, 9, 2 * math.ceil(8 / luck.p_good_over(n, 2, 9)), sample, truncate=truncate), few)
        for truncate in (True, False)
        for n in sizes
        for sample in samples
    ]
    cells += [(under(n, 4, 2), range(3 * trials if n == fives[0] else trials)) for n in fives]
    cells.append((under(fives[0], 4, 2, "printed"), range(trials)))
    return Sweep(tuple(cells))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of the final features and hinge loss, and of what the good neurons of Theorem 5 can represent."""
    selection = FeatureSelection(every=AT_END, examples=4000)
    return (selection, GoodNeurons(every=AT_END)) if isinstance(one.training, UnderSparse) else (selection,)


def analyse(results: Results) -> Tables:
    """Return the trainings, the exact widths and losses, single neurons, and dense ones.

    ``table`` has one row per cell: how many trials reach the target loss, error and correlation; ``chance`` is the
    exact probability that every bias has a good neuron.
    """
    hinge = results.measures["feature-selection"].groupby("trial")["hinge"].last()
    subnetwork = results.measures["good-neurons"].groupby("trial")["correlation"].last()
    rows = results.trials.join(hinge.rename("hinge")).join(subnetwork.rename("correlation"))
    rows = rows.assign(
        **{name: rows.get(name, np.nan) for name in CELL},
        low_loss=rows["hinge"] <= HINGE,
        learned=rows["test_error"] <= ERROR,
        correlated=rows["correlation"] >= CORRELATION,
    )
    cells = []
    for key, group in rows.groupby(CELL, sort=False, dropna=False):
        cell = dict(zip(CELL, key, strict=True))
        counts = {name: int(group[name].sum()) for name in ("low_loss", "learned", "correlated")}
        cells.append({**cell, "chance": _chance(cell), "trials": len(group), **counts})
    small = results.scale == "smoke"
    return {
        "table": pd.DataFrame(cells),
        **neurons(results),
        "widths": neuron_tables.widths(),
        "losses": neuron_tables.printed_losses(),
        "dense": neuron_tables.dense((9,) if small else (9, 12, 14), 64 if small else 1024),
    }


def _chance(cell: dict[str, Any]) -> float:
    n, k, s, neurons = (int(cell[name]) for name in ("task.n", "task.k", "model.init.nonzeros", "model.width"))
    is_over = cell["training"] == "over-sparse"
    p, biases = (luck.p_good_over(n, k, s), k // 2) if is_over else (luck.p_good_under(n, k, s), k)
    return luck.p_all_biases_good(neurons // 2, p, biases)


def plot(tables: Tables) -> Figure:
    """Draw success against the sample, samples of single neurons of either kind, and the best of many dense ones."""
    figure, ((first, second), (third, fourth)) = panels(2, 2, height=2.9)
    _trainings(first, tables["table"])
    neurons = tables["recovery"]
    over, under = (neurons[neurons["kind"] == kind] for kind in ("over", "under"))
    for (k, rows), colour in zip(over.groupby("k"), COLOURS, strict=False):
        second.plot(rows["s"], rows["sample"], "o", color=colour, markersize=3, label=f"k = {k}")
    for ((size, s), rows), colour, beside in zip(under.groupby(["k", "s"]), COLOURS, (0.97, 1, 1.03), strict=False):
        third.plot(rows["n"] * beside, rows["sample"], "o", color=colour, markersize=3, label=f"k = {size}, s = {s}")
    for (task, best), colour in zip(tables["dense"].groupby(["n", "k"], sort=False), cycle(COLOURS)):
        fourth.plot(best["width"], best["gap"], color=colour, label=f"{task}")
    fourth.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
    for ax, x, y in (
        (first, "examples", "trainings with error at most 10%"),
        (second, "non-zeros s", "examples that a neuron needs"),
        (third, "inputs n", "examples that a neuron needs"),
        (fourth, "dense neurons", "largest Fourier gap (above 1: selects)"),
    ):
        ax.set(xscale="log", yscale="linear" if ax is first else "log", xlabel=x, ylabel=y)
        logarithmic(ax, "x")
        if ax is not first:
            logarithmic(ax)
        panel_legend(ax, 2 if ax is first else 3)
    percent(first)
    findings = (
        "Truncated gradients save examples" if _saves(tables["table"]) else "Whole trainings",
        "Over-sparse neurons: examples grow with s",
        "Under-sparse neurons: more with n, fewer with s",
        "Dense neurons: one at k = 2, many at k = 4",
    )
    setting = "Parities of k of n bits, one large step, s non-zeros per neuron; a: k = 2, Wilson 95% intervals; "
    points = "b, c: single neurons that select the support in half of the draws"
    title_panels((first, second, third, fourth), findings, setting + points)
    return figure


def _saves(table: pd.DataFrame) -> bool:
    """Return whether half of the trainings succeed from fewer examples with truncated gradients, at every n."""
    half = table[(table["training.readout"] == "ridge") & (2 * table["learned"] >= table["trials"])]
    first = half.pivot_table(index="task.n", columns="training.truncate", values="regime.size", aggfunc="min").dropna()
    return first.shape[1] > 1 and bool((first[True] < first[False]).all())


def _trainings(ax: Axes, table: pd.DataFrame) -> None:
    rows = table[(table["training"] == "over-sparse") & (table["training.readout"] == "ridge")]
    by = ["task.n", "model.width"]
    sampled = rows.groupby([*by, "training.truncate"]).filter(lambda cells: cells["regime.size"].nunique() > 1)
    for ((n, width), sizes), colour in zip(sampled.groupby(by, sort=False), COLOURS, strict=False):
        for truncated, cells in sizes.sort_values("regime.size").groupby("training.truncate"):
            label = f"n = {n}, width {width:,}" if truncated else None
            low, high = wilson(cells["learned"], cells["trials"])
            share, style = cells["learned"] / cells["trials"], "o-" if truncated else "o--"
            estimates(ax, cells["regime.size"], share, low, high, colour, fmt=style, label=label)
    ax.plot([], [], "--", color=GREY, label="not truncated")


def lines(columns: Mapping[str, Any], resource: str) -> list[Line]:
    """Return the width or the sample that a theorem asks for against n, with constant 1 and without logarithms."""
    k, s = int(columns["task.k"]), int(columns["model.init.nonzeros"])
    is_over = columns["training"] == "over-sparse"
    truncated = is_over and bool(columns.get("training.truncate"))
    frontier = partial(over_sparse_frontier, truncated=truncated) if is_over else under_sparse_frontier
    sizes = np.arange(max(k, s) + 2, 401, 2)
    needed = np.array([getattr(frontier(n, k, s), resource) for n in sizes.tolist()], float)
    formulas = {
        "width": f"width (n/{s})^{k}" if is_over else f"width (n/{k})^{s}",
        "sample": f"{'' if truncated else 'n² '}({s}/{k})^({k}-1) examples"
        if is_over
        else f"(n/{k})^({k}-{s}-1) examples",
    }
    theorem = f"Theorem {4 if is_over else 5}{', gradients truncated' * truncated}"
    name = "model.width" if resource == "width" else "regime.size"
    return [Line(f"{theorem}: {formulas[resource]}", {"task.n": sizes.astype(float), name: needed})]


def findings(tables: Tables) -> dict[str, Any]:
    """Return how many trainings of each cell succeed, and the best gap of dense neurons."""
    cells = {
        " ".join(str(row[name]) for name in CELL if not pd.isna(row[name])): {
            **{name: int(row[name]) for name in ("trials", "learned", "low_loss", "correlated")},
            "chance": round(row["chance"], 4),
        }
        for row in tables["table"].to_dict("records")
    }
    widest = tables["dense"].groupby(["n", "k"]).tail(1)
    best = {f"({n}, {k}), {width} neurons": round(gap, 4) for n, k, width, gap in widest.itertuples(index=False)}
    return {**cells, "best dense gap": best}


def neurons_alone(experiment: Experiment) -> Experiment:
    """Return only its single good neurons."""
    scales = {name: replace(COMPUTED, part="single good neurons alone") for name in experiment.scales}
    return replace(experiment, scales=scales, analyse=neurons, plot=None, findings=None)


def neurons(results: Results) -> Tables:
    """Return the table ``recovery`` of ``analyse``."""
    return {"recovery": neuron_tables.recovery(*neuron_tables.RECOVERY[results.scale], results.first_seed)}


EXPERIMENT = Experiment(
    name="feature-selection-theorems",
    shows="One step of a sparse network selects the support, given the width and the sample of Theorems 4 and 5",
    source="Theorems 4 and 5, section 3.2",
    scales={
        "smoke": Scale(lambda trials: sweep((20,), (50, 400), (15,), 1500, trials), trials=2),
        "laptop": Scale(lambda trials: sweep((20, 40), (50, 200, 800, 3200), (15,), 3000, trials), trials=10),
        "paper": Scale(
            lambda trials: sweep((20, 40, 80), (25, 50, 100, 200, 400, 800, 1600, 3200, 6400), (15, 31), 3000, trials),
            trials=100,
            part="k = 2 in Theorem 4, n up to 31 in Theorem 5",
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
    options={
        "parts": Option("all, or neurons: only the samples that single good neurons need", parts(neurons=neurons_alone))
    },
    lines={
        ("task.n", "regime.size"): partial(lines, resource="sample"),
        ("task.n", "model.width"): partial(lines, resource="width"),
    },
)
