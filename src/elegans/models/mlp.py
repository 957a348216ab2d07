"""Two-layer MLPs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from elegans import random
from elegans.errors import TrialError
from elegans.models.activations import Activation, Power, ReLU
from elegans.models.base import Model
from elegans.models.inits import DenseInit, Init, Layers
from elegans.tasks import Task

if TYPE_CHECKING:
    from jaxtyping import Float32


class MLP(Model):
    """A two-layer network: f(x) = v . sigma(W x + b) + c, by default with sigma = relu.

    Its parameters are ``{"hidden": {"weight": (width, n), "bias": (width,)}, "output": {"weight": (width,), "bias":
    ()}}``, without the parameters that a network lacks. Without a second layer f is the sum of the hidden neurons, and
    with ``width=1`` a single neuron. On a task with classes there is one output per class: ``output.weight`` is then
    (outputs, width) and ``output.bias`` (outputs,).

    Args:
        width: the number of hidden neurons, at least 1.
        init: the distribution of the initial parameters: ``DenseInit()``, ``SparseInit(nonzeros)``, a theorem's own, …
        activation: the function sigma, by name or as a component.
        readout: whether there are output weights and an output bias; otherwise the weights are 1 and the bias 0.
        hidden_bias: whether there is a bias b.
        output_bias: whether there is a bias c (if there is a second layer).
        scaling: ``standard``, or ``mean-field`` for the mean over neurons instead of their sum, with gradients
            multiplied by the width. This is, step for step, the standard network with all hidden weights and biases
            and output weights scaled by 1/sqrt(width). It must have a second layer and no output bias.
        output_count: the number of outputs; None for the number of the task's classes, or one if labels are signs.
            With 2 on a task of signs, the first output stands for +1 and the second for -1.
    """

    width: Annotated[int, Field(ge=1)]
    init: SerializeAsAny[Init] = DenseInit()
    activation: SerializeAsAny[Activation] = ReLU()
    readout: bool = True
    hidden_bias: bool = True
    output_bias: bool = True
    scaling: Literal["standard", "mean-field"] = "standard"
    output_count: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _mean_has_no_bias(self) -> Self:
        if self.scaling == "mean-field" and (self.output_bias or not self.readout):
            fields = f"readout={self.readout}, output_bias={self.output_bias}"
            raise ValueError(f"a mean-field network must have a second layer and no output bias: {fields}")
        return self

    @property
    def is_plain(self) -> bool:
        """Whether this is the network of most theorems: ReLU neurons, a second layer, and both biases."""
        has_all = self.readout and self.hidden_bias and self.output_bias
        return isinstance(self.activation, ReLU) and has_all and self.output_count in (None, 1)

    @property
    def gradient_scale(self) -> float:
        """The width of a mean-field network, 1 for others."""
        return float(self.width) if self.scaling == "mean-field" else 1.0

    @property
    def homogeneity(self) -> int | None:
        """The activation's degree, plus one for the second layer; None if there are biases."""
        degree = 1 if isinstance(self.activation, ReLU) else getattr(self.activation, "degree", None)
        biased = self.hidden_bias or (self.readout and self.output_bias)
        is_power = isinstance(self.activation, ReLU | Power)
        return int(degree) + self.readout if degree and is_power and not biased else None

    def outputs(self, task: Task) -> int:
        return self.output_count or task.classes or task.targets or 1

    def neurons(self, parameters: Any) -> Any:
        """Return hidden weights, hidden bias and output weights of each neuron, shape (width, weights)."""
        arrays = parameters["hidden"]["weight"].__array_namespace__()
        parts = [*parameters["hidden"].values()]
        parts += [parameters["output"]["weight"].T] if self.readout else []
        return arrays.concat([part if part.ndim == 2 else part[:, None] for part in parts], axis=1)

    def check(self, task: Task) -> None:
        self.init.check(self.width, task)
        if self.outputs(task) > 1 and not (self.readout and self.init.has_readout):
            fields = f"init={self.init.kind!r}, readout={self.readout}"
            raise ValueError(f"several outputs need a second layer and an init that draws them: {fields}")

    def parameter_count(self, task: Task) -> int:
        return self.width * (task.input_size + 1 + self.outputs(task))

    def parameter_names(self, task: Task) -> list[str]:
        hidden = ["hidden.weight", "hidden.bias"] if self.hidden_bias else ["hidden.weight"]
        output = ["output.weight", "output.bias"] if self.output_bias else ["output.weight"]
        return hidden + output if self.readout else hidden

    def initialise(self, key: random.Key, task: Task) -> Layers:
        """Draw the parameter arrays; arrays that two networks share are drawn in the same way."""
        if (outputs := self.outputs(task)) > 1:
            readout = self.init.readout(key, self.width, outputs)
            layers = {"hidden": self.init.hidden(key, self.width, task), "output": readout}
        else:
            layers = self.init.parameters(key, self.width, task)
        hidden, several = (self.width, task.input_size), (outputs,) * (outputs > 1)
        shapes = {"hidden.weight": hidden, "hidden.bias": hidden[:1], "output.weight": (*several, self.width)}
        parameters: Layers = {}
        for name in self.parameter_names(task):
            layer, _, part = name.partition(".")
            array, needed = layers.get(layer, {}).get(part), shapes.get(name, several)
            if array is None or array.shape != needed:
                rule = f"the init {self.init.kind!r} must draw {name} of shape {needed}"
                raise TrialError(f"{rule}: {'nothing' if array is None else f'shape={array.shape}'}")
            parameters.setdefault(layer, {})[part] = array
        return parameters

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        hidden = self.activation.value(preactivations(parameters["hidden"], x))
        if not self.readout:
            return hidden.sum(axis=1)
        total = hidden @ parameters["output"]["weight"].swapaxes(0, -1) + parameters["output"].get("bias", 0)
        return total / self.width if self.scaling == "mean-field" else total


def preactivations(layer: Any, x: Float32[Any, "count inputs"]) -> Float32[Any, "count outputs"]:
    """Return a layer's pre-activations W x + b: shape (count, outputs).

    Args:
        layer: ``weight`` (outputs, inputs) and, if there is one, ``bias`` (outputs,).
        x: inputs (count, inputs).
    """
    return x @ layer["weight"].T + layer.get("bias", 0)
