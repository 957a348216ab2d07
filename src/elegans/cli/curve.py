"""A live view of one trial: a chart on a terminal, a line every few seconds elsewhere."""

import math

import numpy as np
from rich.console import Console, Group
from rich.text import Text

from elegans.display import LiveView, span
from elegans.training import Outcome, Trial

BLOCKS = " ▁▂▃▄▅▆▇█"
PLAIN_EVERY = 2.0
"""Seconds between lines where there is no terminal."""
COLUMNS, ROWS = 64, 6


class CurveView(LiveView):
    """Shows a trial's errors and loss as it trains; give it to ``train`` as ``watch``.

    Args:
        console: where to write.
        trial: the trial to be trained.
    """

    def __init__(self, console: Console, trial: Trial) -> None:
        super().__init__(console, plain_every=PLAIN_EVERY)
        self.steps = trial.steps
        self.shown_at = -math.inf

    @staticmethod
    def period(trial: Trial) -> int:
        """Return the steps between two evaluations of the errors: the interval of the trial's checks, at most 200."""
        every = trial.stopping.every
        return every * max(1, -(-trial.steps // (200 * every)))

    def __call__(self, outcome: Outcome) -> None:
        """Show the outcome so far if its errors have just been measured and the view is due."""
        measured_now = outcome.measures["test-error"]["step"][-1] == outcome.curve.step[-1]
        if measured_now and self.is_due():
            told = summary(outcome, self.steps)
            self.show(Group(Text(chart(outcome)), Text(told)), told)

    def end(self, outcome: Outcome) -> None:
        """Show the whole training, where a chart is shown."""
        if self.live and outcome.errors.step and outcome.curve.step:
            self.show(Group(Text(chart(outcome)), Text(summary(outcome, self.steps))), "")


def summary(outcome: Outcome, steps: int) -> str:
    """Return a trial's progress as one line."""
    parts = [f"step {outcome.curve.step[-1]:,} of {steps:,}"]
    for kind, name in (("test-error", "test error"), ("train-error", "train error")):
        if kind in outcome.measures:
            value = outcome.measures[kind]["error"][-1]
            real = outcome.trial.task.targets is not None
            parts.append(f"{name.replace('error', 'loss')} {value:.4g}" if real else f"{name} {value:.1%}")
    parts.append(f"minibatch loss {outcome.curve.loss[-1]:.4g}")
    return ", ".join(parts)


def ending(outcome: Outcome) -> str:
    """Return how a trial ended, as one line."""
    if outcome.state == "diverged":
        return f"diverged at step {outcome.steps:,}: the outputs are no longer finite"
    unsolved = f"{outcome.state} after {outcome.steps:,} steps"
    head = f"solved at step {outcome.solved_at:,}" if outcome.solved else unsolved
    errors = {"test error": outcome.test_error, "train error": outcome.train_error}
    parts = [f"{name} {error:.1%}" for name, error in errors.items() if error is not None]
    losses = {"test loss": outcome.test_loss, "train loss": outcome.train_loss}
    parts += [f"{name} {loss:.4g}" for name, loss in losses.items() if loss is not None]
    return ", ".join([head, *parts, f"{span(outcome.seconds)} on the {outcome.engine} engine"])


def chart(outcome: Outcome, columns: int = COLUMNS, rows: int = ROWS) -> str:
    """Return held-out error (blocks) and train error (dots) over the steps so far, whose axis is logarithmic.

    The top line is 50%, or 100% where an error is above that; of losses on real-valued targets it is the largest.
    """
    errors = outcome.errors
    largest = max(errors.test_error + errors.train_error)
    real = outcome.trial.task.targets is not None
    top = largest or 1.0 if real else 0.5 if largest <= 0.6 else 1.0
    places = np.geomspace(1, max(errors.step[-1], 2), columns)
    points = np.clip(np.searchsorted(errors.step, places, side="right") - 1, 0, None)
    points[-1] = len(errors.step) - 1

    def heights(values: list[float]) -> list[int]:
        return [round(min(values[point], top) / top * 8 * rows) for point in points]

    held_out, train = heights(errors.test_error), heights(errors.train_error)
    lines = []
    for row in reversed(range(rows)):
        labels = {rows - 1: f"{top:4.2g}", 0: "   0"} if real else {rows - 1: f"{top:4.0%}", 0: "  0%"}
        label = labels.get(row, "    ")
        marks = (
            "•" if min(dot // 8, rows - 1) == row else BLOCKS[min(8, max(0, height - 8 * row))]
            for height, dot in zip(held_out, train, strict=True)
        )
        lines.append(label + "│" + "".join(marks))
    what = "loss" if real else "error"
    return "\n".join([*lines, f"    └ held-out {what} █, train {what} •: steps 1 to {errors.step[-1]:,}, logarithmic"])
