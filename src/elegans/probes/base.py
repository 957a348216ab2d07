"""The interface of probes, which measure networks during training."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from jaxtyping import Shaped
from pydantic import Field

from elegans.component import Component
from elegans.display import displayed
from elegans.models import Model
from elegans.models.base import Weights, leaves_by_name
from elegans.tasks import Online, Regime, Task
from elegans.tasks.arrays import Examples, Keys
from elegans.tasks.parity import Supported


@displayed
@dataclass(frozen=True)
class Snapshot:
    """One network at one step, for probes to measure.

    Args:
        step: how many steps have been taken.
        task: the task to learn.
        model: the model that learns.
        hidden: the task's draw for this trial (such as a parity's support).
        sample_size: the size of the trial's sample, or None when it learns online.
        key: returns the key of one of the trial's streams by its name.
        read_parameters: returns the parameters as NumPy arrays.
        wrong: returns which examples the network gets wrong, or its losses on real-valued targets, given a stream's
            name and indices.
        memory: values kept between the measurements of a trial; see ``remember``.
        regime: how examples reach the learner.
    """

    step: int
    task: Task
    model: Model
    hidden: Any
    sample_size: int | None
    key: Keys
    read_parameters: Callable[[], Any]
    wrong: Callable[[str, np.ndarray], Shaped[np.ndarray, " count"]]
    memory: dict[str, Any] = field(default_factory=dict)
    regime: Regime = field(default_factory=Online)

    @cached_property
    def parameters(self) -> Any:
        """The current parameters, in the model's own nesting, as NumPy arrays."""
        return self.read_parameters()

    @property
    def weights(self) -> Weights:
        """The current parameter arrays by dotted name, as for a trained network: ``hidden.weight``."""
        return leaves_by_name(self.parameters)

    @property
    def initial(self) -> Any:
        """The parameters at step 0."""
        return self.remember("initial", lambda: self.model.initialise(self.key("init"), self.task))

    def remember(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a named value that is made once per trial, for costly values that do not change during training."""
        if name not in self.memory:
            self.memory[name] = make()
        return self.memory[name]

    @property
    def support(self) -> np.ndarray | None:
        """The coordinates that the labels depend on, int64 of shape (k,), or None if the task has no such set."""
        return np.asarray(self.hidden) if isinstance(self.task, Supported) else None

    def examples(self, stream: str, count: int) -> Examples:
        """Return the first examples of a stream: inputs (count, n) and clean labels (count,)."""
        index = np.arange(count, dtype=np.uint32)
        return self.regime.evaluated(self.task, self.hidden, self.key, stream, index)


class Probe(Component, family=True):
    """A measure taken during training: before the first step, every ``every`` steps, and at the end.

    Args:
        every: the number of steps between two measurements.
    """

    every: Annotated[int, Field(ge=1, lt=2**32)] = 100

    def due(self, step: int) -> bool:
        """Return whether a measurement is due after this number of steps."""
        return step % self.every == 0

    def next_due(self, step: int) -> int:
        """Return the first step after ``step`` at which a measurement is due."""
        return (step // self.every + 1) * self.every

    @abstractmethod
    def measure(self, snapshot: Snapshot) -> Mapping[str, float | np.ndarray]:
        """Return the named quantities of one network at one step: numbers, or arrays of constant shape."""

    def check(self, task: Task, model: Model) -> None:
        """Refuse a trial that this probe cannot measure."""
