"""The cells of a store: their numbers, their trials without the seed, and their dotted columns."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic_core import from_json, to_jsonable_python
from sqlalchemy import Connection, insert, select

from elegans.errors import StoreError, TrialError, UnknownKind, suggest
from elegans.store.connection import CorruptStore
from elegans.store.positions import Listed
from elegans.store.schema import CELLS
from elegans.training.trial import Trial
from elegans.training.trial_set import TrialSet

LONGEST_LIST = 5_000
"""Maximum number of values in one list of an SQL statement."""

Filter = Mapping[str, Any]
"""The value that a cell must have in a dotted column, or a list of allowed values."""


def chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield a sequence in pieces that fit into a statement's list."""
    return (values[first : first + LONGEST_LIST] for first in range(0, len(values), LONGEST_LIST))


def cell_numbers(connection: Connection, hashes: Iterable[str]) -> dict[str, int]:
    """Return the numbers of the cells that the store has, by hash."""
    query = select(CELLS.c.hash, CELLS.c.id)
    wanted = chunks(list(dict.fromkeys(hashes)))
    return {key: number for some in wanted for key, number in connection.execute(query.where(CELLS.c.hash.in_(some)))}


def register(connection: Connection, templates: Iterable[Trial]) -> dict[str, int]:
    """Add the cells that the store lacks, given their templates, and return the numbers of all of them by hash."""
    by_hash = {template.cell: template for template in templates}
    numbers = cell_numbers(connection, by_hash)
    new = [
        {
            "hash": key,
            "trial": json.dumps(template.identified, separators=(",", ":"), ensure_ascii=False),
            "columns": columns_of(template),
            "wanted": 0,
        }
        for key, template in by_hash.items()
        if key not in numbers
    ]
    for some in chunks(new):  # a server takes a long time without a statement for the end of the process
        connection.execute(insert(CELLS), some)
    return cell_numbers(connection, by_hash) if new else numbers


def columns_of(template: Trial) -> str:
    """Return a cell's dotted columns as JSON."""
    columns = template.columns()
    del columns["seed"]
    return json.dumps(to_jsonable_python(columns, fallback=str, inf_nan_mode="constants"))


def read_columns(texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the dotted columns of cells from JSON, what a cell lacks as None; lists come back as tuples.

    Their order follows each cell's order as far as possible.
    """
    columns: dict[str, np.ndarray] = {}
    layouts: dict[tuple[str, ...], None] = {}
    for index, text in enumerate(texts):
        cell: dict[str, Any] = from_json(text)
        layouts[tuple(cell)] = None
        for name, value in cell.items():
            if name not in columns:
                columns[name] = np.full(len(texts), None, object)
            columns[name][index] = tuple(value) if type(value) is list else value
    names: list[str] = []
    for layout in layouts:
        position = 0
        for name in layout:
            if name not in names:
                names.insert(position, name)
            elif names[position : position + 1] != [name]:
                position = names.index(name)
            position += 1
    return {name: columns[name] for name in names}


def read_record(text: str, key: str) -> dict[str, Any]:
    """Return the record of a cell's trial without its seed, which must have the cell's hash."""
    record: dict[str, Any] = json.loads(text)
    if hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest() != key:
        raise CorruptStore(f"the trial of a cell must have the cell's hash: {key[:12]!r} has {text[:40]!r}")
    return record


def read_template(text: str, key: str) -> Trial:
    """Return a cell's trial with seed 0.

    Raises:
        StoreError: a class of it is not imported, or no trial is like that.
    """
    record = read_record(text, key)
    try:
        return Trial.parse(record)
    except UnknownKind as error:
        raise StoreError(f"the classes of a store's trials must be imported: {error}") from None
    except TrialError as error:
        raise CorruptStore(f"the trial of a cell must be valid: {error}") from None


@dataclass(frozen=True)
class StoredCells:
    """Some cells of a store, in the order of the requested sweep or else of the store.

    Args:
        numbers: their numbers in the store.
        columns: the values of each dotted column, None where a cell lacks it.
        by_hash: their numbers by hash.
    """

    numbers: list[int]
    columns: dict[str, np.ndarray]
    by_hash: dict[str, int]

    def positions(self, cell: np.ndarray) -> np.ndarray:
        """Return the position of each row's cell among these cells."""
        positions = Listed(np.array(self.numbers, np.int64)).positions(cell)
        refuse_orphans(cell[positions < 0])
        return positions


def refuse_orphans(numbers: Sequence[int] | np.ndarray) -> None:
    """Refuse trials of cells that the store lacks, given the numbers of these cells."""
    if len(numbers):
        raise CorruptStore(f"a trial must belong to a cell of the store: cell {min(numbers)}")


def stored_cells(connection: Connection, sweep: TrialSet | None, where: Filter | None = None) -> StoredCells:
    """Return the cells of a store that a sweep has (None: all of them) and a filter keeps."""
    query = select(CELLS.c.hash, CELLS.c.id, CELLS.c.columns)
    rows: Sequence[Any]
    if sweep is None:
        rows = connection.execute(query.order_by(CELLS.c.id)).all()
    else:
        hashes = [template.cell for template, _ in sweep.parts]
        wanted = (query.where(CELLS.c.hash.in_(some)) for some in chunks(hashes))
        found = {row.hash: row for some in wanted for row in connection.execute(some)}
        rows = [found[key] for key in hashes if key in found]
    columns = read_columns([row.columns for row in rows])
    kept = np.ones(len(rows), bool)
    for name, wanted in (where or {}).items():
        if rows and name not in columns:
            raise StoreError(f"a filter must name a column of the trials: {name!r}{suggest(name, columns)}")
        allowed = wanted if isinstance(wanted, list | set | frozenset | range | np.ndarray) else [wanted]
        kept &= np.array([any(value == other for other in allowed) for value in columns.get(name, ())], bool)
    rows = [row for row, keep in zip(rows, kept, strict=True) if keep]
    by_hash = {row.hash: row.id for row in rows}
    return StoredCells([*by_hash.values()], {name: values[kept] for name, values in columns.items()}, by_hash)
