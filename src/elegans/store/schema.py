"""The tables of a store. What a value may be is said here alone, as types and CHECKs: the database refuses all others.

In SQLite the tables are STRICT, so that it also refuses values of other types.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    REAL,
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine

from elegans.training.states import LONGEST_ENGINE, STATES

FORMAT, VERSION = "elegans-store", "4"
"""The format's name and version."""
FORMER_VERSION = "3"
"""The version that is brought up to date: it has the same columns, without types and CHECKs."""

TABLES = MetaData()

_WHOLE = Integer()
_LONG = BigInteger().with_variant(Integer(), "sqlite")
_NUMBER = Float().with_variant(REAL(), "sqlite")
_TEXT, _BYTES = Text(), LargeBinary()
_STEP, _MOMENT = (0, 2**53), (0, 253402300799)
"""Bounds of steps, and of seconds since 1970 (to the end of the year 9999)."""
_SHARE, _SECONDS = (0, 1), (0, 1e10)


def _between(name: str, kind: TypeEngine[Any], bounds: tuple[float, float], **options: Any) -> Column[Any]:
    """Return a column of numbers within bounds, both included."""
    return Column(name, kind, CheckConstraint(f"{name} BETWEEN {bounds[0]} AND {bounds[1]}"), **options)


def _at_least(name: str, least: int, *constraints: Any, **options: Any) -> Column[Any]:
    return Column(name, _WHOLE, *constraints, CheckConstraint(f"{name} >= {least}"), **options)


def _name(name: str, longest: int, **options: Any) -> Column[Any]:
    kind = String(longest).with_variant(Text(), "sqlite")
    return Column(name, kind, CheckConstraint(f"length({name}) BETWEEN 1 AND {longest}"), **options)


def _cell() -> Column[Any]:
    return Column("cell", _WHOLE, ForeignKey("cells.id"), primary_key=True, autoincrement=False)


def _seed() -> Column[Any]:
    return Column("seed", _LONG, primary_key=True, autoincrement=False)


META = Table("meta", TABLES, Column("key", String(64).with_variant(Text(), "sqlite"), primary_key=True),
             Column("value", Text, nullable=False), sqlite_strict=True)  # fmt: skip
"""The format's name and version."""

CELLS = Table(
    "cells",
    TABLES,
    _at_least("id", 1, primary_key=True),
    _name("hash", 64, nullable=False, unique=True),
    Column("trial", _TEXT, nullable=False),
    Column("columns", _TEXT, nullable=False),
    _at_least("wanted", 0, nullable=False),
    sqlite_strict=True,
    sqlite_autoincrement=True,  # the number of a cell that is gone is never another one's
)
"""One row per cell: its trial without the seed, that trial's dotted columns, and how many trials were requested."""

TRIALS = Table(
    "trials",
    TABLES,
    _cell(),
    _seed(),
    Column("state", String(16).with_variant(Text(), "sqlite"), CheckConstraint(f"state IN {STATES}")),
    _between("solved_at", _LONG, _STEP),
    _between("test_error", _NUMBER, _SHARE),
    _between("train_error", _NUMBER, _SHARE),
    _between("steps", _LONG, _STEP),
    _between("seconds", _NUMBER, _SECONDS),
    _between("evaluation_seconds", _NUMBER, _SECONDS),
    _name("engine", LONGEST_ENGINE),
    Column("probes", _TEXT),
    Column("run", _WHOLE),
    Column("claim", _WHOLE),
    _between("attempts", _WHOLE, (0, 2**31 - 1), nullable=False),
    _between("recorded", _NUMBER, _MOMENT),
    CheckConstraint(
        "(state IS NULL) = (steps IS NULL) AND (state IS NULL) = (seconds IS NULL)"
        " AND (state IS NULL) = (evaluation_seconds IS NULL)",
        name="every_outcome_has_steps_and_seconds",
    ),
    CheckConstraint(
        "CASE state WHEN 'solved' THEN solved_at IS NOT NULL AND solved_at <= steps WHEN 'diverged' THEN 1 = 1"
        " ELSE solved_at IS NULL END",
        name="a_solved_trial_is_solved_at_one_of_its_steps_and_no_other_is",
    ),
    sqlite_strict=True,
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
    _cell(),
    _seed(),
    Column("curve", _BYTES),
    Column("measures", _BYTES),
    Column("error", _TEXT),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Large data that is rarely read: packed curve, packed measures, traceback."""

RUNS = Table(
    "runs",
    TABLES,
    _at_least("id", 1, primary_key=True),
    _name("token", 32, nullable=False),
    Column("name", _TEXT),
    Column("host", _TEXT, nullable=False),
    _between("pid", _WHOLE, (0, 2**31 - 1), nullable=False),
    _between("process_started", _NUMBER, _MOMENT, nullable=False),
    Column("boot", _TEXT),
    _between("started", _NUMBER, _MOMENT, nullable=False),
    _between("heartbeat", _NUMBER, _MOMENT, nullable=False),
    _between("finished", _NUMBER, _MOMENT),
    _at_least("cells", 0, nullable=False),
    _at_least("trials", 0, nullable=False),
    _at_least("missing", 0, nullable=False),
    sqlite_strict=True,
)
"""One row per run: its process, its start, and how much it set out to do.

The process is identified by ``host``, ``pid``, ``process_started`` and ``boot`` (see ``liveness.Process``).
"""

CODES = Table(
    "codes",
    TABLES,
    Column("run", _WHOLE, ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    _name("part", 255, primary_key=True),
    _name("code", 64, nullable=False),
    sqlite_strict=True,
)
"""One row per run and user-defined class: its family and kind, and the hash of its code."""

INDEXES = {"claims": "claim", "recorded": "recorded"}
"""Indexes of the trials' table by name: which trials are being trained, and which were recorded recently."""


def checks(table: Table) -> Iterator[CheckConstraint]:
    """Yield the CHECKs of a table."""
    for part in (table, *table.columns):
        yield from (constraint for constraint in part.constraints if isinstance(constraint, CheckConstraint))
