"""Sequences of examples of a linear function, as tokens or by their sufficient statistics."""

from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from jaxtyping import Float32, Float64
from pydantic import Field, model_validator

from elegans import random
from elegans.tasks.arrays import Indices, SignedExamples
from elegans.tasks.base import Task


class LinearRegressionSequences(Task, kind="linear-regression-sequences"):
    """Examples (x_i, y_i) of a linear function w . x, and a query x_q whose label w . x_q is to be answered.

    Inputs are normal, x ~ N(0, Lambda), in the basis of Lambda's eigenvectors. Each sequence has its own w: a fresh
    one, or one of a pool that is drawn once per trial. With Shat = (1/length) sum x x^T, s = (1/length) sum y x and
    yy = (1/length) sum y^2, an input is

    - ``statistics``: s, x_q, yy, in this order (2 d + 1 numbers);
    - ``moments``: the same, and Shat + x_q x_q^T / length row by row;
    - ``sequence``: x_1, y_1, ..., x_q, 0, one token of d + 1 numbers after the other;
    - ``each``: the same, and the label of every x_i is to be answered from the examples before it (length + 1 targets).

    Statistics are drawn without the sequence, at a cost that does not grow with the length. For Lambda = I,
    length Shat = A A^T with Bartlett's lower-triangular A, and length s = A u, length yy = |u|^2 + noise c, where
    u = A^T w + sqrt(noise) z and c is chi-square of length - d degrees of freedom.

    Labels are real numbers, and the task is for learners that take them. Statistics are drawn by NumPy only.

    Source: Garg et al. (2022) for the task; Bartlett, "On the theory of statistical regression" (1933), for A.

    Args:
        d: the number of inputs.
        length: the number of examples before the query; at least d where statistics are drawn.
        covariance: eigenvalues of Lambda, all equal (``white``) or in proportion to d, d - 1, ..., 1 (``linear``).
        trace: their sum.
        noise: the variance of the noise on the labels of the examples.
        query_noise: whether the query's label has that noise too.
        pool: the number of tasks in the pool; None for a fresh w in every sequence.
        vectors: the distribution of w: standard ``normal``, or uniform on the ``sphere`` of radius sqrt(d).
        output: what an input is, see above.
    """

    d: Annotated[int, Field(ge=1, le=1024)]
    length: Annotated[int, Field(ge=1, le=2**24)]
    covariance: Literal["white", "linear"] = "white"
    trace: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    query_noise: bool = False
    pool: Annotated[int, Field(ge=1, le=2**24)] | None = None
    vectors: Literal["normal", "sphere"] = "normal"
    output: Literal["statistics", "moments", "sequence", "each"] = "statistics"

    @model_validator(mode="after")
    def _has_statistics(self) -> Self:
        if not self._in_tokens and self.length < self.d:
            raise ValueError(f"length must be at least d for statistics: length={self.length}, d={self.d}")
        return self

    @property
    def input_size(self) -> int:
        d = self.d
        if self._in_tokens:
            return (self.length + 1) * (d + 1)
        return 2 * d + 1 + (d * d if self.output == "moments" else 0)

    @property
    def _in_tokens(self) -> bool:
        return self.output in ("sequence", "each")

    @property
    def targets(self) -> int | None:
        return self.length + 1 if self.output == "each" else None

    @property
    def real_labels(self) -> bool:
        return True

    @cached_property
    def spectrum(self) -> Float64[np.ndarray, " d"]:
        """The eigenvalues of Lambda, the largest first."""
        weight = np.ones(self.d) if self.covariance == "white" else np.arange(self.d, 0, -1.0)
        spectrum: Float64[np.ndarray, " d"] = self.trace * weight / weight.sum()
        return spectrum

    @property
    def is_on_sphere(self) -> bool:
        """Whether tasks are on the sphere and inputs N(0, I/d), as in the theory of diversity."""
        return self.vectors == "sphere" and self.covariance == "white" and self.trace == 1

    def draw(self, key: random.Key) -> Float32[np.ndarray, "pool d"] | None:
        """Return the pool, or None where each sequence has a fresh task."""
        return None if self.pool is None else self._tasks(key, np.arange(self.pool, dtype=np.uint32))

    def _tasks(self, key: random.Key, index: Any) -> Any:
        w = _normals(key, index, self.d)
        if self.vectors == "normal":
            return w
        return w * (self.d / (w * w).sum(axis=1, keepdims=True)) ** 0.5

    def examples(self, hidden: Any, key: random.Key, index: Indices) -> SignedExamples:
        tasks, queries, noises, inside = (key.fold(number) for number in range(4))
        fresh = hidden is None
        w = self._tasks(tasks, index) if fresh else hidden[random.integers(tasks, index, bound=len(hidden))]
        scale = self.spectrum.astype(np.float32) ** np.float32(0.5)
        x_q = _normals(queries, index, self.d) * scale
        y = (w * x_q).sum(axis=1)
        if self.query_noise:
            y = y + _root(self.noise) * random.normal(noises, index)
        make = self._sequence if self._in_tokens else self._statistics
        inputs = make(w * scale, x_q, scale, inside, index)
        if self.output == "each":
            before = inputs[:, self.d :: self.d + 1][:, :-1]
            y = inputs.__array_namespace__().concatenate([before, y[:, None]], axis=1)
        return inputs, y

    def _statistics(self, w: Any, x_q: Any, scale: Any, key: random.Key, index: Any) -> Any:
        """Return the statistics, for w in units in which Lambda = I."""
        from scipy.special import gammaincinv

        n, d, count = self.length, self.d, len(index)
        draws = np.asarray(_normals(key.fold(0), index, d * (d + 1) // 2))
        below = np.tril_indices(d, -1)
        words = random.bits(key.fold(1), index[:, None], lane=np.arange(d + 1, dtype=np.uint32))[0]
        degrees = n - np.arange(d + 1)
        quantiles = (np.asarray(words, float) + 0.5) * 2.0**-32
        chi2 = 2 * gammaincinv(np.maximum(degrees, 1) / 2, quantiles) * (degrees > 0)
        a = np.zeros((count, d, d))
        a[:, below[0], below[1]] = draws[:, d:]
        a[:, range(d), range(d)] = chi2[:, :d] ** 0.5
        u = np.einsum("cij,ci->cj", a, w) + self.noise**0.5 * draws[:, :d]
        s = np.einsum("cij,cj->ci", a, u) * scale / n
        yy = ((u**2).sum(axis=1) + self.noise * chi2[:, d]) / n
        parts = [s, x_q, yy[:, None]]
        if self.output == "moments":
            moment = np.einsum("cik,cjk->cij", a, a) * np.outer(scale, scale) / n
            moment += x_q[:, :, None] * x_q[:, None, :] / n
            parts.append(moment.reshape(count, d * d))
        return np.concatenate(parts, axis=1).astype(np.float32)

    def _sequence(self, w: Any, x_q: Any, scale: Any, key: random.Key, index: Any) -> Any:
        """Return the tokens, for w in units in which Lambda = I."""
        n, d = self.length, self.d
        draws = _normals(key, index, n * (d + 1)).reshape(-1, n, d + 1)
        xp = draws.__array_namespace__()
        x = draws[:, :, :d]
        y = (x * w[:, None, :]).sum(axis=2) + _root(self.noise) * draws[:, :, d]
        examples = xp.concatenate([x * scale, y[:, :, None]], axis=2)
        query = xp.concatenate([x_q, xp.zeros_like(y[:, :1])], axis=1)
        return xp.concatenate([examples, query[:, None, :]], axis=1).reshape(len(index), -1)


def _root(value: Any) -> Any:
    """Return the root of a number in single precision, also of one that an engine traces."""
    return np.float32(value**0.5) if isinstance(value, float) else value ** np.float32(0.5)


def _normals(key: random.Key, index: Any, count: int) -> Any:
    """Return standard normal draws, shape (len(index), count)."""
    return random.normal(key, index[:, None], lane=np.arange(count, dtype=np.uint32)[None, :])
