"""Trials, cells, measures and curves of a store as DataFrames."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sqlalchemy import Column, Connection, Select, select

from elegans.component import Component
from elegans.errors import StoreError, SweepError, printable, suggest
from elegans.store import queries
from elegans.store.cells import StoredCells, stored_cells
from elegans.store.codec import read_curves, read_measures
from elegans.store.positions import Positions
from elegans.store.queries import DETAILED, Labels, Reader
from elegans.store.schema import DETAILS, TRIALS
from elegans.training.states import STATES
from elegans.training.trial import Trial
from elegans.training.trial_set import AnySet, TrialSet

if TYPE_CHECKING:
    import pandas as pd

    Row = pd.Series[Any] | pd.DataFrame | Mapping[str, Any]
    """A row of a table of trials: a series, a table of one row, or a record."""

_T = TypeVar("_T")


def trial_table(connection: Connection, cells: StoredCells, sweep: TrialSet | None) -> "pd.DataFrame":
    """Return one row per trial that has an outcome; see ``Store.table``."""
    cell, results = _results(connection, cells, sweep, queries.RESULTS)
    table = cell_frame(cells, cells.positions(cell))
    for name, column in results.items():
        table[name] = column
    table["error"] = _reasons(connection, cells, cell, results)
    return table


def _reasons(connection: Connection, cells: StoredCells, cell: np.ndarray, results: "pd.DataFrame") -> "pd.Series[Any]":
    """Return in one line why each trial failed, or a missing value."""
    reasons = dict[tuple[int, int], str | None]()
    failed = (results["state"] == "failed").to_numpy()
    if failed.any():
        query = select(TRIALS.c.cell, TRIALS.c.seed, DETAILS.c.error).join(DETAILS, DETAILED)
        for part in queries.of_cells(connection, query.where(TRIALS.c.state == "failed"), cells.numbers):
            reasons |= {(row.cell, queries.unsigned(row.seed)): reason(row.error) for row in connection.execute(part)}
    rows = zip(cell.tolist(), results["seed"].tolist(), failed.tolist(), strict=True)
    labels = Labels()
    codes = labels([reasons.get((number, seed)) if fell else None for number, seed, fell in rows])
    return _series_of(labels.known, codes)


def reason(error: str | None) -> str | None:
    """Return the end of a traceback: the exception's type and the first line of its message."""
    lines = (error or "").splitlines()
    frames = [index for index, line in enumerate(lines) if line.startswith("  File ")]
    said = [line for line in lines[frames[-1] if frames else 0 :] if line.strip() and not line.startswith(" ")]
    return printable(said[0]) if said else None


def _series_of(texts: Iterable[str | None], codes: np.ndarray) -> "pd.Series[Any]":
    import pandas as pd

    return pd.Series(list(texts), dtype="str").take(codes).reset_index(drop=True)


def _results(
    connection: Connection, cells: StoredCells, sweep: TrialSet | None, names: Sequence[str]
) -> tuple[np.ndarray, "pd.DataFrame"]:
    """Return, in order, the cell number, the seed and the named columns of each trial that has an outcome."""
    import pandas as pd

    engines = Labels()
    query = select(TRIALS.c.cell, TRIALS.c.seed, *(TRIALS.c[name] for name in names))
    readers = [queries.READERS.get(name, engines) for name in names]
    cell, seed, *columns = _recorded(connection, cells, sweep, query, readers)
    results = dict(zip(names, columns, strict=True))
    texts: dict[str, Iterable[str | None]] = {"state": STATES, "engine": engines.known}
    named = {name: _series_of(texts[name], column) if name in texts else column for name, column in results.items()}
    return cell, pd.DataFrame({"seed": seed, **named})


def _recorded(
    connection: Connection,
    cells: StoredCells,
    sweep: TrialSet | None,
    query: Select[Any],
    readers: Sequence[Reader],
) -> list[np.ndarray]:
    """Return cell, seed and further columns of trials that have an outcome, in the order of the table."""
    readers = [queries.whole, queries.seeds, *readers]
    parts = queries.of_cells(connection, query.where(TRIALS.c.state.is_not(None)), cells.numbers)
    fetched = [queries.fetch(connection, part, readers) for part in parts]
    rows = [np.concatenate(column) for column in zip(*fetched, strict=True)] or [reader(()) for reader in readers]
    if sweep is None:
        order = np.lexsort((rows[1], rows[0]))
    else:
        position = Positions(sweep, cells.by_hash).of(rows[0], rows[1])
        kept = np.flatnonzero(position >= 0)
        order = kept[np.argsort(position[kept])]
    cell, seed, *others = (column[order] for column in rows)
    fits = not len(seed) or seed.max() < 2**63
    return [cell, seed.astype(np.int64) if fits else seed, *others]


def results_by_cell(
    connection: Connection, sweep: TrialSet, names: Sequence[str]
) -> list[tuple[Trial, "pd.DataFrame"]]:
    """Return the template of each cell and columns of its outcomes, of one bundle; see ``Store.by_cell``."""
    cells = stored_cells(connection, sweep)
    templates = {cells.by_hash[cell.cell]: cell for cell in sweep.cells if cell.cell in cells.by_hash}
    cell, table = _results(connection, cells, sweep, names)
    by_cell = table.groupby(cell, sort=False)
    return [(templates[cell[rows.index[0]]], rows.reset_index(drop=True)) for _, rows in by_cell]


def totals(connection: Connection, sweep: TrialSet) -> "pd.DataFrame":
    """Return how trials ended, by state and engine; see ``Store.totals``."""
    import pandas as pd

    keys, sums = ["state", "engine"], ["trials", "seconds", "evaluation_seconds"]
    parts = [
        _results(connection, stored_cells(connection, some), some, (*keys, *sums[1:]))[1]
        .assign(trials=1)
        .groupby(keys)[sums]
        .sum()
        .reset_index()
        for some in queries.bundles(sweep)
    ]
    return pd.concat(parts).groupby(keys)[sums].sum().reset_index()


def recorded_part(connection: Connection, sweep: AnySet) -> AnySet:
    """Return the part of a sweep that has outcomes; see ``Store.recorded``."""
    cells = stored_cells(connection, sweep)
    cell, seed = _recorded(connection, cells, sweep, select(TRIALS.c.cell, TRIALS.c.seed), [])
    ends = np.flatnonzero(np.diff(cell)) + 1
    by_cell = {
        numbers[0]: tuple(some.tolist())
        for numbers, some in zip(np.split(cell, ends), np.split(seed, ends), strict=True)
        if len(numbers)
    }
    numbered = ((template, cells.by_hash.get(template.cell)) for template, _ in sweep.parts)
    return replace(
        sweep, parts=tuple((template, by_cell[number]) for template, number in numbered if number in by_cell)
    )


def measures_table(connection: Connection, sweep: TrialSet, kind: str) -> "pd.DataFrame":
    """Return one row per trial and measured step; see ``Store.measures``."""
    rows = list(_details(connection, sweep, DETAILS.c.measures, read_measures))
    known = dict.fromkeys(name for _, _, measures in rows for name in measures)
    if known and kind not in known:
        raise StoreError(f"measures must come from a recorded probe: {kind!r}{suggest(kind, known)}")
    return _long([(trial, seed, measures[kind]) for trial, seed, measures in rows if kind in measures], ["step"])


def curves_table(connection: Connection, sweep: TrialSet) -> "pd.DataFrame":
    """Return one row per trial and point of its curve; see ``Store.curves``."""
    rows = _details(connection, sweep, DETAILS.c.curve, read_curves)
    return _long([(trial, seed, vars(curve)) for trial, seed, (curve, _) in rows], ["step", "loss", "error"])


def errors_table(connection: Connection, sweep: TrialSet) -> "pd.DataFrame":
    """Return one row per trial and point of its curve of errors; see ``Store.errors``."""
    rows = _details(connection, sweep, DETAILS.c.curve, read_curves)
    names = ["step", "loss", "train_error", "test_error"]
    return _long([(trial, seed, vars(errors)) for trial, seed, (_, errors) in rows if errors.step], names)


def _details(
    connection: Connection, sweep: TrialSet, column: Column[Any], read: Callable[[bytes], _T]
) -> Iterator[tuple[int, int, _T]]:
    """Yield the row number in the table, the seed and the details of each trial that has details."""
    query = select(TRIALS.c.cell, TRIALS.c.seed, column).join(DETAILS, DETAILED, isouter=True)

    def objects(values: Sequence[Any]) -> np.ndarray:
        return np.array([*values, None], object)[:-1]

    _, seed, packed = _recorded(connection, stored_cells(connection, sweep), sweep, query, [objects])
    return ((index, seed[index], read(packed[index])) for index in range(len(seed)) if packed[index] is not None)


def _long(rows: Sequence[tuple[int, int, Mapping[str, Any]]], names: Sequence[str]) -> "pd.DataFrame":
    """Return one row per trial and step: the trial's row number in the table, its seed, and its quantities."""
    import pandas as pd

    names = list(dict.fromkeys([*names, *(name for *_, taken in rows for name in taken)]))
    counts = [len(taken["step"]) for *_, taken in rows]
    columns: dict[str, Any] = {
        "trial": np.repeat([trial for trial, *_ in rows], counts).astype(np.int64),
        "seed": np.repeat(np.array([seed for _, seed, _ in rows] or np.zeros(0, np.int64)), counts),
    }
    for name in names:
        columns[name] = _quantity([taken.get(name, [None] * n) for (*_, taken), n in zip(rows, counts, strict=True)])
    return pd.DataFrame(columns)


def _quantity(taken: Sequence[Sequence[Any] | np.ndarray]) -> "pd.Series[Any]":
    """Return one quantity's values, listed for each trial, as one column in which arrays are objects."""
    import pandas as pd

    values = [value for listed in taken for value in listed]
    if not any(isinstance(value, list | np.ndarray) for value in values):
        return pd.Series(values, dtype=None if values else float)
    return pd.Series([_array(value) if isinstance(value, list) else value for value in values], dtype=object)


def _array(value: list[Any]) -> np.ndarray | list[Any]:
    """Return a list of numbers as an array, and any other list unchanged."""
    try:
        return np.asarray(value)
    except ValueError:  # ragged, or of more dimensions than an array may have
        return value


def cell_frame(cells: StoredCells, rows: np.ndarray | None = None) -> "pd.DataFrame":
    """Return the dotted columns of cells as a table.

    Args:
        cells: the cells; a column that a cell lacks is a missing value.
        rows: the cell of each row of the table; by default one row per cell.

    Returns:
        One row for each entry of ``rows``; whole numbers with gaps are ``Int64``, others as pandas infers.
    """
    import pandas as pd

    columns = {name: _series(values.tolist()) for name, values in cells.columns.items()}
    if rows is not None:
        columns = {name: column.take(rows).reset_index(drop=True) for name, column in columns.items()}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(cells.numbers if rows is None else rows)))


def _series(values: list[Any]) -> "pd.Series[Any]":
    import pandas as pd

    present = [value for value in values if value is not None]
    if present and len(present) < len(values) and all(type(value) is int and abs(value) < 2**63 for value in present):
        return pd.Series(values, dtype="Int64")
    if any(isinstance(value, tuple | dict) for value in present):
        return pd.Series(values, dtype=object)
    return pd.Series(values)


def as_record(row: "Row") -> dict[str, Any]:
    """Return a row as plain Python values by column, with None for missing ones.

    Raises:
        SweepError: it is not one row.
    """
    import pandas as pd

    if not hasattr(row, "items"):
        raise SweepError(f"a row must be a row of a table, as table.iloc[0]: got a {type(row).__name__}")
    if getattr(row, "ndim", 1) == 2:
        if len(row) != 1:
            raise SweepError(f"a row must be one row of a table, as table.iloc[0]: got {len(row)}")
        row = row.iloc[0]  # type: ignore[union-attr]
    values = {str(name): value.item() if isinstance(value, np.generic) else value for name, value in row.items()}
    return {name: None if pd.api.types.is_scalar(value) and pd.isna(value) else value for name, value in values.items()}


def same(value: Any, shown: Any) -> bool:
    """Return whether a trial's value equals the value in a table, where components are labels or records."""
    if isinstance(value, Component):
        value = value.label() if isinstance(shown, str) else value.model_dump(mode="json")
    if isinstance(value, tuple | list):
        alike = isinstance(shown, tuple | list) and len(value) == len(shown)
        return alike and all(map(same, value, shown))
    return bool(value == shown)
