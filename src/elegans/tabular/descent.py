"""One epoch of minibatch descent of one network, and the distribution of networks over threads."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cython_blas
from threadpoolctl import ThreadpoolController

from elegans import random
from elegans.errors import shown
from elegans.machine import cores
from elegans.tabular.settings import Settings

_LARGE_PRODUCT = 2**27
"""Minimum number of operations of a matrix product that uses several threads: some milliseconds of one core."""

Item = TypeVar("Item")
Value = TypeVar("Value")


class StopSignal:
    """Ends a training between two steps: when it is set, or when its time is over.

    Args:
        seconds: the time from now on, or None for no limit.
    """

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is not None and (not isinstance(seconds, Real) or seconds != seconds):
            raise ValueError(f"seconds must be a number: seconds={shown(seconds)}")
        self.flag = np.zeros(1, bool)
        self.until: float | None = None
        with suppress(OverflowError):
            self.until = None if seconds is None else time.monotonic() + float(seconds)

    def set(self) -> None:
        """End the training after the current step."""
        self.flag[0] = True

    @property
    def seconds(self) -> float | None:
        """The remaining time, or None for no limit."""
        return None if self.until is None else self.until - time.monotonic()

    def __bool__(self) -> bool:
        return bool(self.flag[0]) or (self.until is not None and time.monotonic() >= self.until)


@dataclass(frozen=True)
class Data:
    """The training data of networks.

    Args:
        inputs: the rows, whose last column is 1.
        targets: the desired outputs: classes 0 and 1, one-hot classes, or real numbers.
        weights: weights of the rows, on any scale, or None.
        head: the kind of loss.
    """

    inputs: Float[np.ndarray, "rows features1"]
    targets: Float[np.ndarray, "rows heads"]
    weights: Float[np.ndarray, " rows"] | None
    head: str

    @classmethod
    def of(cls, X: Any, y: Any, settings: Settings, heads: int, weights: Any = None) -> "Data":
        """Check rows, targets and weights and return them in the form in which networks are trained."""
        if np.ndim(X) != 2:
            raise ValueError(f"X must have two dimensions: {np.ndim(X)}")
        if len(y) != len(X) or len(X) == 0:
            raise ValueError(f"X and y must have equally many rows, at least one: {len(X)} and {len(y)}")
        if weights is not None:
            weights = np.ascontiguousarray(real(weights, "weights"), settings.dtype)
            if weights.shape != (len(X),) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
                raise ValueError("weights must be one per row, finite, at least 0, and not all 0")
        targets = np.ascontiguousarray(_targets(y, settings, heads))
        return cls(with_ones(X, settings.dtype), targets, weights, settings.head)

    def shares(self, rows: Any, members: int) -> list[Int[np.ndarray, " count"]]:
        """Return the rows of each member."""
        if rows is None:
            return [np.arange(len(self.inputs))] * members
        rows = real(rows, "rows")
        if rows.dtype.kind not in "iu":
            raise ValueError(f"rows must be whole numbers: {rows.dtype}")
        if rows.ndim != 2 or len(rows) != members or rows.shape[1] == 0:
            raise ValueError(f"rows must have one row of indices per member: shape {rows.shape}, members={members}")
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


def with_ones(X: Float[Any, "rows features"], dtype: str) -> Float[np.ndarray, "rows features1"]:
    """Return rows with a last column of ones, to be multiplied by the biases."""
    X = real(X, "X")
    joined = np.ones((X.shape[0], X.shape[1] + 1), dtype)
    joined[:, :-1] = X
    return joined


def inverse_link(outputs: Float[np.ndarray, "*rows heads"], head: str) -> Float[np.ndarray, "*rows heads"]:
    """Return the predictions of outputs: probabilities of class 1, of every class, or targets."""
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
        np.matmul(hidden, weight.T, out=ones[:, :-1])
        np.maximum(ones[:, :-1], 0, out=ones[:, :-1])
        hidden = ones
    return np.asarray(hidden @ weights[-1].T)


def epoch(
    settings: Settings,
    weights: Sequence[np.ndarray],
    moments: Sequence[tuple[np.ndarray, np.ndarray]],
    data: Data,
    order: Int[np.ndarray, " count"],
    scale: float,
    step: int,
    stop: StopSignal,
) -> tuple[float, int, int]:
    """Take an epoch's steps of one network in place, in C++ with SciPy's BLAS; row weights are multiplied by ``scale``.

    Returns:
        The sum of the rows' losses, the number of rows used, and the number of steps after the epoch.

    Raises:
        ImportError: this installation has no native module.
    """
    result: tuple[float, int, int] = native().dense_epoch(
        gemm(settings.dtype),
        list(weights),
        [first for first, _ in moments],
        [second for _, second in moments],
        inputs=data.inputs,
        targets=data.targets,
        row_weights=data.weights,
        row_weight_scale=scale,
        order=order,
        batch=settings.batch_size,
        head=settings.head,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        step=step,
        stop=stop.flag,
        seconds=stop.seconds,
    )
    return result


def native() -> Any:
    """Return the native module, or refuse to go on without it."""
    try:
        from elegans import _native
    except ImportError as error:
        raise ImportError(f"networks for tables must have native code, see `elegans doctor`: {error}") from None
    return _native


@lru_cache(maxsize=2)
def gemm(dtype: str) -> Any:
    """Return the address of SciPy's matrix product for C++, unless its arguments differ, such as 64-bit sizes."""
    name = {"float32": "sgemm", "float64": "dgemm"}[dtype]
    capsule = getattr(cython_blas, "__pyx_capi__", {}).get(name)
    if "(char *, char *, int *, int *, int *, " not in repr(capsule):
        raise ImportError(f"SciPy must offer {name} with 32-bit sizes to train networks for tables: {capsule!r}")
    return capsule


def random_order(seed: int, epoch: int, count: int) -> Int[np.ndarray, " count"]:
    """Return an epoch's random order of {0, …, count-1}: numbers sorted by 64 random bits each."""
    first, second = random.bits(
        random.stream(seed, "batches"), np.arange(count, dtype=np.uint32), lane=np.uint32(epoch)
    )
    return np.argsort(first.astype(np.uint64) << np.uint64(32) | second)


def _targets(y: Any, settings: Settings, heads: int) -> Float[np.ndarray, "rows heads"]:
    y = real(y, "y")
    if settings.head == "square":
        targets = y.reshape(len(y), y[0].size).astype(settings.dtype)
        if targets.shape[1] != heads:
            raise ValueError(f"y must have as many targets as the networks: {targets.shape[1]}, not {heads}")
        return np.asarray(targets)
    classes = 2 if settings.head == "logistic" else heads
    labels = y.astype(np.int64)
    if y.ndim != 1 or (labels != y).any() or labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"y must hold whole numbers from 0 to {classes - 1}, one per row, with head {settings.head!r}")
    if settings.head == "logistic":
        return np.asarray(labels[:, None].astype(settings.dtype))
    one_hot = np.zeros((len(labels), classes), settings.dtype)
    one_hot[np.arange(len(labels)), labels] = 1
    return one_hot


def real(values: Any, name: str) -> np.ndarray:
    """Return an array of finite real numbers, of one dimension or more."""
    try:
        array = np.asarray(values)
        array = array.astype(float) if array.dtype == object else array
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be an array of real numbers: {shown(values)}") from None
    if array.dtype.kind not in "biuf" or not array.ndim:
        raise ValueError(f"{name} must be an array of real numbers: {array.dtype} of shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers")
    return array


def share_out(
    work: Callable[[Item], Value], items: Sequence[Item], operations: int, stop: StopSignal | None = None
) -> Iterator[Value]:
    """Do some work for every item, in separate threads if there are several, and yield the results.

    A single item uses all threads of the BLAS library if its largest matrix product has enough operations: when other
    programs run too, waiting for a thread costs more than the thread computes. Several items use one thread each, so
    that products of moderate size are computed side by side.
    """
    threads = min(_threads(), len(items))
    if threads <= 1:
        with _controller().limit(limits=1 if operations < _LARGE_PRODUCT else None, user_api="blas"):
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


@contextmanager
def one_thread_each(count: int | None = None) -> Iterator[int]:
    """Limit matrix products to a thread; yield how many threads may compute them: a given number, or BLAS's own."""
    count = count or _threads()
    with _controller().limit(limits=1, user_api="blas"):
        yield count


def _threads() -> int:
    pools = [library["num_threads"] for library in _controller().info() if library["user_api"] == "blas"]
    return int(max(1, min([cores(), *pools])))


@lru_cache(maxsize=1)
def _controller() -> Any:
    return ThreadpoolController()
