"""Whether exponents depend on training both layers at once, or the first layer alone before the second."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import attempt, by_interval, combine, table
from elegans.models import BernoulliInit, DenseInit, LayeredInit
from elegans.plots.style import COLOURS, figure_legend, logarithmic, panels, title_figure, title_panels
from elegans.probes import Probe
from elegans.studies.staircases import leap_scaling
from elegans.studies.staircases.growth import LEVEL, FittedGrowth, draw_medians, finding, power_law
from elegans.studies.staircases.leap_scaling import BATCH, GROWTH, LEAST, TARGETS, WIDTH
from elegans.sweeps import Sweep
from elegans.training import SGD, LayerRates, Trial

NAMES = tuple(name for name, target in TARGETS.items() if target.leap < 3)
JOINT, FIRST = "both layers", "first layer"
DIMENSIONS = {"smoke": (8, 16), "laptop": (16, 32, 64), "paper": (16, 32, 64, 128)}
ROOM = 0.2


def run(name: str, n: int, trained: str) -> Trial:
    """Return a run from output weights of size 1 and random sign, with both layers trained or the first alone."""
    one = leap_scaling.run(name, n).replace("model.init", LayeredInit(first=DenseInit(), last=BernoulliInit(size=1)))
    return one if trained == JOINT else one.replace("training.layers", {"output.weight": LayerRates(learning_rate=0)})


def sweep(scale: str, trials: int) -> Sweep:
    """Return runs of all targets of leap 1 and 2, with both layers trained and with the first alone."""
    cells = itertools.product(NAMES, DIMENSIONS[scale], (JOINT, FIRST))
    return Sweep(tuple((run(*cell), range(trials)) for cell in cells))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the loss, two hundred times in a run."""
    return leap_scaling.probes(one)


def analyse(results: Results) -> Tables:
    """Return ``quarters``: target, layers trained, dimension, and the step at which a quarter of the loss is left."""
    quarters = leap_scaling.quarters_of(results)
    alone = leap_scaling.by_part(
        results, quarters.index, lambda one: isinstance(one.training, SGD) and bool(one.training.layers)
    )
    quarters.insert(1, "trained", np.where(alone, FIRST, JOINT))
    return {"quarters": quarters.reset_index(drop=True)}


def rows_of(quarters: pd.DataFrame, name: str, trained: str) -> pd.DataFrame:
    """Return the runs of a target with some layers trained, of dimensions with enough runs."""
    rows = quarters[(quarters["target"] == name) & (quarters["trained"] == trained)]
    rows = rows[rows.groupby("n")["seed"].transform("size") >= LEAST]
    if rows["n"].nunique() < 3:
        raise InsufficientData(f"{LEAST} runs at each of three dimensions: {name}, {trained}")
    return rows


def difference(quarters: pd.DataFrame, name: str, level: float = 0.05) -> FittedGrowth:
    """Return the exponent of the ratio of median examples, the first layer alone over both layers."""
    return power_law(rows_of(quarters, name, FIRST), level, over=rows_of(quarters, name, JOINT))


@claim(
    id="staircases/layerwise-equals-joint",
    statement="For targets of leap 1 and 2, training the first layer alone, as proofs do in their first stage, and "
    "training both layers at once show the same exponent in the dimension.",
    source="Abbe, Boix-Adsera and Misiakiewicz (2022, 2023), whose theorems are about training layer by layer",
    setting=f"two-layer ReLU networks of {WIDTH} neurons, output weights of size 1 and random sign at the start, "
    "mean-field scaling, square loss, batches of 32, rate 0.5/d; the proofs then fit the second layer, and "
    "do not ask the first to reach a quarter of the loss; they draw output weights evenly from -1 to 1; "
    "not stated: rates",
    rule="Examples until a quarter of the loss is left, for six targets of leap 1 and 2, over at least three "
    "dimensions of 20 runs each. We take the exponent in d of the ratio of medians, with the first layer alone over "
    "both layers. For each target its interval lies within 0.2 (our choice) of 0; the part fails where the interval "
    "lies outside. Seeds are resampled for all dimensions and both trainings at once; the six parts share an error "
    "rate of 1%.",
)
def layerwise_equals_joint(tables: Tables) -> Verdict:
    quarters = table(tables, "quarters", "runs of both trainings")
    return combine({name: attempt(_equal, quarters, name, LEVEL / len(NAMES)) for name in NAMES})


def _equal(quarters: pd.DataFrame, name: str, level: float) -> Verdict:
    fit = difference(quarters, name, level)
    what = "the exponent of the ratio of examples"
    return by_interval(what, fit.exponent, (fit.low, fit.high), above=-ROOM, below=ROOM, error_rate=level)


def plot(tables: Tables) -> Figure:
    """Draw examples until a quarter of the loss is left against the dimension, for both trainings of each target."""
    figure, grid = panels(2, 3, height=2.2)
    quarters = tables["quarters"]
    for ax, name in zip(grid.ravel(), NAMES, strict=True):
        for trained, colour in zip((JOINT, FIRST), COLOURS, strict=False):
            rows = quarters[(quarters["target"] == name) & (quarters["trained"] == trained)]
            growth = GROWTH[TARGETS[name].leap]
            draw_medians(ax, rows.assign(steps=BATCH * rows["steps"]), colour, f"{trained} trained", growth)
        logarithmic(ax, "x")
        logarithmic(ax, "y")
        ax.set_xlabel("dimension n")
    for ax in grid[:, 0]:
        ax.set_ylabel("examples")
    title_panels(grid.ravel(), list(NAMES))
    title_figure(
        figure,
        finding("With the first layer alone, examples grow with the dimension as with both layers", quarters),
        f"Sums of parities of leap 1 and 2, two-layer networks of {WIDTH} neurons; medians of examples until a quarter "
        "of the loss is left, 95% intervals; dashed: n for leap 1, n log n for leap 2, through the last median",
    )
    figure_legend(figure, grid[0, 0], columns=2)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return both exponents of each target, and the exponent of the ratio with its 95% interval."""
    stated: dict[str, Any] = {}
    for name in NAMES:
        try:
            fit = difference(tables["quarters"], name)
            both = {trained: power_law(rows_of(tables["quarters"], name, trained)) for trained in (JOINT, FIRST)}
        except InsufficientData:
            continue
        stated[name] = {
            **{trained: finite_or_none(each.exponent, 3) for trained, each in both.items()},
            "ratio": finite_or_none(fit.exponent, 3),
            "interval": [finite_or_none(fit.low, 3), finite_or_none(fit.high, 3)],
        }
    return stated


EXPERIMENT = Experiment(
    name="layerwise-or-joint",
    shows="Examples grow with the dimension alike whether the first layer is trained alone or both layers at once",
    source="Abbe, Boix-Adsera and Misiakiewicz (2022, 2023)",
    scales={
        "smoke": Scale(lambda trials: sweep("smoke", trials), trials=2),
        "laptop": Scale(lambda trials: sweep("laptop", trials), trials=24),
        "paper": Scale(
            lambda trials: sweep("paper", trials), trials=40, part="the source has no experiment: laboratory sizes"
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=[layerwise_equals_joint],
)
