"""Fast reading from a store, in columns and with a bounded number of rows at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pydantic_core import from_json
from sqlalchemy import (
    Column,
    Connection,
    RowMapping,
    Select,
    func,
    select,
    type_coerce,
)
from sqlalchemy.types import NullType

from elegans.errors import StoreError, printable, suggest
from elegans.sweeps.columns import Damage, read_template, stored
from elegans.sweeps.frames import (
    Filter,
    Labels,
    cell_frame,
    matches,
    quantity,
    read_columns,
    refuse_untaken,
    united,
)
from elegans.sweeps.measures import read_curve, read_measures
from elegans.sweeps.places import Listed, Places
from elegans.sweeps.schema import CELLS, DETAILS, NO_CONTRADICTION, TRIALS, contradicts
from elegans.sweeps.sweep import Sweep
from elegans.training.outcome import Curve, Outcome
from elegans.training.trial import Trial

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_ONCE = 20_000
"""Rows fetched at a time, which bounds the memory for reading a large store."""
OUTCOMES_AT_ONCE = 1_000
"""Whole outcomes read at a time, each of which may have a curve and measures."""
NAMES_AT_ONCE = 5_000
"""Maximum number of values in one list of an SQL statement."""

RESULTS = ("state", "solved_at", "test_error", "train_error", "steps", "seconds", "evaluation_seconds", "engine")
"""Columns of an outcome, in the order of the table."""
ALWAYS = ("state", "steps", "seconds", "evaluation_seconds")
"""Those of them that every outcome has."""


def signed(seed: int) -> int:
    """Return the signed number that represents a seed in a store."""
    return seed - 2**64 if seed >= 2**63 else seed


def unsigned(number: int) -> int:
    """Return the seed that a signed number in a store represents."""
    return number + 2**64 if number < 0 else number


as_numbers = stored(TRIALS.c.cell).array
"""Reads the numbers of cells."""


def as_seeds(values: Sequence[Any]) -> np.ndarray:
    """Return the seeds that signed numbers in a store represent."""
    return stored(TRIALS.c.seed).array(values).view(np.uint64)


def chunks(values: Sequence[Any], size: int = NAMES_AT_ONCE) -> Iterator[Sequence[Any]]:
    """Yield a sequence in pieces that fit into a statement's list."""
    return (values[first : first + size] for first in range(0, len(values), size))


def cell_numbers(connection: Connection, hashes: Iterable[str]) -> dict[str, int]:
    """Return the numbers of the cells that the store has, by hash."""
    found: dict[str, int] = {}
    for some in chunks(list(dict.fromkeys(hashes))):
        rows = connection.execute(select(CELLS.c.hash, CELLS.c.id).where(CELLS.c.hash.in_(some))).all()
        _refuse_twice(rows)
        found.update(rows)
    return found


def _refuse_twice(cells: Sequence[Any]) -> None:
    """Refuse duplicate cells, which are impossible unless a key is damaged."""
    if len({row.hash for row in cells}) < len(cells):
        raise Damage("a cell must occur only once: two have the same hash")


Reader = Callable[[Sequence[Any]], np.ndarray]


def fetch(connection: Connection, statement: Select[Any], readers: Sequence[Reader]) -> list[np.ndarray]:
    """Return a query's columns as arrays, which readers make from one piece of a column at a time."""
    pieces = [[reader(()) for reader in readers], *fetch_pieces(connection, statement, readers)]
    return [np.concatenate(held) for held in zip(*pieces, strict=True)]


def fetch_pieces(
    connection: Connection, statement: Select[Any], readers: Sequence[Reader]
) -> Iterator[list[np.ndarray]]:
    """Yield the same in pieces of a bounded number of rows."""
    for rows in _rows(connection, statement, ROWS_AT_ONCE):
        yield [reader(values) for reader, values in zip(readers, zip(*rows, strict=True), strict=True)]


def _rows(connection: Connection, statement: Select[Any], at_once: int) -> Iterator[Sequence[Any]]:
    """Yield a query's rows in pieces."""
    if connection.dialect.name != "sqlite":
        # the server keeps the rest until it is asked for, where its driver would else hold all rows; readers check
        # whole columns, so that no value needs to be checked alone
        plain = [type_coerce(column, NullType()) for column in statement.selected_columns]
        unchecked = statement.with_only_columns(*plain, maintain_column_froms=True)
        with connection.execute(unchecked, execution_options={"yield_per": at_once}) as result:
            yield from result.partitions()
        return
    # the driver's own rows: SQLAlchemy's cost several times more, and there may be a million of them
    cursor: Any = connection.execute(statement).cursor
    while rows := cursor.fetchmany(at_once):
        yield rows


def of_cells(connection: Connection, statement: Select[Any], numbers_of: Sequence[int]) -> Iterator[Select[Any]]:
    """Yield the statements that select what a statement does of some cells, given their numbers."""
    if connection.scalar(select(func.count()).select_from(CELLS)) == len(numbers_of):
        yield statement
        return
    for some in chunks(sorted(set(numbers_of))):
        yield statement.where(TRIALS.c.cell.in_(some))


@dataclass(frozen=True)
class StoredCells:
    """Some cells of a store, in the order of the requested sweep or else of the store."""

    numbers: list[int]
    columns: list[dict[str, Any]]
    by_hash: dict[str, int]

    def positions(self, cell: np.ndarray) -> np.ndarray:
        """Return the position of each row's cell among these cells."""
        found = Listed(np.array(self.numbers, np.int64)).positions(cell)
        if (found < 0).any():
            raise Damage(f"a trial must be of a cell that the store has: cell {cell[found < 0][0]}")
        return found


def stored_cells(connection: Connection, sweep: Sweep | None, where: Filter | None) -> StoredCells:
    """Return the cells of a store that a sweep has and a filter keeps."""
    query = select(CELLS.c.hash, CELLS.c.id, CELLS.c.columns, CELLS.c.trial)
    if sweep is None:
        rows = list(connection.execute(query.order_by(CELLS.c.id)))
        _refuse_twice(rows)
    else:
        hashes = [template.cell for template, _ in sweep.parts]
        known = [row for some in chunks(hashes) for row in connection.execute(query.where(CELLS.c.hash.in_(some)))]
        _refuse_twice(known)
        found = {row.hash: row for row in known}
        rows = [found[each] for each in hashes if each in found]
    records = [read_template(row.trial, row.hash) for row in rows]
    if sweep is None:  # the hashes of a sweep's own cells are of trials
        for row, record in zip(rows, records, strict=True):
            refuse_untaken(row.hash, record)
    columns = [read_columns(row.columns, record) for row, record in zip(rows, records, strict=True)]
    if where:
        _check_filter(where, columns)
        kept = [matches(each, where) for each in columns]
        rows = [row for row, keep in zip(rows, kept, strict=True) if keep]
        columns = [each for each, keep in zip(columns, kept, strict=True) if keep]
    return StoredCells([row.id for row in rows], columns, {row.hash: row.id for row in rows})


def _check_filter(where: Filter, columns: Sequence[Mapping[str, Any]]) -> None:
    known = dict.fromkeys(name for each in columns for name in each)
    for name in where:
        if columns and name not in known:
            raise StoreError(f"a filter must name a column of the trials: {name!r}{suggest(name, known)}")


def trial_table(connection: Connection, sweep: Sweep | None, where: Filter | None) -> "pd.DataFrame":
    """Return one row per trial that has an outcome; see ``Store.table``."""
    cells = stored_cells(connection, sweep, where)
    cell, results = _results(connection, sweep, cells, RESULTS)
    table = cell_frame(cells.columns, cells.positions(cell))
    for name, column in results.items():
        table[name] = column
    table["error"] = _reasons(connection, cells, cell, results)
    return table


def _reasons(connection: Connection, cells: StoredCells, cell: np.ndarray, results: "pd.DataFrame") -> "pd.Series[Any]":
    """Return in one line why each trial failed, or a missing value."""
    codes, known = Labels(DETAILS.c.error), dict[tuple[int, int], str | None]()
    failed = (results["state"] == "failed").to_numpy()
    if failed.any():
        same = (DETAILS.c.cell == TRIALS.c.cell) & (DETAILS.c.seed == TRIALS.c.seed)
        query = select(TRIALS.c.cell, TRIALS.c.seed, DETAILS.c.error).join(DETAILS, same)
        for part in of_cells(connection, query.where(TRIALS.c.state == "failed"), cells.numbers):
            known |= {(row.cell, unsigned(row.seed)): reason(row.error) for row in connection.execute(part)}
    rows = zip(cell.tolist(), results["seed"].tolist(), failed.tolist(), strict=True)
    return codes.series(codes([known.get((number, seed)) if fell else None for number, seed, fell in rows]))


def reason(error: str | None) -> str | None:
    """Return the end of a traceback: the exception's type and the first line of its message."""
    lines = (error or "").splitlines()
    frames = [place for place, line in enumerate(lines) if line.startswith("  File ")]
    said = [line for line in lines[frames[-1] if frames else 0 :] if line.strip() and not line.startswith(" ")]
    return printable(said[0]) if said else None


def _results(
    connection: Connection, sweep: Sweep | None, cells: StoredCells, names: Sequence[str]
) -> tuple[np.ndarray, "pd.DataFrame"]:
    """Return, in order, the cell number, the seed and the named columns of each trial that has an outcome."""
    import pandas as pd

    labels = {name: Labels(TRIALS.c[name]) for name in ("state", "engine")}
    readers: list[Reader] = [
        labels.get(name) or partial(stored(TRIALS.c[name]).array, missing=name not in ALWAYS) for name in names
    ]
    query = select(TRIALS.c.cell, TRIALS.c.seed, *(TRIALS.c[name] for name in names))
    cell, seed, *results = _recorded(connection, sweep, cells, query, readers)
    columns = {
        name: labels[name].series(column) if name in labels else column
        for name, column in zip(names, results, strict=True)
    }
    table = pd.DataFrame({"seed": seed, **columns})
    if {"state", "solved_at"} <= columns.keys():
        steps = columns.get("steps", np.inf)
        bad = contradicts(table["state"], table["solved_at"], steps, table["solved_at"].isna()).to_numpy(bool)
        if bad.any():
            raise Damage(f"{NO_CONTRADICTION}: seed {table['seed'][bad].iloc[0]}")
    return cell, table


def bundles(sweep: Sweep) -> Iterator[Sweep]:
    """Yield a sweep in parts that are read at once: many small cells, or one large cell."""
    ends = np.flatnonzero(np.diff(sweep.first[:-1] // ROWS_AT_ONCE)) + 1
    for bundle in np.split(np.arange(len(sweep.parts)), ends):
        yield Sweep(tuple(sweep.parts[place] for place in bundle))


def results_by_cell(connection: Connection, sweep: Sweep, names: Sequence[str]) -> list[tuple[Trial, "pd.DataFrame"]]:
    """Return the template of each cell and columns of its outcomes, of one bundle; see ``Store.by_cell``."""
    cells = stored_cells(connection, sweep, None)
    templates = {cells.by_hash[cell.cell]: cell for cell in sweep.cells if cell.cell in cells.by_hash}
    cell, table = _results(connection, sweep, cells, names)
    ends = [0, *(np.flatnonzero(np.diff(cell)) + 1), len(cell)]
    return [
        (templates[cell[first]], table.iloc[first:end].reset_index(drop=True))
        for first, end in (pairwise(ends) if len(cell) else ())
    ]


def totals(connection: Connection, sweep: Sweep) -> "pd.DataFrame":
    """Return how trials ended, by state and engine; see ``Store.totals``."""
    import pandas as pd

    keys, sums = ["state", "engine"], ["trials", "seconds", "evaluation_seconds"]
    names = (*keys, *sums[1:], "solved_at", "steps")  # the last two to check the states
    found = [
        _results(connection, some, stored_cells(connection, some, None), names)[1]
        .assign(trials=1)
        .groupby(keys)[sums]
        .sum()
        .reset_index()
        for some in bundles(sweep)
    ]
    return pd.concat(found).groupby(keys)[sums].sum().reset_index()


def _recorded(
    connection: Connection, sweep: Sweep | None, cells: StoredCells, query: Select[Any], readers: Sequence[Reader]
) -> list[np.ndarray]:
    """Return cell, seed and further columns of trials that have an outcome, in the order of the table."""
    readers = [as_numbers, as_seeds, *readers]
    recorded = query.where(TRIALS.c.state.is_not(None))
    fetched = [fetch(connection, part, readers) for part in of_cells(connection, recorded, cells.numbers)]
    rows = [np.concatenate(column) for column in zip(*fetched, strict=True)] or [reader(()) for reader in readers]
    order = _order(rows[0], rows[1], sweep, cells.by_hash)
    cell, seed, *others = (column[order] for column in rows)
    if np.any((cell[1:] == cell[:-1]) & (seed[1:] == seed[:-1])):
        raise Damage("a trial must occur only once: two rows have the same cell and seed")
    fits = not len(seed) or seed.max() < 2**63
    return [cell, seed.astype(np.int64) if fits else seed, *others]


def recorded_part(connection: Connection, sweep: Sweep) -> Sweep:
    """Return the part of a sweep that has outcomes; see ``Store.recorded``."""
    cells = stored_cells(connection, sweep, None)
    cell, seed = _recorded(connection, sweep, cells, select(TRIALS.c.cell, TRIALS.c.seed), [])
    ends = np.flatnonzero(np.diff(cell)) + 1
    by_cell = {
        own[0]: tuple(seeds.tolist())
        for own, seeds in zip(np.split(cell, ends), np.split(seed, ends), strict=True)
        if len(own)
    }
    numbers_of = ((template, cells.by_hash.get(template.cell)) for template, _ in sweep.parts)
    return Sweep(tuple((template, by_cell[number]) for template, number in numbers_of if number in by_cell))


def measures_table(connection: Connection, sweep: Sweep, kind: str) -> "pd.DataFrame":
    """Return one row per trial and measured step; see ``Store.measures``."""
    found = list(_details(connection, sweep, DETAILS.c.measures, read_measures))
    known = dict.fromkeys(name for _, _, measures in found for name in measures)
    if known and kind not in known:
        raise StoreError(f"measures must be of a probe that was recorded: {kind!r}{suggest(kind, known)}")
    return _long([(trial, seed, measures[kind]) for trial, seed, measures in found if kind in measures], ["step"])


def curves_table(connection: Connection, sweep: Sweep) -> "pd.DataFrame":
    """Return one row per trial and point of its curve; see ``Store.curves``."""
    return _long(
        [(trial, seed, vars(curve)) for trial, seed, curve in _details(connection, sweep, DETAILS.c.curve, read_curve)],
        ["step", "loss", "error"],
    )


_T = TypeVar("_T")


def _details(
    connection: Connection, sweep: Sweep, column: Column[Any], read: Callable[[bytes], _T]
) -> Iterator[tuple[int, int, _T]]:
    """Yield the row number in the table, the seed and the details of each trial that has details."""
    same = (DETAILS.c.cell == TRIALS.c.cell) & (DETAILS.c.seed == TRIALS.c.seed)
    query = select(TRIALS.c.cell, TRIALS.c.seed, column).join(DETAILS, same, isouter=True)
    each = stored(column).read

    def objects(values: Sequence[Any]) -> np.ndarray:
        return np.array([*map(each, values), None], object)[:-1]

    _, seed, packed = _recorded(connection, sweep, stored_cells(connection, sweep, None), query, [objects])
    return ((place, seed[place], read(packed[place])) for place in range(len(seed)) if packed[place] is not None)


def _long(found: Sequence[tuple[int, int, Mapping[str, Any]]], names: Sequence[str]) -> "pd.DataFrame":
    """Return one row per trial and step: the trial's row number in the table, its seed, and its quantities."""
    import pandas as pd

    names = list(dict.fromkeys([*names, *(name for *_, taken in found for name in taken)]))
    counts = [len(taken["step"]) for *_, taken in found]
    columns: dict[str, Any] = {
        "trial": np.repeat([trial for trial, *_ in found], counts).astype(np.int64),
        "seed": np.repeat(np.array([seed for _, seed, _ in found] or np.zeros(0, np.int64)), counts),
    }
    for name in names:
        columns[name] = quantity([taken.get(name, [None] * n) for (*_, taken), n in zip(found, counts, strict=True)])
    return pd.DataFrame(columns)


def _order(cell: np.ndarray, seed: np.ndarray, sweep: Sweep | None, numbers_of: Mapping[str, int]) -> np.ndarray:
    if sweep is None:
        return np.lexsort((seed, cell))
    place = Places(sweep, numbers_of).of(cell, seed)
    kept = np.flatnonzero(place >= 0)
    return kept[np.argsort(place[kept])]


def cell_columns(connection: Connection) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the numbers of all cells of a store, and their dotted columns as they are written there, gaps as None."""
    query = select(CELLS.c.id, CELLS.c.columns).order_by(CELLS.c.id)
    numbers: list[Any] = []
    alike: dict[tuple[str, ...], tuple[list[int], list[tuple[Any, ...]]]] = {}
    for found in _rows(connection, query, NAMES_AT_ONCE):
        for number, text in found:
            own = _parsed(text)
            places, rows = alike.setdefault(tuple(own), ([], []))
            places.append(len(numbers))
            rows.append(tuple(own.values()))
            numbers.append(number)
    columns: dict[str, np.ndarray] = {}
    for name in united(alike):
        columns[name] = np.full(len(numbers), None, object)
    for names, (places, rows) in alike.items():
        for name, values in zip(names, zip(*rows, strict=True), strict=True):
            for place, value in zip(places, values, strict=True):
                columns[name][place] = tuple(value) if type(value) is list else value
    return as_numbers(numbers), columns


def _parsed(text: Any) -> dict[str, Any]:
    try:
        found = from_json(text)
    except (ValueError, TypeError) as error:
        raise Damage(f"the columns of a cell must be JSON ({str(error)[:80]})") from None
    if not isinstance(found, dict):
        raise Damage(f"the columns of a cell must be a record: {type(found).__name__}")
    return found


def refuse_contradiction(row: Mapping[str, Any] | RowMapping) -> None:
    """Refuse a row of trials that no engine can have produced."""
    never = row["solved_at"] is None
    if contradicts(row["state"], 0 if never else row["solved_at"], row["steps"], np.bool_(never)):
        raise Damage(
            f"{NO_CONTRADICTION}: seed {unsigned(row['seed'])} is {row['state']}, solved_at={row['solved_at']}"
        )


def refuse_impossible(row: Mapping[str, Any] | RowMapping) -> None:
    """Refuse an outcome's row that lacks what every outcome has, or that contradicts itself."""
    for name in ALWAYS:
        if row[name] is None:
            raise Damage(f"an outcome must have {name}: none with seed {unsigned(row['seed'])}")
    refuse_contradiction(row)


def outcome_of(trial: Trial, row: RowMapping) -> Outcome:
    """Return a row of trials joined with details as an outcome."""
    refuse_impossible(row)
    return Outcome(
        trial=trial,
        **{name: row[name] for name in RESULTS},
        error=row["error"],
        curve=Curve() if row["curve"] is None else read_curve(row["curve"]),
        measures=read_measures(row["measures"]),
    )


def outcome_rows(number: int) -> Select[Any]:
    """Return the query for the outcomes of one cell, with their details."""
    same = (DETAILS.c.cell == TRIALS.c.cell) & (DETAILS.c.seed == TRIALS.c.seed)
    return (
        select(TRIALS, DETAILS.c.curve, DETAILS.c.measures, DETAILS.c.error)
        .join(DETAILS, same, isouter=True)
        .where(TRIALS.c.cell == number, TRIALS.c.state.is_not(None))
    )


SIGNED = ((0, 2**63 - 1), (-(2**63), -1))
"""The signed numbers of all seeds, in the order of the seeds."""


def outcomes_between(connection: Connection, template: Trial, number: int, first: int, last: int) -> list[Outcome]:
    """Return the next outcomes of a cell, at most ``OUTCOMES_AT_ONCE``, by their signed seeds from first to last.

    A damaged seed that SQLite sorts after all numbers, such as a text, is beyond the last: it is read, and refused.
    """
    query = outcome_rows(number).where(TRIALS.c.seed >= first).order_by(TRIALS.c.seed).limit(OUTCOMES_AT_ONCE)
    rows = connection.execute(query if last > 0 else query.where(TRIALS.c.seed <= last)).mappings()
    return [outcome_of(template.with_seed(unsigned(row["seed"])), row) for row in rows]
