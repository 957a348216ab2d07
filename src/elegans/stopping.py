"""When a task counts as solved."""

import math
from typing import Annotated

from pydantic import Field

from elegans.component import Component, Later


class StoppingRule(Component):
    """When a trial counts as solved: its test error is at most ``error`` on ``examples`` held-out examples.

    On a task with real-valued targets there is no error to count: the mean held-out loss must be at most ``loss``.

    Args:
        error: the largest test error of a solved trial, at least 0 and below 1. The paper's is 10%.
        examples: how many held-out examples; the decision is exact on them.
        consecutive: how many checks in a row must pass; the trial is solved at the last of them.
        every: the number of steps between two checks (the last step is always checked).
        stop: whether training ends as soon as the trial is solved.
        loss: the largest mean held-out loss of a solved trial, for tasks with real-valued targets; with None such a
            trial is never solved and takes all its steps.
    """

    host_only = True
    error: Annotated[float, Field(ge=0, lt=1)] = 0.1
    examples: Annotated[int, Field(ge=1, le=10**7)] = 10_000
    consecutive: Annotated[int, Field(ge=1)] = 1
    every: Annotated[int, Field(ge=1, lt=2**32)] = 200
    stop: bool = True
    loss: Annotated[Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, Later] = None

    @property
    def allowed(self) -> int:
        """The largest number of mistakes among the held-out examples that still counts as solved."""
        return math.floor(self.error * self.examples + 1e-9)
