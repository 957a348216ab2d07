"""One layer of attention does not learn bigrams, however long it is trained; two do.

Networks of one layer have relative or absolute positions, with or without an MLP after the attention. They are trained
several times as long as two layers need; two layers are trained for the same time as a control.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import describe
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.claims import HOLDS
from elegans.experiments.rules import LEVEL, by_share, combine
from elegans.models import AttentionOnly, Model
from elegans.plots.style import COLOURS, GREY, figure_legend, panels, percent, title_figure, title_panels
from elegans.studies.induction_heads.plots import TRIALS, curves_of_trials, loss_axis
from elegans.studies.induction_heads.rules import most, runs_of
from elegans.studies.induction_heads.settings import loss_probes, transformer
from elegans.studies.induction_heads.tables import curves, of_trials, transitions
from elegans.sweeps import Sweep

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
NAMES: dict[Model, str] = {AttentionOnly(**change): name for name, change in NETWORKS.items()}
SETTLED = 0.05
"""The share of the training after which a fall counts: before, all networks learn unigrams."""
HIGH, FALL = 0.5, 0.2
"""A network fails if it ends above this share of the unigram line and its loss never falls by more than that share at
once."""


def networks(trials: int, k: int, length: int, **settings: Any) -> Sweep:
    """Return all networks, with the given settings of ``transformer``."""
    return Sweep.of((transformer(k, length, **settings, **change) for change in NETWORKS.values()), trials)


def paper(trials: int) -> Sweep:
    """Return two layers on two and three symbols of 100 tokens, and networks of one layer, 8 times as long.

    These are half as many of each kind on three symbols, and five times as many as there on two.
    """
    sweep = Sweep(())
    for k, steps, times in ((2, 2000, 5), (3, 1500, 1)):
        long = networks(times * max(1, trials // 2), k, 100, steps=8 * steps)
        sweep += Sweep.of([transformer(k, steps=steps)], trials) + Sweep(long.parts[1:])
    return sweep


def analyse(results: Results) -> Tables:
    """Return the table ``curves``: see ``tables.curves``; and ``network``.

    The same in all rows of a trial: ``transition``, the first measured step below the midpoint of both strategies'
    lines (NaN where there is none), and ``steepest``, the largest relative fall of the loss between measurements after
    the first 5% of the training.
    """
    rows = curves(results)
    trial = rows["trial"]
    settled = rows["loss"].where(rows["step"] >= SETTLED * rows.groupby(trial)["step"].transform("max"))
    fall = 1 - settled / settled.groupby(trial).shift()
    return {
        "curves": rows.assign(
            network=of_trials(results, rows, lambda one: NAMES[one.model]),
            transition=trial.map(transitions(rows)),
            steepest=fall.groupby(trial).transform("max"),
        )
    }


def plot(tables: Tables) -> Figure:
    """Draw losses of networks of one layer and of two, and whether any of them has a transition: a row per k.

    On the right there is a mark per trial; those to the right of one dotted line and below the other had no transition.
    """
    symbols = list(tables["curves"].groupby("k"))
    figure, axes = panels(len(symbols), 2, height=2.8 if len(symbols) == 1 else 2.3)
    titles = []
    for (left, right), (k, table) in zip(axes, symbols, strict=True):
        networks = table.groupby("network", sort=False)
        for (name, rows), colour, marker in zip(networks, ("black", *COLOURS[2:]), "os^Dv", strict=False):
            curves_of_trials(left, rows, "loss", colour)
            last = rows.groupby("seed").last()
            over = last["loss"] / last["line.unigram"]
            right.plot(over, last["steepest"], marker, color=colour, markersize=4, label=name)
        loss_axis(left, table)
        right.axvline(HIGH, color=GREY, linewidth=0.8, linestyle=":", label="thresholds of a transition")
        right.axhline(FALL, color=GREY, linewidth=0.8, linestyle=":")
        right.set(xlim=(0, None), ylim=(0, None))
        right.set(xlabel="final loss / loss of unigrams", ylabel="steepest drop of the loss")
        percent(right)
        titles += [f"Held-out loss, k = {k}", f"Largest fall between checks, k = {k}"]
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    title_panels(axes, titles)
    finding = "One layer of attention stays near the unigram line; two layers drop to bigrams"
    task = "Markov chains on k symbols; attention-only transformers, some with an MLP, relative positions unless named"
    title_figure(figure, finding, f"{task}; {TRIALS}")
    figure_legend(figure, axes[0, 1])
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return, by number of symbols and network, final losses relative to the strategies, and transitions.

    ``fails`` counts the trials that end above half of the unigram line and whose loss never falls by more than a fifth
    between measurements; ``trained`` is the training time over the median time that two layers need.
    """
    result = {}
    for k, table in tables["curves"].groupby("k"):
        needed = float(table[table["network"] == "two layers"].groupby("seed")["transition"].first().median())
        result[f"k = {k}"] = {str(name): _final(rows, needed) for name, rows in table.groupby("network", sort=False)}
    return result


def _final(rows: pd.DataFrame, needed: float) -> dict[str, Any]:
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


NEEDS = "30 and 6 networks of each kind with one layer and 13 with two, on two and three symbols of 100 tokens"
ONE = ("one layer", "one layer, absolute", "one layer and MLP", "one layer and MLP, absolute")
EACH = {2: 30, 3: 6}
"""The number of networks of each kind, by number of symbols."""
LEAST, STEEPEST, SHARE = 0.75, 0.2, 0.88
MORE = {
    2: "60 networks of each kind, of which 223 of 240 decide",
    3: "15 networks of each kind, of which 59 of 60 decide",
}
"""What would decide, by number of symbols."""


def never_drops(run: pd.DataFrame) -> bool:
    """Return whether the loss stays near the unigram line at all checks, without a sudden drop."""
    return bool((run["loss"] / run["line.unigram"]).min() >= LEAST and run["steepest"].iloc[0] <= STEEPEST)


@claim(
    id="induction/one-layer-never-transitions",
    statement="Transformers of one layer, with or without an MLP, with absolute or relative positions, have no second "
    "drop and end barely better than unigrams, even if trained 8 times as long.",
    source="section 8.3.1, figure E.8",
    setting="main setting with one layer; printed in E.2: learning rate 3e-5; here 1e-3, which fits the printed axis; "
    "not stated: k, the MLP's width (64), 8 times what, the number of runs",
    rule="30 runs of each of four kinds for k = 2 and six for k = 3, trained 8 times as long as networks of two "
    "layers; of the latter, 11 of 13 must have a transition. A network of one layer counts if its loss is at least "
    "0.75 of the unigram line at every check and no fall between checks 1% apart exceeds 20% after the first 5%. "
    "Holds if the exact one-sided limit of the share of networks that count exceeds 0.88, fails if it lies below (all "
    "our choices), at 1% for either k: 114 of 120, 37 of 37",
    revised="At first, six runs of each kind were judged, and all 24 had to count: 23 did at k = 2, which leaves "
    "undecided whether the share exceeds 0.88. Now there are 30 of each kind at k = 2. The claim held when limits had "
    "an error rate of 5% each; at 1% each, 113 of 120 and 24 of 24 leave it undecided.",
)
def one_layer(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    parts = {}
    for k, each in EACH.items():
        two = runs_of(tables, NEEDS, trials=13, k=k, network="two layers")
        longest = max(float(run["step"].max()) for run in two)
        if most("two layers", [run["transition"].notna().iloc[0] for run in two]).verdict != HOLDS:
            raise InsufficientData("networks of two layers that learn bigrams in the same setting")
        found = {}
        for network in ONE:
            runs = runs_of(tables, NEEDS, trials=each, k=k, network=network)
            if min(float(run["step"].max()) for run in runs) < 8 * longest:
                raise InsufficientData("networks of one layer trained 8 times as long as those of two")
            found[network] = sum(never_drops(run) for run in runs)
        what = "networks of one layer that stay at 0.75 of the unigram line or above, without a drop"
        one = by_share(what, sum(found.values()), each * len(ONE), above=SHARE, level=LEVEL / len(EACH))
        numbers = {**one.numbers, "by_kind": found}
        parts[f"k = {k}"] = Verdict(one.verdict, one.because, numbers, one.error_rate, one.needs and MORE[k])
    return combine(parts)


EXPERIMENT = Experiment(
    name="one-layer-fails",
    shows="One layer of attention stays near the unigram loss, where two layers suddenly learn bigrams",
    source="figure E.8",
    scales={
        "smoke": Scale(lambda trials: Sweep(networks(trials, 2, 16, batch_size=16, steps=40).parts[:2]), trials=1),
        "laptop": Scale(lambda trials: networks(trials, 3, 50, batch_size=32, steps=6000), trials=2),
        "paper": Scale(paper, trials=13, part="learning rate 1e-3"),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=loss_probes(96, least=5),
    claims=[one_layer],
)
