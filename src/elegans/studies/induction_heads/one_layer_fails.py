"""One layer of attention does not learn pairs, however long it is trained; two do.

Networks of one layer have relative or absolute positions, and a perceptron after the attention or none. They are
trained for several times as long as two layers need, which are trained for the same time beside them.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.models import AttentionOnly
from elegans.plots import figure_of
from elegans.probes import Probe
from elegans.studies.induction_heads.plot_obstacles import one_layer_losses
from elegans.studies.induction_heads.probes import ChainLosses
from elegans.studies.induction_heads.settings import transformer
from elegans.studies.induction_heads.tables import course, lines_of, outcomes_of, spread, transition
from elegans.sweeps import Sweep, grid
from elegans.training import Outcome, Trial

MLP_WIDTH = 64
"""Four times the width, as is common."""
NETWORKS: dict[str, dict[str, Any]] = {
    "two layers": {},
    "one layer": {"layers": 1},
    "one layer, absolute": {"layers": 1, "positions": "absolute"},
    "one layer and MLP": {"layers": 1, "mlp_width": MLP_WIDTH},
    "one layer and MLP, absolute": {"layers": 1, "mlp_width": MLP_WIDTH, "positions": "absolute"},
}
"""By name: what is other than in two layers with relative positions and without perceptrons."""
SETTLED = 0.05
"""After this share of the training a fall counts as one: before, all networks learn single tokens."""
SHARE_OF_FALL = 0.2
"""What part of the loss a transition takes away between two looks, at least."""
LOOKS = 96


def networks(k: int, length: int, batch_size: int, steps: int, trials: int) -> Sweep:
    """Return all networks."""
    cells = [transformer(k, length, batch_size=batch_size, steps=steps, **own) for own in NETWORKS.values()]
    return Sweep(tuple(part for cell in cells for part in grid(cell, {}, seeds=trials).parts))


def smoke(trials: int) -> Sweep:
    """Return one layer and two without perceptrons, for a few steps."""
    return Sweep(networks(2, 16, 16, 40, trials).parts[:2])


def laptop(trials: int) -> Sweep:
    """Return all networks on three symbols and 50 tokens."""
    return networks(3, 50, 32, 6000, trials)


def paper(trials: int) -> Sweep:
    """Return all networks on 100 tokens, for 8 times the steps of the main run."""
    return networks(3, 100, 64, 8000, trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return losses and distances to strategies."""
    assert one.training is not None
    return (ChainLosses(every=max(one.training.steps // LOOKS, 5)),)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial and measured step: losses and distances, by ``network``.

    The same in all rows of a trial: ``transition``, the first measured step below the middle of both strategies' lines
    (NaN where there is none), and ``steepest``, the largest share of its loss that it loses from one look to the next
    after the first 5% of the training.
    """
    return pd.concat([_course(outcome) for outcome in outcomes_of(trials)], ignore_index=True)


def _course(outcome: Outcome) -> pd.DataFrame:
    found = course(outcome)
    settled = found["loss"][found["step"] >= SETTLED * found["step"].max()]
    steepest = float((1 - settled / settled.shift()).max())
    return found.assign(network=_network(outcome.trial), transition=transition(found), steepest=steepest)


def _network(one: Trial) -> str:
    for name, own in NETWORKS.items():
        if AttentionOnly(**own) == one.model:
            return name
    raise ValueError(f"the network is none of this experiment: {one.model.label()}")


def plot(table: pd.DataFrame) -> Figure:
    """Draw the losses of every network beside those of two layers."""
    return figure_of(one_layer_losses(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, by network, where it ends, relative to the strategies, and whether there was a transition.

    ``fails`` counts the trials that end above half of the unigram line and never lose more than a fifth of their loss
    from one look to the next; ``trained`` is the training over the time that two layers need, a median.
    """
    middle = float(table[table["network"] == "two layers"].groupby("seed")["transition"].first().median())
    return {str(name): _stated(rows, middle) for name, rows in table.groupby("network", sort=False)}


def _stated(rows: pd.DataFrame, needed: float) -> dict[str, Any]:
    last, lines = rows.groupby("seed").last(), pd.DataFrame([lines_of(run) for _, run in rows.groupby("seed")])
    unigram, bigram = (lines[name].to_numpy() for name in ("unigram", "bigram"))
    final, lowest = last["loss"].to_numpy(), rows.groupby("seed")["loss"].min().to_numpy()
    fails = (final > unigram / 2) & (last["steepest"].to_numpy() <= SHARE_OF_FALL)
    return {
        "trials": len(last),
        "loss": spread(final),
        "over_unigram": spread(final / unigram),
        "over_bigram": spread(final / bigram),
        "lowest_over_unigram": spread(lowest / unigram),
        "steepest": spread(last["steepest"]),
        "transition": spread(last["transition"]),
        "fails": int(fails.sum()),
        "trained": None if np.isnan(needed) else round(float(rows["step"].max()) / needed, 1),
    }


EXPERIMENT = Experiment(
    name="one-layer-fails",
    shows="One layer of attention stays at the unigram strategy's loss, where two learn pairs all at once",
    source="figure E.8",
    scales={
        "smoke": Scale(smoke, trials=1, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=2, time="about 3 minutes on 2 cores"),
        "paper": Scale(paper, trials=10, time="about 2 hours on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
