"""The explorer: the first map of a large store, updates, memory, and what a page costs a sweep beside it."""

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import psutil

import elegans as el
from benchmarks.measure import in_turns, spread
from benchmarks.overhead import fill
from benchmarks.record import Result, at_most, cores
from elegans.store.connection import Database
from elegans.store.location import locate

FIRST_SECONDS, UPDATE_SECONDS, MEGABYTES, SLOWER = 2.0, 1.0, 300.0, 3.0
SIZES, WIDTHS = [int(100 * 1.15**place) for place in range(50)], [int(10 * 1.2**place) for place in range(25)]
RATES = (0.01, 0.02, 0.05, 0.1)
COMMIT = "UPDATE trials SET state='unsolved', solved_at=NULL, recorded=? WHERE cell=? AND seed=0"


def run(*, quick: bool) -> Result:
    """Measure all four."""
    cells, rows, repetitions, trials = (200, 4_000, 1, 24) if quick else (10_000, 1_000_000, 5, 4_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = folder / "large.db"
        database = Database(locate(store))
        fill(database.engine, map_grid().cells[:cells], rows)
        database.close()
        measured = [_explored(store, cells) for _ in range(repetitions)]
        numbers = iter(range(10**6))
        contenders = {
            "alone": partial(_sweep, folder, numbers, trials, None),
            "with a page open on it": partial(_sweep, folder, numbers, trials, "own"),
            "with a page open on the large store": partial(_sweep, folder, numbers, trials, str(store)),
        }
        times = in_turns(contenders, repetitions)
    first, commits, memory = zip(*measured, strict=True)
    updates = [seconds for one in commits for seconds in one]
    slower = {name: 100 * (median(own) / median(times["alone"]) - 1) for name, own in times.items()}
    large = f"{rows} trials in {cells} cells"
    return Result(
        settings={"cells": cells, "rows": rows, "repetitions": repetitions, "trials_of_the_sweep": trials},
        repetitions={"first_map": first, "updates": updates, "megabytes": memory, "sweep_seconds": times},
        summary=[
            {"what": f"from the command to the first map of {large}, s", "measured": spread(list(first))},
            {"what": "from a commit to the new map, s", "measured": spread(updates)},
            {"what": "memory of the server, MB", "measured": spread(list(memory))},
            *(
                {"what": f"a sweep of {trials} trials {name}, s", "measured": spread(own)}
                for name, own in times.items()
            ),
        ],
        targets=[
            at_most(f"from the command to the first map of {large}", median(first), FIRST_SECONDS, " s"),
            at_most("from a commit to the new map", median(updates), UPDATE_SECONDS, " s"),
            at_most("memory of the server", max(memory), MEGABYTES, " MB"),
            at_most("a sweep with a page open on it takes longer by", slower["with a page open on it"], SLOWER, "%"),
        ],
    )


def map_grid() -> el.Sweep:
    """Return the sweep of a large map: 10,000 cells."""
    base = el.Trial(
        task=el.SparseParity(n=50, k=3), regime=el.Sample(100), model=el.MLP(width=10), training=el.SGD(steps=1000)
    )
    axes = {
        "regime.size": SIZES,
        "model.width": WIDTHS,
        "training.learning_rate": RATES,
        "model.init": ["dense", "sparse:2"],
    }
    return el.grid(base, axes)


@contextmanager
def _served(store: Path | str) -> Iterator[tuple[str, psutil.Process]]:
    """Yield the address and the process of an explorer."""
    command = [sys.executable, "-m", "elegans", "explore", str(store), "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found, f"no server on {store}"
        yield found[0], psutil.Process(process.pid)
    finally:
        process.terminate()
        process.communicate()


def _map(address: str) -> dict[str, object]:
    with urllib.request.urlopen(f"{address}api/map", timeout=60) as reply:
        return dict(json.load(reply))


def _explored(store: Path, cells: int) -> tuple[float, list[float], float]:
    """Return the seconds to the first map, those of some updates, and the memory of the server in MB."""
    begun = time.perf_counter()
    with _served(store) as (address, process):
        _map(address)
        first = time.perf_counter() - begun
        updates = []
        with urllib.request.urlopen(f"{address}api/events", timeout=60) as events:
            engine = Database(locate(store)).engine
            for number in range(5):
                time.sleep(2)  # after a pause, as a page has seen the last change by then
                with engine.connect().execution_options(writing=True) as connection, connection.begin():
                    connection.exec_driver_sql(COMMIT, (time.time(), 1 + number % cells))
                begun = time.perf_counter()
                while not events.readline().startswith(b"event"):
                    pass
                _map(address)
                updates.append(time.perf_counter() - begun)
            engine.dispose()
        memory = process.memory_info().rss / 2**20
    return first, updates, memory


def _sweep(folder: Path, numbers: Iterator[int], trials: int, explored: str | None) -> float:
    """Return the seconds of a sweep with a page open on its own store, on another one, or on none."""
    place = folder / f"sweep-{next(numbers)}.db"
    el.Store(place).close()
    command = [sys.executable, "-m", "benchmarks.explore", str(trials), str(place)]
    if explored is None:
        return float(subprocess.check_output(command, text=True).split()[-1])
    with _served(place if explored == "own" else explored) as (address, _):
        ended = threading.Event()
        page = threading.Thread(target=_look, args=(address, ended))
        page.start()
        seconds = float(subprocess.check_output(command, text=True).split()[-1])
        ended.set()
        page.join()
    return seconds


def _look(address: str, ended: threading.Event) -> None:
    """Fetch overview and map whenever the server tells of a change, as a page does."""
    with urllib.request.urlopen(f"{address}api/events", timeout=60) as events:
        while not ended.is_set():
            if events.readline().startswith(b"event"):
                with urllib.request.urlopen(f"{address}api/overview", timeout=60) as reply:
                    reply.read()
                _map(address)


def main(trials: int, place: Path) -> None:
    """Run a sweep of small trainings on all cores, and print its seconds."""
    axes = {"model.width": [100, 300], "regime.size": [100, 300, 1000, 3000]}
    trial = map_grid().cells[0].replace("training.steps", 1000)
    sweep = el.grid(trial, axes, seeds=max(1, trials // 8))
    begun = time.perf_counter()
    el.run(sweep, store=str(place), workers=cores(), progress=False)
    print(time.perf_counter() - begun)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
