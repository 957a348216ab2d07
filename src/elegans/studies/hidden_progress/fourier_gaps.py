"""Fourier gaps of random neurons, and of a neuron while it learns (figures B.7 and B.8).

The gaps of random neurons are exact, over all inputs; those along the training of a sinusoidal neuron are in closed
form, and given for a derivative of amplitude 1, so that they compare with the majority's.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import median, median_interval, wilson
from elegans.boolean.gaps import majority_gap
from elegans.experiments.base import Experiment, Scale
from elegans.models import MLP, BernoulliInit, DenseInit, GaussianInit, Init, ReLU, Sinusoid
from elegans.plots import figure_of
from elegans.probes import FourierGap, Probe
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.plot_gaps import gap_histograms
from elegans.studies.hidden_progress.settings import configuration
from elegans.sweeps import Sweep, grid
from elegans.tasks import Online, SparseParity
from elegans.training import SGD, Trial

RANDOM, TRAINED = "random", "trained"
THRESHOLD, SINE = "threshold", "sine"


def neuron(n: int, k: int, function: str, init: Init) -> Trial:
    """Return the trial of a neuron without a bias that takes one step; its gap before that is what counts.

    Args:
        n: the number of signs.
        k: the size of the parity.
        function: the derivative of its activation: a ``threshold`` (of a ReLU), or a ``sine``.
        init: the law of its weights.
    """
    activation = ReLU() if function == THRESHOLD else Sinusoid(2, scale=2 / math.pi)
    return Trial(
        task=SparseParity(n=n, k=k),
        regime=Online(),
        model=MLP(width=1, init=init, activation=activation, readout=False, hidden_bias=False),
        training=SGD(steps=1, batch_size=1, learning_rate=0.01, stopping=StoppingRule(examples=1, every=1, stop=False)),
    )


def laws(n: int) -> tuple[Init, ...]:
    """Return the laws of a neuron's weights, all of entries of order 1/sqrt(n)."""
    return DenseInit(), GaussianInit(std=1 / math.sqrt(n)), BernoulliInit()


def gaps(n: int, thresholds: Sequence[int], sines: Sequence[int], training: tuple[int, int], trials: int) -> Sweep:
    """Return random neurons of each law, and a sinusoidal one that learns.

    Args:
        n: the number of signs of random neurons.
        thresholds: the sizes of parities for thresholds.
        sines: those for sines.
        training: the (n, k) of the neuron that learns.
        trials: how many trials a cell.
    """
    cells = [neuron(n, k, THRESHOLD, law) for k in thresholds for law in laws(n)]
    cells += [neuron(n, k, SINE, law) for k in sines for law in laws(n)]
    cells.append(configuration("xiv", *training))
    return Sweep(tuple(part for cell in cells for part in grid(cell, {}, seeds=trials).parts))


def smoke(trials: int) -> Sweep:
    """Return n = 9."""
    return gaps(9, (2,), (2,), (15, 2), trials)


def laptop(trials: int) -> Sweep:
    """Return n = 15, and training at (51, 4)."""
    return gaps(15, (2, 4, 6), (2, 4), (51, 4), trials)


def paper(trials: int) -> Sweep:
    """Return the same with more draws."""
    return laptop(trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the gap: over all inputs for neurons that take one step, in closed form for those that learn."""
    if one.steps == 1:
        return (FourierGap(every=1, estimator="exact"),)
    return (FourierGap(every=100, estimator="closed form"),)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a random neuron, and a row a measurement of one that learns.

    Columns: ``part``, ``function`` (the activation's derivative), ``law``, ``task.n``, ``task.k``, ``seed``, ``step``,
    ``solved_at``, the gaps ``relaxed`` and ``strict``, and the ``majority``'s (of thresholds half of it, as they are).
    """
    rows = [row for trial in trials.to_dict("records") for row in _measured(trial)]
    return pd.DataFrame(rows)


def _measured(trial: dict[Any, Any]) -> list[dict[str, Any]]:
    outcome = trial["outcome"]
    n, k, trained = int(trial["task.n"]), int(trial["task.k"]), outcome.trial.steps > 1
    activation = outcome.trial.model.activation
    threshold = isinstance(activation, ReLU)
    amplitude = activation.frequency if trained else 1.0
    own = {
        "part": TRAINED if trained else RANDOM,
        "function": THRESHOLD if threshold else SINE,
        "law": trial["model.init"],
        "task.n": n,
        "task.k": k,
        "seed": trial["seed"],
        "solved_at": trial["solved_at"],
        "majority": float(majority_gap(n, k)) / (2 if threshold else 1),
    }
    taken = outcome.measures["fourier-gap"]
    measured = zip(taken["step"], taken["relaxed"], taken["strict"], strict=True)
    found = [
        {**own, "step": step, "relaxed": relaxed / amplitude, "strict": strict / amplitude}
        for step, relaxed, strict in measured
    ]
    return found if trained else found[:1]


def plot(table: pd.DataFrame) -> Figure:
    """Draw the histograms, and the gap along training."""
    return figure_of(gap_histograms(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each law, the median gap and how often gaps are positive; and how they change in training.

    Medians have 95% order-statistic intervals, rates Wilson's 95% intervals.
    """
    found: dict[str, Any] = {}
    random = table[table["part"] == RANDOM]
    for (function, k, law), rows in random.groupby(["function", "task.k", "law"], sort=False):
        found[f"{function}, k={k}, {law}"] = {
            "neurons": len(rows),
            "majority": round(float(rows["majority"].iloc[0]), 7),
            "relaxed": _median(rows["relaxed"]),
            "relaxed_positive": _share(rows["relaxed"] > 0),
            "strict_positive": _share(rows["strict"] > 0),
        }
    trained = table[table["part"] == TRAINED]
    runs = trained.groupby("seed", sort=False)
    first, largest = runs["relaxed"].first(), runs["relaxed"].max()
    found["training"] = {
        "neurons": len(first),
        "solved": int(np.isfinite(runs["solved_at"].first().to_numpy(float, na_value=np.nan)).sum()),
        "majority": round(float(trained["majority"].iloc[0]), 7),
        "at_first": _median(first),
        "positive_at_first": _share(first > 0),
        "largest": _median(largest),
        "largest_over_first": _median((largest / first)[first > 0]),
        "before_half_of_the_time": _median(_until(trained, 0.5) / first.where(first > 0)),
    }
    return found


def _until(trained: pd.DataFrame, share: float) -> pd.Series:
    """Return each run's gap at the last measurement before a share of its time to solve."""
    early = trained[trained["step"] <= share * trained["solved_at"]]
    return early.groupby("seed", sort=False)["relaxed"].last()


def _median(values: pd.Series) -> dict[str, Any]:
    known = values.dropna().to_numpy(float)
    low, high = median_interval(known)
    return {"median": float(f"{median(known):.4g}"), "interval": [float(f"{low:.4g}"), float(f"{high:.4g}")]}


def _share(positive: pd.Series) -> dict[str, Any]:
    low, high = wilson(int(positive.sum()), len(positive))
    return {"share": round(float(positive.mean()), 4), "interval": [round(low, 4), round(high, 4)]}


EXPERIMENT = Experiment(
    name="fourier-gaps",
    shows="Random neurons have Fourier gaps of the majority's order, and they grow while a neuron learns",
    source="appendix B.3.1, figures B.7 and B.8",
    scales={
        "smoke": Scale(smoke, trials=20, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=300, time="about 2 minutes on 2 cores"),
        "paper": Scale(paper, trials=3000, time="about 20 minutes on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
