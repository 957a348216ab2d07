"""Networks for tables that share a trunk and differ in the signs of their columns and in their heads.

Member m's first layer reads W (R[m, column of each input] x inputs), where W and all layers up to the heads are common
to the members and the factors R start as fair signs. Bins of a column are looked up, so that their number costs nothing
(``native/shared_kernel.cpp``).

Source: TabM (Gorishniy, Kotelnikov and Babenko, 2024) in its form "mini", here with one factor per column; RealMLP
(Holzmüller, Grinsztajn and Steinwart, 2024) for the learning rate.
"""

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float

from elegans import random
from elegans.display import displayed
from elegans.errors import shown
from elegans.machine import memory
from elegans.models.inits import DenseInit, Init, SparseInit
from elegans.tabular.descent import StopSignal, gemm, native, one_thread_each, random_order
from elegans.tabular.encoding import EMBEDDING, Encoded, Inputs
from elegans.tabular.settings import Settings

LANES = 16
"""Widths are stored as multiples of it."""
MANY_ROWS = 1000
"""The number of rows from which float32 is automatic, and early stopping of networks of their own."""
_BLOCK = 1024
"""The largest number of rows whose outputs a thread computes at once."""
_FEWEST_STEPS = 230
"""The smallest number of steps of an automatic number of epochs."""


def automatic_dropout(rows: int) -> float:
    """Return 0.5 up to 500 rows, 0.1 from 4000 on, and in between what is linear in the logarithm of the rows."""
    return float(np.interp(math.log(rows), [math.log(500), math.log(4000)], [0.5, 0.1]))


def automatic_epochs(rows: int, batch_size: int) -> int:
    """Return 12 epochs below 1000 rows, 10 up to 40,000, down to 3 beyond, but at least as many as 230 steps need."""
    usual = 12 if rows < MANY_ROWS else int(np.clip(400_000 // rows, 3, 10))
    return max(usual, -(-_FEWEST_STEPS // -(-rows // batch_size)))


@dataclass(frozen=True)
class SharedSettings(Settings):
    """The settings of networks that share a trunk: the fields of ``Settings``, and more.

    Args:
        batch_size: rows per step of each member, at least 1; an epoch's steps are of equal size up to one row.
        dropout: the probability with which a neuron's output is left out of a step.
        cycles: whether the learning rate follows four cosine cycles of doubling length and ends at 0, or is constant.
    """

    hidden: tuple[int, ...] = (256, 256)
    init: Init | str = "dense"
    learning_rate: float = 2e-3
    weight_decay: float = 3e-4
    batch_size: int = 16
    epochs: int = 10
    dropout: float = 0.1
    cycles: bool = True


@displayed
@dataclass
class SharedNetworks:
    """Networks that share a trunk, with the state of their optimiser.

    Args:
        settings: their description.
        seeds: one per member, from 0 to 2^64 - 1; the first one also determines the trunk.
        inputs: the inputs, and the column of each.
        heads: the outputs of each member.
        values: all parameters in one row; ``parts`` gives them names.
        moments: AdamW's running means of gradients and of their squares, empty with ``sgd``.
        step: steps taken.
        epochs: whole epochs taken.
    """

    settings: SharedSettings
    seeds: list[int]
    inputs: Inputs
    heads: int
    values: Float[np.ndarray, " size"]
    moments: tuple[np.ndarray, np.ndarray]
    step: int = 0
    epochs: int = 0
    rate: float = field(default=math.nan, compare=False)

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def widths(self) -> list[int]:
        """The widths of the hidden layers in memory: multiples of ``LANES``, neurons beyond the real ones being 0."""
        return [-(-width // LANES) * LANES for width in self.settings.hidden]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parts of ``values``, in their order: parts with weight decay first."""
        widths, members, inputs = self.widths, len(self), self.inputs
        return {
            "first": (inputs.count, widths[0]),
            **{f"weights{depth}": (above, below) for depth, (below, above) in enumerate(pairwise(widths), 1)},
            "heads": (members, self.heads, widths[-1]),
            "embeddings": (inputs.levels, EMBEDDING),
            **{f"biases{depth}": (width,) for depth, width in enumerate(widths)},
            "head_biases": (members, self.heads),
            "factors": (members, inputs.columns),
        }

    def parts(self, values: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Return views of all parameters (or of a row of as many values) by name, of the shapes of ``shapes``."""
        begin, views = 0, {}
        for name, shape in self.shapes().items():
            views[name] = (self.values if values is None else values)[begin : begin + math.prod(shape)].reshape(shape)
            begin += math.prod(shape)
        return views

    def outputs(self, rows: Encoded, threads: int | None = None) -> Float[np.ndarray, "members rows heads"]:
        """Return each member's outputs on rows; a row's outputs do not depend on the other rows.

        In float32 this is so up to rounding: OpenBLAS's kernels for processors with AVX2 but not AVX-512 (Haswell)
        round products by a row's place among the others.
        """
        values = self.values.copy()
        embeddings = self.parts(values)["embeddings"]
        for begin, end in self.inputs.embedded_ranges:  # the last level of each range is for unseen values
            embeddings[end - 1] = embeddings[begin : end - 1].mean(axis=0)
        product, layout = gemm(str(values.dtype)), self._layout()
        blocks = [rows[begin : begin + _BLOCK] for begin in range(0, max(len(rows), 1), _BLOCK)]

        def of_block(block: Encoded) -> np.ndarray:
            return np.asarray(native().shared_outputs(product, layout, values, **_arrays(block, values)))

        with one_thread_each(threads) as count, ThreadPoolExecutor(count) as pool:
            return np.concatenate(list(pool.map(of_block, blocks)), axis=1, dtype=np.float64)

    def mean_loss(self, rows: Encoded, targets: np.ndarray, weights: np.ndarray | None) -> float:
        """Return the loss of the members' common prediction: of the mean of their probabilities or outputs."""
        outputs = self.outputs(rows)
        if self.settings.head == "square":
            losses = ((outputs.mean(axis=0) - targets) ** 2).sum(axis=1) / 2
        else:
            if self.settings.head == "logistic":
                logs = -np.logaddexp(0, np.where(targets == 1, -1, 1) * outputs)[:, :, 0]
            else:
                logs = outputs - np.logaddexp.reduce(outputs, axis=2, keepdims=True)
                logs = np.take_along_axis(logs, targets.astype(np.int64)[None], axis=2)[:, :, 0]
            losses = np.log(len(self)) - np.logaddexp.reduce(logs, axis=0)
        return float(np.average(losses, weights=weights))

    def gradient(
        self, rows: Encoded, targets: np.ndarray, weights: np.ndarray | None = None
    ) -> tuple[float, np.ndarray]:
        """Return the mean over members and rows of the weighted loss without dropout, and its gradient."""
        data = self._data(rows, targets, weights)
        return native().shared_gradient(gemm(str(self.values.dtype)), self._layout(), self.values, **data)  # type: ignore[no-any-return]

    def train(
        self,
        rows: Encoded,
        targets: Float[np.ndarray, "rows outputs"],
        *,
        weights: Float[np.ndarray, " rows"] | None = None,
        epochs: int | None = None,
        callback: Callable[[float], Any] | None = None,
        stop: StopSignal | None = None,
        threads: int | None = None,
    ) -> list[float]:
        """Train these networks on rows, and return the mean loss of each epoch over members and minibatches.

        Args:
            rows: encoded.
            targets: numbers, or classes 0, 1, … (rows, 1).
            weights: of the rows, of mean 1, or None.
            epochs: by default ``settings.epochs``.
            callback: called with the mean loss after every epoch.
            stop: ends the training after a step; the learning rate still ends at 0 where its time is limited.
            threads: how many threads train, with the same result bit for bit; by default as many as BLAS may use.
        """
        epochs = self.settings.epochs if epochs is None else epochs
        stop, losses, begun = StopSignal() if stop is None else stop, [], time.monotonic()
        limit, data = stop.seconds, self._data(rows, targets, weights)
        cycle = self.step, -(-len(rows) // self.settings.batch_size) * epochs
        for _ in range(epochs):
            if stop:
                break
            spent = None if limit is None else (time.monotonic() - begun, limit)
            total, seen = self._epoch(data, len(rows), self._descent(cycle, spent), stop, threads)
            if not seen:
                break
            self.epochs += seen == len(rows)
            losses.append(float(np.mean(total)) / seen)
            if callback is not None:
                callback(losses[-1])
        return losses

    def _descent(self, cycle: tuple[int, int], spent: tuple[float, float] | None) -> Any:
        """Return the description of an epoch: the training's first step and its steps, its seconds and their limit."""
        settings = self.settings
        return native().SharedDescent(
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            clip=1.0,
            dropout=settings.dropout,
            adaptive=settings.optimiser == "adamw",
            cycles=settings.cycles,
            step=self.step,
            cycle=cycle,
            time=spent,
        )

    def _epoch(self, data: dict[str, Any], rows: int, descent: Any, stop: StopSignal, threads: int | None) -> Any:
        """Train for an epoch; return each member's sum of losses, and how many rows it has seen."""
        order = np.array([random_order(seed, self.epochs, rows) for seed in self.seeds], np.int32)
        key, product = random.stream(self.seeds[0], "dropout"), gemm(str(self.values.dtype))
        with one_thread_each(threads) as number:
            total, seen, self.step, self.rate = native().shared_epoch(
                product,
                self._layout(),
                self.values,
                *self.moments,
                order=order,
                batch=self.settings.batch_size,
                descent=descent,
                dropout_key=(int(key.high), int(key.low)),
                stop=stop.flag,
                threads=number,
                **data,
            )
        return total, seen

    def copy(self) -> "SharedNetworks":
        """Return networks in the same state."""
        first, second = self.moments
        return replace(self, values=self.values.copy(), moments=(first.copy(), second.copy()))

    def strengths(self, rows: Encoded) -> Float[np.ndarray, "members columns"]:
        """Return the sum over first-layer neurons of |factor| x (sd of what a column adds) x (norm of what follows)."""
        parts, inputs = self.parts(), self.inputs
        following = parts["weights1"] if len(self.widths) > 1 else parts["heads"].reshape(-1, self.widths[0])
        outgoing = np.linalg.norm(following, axis=0)
        result = np.zeros(inputs.columns)
        for column in range(inputs.columns):
            mine = np.flatnonzero(inputs.owner == column)
            if len(mine):
                added = inputs.expand(rows, column, parts["embeddings"]) @ parts["first"][mine].astype(np.float64)
                result[column] = (added.std(axis=0) * outgoing).sum()
        return np.asarray(result * np.abs(parts["factors"]))

    def _layout(self) -> Any:
        inputs = self.inputs
        return native().SharedLayout(
            self.widths,
            len(self),
            inputs.columns,
            self.heads,
            look_ups=inputs.look_ups,
            static_columns=inputs.statics,
            embedded_columns=inputs.embedded,
            levels=inputs.levels,
        )

    def _data(self, rows: Encoded, targets: np.ndarray, weights: np.ndarray | None) -> dict[str, Any]:
        dtype = self.values.dtype
        return {
            "targets": np.ascontiguousarray(targets, dtype),
            "row_weights": None if weights is None else np.ascontiguousarray(weights, dtype),
            "head": self.settings.head,
            **_arrays(rows, self.values),
        }


def init_shared(settings: SharedSettings, seeds: list[int], inputs: Inputs, heads: int) -> SharedNetworks:
    """Draw networks, one member per seed; ``heads`` is 1 for ``logistic``, else the number of classes or targets."""
    networks = SharedNetworks(settings, seeds, inputs, heads, np.empty(0), (np.empty(0), np.empty(0)))
    dtype = np.dtype(settings.dtype)
    size = sum(map(math.prod, networks.shapes().values()))
    if (needed := 4 * dtype.itemsize * size) > memory():
        rule = "networks must fit into the memory of the machine"
        raise ValueError(f"{rule}: {needed / 2**30:.3g} GiB: hidden={shown(settings.hidden)}, members={len(seeds)}")
    networks.values = np.zeros(size, dtype)
    moments = size if settings.optimiser == "adamw" else 0
    networks.moments = np.zeros(moments, dtype), np.zeros(moments, dtype)
    parts, key, dense = networks.parts(), random.stream(seeds[0], "init"), DenseInit()
    sizes = [inputs.count, *settings.hidden]
    for depth, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        init = Init.parse(settings.init) if depth == 0 or settings.init_layers == "all" else dense
        weights = _drawn(init, key.fold(2 * depth), fan_out, fan_in)
        if depth == 0:
            parts["first"][:, :fan_out] = weights.T
        else:
            parts[f"weights{depth}"][:fan_out, :fan_in] = weights
        parts[f"biases{depth}"][:fan_out] = dense.entries(key.fold(2 * depth + 1), (fan_out,), fan_in, fan_out)
    if inputs.levels:
        parts["embeddings"][:] = random.uniform_signed(
            key.fold(1000), np.arange(inputs.levels)[:, None], lane=np.arange(EMBEDDING)[None]
        )
        for _, end in inputs.embedded_ranges:
            parts["embeddings"][end - 1] = 0
    fan_in = settings.hidden[-1]
    for member, seed in enumerate(seeds):
        key = random.stream(seed, "init").fold(1001)
        parts["heads"][member, :, :fan_in] = dense.entries(key.fold(0), (heads, fan_in), fan_in, heads)
        parts["head_biases"][member] = dense.entries(key.fold(1), (heads,), fan_in, heads)
        parts["factors"][member] = random.rademacher(key.fold(2), np.arange(1), inputs.columns)[0]
    return networks


def _drawn(init: Init, key: random.Key, fan_out: int, fan_in: int) -> Float[np.ndarray, "fan_out fan_in"]:
    """Draw weights; in a sparse initialisation they are uniform on plus or minus 1/sqrt(non-zeros)."""
    if not isinstance(init, SparseInit):
        return np.asarray(init.weights(key, fan_out, fan_in))
    if init.nonzeros > fan_in:
        rule = "a sparse init must not have more non-zeros than its layer has inputs"
        raise ValueError(f"{rule}: nonzeros={init.nonzeros}, inputs={fan_in}")
    uniform = DenseInit().entries(key.fold(0), (fan_out, fan_in), init.nonzeros, fan_out)
    return np.asarray(init.weights(key, fan_out, fan_in) * uniform)


def _arrays(rows: Encoded, values: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "codes": rows.codes,
        "positions": np.ascontiguousarray(rows.positions, values.dtype),
        "inputs": np.ascontiguousarray(rows.statics, values.dtype),
        "levels": rows.levels,
    }
