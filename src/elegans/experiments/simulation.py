"""How long a run takes on more workers than this machine has: its batches, one after the other, without training."""

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from elegans.sweeps.dask_client import BATCH_COST, IN_FLIGHT, LARGEST_BATCH, TRIAL_COST, batch_seconds

LATENCY = 0.02
"""Seconds for a batch to reach a worker and for its outcomes to come back."""


@dataclass(frozen=True)
class Simulated:
    """A simulated run.

    Args:
        workers: the number of workers, of one core each.
        seconds: the duration of the run.
        work: the seconds that all trials take one after another on one core.
        writer: the share of the time during which the process that claims and records is busy.
    """

    workers: int
    seconds: float
    work: float
    writer: float

    @property
    def efficiency(self) -> float:
        """The share of the workers' time that is spent on training."""
        return self.work / (self.workers * self.seconds) if self.seconds else 1.0


def simulate(searches: Iterable[Iterator[Sequence[float]]], workers: int) -> Simulated:
    """Simulate a run on a cluster.

    Batches are cut as ``sweeps.cluster`` cuts them. One process claims, sends, fetches and records, one thing after the
    other; workers are equal and do not fail.

    Args:
        searches: each yields the seconds of the trials that it requests at once, and goes on when all of them have
            ended. A grid is one search with one request; the panels of a traced frontier are several searches.
        workers: the number of workers, of one core each.
    """
    return _Simulation(list(searches), workers).run()


class _Simulation:
    def __init__(self, searches: Sequence[Iterator[Sequence[float]]], workers: int) -> None:
        self.searches, self.workers = searches, workers
        self.enough = batch_seconds(workers)
        self.open = [0] * len(searches)
        self.todo: deque[tuple[int, float]] = deque()
        self.ready: deque[list[tuple[int, float]]] = deque()
        self.ends: list[tuple[float, int, list[tuple[int, float]]]] = []
        self.number = count()
        self.idle, self.flying = workers, 0
        self.now = self.writer_free = self.written = self.work = 0.0

    def run(self) -> Simulated:
        for search in range(len(self.searches)):
            self._ask(search)
        self._send()
        while self.ends:
            self.now, _, batch = heapq.heappop(self.ends)
            if batch and batch[0][0] < 0:  # a batch that has reached the workers
                self.ready.append(batch[1:])
            else:
                self._end(batch)
            while self.ready and self.idle:
                self._begin(self.ready.popleft())
            self._send()
        seconds = max(self.now, self.writer_free)
        return Simulated(self.workers, seconds, self.work, self.written / seconds if seconds else 0.0)

    def _ask(self, search: int) -> None:
        request = next(self.searches[search], ())
        self.open[search] = len(request)
        self.work += math.fsum(request)
        self.todo.extend((search, seconds) for seconds in request)

    def _send(self) -> None:
        """Cut and send batches until every worker has one in training and one in waiting."""
        while self.todo and (slots := IN_FLIGHT * self.workers - self.flying) > 0:
            most, batch, seconds = min(LARGEST_BATCH, math.ceil(len(self.todo) / slots)), [(-1, 0.0)], 0.0
            while self.todo and len(batch) <= most and seconds < self.enough:
                batch.append(self.todo.popleft())
                seconds += batch[-1][1]
            self.flying += 1
            spent = BATCH_COST + TRIAL_COST * (len(batch) - 1)
            self.writer_free = max(self.now, self.writer_free) + spent
            self.written += spent
            self._push(self.writer_free + LATENCY, batch)

    def _begin(self, batch: list[tuple[int, float]]) -> None:
        self.idle -= 1
        self._push(self.now + sum(seconds for _, seconds in batch), batch)

    def _end(self, batch: list[tuple[int, float]]) -> None:
        self.idle += 1
        self.flying -= 1
        for search, _ in batch:
            self.open[search] -= 1
            if not self.open[search]:
                self._ask(search)

    def _push(self, time: float, batch: list[tuple[int, float]]) -> None:
        heapq.heappush(self.ends, (time, next(self.number), batch))
