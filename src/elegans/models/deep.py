"""MLPs of any depth."""

from itertools import pairwise
from typing import Annotated, Any

from jaxtyping import Float
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.models.activations import Activation, Power
from elegans.models.base import Model
from elegans.models.inits import DenseInit, Layers, LayersInit
from elegans.models.mlp import preactivations
from elegans.tasks import Task


class DeepMLP(Model):
    """A network with any number of hidden layers: z_l = sigma(W_l z_{l-1} + b_l), f(x) = v . z + c.

    With sigma(z) = z^2 and L - 1 hidden layers its outputs are polynomials of degree 2^(L-1), so it may represent
    parities of up to that many signs. Its parameters are ``{"hidden": {"weight": (r_1, n), "bias": (r_1,)}, "hidden2":
    {"weight": (r_2, r_1), …}, …, "output": {"weight": (r,), "bias": ()}}``; with one hidden layer it is an ``MLP``. On
    a task with classes or several targets ``output`` has a row for each.

    Source: thesis, chapter 5 and appendix B.3.7 (deep quadratic networks).

    Args:
        widths: the numbers of neurons of the hidden layers, the first layer's first; at least one of at least 1.
        activation: the function sigma of every hidden layer, by name or as a component.
        init: the distribution of weights and biases of every layer, scaled by the layer's sizes, or a ``LayeredInit``
            with one for the first, further and last layers.
        output_bias: whether there is a bias c.
    """

    widths: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=64)]
    activation: SerializeAsAny[Activation] = Power(2)
    init: LayersInit = DenseInit()
    output_bias: bool = True

    @property
    def layers(self) -> list[str]:
        """The names of the hidden layers in order: ``hidden``, ``hidden2``, …."""
        return [f"hidden{depth}" if depth > 1 else "hidden" for depth in range(1, len(self.widths) + 1)]

    def outputs(self, task: Task) -> int:
        return task.classes or task.targets or 1

    def check(self, task: Task) -> None:
        fan_ins = [task.input_size, *self.widths]
        for role, fan_in in zip(["first", *["inner"] * (len(self.widths) - 1), "last"], fan_ins, strict=True):
            self.init.for_role(role).check_layer(fan_in)  # type: ignore[arg-type]

    def parameter_count(self, task: Task) -> int:
        sizes = [task.input_size, *self.widths, self.outputs(task)]
        return sum(inputs * outputs for inputs, outputs in pairwise(sizes))

    def parameter_names(self, task: Task) -> list[str]:
        inner = [f"{layer}.{name}" for layer in self.layers for name in ("weight", "bias")]
        return [*inner, "output.weight", *(["output.bias"] if self.output_bias else [])]

    def initialise(self, key: random.Key, task: Task) -> Layers:
        """Draw the parameters; the first hidden layer and the output are drawn as in an ``MLP``."""
        sizes = [task.input_size, *self.widths]
        parameters = {
            layer: self.init.for_role("inner" if depth else "first").layer(
                key.fold(2 * depth), key.fold(2 * depth + 1), sizes[depth + 1], sizes[depth]
            )
            for depth, layer in enumerate(self.layers)
        }
        first, fan_in, outputs = 2 * len(self.widths), self.widths[-1], self.outputs(task)
        last, shape = self.init.for_role("last"), (outputs,) * (outputs > 1)
        parameters["output"] = {"weight": last.entries(key.fold(first), (*shape, fan_in), fan_in, outputs)}
        if self.output_bias:
            parameters["output"]["bias"] = last.entries(key.fold(first + 1), shape, fan_in, outputs)
        return parameters

    def apply(self, parameters: Any, x: Float[Any, "count n"]) -> Float[Any, " count"]:
        hidden = x
        for layer in self.layers:
            hidden = self.activation.value(preactivations(parameters[layer], hidden))
        return hidden @ parameters["output"]["weight"].swapaxes(0, -1) + parameters["output"].get("bias", 0)
