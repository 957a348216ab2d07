"""How far a sweep is: a live bar on a terminal, a line every few seconds elsewhere."""

import time
from datetime import timedelta

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table

from elegans.cli.live import LiveView
from elegans.sweeps import Progress

PLAIN_EVERY = 5.0
"""Seconds between lines where there is no terminal."""
LIVE_EVERY = 0.1
BAR_WIDTH = 60
STATES = ("solved", "unsolved", "diverged", "interrupted", "failed")


class SweepView(LiveView):
    """Shows how far a run is; give it to ``run`` as ``watch``.

    Args:
        console: where to write.

    Attributes:
        last: what the run said last, or None.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console, transient=True)
        self.last: Progress | None = None
        self.shown_at = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Show the progress, unless the last one was shown a moment ago."""
        self.last, now = progress, time.monotonic()
        if now - self.shown_at < (LIVE_EVERY if self.live else PLAIN_EVERY):
            return
        self.shown_at = now
        if self.live:
            self.live.update(bar(progress), refresh=True)
        else:
            self.console.print(line(progress))


def bar(progress: Progress) -> Table:
    """Return a run's progress as a bar, and below it how far and how fast it is and how its trials ended."""
    rows = Table.grid()
    rows.add_row(ProgressBar(total=max(1, progress.trials), completed=progress.done, width=BAR_WIDTH))
    rows.add_row(pace(progress))
    rows.add_row(states(progress))
    return rows


def line(progress: Progress) -> str:
    """Return a run's progress as one line."""
    return f"{pace(progress)}: {states(progress)}"


def pace(progress: Progress) -> str:
    """Return how far a run is and how fast."""
    left = "" if progress.seconds_left is None else f", {span(progress.seconds_left)} left"
    return (
        f"{progress.cells_done} of {progress.cells} cells, {progress.done} of {progress.trials} trials, "
        f"{progress.per_second:.3g} trials/s{left}"
    )


def ending(progress: Progress) -> str:
    """Return how a run ended, as one line; failed trials are always named."""
    return (
        f"{progress.done} of {progress.trials} trials done ({progress.this_run} of them by this run, in "
        f"{span(progress.elapsed)}): {states(progress)}"
    )


def states(progress: Progress) -> str:
    """Return how many trials ended in which state, as in ``30 solved, 12 unsolved, 1 failed``."""
    counts = {state: getattr(progress, state) for state in STATES}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count or state in STATES[:2])


def span(seconds: float) -> str:
    """Return a time as hours, minutes and seconds: ``0:01:30``; below ten seconds with a decimal."""
    return f"{seconds:.1f} s" if seconds < 10 else str(timedelta(seconds=round(seconds)))
