"""How many examples two-layer networks need on sums of parities of leap 1, 2 and 3, by dimension."""

import itertools
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.claims import FAILS, UNDECIDED
from elegans.experiments.rules import attempt, by_interval, combine, table
from elegans.models import MLP, DenseInit
from elegans.plots.style import COLOURS, logarithmic, panel_legend, panels, title_figure, title_panels
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.staircases.growth import (
    LEVEL,
    FittedGrowth,
    Function,
    draw_medians,
    finding,
    local_ends,
    power_law,
)
from elegans.studies.staircases.models import BiasedInit
from elegans.studies.staircases.probes import SetCoefficients
from elegans.studies.staircases.tasks import text_of_sets
from elegans.sweeps import Sweep
from elegans.tasks import MonomialSum, Online
from elegans.training import SGD, Trial


class Target(NamedTuple):
    """A sum of parities of variance 1.

    Args:
        leap: its leap.
        sets: its sets.
        coefficients: their coefficients.
        patience: the number of steps over n^growth.
        growth: 1, or 2 for leap 3.
    """

    leap: int
    sets: list[list[int]]
    coefficients: list[float]
    patience: float
    growth: int = 1


def _even(*sets: list[int]) -> tuple[list[list[int]], list[float]]:
    return list(sets), [len(sets) ** -0.5] * len(sets)


TARGETS = {
    "x1": Target(1, *_even([0]), 30),
    "staircase": Target(1, *_even([0], [0, 1], [0, 1, 2]), 100),
    "majority": Target(1, [[0], [1], [2], [0, 1, 2]], [0.5, 0.5, 0.5, -0.5], 100),
    "x1 x2": Target(2, *_even([0, 1]), 100),
    "x1 + x1 x2 x3": Target(2, *_even([0], [0, 1, 2]), 250),
    "x1 x2 + x1 x2 x3": Target(2, *_even([0, 1], [0, 1, 2]), 250),
    "x1 x2 x3": Target(3, *_even([0, 1, 2]), 15, 2),
}
CELLS = [
    *((name, False, False) for name in TARGETS),
    *(("x1 x2 x3", *each) for each in ((True, False), (False, True), (True, True))),
]
"""Targets, whether their rate falls as n^(-3/2), and whether hidden biases are large."""
RATE, WIDTH, BATCH, MEASURED, DRAWS = 0.5, 200, 32, 200, 16
"""The learning rate times n, the sizes of networks and minibatches, and how often and finely a run is measured."""
FALLING = 1.5
"""The power of the dimension with which the rate of leap 3 falls a second time, from its value at n = 16 on."""
DIMENSIONS: dict[str, tuple[int, ...]] = {"smoke": (8, 16), "laptop": (16, 32, 64), "paper": (16, 32, 64, 128)}
LEAST = 20
SMALL, LARGE = "small", "large"
LARGE_PATIENCE = 60
"""The number of steps over n^(3/2) of leap 3 from large biases, at rates in proportion to 1 / n."""
LARGEST = 256
"""The dimension at which scale paper has half as many runs, of leap 3 at the falling rate alone."""


def run(name: str, n: int, power: float = 1.0, *, large: bool = False) -> Trial:
    """Return a run of a fixed number of steps, at a rate that falls as n^-power and is 0.5 / n at n = 16.

    Hidden biases start at a size of n^(-1/2), or of 1 if ``large``.
    """
    target = TARGETS[name]
    slower = (n / 16) ** (power - 1)
    steps = math.ceil((LARGE_PATIENCE * n**1.5 if large else target.patience * n**target.growth) * slower)
    size = 1 + max(max(members) for members in target.sets)
    return Trial(
        task=MonomialSum(n=n, k=size, sets=target.sets, coefficients=target.coefficients),
        regime=Online(),
        model=MLP(width=WIDTH, scaling="mean-field", output_bias=False, init=BiasedInit() if large else DenseInit()),
        training=SGD(
            learning_rate=RATE / n / slower,
            batch_size=BATCH,
            steps=steps,
            loss="square",
            stopping=StoppingRule(every=steps, stop=False),
        ),
    )


def sweep(scale: str, trials: int) -> Sweep:
    """Return runs of all targets at rates in proportion to 1 / n, and of leap 3 also at n^(-3/2) and large biases."""
    seeds = range(trials)
    cells = [run(name, n) for name, n in itertools.product(TARGETS, DIMENSIONS[scale])]
    cells += [run("x1 x2 x3", n, FALLING) for n in DIMENSIONS[scale] if n != 16]
    cells += [run("x1 x2 x3", n, large=True) for n in DIMENSIONS[scale]]
    cells += [run("x1 x2 x3", n, FALLING, large=True) for n in DIMENSIONS[scale] if n != 16]
    parts = [(one, seeds) for one in cells]
    if scale == "paper":
        parts.append((run("x1 x2 x3", LARGEST, FALLING), seeds[: trials // 2]))
    return Sweep(tuple(parts))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the loss, two hundred times in a run."""
    return (SetCoefficients(every=max(1, one.steps // MEASURED), draws=DRAWS),)


def quarters_of(results: Results) -> pd.DataFrame:
    """Return the target, dimension, rate times n, seed, and step at which a quarter of the loss is left, of each trial.

    The index is the number of the trial.
    """
    names = {json.dumps(target.sets): name for name, target in TARGETS.items()}
    measured = results.measured("set-coefficients", "task.sets", "task.n", "training.learning_rate")
    first = measured.groupby("trial", sort=False).first()
    return pd.DataFrame(
        {
            "target": first["task.sets"].map(lambda sets: names[text_of_sets(sets)]),
            "n": first["task.n"],
            "rate": (first["training.learning_rate"] * first["task.n"]).round(6),
            "seed": first["seed"],
            "steps": measured[measured["loss"] <= 1 / 8].groupby("trial")["step"].min().astype(float),
        },
        first.index,
    )


def analyse(results: Results) -> Tables:
    """Return ``quarters``: target, dimension, rate times n, biases, and when a quarter of the loss is left."""
    quarters = quarters_of(results)
    large = by_part(
        results, quarters.index, lambda one: isinstance(one.model, MLP) and isinstance(one.model.init, BiasedInit)
    )
    return {"quarters": quarters.assign(biases=np.where(large, LARGE, SMALL)).reset_index(drop=True)}


def by_part(results: Results, trials: pd.Index, of: Callable[[Trial], bool]) -> np.ndarray:
    """Return for each trial, by its number, whether something is true of the template of its part of the sweep."""
    flags = np.array([of(template) for template, _ in results.recorded.parts])
    return np.asarray(flags[np.searchsorted(results.recorded.first, trials, side="right") - 1])


def rows_of(quarters: pd.DataFrame, name: str, *, falling: bool = False, large: bool = False) -> pd.DataFrame:
    """Return the runs of a target at rates in proportion to 1 / n, or to n^(-3/2), of seeds with all dimensions."""
    biases = quarters["biases"] if "biases" in quarters else pd.Series(SMALL, quarters.index)
    rows = quarters[(quarters["target"] == name) & (biases == (LARGE if large else SMALL))]
    power = FALLING if falling else 1.0
    wanted = RATE * (rows["n"] / 16) ** (1 - power)
    rows = rows[np.isclose(rows["rate"], wanted, rtol=1e-4)]
    rows = rows[rows.groupby("n")["seed"].transform("size") >= LEAST]
    return rows[rows.groupby("seed")["n"].transform("size") == rows["n"].nunique()]


def exponent(
    quarters: pd.DataFrame, name: str, level: float = 0.05, *, falling: bool = False, large: bool = False
) -> FittedGrowth:
    """Return the exponent of the number of examples to a quarter of the loss; for leap 2, of that number over log d."""
    rows = rows_of(quarters, name, falling=falling, large=large)
    if rows["n"].nunique() < 3:
        biases = ", hidden biases of size 1" if large else ""
        raise InsufficientData(f"{LEAST} runs at each of three dimensions: {name}{biases}")
    return power_law(rows, level, per_log=TARGETS[name].leap == 2)


def findings(tables: Tables) -> dict[str, Any]:
    """Return exponents with 95% intervals, and median examples over the dimension."""
    quarters = tables["quarters"]
    stated: dict[str, Any] = {}
    for name, falling, large in CELLS:
        entry: dict[str, Any] = {"leap": TARGETS[name].leap}
        try:
            fit = exponent(quarters, name, falling=falling, large=large)
            entry["exponent"] = finite_or_none(fit.exponent, 3)
            entry["interval"] = [finite_or_none(fit.low, 3), finite_or_none(fit.high, 3)]
        except InsufficientData:
            pass
        rows = rows_of(quarters, name, falling=falling, large=large)
        entry["examples"] = {
            f"n = {n}": finite_or_none(BATCH * median(runs["steps"].fillna(np.inf).to_numpy(float)), 4)
            for n, runs in rows.groupby("n")
        }
        stated[name + (", biases of size 1" if large else "") + (", rate n^-3/2" if falling else "")] = entry
    return stated


SETTING = "two-layer ReLU networks of 200 neurons, both layers trained, mean-field scaling, square loss, batches of 32"


@claim(
    id="staircases/leap-orders-targets",
    statement="The number of examples grows faster with the dimension for x1 x2 x3, of leap 3, than for targets of "
    "leaps 1 and 2.",
    source="Abbe, Boix-Adsera and Misiakiewicz (2023), conjecture 1",
    setting=SETTING + "; seven sums of parities of variance 1, rate 0.5/d for all, hidden biases of size d^(-1/2), "
    "with which drift alone predicts the exponent 2 for leap 3 instead of 3/2; not stated: rates and activation",
    rule="Examples until a quarter of the loss is left, over at least three dimensions of 20 runs each. For the target "
    "of leap 3 and each of the six of smaller leap, the exponent in d of the ratio of medians. For leap 1 and leap 2, "
    "its interval for the pair with the lowest lower end must lie above 0; it fails where that interval lies below. "
    "Sizes at one dimension are not compared, since constants of a target decide them. Seeds are resampled for all "
    "dimensions at once; the six pairs share an error rate of 1%.",
    revised="Undecided at scales laptop and paper, because leap 2 was compared with leap 1, too. The conjecture gives "
    "both the same exponent, so no dimension would have decided. They are no longer compared. On the same tables, "
    "which we had seen, the claim holds.",
)
def leap_orders_targets(tables: Tables) -> Verdict:
    quarters = table(tables, "quarters", "runs of all targets")
    return combine({f"leap 3 over {low}": attempt(_ordered, quarters, low) for low in (1, 2)})


PAIRS = 6
"""Pairs of a target of leap 3 and one of a smaller leap."""


def _ordered(quarters: pd.DataFrame, low: int) -> Verdict:
    fits = {}
    for slower, faster in itertools.product(_of_leap(3), _of_leap(low)):
        above, below = rows_of(quarters, slower), rows_of(quarters, faster)
        if min(above["n"].nunique(), below["n"].nunique()) < 3:
            raise InsufficientData(f"{LEAST} runs at each of three dimensions: {slower}, {faster}")
        fits[f"{slower} over {faster}"] = power_law(above, LEVEL / PAIRS, over=below)
    name, fit = min(fits.items(), key=lambda item: item[1].low)
    what = f"the exponent of the ratio of examples, {name},"
    error = len(fits) * LEVEL / PAIRS
    return by_interval(what, fit.exponent, (fit.low, fit.high), above=0.0, error_rate=error)


def _of_leap(leap: int) -> list[str]:
    return [name for name, target in TARGETS.items() if target.leap == leap]


@claim(
    id="staircases/leap-exponents",
    statement="A target of leap L takes d^max(L - 1, 1) examples, up to logarithms, for almost all coefficients. If "
    "the learning rate falls only as 1/d, leap 3 takes d^(3/2) until noise exceeds the drift.",
    source="Abbe, Boix-Adsera and Misiakiewicz (2023), conjecture 1, at a time of d per example; the second sentence "
    "is derived here",
    setting=SETTING + "; rate 0.5/d, for leap 3 also 2 d^(-3/2), equal at d = 16; hidden biases of size d^(-1/2), for "
    "leap 3 of size 1, since the conjecture needs an activation whose cubic coefficient does not vanish; not stated: "
    "rates and activation",
    rule="Exponents of median examples until a quarter of the loss is left, for leap 2 divided by log d, over at "
    "least three dimensions of 20 runs each. Leap 1 and 2: intervals within 0.7 to 1.3; leap 3, with hidden biases "
    "uniform on -1 to 1: within 1.5 to 2.5 at the rate 2 d^(-3/2), and within 1.2 to 1.8 at 0.5/d (our choices). "
    "Since the statement is about large d, an interval outside fails only if the exponent between the last two "
    "dimensions is no nearer to the predicted one than the exponent between the first two; otherwise the part is "
    "undecided. Seeds are resampled for all dimensions at once; the eight parts share an error rate of 1%.",
    revised="Forty runs in dimensions up to 128 left leap 3 undecided, with an exponent of 2.48 to 2.57 against the "
    "bound of 2.5. Scale paper now has 256 dimensions for leap 3, with half as many runs; on new seeds the claim "
    "holds in part; exponents use the seeds with runs in all dimensions. For leap 3 the verdict now says that larger "
    "dimensions would decide, not more trials. Leap 3 was judged at the rate 2 d^(-3/2) alone, at which it fails; the "
    "source states no rate, so it is judged at 0.5/d too. The claim still holds in part. Leap 3 was then found to be "
    "judged in networks that the conjecture does not cover: a ReLU has a cubic coefficient only through its bias, and "
    "with biases of size d^(-1/2) it falls as d^(-1/2), so that drift alone predicts the exponents 2 and 5/2 instead "
    "of 3/2 and 2. At the rate 0.5/d the claim held for leap 3 by this coincidence, at 2 d^(-3/2) it failed for this "
    "reason. Both parts now ask for biases of size 1, which no committed run had. The rule was changed after the "
    "tables had been seen, and after a trial of three to five runs in each dimension at 0.5/d, in which the exponent "
    "was 1.6. The claim held in part and was then undecided. A run at scale paper, with these biases, has since been "
    "made; the claim holds.",
)
def leap_exponents(tables: Tables) -> Verdict:
    quarters = table(tables, "quarters", "runs of all targets")
    cells = [(name, False) for name in TARGETS] + [(name, True) for name in _of_leap(3)]
    return combine(
        {
            name + (", rate 1/d^1.5" if falling else ""): attempt(
                _exponent, quarters, name, falling, LEVEL / len(cells)
            )
            for name, falling in cells
        }
    )


def _exponent(quarters: pd.DataFrame, name: str, falling: bool, level: float) -> Verdict:
    leap = TARGETS[name].leap
    large = leap == 3
    fit = exponent(quarters, name, level, falling=falling, large=large)
    predicted, room = (2.0, 0.5) if falling else (1.5 if leap == 3 else 1.0, 0.3)
    bounds = {"above": predicted - room, "below": predicted + room}
    what = "the exponent of the examples" + (" over log d" if leap == 2 else "")
    needs = "larger dimensions" if leap == 3 else "more trials"
    verdict = by_interval(what, fit.exponent, (fit.low, fit.high), **bounds, error_rate=level, needs=needs)
    first, last = local_ends(
        rows_of(quarters, name, falling=falling, large=large), np.log if leap == 2 else np.ones_like
    )
    if verdict.verdict == FAILS and abs(last - predicted) < abs(first - predicted):
        return verdict.but(UNDECIDED, needs="larger dimensions")
    return verdict


GROWTH: dict[int, Function] = {1: lambda n: n, 2: lambda n: n * np.log(n), 3: np.square}
"""The predicted growth at rates in proportion to 1 / n, for each leap; for leap 3 from small biases."""


def _power(exponent: float) -> Function:
    return lambda n: np.asarray(n**exponent)


def plot(tables: Tables) -> Figure:
    """Draw examples until a quarter of the loss is left against the dimension, for each leap."""
    figure, (axes,) = panels(1, 3, height=3.2)
    examples = tables["quarters"].assign(steps=BATCH * tables["quarters"]["steps"])
    for leap, ax in enumerate(axes, 1):
        cells = [cell for cell in CELLS if TARGETS[cell[0]].leap == leap]
        for number, (name, falling, large) in enumerate(cells):
            label = f"{LARGE if large else SMALL} biases, rate as $d^{{{'-3/2' if falling else '-1'}}}$"
            growth = _power(2 + 0.5 * falling - 0.5 * large) if leap == 3 else GROWTH[leap]
            rows = rows_of(examples, name, falling=falling, large=large)
            draw_medians(ax, rows, COLOURS[number], label if leap == 3 else name, growth)
        logarithmic(ax, "x")
        logarithmic(ax, "y")
        ax.set(xlabel="dimension d", ylabel="examples" if leap == 1 else "")
        panel_legend(ax, columns=1)
    title_panels(axes, ["Leap 1: linear", "Leap 2: d log d", "Leap 3, x1 x2 x3: steeper"])
    title_figure(
        figure,
        finding("The number of examples grows faster with the dimension for leap 3 than for leaps 1 and 2", examples),
        f"Sums of parities of variance 1, two-layer networks of {WIDTH} neurons; medians of examples until a quarter "
        "of the loss is left, 95% intervals; dashed: predicted growth through the last",
    )
    return figure


EXPERIMENT = Experiment(
    name="leap-scaling",
    shows="Networks need about d examples for leap 1, d log d for leap 2, and a higher power for leap 3",
    source="Abbe, Boix-Adsera and Misiakiewicz (2023), conjecture 1",
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
    claims=[leap_orders_targets, leap_exponents],
)
