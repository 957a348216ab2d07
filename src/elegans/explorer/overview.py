"""What a store contains: its runs, their experiments with verdicts, states and failures."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, func, select

from elegans.errors import printable
from elegans.explorer.axes import words_of
from elegans.explorer.cells import Cells
from elegans.explorer.figures import plain
from elegans.explorer.statistics import STATISTICS
from elegans.store import Store
from elegans.store.liveness import Clock, is_alive, is_stopped
from elegans.store.postgresql import read_clock
from elegans.store.queries import unsigned
from elegans.store.schema import DETAILS, TRIALS
from elegans.store.status import RECENT_SECONDS, recent_pace
from elegans.store.tables import reason
from elegans.training.states import STATES

FAILURES = 50
"""The maximum number of failed trials that are listed."""
VALUES = 1_000
"""The maximum number of values of an axis that are listed."""


def overview(store: Store, cells: Cells, experiments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what a store holds as JSON has it, without its index among the stores of a page.

    Args:
        store: the store.
        cells: its cells.
        experiments: the store's experiments, as in JSON.
    """
    clock, lately = store.database.read(partial(_lately, runs=cells.runs))
    runs = [_run(cells, run, clock, lately.get(run.id, 0)) for run in cells.runs]
    states = {name: int(cells.column(name).sum()) for name in (*STATES, "running", "missing")}
    return {
        "name": printable(store.place),
        "version": cells.version,
        "alive": any(run["state"] in ("at work", "stopped") for run in runs),
        "axes": [
            {
                "name": axis.name,
                "label": axis.name,
                "word": word,
                "values": list(axis.texts[:VALUES]),
                "numeric": axis.numeric,
            }
            for axis, word in zip(cells.axes, words_of(cells.axes), strict=True)
        ],
        "statistics": [
            {"name": name, "label": statistic.label, "compared": name in STATISTICS}
            for name, statistic in cells.statistics.items()
        ],
        "states": states,
        "cells": len(cells.numbers),
        "trials": int(cells.column("ended").sum()),
        "runs": runs,
        "experiments": list(experiments),
        "failures": _failures(store, cells),
    }


def _failures(store: Store, cells: Cells) -> list[dict[str, Any]]:
    """Return the first failed trials of the cells, with why they failed."""
    here = (TRIALS.c.cell == DETAILS.c.cell) & (TRIALS.c.seed == DETAILS.c.seed)
    query = select(TRIALS.c.cell, TRIALS.c.seed, DETAILS.c.error).join(DETAILS, here, isouter=True)

    def read(connection: Connection) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for cell in cells.numbers[cells.column("failed") > 0].tolist():
            failed = query.where(TRIALS.c.cell == cell, TRIALS.c.state == "failed").limit(FAILURES - len(found))
            rows = connection.execute(failed).all()
            found += [
                {
                    "cell": row.cell,
                    "name": cells.name(row.cell),
                    "seed": unsigned(row.seed),
                    "reason": reason(row.error),
                }
                for row in rows
            ]
            if len(found) >= FAILURES:
                break
        return found

    return store.database.read(read)


def _lately(connection: Connection, runs: Sequence[Any]) -> tuple[Clock, dict[int, int]]:
    """Return the time, and how many trials each run has recorded in the last minute if one of them is at work."""
    clock = read_clock(connection)
    if not any(is_alive(run, clock) for run in runs):
        return clock, {}
    recent = TRIALS.c.recorded > clock.now - RECENT_SECONDS
    rows = connection.execute(select(TRIALS.c.run, func.count()).where(recent).group_by(TRIALS.c.run)).all()
    return clock, {row[0]: row[1] for row in rows}


def _repeats(cells: Cells, run: Any, later: Any) -> bool:
    """Return whether a run that began after another one has trained trials of the same sweep or of a larger one."""
    same = later.id > run.id and later.name == run.name and later.trials >= run.trials
    return bool(same and later.started >= (run.finished or run.started) and cells.ended_by(later.id))


def _run(cells: Cells, run: Any, clock: Clock, recent: int) -> dict[str, Any]:
    """Return how far a run is; whether it is still there is asked now.

    It is ``superseded`` if it lacks outcomes because a later run continued it or trained its trials again.
    """
    alive, ended = is_alive(run, clock), cells.ended_by(run.id)
    left = max(0, run.missing - ended)
    state = "stopped" if is_stopped(run, clock) else "at work" if alive else "finished" if run.finished else "gone"
    if left and not alive and any(_repeats(cells, run, later) for later in cells.runs):
        state = "superseded"
    pace = recent_pace(recent, clock.now - run.started) if alive else 0.0
    return {
        "name": printable(run.name or f"run {run.id}"),
        "host": printable(run.host),
        "pid": run.pid,
        "state": state,
        "done": min(run.trials, run.trials - run.missing + ended),
        "trials": run.trials,
        "per_second": plain(pace),
        "seconds_left": plain(left / pace) if pace and state == "at work" else None,
    }
