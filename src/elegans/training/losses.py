"""Losses of a scalar output f against a label y in {-1, +1}, averaged over the minibatch."""

from abc import abstractmethod
from typing import Any

from elegans.component import Component


class Loss(Component, family=True):
    """A loss of one output and one label; the margin is y f."""

    @abstractmethod
    def value(self, output: Any, label: Any) -> Any:
        """Return the loss of each example, elementwise on JAX arrays."""


class Hinge(Loss):
    """max(1 - y f, 0), whose derivative is -y where the margin is below 1 and 0 elsewhere."""

    def value(self, output: Any, label: Any) -> Any:
        """Return the loss of each example."""
        slack = 1 - label * output
        return slack * (slack > 0)


class Square(Loss):
    """(f - y)^2 / 2."""

    def value(self, output: Any, label: Any) -> Any:
        """Return the loss of each example."""
        return (output - label) ** 2 / 2


class Logistic(Loss):
    """log(1 + exp(-y f)), in natural units."""

    def value(self, output: Any, label: Any) -> Any:
        """Return the loss of each example, without overflow at large margins."""
        import jax

        return jax.nn.softplus(-label * output)
