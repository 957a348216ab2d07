"""Rules that several experiments of the study share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from elegans.experiments.claims import Lacking

RESAMPLES = 4000


def mean_interval(values: Any, level: float) -> tuple[float, float, float]:
    """Return a mean and the two one-sided percentile bootstrap limits of error rate ``level`` each."""
    found = np.asarray(values, float)
    unique, counts = np.unique(found, return_counts=True)
    drawn = np.random.default_rng(0).multinomial(len(found), counts / len(found), RESAMPLES) @ unique / len(found)
    low, high = np.quantile(drawn, [level, 1 - level])
    return float(found.mean()), float(low), float(high)


def ratio_of_medians(first: Any, second: Any, level: float) -> tuple[float, float, float]:
    """Return the ratio of two medians of times and its two one-sided bootstrap limits; NaN counts as infinite."""
    samples = [np.nan_to_num(np.asarray(values, float), nan=np.inf) for values in (first, second)]
    generator = np.random.default_rng(0)
    drawn = [np.median(generator.choice(values, (RESAMPLES, len(values))), axis=1) for values in samples]
    with np.errstate(invalid="ignore"):
        ratios = np.nan_to_num(drawn[0] / drawn[1], nan=np.inf)
        middle = float(np.nan_to_num(np.median(samples[0]) / np.median(samples[1]), nan=np.inf))
    ordered = np.sort(ratios)
    return middle, float(ordered[int(level * RESAMPLES)]), float(ordered[int((1 - level) * RESAMPLES) - 1])


def times(rows: pd.DataFrame) -> np.ndarray:
    """Return the times to solve that cells list in the column ``times``: infinite where a trial was not solved."""
    return np.concatenate([np.array(str(listed).split(), float) for listed in rows["times"]])


def listed(values: Sequence[Any] | pd.Series) -> str:
    """Return times to solve as the text that ``times`` reads: a table's cell has all of them."""
    return " ".join(f"{value:g}" for value in np.nan_to_num(np.asarray(values, float), nan=np.inf))


def enough(rows: pd.DataFrame, cells: int, trials: int, needs: str) -> pd.DataFrame:
    """Return the rows of a table of cells; ``Lacking`` with fewer cells or fewer trials in one of them."""
    if len(rows) < cells or rows["trials"].min() < trials:
        raise Lacking(needs)
    return rows
