"""Kernel regression with the kernels of infinitely wide two-layer ReLU networks: a learner that learns no features."""

import math
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from elegans import random
from elegans.learners.base import Learner, LearnerData, LearnerRun
from elegans.models.base import Model
from elegans.tasks import Regime, Sample, Task

LARGEST_KERNEL = 30_000
"""Maximum number of examples in the regression: their factor takes 4 bytes x count^2, or 3.6 GB."""


class KernelRidge(Learner, Model):
    """Ridge regression of the labels on all examples so far, with a kernel of two-layer ReLU networks without biases.

    A round adds the next ``examples`` examples, by default the whole sample, and the regression is exact after every
    round: its Cholesky factor grows by a block. The examples that a kernel needs are thus counted as for a network.
    The curve has the loss (f - y)^2 and the error on each round's examples before they are added.

    Its parameters are ``{"x": (count, n), "coefficients": (count,)}``; without examples every answer is 0.

    Formula: f(x) = sum_i c_i K(x, x_i), (K + ridge) c = y; with u the cosine of the angle between two inputs,
    K = |x| |x'| h(u): h = k1 for ``relu``, the kernel of a random hidden layer, h = k1 + u k0 for ``ntk``, the tangent
    kernel of both layers; k0 = (pi - arccos u) / pi, k1 = (u (pi - arccos u) + sqrt(1 - u^2)) / pi.

    Source: Cho and Saul, "Kernel methods for deep learning" (2009); Jacot, Gabriel and Hongler, "Neural tangent kernel"
    (2018); Glasgow (2024), section 1.1, for the order of n^2 examples that the XOR takes.

    Args:
        kernel: ``ntk`` or ``relu``.
        ridge: the ridge in units of the mean of K(x, x) over the examples of the first round; above 0.
        examples: the number of examples per round; None for the whole sample in one round.
        steps: the number of rounds; None for one.
        stopping: when the trial counts as solved, and whether it then ends.
    """

    shorthand = "kernel"
    kernel: Literal["ntk", "relu"] = "ntk"
    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-6
    examples: Annotated[int, Field(ge=1, le=LARGEST_KERNEL)] | None = None

    def check_regime(self, task: Task, regime: Regime) -> None:
        size = regime.size if isinstance(regime, Sample) else LARGEST_KERNEL
        if self.examples is None and (self.rounds(task) > 1 or not isinstance(regime, Sample)):
            fields = f"regime={regime.kind!r}, steps={self.steps}"
            raise ValueError(f"examples of kernel-ridge must be given, except for one round on a sample: {fields}")
        count = size if self.examples is None else self.examples * self.rounds(task)
        if count > min(size, LARGEST_KERNEL):
            raise ValueError(f"kernel-ridge must regress on at most {min(size, LARGEST_KERNEL)} examples: {count}")

    def rounds(self, task: Task) -> int:
        return self.steps or 1

    def initialise(self, key: random.Key, task: Task) -> dict[str, np.ndarray]:
        return {"x": np.zeros((0, task.input_size), np.float32), "coefficients": np.zeros(0)}

    def apply(self, parameters: Any, x: Float[Any, "count n"]) -> Float[Any, " count"]:
        return self.gram(x, parameters["x"]) @ parameters["coefficients"]

    def gram(self, x: Float[np.ndarray, "rows n"], other: Float[np.ndarray, "columns n"]) -> np.ndarray:
        """Return the kernel between two sets of inputs, float64 of shape (rows, columns)."""
        norms = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(other, axis=1)[None, :]
        inner = x.astype(float) @ other.T.astype(float)
        u = np.clip(np.divide(inner, norms, out=np.zeros(inner.shape), where=norms > 0), -1, 1)
        angle = math.pi - np.arccos(u)
        first = (u * angle + np.sqrt(1 - u * u)) / math.pi
        return np.asarray(norms * (first if self.kernel == "relu" else first + u * angle / math.pi))

    def begin(self, lesson: LearnerData) -> LearnerRun:
        return _Regression(self, lesson)


class _Regression(LearnerRun):
    """A regression under way: the rows of its Cholesky factor, block by block, and the labels solved for by them."""

    def __init__(self, model: KernelRidge, lesson: LearnerData) -> None:
        self.model, self.lesson = model, lesson
        self.x = np.zeros((0, lesson.task.input_size), np.float32)
        self.coefficients = self.reduced = np.zeros(0)
        self.blocks: list[np.ndarray] = []
        self.ridge = 0.0

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        return {"x": self.x, "coefficients": self.coefficients}

    def advance(self, rounds: int) -> None:
        before = np.array([self._round() for _ in range(rounds)])
        self.loss, self.error = (float(mean) for mean in before.mean(axis=0))

    def _round(self) -> tuple[float, float]:
        seen = len(self.x)
        count = self.model.examples
        if count is None:
            assert isinstance(self.lesson.regime, Sample)
            count = self.lesson.regime.size
        x, y = self.lesson.examples(np.arange(seen, seen + count, dtype=np.uint32))
        cross, gram = self.model.gram(x, self.x), self.model.gram(x, x)
        answer = cross @ self.coefficients
        if not seen:
            self.ridge = self.model.ridge * float(np.diag(gram).mean())
        self._append(cross, gram, y.astype(float))
        self.x = np.concatenate([self.x, x])
        return float(((answer - y) ** 2).mean()), float((~(y * answer > 0)).mean())

    def _append(self, cross: np.ndarray, gram: np.ndarray, y: np.ndarray) -> None:
        """Add rows to the factor L of K + ridge = L L^T, solve L z = y for the new labels, and then L^T c = z."""
        from scipy.linalg import cholesky, solve_triangular

        row = np.empty((len(y), cross.shape[1] + len(y)))
        for block in self.blocks:
            start, stop = block.shape[1] - len(block), block.shape[1]
            left = cross[:, start:stop] - row[:, :start] @ block[:, :start].T
            row[:, start:stop] = solve_triangular(block[:, start:], left.T, lower=True).T
        seen = cross.shape[1]
        complement = gram + self.ridge * np.eye(len(y)) - row[:, :seen] @ row[:, :seen].T
        row[:, seen:] = cholesky(complement, lower=True)
        new = solve_triangular(row[:, seen:], y - row[:, :seen] @ self.reduced, lower=True)
        self.blocks.append(row)
        self.reduced = np.concatenate([self.reduced, new])
        left = self.reduced.copy()
        for block in reversed(self.blocks):
            start, stop = block.shape[1] - len(block), block.shape[1]
            left[start:stop] = solve_triangular(block[:, start:], left[start:stop], lower=True, trans="T")
            left[:start] -= block[:, :start].T @ left[start:stop]
        self.coefficients = left
