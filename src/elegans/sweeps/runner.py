"""Runs sweeps: only missing trials are trained, beside other runs, and a run can be stopped at any moment."""

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd

from elegans import extensions
from elegans.display import note, wanted
from elegans.errors import ElegansWarning, RunError, StoreError, SweepError, brief, shown
from elegans.interruption import stopped_by_signals
from elegans.machine import MOST_WORKERS, cores
from elegans.probes import Probe
from elegans.sweeps.claims import Run
from elegans.sweeps.liveness import HEARTBEAT_SECONDS
from elegans.sweeps.progress import Meter, Progress, share
from elegans.sweeps.reading import reason
from elegans.sweeps.store import Store, opened
from elegans.sweeps.survey import Survey
from elegans.sweeps.sweep import Sweep
from elegans.sweeps.view import watching
from elegans.sweeps.workers import Threads, Workers
from elegans.training.engines import Engine, choose, fallback
from elegans.training.loop import check_probes
from elegans.training.outcome import LONGEST_LINE, Outcome
from elegans.training.rehearsal import rehearse
from elegans.training.states import STATES

LOOK_SECONDS = 0.1
"""Seconds between checks of signals, the watcher and claims."""
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

if TYPE_CHECKING:
    from elegans.sweeps.cluster import Cluster

Scheduler = Any
"""Where other machines train: None for threads here, the address or file of a Dask scheduler, or ``local:N``; also a
``distributed.Client``, or a ``Cluster`` that is connected already."""
Watch = Callable[[Progress], None]
Retrain = Literal["missing", "changed"]
"""Which trials are trained: those that a store lacks, or also those trained by code that has changed."""


class Interrupted(KeyboardInterrupt):
    """A run that was stopped by Ctrl-C, SIGTERM or SIGHUP; its message states its progress and how to continue."""


def run(  # noqa: PLR0913 (all but the first two by name)
    sweep: Sweep,
    store: Store | str | Path | None = None,
    *,
    workers: int | None = None,
    scheduler: Scheduler = None,
    engine: str = "auto",
    probes: Sequence[Probe] = (),
    retry_failed: bool = False,
    retrain: Retrain = "missing",
    watch: Watch | None = None,
    progress: bool | None = None,
    name: str | None = None,
    table: Literal["trials", "cells"] = "trials",
) -> pd.DataFrame:
    """Train the trials of a sweep that a store lacks, and return the table of all its trials.

    Memory hardly grows during training; the table has one row of half a kilobyte per trial, or with ``table="cells"``
    one row per cell, for millions of trials.

    Several processes may run sweeps on one store at the same time: each trial is trained by one of them,
    and each returns once its own sweep is complete. To continue a run that was killed, run it again. A trial within
    which an exception is raised is ``failed``, and the others continue: ``error`` gives the reason, and a warning
    quotes the first traceback.

    Args:
        sweep: the sweep.
        store: where outcomes are kept: a store, a path or a URL; by default the store that the sweep
            names, or else memory, of which only the returned table remains.
        workers: the number of training threads; by default the number of cores that this process may use.
        scheduler: where other machines train, in place of threads of this process: the address or file of a Dask
            scheduler, ``local:N`` for N processes on this machine, or a ``distributed.Client``. This process claims
            and records the trials, so the store may be a file here.
        engine: an engine's name; ``auto`` leaves it to the sweep.
        probes: measures to take (``store.outcome(trial).measures``); a trial whose outcome lacks them is trained again.
        retry_failed: whether to train failed trials again.
        retrain: ``missing`` trains what the store lacks; if the code of a class of your own has changed, a warning
            states how many outcomes are older than the change. ``changed`` trains these again.
        watch: called with the progress at most ten times a second, and at the end.
        progress: whether to show the progress on stderr, or in the notebook; by default on a terminal and in a
            notebook, unless there is ``watch``.
        name: the name of the run in the store's status.
        table: what to return: one row for each of the ``trials``, or for each of the ``cells``.

    Returns:
        One row per trial in the sweep's order, as ``Store.table``; or one row per cell, over all trials that the store
        has of it, as ``Store.cells_table``.

    Raises:
        StoreError: the store cannot be opened, read or written. What was committed is kept.
        EngineError: no engine can train one of the trials; nothing has been started.
        TrialError: a probe cannot measure one of the trials; nothing has been started.
        SweepError: ``workers`` is not positive or given beside ``scheduler``, ``retrain`` or ``table`` is unknown, two
            probes are of one kind, the scheduler cannot be reached, or its workers have other versions.
        RunError: every trial of the sweep failed; its note is the first traceback.
        Interrupted: Ctrl-C, SIGTERM or SIGHUP was received. Trials that had ended are kept.
    """
    _check_table(table)
    start = _prepared(sweep, workers, engine, probes, retrain)
    with connected(scheduler, workers) as cluster, opened(sweep.store if store is None else store) as kept:
        note_fallback(sweep, engine, wanted(progress, watch is not None))
        with watching(progress, watch) as told:
            failed = start(kept, cluster, retry_failed=retry_failed, watch=told, name=name)
        report(kept, sweep, failed)
        return kept.table(sweep) if table == "trials" else kept.cells_table(sweep)


def complete(  # noqa: PLR0913 (as run)
    sweep: Sweep,
    store: Store | str | Path,
    *,
    workers: int | None = None,
    scheduler: Scheduler = None,
    engine: str = "auto",
    probes: Sequence[Probe] = (),
    retry_failed: bool = False,
    retrain: Retrain = "missing",
    watch: Watch | None = None,
    name: str | None = None,
) -> np.ndarray:
    """Train the trials of a sweep that a store lacks, as in ``run``, and return the positions of those that failed."""
    start = _prepared(sweep, workers, engine, probes, retrain)
    with connected(scheduler, workers) as cluster, opened(store) as kept:
        return start(kept, cluster, retry_failed=retry_failed, watch=watch, name=name)


def report(store: Store, sweep: Sweep, failed: np.ndarray) -> None:
    """Warn of failed trials, given their positions in the sweep.

    Raises:
        RunError: all of the sweep's trials failed.
    """
    if not len(failed):
        return
    first = sweep.trial(int(failed[0]))
    count = f"{len(failed)} of {len(sweep)} trials failed (retry_failed trains them again)"
    error = "\n".join(brief(line, LONGEST_LINE) for line in str(store.outcome(first).error).splitlines())
    quoted = f"the first, of model {first.model.label()!r} with seed {first.seed}:\n\n{error}"
    if len(failed) < len(sweep):
        warnings.warn(f"{count}; {quoted}", ElegansWarning, stacklevel=4)
        return
    raised = RunError(f"{count}: {reason(error)}")
    raised.add_note(quoted)
    raise raised


@contextmanager
def connected(scheduler: Scheduler, workers: int | None = None, **chosen: Any) -> Iterator["Cluster | None"]:
    """Yield the connection to a scheduler, or None where there is none: threads of this process train.

    Args:
        scheduler: as in ``run``.
        workers: the number of threads that was requested, which a scheduler excludes.
        chosen: further arguments of ``Cluster``.

    Raises:
        SweepError: as ``run``.
    """
    if scheduler is None:
        if chosen.get("instruction_set") is not None:
            rule = "instruction_set must be given with a scheduler (ELEGANS_INSTRUCTION_SET is that of threads here)"
            raise SweepError(f"{rule}: instruction_set={chosen['instruction_set']!r}")
        yield None
        return
    if workers is not None:
        raise SweepError(f"workers must not be given beside a scheduler, which has its own: workers={shown(workers)}")
    from elegans.sweeps.cluster import Cluster  # late: Dask takes a while to load, and is an extra

    if isinstance(scheduler, Cluster):
        yield scheduler
        return
    with Cluster(scheduler, **chosen) as cluster:
        yield cluster


def _check_table(table: str) -> None:
    if table not in ("trials", "cells"):
        raise SweepError(f"table must be trials or cells: table={table!r}")


def note_fallback(sweep: Sweep, engine: str, shown: bool = True) -> None:
    """Note once why ``auto`` leaves cells of a sweep to the general engine, if it does and notes are shown."""
    if not shown:
        return
    asked = sweep.engine if engine == "auto" else engine
    slow = next(filter(None, (fallback(cell, asked) for cell in sweep.cells)), None)
    if slow:
        note(slow)


def _prepared(
    sweep: Sweep, workers: int | None, engine: str, probes: Sequence[Probe], retrain: Retrain
) -> Callable[..., np.ndarray]:
    """Refuse a sweep that cannot run before a store is made; return a function that trains it."""
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise SweepError(f"workers must be from 1 to {MOST_WORKERS}: workers={shown(workers)}")
    if retrain not in get_args(Retrain):
        raise SweepError(f"retrain must be missing or changed: retrain={retrain!r}")
    _check_probes(sweep, probes)
    engines = [choose(template, sweep.engine if engine == "auto" else engine) for template in sweep.cells]
    for template in sweep.cells:
        rehearse(template, probes)

    def train(
        store: Store, cluster: "Cluster | None", *, retry_failed: bool, watch: Watch | None, name: str | None
    ) -> np.ndarray:
        stop = (cluster and cluster.stop) or threading.Event()
        with stopped_by_signals(stop):
            begun, found = store.begin(
                sweep, name=name, probes=probes, retry_failed=retry_failed, retrain_changed=retrain == "changed"
            )
            try:
                if found.changed and retrain == "missing":
                    _warn_of_change(sweep, probes, found.changed)
                pool = cluster.pool(probes, stop) if cluster else Threads(workers or cores(), probes, stop)
            except BaseException:
                store.release(begun)
                raise
            scheduler = _Scheduler(sweep, store, begun, found, engines, pool, watch)
            scheduler.run_all()
        return np.flatnonzero(scheduler.found.state == STATES.index("failed"))

    return train


def _warn_of_change(sweep: Sweep, probes: Sequence[Probe], count: int) -> None:
    classes = " or ".join(sorted(extensions.own_classes((*sweep.cells, *probes))))
    before = f"{count} of {len(sweep)} trials were trained before the code of {classes} changed"
    told = f'{before}: retrain="changed" trains them again'
    warnings.warn(told, ElegansWarning, stacklevel=5)


def _check_probes(sweep: Sweep, probes: Sequence[Probe]) -> None:
    kinds = [probe.kind for probe in probes]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise SweepError(f"probes must be of different kinds: {kind} occurs {kinds.count(kind)} times")
    for template in sweep.cells if probes else ():
        check_probes(probes, template)


class _Scheduler:
    """Claims trials, hands them to the workers and records their outcomes, all in the calling thread."""

    def __init__(
        self,
        sweep: Sweep,
        store: Store,
        run: Run,
        found: Survey,
        engines: Sequence[Engine],
        pool: Workers,
        watch: Watch | None,
    ) -> None:
        self.sweep, self.store, self.run, self.found = sweep, store, run, found
        self.pool, self.watch, self.meter = pool, watch, Meter()
        self.groups = _groups(sweep, engines)
        self.attempted = np.zeros(len(sweep), bool)
        self.flying: dict[tuple[str, int], int] = {}
        self.pending: list[Outcome] = []
        self.overtaken, self.horizon = False, 0
        self.waits_since: float | None = None
        self.waits_for: tuple[str, ...] = ()
        now = time.monotonic()
        self.next_commit, self.next_beat, self.next_look = now, now + HEARTBEAT_SECONDS, now

    def run_all(self) -> None:
        """Continue until nothing is missing or a signal is received; leave the store in order in every case."""
        try:
            with self.pool.limits():
                self._work()
                interrupted = self.pool.stop.is_set()
                self._end()
        except StoreError:  # it would only raise again; trials in flight are lost, committed ones are not
            self.pool.shutdown(FAREWELL_SECONDS)
            with suppress(StoreError):
                self.store.release(self.run)
            raise
        except BaseException:
            self._end()
            raise
        if interrupted:
            done = int(self.found.settled.sum())
            raise Interrupted(
                f"interrupted: {done} of {len(self.sweep)} trials are done; run it again to continue from there"
            )

    def _end(self) -> None:
        self.pending += self.pool.shutdown(FAREWELL_SECONDS if self.pool.busy else 0.0)
        try:
            self._commit()
        finally:
            self.store.release(self.run)
        if self.pool.stop.is_set() and not self.found.settled.all():  # others may have trained some in the meantime
            self.found = self.store.survey(self.run, self.sweep)
        self._look(at_once=True)

    def _work(self) -> None:
        todo = ~self.found.settled
        while todo.any() and not self.pool.stop.is_set():
            if self._train(todo):
                self.waits_since, self.waits_for = None, ()
            else:
                self._wait()
            self.found = self.store.survey(self.run, self.sweep)
            todo = ~self.found.settled & ~self.attempted

    def _train(self, todo: np.ndarray) -> bool:
        """Train the trials that can be claimed, and return whether there were any."""
        any_claimed = False
        for engine, together, parts in self.groups:
            left = _places(parts, todo, self.sweep.first)
            while len(left):
                some, most = left, self._size(engine, together)
                if engine.side_by_side > 1:  # batches of one size: one compilation
                    some = left[: -(-len(left) // -(-len(left) // most))]
                claimed, seen = self._claim(engine, some[: max(most, self.horizon)], most)
                left, any_claimed = left[seen:], any_claimed or claimed
                while not self.pool.stop.is_set() and not self.pool.room(engine, self.meter.per_second):
                    self._turn()
                if self.pool.stop.is_set():
                    return True
        while self.flying and not self.pool.stop.is_set():
            self._turn()
        self._commit()
        return any_claimed

    def _size(self, engine: Engine, together: int) -> int:
        return together if engine.side_by_side > 1 else max(1, self.pool.room(engine, self.meter.per_second))

    def _claim(self, engine: Engine, places: np.ndarray, most: int) -> tuple[bool, int]:
        """Claim the first free trials, and return whether there were any and how many places have been looked at.

        Other runs of the sweep want the same trials first: where they hold the next ones, more are looked at at once.
        """
        trials = {}
        for index, place in enumerate(places.tolist()):
            trial = self.sweep.trial(place)
            trials[trial.cell, trial.seed] = trial, place, index
        claimed = self.store.claim(self.run, [trial for trial, *_ in trials.values()], most)
        full = len(claimed) == most
        self.horizon = self.horizon // 2 if full else min(FARTHEST, 4 * len(places))
        seen = len(places)
        for trial in claimed:
            _, place, index = trials[trial.cell, trial.seed]
            self.flying[trial.cell, trial.seed] = place
            self.attempted[place] = True
            seen = index + 1 if full else seen
        if claimed:
            self.pool.train(engine, claimed)
        return bool(claimed), seen

    def _turn(self) -> None:
        """Collect outcomes, and do what is due."""
        now = time.monotonic()
        due = min(self.next_commit, now + LOOK_SECONDS) if self.pending else now + LOOK_SECONDS
        self.pending += self.pool.collect(due - now)
        if self.pool.failure is not None:
            raise self.pool.failure
        if self.pending and time.monotonic() >= self.next_commit:
            self._commit()
        self.meter.note(share([*self.pool.under_way.values()]))
        if time.monotonic() >= self.next_beat:
            self.next_beat = time.monotonic() + HEARTBEAT_SECONDS
            self.store.beat(self.run)
        self._look()

    def _commit(self) -> None:
        """Record what has ended, which takes at most a tenth of the time; outcomes of long trials do not wait."""
        if not self.pending:
            return
        begun = time.monotonic()
        dropped = {(outcome.trial.cell, outcome.trial.seed) for outcome in self.store.record(self.run, self.pending)}
        if dropped and not self.overtaken:
            self.overtaken = True
            warnings.warn(OVERTAKEN, ElegansWarning, stacklevel=2)
        ended = 0
        for outcome in self.pending:
            key = outcome.trial.cell, outcome.trial.seed
            place = self.flying.pop(key)
            if key in dropped:
                self.attempted[place] = False  # the run that has the trial may end without an outcome of it
                continue
            self.found.state[place] = STATES.index(outcome.state)
            self.found.settled[place] = outcome.state != "interrupted"
            ended += outcome.state != "interrupted"
        self.meter.add(ended)
        self.pending = []
        now = time.monotonic()
        self.next_commit = now + min(0.25, 10 * (now - begun))

    def _wait(self) -> None:
        now = time.monotonic()
        self.waits_since = self.waits_since or now
        if now - self.waits_since > PATIENT_SECONDS:
            self.waits_for = self.store.holders(self.run)
        until = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < until and not self.pool.stop.wait(LOOK_SECONDS):
            self._turn()

    def _look(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if self.watch is None or (now < self.next_look and not at_once):
            return
        self.next_look = now + LOOK_SECONDS
        self.watch(self._progress())

    def _progress(self) -> Progress:
        settled, cells = self.found.settled, len(self.sweep.parts)
        done = int(settled.sum())
        count = np.bincount(self.found.state + 1, minlength=len(STATES) + 1)[1:]
        return Progress(
            cells=cells,
            cells_done=int(np.logical_and.reduceat(settled, self.sweep.first[:-1]).sum()) if cells else 0,
            trials=len(settled),
            done=done,
            this_run=self.meter.count,
            per_second=self.meter.per_second,
            seconds_left=self.meter.seconds_left(len(settled) - done),
            elapsed=self.meter.elapsed,
            under_way=tuple(self.pool.under_way.values()),
            waits_for=self.waits_for or self.pool.waits_for,
            **{state: int(count[code]) for code, state in enumerate(STATES)},
        )


_Group = tuple[Engine, int, np.ndarray]
"""An engine, how many trials it trains side by side, and the numbers of the sweep's cells that may share a batch."""


def _groups(sweep: Sweep, engines: Sequence[Engine]) -> list[_Group]:
    """Group the cells that can train side by side; engines that train one at a time take any cells."""
    found: dict[tuple[str, str], tuple[Engine, list[int]]] = {}
    for part, (template, engine) in enumerate(zip(sweep.cells, engines, strict=True)):
        signature = engine.signature(template) if engine.side_by_side > 1 else ""
        found.setdefault((engine.name, signature), (engine, []))[1].append(part)
    return [(engine, engine.together(sweep.cells[parts[0]]), np.array(parts)) for engine, parts in found.values()]


def _places(parts: np.ndarray, todo: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the positions of the trials of some cells that are to be trained."""
    return np.concatenate([first[part] + np.flatnonzero(todo[first[part] : first[part + 1]]) for part in parts])
