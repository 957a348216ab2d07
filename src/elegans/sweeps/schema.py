"""The tables of a store, and how a database becomes one."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Engine,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    StaticPool,
    String,
    Table,
    Text,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from elegans.errors import StoreError

FORMAT, VERSION = "elegans-store", "3"
"""The format's name and its version: no other version is read."""
BUSY_SECONDS = 60.0
"""How long a writer waits for another one before it gives up."""

_TABLES = MetaData()

META = Table("meta", _TABLES, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False))
"""What the database is: the format's name and version."""

CELLS = Table(
    "cells",
    _TABLES,
    Column("id", Integer, primary_key=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("trial", Text, nullable=False),
    Column("columns", Text, nullable=False),
    Column("wanted", Integer, nullable=False),
)
"""One row per cell: its trial without the seed, that trial's dotted columns, and how many trials were asked for."""

TRIALS = Table(
    "trials",
    _TABLES,
    Column("cell", Integer, ForeignKey("cells.id"), primary_key=True, autoincrement=False),
    Column("seed", BigInteger, primary_key=True, autoincrement=False),
    Column("state", String(16)),
    Column("solved_at", BigInteger),
    Column("test_error", Float),
    Column("train_error", Float),
    Column("steps", BigInteger),
    Column("seconds", Float),
    Column("evaluation_seconds", Float),
    Column("engine", String(32)),
    Column("probes", Text),
    Column("run", Integer),
    Column("claim", Integer),
    Column("attempts", Integer, nullable=False),
    Column("recorded", Float),
    sqlite_with_rowid=False,
)
"""One row per network. Cell and seed are the trial's identity, in a few bytes, and cells lie together on disk.

``state`` is null until the trial has an outcome, ``run`` is who trained it, ``claim`` is who is
training it now, and ``attempts`` counts the outcomes. Seeds of 2^63 and above are held less 2^64, since
a column's integers are signed.
"""

DETAILS = Table(
    "details",
    _TABLES,
    Column("cell", Integer, ForeignKey("cells.id"), primary_key=True, autoincrement=False),
    Column("seed", BigInteger, primary_key=True, autoincrement=False),
    Column("curve", LargeBinary),
    Column("measures", LargeBinary),
    Column("error", Text),
    sqlite_with_rowid=False,
)
"""What few ask for and would slow the others down: packed curve, packed measures, traceback."""

RUNS = Table(
    "runs",
    _TABLES,
    Column("id", Integer, primary_key=True),
    Column("token", String(32), nullable=False),
    Column("name", Text),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process_started", Float, nullable=False),
    Column("started", Float, nullable=False),
    Column("heartbeat", Float, nullable=False),
    Column("finished", Float),
    Column("cells", Integer, nullable=False),
    Column("trials", Integer, nullable=False),
    Column("missing", Integer, nullable=False),
)
"""One row per run: which process, since when, and how much it set out to do."""

CODES = Table(
    "codes",
    _TABLES,
    Column("run", Integer, ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    Column("part", String(255), primary_key=True),
    Column("code", String(64), nullable=False),
)
"""One row per run and class of a user's own: its family and kind, and the hash of its code. Older stores lack it."""


def open_engine(url: str | Path | None, read_only: bool) -> Engine:
    """Return the SQLAlchemy engine of a store at a path or URL (None: in memory), made where it may be, and checked."""
    address = _address(url)
    path = _file(address)
    if path is not None:
        _check_file(path, read_only)
    with translated(str(path or address)):
        engine = _connectable(address, path, read_only)
        try:
            _prepare(engine, path, read_only)
        except BaseException:
            engine.dispose()
            raise
    return engine


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn what the database raises into a StoreError of one line."""
    try:
        yield
    except DBAPIError as error:
        raise StoreError(_rule(str(error.orig).splitlines()[0], place)) from error
    except SQLAlchemyError as error:
        raise StoreError(f"a store must be a database that answers: {place} ({str(error).splitlines()[0]})") from error


def _rule(said: str, place: str) -> str:
    rules = {
        "file is not a database": "a store must be an SQLite file",
        "malformed": "a store must be an undamaged SQLite file",
        "readonly": "a store must be writable to run a sweep",
        "disk is full": "a store must have room on its disk (what was committed is kept)",
        "disk I/O": "a store must be on a disk that works (what was committed is kept)",
        "unable to open": "a store must be a file that can be opened",
        "locked": f"a store must be free to write within {BUSY_SECONDS:.0f} seconds",
    }
    rule = next((rule for sign, rule in rules.items() if sign in said), "a store must be a database that answers")
    return f"{rule}: {place} ({said})"


def _address(url: str | Path | None) -> URL:
    if url is None:
        return make_url("sqlite://")
    if isinstance(url, Path) or "://" not in url:
        return URL.create("sqlite", database=str(Path(url).expanduser()))
    try:
        return make_url(url)
    except ArgumentError:
        raise StoreError(f"a store must be a path or an SQLAlchemy URL: {url!r}") from None


def in_memory(address: URL) -> bool:
    """Return whether a URL means an SQLite database in memory."""
    return address.get_backend_name() == "sqlite" and address.database in (None, "", ":memory:")


def _file(address: URL) -> Path | None:
    if address.get_backend_name() != "sqlite" or in_memory(address) or str(address.database).startswith("file:"):
        return None
    return Path(str(address.database))


def _check_file(path: Path, read_only: bool) -> None:
    if path.is_dir():
        raise StoreError(f"a store must be a file, not a folder: {path}")
    if not path.parent.is_dir():
        raise StoreError(f"the folder of a store must exist: {path.parent} (of {path.name})")
    if read_only and not path.exists():
        raise StoreError(f"a store must exist to be read: {path}")


def _connectable(address: URL, path: Path | None, read_only: bool) -> Engine:
    if address.get_backend_name() != "sqlite":
        try:
            return create_engine(address)
        except (NoSuchModuleError, ImportError) as error:
            raise StoreError(f"a store must be of a database with a driver here: {address} ({error})") from None
    options: dict[str, Any] = {"connect_args": {"timeout": BUSY_SECONDS, "check_same_thread": False}}
    if path is not None and read_only:
        database = f"file:{str(path.absolute()).replace('?', '%3f').replace('#', '%23')}"
        address = address.set(database=database).update_query_dict({"mode": "ro", "uri": "true"})
    if in_memory(address):
        options["poolclass"] = StaticPool
    engine = create_engine(address, **options)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(connection: Any, record: Any) -> None:
    assert isinstance(connection, sqlite3.Connection)
    connection.isolation_level = None  # transactions begin where this module says, see _on_begin
    connection.execute("PRAGMA synchronous = FULL")  # what is committed survives a power failure, in WAL mode too


def _on_begin(connection: Connection) -> None:
    # a writer takes the lock at once: what it then reads cannot change before it writes
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _prepare(engine: Engine, path: Path | None, read_only: bool) -> None:
    """Make sure that the database is a store of this version; make it one where it is empty."""
    place = str(path or engine.url)
    with engine.connect() as connection:
        if _is_store(connection, place):
            return
    if read_only:
        raise StoreError(f"a store must hold a table of outcomes: {place} is empty")
    if path is not None:
        _use_write_ahead_log(engine)
    with engine.connect().execution_options(writing=True) as connection, connection.begin():
        if not _is_store(connection, place):  # another process may have made it one meanwhile
            _TABLES.create_all(connection)
            # as text: an Index with these conditions would import the drivers' dialects whenever a store is opened
            partial = " WHERE claim IS NOT NULL" if connection.dialect.name in ("sqlite", "postgresql") else ""
            connection.exec_driver_sql(f"CREATE INDEX claims ON trials (claim){partial}")
            connection.execute(insert(META), [{"key": "format", "value": FORMAT}, {"key": "version", "value": VERSION}])


def _is_store(connection: Connection, place: str) -> bool:
    """Return whether the database is a store, False where it is empty; refuse one that is something else."""
    tables = inspect(connection).get_table_names()
    if not tables:
        return False
    found: dict[str, str] = {}
    if META.name in tables and {"key", "value"} <= {
        column["name"] for column in inspect(connection).get_columns(META.name)
    }:
        found = {str(key): str(value) for key, value in connection.execute(select(META.c.key, META.c.value))}
    if found.get("format") != FORMAT:
        raise StoreError(
            f"a store must be made by elegans: {place} holds other tables ({', '.join(sorted(tables)[:3])})"
        )
    if found.get("version") != VERSION:
        raise StoreError(
            f"a store must be of format version {VERSION}, the one that this version of elegans reads: "
            f"{place} is of format version {found.get('version')}"
        )
    return True


def _use_write_ahead_log(engine: Engine) -> None:
    """Let readers read while one writes; asked again while another process does the same."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        raw = engine.raw_connection()
        try:
            raw.cursor().execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise StoreError(_rule(str(error), str(engine.url.database))) from error
            time.sleep(0.02)
        finally:
            raw.close()
