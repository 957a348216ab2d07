"""How far a run has come."""

import time
from collections import deque
from dataclasses import dataclass

WINDOW_SECONDS = 30.0
"""The trials of so many last seconds say how fast a run is."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come, its share and everyone's.

    Args:
        cells, cells_done: how many cells the sweep has, and how many of them need nothing more.
        trials, done: the same of trials, whoever trained them.
        this_run: how many this run has trained to an end.
        solved, unsolved, diverged, failed, interrupted: how many of the sweep's trials are in each state.
        per_second: trials per second, lately.
        seconds_left: an estimate, or None as long as there is nothing to estimate from.
        elapsed: seconds since the run began.
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


class Meter:
    """Measures how fast trials end: over the last while, or since the beginning where that is too short."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.count = 0
        self.marks: deque[tuple[float, int]] = deque([(self.begun, 0)])

    def add(self, count: int) -> None:
        """Count trials that have just ended."""
        now = time.monotonic()
        self.count += count
        self.marks.append((now, self.count))
        while len(self.marks) > 2 and self.marks[1][0] < now - WINDOW_SECONDS:
            self.marks.popleft()

    def seconds_left(self, count: int) -> float | None:
        """Return an estimate of the time until so many further trials have ended, or None without a rate."""
        return 0.0 if count == 0 else count / self.per_second if self.per_second > 0 else None

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begun

    @property
    def per_second(self) -> float:
        """Trials per second."""
        since, before = self.marks[0]
        return (self.count - before) / max(time.monotonic() - since, 1e-3)
