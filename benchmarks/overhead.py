"""The cost of store and runner: time per trial, memory of a large sweep, reading a large store."""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import psutil
from sqlalchemy import Engine, insert

import elegans as el
from benchmarks import tiny
from benchmarks.measure import in_turns, seconds, spread
from benchmarks.record import Result, at_most, cores
from elegans.analysis import summarise_cells
from elegans.store.cells import columns_of
from elegans.store.connection import Database
from elegans.store.location import locate
from elegans.store.postgresql import insert_rows
from elegans.store.schema import CELLS, TRIALS
from elegans.studies.pareto_frontiers import settings as pareto
from elegans.training.engines import ENGINES, ChunkRequest
from elegans.training.loop import train_together

MILLISECONDS, MEGABYTES, READING_SECONDS = 1.0, 300.0, 3.0
SAMPLING = 0.1
"""Seconds between two measurements of a process's memory."""


@dataclass
class Memory:
    """The largest memory of a process and its children, measured from outside.

    Args:
        together: the largest sum of their resident sets, in MB; shared memory is counted repeatedly.
        processes: the largest number of them.
    """

    together: float = 0.0
    processes: int = 0
    ended: threading.Event = field(default_factory=threading.Event)


def run(*, quick: bool) -> Result:
    """Measure all three."""
    trials, many, rows, repetitions = (1000, 5000, 100_000, 2) if quick else (10_000, 100_000, 1_000_000, 5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        times = _times(trials, folder, repetitions)
        sweep_seconds, own, memory = _sweep_process(many, folder / "many.db", cores())
        reading, size = _reading(rows, folder / "rows.db", repetitions)
    whole = min((f"elegans.run, workers {workers}" for workers in _workers()), key=lambda name: median(times[name]))
    fastest = min(median(values) for values in reading.values())
    summary = [{"what": f"{name}, ms per trial", "measured": spread(values)} for name, values in times.items()]
    summary += [
        {
            "what": f"sweep of {many} trials: peak memory of its process and that process's children, MB",
            "measured": f"{max(own, memory.together):.0f}",
        },
        {"what": f"… its seconds, workers {cores()}", "measured": f"{sweep_seconds:.1f}"},
    ]
    summary += [
        {"what": f"store of {rows} rows ({size:.0f} MB): {name}, s", "measured": spread(values)}
        for name, values in reading.items()
    ]
    return Result(
        settings={"trials": trials, "trials_for_memory": many, "rows": rows, "repetitions": repetitions},
        repetitions={
            "milliseconds_per_trial": times,
            "memory_megabytes": {"own": own, "together": memory.together, "processes": memory.processes},
            "reading_seconds": reading,
        },
        summary=summary,
        targets=[
            at_most(
                f"store and runner per trial at {trials} one-step trials", median(times[whole]), MILLISECONDS, " ms"
            ),
            at_most(
                f"peak memory of a sweep of {many} trials, all processes", max(own, memory.together), MEGABYTES, " MB"
            ),
            at_most(f"open, filter and aggregate {rows} rows", fastest, READING_SECONDS, " s"),
        ],
    )


def _workers() -> list[int]:
    return sorted({1, cores()})


def _times(trials: int, folder: Path, repetitions: int) -> dict[str, list[float]]:
    """Return milliseconds per trial in the bare engine, in the bare loop, and through runner and store."""
    numbers = iter(range(10**6))
    contenders = {"bare engine (init, one step, 16 held-out examples), one core": partial(_bare, tiny.sweep_of(trials))}
    contenders["bare loop, one core"] = partial(_looped, tiny.sweep_of(trials))
    for workers in _workers():
        contenders[f"elegans.run, workers {workers}"] = partial(_stored, trials, folder, numbers, workers)
    figures = in_turns(contenders, repetitions)
    return {name: [1e3 * value / trials for value in values] for name, values in figures.items()}


def _bare(sweep: el.Sweep) -> float:
    engine, index = ENGINES["fused"], np.arange(16, dtype=np.uint32)[None]

    def work() -> None:
        for trial in sweep:
            engine.wrong(engine.advance(engine.init([trial]), ChunkRequest.of(1))[0], "test", index)

    return seconds(work)


def _looped(sweep: el.Sweep) -> float:
    return seconds(lambda: [next(iter(train_together([trial], ENGINES["fused"]))) for trial in sweep])


def _stored(trials: int, folder: Path, numbers: Iterator[int], workers: int) -> float:
    store = folder / f"run-{next(numbers)}.db"
    return seconds(lambda: el.run(tiny.sweep_of(trials), store=str(store), workers=workers))


def _sweep_process(trials: int, store: Path, workers: int) -> tuple[float, float, Memory]:
    """Run a sweep in a fresh process; return its seconds, its own peak memory in MB, and that of its whole tree."""
    command = [sys.executable, "-m", "benchmarks.tiny", str(trials), str(store), str(workers)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with _watched(process.pid) as memory:
        printed = process.communicate()[0]
    if process.returncode:
        raise RuntimeError(f"the sweep of {trials} trials failed: exit code {process.returncode}")
    spent, own = map(float, printed.splitlines()[-1].split())
    return spent, own, memory


@contextmanager
def _watched(pid: int) -> Iterator[Memory]:
    """Measure a process tree's memory repeatedly until the block ends."""
    memory, root = Memory(), psutil.Process(pid)

    def watch() -> None:
        while not memory.ended.wait(SAMPLING):
            sizes = []
            try:
                for process in (root, *root.children(recursive=True)):
                    sizes.append(process.memory_info().rss / 2**20)
            except psutil.Error:
                continue
            memory.together = max(memory.together, sum(sizes))
            memory.processes = max(memory.processes, len(sizes))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield memory
    finally:
        memory.ended.set()
        watcher.join()


def _reading(rows: int, path: Path, repetitions: int) -> tuple[dict[str, list[float]], float]:
    """Return the seconds of each part of reading, and the store's size in MB."""
    sweep = pareto.panels(pareto.trial(n=50, k=3, steps=100_000), pareto.SIZES, pareto.WIDTHS, 1)
    database = Database(locate(path))
    fill(database.engine, sweep.cells, rows)
    database.close()
    where = {"task.k": 3, "task.n": 50}
    ways = {
        "open, filter and sum up in the database (Store.cells_table), then analysis.cells": lambda store: (
            summarise_cells(store.cells_table(where=where))
        ),
        "open, filter and read every row (Store.table), then analysis.cells": lambda store: summarise_cells(
            store.table(where=where)
        ),
    }
    found = in_turns({name: partial(_opened, path, rows, way) for name, way in ways.items()}, repetitions)
    return found, path.stat().st_size / 2**20


def _opened(path: Path, rows: int, way: Callable[[el.Store], pd.DataFrame]) -> float:
    """Return the seconds from opening a store to its frontier."""
    begun = time.perf_counter()
    with el.Store(path, create=False) as store:
        frontier = way(store)
    spent = time.perf_counter() - begun
    assert frontier["trials"].sum() == rows, f"{frontier['trials'].sum()} of {rows} rows"
    return spent


def fill(engine: Engine, templates: tuple[el.Trial, ...], rows: int) -> None:
    """Write artificial outcomes directly into a store's tables, spread over the cells."""
    generator = np.random.default_rng(0)
    per_cell = np.diff(np.linspace(0, rows, len(templates) + 1).astype(int)).tolist()
    with engine.connect().execution_options(writing=True) as connection, connection.begin():
        for number, (template, count) in enumerate(zip(templates, per_cell, strict=True), start=1):
            cell = {
                "id": number,
                "hash": template.cell,
                "trial": template.model_dump_json(exclude={"seed"}),
                "columns": columns_of(template),
            }
            connection.execute(insert(CELLS), {**cell, "wanted": count})
            solved = generator.random(count) < number / len(templates)
            steps = np.where(solved, generator.integers(1, 500, count) * 200, 100_000)
            insert_rows(
                connection,
                TRIALS,
                [
                    {
                        "cell": number,
                        "seed": seed,
                        "state": "solved" if done else "unsolved",
                        "solved_at": step if done else None,
                        "test_error": 0.05 if done else 0.5,
                        "train_error": 0.0,
                        "steps": step,
                        "seconds": 1e-5 * step,
                        "evaluation_seconds": 1e-6 * step,
                        "engine": "fused",
                        "probes": "[]",
                        "attempts": 1,
                        "recorded": 1e9 + number,
                    }
                    for seed, (done, step) in enumerate(zip(solved.tolist(), steps.tolist(), strict=True))
                ],
            )
