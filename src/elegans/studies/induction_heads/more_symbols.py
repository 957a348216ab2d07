"""More symbols: do the phases of two and three symbols occur with four and eight, and what do linear logits cost?

With more symbols single tokens say less about the next one, and at 100 tokens strategies are too close for phases to be
visible: sequences have 200. Source: thesis, figure E.4, which does not state its number of symbols.
"""

from typing import Any

import numpy as np
import pandas as pd

from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.probes import Probe
from elegans.studies.induction_heads.induction_phases import ORDER
from elegans.studies.induction_heads.more_symbols_claims import CLAIMS
from elegans.studies.induction_heads.plots import chain_stages
from elegans.studies.induction_heads.probes import ChainLosses
from elegans.studies.induction_heads.settings import sweep_of, transformer
from elegans.studies.induction_heads.tables import (
    curves,
    lines_of,
    plateau_length,
    summary,
    transition,
    transitions,
    typical,
)
from elegans.studies.induction_heads.theory.construction import (
    LinearLogits,
    best_linear_logits,
    construction_frequencies,
)
from elegans.sweeps import Sweep
from elegans.tasks import MarkovChains
from elegans.training import Trial

MEASUREMENTS = 75
"""How often a network is measured."""
LENGTH = 200
"""The published number of tokens, which names of series omit."""
EXAMPLES = 1000
"""The number of held-out sequences for evaluation."""
PLATEAU, LEARNED, NEAR = 0.15, 0.6, 1.3
"""The margins of ``claims``."""


def smoke(trials: int) -> Sweep:
    """Return four symbols and 16 tokens: too short for phases."""
    return sweep_of(trials, transformer(4, 16, batch_size=16, steps=150))


def laptop(trials: int) -> Sweep:
    """Return four and eight symbols and 200 tokens."""
    return sweep_of(trials, *(transformer(k, 200, steps=1500) for k in (4, 8)))


def paper(trials: int) -> Sweep:
    """Return four to sixteen symbols, for three times as long."""
    return sweep_of(trials, *(transformer(k, 200, steps=4500) for k in (4, 5, 8, 12, 16)))


def part(trials: int) -> Sweep:
    """Return four and eight symbols with 200 and with 100 tokens, until losses settle."""
    return sweep_of(trials, *(transformer(k, length, steps=1500) for k in (4, 8) for length in (200, 100)))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the losses and distances."""
    return (ChainLosses(every=max(1, one.steps // MEASUREMENTS), examples=EXAMPLES),)


def analyse(results: Results) -> Tables:
    """Return the table ``curves``: see ``tables.curves``.

    Besides: ``length`` and ``series`` ("k = 8", "k = 8, 100 tokens"); ``linear``, the loss of the best multiple of the
    construction's frequencies as logits on the same sequences, and ``slope``, that multiple; and whether the trial is
    the ``typical`` one of its series.
    """
    found = curves(results)
    length = found["trial"].map(results.trials["task.length"])
    series = found["cell"] + np.where(length == LENGTH, "", ", " + length.astype(str) + " tokens")
    found = found.assign(series=series, length=length)
    linear = {trial: linear_logits(results.trial(trial)) for trial in found["trial"].unique()}
    for name in LinearLogits._fields:
        column = {"loss": "linear"}.get(name, name)
        found[column] = found["trial"].map({trial: getattr(one, name) for trial, one in linear.items()})
    return {"curves": found.assign(typical=typical(found, transitions(found)))}


def linear_logits(one: Trial) -> LinearLogits:
    """Return the best loss of the limit of Proposition 8.2's construction on a trial's held-out sequences."""
    task, key, index = one.task, one.key("test"), np.arange(EXAMPLES, dtype=np.uint32)
    assert isinstance(task, MarkovChains)
    tokens, true = task.examples(None, key, index)[0], task.conditionals(None, key, index)
    return best_linear_logits(construction_frequencies(tokens, task.k)[:, -1], true[:, -1])


def stated(run: pd.DataFrame) -> dict[str, Any]:
    """Return summary numbers of one run; steps are NaN where something was not reached.

    ``transition`` is where the loss is first below the midpoint of unigrams' and bigrams'; ``plateau_length`` for how
    many steps unigrams were closest, and ``plateau`` the median loss there over unigrams'. ``final_unigram`` and
    ``final_linear`` are the last loss over unigrams' and over that of the best linear logits; ``excess`` is how far it
    exceeds bigrams', in nats, and ``linear_excess`` how far linear logits do.

    Args:
        run: one trial's rows of ``curves``.
    """
    lines, last = lines_of(run), run.iloc[-1]
    inside = run[run["phase"] == "unigram"]
    return {
        "phases": list(dict.fromkeys(run["phase"])),
        "transition": transition(run),
        "plateau_length": plateau_length(run),
        "plateau": inside["loss"].median() / lines["unigram"],
        "final_unigram": last["loss"] / lines["unigram"],
        "excess": last["loss"] - lines["bigram"],
        "linear_excess": last["linear"] - lines["bigram"],
        "final_linear": last["loss"] / last["linear"],
    }


def claims(one: dict[str, Any]) -> dict[str, bool]:
    """Return which claims hold for a run, with our margins.

    ``order``: uniform, unigram, bigram. ``plateau``: the median loss while unigrams are closest is within 15% of
    unigrams'. ``learned``: the last loss is below 60% of unigrams'. ``linear``: it is within 30% of that of the best
    linear logits.

    Args:
        one: as ``stated`` returns it.
    """
    return {
        "order": one["phases"] == ORDER,
        "plateau": bool(abs(one["plateau"] - 1) <= PLATEAU),
        "learned": bool(one["final_unigram"] < LEARNED),
        "linear": bool(1 / NEAR < one["final_linear"] < NEAR),
    }


def findings(tables: Tables) -> dict[str, Any]:
    """Return for how many trials each claim holds and the spread of the trials' numbers, by number of symbols."""
    series = tables["curves"].groupby("series", sort=False)
    return {str(name): summary(rows, stated, claims) for name, rows in series}


EXPERIMENT = Experiment(
    name="more-symbols",
    shows="With four and eight symbols transformers pass through unigrams too, and end at what linear logits allow",
    source="figure E.4",
    scales={
        "smoke": Scale(smoke, trials=1),
        "laptop": Scale(laptop, trials=3),
        "part": Scale(part, trials=13, part="4 and 8 symbols"),
        "paper": Scale(paper, trials=13),
    },
    analyse=analyse,
    plot=lambda tables: chain_stages(tables["curves"]),
    findings=findings,
    probes=probes,
    claims=CLAIMS,
    partial=True,
)
"""Figure E.4."""
