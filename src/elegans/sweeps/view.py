"""Live views of a sweep's progress: a bar on a terminal or in a notebook, a line every few seconds elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from elegans.display import LiveView, remaining, span, wanted
from elegans.sweeps.progress import Progress

BAR_WIDTH = 60
STATES = ("solved", "unsolved", "diverged", "interrupted", "failed")
SHOWN = 4
"""Maximum number of batches under way whose steps are shown."""


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
        self.last = progress
        if self.is_due():
            self.show(bar(progress), line(progress))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clear a terminal; leave the final progress in a notebook."""
        super().__exit__(kind, error, trace)
        if self.notebook and self.last is not None:
            self.show(ending(self.last), "")


@contextmanager
def watching(
    progress: bool | None, watch: Callable[[Progress], None] | None
) -> Iterator[Callable[[Progress], None] | None]:
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
    """Return a run's counts and speed, and the runs that it waits for."""
    waits = f"; waits for {', '.join(progress.waits_for)}" if progress.waits_for else ""
    left = "" if progress.seconds_left is None else f", {remaining(progress.seconds_left)}"
    return (
        f"{progress.cells_done} of {progress.cells} cells, {progress.done} of {progress.trials} trials"
        f"{under_way(progress)}, {progress.per_second:.3g} trials/s{left}{waits}"
    )


def under_way(progress: Progress) -> str:
    """Return how many steps the trials under way have taken, if trials take longer than a second."""
    if not progress.under_way or progress.per_second > 1:
        return ""
    parts = [
        f"step {step:,} of {steps:,}" + (f" of {trials} side by side" if trials > 1 else "")
        for step, steps, trials in progress.under_way[:SHOWN]
    ]
    return f" ({'; '.join(parts)}{'; …' if len(progress.under_way) > SHOWN else ''})"


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
