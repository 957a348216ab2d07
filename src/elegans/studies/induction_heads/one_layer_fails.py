"""One layer of attention does not learn bigrams, however long it is trained; two do.

Networks of one layer have relative or absolute positions, with or without an MLP after the attention. They are trained
several times as long as two layers need; two layers are trained for the same time as a control.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import describe
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.models import AttentionOnly, Model
from elegans.plots.style import COLOURS, GREY, figure_legend, panels, percent, title_panels
from elegans.probes import Probe
from elegans.studies.induction_heads.one_layer_fails_claims import CLAIMS
from elegans.studies.induction_heads.plots import along, curves_of_trials, strategy_levels
from elegans.studies.induction_heads.probes import ChainLosses
from elegans.studies.induction_heads.settings import sweep_of, transformer
from elegans.studies.induction_heads.tables import curves, transitions
from elegans.sweeps import Sweep
from elegans.training import Trial

MLP_WIDTH = 64
"""Four times the width, as is common."""
NETWORKS: dict[str, dict[str, Any]] = {
    "two layers": {},
    "one layer": {"layers": 1},
    "one layer, absolute": {"layers": 1, "positions": "absolute"},
    "one layer and MLP": {"layers": 1, "mlp_width": MLP_WIDTH},
    "one layer and MLP, absolute": {"layers": 1, "mlp_width": MLP_WIDTH, "positions": "absolute"},
}
"""By name, how networks differ from two layers with relative positions and without MLPs."""
NAMES: dict[Model, str] = {AttentionOnly(**own): name for name, own in NETWORKS.items()}
SETTLED = 0.05
"""The share of the training after which a fall counts: before, all networks learn unigrams."""
HIGH, FALL = 0.5, 0.2
"""A network fails if it ends above this share of the unigram line and its loss never falls by more than that share at
once."""
MEASUREMENTS = 96


def networks(k: int, length: int, batch_size: int, steps: int, trials: int) -> Sweep:
    """Return all networks."""
    cells = (transformer(k, length, batch_size=batch_size, steps=steps, **own) for own in NETWORKS.values())
    return sweep_of(trials, *cells)


def smoke(trials: int) -> Sweep:
    """Return one layer and two without MLPs, for a few steps."""
    return Sweep(networks(2, 16, 16, 40, trials).parts[:2])


def laptop(trials: int) -> Sweep:
    """Return all networks on three symbols and 50 tokens."""
    return networks(3, 50, 32, 6000, trials)


def paper(trials: int) -> Sweep:
    """Return two layers on two and three symbols of 100 tokens, and networks of one layer, 8 times as long.

    These are half as many of each kind on three symbols, and five times as many as there on two.
    """
    found = Sweep(())
    for k, steps, times in ((2, 2000, 5), (3, 1500, 1)):
        long = networks(k, 100, 64, 8 * steps, times * max(1, trials // 2))
        found += sweep_of(trials, transformer(k, steps=steps)) + Sweep(long.parts[1:])
    return found


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return losses and distances to strategies."""
    return (ChainLosses(every=max(one.steps // MEASUREMENTS, 5)),)


def analyse(results: Results) -> Tables:
    """Return the table ``curves``: see ``tables.curves``; and ``network``.

    The same in all rows of a trial: ``transition``, the first measured step below the midpoint of both strategies'
    lines (NaN where there is none), and ``steepest``, the largest relative fall of the loss between measurements after
    the first 5% of the training.
    """
    found = curves(results)
    trial = found["trial"]
    settled = found["loss"].where(found["step"] >= SETTLED * found.groupby(trial)["step"].transform("max"))
    fall = 1 - settled / settled.groupby(trial).shift()
    return {
        "curves": found.assign(
            network=trial.map({one: NAMES[results.trial(one).model] for one in trial.unique()}),
            transition=trial.map(transitions(found)),
            steepest=fall.groupby(trial).transform("max"),
        )
    }


def plot(tables: Tables) -> Figure:
    """Draw losses of networks of one layer and of two, and whether any of them has a transition: a row per k.

    On the right, a mark per trial: the final loss over the unigram strategy's, and the largest relative fall of the
    loss between measurements after the first 5% of the training. Networks to the right of one dotted line and below the
    other had no transition. Source: thesis, figure E.8.
    """
    symbols = [(f"k = {k}", rows) for k, rows in tables["curves"].groupby("k")]
    figure, axes = panels(len(symbols), 2, height=2.8 if len(symbols) == 1 else 2.3)
    for (left, right), (_, rows) in zip(axes, symbols, strict=True):
        _losses(left, right, rows)
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    titles = [(f"Held-out loss, {k}", f"Largest fall between checks, {k}") for k, _ in symbols]
    title_panels(axes.flat, [title for row in titles for title in row])
    figure_legend(figure, axes[0, 1])
    return figure


def _losses(left: Axes, right: Axes, table: pd.DataFrame) -> None:
    """Draw the losses of one task's networks, and what makes a transition of each."""
    networks = table.groupby("network", sort=False)
    for (name, rows), colour, marker in zip(networks, ("black", *COLOURS[2:]), "os^Dv", strict=False):
        curves_of_trials(left, rows, "loss", colour)
        last = rows.groupby("seed").last()
        at = last["loss"] / last["line.unigram"]
        right.plot(at, last["steepest"], marker, color=colour, markersize=4, label=name)
    strategy_levels(left, table)
    left.set_ylim(bottom=0)
    left.set_ylabel("loss (KL, nats)")
    along(left, table["sequences"].max())
    right.axvline(HIGH, color=GREY, linewidth=0.8, linestyle=":", label="thresholds of a transition")
    right.axhline(FALL, color=GREY, linewidth=0.8, linestyle=":")
    right.set(xlim=(0, None), ylim=(0, None))
    right.set(xlabel="final loss / loss of unigrams", ylabel="steepest drop of the loss")
    percent(right)


def findings(tables: Tables) -> dict[str, Any]:
    """Return, by number of symbols and network, final losses relative to the strategies, and transitions.

    ``fails`` counts the trials that end above half of the unigram line and whose loss never falls by more than a fifth
    between measurements; ``trained`` is the training time over the median time that two layers need.
    """
    found = {}
    for k, table in tables["curves"].groupby("k"):
        needed = float(table[table["network"] == "two layers"].groupby("seed")["transition"].first().median())
        found[f"k = {k}"] = {str(name): _stated(rows, needed) for name, rows in table.groupby("network", sort=False)}
    return found


def _stated(rows: pd.DataFrame, needed: float) -> dict[str, Any]:
    last, lowest = rows.groupby("seed").last(), rows.groupby("seed")["loss"].min()
    unigram, bigram, final = (last[name] for name in ("line.unigram", "line.bigram", "loss"))
    fails = (final > HIGH * unigram) & (last["steepest"] <= FALL)
    return {
        "trials": len(last),
        "loss": describe(final),
        "over_unigram": describe(final / unigram),
        "over_bigram": describe(final / bigram),
        "lowest_over_unigram": describe(lowest / unigram),
        "steepest": describe(last["steepest"]),
        "transition": describe(last["transition"]),
        "fails": int(fails.sum()),
        "trained": None if np.isnan(needed) else round(float(rows["step"].max()) / needed, 1),
    }


EXPERIMENT = Experiment(
    name="one-layer-fails",
    shows="One layer of attention stays at the unigram strategy's loss, where two layers suddenly learn bigrams",
    source="figure E.8",
    scales={
        "smoke": Scale(smoke, trials=1),
        "laptop": Scale(laptop, trials=2),
        "paper": Scale(paper, trials=13),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)
