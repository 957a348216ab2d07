"""Fault tests of runs: processes killed, stopped and signalled at random, lost stores, exceptions, full disks, clocks.

``make faults`` prints one line per fault; its exit code is 1 if a row was lost, duplicated or changed, another store
was altered, or a run ended as if nothing had happened (silent), or crashed or never ended (hung). Each trial's outcome
is determined by its seed, so that every table can be compared with that of an undisturbed run.
"""

import argparse
import asyncio
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
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

import elegans as el
from elegans.errors import ElegansWarning, RunError, StoreError
from elegans.stopping import StoppingRule
from elegans.store import Store
from elegans.store.integrity import check
from elegans.training.losses import Loss

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
    """Run the sweep on a store, in a process whose clock is set wrong; leave the time of its end beside the store."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(store.parent)
    now, started = time.time, psutil.Process.create_time
    time.time = lambda: now() + shift
    psutil.Process.create_time = lambda process: started(process) + shift  # type: ignore[assignment, method-assign]
    times = [0.0]  # the last one is of the moment after the last commit
    try:
        el.run(sweep(), store, engine="fused", workers=2, progress=False, watch=lambda _: times.append(now()))
        _end_of(store).write_text(repr(times[-1]), encoding="utf-8")
    except KeyboardInterrupt:
        sys.exit(130)
    except StoreError:
        sys.exit(1)


def _end_of(store: Path) -> Path:
    return store.with_suffix(".ended")


def _replaced(store: Path, other: Path) -> None:
    draft = store.with_suffix(".draft")
    shutil.copy(other, draft)
    draft.replace(store)


def _overwritten(store: Path, other: Path) -> None:
    shutil.copy(other, store)


LOSSES: dict[str, Callable[[Path, Path], object]] = {
    "replaced": _replaced,
    "removed": lambda store, other: store.unlink(),
    "moved": lambda store, other: store.rename(store.with_name("elsewhere.db")),
    "truncated": lambda store, other: os.truncate(store, 0),
    "cut short": lambda store, other: os.truncate(store, store.stat().st_size // 2),
    "overwritten": _overwritten,
}
"""What is done to a store under its run, given another store."""

ERRORS: dict[str, BaseException] = {
    error.__class__.__name__: error
    for error in (
        *(BaseException("raised"), KeyboardInterrupt("raised"), GeneratorExit("raised"), SystemExit("raised")),
        *(asyncio.CancelledError("raised"), BaseExceptionGroup("several", [KeyboardInterrupt()])),
        *(StopIteration("raised"), MemoryError("raised"), RecursionError("raised"), ValueError("raised")),
    )
}
calls_left = 0
"""How many more calls of a part do not raise."""


def fail(name: str) -> None:
    """Raise an exception in a worker, once its time has come; the main thread only rehearses."""
    global calls_left
    if threading.current_thread() is not threading.main_thread():
        calls_left -= 1
        if calls_left < 0:
            raise ERRORS[name]


class RaisingProbe(el.Probe, kind="fault-probe"):
    """Raises when it measures."""

    error: str

    def measure(self, snapshot: el.Snapshot) -> dict[str, float]:
        fail(self.error)
        return {"there": 1.0}


class RaisingParity(el.SparseParity, kind="fault-parity"):
    """Raises when its hidden support is drawn."""

    error: str

    def draw(self, key: el.random.Key) -> np.ndarray:
        fail(self.error)
        return super().draw(key)


class RaisingLoss(Loss, kind="fault-loss"):
    """Raises when it is computed."""

    error: str

    def value(self, output: Any, label: Any) -> Any:
        fail(self.error)
        return -label * output


PARTS = ("probe", "task", "loss")


def raise_errors(folder: Path, cases: Sequence[tuple[str, str, int]]) -> None:
    """Run a small sweep for each case, of which a part raises; exit with how many did not end as they should."""
    warnings.simplefilter("ignore", ElegansWarning)
    wrong = 0
    for number, (part, name, calls) in enumerate(cases):
        wrong += not _ends(folder / f"raised-{number}.db", part, name, calls)
    sys.exit(wrong)


def _ends(store: Path, part: str, name: str, calls: int) -> bool:
    """Run a sweep of which a part raises; return whether it ends as it should, and the store is in order."""
    global calls_left
    trial, probes, fails = TRIAL, [RaisingProbe(every=20, error=name)], isinstance(ERRORS[name], Exception | SystemExit)
    if part == "task":
        trial, probes = TRIAL.replace("task", RaisingParity(n=12, k=2, error=name)), []
    elif part == "loss":
        trial, probes, calls = TRIAL.replace("training.loss", RaisingLoss(error=name)), [], 0  # it is compiled once
    small = el.grid(trial, {}, seeds=20)
    calls_left = calls
    try:
        states = set(el.run(small, store, workers=2, probes=probes, progress=False).state)
        as_it_should = fails and "failed" in states
    except RunError:
        as_it_should = fails
    except BaseException as error:
        as_it_should = not fails and type(error) is type(ERRORS[name])
    with Store(store, create=False) as opened:
        released = not any(run.alive for run in opened.status().runs)
    calls_left = 10**9
    if part == "probe":
        table = el.run(small, store, retry_failed=True, progress=False).drop(columns=[*TIMES, "engine"])
        undisturbed = el.run(small, progress=False).drop(columns=[*TIMES, "engine"])
        as_it_should = as_it_should and table.equals(undisturbed)
    return as_it_should and released and check(store).sound


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
        if self.process.exitcode is None:
            self.process.kill()
        return self.process.exitcode


class Faults:
    """Runs the faults one after the other, and counts their effects on the rows.

    Args:
        repetitions: how many processes are killed, stores lost and exceptions raised, at random moments.
        seed: the seed of these moments.
    """

    def __init__(self, repetitions: int, seed: int) -> None:
        self.lost, self.raised = 3 * repetitions // 10, 3 * repetitions // 10
        self.kills, self.moments = repetitions - self.lost - self.raised, random.Random(seed)
        self.folder = Path(tempfile.mkdtemp(prefix="elegans-faults-"))
        os.environ["TMPDIR"] = str(self.folder)  # where runs keep what does not fit beside their stores
        self.counts = {"lost": 0, "doubled": 0, "changed": 0, "altered": 0, "silent": 0, "hung": 0}
        self.expected = el.run(sweep(), engine="fused", progress=False).drop(columns=TIMES)
        self.other = self.folder / "other.db"
        el.run(el.grid(TRIAL, {"model.width": [30]}, seeds=SEEDS), self.other, engine="fused", progress=False)

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
        yield f"{self.lost} stores lost under a run", self._lost
        yield f"{self.raised} exceptions in a worker", self._raised
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

    def _lost(self) -> str:
        """Replace, remove or overwrite stores of runs; a sweep must go on with what the runs leave."""
        ended: Counter[str] = Counter()
        for number in range(self.lost):
            name = [*LOSSES][number % len(LOSSES)]
            folder = self.folder / f"lost-{number}"
            folder.mkdir()
            store = folder / "runs.db"
            runner = Runner(store)
            self._let(store, runner, at_work=True)
            before, moment = self._rows(store), time.time()
            LOSSES[name](store, self.other)
            code = runner.end()
            kept = folder / "runs.kept-1.db"
            taken = name in ("replaced", "overwritten")
            foreign = taken and store.read_bytes() == self.other.read_bytes()
            if taken and not foreign and code == 0 and check(store).sound:  # the run wrote last, and so all of it
                self._same(store)
                taken = False
            elif code == 0:  # legitimate only if the run had ended
                self.counts["silent"] += float(_end_of(store).read_text(encoding="utf-8")) > moment
            elif code != 1:
                self.counts["hung"] += 1
            elif name in ("replaced", "removed", "moved"):
                self.counts["lost"] += len(before - self._rows(kept))
            self.counts["altered"] += taken and not foreign
            if name == "moved":
                self._compare(folder / "elsewhere.db")
            if kept.exists():
                self._compare(kept)
            ended[f"{name} {'in time' if code else 'too late'}"] += 1
            shutil.rmtree(folder)
        return json.dumps(ended)

    def _raised(self) -> str:
        """Have a part of a trial raise any exception: its run must end with it, or count its trial as failed."""
        left = self.raised
        while left:
            count = min(left, 25)
            left -= count
            folder = self.folder / f"raised-{left}"
            folder.mkdir()
            choice = self.moments.choice
            cases = [(choice(PARTS), choice([*ERRORS]), self.moments.randrange(20)) for _ in range(count)]
            process = PROCESSES.Process(target=raise_errors, args=(folder, cases), daemon=True)
            process.start()
            process.join(20 * count)
            if process.exitcode is None:
                process.kill()
            self.counts["hung"] += process.exitcode is None
            self.counts["silent"] += abs(process.exitcode or 0)
            shutil.rmtree(folder)
        return f"{self.raised} raised"

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


def main(arguments: Sequence[str]) -> int:
    """Run the faults requested on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks faults", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1000, help="kills, lost stores and exceptions in all")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    return Faults(asked.repetitions, asked.seed).run()
