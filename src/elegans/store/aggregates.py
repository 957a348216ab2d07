"""The sums over a store's cells: added up by the database, brought up to date, and set out as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Float, String, case, cast, func, select

from elegans.analysis.intervals import medians
from elegans.store.cells import StoredCells, chunks
from elegans.store.schema import CELLS, TRIALS
from elegans.store.tables import cell_frame
from elegans.training.states import FINISHED, STATES

if TYPE_CHECKING:
    import pandas as pd


ADDED = ("seconds", "seconds_squared", "errors", "error", "error_squared")
"""What is added up over the trials of a cell, beside its states and times."""


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
    added = {name: np.array(column, float) for name, column in zip(ADDED, columns[len(whole) :], strict=True)}
    first = np.cumsum([0, *(text.count(",") + 1 if text else 0 for text in texts)])
    times = np.fromstring(",".join(filter(None, texts)), sep=",") if first[-1] else np.zeros(0)
    order = np.lexsort((times, np.repeat(np.arange(len(texts)), np.diff(first))))
    return CellSums(whole[0], dict(zip(STATES, whole[1:], strict=True)), **added, first=first, times=times[order])


def _total(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.coalesce(func.sum(value, type_=Float()), 0.0)


def cells_table(connection: Connection, cells: StoredCells) -> "pd.DataFrame":
    """Return one row per cell; see ``Store.cells_table``."""
    everything = connection.scalar(select(func.count()).select_from(CELLS)) == len(cells.numbers)
    sums = cell_sums(connection, None if everything else cells.numbers)
    rows = cells.positions(sums.cell)
    solved = np.diff(sums.first)
    trials = np.sum([sums.ended[state] for state in FINISHED], axis=0)
    columns = {"trials": (trials, 0), "solved": (solved, 0)} | {name: (sums.ended[name], 0) for name in STATES[1:]}
    columns |= {"median_steps": (medians(sums.times, solved, trials), np.nan), "seconds": (sums.seconds, 0.0)}
    table = cell_frame(cells)
    for name, (values, missing) in columns.items():
        column = np.full(len(table), missing, values.dtype)
        column[rows] = values
        table[name] = column
    return table
