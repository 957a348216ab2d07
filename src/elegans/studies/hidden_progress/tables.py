"""What the tables of several experiments share: which configuration a trial has, and times to solve by group."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import (
    elbow,
    finite_or_none,
    median,
    median_interval,
    round_significant,
    scaling_exponent,
    summarise_cells,
)
from elegans.errors import ExperimentError
from elegans.studies.hidden_progress.settings import CONFIGURATIONS
from elegans.training import Trial
from elegans.training.states import FINISHED

SEED = 0
"""The seed of every bootstrap: the same trials have the same intervals."""


def identified(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with two more columns: ``configuration``, the thesis' id of the model, and ``network``, in words.

    Raises:
        ExperimentError: a model has none of the thesis' configurations.
    """
    columns = [name for name in trials if name == "task.k" or str(name).partition(".")[0] == "model"]
    groups = trials.groupby(columns, dropna=False, sort=False).ngroup().to_numpy()
    first = np.unique(groups, return_index=True)[1]
    names = np.array([_identifier(trials.iloc[place]) for place in first], object)
    words = np.array([_words(name) for name in names], object)
    return trials.assign(configuration=names[groups], network=words[groups])


def labels(trial: Trial) -> dict[str, str]:
    """Return the ``configuration`` and the ``network`` of a trial."""
    name = _identifier(trial.columns())
    return {"configuration": name, "network": _words(name)}


def _words(name: str) -> str:
    return f"({name}) {CONFIGURATIONS[name][0]}"


def _identifier(row: Mapping[str, Any] | pd.Series) -> str:
    for name, columns in _columns(int(row["task.k"])).items():
        if all(name in row and row[name] == value for name, value in columns.items()):
            return name
    raise ExperimentError(f"a model must be of one of the thesis' configurations: model={row['model']!r}")


@lru_cache
def _columns(k: int) -> dict[str, dict[str, Any]]:
    """Return each configuration's columns except the initialisation's."""
    models = {name: make(k, "dense") for name, (_, make, _) in CONFIGURATIONS.items()}
    return {
        name: {
            key: value
            for key, value in {"model": model.label(), **model.columns("model.")}.items()
            if not key.startswith("model.init") and value is not None
        }
        for name, model in models.items()
    }


def timed(trials: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return cells by some columns, with bootstrap intervals of the median, and the 10th percentile ``tenth``."""
    return summarise_cells(trials, by=keys, intervals="bootstrap", quantiles={"tenth": 0.1})


def stated(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return how often and how fast a row's trials were solved, for an experiment's findings."""
    return {
        "solved": int(row["solved"]),
        "trials": int(row["trials"]),
        "median_steps": finite_or_none(row["median_steps"], 4),
        "interval": ends(row, "median"),
    }


def ends(row: Mapping[Any, Any] | pd.Series, name: str, digits: int = 4) -> list[float | None]:
    """Return the ends of a row's interval of a quantity, its columns ``<name>_low`` and ``<name>_high``."""
    return [finite_or_none(row[f"{name}_{end}"], digits) for end in ("low", "high")]


def fits(trials: pd.DataFrame, keys: Sequence[str], size: str) -> pd.DataFrame:
    """Return one row per line: its exponent and its elbow, both with 95% bootstrap intervals.

    Sizes at which at most half of the trials were solved are left out: their median is infinite.

    Args:
        trials: one row per trial.
        keys: the columns whose values make the lines.
        size: the column of the size.

    Returns:
        The keys; ``exponent`` with ``exponent_low`` and ``exponent_high``, and ``factor``, of the power law through the
        medians of all sizes; ``lower_exponent`` and ``upper_exponent``, the exponents of the lower and the upper half
        of the sizes, and ``elbow``, by how much the second is larger, with ``elbow_low`` and ``elbow_high``.
    """
    rows = []
    for key, group in trials[trials["state"].isin(FINISHED)].groupby(list(keys), sort=False):
        row: dict[str, Any] = dict(zip(keys, key, strict=True))
        times = [(float(own[size].iloc[0]), own["solved_at"].to_numpy(float)) for _, own in group.groupby(size)]
        known = {at: list(own) for at, own in times if np.isfinite(median(own))}
        if len(known) >= 2:
            law = scaling_exponent(known, generator=np.random.default_rng(SEED), resamples=1000)
            row |= {"exponent": law.exponent, "exponent_low": law.low, "exponent_high": law.high, "factor": law.factor}
        if len(known) >= 3:
            bend = elbow(known, generator=np.random.default_rng(SEED))
            row |= {"lower_exponent": bend.lower, "upper_exponent": bend.upper}
            row |= {"elbow": bend.change, "elbow_low": bend.low, "elbow_high": bend.high}
        rows.append(row)
    columns = ("exponent", "exponent_low", "exponent_high", "factor", "lower_exponent", "upper_exponent")
    return pd.DataFrame(rows, columns=[*keys, *columns, "elbow", "elbow_low", "elbow_high"])


def middle(values: pd.Series) -> dict[str, Any]:
    """Return a quantity's median with its 95% order-statistic interval, for an experiment's findings."""
    known = values.dropna().to_numpy(float)
    return {
        "median": round_significant(median(known)),
        "interval": [round_significant(end) for end in median_interval(known)],
    }
