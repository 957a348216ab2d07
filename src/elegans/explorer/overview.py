"""What a store holds: its runs, the experiments that they are of with their verdicts, states and failures."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select

from elegans.errors import printable
from elegans.explorer.cells import Cells
from elegans.explorer.figures import plain
from elegans.explorer.verdicts import experiments_of
from elegans.explorer.view import STATISTICS
from elegans.sweeps import RunStatus, Store
from elegans.sweeps.reading import reason, unsigned
from elegans.sweeps.schema import DETAILS, TRIALS
from elegans.training.states import STATES

FAILURES = 50
"""Failed trials that are listed."""
VALUES = 1_000
"""Values of an axis that are listed."""


def overview(store: Store, cells: Cells, experiments: Sequence[Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """Return what a store holds as JSON has it, without its index among the stores of a page.

    Args:
        store: the store.
        cells: its cells.
        experiments: the experiments that it is of, as ``experiments_of`` returns them, which is called by default.
    """
    status = store.status()
    with store.connected() as connection:
        here = (TRIALS.c.cell == DETAILS.c.cell) & (TRIALS.c.seed == DETAILS.c.seed)
        query = select(DETAILS.c.cell, DETAILS.c.seed, DETAILS.c.error).join(TRIALS, here)
        failed = connection.execute(query.where(TRIALS.c.state == "failed").limit(FAILURES)).all()
    table = cells.table
    states = {name: int(table[name].sum()) for name in ("running", "missing")}
    states = {state: int(table[state].sum()) for state in STATES} | states
    return {
        "name": printable(store.place),
        "version": cells.version,
        "alive": any(run.alive for run in status.runs),
        "axes": [
            {"name": axis.name, "label": axis.name, "values": list(axis.texts[:VALUES]), "numeric": axis.numeric}
            for axis in cells.axes
        ],
        "statistics": [{"name": name, "label": statistic.label} for name, statistic in STATISTICS.items()],
        "states": states,
        "cells": len(table),
        "trials": int(table["ended"].sum()),
        "runs": [_run(run) for run in status.runs],
        "experiments": experiments_of(store, cells) if experiments is None else list(experiments),
        "failures": [{"cell": cell, "seed": unsigned(seed), "reason": reason(error)} for cell, seed, error in failed],
    }


def _run(run: RunStatus) -> dict[str, Any]:
    state = "stopped" if run.stopped else "at work" if run.alive else "finished" if run.finished else "gone"
    return {
        "name": printable(run.name or f"run {run.number}"),
        "host": printable(run.host),
        "pid": run.pid,
        "state": state,
        "done": run.trials - run.missing + sum(run.states.values()),
        "trials": run.trials,
        "per_second": plain(run.per_second),
        "seconds_left": plain(run.seconds_left),
    }
