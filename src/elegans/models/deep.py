"""MLPs of any depth."""

from itertools import pairwise
from typing import Annotated, Any

from jaxtyping import Float
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.models.activations import Activation, Power
from elegans.models.base import Model
from elegans.models.inits import DenseInit, LayerInit, Layers
from elegans.models.mlp import preactivations
from elegans.tasks import Task


class DeepMLP(Model):
    """A network with any number of hidden layers: z_l = sigma(W_l z_{l-1} + b_l), f(x) = v . z + c.

    With sigma(z) = z^2 and L - 1 hidden layers its outputs are polynomials of degree 2^(L-1), so that it may represent
    parities of up to that many signs. Its parameters are ``{"hidden": {"weight": (r_1, n), "bias": (r_1,)}, "hidden2":
    {"weight": (r_2, r_1), …}, …, "output": {"weight": (r,), "bias": ()}}``; with one hidden layer it is an ``MLP``.

    Source: thesis, chapter 5 and appendix B.3.7 (deep quadratic networks).

    Args:
        widths: the numbers of neurons of the hidden layers, the first layer's first; at least one of at least 1.
        activation: the function sigma of every hidden layer, by name or as a component.
        init: the distribution of weights and biases of every layer, scaled by the layer's sizes.
        output_bias: whether there is a bias c.
    """

    widths: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=64)]
    activation: SerializeAsAny[Activation] = Power(2)
    init: LayerInit = DenseInit()
    output_bias: bool = True

    @property
    def layers(self) -> list[str]:
        """The names of the hidden layers in order: ``hidden``, ``hidden2``, …."""
        return [f"hidden{depth}" if depth > 1 else "hidden" for depth in range(1, len(self.widths) + 1)]

    def parameter_count(self, task: Task) -> int:
        return sum(inputs * outputs for inputs, outputs in pairwise([task.input_size, *self.widths, 1]))

    def parameter_names(self, task: Task) -> list[str]:
        inner = [f"{layer}.{name}" for layer in self.layers for name in ("weight", "bias")]
        return [*inner, "output.weight", *(["output.bias"] if self.output_bias else [])]

    def initialise(self, key: random.Key, task: Task) -> Layers:
        """Draw the parameters; the first hidden layer and the output are drawn as in an ``MLP``."""
        sizes = [task.input_size, *self.widths]
        parameters = {
            layer: self.init.layer(key.fold(2 * depth), key.fold(2 * depth + 1), sizes[depth + 1], sizes[depth])
            for depth, layer in enumerate(self.layers)
        }
        last, fan_in = 2 * len(self.widths), self.widths[-1]
        parameters["output"] = {"weight": self.init.entries(key.fold(last), (fan_in,), fan_in, 1)}
        if self.output_bias:
            parameters["output"]["bias"] = self.init.entries(key.fold(last + 1), (), fan_in, 1)
        return parameters

    def apply(self, parameters: Any, x: Float[Any, "count n"]) -> Float[Any, " count"]:
        hidden = x
        for layer in self.layers:
            hidden = self.activation.value(preactivations(parameters[layer], hidden))
        return hidden @ parameters["output"]["weight"] + parameters["output"].get("bias", 0)
