"""Products of linear forms: the polynomials that compute parities with the fewest parameters."""

from typing import Annotated, Any

from jaxtyping import Float32
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.models.base import Model
from elegans.models.inits import DenseInit, Init, Layers
from elegans.models.mlp import sums
from elegans.tasks import Task


class PolyNet(Model):
    """A product of affine forms: f(x) = prod_i (w_i . x + b_i), i = 1, …, degree.

    With w_i the unit vectors of a support and b = 0 it is the parity itself. Its parameters are ``{"hidden":
    {"weight": (degree, n), "bias": (degree,)}}``.

    Source: thesis, chapter 5, section 5.3 (setting xv).

    Args:
        degree: the number of factors, at least 1.
        init: the law of the initial weights and biases of the factors: that of a hidden layer of this width.
    """

    shorthand = "degree"
    degree: Annotated[int, Field(ge=1, le=64)]
    init: SerializeAsAny[Init] = DenseInit()

    def check(self, task: Task) -> None:
        """Refuse a task that the initialisation has no law for."""
        self.init.check(self.degree, task)

    def parameter_names(self, task: Task) -> list[str]:
        """Return the names of the two parameter arrays."""
        return ["hidden.weight", "hidden.bias"]

    def initialise(self, key: random.Key, task: Task) -> Layers:
        """Draw weights and biases of the factors."""
        return {"hidden": self.init.parameters(key, self.degree, task)["hidden"]}

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        """Return the products, shape (count,)."""
        return sums(parameters["hidden"], x).prod(axis=1)
