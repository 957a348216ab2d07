"""Rules that several experiments of the study share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from elegans.experiments import InsufficientData, Tables
from elegans.experiments.claims import shared
from elegans.experiments.rules import LEVEL, table

STEPS = 100_000
"""The published number of steps, within which a trial is solved or not."""
RESAMPLES = 20_000
HALF_LEVEL = LEVEL / 2
"""The error rate of each of two parts of a claim, or of each of its two limits."""


@shared(2)
def mean_interval(values: Any, level: float) -> tuple[float, float, float]:
    """Return a mean and the two one-sided percentile bootstrap limits of error rate ``level`` each."""
    sample = np.asarray(values, float)
    unique, counts = np.unique(sample, return_counts=True)
    drawn = np.random.default_rng(0).multinomial(len(sample), counts / len(sample), RESAMPLES) @ unique / len(sample)
    low, high = np.quantile(drawn, [level, 1 - level])
    return float(sample.mean()), float(low), float(high)


@shared(2)
def ratio_of_medians(first: Any, second: Any, level: float) -> tuple[float, float, float]:
    """Return the ratio of two medians of times and its two one-sided bootstrap limits; NaN counts as infinite."""
    samples = [np.sort(_censored(values)) for values in (first, second)]
    generator = np.random.default_rng(0)
    drawn = [_resampled_median(values, generator) for values in samples]
    with np.errstate(invalid="ignore"):
        middle = float(_censored(np.median(samples[0]) / np.median(samples[1])))
        return middle, *limits(_censored(drawn[0] / drawn[1]), level)


def _resampled_median(ordered: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return medians (the lower of two) of bootstrap samples: order statistics of uniform ranks are beta variables."""
    count = len(ordered)
    middle = (count + 1) // 2
    ranks = count * generator.beta(middle, count + 1 - middle, RESAMPLES)
    return np.asarray(ordered[ranks.astype(int)])


def _censored(values: Any) -> np.ndarray:
    return np.asarray(np.nan_to_num(np.asarray(values, float), nan=np.inf, posinf=np.inf))


@shared(1)
def times(rows: pd.DataFrame) -> np.ndarray:
    """Return the times to solve listed in the column ``times``, infinite where a trial was not solved."""
    return np.concatenate([np.array(str(each).split(), float) for each in rows["times"]])


@shared(1)
def listed(values: Sequence[Any] | pd.Series) -> str:
    """Return times to solve as one text, which ``times`` reads back: a single table entry holds them all."""
    return " ".join(f"{value:g}" for value in _censored(values))


@shared(1)
def cell(
    tables: Tables, init: str, width: int, size: int | None, *, n: int = 50, k: int = 3, trials: int
) -> pd.DataFrame:
    """Return the row of a cell of the published protocol, size None standing for online.

    Raises:
        InsufficientData: there is none, or it has fewer trials or fewer steps.
    """
    regime = "online" if size is None else f"sample:{size}"
    needs = f"{trials} trials of ({n}, {k}), {init}, width {width}, {regime}, {STEPS} steps"
    where = {"task__n": n, "task__k": k, "model__init": init, "model__width": width, "regime": regime, "steps": STEPS}
    rows = table(tables, "table", needs, **where)
    if rows["trials"].min() < trials:
        raise InsufficientData(needs)
    return rows


@shared(1)
def counts(cell: pd.DataFrame) -> tuple[int, int]:
    """Return how many trials of a cell were solved, and of how many."""
    return int(cell["solved"].iloc[0]), int(cell["trials"].iloc[0])


@shared(2)
def resampled(solved: Any, trials: Any, seed: int = 0) -> np.ndarray:
    """Return ``RESAMPLES`` draws of cells' success rates: Jeffreys' posterior, which has a spread at 0 and 1 too."""
    hits, of = np.asarray(solved), np.asarray(trials)
    return np.random.default_rng(seed).beta(hits + 0.5, of - hits + 0.5, (RESAMPLES, *hits.shape))


@shared(1)
def half_solved(rates: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return the first of the sample sizes, along the last axis, at which at least half of the trials are solved."""
    reached = rates >= 0.5
    return np.where(reached.any(axis=-1), np.array(sizes, float)[reached.argmax(axis=-1)], np.inf)


@shared(1)
def edges(rates: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return the sample sizes where the share of solved trials reaches one half and where it next falls below.

    Between two sizes the share is interpolated, linearly in the size's logarithm. An edge beyond the sizes counts as
    the largest, an edge before them as the smallest. Without the first edge there is no second: NaN.

    Args:
        rates: the shares, of shape (..., sizes).
        sizes: the sample sizes, ascending.

    Returns:
        Both edges, of shape (2, ...).
    """
    logs, last = np.log(np.asarray(sizes, float)), len(sizes) - 1
    solved = rates >= 0.5
    ever, sets_in = solved.any(axis=-1), solved.argmax(axis=-1)
    lost = ~solved & (np.arange(len(sizes)) > sets_in[..., None])
    found = []
    for at, exists in ((sets_in, ever), (lost.argmax(axis=-1), ever & lost.any(axis=-1))):
        after = np.where(exists, at, last)
        before = np.where(exists, np.maximum(after - 1, 0), last)
        low, high = (np.take_along_axis(rates, each[..., None], axis=-1)[..., 0] for each in (before, after))
        share = np.where(low == high, 1.0, (0.5 - low) / np.where(low == high, 1.0, high - low))
        edge = np.exp(logs[before] + share * (logs[after] - logs[before]))
        found.append(np.where(exists, edge, float(sizes[-1])))
    return np.stack([found[0], np.where(ever, found[1], np.nan)])


@shared(1)
def limits(drawn: np.ndarray, level: float) -> tuple[float, float]:
    """Return the two one-sided limits of error rate ``level`` of what was resampled, infinite values included."""
    ordered = np.sort(drawn)
    return float(ordered[int(level * len(ordered))]), float(ordered[int((1 - level) * len(ordered)) - 1])
