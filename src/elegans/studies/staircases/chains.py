"""One neuron on the sphere: by its overlap with one direction of normal inputs, or by its weights on signs."""

import math
from typing import Annotated, Any, Literal, Self

import numpy as np
from jaxtyping import Float32
from pydantic import BeforeValidator, Field, field_validator, model_validator

from elegans import random
from elegans.component import Component, Later
from elegans.errors import article
from elegans.learners.base import Learner, LearnerData, LearnerRun
from elegans.models.base import Model
from elegans.probes.base import Probe, Snapshot
from elegans.studies.staircases.tasks import SingleIndex
from elegans.studies.staircases.theory.links import LARGEST_DEGREE, link_named
from elegans.studies.staircases.theory.overlaps import OverlapLoss
from elegans.tasks import MonomialSum, Online, Regime, Task

NATIVE = (*(f"h{degree}" for degree in range(1, LARGEST_DEGREE + 1)), "bump", "relu")
"""The links that the native chain takes."""


class SphereDescent(Component):
    """The fields of one neuron on the sphere; inherit from this, then from ``Learner`` and ``Model``.

    Args:
        neuron: s, by its name: ``h1`` to ``h8``, ``bump`` or ``relu``.
        bias: b, for the neuron relu(z + b).
        output: -1 if the neuron's output is -s(z) instead of s(z); None (or 1) otherwise.
        loss: ``correlation`` or ``square``.
        rate: the learning rate is gamma = rate n^-power.
        power: the power of n in the learning rate; 1 keeps gamma n fixed.
        reuse: rho; if above 0, the gradient is taken after a first step of rate rho / n along the example's own
            gradient.
        reach: the overlap at which the trial is solved; above 1, never.
    """

    neuron: str = "h2"
    bias: Annotated[float, Field(ge=-8, le=8)] = 0.0
    output: Annotated[Literal[-1] | None, BeforeValidator(lambda sign: None if sign == 1 else sign), Later] = None
    loss: OverlapLoss = "correlation"
    rate: Annotated[float, Field(gt=0)] = 0.05
    power: Annotated[float, Field(ge=0, le=4)] = 1.0
    reuse: Annotated[float, Field(ge=0)] = 0.0
    reach: Annotated[float, Field(gt=0, le=2)] = 0.5

    @field_validator("neuron")
    @classmethod
    def _is_native(cls, neuron: str) -> str:
        if neuron not in NATIVE:
            raise ValueError(f"neuron must be one of {', '.join(NATIVE)}: neuron={neuron!r}")
        return neuron

    @model_validator(mode="after")
    def _fits(self) -> Self:
        link_named(self.neuron, self.bias)
        if getattr(self, "steps", None) is None:
            raise ValueError(f"steps of {article(self.kind)} must be given: steps=None")
        return self

    def check_regime(self, task: Task, regime: Regime) -> None:
        """Refuse anything but fresh examples in every step."""
        if not isinstance(regime, Online):
            raise ValueError(f"{self.kind} must learn online: regime={regime.kind!r}")

    def rounds(self, task: Task) -> int:
        """Return the number of steps."""
        steps: int = vars(self)["steps"]
        return steps

    def learning_rate(self, n: int) -> float:
        """Return gamma in n dimensions."""
        return float(self.rate * n**-self.power)

    def arguments(self, n: int) -> dict[str, Any]:
        """Return the arguments by which native steps in n dimensions take these fields."""
        return {
            "neuron": _kind(self.neuron),
            "neuron_coefficients": _coefficients(self.neuron),
            "bias": self.bias,
            "output": self.output or 1,
            "square": self.loss == "square",
            "rate": self.learning_rate(n),
            "reuse": self.reuse,
            "reach": self.reach,
        }


class OverlapChain(SphereDescent, Learner, Model, kind="overlap-chain"):
    """One neuron s(w . x), |w| = 1, that learns g(w* . x) by online SGD on the sphere, one example a step.

    A step moves w along (x - (w . x) w) times gamma c, c = y s'(z) or (y - s(z)) s'(z), and normalises it. For normal
    inputs the overlap m = w . w* is a Markov chain by itself: with z, g normal, R chi-square of n - 2 degrees of
    freedom, and z* = m z + sqrt(1 - m^2) g,

        m <- (m + gamma c (z* - m z)) / sqrt(1 + gamma^2 c^2 (g^2 + R)).

    The chain draws these three numbers (exactly, not their limit in many dimensions), so a step costs the same at
    every n. Its parameters are ``{"overlap": m}``. The trial is solved once the size of m has reached ``reach``, where
    the chain ends; the step of the outcome is the next check.

    Counters: step t draws the words of the sample's key at (t, lane), lanes 0 to 3 and, where a draw rejects,
    further ones.

    Source: Ben Arous, Gheissari and Jagannath (2021) for the algorithm, Arnaboldi et al. (2024) for the reuse of
    examples; the chain is derived here and tested against vectors.

    Args: as ``SphereDescent``, and
        start: the first overlap, from -1 to 1; None for a uniform point of the sphere, with the sign that makes it
            positive.
    """

    shorthand = "neuron"
    start: Annotated[float, Field(ge=-1, le=1)] | None = None

    def check(self, task: Task) -> None:
        if not isinstance(task, SingleIndex):
            raise ValueError(f"overlap-chain must learn a single-index: task={task.kind!r}")
        if task.link not in NATIVE:
            raise ValueError(f"overlap-chain must learn a link of {', '.join(NATIVE)}: link={task.link!r}")

    def initialise(self, key: random.Key, task: Task) -> dict[str, np.ndarray]:
        from elegans import _native

        start = self.start
        if start is None:
            start = abs(_native.overlap_start((int(key.high), int(key.low)), float(task.input_size)))
        return {"overlap": np.array(start)}

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        raise NotImplementedError("an overlap-chain has an overlap, and no weights that read inputs")

    def begin(self, lesson: LearnerData) -> LearnerRun:
        return _Chain(self, lesson)


def chain_arguments(chain: OverlapChain, link: str, n: int) -> dict[str, Any]:
    """Return the arguments of native steps of a chain that learns a link in n dimensions."""
    target = {"target": _kind(link), "target_coefficients": _coefficients(link), "dimension": float(n)}
    return target | chain.arguments(n)


class _Chain(LearnerRun):
    """A chain under way: the number of steps taken, and the overlap."""

    def __init__(self, chain: OverlapChain, lesson: LearnerData) -> None:
        assert isinstance(lesson.task, SingleIndex)
        self.chain, self.step = chain, 0
        key = lesson.key("sample")
        self.key = int(key.high), int(key.low)
        self.overlap = float(chain.initialise(lesson.key("init"), lesson.task)["overlap"])
        self.arguments = chain_arguments(chain, lesson.task.link, lesson.task.n)

    @property
    def solved(self) -> bool:
        return not abs(self.overlap) < self.chain.reach

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        return {"overlap": np.array(self.overlap)}

    def advance(self, rounds: int) -> None:
        from elegans import _native

        if not self.solved:
            self.overlap, _ = _native.overlap_steps(
                self.key, first=self.step, steps=rounds, overlap=self.overlap, **self.arguments
            )
        self.step += rounds
        self.loss, self.error = 1 - self.overlap**2, float(not self.solved)


class SignNeuron(SphereDescent, Learner, Model, kind="sign-neuron"):
    """One neuron s(w . x), |w| = 1, that learns a sum of parities by online SGD on the sphere, one example a step.

    Steps are as in ``OverlapChain``, but on uniform signs, so all n weights are followed. The overlap is the length
    of the weights on the support. The trial is solved once the overlap has reached ``reach``, where the run ends. Its
    parameters are ``{"weights": w}``, float32; the first ones are a uniform point of the sphere.

    Source: as ``OverlapChain``.

    Args: as ``SphereDescent``.
    """

    shorthand = "neuron"
    neuron: str = "relu"

    def check(self, task: Task) -> None:
        if not isinstance(task, MonomialSum):
            raise ValueError(f"sign-neuron must learn a monomial-sum: task={task.kind!r}")

    def initialise(self, key: random.Key, task: Task) -> dict[str, Float32[np.ndarray, " n"]]:
        weights = np.asarray(random.normal(key, np.arange(task.input_size, dtype=np.uint32)), float)
        return {"weights": (weights / np.linalg.norm(weights)).astype(np.float32)}

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        z = np.asarray(x) @ parameters["weights"]
        return ((self.output or 1) * link_named(self.neuron, self.bias).value(z)).astype(np.float32)

    def begin(self, lesson: LearnerData) -> LearnerRun:
        return _SignSteps(self, lesson)


class _SignSteps(LearnerRun):
    """A neuron on signs under way: the number of steps taken, and the weights."""

    def __init__(self, neuron: SignNeuron, lesson: LearnerData) -> None:
        task = lesson.task
        assert isinstance(task, MonomialSum)
        self.step, self.reach, self.hidden = 0, neuron.reach, lesson.hidden
        key = lesson.key("sample")
        self.key = int(key.high), int(key.low)
        self.weights = neuron.initialise(lesson.key("init"), task)["weights"]
        self.arguments = {"support": lesson.hidden.tolist(), "values": task.values, **neuron.arguments(task.n)}

    @property
    def overlap(self) -> float:
        return float(np.linalg.norm(self.weights[self.hidden].astype(float)))

    @property
    def solved(self) -> bool:
        return not self.overlap < self.reach

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights}

    def advance(self, rounds: int) -> None:
        from elegans import _native

        if not self.solved:
            self.weights, _ = _native.sphere_steps(
                self.key, first=self.step, steps=rounds, weights=self.weights, **self.arguments
            )
        self.step += rounds
        self.loss, self.error = 1 - self.overlap**2, float(not self.solved)


class Overlap(Probe, kind="overlap"):
    """The overlap of an ``OverlapChain`` with the direction that it learns."""

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(model, OverlapChain):
            raise ValueError(f"overlap must measure an overlap-chain: model={model.kind!r}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``overlap``."""
        return {"overlap": float(snapshot.parameters["overlap"])}


def _kind(link: str) -> str:
    return link if link in ("bump", "relu") else "polynomial"


def _coefficients(link: str) -> list[float]:
    """Return the coefficients of a Hermite polynomial's powers, lowest first; none for other links."""
    if _kind(link) != "polynomial":
        return []
    degree = int(link.removeprefix("h"))
    series = [0.0] * degree + [1 / math.sqrt(math.factorial(degree))]
    return np.polynomial.hermite_e.herme2poly(series).tolist()
