"""Opens databases as stores, and translates their errors."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Column,
    ColumnElement,
    Connection,
    Engine,
    StaticPool,
    String,
    case,
    cast,
    create_engine,
    event,
    func,
    insert,
    inspect,
    literal,
    make_url,
    or_,
    select,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from elegans.errors import StoreError, brief, printable, without_passwords
from elegans.files import checked_path
from elegans.sweeps.columns import Damage, stored
from elegans.sweeps.schema import CODES, FORMAT, META, TABLES, TRIALS, VERSION
from elegans.sweeps.server import begun, rule_of, server_engine

MAGIC = b"SQLite format 3\0"
"""The first bytes of an SQLite file."""
BUSY_SECONDS = 60.0
"""Seconds for which a writer waits for another one before it gives up."""
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What the driver raises: the latter where SQLite's message quotes a damaged text."""
LONGEST_SAID = 300
"""Maximum number of characters quoted of a database's message, in which names may be of any length."""


class Malformed(StoreError):
    """A file that is damaged according to SQLite."""


def open_engine(url: str | Path | None, read_only: bool) -> Engine:
    """Return the SQLAlchemy engine of a store at a path or URL (None: in memory), which is created or checked."""
    address, asked = _address(url)
    read_only = read_only or asked
    path = _file(address)
    if path is not None:
        try:
            _check_file(path, read_only)
        except OSError as error:  # a name that is too long once SQLite extends it
            said = f"{brief(str(path), LONGEST_SAID)} ({error.strerror})"
            raise StoreError(f"a store must be a file that can be opened: {said}") from None
    place = place_of(url) if path is None else str(path)
    with translated(place):
        engine = _connectable(address, path, read_only, place)
        try:
            _prepare(engine, path, read_only, place)
        except BaseException:
            engine.dispose()
            raise
    return engine


def place_of(url: str | Path | None) -> str:
    """Return a store's name in messages, without the password of a URL."""
    return "memory" if url is None or in_memory(_address(url)[0]) else without_passwords(str(url))


def located(url: str | Path) -> Path | None:
    """Return the file of a store in SQLite, or None for other databases."""
    return _file(_address(url)[0])


def _file(address: URL) -> Path | None:
    return None if address.get_backend_name() != "sqlite" or in_memory(address) else Path(str(address.database))


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn errors of the database and damaged rows into a StoreError of one line."""
    try:
        yield
    except Damage as damage:
        raise Damage(
            f"a store must be undamaged: {printable(place)}: {damage} (elegans check finds every such row)"
        ) from damage
    except (DBAPIError, *UNREADABLE) as error:
        said = str(error.orig if isinstance(error, DBAPIError) else error)
        if isinstance(error, UnicodeDecodeError):
            said = f"malformed text: {error.reason}"
        kind = Malformed if "malformed" in said else StoreError
        rule = rule_of(error) if isinstance(error, DBAPIError) else None
        raise kind(_rule(said.partition("\n")[0], printable(place), rule)) from error
    except (SQLAlchemyError, UnicodeError) as error:  # the latter of a host's name that has no form in IDNA
        said = brief(str(error).partition("\n")[0], LONGEST_SAID)
        raise StoreError(f"a store must be a database that answers: {printable(place)} ({said})") from error


def _rule(said: str, place: str, rule: str | None = None) -> str:
    rules = {
        "file is not a database": "a store must be an SQLite file",
        "malformed": "a store must be an undamaged SQLite file (elegans check --repair copies what can be read of it)",
        "decode to UTF-8": "a store must be undamaged",
        "readonly": "a store must be writable to run a sweep",
        "no such table": "a store must hold the tables of its format",
        "disk is full": "a store must have room on its disk (what was committed is kept)",
        "disk I/O": "a store must be on a disk that works (what was committed is kept)",
        "unable to open": "a store must be a file that can be opened",
        "locked": f"a store must be free to write within {BUSY_SECONDS:.0f} seconds (see elegans status)",
    }
    rule = rule or next(
        (each for sign, each in rules.items() if sign in said), "a store must be a database that answers"
    )
    return f"{rule}: {place} ({brief(said, LONGEST_SAID)})"


def strange(connection: Connection, *columns: Column[Any], also: Sequence[ColumnElement[bool]] = ()) -> Any:
    """Return an expression that counts rows with values that elegans did not write, which sums would hide."""
    if connection.dialect.name != "sqlite":  # other databases check types when they write
        return literal(0)
    rules = list(also)
    for column in columns:
        kind = stored(column)
        rules.append(func.typeof(column).not_in([*kind.storage, *(["null"] if column.nullable else [])]))
        rules += [] if kind.among is None else [column.not_in(kind.among)]
        rules += [] if kind.low is None else [column < kind.low]
        rules += [] if kind.high is None else [column > kind.high]
    return func.count(case((or_(*rules), 1)))


def refuse_strange(count: int, what: str) -> None:
    """Refuse rows that were counted as ``strange``."""
    if count:
        raise Damage(f"{what} must have values that elegans wrote: {count} rows do not")


def _address(url: str | Path | None) -> tuple[URL, bool]:
    """Return a store's address, and whether it requests read-only access."""
    if url is None:
        return make_url("sqlite://"), False
    if isinstance(url, Path) or "://" not in url:
        return URL.create("sqlite", database=str(checked_path(url, "a store", StoreError))), False
    try:
        address = make_url(url)
        backend = address.get_backend_name()
    except (ArgumentError, ValueError):
        said = printable(without_passwords(url))
        raise StoreError(f"a store must be a path or an SQLAlchemy URL: {said!r}") from None
    if backend == "sqlite" and address.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise StoreError(f"a store in SQLite must be opened by Python's own driver: {printable(address.drivername)}")
    if backend == "sqlite" and in_memory(address):
        return make_url("sqlite://"), False
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")  # SQLAlchemy's default is the older psycopg2
    if backend != "sqlite":
        return address, False
    asked = dict(address.query)
    mode = asked.pop("mode", "rwc")
    asked.pop("uri", None)
    database, _, more = str(address.database).removeprefix("file:").partition("?")
    if asked or more or mode not in ("ro", "rw", "rwc"):
        raise StoreError(f"the URL of an SQLite file may only ask for mode=ro: {printable(url)!r}")
    path = checked_path(database, "a store", StoreError)
    return URL.create("sqlite", database=str(path)), mode == "ro"


def in_memory(address: URL) -> bool:
    """Return whether a URL means an SQLite database in memory."""
    database = str(address.database or "")
    nowhere = database in ("", ":memory:", "file:", "file::memory:") or address.query.get("mode") == "memory"
    return address.get_backend_name() == "sqlite" and (nowhere or "mode=memory" in database)


def _check_file(path: Path, read_only: bool) -> None:
    named = printable(str(path))
    if path.is_dir():
        raise StoreError(f"a store must be a file, not a folder: {named}")
    for file in (path, *_beside(path)):
        if file.exists() and not file.is_file():  # opening a pipe would block
            raise StoreError(f"a store and its logs must be regular files: {printable(str(file))}")
    if path.exists() and 0 < path.stat().st_size < len(MAGIC):  # SQLite itself would overwrite a single byte
        raise StoreError(f"a store must be an SQLite file: {named} (file is not a database)")
    if not path.parent.is_dir():
        raise StoreError(f"the folder of a store must exist: {printable(str(path.parent))} (of {printable(path.name)})")
    if read_only and not path.exists():
        raise StoreError(f"a store must exist to be read: {named}")


def _beside(path: Path) -> list[Path]:
    """Return the files that SQLite keeps beside a store."""
    return [path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")]


def _connectable(address: URL, path: Path | None, read_only: bool, place: str) -> Engine:
    if address.get_backend_name() != "sqlite":
        try:
            return server_engine(address, read_only)
        except (NoSuchModuleError, ImportError) as error:
            raise StoreError(f"a store must be of a database whose driver is installed: {place} ({error})") from None
        except (TypeError, ValueError) as error:
            raise StoreError(f"a store must be a path or an SQLAlchemy URL: {place} ({error})") from None
    options: dict[str, Any] = {"connect_args": {"timeout": BUSY_SECONDS, "check_same_thread": False}}
    if path is not None and read_only:
        how = {"mode": "ro", "uri": "true"}
        if _only_readable(path):
            how["immutable"] = "1"
        address = address.set(database=f"file:{_quoted(path)}").update_query_dict(how)
    if in_memory(address):
        options["poolclass"] = StaticPool
    engine = create_engine(address, **options)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _quoted(path: Path) -> str:
    """Return a path in the form of SQLite's URIs."""
    text = str(path.absolute())
    for sign in "%?#":
        text = text.replace(sign, f"%{ord(sign):02x}")
    return text


def _only_readable(path: Path) -> bool:
    """Return whether SQLite cannot create the log's files that readers of a store need, and nobody is writing.

    While somebody is writing there is a log, which readers then use.
    """
    if any(file.exists() for file in _beside(path)):
        return False
    connection = sqlite3.connect(f"file:{_quoted(path)}?mode=ro", uri=True)
    try:
        connection.execute("SELECT 1 FROM sqlite_master")
    except sqlite3.Error as error:
        return error.sqlite_errorname in ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_READONLY_DIRECTORY")
    finally:
        connection.close()
    return False


def _on_connect(connection: Any, record: Any) -> None:
    assert isinstance(connection, sqlite3.Connection)
    connection.isolation_level = None  # transactions begin in _on_begin
    connection.execute("PRAGMA synchronous = FULL")  # commits survive a power failure, in WAL mode too
    connection.execute("PRAGMA trusted_schema = OFF")  # a store may come from anywhere
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA temp_store = MEMORY")


def _on_begin(connection: Connection) -> None:
    # a writer takes the lock at once, so that what it reads cannot change before it writes
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _prepare(engine: Engine, path: Path | None, read_only: bool, place: str) -> None:
    """Check that the database is a store of this version, or make it one if it is empty."""
    with engine.connect() as connection:
        exists = _is_store(connection, place)
        lacking = _lacking(connection, place) if exists else {}
    if exists and not lacking:
        return
    if exists and read_only:
        event.listen(engine, "connect", lambda raw, record: _fill_up(raw, lacking))
        engine.dispose()  # the next connection has the missing columns
        return
    if read_only:
        raise StoreError(f"a store must hold a table of outcomes: {place} is empty")
    if path is not None and not exists:
        _use_write_ahead_log(engine)
    with begun(engine) as connection:
        if not _is_store(connection, place):  # another process may have made it one in the meantime
            TABLES.create_all(connection)
            make_indexes(connection)
            connection.execute(insert(META), [{"key": "format", "value": FORMAT}, {"key": "version", "value": VERSION}])
            return
        for table, columns in _lacking(connection, place).items():
            for column in columns:
                kind = column.type.compile(connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {column.name} {kind}")


_INDEXES = {"claims": "claim", "recorded": "recorded"}
"""Indexes of the trials' table by name: which trials are being trained, and which were recorded recently."""


def make_indexes(connection: Connection) -> None:
    """Create the indexes that a database lacks, as one of an earlier version may."""
    known = {str(index["name"]) for index in inspect(connection).get_indexes(TRIALS.name)}
    # as text: an Index with these conditions would import the drivers' dialects whenever a store is opened
    partial = connection.dialect.name in ("sqlite", "postgresql")
    for name, column in _INDEXES.items():
        if name not in known:
            where = f" WHERE {column} IS NOT NULL" if partial else ""
            connection.exec_driver_sql(f"CREATE INDEX {name} ON trials ({column}){where}")


def _is_store(connection: Connection, place: str) -> bool:
    """Return whether the database is a store, or False if it is empty; refuse anything else."""
    tables = inspect(connection).get_table_names()
    if not tables:
        return False
    found: dict[str, str] = {}
    if META.name in tables and {"key", "value"} <= {
        column["name"] for column in inspect(connection).get_columns(META.name)
    }:
        query = select(META.c.key, META.c.value).where(cast(META.c.key, String).in_(("format", "version")))
        found = {str(key): str(value) for key, value in connection.execute(query)}
    if found.get("format") != FORMAT:
        names = brief(", ".join(sorted(tables)[:3]))
        own = "; a schema of its own is asked for by ?schema=NAME" if connection.dialect.name == "postgresql" else ""
        raise StoreError(f"a store must be made by elegans: {place} holds other tables ({names}){own}")
    if found.get("version") != VERSION:
        raise StoreError(
            f"a store must be of format version {VERSION}, the one that this version of elegans reads: "
            f"{place} is of format version {brief(str(found.get('version')), 40)}"
        )
    return True


_CATALOGUE = """
SELECT m.type, m.name, m.sql LIKE 'CREATE VIRTUAL%', c.name, c.type, c."notnull", c.pk, c.hidden
FROM sqlite_master AS m LEFT JOIN pragma_table_xinfo(iif(m.type = 'table', m.name, NULL)) AS c
WHERE m.type IN ('table', 'trigger', 'view')
"""


def _lacking(connection: Connection, place: str) -> dict[str, list[Column[Any]]]:
    """Return the columns missing from a store of an earlier version; refuse tables that elegans cannot have made.

    A view in place of a table may be endless, and a trigger may change what is written.
    """
    if connection.dialect.name != "sqlite":
        return {}
    found: dict[str, dict[str, tuple[Any, ...]]] = {name: {} for name in TABLES.tables}
    for kind, name, virtual, column, *facts in connection.exec_driver_sql(_CATALOGUE):
        if kind == "trigger" or (name in found and (kind != "table" or virtual)):
            what = "virtual table" if virtual else kind
            raise StoreError(f"a store must have only plain tables: {place} has the {what} {brief(str(name))!r}")
        if name in found:
            found[name][column] = tuple(facts)
    lacking: dict[str, list[Column[Any]]] = {}
    for name, table in TABLES.tables.items():
        for column in table.columns if found[name] or table is not CODES else ():
            there = found[name].get(column.name)
            kind = column.type.compile(connection.dialect)
            if there is None and column.nullable:
                lacking.setdefault(name, []).append(column)
            elif there is None or there[:2] != (kind, int(not column.nullable)) or bool(there[2]) != column.primary_key:
                raise StoreError(f"a store must hold the tables of its format: {place}: column {name}.{column.name}")
            elif there[3]:
                raise StoreError(f"a store must have no computed columns: {place}: {name}.{column.name}")
    return lacking


def _fill_up(raw: Any, lacking: dict[str, list[Column[Any]]]) -> None:
    """Show a read-only connection the columns that a store lacks, with missing values."""
    for table, columns in lacking.items():
        more = ", ".join(f"NULL AS {column.name}" for column in columns)
        raw.execute(f"CREATE TEMP VIEW {table} AS SELECT *, {more} FROM main.{table}")


def _use_write_ahead_log(engine: Engine) -> None:
    """Let readers read while one process writes; retried while another process does the same."""
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
