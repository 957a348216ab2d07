"""What using each example twice changes: the power of the dimension with which one neuron's examples grow."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import attempt, by_interval, combine, table
from elegans.plots.style import COLOURS, GREY, SMALL, logarithmic, panels, title_figure, title_panels
from elegans.stopping import StoppingRule
from elegans.studies.staircases.chains import OverlapChain, SignNeuron
from elegans.studies.staircases.growth import LEVEL, FittedGrowth, draw_medians, power_law
from elegans.studies.staircases.tasks import SingleIndex, text_of_sets
from elegans.sweeps import Sweep
from elegans.tasks import MonomialSum, Online, Task
from elegans.training import Trial

SUMS: dict[str, dict[str, Any]] = {
    "e3": {"k": 4, "sets": [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]},
    "x1x2x3": {"k": 3, "sets": [[0, 1, 2]]},
    "maj x4": {"k": 4, "sets": [[0, 3], [1, 3], [2, 3], [0, 1, 2, 3]], "coefficients": [0.5, 0.5, 0.5, -0.5]},
}
"""Sums of parities: all products of three of four signs, a parity, and majority of three signs times a fourth."""
NEURONS: dict[str, dict[str, Any]] = {
    "h3": {"bias": 0.5, "output": -1},
    "h4": {"bias": -1.5},
    "bump": {"bias": -1.5, "output": -1},
    "e3": {"bias": 0.5},
    "x1x2x3": {"bias": -0.5},
    "maj x4": {"bias": -0.5},
}
"""The ReLU neuron of each target, with which one pass gains overlap, and reuse drives it in the same direction."""
DELTAS = (0.01, 0.02, 0.04, 0.08, 0.16)
"""Learning rates times n that one pass may choose from in each dimension."""
ONE_PASS, ALONE = "one pass, best of five rates", "one pass"
LEAST = 29
"""Runs in each dimension."""
CHECKS = 200
"""How often a run is checked within the steps that it may take."""
Dimensions = tuple[int, ...]


class Course(NamedTuple):
    """One target learned in one way: with each of some rates, and each example used once or twice.

    Args:
        target: a link or a sum of parities.
        reuse: rho, 0 for one pass.
        rates: learning rates times n^power.
        power: see there.
        patience: the most steps, over n^growth.
        growth: see there.
        dimensions: by scale.
        multiples: the multiples of the trials asked for at scales laptop and paper.
    """

    target: str
    reuse: float
    rates: tuple[float, ...]
    power: float
    patience: float
    growth: float
    dimensions: Mapping[str, Dimensions]
    multiples: tuple[float, float] = (1, 1)

    @property
    def name(self) -> str:
        """The name of this way to learn."""
        if self.reuse:
            return f"reuse, rho = {self.reuse:g}"
        return ONE_PASS if len(self.rates) > 1 else ALONE


FAR: dict[str, Dimensions] = {"smoke": (64, 128), "laptop": (256, 1024, 4096), "paper": (256, 1024, 4096, 16_384)}
SIGNS: dict[str, Dimensions] = {"smoke": (64, 128), "laptop": (256, 512, 1024, 2048), "paper": (256, 1024, 4096)}
NEAR: dict[str, Dimensions] = {"smoke": (32, 64), "laptop": (128, 256, 512), "paper": (128, 256, 512, 1024)}
TRIPLES: dict[str, Dimensions] = {"smoke": (32, 64), "laptop": (96, 192, 288), "paper": (128, 256, 512)}
EVEN: dict[str, Dimensions] = {"smoke": (8, 16), "laptop": (16, 32, 64), "paper": (32, 64, 128)}
BUMP: dict[str, Dimensions] = {"smoke": (8, 16), "laptop": (16, 24, 32), "paper": (16, 32, 48)}
PARITY: dict[str, Dimensions] = {"smoke": (32, 64), "laptop": (64, 128, 256), "paper": (64, 128, 256, 512)}
MAJORITY: dict[str, Dimensions] = {"smoke": (64, 128), "laptop": (128, 512, 2048), "paper": (128, 512, 2048)}
COURSES = (
    *(Course("h3", rho, (0.1,), 1.0, 2000, 1.0, FAR) for rho in (0.1, 0.35, 1.0)),
    *(Course("h4", rho, (0.2,), 1.0, 20_000, 1.0, FAR, (1, 2)) for rho in (0.35, 1.0)),
    Course("h4", 0.0, (2.0,), 2.0, 100, 3.0, EVEN),
    *(Course("bump", rho, (2.0,), 2.0, 2000, 3.0, BUMP, (1, 4)) for rho in (0.0, 0.35)),
    *(Course("e3", rho, (0.05,), 1.0, 3000, 1.0, SIGNS) for rho in (0.1, 0.35)),
    *(Course("maj x4", rho, (0.2,), 1.0, 3000, 1.0, MAJORITY) for rho in (0.0, 0.35)),
    *(Course("x1x2x3", rho, (0.5,), 1.5, 200, 2.0, PARITY, (6, 4)) for rho in (0.0, 0.35)),
    Course("h3", 0.0, DELTAS, 1.0, 40, 2.0, NEAR),
    Course("e3", 0.0, DELTAS, 1.0, 80, 2.0, TRIPLES),
)


def run(course: Course, n: int, rate: float) -> Trial:
    """Return a run until the overlap is one half."""
    steps = math.ceil(course.patience * n**course.growth)
    fields: dict[str, Any] = {
        "neuron": "relu",
        **NEURONS[course.target],
        "rate": rate,
        "power": course.power,
        "reuse": course.reuse,
        "steps": steps,
        "stopping": StoppingRule(error=0, examples=1, every=max(1, steps // CHECKS // (10 if course.reuse else 1))),
    }
    if course.target in SUMS:
        task: Task = MonomialSum(n=n, **SUMS[course.target])
        return Trial(task=task, regime=Online(), model=SignNeuron(**fields))
    return Trial(task=SingleIndex(n=n, link=course.target), regime=Online(), model=OverlapChain(**fields))


def sweep(scale: str, trials: int) -> Sweep:
    """Return the runs of all courses."""
    parts = []
    for course in COURSES:
        multiple = dict(zip(("laptop", "paper"), course.multiples, strict=True)).get(scale, 1)
        seeds = range(math.ceil(multiple * trials))
        parts += [(run(course, n, rate), seeds) for n in course.dimensions[scale] for rate in course.rates]
    return Sweep(tuple(parts))


def analyse(results: Results) -> Tables:
    """Return ``times``: target, dimension, rate, reuse, and the steps until the overlap is 1/2, NaN if it is not."""
    trials = results.trials
    sums = {json.dumps(fields["sets"]): name for name, fields in SUMS.items()}
    links = trials["task.link"] if "task.link" in trials else pd.Series(pd.NA, trials.index)
    target = links.where(links.notna(), trials["task.sets"].map(lambda sets: sums.get(text_of_sets(sets))))
    names = {"task.n": "n", "model.rate": "rate", "model.reuse": "reuse", "seed": "seed", "solved_at": "steps"}
    return {"times": trials[[*names]].rename(columns=names).assign(target=target).reset_index(drop=True)}


def rows_of(times: pd.DataFrame, target: str, reuse: float) -> pd.DataFrame:
    """Return the runs of one target with some reuse, of dimensions with enough runs of each rate."""
    rows = times[(times["target"] == target) & (times["reuse"] == reuse)]
    counts = rows.groupby(["n", "rate"])["seed"].transform("size")
    return rows[counts >= LEAST]


def fitted(times: pd.DataFrame, course: Course, level: float = 0.05) -> FittedGrowth:
    """Return the exponent of a course, for h4 with reuse of the number of examples over log n."""
    rows = rows_of(times, course.target, course.reuse)
    if rows["n"].nunique() < 3:
        raise InsufficientData(f"{LEAST} runs at each of three dimensions: {course.target}, {course.name}")
    return power_law(rows, level, per_log=course.target == "h4" and course.reuse > 0)


def course_of(target: str, reuse: float) -> Course:
    """Return the course of a target with some reuse."""
    (course,) = [course for course in COURSES if (course.target, course.reuse) == (target, reuse)]
    return course


def gain(times: pd.DataFrame, target: str, reuse: float, level: float = 0.05) -> FittedGrowth:
    """Return the exponent of the ratio of median examples, one pass over reuse, at the same rate."""
    once, twice = (rows_of(times, target, rho) for rho in (0.0, reuse))
    if min(once["n"].nunique(), twice["n"].nunique()) < 3:
        raise InsufficientData(f"{LEAST} runs at each of three dimensions: {target}, with reuse and without")
    return power_law(once, level, over=twice)


def findings(tables: Tables) -> dict[str, Any]:
    """Return exponents with 95% intervals, and median examples over the dimension."""
    times = tables["times"]
    stated: dict[str, Any] = {}
    for course in COURSES:
        entry: dict[str, Any] = {}
        try:
            fit = fitted(times, course)
            entry["exponent"] = finite_or_none(fit.exponent, 3)
            entry["interval"] = [finite_or_none(fit.low, 3), finite_or_none(fit.high, 3)]
        except InsufficientData:
            pass
        rows = times[(times["target"] == course.target) & (times["reuse"] == course.reuse)]
        medians = rows.fillna({"steps": np.inf}).groupby(["n", "rate"])["steps"].median().groupby("n").min()
        entry["examples over n"] = {
            f"n = {n}": finite_or_none(steps / float(str(n)), 3) for n, steps in medians.items()
        }
        stated[f"{course.target}, {course.name}"] = entry
    return stated


def _exponent(
    times: pd.DataFrame, target: str, reuse: float, level: float, *, above: float, below: float = math.inf
) -> Verdict:
    course = course_of(target, reuse)
    fit = fitted(times, course, level)
    logs = " over log d" if target == "h4" and reuse else ""
    what = f"the exponent of the examples{logs}"
    return by_interval(what, fit.exponent, (fit.low, fit.high), above=above, below=below, error_rate=level)


def _gain(times: pd.DataFrame, target: str, reuse: float, below: float, level: float) -> Verdict:
    fit = gain(times, target, reuse, level)
    what = "the exponent of the ratio of one pass to reuse"
    return by_interval(what, fit.exponent, (fit.low, fit.high), below=below, error_rate=level)


SETTING = "one ReLU neuron with a fixed bias on the sphere, correlation loss, uniform start"
NEEDS = "runs with reuse and without"


@claim(
    id="staircases/reuse-breaks-information",
    statement="A neuron that uses each example twice learns the third Hermite polynomial, of information exponent 3, "
    "from of the order of d examples; one pass needs more.",
    source="Dandi et al. (2024) and Arnaboldi et al. (2024); the chain and its drift are derived here",
    setting=SETTING + "; bias 1/2, subtracted output; not stated: the first step's rate rho / d, and all constants",
    rule="Exponents of median examples to an overlap of 1/2, at least three dimensions of 29 runs or more. With reuse "
    "at rho = 0.1, 0.35 and 1 (rate 0.1/d): each interval within 0.9 to 1.1. One pass, with the smallest median of "
    "five rates from 0.01/d to 0.16/d in each dimension: above 1.3. Up to d = 512 the best of these is the largest; "
    "larger rates would help small dimensions most and raise the exponent. Seeds are resampled for all dimensions at "
    "once, the choice of rates with them; the four parts share an error rate of 1%.",
)
def reuse_breaks_information(tables: Tables) -> Verdict:
    times = table(tables, "times", NEEDS)
    bounds = {"above": 0.9, "below": 1.1}
    parts = {f"rho = {rho:g}": attempt(_exponent, times, "h3", rho, LEVEL / 4, **bounds) for rho in (0.1, 0.35, 1.0)}
    return combine(parts | {"one pass": attempt(_exponent, times, "h3", 0.0, LEVEL / 4, above=1.3)})


@claim(
    id="staircases/hard-even-links",
    statement="Reuse helps where the generative exponent is below the information exponent: the fourth Hermite "
    "polynomial (2 against 4) takes d log d examples instead of a power. It does not help z^2 exp(-z^2) (4 and 4).",
    source="Damian et al. (2024), section 2; Dandi et al. (2024)",
    setting=SETTING
    + "; bias -3/2, and for z^2 exp(-z^2) a subtracted output, since its labels are positive and a ReLU "
    "that is added never turns off; not stated: rho",
    rule="Exponents over at least three dimensions of 29 runs or more. h4 with reuse at rho = 0.35 and 1 (rate "
    "0.2/d): the interval of the exponent of median examples over log d within 0.85 to 1.15; one pass (rate 2/d^2): "
    "above 2.3 (our choice). At this rate any target takes at least d^2 steps, and d^2 log d would show the exponent "
    "2.24 over d = 32 to 128. Runs in one pass are checked so seldom that the median run is checked four or five "
    "times; subtracting half the time between checks lowers the interval by less than 0.1. z^2 exp(-z^2): the "
    "exponent of the ratio of medians in one pass and with reuse at rho = 0.35, both at the rate 2/d^2, below 0.5 "
    "(our choice). At this rate one pass takes of the order of d^3 steps, and reuse d^2 log d if it helped as it "
    "helps h4: the ratio d/log d has the exponent 0.69 over d = 16 to 48. Seeds are resampled in pairs; the four "
    "parts share an error rate of 1%.",
    revised="Undecided at scale laptop, where two intervals were wider than their room. Scale paper, on new seeds and "
    "in larger dimensions, decides: it holds. The part on h4 in one pass asked for an exponent above 1.3, which no "
    "target could have missed at the rate 2/d^2. The bound is now 2.3. The rule was changed after the tables had been "
    "seen. At scale paper the claim held before and holds now, there and on fresh seeds.",
)
def hard_even_links(tables: Tables) -> Verdict:
    times = table(tables, "times", NEEDS)
    bounds = {"above": 0.85, "below": 1.15}
    parts = {f"h4, rho = {rho:g}": attempt(_exponent, times, "h4", rho, LEVEL / 4, **bounds) for rho in (0.35, 1.0)}
    parts["h4, one pass"] = attempt(_exponent, times, "h4", 0.0, LEVEL / 4, above=2.3)
    return combine(parts | {"z^2 exp(-z^2)": attempt(_gain, times, "bump", 0.35, 0.5, LEVEL / 4)})


@claim(
    id="staircases/reuse-breaks-leap",
    statement="The sum of all products of three of four signs, of leap 3 and label leap 1, takes of the order of d "
    "examples with reuse; one pass needs more.",
    source="derived here; the idea of reuse comes from Dandi et al. (2024) and Arnaboldi et al. (2024)",
    setting=SETTING + ", uniform signs; bias 1/2; not stated: rho and all constants",
    rule="Exponents of median examples until the weights on the four coordinates have the length 1/2, at least three "
    "dimensions of 29 runs or more. With reuse at rho = 0.1 and 0.35 (rate 0.05/d): each interval within 0.9 to 1.2 "
    "(our choice), over d = 256 to 2048 at scale laptop and 256 to 4096 at scale paper. One pass, with the smallest "
    "median of five rates from 0.01/d to 0.16/d in each dimension: above 1.3 (our choice), over d = 96 to 288 and 128 "
    "to 512. At scale paper the parts on reuse would turn at bounds closer than 0.95 and 1.06, and the part on one "
    "pass at a bound above 1.81. The three parts share an error rate of 1%.",
)
def reuse_breaks_leap(tables: Tables) -> Verdict:
    times = table(tables, "times", NEEDS)
    bounds = {"above": 0.9, "below": 1.2}
    parts = {f"rho = {rho:g}": attempt(_exponent, times, "e3", rho, LEVEL / 3, **bounds) for rho in (0.1, 0.35)}
    return combine(parts | {"one pass": attempt(_exponent, times, "e3", 0.0, LEVEL / 3, above=1.3)})


@claim(
    id="staircases/two-values-gain-nothing",
    statement="For the product of three signs, whose labels are -1 and 1, reuse does not lower the exponent.",
    source="derived here: every function of such a label is an affine function of it",
    setting=SETTING + ", uniform signs; bias -1/2, rho = 0.35, rate 0.5 d^(-3/2) with reuse and without",
    rule="The exponent of the ratio of median examples in one pass and with reuse, at the same rate, over at least "
    "three dimensions of 29 runs or more: its interval below 0.3 (our choice). It fails where the interval is above. "
    "At this rate one pass takes of the order of d^2 steps, and reuse d^(3/2) if it helped: the exponent would be "
    "1/2. Seeds are resampled in pairs; the error rate is 1%.",
    revised="The rule also judged majority of three signs times a fourth, where help would show as log d, with the "
    "exponent 0.16 over the dimensions that were run: below the bound of 0.3, so that this part could not fail. It is "
    "left out, and the statement names the parity alone. The rule was changed after the tables had been seen. The "
    "claim held before and holds now.",
)
def two_values_gain_nothing(tables: Tables) -> Verdict:
    times = table(tables, "times", NEEDS)
    return combine({"x1x2x3": attempt(_gain, times, "x1x2x3", 0.35, 0.3, LEVEL)})


PANELS = (
    ("h3", "Third Hermite polynomial"),
    ("h4", "Even functions: $h_4$ gains"),
    ("e3", "Sum of four parities, $e_3$"),
    ("x1x2x3", "Labels of two values gain nothing"),
)
TOGETHER = {"h4": ("h4", "bump"), "x1x2x3": ("x1x2x3", "maj x4")}
LABELS = {
    "h3": "$h_3$",
    "h4": "$h_4$",
    "bump": "$z^2e^{-z^2}$",
    "e3": "$e_3$",
    "x1x2x3": "$x_1x_2x_3$",
    "maj x4": r"maj$(x_1,x_2,x_3)\,x_4$",
}


def plot(tables: Tables) -> Figure:
    """Draw examples over the dimension, with reuse and in one pass, for each family of targets."""
    figure, grid = panels(2, 2, height=2.5)
    axes = list(grid.ravel())
    for ax, (target, _) in zip(axes, PANELS, strict=True):
        for course, colour in _drawn(target):
            _draw(ax, tables["times"], course, colour)
        logarithmic(ax, "x")
        logarithmic(ax, "y")
        ax.set(xlabel="dimension n", ylabel="examples / n")
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=SMALL)
    title_panels(axes, [title for _, title in PANELS])
    title_figure(
        figure,
        "Using each example twice helps with some real-valued labels, but not with two-valued labels",
        "One ReLU neuron on the sphere, examples until its overlap is 1/2; medians with 95% intervals; "
        "filled: each example used twice, open: one pass",
    )
    return figure


def _drawn(target: str) -> Iterator[tuple[Course, Any]]:
    for number, name in enumerate(TOGETHER.get(target, (target,))):
        courses = sorted((course for course in COURSES if course.target == name), key=lambda course: course.reuse)
        first = COLOURS[number]
        colours = [first, first, COLOURS[number + 2]] if target in TOGETHER else [GREY, *COLOURS]
        yield from zip(courses, colours, strict=False)


def _draw(ax: Axes, times: pd.DataFrame, course: Course, colour: Any) -> None:
    """Draw the medians of a course over the dimension, at the best rate of each."""
    rows = times[(times["target"] == course.target) & (times["reuse"] == course.reuse)]
    medians = rows.fillna({"steps": np.inf}).groupby(["n", "rate"])["steps"].median()
    rows = rows[pd.MultiIndex.from_frame(rows[["n", "rate"]]).isin(medians.groupby("n").idxmin())]
    style: dict[str, Any] = {"linestyle": "-" if course.reuse else "--", "linewidth": 0.8}
    style["fillstyle"] = "full" if course.reuse else "none"
    name = "one pass" if not course.reuse else f"$\\rho$ = {course.reuse:g}"
    draw_medians(ax, rows, colour, f"{LABELS[course.target]}, {name}", unit=lambda n: n, **style)


EXPERIMENT = Experiment(
    name="reuse",
    shows="A neuron that uses each example twice learns some real-valued targets from O(d) examples, but no parity",
    source="Dandi et al. (2024) and Arnaboldi et al. (2024): reuse of examples; the targets on signs are ours",
    scales={
        "smoke": Scale(lambda trials: sweep("smoke", trials), trials=2),
        "laptop": Scale(lambda trials: sweep("laptop", trials), trials=30),
        "paper": Scale(
            lambda trials: sweep("paper", trials), trials=60, part="the sources have no such sizes: laboratory sizes"
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    claims=[reuse_breaks_information, hard_even_links, reuse_breaks_leap, two_values_gain_nothing],
)
