"""The tables of a store."""

from typing import Any

from sqlalchemy import Column, ColumnElement, ForeignKey, MetaData, String, Table, Text

from elegans.sweeps.columns import LongWhole, Number, Packed, ShortText, Stored, Whole, stored
from elegans.training.states import LONGEST_ENGINE, STATES

FORMAT, VERSION = "elegans-store", "3"
"""The format's name and version: no other version can be read."""

LATEST = 253402300799
"""The last second of the year 9999, in seconds since 1970."""

TABLES = MetaData()

META = Table("meta", TABLES, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False))
"""The format's name and version."""

CELLS = Table(
    "cells",
    TABLES,
    Column("id", Whole(low=1), primary_key=True),
    Column("hash", ShortText(64), nullable=False, unique=True),
    Column("trial", Stored(), nullable=False),
    Column("columns", Stored(), nullable=False),
    Column("wanted", Whole(low=0), nullable=False),
)
"""One row per cell: its trial without the seed, that trial's dotted columns, and how many trials were requested."""

TRIALS = Table(
    "trials",
    TABLES,
    Column("cell", Whole(low=1), ForeignKey("cells.id"), primary_key=True, autoincrement=False),
    Column("seed", LongWhole(), primary_key=True, autoincrement=False),
    Column("state", ShortText(16, among=STATES)),
    Column("solved_at", LongWhole(low=0, high=2**53)),
    Column("test_error", Number(low=0, high=1)),
    Column("train_error", Number(low=0, high=1)),
    Column("steps", LongWhole(low=0, high=2**53)),
    Column("seconds", Number(low=0, high=1e10)),
    Column("evaluation_seconds", Number(low=0, high=1e10)),
    Column("engine", ShortText(LONGEST_ENGINE)),
    Column("probes", Stored()),
    Column("run", Whole()),
    Column("claim", Whole()),
    Column("attempts", Whole(low=0, high=2**31 - 1), nullable=False),
    Column("recorded", Number(low=0, high=LATEST)),
    sqlite_with_rowid=False,
)
"""One row per network. Cell and seed identify the trial in a few bytes, and cells are contiguous on disk.

``state`` is null until the trial has an outcome, ``run`` is the run that trained it, ``claim`` the run that is
training it now, and ``attempts`` counts the outcomes. Seeds of 2^63 and above are stored minus 2^64, since
a column's integers are signed.
"""

DETAILS = Table(
    "details",
    TABLES,
    Column("cell", Whole(low=1), ForeignKey("cells.id"), primary_key=True, autoincrement=False),
    Column("seed", LongWhole(), primary_key=True, autoincrement=False),
    Column("curve", Packed()),
    Column("measures", Packed()),
    Column("error", Stored()),
    sqlite_with_rowid=False,
)
"""Large data that is rarely read: packed curve, packed measures, traceback."""

RUNS = Table(
    "runs",
    TABLES,
    Column("id", Whole(low=1), primary_key=True),
    Column("token", ShortText(32), nullable=False),
    Column("name", Stored()),
    Column("host", Stored(), nullable=False),
    Column("pid", Whole(low=0, high=2**31 - 1), nullable=False),
    Column("process_started", Number(low=0, high=LATEST), nullable=False),
    Column("boot", Stored()),
    Column("started", Number(low=0, high=LATEST), nullable=False),
    Column("heartbeat", Number(low=0, high=LATEST), nullable=False),
    Column("finished", Number(low=0, high=LATEST)),
    Column("cells", Whole(low=0), nullable=False),
    Column("trials", Whole(low=0), nullable=False),
    Column("missing", Whole(low=0), nullable=False),
)
"""One row per run: its process, its start, and how much it set out to do.

The process is identified by ``host``, ``pid``, ``process_started`` and ``boot`` (see ``liveness.Process``), which is
missing in older stores.
"""

CODES = Table(
    "codes",
    TABLES,
    Column("run", Whole(low=1), ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    Column("part", ShortText(255), primary_key=True),
    Column("code", ShortText(64), nullable=False),
)
"""One row per run and user-defined class: its family and kind, and the hash of its code. Older stores lack it."""


def contradicts(state: Any, solved_at: Any, steps: Any, never: Any) -> Any:
    """Return whether an outcome contradicts itself: an SQL condition for columns, an array for arrays.

    Args:
        state: as in ``Outcome``.
        solved_at: as in ``Outcome``.
        steps: as in ``Outcome``.
        never: whether ``solved_at`` is missing.
    """
    solved, not_solved = state == "solved", (state == "unsolved") | (state == "failed") | (state == "interrupted")
    return (solved & (never | (solved_at > steps))) | (not_solved & ~never)


CONTRADICTION: ColumnElement[bool] = contradicts(
    TRIALS.c.state, TRIALS.c.solved_at, TRIALS.c.steps, TRIALS.c.solved_at.is_(None)
)
"""Condition for rows that no engine can have produced."""
NO_CONTRADICTION = "a solved trial must be solved at one of its steps, and an unsolved one at none"

for _table in (CELLS, TRIALS, DETAILS, RUNS, CODES):
    for _column in _table.columns:
        stored(_column).place, stored(_column).nullable = f"{_table.name}.{_column.name}", bool(_column.nullable)
