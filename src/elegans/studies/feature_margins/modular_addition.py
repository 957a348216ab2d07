"""Addition mod p: every neuron becomes a single frequency, all frequencies have some, and the margin is the largest.

Quadratic networks with the penalty that theory is about, and beside them ReLU networks with the plain L2 penalty, whose
neurons are nearly single frequencies. At the smallest p the width is varied below the theorem's 4 (p - 1) too.

Source: thesis, chapter 7, figures 7.1 and 7.4, and appendix D, figure D.1.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.models import MLP, ReLU
from elegans.plots import figure_of
from elegans.probes import Probe, WeightTrajectory
from elegans.studies.feature_margins.feature_probes import FrequencyPower
from elegans.studies.feature_margins.plots import modular_addition
from elegans.studies.feature_margins.probes import Decomposition, NormalisedMargin
from elegans.studies.feature_margins.settings import PRINTED, addition
from elegans.studies.feature_margins.tables import (
    MEASUREMENTS,
    course,
    features,
    neurons,
    outcomes_of,
    present,
    reached,
    share,
    spread,
    summarised,
    summary,
)
from elegans.sweeps import Sweep
from elegans.training import Outcome, Trial

SETTINGS = {11: (80, 40_000, 1000), 23: (160, 20_000, 500), 31: (200, 12_000, 500)}
"""By p: width, steps, and how many steps lie between two doublings of the learning rate."""
WIDTHS = (10, 20, 30, 36, 40, 60)
CAPPED = 7
"""Doublings in trials of the width: up to a rate of 6.4, beyond which narrow networks diverge."""
QUADRATIC, RELU = "quadratic", "ReLU"
LOOKED_AT = 24
"""Of so many neurons the weights are kept."""
DRAWN = 3
SINGLE = 0.99
"""The share of power from which on a neuron is taken for a single frequency."""
SUMMARY = (
    "power.mean",
    "power.least",
    "power.least.all",
    "joint.least",
    "phase.largest",
    "amplitude.largest",
    "share.distance",
)


def pairs(settings: dict[int, tuple[int, int, int]], trials: int) -> list[Any]:
    """Return for each p a quadratic and a ReLU network, with so many trials."""
    return [
        (addition(p, width, degree, steps=steps, every=every), range(trials))
        for p, (width, steps, every) in settings.items()
        for degree in (2, None)
    ]


def narrow(p: int, widths: Sequence[int], steps: int, trials: int) -> list[Any]:
    """Return quadratic networks of several widths, whose learning rate is doubled fewer times."""
    one = addition(p, widths[0], 2, steps=steps, every=1000, doublings=CAPPED)
    return [(one.replace("model.width", width), range(trials)) for width in widths]


def smoke(trials: int) -> Sweep:
    """Return both networks on addition mod 7."""
    return Sweep(tuple(pairs({7: (40, 8000, 500)}, trials)))


def laptop(trials: int) -> Sweep:
    """Return both networks mod 11, 23 and 31, and mod 11 quadratic networks of several widths."""
    return Sweep((*pairs(SETTINGS, trials), *narrow(11, WIDTHS, 40_000, trials)))


def paper(trials: int) -> Sweep:
    """Return both networks mod 71, as printed."""
    return Sweep(tuple((PRINTED[name], range(trials)) for name in ("addition, quadratic", "addition, ReLU")))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the margin along the way; powers, phases and some weights at the beginning and the end."""
    assert isinstance(one.model, MLP)
    shown = tuple(range(min(LOOKED_AT, one.model.width)))
    once = one.steps
    return (
        NormalisedMargin(every=once // MEASUREMENTS),
        FrequencyPower(every=once),
        Decomposition(every=once),
        WeightTrajectory(every=once, neurons=shown),
    )


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return rows of five ``part``s, each with ``p``, ``activation``, ``width``, ``seed`` and the largest ``rate``.

    ``course``: a row a measured step (see ``tables.course``). ``neuron``: a row a neuron. ``feature``: a row a
    frequency. ``summary``: a row a quantity. ``weight``: of the first trial, a row a weight of each drawn neuron.
    """
    found = outcomes_of(trials)
    first = min((one.trial.seed for one in found), default=0)
    return pd.concat([_rows(one, one.trial.seed == first) for one in found], ignore_index=True)


def _rows(outcome: Outcome, drawn: bool) -> pd.DataFrame:
    one = outcome.trial
    p, model = one.task.classes, one.model
    assert p is not None and isinstance(model, MLP)
    parts = [course(outcome)]
    if outcome.state != "diverged":
        count = p // 2
        limit = np.nan if isinstance(model.activation, ReLU) else 1 / count
        parts += [
            neurons(outcome, "frequency-power").assign(frequency=outcome.measures["frequency-power"]["frequency"][-1]),
            features(outcome, "frequency-power", range(1, count + 1), limit),
            summary(outcome, "frequency-power", SUMMARY),
            summary(outcome, "decomposition", ["residual"]),
        ]
        parts += [_weights(outcome, parts[1])] if drawn else []
    return pd.concat(parts, ignore_index=True).assign(
        p=p,
        activation=RELU if isinstance(model.activation, ReLU) else QUADRATIC,
        width=model.width,
        rate=_largest_rate(one),
    )


def _largest_rate(one: Trial) -> float:
    """Return the largest learning rate of a trial."""
    training: Any = one.training
    return float(training.learning_rate * training.factors(one.steps - 1, 1)[0])


def _weights(outcome: Outcome, found: pd.DataFrame) -> pd.DataFrame:
    """Return the embedding weights of the first neurons that count, each of another frequency."""
    weight = np.asarray(outcome.measures["weight-trajectory"]["weight"][-1])
    count = weight.shape[1] // 2
    near = found[found["kept"] & (found["neuron"] < len(weight))]
    near = near.drop_duplicates("frequency").head(DRAWN)
    frames = [
        pd.DataFrame({"neuron": place, "place": np.arange(count), "value": weight[place, :count]})
        for place in near["neuron"]
    ]
    return pd.concat(frames, ignore_index=True).assign(seed=outcome.trial.seed, part="weight")


def plot(table: pd.DataFrame) -> Figure:
    """Draw neurons, courses of margins, widths, histograms of powers, and neurons and shares by frequency."""
    return figure_of(modular_addition(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each network, how near it came to theory: medians over trials with intervals, and shares of trials.

    ``single``: trials all of whose neurons, but for those given up, have at least 99% of their power in one frequency;
    ``all_frequencies``: trials in which every frequency has a neuron; ``narrow``: by width, at the smaller rate.
    """
    found: dict[str, Any] = {}
    for (p, activation, width, rate), rows in table.groupby(["p", "activation", "width", "rate"], sort=False):
        frequencies = int(rows["p"].iloc[0]) // 2
        name = f"p = {p}, {activation}, width {width}, rates up to {rate:g}"
        powers = rows[(rows["part"] == "neuron") & rows["kept"].eq(True)]
        started = rows[rows["part"] == "neuron"].groupby("seed")["initial_power"].mean()
        found[name] = {
            **reached(rows),
            "initial_power.mean": spread(started),
            **summarised(rows),
            "single": share(powers.groupby("seed")["power"].min() >= SINGLE),
            "all_frequencies": present(rows, frequencies),
        }
    return found


EXPERIMENT = Experiment(
    name="modular-addition",
    shows="Networks that add mod p: single frequencies, all of them, and the largest margin that there is",
    source="figures 7.1, 7.4 and D.1",
    scales={
        "smoke": Scale(smoke, trials=2, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=5, time="about 2 minutes on 2 cores"),
        "paper": Scale(paper, trials=1, time="about 10 minutes on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
    partial=True,
)
"""Figures 7.1, 7.4 and D.1."""
