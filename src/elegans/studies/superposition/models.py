"""Autoencoders with fewer neurons than features."""

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from elegans import random
from elegans.models import Model
from elegans.studies.superposition.theory.polygons import polygon_arrays
from elegans.tasks import Task


class TiedAutoencoder(Model):
    """y = ReLU(W^T W x + b), with W of shape (hidden, n).

    Source: Elhage et al. (2022), Demonstrating Superposition.

    Args:
        hidden: the number m of hidden neurons.
        activation: ``relu``, or ``linear`` for W^T W x + b.
        scale: the standard deviation of the initial weights; the initial bias is 0.
        corners: start at the polygon of so many corners instead, for ``hidden`` = 2, plus noise of ``scale`` on weights
            and biases; None for a random start.
        dead: how many of the polygon's other columns have a negative bias.
    """

    hidden: Annotated[int, Field(ge=1)]
    activation: Literal["relu", "linear"] = "relu"
    scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    corners: Annotated[int, Field(ge=0, le=32)] | None = None
    dead: Annotated[int, Field(ge=0, le=32)] = 0

    def outputs(self, task: Task) -> int:
        return task.input_size

    def check(self, task: Task) -> None:
        if self.corners is not None and (self.hidden != 2 or self.corners + self.dead > task.input_size):
            sizes = f"hidden={self.hidden}, corners={self.corners}, dead={self.dead}, n={task.input_size}"
            raise ValueError(f"a polygon must lie in two dimensions, with a feature for each column: {sizes}")

    def parameter_count(self, task: Task) -> int:
        return (self.hidden + 1) * task.input_size

    def initialise(self, key: random.Key, task: Task) -> dict[str, Any]:
        n = task.input_size
        row, lane = np.arange(self.hidden, dtype=np.uint32)[:, None], np.arange(n, dtype=np.uint32)
        weight = np.float32(self.scale) * random.normal(key, row, lane=lane)
        bias = np.zeros(n, np.float32)
        if self.corners is not None:
            polygon = polygon_arrays(self.corners, n, self.dead)
            weight = (polygon.weights + weight).astype(np.float32)
            noise = np.float32(self.scale) * random.normal(key.fold(1), lane)
            bias = (polygon.bias + noise).astype(np.float32)
        return {"weight": weight, "bias": bias}

    def apply(self, parameters: Any, x: Any) -> Any:
        output = (x @ parameters["weight"].T) @ parameters["weight"] + parameters["bias"]
        return output * (output > 0) if self.activation == "relu" else output
