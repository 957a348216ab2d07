"""One epoch of minibatch descent of one network, and members shared out among threads."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cython_blas
from threadpoolctl import ThreadpoolController

from elegans import random
from elegans.machine import cores

try:
    from elegans import _native
except ImportError:  # no native engine on this machine: `elegans doctor` says why
    _native = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from elegans.tabular.network import Networks, Settings

FIRST_DECAY, SECOND_DECAY, EPSILON = 0.9, 0.999, 1e-8
_CHUNK = 16384
"""Parameters that an update passes over at once, so that its passes stay in the first caches."""
Item = TypeVar("Item")
Found = TypeVar("Found")


class Stop:
    """Ends a training between two steps: when somebody sets it, or when its time is over.

    Args:
        seconds: from now on, or None for no limit.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.until = None if seconds is None else time.monotonic() + seconds
        self.flag = np.zeros(1, bool)

    def set(self) -> None:
        """End the training after its present step."""
        self.flag[0] = True

    @property
    def seconds(self) -> float | None:
        """How long there still is, or None for no limit."""
        return None if self.until is None else self.until - time.monotonic()

    def __bool__(self) -> bool:
        return bool(self.flag[0]) or (self.until is not None and time.monotonic() >= self.until)


@dataclass(frozen=True)
class Data:
    """What networks are trained on.

    Args:
        inputs: the rows, their last column ones.
        targets: what the outputs ought to be: classes 0 and 1, one-hot classes, or real numbers.
        weights: of the rows, of any scale, or None.
        head: which loss compares them.
    """

    inputs: Float[np.ndarray, "rows features1"]
    targets: Float[np.ndarray, "rows heads"]
    weights: Float[np.ndarray, " rows"] | None
    head: str

    @classmethod
    def of(cls, X: Any, y: Any, settings: "Settings", heads: int, weights: Any = None) -> "Data":
        """Check rows, targets and weights and return them in the form in which networks are trained.

        Raises:
            ValueError: with the rule and the value.
        """
        from elegans.tabular.network import with_ones

        if np.ndim(X) != 2:
            raise ValueError(f"X must have two dimensions: {np.ndim(X)}")
        if len(y) != len(X) or len(X) == 0:
            raise ValueError(f"X and y must have equally many rows, at least one: {len(X)} and {len(y)}")
        if weights is not None:
            weights = np.asarray(weights, settings.dtype)
            if weights.shape != (len(X),) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
                raise ValueError("weights must be one a row, finite, at least 0, and not all 0")
        return cls(with_ones(X, settings.dtype), _targets(y, settings, heads), weights, settings.head)

    def shares(self, rows: Any, members: int) -> list[Int[np.ndarray, " count"]]:
        """Return which rows each member sees."""
        if rows is None:
            return [np.arange(len(self.inputs))] * members
        rows = np.asarray(rows)
        if rows.ndim != 2 or len(rows) != members or rows.shape[1] == 0:
            raise ValueError(f"rows must have one row of indices a member: shape {rows.shape}, members={members}")
        if rows.min() < 0 or rows.max() >= len(self.inputs):
            raise ValueError(f"rows must be from 0 to {len(self.inputs) - 1}: {rows.min()} to {rows.max()}")
        return list(rows)

    def losses(self, outputs: Float[np.ndarray, "count heads"], index: Any) -> Float[np.ndarray, " count"]:
        """Return the loss of each of some rows."""
        targets = self.targets[index]
        if self.head == "logistic":
            return np.asarray(np.logaddexp(0, outputs[:, 0]) - targets[:, 0] * outputs[:, 0])
        if self.head == "square":
            return np.asarray(((outputs - targets) ** 2).sum(axis=1) / 2)
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        return np.asarray(np.log(np.exp(shifted).sum(axis=1)) - (shifted * targets).sum(axis=1))

    def slopes(self, outputs: Float[np.ndarray, "count heads"], index: Any) -> Float[np.ndarray, "count heads"]:
        """Return the derivative of each row's loss by its outputs."""
        return np.asarray(link(outputs, self.head) - self.targets[index])


def link(outputs: Float[np.ndarray, "*rows heads"], head: str) -> Float[np.ndarray, "*rows heads"]:
    """Return what outputs stand for: probabilities of class 1, of every class, or targets."""
    if head == "square":
        return outputs
    if head == "logistic":
        return np.asarray((1 + np.tanh(outputs / 2)) / 2)
    raised = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def forward(weights: Sequence[np.ndarray], inputs: Float[np.ndarray, "rows n1"]) -> Float[np.ndarray, "rows heads"]:
    """Return a network's outputs on rows that end in a one."""
    hidden = inputs
    for weight in weights[:-1]:
        ones = np.ones((len(inputs), len(weight) + 1), inputs.dtype)
        _activate(hidden, weight, ones[:, :-1])
        hidden = ones
    return np.asarray(hidden @ weights[-1].T)


def train_epoch(networks: "Networks", member: int, data: Data, rows: Int[np.ndarray, " count"], stop: Stop) -> float:
    """Train one member for an epoch in a new random order, and return its mean loss (of what it did until a stop)."""
    order = rows[_order(networks.seeds[member], int(networks.epochs[member]), len(rows))]
    mean = 1.0 if data.weights is None else float(data.weights[rows].mean())
    scale = 1 / mean if mean > 0 else 1.0
    epoch = _epoch_by_numpy if _gemm(networks.settings.dtype) is None else _native_epoch
    total, seen = epoch(networks, member, data, order, scale, stop)
    networks.epochs[member] += seen == len(order)
    return total / seen if seen else float("nan")


def _native_epoch(
    networks: "Networks", member: int, data: Data, order: Int[np.ndarray, " count"], scale: float, stop: Stop
) -> tuple[float, int]:
    """Take an epoch's steps in C++, with SciPy's BLAS; return the sum of losses and how many rows were seen."""
    settings = networks.settings
    total, seen, networks.steps[member] = _native.dense_epoch(
        _gemm(settings.dtype),
        [layer[member] for layer in networks.layers],
        [first[member] for first, _ in networks.moments],
        [second[member] for _, second in networks.moments],
        inputs=data.inputs,
        targets=data.targets,
        row_weights=data.weights,
        row_weight_scale=scale,
        order=order,
        batch=settings.batch_size,
        head=settings.head,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        step=int(networks.steps[member]),
        stop=stop.flag,
        seconds=stop.seconds,
    )
    return total, seen


def _epoch_by_numpy(
    networks: "Networks", member: int, data: Data, order: Int[np.ndarray, " count"], scale: float, stop: Stop
) -> tuple[float, int]:
    """Take the same steps where there is no native engine."""
    size = networks.settings.batch_size
    descent = _Descent(networks, member, min(size, len(order)))
    total, seen = 0.0, 0
    for begin in range(0, len(order), size):
        if stop:
            break
        index = order[begin : begin + size]
        outputs = descent.forward(data.inputs, index)
        losses, slopes = data.losses(outputs, index), data.slopes(outputs, index)
        if data.weights is not None:
            weights = data.weights[index] * scale
            losses, slopes = losses * weights, slopes * weights[:, None]
        total, seen = total + float(losses.sum()), seen + len(index)
        descent.backward((slopes / len(index)).astype(outputs.dtype, copy=False))
    return total, seen


@lru_cache(maxsize=2)
def _gemm(dtype: str) -> Any:
    """Return the address of SciPy's matrix product for C++, or None where there is none of the form expected."""
    name = {"float32": "sgemm", "float64": "dgemm"}[dtype]
    capsule = getattr(cython_blas, "__pyx_capi__", {}).get(name)
    fits = capsule is not None and "(char *, char *, int *, int *, int *, " in repr(capsule)
    return capsule if fits and hasattr(_native, "dense_epoch") else None


class _Descent:
    """One member's weights and the arrays in which its steps are computed."""

    def __init__(self, networks: "Networks", member: int, batch: int) -> None:
        self.settings, self.steps, self.member = networks.settings, networks.steps, member
        self.weights = [layer[member] for layer in networks.layers]
        self.moments = [(first[member], second[member]) for first, second in networks.moments]
        dtype = self.settings.dtype
        self.hidden = [np.ones((batch, weight.shape[1]), dtype) for weight in self.weights]
        self.slopes = [np.empty((batch, weight.shape[1] - 1), dtype) for weight in self.weights[1:]]
        self.firing = [np.empty(slope.shape, bool) for slope in self.slopes]
        self.gradients = [np.empty_like(weight) for weight in self.weights]
        self.scratch = np.empty(_CHUNK, dtype)

    def forward(self, inputs: Float[np.ndarray, "rows n1"], index: Int[np.ndarray, " count"]) -> np.ndarray:
        count = self.count = len(index)
        inputs.take(index, axis=0, out=self.hidden[0][:count], mode="clip")
        for weight, below, above in zip(self.weights[:-1], self.hidden[:-1], self.hidden[1:], strict=True):
            _activate(below[:count], weight, above[:count, :-1])
        return np.asarray(self.hidden[-1][:count] @ self.weights[-1].T)

    def backward(self, slope: Float[np.ndarray, "count heads"]) -> None:
        """Take a step, given the derivative of the loss by the outputs."""
        self.steps[self.member] += 1
        for layer in reversed(range(len(self.weights))):
            below = self.hidden[layer][: self.count]
            np.matmul(slope.T, below, out=self.gradients[layer])
            if layer:
                further = self.slopes[layer - 1][: self.count]
                np.matmul(slope, self.weights[layer][:, :-1], out=further)
                firing = self.firing[layer - 1][: self.count]
                np.greater(below[:, :-1], 0, out=firing)
                slope = np.multiply(further, firing, out=further)
            self._update(layer)

    def _update(self, layer: int) -> None:
        weights, gradients = self.weights[layer].reshape(-1), self.gradients[layer].reshape(-1)
        settings = self.settings
        rate, decay = settings.learning_rate, 1 - settings.learning_rate * settings.weight_decay
        if settings.optimiser == "sgd":
            for part in _chunks(len(weights)):
                gradients[part] *= rate
                weights[part] *= decay
                weights[part] -= gradients[part]
            return
        first, second = (moment.reshape(-1) for moment in self.moments[layer])
        step = int(self.steps[self.member])
        largest = rate / (1 - FIRST_DECAY**step)
        scale = (1 - SECOND_DECAY**step) ** 0.5
        for part in _chunks(len(weights)):
            _adamw(
                weights[part],
                gradients[part],
                first[part],
                second[part],
                self.scratch,
                largest * scale,
                EPSILON * scale,
                decay,
            )


def _adamw(
    weight: np.ndarray,
    gradient: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    scratch: np.ndarray,
    rate: float,
    epsilon: float,
    decay: float,
) -> None:
    """Update weights and moments in place; the gradient is used up."""
    part = scratch[: len(weight)]
    np.multiply(gradient, 1 - FIRST_DECAY, out=part)
    first *= FIRST_DECAY
    first += part
    np.multiply(gradient, gradient, out=part)
    part *= 1 - SECOND_DECAY
    second *= SECOND_DECAY
    second += part
    np.sqrt(second, out=part)
    part += epsilon
    np.divide(first, part, out=part)
    part *= rate
    weight *= decay
    weight -= part


def _activate(inputs: np.ndarray, weight: np.ndarray, out: np.ndarray) -> None:
    np.matmul(inputs, weight.T, out=out)
    np.maximum(out, 0, out=out)


def _chunks(size: int) -> Iterator[slice]:
    return (slice(begin, begin + _CHUNK) for begin in range(0, size, _CHUNK))


def _order(seed: int, epoch: int, count: int) -> Int[np.ndarray, " count"]:
    """Return an epoch's random order of {0, …, count-1}: places sorted by 64 random bits each."""
    first, second = random.bits(random.stream(seed, "batches"), np.arange(count, dtype=np.uint32), np.uint32(epoch))
    return np.argsort(first.astype(np.uint64) << np.uint64(32) | second)


def _targets(y: Any, settings: "Settings", heads: int) -> Float[np.ndarray, "rows heads"]:
    y = np.asarray(y)
    if settings.head == "square":
        targets = y.reshape(len(y), -1).astype(settings.dtype)
        if targets.shape[1] != heads:
            raise ValueError(f"y must have as many targets as the networks: {targets.shape[1]}, not {heads}")
        return np.asarray(targets)
    classes = 2 if settings.head == "logistic" else heads
    labels = y.astype(np.int64)
    if y.ndim != 1 or (labels != y).any() or labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"y must hold whole numbers from 0 to {classes - 1}, one a row, with head {settings.head!r}")
    if settings.head == "logistic":
        return np.asarray(labels[:, None].astype(settings.dtype))
    return np.asarray(np.eye(classes, dtype=settings.dtype)[labels])


def share_out(work: Callable[[Item], Found], items: Sequence[Item], stop: Stop | None = None) -> Iterator[Found]:
    """Do some work for every item, in threads of their own where there are several, and yield what came of each.

    One item has all of the library's threads for its matrix products; several have one each, since products of
    moderate size are then computed at once and not one after the other.
    """
    threads = min(_threads(), len(items))
    if threads <= 1:
        yield from map(work, items)
        return
    with _controller().limit(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            if stop is not None:
                stop.set()
            for future in futures:
                future.cancel()
            raise


def _threads() -> int:
    """Return how many threads matrix products may use now: what was set in the environment or by a limit counts."""
    pools = [library["num_threads"] for library in _controller().info() if library["user_api"] == "blas"]
    return int(max(1, min([cores(), *pools])))


@lru_cache(maxsize=1)
def _controller() -> Any:
    return ThreadpoolController()
