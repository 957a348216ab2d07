"""At which pool size a small transformer stops following the predictor that is best for its pool."""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import round_significant
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import attempt, combine, table
from elegans.plots.style import COLOURS, GREY, figure_legend, logarithmic, panels, title_figure, title_panels
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.in_context_regression.fits import LEVEL, bayes, by_mean
from elegans.studies.in_context_regression.models import SequenceTransformer
from elegans.studies.in_context_regression.probes import BayesDistance
from elegans.studies.in_context_regression.tasks import LinearRegressionSequences
from elegans.sweeps import Sweep
from elegans.tasks import Online
from elegans.training import Adam, Square, Trial
from elegans.training.schedules import Cosine

D, POINTS, NOISE = 4, 8, 0.25
"""Dimensions, labels per sequence and noise; published: 8, 16 and 0.25."""
POOLS = {
    "smoke": (2, 64),
    "laptop": (2, 8, 32, 128),
    "paper": (2, 8, 32, 128, 256, 512),
}
STEPS = {"smoke": 100, "laptop": 2500, "paper": 20_000}
RATE, BATCH = 3e-3, 64
COMPARED = tuple(2**power for power in range(1, 12))
"""Pool sizes at which the predictors are compared with each other."""
SEQUENCES = {"smoke": 128, "laptop": 2048, "paper": 8192}
DIFFERS = 1.1
"""The predictors differ while the error of the pool's predictor on fresh tasks is larger by at least a tenth."""
LEAST = 3


def trained(pool: int, steps: int) -> Trial:
    """Return a transformer that learns the tasks of a pool from fresh sequences."""
    return Trial(
        task=LinearRegressionSequences(
            d=D, length=POINTS - 1, trace=float(D), noise=NOISE, query_noise=True, pool=pool, output="each"
        ),
        regime=Online(),
        model=SequenceTransformer(layers=2, width=32, heads=2),
        training=Adam(
            steps=steps,
            learning_rate=RATE,
            batch_size=BATCH,
            loss=Square(scale=2.0),
            schedule=Cosine(steps=steps),
            stopping=StoppingRule(error=0, examples=1000, every=steps),
        ),
    )


def sweep(scale: str, trials: int) -> Sweep:
    """Return a cell for each pool size."""
    return Sweep(tuple((trained(pool, STEPS[scale]), range(trials)) for pool in POOLS[scale]))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the distances from both predictors, eight times."""
    return (BayesDistance(every=max(1, one.steps // 8)),)


def analyse(results: Results) -> Tables:
    """Return ``networks`` and ``predictors``.

    ``networks`` has errors and distances from both predictors by pool size, seed and step; ``predictors`` the errors of
    these, see ``fits.bayes``.
    """
    rows = results.measured("bayes-distance", "task.pool").rename(columns={"task.pool": "tasks"})
    measured = [f"{of}_{kind}" for kind in ("fresh", "pool") for of in ("error", "ridge", "known")]
    networks = rows[["tasks", "seed", "step", *measured]].astype({"tasks": int, "step": int})
    return {
        "networks": networks.round(dict.fromkeys(measured, 6)).reset_index(drop=True),
        "predictors": bayes(SEQUENCES[results.scale], D, POINTS, NOISE, COMPARED, results.first_seed),
    }


def ends(networks: pd.DataFrame) -> pd.DataFrame:
    """Return the last measurement of each network."""
    last: pd.DataFrame = networks[networks["step"] == networks["step"].max()]
    return last


def last_different(predictors: pd.DataFrame) -> float:
    """Return the largest pool size at which the predictors differ on fresh tasks."""
    fresh = predictors[predictors["tested"] == "fresh"].pivot(index="tasks", columns="predictor", values="error")
    differ = fresh.index[fresh["for the pool"] > DIFFERS * fresh["ridge"]]
    return float(differ.max()) if len(differ) else math.nan


def _nearer(networks: pd.DataFrame, tasks: float, level: float, **side: float) -> Verdict:
    rows = networks[networks["tasks"] == tasks]
    ratios = np.log(rows["ridge_fresh"] / rows["known_fresh"])
    what = f"the log ratio of distances to ridge and to the pool's predictor at {tasks:g} tasks"
    return by_mean(what, ratios, level, least=LEAST, **side)


@claim(
    id="icl/bayes-switch",
    statement="A transformer trained on few tasks follows the predictor that is best for its pool. Trained on many "
    "tasks it is nearer to ridge regression, at a pool size at which the two predictors still differ.",
    source="Raventós et al. (2023), section 3; a much smaller network",
    setting="2 layers of width 32 and 2 heads, 4 dimensions, 8 points, noise 0.25, 2500 steps (laptop) or 20,000 of "
    "Adam at 0.003, batch 64; the source has 8 layers of width 128, 8 dimensions and 500,000 steps",
    rule="On fresh tasks, the logarithm of the ratio of two mean square distances of a network, from ridge regression "
    "and from the pool's predictor; mean over at least three networks, t intervals. At the smallest pool it is above "
    "0. At the largest trained pool at which the predictors' own errors on fresh tasks differ by more than 10%, it is "
    "below 0. Two parts share an error rate of 1%.",
    revised="A first run had one network for each pool. They followed the pool's predictor at 2 and 8 tasks and were "
    "nearer to ridge regression from 32 on. Since then the scales have four and five networks; the rule is unchanged. "
    "Four networks of 2500 steps left both parts undecided. Eight networks on new seeds decide: the claim holds.",
)
def bayes_switch(tables: Tables) -> Verdict:
    networks = ends(table(tables, "networks", "networks"))
    sizes = sorted(set(networks["tasks"]))
    different = [size for size in sizes if size <= last_different(tables["predictors"])]
    if len(different) < 2:
        raise InsufficientData("two sizes of pools whose predictors differ")
    parts = {
        "few tasks": attempt(_nearer, networks, different[0], LEVEL / 2, above=0.0),
        "many tasks": attempt(_nearer, networks, different[-1], LEVEL / 2, below=0.0),
    }
    return combine(parts)


def findings(tables: Tables) -> dict[str, Any]:
    """Return mean distances and errors by pool size, and up to which size the predictors differ."""
    stated: dict[str, Any] = {"predictors differ up to": last_different(tables["predictors"])}
    for tasks, rows in ends(tables["networks"]).groupby("tasks"):
        means = rows.drop(columns=["tasks", "seed", "step"]).mean()
        stated[f"{tasks} tasks"] = {name: round_significant(float(value), 3) for name, value in means.items()}
        stated[f"{tasks} tasks"]["nearer to ridge"] = int((rows["ridge_fresh"] < rows["known_fresh"]).sum())
    return stated


def plot(tables: Tables) -> Figure:
    """Draw distances from both predictors and errors against the pool size."""
    figure, ((left, middle, right),) = panels(1, 3, height=2.8)
    networks = ends(tables["networks"])
    for ax, kind in ((left, "fresh"), (middle, "pool")):
        for name, label, colour in (
            ("known", "from the pool's predictor", COLOURS[1]),
            ("ridge", "from ridge", COLOURS[0]),
        ):
            column = f"{name}_{kind}"
            ax.plot(networks["tasks"], networks[column], "o", color=colour, markersize=3, alpha=0.6)
            means = networks.groupby("tasks")[column].mean()
            ax.plot(means.index, means, color=colour, linewidth=1, label=label)
        ax.set(xlabel="tasks in the pool", ylabel="mean square distance")
    of = tables["predictors"][tables["predictors"]["tested"] == "fresh"]
    for predictor, colour in (("for the pool", COLOURS[1]), ("ridge", COLOURS[0])):
        rows = of[of["predictor"] == predictor]
        right.plot(rows["tasks"], rows["error"], "--", color=colour, linewidth=1, label=f"predictor: {predictor}")
    means = networks.groupby("tasks")["error_fresh"].mean()
    right.plot(networks["tasks"], networks["error_fresh"], "o", color=COLOURS[2], markersize=3, alpha=0.6)
    right.plot(means.index, means, color=COLOURS[2], linewidth=1, label="network")
    right.set(xlabel="tasks in the pool", ylabel="error on fresh tasks")
    for ax in (left, middle, right):
        logarithmic(ax, "x")
        logarithmic(ax, "y")
        ax.axvline(last_different(tables["predictors"]), color=GREY, linewidth=0.6, linestyle=":")
    title_panels((left, middle, right), ("On fresh tasks", "On tasks of the pool", "Error on fresh tasks"))
    title_figure(
        figure,
        "With more tasks a small transformer leaves the pool's predictor for ridge regression",
        f"In-context regression, {D} dimensions, {POINTS} points, {networks['step'].max():,} steps; dots: networks; "
        "dotted: up to here the predictors' errors on fresh tasks differ by 10%",
    )
    figure_legend(figure, left, right, columns=5)
    return figure


EXPERIMENT = Experiment(
    name="icl-transformer-diversity",
    shows="A small transformer follows its pool of tasks while the pool is small, then ridge regression",
    source="Raventós et al. (2023), section 3",
    scales={
        "smoke": Scale(lambda trials: sweep("smoke", trials), trials=1),
        "laptop": Scale(lambda trials: sweep("laptop", trials), trials=4),
        "paper": Scale(lambda trials: sweep("paper", trials), trials=5, part="a smaller network and fewer steps"),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=[bayes_switch],
)
