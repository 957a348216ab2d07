"""Losses of a scalar output f against a label y in {-1, +1}, averaged over the minibatch."""

from abc import abstractmethod
from typing import Annotated, Any

from pydantic import Field

from elegans.component import Component, Later

Scale = Annotated[float, Field(gt=0, allow_inf_nan=False), Later]


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
    """scale (f - y)^2 / 2.

    Args:
        scale: what the loss is multiplied by; 2 for the convention without the half.
    """

    scale: Scale = 1.0

    def value(self, output: Any, label: Any) -> Any:
        """Return the loss of each example."""
        return self.scale * (output - label) ** 2 / 2


class Logistic(Loss):
    """scale log(1 + exp(-y f)), in natural units.

    Args:
        scale: what the loss is multiplied by.
    """

    scale: Scale = 1.0

    def value(self, output: Any, label: Any) -> Any:
        """Return the loss of each example, without overflow at large margins."""
        import jax

        return self.scale * jax.nn.softplus(-label * output)


class Correlation(Loss):
    """-y f: what a loss is to first order around output 0; unbounded, so for theory and for few steps."""

    def value(self, output: Any, label: Any) -> Any:
        """Return the loss of each example."""
        return -label * output
