"""Training on other machines by ``dask.distributed``: this process claims and records, workers only train.

The scheduler of Dask hands batches to its workers. Each batch is plain data (see ``dask_worker``), so only elegans has
to be installed there, and a batch that is lost with its worker is trained again somewhere else with the same result.
"""

import logging
import math
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self

from elegans import discovery, extensions
from elegans.errors import SweepError, brief, shown
from elegans.interruption import stopped_by_signals
from elegans.machine import MOST_WORKERS, instruction_sets
from elegans.probes import Probe
from elegans.sweeps import dask_worker
from elegans.sweeps.threads import LARGEST_CLAIM, PAUSE, Workers
from elegans.training.engines import Engine
from elegans.training.outcome import Outcome
from elegans.training.states import STATES
from elegans.training.trial import Trial

BATCH_SECONDS = 7.0
"""Seconds that a batch is meant to take: long beside the cost of sending it, short enough to lose with a worker."""
BATCH_COST = 0.004
"""Seconds that this process needs for each batch: sending it, and fetching what it brought."""
TRIAL_COST = 0.0002
"""Seconds that this process needs for each trial: claiming, packing and recording it."""
LARGEST_BATCH = LARGEST_CLAIM
"""Maximum number of trials in a batch."""
IN_FLIGHT = 2
"""Batches that a slot has or waits for: one in training and the next."""
AHEAD_BATCHES = 4
"""Batches that are claimed for each slot: the batches in flight and as many to come."""
MOST_AT_ONCE = 8192
"""Maximum number of trials that are claimed in one transaction."""
CONNECT_SECONDS = 20.0
"""Seconds to wait for the scheduler, and for the workers of this machine."""
LOST_SECONDS = 60.0
"""Seconds without the scheduler after which a run ends."""
COUNT_SECONDS = 2.0
"""Seconds between two counts of the workers."""
OWN_SCHEDULER = {"work-stealing": False, "allowed-failures": 1}
"""How a scheduler of this process differs from Dask's defaults: batches stay where they are, and one whose worker died
twice is taken apart."""
PATIENT_SECONDS = 5.0
"""Seconds without a worker after which the run says so."""


def batch_seconds(slots: int) -> float:
    """Return the seconds that a batch should take, so that batches keep this process busy for a quarter of its time."""
    return max(BATCH_SECONDS, 4 * BATCH_COST * slots)


class Cluster:
    """A connection to a Dask scheduler whose workers train.

    Args:
        scheduler: the scheduler's address (``tcp://host:8786``), its file, ``local:N`` for N processes on this machine,
            or a ``distributed.Client``, which stays open.
        instruction_set: the instruction set that all workers use; by default the best one that all of them have.

    Raises:
        SweepError: Dask is not installed, the scheduler cannot be reached, or its workers' versions differ from those
            of this process.
    """

    def __init__(self, scheduler: Any, instruction_set: str | None = None) -> None:
        try:
            import distributed
        except ImportError:
            raise SweepError("a scheduler needs the extra elegans[cluster], which installs Dask") from None
        self.stop: threading.Event | None = None
        """What stops all runs of this connection, while there may be several."""
        self.given, self.own, self.local = scheduler, not isinstance(scheduler, distributed.Client), None
        if isinstance(scheduler, str | Path) and str(scheduler).startswith("local:"):
            self.local = _Local(str(scheduler))
        elif self.own and not isinstance(scheduler, str | Path):
            raise SweepError(f"scheduler must be an address, a file, local:N or a Client: got {shown(scheduler)}")
        if not self.own and scheduler.asynchronous:
            raise SweepError("a scheduler's Client must not be asynchronous: asynchronous=True")
        try:
            self.client = _client(self.local.address if self.local else scheduler) if self.own else scheduler
            self.place = self.client.scheduler.address
            if self.local:
                self._wait_for(self.local.count)
            self.hosts = self._compare()
            self.instruction_set = self._pinned(instruction_set)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect, and end what was started for this connection."""
        if self.own and hasattr(self, "client"):
            with suppress(Exception):  # the scheduler may be gone
                self.client.close(timeout=2)
        if self.local:
            self.local.close()

    @property
    def slots(self) -> int:
        """How many batches the workers train at once."""
        return sum(self.client.nthreads().values())

    def pool(self, probes: Sequence[Probe], stop: threading.Event) -> "DaskWorkers":
        """Return the workers of a run."""
        return DaskWorkers(self, probes, stop)

    @contextmanager
    def at_once(self) -> Iterator[threading.Event]:
        """Let one signal stop all runs of this connection, which may be in several threads."""
        with stopped_by_signals(threading.Event()) as self.stop:
            try:
                yield self.stop
            finally:
                self.stop = None

    def record(self) -> dict[str, Any]:
        """Return what a record says about the cluster."""
        return {"hosts": len(self.hosts), "slots": self.slots, "instruction_set": self.instruction_set}

    def _wait_for(self, count: int) -> None:
        assert self.local is not None
        until = time.monotonic() + CONNECT_SECONDS * (1 + count / 4)
        while len(self.client.nthreads()) < count:
            if time.monotonic() > until or not self.local.is_alive():
                raise SweepError(f"the workers of this machine must start within {CONNECT_SECONDS:.0f} s: {self.given}")
            time.sleep(0.05)

    def _compare(self) -> dict[str, list[str]]:
        """Return the instruction sets of the workers' hosts; refuse workers whose versions differ."""
        own = dask_worker.identity()
        found = self.client.run(dask_worker.identity, on_error="return")
        hosts: dict[str, list[str]] = {}
        for address, other in found.items():
            if isinstance(other, OSError):
                continue  # the worker has ended or is out of reach; if it comes back, its first batch compares
            if not isinstance(other, dict) or own.keys() != other.keys():
                said = f"{type(other).__name__}: {brief(str(other), 200)}"
                raise SweepError(f"a worker must have the same elegans as the run: {address}: {said}")
            if differs := dask_worker.difference(own["versions"], other["versions"]):
                raise SweepError(f"a worker must have the same versions as the run: {other['host']} has {differs}")
            known = hosts.setdefault(other["host"], other["instruction_sets"])
            hosts[other["host"]] = [name for name in known if name in other["instruction_sets"]]
        return hosts

    def _pinned(self, asked: str | None) -> str | None:
        """Return the instruction set for all workers: the one requested, or the best that every host has."""
        asked = asked or os.environ.get("ELEGANS_INSTRUCTION_SET")
        used, own = instruction_sets()
        lists = [*self.hosts.values()] or [own[: own.index(used) + 1] if used else []]
        common = [name for name in lists[0] if all(name in other for other in lists)]
        if asked is not None and asked not in common:
            known = ", ".join(common) or "none"
            raise SweepError(f"instruction_set must be available on every worker ({known}): instruction_set={asked!r}")
        return asked or (common[-1] if common else None)


def _client(scheduler: Any) -> Any:
    """Return a client of the scheduler at an address or in a file."""
    import distributed

    logging.getLogger("distributed").setLevel(logging.ERROR)  # a run says itself what concerns the user
    place = str(scheduler)
    is_file = "://" not in place and (place.endswith(".json") or Path(place).exists())
    if is_file and not Path(place).is_file():
        raise SweepError(f"a scheduler's file must exist: {place}")
    make: Any = distributed.Client  # its signature is not typed
    given = {"scheduler_file": place} if is_file else {"address": place}
    try:
        return make(**given, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError, TypeError) as error:
        said = brief(str(error) or type(error).__name__, 200)
        raise SweepError(f"a scheduler must be reachable within {CONNECT_SECONDS:.0f} s: {place}: {said}") from None


class _Local:
    """A scheduler in this process, and worker processes in a session of their own, which Ctrl-C does not reach."""

    def __init__(self, text: str) -> None:
        digits = text.removeprefix("local:")
        if not digits.isdecimal() or not 1 <= int(digits) <= MOST_WORKERS:
            raise SweepError(f"local:N must have a number of processes from 1 to {MOST_WORKERS}: {text}")
        import dask
        import distributed

        self.count = int(digits)
        self.folder = tempfile.mkdtemp(prefix="elegans-workers-")
        logging.getLogger("distributed").setLevel(logging.ERROR)
        make: Any = distributed.LocalCluster  # its signature is not typed
        with dask.config.set({f"distributed.scheduler.{name}": value for name, value in OWN_SCHEDULER.items()}):
            self.cluster = make(
                n_workers=0,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.ERROR,
            )
        self.address = self.cluster.scheduler_address
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--nthreads=1", "--no-dashboard"]
        command += [f"--nworkers={self.count}", "--memory-limit=0", "--death-timeout=20"]
        self.process = subprocess.Popen(
            [*command, f"--local-directory={self.folder}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        """End the scheduler, and the workers, which hold nothing that is still needed."""
        with suppress(Exception):
            self.cluster.close(timeout=2)
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class _Flight(NamedTuple):
    """A batch that has been handed to the scheduler."""

    future: Any
    engine: Engine
    trials: Sequence[Trial]


class DaskWorkers(Workers):
    """The workers of a cluster: trials are sent in batches of some seconds, few at a time for each worker.

    Args:
        cluster: the connection.
        probes: the measures to take.
        stop: once set, batches in training end as interrupted and no new ones are sent.

    Raises:
        SweepError: a user-defined class is not in a file that could be sent.
    """

    def __init__(self, cluster: Cluster, probes: Sequence[Probe], stop: threading.Event) -> None:
        self.cluster, self.client, self.stop = cluster, cluster.client, stop
        self.run = f"elegans-{uuid.uuid4().hex}"
        self.workers, self.counted, self.seen = cluster.slots, time.monotonic(), time.monotonic()
        self.under_way = {}
        self.flights: dict[str, _Flight] = {}
        self.todo: deque[tuple[Engine, Trial]] = deque()
        """Trials of engines that train one at a time."""
        self.sets: deque[tuple[Engine, Sequence[Trial]]] = deque()
        """Trials that must train in one batch: side by side, or alone since a worker died with them."""
        self.suspects: deque[tuple[Engine, Sequence[Trial]]] = deque()
        """Trials whose workers died although they were alone in their batch; another batch there may be to blame."""
        self.tried: str | None = None
        """The suspect that is tried while nothing else is in flight."""
        self.seconds: dict[str, float] = {}
        """For each cell, the seconds that one of its trials takes."""
        self.mean: float | None = None
        self.number, self.ended = 0, False
        self.probes = tuple(probe.model_dump_json() for probe in probes)
        self.modules: set[str] = _modules(probes)
        self.known: set[str] = set()
        self._ended: SimpleQueue[tuple[str, str, Any]] = SimpleQueue()
        self.client.subscribe_topic(self.run, self._told)

    @property
    def busy(self) -> bool:
        return bool(self.flights or self.todo or self.sets or self.suspects)

    @property
    def waits_for(self) -> tuple[str, ...]:
        lonely = not self.workers and time.monotonic() > self.seen + PATIENT_SECONDS
        return (f"workers to join {self.cluster.place}",) if lonely else ()

    def room(self, engine: Engine, per_second: float) -> int:
        slots = max(1, self.workers)
        if engine.side_by_side > 1:
            return max(0, IN_FLIGHT * slots - len(self.flights) - len(self.sets))
        ahead = IN_FLIGHT * slots
        if self.mean is not None:
            claimed = min(LARGEST_CLAIM, AHEAD_BATCHES * batch_seconds(slots) / self.mean)
            ahead = max(ahead, math.ceil(slots * claimed))
        outstanding = len(self.todo) + sum(len(flight.trials) for flight in self.flights.values())
        return 0 if outstanding > ahead / 2 else min(MOST_AT_ONCE, ahead - outstanding)

    def train(self, engine: Engine, trials: Sequence[Trial]) -> None:
        for trial in trials:
            if trial.cell not in self.known:
                self.known.add(trial.cell)
                self.modules |= _modules([trial])
        if engine.side_by_side > 1:
            together = engine.together(trials[0])
            self.sets += [(engine, trials[first : first + together]) for first in range(0, len(trials), together)]
        else:
            self.todo += [(engine, trial) for trial in trials]
        self._send()

    def collect(self, seconds: float) -> list[Outcome]:
        self._count()
        found: list[Outcome] = []
        with suppress(Empty):
            ended = self._ended.get(timeout=max(0.0, seconds))
            if seconds > 0:
                time.sleep(min(seconds, PAUSE))
            while True:
                found += self._take(*ended)
                ended = self._ended.get_nowait()
        self._send()
        return found

    def shutdown(self, seconds: float) -> list[Outcome]:
        self.ended = True
        for waiting in (self.todo, self.sets, self.suspects):
            waiting.clear()
        if self.flights:
            threading.Thread(target=self._stop_workers, daemon=True).start()
        until, found = time.monotonic() + seconds, list[Outcome]()
        with suppress(SweepError):  # the run has already ended with it
            while self.flights and time.monotonic() < until:
                found += self.collect(0.01)
        with suppress(Exception):  # the scheduler may be gone
            self.client.cancel([flight.future for flight in self.flights.values()])
            self.client.unsubscribe_topic(self.run)
        self.flights.clear()
        self.under_way.clear()
        return found

    def _stop_workers(self) -> None:
        with suppress(Exception):  # the scheduler may be gone
            self.client.run(dask_worker.stop, self.run, on_error="ignore")

    def _count(self) -> None:
        """Count the workers, and notice that the scheduler is lost."""
        now = time.monotonic()
        if now < self.counted + COUNT_SECONDS:
            return
        self.counted = now
        if self.client.status == "running":
            with suppress(OSError, TimeoutError):
                self.workers = self.cluster.slots
        if self.workers and self.client.status == "running":
            self.seen = now
        elif self.client.status == "closed" or (self.client.status != "running" and now > self.seen + LOST_SECONDS):
            raise SweepError(f"the scheduler must stay reachable during a run: {self.cluster.place} is lost")

    def _send(self) -> None:
        """Hand batches to the scheduler until every slot has enough."""
        while not (self.ended or self.stop.is_set()) and len(self.flights) < IN_FLIGHT * max(1, self.workers):
            if self.tried in self.flights:
                return
            if self.sets:
                self._submit(*self.sets.popleft())
            elif self.todo:
                self._submit(*self._cut())
            elif self.suspects and not self.flights:
                self.tried = self._submit(*self.suspects.popleft())
            else:
                return

    def _cut(self) -> tuple[Engine, Sequence[Trial]]:
        """Take the trials of the next batch: as much as is meant to be in one, but an equal share at the end."""
        places = IN_FLIGHT * max(1, self.workers) - len(self.flights)
        most = min(LARGEST_BATCH, math.ceil(len(self.todo) / max(1, places)))
        engine, trials, seconds, enough = self.todo[0][0], list[Trial](), 0.0, batch_seconds(self.workers)
        while self.todo and len(trials) < most and seconds < enough and self.todo[0][0] is engine:
            trial = self.todo.popleft()[1]
            trials.append(trial)
            expected = self.seconds.get(trial.cell, self.mean)
            seconds += enough if expected is None else expected
        return engine, trials

    def _submit(self, engine: Engine, trials: Sequence[Trial]) -> str:
        """Hand a batch to the scheduler, and return its key."""
        self.number += 1
        key = f"{self.run}-{self.number}"
        files = tuple((name, *discovery.LOADED[name]) for name in sorted(discovery.LOADED))
        modules = tuple(sorted(self.modules - discovery.LOADED.keys()))
        token = f"{self.run}-{len(files)}-{len(modules)}"  # later files and classes need another setting up
        versions = dask_worker.identity()["versions"]
        setup = dask_worker.Setup(self.run, token, versions, self.cluster.instruction_set, files, modules, self.probes)
        cells, places = dask_worker.parts_of(trials)
        batch = dask_worker.Batch(key, setup, engine.name, cells, places, 2 * batch_seconds(self.workers))
        future = self.client.submit(dask_worker.train_batch, pickle.dumps(batch), key=key, pure=False, retries=0)
        self.flights[key] = _Flight(future, engine, trials)
        future.add_done_callback(self._arrived)
        return key

    def _arrived(self, future: Any) -> None:
        """Fetch what a batch has brought; called in a thread of the client."""
        if self.flights.get(future.key) is None:
            return
        try:
            self._ended.put((future.key, future.status, future.result()))
        except BaseException as error:  # whatever ended the batch
            self._ended.put((future.key, future.status, error))

    def _told(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Note the steps that a batch has taken; what is no progress of a batch is ignored."""
        with suppress(TypeError, ValueError, LookupError):
            key, (step, steps, trials) = event[1]["key"], event[1]["steps"]
            if key in self.flights and all(type(number) is int for number in (step, steps, trials)) and steps > 0:
                self.under_way[key] = step, steps, trials

    def _take(self, key: str, status: str, brought: Any) -> list[Outcome]:
        """Return the outcomes of a batch that has ended; send again what it left."""
        flight = self.flights.pop(key, None)
        self.under_way.pop(key, None)
        if flight is None:
            return []
        if isinstance(brought, SweepError):
            self._put_back(flight.engine, flight.trials)
            raise brought
        if isinstance(brought, BaseException):
            return self._lost(key, flight, status, brought)
        try:
            report: dask_worker.BatchReport = pickle.loads(brought)  # from a worker of the user's own cluster
            outcomes = [_reported(flight.trials, place, fields) for place, fields in report.outcomes.items()]
            seconds, failure = _duration(report.seconds), report.failure and report.failure[0](*report.failure[1])
        except Exception as error:  # such as a class that only the worker has, or another program's reply
            self._put_back(flight.engine, flight.trials)
            said = brief(f"{type(error).__name__}: {error}", 200)
            raise SweepError(f"a worker must return the report of its batch: {self.cluster.place}: {said}") from None
        self.failure = self.failure or failure
        self._learn(flight.engine, outcomes, seconds)
        if not self.ended:
            left = [trial for place, trial in enumerate(flight.trials) if place not in report.outcomes]
            self._put_back(flight.engine, left)
        return outcomes

    def _put_back(self, engine: Engine, trials: Sequence[Trial]) -> None:
        if trials and engine.side_by_side > 1:
            self.sets.appendleft((engine, trials))
        else:
            self.todo.extendleft((engine, trial) for trial in reversed(trials))

    def _lost(self, key: str, flight: _Flight, status: str, error: BaseException) -> list[Outcome]:
        """Send the trials of a batch again, each alone, if its workers died.

        The scheduler blames every batch that a dead worker had, so a trial that was alone in its batch becomes a
        suspect. It fails if it kills its workers again while nothing else is in flight.
        """
        from distributed import KilledWorker

        if status in ("cancelled", "lost") or self.client.status != "running":
            if not self.ended:
                raise SweepError(f"the scheduler must stay reachable during a run: {self.cluster.place} is lost")
            return []
        if len(flight.trials) > 1:
            self.sets += [(flight.engine, [trial]) for trial in flight.trials]
            return []
        if key != self.tried:
            self.suspects.append((flight.engine, flight.trials))
            return []
        died = "every worker that trained this trial died, by a signal or for want of memory"
        why = died if isinstance(error, KilledWorker) else "the worker could not train this trial"
        text = f"{why}\n{type(error).__name__}: {error}\n"
        return [Outcome(flight.trials[0], "failed", engine=flight.engine.name, error=text)]

    def _learn(self, engine: Engine, outcomes: Sequence[Outcome], seconds: float) -> None:
        if not outcomes or engine.side_by_side > 1:
            return
        spent = sum(outcome.seconds for outcome in outcomes)
        beside = max(0.0, seconds - spent) / len(outcomes)
        counts = Counter(outcome.trial.cell for outcome in outcomes)
        for cell, count in counts.items():
            own = sum(outcome.seconds for outcome in outcomes if outcome.trial.cell == cell) / count + beside
            self.seconds[cell] = max(1e-5, 0.5 * self.seconds.get(cell, own) + 0.5 * own)
        each = max(1e-5, seconds / len(outcomes))
        self.mean = each if self.mean is None else 0.7 * self.mean + 0.3 * each


def _reported(trials: Sequence[Trial], place: Any, fields: Any) -> Outcome:
    """Return the outcome that a worker reports of a trial of its batch, refusing what is none."""
    if type(place) is not int or not 0 <= place < len(trials):
        raise ValueError(f"no trial has this position: {shown(place)}")
    outcome = Outcome(trials[place], **fields)
    if not isinstance(outcome.state, str) or outcome.state not in STATES:
        raise ValueError(f"no outcome has this state: {shown(outcome.state)}")
    _duration(outcome.seconds)
    return outcome


def _duration(seconds: Any) -> float:
    if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise ValueError(f"seconds must be a finite number: {shown(seconds)}")
    return float(seconds)


def _modules(components: Sequence[Any]) -> set[str]:
    """Return the modules that define the user's classes among components; refuse modules that cannot be sent."""
    found = set()
    for name, cls in extensions.own_classes(components).items():
        if cls.__module__ == "__main__":
            raise SweepError(f"to be trained on a cluster, a class must be in a file that is imported: {name}")
        found.add(cls.__module__)
    return found
