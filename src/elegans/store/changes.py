"""Changes in a store since it was last read, which take microseconds to notice and milliseconds to read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, func, select

from elegans.store.connection import Database, translated
from elegans.store.liveness import is_alive
from elegans.store.postgresql import read_clock
from elegans.store.schema import CELLS, RUNS, TRIALS

OVERLAP = 10.0
"""Seconds before the last outcome that are read again, since a process may commit outcomes with earlier stamps."""


class CommitWatcher:
    """Notices changes of a database by any process.

    Args:
        database: of the store. To one in SQLite a connection is kept, without a transaction.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        engine = database.engine
        self.raw: Any = engine.raw_connection() if engine.dialect.name == "sqlite" else None

    def mark(self) -> Any:
        """Return a mark that differs from the previous one if something was committed in the meantime."""
        if self.raw is None:
            return self.database.read(_server_mark)
        driver = self.raw.driver_connection
        with translated(self.database.name):
            return driver.execute("PRAGMA data_version").fetchone()[0], driver.total_changes

    def close(self) -> None:
        """Return the connection."""
        if self.raw is not None:
            self.raw.close()


def _server_mark(connection: Connection) -> Any:
    """Return a mark of a server's database, which PostgreSQL has without looking at any table.

    Its snapshot names the transactions that are visible: it is another one after each commit of any of the server's
    databases, and the same as long as there is none.
    """
    if connection.dialect.name == "postgresql":
        return connection.exec_driver_sql("SELECT pg_current_snapshot()::text").scalar_one()
    latest = select(func.max(TRIALS.c.recorded), func.count(TRIALS.c.claim), func.count())
    return connection.execute(latest).one(), structure(connection)


class Structure(NamedTuple):
    """Values that change when a run begins, ends or registers cells, after which everything must be read again.

    No other store has the first run's token.
    """

    cells: int
    runs: int
    finished: int
    token: str | None


def structure(connection: Connection) -> Structure:
    """Return the last cell, the last run, how many runs have ended, and the first run's token."""
    cells = connection.scalar(select(func.max(CELLS.c.id)))
    runs, finished = connection.execute(select(func.max(RUNS.c.id), func.count(RUNS.c.finished))).one()
    first = connection.scalar(select(RUNS.c.token).order_by(RUNS.c.id).limit(1))
    return Structure(cells or 0, runs or 0, finished, first)


Recorded = tuple[int, int, float, int]
"""Cell, signed seed, time in seconds since 1970, and run of an outcome."""


def recorded_since(connection: Connection, moment: float) -> set[Recorded]:
    """Return what was recorded after a moment, in seconds since 1970."""
    names = (TRIALS.c.cell, TRIALS.c.seed, TRIALS.c.recorded, TRIALS.c.run)
    return {tuple(row) for row in connection.execute(select(*names).where(TRIALS.c.recorded > moment))}


def latest(connection: Connection) -> float:
    """Return the time at which the last outcome was recorded."""
    return connection.scalar(select(func.max(TRIALS.c.recorded)).where(TRIALS.c.recorded.is_not(None))) or 0.0


def running(connection: Connection) -> Mapping[int, int]:
    """Return the number of trials that living runs are training, by cell."""
    claimed = select(TRIALS.c.cell, TRIALS.c.claim, func.count()).where(TRIALS.c.claim.is_not(None))
    rows = connection.execute(claimed.group_by(TRIALS.c.cell, TRIALS.c.claim)).all()
    if not rows:
        return Counter()
    clock = read_clock(connection)
    living = {run.id for run in read_runs(connection) if is_alive(run, clock)}
    held: Counter[int] = Counter()
    for cell, run, count in rows:
        held[cell] += count if run in living else 0
    return held


def read_runs(connection: Connection) -> Sequence[Row[Any]]:
    """Return the runs, the first one first."""
    return connection.execute(select(RUNS).order_by(RUNS.c.id)).all()


def ended_by_run(connection: Connection) -> Counter[int]:
    """Return how many outcomes belong to each run."""
    ended = select(TRIALS.c.run, func.count()).where(TRIALS.c.state.is_not(None)).group_by(TRIALS.c.run)
    return Counter(dict(connection.execute(ended).all()))
