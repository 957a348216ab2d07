"""Penalties on the size of a network's weights, neuron by neuron, that are added to the loss."""

from abc import abstractmethod
from typing import Annotated, Any

from pydantic import Field

from elegans.component import Component
from elegans.models import Model
from elegans.training.schedules import Rate

Exponent = Annotated[float, Field(ge=1, allow_inf_nan=False)]


class Penalty(Component, family=True):
    """A number that grows with a network's weights; its gradient is added to the gradient of the loss."""

    @abstractmethod
    def value(self, model: Model, parameters: Any) -> Any:
        """Return the penalty of a network's parameters, a scalar, by functions that accept JAX arrays."""

    def check(self, model: Model) -> None:
        """Refuse a model that this penalty is not defined for."""


class NormPenalty(Penalty, kind="norm"):
    """strength ||theta||^r, where ||theta||_{a,b} = (sum over neurons of ||omega||_a^b)^(1/b).

    omega contains all incoming and outgoing weights of a neuron. With a = 2 and b = r = nu, the network's degree of
    homogeneity, minimisers tend to the largest normalised margin as the strength tends to 0.

    Source: thesis, chapter 7, definition of L_{a,b} and Theorem 7.1 (Wei et al. 2019), which holds for any r > 0.

    Args:
        strength: lambda, at least 0.
        inner: a, the norm of one neuron's weights.
        outer: b, the norm over neurons; None for the network's degree of homogeneity.
        exponent: r; None for the network's degree of homogeneity.
    """

    shorthand = "strength"
    strength: Rate
    inner: Exponent = 2.0
    outer: Exponent | None = None
    exponent: Exponent | None = None

    def __init__(self, strength: float, **fields: Any) -> None:
        super().__init__(strength=strength, **fields)  # type: ignore[call-arg]

    def check(self, model: Model) -> None:
        if type(model).neurons is Model.neurons:
            raise ValueError(f"a norm penalty must have a model with neurons: model={model.kind!r}")
        if model.homogeneity is None and None in (self.outer, self.exponent):
            rule = "outer and exponent of a norm penalty must be given if the model is not homogeneous"
            raise ValueError(f"{rule}: outer={self.outer}, exponent={self.exponent}, model={model.kind!r}")

    def exponents(self, model: Model) -> tuple[Any, Any]:
        """Return b and r for a model."""
        outer, exponent = self.outer, self.exponent
        return model.homogeneity if outer is None else outer, model.homogeneity if exponent is None else exponent

    def value(self, model: Model, parameters: Any) -> Any:
        outer, exponent = self.exponents(model)
        sums = (abs(model.neurons(parameters)) ** self.inner).sum(axis=1)
        arrays, alive = sums.__array_namespace__(), sums > 0
        # a power's derivative at 0 is taken as 0, even for exponents below 1
        powers = arrays.where(alive, arrays.where(alive, sums, 1) ** (outer / self.inner), 0)
        return self.strength * powers.sum() ** (exponent / outer)
