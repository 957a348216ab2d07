"""Stores in a database with a server: connections, schemas, the lock of writers, the clock, and what errors mean."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    ExceptionContext,
    String,
    Table,
    create_engine,
    event,
    insert,
    text,
)
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError

from elegans.errors import StoreError, shown
from elegans.store.liveness import Clock

WRITERS_LOCK = int.from_bytes(b"elegans")
"""The lock of a store's writers in PostgreSQL is this number plus a hash of the schema; each database has its own."""
BUSY_SECONDS = 60
"""Seconds for which a writer waits for another one before it gives up."""
IDLE_SECONDS = 300
"""Seconds after which the server ends a transaction whose process does nothing."""
WRITER_IDLE_SECONDS = 30
"""The same for a writer, for which others wait: less than they wait, and less than the time after which they count as
silent, if it is cut off or stopped (Ctrl-Z)."""
LONGEST_SCHEMA = 63
"""Maximum number of bytes of a schema's name, beyond which PostgreSQL cuts names off."""

_REACH = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""libpq's options by which a server that cannot be reached is noticed within a minute; a URL may have its own."""
_SETTINGS = {
    "lock_timeout": f"{BUSY_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
"""What the server is told at the start of a session, so that it frees the lock of a machine that is gone."""


def server_engine(address: URL, read_only: bool) -> Engine:
    """Return the engine of a database with a server; writers of a store in PostgreSQL take turns.

    Readers see one state of the database from their first statement on; each statement of a writer sees what the writer
    before it has committed.

    Args:
        address: the database's URL; ``schema=NAME`` in its query is the schema that holds the store.
        read_only: whether the database is to refuse writes.
    """
    if address.get_backend_name() != "postgresql":
        return create_engine(address, pool_pre_ping=True)
    asked = dict(address.query)
    schema = _checked_schema(asked.pop("schema", None))
    libpq = address.drivername == "postgresql+psycopg"
    engine = create_engine(
        address.set(query=asked),
        pool_pre_ping=True,
        isolation_level="REPEATABLE READ",
        connect_args={name: value for name, value in _REACH.items() if libpq and name not in asked},
    )
    settings = _SETTINGS | ({"default_transaction_read_only": "on"} if read_only else {})
    path = [] if schema is None else [f"SET search_path TO {_quoted(schema)}"]
    commands = "; ".join([*(f"SET {name} TO '{value}'" for name, value in settings.items()), *path])

    def on_connect(raw: Any, record: Any) -> None:
        cursor = raw.cursor()
        cursor.execute(commands)
        cursor.close()
        raw.commit()

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", _on_begin)
    event.listen(engine, "handle_error", _on_error)
    if schema is not None and not read_only:
        _make_schema(engine, schema)
    return engine


def _checked_schema(name: Any) -> str | None:
    if name is None:
        return None
    if not (isinstance(name, str) and name and name.isprintable() and not name.startswith("pg_")):
        raise StoreError(f"a store's schema must be one printable name that does not begin with pg_: {shown(name)}")
    if len(name.encode()) > LONGEST_SCHEMA:
        raise StoreError(f"the name of a store's schema must take at most {LONGEST_SCHEMA} bytes: {shown(name)}")
    return name


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _make_schema(engine: Engine, name: str) -> None:
    with begun(engine) as connection:
        there = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %(name)s"
        if connection.exec_driver_sql(there, {"name": name}).first() is None:  # to create one takes a privilege
            connection.exec_driver_sql(f"CREATE SCHEMA {_quoted(name).replace('%', '%%')}")


@contextmanager
def begun(engine: Engine) -> Iterator[Connection]:
    """Enter a connection in a transaction that writes, which is committed at the end."""
    options: dict[str, Any] = {"writing": True}
    if engine.dialect.name == "postgresql":
        options["isolation_level"] = "READ COMMITTED"
    with engine.connect().execution_options(**options) as connection, connection.begin():
        yield connection


def _on_begin(connection: Connection) -> None:
    # the twin of BEGIN IMMEDIATE: held until the transaction ends, or its connection is lost
    if connection.get_execution_options().get("writing", False):
        where = "coalesce(hashtext(current_schema()), 0)"
        idle = f"set_config('idle_in_transaction_session_timeout', '{WRITER_IDLE_SECONDS}s', true)"
        connection.exec_driver_sql(f"SELECT {idle}, pg_advisory_xact_lock({WRITERS_LOCK} + {where})")


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that have the same columns."""
    if connection.dialect.name != "postgresql":
        connection.execute(insert(table), rows)
        return
    given, arrays = as_table(connection, {name: table.c[name] for name in rows[0]}, rows)
    connection.execute(text(f"INSERT INTO {table.name} ({', '.join(rows[0])}) SELECT * FROM {given}"), arrays)


def as_table(
    connection: Connection, columns: Mapping[str, Column[Any]], rows: Sequence[Mapping[str, Any]]
) -> tuple[str, dict[str, list[Any]]]:
    """Return rows as a table for a statement of PostgreSQL, in which each statement costs more than many rows.

    Args:
        connection: to the store.
        columns: by name, a column of the store that has the same type.
        rows: the rows.

    Returns:
        The table as SQL, with the name ``given``, and its bound parameters.
    """
    types = {  # a cast to a type with a length would cut a text off
        name: "TEXT" if isinstance(column.type, String) else column.type.compile(connection.dialect)
        for name, column in columns.items()
    }
    arrays = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in types.items())
    return f"unnest({arrays}) AS given({', '.join(types)})", {name: [row[name] for row in rows] for name in types}


def _on_error(context: ExceptionContext) -> None:
    # what the server kept for a cursor is gone with the connection, but its driver would warn of one that is left open
    cursor = context.execution_context and context.execution_context.cursor
    if context.is_disconnect and cursor:
        with suppress(Exception):
            cursor.close()


def read_clock(connection: Connection) -> Clock:
    """Return the time by the clock that all users of a store share: of its server, or of the machine."""
    if connection.dialect.name != "postgresql":
        return Clock(time.time())
    moments = ("clock_timestamp()", "pg_postmaster_start_time()")
    asked = ", ".join(f"extract(epoch FROM {moment})::float8" for moment in moments)
    return Clock(*connection.exec_driver_sql(f"SELECT {asked}").one())


_RULES = {
    "22": "a value in a store must fit its column",
    "23514": "a value in a store must fit its column",
    "23": "the rows of a store must be unique, and refer to rows that it has",
    "25006": "a store must be writable to run a sweep",
    "42501": "the user of a store must be allowed to read and write its tables",
    "42P01": "a store must hold the tables of its format",
    "42703": "a store must hold the tables of its format",
    "3F000": "the schema of a store must exist",
    "53100": "a store must have room on its disk (what was committed is kept)",
    "55P03": f"a store must be free to write within {BUSY_SECONDS} seconds (see elegans status)",
    "XX": "a store must be undamaged",
}
"""What a code of the SQL standard, or the beginning of one, means for a store."""
_SIGNS = {
    "password": "the server of a store must accept the user and the password",
    "authentication": "the server of a store must accept the user and the password",
    "role ": "the server of a store must know the user",
    "FATAL:  database ": "the database of a store must exist: an empty one becomes a store",
    "resolve host": "the host of a store's server must have an address",
}
"""What a message means when no connection is made, which has no code."""
_GONE = ("08", "25P03", "40", "53300", "57P01", "57P02", "57P03")
"""Codes after which the same work may succeed: no connection, a conflict, or a server that stops or starts."""


def rule_of(error: DBAPIError) -> str | None:
    """Return the rule that an error of a server's database breaks, or None if it is none of the known ones."""
    code = getattr(error.orig, "sqlstate", None)
    if code:
        return next((rule for start, rule in _RULES.items() if code.startswith(start)), None)
    if isinstance(error, IntegrityError | DataError):
        return _RULES["23" if isinstance(error, IntegrityError) else "22"]
    return next((rule for sign, rule in _SIGNS.items() if sign in str(error.orig)), None)


def is_lost(error: BaseException | None) -> bool:
    """Return whether an error means that the connection to a server was lost, so that the work may be repeated."""
    if not isinstance(error, DBAPIError) or type(error.orig).__module__.startswith("sqlite3"):
        return False
    code = getattr(error.orig, "sqlstate", None)
    refused = isinstance(error, OperationalError) and code is None
    return error.connection_invalidated or refused or (code or "").startswith(_GONE)
