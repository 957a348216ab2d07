"""Three-grams: each next token depends on the last two, and networks pass through unigrams and bigrams on the way.

The published code has n - 1 heads in the first layer and one in the second; the thesis has three heads in each. A width
of 16 a head is that of pairs, and so is the rate, 1e-3. Source: thesis, section 8.3.3 and figure 8.5, whose rate is
printed as 3e-2.
"""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.models import AttentionOnly
from elegans.plots import figure_of
from elegans.probes import Probe
from elegans.studies.induction_heads.induction_phases import sweep_of
from elegans.studies.induction_heads.plot_stages import chain_stages
from elegans.studies.induction_heads.probes import ChainLosses
from elegans.studies.induction_heads.settings import transformer
from elegans.studies.induction_heads.tables import course, lines_of, outcomes_of, summary, transition
from elegans.studies.induction_heads.theory.metrics import plateau_length
from elegans.sweeps import Sweep
from elegans.training import Trial

LOOKS = 75
"""How often a network is looked at."""
STAGES = ["uniform", "unigram", "bigram", "trigram"]
"""As the thesis has them."""
PAIRS = {"bigram_reached": ("unigram", "bigram"), "trigram_reached": ("bigram", "trigram")}
LAST = 5
"""How many looks at the end make the final loss: at this rate single ones scatter by a tenth."""
STALLED = 0.8
"""Above this share of bigram's loss a network does about as well as bigrams."""


def trial(
    heads: tuple[int, int], steps: int, *, width: int | None = None, length: int = 100, batch_size: int = 64
) -> Trial:
    """Return a network of two layers on three-grams of two symbols.

    Args:
        heads: those of each layer.
        steps: how many it is trained for.
        width: 16 times the larger number of heads by default.
        length: how many tokens it reads.
        batch_size: how many sequences a step takes.
    """
    settings: dict[str, Any] = {"prior": "ngram:3", "batch_size": batch_size, "steps": steps}
    return transformer(2, length, heads=heads, width=width or 16 * max(heads), **settings)


def smoke(trials: int) -> Sweep:
    """Return 16 tokens: too short for stages."""
    return sweep_of(trials, trial((2, 1), 150, width=8, length=16, batch_size=16))


def laptop(trials: int) -> Sweep:
    """Return single heads, two heads and one, and three in each layer, on 100 tokens."""
    return sweep_of(trials, trial((3, 3), 1500), trial((2, 1), 2000), trial((1, 1), 1500))


def paper(trials: int) -> Sweep:
    """Return the same on 200 tokens for longer, and single heads of the largest width too."""
    wide = trial((1, 1), 6000, width=48, length=200)
    return sweep_of(trials, *(trial(heads, 6000, length=200) for heads in ((3, 3), (2, 1), (1, 1))), wide)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the losses and distances."""
    return (ChainLosses(every=max(1, one.steps // LOOKS)),)


def series_of(one: Trial) -> str:
    """Return what a trial's series is called: ``3 and 3 heads, width 48``."""
    assert isinstance(one.model, AttentionOnly)
    first, second = one.model.layer_heads
    return f"{first} and {second} heads, width {one.model.width}"


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial and measured step: see ``tables.course``; ``series``, and which trial is ``typical``."""
    runs = [course(one).assign(series=series_of(one.trial)) for one in outcomes_of(trials)]
    table = pd.concat(runs, ignore_index=True)
    chosen = {str(series): middle(rows) for series, rows in table.groupby("series", sort=False)}
    return table.assign(typical=table["seed"] == table["series"].map(chosen))


def middle(rows: pd.DataFrame) -> int:
    """Return which trial is shown: of those that come to trigrams, or of all where none does, the middle one.

    That is the one whose final loss is the median, of an even number of trials the smaller; ties by seed.
    """
    runs = {int(seed): rows[rows["seed"] == seed] for seed in rows["seed"].unique()}
    there = [seed for seed, run in runs.items() if run["phase"].iloc[-1] == STAGES[-1]]
    ordered = sorted(there or runs, key=lambda seed: (final_loss(runs[seed]), seed))
    return ordered[(len(ordered) - 1) // 2]


def final_loss(run: pd.DataFrame) -> float:
    """Return the mean loss of the last looks."""
    return float(run["loss"].iloc[-LAST:].mean())


def stated(run: pd.DataFrame) -> dict[str, Any]:
    """Return what one run comes to; steps are NaN where something was not reached.

    ``stages`` are the closest strategies in the order of their first appearance, and ``unigram_at``, … when that was;
    ``bigram_length`` is for how many steps bigram was closest. ``bigram_reached`` and ``trigram_reached`` are where the
    loss is first below the middle of a strategy's and that before; ``fall`` is the largest drop of the loss between
    looks that are 5% of the training apart, over the difference of bigram's loss and trigram's, after the loss has
    reached bigrams. ``final_bigram`` and ``final_trigram`` are the final loss over those of strategies.

    Args:
        run: one trial's rows, as ``analysis`` makes them.
    """
    lines, final = lines_of(run), final_loss(run)
    first = {f"{name}_at": run["step"][run["phase"] == name].min() for name in STAGES[1:]}
    moved = {name: transition(run, *pair) for name, pair in PAIRS.items()}
    return {
        "stages": list(dict.fromkeys(run["phase"])),
        **first,
        "bigram_length": plateau_length(list(run["step"]), list(run["phase"]), "bigram"),
        **moved,
        "fall": largest_fall(run[run["step"] >= moved["bigram_reached"]]) / (lines["bigram"] - lines["trigram"]),
        "final_bigram": final / lines["bigram"],
        "final_trigram": final / lines["trigram"],
    }


def largest_fall(run: pd.DataFrame) -> float:
    """Return the largest drop of the loss within 5% of the training, NaN where there are too few looks."""
    apart = round(LOOKS / 20)
    return float(-run["loss"].diff(apart).min())


def claims(one: dict[str, Any]) -> dict[str, bool]:
    """Return which claims hold of a run, with margins derived here.

    ``stages``: uniform, unigram, bigram, trigram. ``trigrams``: the final loss is below the middle of bigram's and
    trigram's. ``stalled``: it is above 80% of bigram's.

    Args:
        one: as ``stated`` returns it.
    """
    half = 2 * one["final_bigram"] < 1 + one["final_bigram"] / one["final_trigram"]
    return {
        "stages": one["stages"] == STAGES,
        "trigrams": bool(half),
        "stalled": bool(one["final_bigram"] > STALLED),
    }


def plot(table: pd.DataFrame) -> Figure:
    """Draw, a row a number of heads, losses and distances."""
    return figure_of(chain_stages(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each number of heads, of how many trials each claim holds and what trials come to."""
    return {
        str(series): summary(rows, stated, claims, "stages") for series, rows in table.groupby("series", sort=False)
    }


EXPERIMENT = Experiment(
    name="three-grams",
    shows="On three-grams networks learn unigrams, bigrams, trigrams in turn; with single heads most stop at bigrams",
    source="section 8.3.3 and figure 8.5",
    scales={
        "smoke": Scale(smoke, trials=1, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=3, time="about 4 minutes on 2 cores"),
        "paper": Scale(paper, trials=10, time="about 8 hours on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
    partial=True,
)
"""Figure 8.5."""
