"""Margins of labels, and which examples are wrong."""

from typing import Any

from jaxtyping import Num

from elegans.tasks import Task
from elegans.training.losses import Loss, class_numbers, example_losses, right_output


def margins(output: Num[Any, "..."], label: Num[Any, "..."]) -> Any:
    """Return the margin of each label: y f for one output, else f_y minus the largest other output.

    Args:
        output: NumPy or JAX array of the labels' shape, or with a further axis for the classes.
        label: -1 or +1 (float32), or the numbers of classes (whole numbers).

    Returns:
        An array of the labels' shape; an example is right if its margin is above 0.
    """
    if output.ndim == label.ndim:
        return label * output
    arrays = output.__array_namespace__()
    right = arrays.arange(output.shape[-1]) == class_numbers(label)[..., None]
    return right_output(output, label) - arrays.max(arrays.where(right, -arrays.inf, output), axis=-1)


def mistakes(task: Task, loss: Loss, output: Any, label: Any) -> Any:
    """Return which examples are wrong, shape (count,), or the loss of each if the task has real-valued targets."""
    if task.targets is not None:
        return example_losses(loss, task, output, label)
    return wrong(output, label, task.real_labels)


def wrong(output: Any, label: Any, real: bool = False) -> Any:
    """Return which examples are wrong, shape (count,): those whose margin, at the last position if any, is not above 0.

    Args:
        output: as for ``margins``, with examples along the first axis.
        label: shape (count,), or (count, positions) for sequences with a label at each position.
        real: whether labels are real numbers; then an example is wrong if the output differs by more than 1/2.
    """
    if real:
        return ~(abs(output - label) <= 0.5)
    return ~(margins(output, label).reshape(len(label), -1)[:, -1] > 0)
