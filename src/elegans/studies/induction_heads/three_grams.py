"""Three-grams: each next token depends on the last two, and networks pass through unigrams and bigrams on the way.

The published code has n - 1 heads in the first layer and one in the second; the thesis has three heads in each. The
width of 16 per head and the learning rate of 1e-3 are those used for bigrams. Source: thesis, section 8.3.3 and figure
8.5, whose learning rate is printed as 3e-2.
"""

from typing import Any

import pandas as pd

from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.models import AttentionOnly
from elegans.probes import Probe
from elegans.studies.induction_heads.plots import chain_stages
from elegans.studies.induction_heads.probes import ChainLosses
from elegans.studies.induction_heads.settings import sweep_of, transformer
from elegans.studies.induction_heads.tables import (
    curves,
    lines_of,
    plateau_length,
    summary,
    transition,
    typical,
)
from elegans.studies.induction_heads.three_grams_claims import CLAIMS
from elegans.sweeps import Sweep
from elegans.training import Adam, Trial

MEASUREMENTS = 75
"""How often a network is measured."""
STAGES = ["uniform", "unigram", "bigram", "trigram"]
"""The stages, in the thesis' order."""
PAIRS = {"bigram_reached": ("unigram", "bigram"), "trigram_reached": ("bigram", "trigram")}
LEARNING_RATE = 1e-3
"""The learning rate used for bigrams, which names of series omit."""
LAST = 5
"""How many of the last measurements the final loss averages: at this learning rate single ones scatter by a tenth."""
STALLED = 0.8
"""Above this share of bigrams' loss, a network does about as well as bigrams."""


def trial(
    heads: tuple[int, int],
    steps: int,
    *,
    width: int | None = None,
    length: int = 100,
    batch_size: int = 64,
    learning_rate: float = 1e-3,
) -> Trial:
    """Return a network of two layers on three-grams of two symbols.

    Args:
        heads: of each layer.
        steps: of training.
        width: 16 times the larger number of heads by default.
        length: of a sequence.
        batch_size: in sequences.
        learning_rate: of AdamW.
    """
    settings: dict[str, Any] = {"prior": "ngram:3", "batch_size": batch_size, "steps": steps}
    settings["learning_rate"] = learning_rate
    return transformer(2, length, heads=heads, width=width or 16 * max(heads), **settings)


def smoke(trials: int) -> Sweep:
    """Return 16 tokens: too short for stages."""
    return sweep_of(trials, trial((2, 1), 150, width=8, length=16, batch_size=16))


def laptop(trials: int) -> Sweep:
    """Return single heads, two heads and one, and three in each layer, on 100 tokens."""
    return sweep_of(trials, trial((3, 3), 1500), trial((2, 1), 2000), trial((1, 1), 1500))


def paper(trials: int) -> Sweep:
    """Return the same on 200 tokens for longer, at three learning rates, and single heads of the largest width too."""
    three = (trial((3, 3), 6000, length=200, learning_rate=rate) for rate in (1e-3, 2e-3, 3e-2))
    wide = trial((1, 1), 6000, width=48, length=200)
    return sweep_of(trials, *three, *(trial(heads, 6000, length=200) for heads in ((2, 1), (1, 1))), wide)


def part(trials: int) -> Sweep:
    """Return three heads in each layer and single ones on 100 tokens, for longer, at two learning rates."""
    cells = [trial(heads, 4000, learning_rate=rate) for heads in ((3, 3), (1, 1)) for rate in (1e-3, 2e-3)]
    return sweep_of(trials, *cells)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the losses and distances."""
    return (ChainLosses(every=max(1, one.steps // MEASUREMENTS)),)


def series_of(one: Trial) -> str:
    """Return the name of a trial's series: ``3 and 3 heads, width 48``."""
    assert isinstance(one.model, AttentionOnly)
    first, second = one.model.layer_heads
    assert isinstance(one.training, Adam)
    rate = one.training.learning_rate
    named = "" if rate == LEARNING_RATE else f", learning rate {rate:g}"
    return f"{first} and {second} heads, width {one.model.width}{named}"


def analyse(results: Results) -> Tables:
    """Return the table ``curves``: see ``tables.curves``; and which trial of a series is the ``typical`` one.

    The typical trial has the median final loss of the trials that reach trigrams, or of all where none does. Further
    columns: ``series``, ``length`` and ``learning_rate``.
    """
    found = curves(results)
    names = {trial: series_of(results.trial(trial)) for trial in found["trial"].unique()}
    length, rate = (found["trial"].map(results.trials[name]) for name in ("task.length", "training.learning_rate"))
    found = found.assign(series=found["trial"].map(names), length=length, learning_rate=rate)
    return {"curves": found.assign(typical=typical(found, candidates(found)))}


def candidates(rows: pd.DataFrame) -> pd.Series:
    """Return the final losses of each series' trials that reach trigrams, or of all where none does."""
    last = rows.groupby("trial").last()
    there = last["phase"] == STAGES[-1]
    return final_losses(rows)[there | ~there.groupby(last["series"]).transform("any")]


def final_losses(rows: pd.DataFrame) -> pd.Series:
    """Return by trial the mean loss over the last measurements."""
    return rows.groupby("trial").tail(LAST).groupby("trial")["loss"].mean()


def stated(run: pd.DataFrame) -> dict[str, Any]:
    """Return summary numbers of one run; steps are NaN where something was not reached.

    ``stages`` are the closest strategies in the order of their first appearance, and ``unigram_at``, … when that was;
    ``bigram_length`` is for how many steps bigram was closest. ``bigram_reached`` and ``trigram_reached`` are where the
    loss is first below the midpoint of a strategy's and the previous one's; ``fall`` is the largest drop of the loss
    between measurements 5% of the training apart, over the difference of bigrams' and trigrams' losses, once the loss
    has reached bigrams. ``final_bigram`` and ``final_trigram`` are the final loss over those of strategies.

    Args:
        run: one trial's rows of ``curves``.
    """
    lines, final = lines_of(run), float(final_losses(run).iloc[0])
    first = {f"{name}_at": run["step"][run["phase"] == name].min() for name in STAGES[1:]}
    moved = {name: transition(run, *pair) for name, pair in PAIRS.items()}
    return {
        "stages": list(dict.fromkeys(run["phase"])),
        **first,
        "bigram_length": plateau_length(run, "bigram"),
        **moved,
        "fall": largest_fall(run[run["step"] >= moved["bigram_reached"]]) / (lines["bigram"] - lines["trigram"]),
        "final_bigram": final / lines["bigram"],
        "final_trigram": final / lines["trigram"],
    }


def largest_fall(run: pd.DataFrame) -> float:
    """Return the largest drop of the loss within 5% of the training, NaN where there are too few measurements."""
    apart = round(MEASUREMENTS / 20)
    return float(-run["loss"].diff(apart).min())


def claims(one: dict[str, Any]) -> dict[str, bool]:
    """Return which claims hold for a run, with our margins.

    ``stages``: uniform, unigram, bigram, trigram. ``trigrams``: the final loss is below the midpoint of bigrams' and
    trigrams'. ``stalled``: it is above 80% of bigrams'.

    Args:
        one: as ``stated`` returns it.
    """
    half = 2 * one["final_bigram"] < 1 + one["final_bigram"] / one["final_trigram"]
    return {
        "stages": one["stages"] == STAGES,
        "trigrams": bool(half),
        "stalled": bool(one["final_bigram"] > STALLED),
    }


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each number of heads, for how many trials each claim holds and the spread of the trials' numbers."""
    series = tables["curves"].groupby("series", sort=False)
    return {str(name): summary(rows, stated, claims) for name, rows in series}


EXPERIMENT = Experiment(
    name="three-grams",
    shows="On three-grams networks learn unigrams, bigrams, trigrams in turn; with single heads most stop at bigrams",
    source="section 8.3.3 and figure 8.5",
    scales={
        "smoke": Scale(smoke, trials=1),
        "laptop": Scale(laptop, trials=3),
        "part": Scale(part, trials=13, part="100 tokens in place of 200, learning rates 1e-3 and 2e-3"),
        "paper": Scale(paper, trials=15),
    },
    analyse=analyse,
    plot=lambda tables: chain_stages(tables["curves"]),
    findings=findings,
    probes=probes,
    claims=CLAIMS,
    partial=True,
)
"""Figure 8.5."""
