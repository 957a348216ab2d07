"""Two-layer perceptrons, and how their hidden weights are initialised."""

import math
from abc import abstractmethod
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float32
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.component import Component
from elegans.models.base import Model
from elegans.tasks import Task


class Init(Component, family=True):
    """The law of the initial hidden weights."""

    @abstractmethod
    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        """Draw the hidden weights: one row a neuron."""

    def parameters(self, key: random.Key, width: int, task: Task) -> dict[str, dict[str, np.ndarray]]:
        """Draw all four parameter arrays; biases and output weights uniform on plus or minus 1/sqrt(fan-in)."""
        n = task.input_size
        return {
            "hidden": {"weight": self.weights(key.fold(0), width, n), "bias": fan_in_uniform(key.fold(1), (width,), n)},
            "output": {
                "weight": fan_in_uniform(key.fold(2), (width,), width),
                "bias": fan_in_uniform(key.fold(3), (), width),
            },
        }

    def check(self, width: int, task: Task) -> None:
        """Refuse a width or a task for which there is no such initialisation.

        Raises:
            ValueError: with the rule and the value.
        """


class DenseInit(Init, kind="dense"):
    """Every weight uniform on [-1/sqrt(n), 1/sqrt(n)]: the default of ``torch.nn.Linear``.

    Source: Pareto frontiers, section 4 and appendix C ("dense").
    """

    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        """Draw the hidden weights: one row a neuron."""
        return fan_in_uniform(key, (width, n), n)


class SparseInit(Init, kind="sparse"):
    """Exactly ``nonzeros`` non-zero weights a neuron, at uniformly random distinct coordinates.

    Source: Pareto frontiers, section 4 (random 2-hot rows). The paper names no value for the non-zeros;
    1 is what its theory uses. Biases and output weights are drawn as with ``DenseInit``.

    Args:
        nonzeros: how many weights of each neuron are not zero, from 1 to n.
        value: what they are.
    """

    shorthand = "nonzeros"
    nonzeros: Annotated[int, Field(ge=1)] = 2
    value: Annotated[float, Field(allow_inf_nan=False)] = 1.0

    def __init__(self, nonzeros: int = 2, value: float = 1.0) -> None:
        """Take the number of non-zeros by position or by name."""
        super().__init__(nonzeros=nonzeros, value=value)  # type: ignore[call-arg]

    def check(self, width: int, task: Task) -> None:
        """Refuse more non-zeros than there are inputs."""
        n = task.input_size
        if self.nonzeros > n:
            raise ValueError(f"nonzeros of a sparse init must be at most n: nonzeros={self.nonzeros}, n={n}")

    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        """Draw the hidden weights: one row a neuron."""
        rows = np.zeros((width, n), np.float32)
        np.put_along_axis(rows, random.subsets(key, width, n, self.nonzeros), np.float32(self.value), axis=1)
        return rows


class MLP(Model):
    """A two-layer ReLU network with biases: f(x) = v . relu(W x + b) + c.

    The hidden weights follow ``init``; biases and output weights are uniform on plus or minus 1/sqrt(fan-in), the
    default of ``torch.nn.Linear``, unless ``init`` has a law of its own for them. Its parameters are
    ``{"hidden": {"weight": (width, n), "bias": (width,)}, "output": {"weight": (width,), "bias": ()}}``.

    Args:
        width: the number of hidden neurons, at least 1.
        init: the law of the hidden weights: ``DenseInit()``, ``SparseInit(nonzeros)`` or a theorem's own.
    """

    width: Annotated[int, Field(ge=1)]
    init: SerializeAsAny[Init] = DenseInit()

    def check(self, task: Task) -> None:
        """Refuse a width or a task that the initialisation has no law for."""
        self.init.check(self.width, task)

    def parameter_names(self, task: Task) -> list[str]:
        """Return the names of the four parameter arrays."""
        return ["hidden.weight", "hidden.bias", "output.weight", "output.bias"]

    def initialise(self, key: random.Key, task: Task) -> dict[str, dict[str, np.ndarray]]:
        """Draw the four parameter arrays."""
        return self.init.parameters(key, self.width, task)

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        """Return the outputs, shape (count,)."""
        hidden = x @ parameters["hidden"]["weight"].T + parameters["hidden"]["bias"]
        return (hidden * (hidden > 0)) @ parameters["output"]["weight"] + parameters["output"]["bias"]


def fan_in_uniform(key: random.Key, shape: tuple[int, ...], fan_in: int) -> np.ndarray:
    """Draw float32 uniform on [-1/sqrt(fan_in), 1/sqrt(fan_in)], one counter an element.

    Args:
        key: the key of this array alone.
        shape: (rows, columns), (rows,) or ().
        fan_in: the number of inputs that the array's layer sums over.
    """
    rows, columns = (*shape, 1, 1)[:2]
    index, lane = np.arange(rows, dtype=np.uint32), np.arange(columns, dtype=np.uint32)
    drawn = random.symmetric(key, index[:, None], lane[None, :])
    return np.asarray(drawn * np.float32(1 / math.sqrt(fan_in))).reshape(shape)
