"""The cells of a store as a map shows them: added up by the database, and kept up to date by what changes."""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from threading import RLock
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sqlalchemy import Connection, Row, select

from elegans.analysis.aggregation import hashable, is_parameter
from elegans.analysis.intervals import mean_intervals, median_intervals, medians, wilson
from elegans.errors import ExperimentError, StoreError, printable
from elegans.experiments.registry import Entry, entries
from elegans.sweeps import Store
from elegans.sweeps.changes import (
    OVERLAP,
    Structure,
    Watch,
    ended_by_run,
    latest,
    read_runs,
    recorded_since,
    running,
    structure,
)
from elegans.sweeps.database import located
from elegans.sweeps.reading import CellSums, cell_columns, cell_sums
from elegans.sweeps.schema import CELLS
from elegans.sweeps.status import RECENT_SECONDS
from elegans.training.states import FINISHED, STATES

MANY = 1_000
"""Cells from which on a store is large."""
WHOLE_SECONDS = 600.0
"""After so many seconds a store that has changed is read as a whole: rows may have been moved aside by a repair."""
NONE = "none"
"""What an axis calls a missing value, where no component's label says more."""


@dataclass(frozen=True)
class Axis:
    """A parameter that differs between cells.

    Args:
        name: its dotted column.
        values: the distinct values, numbers in increasing order, None for a missing one last.
        numeric: whether the values are numbers, but for the missing one.
        missing: what a missing value is called.
    """

    name: str
    values: tuple[Any, ...]
    numeric: bool
    missing: str = NONE

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The values as texts, all different."""
        return tuple(self.missing if value is None else text_of(value) for value in self.values)

    def place(self, text: str) -> int:
        """Return the place of a value that is given as its text."""
        if text not in self._places:
            raise ExperimentError(f"{self.name} must be one of its values: {self.name}={printable(text[:40])!r}")
        return self._places[text]

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {text: place for place, text in enumerate(self.texts)}


def text_of(value: Any) -> str:
    """Return a value as an axis names it."""
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return printable(str(value))


def texts(table: pd.DataFrame, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return some columns of each row of a table as texts, in which numbers of different types are the same."""
    columns = [[text_of(_plain(value)) for value in table[name]] for name in names]
    return list(zip(*columns, strict=True)) if names else [()] * len(table)


class _Statistics:
    """The statistics of cells, each computed when it is first asked for."""

    def __init__(self, sums: CellSums, active: np.ndarray, wanted: np.ndarray) -> None:
        self.sums = sums
        self.solved = np.diff(sums.first)
        self.trials = np.sum([sums.ended[state] for state in FINISHED], axis=0)
        self.ended = np.sum([sums.ended[state] for state in STATES], axis=0)
        self.known: dict[str, np.ndarray] = {name: sums.ended[name] for name in STATES[1:]}
        self.known |= {"trials": self.trials, "solved": self.solved, "ended": self.ended, "errors": sums.errors}
        self.known |= {"running": active, "missing": np.maximum(wanted - self.ended - active, 0)}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.known:
            self.known |= next(made for names, made in self._MADE.items() if name in names)(self)
        return self.known[name]

    def _rates(self) -> dict[str, np.ndarray]:
        low, high = wilson(self.solved, self.trials)
        with np.errstate(invalid="ignore", divide="ignore"):
            return {"rate": self.solved / self.trials, "low": low, "high": high}

    def _medians(self) -> dict[str, np.ndarray]:
        of = (self.sums.times, self.solved, self.trials)
        low, high = median_intervals(*of)
        return {"median_steps": medians(*of), "median_low": low, "median_high": high}

    def _errors(self) -> dict[str, np.ndarray]:
        error, low, high = mean_intervals(self.sums.errors, self.sums.error, self.sums.error_squared)
        return {"test_error": error, "test_error_low": np.maximum(low, 0), "test_error_high": np.minimum(high, 1)}

    def _seconds(self) -> dict[str, np.ndarray]:
        seconds, low, high = mean_intervals(self.ended, self.sums.seconds, self.sums.seconds_squared)
        return {"seconds": seconds, "seconds_low": np.maximum(low, 0), "seconds_high": high}

    _MADE: ClassVar[Mapping[tuple[str, ...], Callable[["_Statistics"], dict[str, np.ndarray]]]] = {
        ("rate", "low", "high"): _rates,
        ("median_steps", "median_low", "median_high"): _medians,
        ("test_error", "test_error_low", "test_error_high"): _errors,
        ("seconds", "seconds_low", "seconds_high"): _seconds,
    }


COLUMNS = (
    *("trials", *STATES, "rate", "low", "high", "median_steps", "median_low", "median_high"),
    *("test_error", "test_error_low", "test_error_high", "errors", "seconds", "seconds_low", "seconds_high"),
    *("ended", "running", "missing"),
)
"""The statistics, in the order of the table."""


class Cells:
    """The cells of a store, one row each, and the axes along which they differ.

    ``refresh`` reads what was recorded since, with an overlap, and adds up again only the cells concerned. It changes
    nothing in place: a copy stays as it is.

    Args:
        store: the store, which is only read.

    Attributes:
        numbers: the cells' numbers in the store.
        axes: the swept parameters.
        codes: for each cell and axis, the place of the cell's value on the axis.
        version: counts the changes.
        runs: the rows of the runs, the first one first.
    """

    axes: tuple[Axis, ...]
    codes: np.ndarray
    numbers: np.ndarray
    runs: tuple[Row[Any], ...] = ()
    _ended: Counter[int] | None = None
    _structure: Structure
    _columns: pd.DataFrame
    _statistics: _Statistics
    _table: pd.DataFrame | None = None

    def __init__(self, store: Store) -> None:
        self.store: Store | None = store
        self.version = 0
        self._lock = RLock()
        self._file = None if store.place == "memory" else located(store.place)
        self._opened: Any = None
        self._watch: Watch | None = None
        self._mark: Any = None
        self.refresh()

    @classmethod
    def of_table(cls, table: pd.DataFrame) -> "Cells":
        """Return the cells of a table of trials or of cells, as ``elegans.run`` or ``Store.cells_table`` return it."""
        own = cls.__new__(cls)
        own.store, own.version, own._lock = None, 1, RLock()
        columns, sums = _of_table(table)
        own.axes, own.codes = axes_of(columns)
        zeros = np.zeros(len(columns), np.int64)
        own.numbers, own._columns, own._statistics = columns.index.to_numpy(), columns, _Statistics(sums, zeros, zeros)
        return own

    def axis(self, name: str) -> tuple[int, Axis]:
        """Return an axis by its name, and its place among the axes."""
        for place, axis in enumerate(self.axes):
            if axis.name == name:
                return place, axis
        known = ", ".join(axis.name for axis in self.axes) or "there are none"
        raise ExperimentError(f"an axis must be swept: {printable(name[:60])!r}; {known}")

    @property
    def table(self) -> pd.DataFrame:
        """One row per cell, by its number in the store: its dotted columns, then its statistics.

        These are ``trials`` (that finished), ``solved`` (at some step), the other states; ``rate`` with its Wilson
        interval ``low`` to ``high``; ``median_steps`` with ``median_low`` and ``median_high``; ``test_error`` (a mean,
        of ``errors`` trials) and ``seconds`` (the mean per trial) with theirs; trials ``ended``, ``running`` and
        ``missing``.
        """
        if self._table is None:
            statistics = pd.DataFrame({name: self.column(name) for name in COLUMNS}, index=self._columns.index)
            self._table = pd.concat([self._columns, statistics], axis=1)
        return self._table

    def column(self, name: str) -> np.ndarray:
        """Return a statistic of every cell, without a table of all of them."""
        return self._statistics[name]

    @property
    def experiments(self) -> list[Entry]:
        """The experiments whose names the runs have, the latest first."""
        names = dict.fromkeys(run.name for run in reversed(self.runs))
        return [entries()[name] for name in names if name in entries()]

    def places(self, numbers: Any) -> np.ndarray:
        """Return in which rows cells are, given their numbers."""
        return np.searchsorted(self.numbers, np.asarray(numbers, np.int64))

    def row(self, cell: int) -> pd.Series:
        """Return the row of a cell by its number."""
        if cell not in self.table.index:
            raise ExperimentError(f"a cell must be one of the store: cell={cell}")
        return self.table.iloc[self.table.index.get_loc(cell)]  # type: ignore[return-value]

    def refresh(self) -> bool:
        """Read what has changed since the last time, and return whether something has."""
        if self.store is None:
            return False
        with self._lock:
            self._reopen()
            assert self._watch is not None
            mark = self._watch.mark()
            if mark == self._mark:
                return False
            with self.store.connected() as connection:
                now = structure(connection)
                if self._mark is None or now != self._structure or time.monotonic() > self._whole + WHOLE_SECONDS:
                    self._read_all(connection, now)
                else:
                    self._read_some(connection)
                active = running(connection)
            self._mark = mark
            counts = np.array([active.get(cell, 0) for cell in self.numbers.tolist()], np.int64)
            self._statistics, self._table = _Statistics(self._sums, counts, self._wanted), None
            self.version += 1
            return True

    def close(self) -> None:
        """Let go of the store's connection."""
        with self._lock:
            if self._watch is not None:
                self._watch.close()
                self._watch = None

    def _reopen(self) -> None:
        """Notice that the store's file is gone, or is another one."""
        assert self.store is not None
        if self._file is not None:
            try:
                found = self._file.stat()
            except OSError as error:
                raise StoreError(f"a store must exist to be read: {self._file} ({error.strerror})") from None
            if self._opened not in (None, (found.st_dev, found.st_ino)):
                self.close()
                self.store.engine.dispose()
            self._opened = (found.st_dev, found.st_ino)
        if self._watch is None:
            self._watch, self._mark = Watch(self.store.engine), None

    def _read_all(self, connection: Connection, now: Structure) -> None:
        self._last = latest(connection)
        self._seen = recorded_since(connection, self._last - OVERLAP)
        if self._mark is None or now.cells != self._structure.cells:
            self.numbers, columns = cell_columns(connection)
            self._columns = pd.DataFrame(columns, index=pd.Index(self.numbers, name="cell"))
            self.axes, self.codes = axes_of(self._columns)
        wanted = {cell: count for cell, count in connection.execute(select(CELLS.c.id, CELLS.c.wanted))}  # noqa: C416
        self._wanted = np.array([wanted.get(cell, 0) for cell in self.numbers.tolist()], np.int64)
        self.runs = tuple(read_runs(connection))
        self._ended = None
        self._sums = self._whole_sums(connection)
        self._whole, self._structure = time.monotonic(), now

    def _whole_sums(self, connection: Connection) -> CellSums:
        """Add up all cells: those of a large store in two threads, since the database leaves Python alone meanwhile."""
        assert self.store is not None
        store, numbers = self.store, self.numbers
        if len(numbers) < MANY or self._file is None:
            return _spread(cell_sums(connection, every_value=False), numbers)
        ends = (0, int(numbers[len(numbers) // 2]), 2**62)

        def add(low: int, high: int) -> CellSums:
            with store.connected() as own:
                return cell_sums(own, range(low, high), every_value=False)

        with ThreadPoolExecutor(2) as pool:
            return _spread(_concatenated(list(pool.map(add, ends[:-1], ends[1:]))), numbers)

    def _read_some(self, connection: Connection) -> None:
        found = recorded_since(connection, self._last - OVERLAP)
        fresh = found - self._seen
        self._last = max([self._last, *(row[2] for row in found)])
        self._seen = {row for row in found if row[2] > self._last - OVERLAP}
        if self._ended is not None:
            self._ended.update(row[3] for row in fresh)
        if changed := sorted({row[0] for row in fresh}):
            sums = cell_sums(connection, changed, every_value=False)
            self._sums = _merged(self._sums, _spread(sums, np.array(changed, np.int64)))

    def ended_by(self, run: int) -> int:
        """Return how many outcomes are of a run, by its number; all are counted when first asked for."""
        with self._lock:
            if self._ended is None and self.store is not None:
                with self.store.connected() as connection:
                    self._ended = ended_by_run(connection)
            return self._ended[run] if self._ended else 0

    def pace(self, run: int) -> float:
        """Return how many trials per second a run has recorded lately."""
        moments = [row[2] for row in self._seen if row[3] == run]
        now = time.time()
        return len(moments) / max(1.0, now - min(moments)) if moments and now < max(moments) + RECENT_SECONDS else 0.0


def axes_of(columns: pd.DataFrame) -> tuple[tuple[Axis, ...], np.ndarray]:
    """Return the parameters along which cells differ, and each cell's place on each axis.

    Of a component and its fields one is kept where it says all: its label, or the only number that differs. Of
    parameters that differ together the first is kept.
    """
    coded: dict[str, np.ndarray] = {}
    for name in map(str, columns):
        if is_parameter(name) and _differs(columns[name].tolist()):
            codes = pd.factorize(hashable(columns[name]), use_na_sentinel=False)[0]
            if codes.max(initial=0) > 0:
                coded[name] = codes
    kept: dict[str, np.ndarray] = {}
    axes = []
    codes_of = []
    for name in _without_labels(coded, columns):
        if not any(np.array_equal(coded[name], other) for other in kept.values()):
            kept[name] = coded[name]
            axis, codes = _axis(columns, name)
            axes.append(axis)
            codes_of.append(codes)
    return tuple(axes), np.array(codes_of, np.int64).reshape(len(axes), len(columns)).T


def _differs(values: Sequence[Any]) -> bool:
    # of one object per value, of which there are few where equal values are one object
    first, *others = (_plain(value) for value in ({id(value): value for value in values}.values() or [None]))
    return any(value != first for value in others)


def _without_labels(coded: Mapping[str, np.ndarray], columns: pd.DataFrame) -> list[str]:
    names = list(coded)
    for parent in list(coded):
        inner = [name for name in coded if name.startswith(f"{parent}.")]
        settled = [name for name in inner if _determines(coded[parent], coded[name])]
        if not settled:
            continue
        numbers = [name for name in settled if _is_numeric(columns[name]) and columns[name].dropna().nunique() > 1]
        if len(settled) == len(inner) and len(numbers) == 1 and _determines(coded[numbers[0]], coded[parent]):
            settled = [parent, *(name for name in settled if name != numbers[0])]
        names = [name for name in names if name not in settled]
    return names


def _determines(outer: np.ndarray, inner: np.ndarray) -> bool:
    pairs = outer * (inner.max() + 1) + inner
    return len(np.unique(pairs)) == len(np.unique(outer))


def _is_numeric(column: pd.Series) -> bool:
    return all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in column.dropna())


def _axis(columns: pd.DataFrame, name: str) -> tuple[Axis, np.ndarray]:
    column = hashable(columns[name])
    codes, values = pd.factorize(column, use_na_sentinel=False)
    plain = [_plain(value) for value in values]
    numeric = _is_numeric(columns[name])
    keys = [(value is None, value if numeric and value is not None else str(value)) for value in plain]
    order = sorted(range(len(plain)), key=lambda place: (keys[place][0], 0 if plain[place] is None else keys[place][1]))
    rank = np.argsort(order)
    missing = NONE
    parent = name.rpartition(".")[0]
    if None in plain and parent in columns:
        labels = columns[parent][pd.isna(columns[name])].unique()
        missing = printable(str(labels[0])) if len(labels) == 1 else NONE
    return Axis(name, tuple(plain[place] for place in order), numeric, missing), rank[codes]


def _plain(value: Any) -> Any:
    if value is None or value is pd.NA or (isinstance(value, float | np.floating) and math.isnan(value)):
        return None
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


_ADDED = ("seconds", "seconds_squared", "errors", "error", "error_squared")


def _spread(sums: CellSums, numbers: np.ndarray) -> CellSums:
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


def _concatenated(parts: Sequence[CellSums]) -> CellSums:
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


def _merged(old: CellSums, fresh: CellSums) -> CellSums:
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


def _of_table(table: pd.DataFrame) -> tuple[pd.DataFrame, CellSums]:
    """Return the cells of a table of trials as their columns and sums."""
    for name in ("state", "solved_at"):
        if name not in table:
            raise ExperimentError(f"a table of trials must have a column {name!r}: {', '.join(map(str, table))}")
    names = [str(name) for name in table if is_parameter(name)]
    codes = np.zeros(len(table), np.int64)
    for name in names:
        own = pd.factorize(hashable(table[name]), use_na_sentinel=False)[0]
        codes = pd.factorize(codes * (own.max(initial=0) + 1) + own)[0]
    first = np.unique(codes, return_index=True)[1]
    columns = table.iloc[first][names].set_axis(pd.RangeIndex(1, len(first) + 1, name="cell"))
    return columns, _sums(table, codes, len(first))


def _sums(table: pd.DataFrame, codes: np.ndarray, count: int) -> CellSums:
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
