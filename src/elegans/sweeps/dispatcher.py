"""Trains what a store lacks of a sweep: claims trials, hands them to workers, and records their outcomes."""

import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from elegans import extensions
from elegans.errors import ElegansWarning, StoreError, SweepError
from elegans.interruption import stopped_by_signals
from elegans.machine import cores
from elegans.probes import Probe
from elegans.store.coverage import Coverage
from elegans.store.leases import Run
from elegans.store.liveness import HEARTBEAT_SECONDS
from elegans.store.store import Store
from elegans.sweeps.progress import Meter, OnProgress, Progress, share
from elegans.sweeps.threads import Threads, Workers
from elegans.training.engines import Engine
from elegans.training.outcome import Outcome
from elegans.training.rehearsal import rehearse
from elegans.training.states import STATES
from elegans.training.trial_set import TrialSet

if TYPE_CHECKING:
    from elegans.sweeps.dask_client import Cluster

LOOK_SECONDS = 0.1
"""Seconds between checks of signals, the watcher and claims."""
CHECK_SECONDS = 1.0
"""Seconds between checks of the store's files while nothing is written to them."""
WAIT_SECONDS = 0.25
"""Seconds between checks of another run that this one waits for."""
PATIENT_SECONDS = 5.0
"""Seconds for which a run waits for another one before it reports so."""
OVERTAKEN = (
    "this run was cut off from its store for so long that other runs took over trials of it; their outcomes are used, "
    "and it goes on with other trials"
)
"""The warning of a run whose outcomes are dropped, given once."""
FARTHEST = 4096
"""Maximum number of trials among which free ones are looked for in one transaction."""
FAREWELL_SECONDS = 1.2
"""Seconds for which an interrupted run waits for trials in flight, so that it ends within two seconds in all."""

Retrain = Literal["missing", "changed", "refuse"]
"""Which trials are trained: trials that a store lacks, or also trials trained by code that has changed; if there are
such trials, ``refuse`` trains nothing."""
REMEDY = 'retrain="changed" (elegans sweep, elegans run: --retrain-changed) trains them again'


class Interrupted(KeyboardInterrupt):
    """A run that was stopped by Ctrl-C, SIGTERM or SIGHUP; its message states its progress and how to continue."""


@dataclass(frozen=True)
class Options:
    """How a sweep is trained; see ``run``."""

    workers: int | None
    engine: str
    probes: Sequence[Probe]
    retry_failed: bool
    retrain: Retrain
    name: str | None


def _changed(sweep: TrialSet, coverage: Coverage, probes: Sequence[Probe]) -> str:
    classes = " or ".join(sorted(extensions.own_classes((*sweep.cells, *probes))))
    return f"{coverage.changed:,} of {len(sweep):,} trials were trained before the code of {classes} changed"


class Dispatcher:
    """Claims trials, hands them to the workers and records their outcomes, all in the calling thread.

    Args:
        sweep: the sweep.
        engines: the engine of each cell.
        watch: called with the progress.
    """

    run: Run
    coverage: Coverage
    workers: Workers

    def __init__(self, sweep: TrialSet, engines: Sequence[Engine], watch: OnProgress | None) -> None:
        self.sweep, self.engines, self.watch, self.meter = sweep, engines, watch, Meter()
        self.attempted = np.zeros(len(sweep), bool)
        self.in_flight: dict[tuple[str, int], int] = {}
        self.pending: list[Outcome] = []
        self.overtaken, self.horizon = False, 0
        self.waits_since: float | None = None
        self.waits_for: tuple[str, ...] = ()
        now = time.monotonic()
        self.next_commit, self.next_heartbeat, self.next_look = now, now + HEARTBEAT_SECONDS, now
        self.next_check = now + CHECK_SECONDS

    def train(self, store: Store, options: Options, cluster: "Cluster | None") -> np.ndarray:
        """Train what a store lacks of the sweep, and return the positions of the trials that failed.

        Args:
            store: the store.
            options: how the sweep is trained.
            cluster: where other machines train; None for threads of this process.
        """
        self.groups = _groups(self.sweep, self.engines)
        probes, retrain_changed = options.probes, options.retrain == "changed"
        stop = (cluster and cluster.stop) or threading.Event()
        with stopped_by_signals(stop):
            self.run, self.coverage = store.begin(
                self.sweep,
                name=options.name,
                probes=probes,
                retry_failed=options.retry_failed,
                retrain_changed=retrain_changed,
            )
            try:
                if self.coverage.changed and not retrain_changed:
                    said = f"{_changed(self.sweep, self.coverage, probes)}: {REMEDY}"
                    if options.retrain == "refuse":
                        raise SweepError(said)
                    warnings.warn(said, ElegansWarning, stacklevel=4)
                first, missing = self.sweep.first, ~self.coverage.settled
                for cell, template in enumerate(self.sweep.cells):
                    if missing[first[cell] : first[cell + 1]].any():
                        rehearse(template, probes)
                workers = options.workers or cores()
                self.workers = cluster.pool(probes, stop) if cluster else Threads(workers, probes, stop)
            except BaseException:
                self.run.release()
                raise
            self._train_all()
        return np.flatnonzero(self.coverage.state == STATES.index("failed"))

    def _train_all(self) -> None:
        """Continue until nothing is missing or a signal is received; leave the store in order in every case."""
        try:
            try:
                with self.workers.limits():
                    self._work()
                    interrupted = self.workers.stop.is_set()
                    self._end()
            except StoreError:
                raise
            except BaseException:
                self._end()
                raise
        except StoreError as error:  # it would only raise again; trials in flight are lost, committed ones are not
            self.pending += self.workers.shutdown(FAREWELL_SECONDS)
            raise self.run.rescue(self.pending, error) from error
        if interrupted:
            done = int(self.coverage.settled.sum())
            raise Interrupted(
                f"interrupted: {done:,} of {len(self.sweep):,} trials are done; run it again to continue from there"
            )

    def _end(self) -> None:
        self.pending += self.workers.shutdown(FAREWELL_SECONDS if self.workers.busy else 0.0)
        try:
            self._commit()
        finally:
            self.run.release()
        if self.workers.stop.is_set() and not self.coverage.settled.all():  # others may have trained some of them
            self.coverage = self.run.coverage()
        self._look(at_once=True)

    def _work(self) -> None:
        todo = ~self.coverage.settled
        while todo.any() and not self.workers.stop.is_set():
            if self._train(todo):
                self.waits_since, self.waits_for = None, ()
            else:
                self._wait()
            self.coverage = self.run.coverage()
            todo = ~self.coverage.settled & ~self.attempted

    def _train(self, todo: np.ndarray) -> bool:
        """Train the trials that can be claimed, and return whether there were any."""
        any_claimed = False
        for engine, together, parts in self.groups:
            first = self.sweep.first
            left = np.concatenate([first[part] + np.flatnonzero(todo[first[part] : first[part + 1]]) for part in parts])
            while len(left):
                some, most = left, max(1, self.workers.room(engine, self.meter.per_second))
                if engine.side_by_side > 1:  # batches of one size: one compilation
                    most = together
                    some = left[: -(-len(left) // -(-len(left) // most))]
                claimed, seen = self._claim(engine, some[: max(most, self.horizon)], most)
                left, any_claimed = left[seen:], any_claimed or claimed
                while not self.workers.stop.is_set() and not self.workers.room(engine, self.meter.per_second):
                    self._turn()
                if self.workers.stop.is_set():
                    return True
        while self.in_flight and not self.workers.stop.is_set():
            self._turn()
        self._commit()
        return any_claimed

    def _claim(self, engine: Engine, positions: np.ndarray, most: int) -> tuple[bool, int]:
        """Claim the first free trials, and return whether there were any and how many positions have been examined.

        Other runs of the sweep want the same trials first: where they hold the next ones, more are examined at once.
        """
        trials = {}
        for index, position in enumerate(positions.tolist()):
            trial = self.sweep.trial(position)
            trials[trial.cell, trial.seed] = trial, position, index
        claimed = self.run.claim([trial for trial, *_ in trials.values()], most)
        full = len(claimed) == most
        self.horizon = self.horizon // 2 if full else min(FARTHEST, 4 * len(positions))
        seen = len(positions)
        for trial in claimed:
            _, position, index = trials[trial.cell, trial.seed]
            self.in_flight[trial.cell, trial.seed] = position
            self.attempted[position] = True
            seen = index + 1 if full else seen
        if claimed:
            self.workers.train(engine, claimed)
        return bool(claimed), seen

    def _turn(self) -> None:
        """Collect outcomes, and do what is due."""
        now = time.monotonic()
        due = min(self.next_commit, now + LOOK_SECONDS) if self.pending else now + LOOK_SECONDS
        self.pending += self.workers.collect(due - now)
        if self.workers.failure is not None:
            raise self.workers.failure
        if self.pending and time.monotonic() >= self.next_commit:
            self._commit()
        self.meter.note(share([*self.workers.under_way.values()]))
        if time.monotonic() >= self.next_heartbeat:
            self.next_heartbeat = time.monotonic() + HEARTBEAT_SECONDS
            self.run.heartbeat()
        if time.monotonic() >= self.next_check:
            self.next_check = time.monotonic() + CHECK_SECONDS
            self.run.check_files()
        self._look()

    def _commit(self) -> None:
        """Record what has ended, which takes at most a tenth of the time; outcomes of long trials do not wait."""
        if not self.pending:
            return
        begun = time.monotonic()
        dropped = {(outcome.trial.cell, outcome.trial.seed) for outcome in self.run.record(self.pending)}
        if dropped and not self.overtaken:
            self.overtaken = True
            warnings.warn(OVERTAKEN, ElegansWarning, stacklevel=2)
        ended = 0
        for outcome in self.pending:
            key = outcome.trial.cell, outcome.trial.seed
            position = self.in_flight.pop(key)
            if key in dropped:
                self.attempted[position] = False  # the run that has the trial may end without an outcome of it
                continue
            self.coverage.state[position] = STATES.index(outcome.state)
            self.coverage.settled[position] = outcome.state != "interrupted"
            ended += outcome.state != "interrupted"
        self.meter.add(ended)
        self.pending = []
        now = time.monotonic()
        self.next_commit = now + min(0.25, 10 * (now - begun))

    def _wait(self) -> None:
        now = time.monotonic()
        self.waits_since = self.waits_since or now
        if now - self.waits_since > PATIENT_SECONDS:
            self.waits_for = self.run.holders()
        until = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < until and not self.workers.stop.wait(LOOK_SECONDS):
            self._turn()

    def _look(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if self.watch is None or (now < self.next_look and not at_once):
            return
        self.next_look = now + LOOK_SECONDS
        self.watch(self._progress())

    def _progress(self) -> Progress:
        state, cells = self.coverage.state, len(self.sweep.parts)
        attempted = self.attempted.copy()
        attempted[list(self.in_flight.values())] = False  # an earlier outcome that is being replaced does not count
        ended = self.coverage.settled | attempted
        count = np.bincount(state[ended] + 1, minlength=len(STATES) + 1)[1:]
        ended &= state != STATES.index("interrupted")
        done = int(ended.sum())
        states: dict[str, Any] = {state: int(count[code]) for code, state in enumerate(STATES)}
        return Progress(
            cells=cells,
            cells_done=int(np.logical_and.reduceat(ended, self.sweep.first[:-1]).sum()) if cells else 0,
            trials=len(ended),
            done=done,
            this_run=self.meter.count,
            per_second=self.meter.per_second,
            seconds_left=self.meter.seconds_left(len(ended) - done),
            elapsed=self.meter.elapsed,
            under_way=tuple(self.workers.under_way.values()),
            waits_for=self.waits_for or self.workers.waits_for,
            **states,
        )


_Group = tuple[Engine, int, np.ndarray]
"""An engine, how many trials it trains side by side, and the numbers of the sweep's cells that may share a batch."""


def _groups(sweep: TrialSet, engines: Sequence[Engine]) -> list[_Group]:
    """Group the cells that can train side by side; engines that train one at a time take any cells."""
    found: dict[tuple[str, str], tuple[Engine, list[int]]] = {}
    for part, (template, engine) in enumerate(zip(sweep.cells, engines, strict=True)):
        signature = engine.signature(template) if engine.side_by_side > 1 else ""
        found.setdefault((engine.name, signature), (engine, []))[1].append(part)
    return [(engine, engine.together(sweep.cells[parts[0]]), np.array(parts)) for engine, parts in found.values()]
