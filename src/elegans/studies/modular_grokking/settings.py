"""The networks of this study, trained on a part of all pairs in full batches.

``network`` is a two-layer network with AdamW and the cross-entropy, at the beta2 of Power et al. and Nanda et al. and
at weight decays around theirs, although their models are transformers; ``transformer`` is the model of Nanda et al., or
a smaller one. ``mean_field`` is the quadratic network of Gromov, in his parametrisation f(x) = W2 (W1 x / sqrt(2p))^2 /
N with normal weights and the mean squared error.

Source: Power et al. (2022), appendix A.1; Nanda et al. (2023), section 3; Gromov (2023), section 2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from elegans import random
from elegans.models import MLP, AffineInit, Model, PairTransformer
from elegans.models.inits import GaussianInit
from elegans.stopping import StoppingRule
from elegans.tasks import ModularAddition, Split
from elegans.tasks.pairs import PairTask
from elegans.training import SGD, Adam, AdamW, CrossEntropy, LayerRates, OneHotSquare, Trial

if TYPE_CHECKING:
    from jaxtyping import Float32

FITTED, SOLVED = 0.01, 0.01
"""The train error at which a training set counts as fitted, and the test error at which a network generalises. Both
follow Power et al., who count the steps to an accuracy of 99%."""
BETA2 = 0.98
"""As in Power et al. and Nanda et al."""
LEARNING_RATE = 0.003
"""Ours: with 0.001, the published one of transformers, everything takes three times as many steps."""
HEADS = 4
"""The number of heads of all transformers, as in Power et al. and Nanda et al."""
P, WIDTH = 23, 128
"""The modulus and the width where nothing else is said."""
SMALL_TASK = ModularAddition(p=31)
"""The task of small transformers where nothing else is said."""


class MeanFieldInit(AffineInit, kind="mean-field-gaussian"):
    """Normal entries with standard deviations 1/sqrt(fan-in) of the hidden layer and 1/width of the output layer.

    These are standard normal weights in f(x) = W2 sigma(W1 x / sqrt(n)) / width, with the factors in the weights.

    Source: Gromov (2023), section 2.
    """

    def entries(self, key: random.Key, shape: tuple[int, ...], fan_in: int, fan_out: int) -> Float32[np.ndarray, ...]:
        return GaussianInit(std=fan_in**-0.5).entries(key, shape, fan_in, fan_out)

    def readout(self, key: random.Key, width: int, outputs: int) -> dict[str, np.ndarray]:
        drawn = super().readout(key, width, outputs)
        return {name: np.asarray(array * np.float32(width**-0.5)) for name, array in drawn.items()}


def rule(task: PairTask, fraction: float, every: int, *, stop: bool = True) -> StoppingRule:
    """Return a check of all held-out pairs at regular intervals."""
    return StoppingRule(error=SOLVED, examples=Split(fraction).held_out_size(task), every=every, stop=stop)


def network(
    task: PairTask,
    fraction: float = 0.5,
    *,
    width: int = WIDTH,
    weight_decay: float = 1.0,
    activation: str = "power:2",
    steps: int = 4000,
    every: int = 20,
    stop: bool = True,
) -> Trial:
    """Return a two-layer network without biases on a part of all pairs, in full batches of AdamW.

    Args:
        task: the operation.
        fraction: the share of pairs that it is trained on.
        width: the number of neurons.
        weight_decay: decoupled, as a factor of the learning rate.
        activation: ``power:2`` or ``relu``.
        steps: at most.
        every: the steps between checks of all held-out pairs.
        stop: whether it stops once at most 1% of these are wrong.
    """
    model = MLP(width=width, activation=activation, hidden_bias=False, output_bias=False)
    stopping = rule(task, fraction, every, stop=stop)
    return _trained(task, fraction, model, stopping, weight_decay=weight_decay, steps=steps)


def transformer(
    task: PairTask,
    fraction: float,
    *,
    width: int = 128,
    mlp_width: int = 512,
    weight_decay: float = 1.0,
    learning_rate: float = 0.001,
    steps: int,
    every: int,
) -> Trial:
    """Return a one-layer transformer of four heads on a part of all pairs, in full batches of AdamW.

    Its defaults follow Nanda et al., without their warm-up of ten steps.

    Args:
        task: the operation.
        fraction: the share of pairs that it is trained on.
        width: the size of an embedding, divided among the heads.
        mlp_width: the number of hidden neurons.
        weight_decay: decoupled, as a factor of the learning rate, of all parameters.
        learning_rate: the same at all steps.
        steps: at most; it stops once at most 1% of the held-out pairs are wrong.
        every: the steps between checks of these.
    """
    model = PairTransformer(width=width, heads=HEADS, head_size=width // HEADS, mlp_width=mlp_width)
    stopping = rule(task, fraction, every)
    adam = {"learning_rate": learning_rate, "weight_decay": weight_decay, "steps": steps}
    return _trained(task, fraction, model, stopping, **adam)


def small_transformer(fraction: float, task: PairTask = SMALL_TASK, *, weight_decay: float = 1.0, steps: int) -> Trial:
    """Return a transformer of half the width, on addition mod 31, at the learning rate of the two-layer networks."""
    size = {"width": 64, "mlp_width": 128, "steps": steps, "every": 50}
    return transformer(task, fraction, weight_decay=weight_decay, learning_rate=LEARNING_RATE, **size)


def _trained(task: PairTask, fraction: float, model: Model, stopping: StoppingRule, **adam: Any) -> Trial:
    """Return a model trained on a part of all pairs by the cross-entropy, in full batches of AdamW."""
    adam = {"learning_rate": LEARNING_RATE, **adam, "batch_size": Split(fraction).sample_size(task)}
    training = AdamW(beta2=BETA2, batches="epochs", loss=CrossEntropy(), stopping=stopping, **adam)
    return Trial(task=task, regime=Split(fraction), model=model, training=training)


def without_decay(task: PairTask, fraction: float, *, width: int, epsilon: float, steps: int, every: int) -> Trial:
    """Return the same with ReLU neurons and Adam without weight decay, which does not stop when it is solved."""
    decayed = network(task, fraction, width=width, activation="relu", steps=steps, every=every, stop=False)
    common = {name: getattr(decayed.training, name) for name in ("steps", "batches", "batch_size", "loss", "stopping")}
    return decayed.replace("training", Adam(**common, beta2=BETA2, epsilon=epsilon))


def mean_field(
    task: PairTask,
    fraction: float,
    *,
    width: int,
    optimiser: str = "adamw",
    learning_rate: float = 0.01,
    weight_decay: float = 0.0,
    steps: int,
    every: int,
) -> Trial:
    """Return Gromov's quadratic network, with his factors in its weights and the same steps.

    Weights W1 / sqrt(2p) and W2 / N take the steps of W1 and W2 at other learning rates: the rates of gradient descent
    are divided by 2p and N^2, the rates of Adam by sqrt(2p) and N; decoupled weight decay then multiplies by the same
    numbers. Adam's epsilon is unchanged, and matters only where gradients vanish.

    Args:
        task: the operation modulo p.
        fraction: the share of pairs that it is trained on.
        width: the number N of neurons.
        optimiser: ``adamw``, or ``gd`` for gradient descent.
        learning_rate: of W1 and W2.
        weight_decay: of W1 and W2, decoupled; of AdamW.
        steps: how many; it does not stop before.
        every: the steps between checks of all held-out pairs.
    """
    factors = {"hidden": math.sqrt(task.input_size), "output": float(width)}
    common = {
        "steps": steps,
        "learning_rate": learning_rate,
        "batches": "epochs",
        "batch_size": Split(fraction).sample_size(task),
        "loss": OneHotSquare(scale=2 / task.order),
        "stopping": rule(task, fraction, every, stop=False),
    }
    training: SGD | AdamW
    if optimiser == "gd":
        layers = {name: LayerRates(learning_rate=learning_rate / factor**2) for name, factor in factors.items()}
        training = SGD(layers=layers, **common)
    else:
        layers = {
            name: LayerRates(learning_rate=learning_rate / factor, weight_decay=weight_decay * factor)
            for name, factor in factors.items()
        }
        training = AdamW(layers=layers, weight_decay=weight_decay, beta2=BETA2, **common)
    model = MLP(width=width, activation="power:2", init=MeanFieldInit(), hidden_bias=False, output_bias=False)
    return Trial(task=task, regime=Split(fraction), model=model, training=training)
