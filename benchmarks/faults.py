"""Fault tests of runs: processes killed, stopped and signalled at random, full disks, read-only places, wrong clocks.

``make faults`` prints one line per fault; its exit code is 1 if a row was lost, duplicated or changed. Each trial's
outcome is determined by its seed, so that every table can be compared with that of an undisturbed run.
"""

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pandas as pd
import psutil

import elegans as el
from elegans.errors import StoreError
from elegans.stopping import StoppingRule
from elegans.store import Store
from elegans.store.integrity import check

TRIAL = el.Trial(
    task=el.SparseParity(n=12, k=2),
    regime=el.Sample(100),
    model=el.MLP(width=10),
    training=el.SGD(steps=40, stopping=StoppingRule(examples=100, every=20)),
)
SEEDS = 300
TIMES = ["seconds", "evaluation_seconds"]
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["elegans.sweeps.runner", "elegans.models.mlp", "elegans.tasks.parity", "pandas"])


def sweep() -> el.Sweep:
    """Return the trials of every fault."""
    return el.grid(TRIAL, {"model.width": [10, 20]}, seeds=SEEDS)


def run_sweep(store: Path, shift: float) -> None:
    """Run the sweep on a store, in a process whose clock is set wrong."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    now, started = time.time, psutil.Process.create_time
    time.time = lambda: now() + shift
    psutil.Process.create_time = lambda process: started(process) + shift  # type: ignore[assignment, method-assign]
    try:
        el.run(sweep(), store, engine="fused", workers=2, progress=False)
    except KeyboardInterrupt:
        sys.exit(130)
    except StoreError:
        sys.exit(1)


class Runner:
    """A process that runs the sweep on a store."""

    def __init__(self, store: Path, shift: float = 0.0) -> None:
        self.process = PROCESSES.Process(target=run_sweep, args=(store, shift), daemon=True)
        self.process.start()

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid or 0, number)

    def end(self) -> int | None:
        """Wait for it to end, and return its exit code."""
        self.process.join(120)
        return self.process.exitcode


class Faults:
    """Runs the faults one after the other, and counts their effects on the rows.

    Args:
        kills: the number of processes to kill at random moments.
        seed: the seed of these moments.
    """

    def __init__(self, kills: int, seed: int) -> None:
        self.kills, self.moments = kills, random.Random(seed)
        self.folder = Path(tempfile.mkdtemp(prefix="elegans-faults-"))
        self.counts = {"lost": 0, "doubled": 0, "changed": 0}
        self.expected = el.run(sweep(), engine="fused", progress=False).drop(columns=TIMES)

    def run(self) -> int:
        """Run all of them; return the exit code."""
        try:
            for name, fault in self._faults():
                begun = time.monotonic()
                told = fault()
                print(f"{name:34}{told}; {json.dumps(self.counts)}; {time.monotonic() - begun:.0f} s", flush=True)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        return int(any(self.counts.values()))

    def _faults(self) -> Iterator[tuple[str, Callable[[], str]]]:
        yield f"{self.kills} kills, one or two runners", self._killed
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            yield f"{number.name}, five at once", partial(self._signalled, number)
        yield "SIGSTOP beside a second runner", self._stopped
        yield "clocks an hour apart", self._clocks
        yield "a full disk", self._full
        yield "a read-only place", self._read_only

    def _killed(self) -> str:
        """Kill runners at random moments, every third time with a second one running; then compare."""
        killed = stores = 0
        while killed < self.kills:
            stores += 1
            store = self._store()
            before: set[tuple[int, int]] = set()
            while killed < self.kills:
                runners = [Runner(store) for _ in range(1 + (killed % 3 == 0))]
                self._let(store, runners[0], at_work=killed % 4 > 0)
                for runner in runners:
                    runner.signal(signal.SIGKILL)
                    runner.end()
                    killed += 1
                now = self._rows(store)
                self.counts["lost"] += len(before - now)
                before = now
                if len(now) == 2 * SEEDS:
                    break
            self._compare(store)
        return f"{killed} killed on {stores} stores"

    def _let(self, store: Path, runner: Runner, at_work: bool) -> None:
        """Let a runner continue for a random time: after the first outcome that it adds, or after its start."""
        before = _recorded(store)
        while at_work and runner.process.is_alive() and _recorded(store) <= before:
            time.sleep(0.002)
        time.sleep(self.moments.uniform(0, 0.05 if at_work else 0.5))

    def _signalled(self, number: int) -> str:
        store = self._store()
        runner = Runner(store)
        self._wait(store, 50)
        for _ in range(5):
            runner.signal(number)
        runner.end()
        with Store(store, create=False) as opened:
            status = opened.status()
        kept = len(self._rows(store))
        assert status.runs[0].finished or kept == 2 * SEEDS, "the run was not released"
        self._compare(store)
        return f"{kept} kept, run released"

    def _stopped(self) -> str:
        """Stop one runner: another one trains the rest, and waits for the trials that the first one holds."""
        store = self._store()
        one = Runner(store)
        self._wait(store, 20)
        one.signal(signal.SIGSTOP)
        two = Runner(store)
        time.sleep(5)
        with Store(store, create=False) as opened:
            told = [run for run in opened.status().runs if run.stopped]
        one.signal(signal.SIGCONT)
        codes = one.end(), two.end()
        self._compare(store)
        return f"status names {len(told)} stopped run, exit codes {codes}"

    def _clocks(self) -> str:
        store = self._store()
        runners = Runner(store), Runner(store, shift=3600.0)
        ended = [runner.end() for runner in runners]
        self._compare(store)
        return f"exit codes {ended}"

    def _full(self) -> str:
        """Run on a disk of a few hundred KiB, then move the store to a larger one."""
        with _mounted("size=400k") as place:
            if place is None:
                return "not tried: this user cannot mount"
            runner = Runner(place / "runs.db")
            code = runner.end()
            store = self._store()
            for file in place.iterdir():
                shutil.copy(file, store.with_name(file.name.replace("runs.db", store.name)))
        kept = len(self._rows(store))
        self._compare(store)
        return f"exit code {code}, {kept} kept"

    def _read_only(self) -> str:
        store = self._store()
        el.run(sweep(), store, engine="fused", progress=False)
        with _mounted("size=10m") as place:
            if place is None:
                return "not tried: this user cannot mount"
            shutil.copy(store, place / "runs.db")
            subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
            self._same(place / "runs.db")
            try:
                el.run(
                    sweep() + el.grid(TRIAL, {"model.width": [30]}), place / "runs.db", engine="fused", progress=False
                )
            except StoreError:
                return "read, and refused to write"
        return "written to: wrong"

    def _store(self) -> Path:
        return self.folder / f"{time.monotonic_ns()}.db"

    def _rows(self, store: Path) -> set[tuple[int, int]]:
        """Return the trials whose outcomes a store has."""
        if not store.exists():
            return set()
        try:
            with Store(store, create=False) as opened:
                table = opened.table()
        except StoreError as error:
            if "empty" in str(error):  # killed before there were tables
                return set()
            raise
        table = table[table.state != "interrupted"]
        return set(zip(table.get("model.width", []), table.seed, strict=True)) if len(table) else set()

    def _wait(self, store: Path, count: int) -> None:
        while len(self._rows(store)) < count:
            time.sleep(0.01)

    def _compare(self, store: Path) -> None:
        """Finish the sweep, and count the rows that differ from those of an undisturbed run."""
        el.run(sweep(), store, engine="fused", progress=False)
        self._same(store)

    def _same(self, store: Path) -> None:
        assert check(store).sound
        with Store(store, create=False) as opened:
            table = opened.table(sweep()).drop(columns=TIMES)
            attempts = pd.read_sql("SELECT attempts FROM trials", opened.engine)["attempts"]
        self.counts["doubled"] += int((attempts > 1).sum())
        self.counts["lost"] += max(0, len(self.expected) - len(table))
        if len(table) == len(self.expected):
            differ = table.ne(self.expected) & ~(table.isna() & self.expected.isna())
            self.counts["changed"] += int(differ.any(axis=1).sum())


def _recorded(store: Path) -> int:
    """Return how many outcomes a store has, or 0 if it does not exist yet."""
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM trials WHERE state IS NOT NULL").fetchone()[0])
    return 0


@contextmanager
def _mounted(options: str) -> Iterator[Path | None]:
    """Provide a small disk in memory, or None if this user cannot mount one."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True)
        if done.returncode:
            yield None
            return
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def main() -> int:
    """Run the faults requested on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    return Faults(asked.kills, asked.seed).run()


if __name__ == "__main__":
    sys.exit(main())
