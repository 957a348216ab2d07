"""How induction heads form in phases: uniform guesses, a long unigram plateau, then a sudden drop to bigrams.

Source: thesis, chapter 8 (figures 8.1, 8.3 above, E.3 and E.7); at its learning rate of 3e-5, training takes about 16
    times as long.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import round_significant
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.plots.style import figure_legend, panels, title_figure, title_panels
from elegans.probes import Probe
from elegans.studies.induction_heads.encodings import encoding_curves, encodings
from elegans.studies.induction_heads.induction_phases_claims import CLAIMS
from elegans.studies.induction_heads.plots import CHAINS, TRIALS, by_cell, chain_distances, chain_losses, trials_of
from elegans.studies.induction_heads.probes import AttentionScores, ChainLosses, PositionalProfile
from elegans.studies.induction_heads.settings import (
    THESIS_RATE,
    main_networks,
    settled_networks,
    thesis_networks,
    too_short,
    transformer,
)
from elegans.studies.induction_heads.tables import (
    EARLY,
    MASSES,
    attention_curves,
    lines_of,
    measured,
    plateau_length,
    summaries,
    transition,
)
from elegans.sweeps import Sweep
from elegans.training import Trial

MEASUREMENTS = 100
"""How often a network is measured."""
ORDER = ["uniform", "unigram", "bigram"]
"""The phases, in the thesis' order."""
PLATEAU, LEARNED, NEAR, FORMED, UNFORMED = 0.25, 0.5, 2.5, 5.0, 1.5
"""The margins of ``claims``."""


def paper(trials: int) -> Sweep:
    """Return both at the thesis' learning rate, and two symbols in the plain form of equations 8.4 and 8.5."""
    plain = transformer(2, steps=100_000, learning_rate=THESIS_RATE, form="plain")
    return thesis_networks(trials) + Sweep.of([plain], trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of losses and distances, attention masses and the positional profile."""
    every = max(1, one.steps // MEASUREMENTS)
    return ChainLosses(every=every), AttentionScores(every=every), PositionalProfile(every=every)


def analyse(results: Results) -> Tables:
    """Return the tables ``curves`` and ``encodings``, each with ``cell``, ``series`` and ``seed``.

    ``curves``: one row per trial and measured step (see ``attention_curves``); here both masses are relative to uniform
    attention, and there is ``parity_bias``. ``encodings``: of typical trials, the effective positional encoding at four
    moments (see ``encodings.encodings``), with ``sequences``.
    """
    profiles = measured(results, "positional-profile")
    bias = profiles[["trial", "step"]].assign(parity_bias=np.stack(list(profiles["parity_bias"])).mean(axis=1))
    curves = attention_curves(results).merge(bias, on=["trial", "step"])
    for name in MASSES:
        curves[name] /= curves[f"uniform_{name}"]
    shown = []
    for trial, run in curves[curves["typical"]].groupby("trial", sort=False):
        sequences = run.set_index("step")["sequences"]
        moments = encodings(profiles[profiles["trial"] == trial], run["transition"].iloc[0])
        named = {name: run[name].iloc[0] for name in ("cell", "series", "seed")}
        shown.append(moments.assign(sequences=moments["step"].map(sequences), **named))
    return {"curves": curves, "encodings": pd.concat(shown, ignore_index=True)}


def stated(run: pd.DataFrame) -> dict[str, Any]:
    """Return summary numbers of one run; steps are NaN where something was not reached.

    ``phases`` are the closest strategies in the order of their first appearance, and ``uniform_at``, … when that was;
    ``changes`` counts how often the closest one changed. ``transition`` is where the loss is first below the midpoint
    of unigrams' and bigrams', ``plateau_length`` for how many steps unigrams were closest. The plateau lasts from the
    first appearance of unigrams to 60% of the transition: ``plateau_least`` and ``plateau_median`` are its loss over
    unigrams', ``parity_bias`` the mean there and ``parity_share`` the share of measurements at which it is positive.
    ``final_unigram`` and ``final_bigram`` are the last loss divided by the strategies' losses; ``previous_early``,
    ``previous_late`` and ``induction_late`` the masses relative to uniform attention at 60% of the transition and at
    the end.

    Args:
        run: one trial's rows of ``curves``.
    """
    steps, lines, moved = run["step"], lines_of(run), transition(run)
    begun = {name: float(steps[run["phase"] == name].min()) for name in ORDER}
    early = EARLY * (moved if np.isfinite(moved) else steps.max())
    plateau = run[(steps >= begun["unigram"]) & (steps <= early)]
    last = run.iloc[-1]
    return {
        "phases": list(dict.fromkeys(run["phase"])),
        "changes": int((run["phase"] != run["phase"].shift()).sum()) - 1,
        **{f"{name}_at": step for name, step in begun.items()},
        "transition": moved,
        "plateau_length": plateau_length(run),
        "plateau_least": plateau["loss"].min() / lines["unigram"],
        "plateau_median": plateau["loss"].median() / lines["unigram"],
        "final_unigram": last["loss"] / lines["unigram"],
        "final_bigram": last["loss"] / lines["bigram"],
        "parity_bias": plateau["parity_bias"].mean(),
        "parity_share": (plateau["parity_bias"] > 0).mean(),
        "previous_early": float(run[steps <= early]["previous"].iloc[-1]),
        "previous_late": last["previous"],
        "induction_late": last["induction"],
    }


def claims(summary: dict[str, Any]) -> dict[str, bool]:
    """Return which of the thesis' claims hold for a run, given as ``stated`` returns it, with our margins."""
    return {
        "order": summary["phases"] == ORDER,
        "plateau": bool(abs(summary["plateau_least"] - 1) <= PLATEAU),
        "learned": bool(summary["final_unigram"] < LEARNED and summary["final_bigram"] < NEAR),
        "parity": bool(summary["parity_bias"] > 0),
        "previous": bool(summary["previous_late"] > FORMED and summary["previous_early"] < UNFORMED),
    }


def plot(tables: Tables) -> Figure:
    """Draw, one row per cell: losses of all trials; distances to strategies and encodings of the typical one.

    The typical trial comes from the cell's largest series; the shading behind its distances shows the closest strategy.
    """
    encodings_of = dict(iter(tables["encodings"].groupby("series")))
    cells = by_cell(tables["curves"])
    figure, axes = panels(len(cells), 3)
    titles = []
    for (left, middle, right), (cell, rows, chosen) in zip(axes, cells, strict=True):
        chain_losses(left, rows)
        chain_distances(middle, chosen)
        encoding_curves(right, encodings_of[chosen["series"].iloc[0]], "layer 1, {}")
        right.set_ylabel("attention by position alone")
        seed = chosen["seed"].iloc[0]
        titles += [f"{cell}: {trials_of(rows)}", f"Seed {seed}: distances", "Its layer 1, by distance"]
    title_panels(axes, titles)
    finding = "The loss stays near the unigram line, then drops to bigrams as an induction head forms"
    title_figure(figure, finding, f"{CHAINS}; {TRIALS}; shade: the closest strategy")
    figure_legend(figure, axes[0, 1], axes[0, 2], columns=4)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return by cell for how many trials each claim holds, and by series the spread of the trials' numbers."""
    rows = tables["curves"]
    result = summaries(
        rows, "cell", stated, lambda run: claims(run) | {"all": all(claims(run).values())}, by_series=True
    )
    for cell, runs in rows.groupby("cell", sort=False):
        moved = runs.groupby("seed")["transition"].first()
        result[str(cell)]["transition_of_each"] = {str(seed): round_significant(step) for seed, step in moved.items()}
    return result


EXPERIMENT = Experiment(
    name="induction-phases",
    shows="Transformers on Markov chains learn in phases: uniform guesses, a unigram plateau, then suddenly bigrams",
    source="figures 8.1, 8.3, E.3 and E.7",
    scales={
        "smoke": too_short(200),
        "laptop": Scale(main_networks, trials=10),
        "part": Scale(settled_networks, trials=30, part="learning rate 1e-3"),
        "paper": Scale(paper, trials=30),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
    partial=True,
)
