"""Reads the rows of trials, in columns and with a bounded number of rows at a time."""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import Connection, RowMapping, Select, func, select, type_coerce
from sqlalchemy.types import NullType

from elegans.store.cells import chunks, read_template
from elegans.store.codec import read_curves, read_measures
from elegans.store.schema import CELLS, DETAILS, TRIALS
from elegans.training.outcome import Outcome
from elegans.training.states import STATES
from elegans.training.trial import Trial
from elegans.training.trial_set import AnySet

ROWS_AT_ONCE = 20_000
"""Rows fetched at a time, which bounds the memory for reading a large store."""
OUTCOMES_AT_ONCE = 1_000
"""Whole outcomes read at a time; each may have a curve and measures."""

RESULTS = ("state", "solved_at", "test_error", "train_error", "steps", "seconds", "evaluation_seconds", "engine")
"""Columns of an outcome, in the order of the table."""
DETAILED = (DETAILS.c.cell == TRIALS.c.cell) & (DETAILS.c.seed == TRIALS.c.seed)
"""Joins the details of a trial."""

Reader = Callable[[Sequence[Any]], np.ndarray]
"""Makes an array from values of one column; a value of another type raises an error."""


def signed(seed: int) -> int:
    """Return the signed number that represents a seed in a store."""
    return seed - 2**64 if seed >= 2**63 else seed


def unsigned(number: int) -> int:
    """Return the seed that a signed number in a store represents."""
    return number + 2**64 if number < 0 else number


def whole(values: Sequence[Any]) -> np.ndarray:
    """Return whole numbers as an array."""
    return np.frombuffer(array("q", values), np.int64)


def seeds(values: Sequence[Any]) -> np.ndarray:
    """Return the seeds that signed numbers in a store represent."""
    return np.frombuffer(array("q", values), np.uint64)


def number(values: Sequence[Any]) -> np.ndarray:
    """Return numbers as an array."""
    return np.frombuffer(array("d", values), np.float64)


def optional(values: Sequence[Any]) -> np.ndarray:
    """Return numbers as an array in which missing ones are NaN."""
    return np.array(values, np.float64)


_STATES: dict[str | None, int] = {state: code for code, state in enumerate(STATES)} | {None: -1}


def states(values: Sequence[str | None]) -> np.ndarray:
    """Return the indices of states in ``STATES``, -1 for a missing one."""
    return np.fromiter(map(_STATES.__getitem__, values), np.int8, len(values))


READERS: Mapping[str, Reader] = {
    **dict.fromkeys(("solved_at", "test_error", "train_error"), optional),
    "state": states,
    "steps": whole,
    "seconds": number,
    "evaluation_seconds": number,
}
"""How the columns of an outcome are read."""


class Labels:
    """Reads a column of few distinct strings as small codes; ``known`` has the code of each string."""

    def __init__(self) -> None:
        self.known: dict[str | None, int] = {}

    def __call__(self, values: Sequence[str | None]) -> np.ndarray:
        """Return the code of each string."""
        for value in set(values) - self.known.keys():
            self.known[value] = len(self.known)
        return np.fromiter(map(self.known.__getitem__, values), np.int32, len(values))


def fetch(connection: Connection, statement: Select[Any], readers: Sequence[Reader]) -> list[np.ndarray]:
    """Return a query's columns as arrays, which readers make from one piece of a column at a time."""
    pieces = [[reader(()) for reader in readers], *fetch_pieces(connection, statement, readers)]
    return [np.concatenate(column) for column in zip(*pieces, strict=True)]


def fetch_pieces(
    connection: Connection, statement: Select[Any], readers: Sequence[Reader]
) -> Iterator[list[np.ndarray]]:
    """Yield the same in pieces of a bounded number of rows."""
    for rows in fetch_rows(connection, statement):
        yield [reader(values) for reader, values in zip(readers, zip(*rows, strict=True), strict=True)]


def fetch_rows(connection: Connection, statement: Select[Any]) -> Iterator[Sequence[Any]]:
    """Yield a query's rows in pieces."""
    if connection.dialect.name != "sqlite":
        # the server keeps the rest until it is asked for, where its driver would else hold all rows
        plain = [type_coerce(column, NullType()) for column in statement.selected_columns]
        untyped = statement.with_only_columns(*plain, maintain_column_froms=True)
        with connection.execute(untyped, execution_options={"yield_per": ROWS_AT_ONCE}) as result:
            yield from result.partitions()
        return
    # the driver's own rows: SQLAlchemy's cost several times more, and there may be a million of them
    cursor: Any = connection.execute(statement).cursor
    while rows := cursor.fetchmany(ROWS_AT_ONCE):
        yield rows


def of_cells(connection: Connection, statement: Select[Any], numbers: Sequence[int]) -> Iterator[Select[Any]]:
    """Yield the statements that select what a statement does of some cells, given their numbers."""
    if connection.scalar(select(func.count()).select_from(CELLS)) == len(numbers):
        yield statement
        return
    for some in chunks(sorted(set(numbers))):
        yield statement.where(TRIALS.c.cell.in_(some))


def bundles(sweep: AnySet) -> Iterator[AnySet]:
    """Yield a sweep in parts that are read at once: many small cells, or one large cell."""
    ends = np.flatnonzero(np.diff(sweep.first[:-1] // ROWS_AT_ONCE)) + 1
    for bundle in np.split(np.arange(len(sweep.parts)), ends):
        yield replace(sweep, parts=tuple(sweep.parts[index] for index in bundle))


def outcome_rows(cell: int) -> Select[Any]:
    """Return the query for the outcomes of one cell, with their details."""
    return (
        select(TRIALS, DETAILS.c.curve, DETAILS.c.measures, DETAILS.c.error)
        .join(DETAILS, DETAILED, isouter=True)
        .where(TRIALS.c.cell == cell, TRIALS.c.state.is_not(None))
    )


def outcome_of(trial: Trial, row: RowMapping) -> Outcome:
    """Return a row of trials joined with details as an outcome."""
    for name, reader in READERS.items():
        reader([row[name]])  # raises an error for a value of another type
    curve, errors = read_curves(row["curve"])
    return Outcome(
        trial=trial,
        **{name: row[name] for name in RESULTS},
        error=row["error"],
        curve=curve,
        errors=errors,
        measures=read_measures(row["measures"]),
    )


SIGNED = ((0, 2**63 - 1), (-(2**63), -1))
"""The signed numbers of all seeds, in the order of the seeds."""


def outcomes_between(connection: Connection, cell: Any, first: int, last: int) -> list[Outcome]:
    """Return the next outcomes of a cell's row, at most ``OUTCOMES_AT_ONCE``, by their signed seeds."""
    query = outcome_rows(cell.id).where(TRIALS.c.seed.between(first, last)).order_by(TRIALS.c.seed)
    rows = connection.execute(query.limit(OUTCOMES_AT_ONCE)).mappings().all()
    if not rows:
        return []
    template = read_template(cell.trial, cell.hash)
    numbered = zip(seeds([row["seed"] for row in rows]).tolist(), rows, strict=True)
    return [outcome_of(template.with_seed(seed), row) for seed, row in numbered]
