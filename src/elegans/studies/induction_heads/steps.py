"""Single steps of the minimal model on sequences, compared with exact ones: shared by two experiments."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from elegans.experiments import Results, Tables
from elegans.studies.induction_heads.models import MinimalAttention
from elegans.studies.induction_heads.settings import NEVER
from elegans.studies.induction_heads.tables import measured, of_trials
from elegans.studies.induction_heads.theory.minimal import MinimalWeights
from elegans.tasks import MarkovChains, Online
from elegans.training import SGD, Trial

CONSTANT, RATE = 0.02, 0.03
"""The initial entries of W and v, and the learning rate, of figures E.1 and E.2."""
ENTRIES = ("11", "22", "12", "21")
"""The entries of W, in the order of the tables."""
LEVEL = 0.95
"""The level of intervals."""
FEW = 12
"""The number of coordinates shown individually."""
ROUNDING = 1e-12
"""Smaller standard errors are due to rounding: the entries are the same for all chains."""


def one_step(
    prior: str = "dirichlet",
    length: int = 100,
    *,
    pair: float = CONSTANT,
    position: float = CONSTANT,
    diagonal: float = 0.0,
    learning_rate: float = RATE,
    batch_size: int = 200,
    **training: Any,
) -> Trial:
    """Return one step of the minimal model from given weights, on the margin loss with every hinge active.

    Args:
        prior: the distribution of chains.
        length: of a sequence.
        pair: the entries of W.
        position: the entries of v.
        diagonal: the number added to W's diagonal.
        learning_rate: of SGD.
        batch_size: in sequences.
        training: further arguments of ``SGD``, such as the number of ``steps``.
    """
    settings = {"steps": 1, "loss": "margin:linear", "stopping": NEVER, **training}
    return Trial(
        task=MarkovChains(k=2, length=length, prior=prior),
        regime=Online(),
        model=MinimalAttention(pair=pair, position=position, diagonal=diagonal),
        training=SGD(learning_rate=learning_rate, batch_size=batch_size, **settings),
    )


def by_cell(results: Results) -> Iterator[tuple[Trial, dict[str, np.ndarray]]]:
    """Yield one trial of each cell, and ``pair`` and ``position`` of all its trials, shape (trials, steps + 1, …)."""
    taken = measured(results, "parameter-trajectory")
    for _, rows in taken.groupby(of_trials(results, taken, lambda one: one.cell), sort=False):
        arrays = {name: np.stack(list(rows[name])).astype(float) for name in ("pair", "position")}
        shape = (rows["trial"].nunique(), -1)
        seen = {name: values.reshape(*shape, *values.shape[1:]) for name, values in arrays.items()}
        yield results.trial(int(rows["trial"].iloc[0])), seen


def mean_interval(values: np.ndarray) -> dict[str, np.ndarray]:
    """Return means over the first axis, their standard errors, and their 95% intervals by Student's distribution.

    Args:
        values: shape (count, …); for a single value the error is NaN.

    Returns:
        ``measured``, ``error``, ``low`` and ``high``.
    """
    count, mean = len(values), values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / math.sqrt(count) if count > 1 else np.full_like(mean, np.nan)
    reach = error * student.ppf((1 + LEVEL) / 2, count - 1) if count > 1 else error
    return {"measured": mean, "error": error, "low": mean - reach, "high": mean + reach}


def step_tables(exact: MinimalWeights, pairs: np.ndarray, positions: np.ndarray, **columns: Any) -> Tables:
    """Return tables of exact and measured weights after a step: ``pair``, by ``entry``, and ``position``, by ``place``.

    Args:
        exact: the exact weights.
        pairs: W of all trials, (trials, 2, 2).
        positions: v of all trials, (trials, length).
        columns: the tables' first columns.
    """
    places = np.arange(1, len(exact.position) + 1)
    pair = {"entry": list(ENTRIES), "exact": entries(exact.pair), **mean_interval(entries(pairs))}
    position = {"place": places, "exact": exact.position, **mean_interval(positions)}
    return {"pair": pd.DataFrame(columns | pair), "position": pd.DataFrame(columns | position)}


def entries(pair: np.ndarray) -> np.ndarray:
    """Return W_11, W_22, W_12 and W_21 of arrays of shape (…, 2, 2)."""
    return np.stack([pair[..., int(entry[0]) - 1, int(entry[1]) - 1] for entry in ENTRIES], axis=-1)


def agreement(rows: pd.DataFrame) -> dict[str, Any]:
    """Return how many exact values lie in the intervals of measured ones, and the largest error in standard errors."""
    away = ((rows["measured"] - rows["exact"]) / rows["error"])[rows["error"] > 0].abs()
    inside = rows["exact"].between(rows["low"], rows["high"])
    result = {
        "sequences": int(rows["sequences"].iloc[0]),
        "inside": f"{int(inside.sum())} of {len(rows)}",
        "largest_error_in_standard_errors": round(float(away.max()), 2) if len(away) else None,
    }
    if "sampled" in rows and rows["sampled"].notna().all():
        away = ((rows["sampled"] - rows["exact"]) / rows["sampled_error"])[rows["sampled_error"] > ROUNDING].abs()
        result["largest_error_of_samples_in_standard_errors"] = round(float(away.max()), 2)
    return result
