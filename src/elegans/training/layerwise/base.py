"""The common parts of layerwise theorems' algorithms: mirrored neurons, one step of hidden weights, a readout."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64
from pydantic import SerializeAsAny, model_validator

from elegans import random
from elegans.component import Component
from elegans.models import MLP, Model
from elegans.tasks import Regime, Sample, SparseParity, Task
from elegans.training.layerwise.readouts import ConstructedReadout, LastIterate, Readout

Parameters = dict[str, dict[str, np.ndarray]]
Weights = Float32[np.ndarray, "count n"]


class MirroredInit(Component):
    """The common part of the initialisations of Theorems 4, 5 and 5.5; inherit from this and then from ``Init``.

    The first width/2 neurons have random weights as in the theorem, a bias drawn from a short list, and output
    weights uniform on -1 and +1. The others are their copies with negated output weights, and the output bias is 0:
    the network is 0 on every input, and exactly so if the two halves are summed separately.
    """

    source: ClassVar[str]
    """The theorem whose hypotheses the initialisation requires."""

    @abstractmethod
    def biases(self, task: SparseParity) -> Sequence[Any]:
        """Return the values of the hidden bias, each as likely as the others, in increasing order."""

    @abstractmethod
    def good(self, weight: Weights, support: Int64[np.ndarray, " k"]) -> Bool[np.ndarray, " count"]:
        """Return which neurons are good, given their initial weights and the support to be found."""

    @abstractmethod
    def require(self, task: SparseParity) -> None:
        """Refuse an input size or a support that the theorem does not cover."""

    @abstractmethod
    def rows(self, key: random.Key, count: int, n: int) -> Weights:
        """Draw the weights of the first half of the neurons."""

    def check(self, width: int, task: Task) -> None:
        """Refuse tasks and sizes outside the theorem's hypotheses, and widths without a mirrored half."""
        if not isinstance(task, SparseParity):
            raise ValueError(f"task must be a sparse-parity ({self.source}): task={task.kind!r}")
        if width % 2:
            raise ValueError(f"width must be even for mirrored neurons ({self.source}): width={width}")
        self.require(task)

    def weights(self, key: random.Key, width: int, n: int) -> Float32[np.ndarray, "width n"]:
        """Draw the hidden weights: one row per neuron, the second half a copy of the first."""
        return np.tile(self.rows(key, width // 2, n), (2, 1))

    def parameters(self, key: random.Key, width: int, task: Task) -> Parameters:
        """Draw the four parameter arrays."""
        assert isinstance(task, SparseParity)
        index = np.arange(width // 2, dtype=np.uint32)
        values = np.array([float(value) for value in self.biases(task)], np.float32)
        bias = values[random.integers(key.fold(1), index, bound=np.uint32(len(values)))]
        sign = random.rademacher(key.fold(2), index, 1)[:, 0]
        return {
            "hidden": {"weight": self.weights(key.fold(0), width, task.n), "bias": np.tile(bias, 2)},
            "output": {"weight": np.concatenate([sign, -sign]), "bias": np.zeros((), np.float32)},
        }


@dataclass(frozen=True)
class Step:
    """The one step of the hidden weights: w' = (1 - decay) w + rate u G, with entries |G| <= threshold set to 0.

    Args:
        decay: the weight decay, not multiplied by the learning rate.
        rate: the learning rate.
        threshold: the size up to which an entry of the gradient is truncated, or 0.
    """

    decay: float
    rate: float
    threshold: float


class Layerwise(Component):
    """The common part of the trainings of Theorems 4, 5 and 5.5; inherit from this and then from ``Training``.

    Step 1 moves only the hidden weights, by the gradient of the hinge loss on the whole sample: as the mirrored network
    is 0, it is -u_i E[1{w_i . x + b_i > 0} x y] for neuron i. The readout takes all other steps, of the output layer.

    Args:
        gradient: ``sample``, or ``population`` for its exact expectation over all inputs.
        readout: how the output layer is found.
    """

    init: ClassVar[type[Any]]
    """The initialisation that the training requires."""
    source: ClassVar[str]
    moves_biases: ClassVar[bool] = False
    """Whether the one step moves the hidden biases too."""

    gradient: Literal["sample", "population"] = "sample"
    readout: SerializeAsAny[Readout] = LastIterate()

    @model_validator(mode="before")
    @classmethod
    def _default_steps(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or "steps" in fields:
            return fields
        readout = Readout.parse(fields.get("readout", cls.model_fields["readout"].default))
        return {**fields, "steps": 1 + readout.default_steps}

    @abstractmethod
    def first_step(self, task: SparseParity, init: Any) -> Step:
        """Return the step of the hidden weights."""

    @abstractmethod
    def population_gradient(self, weight: Weights, support: Int64[np.ndarray, " k"]) -> Float[np.ndarray, "count n"]:
        """Return E[1{w . x + b > 0} x_i y] for neurons with given initial weights, from the theorem's closed form."""

    @abstractmethod
    def gates(self, init: Any, parameters: Parameters) -> tuple[Weights, Float[np.ndarray, " count"]]:
        """Return weights and biases whose sums w . x + b have exactly the initial neurons' signs in float32."""

    @abstractmethod
    def construction(self, task: SparseParity, init: Any) -> ConstructedReadout:
        """Return the theorem's readout and the scale of its features.

        Raises:
            ValueError: there is none.
        """

    def check(self, task: Task, regime: Regime, model: Model) -> None:
        """Refuse anything outside the theorem's hypotheses, naming the hypothesis and the value."""
        if not isinstance(model, MLP) or type(model.init) is not self.init:
            network = f"{model.kind!r} with init={model.init.kind!r}" if isinstance(model, MLP) else repr(model.kind)
            rule = f"{self.kind} must train an mlp with init={self.init.kind!r} ({self.source})"
            raise ValueError(f"{rule}: model={network}")
        if not model.is_plain:
            raise ValueError(f"{self.kind} must train relu neurons, with both biases ({self.source}): {model!r}")
        assert isinstance(task, SparseParity)  # required by the initialisation
        steps = getattr(self, "steps", 2)
        if steps < 2:
            raise ValueError(f"steps must be at least 2, features and readout ({self.source}): steps={steps}")
        takes_sample = self.gradient == "sample" or self.readout.needs_sample
        if takes_sample and not isinstance(regime, Sample):
            needed = "gradient='sample'" if self.gradient == "sample" else f"readout={self.readout.kind!r}"
            raise ValueError(f"regime must be a sample for {needed} ({self.source}): regime={regime.kind!r}")
        self.first_step(task, model.init)
        self.readout.check(lambda: self.construction(task, model.init))


def large(weight: Weights) -> list[Int64[np.ndarray, " s"]]:
    """Return, for each neuron, the coordinates where its initial weight is 1."""
    return [np.flatnonzero(row == 1) for row in weight]


def random_rows(key: random.Key, count: int, n: int, ones: int, rest: float) -> Weights:
    """Draw rows with 1 on a uniform subset of a given size and another value elsewhere."""
    rows = np.full((count, n), rest, np.float32)
    np.put_along_axis(rows, random.subsets(key, rows=count, n=n, size=ones), np.float32(1), axis=1)
    return rows
