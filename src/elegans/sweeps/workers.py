"""The training threads: each trains one batch at a time, with trials in and outcomes out."""

import atexit
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from queue import Empty, SimpleQueue

from elegans.errors import SweepError
from elegans.probes import Probe
from elegans.training.engines import Engine
from elegans.training.loop import train_together
from elegans.training.outcome import Outcome
from elegans.training.trial import Trial

PAUSE = 0.005
"""Seconds to wait for more outcomes after the first, so that training threads are not held up for each of them."""

_Batch = tuple[Engine, Sequence[Trial]]


class WorkerPool:
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
        self.batches = 0
        """Number of batches that have been handed out and not ended."""
        self.under_way: dict[int, tuple[int, int, int]] = {}
        """For each thread, its batch's steps so far, the largest number of steps, and the trials under way."""
        self._todo: SimpleQueue[_Batch | None] = SimpleQueue()
        self._done: SimpleQueue[Outcome | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"elegans-{n}", daemon=True) for n in range(workers)]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError:
            self.stop.set()
            for _ in self._threads:
                self._todo.put(None)
            raise SweepError(
                f"workers must be at most the number of threads that the system allows: workers={workers}"
            ) from None

    def train(self, engine: Engine, trials: Sequence[Trial]) -> None:
        """Hand out a batch."""
        self.batches += 1
        self._todo.put((engine, trials))

    def collect(self, seconds: float) -> list[Outcome]:
        """Return the outcomes that have arrived, after waiting at most this long for the first of them."""
        found: list[Outcome] = []
        while True:
            try:
                outcome = self._done.get(timeout=max(0.0, seconds)) if not found else self._done.get_nowait()
            except Empty:
                return found
            if outcome is None:
                self.batches -= 1
                seconds = 0.0
            else:
                found.append(outcome)
                if len(found) == 1 and seconds > 0:
                    time.sleep(min(seconds, PAUSE))

    def shutdown(self, seconds: float) -> list[Outcome]:
        """Stop, and return the outcomes that arrive until all threads have ended or the time is up."""
        self.stop.set()
        for _ in self._threads:
            self._todo.put(None)
        deadline, found = time.monotonic() + seconds, []
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < deadline:
            found += self.collect(0.01)
        held_up = [thread for thread in self._threads if thread.is_alive()]
        if held_up:
            atexit.register(_await, held_up)
        return found + self.collect(0.0)

    def _work(self) -> None:
        while (batch := self._todo.get()) is not None:
            engine, trials = batch
            if not self.stop.is_set():
                for outcome in self._outcomes(engine, trials):
                    self._done.put(outcome)
            self.under_way.pop(threading.get_ident(), None)
            self._done.put(None)

    def _outcomes(self, engine: Engine, trials: Sequence[Trial]) -> Iterator[Outcome]:
        """Train a batch; if it raises, train the rest one by one, so that only the culprit fails."""
        left = {(trial.cell, trial.seed): trial for trial in trials}
        steps, thread = trials[0].steps, threading.get_ident()

        def advanced(step: int, count: int) -> None:
            self.under_way[thread] = step, steps, count

        try:
            for outcome in train_together(
                trials, engine, probes=self.probes, stopped=self.stop.is_set, advanced=advanced
            ):
                del left[outcome.trial.cell, outcome.trial.seed]
                yield outcome
        except (Exception, SystemExit):  # whatever a user's own class raises
            if len(trials) == 1:
                yield Outcome(trials[0], "failed", engine=engine.name, error=traceback.format_exc())
                return
            for trial in left.values():
                if not self.stop.is_set():
                    yield from self._outcomes(engine, [trial])


def _await(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join(60)
