"""The cells of a store as a map shows them: added up by the database, and kept up to date by what changes."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import RLock
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import Connection, Row, select

from elegans.analysis.aggregation import hashable, is_parameter
from elegans.errors import ExperimentError, StoreError, printable
from elegans.experiments.registry import Entry, entries
from elegans.explorer.analysed import Analysed
from elegans.explorer.axes import Axis, axes_of, setting, words_of
from elegans.explorer.statistics import COLUMNS, STATISTICS, Computed, Statistic
from elegans.explorer.sums import concatenated, merged, spread, sums_of
from elegans.store import Store
from elegans.store.aggregates import CellSums, cell_sums
from elegans.store.cells import stored_cells
from elegans.store.changes import (
    OVERLAP,
    CommitWatcher,
    Structure,
    ended_by_run,
    latest,
    read_runs,
    recorded_since,
    running,
    structure,
)
from elegans.store.schema import CELLS

MANY = 1_000
"""The number of cells from which a store counts as large."""
WHOLE_SECONDS = 600.0
"""Seconds after which a store that has changed is read as a whole: a repair may have moved rows aside."""


class Cells:
    """The cells of a store, one row each, and the axes along which they differ.

    ``refresh`` reads what was recorded since, with an overlap, and adds up again only the cells concerned. It changes
    nothing in place, so a copy never changes.

    Args:
        store: the store, which is only read.

    Attributes:
        numbers: the cells' numbers in the store.
        axes: the swept parameters.
        codes: for each cell and axis, the place of the cell's value on the axis.
        version: counts the changes.
        runs: the rows of the runs, the first one first.
        analysed: further statistics, which experiments of the store have of them.
    """

    axes: tuple[Axis, ...]
    codes: np.ndarray
    numbers: np.ndarray
    runs: tuple[Row[Any], ...] = ()
    analysed: Mapping[str, Analysed] = MappingProxyType({})
    _ended: Counter[int] | None = None
    _structure: Structure
    _columns: pd.DataFrame
    _statistics: Computed
    _table: pd.DataFrame | None = None

    def __init__(self, store: Store) -> None:
        self.store: Store | None = store
        self.version = 0
        self._lock = RLock()
        self._file = store.database.file
        self._opened: Any = None
        self._watch: CommitWatcher | None = None
        self._mark: Any = None
        self.refresh()

    @classmethod
    def of_table(cls, table: pd.DataFrame) -> "Cells":
        """Return the cells of a table of trials or of cells, as ``elegans.run`` or ``Store.cells_table`` return it."""
        cells = cls.__new__(cls)
        cells.store, cells.version, cells._lock = None, 1, RLock()
        columns, sums = _of_table(table)
        cells.axes, cells.codes = axes_of(columns)
        zeros = np.zeros(len(columns), np.int64)
        cells.numbers, cells._columns = columns.index.to_numpy(), columns
        cells._statistics = Computed(sums, zeros, zeros)
        return cells

    def axis(self, name: str) -> tuple[int, Axis]:
        """Return an axis by its name, and its place among the axes."""
        for index, axis in enumerate(self.axes):
            if axis.name == name:
                return index, axis
        swept = ", ".join(axis.name for axis in self.axes) or "there are none"
        raise ExperimentError(f"an axis must be swept: {printable(name[:60])!r}; {swept}")

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
        for analysed in self.analysed.values():
            if name in analysed.columns:
                return analysed.column(name, self.numbers)
        values: np.ndarray = self._statistics[name]
        return values

    @property
    def statistics(self) -> Mapping[str, Statistic]:
        """What a map of the cells can show, by name."""
        return {**STATISTICS, **{name: analysed.statistic for name, analysed in self.analysed.items()}}

    @property
    def experiments(self) -> list[Entry]:
        """The experiments whose names the runs have, the latest first."""
        names = dict.fromkeys(run.name for run in reversed(self.runs))
        return [entries()[name] for name in names if name in entries()]

    def places(self, numbers: Any) -> np.ndarray:
        """Return in which rows cells are, given their numbers."""
        return np.searchsorted(self.numbers, np.asarray(numbers, np.int64))

    def checked(self, cell: int) -> int:
        """Return a cell's number, which must be one of the store."""
        place = self.places(cell)
        if place == len(self.numbers) or self.numbers[place] != cell:
            raise ExperimentError(f"a cell must be in the store: cell={cell}")
        return cell

    def row(self, cell: int) -> pd.Series:
        """Return the row of a cell by its number."""
        self.checked(cell)
        return self.table.iloc[self.table.index.get_loc(cell)]  # type: ignore[return-value]

    def name(self, cell: int, names: Sequence[str] | None = None) -> str:
        """Return a name that distinguishes a cell: ``width 100, m = 500``.

        Args:
            cell: its number.
            names: the axes that are named; all by default.
        """
        codes = self.codes[self.places(cell)]
        settings = [
            setting(word, axis.texts[code])
            for axis, word, code in zip(self.axes, words_of(self.axes), codes, strict=True)
            if names is None or axis.name in names
        ]
        return ", ".join(settings) or f"cell {cell}"

    def refresh(self) -> bool:
        """Read what has changed since the last time, and return whether something has."""
        if self.store is None:
            return False
        with self._lock:
            try:
                self._reopen()
                assert self._watch is not None
                mark = self._watch.mark()
                if mark == self._mark:
                    return False
                active = self.store.database.read(self._read)
            except StoreError:
                self.close()
                self._opened = self._mark = None
                raise
            self._mark = mark
            counts = np.array([active.get(cell, 0) for cell in self.numbers.tolist()], np.int64)
            self._statistics, self._table = Computed(self._sums, counts, self._wanted), None
            self.version += 1
            return True

    def close(self) -> None:
        """Release the store's connection."""
        with self._lock:
            if self._watch is not None:
                self._watch.close()
                self._watch = None

    def _reopen(self) -> None:
        """Notice that the store's file is gone, is another one, or was written to by other means than its log."""
        assert self.store is not None
        if self._file is not None:
            try:
                status = self._file.stat()
            except OSError as error:
                raise StoreError(f"a store must exist to be read: {self._file} ({error.strerror})") from None
            opened = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
            if opened != self._opened:
                self.close()
                self.store.database.reopen()
                same_file = self._opened is not None and opened[:2] == self._opened[:2]
                self._mark = () if same_file else None  # marks are of one connection; another file is read as a whole
                self._opened = opened
        if self._watch is None:
            self._watch = CommitWatcher(self.store.database)

    def _read(self, connection: Connection) -> Mapping[int, int]:
        """Read what has changed, and return how many trials are being trained by cell.

        It may be repeated from the start if the connection to a server is lost, so that what it has read so far counts
        only once all of it has been read.
        """
        now, active = structure(connection), running(connection)
        if self._mark is None or now != self._structure or time.monotonic() > self._whole + WHOLE_SECONDS:
            self._read_all(connection, now)
        else:
            self._read_some(connection)
        return active

    def _read_all(self, connection: Connection, now: Structure) -> None:
        self._last = latest(connection)
        self._seen = recorded_since(connection, self._last - OVERLAP)
        if self._mark is None or (now.cells, now.token) != (self._structure.cells, self._structure.token):
            cells = stored_cells(connection, None)
            self.numbers = np.array(cells.numbers, np.int64)
            self._columns = pd.DataFrame(cells.columns, index=pd.Index(self.numbers, name="cell"))
            self.axes, self.codes = axes_of(self._columns)
        counts = {cell: count for cell, count in connection.execute(select(CELLS.c.id, CELLS.c.wanted))}  # noqa: C416
        self._wanted = np.array([counts.get(cell, 0) for cell in self.numbers.tolist()], np.int64)
        self.runs = tuple(read_runs(connection))
        self._ended = None
        self._sums = self._whole_sums(connection)
        self._whole, self._structure = time.monotonic(), now

    def _whole_sums(self, connection: Connection) -> CellSums:
        """Add up all cells, in two threads for a large store, because the database does not hold Python's lock."""
        assert self.store is not None
        store, numbers = self.store, self.numbers
        if len(numbers) < MANY or self._file is None:
            return spread(cell_sums(connection), numbers)
        ends = (0, int(numbers[len(numbers) // 2]), 2**62)

        def add(low: int, high: int) -> CellSums:
            return store.database.read(partial(cell_sums, numbers=range(low, high)))

        with ThreadPoolExecutor(2) as pool:
            return spread(concatenated(list(pool.map(add, ends[:-1], ends[1:]))), numbers)

    def _read_some(self, connection: Connection) -> None:
        recorded = recorded_since(connection, self._last - OVERLAP)
        fresh = recorded - self._seen
        if changed := sorted({row[0] for row in fresh}):
            sums = cell_sums(connection, changed)
            self._sums = merged(self._sums, spread(sums, np.array(changed, np.int64)))
        self._last = max([self._last, *(row[2] for row in recorded)])
        self._seen = {row for row in recorded if row[2] > self._last - OVERLAP}
        if self._ended is not None:
            self._ended.update(row[3] for row in fresh)

    def ended_by(self, run: int) -> int:
        """Return how many outcomes belong to each run, by its number; they are counted on first use."""
        with self._lock:
            if self._ended is None and self.store is not None:
                self._ended = self.store.database.read(ended_by_run)
            return self._ended[run] if self._ended else 0


def _of_table(table: pd.DataFrame) -> tuple[pd.DataFrame, CellSums]:
    """Return the cells of a table of trials as their columns and sums."""
    for name in ("state", "solved_at"):
        if name not in table:
            raise ExperimentError(
                f"a table of trials must have a column {name!r}: {', '.join(map(str, table)) or 'it has no columns'}"
            )
    names = [str(name) for name in table if is_parameter(name)]
    codes = np.zeros(len(table), np.int64)
    for name in names:
        value_codes = pd.factorize(hashable(table[name]), use_na_sentinel=False)[0]
        codes = pd.factorize(codes * (value_codes.max(initial=0) + 1) + value_codes)[0]
    first = np.unique(codes, return_index=True)[1]
    columns = table.iloc[first][names].set_axis(pd.RangeIndex(1, len(first) + 1, name="cell"))
    return columns, sums_of(table, codes, len(first))
