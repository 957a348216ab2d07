"""Networks that learn chains with random rows, tried on other laws of chains along the way.

On tokens that are independent unigrams are best, on doubly stochastic chains they are no better than uniform guesses:
between them the two laws tell which of the strategies a network has.

Source: thesis, appendix E.2 (figure E.6).
"""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.probes import Probe
from elegans.studies.induction_heads.induction_phases import EARLY, cell_of, first, sweep_of
from elegans.studies.induction_heads.models import MinimalAttention
from elegans.studies.induction_heads.plots import chain_laws
from elegans.studies.induction_heads.probes import ChainLosses
from elegans.studies.induction_heads.settings import minimal, transformer
from elegans.studies.induction_heads.tables import counted, course, lines_of, outcomes_of, runs_of, spread, transition
from elegans.sweeps import Sweep
from elegans.tasks import DoublyStochastic, Unigram
from elegans.training import Trial

LOOKS = 50
OTHERS = (Unigram(), DoublyStochastic())
OWN, UNIGRAM, DOUBLY = "random rows", "independent tokens", "doubly stochastic"
"""What the laws are called: the trained one and the others."""
LEVEL = 0.1
"""Within which share of a strategy's loss a network counts as at it."""


def smoke(trials: int) -> Sweep:
    """Return a transformer on two symbols and 16 tokens."""
    return sweep_of(trials, transformer(length=16, batch_size=16, steps=100))


def laptop(trials: int) -> Sweep:
    """Return both models on two and three symbols."""
    networks = (transformer(2, steps=2000), transformer(3, steps=1000))
    return sweep_of(trials, *networks, *(minimal(k, steps=2000) for k in (2, 3)))


def paper(trials: int) -> Sweep:
    """Return both models on two and three symbols, transformers at the thesis' rate."""
    networks = (transformer(k, steps=20_000, learning_rate=3e-5) for k in (2, 3))
    return sweep_of(trials, *networks, *(minimal(k, steps=4000) for k in (2, 3)))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return losses on the trial's own law of chains and on the two others."""
    return (ChainLosses(every=max(1, one.steps // LOOKS), priors=OTHERS),)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial, law of chains and measured step: ``cell``, ``law``, ``transition``, and a course's columns.

    See ``tables.course``. The transition is that on the trial's own law.
    """
    parts = []
    for one in outcomes_of(trials):
        own = course(one)
        kind = "minimal model" if isinstance(one.trial.model, MinimalAttention) else "transformer"
        named: dict[str, Any] = {"cell": f"{kind}, {cell_of(one.trial)}", "transition": transition(own)}
        parts.append(own.assign(law=OWN, **named))
        parts += [
            course(one, prior.label()).assign(law=law, **named)
            for law, prior in zip((UNIGRAM, DOUBLY), OTHERS, strict=True)
        ]
    return pd.concat(parts, ignore_index=True)


def stated(run: pd.DataFrame) -> dict[str, float]:
    """Return what one run comes to; NaN where there was no transition.

    ``unigram_at``: the first step at which the loss on the own law is below 1.1 times the unigram strategy's.
    Relative to uniform guesses' losses on the same law: ``independent_plateau`` and ``doubly_plateau``, the medians
    from there to 60% of the transition, ``independent_worst``, the largest between 60% and 140% of it, and
    ``independent_final``, ``doubly_final``; ``doubly_drop`` is the first step below half of uniform guesses', over
    the transition. ``doubly_own``: the last loss on doubly stochastic chains over that on the own law.

    Args:
        run: one trial's rows of all laws, as ``analysis`` makes them.
    """
    laws = {str(law): rows.set_index("step") for law, rows in run.groupby("law")}
    own, moved = laws[OWN], run["transition"].iloc[0]
    reached = first(pd.Series(own.index[own["loss"] < (1 + LEVEL) * lines_of(own)["unigram"]]))
    of_uniform = {law: laws[law]["loss"] / lines_of(laws[law])["uniform"] for law in (UNIGRAM, DOUBLY)}
    plateau = (own.index >= reached) & (own.index <= EARLY * moved)
    around = (own.index > EARLY * moved) & (own.index <= (2 - EARLY) * moved)
    doubly = of_uniform[DOUBLY]
    return {
        "transition": float(moved),
        "unigram_at": reached,
        "independent_plateau": float(of_uniform[UNIGRAM][plateau].median()),
        "independent_worst": float(of_uniform[UNIGRAM][around].max()),
        "independent_final": float(of_uniform[UNIGRAM].iloc[-1]),
        "doubly_plateau": float(doubly[plateau].median()),
        "doubly_drop": first(pd.Series(doubly.index[doubly < 0.5])) / float(moved),
        "doubly_final": float(doubly.iloc[-1]),
        "doubly_own": float(laws[DOUBLY]["loss"].iloc[-1] / own["loss"].iloc[-1]),
    }


def claims(one: dict[str, float]) -> dict[str, bool]:
    """Return which claims hold of a run; all but the first are derived here from the two laws' meaning.

    ``quickly``: the loss on the own law is at the unigram strategy's in less than a quarter of the time to the
    transition. ``independent``: on the plateau that on independent tokens is below half of uniform guesses'.
    ``doubly``: that on doubly stochastic chains is then above 0.8 times uniform guesses'. ``together``: it falls below
    half of it within 30% of the transition. ``below``: at the end it is less than 1.25 times that on the own law.

    Args:
        one: as ``stated`` returns it.
    """
    return {
        "quickly": one["unigram_at"] < one["transition"] / 4,
        "independent": one["independent_plateau"] < 0.5,
        "doubly": one["doubly_plateau"] > 0.8,
        "together": abs(one["doubly_drop"] - 1) < 0.3,
        "below": one["doubly_own"] < 1.25,
    }


def plot(table: pd.DataFrame) -> Figure:
    """Draw losses on the three laws of chains, a panel a cell."""
    return figure_of(chain_laws(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each cell, of how many trials each claim holds, and what trials come to."""
    found: dict[str, Any] = {}
    for cell, rows in table.groupby("cell", sort=False):
        runs = {seed: stated(run) for seed, run in runs_of(rows).items()}
        held = pd.DataFrame({seed: claims(one) for seed, one in runs.items()}).T
        numbers = pd.DataFrame(runs).T
        found[str(cell)] = {
            "claims": {name: counted(held[name]) for name in held},
            **{name: spread(numbers[name]) for name in numbers},
        }
    return found


EXPERIMENT = Experiment(
    name="out-of-distribution",
    shows="Networks on random chains, tried on independent tokens and on chains that have no unigrams to learn",
    source="figure E.6",
    scales={
        "smoke": Scale(smoke, trials=1, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=4, time="about 3 minutes on 2 cores"),
        "paper": Scale(paper, trials=10, time="about half an hour on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
    partial=True,
)
"""Figure E.6."""
