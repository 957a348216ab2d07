"""What trains the trials of a run: the interface, and threads of this process; ``dask_client`` has other machines.

Trials go in and outcomes come out. The run neither knows nor needs to know where they are trained.
"""

import atexit
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from queue import Empty, SimpleQueue
from typing import Any

from threadpoolctl import threadpool_limits

from elegans.errors import SweepError
from elegans.probes import Probe
from elegans.training.engines import Engine
from elegans.training.loop import train_together
from elegans.training.outcome import Outcome
from elegans.training.trial import Trial

LARGEST_CLAIM = 512
"""Maximum number of trials that a run claims ahead of a worker."""
AHEAD_SECONDS = 1.0
"""Seconds of work that a run claims ahead: enough to keep workers busy, but leaving other runs their share."""
PAUSE = 0.005
"""Seconds to wait for more outcomes after the first, so that training threads are not held up for each of them."""

Advanced = Callable[[int, int, int], None]
"""Called with the steps taken by a batch, the largest number of steps, and the number of trials under way."""


class Workers(ABC):
    """Trains trials for a run.

    Attributes:
        workers: how many batches are trained at once.
        stop: once set, batches in training end as interrupted and no new ones are started.
        failure: what ended a batch without outcomes, such as a KeyboardInterrupt raised by a user-defined class.
        under_way: for each batch in training, its steps so far, the largest number of steps, and its trials under way.
    """

    workers: int
    stop: threading.Event
    failure: BaseException | None = None
    under_way: dict[Any, tuple[int, int, int]]

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether outcomes are still to come."""

    @property
    def waits_for(self) -> tuple[str, ...]:
        """What training waits for, in words."""
        return ()

    def limits(self) -> AbstractContextManager[Any]:
        """Return a context that limits other threads of this process during training."""
        return nullcontext()

    @abstractmethod
    def room(self, engine: Engine, per_second: float) -> int:
        """Return how many more trials to claim for an engine now, given how many end per second; 0 for none.

        If the engine trains side by side, any positive number asks for a full batch.
        """

    @abstractmethod
    def train(self, engine: Engine, trials: Sequence[Trial]) -> None:
        """Hand out claimed trials."""

    @abstractmethod
    def collect(self, seconds: float) -> list[Outcome]:
        """Return the outcomes that have arrived, after waiting at most this long for the first of them."""

    @abstractmethod
    def shutdown(self, seconds: float) -> list[Outcome]:
        """Stop, and return the outcomes that arrive until all training has ended or the time is up."""


class Threads(Workers):
    """Threads that train batches of trials; engines release the interpreter lock while they work.

    A thread that is held up, in a long compilation for instance, does not hold up the run; the process waits for it
    at its end, since native code must not be cut off.

    Args:
        workers: how many threads.
        probes: the measures to take.
        stop: once set, batches in training end as interrupted and no new ones are started.

    Raises:
        SweepError: the system does not allow this many threads.
    """

    def __init__(self, workers: int, probes: Sequence[Probe], stop: threading.Event) -> None:
        self.workers, self.probes, self.stop = workers, probes, stop
        self._ended = threading.Event()  # not ``stop``: once that is set, the last commit would not wait for a server
        self.batches = 0  # handed out and not ended
        self.under_way = {}
        self._given, self._given_at = 0, -AHEAD_SECONDS
        self._todo: SimpleQueue[tuple[Engine, Sequence[Trial]] | None] = SimpleQueue()
        self._done: SimpleQueue[Outcome | BaseException | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"elegans-{n}", daemon=True) for n in range(workers)]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError:
            self._ended.set()
            for _ in self._threads:
                self._todo.put(None)
            raise SweepError(
                f"workers must be at most the number of threads that the system allows: workers={workers}"
            ) from None

    @property
    def busy(self) -> bool:
        return self.batches > 0

    def limits(self) -> AbstractContextManager[Any]:
        """Limit BLAS to one thread if several workers call it, since they would wait for each other's threads.

        A single worker decides for itself: within a limit that one thread has set, no other thread can set another.
        """
        limited: AbstractContextManager[Any] = (
            threadpool_limits(1, user_api="blas") if self.workers > 1 else nullcontext()
        )
        return limited

    def room(self, engine: Engine, per_second: float) -> int:
        """Return how many more trials to claim: enough work for a second, once half of it is done.

        The pace says nothing while the run waits for its store most of the time: then twice as much as the last time.
        """
        if engine.side_by_side > 1:
            return max(0, self.workers - self.batches)
        ahead = int(per_second * AHEAD_SECONDS)
        if not self.batches and time.monotonic() < self._given_at + AHEAD_SECONDS:
            ahead = max(ahead, 2 * self._given)
        ahead = min(LARGEST_CLAIM, ahead)
        if self.batches >= max(self.workers, ahead // 2):
            return 0
        return max(1, max(self.workers, ahead) - self.batches)

    def train(self, engine: Engine, trials: Sequence[Trial]) -> None:
        self._given, self._given_at = len(trials), time.monotonic()
        together = engine.together(trials[0])
        for first in range(0, len(trials), together):
            self.batches += 1
            self._todo.put((engine, trials[first : first + together]))

    def collect(self, seconds: float) -> list[Outcome]:
        found: list[Outcome] = []
        while True:
            try:
                outcome = self._done.get(timeout=max(0.0, seconds)) if not found else self._done.get_nowait()
            except Empty:
                return found
            if outcome is None:
                self.batches -= 1
                seconds = 0.0
            elif isinstance(outcome, BaseException):
                self.failure = self.failure or outcome
            else:
                found.append(outcome)
                if len(found) == 1 and seconds > 0:
                    time.sleep(min(seconds, PAUSE))

    def shutdown(self, seconds: float) -> list[Outcome]:
        self._ended.set()
        for _ in self._threads:
            self._todo.put(None)
        deadline, found = time.monotonic() + seconds, []
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < deadline:
            found += self.collect(0.01)
        held_up = [thread for thread in self._threads if thread.is_alive()]
        for thread in held_up:
            atexit.register(thread.join, 60)
        return found + self.collect(0.0)

    def _over(self) -> bool:
        return self.stop.is_set() or self._ended.is_set()

    def _work(self) -> None:
        thread = threading.get_ident()

        def advanced(step: int, steps: int, trials: int) -> None:
            self.under_way[thread] = step, steps, trials

        while (batch := self._todo.get()) is not None:
            engine, trials = batch
            try:
                if not self._over():
                    for outcome in outcomes_of(trials, engine, self.probes, self._over, advanced):
                        self._done.put(outcome)
            except BaseException as error:  # the run raises it: a thread that ended in silence would be waited for
                self._done.put(error)
            self.under_way.pop(thread, None)
            self._done.put(None)


def outcomes_of(
    trials: Sequence[Trial],
    engine: Engine,
    probes: Sequence[Probe],
    stopped: Callable[[], bool],
    advanced: Advanced,
) -> Iterator[Outcome]:
    """Train a batch; if it raises, train the rest one by one, so that only the culprit fails."""
    left = {(trial.cell, trial.seed): trial for trial in trials}
    steps = trials[0].steps

    try:
        for outcome in train_together(
            trials, engine, probes=probes, stopped=stopped, advanced=lambda step, count: advanced(step, steps, count)
        ):
            del left[outcome.trial.cell, outcome.trial.seed]
            yield outcome
    except (Exception, SystemExit):  # whatever a user's own class raises
        if len(trials) == 1:
            yield Outcome(trials[0], "failed", engine=engine.name, error=traceback.format_exc())
            return
    else:
        return
    for trial in left.values():  # after the exception: the traceback of the next would quote it
        if not stopped():
            yield from outcomes_of([trial], engine, probes, stopped, advanced)
