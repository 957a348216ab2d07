"""Stores in PostgreSQL beside SQLite: the pace of recording, alone and with six runs at once, and the explorer's reads.

``python -m benchmarks.postgres TRIALS STORE`` runs one-step trials into a store, which others may be doing, too.
"""

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import elegans as el
from benchmarks import tiny
from benchmarks.explore import map_grid
from benchmarks.measure import in_turns, ratios, seconds, spread
from benchmarks.overhead import fill
from benchmarks.record import Result, at_least, at_most, cores
from elegans.explorer.cells import Cells
from elegans.store.changes import CommitWatcher
from elegans.training import Outcome

PACE, NOTICE_MILLISECONDS, UPDATE_SECONDS = 0.8, 10.0, 1.0
RUNS = 6
SERVER = Path(__file__).parent.parent / "tests" / "support" / "postgres.py"
"""Starts the server of the tests."""


def run(*, quick: bool) -> Result:
    """Measure the pace beside SQLite, and reads of a large store."""
    trials, cells, rows, repetitions = (500, 200, 4_000, 2) if quick else (10_000, 10_000, 1_000_000, 5)
    with _server() as server, tempfile.TemporaryDirectory() as name:
        places = {"SQLite": partial(_file, Path(name), iter(range(10**6))), "PostgreSQL": server.new}
        contenders = {
            how: {kind: partial(_run, trials, runs, new) for kind, new in places.items()}
            for how, runs in (("one run", 1), (f"{RUNS} runs at once", RUNS))
        }
        times = {how: in_turns(each, repetitions) for how, each in contenders.items()}
        reads = _reads(server.new(), cells, rows, 3 * repetitions)
    pace = {how: ratios(each["SQLite"], each["PostgreSQL"]) for how, each in times.items()}
    summary = [
        {"what": f"{how}, {kind}, ms per trial", "measured": spread([1e3 * one / trials for one in own])}
        for how, each in times.items()
        for kind, own in each.items()
    ]
    summary += [
        {"what": f"{how}: pace in PostgreSQL over that in SQLite", "measured": spread(own)} for how, own in pace.items()
    ]
    summary += [
        {"what": f"{rows} trials in {cells} cells: {name}", "measured": spread(own)} for name, own in reads.items()
    ]
    noticed, _, updated = reads
    return Result(
        settings={"trials": trials, "runs": RUNS, "cells": cells, "rows": rows, "repetitions": repetitions},
        repetitions={"seconds": times, "reads": reads},
        summary=summary,
        targets=[
            *(
                at_least(f"{how}: pace in PostgreSQL over that in SQLite", median(own), PACE, "")
                for how, own in pace.items()
            ),
            at_most(f"{rows} trials: {noticed}", median(reads[noticed]), NOTICE_MILLISECONDS, " ms"),
            at_most(f"{rows} trials: {updated}", median(reads[updated]), UPDATE_SECONDS, " s"),
        ],
    )


@contextmanager
def _server() -> Iterator[Any]:
    """Yield a server whose commits wait for the disk."""
    spec = importlib.util.spec_from_file_location("postgres_server", SERVER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    programs = module.programs()
    if programs is None:
        raise SystemExit("the benchmark of PostgreSQL needs its server (Debian: apt-get install postgresql)")
    server = module.Server(programs, durable=True)
    try:
        yield server
    finally:
        server.close()


def _file(folder: Path, numbers: Iterator[int]) -> str:
    return str(folder / f"runs-{next(numbers)}.db")


def _run(trials: int, runs: int, new: Any) -> float:
    """Return the seconds that some runs at once take for a sweep: for one in this process, else in one process each."""
    place = new()
    if runs == 1:
        return seconds(lambda: el.run(tiny.sweep_of(trials), place, table="cells"))
    command = [sys.executable, "-m", "benchmarks.postgres", str(trials), place]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    children = [subprocess.Popen(command, **pipes) for _ in range(runs)]
    try:
        ready = [_line(child) for child in children]  # each has imported all that it needs
        begun = time.perf_counter()
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        done = [_line(child) for child in children]
        spent = time.perf_counter() - begun
    finally:
        for child in children:
            child.communicate()
    assert (ready, done) == (["ready"] * runs, [f"{trials} trials"] * runs), (ready, done)
    return spent


def _line(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def _reads(place: str, cells: int, rows: int, repetitions: int) -> dict[str, list[float]]:
    """Return how long it takes to see that nothing has changed, to read the first map, and to bring it up to date."""
    found: dict[str, list[float]] = {
        "looking whether something has changed, ms": [],
        "first map, s": [],
        "from a commit to the new map, s": [],
    }
    looked, first, updated = found.values()
    filled = el.Sweep(map_grid().parts[:cells])
    with el.Store(place) as store:
        fill(store.engine, filled.cells, rows)
        run, _ = store.begin(filled)
        for repetition in range(repetitions):
            begun = time.perf_counter()
            shown = Cells(store)
            first.append(time.perf_counter() - begun)
            looked.append(1e3 * seconds(CommitWatcher(store.database).mark))
            template = filled.cells[repetition].with_seed(10**9)
            run.claim([template])
            run.record([Outcome(template, "unsolved", steps=1, seconds=1.0, engine="fused")])
            updated.append(seconds(shown.refresh))
            assert shown.column("ended").sum() == rows + repetition + 1
            shown.close()
        run.release()
    return found


def main(trials: int, place: str) -> None:
    """Run the sweep into a store once told to, beside others that do the same; print its number of trials."""
    sweep = tiny.sweep_of(trials)
    el.run(tiny.sweep_of(100), workers=1)
    print("ready", flush=True)
    sys.stdin.readline()
    cells = el.run(sweep, place, workers=max(1, cores() // RUNS), table="cells")
    print(f"{cells['trials'].sum()} trials", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
