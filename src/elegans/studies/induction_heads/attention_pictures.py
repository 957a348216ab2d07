"""What the two layers of a transformer attend to while it learns bigrams, and which of them is learned first.

One sequence is followed over training. What each layer contributes is measured by layer transplants (the thesis only
suggests that the second layer is learned first): the final network with one layer taken from an earlier step, and the
network of that step with the other layer taken from the end. A layer counts as learned once such a network's loss is
below the midpoint of unigrams' and bigrams'. Transplants, and the steps at which masses have risen by half, are our own
measures.

Source: thesis, chapter 8 (figures 8.2 and E.5).
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import binomtest

from elegans.analysis import describe, round_significant
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.plots.style import GRAMS, GREY, LAYER_COLOURS, figure_legend, panels, short, title_figure, title_panels
from elegans.probes import ParameterTrajectory, Probe
from elegans.studies.induction_heads.animations import attention_animation, attention_page
from elegans.studies.induction_heads.attention_histories import histories_of, map_table, maps
from elegans.studies.induction_heads.attention_pictures_claims import CLAIMS
from elegans.studies.induction_heads.heads import TRANSPLANTS, head_measures, nested, transplants
from elegans.studies.induction_heads.plots import CHAINS, by_cell, level
from elegans.studies.induction_heads.probes import AttentionMaps, AttentionScores, ChainLosses
from elegans.studies.induction_heads.settings import main_networks, settled_networks, thesis_networks, too_short
from elegans.studies.induction_heads.tables import MASSES, attention_curves, measured, until
from elegans.tasks import MarkovChains
from elegans.training import Trial

TOKENS = {2: (1, 1, 0, 1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0), 3: (2, 0, 1, 2, 1, 1, 0, 2, 0, 1, 1, 2, 1, 0, 2, 0)}
"""The sequence that is followed, by the number of symbols: its last token is rare and has occurred before."""
MEASUREMENTS = 100
"""How often a network is measured."""
STYLES = {
    "intact": ("the network itself", "black", "-"),
    "layer1_alone": ("layer 1 of the step, rest final", LAYER_COLOURS[0], "-"),
    "layer2_alone": ("layer 2 of the step, rest final", LAYER_COLOURS[1], "-"),
    "layer1_with_ends": ("layer 2 final, rest of the step", LAYER_COLOURS[0], ":"),
    "layer2_with_ends": ("layer 1 final, rest of the step", LAYER_COLOURS[1], ":"),
}
LABELS = {
    "previous": ("layer 1 on the previous token", LAYER_COLOURS[0]),
    "induction": ("layer 2 on what followed", LAYER_COLOURS[1]),
}
EARLY = 0.5
"""The share of the time to the transition at which masses are called early."""


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of the losses, the attention masses, the attention on one sequence, and all parameters."""
    assert isinstance(one.task, MarkovChains)
    every = max(10, one.steps // MEASUREMENTS)
    maps = AttentionMaps(every=every, tokens=TOKENS[one.task.k])
    return ChainLosses(every=every), AttentionScores(every=every), maps, ParameterTrajectory(every=every)


def analyse(results: Results) -> Tables:
    """Return the tables ``curves``, ``heads`` and ``maps``.

    ``curves``: see ``attention_curves``; and the losses of ``TRANSPLANTS``, at every second measured step. ``heads``:
    one row per trial: ``head_measures`` at its end. ``maps``: see ``map_table``.
    """
    trajectories: list[Any] = list(measured(results, "parameter-trajectory").groupby("trial"))
    losses = [transplants(results.trial(trial), rows) for trial, rows in trajectories]
    curves = attention_curves(results).merge(pd.concat(losses), on=["trial", "step"], how="left")
    heads = []
    for trial, rows in trajectories:
        run = curves[curves["trial"] == trial]
        steps: list[Any] = rows.drop(columns=["trial", "seed", "step"]).to_dict("records")
        early = int(np.flatnonzero(rows["step"].to_numpy() <= EARLY * until(run))[-1])
        of_heads = head_measures(results.trial(trial), nested(steps[-1]), nested(steps[early]))
        heads.append({name: run[name].iloc[0] for name in ("cell", "series", "seed")} | of_heads)
    return {"curves": curves, "heads": pd.DataFrame(heads), "maps": map_table(results, curves)}


def plot(tables: Tables) -> Figure:
    """Draw one row per cell: losses, masses of attention and layer transplants.

    Trials are faint except the typical one of the cell's largest series, whose layers are transplanted.
    """
    cells = by_cell(tables["curves"])
    figure, axes = panels(len(cells), 3)
    titles = []
    for (left, middle, right), (cell, rows, chosen) in zip(axes, cells, strict=True):
        for seed, run in rows.groupby("seed"):
            typical = bool((run["typical"] & (seed == chosen["seed"].iloc[0])).any())
            style: dict[str, Any] = {"linewidth": 1.3, "zorder": 3} if typical else {"linewidth": 0.5, "alpha": 0.3}
            left.plot(run["step"], run["loss"], color="black", **style)
            for name, (label, colour) in LABELS.items():
                middle.plot(run["step"], run[name], color=colour, label=label if typical else None, **style)
        for name in ("unigram", "bigram"):
            level(left, float(chosen[f"line.{name}"].iloc[0]), GRAMS[name], name)
        uniform: dict[str, Any] = {"linewidth": 0.8, "linestyle": "--"}
        for name, (_, colour) in LABELS.items():
            middle.axhline(chosen[f"uniform_{name}"].iloc[0], color=colour, **uniform)
        middle.plot([], [], color=GREY, label="uniform attention", **uniform)
        evaluated = chosen.dropna(subset="intact")
        for name, (label, colour, line) in STYLES.items():
            right.plot(evaluated["step"], evaluated[name], color=colour, linestyle=line, linewidth=1, label=label)
        right.axhline(_middle(evaluated).iloc[0], color=GREY, linewidth=0.7, label="counts as learned below")
        left.set(ylabel="loss (KL, nats)", ylim=(0, 1.05 * rows["loss"].max()))
        middle.set(ylabel="mass of attention", ylim=(0, 1))
        right.set(ylabel="loss (KL, nats)", ylim=(0, None))
        for ax in (left, middle, right):
            ax.set_xlim(0, rows["step"].max())
            ax.xaxis.set_major_formatter(lambda value, _: short(value))
        titles += [f"{cell}: {rows['seed'].nunique()} trials", "Where layers attend to", "Layer transplants, one trial"]
    for ax in axes[-1]:
        ax.set_xlabel("steps")
    title_panels(axes, titles)
    finding = "Attention is uniform until shortly before the loss drops, and an induction head after it"
    title_figure(figure, finding, f"{CHAINS}; faint: trials, strong: the one with the median drop, as in c and f")
    figure_legend(figure, axes[0, 1], axes[0, 2], columns=3)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each series, the masses early and late, and which layer is first, by masses and by transplants.

    Early is at half of the transition's step, late at the end. Early and late masses come with uniform attention's
    masses. ``risen`` are the steps at which a mass has made half of its total rise. For transplants, ``at`` is the
    first evaluated step with a loss below the midpoint of unigrams' and bigrams', and ``better`` the share of evaluated
    steps, before the intact network gets there, at which the transplant's loss is lower.
    """
    return {str(series): _of_series(rows) for series, rows in tables["curves"].groupby("series", sort=False)}


def _of_series(rows: pd.DataFrame) -> dict[str, Any]:
    runs = [run for _, run in rows.groupby("seed")]
    result: dict[str, Any] = {"trials": len(runs), "transition": describe([run["transition"].iloc[0] for run in runs])}
    risen = {name: [_risen(run, name) for run in runs] for name in MASSES}
    for name in MASSES:
        result[name] = {
            "uniform": round_significant(float(rows[f"uniform_{name}"].mean())),
            "early": describe([run.loc[run["step"] <= EARLY * until(run), name].iloc[-1] for run in runs]),
            "late": describe([run[name].iloc[-1] for run in runs]),
            "risen": describe(risen[name]),
        }
    result["order_of_masses"] = order(risen["previous"], risen["induction"])
    evaluated = [run.dropna(subset="intact") for run in runs]
    reached = {name: [_reached(run, name) for run in evaluated] for name in TRANSPLANTS}
    result["transplants"] = {
        name: {"at": describe(steps), "better": describe([_better(run, name) for run in evaluated])}
        for name, steps in reached.items()
    }
    for kind in ("alone", "with_ends"):
        result[f"order_of_transplants_{kind}"] = order(reached[f"layer1_{kind}"], reached[f"layer2_{kind}"])
    return result


def order(first: Any, second: Any) -> dict[str, Any]:
    """Return in how many trials the first layer was learned first, in how many the second, and the sign test.

    Args:
        first: the steps at which the first layer was learned, NaN where it never was.
        second: the same for the second layer.

    Returns:
        Counts ``first_layer``, ``second_layer`` and ``ties``; ``p``, two-sided, of "either is as likely to lead", ties
        left out; and ``lead``, by how many steps the first layer led, where both were learned.
    """
    one, two = (np.nan_to_num(np.asarray(steps, float), nan=np.inf) for steps in (first, second))
    wins, losses = int((one < two).sum()), int((two < one).sum())
    test = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    both = np.isfinite(one) & np.isfinite(two)
    return {
        "first_layer": wins,
        "second_layer": losses,
        "ties": len(one) - wins - losses,
        "p": round_significant(float(test)),
        "lead": describe(two[both] - one[both]) if both.any() else None,
    }


def _middle(run: pd.DataFrame) -> pd.Series:
    return (run["line.unigram"] + run["line.bigram"]) / 2


def _risen(run: pd.DataFrame, name: str) -> float:
    """Return the first step at which a mass has made half of its rise from start to end, NaN if it falls."""
    start, end = run[name].iloc[0], run[name].iloc[-1]
    return float(run["step"][run[name] >= (start + end) / 2].min()) if end > start else np.nan


def _reached(run: pd.DataFrame, transplant: str) -> float:
    """Return the first step at which a transplant's loss is below the midpoint of unigrams' and bigrams'."""
    return float(run["step"][run[transplant] < _middle(run)].min())


def _better(run: pd.DataFrame, transplant: str) -> float:
    """Return how often a transplant's loss is lower, of the evaluated steps before the intact network is there."""
    before = run[run["step"] < np.nan_to_num(_reached(run, "intact"), nan=np.inf)]
    return float((before[transplant] < before["intact"]).mean())


EXPERIMENT = Experiment(
    name="attention-pictures",
    shows="What transformers on Markov chains attend to as they learn bigrams: the previous token, then what followed",
    source="figures 8.2 and E.5",
    scales={
        "smoke": too_short(40),
        "laptop": Scale(main_networks, trials=10),
        "part": Scale(settled_networks, trials=40, part="learning rate 1e-3"),
        "paper": Scale(thesis_networks, trials=20),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
    extras={
        "attention.gif": lambda tables, path: attention_animation(next(iter(histories_of(tables).values())), path),
        "attention.html": lambda tables, path: attention_page(histories_of(tables), path),
        "attention.svg": maps,
    },
)
