"""Sums over cells, put together: of parts of a store, of what has changed, and of a table of trials."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from elegans.store.aggregates import ADDED, CellSums
from elegans.store.cells import refuse_orphans
from elegans.training.states import FINISHED, STATES


def spread(sums: CellSums, numbers: np.ndarray) -> CellSums:
    """Return sums with an entry for each of the cells of a store, in increasing order."""
    refuse_orphans(np.setdiff1d(sums.cell, numbers))
    rows = np.searchsorted(numbers, sums.cell)

    def put(values: np.ndarray) -> np.ndarray:
        every = np.zeros(len(numbers), values.dtype)
        every[rows] = values
        return every

    return CellSums(
        numbers,
        {state: put(counts) for state, counts in sums.ended.items()},
        **{name: put(getattr(sums, name)) for name in ADDED},
        first=np.concatenate([[0], np.cumsum(put(np.diff(sums.first)))]),
        times=sums.times,
    )


def concatenated(parts: Sequence[CellSums]) -> CellSums:
    """Return the sums of several sets of cells, each of larger numbers than the one before."""
    starts = np.cumsum([0, *(len(part.times) for part in parts)])
    first = [part.first[:-1] + start for part, start in zip(parts, starts, strict=False)]
    return CellSums(
        cell=np.concatenate([part.cell for part in parts]),
        ended={state: np.concatenate([part.ended[state] for part in parts]) for state in STATES},
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in ADDED},
        first=np.concatenate([*first, starts[-1:]]),
        times=np.concatenate([part.times for part in parts]),
    )


def merged(old: CellSums, fresh: CellSums) -> CellSums:
    """Return sums in which the sums of some cells are replaced."""
    rows = np.searchsorted(old.cell, fresh.cell)

    def put(values: np.ndarray, new: np.ndarray) -> np.ndarray:
        every = values.copy()
        every[rows] = new
        return every

    pieces = np.split(old.times, old.first[1:-1])
    for row, piece in zip(rows, np.split(fresh.times, fresh.first[1:-1]), strict=True):
        pieces[row] = piece
    return replace(
        old,
        ended={state: put(counts, fresh.ended[state]) for state, counts in old.ended.items()},
        **{name: put(getattr(old, name), getattr(fresh, name)) for name in ADDED},
        first=np.concatenate([[0], np.cumsum(put(np.diff(old.first), np.diff(fresh.first)))]),
        times=np.concatenate([np.zeros(0), *pieces]),
    )


def sums_of(table: pd.DataFrame, codes: np.ndarray, count: int) -> CellSums:
    """Return the sums of a table of trials, given each row's cell, from 0 on, and how many cells there are."""

    def numbers(name: str) -> np.ndarray:
        return table[name].to_numpy(float, na_value=np.nan) if name in table else np.full(len(table), np.nan)

    def added(values: np.ndarray) -> np.ndarray:
        return np.bincount(codes, np.where(np.isnan(values), 0, values), minlength=count)

    finished = table["state"].isin(FINISHED).to_numpy()
    times = np.where(finished, numbers("solved_at"), np.nan)
    error, seconds = np.where(finished, numbers("test_error"), np.nan), numbers("seconds")
    solved = np.isfinite(times)
    order = np.lexsort((times[solved], codes[solved]))
    return CellSums(
        np.arange(1, count + 1),
        {state: np.bincount(codes[(table["state"] == state).to_numpy()], minlength=count) for state in STATES},
        added(seconds),
        added(seconds**2),
        np.bincount(codes[np.isfinite(error)], minlength=count),
        added(error),
        added(error**2),
        first=np.concatenate([[0], np.cumsum(np.bincount(codes[solved], minlength=count))]),
        times=times[solved][order],
    )
