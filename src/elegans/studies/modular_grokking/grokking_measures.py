"""How well progress measures, taken while a network knows only its training set, predict when it will generalise.

The source shows restricted and excluded loss and the Gini coefficient of one transformer along its training, with the
key frequencies of the trained network. Here they are those of the moment, and every measure's rank correlation with the
remaining time is estimated over many networks, at fixed steps at which none of these has generalised.

Source: Nanda et al. (2023), section 5.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import finite, median
from elegans.analysis.prediction import HALF, Predictor, clock, initially, measured, predictions
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.models import MLP, ReLU
from elegans.plots.style import COLOURS, GREY, MEDIUM, legend_below, lettered, logarithmic, panels, quiet
from elegans.probes import Probe
from elegans.studies.modular_grokking.grokking_measures_claims import CLAIMS
from elegans.studies.modular_grokking.probes import ProgressMeasures
from elegans.studies.modular_grokking.settings import P, network
from elegans.sweeps import Sweep
from elegans.tasks import ModularAddition, Split
from elegans.training import Trial

KIND = "progress-measures"
PREDICTORS: dict[str, Predictor] = {
    "steps taken": clock,
    "training loss": measured(KIND, "train"),
    "held-out loss": measured(KIND, "test"),
    "restricted loss": measured(KIND, "restricted"),
    "excluded loss": measured(KIND, "excluded"),
    "Gini coefficient": measured(KIND, "gini"),
    "share of key frequencies": measured(KIND, "key"),
    "norm of the weights": measured(KIND, "norm"),
    "Gini coefficient, initially": initially(measured(KIND, "gini")),
}
SHOWN = {
    "held-out loss": (COLOURS[0], "o"),
    "restricted loss": (COLOURS[1], "s"),
    "excluded loss": (COLOURS[2], "^"),
    "Gini coefficient": (COLOURS[3], "D"),
    "norm of the weights": (GREY, "x"),
}
"""The predictors that are drawn."""
LINES = {"train": "training", "test": "held-out", "restricted": "restricted", "excluded": "excluded"}
"""The losses that are drawn along training."""
SHARES = (0.25, 0.5, 0.75)
"""The fixed steps, as shares of the median time to generalise."""
EVERY, SEED = 20, 0


def networks(p: int, width: int, trials: int) -> Sweep:
    """Return quadratic networks on half and on 70% of the pairs, and ReLU networks on 80%."""
    task = ModularAddition(p=p)
    cells = [
        network(task, 0.7, width=width, every=EVERY),
        network(task, 0.5, width=width, every=EVERY),
        network(task, 0.8, width=width, activation="relu", every=EVERY),
    ]
    return Sweep(tuple((cell, range(trials)) for cell in cells))


def smoke(trials: int) -> Sweep:
    """Return p = 19 and narrow networks."""
    return networks(19, 64, trials)


def laptop(trials: int) -> Sweep:
    """Return p = 23 and width 128."""
    return networks(P, 128, trials)


def paper(trials: int) -> Sweep:
    """Return p = 113 and width 256, on the source's fraction of the pairs."""
    return Sweep(((network(ModularAddition(p=113), 0.3, width=256, every=EVERY), range(trials)),))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the progress measures whenever the stopping rule is checked."""
    return (ProgressMeasures(every=one.stopping.every),)


def name_of(one: Trial) -> str:
    """Return a network in a few words."""
    assert isinstance(one.model, MLP) and isinstance(one.regime, Split)
    kind = "ReLU" if isinstance(one.model.activation, ReLU) else "quadratic"
    return f"{kind}, {100 * one.regime.fraction:.0f}% of the pairs"


def analyse(results: Results) -> Tables:
    """Return ``table`` and ``course``.

    ``table`` has the rank correlation of each predictor with the remaining time, with its interval, by network and
    moment: the columns of ``elegans.analysis.predictions``, ``network``, ``median_steps`` and ``share`` (the fixed step
    as a share of it). ``course`` has the medians over a network's trials of every measure, by step, as long as half of
    them train.
    """
    named = [name_of(results.trial(place)) for place in results.trials.index.tolist()]
    trials = results.trials.assign(network=named)
    measures = results.measures[KIND]
    found, courses = [], []
    for name, rows in trials.groupby("network", sort=False):
        own = measures[measures["trial"].isin(rows.index)]
        numbers = own.drop(columns=["trial", "seed"]).astype(float).groupby("step")
        course = numbers.median()[numbers.size() >= len(rows) / 2].reset_index()
        courses.append(course.assign(network=str(name)))
        middle = median(rows["solved_at"].to_numpy(float, na_value=np.nan))
        steps = {s: max(EVERY, round(s * middle / EVERY) * EVERY) for s in SHARES if np.isfinite(middle)}
        generator = np.random.default_rng(SEED)
        table = predictions(rows, {KIND: own}, PREDICTORS, steps=steps.values(), generator=generator)
        share = table["step"].map({float(step): share for share, step in steps.items()})
        found.append(table.assign(network=str(name), median_steps=middle, share=share))
    return {"table": pd.concat(found, ignore_index=True), "course": pd.concat(courses, ignore_index=True)}


def plot(tables: Tables) -> Figure:
    """Draw the median losses along training, and below how well five predictors rank networks by the remaining steps.

    Absolute values of Spearman's rank correlations at fixed steps, with 95% bootstrap intervals, among networks that
    have not generalised by then.
    """
    table, course = tables["table"], tables["course"]
    names = list(dict.fromkeys(table["network"]))
    figure, axes = panels(2, len(names), height=2.2)
    for upper, lower, name in zip(axes[0], axes[1], names, strict=True):
        own = course[course["network"] == name]
        for colour, (column, label) in zip((GREY, *COLOURS), LINES.items(), strict=False):
            upper.plot(own["step"], own[column], color=colour, linewidth=1, label=f"{label} loss")
        logarithmic(upper)
        upper.set_xlabel("steps", fontsize=MEDIUM)
        _ranks(lower, table[(table["network"] == name) & table["share"].notna()])
        for ax in (upper, lower):
            quiet(ax)
    axes[0, 0].set_ylabel("median loss", fontsize=MEDIUM)
    axes[1, 0].set_ylabel("|rank correlation|", fontsize=MEDIUM)
    lettered(axes, [*names, *("predicting the remaining steps" for _ in names)])
    legend_below(figure, axes[0, 0], axes[1, 0], columns=5)
    return figure


def _ranks(ax: Axes, rows: pd.DataFrame) -> None:
    for place, (name, (colour, marker)) in enumerate(SHOWN.items()):
        own = rows[rows["predictor"] == name]
        size, low, high = (own[column].abs() for column in ("correlation", "low", "high"))
        least = np.where(own["low"] * own["high"] < 0, 0, np.minimum(low, high))
        bars = [np.maximum(size - least, 0), np.maximum(np.maximum(low, high) - size, 0)]
        style: dict[str, Any] = {"color": colour, "linewidth": 1, "markersize": 3.5, "label": name, "marker": marker}
        ax.errorbar(100 * own["share"] + 1.2 * (place - 2), size, yerr=np.nan_to_num(bars), **style)
    ax.set_xticks([100 * share for share in SHARES], [f"{100 * share:.0f}%" for share in SHARES])
    ax.set(ylim=(0, 1))
    ax.set_xlabel("step / median time to generalise", fontsize=MEDIUM)


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each network and moment, each predictor's rank correlation and its 95% bootstrap interval."""
    found: dict[str, Any] = {}
    for (name, when, _), rows in tables["table"].groupby(["network", "when", "step"], sort=False, dropna=False):
        first = rows.iloc[0]
        moment = when if when == HALF else f"{100 * first['share']:.0f}% of the median"
        found.setdefault(str(name), {"median_steps": finite(first["median_steps"])})[moment] = {
            "step": finite(first["step"]),
            "trials": int(first["trials"]),
            "predictors": {
                row["predictor"]: [finite(row[each], 3) for each in ("correlation", "low", "high")]
                for row in rows.to_dict("records")
            },
        }
    return found


EXPERIMENT = Experiment(
    name="grokking-measures",
    shows="How well progress measures predict when networks will generalise, while these know their training set alone",
    source="Nanda et al. (2023), figure 7; the numbers are new",
    scales={
        "smoke": Scale(smoke, trials=3),
        "laptop": Scale(laptop, trials=120),
        "paper": Scale(paper, trials=10, part="two-layer networks instead of transformers"),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)
