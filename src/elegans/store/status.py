"""The progress of a store's runs, as its readers see it."""

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, case, func, select

from elegans.display import displayed, remaining
from elegans.errors import brief, counted
from elegans.store.changes import read_runs
from elegans.store.connection import CorruptStore, Database
from elegans.store.liveness import Clock, is_alive, is_stopped
from elegans.store.location import locate
from elegans.store.postgresql import read_clock
from elegans.store.schema import CELLS, RUNS, TRIALS
from elegans.training.states import FINISHED

RECENT_SECONDS = 60.0
"""Seconds over which the speed of a run is measured."""


@displayed
@dataclass(frozen=True)
class RunStatus:
    """One run of a store.

    Args:
        number, name: its number in the store, and its name, if any.
        host, pid: the machine and the process that it runs in.
        started, finished: when it began and when it ended normally (None: it did not), in seconds since 1970.
        alive: whether it is still running.
        stopped: whether its process was stopped (Ctrl-Z): it holds its trials until it continues or ends.
        cells, trials, missing: the size of its sweep, and how many of the trials the store lacked when it began.
        states: how many of its trials ended in which state (those trained again count only for the later run).
        running: how many trials it is training.
        per_second: trials per second in the last minute.
        seconds_left: an estimate of the time until nothing is missing, or None.
    """

    number: int
    name: str | None
    host: str
    pid: int
    started: float
    finished: float | None
    alive: bool
    stopped: bool
    cells: int
    trials: int
    missing: int
    states: Mapping[str, int]
    running: int
    per_second: float
    seconds_left: float | None

    def __str__(self) -> str:
        how = "stopped" if self.stopped else "running" if self.alive else "finished" if self.finished else "died"
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.started))
        ended = ", ".join(f"{count:,} {state}" for state, count in self.states.items()) or "no trial ended"
        rate = f"; {_rate(self.per_second, self.seconds_left)}" if self.alive else ""
        if self.stopped:
            rate = f"; it holds {counted(self.running, 'trial')} until it continues (kill -CONT {self.pid}) or ends"
        called = f" {brief(self.name)}" if self.name else ""
        return f"run {self.number}{called} ({how}, started {when}, {brief(self.host)}:{self.pid}): {ended}{rate}"


@displayed
@dataclass(frozen=True)
class Status:
    """The progress of a store: all that its runs set out to do, and how much of it is done.

    Args:
        cells, cells_done: how many cells there are, and how many are complete.
        cells_running, cells_failed: how many have a trial that is being trained, or that failed.
        trials, states: how many trials the runs set out to train, and how many of them are in which state, ``running``
            and ``pending`` among them.
        per_second: trials per second in the last minute.
        seconds_left: an estimate of the time left, or None if no run is alive or nothing is known.
        runs: every run, the first one first.
    """

    cells: int
    cells_done: int
    cells_running: int
    cells_failed: int
    trials: int
    states: Mapping[str, int]
    per_second: float
    seconds_left: float | None
    runs: tuple[RunStatus, ...]

    def __str__(self) -> str:
        states = ", ".join(f"{count:,} {state}" for state, count in self.states.items() if count)
        lines = [
            f"cells   {self.cells_done:,} of {self.cells:,} done, {self.cells_running:,} running, "
            f"{self.cells_failed:,} failed",
            f"trials  {self.trials:,}: {states or 'none'}",
        ]
        missing = self.trials - sum(self.states.get(state, 0) for state in _SETTLED)
        if any(run.alive for run in self.runs):
            lines.append(f"speed   {_rate(self.per_second, self.seconds_left)}")
        elif not self.runs:
            lines.append("next    no run has begun: `elegans run` and `elegans sweep` train into this store by --store")
        elif missing:
            lines.append(
                f"next    the command of the last run, given again, trains {counted(missing, 'missing trial')}"
            )
        return "\n".join([*lines, *map(str, self.runs)])


def _rate(per_second: float, seconds_left: float | None) -> str:
    left = "time left unknown" if seconds_left is None else remaining(seconds_left)
    return f"{per_second:.3g} trials per second, {left}"


_SETTLED = (*FINISHED, "failed")


def status_of(store: str | Path) -> Status:
    """Return the status of a store, given its place, without importing the training code.

    Raises:
        StoreError: there is no such store, or it cannot be read.
    """
    with closing(Database(locate(store), read_only=True)) as database:
        return database.read(read_status)


def read_status(connection: Connection) -> Status:
    """Return the status of a store."""
    rows = read_runs(connection)
    clock = read_clock(connection)
    living = {row.id for row in rows if is_alive(row, clock)}
    held, ended, recent = _by_run(connection, clock)
    runs = tuple(
        _run_status(row, row.id in living, held[row.id], ended.get(row.id, {}), recent[row.id], clock) for row in rows
    )
    cells = _by_cell(connection, living)
    states: Counter[str] = Counter()
    for of_run in ended.values():
        states.update(of_run)
    trials = sum(wanted for wanted, *_ in cells)
    states["running"] = sum(running for *_, running in cells)
    states["pending"] = max(0, trials - sum(states.values()))
    left = trials - sum(settled for _, settled, *_ in cells)
    rate = sum(run.per_second for run in runs if run.alive)
    return Status(
        cells=len(cells),
        cells_done=sum(settled >= wanted for wanted, settled, *_ in cells),
        cells_running=sum(running > 0 for *_, running in cells),
        cells_failed=sum(failed > 0 for *_, failed, _ in cells),
        trials=trials,
        states=dict(states),
        per_second=rate,
        seconds_left=_time_left(left, rate),
        runs=runs,
    )


def _time_left(left: int, rate: float) -> float | None:
    return 0.0 if left <= 0 else left / rate if rate > 0 else None


def _by_run(connection: Connection, clock: Clock) -> tuple[Counter[int], dict[int, dict[str, int]], Counter[int]]:
    """Return, by run, the numbers of trials that it holds, that it ended by state, and of the last minute."""
    claim, run, state = TRIALS.c.claim, TRIALS.c.run, TRIALS.c.state
    held = connection.execute(select(claim, func.count()).where(claim.is_not(None)).group_by(claim))
    since = clock.now - RECENT_SECONDS
    lately = func.count(case((TRIALS.c.recorded > since, 1)))
    ended: dict[int, dict[str, int]] = {}
    recent: Counter[int] = Counter()
    # trials that are being trained again are counted as running
    query = select(run, state, claim.is_(None), func.count(), lately).where(state.is_not(None))
    for number, name, free, count, late in connection.execute(query.group_by(run, state, claim.is_(None))):
        recent[number] += late
        if free:
            ended.setdefault(number, {})[str(name)] = count
    return Counter(dict(held.all())), ended, recent


def recent_pace(recent: int, seconds: float) -> float:
    """Return the trials per second of a run of the given length, from the trials recorded in the last minute."""
    return recent / min(RECENT_SECONDS, max(1.0, seconds))


def _run_status(row: Any, alive: bool, held: int, ended: Mapping[str, int], recent: int, clock: Clock) -> RunStatus:
    time.localtime(row.started)  # raises an error for a moment that cannot be shown
    rate = recent_pace(recent, clock.now - row.started)
    left = row.missing - sum(count for state, count in ended.items() if state in _SETTLED)
    same = ("name", "host", "pid", "started", "finished", "cells", "trials", "missing")
    return RunStatus(
        number=row.id,
        **{name: getattr(row, name) for name in same},
        alive=alive,
        stopped=is_stopped(row, clock),
        states=ended,
        running=held if alive else 0,
        per_second=rate,
        seconds_left=_time_left(left, rate) if alive else None,
    )


def read_holders(connection: Connection, but: int) -> tuple[str, ...]:
    """Return which living runs other than a given one hold trials, and how many each."""
    counts = (
        select(TRIALS.c.claim, func.count().label("held"))
        .where(TRIALS.c.claim.is_not(None), TRIALS.c.claim != but)
        .group_by(TRIALS.c.claim)
        .subquery()
    )
    rows = connection.execute(select(RUNS, counts.c.held).join(counts, RUNS.c.id == counts.c.claim)).all()
    clock, stopped = read_clock(connection), ("", ", stopped")
    return tuple(
        f"run {row.id} ({brief(row.host)}:{row.pid}{stopped[is_stopped(row, clock)]}) with {counted(row.held, 'trial')}"
        for row in rows
        if is_alive(row, clock)
    )


def _by_cell(connection: Connection, living: set[int]) -> list[tuple[int, int, int, int]]:
    """Return of each cell how many trials are requested or present, settled, failed and running."""
    held = TRIALS.c.claim.in_(living)
    settled = TRIALS.c.state.in_(_SETTLED) & ~func.coalesce(held, False)
    conditions = (settled, TRIALS.c.state == "failed", held)
    counts = (func.count(), *(func.count(case((condition, 1))) for condition in conditions))
    query = select(TRIALS.c.cell, *counts).group_by(TRIALS.c.cell)
    by_cell = {number: numbers for number, *numbers in connection.execute(query)}
    cells = []
    for number, wanted in connection.execute(select(CELLS.c.id, CELLS.c.wanted)):
        present, settled_here, failed, running = by_cell.pop(number, (0, 0, 0, 0))
        cells.append((max(wanted, present), settled_here, failed, running))
    if by_cell:
        raise CorruptStore(f"a trial must belong to a cell of the store: cell {min(by_cell)}")
    return cells
