"""How a two-layer network climbs a staircase: the loss, and what has been learned of each set, step by step."""

import itertools
import json
import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median
from elegans.experiments import Experiment, InsufficientData, Option, Results, Scale, Tables, Verdict, claim, parts
from elegans.experiments.rules import attempt, by_interval, by_share, combine, table
from elegans.models import MLP
from elegans.plots.style import COLOURS, GREY, SMALL, logarithmic, panel_legend, panels, title_figure, title_panels
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.staircases.growth import LEVEL, draw_medians, local_ends, power_law
from elegans.studies.staircases.probes import SetCoefficients
from elegans.studies.staircases.tasks import text_of_sets
from elegans.sweeps import Sweep
from elegans.tasks import MonomialSum, Online
from elegans.training import SGD, Trial

STAIRCASES: dict[str, list[list[int]]] = {
    "staircase of 3": [list(range(size)) for size in (1, 2, 3)],
    "staircase of 4": [list(range(size)) for size in (1, 2, 3, 4)],
    "staircase of 5": [list(range(size)) for size in (1, 2, 3, 4, 5)],
    "gap of 2": [[0], [0, 1, 2]],
    "gap of 3": [[0], [0, 1, 2, 3]],
}
"""Sums of parities, each set with the sets before it inside; the last two skip one and two steps."""
MERGED = ("staircase of 3", "staircase of 4", "staircase of 5")
PATIENCE = {"staircase of 3": 100, "staircase of 4": 150, "staircase of 5": 250, "gap of 2": 300, "gap of 3": 300}
"""The number of steps over n at the rate 0.5 / n."""
RATES = (0.5, 0.25)
"""Learning rates times n, on which the source is silent."""
WIDTH, BATCH = 200, 32
AT: dict[str, int] = {"smoke": 16, "laptop": 32, "paper": 64}
"""The dimension in which orders are compared."""
DIMENSIONS: dict[str, tuple[int, ...]] = {
    "smoke": (8, 16),
    "laptop": (16, 32, 64, 96),
    "paper": (16, 32, 64, 128, 256),
}
MEASURED = 600
"""How often a run is measured."""
DRAWN = 3
"""Every how many-th measurement is in the table of curves."""
DRAWS = 16
"""Of the coordinates outside of the support, at each measurement."""
MULTIPLES = {("laptop", "staircase of 4"): 3}
"""The multiples of the runs whose order is compared: the last two sets of this staircase pass almost together."""
GROWN = 0.75
"""The multiple of the runs in dimensions in which orders are not compared."""
LEAST = 29
IN_ORDER = 0.8


def run(name: str, n: int, rate: float) -> Trial:
    """Return a run of a fixed number of steps, in proportion to n over the rate."""
    sets = STAIRCASES[name]
    steps = round(PATIENCE[name] * n * RATES[0] / rate)
    return Trial(
        task=MonomialSum(n=n, k=1 + max(max(members) for members in sets), sets=sets),
        regime=Online(),
        model=MLP(width=WIDTH, scaling="mean-field", output_bias=False),
        training=SGD(
            learning_rate=rate / n,
            batch_size=BATCH,
            steps=steps,
            loss="square",
            stopping=StoppingRule(every=steps, stop=False),
        ),
    )


def orders(scale: str, trials: int) -> Sweep:
    """Return runs of all staircases in one dimension at two rates."""
    return Sweep(
        tuple(
            (run(name, AT[scale], rate), range(MULTIPLES.get((scale, name), 1) * trials))
            for name, rate in itertools.product(STAIRCASES, RATES)
        )
    )


def sweep(scale: str, trials: int) -> Sweep:
    """Return runs of all staircases in one dimension at two rates, and without gaps also in several dimensions."""
    growth = [run(name, n, RATES[0]) for name, n in itertools.product(MERGED, DIMENSIONS[scale]) if n != AT[scale]]
    return orders(scale, trials) + Sweep(tuple((one, range(math.ceil(GROWN * trials))) for one in growth))


def _orders_alone(experiment: Experiment) -> Experiment:
    scales = {
        name: replace(one, sweep=partial(orders, name), part="orders of sets")
        for name, one in experiment.scales.items()
    }
    return replace(experiment, scales=scales, plot=None)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the coefficients of the sets, six hundred times in a run."""
    return (SetCoefficients(every=max(1, one.steps // MEASURED), draws=DRAWS),)


def analyse(results: Results) -> Tables:
    """Return ``steps`` and ``curves``.

    ``steps`` has one row per run: staircase, dimension, rate, the step at which the loss is first at most a quarter of
    its value at output 0 (``quarter``), and the steps at which each coefficient first passes half of its target
    (``set0`` …), NaN where this does not happen. ``curves`` has the median loss and coefficients by step, in one
    dimension.
    """
    names = {json.dumps(sets): name for name, sets in STAIRCASES.items()}
    keys = ["task.sets", "task.n", "training.learning_rate"]
    measured = results.measured("set-coefficients", *keys)
    measured["staircase"] = [names[text_of_sets(sets)] for sets in measured["task.sets"]]
    measured["n"] = measured["task.n"]
    measured["rate"] = (measured["training.learning_rate"] * measured["n"]).round(6)
    steps, curves = [], []
    for (name, n, rate), runs in measured.groupby(["staircase", "n", "rate"], sort=False):
        sets = STAIRCASES[str(name)]
        columns = [f"set{number}" for number in range(len(sets))]
        cell: dict[str, Any] = {"staircase": name, "n": n, "rate": rate}
        for seed, one in runs.groupby("seed"):
            passed = {column: first_step(one, one[column] >= 0.5) for column in columns}
            quarter = first_step(one, one["loss"] <= len(sets) / 2 / 4)
            steps.append({**cell, "seed": seed, "quarter": quarter, **passed})
        if n == AT[results.scale] and rate == RATES[0]:
            middle = runs.groupby("step")[["loss", *columns]].median().reset_index()
            curves.append(middle[::DRAWN].assign(**cell))
    return {"steps": pd.DataFrame(steps), "curves": pd.concat(curves, ignore_index=True)}


def first_step(rows: pd.DataFrame, where: pd.Series) -> float:
    """Return the first measured step of some rows where something holds, NaN if it never does."""
    return float(rows.loc[where, "step"].min())


def in_order(rows: pd.DataFrame) -> pd.Series:
    """Return whether all coefficients of each run passed half of their targets, in the order of the sets.

    Two in the same measured step count as out of order, and so does one that never passes.
    """
    steps = rows[sorted(column for column in map(str, rows) if column.startswith("set"))].to_numpy(float)
    return pd.Series((np.diff(steps, axis=1) > 0).all(axis=1), rows.index)


def cell_of(steps: pd.DataFrame, name: str, rate: float, n: int | None = None) -> pd.DataFrame:
    """Return the runs of a staircase at a rate, in the given dimension, or else in the one that has both rates."""
    rows = steps[steps["staircase"] == name]
    dimension = rows.loc[rows["rate"] == RATES[1], "n"].min() if n is None else n
    used = [f"set{number}" for number in range(len(STAIRCASES[name]))]
    return rows.loc[(rows["rate"] == rate) & (rows["n"] == dimension), ["seed", "n", "rate", "quarter", *used]]


def runs_of(steps: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the runs of a staircase at the larger rate, of dimensions with enough runs and seeds with all of them."""
    rows = steps[(steps["staircase"] == name) & (steps["rate"] == RATES[0])]
    rows = rows[rows.groupby("n")["seed"].transform("size") >= LEAST]
    rows = rows[rows.groupby("seed")["n"].transform("size") == rows["n"].nunique()]
    if rows["n"].nunique() < 3:
        raise InsufficientData(f"{LEAST} runs at each of three dimensions")
    return rows


def all_sets(rows: pd.DataFrame, name: str) -> pd.Series:
    """Return the step at which the last coefficient of each run passes half of its target, NaN if one never does."""
    return rows[[f"set{number}" for number in range(len(STAIRCASES[name]))]].max(axis=1, skipna=False)


def findings(tables: Tables) -> dict[str, Any]:
    """Return for each staircase runs in order and median steps over n, and exponents of a quarter of the loss."""
    steps = tables["steps"]
    stated: dict[str, Any] = {}
    for name, rate in itertools.product(STAIRCASES, RATES):
        rows = cell_of(steps, name, rate)
        passed = {
            "".join(f"x{member + 1}" for member in members): finite_or_none(
                median(rows[f"set{number}"].fillna(np.inf).to_numpy(float)) / float(rows["n"].iloc[0]), 3
            )
            for number, members in enumerate(STAIRCASES[name])
        }
        counts = {"runs": len(rows), "in order": int(in_order(rows).sum())}
        stated[f"{name}, rate {rate:g} / n"] = counts | {"steps over n": passed}
    for name in MERGED:
        try:
            fit = power_law(runs_of(steps, name).rename(columns={"quarter": "steps"}))
        except InsufficientData:
            continue
        stated[name] = {
            "exponent": finite_or_none(fit.exponent, 3),
            "interval": [finite_or_none(fit.low, 3), finite_or_none(fit.high, 3)],
        }
    return stated


def _ordered(steps: pd.DataFrame, name: str, rate: float, level: float) -> Verdict:
    rows = cell_of(steps, name, rate)
    if len(rows) < LEAST:
        raise InsufficientData(f"{LEAST} runs of each staircase at two rates")
    return by_share("runs in order", int(in_order(rows).sum()), len(rows), above=IN_ORDER, level=level)


def _linear(steps: pd.DataFrame, name: str, level: float) -> Verdict:
    rows = runs_of(steps, name)
    rows = rows.assign(steps=all_sets(rows, name))
    fit, (first, last) = power_law(rows, level), local_ends(rows)
    sizes = np.unique(rows["n"].to_numpy(float))
    bound = round(float(np.polyfit(np.log(sizes), np.log(sizes * np.log(sizes)), 1)[0]), 3)
    what = "the exponent of the examples until all sets are learned"
    verdict = by_interval(what, fit.exponent, (fit.low, fit.high), below=bound, error_rate=level)
    return verdict.but(first=round(first, 3), last=round(last, 3))


SETTING = (
    "two-layer ReLU networks of 200 neurons, both layers trained, mean-field scaling, square loss, fresh batches of 32"
)


@claim(
    id="staircases/plateaus",
    statement="Networks learn the sets of a staircase one after the other, each set after the sets inside it.",
    source="Abbe, Boix-Adsera and Misiakiewicz (2023), section 1 and conjecture 1",
    setting=SETTING + "; staircases of 3 to 5 sets, and two sets with a gap of 2 or 3 coordinates; not stated: "
    "the learning rate, here 0.5/d and 0.25/d",
    rule="A run counts if the network's coefficients of all sets pass half of the target's, and the measured steps at "
    "which they first do rise strictly from set to set. Only this order is judged, not plateaus of the loss. More "
    "than 80% (our choice) of the runs count, by exact limits, for each of five targets at each of two rates, at "
    "least 29 runs; the ten parts share an error rate of 1%. A run measures 600 times, and a tie counts as out of "
    "order.",
    revised="Steps were first measured 200 times in a run. In staircases of four the last two sets are learned almost "
    "together: 7 of 80 runs had a tie and 3 another order, so the claim was undecided. They are now measured 600 "
    "times, with three times as many runs of this staircase at scale laptop, on new seeds. A run whose last set never "
    "passes no longer counts; there was none, and the claim still holds.",
)
def plateaus(tables: Tables) -> Verdict:
    steps = table(tables, "steps", "runs of staircases")
    cells = list(itertools.product(STAIRCASES, RATES))
    return combine(
        {f"{name}, rate {rate:g}/d": attempt(_ordered, steps, name, rate, LEVEL / len(cells)) for name, rate in cells}
    )


@claim(
    id="staircases/merged-staircase-linear",
    statement="A sum of parities of leap 1 takes of the order of d examples, for almost all coefficients; here, for "
    "staircases of three, four and five sets, an upper bound: their number grows more slowly than d log d.",
    source="Abbe, Boix-Adsera and Misiakiewicz (2022), main theorem: sufficiency for almost all coefficients",
    setting=SETTING + "; staircases of 3, 4 and 5 sets with coefficients 1, rate 0.5/d; the source's network is "
    "infinitely wide and trained layer by layer, with a smooth activation whose derivatives at 0 do not vanish; ReLU "
    "and joint training are ours",
    rule="The exponent of the median number of examples until the network's coefficients of all sets have passed half "
    "of the target's (our choice), over at least three dimensions of 29 runs each: for each of three staircases the "
    "upper limit of its interval is below the exponent that d log d would show over the same dimensions, 1.28 for d = "
    "16 to 96. It fails where the interval lies above the bound. The intervals lie between 1.09 and 1.17, so the "
    "verdict would turn at a bound of 1.17. A straight power of 1.15 would pass: whether the exponents fall towards 1 "
    "is reported, not judged. Seeds are resampled for all dimensions at once; the three parts share an error rate of "
    "1%.",
    revised='The bound was 1.3, which d log d would pass, and the statement said "whatever its degree"; the theorem '
    "is for almost all coefficients, and some sums of leap 1 with equal coefficients stall. The bound became that of "
    "d log d. Examples were counted until a quarter of the loss was left, for which a staircase of four needs no "
    "fourth set; now all sets must be learned. Where the interval lies above 1, the exponent between the last two "
    "dimensions also had to be nearer to 1 than the exponent between the first two. This compared two estimates "
    "without intervals; with intervals it would leave all parts undecided. It is left out, and the statement is now "
    "an upper bound. Both changes were made after the tables had been seen. The claim held before and holds now, also "
    "on fresh seeds.",
)
def merged_staircase_linear(tables: Tables) -> Verdict:
    steps = table(tables, "steps", "runs of staircases")
    return combine({name: attempt(_linear, steps, name, LEVEL / len(MERGED)) for name in MERGED})


def plot(tables: Tables) -> Figure:
    """Draw the loss with each set's coefficient below it for three targets, and examples against the dimension."""
    curves, steps = tables["curves"], tables["steps"]
    shown = ("staircase of 3", "staircase of 5", "gap of 2")
    figure, grid = panels(2, 4, height=2.1)
    for place, name in enumerate(shown):
        _climb(grid[0, place], grid[1, place], curves[curves["staircase"] == name], name)
    _examples(grid[0, 3], steps)
    grid[1, 3].axis("off")
    grid[1, 3].legend(*grid[0, 3].get_legend_handles_labels(), loc="upper center", frameon=False, fontsize=SMALL)
    grid[0, 0].set_ylabel("loss")
    grid[1, 0].set_ylabel("coefficient")
    title_panels(grid[0], [*(f"{name.capitalize()}" for name in shown), "Nearly linear in n"])
    count = int(steps.groupby(["staircase", "n", "rate"]).size().max())
    title_figure(
        figure,
        "Networks climb a staircase set by set",
        f"Sums of parities, two-layer ReLU networks of {WIDTH} neurons, n = {int(curves['n'].iloc[0])}, fresh batches "
        f"of {BATCH}; medians of {count} runs; below: coefficients of the sets (target 1)",
    )
    return figure


def _climb(above: Axes, below: Axes, rows: pd.DataFrame, name: str) -> None:
    """Draw the loss, and the coefficient of each set below it."""
    n = float(rows["n"].iloc[0])
    above.plot(rows["step"] / n, rows["loss"], color=GREY, linewidth=1.2)
    for number, members in enumerate(STAIRCASES[name]):
        label = "$" + "".join(f"x_{member + 1}" for member in members) + "$"
        below.plot(rows["step"] / n, rows[f"set{number}"], color=COLOURS[number], linewidth=1.2, label=label)
    below.axhline(1, color=GREY, linewidth=0.6, linestyle=":")
    above.set(ylim=(0, None))
    below.set(xlabel="steps / n")
    panel_legend(below, columns=2)


def _examples(ax: Axes, steps: pd.DataFrame) -> None:
    """Draw examples until all sets have passed half against the dimension, and a line of slope 1."""
    for name, colour in zip(MERGED, COLOURS, strict=False):
        rows = steps[(steps["staircase"] == name) & (steps["rate"] == RATES[0])]
        draw_medians(ax, rows.assign(steps=BATCH * all_sets(rows, name)), colour, name, lambda n: n)
    logarithmic(ax, "x")
    logarithmic(ax, "y")
    ax.set(xlabel="dimension n", ylabel="examples to all sets")


EXPERIMENT = Experiment(
    name="staircase-plateaus",
    shows="Networks climb a staircase set by set, from examples in proportion to the dimension",
    source="Abbe, Boix-Adsera and Misiakiewicz (2022), theorem 1; (2023), section 1 and conjecture 1",
    scales={
        "smoke": Scale(lambda trials: sweep("smoke", trials), trials=2),
        "laptop": Scale(lambda trials: sweep("laptop", trials), trials=40),
        "paper": Scale(
            lambda trials: sweep("paper", trials), trials=100, part="the source has other sizes: laboratory sizes"
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=[plateaus, merged_staircase_linear],
    options={"parts": Option("all, or orders: only runs whose order of sets is compared", parts(orders=_orders_alone))},
)
