"""How induction heads form in phases: uniform guesses, then unigrams for long, then suddenly bigrams.

Source: thesis, chapter 8 (figures 8.1, 8.3 above, E.3 and E.7); its rate of 3e-5 takes about 16 times as long.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.models import AttentionOnly
from elegans.plots import figure_of
from elegans.probes import Probe
from elegans.studies.induction_heads.plots import induction_phases
from elegans.studies.induction_heads.probes import AttentionScores, ChainLosses, PositionalProfile
from elegans.studies.induction_heads.settings import transformer
from elegans.studies.induction_heads.tables import (
    counted,
    course,
    encodings,
    lines_of,
    outcomes_of,
    runs_of,
    significant,
    spread,
    transition,
)
from elegans.studies.induction_heads.theory.metrics import phase_boundaries, plateau_length
from elegans.sweeps import Sweep
from elegans.tasks import MarkovChains
from elegans.training import Outcome, Trial

LOOKS = 100
"""How often a network is looked at."""
EARLY = 0.6
"""The share of the time to the transition at which a plateau is said to end."""
ORDER = ["uniform", "unigram", "bigram"]
"""The phases, as the thesis has them."""
MIRRORED = 0.5
"""Below this mass on the token before, relative to uniform attention, a first layer looks at all tokens but that."""
PLATEAU, LEARNED, NEAR, FORMED, UNFORMED = 0.25, 0.5, 2.5, 5.0, 1.5
"""The margins of ``claims``."""


def sweep_of(trials: int, *cells: Trial) -> Sweep:
    """Return so many trials of each cell."""
    return Sweep(tuple((cell, range(trials)) for cell in cells))


def smoke(trials: int) -> Sweep:
    """Return two symbols and 16 tokens: too short for phases."""
    return sweep_of(trials, transformer(length=16, batch_size=16, steps=200))


def laptop(trials: int) -> Sweep:
    """Return two and three symbols at the thesis' sizes and thirty times its rate."""
    return sweep_of(trials, transformer(2, steps=2000), transformer(3, steps=1000))


def paper(trials: int) -> Sweep:
    """Return two and three symbols at the thesis' rate, and two in the plain form, as equations 8.4 and 8.5 are."""
    cells = [transformer(k, steps=20_000, learning_rate=3e-5) for k in (2, 3)]
    return sweep_of(trials, *cells, transformer(2, steps=100_000, learning_rate=3e-5, form="plain"))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the losses and distances, the attention's masses and the positional profile."""
    every = max(1, one.steps // LOOKS)
    return ChainLosses(every=every), AttentionScores(every=every), PositionalProfile(every=every)


def cell_of(one: Trial) -> str:
    """Return what a trial's cell is called: ``k = 2``, ``k = 2, plain form``."""
    assert isinstance(one.task, MarkovChains)
    plain = isinstance(one.model, AttentionOnly) and one.model.form == "plain"
    return f"k = {one.task.k}" + ", plain form" * plain


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return rows of two ``part``s, each with ``cell``, ``series`` and ``seed``.

    A cell is "k = 2"; series are of those trials alone that do the same thing: "k = 2" and "k = 2, mirrored" (see
    ``MIRRORED``). ``course``: a row a trial and measured step (see ``tables.course``), and there ``previous`` and
    ``induction``, the masses of the first layer on the token before and of the second on what followed the current
    token, both relative to uniform attention, ``parity_bias``, and whether the trial is the series' ``typical`` one.
    ``encoding``: of typical trials, see ``tables.encodings``.
    """
    runs = [(one, measured_course(one)) for one in outcomes_of(trials)]
    table = pd.concat([run.assign(cell=cell_of(one.trial)) for one, run in runs], ignore_index=True)
    table = table.assign(part="course", series=table["cell"] + series_of(table))
    chosen = {str(series): typical(rows) for series, rows in table.groupby("series", sort=False)}
    table = table.assign(typical=table["seed"] == table["series"].map(chosen))
    parts = [table.sort_values("series", kind="stable")]
    for one, run in runs:
        cell, seed = cell_of(one.trial), one.trial.seed
        own = table[(table["cell"] == cell) & (table["seed"] == seed)].iloc[0]
        if own["typical"]:
            named: dict[str, Any] = {"part": "encoding", "cell": cell, "series": own["series"], "seed": seed}
            parts.append(encodings(one, transition(run)).assign(**named))
    return pd.concat(parts, ignore_index=True)


def series_of(table: pd.DataFrame) -> pd.Series:
    """Return ", mirrored" for the rows of trials that are, "" for others."""
    found = table.groupby(["cell", "seed"], sort=False)["previous"].transform("last") < MIRRORED
    return found.map({True: ", mirrored", False: ""})


def typical(rows: pd.DataFrame) -> int:
    """Return the trial whose transition is the median one, of an even number of trials the earlier; ties by seed."""
    moved = {seed: transition(run) for seed, run in runs_of(rows).items()}
    ordered = sorted(moved, key=lambda seed: (np.nan_to_num(moved[seed], nan=np.inf), seed))
    return ordered[(len(ordered) - 1) // 2]


def measured_course(outcome: Outcome) -> pd.DataFrame:
    """Return a run's course, with what its attention and its positional profile came to; see ``analysis``."""
    scores, profile = outcome.measures["attention-scores"], outcome.measures["positional-profile"]
    masses = {"previous": "layer1.previous", "induction": "layer2.induction"}
    relative = {
        name: np.asarray(scores[mass], float).mean(axis=1) / np.asarray(scores[f"uniform.{name}"], float)
        for name, mass in masses.items()
    }
    return course(outcome).assign(**relative, parity_bias=np.asarray(profile["parity_bias"], float).mean(axis=1))


def stated(run: pd.DataFrame) -> dict[str, Any]:
    """Return what one run comes to; steps are NaN where something was not reached.

    ``phases`` are the closest strategies in the order of their first appearance, and ``uniform_at``, … when that was;
    ``changes`` counts how often the closest one changed. ``transition`` is where the loss is first below the middle of
    unigram's and bigram's, ``plateau_length`` for how many steps unigram was closest. The plateau lasts from the first
    appearance of unigram to 60% of the transition: ``plateau_least`` and ``plateau_median`` are its loss over
    unigram's, ``parity_bias`` the mean there and ``parity_share`` the share of looks at which it is positive.
    ``final_unigram`` and ``final_bigram`` are the last loss over those of strategies; ``previous_early``,
    ``previous_late`` and ``induction_late`` the masses relative to uniform attention at 60% of the transition and at
    the end.

    Args:
        run: one trial's rows, as ``measured_course`` makes them.
    """
    steps, lines, moved = run["step"], lines_of(run), transition(run)
    begun = {name: first(steps[run["phase"] == name]) for name in ORDER}
    early = EARLY * (moved if np.isfinite(moved) else steps.max())
    plateau = run[(steps >= begun["unigram"]) & (steps <= early)]
    last = run.iloc[-1]
    return {
        "phases": list(dict.fromkeys(run["phase"])),
        "changes": len(phase_boundaries(list(steps), list(run["phase"]))) - 1,
        **{f"{name}_at": step for name, step in begun.items()},
        "transition": moved,
        "plateau_length": plateau_length(list(steps), list(run["phase"])),
        "plateau_least": plateau["loss"].min() / lines["unigram"],
        "plateau_median": plateau["loss"].median() / lines["unigram"],
        "final_unigram": last["loss"] / lines["unigram"],
        "final_bigram": last["loss"] / lines["bigram"],
        "parity_bias": plateau["parity_bias"].mean(),
        "parity_share": (plateau["parity_bias"] > 0).mean() if len(plateau) else np.nan,
        "previous_early": float(run[steps <= early]["previous"].iloc[-1]),
        "previous_late": last["previous"],
        "induction_late": last["induction"],
    }


def first(steps: pd.Series) -> float:
    """Return the first of some steps, or NaN."""
    return float(steps.iloc[0]) if len(steps) else np.nan


def claims(one: dict[str, Any]) -> dict[str, bool]:
    """Return which of the thesis' claims hold of a run, with margins derived here.

    ``order``: uniform, unigram, bigram. ``plateau``: its least loss is within 25% of unigram's. ``learned``: the last
    loss is below half of unigram's and 2.5 times bigram's. ``parity``: odd look-backs are favoured on the plateau.
    ``previous``: the first layer's mass on the token before is more than five times that of uniform attention at the
    end, and was less than 1.5 times it at 60% of the transition.

    Args:
        one: as ``stated`` returns it.
    """
    return {
        "order": one["phases"] == ORDER,
        "plateau": bool(abs(one["plateau_least"] - 1) <= PLATEAU),
        "learned": bool(one["final_unigram"] < LEARNED and one["final_bigram"] < NEAR),
        "parity": bool(one["parity_bias"] > 0),
        "previous": bool(one["previous_late"] > FORMED and one["previous_early"] < UNFORMED),
    }


def plot(table: pd.DataFrame) -> Figure:
    """Draw, a row a series, losses of all its trials, and of a typical one the distances and the encoding."""
    return figure_of(induction_phases(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each cell, of how many trials each claim holds, and for each series what trials come to."""
    courses = table[table["part"] == "course"]
    return {str(cell): _found(rows) for cell, rows in courses.groupby("cell", sort=False)}


def _found(rows: pd.DataFrame) -> dict[str, Any]:
    runs = {seed: stated(run) for seed, run in runs_of(rows).items()}
    held = pd.DataFrame({seed: claims(one) for seed, one in runs.items()}).T
    table = pd.DataFrame(runs).T
    numbers = table.drop(columns="phases").astype(float)
    series = rows.groupby("seed")["series"].first()
    return {
        "claims": {name: counted(held[name]) for name in held} | {"all": counted(held.all(axis=1))},
        "phases": {str(seed): one["phases"] for seed, one in runs.items()},
        "transition_of_each": {str(seed): significant(step) for seed, step in numbers["transition"].items()},
        "series": {
            str(name): {"trials": len(own), **{quantity: spread(own[quantity]) for quantity in own}}
            for name, own in numbers.groupby(series, sort=False)
        },
    }


EXPERIMENT = Experiment(
    name="induction-phases",
    shows="Transformers on Markov chains learn in phases: uniform guesses, a plateau of unigrams, suddenly bigrams",
    source="figures 8.1, 8.3, E.3 and E.7",
    scales={
        "smoke": Scale(smoke, trials=1, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=10, time="about 4 minutes on 2 cores"),
        "paper": Scale(paper, trials=10, time="about an hour and a half on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
    partial=True,
)
"""Figures 8.1, 8.3 (above), E.3 and E.7."""
