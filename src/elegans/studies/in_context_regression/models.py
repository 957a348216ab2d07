"""Linear attention under exact gradient descent, and the closed-form fit of attention's answers."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from jaxtyping import Float, Float64
from pydantic import Field, model_validator

from elegans import random
from elegans.learners.base import Learner, LearnerData, LearnerRun
from elegans.models.base import Model
from elegans.studies.in_context_regression.tasks import LinearRegressionSequences
from elegans.studies.in_context_regression.theory.descent import context_moment
from elegans.studies.in_context_regression.theory.diversity import statistics_moments
from elegans.tasks import Online, Regime, Sample, Task

CHUNK = 2**14
"""Sequences whose features are in memory at once."""


@dataclass(frozen=True)
class Moments:
    """The second moments on which the square loss of a linear function of features z depends.

    Args:
        features: A = mean z z^T, shape (features, features).
        labels: b = mean z y, shape (features,).
        label: mean y^2.
    """

    features: np.ndarray
    labels: np.ndarray
    label: float

    def loss(self, weights: np.ndarray) -> float:
        """Return the mean square error of z . weights, for weights of any shape."""
        m = weights.ravel()
        return float(self.label - 2 * self.labels @ m + m @ self.features @ m)

    @cached_property
    def least(self) -> float:
        """The smallest loss."""
        return self.loss(np.linalg.lstsq(self.features, self.labels, rcond=None)[0])


def moments(features: Any, x: np.ndarray, y: np.ndarray) -> Moments:
    """Return the moments of a sample.

    Args:
        features: a function from inputs to features, shape (count, features).
        x: inputs, shape (count, n).
        y: labels, shape (count,).
    """
    a, b = 0.0, 0.0
    for start in range(0, len(x), CHUNK):
        z = features(x[start : start + CHUNK])
        a, b = a + z.T @ z, b + z.T @ y[start : start + CHUNK].astype(float)
    count = len(x)
    return Moments(np.asarray(a) / count, np.asarray(b) / count, float(np.square(y, dtype=float).mean()))


class LinearAttention(Learner, Model, kind="linear-attention"):
    """One layer of linear attention, trained by exact gradient descent on the mean square error over 2.

    The answer to a sequence is f = sum_i v_i s^T U_i x_q over heads. ``rank=None`` trains the matrices U_i (key and
    query are merged); else U_i = K_i Q_i^T with R columns each (separate). It is linear in M = sum_i v_i U_i, so
    the loss is a quadratic of M, and a step needs only second moments of the features s x_q^T: over the sample, or
    online over the distribution, as if each step took infinitely many fresh sequences.

    ``blocks="all"`` trains full value and key matrices: with z_i = (x_i, y_i) and G = (1/n)(sum z_i z_i^T + z_q z_q^T),
    z_q = (x_q, 0), f = sum_i v_i^T G U_i x_q, where v_i has d + 1 entries and U_i d + 1 rows. The added entries start
    at 0, where the expected gradient keeps them; on a sample they drift.

    Its parameters are ``{"value": (heads, 1), "key_query": (heads, d, d)}``, or ``value``, ``key`` (heads, rank, d) and
    ``query`` (heads, rank, d); with all blocks, d + 1 values and keys. A trial is solved once the loss on the sequences
    is within ``reach`` of its least.

    Source: Zhang, Frei and Bartlett (2023); Zhang, Singh, Latham and Saxe (2025).

    Args:
        heads: the number of heads.
        rank: R; None for merged key and query.
        blocks: ``reduced`` or ``all``.
        rate: the learning rate.
        init: the standard deviation of initial values, and of all other weights unless those have their own.
        init_keys: the standard deviation of initial keys, queries or their product; None for ``init``.
        reach: by how much a solved trial's loss may exceed the least, as a share of it.
        steps: the number of steps.
        stopping: when success is checked, and whether the trial then ends.
    """

    shorthand = "heads"
    heads: Annotated[int, Field(ge=1, le=1024)] = 8
    rank: Annotated[int, Field(ge=1, le=1024)] | None = None
    blocks: Literal["reduced", "all"] = "reduced"
    rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.05
    init: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1e-3
    init_keys: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    reach: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01

    @model_validator(mode="after")
    def _has_steps(self) -> Self:
        if self.steps is None:
            raise ValueError("steps of a linear-attention must be given: steps=None")
        return self

    def check(self, task: Task) -> None:
        needed = "moments" if self.blocks == "all" else "statistics"
        if not isinstance(task, LinearRegressionSequences) or task.output != needed:
            fields = f"task={task.kind!r}, output={getattr(task, 'output', None)!r}"
            raise ValueError(f"a linear-attention of {self.blocks} blocks must read {needed} of sequences: {fields}")

    def check_regime(self, task: Task, regime: Regime) -> None:
        assert isinstance(task, LinearRegressionSequences)
        expected = isinstance(regime, Online) and self.blocks == "reduced" and task.pool is None
        if not isinstance(regime, Sample) and not expected:
            fields = f"regime={regime.kind!r}, blocks={self.blocks!r}, pool={task.pool}"
            raise ValueError(f"a linear-attention must learn a sample, or fresh tasks by reduced blocks: {fields}")

    def rounds(self, task: Task) -> int:
        return self.steps or 1

    def initialise(self, key: random.Key, task: Task) -> dict[str, np.ndarray]:
        assert isinstance(task, LinearRegressionSequences)
        d, added = task.d, int(self.blocks == "all")
        sd = self.init if self.init_keys is None else self.init_keys
        value = np.concatenate([np.zeros((self.heads, d * added)), self.init * _draws(key.fold(0), self.heads, 1)], 1)
        if self.rank is None:
            matrix = sd * _draws(key.fold(1), self.heads, d, d)
            return {"value": value, "key_query": np.concatenate([matrix, np.zeros((self.heads, added, d))], axis=1)}
        keys = sd * _draws(key.fold(1), self.heads, self.rank, d)
        queries = sd * _draws(key.fold(2), self.heads, self.rank, d)
        keys = np.concatenate([keys, np.zeros((self.heads, self.rank, added))], axis=2)
        return {"value": value, "key": keys, "query": queries}

    def matrix(self, parameters: Any) -> Float64[np.ndarray, "values keys d"]:
        """Return sum_i v_i U_i, of one value for reduced blocks; its last value is M there."""
        value = np.asarray(parameters["value"])
        if "key_query" in parameters:
            return np.asarray(np.einsum("ha,hbc->abc", value, parameters["key_query"]))
        return np.asarray(np.einsum("ha,hrb,hrc->abc", value, parameters["key"], parameters["query"]))

    def features(self, x: Float[np.ndarray, "count n"]) -> Float64[np.ndarray, "count features"]:
        """Return the products in which answers are linear, in the order of the entries of ``matrix``."""
        x = np.asarray(x, float)
        if self.blocks == "reduced":
            d = (x.shape[1] - 1) // 2
            return np.asarray((x[:, :d, None] * x[:, None, d : 2 * d]).reshape(len(x), -1))
        d = round(x.shape[1] ** 0.5) - 1
        s, x_q, yy, moment = np.split(x, [d, 2 * d, 2 * d + 1], axis=1)
        g = np.empty((len(x), d + 1, d + 1))
        g[:, :d, :d] = moment.reshape(-1, d, d)
        g[:, d, :d] = g[:, :d, d] = s
        g[:, d, d] = yy[:, 0]
        return np.asarray((g[..., None] * x_q[:, None, None, :]).reshape(len(x), -1))

    def apply(self, parameters: Any, x: Float[Any, "count n"]) -> Float[Any, " count"]:
        return np.asarray(self.features(np.asarray(x)) @ self.matrix(parameters).ravel(), np.float32)

    def begin(self, lesson: LearnerData) -> LearnerRun:
        return MomentDescent(self, lesson)


class MomentDescent(LearnerRun):
    """Linear attention under way: exact gradient descent from second moments.

    Args:
        model: the attention.
        lesson: its sequences.
    """

    def __init__(self, model: LinearAttention, lesson: LearnerData) -> None:
        task = lesson.task
        assert isinstance(task, LinearRegressionSequences)
        self.model = model
        if isinstance(lesson.regime, Sample):
            x, y = lesson.examples(np.arange(lesson.regime.size, dtype=np.uint32))
            self.moments = moments(model.features, x, y)
        else:
            self.moments = expected_moments(task)
        first = model.initialise(lesson.key("init"), task)
        self.value = first["value"]
        self.merged = model.rank is None
        if self.merged:
            self.shape = first["key_query"].shape
            self.product = first["key_query"].reshape(model.heads, -1)
        else:
            self.shape = first["key"].shape
            self.keys, self.queries = (first[name].reshape(-1, first[name].shape[2]) for name in ("key", "query"))

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        if self.merged:
            return {"value": self.value.copy(), "key_query": self.product.reshape(self.shape).copy()}
        heads, rank, _ = self.shape
        keys, queries = (part.reshape(heads, rank, -1).copy() for part in (self.keys, self.queries))
        return {"value": self.value.copy(), "key": keys, "query": queries}

    @property
    def solved(self) -> bool:
        return self.moments.loss(self.model.matrix(self.parameters)) <= (1 + self.model.reach) * self.moments.least

    def advance(self, rounds: int) -> None:
        step = self._step_merged if self.merged else self._step_separate
        with np.errstate(over="ignore", invalid="ignore"):
            self.loss = sum(step() for _ in range(rounds)) / rounds
        self.error = float(not self.solved)

    def _gradient(self, m: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the descent direction with respect to M, flat, and the loss."""
        b = self.moments.labels
        gradient = b - self.moments.features @ m
        return gradient, float(self.moments.label - m @ (b + gradient))

    def _step_merged(self) -> float:
        v, u = self.value, self.product
        gradient, loss = self._gradient((v.T @ u).ravel())
        by_value = gradient.reshape(v.shape[1], -1)
        self.value = v + self.model.rate * (u @ by_value.T)
        self.product = u + self.model.rate * (v @ by_value)
        return loss

    def _step_separate(self) -> float:
        rank, rate = self.shape[1], self.model.rate
        keys, queries = self.keys, self.queries
        v = np.repeat(self.value, rank, axis=0) if rank > 1 else self.value
        left = (v[:, :, None] * keys[:, None, :]).reshape(len(keys), -1)
        gradient, loss = self._gradient((left.T @ queries).ravel())
        matrix = gradient.reshape(left.shape[1], -1)
        back = (queries @ matrix.T).reshape(len(keys), v.shape[1], -1)
        by_column = (back * keys[:, None, :]).sum(axis=2)
        self.value = self.value + rate * by_column.reshape(-1, rank, v.shape[1]).sum(axis=1)
        self.keys = keys + rate * (v[:, :, None] * back).sum(axis=1)
        self.queries = queries + rate * (left @ matrix)
        return loss


def expected_moments(task: LinearRegressionSequences) -> Moments:
    """Return the moments of infinitely many sequences of fresh tasks, for the features s x_q^T."""
    lam = task.spectrum
    squares = np.outer(lam * context_moment(lam, task.length, task.noise), lam)
    label = lam.sum() + (task.noise if task.query_noise else 0.0)
    return Moments(np.diag(squares.ravel()), np.diag(lam**2).ravel(), float(label))


class RidgeFit(Learner, Model, kind="ridge-fit"):
    """Linear attention with the feature yy, fitted to its sample at once: f = x_q^T Gamma [d s, yy].

    Gamma, d x (d + 1), minimises the square loss with a penalty of ``ridge`` times the mean square of a feature, so
    that a small ridge gives least squares, or interpolation of the smallest norm. Online it minimises the expected loss
    of the pool's tasks without penalty, in closed form, for tasks on the sphere with inputs N(0, I/d). Its parameters
    are ``{"gamma": (d, d + 1)}``. A trial is solved after its only round.

    Source: Lu et al. (2024).

    Args:
        ridge: the penalty, above 0.
        steps: the number of rounds; it takes one.
        stopping: when the trial counts as solved.
    """

    shorthand = "ridge"
    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-9

    def check(self, task: Task) -> None:
        if not isinstance(task, LinearRegressionSequences) or task.output != "statistics":
            fields = f"task={task.kind!r}, output={getattr(task, 'output', None)!r}"
            raise ValueError(f"a ridge-fit must read statistics of sequences: {fields}")

    def check_regime(self, task: Task, regime: Regime) -> None:
        assert isinstance(task, LinearRegressionSequences)
        if not isinstance(regime, Sample) and not (isinstance(regime, Online) and task.is_on_sphere):
            raise ValueError(f"a ridge-fit must fit a sample, or online tasks on the sphere: regime={regime.kind!r}")

    def rounds(self, task: Task) -> int:
        return 1

    def initialise(self, key: random.Key, task: Task) -> dict[str, np.ndarray]:
        assert isinstance(task, LinearRegressionSequences)
        return {"gamma": np.zeros((task.d, task.d + 1))}

    def features(self, x: Float[np.ndarray, "count n"]) -> Float64[np.ndarray, "count features"]:
        """Return the products in which answers are linear, in the order of Gamma's entries."""
        x = np.asarray(x, float)
        d = (x.shape[1] - 1) // 2
        z = np.concatenate([d * x[:, :d], x[:, 2 * d :]], axis=1)
        return np.asarray((x[:, d : 2 * d, None] * z[:, None, :]).reshape(len(x), -1))

    def apply(self, parameters: Any, x: Float[Any, "count n"]) -> Float[Any, " count"]:
        return np.asarray(self.features(np.asarray(x)) @ np.asarray(parameters["gamma"]).ravel(), np.float32)

    def begin(self, lesson: LearnerData) -> LearnerRun:
        return _Fit(self, lesson)


class _Fit(LearnerRun):
    """A fit before or after its only round."""

    def __init__(self, model: RidgeFit, lesson: LearnerData) -> None:
        self.model, self.lesson, self.fitted = model, lesson, False
        self.parameters_now = model.initialise(lesson.key("init"), lesson.task)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        return self.parameters_now

    @property
    def solved(self) -> bool:
        return self.fitted

    def advance(self, rounds: int) -> None:
        gamma = self._least_squares() if isinstance(self.lesson.regime, Sample) else self._expected()
        self.parameters_now = {"gamma": gamma}
        self.fitted, self.error = True, 0.0

    def _expected(self) -> np.ndarray:
        task, tasks = self.lesson.task, self.lesson.hidden
        assert isinstance(task, LinearRegressionSequences)
        features, labels = statistics_moments(task.length, task.noise, *task_moments(tasks, task.d))
        return np.asarray(np.linalg.solve(features, labels.T).T)

    def _least_squares(self) -> np.ndarray:
        from scipy.linalg import solve

        assert isinstance(self.lesson.regime, Sample)
        x, y = self.lesson.examples(np.arange(self.lesson.regime.size, dtype=np.uint32))
        gamma = self.parameters_now["gamma"]
        size, count = gamma.size, len(x)
        if count >= size:
            stats = moments(self.model.features, x, y)
            a, b = stats.features, stats.labels
            weights = solve(a + self.model.ridge * np.trace(a) / size * np.eye(size), b, assume_a="pos")
        else:
            z = self.model.features(x)
            gram = z @ z.T
            shift = self.model.ridge * np.trace(gram) / size
            weights = z.T @ solve(gram + shift * np.eye(count), y.astype(float), assume_a="pos")
        return np.asarray(weights.reshape(gamma.shape))


def task_moments(pool: np.ndarray | None, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return E w w^T and E w of the tasks of a pool, or of fresh ones if there is none."""
    if pool is None:
        return np.eye(d), np.zeros(d)
    w = np.asarray(pool, float)
    return w.T @ w / len(w), w.mean(axis=0)


def _draws(key: random.Key, *shape: int) -> np.ndarray:
    """Return standard normal draws of some shape, float64."""
    return np.asarray(random.normal(key, np.arange(np.prod(shape), dtype=np.uint32)), float).reshape(shape)


class SequenceTransformer(Model):
    """A transformer that answers each label of a sequence from the examples before it.

    Examples (x_i, y_i) and queries x_i are read in by a linear map each. In a layer an example attends to itself and
    the examples before it, a query to itself and the examples before it, so no position needs an embedding: with
    parameter-free normalisation N, z' = z + attention(N(z)), then z' + W_2 gelu(W_1 N(z')). The answers are linear in
    N(z) of the queries.

    Its parameters are ``{"read": {"example": (d + 1, width), "query": (d, width)}, "layers": {"query", "key", "value":
    (layers, width, width), "output": (layers, width, width), "hidden": (layers, width, 4 width), "residual": (layers,
    4 width, width)}, "output": (width,)}``.

    Source: Raventós et al. (2023), much smaller; their tokens are the numbers x_i and y_i in turn.

    Args:
        layers: the number of layers.
        width: the size of an embedding, a multiple of ``heads``.
        heads: the number of attention heads.
    """

    layers: Annotated[int, Field(ge=1, le=64)] = 2
    width: Annotated[int, Field(ge=1, le=4096)] = 32
    heads: Annotated[int, Field(ge=1, le=64)] = 2

    @model_validator(mode="after")
    def _has_heads(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads: width={self.width}, heads={self.heads}")
        return self

    def check(self, task: Task) -> None:
        if not isinstance(task, LinearRegressionSequences) or task.output != "each":
            fields = f"task={task.kind!r}, output={getattr(task, 'output', None)!r}"
            raise ValueError(f"a sequence-transformer must answer each label of sequences: {fields}")

    def outputs(self, task: Task) -> int:
        assert isinstance(task, LinearRegressionSequences)
        return task.length + 1

    def parameter_count(self, task: Task) -> int:
        return 12 * self.layers * self.width**2

    def initialise(self, key: random.Key, task: Task) -> dict[str, Any]:
        assert isinstance(task, LinearRegressionSequences)
        layers, width = self.layers, self.width

        def normal(number: int, *shape: int) -> np.ndarray:
            draws = _draws(key.fold(number), *shape).astype(np.float32)
            return np.asarray(draws / np.float32(shape[-2 if len(shape) > 1 else -1] ** 0.5))

        square = {name: normal(number, layers, width, width) for number, name in enumerate(("query", "key", "value"))}
        wide = {"hidden": normal(4, layers, width, 4 * width), "residual": normal(5, layers, 4 * width, width)}
        return {
            "read": {"example": normal(6, task.d + 1, width), "query": normal(7, task.d, width)},
            "layers": {**square, "output": normal(3, layers, width, width), **wide},
            "output": normal(8, width),
        }

    def apply(self, parameters: Any, x: Float[Any, "count n"]) -> Float[Any, "count targets"]:
        import jax
        import jax.numpy as jnp

        read, layers = parameters["read"], parameters["layers"]
        tokens = x.reshape(len(x), -1, read["example"].shape[0])
        count, places, heads = len(x), tokens.shape[1], self.heads
        z = jnp.concatenate([tokens @ read["example"], tokens[:, :, :-1] @ read["query"]], axis=1)
        before, itself = np.tril(np.ones((places, places), bool), -1), np.eye(places, dtype=bool)
        seen = np.block([[before | itself, np.zeros_like(before)], [before, itself]])

        def split(part: Any) -> Any:
            return part.reshape(count, 2 * places, heads, -1)

        for layer in range(self.layers):
            at = {name: weights[layer] for name, weights in layers.items()}
            normed = _normalised(z)
            query, key, value = (split(normed @ at[name]) for name in ("query", "key", "value"))
            scores = jnp.einsum("bqha,bkha->bhqk", query, key) / np.float32((self.width // heads) ** 0.5)
            weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=3)
            mixed = jnp.einsum("bhqk,bkha->bqha", weights, value).reshape(count, 2 * places, -1)
            z = z + mixed @ at["output"]
            z = z + jax.nn.gelu(_normalised(z) @ at["hidden"]) @ at["residual"]
        return _normalised(z[:, places:]) @ parameters["output"]


def _normalised(z: Any) -> Any:
    centred = z - z.mean(axis=-1, keepdims=True)
    return centred / ((centred**2).mean(axis=-1, keepdims=True) + np.float32(1e-6)) ** np.float32(0.5)
