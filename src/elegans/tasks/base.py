"""What is learned: the contract of a task, and how its examples reach the learner."""

from abc import abstractmethod
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float32, Shaped, UInt32
from pydantic import Field

from elegans import random
from elegans.component import Component, Traced

LARGEST_SAMPLE = 10**9
"""The largest sample that a counter-based index can address uniformly."""
LARGEST_POPULATION = 2**20
"""The largest number of inputs that are all gone through in one step."""


class Task(Component, family=True):
    """A distribution over (x, y), with the facts known about it.

    A task is a function, not an array: example i is computed from (key, i). Write ``examples`` and
    ``corrupt`` with operators and methods that NumPy and JAX arrays share, and every engine can run
    them; a float field may hold an array element there, so do not branch on its value.
    """

    @property
    @abstractmethod
    def input_size(self) -> int:
        """The number of coordinates of an input."""

    def draw(self, key: random.Key) -> Any:
        """Draw what a trial hides from its learner, from the trial's task stream.

        Returns:
            NumPy arrays in any nesting of tuples and dictionaries (a support, a prior, …); handed to
            ``examples``. None by default.
        """
        return None

    def held_out(self, hidden: Any) -> Any:
        """Return what held-out examples are made with instead of ``hidden``, for tasks on data; the same by default."""
        return hidden

    @property
    def classes(self) -> int | None:
        """The number of classes that labels number, from 0; None (the default) where labels are -1 and +1."""
        return None

    @property
    def symbols(self) -> int | None:
        """The number of symbols, where inputs are sequences of tokens numbered from 0; None (the default) elsewhere."""
        return None

    @abstractmethod
    def examples(
        self, hidden: Any, key: random.Key, index: UInt32[Any, " count"]
    ) -> tuple[Float32[Any, "count input_size"], Shaped[Any, " count"]]:
        """Return the inputs and clean labels of the examples with the given indices.

        Args:
            hidden: what ``draw`` returned.
            key: the key of the stream that the examples belong to.
            index: which examples, shape (count,).

        Returns:
            Inputs (count, input_size), float32, and labels (count,): in {-1, +1}, float32, or, of a task with
            ``classes``, their numbers, int32.
        """

    def corrupt(self, labels: Shaped[Any, " count"], key: random.Key, index: UInt32[Any, " count"]) -> Any:
        """Return the labels that training sees in place of the clean ones; the same by default."""
        return labels

    def target(self, hidden: Any, x: Float32[Any, "count input_size"]) -> Float32[Any, " count"]:
        """Return the clean labels of given inputs, for tasks on uniform signs; others have no such method."""
        raise NotImplementedError(f"{self.kind} has no labels of given inputs")

    @property
    def on_cube(self) -> bool:
        """Whether inputs are uniform signs and ``target`` gives their labels."""
        return type(self).target is not Task.target

    @property
    def population(self) -> int | None:
        """The number of inputs, where they are finitely many and equally likely; None elsewhere."""
        return 2**self.input_size if self.on_cube else None

    def member(
        self, hidden: Any, index: UInt32[Any, " count"]
    ) -> tuple[Float32[Any, "count input_size"], Shaped[Any, " count"]]:
        """Return the inputs of the population with the given numbers, and their clean labels.

        Args:
            hidden: what ``draw`` returned.
            index: numbers below ``population``; of signs, coordinate j is -1 where bit j of the number is set.
        """
        x = corners(index, self.input_size)
        return x, self.target(hidden, x)


def flip(labels: Any, rate: Any, key: random.Key, index: Any) -> Any:
    """Return labels in {-1, +1} with each flipped independently with a probability.

    Args:
        labels: float32 of shape (count,).
        rate: the probability, from 0 to 1, rounded to a multiple of 2^-24.
        key: the noise stream's key.
        index: the examples' indices: the same example is always flipped or never.
    """
    flipped = random.uniform(key, index, np.uint32(0)) < np.float32(1) * rate
    return labels * (1 - 2 * flipped.astype(np.float32))


class NoisyLabels(Component):
    """What a task has whose training labels, -1 and 1, are flipped at random; inherit from this before ``Task``.

    Args:
        noise: the probability that a training label is flipped, from 0 to 1. Evaluation is clean.
    """

    noise: Annotated[float, Field(ge=0, le=1)] = 0.0

    def corrupt(self, labels: Float32[Any, " count"], key: random.Key, index: UInt32[Any, " count"]) -> Any:
        """Flip each label with the probability ``noise``; an example is flipped at all steps or at none."""
        return flip(labels, self.noise, key, index)


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


def corners(index: UInt32[Any, " count"], n: int) -> Float32[Any, "count n"]:
    """Return corners of {-1, +1}^n by their numbers: coordinate j is -1 where bit j of the number is set."""
    return 1 - 2 * ((index[:, None] >> np.arange(n, dtype=np.uint32)) & 1).astype(np.float32)
