"""How well progress measures, taken while a network knows only its training set, predict when it will generalise.

The source shows restricted and excluded loss and the Gini coefficient of one transformer along its training, with the
key frequencies of the trained network. Here we take the key frequencies at the moment of measurement, and every
measure's rank correlation with the remaining time is estimated over many networks, transformers and two-layer ones, at
fixed steps at which none of these has generalised.

Source: Nanda et al. (2023), section 5.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median
from elegans.analysis.prediction import HALF, Predictor, clock, initially, measured, predictions
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.models import MLP, PairTransformer, ReLU
from elegans.plots.marks import estimates
from elegans.plots.style import COLOURS, GREY, figure_legend, logarithmic, panels, title_figure, title_panels
from elegans.probes import Probe
from elegans.studies.modular_grokking.grokking_measures_claims import CLAIMS
from elegans.studies.modular_grokking.probes import ProgressMeasures
from elegans.studies.modular_grokking.settings import P, network, small_transformer, transformer
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
    "norm of the weights": (COLOURS[4], "v"),
}
"""The predictors that are drawn."""
LINES = {"train": "training", "test": "held-out", "restricted": "restricted", "excluded": "excluded"}
"""The losses that are drawn along training."""
SHARES = (0.25, 0.5, 0.75)
"""The fixed steps, as shares of the median time to generalise."""
PHASES = ("step", "train", "restricted", "excluded", "norm", "first_before", "first_after")
"""The numbers of the table of phases."""
HALF_WRONG = 0.5
"""The held-out error up to which a network has not generalised, where its phases are told apart."""
MOST_DRAWN = 3
"""How many kinds of networks are drawn, the last ones."""
EVERY, SEED = 20, 0
AFTER = 30
"""For how many measurements in a row the published transformers keep the test error below 1% before they stop."""


def networks(p: int, width: int) -> list[Trial]:
    """Return quadratic networks on 70% and on half of the pairs, and ReLU networks on 80%."""
    task = ModularAddition(p=p)
    kinds = ((0.7, "power:2"), (0.5, "power:2"), (0.8, "relu"))
    return [network(task, fraction, width=width, activation=name, every=EVERY) for fraction, name in kinds]


def smoke(trials: int) -> Sweep:
    """Return p = 19 and narrow networks, and few steps of a transformer."""
    attention = transformer(ModularAddition(p=19), 0.8, width=16, mlp_width=32, learning_rate=0.01, steps=200, every=50)
    return Sweep.of([*networks(19, 64), attention], trials)


def laptop(trials: int) -> Sweep:
    """Return p = 23 and width 128, and for four of these three small transformers on half of the pairs, p = 31."""
    attention = Sweep.of([small_transformer(0.5, weight_decay=3.0, steps=2500)], 3 * trials // 4)
    return Sweep.of(networks(P, 128), trials) + attention


def paper(trials: int) -> Sweep:
    """Return the source's transformer on its fraction of the pairs, p = 113, and quadratic networks of width 256.

    The transformers train on for a while after they generalise, because their embeddings become sparse meanwhile.
    """
    task = ModularAddition(p=113)
    attention = transformer(task, 0.3, steps=20_000, every=100).replace("training.stopping.consecutive", AFTER)
    return Sweep.of([attention, network(task, 0.3, width=256, every=EVERY)], trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the progress measures whenever the stopping rule is checked."""
    return (ProgressMeasures(every=one.stopping.every),)


def name_of(one: Trial) -> str:
    """Return a network in a few words."""
    assert isinstance(one.model, MLP | PairTransformer) and isinstance(one.regime, Split)
    kind = "ReLU" if isinstance(one.model.activation, ReLU) else "quadratic"
    kind = "transformer" if isinstance(one.model, PairTransformer) else kind
    return f"{kind}, {100 * one.regime.fraction:.0f}% of the pairs"


def analyse(results: Results) -> Tables:
    """Return ``table``, ``course`` and ``phases``.

    ``table`` has the rank correlation of each predictor with the remaining time, with its interval, by network and
    moment: the columns of ``elegans.analysis.predictions``, ``network``, ``median_steps`` and ``share`` (the fixed step
    as a share of it). ``course`` has the medians over a network's trials of every measure, by step, as long as half of
    them train. ``phases`` has one row per trial; see ``phases``.
    """
    recorded = [results.trial(place) for place in results.trials.index.tolist()]
    since = [(trial.stopping.consecutive - 1) * trial.stopping.every for trial in recorded]
    solved_at = results.trials["solved_at"] - since  # at the first of the checks that must pass
    trials = results.trials.assign(network=[name_of(trial) for trial in recorded], solved_at=solved_at)
    measures = results.measures[KIND].join(trials["network"], on="trial")
    tables: dict[str, list[pd.DataFrame]] = {"table": [], "course": [], "phases": []}
    for name, rows in trials.groupby("network", sort=False):
        measured_here = measures[measures["network"] == name].drop(columns="network")
        numbers = measured_here.drop(columns=["trial", "seed"]).astype(float).groupby("step")
        middle = median(rows["solved_at"].to_numpy(float, na_value=np.nan))
        steps = {s: max(EVERY, round(s * middle / EVERY) * EVERY) for s in SHARES if np.isfinite(middle)}
        generator = np.random.default_rng(SEED)
        predicted = predictions(rows, {KIND: measured_here}, PREDICTORS, steps=steps.values(), generator=generator)
        share = predicted["step"].map({float(step): share for share, step in steps.items()})
        parts = {
            "table": predicted.assign(network=str(name), median_steps=middle, share=share),
            "course": numbers.median()[numbers.size() >= len(rows) / 2].reset_index().assign(network=str(name)),
            "phases": phases(rows, measured_here).assign(network=str(name)),
        }
        for kind, part in parts.items():
            tables[kind].append(part)
    return {kind: pd.concat(parts, ignore_index=True) for kind, parts in tables.items()}


def phases(trials: pd.DataFrame, measures: pd.DataFrame) -> pd.DataFrame:
    """Return what has changed in each trial at the last measurement at which over half of the held-out pairs are wrong.

    Columns: seed; ``generalised``; ``step``, that measurement's; ``train``, ``restricted`` and ``gini``, the losses and
    the Gini coefficient then relative to the initial ones, and ``excluded``, relative to its least value until then;
    ``norm``, the last sum of squared weights relative to that one; ``first_before`` and ``first_after``, the initial
    and the last share of the five strongest frequencies in the embedding's power.
    """
    rows = []
    solved_at = trials["solved_at"].astype(float)
    for trial, course in measures.groupby("trial"):
        before = course[course["step"] <= course.loc[course["error"] > HALF_WRONG, "step"].max()]
        start, then, end = course.iloc[0], before.iloc[-1], course.iloc[-1]
        rows.append(
            {
                "seed": trials.at[trial, "seed"],
                "generalised": bool(np.isfinite(solved_at[trial])),
                "step": then["step"],
                **{measure: then[measure] / start[measure] for measure in ("train", "restricted", "gini")},
                "excluded": then["excluded"] / before["excluded"].min(),
                "norm": end["norm"] / then["norm"],
                "first_before": start["first"],
                "first_after": end["first"],
            }
        )
    return pd.DataFrame(rows)


def plot(tables: Tables) -> Figure:
    """Draw the median losses along training, and below how well five predictors rank networks by the remaining steps.

    Absolute values of Spearman's rank correlations at fixed steps, with 95% bootstrap intervals, among networks that
    have not generalised by then.
    """
    table, course = tables["table"], tables["course"]
    names = list(dict.fromkeys(table["network"]))[-MOST_DRAWN:]
    figure, axes = panels(2, len(names), height=2.2)
    for upper, lower, name in zip(axes[0], axes[1], names, strict=True):
        rows = course[course["network"] == name]
        for colour, (column, label) in zip((GREY, *COLOURS), LINES.items(), strict=False):
            upper.plot(rows["step"], rows[column], color=colour, linewidth=1, label=f"{label} loss")
        logarithmic(upper)
        upper.set_xlabel("steps")
        rows = table[(table["network"] == name) & table["share"].notna()]
        for place, (predictor, (colour, marker)) in enumerate(SHOWN.items()):
            ranks = rows[rows["predictor"] == predictor]
            size, first, second = (ranks[column].abs() for column in ("correlation", "low", "high"))
            low = np.where(ranks["low"] * ranks["high"] < 0, 0, np.minimum(first, second))
            at = 100 * ranks["share"] + 1.2 * (place - 2)
            style: dict[str, Any] = {"fmt": f"{marker}-", "capsize": 0, "label": predictor}
            estimates(lower, at, size, low, np.maximum(first, second), colour, **style)
        lower.set_xticks([100 * share for share in SHARES], [f"{100 * share:.0f}%" for share in SHARES])
        lower.set(ylim=(-0.02, 1), xlabel="step / median time to generalise")
    axes[0, 0].set_ylabel("median loss")
    axes[1, 0].set_ylabel("|correlation with remaining steps|")
    sizes = table.groupby("network")["trials"].max()
    title_panels(
        axes, [*(name[0].upper() + name[1:] for name in names), *(f"{sizes[name]:.0f} trials" for name in names)]
    )
    finding = "The restricted loss predicts when transformers generalise, but barely when two-layer networks do"
    correlations = "rank correlations with the remaining steps, 95% bootstrap intervals"
    title_figure(figure, finding, f"Modular addition, cross-entropy with weight decay; {correlations}")
    figure_legend(figure, axes[0, 0], axes[1, 0], columns=3)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return each predictor's rank correlation and its 95% bootstrap interval, by network and moment.

    ``phases`` has the medians of that table over the networks that generalise, and how many do.
    """
    networks: dict[str, Any] = {}
    for (name, when, _), rows in tables["table"].groupby(["network", "when", "step"], sort=False, dropna=False):
        first = rows.iloc[0]
        moment = when if when == HALF else f"{100 * first['share']:.0f}% of the median"
        networks.setdefault(str(name), {"median_steps": finite_or_none(first["median_steps"])})[moment] = {
            "step": finite_or_none(first["step"]),
            "trials": int(first["trials"]),
            "predictors": {
                row["predictor"]: [finite_or_none(row[end], 3) for end in ("correlation", "low", "high")]
                for row in rows.to_dict("records")
            },
        }
    for name, rows in tables["phases"].groupby("network", sort=False):
        middle = rows[rows["generalised"]].median(numeric_only=True)
        numbers = {column: finite_or_none(middle[column], 3) for column in PHASES}
        counts = {"trials": len(rows), "generalised": int(rows["generalised"].sum())}
        networks[str(name)]["phases"] = counts | numbers
    return networks


EXPERIMENT = Experiment(
    name="grokking-measures",
    shows="How well progress measures predict when a network that knows only its training set will generalise",
    source="Nanda et al. (2023), figure 7; the numbers are new",
    scales={
        "smoke": Scale(smoke, trials=3),
        "laptop": Scale(laptop, trials=120),
        "paper": Scale(paper, trials=10),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)
