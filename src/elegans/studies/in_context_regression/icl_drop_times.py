"""When attention's loss drops: the logistic of merged attention, and the staircase's times by initial weights."""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median, round_significant
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import attempt, by_interval, by_share, combine, table
from elegans.plots.style import COLOURS, GREY, figure_legend, logarithmic, panels, title_figure, title_panels
from elegans.probes import Probe
from elegans.studies.in_context_regression.drops import LENGTH, D, no_stop
from elegans.studies.in_context_regression.fits import LEVEL
from elegans.studies.in_context_regression.models import LinearAttention
from elegans.studies.in_context_regression.probes import LevelCrossings, Preconditioner
from elegans.studies.in_context_regression.tasks import LinearRegressionSequences
from elegans.studies.in_context_regression.theory.descent import context_half_time, context_head_time, context_moment
from elegans.sweeps import Sweep
from elegans.tasks import Online
from elegans.training import Trial

HEADS = (1, 2, 4, 8, 16)
MERGED_RATE, MERGED_STEPS, MERGED_INIT = 0.02, 9000, 1e-5
SEPARATE_RATE, SEPARATE_HEADS = 0.5, 5
INITS = (0.05, 0.1, 0.2)
SEPARATE_STEPS = {"smoke": 4000, "laptop": 16_000, "paper": 40_000}
SPECTRUM = (0.4, 0.3, 0.2, 0.1)
ROOM = 0.02
SLOPE = 0.005
"""How much the ratio of times may change with a doubling of the heads."""


def merged(heads: int) -> Trial:
    """Return merged attention on white inputs, by the expected gradient."""
    task = LinearRegressionSequences(d=D, length=LENGTH)
    stopping = no_stop(MERGED_STEPS)
    model = LinearAttention(heads=heads, rate=MERGED_RATE, init=MERGED_INIT, steps=MERGED_STEPS, stopping=stopping)
    return Trial(task=task, regime=Online(), model=model)


def separate(init: float, steps: int) -> Trial:
    """Return separate attention of rank one on eigenvalues 1:2:3:4, by the expected gradient."""
    task = LinearRegressionSequences(d=D, length=LENGTH, covariance="linear")
    stopping = no_stop(steps)
    model = LinearAttention(heads=SEPARATE_HEADS, rank=1, rate=SEPARATE_RATE, init=init, steps=steps, stopping=stopping)
    return Trial(task=task, regime=Online(), model=model)


def sweep(scale: str, trials: int) -> Sweep:
    """Return merged attention by heads, and separate attention by initial weights."""
    cells = [merged(heads) for heads in HEADS]
    cells += [separate(init, SEPARATE_STEPS[scale]) for init in INITS]
    return Sweep(tuple((cell, range(trials)) for cell in cells))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return what is learned, or the middles that are passed."""
    assert isinstance(one.model, LinearAttention)
    return (Preconditioner(every=10),) if one.model.rank is None else (LevelCrossings(every=20),)


def first_size(one: Trial) -> float:
    """Return P0 of a start on white inputs."""
    assert isinstance(one.model, LinearAttention)
    first = one.model.initialise(one.key("init"), one.task)
    traces = first["key_query"].trace(axis1=1, axis2=2)
    return float((((first["value"][:, 0] + traces / math.sqrt(D)) / 2) ** 2).sum())


def half_time(steps: np.ndarray, shares: np.ndarray) -> float:
    """Return the step at which a share passes one half, between measurements by its logit; NaN if it does not."""
    above = np.flatnonzero(shares >= 0.5)
    if not len(above) or not above[0]:
        return math.nan
    logits = np.log(shares[above[0] - 1 : above[0] + 1] / (1 - shares[above[0] - 1 : above[0] + 1]))
    before, after = steps[above[0] - 1], steps[above[0]]
    return float(before + (after - before) * -logits[0] / (logits[1] - logits[0]))


def analyse(results: Results) -> Tables:
    """Return ``halves`` and ``crossings``.

    ``halves`` has one row per run of merged attention: heads, seed, the time at which half of M is learned, and the
    time of the logistic curve from the run's own start. ``crossings`` has the times at which separate attention passes
    the middles between levels, NaN where it has not.
    """
    halves, crossings = [], []
    for trial, rows in results.measures["preconditioner"].groupby("trial"):
        one = results.trial(int(str(trial)))
        assert isinstance(one.model, LinearAttention)
        shares = np.stack(rows["shares"].to_list()).mean(axis=1)
        time = MERGED_RATE * half_time(rows["step"].to_numpy(float), shares)
        theory = context_half_time(D, LENGTH, first_size(one), variance=1 / D)
        key = {"heads": one.model.heads, "seed": one.seed}
        halves.append({**key, "time": round(time, 5), "theory": round(theory, 5)})
    for trial, rows in results.measures["level-crossings"].groupby("trial"):
        one = results.trial(int(str(trial)))
        assert isinstance(one.model, LinearAttention)
        last = rows.sort_values("step")["crossings"].iloc[-1]
        times = {f"drop{m + 1}": SEPARATE_RATE * float(step) for m, step in enumerate(last)}
        crossings.append({"init": one.model.init, "seed": one.seed, **times})
    return {"halves": pd.DataFrame(halves), "crossings": pd.DataFrame(crossings)}


def _near(rows: pd.DataFrame, level: float) -> Verdict:
    near = (rows["time"] / rows["theory"] - 1).abs() <= ROOM
    return by_share("runs within 2% of the logistic's time", int(near.sum()), len(rows), above=0.9, level=level)


def _heads(rows: pd.DataFrame, level: float) -> Verdict:
    from scipy.stats import linregress, t

    if rows["heads"].nunique() < 3:
        raise InsufficientData("three numbers of heads")
    fitted = linregress(np.log2(rows["heads"]), rows["time"] / rows["theory"])
    half = float(t.ppf(1 - level / 2, len(rows) - 2) * fitted.stderr)
    interval = fitted.slope - half, fitted.slope + half
    what = "the change of the ratio with a doubling of the heads"
    return by_interval(what, float(fitted.slope), interval, above=-SLOPE, below=SLOPE, error_rate=level)


@claim(
    id="icl/logistic",
    statement="On white inputs merged attention has learned half of its solution at the time that a logistic curve "
    "predicts. This time depends on the start, and on the number of heads, only through P0.",
    source="Zhang, Singh, Latham and Saxe (2025), section 3, time course for white inputs; P0 of any start derived "
    "here",
    setting="d = 4, 31 examples, expected gradient, initial weights 1e-5, 1 to 16 heads",
    rule="A run counts if it learns half of M at a time within 2% of the formula for its own start. More than 90% "
    "(our choice) of at least 100 runs count, by exact limits. The change of the ratio of both times with a doubling "
    "of the heads, by regression, lies in -0.005 to 0.005 (our choice). Two parts share an error rate of 1%.",
)
def logistic(tables: Tables) -> Verdict:
    rows = table(tables, "halves", "100 runs of merged attention")
    if len(rows) < 100:
        raise InsufficientData("100 runs of merged attention")
    return combine({"times": _near(rows, LEVEL / 2), "heads": attempt(_heads, rows, LEVEL / 2)})


def findings(tables: Tables) -> dict[str, Any]:
    """Return by heads the range of ratios of times, and by initial weights the median times of drops."""
    stated: dict[str, Any] = {}
    for heads, rows in tables["halves"].groupby("heads"):
        ratio = rows["time"] / rows["theory"]
        stated[f"{heads} heads"] = {
            "runs": len(rows),
            "least ratio": round_significant(float(ratio.min()), 5),
            "largest ratio": round_significant(float(ratio.max()), 5),
        }
    for init, rows in tables["crossings"].groupby("init"):
        times = {
            f"drop {m}": finite_or_none(median(rows[f"drop{m}"].fillna(np.inf).to_numpy(float)), 4)
            for m in range(1, D + 1)
        }
        stated[f"initial weights {init:g}"] = {"runs": len(rows), **times}
    return stated


def plot(tables: Tables) -> Figure:
    """Draw measured times against the logistic's, and times of drops against eigenvalues."""
    figure, ((left, right),) = panels(1, 2, height=2.8)
    halves = tables["halves"]
    for number, (heads, rows) in enumerate(halves.groupby("heads")):
        left.plot(
            rows["theory"],
            rows["time"],
            "o",
            color=COLOURS[number],
            markersize=3,
            label=f"{heads} head{'s' * (heads != 1)}",
        )
    ends = [halves["theory"].min(), halves["theory"].max()]
    left.plot(ends, ends, color=GREY, linewidth=0.8)
    left.set(xlabel="predicted half-time", ylabel="measured half-time")
    gamma = context_moment(SPECTRUM, LENGTH)
    for number, (init, rows) in enumerate(tables["crossings"].groupby("init")):
        drops = rows[[f"drop{m + 1}" for m in range(D)]].fillna(np.inf)
        middle = np.array([median(drops[column].to_numpy(float)) for column in drops])
        shown = np.isfinite(middle)
        colour, lam = COLOURS[number], np.array(SPECTRUM)
        right.plot(lam[shown], middle[shown], "o-", color=colour, linewidth=1, label=f"initial weights {init:g}")
        aligned = [context_head_time(a, g, float(str(init))) for a, g in zip(SPECTRUM, gamma, strict=True)]
        right.plot(SPECTRUM, aligned, "--", color=colour, linewidth=0.8)
    logarithmic(right, "y")
    right.set(xlabel="eigenvalue", ylabel="time of its drop")
    title_panels((left, right), ("Merged: the start sets the time", "Separate: small eigenvalues wait"))
    title_figure(
        figure,
        "The start sets the time of merged attention's drop; in the staircase smaller eigenvalues come later",
        "d = 4, 31 examples, expected gradient; left: white inputs; right: 5 heads of rank one, medians; dashed: a "
        "head that starts aligned",
    )
    figure_legend(figure, left, right, columns=4)
    return figure


EXPERIMENT = Experiment(
    name="icl-drop-times",
    shows="Merged attention drops at a time that its start sets; the staircase's drops wait for their eigenvalues",
    source="Zhang, Singh, Latham and Saxe (2025), sections 3 and 4; derived here",
    scales={
        "smoke": Scale(lambda trials: sweep("smoke", trials), trials=2),
        "laptop": Scale(lambda trials: sweep("laptop", trials), trials=24),
        "paper": Scale(lambda trials: sweep("paper", trials), trials=100, part="rank one"),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=[logistic],
)
