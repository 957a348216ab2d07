"""The files of a store under a run, which notices that they are replaced, removed or overwritten, and keeps a copy."""

import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count, product
from pathlib import Path
from typing import Literal

from elegans.errors import StoreError, printable
from elegans.store.connection import Database, identity_of, in_uri
from elegans.store.integrity import copy_rows, move_damaged_rows
from elegans.store.location import locate

TRIES, PAUSE = 10, 0.1
"""How often a file that has changed is read before it counts as overwritten, and the seconds between: another process
may be writing its log into it."""
CHECKPOINT_SECONDS = 2.0
"""Seconds for which writing the log into a file waits for its readers."""
QUICKLY_CHECKED = 1 << 27
"""Maximum size of a file, in bytes, that is checked as a whole when its run ends."""
RULE = "a store must stay in its place, as it is, while a run writes to it"
State = Literal["moved", "damaged", "foreign"]
"""What has become of the files of a lost store: they are whole, but not in their place; a part of them may be readable;
they hold another store."""


class LostStore(StoreError):
    """A store whose files are no longer the files that its run opened.

    Args:
        said: what has happened.
        state: what has become of the files.
    """

    def __init__(self, said: str, state: State) -> None:
        super().__init__(said)
        self.state = state


class RunFiles:
    """The files of a store in SQLite for the time of a run, which keeps them open.

    A file is recognised by its inode. At the start, the run writes its own row into the database. Whenever the file's
    size or time has changed, this row shows whether the content is still the store's.

    Args:
        database: of the store.
        token: the run's.

    Raises:
        LostStore: they are lost already.
    """

    def __init__(self, database: Database, token: str) -> None:
        assert database.file is not None
        self.name, self.token = printable(database.name), token
        self.file = Path(os.path.realpath(database.file))  # SQLite's logs lie beside the target of a link
        self._pooled = database.engine.raw_connection()
        self._raw: sqlite3.Connection = self._pooled.driver_connection  # type: ignore[assignment]
        self._pooled.detach()  # the pool's own connections are for transactions
        with suppress(sqlite3.Error):  # what hinders it also hinders the run's transactions, which say so
            self._raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        self._opened = {"": database.identity}
        for end in ("-wal", "-shm"):  # neither is made anew as long as a connection is open
            if (identity := identity_of(self._beside(end))) is not None:
                self._opened[end] = identity
        self._recognised, self._seen, self._log = False, (0, 0), 0
        self.check()

    def _beside(self, end: str) -> Path:
        return self.file.with_name(self.file.name + end)

    def check(self) -> None:
        """Check that the files are in their place and hold the store.

        Raises:
            LostStore: they are or do not.
        """
        self._compare("")
        try:
            status = self.file.stat()
        except OSError:  # gone a moment ago, or in a folder that cannot be searched: the next check says so
            return
        seen = status.st_size, status.st_mtime_ns
        if seen != self._seen:
            self._recognise(shrunk=seen[0] < self._seen[0])
        self._seen = seen
        for end in self._opened:
            self._compare(end)
        with suppress(OSError):  # there may be no log
            log = self._beside("-wal").stat().st_size
            if log < self._log and not self._is_sound():
                raise LostStore(f"{RULE}: {self.name}-wal was overwritten", "damaged")
            self._log = log

    def _compare(self, end: str) -> None:
        identity = identity_of(self._beside(end))
        if identity != self._opened[end]:
            happened = "was removed" if identity is None else "was replaced by another file"
            raise LostStore(f"{RULE}: {self.name}{end} {happened}", "moved")

    def _recognise(self, shrunk: bool) -> None:
        for _ in range(TRIES):
            holds = self._holds_run()
            if holds:
                self._recognised = True
            if holds or not (self._recognised or shrunk):  # a reader may keep the log from being written into the file
                return
            time.sleep(PAUSE)
        happened = "was overwritten" if holds is None else "was overwritten by another store"
        raise LostStore(f"{RULE}: {self.name} {happened}", "damaged" if holds is None else "foreign")

    def _holds_run(self) -> bool | None:
        """Return whether the file without its log has the run's row; None if it cannot be read.

        It is read by SQLite, since a file that Python closes loses all locks of the process.
        """
        address = f"file:{in_uri(self.file)}?mode=ro&immutable=1"
        try:
            with closing(sqlite3.connect(address, uri=True)) as raw:
                return raw.execute("SELECT 1 FROM runs WHERE token = ?", [self.token]).fetchone() is not None
        except sqlite3.Error:
            return None

    def _is_sound(self) -> bool:
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{in_uri(self.file)}?mode=ro", uri=True)) as raw:
            return [*raw.execute("PRAGMA quick_check(1)")] == [("ok",)]
        return False

    def fresh(self, state: State | None) -> Iterator[tuple[Path, State | None]]:
        """Yield new empty files, each with the state that decides what to copy, until one of them serves.

        They are beside the store, or elsewhere if its folder is gone or cannot be used.
        """
        states = [*dict.fromkeys((state, "damaged", None))] if state in ("moved", "damaged") else [None]
        for folder, copied in product((self.file.parent, Path(), Path(tempfile.gettempdir())), states):
            with suppress(OSError):
                numbered = (folder.absolute() / f"{self.file.stem}.kept-{n}{self.file.suffix}" for n in count(1))
                file = next(file for file in numbered if not file.exists())
                file.touch(exist_ok=False)
                yield file, copied

    def copy_to(self, file: Path, state: State | None) -> None:
        """Make a file a store that has what can be copied of this one, which is in some state of ``LostStore``."""
        if state == "moved":
            with closing(sqlite3.connect(file)) as new:
                self._raw.backup(new)
            return
        Database(locate(file)).close()
        if state == "damaged":
            with closing(sqlite3.connect(file, isolation_level=None)) as new:
                copy_rows(self._raw, new)
            move_damaged_rows(file)

    def leave(self, state: State | None) -> None:
        """Close the files of a store that is in some state of ``LostStore``, or of one that fails (None).

        The log is emptied: it would change a file that has come in the store's place.
        """
        with suppress(sqlite3.Error, OSError):
            if state == "moved":  # into the opened file, wherever that is
                self._write_log("TRUNCATE")
            elif state is not None and identity_of(self._beside("-wal")) == self._opened.get("-wal", 0):
                os.truncate(self._beside("-wal"), 0)
        self.close()

    def finish(self) -> None:
        """Write the log into the file, so that nothing is left to write into what takes its place, and close the files.

        Raises:
            LostStore: they were lost before that; they are still open then.
        """
        with suppress(sqlite3.Error):  # a reader may keep it from being written in time
            self._write_log("FULL")
        self.check()
        if self._seen[0] <= QUICKLY_CHECKED and not self._is_sound():  # it was overwritten while the log was written
            raise LostStore(f"{RULE}: {self.name} was overwritten", "damaged")
        self.close()

    def _write_log(self, mode: Literal["FULL", "TRUNCATE"]) -> None:
        self._raw.execute(f"PRAGMA busy_timeout = {1000 * CHECKPOINT_SECONDS:.0f}")
        self._raw.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()

    def close(self) -> None:
        """Close the run's own connection."""
        self._pooled.close()
