"""Schedules of the learning rate."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field, SerializeAsAny, model_validator

from elegans.component import Component
from elegans.errors import shown

if TYPE_CHECKING:
    from jaxtyping import Float32

Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A learning rate, a weight decay or a factor: finite, at least 0."""


class Schedule(Component, family=True):
    """The factor of the learning rate at each step."""

    host_only = True

    @abstractmethod
    def factors(self, first: int, count: int) -> Float32[np.ndarray, " count"]:
        """Return the factors of the steps first, …, first + count - 1 (counted from 0)."""


class Constant(Schedule):
    """The same learning rate throughout."""

    def factors(self, first: int, count: int) -> Float32[np.ndarray, " count"]:
        return np.ones(count, np.float32)


class Piecewise(Schedule):
    """A factor that is constant between the given steps: ``Piecewise(steps=(0, 1000), values=(1, 0.1))``.

    Args:
        steps: increasing, beginning with 0.
        values: as many factors, each at least 0.
    """

    steps: tuple[Annotated[int, Field(ge=0)], ...]
    values: tuple[Rate, ...]

    @model_validator(mode="after")
    def _in_order(self) -> Piecewise:
        if not self.steps or self.steps[0] != 0 or list(self.steps) != sorted(set(self.steps)):
            raise ValueError(f"steps of a piecewise schedule must begin with 0 and increase: steps={shown(self.steps)}")
        if len(self.steps) != len(self.values):
            rule = "a piecewise schedule must have as many values as steps"
            raise ValueError(f"{rule}: steps={shown(self.steps)}, values={shown(self.values)}")
        return self

    def factors(self, first: int, count: int) -> Float32[np.ndarray, " count"]:
        piece = np.searchsorted(self.steps, np.arange(first, first + count), side="right") - 1
        return np.asarray(self.values, np.float32)[piece]


class Cosine(Schedule):
    """From 1 down to 0 along half a cosine: (1 + cos(pi t / steps)) / 2, and 0 after.

    Args:
        steps: the number of steps from 1 to 0.
    """

    shorthand = "steps"
    steps: Annotated[int, Field(ge=1)]

    def factors(self, first: int, count: int) -> Float32[np.ndarray, " count"]:
        progress = np.minimum(np.arange(first, first + count) / self.steps, 1)
        return ((1 + np.cos(np.pi * progress)) / 2).astype(np.float32)


class Warmup(Schedule):
    """A linear increase over the first steps, and then another schedule: ``Warmup(steps=100, then="cosine:900")``.

    The factor of step t is (t + 1) / (steps + 1) times the first factor of ``then``, whose own steps count from the end
    of the increase.

    Args:
        steps: the number of steps before the first with the whole factor.
        then: the schedule after them; constant by default.
    """

    shorthand = "steps"
    steps: Annotated[int, Field(ge=1)]
    then: SerializeAsAny[Schedule] = Constant()

    def factors(self, first: int, count: int) -> Float32[np.ndarray, " count"]:
        step = np.arange(first, first + count)
        rising = step[step < self.steps]
        start = self.then.factors(0, 1) * ((rising + 1) / (self.steps + 1))
        after = max(0, first - self.steps)
        return np.concatenate([start.astype(np.float32), self.then.factors(after, count - len(rising))])
