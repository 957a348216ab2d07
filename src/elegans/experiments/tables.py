"""Tables that several experiments share."""

from typing import Any

import pandas as pd

from elegans.analysis import cells, median_interval
from elegans.analysis.cells import STATISTICS
from elegans.training.outcome import FINISHED


def timed_cells(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a cell as ``elegans.analysis.cells`` does, and the interval of each median time.

    Args:
        trials: a row a trial, as ``elegans.run`` returns it.

    Returns:
        The table with ``median_low`` and ``median_high``: the 95% order-statistic interval of the median time to solve,
        unsolved trials being infinite (so that the upper end may be infinite).
    """
    found = cells(trials)
    keys = [str(name) for name in found if name not in STATISTICS]
    counted = trials[trials["state"].isin(FINISHED)]
    ends = {key: median_interval(group.to_numpy(float)) for key, group in _groups(counted, keys)}
    nothing = (0.0, float("inf"))
    intervals = [ends.get(_key(row), nothing) for row in found[keys].itertuples(index=False)]
    return found.assign(median_low=[low for low, _ in intervals], median_high=[high for _, high in intervals])


def _groups(trials: pd.DataFrame, keys: list[str]) -> list[tuple[tuple[str, ...], pd.Series]]:
    grouped: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(trials[keys].itertuples(index=False)):
        grouped.setdefault(_key(row), []).append(place)
    return [(key, trials["solved_at"].iloc[places]) for key, places in grouped.items()]


def _key(row: tuple[Any, ...]) -> tuple[str, ...]:
    """Return a cell's parameters as texts: missing values are equal to each other, and 1 to 1.0."""
    return tuple("" if pd.isna(value) else f"{value:g}" if isinstance(value, float) else str(value) for value in row)
