"""The progress of a run."""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

WINDOW_SECONDS = 30.0
"""Seconds over which the speed of a run is measured."""


@dataclass(frozen=True)
class Progress:
    """The progress of a sweep: by this run and by all runs.

    Args:
        cells, cells_done: how many cells the sweep has, and how many of them are complete.
        trials, done: the same for trials, whichever run trained them.
        this_run: how many trials this run has completed.
        solved, unsolved, diverged, failed, interrupted: how many of the sweep's trials are in each state.
        per_second: recent trials per second, including the steps of those under way.
        seconds_left: an estimate, or None if there is no basis for one yet.
        elapsed: seconds since the run began.
        waits_for: the runs that hold the missing trials, if this one has been waiting for them for a while.
        under_way: for each batch of trials that this run trains side by side, the steps taken so far, the largest
            number of steps, and the number of trials.
    """

    cells: int
    cells_done: int
    trials: int
    done: int
    this_run: int
    solved: int
    unsolved: int
    diverged: int
    failed: int
    interrupted: int
    per_second: float
    seconds_left: float | None
    elapsed: float
    waits_for: tuple[str, ...] = ()
    under_way: tuple[tuple[int, int, int], ...] = ()

    @property
    def share(self) -> float:
        """The work done so far by trials under way, in trials."""
        return share(self.under_way)


def share(under_way: Iterable[tuple[int, int, int]]) -> float:
    """Return the work done so far by trials under way, in trials."""
    return sum(trials * step / steps for step, steps, trials in under_way)


class Meter:
    """Measures how fast trials are trained: recently, or since the beginning in a short run."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.count = 0
        self.share = 0.0
        self.marks: deque[tuple[float, float]] = deque([(self.begun, 0)])

    def add(self, count: int) -> None:
        """Count trials that have just ended."""
        self.count += count
        self._mark(time.monotonic())

    def note(self, share: float) -> None:
        """Note the work done so far by trials under way, in trials."""
        self.share, now = share, time.monotonic()
        if now > self.marks[-1][0] + 1:
            self._mark(now)

    def _mark(self, now: float) -> None:
        self.marks.append((now, self.count + self.share))
        while len(self.marks) > 2 and self.marks[1][0] < now - WINDOW_SECONDS:
            self.marks.popleft()

    def seconds_left(self, count: int) -> float | None:
        """Return an estimate of the time until a number of further trials have ended, or None without a rate."""
        if count == 0:
            return 0.0
        return max(0.0, count - self.share) / self.per_second if self.per_second > 0 else None

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begun

    @property
    def per_second(self) -> float:
        """Trials per second."""
        since, before = self.marks[0]
        return max(0.0, self.count + self.share - before) / max(time.monotonic() - since, 1e-3)
