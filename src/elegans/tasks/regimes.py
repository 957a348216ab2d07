"""How examples reach the learner: fresh ones, minibatches of a sample or of a part of all inputs, or all at once."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from elegans import random
from elegans.component import Component, Traced
from elegans.tasks.base import Task

if TYPE_CHECKING:
    from elegans.tasks.arrays import Examples, Indices, Keys, Minibatch

Order = Literal["replacement", "epochs"]
"""How minibatches are drawn from a sample: with replacement, or by shuffled epochs."""
LARGEST_SAMPLE = 10**9
"""The largest sample that a counter-based index can address uniformly."""
LARGEST_POPULATION = 2**20
"""Maximum number of inputs for taking all of them in one step."""


class Regime(Component, family=True):
    """How examples reach the learner, and which are held out."""

    @abstractmethod
    def batch(self, task: Task, key: random.Key, step: Any, batch_size: int, order: Order) -> Minibatch:
        """Return the indices of the examples in the minibatch of a step (counted from 0)."""

    def examples(self, task: Task, hidden: Any, key: random.Key, index: Indices) -> Examples:
        """Return the inputs and clean labels of training examples with given indices: by default, the task's."""
        return task.examples(hidden, key, index)

    def sample_size(self, task: Task) -> int | None:
        """Return how many examples training uses repeatedly; None (the default) if it does not."""
        return None

    def evaluated(self, task: Task, hidden: Any, key: Keys, stream: str, index: Indices) -> Examples:
        """Return the inputs and clean labels of a trial's examples for evaluating a network.

        Args:
            task: the task to learn.
            hidden: the task's draw.
            key: returns the key of a stream by its name.
            stream: ``sample`` for training examples, ``test`` for held-out ones, or another stream of the trial.
            index: the indices of examples.
        """
        return task.examples(task.held_out(hidden) if stream == "test" else hidden, key(stream), index)

    def sample_key(self, task: Task, seed: int) -> random.Key:
        """Return the key for drawing a trial's training examples: by default, the key of its sample stream.

        Raises:
            TrialError: the regime finds no suitable sample.
        """
        return random.stream(seed, "sample")

    def check(self, task: Task, steps: int, batch_size: int) -> None:
        """Refuse a task or a training that this regime cannot feed."""
        if steps * batch_size >= 2**32:
            raise ValueError(f"steps x batch_size must be below 2^32: steps={steps}, batch_size={batch_size}")


class Online(Regime):
    """Fresh examples at every step: none is used twice."""

    def batch(self, task: Task, key: random.Key, step: Any, batch_size: int, order: Order) -> Minibatch:
        """Return the next fresh indices, starting at step x batch_size."""
        return step * np.uint32(batch_size) + np.arange(batch_size, dtype=np.uint32)


class Sample(Regime):
    """A fixed sample, drawn once per trial; minibatches are drawn from it.

    Its examples are independent: if a task has finitely many inputs, some are drawn twice, and some are held-out
    examples too, since these are drawn from all inputs. ``Split`` keeps training and held-out inputs apart.

    Args:
        size: the number of examples in the sample, from 1 to 10^9. It does not affect memory.
    """

    shorthand = "size"
    size: Annotated[int, Field(ge=1, le=LARGEST_SAMPLE), Traced]

    def __init__(self, size: int) -> None:
        super().__init__(size=size)  # type: ignore[call-arg]

    def sample_size(self, task: Task) -> int:
        return self.size

    def batch(self, task: Task, key: random.Key, step: Any, batch_size: int, order: Order) -> Minibatch:
        """Return the minibatch's indices: uniform with replacement, or the next ones of a shuffled epoch."""
        return _minibatch(self.size, key, step, batch_size, order)


class Split(Regime):
    """A fraction of all inputs for training, and the rest held out, for tasks with at most 2^20 inputs.

    The trial's sample key puts the inputs in a random order; the first are for training. Minibatches are drawn from
    these: with ``batches="epochs"`` and a batch size of ``sample_size(task)``, every step takes all. Held-out example i
    is the i-th of the others, starting again after the last: the test error is exact if ``stopping.examples`` is a
    multiple of ``held_out_size(task)``. With label noise, an input's label is flipped at all steps or at none.

    Args:
        fraction: the fraction for training, above 0 and below 1; the number of inputs is rounded.
    """

    shorthand = "fraction"
    host_only = True  # the number of inputs in each part determines shapes in the engines' programs
    fraction: Annotated[float, Field(gt=0, lt=1)]

    def __init__(self, fraction: float) -> None:
        super().__init__(fraction=fraction)  # type: ignore[call-arg]

    def sample_size(self, task: Task) -> int:
        return round(self.fraction * (task.population or 0))

    def held_out_size(self, task: Task) -> int:
        """Return how many inputs are held out."""
        return (task.population or 0) - self.sample_size(task)

    def batch(self, task: Task, key: random.Key, step: Any, batch_size: int, order: Order) -> Minibatch:
        return _minibatch(self.sample_size(task), key, step, batch_size, order)

    def examples(self, task: Task, hidden: Any, key: random.Key, index: Indices) -> Examples:
        return task.member(hidden, self.numbers(task, key, "sample", index))

    def evaluated(self, task: Task, hidden: Any, key: Keys, stream: str, index: Indices) -> Examples:
        if stream not in ("sample", "test"):
            return super().evaluated(task, hidden, key, stream, index)
        return task.member(hidden, self.numbers(task, key("sample"), stream, index))

    def numbers(self, task: Task, key: random.Key, stream: str, index: Indices) -> Indices:
        """Return the numbers, below ``task.population``, of training inputs (``sample``) or held-out ones (``test``).

        Args:
            task: what is learned.
            key: the trial's sample key.
            stream: ``sample`` or ``test``.
            index: the indices of inputs, which start again beyond the last one.
        """
        size, others = self.sample_size(task), self.held_out_size(task)
        position = index % np.uint32(size) if stream == "sample" else np.uint32(size) + index % np.uint32(others)
        return random.permuted(key, epoch=np.uint32(0) * position, position=position, size=np.uint32(size + others))

    def check(self, task: Task, steps: int, batch_size: int) -> None:
        super().check(task, steps, batch_size)
        size = _finite_population(task, "split")
        if not 0 < self.sample_size(task) < size:
            part = "training" if self.sample_size(task) == 0 else "testing"
            raise ValueError(f"fraction must leave an input for {part}: fraction={self.fraction:g}, {size} inputs")


class Population(Regime):
    """All inputs at every step, each once: exact population gradients, for at most 2^20 equally likely inputs.

    The batch size must be their number. With label noise, an input's label is flipped at all steps or at none.
    """

    def batch(self, task: Task, key: random.Key, step: Any, batch_size: int, order: Order) -> Minibatch:
        return np.arange(batch_size, dtype=np.uint32) + np.uint32(0) * step

    def examples(self, task: Task, hidden: Any, key: random.Key, index: Indices) -> Examples:
        return task.member(hidden, index)

    def check(self, task: Task, steps: int, batch_size: int) -> None:
        size = _finite_population(task, "population")
        if batch_size != size:
            raise ValueError(f"batch_size must be the number of inputs: batch_size={batch_size}, {size} inputs")


def _minibatch(sample_size: Any, key: random.Key, step: Any, batch_size: int, order: Order) -> Any:
    lane = np.arange(batch_size, dtype=np.uint32)
    size = np.uint32(sample_size) if isinstance(sample_size, int) else sample_size
    if order == "replacement":
        return random.integers(key, step + 0 * lane, lane=lane, bound=size)
    position = step * np.uint32(batch_size) + lane
    return random.permuted(key, epoch=position // size, position=position % size, size=size)


def _finite_population(task: Task, regime: str) -> int:
    size = task.population
    if size is None:
        raise ValueError(f"a {regime} must have a task of finitely many, equally likely inputs: {task.kind!r}")
    if size > LARGEST_POPULATION:
        raise ValueError(f"a {regime} must have at most 2^20 inputs (train online beyond): {size} inputs")
    return size
