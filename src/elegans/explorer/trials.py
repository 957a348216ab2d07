"""All trials of a store as a table that is filtered, searched, sorted and cut into pages by the database.

Conditions of a search on cells are decided by their positions on the axes, without the database; only pages are read.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import BigInteger, ColumnElement, Connection, cast, exists, func, select

from elegans.errors import ExperimentError, printable
from elegans.explorer.axes import Axis
from elegans.explorer.cells import Cells
from elegans.store import Store
from elegans.store.queries import DETAILED, signed, unsigned
from elegans.store.schema import DETAILS, TRIALS
from elegans.training.states import STATES

PAGE = 100
"""The number of trials on a page."""
WRITTEN = 100_000
"""The maximum number of trials that are written as CSV."""
WHOLE = 1.0
"""If at least this share of the cells is chosen, the database gets no list of them."""
NUMBERS = ("seed", "solved_at", "test_error", "train_error", "steps", "seconds")
TEXTS = ("state", "engine")
COLUMNS = ("seed", "state", "solved_at", "test_error", "train_error", "steps", "seconds", "engine")
COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
SPACED = re.compile(rf"\s*({'|'.join(COMPARISONS)})\s*")
CONDITION = re.compile(rf"(.+?)({'|'.join(COMPARISONS)})(.+)")


@dataclass(frozen=True)
class TrialsQuery:
    """Which trials are shown, and in which order.

    Args:
        cells: the cells to which they belong.
        conditions: what else they must fulfil.
        sort: ``cell``, an axis, or a column of trials; ties are in the order of cells and seeds.
        falling: whether the largest comes first; trials without a value are last in any case.
        offset: how many come before the page.
    """

    cells: np.ndarray
    conditions: Sequence[ColumnElement[bool]] = ()
    sort: str = "cell"
    falling: bool = False
    offset: int = 0

    @classmethod
    def parse(cls, query: Mapping[str, str], cells: Cells) -> "TrialsQuery":
        """Return what an address asks for.

        Args:
            query: ``at.AXIS`` and ``state`` with a value each; ``q``: words that must all be in a cell's values
                or in a traceback, and conditions such as ``width>=100``; ``sort``, with a minus where the largest
                comes first; ``offset``.
            cells: the store's cells.

        Raises:
            ExperimentError: the query names what there is not.
        """
        sort = query.get("sort") or "cell"
        known = ("cell", *COLUMNS, *(axis.name for axis in cells.axes))
        if sort.removeprefix("-") not in known:
            raise ExperimentError(f"trials are sorted by {', '.join(known)}: sort={printable(sort[:40])!r}")
        offset = query.get("offset") or "0"
        if not offset.isdecimal() or len(offset) > 15:
            raise ExperimentError(f"offset must be a whole number: offset={printable(offset[:40])!r}")
        mask = filtered(query, cells)
        conditions = list(_state(query.get("state") or ""))
        for word in SPACED.sub(r"\1", query.get("q") or "").split():
            among, condition = _searched(word.strip(",") or word, cells)
            mask = mask & among
            conditions += [] if condition is None else [condition]
        return cls(mask, conditions, sort.removeprefix("-"), sort.startswith("-"), int(offset))


def filtered(query: Mapping[str, str], cells: Cells) -> np.ndarray:
    """Return which cells have the values that a query gives as ``at.AXIS``."""
    mask = np.ones(len(cells.numbers), bool)
    for name, value in query.items():
        if name.startswith("at.") and value:
            index, axis = cells.axis(name[3:])
            mask &= cells.codes[:, index] == axis.place(value)
    return mask


def _state(state: str) -> Iterator[ColumnElement[bool]]:
    if state and state not in STATES:
        raise ExperimentError(f"a state must be one of {', '.join(STATES)}: state={printable(state[:40])!r}")
    if state:
        yield TRIALS.c.state == state


def _searched(word: str, cells: Cells) -> tuple[np.ndarray, ColumnElement[bool] | None]:
    """Return which cells a word of a search leaves, and what their trials must fulfil."""
    everywhere = np.ones(len(cells.numbers), bool)
    if word.lower() in STATES:
        return everywhere, TRIALS.c.state == word.lower()
    if parts := CONDITION.fullmatch(word):
        name, sign, value = parts.groups()
        if name in COLUMNS:
            return everywhere, _condition(name, sign, value, word)
        index, axis = _axis(name, cells, word)
        return _fulfil(axis, sign, value, word)[cells.codes[:, index]], None
    text = word.lower()
    if any(text in (axis.name, *axis.word.split()) for axis in cells.axes):
        return everywhere, None
    hits = [
        np.array([text == value.lower() if axis.numeric else text in value.lower() for value in axis.texts])
        for axis in cells.axes
    ]
    if any(hit.any() for hit in hits):
        return np.any([hit[cells.codes[:, index]] for index, hit in enumerate(hits)], axis=0), None
    failed = exists().where(DETAILED, DETAILS.c.error.icontains(word, autoescape=True))
    return cells.column("failed") > 0, (TRIALS.c.state == "failed") & failed


def _axis(name: str, cells: Cells, word: str) -> tuple[int, Axis]:
    named = [
        axis.name for axis in cells.axes if name in (axis.name, axis.name.rpartition(".")[2], axis.word)
    ]  # as they are called in the table, in cells and by their last part
    if len(named) != 1:
        known = ", ".join([*COLUMNS, *(axis.name for axis in cells.axes)])
        raise ExperimentError(f"a condition must be on {known}: {printable(word[:60])!r}")
    return cells.axis(named[0])


def _number(text: str, word: str) -> float | int:
    try:
        return int(text) if text.lstrip("-").isdecimal() and len(text) < 20 else float(text)
    except ValueError:
        raise ExperimentError(
            f"a condition on a number must compare it with a number: {printable(word[:60])!r}"
        ) from None


def _texts_only(sign: str, word: str) -> None:
    if sign not in ("=", "!="):
        raise ExperimentError(
            f"values that are not numbers can only be compared with = or !=: {printable(word[:60])!r}"
        )


def _condition(name: str, sign: str, value: str, word: str) -> ColumnElement[bool]:
    """Return a condition on a column of trials."""
    if name in TEXTS:
        _texts_only(sign, word)
        return COMPARISONS[sign](TRIALS.c[name], value)  # type: ignore[no-any-return]
    number = _number(value, word)
    number = signed(number) if name == "seed" and isinstance(number, int) else number
    return COMPARISONS[sign](TRIALS.c[name], number)  # type: ignore[no-any-return]


def _fulfil(axis: Axis, sign: str, value: str, word: str) -> np.ndarray:
    """Return which values of an axis fulfil a condition."""
    compare = COMPARISONS[sign]
    if value in axis.texts or not axis.numeric:
        if sign in ("=", "!="):
            return np.array([compare(text, value) for text in axis.texts], bool)
        if not axis.numeric:
            _texts_only(sign, word)
    number = _number(value, word)
    return np.array([known is not None and compare(known, number) for known in axis.values], bool)


def trials_page(store: Store, cells: Cells, query: TrialsQuery, size: int | None = None) -> dict[str, Any]:
    """Return a page of the trials that have an outcome, as JSON has it, and how many there are in all.

    Args:
        store: the store.
        cells: its cells.
        query: which trials, and in which order.
        size: the maximum number; ``PAGE`` by default.
    """
    most = PAGE if size is None else size

    def read(connection: Connection) -> tuple[list[Any], int]:
        counts = _counts(connection, cells, query)
        reading = _by_number if query.sort in COLUMNS else _by_cell
        return reading(connection, cells, query, counts, most), int(counts.sum())

    rows, total = store.database.read(read)
    return {"rows": [_row(row, cells) for row in rows], "total": total, "offset": query.offset, "page": most}


def trials_csv(store: Store, cells: Cells, query: TrialsQuery) -> pd.DataFrame:
    """Return the trials of a query as a table, at most ``WRITTEN`` of them."""
    rows = trials_page(store, cells, query, WRITTEN)["rows"]
    axes = pd.DataFrame([row["axes"] for row in rows], columns=[axis.name for axis in cells.axes])
    return pd.concat([axes, pd.DataFrame(rows, columns=["cell", *COLUMNS])], axis=1)


def _row(row: Any, cells: Cells) -> dict[str, Any]:
    codes = cells.codes[cells.places(row.cell)]
    axes = [axis.texts[code] for axis, code in zip(cells.axes, codes, strict=True)]
    return {
        "cell": row.cell,
        "axes": axes,
        **{name: getattr(row, name) for name in COLUMNS},
        "seed": unsigned(row.seed),
    }


_ROWS = select(TRIALS.c.cell, *(TRIALS.c[name] for name in COLUMNS)).where(TRIALS.c.state.is_not(None))


def _among(connection: Connection, cells: Cells, mask: np.ndarray) -> list[ColumnElement[bool]]:
    """Return the condition that trials belong to given cells, of which there may be a hundred thousand."""
    if mask.mean() >= WHOLE:
        return []
    numbers = ",".join(map(str, cells.numbers[mask].tolist()))
    if connection.dialect.name == "sqlite":
        return [TRIALS.c.cell.in_(select(func.json_each(f"[{numbers}]").table_valued("value").c.value))]
    listed = func.unnest(func.string_to_array(numbers, ",")).column_valued("number")
    return [TRIALS.c.cell.in_(select(cast(listed, BigInteger)))]


def _counts(connection: Connection, cells: Cells, query: TrialsQuery) -> np.ndarray:
    """Return how many trials of each cell are shown."""
    if not query.conditions:
        return np.where(query.cells, cells.column("ended"), 0)
    counts = np.zeros(len(cells.numbers), np.int64)
    of_cells = select(TRIALS.c.cell, func.count()).where(
        TRIALS.c.state.is_not(None), *query.conditions, *_among(connection, cells, query.cells)
    )
    rows = np.array(connection.execute(of_cells.group_by(TRIALS.c.cell)).all(), np.int64).reshape(-1, 2)
    counts[cells.places(rows[:, 0])] = rows[:, 1]
    return counts


def _by_cell(connection: Connection, cells: Cells, query: TrialsQuery, counts: np.ndarray, most: int) -> list[Any]:
    """Return the rows of a page in an order of cells: the counts say which cells they are of."""
    keys = cells.numbers if query.sort == "cell" else cells.codes[:, cells.axis(query.sort)[0]]
    order = np.argsort(-keys if query.falling else keys, kind="stable")
    order = order[counts[order] > 0]
    ends = np.cumsum(counts[order])
    first = int(np.searchsorted(ends, query.offset, side="right"))
    skipped = query.offset - int(ends[first - 1] if first else 0)
    rows: list[Any] = []
    for row in order[first:]:
        here = _ROWS.where(TRIALS.c.cell == int(cells.numbers[row]), *query.conditions).order_by(TRIALS.c.seed)
        rows += connection.execute(here.limit(most - len(rows)).offset(skipped)).all()
        skipped = 0
        if len(rows) >= most:
            break
    return rows


def _by_number(connection: Connection, cells: Cells, query: TrialsQuery, counts: np.ndarray, most: int) -> list[Any]:
    """Return the rows of a page in the order of a column; pages in the second half are read from the end."""
    here, total = _ROWS.where(*query.conditions, *_among(connection, cells, query.cells)), int(counts.sum())
    column, backwards = TRIALS.c[query.sort], query.offset > total // 2
    count = min(most, total - query.offset)
    if count <= 0:
        return []
    absent = column.is_(None)
    order = [absent.desc() if backwards else absent, column.desc() if query.falling != backwards else column]
    order += [key.desc() if backwards else key for key in (TRIALS.c.cell, TRIALS.c.seed)]
    skipped = total - query.offset - count if backwards else query.offset
    rows = connection.execute(here.order_by(*order).limit(count).offset(skipped)).all()
    return list(reversed(rows)) if backwards else list(rows)
