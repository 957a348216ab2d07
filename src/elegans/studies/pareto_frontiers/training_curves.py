"""How single networks learn (figure 1, right): error on the sample and on held-out examples, against steps.

The paper's boxed cells and their (n, k) are illegible: here (50, 3), with cells for what its text describes: too few
examples; grokking, with both initialisations; a network too narrow for its sample; plenty of examples.
"""

from typing import Any

from matplotlib.figure import Figure

from elegans.analysis import error_courses, grokking_summary
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.plots import error_lines
from elegans.plots.style import COLOURS, SMALL, figure_legend, name_of, panels
from elegans.probes import HeldOutErrorRate, Probe, TrainErrorRate
from elegans.studies.pareto_frontiers.settings import trial
from elegans.studies.pareto_frontiers.training_curves_claims import CLAIMS
from elegans.sweeps import Sweep, grid
from elegans.training import Trial

CELLS = (
    ("dense", 1000, 300),
    ("dense", 1000, 1000),
    ("dense", 100, 1000),
    ("dense", 1000, 10_000),
    ("sparse:2", 1000, 300),
    ("sparse:2", 1000, 700),
    ("sparse:2", 100, 1000),
    ("sparse:2", 1000, 10_000),
)
"""Initialisation, width and sample size of each panel."""
FINAL = (("dense", 1000, 1000), ("sparse:2", 1000, 600))
"""Printed sizes near the frontier, at which the final test errors of more networks are measured."""
FINAL_EVERY, FINAL_TIMES = 2500, 5
"""How often their errors are measured, and how many times as many networks are trained."""


def boxes(base: Trial, cells: tuple[tuple[str, int, int], ...], trials: int) -> Sweep:
    """Return the trials of each panel; none stops when it is solved."""
    base = base.replace("training.stopping.stop", False)
    parts = [
        grid(base, {"model.init": [init], "model.width": [width], "regime": [f"sample:{size}"]}, seeds=trials)
        for init, width, size in cells
    ]
    return sum(parts, Sweep(()))


def smoke(trials: int) -> Sweep:
    """Return two panels of (30, 3)."""
    return boxes(trial(n=30, k=3, steps=2000, every=100), (("dense", 300, 700), ("sparse:2", 300, 700)), trials)


def laptop(trials: int) -> Sweep:
    """Return all panels, with 20000 steps."""
    return boxes(trial(n=50, k=3, steps=20_000, every=100), CELLS, trials)


def paper(trials: int) -> Sweep:
    """Return all panels, with the paper's steps, and the cells whose final errors are measured."""
    final = boxes(trial(n=50, k=3, steps=100_000, every=FINAL_EVERY), FINAL, FINAL_TIMES * trials)
    return boxes(trial(n=50, k=3, steps=100_000, every=250), CELLS, trials) + final


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the two errors, measured whenever success is checked."""
    assert one.training is not None
    every = one.training.stopping.every
    return TrainErrorRate(every=every), HeldOutErrorRate(every=every)


def analyse(results: Results) -> Tables:
    """Return both errors of every network at every measured step, and the final errors where they are measured."""
    names = ["task.n", "task.k", "model.init", "model.width", "regime.size", "seed"]
    every = "training.stopping.every"
    courses = error_courses(results.trials, results.measures, [*names, every])
    is_final = courses.pop(every) == FINAL_EVERY
    last = courses[is_final].groupby(names, sort=False).last().reset_index()
    return {"table": courses[~is_final].reset_index(drop=True), **({"final": last} if is_final.any() else {})}


def plot(tables: Tables) -> Figure:
    """Draw one panel per cell, dense networks above sparse ones."""
    table = tables["table"]
    by = ["model.width", "regime.size"]
    cells = {init: list(rows.groupby(by, sort=False)) for init, rows in table.groupby("model.init")}
    columns = max(map(len, cells.values()))
    width, height = 7.0 if columns > 2 else 5.0, 1.75 + 0.75 / len(cells)
    figure, axes = panels(len(cells), columns, height=height, width=width, sharex=True, sharey=True)
    for row, (init, shown), colour in zip(axes, cells.items(), COLOURS, strict=False):
        for ax, ((neurons, size), cell) in zip(row, shown, strict=False):
            error_lines(ax, cell, colour, 0.1)
            ax.set_title(f"{size:,.0f} examples, width {neurons:,}", loc="left", fontsize=SMALL)
        for ax in row[len(shown) :]:
            ax.set_axis_off()
        name = name_of("model.init", init).partition(" (")[0]
        row[0].set_ylabel(f"{name}\nerror")
        row[0].lines[1].set_label(f"held out, {name}")
    for ax in axes[-1]:
        ax.set_xlabel("steps")
    figure_legend(figure, *axes[:, 0])
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return each cell's grokking delay: from a train error of at most 1% to a test error of at most 10%, in steps."""
    found = {}
    for (init, width, size), rows in tables["table"].groupby(["model.init", "model.width", "regime.size"]):
        found[f"{init}, width {width}, {size:.0f} examples"] = grokking_summary(rows)
    return found


EXPERIMENT = Experiment(
    name="training-curves",
    shows="How single networks learn: some fit their sample thousands of steps before they generalise (grokking)",
    source="figure 1 (right)",
    scales={
        "smoke": Scale(smoke, trials=3),
        "laptop": Scale(laptop, trials=10),
        "paper": Scale(paper, trials=10),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)
