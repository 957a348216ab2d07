"""The progress of a run, and its live views: a bar on a terminal or in a notebook, elsewhere a line now and then."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from elegans.display import LiveView, displayed, remaining, span, wanted
from elegans.errors import counted
from elegans.training.states import STATES

WINDOW_SECONDS = 30.0
"""Seconds over which the speed of a run is measured."""
BAR_WIDTH = 60
SHOWN = 4
"""Maximum number of batches under way whose steps are shown."""


@displayed
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
        stage: what an experiment does after its last trial: ``analysing``, ``judging`` or ``drawing``.
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
    stage: str = ""

    @property
    def share(self) -> float:
        """The work done so far by trials under way, in trials."""
        return share(self.under_way)


def share(under_way: Iterable[tuple[int, int, int]]) -> float:
    """Return the work done so far by trials under way, in trials."""
    return sum(trials * step / steps for step, steps, trials in under_way)


class Meter:
    """Measures how fast trials are trained: recently, or since the beginning in a short run.

    The beginning is when the first step was seen, if no trial has ended before: until then a program may be compiled.
    """

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
        if share and not self.count and not self.marks[-1][1]:
            self.marks = deque([(now, share)])
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


OnProgress = Callable[[Progress], None]
"""Called with the progress of a run."""


class SweepView(LiveView):
    """Shows the progress of a run; pass it to ``run`` as ``watch``.

    Args:
        console: where to write; by default the notebook, or else stderr.

    Attributes:
        last: the last progress, or None.
    """

    def __init__(self, console: Any = None) -> None:
        super().__init__(console, transient=True)
        self.last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Show the progress if the view is due."""
        stage = progress.stage != (self.last.stage if self.last else "")
        self.last = progress
        if self.is_due() or (stage and self.live):
            self.show(bar(progress), line(progress))

    def __exit__(self, *raised: Any) -> None:
        """Clear a terminal; leave the final progress in a notebook."""
        super().__exit__(*raised)
        if self.notebook and self.last is not None:
            self.show(ending(self.last), "")


@contextmanager
def watching(progress: bool | None, watch: OnProgress | None) -> Iterator[OnProgress | None]:
    """Yield the watcher of a run: the given one, a view, or both."""
    if not wanted(progress, watch is not None):
        yield watch
        return
    with SweepView() as view:

        def tell(progress: Progress) -> None:
            view(progress)
            if watch is not None:
                watch(progress)

        yield tell


def bar(progress: Progress) -> Any:
    """Return a run's progress as a bar, with its counts, speed and states of trials below."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    rows = Table.grid()
    done = progress.done + progress.share
    rows.add_row(ProgressBar(total=max(1, progress.trials), completed=done, width=BAR_WIDTH))
    rows.add_row(pace(progress))
    rows.add_row(states(progress))
    return rows


def line(progress: Progress) -> str:
    """Return a run's progress as one line."""
    return f"{pace(progress)}: {states(progress)}"


def pace(progress: Progress) -> str:
    """Return a run's counts and speed and the runs for which it waits, or what it does after its last trial."""
    if progress.stage:
        return f"{progress.done:,} of {counted(progress.trials, 'trial')} done, {progress.stage}"
    waits = f"; waiting for {', '.join(progress.waits_for)}" if progress.waits_for else ""
    left = f", {remaining(progress.seconds_left)}" if progress.seconds_left else ""
    idle = progress.done < progress.trials and not (progress.this_run or progress.under_way or progress.waits_for)
    speed = ", starting or compiling" if idle else ""
    if progress.per_second and not idle:
        speed = f", {progress.per_second:.3g} trials/s"
    return (
        f"{progress.cells_done:,} of {counted(progress.cells, 'cell')}, "
        f"{progress.done:,} of {counted(progress.trials, 'trial')}"
        f"{under_way(progress)}{speed}{left}{waits}"
    )


def under_way(progress: Progress) -> str:
    """Return how many steps the trials under way have taken, if trials take longer than a second."""
    if not progress.under_way or progress.per_second > 1:
        return ""
    parts = [
        (f"{trials:,} trials at step " if trials > 1 else "step ") + f"{step:,} of {steps:,}"
        for step, steps, trials in progress.under_way[:SHOWN]
    ]
    return f" ({'; '.join(parts)}{'; …' if len(progress.under_way) > SHOWN else ''})"


def ending(progress: Progress) -> str:
    """Return how a run ended, as one line; failed trials are always named."""
    return (
        f"{progress.done:,} of {counted(progress.trials, 'trial')} done ({progress.this_run:,} of them by this run, in "
        f"{span(progress.elapsed)}): {states(progress)}"
    )


def states(progress: Progress) -> str:
    """Return how many trials ended in which state, as in ``30 solved, 12 unsolved, 1 failed``."""
    counts = {state: getattr(progress, state) for state in STATES}
    return ", ".join(f"{count:,} {state}" for state, count in counts.items() if count or state in STATES[:2])
