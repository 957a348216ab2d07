"""An initialisation in which only a fraction of the neurons has a signal, and a network in which it stays so."""

from typing import Annotated, Any

from jaxtyping import Float32
from pydantic import Field

from elegans import random
from elegans.models import MLP
from elegans.models.inits import Layers, SphereInit
from elegans.tasks import Task


class DimmedSphereInit(SphereInit, kind="dimmed-sphere"):
    """The sphere initialisation, but all neurons except the first ``share`` of them start without their signal part.

    For the XOR of the first two coordinates: w_sig is (w_1 - w_2, w_2 - w_1) / 2 for a >= 0 and (w_1 + w_2, w_1 +
    w_2) / 2 for a < 0.

    Args:
        share: the fraction of neurons that keep their signal, from 0 to 1.
    """

    share: Annotated[float, Field(ge=0, le=1)] = 1.0

    def __init__(self, radius: float, output: float | None = None, share: float = 1.0) -> None:
        super(SphereInit, self).__init__(radius=radius, output=output, share=share)  # type: ignore[call-arg]

    def parameters(self, key: random.Key, width: int, task: Task) -> Layers:
        """Draw all four parameter arrays; the biases are 0."""
        made = super().parameters(key, width, task)
        made["hidden"]["weight"] = without_signal(made, round(self.share * width))
        return made


class HeldMLP(MLP, kind="held-mlp"):
    """A two-layer network for the XOR in which only the first ``share`` of the neurons ever have a signal.

    The signal part of the others' weights has no effect, so its gradient is 0: where it starts at 0, it stays there,
    as if it were projected out after each step.

    Args:
        share: the fraction of neurons that may have a signal, from 0 to 1.
    """

    share: Annotated[float, Field(ge=0, le=1)] = 1.0

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        weight = without_signal(parameters, round(self.share * self.width))
        return super().apply({**parameters, "hidden": {**parameters["hidden"], "weight": weight}}, x)


def without_signal(parameters: Any, kept: int) -> Any:
    """Return the hidden weights without the signal part of all neurons but the first ones, shape (width, n).

    Args:
        parameters: of a two-layer network.
        kept: how many neurons keep their signal part.
    """
    weight, output = parameters["hidden"]["weight"], parameters["output"]["weight"]
    arrays = weight.__array_namespace__()
    sign = arrays.where(output < 0, 1.0, -1.0).astype(weight.dtype)
    dimmed = arrays.arange(len(output)) >= kept
    signal = dimmed * (weight[:, 0] + sign * weight[:, 1]) / 2
    plane = arrays.stack([weight[:, 0] - signal, weight[:, 1] - sign * signal], axis=1)
    return arrays.concat([plane, weight[:, 2:]], axis=1)
