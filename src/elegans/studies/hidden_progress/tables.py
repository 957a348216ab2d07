"""What the tables of the hidden-progress experiments share: which configuration a trial is of, and times by group."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis import bootstrap_interval, elbow, median, quantile, scaling_exponent, wilson
from elegans.errors import ExperimentError
from elegans.studies.hidden_progress.settings import CONFIGURATIONS
from elegans.training.outcome import FINISHED

SEED = 0
"""Of every bootstrap: the same trials have the same intervals."""


def identified(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with two more columns: ``configuration``, the thesis' id of the model, and ``network``, in words.

    Args:
        trials: a row a trial, as ``elegans.run`` returns it.

    Raises:
        ExperimentError: a model is none of the thesis' configurations.
    """
    names = [name for name in trials if name == "task.k" or str(name).partition(".")[0] == "model"]
    groups = trials.groupby(names, dropna=False, sort=False).ngroup().to_numpy()
    first = np.unique(groups, return_index=True)[1]
    found = np.array([_identifier(trials.iloc[place]) for place in first], object)
    words = np.array([f"({name}) {CONFIGURATIONS[name][0]}" for name in found], object)
    return trials.assign(configuration=found[groups], network=words[groups])


def _identifier(row: pd.Series) -> str:
    for name, columns in _columns(int(row["task.k"])).items():
        if all(name in row and row[name] == value for name, value in columns.items()):
            return name
    raise ExperimentError(f"a model must be of one of the thesis' configurations: model={row['model']!r}")


@lru_cache
def _columns(k: int) -> dict[str, dict[str, Any]]:
    """Return each configuration's columns but for the initialisation's."""
    models = {name: make(k, "dense") for name, (_, make, _) in CONFIGURATIONS.items()}
    return {
        name: {
            "model": model.label(),
            **{
                key: value
                for key, value in model.columns("model.").items()
                if not key.startswith("model.init") and value is not None
            },
        }
        for name, model in models.items()
    }


def timed(trials: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return a row a group of trials: how often it was solved, and how fast.

    Trials that failed or were interrupted came to no answer and count only in ``failed``. Diverged ones are unsolved.

    Args:
        trials: a row a trial.
        keys: the columns whose values make the groups, which keep the order of the trials.

    Returns:
        The keys; ``trials``, ``solved`` and their ``rate`` with its Wilson 95% interval ``low`` to ``high``; ``tenth``,
        the 10th percentile of the time to solve, and ``median_steps``, unsolved trials being infinite (NaN where that
        is not finite), the median with its bootstrap interval ``median_low`` to ``median_high``; and ``failed``.
    """
    groups = trials.groupby(list(keys), sort=False, dropna=False)
    return pd.DataFrame([{**dict(zip(keys, key, strict=True)), **_statistics(group)} for key, group in groups])


def _statistics(group: pd.DataFrame) -> dict[str, Any]:
    counted = group[group["state"].isin(FINISHED)]
    times = counted["solved_at"].to_numpy(float, na_value=np.nan)
    solved = int(np.isfinite(times).sum())
    low, high = wilson(solved, len(times))
    nothing = np.nan, np.inf
    first, last = bootstrap_interval(times, generator=np.random.default_rng(SEED)) if len(times) else nothing
    return {
        "trials": len(times),
        "solved": solved,
        "rate": solved / len(times) if len(times) else np.nan,
        "low": low,
        "high": high,
        "tenth": quantile(times, 0.1) if len(times) else np.nan,
        "median_steps": median(times),
        "median_low": first,
        "median_high": last,
        "failed": len(group) - len(times),
    }


def fits(trials: pd.DataFrame, keys: Sequence[str], size: str) -> pd.DataFrame:
    """Return a row a line: its exponent and its elbow, both with 95% bootstrap intervals.

    Sizes at which at most half of the trials were solved are left out: their median is infinite.

    Args:
        trials: a row a trial.
        keys: the columns whose values make the lines.
        size: the column of the size.

    Returns:
        The keys; ``exponent`` with ``exponent_low`` and ``exponent_high``, and ``factor``, of the power law through the
        medians of all sizes; ``lower_exponent`` and ``upper_exponent``, those of the lower and upper half of the sizes,
        and ``elbow``, how much the second is larger, with ``elbow_low`` and ``elbow_high``.
    """
    rows = []
    for key, cells in _times_by_size(trials, keys, size).items():
        row: dict[str, Any] = dict(zip(keys, key, strict=True))
        if len(cells) >= 2:
            law = scaling_exponent(cells, generator=np.random.default_rng(SEED), resamples=1000)
            row |= {"exponent": law.exponent, "exponent_low": law.low, "exponent_high": law.high, "factor": law.factor}
        if len(cells) >= 3:
            bend = elbow(cells, generator=np.random.default_rng(SEED))
            row |= {"lower_exponent": bend.lower, "upper_exponent": bend.upper}
            row |= {"elbow": bend.change, "elbow_low": bend.low, "elbow_high": bend.high}
        rows.append(row)
    columns = ("exponent", "exponent_low", "exponent_high", "factor", "lower_exponent", "upper_exponent")
    return pd.DataFrame(rows, columns=[*keys, *columns, "elbow", "elbow_low", "elbow_high"])


def _times_by_size(
    trials: pd.DataFrame, keys: Sequence[str], size: str
) -> dict[tuple[Any, ...], dict[float, list[float]]]:
    """Return the times to solve of each group by size: only of sizes whose median is finite."""
    counted = trials[trials["state"].isin(FINISHED)]
    found: dict[tuple[Any, ...], dict[float, list[float]]] = {}
    for key, group in counted.groupby(list(keys), sort=False):
        own = {
            at: group.loc[group[size] == at, "solved_at"].to_numpy(float, na_value=np.nan) for at in set(group[size])
        }
        found[key] = {at: list(times) for at, times in own.items() if np.isfinite(median(times))}
    return found


def finite(number: float, digits: int = 4) -> float | None:
    """Return a number for JSON: rounded, None where it is not finite."""
    return round(float(number), digits) if np.isfinite(number) else None
