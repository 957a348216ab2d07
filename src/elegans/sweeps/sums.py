"""The sums over a store's cells: added up by the database, brought up to date, and set out as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Float, String, case, cast, func, or_, select

from elegans.analysis.intervals import medians
from elegans.errors import StoreError
from elegans.sweeps.columns import Damage, stored
from elegans.sweeps.database import refuse_strange, strange
from elegans.sweeps.frames import Filter, cell_frame
from elegans.sweeps.reading import chunks, stored_cells
from elegans.sweeps.schema import CELLS, CONTRADICTION, NO_CONTRADICTION, TRIALS
from elegans.sweeps.sweep import Sweep
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


def cell_sums(
    connection: Connection, numbers_of: Sequence[int] | range | None = None, *, every_value: bool = True
) -> CellSums:
    """Return the sums of cells.

    Args:
        connection: to the store.
        numbers_of: the cells' numbers: a range of them is read in one go; all by default.
        every_value: whether every value is checked, which takes as long as the sums; otherwise only the largest are,
            which none that is not a number is below, and the numbers of states and times against each other.
    """
    finished = TRIALS.c.state.in_(FINISHED)
    error, seconds = TRIALS.c.test_error, TRIALS.c.seconds
    checked = [TRIALS.c[name] for name in ("seed", "state", "solved_at", "test_error", "seconds")]
    if every_value:
        no_seconds = TRIALS.c.state.is_not(None) & seconds.is_(None)
        bad = strange(connection, *checked, also=[no_seconds, CONTRADICTION])
    else:
        bad = or_(*(func.max(column) > stored(column).high for column in checked[2:]))
    query = select(
        TRIALS.c.cell,
        *(func.count(case((TRIALS.c.state == state, 1))) for state in STATES),
        *(_total(value) for value in (seconds, seconds * seconds)),
        func.count(error),
        *(_total(value) for value in (error, error * error)),
        bad,
        func.count(TRIALS.c.state),
        func.aggregate_strings(
            cast(case((finished, TRIALS.c.solved_at)) if every_value else TRIALS.c.solved_at, String), ","
        ),
    ).group_by(TRIALS.c.cell)
    parts = [query]
    if isinstance(numbers_of, range):
        parts = [query.where(TRIALS.c.cell >= numbers_of.start, TRIALS.c.cell < numbers_of.stop)]
    elif numbers_of is not None:
        parts = [query.where(TRIALS.c.cell.in_(few)) for few in chunks(sorted(numbers_of))]
    rows = [tuple(row) for part in parts for row in connection.execute(part)]
    *columns, wrong, ended, texts = zip(*sorted(rows), strict=True) if rows else [()] * 14
    refuse_strange(sum(map(bool, wrong)), "trials")
    numbers = [np.array(column, np.int64 if place <= len(STATES) else float) for place, column in enumerate(columns)]
    first = np.cumsum([0, *(text.count(",") + 1 if text else 0 for text in texts)])
    by_state = dict(zip(STATES, numbers[1:6], strict=True))
    _refuse_contradictions(by_state, np.array(ended), np.diff(first))
    times = np.fromstring(",".join(filter(None, texts)), sep=",") if first[-1] else np.zeros(0)
    order = np.lexsort((times, np.repeat(np.arange(len(texts)), np.diff(first))))
    added = ("cell", "seconds", "seconds_squared", "errors", "error", "error_squared")
    named = dict(zip(added, [numbers[0], *numbers[6:]], strict=True))
    return CellSums(**named, ended=by_state, first=first, times=times[order])


def _refuse_contradictions(by_state: Mapping[str, np.ndarray], ended: np.ndarray, solved: np.ndarray) -> None:
    """Refuse cells whose states do not add up to their outcomes, or their solved trials to their times to solve."""
    refuse_strange(int(np.abs(ended - sum(by_state.values())).sum()), "trials")
    fewest, most = by_state["solved"], by_state["solved"] + by_state["diverged"]  # these may have been solved before
    if bad := int(((solved < fewest) | (solved > most)).sum()):
        raise Damage(f"{NO_CONTRADICTION}: trials of {bad} cells are not so")


def _total(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.coalesce(func.sum(value, type_=Float()), 0.0)  # not of the column's type, which has bounds


_ADDED = ("seconds", "seconds_squared", "errors", "error", "error_squared")


def spread(sums: CellSums, numbers: np.ndarray) -> CellSums:
    """Return sums with an entry for each of the cells of a store, in increasing order."""
    places = np.searchsorted(numbers, sums.cell)
    if len(sums.cell) and (places.max() >= len(numbers) or (numbers[places] != sums.cell).any()):
        raise StoreError("a trial must be of a cell that the store has (elegans check finds those that are not)")

    def put(values: np.ndarray) -> np.ndarray:
        found = np.zeros(len(numbers), values.dtype)
        found[places] = values
        return found

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
    places = np.searchsorted(old.cell, fresh.cell)

    def put(values: np.ndarray, new: np.ndarray) -> np.ndarray:
        found = values.copy()
        found[places] = new
        return found

    pieces = np.split(old.times, old.first[1:-1])
    for place, piece in zip(places, np.split(fresh.times, fresh.first[1:-1]), strict=True):
        pieces[place] = piece
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


def cells_table(connection: Connection, sweep: Sweep | None, where: Filter | None) -> "pd.DataFrame":
    """Return one row per cell; see ``Store.cells_table``."""
    cells = stored_cells(connection, sweep, where)
    everything = connection.scalar(select(func.count()).select_from(CELLS)) == len(cells.numbers)
    sums = cell_sums(connection, None if everything else cells.numbers)
    places = cells.positions(sums.cell)
    solved = np.diff(sums.first)
    trials = np.sum([sums.ended[state] for state in FINISHED], axis=0)
    columns = {"trials": trials, "solved": solved} | {name: sums.ended[name] for name in STATES[1:]}
    table = cell_frame(cells.columns)
    for name, counts in columns.items():
        table[name] = _placed(counts, places, len(table), 0)
    table["median_steps"] = _placed(medians(sums.times, solved, trials), places, len(table), np.nan)
    table["seconds"] = _placed(sums.seconds, places, len(table), 0.0)
    return table


def _placed(values: np.ndarray, places: np.ndarray, length: int, missing: float) -> np.ndarray:
    found = np.full(length, missing, values.dtype)
    found[places] = values
    return found
