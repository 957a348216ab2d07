"""The progress of a single training, in steps."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from elegans.display import LiveView, remaining, wanted

Advanced = Callable[[int, int], None]
"""Called after each chunk with the number of steps taken and the number of trials under way."""


class TrainView(LiveView):
    """Shows the number of steps that a trial has taken, and when it will end.

    Args:
        steps: the largest number of steps.
    """

    def __init__(self, steps: int) -> None:
        super().__init__(transient=True)
        self.steps = steps
        self.first: tuple[float, int] | None = None
        """When the first steps had been taken, and how many: before them, a program may have been compiled."""

    def __call__(self, step: int, trials: int) -> None:
        """Show the progress if the view is due."""
        now = time.monotonic()
        begun, before = self.first = self.first or (now, step)
        if self.is_due():
            line = f"step {step:,} of {self.steps:,}"
            if step > before and now > begun:
                per_second = (step - before) / (now - begun)
                line += f", {per_second:,.0f} steps/s, {remaining((self.steps - step) / per_second)} at most"
            self.show(line, line)


@contextmanager
def following(progress: bool | None, watched: bool, steps: int) -> Iterator[Advanced | None]:
    """Yield a view of a trial if one is wanted, or None."""
    if not wanted(progress, watched):
        yield None
        return
    with TrainView(steps) as view:
        yield view
