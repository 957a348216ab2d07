"""How far a run has come."""

import time
from collections import deque
from collections.abc import Iterable
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
        per_second: trials per second, lately, the steps of those under way counted.
        seconds_left: an estimate, or None as long as there is nothing to estimate from.
        elapsed: seconds since the run began.
        waits_for: the runs that hold what is missing, where this one has had to wait for them for a while.
        under_way: for each batch of trials that this run trains side by side, how many steps it has taken, how many it
            takes at the most, and how many trials it is.
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
        """What the trials under way have done, in trials."""
        return share(self.under_way)


def share(under_way: Iterable[tuple[int, int, int]]) -> float:
    """Return what trials under way have done, in trials."""
    return sum(trials * step / steps for step, steps, trials in under_way)


class Meter:
    """Measures how fast trials are trained: over the last while, or since the beginning where that is too short."""

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
        """Take down what trials under way have done, in trials."""
        self.share, now = share, time.monotonic()
        if now > self.marks[-1][0] + 1:
            self._mark(now)

    def _mark(self, now: float) -> None:
        self.marks.append((now, self.count + self.share))
        while len(self.marks) > 2 and self.marks[1][0] < now - WINDOW_SECONDS:
            self.marks.popleft()

    def seconds_left(self, count: int) -> float | None:
        """Return an estimate of the time until so many further trials have ended, or None without a rate."""
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
