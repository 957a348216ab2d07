"""Unigrams delay the induction head: doubly stochastic chains alone, and with sequences of independent tokens added.

In doubly stochastic chains single tokens carry no information; in chains of equal rows they carry all of it. Mixtures
lie between the two. A step of every arm but one has 64 doubly stochastic sequences, in expectation where they are
mixed: each sequence of a batch of 64 + m is doubly stochastic with probability 64 / (64 + m), so added sequences cost
nothing on the axis of doubly stochastic sequences, whose number in a batch has a standard deviation of at most 6.5. One
arm has batches of 64 with 32 of each in expectation. The chains with flat rows on which all arms are evaluated form an
arm as well.

The arms are compared by when the loss falls, not by where it ends: a network trained only on uniform stationary
distributions does worse on others.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import describe, round_significant
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, Tables
from elegans.plots.style import COLOURS, GREY, panels, shades, title_panels
from elegans.probes import Probe
from elegans.studies.induction_heads.plots import along, curves_of_trials, strategy_levels
from elegans.studies.induction_heads.probes import ChainLosses
from elegans.studies.induction_heads.settings import sweep_of, transformer
from elegans.studies.induction_heads.tables import curves
from elegans.studies.induction_heads.unigrams_delay_claims import CLAIMS
from elegans.sweeps import Sweep
from elegans.tasks import Dirichlet, DoublyStochastic, MarkovChains, Mixture
from elegans.training import Adam, Trial

DOUBLY = 64
"""The number of doubly stochastic sequences per step, in expectation where they are mixed."""
FLAT = Dirichlet().label()
LEVELS: Mapping[int, float] = {2: 0.05, 3: 0.125, 4: 0.15}
"""By number of symbols, the loss on chains with flat rows whose first crossing is timed, between plateau and end."""


def arms(k: int, length: int, added: Sequence[int], trials: int, steps: int, *, halved: bool = False) -> Sweep:
    """Return doubly stochastic chains with sequences of independent tokens added at every step, and flat rows.

    Args:
        k: the number of symbols.
        length: of a sequence.
        added: how many sequences of independent tokens are added to the 64 others, in expectation; 0 for none.
        trials: per arm.
        steps: of training.
        halved: whether batches of 32 + 32 are included.
    """
    batches = [(DOUBLY + more, DOUBLY / (DOUBLY + more)) for more in added] + [(DOUBLY, 0.5)] * halved
    priors = [(batch, DoublyStochastic() if weight == 1 else Mixture(weight=weight)) for batch, weight in batches]
    cells = [
        transformer(k, length, prior=prior, batch_size=batch, steps=steps)
        for batch, prior in [*priors, (DOUBLY, Dirichlet())]
    ]
    return sweep_of(trials, *cells)


def smoke(trials: int) -> Sweep:
    """Return two arms and flat rows for a few steps."""
    return arms(2, 16, (0, 64), trials, steps=20)


def laptop(trials: int) -> Sweep:
    """Return all arms with three symbols, and the two published ones with four."""
    return arms(3, 50, (0, 16, 32, 64, 128), trials, 900, halved=True) + arms(4, 100, (0, 64), trials, 900)


def paper(trials: int) -> Sweep:
    """Return all arms with four symbols, for more than three times as long."""
    return arms(4, 100, (0, 16, 32, 64, 128), trials, 3000, halved=True)


def part(trials: int) -> Sweep:
    """Return, with four symbols, doubly stochastic chains, both ways of adding as many others, and flat rows."""
    return arms(4, 100, (0, 64), trials, 3000, halved=True)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of the losses on the training distribution and on chains with flat rows."""
    assert isinstance(one.task, MarkovChains)
    others = [] if one.task.prior.label() == FLAT else [FLAT]
    return (ChainLosses(every=min(25, one.steps // 4), priors=others),)


def analyse(results: Results) -> Tables:
    """Return the table ``curves``: losses and distances on chains of flat rows, one row per trial and measured step.

    Columns are those of ``tables.curves``; ``arm``; ``added``, the sequences of independent tokens per step, NaN for
    flat rows; ``doubly``, the doubly stochastic sequences trained on (for flat rows, all); ``own_loss``, on the
    training distribution; and, the same in all rows of a trial, ``level`` and ``crossed_at``, the first measured step
    below it, NaN if there is none.
    """
    own = curves(results)
    flat = own["trial"].map(results.trials["task.prior"]) == FLAT
    found = own if flat.all() else curves(results, FLAT).where(~flat, own)
    described = {trial: _arm(results.trial(trial)) for trial in own["trial"].unique()}
    arm, doubly, added = (found["trial"].map({trial: one[i] for trial, one in described.items()}) for i in range(3))
    found = found.assign(
        arm=arm,
        added=added,
        doubly=found["step"] * doubly,
        own_loss=own["loss"],
        level=found["k"].map(LEVELS),
    )
    below = found["step"].where(found["loss"] < found["level"])
    return {"curves": found.assign(crossed_at=below.groupby(found["trial"]).transform("min"))}


def _arm(one: Trial) -> tuple[str, float, float]:
    """Return an arm's name and how many doubly stochastic and added sequences it has per step; see ``analyse``."""
    assert isinstance(one.task, MarkovChains) and isinstance(one.training, Adam)
    batch, prior = one.training.batch_size, one.task.prior
    if prior.label() == FLAT:
        return "flat rows", batch, np.nan
    if not isinstance(prior, Mixture):
        return f"{batch} doubly stochastic", batch, 0
    doubly = round(batch * prior.weight)
    return f"{doubly} + {batch - doubly} unigram", batch * prior.weight, batch * (1 - prior.weight)


def plot(tables: Tables) -> Figure:
    """Draw losses on chains of flat rows against doubly stochastic sequences, and when they fall below a level.

    There is one row per number of symbols. On the left, darker curves had fewer sequences of independent tokens added.
    On the right, each mark is where a trial's loss first falls below the dotted level; open marks at the edge are
    trials whose loss never does. For flat rows all sequences count. Source: thesis, figure 8.4a.
    """
    groups = list(tables["curves"].groupby("k", sort=False))
    figure, drawn = panels(len(groups), 2, height=2.3)
    titles: list[str] = []
    for (left, right), (k, rows) in zip(drawn, groups, strict=True):
        colours, edge, at = _colours(rows), rows["doubly"].max(), rows["level"].iloc[0]
        for arm, own in rows.groupby("arm", sort=False):
            curves_of_trials(left, own, "loss", colours[str(arm)], at="doubly")
        left.axhline(at, color=GREY, linewidth=0.8, linestyle=":")
        strategy_levels(left, rows)
        left.set_ylim(bottom=0)
        left.set_ylabel("loss (KL, nats)")
        _crossing_marks(right, rows, colours)
        titles += [f"k = {k}: loss on chains of flat rows", f"When it first is below {at:g}"]
        for ax in (left, right):
            along(ax, edge, "doubly stochastic sequences seen")
    title_panels(drawn, titles)
    return figure


def _colours(rows: pd.DataFrame) -> dict[str, Any]:
    """Return a colour per arm: lighter with more added sequences, a separate one for 32 + 32, black for none."""
    last = rows[rows["step"] == rows["step"].max()].groupby("arm", sort=False).first()
    added = last.index[last["added"].notna() & (last["doubly"] > 0.99 * last["doubly"].max())]
    shaded = dict(zip(added, shades(len(added)), strict=True))
    others = {arm: "black" if np.isnan(last.loc[arm, "added"]) else COLOURS[1] for arm in last.index}
    return {str(arm): shaded.get(arm, other) for arm, other in others.items()}


def _crossing_marks(ax: Axes, rows: pd.DataFrame, colours: dict[str, Any]) -> None:
    """Draw one mark per trial, each arm on its own line, the first at the top."""
    edge = float(rows["doubly"].max())
    for place, (arm, own) in enumerate(rows.groupby("arm", sort=False)):
        at = _crossings(own.groupby("seed").last())
        height = -place + np.linspace(-0.18, 0.18, len(at)) if len(at) > 1 else np.array([-float(place)])
        there, style = at.notna().to_numpy(), {"color": colours[str(arm)], "linewidth": 0}
        ax.plot(at[there], height[there], "o", markersize=3, **style)
        never = [0.985 * edge] * int((~there).sum())
        ax.plot(never, height[~there], ">", markersize=4, markerfacecolor="none", **style)
    ax.set_yticks([-place for place in range(len(colours))], list(colours))
    ax.set_ylim(-len(colours) + 0.4, 0.6)


def findings(tables: Tables) -> dict[str, Any]:
    """Return, by number of symbols and arm, when the loss falls, and how often later than in the first arm.

    ``doubly`` counts doubly stochastic sequences, ``ratio`` is relative to the first arm's trial of the same seed,
    ``later`` how many trials cross later than that, including those that never do.
    """
    return {f"k = {k}": _compared(rows) for k, rows in tables["curves"].groupby("k", sort=False)}


def _compared(rows: pd.DataFrame) -> dict[str, Any]:
    arms = {str(arm): own.groupby("seed").last() for arm, own in rows.groupby("arm", sort=False)}
    first = _crossings(next(iter(arms.values())))
    found: dict[str, Any] = {"level": float(rows["level"].iloc[0])}
    for arm, last in arms.items():
        crossed = _crossings(last)
        compared = crossed.fillna(np.inf) > first.reindex(crossed.index)
        found[arm] = {
            "crossed_at": {str(seed): round_significant(float(at)) for seed, at in last["crossed_at"].items()},
            "steps": describe(last["crossed_at"]),
            "doubly": describe(crossed),
            "ratio": describe(crossed / first.reindex(crossed.index)),
            "later": f"{int(compared.sum())} of {len(compared)}",
            "loss_at_the_end": describe(last["loss"]),
            "own_loss_at_the_end": describe(last["own_loss"]),
        }
    return found


def _crossings(last: pd.DataFrame) -> pd.Series:
    """Return, by seed, on how many doubly stochastic sequences each trial had been trained when its loss fell."""
    return last["crossed_at"] * last["doubly"] / last["step"]


EXPERIMENT = Experiment(
    name="unigrams-delay",
    shows="Networks learn bigrams sooner from chains without a unigram signal; added unigram sequences delay it",
    source="figure 8.4a",
    scales={
        "smoke": Scale(smoke, trials=1),
        "laptop": Scale(laptop, trials=3),
        "part": Scale(part, trials=13, part="64 doubly stochastic sequences, 64 + 64, 32 + 32 and flat rows"),
        "paper": Scale(paper, trials=13),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)
