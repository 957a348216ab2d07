"""Losses, averaged over the minibatch: of one output and a label in {-1, +1}, or of one output per class."""

import math
from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from elegans.component import Component, Later, none_if_zero
from elegans.tasks import Task

Scale = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Smoothing = Annotated[Annotated[float, Field(gt=0, lt=1)] | None, BeforeValidator(none_if_zero), Later]


class Loss(Component, family=True):
    """A loss of one output and one label in {-1, +1}; the margin is y f. Several targets' losses are summed."""

    several_outputs: ClassVar[bool] = False
    """Whether it is a loss of one output per class instead."""
    real_labels: ClassVar[bool] = False
    """Whether labels may be any real numbers."""

    @abstractmethod
    def value(self, output: Any, label: Any) -> Any:
        """Return the loss of each example, elementwise on JAX arrays.

        Args:
            output: shape (..., ), or (..., classes) for losses of several outputs.
            label: shape (..., ): -1 or +1, or the numbers of classes.
        """


class Hinge(Loss):
    """max(1 - y f, 0), whose derivative is -y where the margin is below 1 and 0 elsewhere."""

    def value(self, output: Any, label: Any) -> Any:
        slack = 1 - label * output
        return slack * (slack > 0)


class Square(Loss):
    """scale (f - y)^2 / 2.

    Args:
        scale: the factor of the loss; 2 for the convention without the half.
    """

    real_labels = True
    scale: Scale = 1.0

    def value(self, output: Any, label: Any) -> Any:
        return self.scale * (output - label) ** 2 / 2


class Logistic(Loss):
    """scale log(1 + exp(-y f)), in natural units.

    Args:
        scale: the factor of the loss.
        smoothing: the share of each label that is spread evenly over both labels, below 1; None (or 0) for none.
    """

    scale: Scale = 1.0
    smoothing: Smoothing = None

    def value(self, output: Any, label: Any) -> Any:
        import jax

        loss = jax.nn.softplus(-label * output)
        if self.smoothing is not None:
            loss = loss + self.smoothing / 2 * label * output
        return self.scale * loss


class Correlation(Loss):
    """-y f: the first-order approximation of a loss around output 0; unbounded, so for theory and few steps."""

    real_labels = True

    def value(self, output: Any, label: Any) -> Any:
        return -label * output


class CrossEntropy(Loss):
    """log sum_c exp(f_c) - f_y, in natural units, with one output per class; +1 is class 0 and -1 class 1.

    Args:
        smoothing: the share of each label that is spread evenly over all classes, below 1; None (or 0) for none. As in
            ``torch.nn.CrossEntropyLoss``, f_y is then (1 - smoothing) f_y + smoothing mean_c f_c.
    """

    several_outputs = True
    smoothing: Smoothing = None

    def value(self, output: Any, label: Any) -> Any:
        import jax

        right = right_output(output, label)
        if self.smoothing is not None:
            right = (1 - self.smoothing) * right + self.smoothing * output.mean(axis=-1)
        return jax.nn.logsumexp(output, axis=-1) - right


class OneHotSquare(Loss):
    """scale sum_c (f_c - 1[c = y])^2 / 2: the square loss of one-hot targets, with one output per class.

    Args:
        scale: the factor of the loss; 2 / classes for the mean squared error of ``torch.nn.MSELoss``.
    """

    several_outputs = True
    scale: Scale = 1.0

    def value(self, output: Any, label: Any) -> Any:
        arrays = output.__array_namespace__()
        right = class_numbers(label)[..., None] == arrays.arange(output.shape[-1])
        return self.scale * ((output - right) ** 2).sum(axis=-1) / 2


class Margin(Loss):
    """(1/k) sum_{c != y} max(delta + f_c - f_y, 0), with one output for each of k classes.

    With ``linear`` it is the loss for which every hinge is active, up to a constant: (1/k) sum_c f_c - f_y. It is
    linear in the outputs and unbounded, so for theory and few steps.

    Source: thesis, equation 8.7, and appendix E, where delta is taken so large that every hinge is active.

    Args:
        delta: the margin required of the right class, above 0, or ``linear``.
    """

    several_outputs = True
    shorthand = "delta"
    delta: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["linear"] = 1.0

    def value(self, output: Any, label: Any) -> Any:
        if isinstance(self.delta, str):
            return output.mean(axis=-1) - right_output(output, label)
        slack = self.delta - _differences(output, label)
        return (slack * (slack > 0)).mean(axis=-1) - self.delta / output.shape[-1]

    def inactive(self, output: Any, label: Any) -> Any:
        """Return how many of each example's k - 1 hinges are inactive; if none is, the loss is locally affine."""
        delta = math.inf if isinstance(self.delta, str) else self.delta
        return (_differences(output, label) >= delta).sum(axis=-1)


def example_losses(loss: Loss, task: Task, output: Any, label: Any) -> Any:
    """Return the loss of each example, shape (...,): of several real-valued targets, the weighted sum over them."""
    value = loss.value(output, label)
    if (task.targets or 1) == 1:
        return value
    weights = task.target_weights
    return (value if weights is None else value * np.array(weights, np.float32)).sum(axis=-1)


def class_numbers(label: Any) -> Any:
    """Return the numbers of the classes (int32): whole-number labels unchanged, else 0 for +1 and 1 for -1."""
    return label if label.dtype.kind in "iu" else (label < 0).astype("int32")


def right_output(output: Any, label: Any) -> Any:
    """Return each example's output for its class."""
    arrays = output.__array_namespace__()
    return arrays.take_along_axis(output, class_numbers(label)[..., None], axis=-1)[..., 0]


def _differences(output: Any, label: Any) -> Any:
    return right_output(output, label)[..., None] - output
