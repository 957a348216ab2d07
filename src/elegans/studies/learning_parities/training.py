"""Theorem 3 of "Learning Parities with Neural Networks": mirrored signs, one exact first step, then small steps.

The first step has size 1 and weight decay 1/2, which erases the old weights. Since it depends only on the initial
network and the population, a network after it is an initialisation like any other: ``FirstStep``. Minibatch descent
follows: ``theorem_schedule`` gives the theorem's own, and any other training may replace it.

Source: Daniely and Malach (2020), section 2 and Theorem 3.
"""

import math
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float32
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.models import Init, ReLU6
from elegans.models.inits import Layers
from elegans.studies.learning_parities.theory.step import (
    BiasedNetwork,
    NeuronReport,
    biased_first_step,
    biased_neuron_report,
)
from elegans.tasks import BiasedParity, Task
from elegans.training.optimisers import SGD, LayerRates

Form = Literal["mirror", "antipodal"]
BLOCK = 4096
"""The number of examples over which a gradient is summed at once."""


class MirroredSigns(Init, kind="mirrored-signs"):
    """Weights uniform on {-1, 0, 1}, biases 1/(8k), output weights uniform on [-n/k, n/k]; the second half a copy.

    With ``mirror`` the copies have the output weights negated: the network is 0 on every input, as the proofs require.
    ``antipodal`` negates weights, biases and output weights, as printed: the network is then the sum of u clip(w x + b,
    -6, 6) over the first half, which is far from 0 (``theory.biased_antipodal_output``). There is no output bias.

    Source: Daniely and Malach (2020), section 2.

    Args:
        form: ``mirror`` or ``antipodal``.
    """

    shorthand = "form"
    form: Form = "mirror"

    def __init__(self, form: Form = "mirror") -> None:
        """Take the form by position or by name."""
        super().__init__(form=form)  # type: ignore[call-arg]

    def check(self, width: int, task: Task) -> None:
        """Refuse tasks without the theorem's n and k, and widths without a mirrored half."""
        if not isinstance(task, BiasedParity):
            raise ValueError(f"task must be a biased-parity (Theorem 3): task={task.kind!r}")
        if width % 2:
            raise ValueError(f"width must be even for mirrored neurons (Theorem 3): width={width}")

    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        """Draw the hidden weights: one row per neuron."""
        row, column = np.arange(width // 2, dtype=np.uint32), np.arange(n, dtype=np.uint32)
        drawn = random.integers(key, row[:, None], lane=column[None, :], bound=np.uint32(3)).astype(np.float32) - 1
        return np.concatenate([drawn, drawn if self.form == "mirror" else -drawn])

    def parameters(self, key: random.Key, width: int, task: Task) -> Layers:
        """Draw the parameter arrays; the output bias is 0."""
        assert isinstance(task, BiasedParity)
        bias = np.full(width // 2, 1 / (8 * task.k), np.float32)
        row = np.arange(width // 2, dtype=np.uint32)
        output = random.uniform_signed(key.fold(1), row) * np.float32(task.n / task.k)
        biases = [bias, bias if self.form == "mirror" else -bias]
        return {
            "hidden": {"weight": self.weights(key.fold(0), width, task.n), "bias": np.concatenate(biases)},
            "output": {"weight": np.concatenate([output, -output]), "bias": np.zeros((), np.float32)},
        }


class FirstStep(Init, kind="first-step"):
    """The network after the first step from ``MirroredSigns``: all parameters move by 1 along the gradient.

    The gradient is taken of the hinge loss of a ReLU6 network on D_A, with respect to all parameters at once. With
    weight decay 1/2 (a penalty of half the squared weights, biases not included) old weights are erased. For mirrored
    neurons it is the population's, in closed form (``theory.biased_first_step``); with ``examples`` it is the mean over
    that many, drawn from the init stream. The task's support must be given, since an initialisation does not see a
    trial's draw.

    Source: Daniely and Malach (2020), section 2 and Theorem 3 (step size 1, lambda 1/2); the closed form derived here.

    Args:
        form: ``mirror`` or ``antipodal``, which has no closed form.
        examples: the number of examples that estimate the gradient, or None for the population's gradient.
        mix: the probability of D2 in the data of this step, or None for the task's own.
    """

    form: Form = "mirror"
    examples: Annotated[int, Field(ge=1, le=10**8)] | None = None
    mix: Annotated[float, Field(ge=0, le=1)] | None = None

    def check(self, width: int, task: Task) -> None:
        """Refuse what ``MirroredSigns`` refuses, a support not given, and antipodal neurons without examples."""
        MirroredSigns(self.form).check(width, task)
        assert isinstance(task, BiasedParity)
        if task.support is None:
            raise ValueError(f"support must be given for a first step (Theorem 3): support={task.support}")
        if self.form == "antipodal" and self.examples is None:
            raise ValueError("examples must be given for antipodal neurons, whose output is not 0: examples=None")

    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        """Return the hidden weights before the step."""
        return MirroredSigns(self.form).weights(key, width, n)

    def parameters(self, key: random.Key, width: int, task: Task) -> Layers:
        """Return the parameter arrays after the step; the output bias stays 0."""
        assert isinstance(task, BiasedParity)
        source = task if self.mix is None else task.replace("mix", self.mix)
        drawn = MirroredSigns(self.form).parameters(key, width, task)
        if self.examples is None:
            return _layers(_exact(drawn, source))
        return _layers(_sampled(drawn, source, key.fold(2), self.examples))

    def report(self, key: random.Key, width: int, task: BiasedParity) -> NeuronReport:
        """Return the result of the step for the first half of the neurons: which are good, their slopes, their leakage.

        Args:
            key: the trial's init key.
            width: the number of neurons.
            task: the task, with its support given.
        """
        before = MirroredSigns(self.form).parameters(key, width, task)
        after = self.parameters(key, width, task)
        half = width // 2
        return biased_neuron_report(_network(before, half), _network(after, half), task.support or ())


class SampledStep(Init, kind="sampled-step"):
    """The network after a first step from any other initial network: ``FirstStep`` without its mirrored signs.

    The gradient is the mean over examples from the init stream; old weights are erased, and the output bias is 0.

    Args:
        start: the distribution of the parameters before the step.
        examples: the number of examples that estimate the gradient.
    """

    start: SerializeAsAny[Init]
    examples: Annotated[int, Field(ge=1, le=10**8)] = 2**16

    def check(self, width: int, task: Task) -> None:
        """Refuse tasks other than biased parities with a given support."""
        if not isinstance(task, BiasedParity) or task.support is None:
            raise ValueError(f"task must be a biased-parity with a support (Theorem 3): task={task.kind!r}")
        self.start.check(width, task)

    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        """Return the hidden weights before the step."""
        return self.start.weights(key, width, n)

    def parameters(self, key: random.Key, width: int, task: Task) -> Layers:
        """Return the parameter arrays after the step; the output bias is 0."""
        assert isinstance(task, BiasedParity)
        return _layers(_sampled(self.start.parameters(key, width, task), task, key.fold(4), self.examples))


def theorem_schedule(task: BiasedParity, width: int, steps: int, decay: float = 0, **fields: Any) -> SGD:
    """Return the descent of Theorem 3 after the first step: eta = k^2 / (T sqrt(q)), lambda at most k / n.

    The regulariser is lambda (||u||^2 + sum ||w_i||^2), whose gradient is 2 lambda u and 2 lambda w; biases have none.

    Args:
        task: the task.
        width: the number 2q of neurons.
        steps: the number T of steps.
        decay: lambda.
        fields: further fields of the training, such as ``batch_size``.

    Raises:
        ValueError: lambda lies outside 0..k/n.
    """
    if not 0 <= decay <= task.k / task.n:
        raise ValueError(f"decay must lie in 0..k/n (Theorem 3): decay={decay}, k={task.k}, n={task.n}")
    rate = task.k**2 / (steps * math.sqrt(width / 2))
    bias = {"hidden.bias": LayerRates(weight_decay=0.0)}
    return SGD(learning_rate=rate, weight_decay=2 * decay, layers=bias, steps=steps, loss="hinge", **fields)


def _exact(drawn: Layers, task: BiasedParity) -> BiasedNetwork:
    """Return mirrored neurons after the population step: copies have their weights and shifts negated."""
    start = _network(drawn, len(drawn["output"]["weight"]) // 2)
    bias = start.bias.astype(np.float64)
    half = biased_first_step(start.weight, bias, start.output, task.support or (), task.mix)
    return BiasedNetwork(
        np.concatenate([half.weight, -half.weight]),
        np.concatenate([half.bias, 2 * bias - half.bias]),
        np.tile(half.output, 2),
    )


def _sampled(drawn: Layers, task: BiasedParity, key: random.Key, count: int) -> BiasedNetwork:
    """Return neurons after a step along the mean gradient over the examples whose hinge is active."""
    start, relu6 = _network(drawn), ReLU6()
    weight, bias, output = (np.zeros(part.shape) for part in start)
    support = np.asarray(task.support)
    for first in range(0, count, BLOCK):
        x, y = task.examples(support, key, np.arange(first, min(first + BLOCK, count), dtype=np.uint32))
        z = x @ start.weight.T + start.bias
        hidden, slope = relu6.value(z), relu6.derivative(z)
        label = y * (y * (hidden @ start.output) < 1)
        active = slope * label[:, None]
        weight += active.T @ x
        bias += active.sum(axis=0)
        output += label @ hidden
    scale = start.output / count
    return BiasedNetwork(scale[:, None] * weight, start.bias + scale * bias, output / count)


def _network(layers: Layers, count: int | None = None) -> BiasedNetwork:
    """Return a given number of first neurons, or all of them."""
    hidden, output = layers["hidden"], layers["output"]
    return BiasedNetwork(hidden["weight"][:count], hidden["bias"][:count], output["weight"][:count])


def _layers(network: BiasedNetwork) -> Layers:
    weight, bias, output = (np.asarray(part, np.float32) for part in network)
    return {
        "hidden": {"weight": weight, "bias": bias},
        "output": {"weight": output, "bias": np.zeros((), np.float32)},
    }
