"""Products of linear forms: the polynomials that compute parities with the fewest parameters."""

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.models.base import Model
from elegans.models.inits import DenseInit, Init, LayerInit, Layers
from elegans.models.mlp import preactivations
from elegans.tasks import SparseParity, Task


class PolyNet(Model):
    """A product of affine forms: f(x) = prod_i (w_i . x + b_i), i = 1, …, degree.

    With w_i the unit vectors of a support and b = 0 it is the parity itself. Its parameters are ``{"hidden":
    {"weight": (degree, n), "bias": (degree,)}}``.

    Source: thesis, chapter 5, section 5.3 (setting xv).

    Args:
        degree: the number of factors, at least 1.
        init: the distribution of the initial weights and biases of the factors, as for a hidden layer of this width.
    """

    shorthand = "degree"
    degree: Annotated[int, Field(ge=1, le=64)]
    init: SerializeAsAny[Init] = DenseInit()

    def check(self, task: Task) -> None:
        self.init.check(self.degree, task)

    def parameter_names(self, task: Task) -> list[str]:
        return ["hidden.weight", "hidden.bias"]

    def initialise(self, key: random.Key, task: Task) -> Layers:
        return {"hidden": self.init.parameters(key, self.degree, task)["hidden"]}

    def apply(self, parameters: Any, x: Float[Any, "count n"]) -> Float[Any, " count"]:
        return preactivations(parameters["hidden"], x).prod(axis=1)


class DisjointPolyNet(Model):
    """A product of linear forms of consecutive blocks of inputs: f(x) = prod_i w_i . x_i, i = 1, …, degree.

    With w_i the unit vector of the one coordinate of a disjoint parity's support in block i it is the parity itself.
    Its parameters are ``{"hidden": {"weight": (degree, n / degree)}}``; there is no bias.

    Source: thesis, chapter 5, section 5.4.

    Args:
        degree: the number of blocks, and of factors, at least 1; it divides the input size.
        init: the distribution of the initial weights; the layer of a block has n / degree inputs.
        positive: whether the first block's weights change sign if the initial product of the weights on the task's
            support is negative. For symmetric distributions this conditions on a positive product, as required by
            theorems on training with the correlation loss; the task must then name its support.
    """

    shorthand = "degree"
    degree: Annotated[int, Field(ge=1, le=64)]
    init: LayerInit = DenseInit()
    positive: bool = False

    def check(self, task: Task) -> None:
        if task.input_size % self.degree:
            rule = "the degree of a disjoint-poly-net must divide n"
            raise ValueError(f"{rule}: degree={self.degree}, n={task.input_size}")
        support = task.support if isinstance(task, SparseParity) else None
        blocks = [coordinate // (task.input_size // self.degree) for coordinate in support or ()]
        if self.positive and blocks != list(range(self.degree)):
            raise ValueError(f"a positive product needs a task with one named coordinate per block: {support=}")

    def parameter_names(self, task: Task) -> list[str]:
        return ["hidden.weight"]

    def initialise(self, key: random.Key, task: Task) -> Layers:
        weight = self.init.weights(key.fold(0), self.degree, task.input_size // self.degree)
        if self.positive:
            assert isinstance(task, SparseParity) and task.support is not None  # required by `check`
            if weight.ravel()[list(task.support)].prod() < 0:
                weight = np.concatenate([-weight[:1], weight[1:]])
        return {"hidden": {"weight": weight}}

    def apply(self, parameters: Any, x: Float[Any, "count n"]) -> Float[Any, " count"]:
        weight = parameters["hidden"]["weight"]
        return (x.reshape(len(x), *weight.shape) * weight).sum(axis=2).prod(axis=1)
