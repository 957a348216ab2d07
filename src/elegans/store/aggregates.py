"""The sums over a store's cells: added up by the database, brought up to date, and set out as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Float, String, case, cast, func, select

from elegans.analysis.intervals import medians
from elegans.store.cells import StoredCells, chunks, refuse_orphans
from elegans.store.schema import CELLS, TRIALS
from elegans.store.tables import cell_frame
from elegans.training.states import FINISHED, STATES

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CellSums:
    """Sums over cells, computed by the database: one entry per cell that has trials, in the order of their numbers.

    Args:
        cell: the cells' numbers.
        ended: the number of trials that ended in each state.
        seconds, seconds_squared: sums over trials that have an outcome.
        errors, error, error_squared: the number of finished trials with a test error, the sum of these and of squares.
        first, times: cell ``i`` was solved at ``times[first[i]:first[i + 1]]``, in increasing order.
    """

    cell: np.ndarray
    ended: Mapping[str, np.ndarray]
    seconds: np.ndarray
    seconds_squared: np.ndarray
    errors: np.ndarray
    error: np.ndarray
    error_squared: np.ndarray
    first: np.ndarray
    times: np.ndarray


def cell_sums(connection: Connection, numbers: Sequence[int] | range | None = None) -> CellSums:
    """Return the sums of cells.

    Args:
        connection: to the store.
        numbers: the cells' numbers: a range of them is read in one go; all by default.
    """
    error, seconds = TRIALS.c.test_error, TRIALS.c.seconds
    query = select(
        TRIALS.c.cell,
        *(func.count(case((TRIALS.c.state == state, 1))) for state in STATES),
        *(_total(value) for value in (seconds, seconds * seconds)),
        func.count(error),
        *(_total(value) for value in (error, error * error)),
        func.aggregate_strings(cast(TRIALS.c.solved_at, String), ","),
    ).group_by(TRIALS.c.cell)
    parts = [query]
    if isinstance(numbers, range):
        parts = [query.where(TRIALS.c.cell >= numbers.start, TRIALS.c.cell < numbers.stop)]
    elif numbers is not None:
        parts = [query.where(TRIALS.c.cell.in_(some)) for some in chunks(sorted(numbers))]
    rows = sorted(tuple(row) for part in parts for row in connection.execute(part))
    *columns, texts = zip(*rows, strict=True) if rows else [()] * 12
    whole = [np.array(column, np.int64) for column in columns[: 1 + len(STATES)]]
    added = {name: np.array(column, float) for name, column in zip(_ADDED, columns[len(whole) :], strict=True)}
    first = np.cumsum([0, *(text.count(",") + 1 if text else 0 for text in texts)])
    times = np.fromstring(",".join(filter(None, texts)), sep=",") if first[-1] else np.zeros(0)
    order = np.lexsort((times, np.repeat(np.arange(len(texts)), np.diff(first))))
    return CellSums(whole[0], dict(zip(STATES, whole[1:], strict=True)), **added, first=first, times=times[order])


def _total(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.coalesce(func.sum(value, type_=Float()), 0.0)


_ADDED = ("seconds", "seconds_squared", "errors", "error", "error_squared")


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
        **{name: put(getattr(sums, name)) for name in _ADDED},
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
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _ADDED},
        first=np.concatenate([*first, starts[-1:]]),
        times=np.concatenate([part.times for part in parts]),
    )


def merged(old: CellSums, fresh: CellSums) -> CellSums:
    """Return sums with those of some cells replaced."""
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
        **{name: put(getattr(old, name), getattr(fresh, name)) for name in _ADDED},
        first=np.concatenate([[0], np.cumsum(put(np.diff(old.first), np.diff(fresh.first)))]),
        times=np.concatenate([np.zeros(0), *pieces]),
    )


def sums_of(table: "pd.DataFrame", codes: np.ndarray, count: int) -> CellSums:
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


def cells_table(connection: Connection, cells: StoredCells) -> "pd.DataFrame":
    """Return one row per cell; see ``Store.cells_table``."""
    everything = connection.scalar(select(func.count()).select_from(CELLS)) == len(cells.numbers)
    sums = cell_sums(connection, None if everything else cells.numbers)
    rows = cells.positions(sums.cell)
    solved = np.diff(sums.first)
    trials = np.sum([sums.ended[state] for state in FINISHED], axis=0)
    columns = {"trials": (trials, 0), "solved": (solved, 0)} | {name: (sums.ended[name], 0) for name in STATES[1:]}
    columns |= {"median_steps": (medians(sums.times, solved, trials), np.nan), "seconds": (sums.seconds, 0.0)}
    table = cell_frame(cells.columns)
    for name, (values, missing) in columns.items():
        column = np.full(len(table), missing, values.dtype)
        column[rows] = values
        table[name] = column
    return table
