"""Checks whether a store is sound; damaged rows can be moved aside, so that their trials are trained again."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Table, select

from elegans.errors import StoreError, UnknownKind, brief, printable
from elegans.sweeps import liveness
from elegans.sweeps.columns import Damage, read_probes, read_template, stored
from elegans.sweeps.database import UNREADABLE, Malformed, located, open_engine, place_of, translated
from elegans.sweeps.frames import OWN_COLUMNS, columns_of, parsed, read_columns
from elegans.sweeps.measures import read_curve, read_measures
from elegans.sweeps.reading import ALWAYS, refuse_contradiction, unsigned
from elegans.sweeps.schema import CELLS, CODES, DETAILS, RUNS, TRIALS

SHOWN = 20
"""Maximum number of damaged rows that a report lists."""
LONGEST_PROBLEM = 300
"""Maximum number of characters that it shows of a message from SQLite."""


@dataclass(frozen=True)
class DamagedRow:
    """A row of a store that differs from what elegans wrote.

    Args:
        table, key: where it is.
        why: the rule that it breaks, and the value.
        mended: corrected values of columns that can be derived from others; None if the row is to be moved aside.
    """

    table: Table
    key: tuple[Any, ...]
    why: str
    mended: dict[str, Any] | None = None

    def __str__(self) -> str:
        names = [column.name for column in self.table.primary_key]
        key = dict(zip(names, self.key, strict=True))
        if type(key.get("seed")) is int:
            key["seed"] = unsigned(key["seed"])
        named = ", ".join(f"{name} {brief(str(value))}" for name, value in key.items())
        return f"{self.table.name:8}{named}: {printable(self.why)}"


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

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        lines = [
            f"store   {printable(self.place)}: {counts}",
            *(f"file    {brief(problem, LONGEST_PROBLEM)}" for problem in self.problems),
        ]
        lines += [str(row) for row in self.rows[:SHOWN]]
        if len(self.rows) > SHOWN:
            lines.append(f"        and {len(self.rows) - SHOWN} more")
        if self.sound:
            lines.append("sound   every row can be read, and belongs to an existing cell")
        elif self.aside is None:
            lines.append("damaged such rows can be moved aside and their trials trained again: elegans check --repair")
        else:
            where = f"; the former file is {self.kept}" if self.kept else ""
            lines.append(f"repaired {self.aside} rows moved into tables named aside_…; nothing is deleted{where}")
        return "\n".join(lines)


def check(store: str | Path, repair: bool = False) -> Report:
    """Check every row of a store in an SQLite file.

    Args:
        store: its place.
        repair: whether to move damaged rows aside, into tables of the same file. A file that is itself damaged is
            rewritten from all that can be read of it, and kept beside the new one.

    Raises:
        StoreError: it is not a store in an SQLite file, or a repair would disturb a running run.
    """
    place = located(store)
    if place is None:
        raise StoreError(f"a store to be checked must be an SQLite file: {printable(place_of(store))}")
    if not repair:
        return _examined(place)
    _refuse_living(place)
    with suppress(Malformed):  # what cannot be repaired in place can be copied
        report = _examined(place)
        if report.sound:
            return report
        moved = _move_aside(place, report.rows)
        if not _examined(place).problems:
            return replace(report, aside=moved)
    kept, problem = _written_anew(place)
    report = _examined(place)
    return replace(report, problems=(problem,), aside=_move_aside(place, report.rows), kept=kept)


def _text(raw: bytes) -> Any:
    """Return a row's text, or its bytes if they are not UTF-8: rows are compared with them later."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _NoText(raw)


class _NoText(bytes):
    """A text that is not UTF-8."""


def _examined(place: Path) -> Report:
    engine = open_engine(place, read_only=True)
    try:
        with translated(str(place)), closing(engine.raw_connection()) as pooled:
            raw: sqlite3.Connection = pooled.driver_connection  # type: ignore[assignment]
            raw.text_factory = _text
            problems = [row[0] for row in _integrity(raw) if row[0] != "ok"]
            rows: list[DamagedRow] = []
            counts: dict[str, int] = {}
            examine = _Examination(raw)
            for table in (CELLS, RUNS, CODES, TRIALS, DETAILS):
                counts[table.name] = 0
                try:
                    for key, damaged in examine.table(table):
                        counts[table.name] += 1
                        rows += [DamagedRow(table, key, *damaged)] if damaged else []
                except UNREADABLE as error:
                    problems.append(f"the table {table.name} can only be read in part: {error}")
            return Report(str(place), counts, tuple(problems), tuple(rows + examine.gone_with(rows)))
    finally:
        engine.dispose()


def _integrity(raw: sqlite3.Connection) -> list[tuple[str]]:
    try:
        return raw.execute("PRAGMA integrity_check(20)").fetchall()
    except UNREADABLE as error:
        return [(str(error),)]


_Damaged = tuple[str] | tuple[str, dict[str, Any]]


class _Examination:
    """Examines the tables of a store in turn: cells before trials, trials before details."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw
        self.cells: set[int] = set()

    def table(self, table: Table) -> Iterator[tuple[tuple[Any, ...], _Damaged | None]]:
        """Yield the key of each row and its damage, if any."""
        there = {row[1] for row in self.raw.execute(f"PRAGMA table_info({table.name})")}
        columns = [column for column in table.columns if column.name in there]
        names = ", ".join(f"own.{column.name}" for column in columns)
        orphan = "NOT EXISTS (SELECT 1 FROM trials AS t WHERE t.cell = own.cell AND t.seed = own.seed)"
        more = f", {orphan} AS orphan" if table is DETAILS else ""
        keys = [place for place, column in enumerate(columns) if column.primary_key]
        for values in self.raw.execute(f"SELECT {names}{more} FROM {table.name} AS own") if columns else ():
            row = dict(zip([*(column.name for column in columns), "orphan"], values, strict=False))
            yield tuple(values[place] for place in keys), self._row(table, columns, row)

    def _row(self, table: Table, columns: Sequence[Any], row: dict[str, Any]) -> _Damaged | None:
        derived = ("columns", "wanted") if table is CELLS else ()
        try:
            for column in columns:
                if column.name not in derived:
                    stored(column).read(row[column.name])
            return self._content(table, row)
        except Damage as damage:
            return (str(damage),)

    def _content(self, table: Table, row: dict[str, Any]) -> _Damaged | None:
        if table is CELLS:
            mended = self._derived(row, read_template(row["trial"], row["hash"]))
            self.cells.add(row["id"])  # not before: the trials of a cell that is moved aside go with it
            return mended
        if table in (TRIALS, DETAILS) and row["cell"] not in self.cells:
            raise Damage(f"a trial must be of a cell that the store has: cell {row['cell']}")
        if table is TRIALS:
            read_probes(row["probes"])
            lacking = [name for name in ALWAYS if row[name] is None]
            if row["state"] is None and row["steps"] is not None:
                raise Damage("a trial that has no outcome must have no steps: its state is missing")
            if row["state"] is not None and lacking:
                raise Damage(f"an outcome must have {lacking[0]}: it is missing")
            if row["state"] is not None:
                refuse_contradiction(row)
        if table is DETAILS:
            if row["orphan"]:
                raise Damage("details must be of a trial that the store has: it is missing")
            read_measures(row["measures"])
            if row["curve"] is not None:
                read_curve(row["curve"])
        return None

    def _derived(self, row: dict[str, Any], record: dict[str, Any]) -> _Damaged | None:
        """Return the damage of columns that are derived from a cell's trial, with their correct values."""
        mended: dict[str, Any] = {}
        why = []
        try:
            stored(CELLS.c.wanted).read(row["wanted"])
        except Damage as damage:
            why.append(str(damage))
            counted = "SELECT count(*) FROM trials WHERE cell = ?"
            mended["wanted"] = self.raw.execute(counted, (row["id"],)).fetchone()[0]
        try:
            columns: str | None = columns_of(parsed(record))
        except UnknownKind:  # a class that is not imported: only the presence of columns can be checked
            columns = None
        try:
            stored(CELLS.c.columns).read(row["columns"])
            if read_columns(row["columns"], record) != read_columns(columns or row["columns"]):
                raise Damage(f"{OWN_COLUMNS}: they differ")
        except Damage as damage:
            if columns is None:
                raise
            why.append(str(damage))
            mended["columns"] = columns
        return ("; ".join(why), mended) if why else None

    def gone_with(self, rows: Sequence[DamagedRow]) -> list[DamagedRow]:
        """Return the rows that belong to damaged ones: an outcome and its details are moved together."""
        found = []
        bad = {table: {row.key for row in rows if row.table is table} for table in (TRIALS, DETAILS)}
        for table, other in ((TRIALS, DETAILS), (DETAILS, TRIALS)):
            for key in bad[other] - bad[table]:
                query = f"SELECT 1 FROM {table.name} WHERE {_same(table, key)}"
                with suppress(*UNREADABLE):
                    if self.raw.execute(query, key).fetchone():
                        found.append(DamagedRow(table, key, f"it belongs to a damaged row of {other.name}"))
        return found


def _same(table: Table, key: Sequence[Any]) -> str:
    names = [column.name for column in table.primary_key]
    return " AND ".join(
        f"{name} IS CAST(? AS TEXT)" if isinstance(value, _NoText) else f"{name} IS ?"
        for name, value in zip(names, key, strict=True)
    )


def _refuse_living(place: Path) -> None:
    living: list[str] = []
    with suppress(Damage, Malformed):
        engine = open_engine(place, read_only=True)
        try:
            with translated(str(place)), engine.connect() as connection:
                runs = connection.execute(select(RUNS)).all()
                clock = liveness.Clock(time.time())
                alive = [run for run in runs if liveness.is_alive(run, clock)]
                living = [f"run {run.id} ({brief(run.host)}:{run.pid})" for run in alive]
        finally:
            engine.dispose()
    if living:
        raise StoreError(f"a store must be idle to be repaired: {living[0]} is running on {printable(str(place))}")


def _move_aside(place: Path, rows: Sequence[DamagedRow]) -> int:
    """Move rows into tables beside their own in one transaction, and return how many."""
    engine = open_engine(place, read_only=False)
    moved = 0
    try:
        with translated(str(place)), closing(engine.raw_connection()) as pooled:
            raw: sqlite3.Connection = pooled.driver_connection  # type: ignore[assignment]
            raw.execute("BEGIN IMMEDIATE")
            for row in rows:
                name, aside, same = row.table.name, f"aside_{row.table.name}", _same(row.table, row.key)
                raw.execute(
                    f"CREATE TABLE IF NOT EXISTS {aside} AS SELECT *, '' AS why, 0.0 AS moved FROM {name} WHERE 0"
                )
                copy = f"INSERT INTO {aside} SELECT *, ?, ? FROM {name} WHERE {same}"
                moved += raw.execute(copy, (row.why, time.time(), *row.key)).rowcount
                if row.mended is None:
                    raw.execute(f"DELETE FROM {name} WHERE {same}", row.key)
                else:
                    values = ", ".join(f"{column} = ?" for column in row.mended)
                    raw.execute(f"UPDATE {name} SET {values} WHERE {same}", (*row.mended.values(), *row.key))
            raw.execute("COMMIT")
            raw.execute("REINDEX")
    finally:
        engine.dispose()
    return moved


def _written_anew(place: Path) -> tuple[Path, str]:
    """Replace a damaged file by a new one with all rows that can be read; return where the old one is kept."""
    draft, kept = place.with_name(f"{place.name}.new"), place.with_name(f"{place.name}.damaged")
    if draft.exists() or kept.exists():
        raise StoreError(f"a repair must not overwrite a file: {draft if draft.exists() else kept}")
    said = []
    engine = open_engine(draft, read_only=False)
    with translated(str(place)), closing(sqlite3.connect(place)) as old, closing(engine.raw_connection()) as pooled:
        new: sqlite3.Connection = pooled.driver_connection  # type: ignore[assignment]
        old.text_factory = bytes
        for table in (CELLS, RUNS, CODES, TRIALS, DETAILS):
            try:
                new.execute("BEGIN")
                _copy(old, new, table)
            except UNREADABLE as error:
                said.append(f"the table {table.name} could only be read in part: {error}")
            finally:
                new.execute("COMMIT")
    engine.dispose()  # this writes the log into the file
    for end in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            place.with_name(place.name + end).rename(kept.with_name(kept.name + end))
    draft.rename(place)
    return kept, "; ".join(said) or "the file had to be rewritten"


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, table: Table) -> None:
    """Copy the rows of a table from both of its ends as far as they can be read."""
    there = {row[1].decode() for row in old.execute(f"PRAGMA table_info({table.name})")}
    columns = [column.name for column in table.columns if column.name in there]
    if not columns:
        return
    keys = [column.name for column in table.primary_key]
    texts = [f"typeof({name})" for name in columns]
    write = f"INSERT OR IGNORE INTO {table.name} ({', '.join(columns)}) VALUES ({{}})"
    failed: Exception | None = None
    for order in ("ASC", "DESC"):
        ordered = ", ".join(f"{key} {order}" for key in keys)
        try:
            for row in old.execute(f"SELECT {', '.join(columns + texts)} FROM {table.name} ORDER BY {ordered}"):
                values, kinds = row[: len(columns)], row[len(columns) :]
                marks = ", ".join("CAST(? AS TEXT)" if kind == b"text" else "?" for kind in kinds)
                with suppress(sqlite3.IntegrityError):  # a required value is missing
                    new.execute(write.format(marks), values)
            return
        except UNREADABLE as error:
            failed = error
    assert failed is not None
    raise failed
