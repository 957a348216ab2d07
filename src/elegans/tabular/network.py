"""Networks for tables; several are trained side by side.

Networks are arrays, and training is a loop over matrix products of a BLAS library: nothing is compiled, so a new number
of rows, members or features costs nothing. Each member has its own seed, which determines its initial weights and the
orders of its epochs (``elegans.random``): it is the same network alone or beside others.
"""

import itertools
import math
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from elegans import random
from elegans.component import LARGEST
from elegans.display import displayed
from elegans.errors import ElegansWarning, shown
from elegans.machine import memory
from elegans.models.inits import DenseInit, Init, SparseInit
from elegans.tabular.descent import Data, StopSignal, epoch, forward, random_order, real, share_out, with_ones
from elegans.tabular.settings import Settings

_BLOCK = 2**22
"""Maximum number of values in the widest layer's array when outputs are computed."""


@displayed
@dataclass(frozen=True)
class Epoch:
    """The argument of a callback after every epoch.

    Args:
        number: the number of epochs so far in this training, from 1.
        losses: each member's mean loss over the epoch's minibatches, shape (members,); NaN if it did not train.
        networks: the networks in their current state.
    """

    number: int
    losses: Float[np.ndarray, " members"]
    networks: "Networks"


Callback = Callable[[Epoch], Any]
"""Called after every epoch; returns which members should stop (one truth value for all, or one per member), or None."""


@displayed
@dataclass
class Networks:
    """Networks of one shape, each with its own seed, weights and state of the optimiser.

    Args:
        settings: their description.
        seeds: one per member, from 0 to 2^64 - 1.
        layers: the weights, one array per layer: (members, fan-out, fan-in + 1), the last column the biases.
        moments: AdamW's running means of gradients and of their squares, two arrays per layer; none with ``sgd``.
        steps: steps taken, one per member.
        epochs: whole epochs taken, one per member.
    """

    settings: Settings
    seeds: list[int]
    layers: list[Float[np.ndarray, "members fan_out fan_in1"]]
    moments: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    steps: Int[np.ndarray, " members"] = field(default_factory=lambda: np.zeros(0, np.int64))
    epochs: Int[np.ndarray, " members"] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def inputs(self) -> int:
        """How many features a row has."""
        return int(self.layers[0].shape[2]) - 1

    @property
    def heads(self) -> int:
        """How many outputs there are."""
        return int(self.layers[-1].shape[1])

    def outputs(
        self, X: Float[Any, "rows features"], dtype: str | None = None
    ) -> Float[np.ndarray, "members rows heads"]:
        """Return each member's outputs on rows: log-odds, logits or targets, computed in a dtype (the settings')."""
        X = with_ones(X, dtype or self.settings.dtype)
        result = np.empty((len(self), len(X), self.heads), X.dtype)
        block = max(1, _BLOCK // max(self.settings.hidden))

        def predict(member: int) -> None:
            weights = [layer[member].astype(X.dtype, copy=False) for layer in self.layers]
            for begin in range(0, len(X), block):
                result[member, begin : begin + block] = forward(weights, X[begin : begin + block])

        for _ in share_out(predict, range(len(self)), self._operations(min(block, len(X)))):
            pass
        return result

    def mean_loss(
        self, X: Float[Any, "rows features"], y: Any, weights: Float[Any, " rows"] | None = None
    ) -> Float[np.ndarray, " members"]:
        """Return each member's mean loss on rows, weighted if weights are given."""
        data = Data.of(X, y, self.settings, self.heads, weights)
        losses = [data.losses(outputs, slice(None)) for outputs in self.outputs(X)]
        return np.array([np.average(member_losses, weights=data.weights) for member_losses in losses])

    def train(
        self,
        X: Float[Any, "rows features"],
        y: Any,
        *,
        weights: Float[Any, " rows"] | None = None,
        rows: Int[Any, "members count"] | None = None,
        epochs: int | None = None,
        callback: Callback | None = None,
        stop: StopSignal | None = None,
    ) -> Float[np.ndarray, "epochs members"]:
        """Continue to train these networks on rows, and return the loss of each epoch and member.

        Args:
            X: finite numbers, one row per example.
            y: classes 0, 1, … (rows,), or real targets (rows,) or (rows, targets).
            weights: weights of the rows, at least 0, not all 0; only their ratios count.
            rows: the rows of each member, or None for all rows.
            epochs: the number of epochs; by default ``settings.epochs``.
            callback: called after every epoch.
            stop: ends the training within a step once it is set or its time is over.
        """
        data = Data.of(X, y, self.settings, self.heads, weights)
        if data.inputs.shape[1] - 1 != self.inputs:
            raise ValueError(f"X must have as many features as the networks: {X.shape[1]}, not {self.inputs}")
        shares = data.shares(rows, len(self))
        stop = StopSignal() if stop is None else stop
        active = np.ones(len(self), bool)
        losses: list[np.ndarray] = []
        remaining = replace(self.settings, epochs=self.settings.epochs if epochs is None else epochs).epochs
        span = 1 if callback is not None else remaining
        operations = self._operations(min(self.settings.batch_size, shares[0].size))

        def train_member(member: int) -> list[float]:
            return [self._train_epoch(member, data, shares[member], stop) for _ in range(span) if not stop]

        while remaining > 0 and active.any() and not stop:
            members = np.flatnonzero(active)
            by_member = list(share_out(train_member, members.tolist(), operations, stop))
            latest = np.full((max(map(len, by_member)), len(self)), np.nan)
            for member, values in zip(members, by_member, strict=True):
                latest[: len(values), member] = values
            if stop and np.isnan(latest).all():
                break  # ended before a step was taken, which does not count as an epoch
            losses.extend(latest)
            remaining -= span
            if callback is not None:
                stopping = callback(Epoch(len(losses), latest[0], self))
                active &= ~np.asarray(False if stopping is None else stopping, bool)
        return np.array(losses).reshape(len(losses), len(self))

    def _train_epoch(self, member: int, data: Data, rows: Int[np.ndarray, " count"], stop: StopSignal) -> float:
        """Train one member for an epoch in a new random order, and return its mean loss (until a stop)."""
        order = rows[random_order(self.seeds[member], int(self.epochs[member]), len(rows))]
        mean = 1.0 if data.weights is None else float(data.weights[rows].mean())
        total, rows_used, self.steps[member] = epoch(
            self.settings,
            [layer[member] for layer in self.layers],
            [(first[member], second[member]) for first, second in self.moments],
            data,
            order,
            1 / mean if mean > 0 else 1.0,
            int(self.steps[member]),
            stop,
        )
        self.epochs[member] += rows_used == len(order)
        return total / rows_used if rows_used else float("nan")

    def _operations(self, rows: int) -> int:
        """Return how many operations the largest matrix product takes on a number of rows."""
        return 2 * rows * max(math.prod(layer.shape[1:]) for layer in self.layers)

    def select(self, members: Sequence[int]) -> "Networks":
        """Return copies of some of the networks."""
        try:
            index = [range(len(self))[operator.index(member)] for member in members]
        except (TypeError, IndexError):
            raise ValueError(f"members must be whole numbers from 0 to {len(self) - 1}: {shown(members)}") from None
        return Networks(
            self.settings,
            [self.seeds[member] for member in index],
            [layer[index] for layer in self.layers],
            [(first[index], second[index]) for first, second in self.moments],
            self.steps[index],
            self.epochs[index],
        )

    def put(self, member: int, other: "Networks", index: int = 0) -> None:
        """Replace a member's weights and optimiser state by the state of a network of ``other``."""
        for array, replacement in zip(self._arrays(), other._arrays(), strict=True):
            array[member] = replacement[index]

    def _arrays(self) -> list[np.ndarray]:
        return [*self.layers, *itertools.chain(*self.moments), self.steps, self.epochs]


def init_networks(settings: Settings, seeds: Sequence[int], inputs: int, heads: int = 1) -> Networks:
    """Draw networks, one per seed; ``heads`` is 1 for ``logistic``, else the number of classes or targets."""
    try:
        numbers = [operator.index(seed) for seed in seeds]
    except TypeError:
        numbers = [-1]
    if any(not 0 <= seed < 2**64 for seed in numbers):
        raise ValueError(f"seeds must be whole numbers from 0 to 2^64 - 1: seeds={shown(seeds)}")
    if not numbers:
        raise ValueError("seeds is empty: seeds=[]")
    if not 1 <= heads < LARGEST or not 1 <= inputs < LARGEST:
        raise ValueError(
            f"inputs and heads must be at least 1 and below 2^31: inputs={shown(inputs)}, heads={shown(heads)}"
        )
    _check_init(settings, inputs)
    sizes = [inputs, *settings.hidden, heads]
    shapes = [(len(numbers), fan_out, fan_in + 1) for fan_in, fan_out in itertools.pairwise(sizes)]
    needed = 3 * np.dtype(settings.dtype).itemsize * sum(map(math.prod, shapes))  # values, two moments or gradients
    if needed > memory():
        size = f"hidden={shown(settings.hidden)}, members={len(numbers)}"
        raise ValueError(f"networks must fit into the memory of the machine: {needed / 2**30:.3g} GiB: {size}")
    layers = [np.empty(shape, settings.dtype) for shape in shapes]
    for member, seed in enumerate(numbers):
        for layer, (weights, biases) in zip(layers, _draw(settings, seed, sizes), strict=True):
            layer[member, :, :-1], layer[member, :, -1] = weights, biases
    adaptive = settings.optimiser == "adamw"
    moments = [(np.zeros_like(layer), np.zeros_like(layer)) for layer in layers] if adaptive else []
    counts = np.zeros(len(numbers), np.int64)
    return Networks(settings, numbers, layers, moments, counts, counts.copy())


def fit(
    X: Float[Any, "rows features"],
    y: Any,
    settings: Settings,
    seeds: Sequence[int],
    *,
    weights: Float[Any, " rows"] | None = None,
    rows: Int[Any, "members count"] | None = None,
    callback: Callback | None = None,
    stop: StopSignal | None = None,
) -> Networks:
    """Draw networks, one per seed, and train them side by side; see ``init_networks`` and ``Networks.train``."""
    X, target = real(X, "X"), real(y, "y")
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions: {X.ndim}")
    heads = {"logistic": 1, "softmax": int(target.max(initial=0)) + 1}.get(
        settings.head, target[0].size if len(target) else 1
    )
    networks = init_networks(settings, seeds, X.shape[1], heads)
    networks.train(X, y, weights=weights, rows=rows, callback=callback, stop=stop)
    finite = np.all([np.isfinite(layer).all(axis=(1, 2)) for layer in networks.layers], axis=0)
    if diverged := int((~finite).sum()):
        message = f"{diverged} of {len(seeds)} networks diverged: their weights are no longer finite"
        warnings.warn(message, ElegansWarning, stacklevel=2)
    return networks


def _draw(settings: Settings, seed: int, sizes: Sequence[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draw the weights and biases of every layer with the same keys as ``DeepMLP``."""
    key, dense = random.stream(seed, "init"), DenseInit()
    last = len(sizes) - 2
    for depth, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        sparse = depth < last and (depth == 0 or settings.init_layers == "all")
        init = Init.parse(settings.init) if sparse else dense
        bias = dense.entries(key.fold(2 * depth + 1), (fan_out,), fan_in, fan_out)
        yield init.weights(key.fold(2 * depth), fan_out, fan_in), bias


def _check_init(settings: Settings, inputs: int) -> None:
    init = settings.init
    narrowest = min([inputs, *settings.hidden[:-1]] if settings.init_layers == "all" else [inputs])
    if isinstance(init, SparseInit) and init.nonzeros > narrowest:
        raise ValueError(
            "a sparse init must not have more non-zeros than its layer has inputs: "
            f"nonzeros={init.nonzeros}, n_features={inputs}"
            + (f", narrowest layer {narrowest}" if narrowest < inputs else "")
        )
