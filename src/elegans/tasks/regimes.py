"""How examples reach the learner: fresh ones at every step, minibatches of a fixed sample, or all inputs at once."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from elegans import random
from elegans.component import Component, Traced
from elegans.tasks.base import Task

if TYPE_CHECKING:
    from jaxtyping import Float32, Shaped, UInt32

LARGEST_SAMPLE = 10**9
"""The largest sample that a counter-based index can address uniformly."""
LARGEST_POPULATION = 2**20
"""The largest number of inputs that are all gone through in one step."""


class Regime(Component, family=True):
    """How examples reach the learner: fresh ones every step, or minibatches of a fixed sample."""

    @abstractmethod
    def batch(
        self, key: random.Key, step: Any, batch_size: int, order: Literal["replacement", "epochs"]
    ) -> UInt32[Any, " batch_size"]:
        """Return the indices of the examples in the minibatch of a step (counted from 0)."""

    def examples(
        self, task: Task, hidden: Any, key: random.Key, index: UInt32[Any, " count"]
    ) -> tuple[Float32[Any, "count input_size"], Shaped[Any, " count"]]:
        """Return the inputs and clean labels that training sees under the given indices: the task's own by default."""
        return task.examples(hidden, key, index)

    def sample_key(self, task: Task, seed: int) -> random.Key:
        """Return the key that training examples are drawn by: that of the sample stream of a trial's seed by default.

        Raises:
            TrialError: the regime finds no sample that it may have.
        """
        return random.stream(seed, "sample")

    def check(self, task: Task, steps: int, batch_size: int) -> None:
        """Refuse a task or a training that this regime cannot feed."""
        if steps * batch_size >= 2**32:
            raise ValueError(f"steps x batch_size must be below 2^32: steps={steps}, batch_size={batch_size}")


class Online(Regime):
    """Fresh examples at every step: nothing is seen twice."""

    def batch(self, key: random.Key, step: Any, batch_size: int, order: str) -> UInt32[Any, " batch_size"]:
        """Return the next unseen indices: step x batch_size and on."""
        return step * np.uint32(batch_size) + np.arange(batch_size, dtype=np.uint32)


class Sample(Regime):
    """A fixed sample, drawn once per trial; minibatches are drawn from it.

    Args:
        size: the number of examples in the sample, from 1 to 10^9. No memory grows with it.
    """

    shorthand = "size"
    size: Annotated[int, Field(ge=1, le=LARGEST_SAMPLE), Traced]

    def __init__(self, size: int) -> None:
        super().__init__(size=size)  # type: ignore[call-arg]

    def batch(self, key: random.Key, step: Any, batch_size: int, order: str) -> UInt32[Any, " batch_size"]:
        """Return the minibatch's indices: uniform with replacement, or the next ones of a shuffled epoch."""
        place = np.arange(batch_size, dtype=np.uint32)
        size = np.uint32(self.size) if isinstance(self.size, int) else self.size
        if order == "replacement":
            return random.integers(key, step + 0 * place, place, size)
        position = step * np.uint32(batch_size) + place
        return random.permuted(key, position // size, position % size, size)


class Population(Regime):
    """All inputs at every step, each once: exact population gradients, for tasks of at most 2^20 equally likely ones.

    The batch size must be their number. With label noise, an input's label is flipped once for all or never.
    """

    def batch(self, key: random.Key, step: Any, batch_size: int, order: str) -> UInt32[Any, " batch_size"]:
        """Return 0, …, batch_size - 1, at every step."""
        return np.arange(batch_size, dtype=np.uint32) + np.uint32(0) * step

    def examples(
        self, task: Task, hidden: Any, key: random.Key, index: UInt32[Any, " count"]
    ) -> tuple[Float32[Any, "count input_size"], Shaped[Any, " count"]]:
        """Return the inputs of the population with the given numbers, and their labels."""
        return task.member(hidden, index)

    def check(self, task: Task, steps: int, batch_size: int) -> None:
        """Refuse tasks whose inputs cannot be gone through, and batches that are not the population."""
        size = task.population
        if size is None:
            raise ValueError(f"a population must have a task of finitely many, equally likely inputs: {task.kind!r}")
        if size > LARGEST_POPULATION:
            raise ValueError(f"a population must have at most 2^20 inputs (train online beyond): {size} inputs")
        if batch_size != size:
            raise ValueError(f"batch_size must be the number of inputs: batch_size={batch_size}, {size} inputs")
