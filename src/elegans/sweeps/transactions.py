"""Work on a store in transactions, which is repeated while the connection to a server is lost."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection, Engine

from elegans.errors import StoreError
from elegans.interruption import pause
from elegans.sweeps.database import in_memory, translated
from elegans.sweeps.liveness import LOST_SECONDS
from elegans.sweeps.server import begun, is_lost

PAUSES = (0.1, 2.0)
"""The first and the longest pause between two tries, in seconds."""

_T = TypeVar("_T")


class Transactions:
    """Does work in transactions of a database.

    Args:
        engine: the database.
        place: its name in messages.
    """

    def __init__(self, engine: Engine, place: str) -> None:
        self.engine, self.place = engine, place
        # one connection in memory, so one transaction at a time; writers to a file take turns in any case
        self._turn = threading.RLock()
        self._shared = in_memory(engine.url)
        self._lost_since: float | None = None
        self._patient = True

    def give_up(self) -> None:
        """Let no work wait for a lost server from now on."""
        self._patient = False

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Enter a connection for a few reads."""
        with translated(self.place):
            if self._shared:
                with self._turn, self.engine.connect() as connection:
                    yield connection
            else:
                with self.engine.connect() as connection:
                    yield connection

    def read(self, work: Callable[[Connection], _T]) -> _T:
        """Return what work reads from a connection."""

        def attempt(again: bool) -> _T:
            with self.connected() as connection:
                return work(connection)

        return self._repeated(attempt)

    def write(self, work: Callable[[Connection, bool], _T]) -> _T:
        """Do work that writes, in one transaction.

        Args:
            work: given a connection, and whether the work is repeated: an earlier transaction may then have been
                committed although its answer was lost.
        """

        def attempt(again: bool) -> _T:
            with translated(self.place), self._turn, begun(self.engine) as connection:
                return work(connection, again)

        return self._repeated(attempt)

    def _repeated(self, attempt: Callable[[bool], _T]) -> _T:
        """Try until the database answers, but no longer than ``LOST_SECONDS`` after it was lost or once stopped."""
        again, wait = False, PAUSES[0]
        while True:
            try:
                found = attempt(again)
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
                return found
