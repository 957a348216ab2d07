"""What the tables of these experiments share: courses of margins, and what their networks came to."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import median, median_interval, wilson
from elegans.models import MLP, ReLU
from elegans.studies.feature_margins.probes import largest_margin
from elegans.studies.feature_margins.theory.penalty import (
    PenalisedOptimum,
    cyclic_penalised_optimum,
    group_penalised_optimum,
    parity_penalised_optimum,
)
from elegans.tasks import GroupComposition, ModularAddition, SparseParity
from elegans.training import SGD, NormPenalty, Outcome, Trial
from elegans.training.outcome import FINISHED

MEASUREMENTS = 200
"""How often a margin is taken."""
CONFIDENCE = 0.9
"""Of the intervals of medians: with five trials they are the whole range, which has the median 15 times in 16."""
NEGLIGIBLE = 0.05
"""Below this share of the largest norm a neuron counts as given up."""


def optimum(one: Trial) -> PenalisedOptimum | None:
    """Return the exact optimum of a trial's penalised loss, or None of ReLU networks, for which none is known."""
    assert isinstance(one.training, SGD) and isinstance(one.training.penalty, NormPenalty)
    assert isinstance(one.model, MLP)
    if isinstance(one.model.activation, ReLU):
        return None
    return _optimum(one.task, one.training.penalty.strength)


@cache
def _optimum(task: Any, penalty: float) -> PenalisedOptimum:
    if isinstance(task, ModularAddition):
        return cyclic_penalised_optimum(task.p, penalty)
    if isinstance(task, SparseParity):
        return parity_penalised_optimum(task.k, penalty)
    assert isinstance(task, GroupComposition)
    return group_penalised_optimum(task.group, penalty)


def outcomes_of(trials: pd.DataFrame) -> list[Outcome]:
    """Return the outcomes of the trials that ran to their ends, diverged ones too."""
    return [one for one in trials["outcome"] if one.state in FINISHED]


def course(outcome: Outcome) -> pd.DataFrame:
    """Return a row a measured step: the normalised margin, the margin and the mass, and what theory has for them.

    Columns: ``step``, ``normalised``, ``ratio`` (to gamma*), ``margin``, ``mass`` (sum ||omega||^nu) and ``accuracy``;
    the same in all rows, NaN where theory has nothing: ``gamma``, and of the exact optimum at the trial's penalty
    ``optimum`` (its ratio), ``optimum_margin`` and ``optimum_mass``.
    """
    one = outcome.trial
    taken, best, gamma = outcome.measures["normalised-margin"], optimum(one), largest_margin(one.task, one.model)
    found = pd.DataFrame({"step": taken["step"]})
    for name in ("normalised", "margin", "norm", "accuracy"):
        found["mass" if name == "norm" else name] = np.asarray(taken[name], float)
    gamma = np.nan if gamma is None else gamma
    return found.assign(
        ratio=found["normalised"] / gamma,
        gamma=gamma,
        optimum=np.nan if best is None else best.ratio,
        optimum_margin=np.nan if best is None else best.margin,
        optimum_mass=np.nan if best is None else best.mass,
        seed=one.seed,
        state=outcome.state,
        part="course",
    )


def neurons(outcome: Outcome, probe: str) -> pd.DataFrame:
    """Return a row a neuron: its largest share of power at the end and at the beginning, and whether it is ``kept``.

    Args:
        outcome: of a network that did not diverge.
        probe: which probe found the powers.
    """
    taken = outcome.measures[probe]
    return pd.DataFrame(
        {
            "neuron": np.arange(len(taken["power"][-1])),
            "power": taken["power"][-1],
            "initial_power": taken["power"][0],
            "kept": np.asarray(taken["size"][-1]) > NEGLIGIBLE,
        }
    ).assign(seed=outcome.trial.seed, part="neuron")


def features(outcome: Outcome, probe: str, names: Sequence[Any], limit: Any) -> pd.DataFrame:
    """Return a row a feature: how many neurons it has, its share of the mass, and what theory says of that.

    Columns: ``feature``, ``neurons``, ``share``, ``limit`` (the share at gamma*) and ``theory`` (at the penalty).

    Args:
        outcome: of a network that did not diverge.
        probe: which probe found the shares.
        names: of the features, those that the probe counts.
        limit: the shares at gamma*, or NaN.
    """
    best, taken = optimum(outcome.trial), outcome.measures[probe]
    return pd.DataFrame(
        {
            "feature": list(names),
            "neurons": taken["neurons"][-1],
            "share": taken["share"][-1],
            "limit": limit,
            "theory": np.nan if best is None else best.shares,
        }
    ).assign(seed=outcome.trial.seed, part="feature")


def summary(outcome: Outcome, probe: str, names: Sequence[str]) -> pd.DataFrame:
    """Return a row a quantity that a probe found at the end of a trial: ``quantity`` and ``value``."""
    values = [float(outcome.measures[probe][name][-1]) for name in names]
    return pd.DataFrame({"quantity": list(names), "value": values}).assign(seed=outcome.trial.seed, part="summary")


def ends(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the last row of each trial's course, those of networks that diverged left out."""
    kept = rows[(rows["part"] == "course") & (rows["state"] != "diverged")]
    return kept.groupby("seed").last()


def reached(rows: pd.DataFrame) -> dict[str, Any]:
    """Return how near the networks of a cell came to theory, for ``record.json``.

    ``ratio`` is the normalised margin over gamma*, ``optimum`` that of the exact optimum at the penalty, ``of_optimum``
    one over the other; margins and masses stand beside the optimum's.

    Args:
        rows: of one cell, with its courses.
    """
    courses, last = rows[rows["part"] == "course"], ends(rows)
    stated: dict[str, Any] = {
        "trials": int(courses["seed"].nunique()),
        "diverged": int(courses[courses["state"] == "diverged"]["seed"].nunique()),
        "accuracy": spread(last["accuracy"]),
        "normalised_margin": spread(last["normalised"], digits=8),
    }
    if last["gamma"].isna().all():
        return stated
    return stated | {
        "gamma": significant(last["gamma"].iloc[0]),
        "ratio": spread(last["ratio"]),
        "optimum": significant(last["optimum"].iloc[0]),
        "of_optimum": spread(last["ratio"] / last["optimum"]),
        "mass": spread(last["mass"]),
        "optimum_mass": significant(last["optimum_mass"].iloc[0]),
        "margin": spread(last["margin"]),
        "optimum_margin": significant(last["optimum_margin"].iloc[0]),
    }


def summarised(rows: pd.DataFrame) -> dict[str, Any]:
    """Return medians, with intervals, of every quantity that ``summary`` has of a cell's trials."""
    own = rows[rows["part"] == "summary"]
    return {str(name): spread(values["value"]) for name, values in own.groupby("quantity", sort=False)}


def present(rows: pd.DataFrame, wanted: int) -> dict[str, Any]:
    """Return in how many of a cell's trials every feature has a neuron.

    Args:
        rows: of one cell.
        wanted: how many features should have one.
    """
    own = rows[(rows["part"] == "feature") & (rows["neurons"] > 0)]
    return share(own.groupby("seed").size() >= wanted)


def spread(values: Any, digits: int = 6) -> dict[str, Any]:
    """Return the median over trials and its order-statistic interval of at least 90%, for ``record.json``.

    The interval is None where there are fewer than five trials.
    """
    numbers = np.asarray(values, float)
    ends = median_interval(numbers, CONFIDENCE)
    interval = [significant(end, digits) for end in ends] if np.isfinite(ends).all() else None
    return {"median": significant(median(numbers), digits), "interval": interval}


def share(holds: pd.Series) -> dict[str, Any]:
    """Return how many trials something holds of, with the Wilson 95% interval, for ``record.json``."""
    low, high = wilson(int(holds.sum()), len(holds))
    return {"count": int(holds.sum()), "of": len(holds), "interval": [round(low, 4), round(high, 4)]}


def significant(number: float, digits: int = 6) -> float | None:
    """Return a number for JSON to so many significant digits, None where it is not finite."""
    return float(f"{number:.{digits}g}") if np.isfinite(number) else None
