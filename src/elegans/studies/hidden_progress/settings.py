"""The published settings: online sparse parity learning by every architecture that the thesis tries.

Each architecture has an id there, and ``configuration`` makes its trial, which the experiments vary.

What the thesis leaves open or prints in two ways is settled as follows: an output bias wherever there is a second
layer, without which some of the networks that the thesis reports cannot represent a parity; initial weights and biases
uniform on plus or minus 1/sqrt(fan-in), the default of common libraries; hinge loss, 32 examples per step, solved when
8192 held-out examples are all classified correctly, checked every 10 steps, within 10^5 steps.

Source: thesis, chapter 5 and appendix B.4.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from elegans import models
from elegans.errors import ExperimentError
from elegans.stopping import StoppingRule
from elegans.tasks import Online, SparseParity
from elegans.training import SGD, Adam, Trial
from elegans.training.losses import Loss

AT_END = 2**31
"""A period so long that only the start and the end of a training are measured."""
STOPPING = StoppingRule(error=0, examples=8192, every=10)
"""No mistake on a fresh batch of 8192, checked every tenth step."""

Make = Callable[[int, models.Init | str], models.Model]
"""Makes a model for a parity of k signs, with an initialisation."""


def _relu(width: int | None) -> Make:
    return lambda k, init: models.MLP(width=width or k, init=init)


def _power(width: int | None) -> Make:
    return lambda k, init: models.MLP(width=width or k, init=init, activation=models.Power(k))


def _neuron(activation: Callable[..., models.Activation], readout: bool) -> Make:
    return lambda k, init: models.MLP(width=1, init=init, activation=activation(k), readout=readout)


def _transformer(k: int, init: models.Init | str) -> models.Model:
    uniform = init in ("dense", models.DenseInit())
    return models.ParityTransformer(init=models.DenseInit(convention="glorot") if uniform else init)


CONFIGURATIONS: dict[str, tuple[str, Make, float]] = {
    "i": ("ReLU network of width 10", _relu(10), 0.1),
    "ii": ("ReLU network of width 100", _relu(100), 1.0),
    "iii": ("ReLU network of width 1000", _relu(1000), 1.0),
    "iv": ("z^k network of width 10", _power(10), 0.01),
    "v": ("z^k network of width 100", _power(100), 0.01),
    "vi": ("z^k network of width 1000", _power(1000), 0.01),
    "vii": ("k-zigzag neuron with a second layer", _neuron(models.Zigzag, True), 0.1),
    "viii": ("oscillating polynomial neuron with a second layer", _neuron(models.OscillatingPolynomial, True), 0.01),
    "ix": ("triangle wave neuron with a second layer", _neuron(models.TriangleWave, True), 0.01),
    "x": ("sinusoidal neuron with a second layer", _neuron(models.Sinusoid, True), 0.01),
    "xi": ("k-zigzag neuron", _neuron(models.Zigzag, False), 0.1),
    "xii": ("oscillating polynomial neuron", _neuron(models.OscillatingPolynomial, False), 0.01),
    "xiii": ("triangle wave neuron", _neuron(models.TriangleWave, False), 0.01),
    "xiv": ("sinusoidal neuron", _neuron(models.Sinusoid, False), 0.01),
    "xv": ("PolyNet: a product of k linear forms", lambda k, init: models.PolyNet(degree=k, init=init), 0.05),
    "*i": ("ReLU network of width k", _relu(None), 0.1),
    "*ii": ("z^k network of width k", _power(None), 0.01),
    "*iii": ("transformer of one block", _transformer, 3e-4),
}
"""By the thesis' id: its description, a function that makes its model, and its default learning rate.

*iii alone trains by Adam; it is uniform by Glorot's convention where the others are uniform.
"""


def configuration(
    identifier: str,
    n: int,
    k: int,
    *,
    batch_size: int = 32,
    learning_rate: float | None = None,
    loss: Loss | str = "hinge",
    init: models.Init | str = "dense",
    steps: int = 100_000,
) -> Trial:
    """Return the trial of one of the thesis' configurations on the online (n, k)-parity.

    Args:
        identifier: a key of ``CONFIGURATIONS``.
        n: the number of signs.
        k: the size of the parity.
        batch_size: the number of fresh examples per step.
        learning_rate: or None for the configuration's own.
        loss: by name or as a component.
        init: by name or as a component.
        steps: the largest number of steps.

    Raises:
        ExperimentError: there is no such configuration; the message lists the existing ones.
        TrialError: a number breaks a rule.
    """
    if identifier not in CONFIGURATIONS:
        raise ExperimentError(f"unknown configuration {identifier!r}; known: {', '.join(CONFIGURATIONS)}")
    usual_rate = CONFIGURATIONS[identifier][2]
    training: dict[str, Any] = {
        "learning_rate": usual_rate if learning_rate is None else learning_rate,
        "batch_size": batch_size,
        "loss": loss,
        "steps": steps,
        "stopping": STOPPING,
    }
    optimiser = Adam if identifier == "*iii" else SGD
    return Trial(task=_task(n, k), regime=Online(), model=_model(identifier, k, init), training=optimiser(**training))


@cache  # the robust space has tens of thousands of cells of few tasks and models
def _task(n: int, k: int) -> SparseParity:
    return SparseParity(n=n, k=k)


@cache
def _model(identifier: str, k: int, init: models.Init | str) -> models.Model:
    return CONFIGURATIONS[identifier][1](k, init)


def powers(first: int, last: int) -> list[int]:
    """Return powers of 10, the last exponent included."""
    return [10**exponent for exponent in range(first, last + 1)]
