"""The interface of tasks.

Wrong options of the command line are refused with only a task's class, so NumPy is imported where arrays are made.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from elegans.component import Component

if TYPE_CHECKING:
    from jaxtyping import Float32, Shaped

    from elegans import random
    from elegans.tasks.arrays import Examples, Indices


class Task(Component, family=True):
    """A distribution over (x, y), with the facts known about it.

    A task is a function, not an array: example i is computed from (key, i). Write ``examples`` and ``corrupt`` with
    operators and methods that NumPy and JAX arrays share, so that every engine can run them. Do not branch on the value
    of a float field, which may be an array element there.
    """

    @property
    @abstractmethod
    def input_size(self) -> int:
        """The number of coordinates of an input."""

    def draw(self, key: random.Key) -> Any:
        """Draw the part of the task that is hidden from the learner, from the trial's task stream; None by default.

        Returns:
            NumPy arrays in any nesting of tuples and dictionaries (a support, a prior, …), passed to ``examples``.
        """
        return None

    def held_out(self, hidden: Any) -> Any:
        """Return the value that replaces ``hidden`` for held-out examples, for tasks on data; the same by default."""
        return hidden

    @property
    def classes(self) -> int | None:
        """The number of classes, numbered from 0; None (the default) if labels are -1 and +1."""
        return None

    @property
    def real_labels(self) -> bool:
        """Whether labels are real numbers, and an output is right if it differs by at most 1/2; False by default."""
        return False

    @property
    def targets(self) -> int | None:
        """The number of real-valued targets of an example; None (the default) if there is a label or class to read.

        An example is then not right or wrong: its loss is the sum over its targets, and a trial is solved once the
        mean held-out loss is at most ``stopping.loss``.
        """
        return None

    @property
    def target_weights(self) -> tuple[float, ...] | None:
        """The factor of each target's loss, shape (targets,), if there are several; None (the default) for 1 each."""
        return None

    @property
    def symbols(self) -> int | None:
        """The number of symbols, if inputs are sequences of tokens numbered from 0; None (the default) otherwise."""
        return None

    @abstractmethod
    def examples(self, hidden: Any, key: random.Key, index: Indices) -> Examples:
        """Return the inputs and clean labels of the examples with the given indices.

        Args:
            hidden: the value returned by ``draw``.
            key: the key of the stream that the examples belong to.
            index: the indices of examples, shape (count,).

        Returns:
            Inputs, float32 (count, input_size), and labels (count,): float32 in {-1, +1}, or any with ``real_labels``,
            or classes, int32. With several ``targets``, labels are float32 (count, targets); with one, (count,).
        """

    def corrupt(self, labels: Shaped[Any, " count"], key: random.Key, index: Indices) -> Any:
        """Return the labels used in training instead of the clean ones; the same by default."""
        return labels

    def target(self, hidden: Any, x: Float32[Any, "count input_size"]) -> Float32[Any, " count"]:
        """Return the clean labels of given inputs, for tasks on uniform signs; not implemented for others."""
        raise NotImplementedError(f"{self.kind} has no labels of given inputs")

    def expected_loss(self, model: Any, parameters: Any) -> Any:
        """Return the exact mean square loss of a network, with JAX, where there is a closed form; None by default."""
        return None

    @property
    def on_cube(self) -> bool:
        """Whether inputs are uniform signs and ``target`` gives their labels."""
        return type(self).target is not Task.target

    @property
    def population(self) -> int | None:
        """The number of inputs, if there are finitely many and all are equally likely; otherwise None."""
        return 2**self.input_size if self.on_cube else None

    def member(self, hidden: Any, index: Indices) -> Examples:
        """Return the inputs of the population with the given numbers, and their clean labels.

        Args:
            hidden: the value returned by ``draw``.
            index: numbers below ``population``; for signs, coordinate j is -1 if bit j of the number is set.
        """
        x = corners(index, self.input_size)
        return x, self.target(hidden, x)


class NoisyLabels(Component):
    """The part of a task whose training labels, -1 and 1, are flipped at random; inherit from this before ``Task``.

    Args:
        noise: the probability that a training label is flipped, rounded to a multiple of 2^-24; others are clean.
    """

    noise: Annotated[float, Field(ge=0, le=1)] = 0.0

    def corrupt(self, labels: Float32[Any, " count"], key: random.Key, index: Indices) -> Any:
        """Flip each label with the probability ``noise``; an example is flipped at all steps or at none."""
        import numpy as np

        from elegans import random

        flipped = random.uniform(key, index) < np.float32(1) * self.noise
        return labels * (1 - 2 * flipped.astype(np.float32))


def corners(index: Indices, n: int) -> Float32[Any, "count n"]:
    """Return corners of {-1, +1}^n by their numbers: coordinate j is -1 if bit j of the number is set."""
    import numpy as np

    return 1 - 2 * ((index[:, None] >> np.arange(n, dtype=np.uint32)) & 1).astype(np.float32)
