"""What the tests of the explorer share: stores whose outcomes are known."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
from laboratory import TRIAL

import elegans as el
from elegans.store import Store
from elegans.training import Curve, Outcome

AXES = {"model.width": [10, 20], "regime": ["sample:100", "sample:300", "online"], "model.init": ["dense", "sparse:2"]}
SEEDS = 8
SWEEP = el.grid(TRIAL, AXES, seeds=SEEDS)


def outcome(trial: el.Trial) -> Outcome:
    """Return how a trial ends: solved at a step that its seed says, unsolved with seed 6, failed with seed 7."""
    solved, failed = trial.seed < 6, trial.seed == 7
    return Outcome(
        trial,
        "solved" if solved else "failed" if failed else "unsolved",
        solved_at=trial.seed + 1 if solved else None,
        test_error=None if failed else 0.05 if solved else 0.5,
        steps=10,
        seconds=1.0 + trial.seed,
        engine="toy",
        error='Traceback:\n  File "x.py"\nValueError: <script>alert(1)</script>' if failed else None,
        curve=Curve([2, 10], [1.0, 0.5], [0.5, 0.25]),
        measures={
            "probe": {
                "step": [0, 10],
                "gap": [0.0, float(trial.seed)],
                "row": [np.zeros(3), np.ones(3)],
                "map": [np.zeros((2, 3)), np.full((2, 3), -1.0)],
            }
        },
    )


def filled(path: Path | str, sweep: el.Sweep, end: Callable[[el.Trial], Outcome] = outcome) -> str:
    """Return the place of a new store that has all of a sweep."""
    with Store(path) as store:
        run, _ = store.begin(sweep)
        run.record([end(trial) for trial in run.claim(sweep)])
        run.release()
    return str(path)


def changed(path: Path | str, statement: str, *values: object) -> None:
    """Run a statement on the file of a store."""
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()
