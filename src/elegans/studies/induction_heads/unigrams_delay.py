"""Unigrams delay the induction head: doubly stochastic chains alone, and with sequences of independent tokens added.

In doubly stochastic chains single tokens say nothing; in chains of equal rows they say all. Laws between the two mix
them. A step of every arm but one has 64 doubly stochastic sequences, in expectation where they are mixed: each sequence
of a batch of 64 + m is doubly stochastic with probability 64 / (64 + m), so that what is added costs nothing on the
axis of doubly stochastic sequences. Their number in a batch has a standard deviation of at most 6.5 around 64. One arm
has batches of 64 with 32 of each in expectation. The chains of flat rows that all are tried on are an arm as well.

What is compared is when the loss falls, not where it ends: who has only seen uniform stationary laws does worse on
others.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.probes import Probe
from elegans.studies.induction_heads.plot_obstacles import unigram_delay
from elegans.studies.induction_heads.probes import ChainLosses
from elegans.studies.induction_heads.settings import transformer
from elegans.studies.induction_heads.tables import course, outcomes_of, significant, spread
from elegans.sweeps import Sweep, grid
from elegans.tasks import Dirichlet, DoublyStochastic, MarkovChains, Mixture
from elegans.training import Adam, Outcome, Trial

DOUBLY = 64
"""How many doubly stochastic sequences a step has, in expectation where they are mixed."""
FLAT = Dirichlet().label()
LEVELS: Mapping[int, float] = {2: 0.05, 3: 0.125, 4: 0.15}
"""By the number of symbols: the loss on chains of flat rows whose first crossing is timed, between plateau and end."""


def arms(k: int, length: int, added: Sequence[int], trials: int, steps: int, *, halved: bool = False) -> Sweep:
    """Return doubly stochastic chains with so many sequences of independent tokens added a step, and flat rows.

    Args:
        k: the number of symbols.
        length: how many tokens a sequence has.
        added: how many sequences of independent tokens come to 64 others, in expectation; 0 is none.
        trials: how many trials an arm.
        steps: how many steps.
        halved: whether there are batches of 32 + 32, too.
    """
    batches = [(DOUBLY + more, DOUBLY / (DOUBLY + more)) for more in added] + [(DOUBLY, 0.5)] * halved
    laws = [(batch, DoublyStochastic() if weight == 1 else Mixture(weight=weight)) for batch, weight in batches]
    cells = [
        transformer(k, length, prior=prior, batch_size=batch, steps=steps)
        for batch, prior in [*laws, (DOUBLY, Dirichlet())]
    ]
    return Sweep(tuple(part for cell in cells for part in grid(cell, {}, seeds=trials).parts))


def smoke(trials: int) -> Sweep:
    """Return two arms and flat rows for a few steps."""
    return arms(2, 16, (0, 64), trials, steps=20)


def laptop(trials: int) -> Sweep:
    """Return all arms of three symbols, and the published two of four."""
    return arms(3, 50, (0, 16, 32, 64, 128), trials, 900, halved=True) + arms(4, 100, (0, 64), trials, 900)


def paper(trials: int) -> Sweep:
    """Return all arms of four symbols, for more than three times as long."""
    return arms(4, 100, (0, 16, 32, 64, 128), trials, 3000, halved=True)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the losses on the training's law and on chains of flat rows."""
    assert isinstance(one.task, MarkovChains) and one.training is not None
    others = [] if one.task.prior.label() == FLAT else [FLAT]
    return (ChainLosses(every=min(25, one.training.steps // 4), priors=others),)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial and measured step: losses and distances on chains of flat rows, by arm.

    Columns are those of ``course``; ``arm``; ``added``, the sequences of independent tokens a step, NaN of flat rows;
    ``doubly``, the doubly stochastic sequences seen, or, of flat rows, all; ``own_loss``, on the training's law; and,
    the same in all rows of a trial, ``level`` and ``crossed_at``, the first measured step below it, NaN where none is.
    """
    return pd.concat([_course(outcome) for outcome in outcomes_of(trials)], ignore_index=True)


def _course(outcome: Outcome) -> pd.DataFrame:
    task, training = outcome.trial.task, outcome.trial.training
    assert isinstance(task, MarkovChains) and isinstance(training, Adam)
    own = course(outcome)
    found = own if task.prior.label() == FLAT else course(outcome, FLAT)
    below = found["step"][found["loss"] < LEVELS[task.k]]
    share = task.prior.weight if isinstance(task.prior, Mixture) else 1.0
    flat = task.prior.label() == FLAT
    return found.assign(
        arm=_arm(task, training.batch_size),
        added=np.nan if flat else training.batch_size * (1 - share),
        doubly=found["sequences"] * share,
        own_loss=own["loss"],
        level=LEVELS[task.k],
        crossed_at=float(below.iloc[0]) if len(below) else np.nan,
    )


def _arm(task: MarkovChains, batch_size: int) -> str:
    """Return what a step has, in words: doubly stochastic sequences + sequences of independent tokens."""
    if task.prior.label() == FLAT:
        return "flat rows"
    if not isinstance(task.prior, Mixture):
        return f"{batch_size} doubly stochastic"
    doubly = round(batch_size * task.prior.weight)
    return f"{doubly} + {batch_size - doubly} unigram"


def plot(table: pd.DataFrame) -> Figure:
    """Draw losses against doubly stochastic sequences seen, and when they fall below a level, a row a k."""
    return figure_of(unigram_delay(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, by the number of symbols and the arm, when the loss falls, and how often it does so after the first arm.

    ``doubly_at`` counts doubly stochastic sequences, ``ratio`` is to the first arm's trial of the same seed, ``later``
    how many trials cross later than that, those that never do among them.
    """
    return {f"k = {k}": _compared(rows) for k, rows in table.groupby("k", sort=False)}


def _compared(rows: pd.DataFrame) -> dict[str, Any]:
    arms = {str(arm): own.groupby("seed").last() for arm, own in rows.groupby("arm", sort=False)}
    first = _crossings(next(iter(arms.values())))
    found: dict[str, Any] = {"level": float(rows["level"].iloc[0])}
    for arm, last in arms.items():
        crossed = _crossings(last)
        compared = crossed.fillna(np.inf) > first.reindex(crossed.index)
        found[arm] = {
            "crossed_at": {str(seed): significant(float(at)) for seed, at in last["crossed_at"].items()},
            "steps": spread(last["crossed_at"]),
            "doubly": spread(crossed),
            "ratio": spread(crossed / first.reindex(crossed.index)),
            "later": f"{int(compared.sum())} of {len(compared)}",
            "loss_at_the_end": spread(last["loss"]),
            "own_loss_at_the_end": spread(last["own_loss"]),
        }
    return found


def _crossings(last: pd.DataFrame) -> pd.Series:
    """Return how many doubly stochastic sequences each trial had seen when its loss fell, by seed."""
    return last["crossed_at"] * last["doubly"] / last["step"]


EXPERIMENT = Experiment(
    name="unigrams-delay",
    shows="Networks learn pairs sooner from chains in which single tokens say nothing; unigram sequences delay it",
    source="figure 8.4a",
    scales={
        "smoke": Scale(smoke, trials=1, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=3, time="about 3 minutes on 2 cores"),
        "paper": Scale(paper, trials=10, time="about an hour on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
