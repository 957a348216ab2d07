"""Checks whether a store is sound; damaged rows can be moved aside, so that their trials are trained again."""

import json
import os
import shutil
import sqlite3
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from sqlalchemy import Dialect, Table

from elegans.display import displayed
from elegans.errors import StoreError, UnknownKind, brief, counted, printable
from elegans.store.cells import columns_of, read_record
from elegans.store.changes import read_runs
from elegans.store.codec import read_curves, read_measures
from elegans.store.connection import BUSY_SECONDS, UNREADABLE, CorruptStore, Database, MalformedFile, translated
from elegans.store.liveness import Clock, is_alive
from elegans.store.location import locate
from elegans.store.queries import unsigned
from elegans.store.schema import CELLS, CODES, DETAILS, RUNS, TRIALS, checks
from elegans.training.trial import Trial

SHOWN = 20
"""Maximum number of damaged rows that a report lists."""
LONGEST_PROBLEM = 300
"""Maximum number of characters that it shows of a message from SQLite."""
HEADER = 100
"""Bytes of the header of an SQLite file."""
LARGEST_PADDED = 1 << 40
"""Bytes of the largest file that is filled up."""
_CHECKED = (CELLS, RUNS, CODES, TRIALS, DETAILS)
_ORPHANS = {
    TRIALS: ("a trial must belong to a cell of the store", "SELECT 1 FROM cells WHERE id = own.cell"),
    DETAILS: (
        "details must be of a trial that the store has",
        "SELECT 1 FROM trials AS t WHERE t.cell = own.cell AND t.seed = own.seed",
    ),
    CODES: ("code must be of a run that the store has", "SELECT 1 FROM runs WHERE id = own.run"),
}
"""What the rows of a table need, and the query that finds it."""


@dataclass(frozen=True)
class DamagedRow:
    """A row of a store that differs from what elegans wrote.

    Args:
        table, key: where it is.
        why: the rule that it breaks.
        columns: the correct dotted columns of a cell, from its trial; None if the row should be moved aside.
    """

    table: Table
    key: tuple[Any, ...]
    why: str
    columns: str | None = None

    def __str__(self) -> str:
        key = {column.name: value for column, value in zip(self.table.primary_key, self.key, strict=True)}
        if type(key.get("seed")) is int:
            key["seed"] = unsigned(key["seed"])
        named = ", ".join(f"{name} {brief(str(value))}" for name, value in key.items())
        return f"{self.table.name:8}{named}: {brief(self.why, LONGEST_PROBLEM)}"


@displayed
@dataclass(frozen=True)
class Report:
    """The result of a check.

    Args:
        place: the store.
        counts: how many rows each table has.
        problems: what SQLite reports about the file itself.
        rows: the damaged rows, including sound ones that belong to them.
        aside: how many rows were moved aside, or None if nothing was repaired.
        kept: the former file, if it had to be rewritten.
    """

    place: str
    counts: dict[str, int]
    problems: tuple[str, ...]
    rows: tuple[DamagedRow, ...]
    aside: int | None = None
    kept: Path | None = None

    @property
    def sound(self) -> bool:
        """Whether there is no damage."""
        return not self.problems and not self.rows

    @property
    def repaired(self) -> bool:
        """Whether damage was repaired and left at least one trial."""
        return self.aside is not None and self._trials > 0

    @property
    def _trials(self) -> int:
        """How many trials are left where the damaged rows were moved aside."""
        return self.counts.get("trials", 0) - sum(row.table is TRIALS for row in self.rows)

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        lines = [
            f"store   {printable(self.place)}: {counts}",
            *(f"file    {brief(problem, LONGEST_PROBLEM)}" for problem in self.problems),
        ]
        lines += [str(row) for row in self.rows[:SHOWN]]
        if len(self.rows) > SHOWN:
            lines.append(f"        and {len(self.rows) - SHOWN:,} more")
        if self.sound and not self.counts.get("trials"):
            lines.append("empty   the store has no trials")
        elif self.sound:
            lines.append("sound   every row can be read, and belongs to an existing cell")
        elif self.aside is None:
            lines.append("damaged such rows can be moved aside and their trials trained again: elegans check --repair")
        else:
            lines += self._repairs()
        return "\n".join(lines)

    def _repairs(self) -> list[str]:
        where = f"; the former file is {self.kept}" if self.kept else ""
        moved = f"{counted(self.aside or 0, 'row')} moved into tables named aside_…; nothing is deleted{where}"
        if self._trials:
            return [f"repaired trials recovered: {self._trials:,}; {moved}"]
        return [f"lost    no trial could be recovered; {moved}"]


def check(store: str | Path, repair: bool = False) -> Report:
    """Check every row of a store in an SQLite file.

    Args:
        store: its place.
        repair: whether to move damaged rows aside, into tables of the same file. A file that is itself damaged is
            rewritten from all that can be read of it, and kept beside the new one.

    Raises:
        StoreError: it is not a store in an SQLite file, or a repair would disturb a running run.
    """
    location = locate(store)
    file = location.file
    if file is None:
        raise StoreError(f"only a store in an SQLite file can be checked: {printable(location.name)}")
    if not repair:
        return _examined(file)
    _refuse_living(file)
    with suppress(MalformedFile):  # what cannot be repaired in place can be copied
        report = _examined(file)
        if report.sound:
            return report
        moved = _move_aside(file, report.rows)
        if not _examined(file).problems:
            return replace(report, aside=moved)
    former, problem = _written_anew(file)
    report = _examined(file)
    return replace(report, problems=(problem,), aside=_move_aside(file, report.rows), kept=former)


class _NoText(bytes):
    """A text that is not UTF-8, as its bytes: rows are compared with it later."""


def _text(raw: bytes) -> str | _NoText:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _NoText(raw)


def _examined(file: Path) -> Report:
    with (
        closing(Database(locate(file), read_only=True)) as database,
        translated(str(file)),
        closing(database.engine.raw_connection()) as pooled,
    ):
        raw: sqlite3.Connection = pooled.driver_connection  # type: ignore[assignment]
        raw.text_factory = _text
        problems = [said for said in _said_by_sqlite(raw) if said != "ok"]
        rows: dict[tuple[str, tuple[Any, ...]], DamagedRow] = {}
        counts: dict[str, int] = {}
        for table in _CHECKED:
            try:
                (counts[table.name],) = raw.execute(f"SELECT count(*) FROM {table.name}").fetchone()
                for row in (*_rule_breaking(raw, table, database.engine.dialect), *_unreadable(raw, table)):
                    rows.setdefault((table.name, row.key), row)
            except sqlite3.Error as error:
                problems.append(f"the table {table.name} can only be read in part: {error}")
        for row in _gone_with(raw, [*rows.values()]):
            rows.setdefault((row.table.name, row.key), row)
        return Report(str(file), counts, tuple(problems), tuple(rows.values()))


def _said_by_sqlite(raw: sqlite3.Connection) -> list[str]:
    try:
        return [said for (said,) in raw.execute("PRAGMA integrity_check(20)")]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return [str(error)]


def _rule_breaking(raw: sqlite3.Connection, table: Table, dialect: Dialect) -> Iterator[DamagedRow]:
    """Yield the rows that the database would refuse if they were written now."""
    rules = []
    for check in checks(table):
        rule = str(check.name).replace("_", " ") if check.name else str(check.sqltext)
        rules.append((rule, f"NOT ({check.sqltext})"))
    for column in table.columns:
        kinds = [column.type.compile(dialect).lower(), *(["null"] if column.nullable else [])]
        listed = ", ".join(f"'{kind}'" for kind in kinds)
        rules.append((f"{column.name} must be {' or '.join(kinds)}", f"typeof(own.{column.name}) NOT IN ({listed})"))
    if table is TRIALS:
        rules.append(("probes must be JSON", "probes IS NOT NULL AND NOT json_valid(probes)"))
    if table in _ORPHANS:
        rule, query = _ORPHANS[table]
        rules.append((rule, f"NOT EXISTS ({query})"))
    keys = ", ".join(column.name for column in table.primary_key)
    which = " ".join(f"WHEN {condition} THEN {index}" for index, (_, condition) in enumerate(rules))
    broken = " OR ".join(condition for _, condition in rules)
    for *key, index in raw.execute(f"SELECT {keys}, CASE {which} END FROM {table.name} AS own WHERE {broken}"):
        yield DamagedRow(table, tuple(key), rules[index][0])


def _unreadable(raw: sqlite3.Connection, table: Table) -> Iterator[DamagedRow]:
    """Yield cells that do not have the hash or the columns of their trial, and details whose bytes cannot be read."""
    if table is CELLS:
        for number, key, trial, columns in raw.execute("SELECT id, hash, trial, columns FROM cells"):
            try:
                correct = columns_of(Trial.parse(read_record(trial, key)))
                if not _same_json(columns, correct):
                    yield DamagedRow(table, (number,), "the columns of a cell must match its trial", correct)
            except UnknownKind:  # a class that is not imported, which alone knows its columns
                pass
            except (CorruptStore, *UNREADABLE) as error:
                yield DamagedRow(table, (number,), f"the trial of a cell must be valid: {error}")
    if table is DETAILS:
        for cell, seed, curve, measures in raw.execute("SELECT cell, seed, curve, measures FROM details"):
            try:
                read_curves(curve)
                read_measures(measures)
            except UNREADABLE as error:
                yield DamagedRow(table, (cell, seed), f"curves and measures must be readable: {error}")


def _same_json(text: str, other: str) -> bool:
    with suppress(*UNREADABLE):
        return json.dumps(json.loads(text), sort_keys=True) == json.dumps(json.loads(other), sort_keys=True)
    return False


def _gone_with(raw: sqlite3.Connection, rows: Sequence[DamagedRow]) -> Iterator[DamagedRow]:
    """Yield the rows that belong to damaged ones: a cell with its trials, and an outcome with its details."""
    for row in rows:
        if row.columns is not None or row.table not in (CELLS, TRIALS, DETAILS):
            continue
        condition = "cell IS ?" if row.table is CELLS else "cell IS ? AND seed IS ?"
        for other in (TRIALS, DETAILS):
            with suppress(sqlite3.Error):
                for key in raw.execute(f"SELECT cell, seed FROM {other.name} WHERE {condition}", row.key):
                    yield DamagedRow(other, key, f"it belongs to a damaged row of {row.table.name}")


def _refuse_living(file: Path) -> None:
    with suppress(CorruptStore, MalformedFile), closing(Database(locate(file), read_only=True)) as database:
        for run in database.read(read_runs):
            if is_alive(run, Clock(time.time())):
                said = f"run {run.id} ({brief(run.host)}:{run.pid}) is running on {printable(str(file))}"
                raise StoreError(f"a store must be idle to be repaired: {said}")


def _move_aside(file: Path, rows: Sequence[DamagedRow]) -> int:
    """Move rows into tables beside their own in one transaction, and return how many."""
    moved = 0
    with translated(str(file)), closing(sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None)) as raw:
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("BEGIN IMMEDIATE")
        for row in rows:
            name, aside = row.table.name, f"aside_{row.table.name}"
            same = " AND ".join(
                f"{column.name} IS CAST(? AS TEXT)" if isinstance(value, _NoText) else f"{column.name} IS ?"
                for column, value in zip(row.table.primary_key, row.key, strict=True)
            )
            raw.execute(f"CREATE TABLE IF NOT EXISTS {aside} AS SELECT *, '' AS why, 0.0 AS moved FROM {name} WHERE 0")
            copy = f"INSERT INTO {aside} SELECT *, ?, ? FROM {name} WHERE {same}"
            moved += raw.execute(copy, (row.why, time.time(), *row.key)).rowcount
            if row.columns is None:
                raw.execute(f"DELETE FROM {name} WHERE {same}", row.key)
            else:
                raw.execute(f"UPDATE {name} SET columns = ? WHERE {same}", (row.columns, *row.key))
        raw.execute("COMMIT")
        raw.execute("REINDEX")
    return moved


def _written_anew(file: Path) -> tuple[Path, str]:
    """Replace a damaged file by a new one with all rows that can be read; return where the old one is kept."""
    draft, former, padded = (file.with_name(f"{file.name}.{end}") for end in ("new", "damaged", "padded"))
    for other in (draft, former, padded):
        if other.exists():
            raise StoreError(f"a repair must not overwrite a file: {other}")
    short = _pad(file, padded)
    Database(locate(draft)).close()
    with (
        translated(str(file)),
        closing(sqlite3.connect(padded if short else file)) as old,
        closing(sqlite3.connect(draft, isolation_level=None)) as new,
    ):
        said = [*short, *copy_rows(old, new)]
    padded.unlink(missing_ok=True)
    for end in ("-wal", "-shm", ""):  # closing the new file has written its log into it
        with suppress(FileNotFoundError):
            file.with_name(file.name + end).rename(former.with_name(former.name + end))
    draft.rename(file)
    return former, "; ".join(said) or "the file had to be rewritten"


def _pad(file: Path, padded: Path) -> list[str]:
    """Copy a file that is shorter than its header says, with pages of zeros at its end; return what is missing.

    SQLite reads nothing of a file that is too short. Of the copy it reads all that does not lie on a missing page.
    """
    with file.open("rb") as stream:
        head = stream.read(HEADER)
    if len(head) < HEADER or not head.startswith(b"SQLite format 3\0"):
        return []
    (size,), (pages,) = struct.unpack(">H", head[16:18]), struct.unpack(">I", head[28:32])
    whole, actual = (65536 if size == 1 else size) * pages, file.stat().st_size
    log = file.with_name(f"{file.name}-wal")  # it may hold what is missing
    if not actual < whole <= LARGEST_PADDED or (log.exists() and log.stat().st_size):
        return []
    shutil.copyfile(file, padded)
    os.truncate(padded, whole)
    return [f"the file was cut short: {actual} of {whole} bytes are left"]


def copy_rows(old: sqlite3.Connection, new: sqlite3.Connection) -> list[str]:
    """Copy all rows that can be read from a damaged store to a new one; return what could not be read."""
    said = []
    old.text_factory = bytes
    for table in _CHECKED:
        try:
            new.execute("BEGIN")
            _copy_table(old, new, table)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            said.append(f"the table {table.name} could only be read in part: {error}")
        finally:
            new.execute("COMMIT")
    return said


def move_damaged_rows(file: Path) -> int:
    """Move the damaged rows of a file that is itself sound aside, and return how many."""
    return _move_aside(file, _examined(file).rows)


def _copy_table(old: sqlite3.Connection, new: sqlite3.Connection, table: Table) -> None:
    """Copy the rows of a table from both ends as far as they can be read, and then the rows of each cell."""
    columns = [column.name for column in table.columns]
    texts = [f"typeof({name})" for name in columns]
    write = f"INSERT OR IGNORE INTO {table.name} ({', '.join(columns)}) VALUES ({{}})"

    def put(row: Sequence[Any]) -> None:
        values, kinds = row[: len(columns)], row[len(columns) :]
        marks = ", ".join("CAST(? AS TEXT)" if kind == b"text" else "?" for kind in kinds)
        with suppress(sqlite3.IntegrityError):  # a value that the new table refuses
            new.execute(write.format(marks), values)

    def copy(condition: str, order: str) -> None:
        ordered = ", ".join(f"{column.name} {order}" for column in table.primary_key)
        rows = f"SELECT {', '.join(columns + texts)} FROM {table.name} {condition} ORDER BY {ordered}"
        read = 0
        try:
            for row in old.execute(rows):
                read += 1
                put(row)
        except sqlite3.Error:  # Python steps one row ahead: the error took with it a row that was read
            with suppress(sqlite3.Error):
                for row in old.execute(f"{rows} LIMIT 1 OFFSET {read}"):
                    put(row)
            raise

    try:
        copy("", "ASC")
    except (sqlite3.Error, UnicodeDecodeError):
        cells = [number for (number,) in new.execute("SELECT id FROM cells")] if "cell" in columns else []
        for condition, order in product((f"WHERE cell = {number}" for number in cells), ("ASC", "DESC")):
            with suppress(sqlite3.Error, UnicodeDecodeError):
                copy(condition, order)
        copy("", "DESC")  # raises what hinders it
