"""A transformer with one more part; and a support read off one neuron's gradient."""

from typing import Any, Literal

import numpy as np
from jaxtyping import Float32, Float64
from pydantic import SerializeAsAny

from elegans import random
from elegans.learners.base import Learner, LearnerData, LearnerRun
from elegans.models.activations import Activation, ReLU
from elegans.models.base import Model
from elegans.models.inits import ConstantInit, LayerInit
from elegans.models.transformer import ParityTransformer
from elegans.tasks import Regime, Sample, SparseParity, Task

BLOCK = 2**16
"""The number of examples held in memory at once."""
SMALL = 1e-5
"""Added to a variance before dividing by it, as in common libraries."""


class ExtendedTransformer(ParityTransformer):
    """The parity transformer with one of the parts that it leaves out.

    - ``norms``: layer normalisation, without gains, of the inputs of attention, MLP and readout.
    - ``tied``: the readout is (E_{+1} - E_{-1}) / sqrt(width), of the embeddings of both signs.
    - ``class-position``: the class token has a position: it is embedded as E_c + P_c, P_c drawn like E_c.

    Source: thesis, appendix B.4.1, which names these parts but not their details.

    Args:
        part: which.
    """

    part: Literal["norms", "tied", "class-position"]

    def initialise(self, key: random.Key, task: Task) -> dict[str, dict[str, np.ndarray]]:
        """Draw the arrays; arrays of the plain transformer are drawn as in it."""
        drawn = super().initialise(key, task)
        if self.part == "tied":
            del drawn["output"]
        elif self.part == "class-position":
            lane = np.arange(self.width, dtype=np.uint32)
            own = random.normal(key.fold(10), np.zeros(1, np.uint32), lane=lane) * np.float32(self.embedding_scale)
            drawn["embedding"]["class_position"] = np.asarray(own, np.float32).reshape(self.width)
        return drawn

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        """Return the outputs."""
        import jax
        import jax.numpy as jnp

        embedding, heads = parameters["embedding"], parameters["attention"]
        normed = _layer_norm if self.part == "norms" else lambda rows: rows
        of_class = embedding["class"] + embedding.get("class_position", 0)
        rows, asking = normed(embedding["sign"][:, None] + embedding["position"]), normed(of_class)
        query = jnp.einsum("d,hda->ha", asking, heads["query"]) / np.sqrt(np.float32(self.head_size))
        asked = jnp.einsum("hda,ha->hd", heads["key"], query)
        scores, positive = jnp.einsum("snd,hd->shn", rows, asked), (x > 0)[:, None, :]
        of_signs = jnp.where(positive, scores[1], scores[0])
        on_itself = jnp.broadcast_to((asked @ asking)[:, None], (len(x), self.heads, 1))
        weights = jax.nn.softmax(jnp.concatenate([of_signs, on_itself], axis=2), axis=2)
        values = jnp.einsum("snd,hda->shna", rows, heads["value"])
        signs, itself = weights[:, :, :-1], weights[:, :, -1:]
        mixed = jnp.einsum("bhn,hna->bha", signs * positive, values[1])
        mixed += jnp.einsum("bhn,hna->bha", signs * ~positive, values[0])
        mixed += itself * jnp.einsum("d,hda->ha", asking, heads["value"])
        z = of_class + jnp.einsum("bha,had->bd", mixed, heads["output"])
        hidden, residual = parameters["hidden"], parameters["residual"]
        inner = jax.nn.gelu(normed(z) @ hidden["weight"].T + hidden["bias"], approximate=False)
        z = normed(z + inner @ residual["weight"].T + residual["bias"])
        if self.part == "tied":
            return z @ (embedding["sign"][1] - embedding["sign"][0]) / np.sqrt(np.float32(self.width))
        return z @ parameters["output"]["weight"]


def _layer_norm(rows: Any) -> Any:
    """Return rows of mean 0 and variance 1 along the last axis."""
    centred = rows - rows.mean(axis=-1, keepdims=True)
    return centred / ((centred**2).mean(axis=-1, keepdims=True) + SMALL) ** 0.5


class GradientRecovery(Learner, Model):
    """Identifies the k inputs where one neuron's gradient on the sample is largest, and predicts their parity.

    The gradient of the correlation loss, -(1/m) sum_a y_a x_a sigma'(w . x_a), takes one round. A neuron
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

    def begin(self, lesson: LearnerData) -> LearnerRun:
        """Return the learner before its round."""
        return _Recovery(self, lesson)

    def gradient(self, lesson: LearnerData) -> Float64[np.ndarray, " n"]:
        """Return the neuron's gradient on the sample, up to its sign."""
        assert isinstance(lesson.regime, Sample)
        weight = self.init.weights(lesson.key("init"), 1, lesson.task.input_size)[0]
        total = np.zeros(len(weight))
        for first in range(0, lesson.regime.size, BLOCK):
            index = np.arange(first, min(first + BLOCK, lesson.regime.size), dtype=np.uint32)
            x, y = lesson.examples(index)
            total += (y * self.activation.derivative(x @ weight)) @ x
        return total / lesson.regime.size


class _Recovery(LearnerRun):
    """The learner's state: empty before its round, then a support."""

    def __init__(self, model: GradientRecovery, lesson: LearnerData) -> None:
        self.model, self.lesson = model, lesson
        self.support = np.zeros(0, np.int64)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The support that was identified."""
        return {"support": self.support}

    def advance(self, rounds: int) -> None:
        """Take the gradient, and keep the k inputs where it is largest."""
        assert isinstance(self.lesson.task, SparseParity)
        size = np.abs(self.model.gradient(self.lesson))
        self.support = np.sort(np.argsort(-size, kind="stable")[: self.lesson.task.k])
