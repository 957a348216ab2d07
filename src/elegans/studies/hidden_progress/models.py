"""Initial weights of another size; and identifying a support from one gradient of one neuron."""

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float32, Float64
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.learners.base import Course, Learner, Lesson
from elegans.models.activations import Activation, ReLU
from elegans.models.base import Model
from elegans.models.inits import AffineInit, ConstantInit, DenseInit, LayerInit
from elegans.tasks import Regime, Sample, SparseParity, Task

BLOCK = 2**16
"""Examples held at once."""


class ScaledInit(AffineInit, kind="scaled"):
    """The default initialisation, uniform on plus or minus 1/sqrt(fan-in), times a factor.

    Source: thesis, appendix B.4.1 (the scale c).

    Args:
        factor: what every weight and bias is multiplied by.
    """

    shorthand = "factor"
    factor: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    def entries(self, key: random.Key, shape: tuple[int, ...], fan_in: int, fan_out: int) -> Float32[np.ndarray, "..."]:
        return DenseInit().entries(key, shape, fan_in, fan_out) * np.float32(self.factor)


class GradientRecovery(Learner, Model):
    """Identifies the k inputs where one neuron's gradient on the sample is largest, and predicts their parity.

    The gradient is that of the correlation loss, -(1/m) sum_a y_a x_a sigma'(w . x_a), and takes one round. A neuron
    with a Fourier gap at the support identifies it from ``elegans.theory.recovery_sample`` examples on.

    Its parameters are ``{"support": (k,)}``; before the round the support is empty and the prediction always +1.

    Source: thesis, chapter 5, Proposition B.7.

    Args:
        activation: the function sigma, by name or as a component.
        init: the distribution of the neuron's weights; by default all are 1.
        steps: None, or 1.
        stopping: when the trial counts as solved, and whether it then ends.
    """

    activation: SerializeAsAny[Activation] = ReLU()
    init: LayerInit = ConstantInit(1.0)

    def check(self, task: Task) -> None:
        """Refuse a task that is not a sparse parity."""
        if not isinstance(task, SparseParity):
            raise ValueError(f"gradient-recovery must look for a sparse-parity: task={task.kind!r}")

    def check_regime(self, task: Task, regime: Regime) -> None:
        """Refuse to take the gradient on anything but a sample."""
        if not isinstance(regime, Sample):
            raise ValueError(f"gradient-recovery must have a sample: regime={regime.kind!r}")

    def rounds(self, task: Task) -> int:
        """Return 1."""
        return 1

    def initialise(self, key: random.Key, task: Task) -> dict[str, np.ndarray]:
        """Return the empty support."""
        return {"support": np.zeros(0, np.int64)}

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        """Return the product of the inputs over the support, shape (count,)."""
        return x[:, parameters["support"]].prod(axis=1)

    def begin(self, lesson: Lesson) -> Course:
        """Return the learner before its round."""
        return _Recovery(self, lesson)

    def gradient(self, lesson: Lesson) -> Float64[np.ndarray, " n"]:
        """Return the neuron's gradient on the sample, up to its sign."""
        assert isinstance(lesson.regime, Sample)
        weight = self.init.weights(lesson.key("init"), 1, lesson.task.input_size)[0]
        total = np.zeros(len(weight))
        for first in range(0, lesson.regime.size, BLOCK):
            index = np.arange(first, min(first + BLOCK, lesson.regime.size), dtype=np.uint32)
            x, y = lesson.examples(index)
            total += (y * self.activation.derivative(x @ weight)) @ x
        return total / lesson.regime.size


class _Recovery(Course):
    """The learner on its way: nothing before its round, and then a support."""

    def __init__(self, model: GradientRecovery, lesson: Lesson) -> None:
        self.model, self.lesson = model, lesson
        self.support = np.zeros(0, np.int64)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The support that was named."""
        return {"support": self.support}

    def advance(self, rounds: int) -> None:
        """Take the gradient, and the k places where it is largest."""
        assert isinstance(self.lesson.task, SparseParity)
        size = np.abs(self.model.gradient(self.lesson))
        self.support = np.sort(np.argsort(-size, kind="stable")[: self.lesson.task.k])
