"""Your own model: a function with parameters, and the distribution of their initial values."""

from typing import Annotated, Any

import numpy as np
from pydantic import Field

import elegans as el


class MyFirst(el.Model):
    """f(x) = a . max(W x, 0)^2: a hidden layer of squared ReLUs without biases.

    Args:
        width: the number of hidden neurons.
    """

    width: Annotated[int, Field(ge=1)] = 100

    def initialise(self, key: el.random.Key, task: el.Task) -> dict[str, Any]:
        """Draw the parameters ``hidden.weight`` and ``output.weight``, each array with its own key."""
        n = task.input_size
        neurons, inputs = np.arange(self.width, dtype=np.uint32), np.arange(n, dtype=np.uint32)
        hidden = el.random.uniform_signed(key.fold(0), neurons[:, None], lane=inputs[None, :]) / np.float32(n) ** 0.5
        output = el.random.uniform_signed(key.fold(1), neurons) / np.float32(self.width) ** 0.5
        return {"hidden": {"weight": hidden}, "output": {"weight": output}}

    def apply(self, parameters: Any, x: Any) -> Any:
        """Return the outputs for inputs of shape (count, n); use operators that NumPy and JAX arrays share."""
        z = x @ parameters["hidden"]["weight"].T
        return (z * (z > 0)) ** 2 @ parameters["output"]["weight"]
