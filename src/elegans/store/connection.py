"""Opens a store's database, reads and writes it in transactions, and turns whatever goes wrong into one line."""

import os
import sqlite3
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, StaticPool, create_engine, event
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError

from elegans.errors import ElegansError, StoreError, brief, printable
from elegans.interruption import pause
from elegans.store.format import make, version_of
from elegans.store.liveness import LOST_SECONDS
from elegans.store.location import Location
from elegans.store.postgresql import begun, is_lost, rule_of, server_engine
from elegans.store.schema import VERSION

MAGIC = b"SQLite format 3\0"
"""The first bytes of an SQLite file."""
SQLITE = (3, 37)
"""The first version of SQLite that has STRICT tables."""
BUSY_SECONDS = 60.0
"""Seconds for which a writer waits for another one before it gives up."""
PAUSES = (0.1, 2.0)
"""The first and the longest pause between two tries, in seconds."""
LONGEST_SAID = 300
"""Maximum number of characters quoted of a database's message, in which names may be of any length."""
UNREADABLE = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError),
    *(struct.error, zlib.error),
)
"""What Python raises for a value that is not what its column holds, when it is read or before it is written."""

_T = TypeVar("_T")
Identity = tuple[int, int]
"""The device and the inode of a file."""


class CorruptStore(StoreError):
    """Rows that elegans did not write."""


class MalformedFile(StoreError):
    """A file that is damaged according to SQLite."""


class Database:
    """The database of a store. Work that reads or writes it is repeated while the connection to a server is lost.

    Args:
        location: where it is.
        read_only: whether to only read; otherwise a missing or empty database becomes a store, and a store of the
            former format version is brought up to date.

    Attributes:
        engine: SQLAlchemy's engine.
        name: the store's name in messages.
        file: the file of a store in SQLite, or None.
        identity: of the file that is open (see ``identity_of``), to which all connections that write are.

    Raises:
        StoreError: the database cannot be opened, is not a store, or is a store of another version.
    """

    def __init__(self, location: Location, *, read_only: bool = False) -> None:
        self.name, self.file = location.name, location.file
        read_only = read_only or location.read_only
        # one connection in memory, so one transaction at a time; writers to a file take turns in any case
        self._turn, self._shared = threading.RLock(), location.in_memory
        self._lost_since: float | None = None
        self._patient = True
        self._read_only = read_only
        if self.file is not None:
            _check_file(self.file, read_only)
        with translated(self.name):
            self.engine = _engine(location, read_only)
        self.identity: Identity | None = None
        if self.file is not None and not read_only:
            event.listen(self.engine, "connect", self._identify, insert=True)  # before SQLite reads a log beside it
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def reopen(self) -> None:
        """Reopen the file that is now in the store's place, which may be a different file."""
        self.engine.dispose()
        if self.file is not None:
            _check_file(self.file, self._read_only)
        self._prepare()

    def _prepare(self) -> None:
        """Check that the database is a store, or make it one."""
        name = self.name if self.file is None else str(self.file)
        with translated(name):
            version = self._in_turn(lambda connection: version_of(connection, name))
            if version == VERSION or (version is not None and self._read_only):
                return
            if self._read_only:
                raise StoreError(f"a store must hold a table of outcomes: {name} is empty")
            if self.file is not None and version is None:
                self._use_write_ahead_log()
            with begun(self.engine) as connection:
                make(connection, name)

    def _identify(self, connection: Any, record: Any) -> None:
        assert self.file is not None
        identity = identity_of(self.file)
        if self.identity is None:
            self.identity = identity
        elif identity != self.identity:
            connection.close()
            raise StoreError(f"a store must stay in its place while it is open: {printable(self.name)}")

    def close(self) -> None:
        """Close the database. A store in memory is lost."""
        self.engine.dispose()

    def give_up(self) -> None:
        """Let no work wait for a lost server from now on."""
        self._patient = False

    def read(self, work: Callable[[Connection], _T]) -> _T:
        """Return what work reads from a connection, in one transaction."""
        return self._repeated(lambda again: self._in_turn(work))

    def write(self, work: Callable[[Connection, bool], _T]) -> _T:
        """Do work that writes, in one transaction.

        Args:
            work: given a connection, and whether the work is repeated: an earlier transaction may then have been
                committed although its answer was lost.
        """

        def attempt(again: bool) -> _T:
            with self._turn, begun(self.engine) as connection:
                return work(connection, again)

        return self._repeated(attempt)

    def _in_turn(self, work: Callable[[Connection], _T]) -> _T:
        with self._turn if self._shared else nullcontext(), self.engine.connect() as connection:
            return work(connection)

    def _repeated(self, attempt: Callable[[bool], _T]) -> _T:
        """Try until the database answers, but no longer than ``LOST_SECONDS`` after it was lost or once stopped."""
        again, wait = False, PAUSES[0]
        while True:
            try:
                with translated(self.name):
                    result = attempt(again)
            except StoreError as error:
                if not is_lost(error.__cause__):
                    raise
                if self._lost_since is None:
                    self._lost_since = time.monotonic()
                stopped = pause(wait)
                if stopped or not self._patient or time.monotonic() > self._lost_since + LOST_SECONDS:
                    until = f"within {LOST_SECONDS:.0f} seconds of a lost connection"
                    until = "before a run that is stopped ends" if stopped else until
                    rule = f"the server of a store must answer {until} (what was committed is kept)"
                    raise StoreError(f"{rule}: {error}") from error
                again, wait = True, min(2 * wait, PAUSES[1])
            else:
                self._lost_since = None
                return result

    def _use_write_ahead_log(self) -> None:
        """Let readers read while one process writes; retried while another process does the same."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            raw = self.engine.raw_connection()
            try:
                raw.cursor().execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            finally:
                raw.close()


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn errors of a store's database, and of values that it cannot hold, into a StoreError of one line."""
    try:
        yield
    except CorruptStore as error:
        hint = "elegans check finds every such row"
        raise CorruptStore(f"a store must be undamaged: {printable(name)}: {error} ({hint})") from error
    except ElegansError:
        raise
    except (DBAPIError, sqlite3.Error) as error:
        said = str(error.orig if isinstance(error, DBAPIError) else error).partition("\n")[0]
        rule = next((rule for sign, rule in _RULES.items() if sign in said), None)
        if rule is None and isinstance(error, DBAPIError):
            rule = rule_of(error)
        kind = MalformedFile if "malformed" in said else StoreError
        said = f"{printable(name)} ({brief(said, LONGEST_SAID)})"
        raise kind(f"{rule or 'a store must be a database that answers'}: {said}") from error
    except UnicodeDecodeError as error:  # where SQLite's message quotes a damaged text
        said = f"{printable(name)} (malformed text: {error.reason})"
        raise MalformedFile(f"{_RULES['malformed']}: {said}") from error
    except (SQLAlchemyError, UnicodeError) as error:  # the latter of a host without a form in IDNA
        said = brief(str(error).partition("\n")[0], LONGEST_SAID)
        raise StoreError(f"a store must be a database that answers: {printable(name)} ({said})") from error
    except UNREADABLE as error:
        said = brief(f"{type(error).__name__}: {error}", LONGEST_SAID)
        rule = "a value in a store must fit its column"
        raise CorruptStore(f"{rule}: {printable(name)} ({said}; elegans check finds damaged rows)") from error


_RULES = {
    "CHECK constraint failed": "a value in a store must fit its column",
    "cannot store": "a value in a store must fit its column",
    "file is not a database": "a store must be an SQLite file",
    "malformed": "a store must be an undamaged SQLite file (elegans check --repair copies what can be read of it)",
    "decode to UTF-8": "a store must be undamaged",
    "readonly": "a store must be writable to run a sweep",
    "no such table": "a store must hold the tables of its format",
    "no such column": "a store must hold the tables of its format",
    "disk is full": "a store must have room on its disk (what was committed is kept)",
    "disk I/O": "a store must be on a disk that works (what was committed is kept)",
    "unable to open": "a store must be a file that can be opened",
    "database is locked": f"a store must be free to write within {BUSY_SECONDS:.0f} seconds (see elegans status)",
}
"""What a part of SQLite's message means for a store."""


def _check_file(path: Path, read_only: bool) -> None:
    label = printable(str(path))
    try:
        if path.is_dir():
            raise StoreError(f"a store must be a file, not a folder: {label}")
        for file in (path, *_beside(path)):
            if file.exists() and not file.is_file():  # opening a pipe would block
                raise StoreError(f"a store and its logs must be regular files: {printable(str(file))}")
        if path.exists() and 0 < path.stat().st_size < len(MAGIC):  # SQLite itself would overwrite a single byte
            raise StoreError(f"a store must be an SQLite file: {label} (file is not a database)")
        if not path.parent.is_dir():
            raise StoreError(
                f"the folder of a store must exist: {printable(str(path.parent))} (of {printable(path.name)})"
            )
        if read_only and not path.exists():
            raise StoreError(f"a store must exist to be read: {label}")
        if read_only and path.stat().st_size == 0:  # SQLite itself would remove the log beside it
            raise StoreError(f"a store must hold a table of outcomes: {label} is empty")
    except OSError as error:  # a name that is too long once SQLite extends it
        said = f"{brief(str(path), LONGEST_SAID)} ({error.strerror})"
        raise StoreError(f"a store must be a file that can be opened: {said}") from None


def identity_of(path: Path) -> Identity | None:
    """Return what distinguishes a file from one that takes its place; None if it is gone or cannot be reached."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _beside(path: Path) -> list[Path]:
    """Return the files that SQLite keeps beside a store."""
    return [path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")]


def _engine(location: Location, read_only: bool) -> Engine:
    if location.address.get_backend_name() != "sqlite":
        try:
            return server_engine(location.address, read_only)
        except (NoSuchModuleError, ImportError) as error:
            rule = "the driver of a store's database must be installed"
            raise StoreError(f"{rule}: {location.name} ({error})") from None
        except (TypeError, ValueError) as error:
            raise StoreError(f"a store must be a path or an SQLAlchemy URL: {location.name} ({error})") from None
    if sqlite3.sqlite_version_info < SQLITE:
        rule = f"the SQLite library must have version {'.'.join(map(str, SQLITE))} or later"
        raise StoreError(f"{rule}: it has {sqlite3.sqlite_version}")
    options: dict[str, Any] = {"connect_args": {"timeout": BUSY_SECONDS, "check_same_thread": False}}
    address = location.address
    if location.file is not None and read_only:
        how = {"mode": "ro", "uri": "true"}
        if _only_readable(location.file):
            how["immutable"] = "1"
        address = address.set(database=f"file:{in_uri(location.file)}").update_query_dict(how)
    if location.in_memory:
        options["poolclass"] = StaticPool
    engine = create_engine(address, **options)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def in_uri(path: Path) -> str:
    """Return a path in the form of SQLite's URIs."""
    return quote(os.fsencode(path.absolute()))


def _only_readable(path: Path) -> bool:
    """Return whether SQLite cannot create the log's files that readers of a store need, and nobody is writing.

    While somebody is writing there is a log, which readers then use.
    """
    if any(file.exists() for file in _beside(path)):
        return False
    connection = sqlite3.connect(f"file:{in_uri(path)}?mode=ro", uri=True)
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
