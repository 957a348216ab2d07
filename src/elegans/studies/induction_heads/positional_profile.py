"""How far back the first layer looks while it learns: odd numbers of tokens first, then one.

Trained are the networks of ``induction-phases``: given its store, nothing is trained again.

Source: thesis, section 8.3.1 and figures 8.3 (middle) and E.7.
"""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.special import softmax

from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.studies.induction_heads import induction_phases as phases
from elegans.studies.induction_heads.plots import positional_profiles
from elegans.studies.induction_heads.settings import transformer
from elegans.studies.induction_heads.tables import (
    BEFORE,
    FARTHEST,
    counted,
    outcomes_of,
    runs_of,
    sequences,
    spread,
    transition,
)
from elegans.sweeps import Sweep
from elegans.training import Outcome


def paper(trials: int) -> Sweep:
    """Return two and three symbols at the thesis' rate."""
    return phases.sweep_of(trials, *(transformer(k, steps=20_000, learning_rate=3e-5) for k in (2, 3)))


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return rows of three ``part``s, each with ``cell``, ``series`` and ``seed`` as ``phases.analysis`` has them.

    ``course``: as there, and ``transition``; ``difference``, the largest distance in total variation between the
    encodings of two symbols, and ``shape``, that between their mean and uniform attention; ``correlation``, the
    smallest one of two symbols' logits over distances up to 12; ``content`` and ``position``, the standard deviation of
    the first layer's logits over symbols that are looked at, and over distances; ``odd``, whether 1, 3 and 5 tokens
    back have more of the encoding than each of their neighbours.
    ``encoding``: as there. ``profile``: of typical trials, a row a measured step and distance up to 12, the logits
    averaged over symbols, less their mean over all distances.
    """
    table = phases.analysis(trials)
    found = {(phases.cell_of(one.trial), one.trial.seed): one for one in outcomes_of(trials)}
    parts = []
    for _, run in table[table["part"] == "course"].groupby(["cell", "seed"], sort=False):
        named = {name: run[name].iloc[0] for name in ("cell", "series", "seed")}
        one = found[named["cell"], named["seed"]]
        parts.append(run.assign(transition=transition(run), **_shapes(one)))
        if run["typical"].all():
            parts.append(_profile(one).assign(**named))
    return pd.concat([*parts, table[table["part"] == "encoding"]], ignore_index=True)


def _shapes(outcome: Outcome) -> dict[str, np.ndarray]:
    """Return what ``analysis`` adds to a course, of the first layer's one head."""
    taken = outcome.measures["positional-profile"]
    logits, content = (np.asarray(taken[name], float)[:, 0] for name in ("logits", "content"))
    laws = softmax(logits, axis=-1)
    mean = laws.mean(axis=1)
    pairs = list(combinations(range(laws.shape[1]), 2))
    near = logits[:, :, : FARTHEST + 1]
    even, odd = mean[:, 0:7:2], mean[:, 1:6:2]
    return {
        "difference": np.max([_variation(laws[:, one], laws[:, other]) for one, other in pairs], axis=0),
        "shape": _variation(mean, np.full(mean.shape[1], 1 / mean.shape[1])),
        "correlation": np.min([_correlation(near[:, one], near[:, other]) for one, other in pairs], axis=0),
        "content": np.sqrt(content.var(axis=2).mean(axis=1)),
        "position": np.sqrt(logits.var(axis=2).mean(axis=1)),
        "odd": ((odd > even[:, :-1]) & (odd > even[:, 1:])).all(axis=1),
    }


def _variation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the distance in total variation of laws along the last axis."""
    return np.asarray(np.abs(one - other).sum(axis=-1) / 2)


def _correlation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the correlation of numbers along the last axis."""
    one, other = (numbers - numbers.mean(axis=-1, keepdims=True) for numbers in (one, other))
    return np.asarray((one * other).sum(axis=-1) / np.sqrt((one**2).sum(axis=-1) * (other**2).sum(axis=-1)))


def _profile(outcome: Outcome) -> pd.DataFrame:
    taken = outcome.measures["positional-profile"]
    profile = np.asarray(taken["profile"], float)[:, 0, : FARTHEST + 1]
    look, distance = np.indices(profile.shape)
    steps = np.asarray(taken["step"], int)[look.ravel()]
    columns = {"step": steps, "distance": distance.ravel(), "profile": profile.ravel()}
    return pd.DataFrame(columns).assign(part="profile", sequences=sequences(outcome.trial, steps))


def stated(run: pd.DataFrame) -> dict[str, float]:
    """Return what one run comes to; of a run without a transition, over the whole training.

    ``since``: the first look from which on odd look-backs are favoured (a positive bias) until the transition;
    ``tenth``: the first at which the bias is a tenth of that at the transition; ``lead`` and ``lead_tenth``: by which
    share of the time to the transition they are earlier. ``parity_bias``, ``odd``, ``difference``, ``shape``,
    ``correlation``, ``content`` and ``position`` are those at 90% of the time to the transition; those at 60% of it,
    ``content_plateau``, …, and at the end, ``content_end``, …, are there too.

    Args:
        run: one trial's rows, as ``analysis`` makes them.
    """
    moved = run["transition"].iloc[0]
    whole = moved if np.isfinite(moved) else run["step"].max()
    early = run[run["step"] <= whole]
    at, plateau = (run[run["step"] <= share * whole].iloc[-1] for share in (BEFORE, phases.EARLY))
    steps, bias, last = early["step"], early["parity_bias"], run.iloc[-1]
    since = phases.first(steps[(bias > 0)[::-1].cummin()[::-1]])
    tenth = phases.first(steps[bias >= bias.iloc[-1] / 10]) if bias.iloc[-1] > 0 else np.nan
    names = ("difference", "shape", "correlation", "content", "position")
    moments = {"_plateau": plateau, "": at, "_end": last}
    others = {f"{name}{when}": float(row[name]) for when, row in moments.items() for name in names}
    times = {"since": since, "tenth": tenth, "lead": 1 - since / whole, "lead_tenth": 1 - tenth / whole}
    return {"transition": float(moved), **times, "parity_bias": at["parity_bias"], "odd": float(at["odd"]), **others}


def claims(one: dict[str, float]) -> dict[str, bool]:
    """Return which of the thesis' claims hold of a run.

    ``favoured``: shortly before the drop the parity bias is positive; ``every``: 1, 3 and 5 tokens back have more than
    each of their neighbours. ``alike``: two symbols' logits correlate by more than 0.9 over distances.

    Args:
        one: as ``stated`` returns it.
    """
    return {"favoured": one["parity_bias"] > 0, "every": one["odd"] == 1, "alike": one["correlation"] > 0.9}


def plot(table: pd.DataFrame) -> Figure:
    """Draw typical trials' encodings by symbol at four moments and profiles over time, and the bias of all trials."""
    return figure_of(positional_profiles(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each cell, of how many trials each claim holds, and for each series what trials come to."""
    courses = table[table["part"] == "course"]
    found: dict[str, Any] = {}
    for cell, rows in courses.groupby("cell", sort=False):
        runs = {seed: stated(run) for seed, run in runs_of(rows).items()}
        held = pd.DataFrame({seed: claims(one) for seed, one in runs.items()}).T
        series = rows.groupby("seed")["series"].first()
        found[str(cell)] = {
            "claims": {name: counted(held[name]) for name in held},
            "series": {
                str(name): {"trials": len(own), **{quantity: spread(own[quantity]) for quantity in own}}
                for name, own in pd.DataFrame(runs).T.groupby(series, sort=False)
            },
        }
    return found


EXPERIMENT = Experiment(
    name="positional-profile",
    shows="Before bigrams are learned, the first layer favours looking back by 1, 3 and 5 tokens, whatever they are",
    source="figures 8.3 (middle) and E.7",
    scales={
        "smoke": Scale(phases.smoke, trials=1, time="about 5 seconds"),
        "laptop": Scale(phases.laptop, trials=10, time="about 4 minutes on 2 cores"),
        "paper": Scale(paper, trials=10, time="about half an hour on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=phases.probes,
    outcomes=True,
    partial=True,
)
"""Figures 8.3 (middle) and E.7."""
