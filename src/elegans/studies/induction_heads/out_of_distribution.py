"""Networks that learn chains with random rows, evaluated on other distributions of chains while they train.

On independent tokens unigrams are best; on doubly stochastic chains they are no better than uniform guesses. Together
the two distributions show which strategy a network has.

Source: thesis, appendix E.2 (figure E.6).
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.plots.style import COLOURS, GREY, figure_legend, panels, title_panels
from elegans.probes import Probe
from elegans.studies.induction_heads.induction_phases import EARLY
from elegans.studies.induction_heads.out_of_distribution_claims import CLAIMS, DOUBLY, OWN, UNIGRAM
from elegans.studies.induction_heads.plots import along, curves_of_trials
from elegans.studies.induction_heads.probes import ChainLosses
from elegans.studies.induction_heads.settings import main_networks, minimal, sweep_of, thesis_networks, transformer
from elegans.studies.induction_heads.tables import curves, lines_of, summary, transitions
from elegans.sweeps import Sweep
from elegans.tasks import DoublyStochastic, Unigram
from elegans.training import Trial

MEASUREMENTS = 50
OTHERS = {UNIGRAM: Unigram(), DOUBLY: DoublyStochastic()}
PRIOR_COLOURS = (COLOURS[3], COLOURS[5], "black")
"""The labels of the distributions, the trained one first."""
LEVEL = 0.1
"""How far, relatively, a network's loss may be from a strategy's to count as equal."""


def smoke(trials: int) -> Sweep:
    """Return a transformer on two symbols and 16 tokens."""
    return sweep_of(trials, transformer(length=16, batch_size=16, steps=100))


def laptop(trials: int) -> Sweep:
    """Return both models on two and three symbols."""
    return sweep_of(trials, *main_networks(), *(minimal(k, steps=2000) for k in (2, 3)))


def paper(trials: int) -> Sweep:
    """Return both models on two and three symbols, transformers at the thesis' learning rate."""
    return sweep_of(trials, *thesis_networks(), *(minimal(k, steps=4000) for k in (2, 3)))


def part(trials: int) -> Sweep:
    """Return the published sizes at the learning rate that matches the printed axis, until losses have settled."""
    transformers = (transformer(k, steps=steps) for k, steps in ((2, 2000), (3, 1500)))
    return sweep_of(trials, *transformers, *(minimal(k, steps=4000) for k in (2, 3)))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of the losses on the trial's own distribution of chains and on the two others."""
    return (ChainLosses(every=max(1, one.steps // MEASUREMENTS), priors=tuple(OTHERS.values())),)


def analyse(results: Results) -> Tables:
    """Return the table ``curves``: one row per trial, distribution of chains and measured step.

    Columns are those of ``tables.curves`` on losses and distances, where ``cell`` names the model too; ``prior``, the
    distribution evaluated on; and ``transition``, the one on the trial's own distribution.
    """
    own = curves(results)
    others = [curves(results, prior.label()).assign(prior=name) for name, prior in OTHERS.items()]
    found = pd.concat([own.assign(prior=OWN), *others]).sort_values("trial", kind="stable", ignore_index=True)
    minimal_model = found["trial"].map(results.trials["model"]) == "minimal-attention"
    cell = np.where(minimal_model, "minimal model, ", "transformer, ") + found["cell"]
    unused = [name for name in map(str, found) if name == "cross_entropy" or name.startswith("reverse.")]
    moved = found["trial"].map(transitions(own))
    return {"curves": found.drop(columns=unused).assign(cell=cell, transition=moved)}


def stated(run: pd.DataFrame) -> dict[str, float]:
    """Return summary numbers of one run; NaN where there was no transition.

    ``unigram_at``: the first step at which the loss on the trial's own distribution is below 1.1 times the unigram
    strategy's. Relative to uniform guesses' losses on the same distribution: ``independent_plateau`` and
    ``doubly_plateau``, the medians from there to 60% of the transition, ``independent_worst``, the largest between 60%
    and 140% of it, and ``independent_final``, ``doubly_final``; ``doubly_drop`` is the first step below half of uniform
    guesses', over the transition. ``doubly_own``: the last loss on doubly stochastic chains over that on the own
    distribution.

    Args:
        run: one trial's rows of ``curves``, on all distributions.
    """
    by_prior = {str(prior): rows.set_index("step") for prior, rows in run.groupby("prior")}
    own, moved = by_prior[OWN], float(run["transition"].iloc[0])
    reached = own.index[own["loss"] < (1 + LEVEL) * lines_of(own)["unigram"]].to_series().min()
    independent, doubly = (by_prior[name]["loss"] / lines_of(by_prior[name])["uniform"] for name in OTHERS)
    plateau = (own.index >= reached) & (own.index <= EARLY * moved)
    around = (own.index > EARLY * moved) & (own.index <= (2 - EARLY) * moved)
    return {
        "transition": moved,
        "unigram_at": reached,
        "independent_plateau": float(independent[plateau].median()),
        "independent_worst": float(independent[around].max()),
        "independent_final": float(independent.iloc[-1]),
        "doubly_plateau": float(doubly[plateau].median()),
        "doubly_drop": doubly.index[doubly < 0.5].to_series().min() / moved,
        "doubly_final": float(doubly.iloc[-1]),
        "doubly_own": float(by_prior[DOUBLY]["loss"].iloc[-1] / own["loss"].iloc[-1]),
    }


def claims(one: dict[str, float]) -> dict[str, bool]:
    """Return which claims hold for a run; all but the first are ours, from the meaning of the two distributions.

    ``quickly``: the loss on the own distribution is at the unigram strategy's in less than a quarter of the time to the
    transition. ``independent``: on the plateau the loss on independent tokens is below half of uniform guesses'.
    ``doubly``: the loss on doubly stochastic chains is then above 0.8 times uniform guesses'. ``together``: it falls
    below half of these within 30% of the transition. ``below``: at the end it is less than 1.25 times the loss on the
    own distribution.

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


def plot(tables: Tables) -> Figure:
    """Draw losses on each distribution over that of uniform guesses there, one panel per cell.

    Faint curves are trials, strong ones their medians. Dashed: unigrams there; dotted: bigrams; the vertical grey line
    is the median transition on the trained distribution.
    """
    cells = list(tables["curves"].groupby("cell", sort=False))
    figure, drawn = panels((len(cells) + 1) // 2, 2, height=2.3)
    for ax in drawn.ravel()[len(cells) :]:
        ax.remove()
    shown = drawn.ravel()[: len(cells)]
    for ax, (_, rows) in zip(shown, cells, strict=True):
        for (prior, own), colour in zip(rows.groupby("prior", sort=False), PRIOR_COLOURS, strict=False):
            curves_of_trials(ax, own.assign(share=own["loss"] / own["line.uniform"]), "share", colour, str(prior))
            for name, style in (("unigram", "--"), ("bigram", ":")):
                at = (own[f"line.{name}"] / own["line.uniform"]).median()
                ax.axhline(at, color=colour, linewidth=0.7, linestyle=style, alpha=0.8)
        moved = rows["transition"].median() * rows["sequences"].max() / rows["step"].max()
        if np.isfinite(moved):
            ax.axvline(moved, color=GREY, linewidth=0.7)
        ax.set_ylim(bottom=0)
        ax.set_ylabel("loss / loss of uniform guesses")
        along(ax, rows["sequences"].max())
    for style, label in (("--", "unigrams there"), (":", "bigrams there"), ("-", "median transition (upright)")):
        shown[0].plot([], [], style, color=GREY, linewidth=0.8, label=label)
    title_panels(shown, [f"{cell}: {rows['seed'].nunique()} trials" for cell, rows in cells])
    figure_legend(figure, shown[0])
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each cell, for how many trials each claim holds, and the spread of the trials' numbers."""
    cells = tables["curves"].groupby("cell", sort=False)
    return {str(cell): summary(rows, stated, claims) for cell, rows in cells}


EXPERIMENT = Experiment(
    name="out-of-distribution",
    shows="Networks trained on random chains, evaluated on independent tokens and on chains without a unigram signal",
    source="figure E.6",
    scales={
        "smoke": Scale(smoke, trials=1),
        "laptop": Scale(laptop, trials=4),
        "part": Scale(part, trials=13, part="learning rate 1e-3 of transformers"),
        "paper": Scale(paper, trials=13),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
    partial=True,
)
"""Figure E.6."""
