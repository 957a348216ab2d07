"""Two-layer networks on sign inputs: draws, training and evaluation in C++."""

from collections.abc import Sequence
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

Key = tuple[int, int]
Number = TypeVar("Number", np.float32, np.float64)

class Stopped(RuntimeError):
    """An evaluation was ended by `Network.stop`."""

def dense_epoch(
    gemm: object,
    weights: Sequence[NDArray[Number]],
    first: Sequence[NDArray[Number]],
    second: Sequence[NDArray[Number]],
    *,
    inputs: NDArray[Number],
    targets: NDArray[Number],
    row_weights: NDArray[Number] | None,
    row_weight_scale: float,
    order: NDArray[np.int64],
    batch: int,
    head: Literal["logistic", "softmax", "square"],
    learning_rate: float,
    weight_decay: float,
    step: int,
    stop: NDArray[np.bool_],
    seconds: float | None,
) -> tuple[float, int, int]:
    """An epoch of minibatch descent, in place; returns the sum of losses, rows seen, steps taken.

    `gemm` is a capsule with the address of BLAS's matrix product, of the dtype of all arrays. The weights of each layer
    are (fan-out, fan-in + 1), biases last, and `inputs` (rows, fan-in + 1) end in a one; `targets` are (rows, outputs).
    `first` and `second` are AdamW's moments of the weights' shapes, or empty for plain descent. `order` holds the rows
    of the epoch, `batch` of them a step; weights of rows are multiplied by their scale. It ends after a step once
    `stop[0]` is set or the seconds are over (None: never), and with the exception of a signal's handler.

    Raises ValueError, with the rule, for arrays that do not fit.
    """

def words(key: Key, c0: NDArray[np.uint32], c1: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Threefry-2x32 (20 rounds): the words of counters (c0, c1), each of shape (N,)."""

def fold(key: Key, number: int) -> Key:
    """The key of the words at counter (0, number)."""

def signs(key: Key, index: NDArray[np.uint32], n: int) -> NDArray[np.int8]:
    """Inputs (N, n) of the examples with these indices: -1 or +1."""

def instruction_sets() -> list[str]:
    """Instruction sets compiled in that this machine has, best last."""

def instruction_set() -> str:
    """The instruction set that new networks take.

    The best, unless the environment variable ELEGANS_INSTRUCTION_SET or `use_instruction_set` says otherwise.
    """

def use_instruction_set(name: str) -> None:
    """Choose the instruction set that new networks take.

    Raises ValueError if it is not one of `instruction_sets()`.
    """

def fma_peak(seconds: float) -> float:
    """Measured float32 multiply-add peak of one core, in GFLOP/s, for the instruction set in use."""

def minibatches(
    key: Key, step: int, steps: int, *, batch_size: int, sample_size: int, order: Literal["replacement", "epochs"]
) -> NDArray[np.uint32]:
    """Indices (steps, batch_size) of the examples of a sample in the minibatches from a step on."""

class Stretch:
    """What came of a stretch of steps (see `Network.stretch`)."""

    @property
    def ends(self) -> list[int]:
        """The step at which each lap ended: at a check, or where the stretch did."""

    @property
    def loss(self) -> list[float]:
        """Mean minibatch loss over the steps of each lap."""

    @property
    def error(self) -> list[float]:
        """Mean minibatch error over the steps of each lap."""

    @property
    def mistakes(self) -> int:
        """The exact number of mistakes at the last check, if it is allowed; -1: every check had more."""

    @property
    def checking_seconds(self) -> float:
        """How long the checks took."""

    @property
    def relevant(self) -> list[float]:
        """The largest change of a hidden weight of an input in the support, one entry a record."""

    @property
    def irrelevant(self) -> list[float]:
        """The same for the other inputs; 0 if there are none."""

class Network:
    """A two-layer network f(x) = v . sigma(W x + b) + c, or prod (W x + b), in training by minibatch SGD.

    It serves one thread at a time (others get RuntimeError), except for `stop`, `resume` and
    `stopped`. The interpreter lock is released while it works, and Ctrl-C is heeded.
    """

    def __init__(
        self,
        weight: NDArray[np.float32],
        bias: NDArray[np.float32],
        output_weight: NDArray[np.float32],
        output_bias: float,
        *,
        support: Sequence[int],
        label_sign: int = 1,
        mix: float = 0.0,
        noise: float,
        sample_size: int,
        order: Literal["replacement", "epochs"],
        batch_size: int,
        activation: Literal[
            "relu", "relu6", "power", "zigzag", "triangle-wave", "polynomial", "sinusoid", "product"
        ] = "relu",
        degree: int = 1,
        scale: float = 1.0,
        coefficients: Sequence[float] = (),
        loss: Literal["hinge", "square", "logistic", "correlation"],
        loss_scale: float = 1.0,
        learning_rates: Sequence[float],
        decays: Sequence[float],
        decay_in_gradient: bool = True,
        sample_key: Key,
        batches_key: Key,
        noise_key: Key,
        step: int = 0,
    ) -> None:
        """Take copies of W (width, n), b (width,), v (width,), c.

        The label is the product of the inputs in `support` times `label_sign`, flipped with probability
        `noise`. A share `mix` of the examples has one common sign on all of the support.
        `sample_size` 0 is online training (`order` then has no effect). `learning_rates` and `decays`
        are for W, b, v, c in this order; a step keeps 1 - decay of a parameter, or with
        `decay_in_gradient` 1 - rate * factor * decay. `step` is the first step to take (after a resume).

        `degree` is the power's degree or the size of the parity that an oscillation fits, `scale` what the
        sinusoid's sums are multiplied by, `coefficients` (degree + 1) are the polynomial's, of degree 0 first.
        With "product" (at most 64 rows) v must be 1, c 0, and their rates 0. `loss_scale` multiplies the loss.

        Raises ValueError, with the rule and the value, for a bad argument.
        """

    def advance(self, factors: NDArray[np.float32]) -> int:
        """Take one step per schedule factor; return the steps done.

        They are fewer if the network diverged (see `diverged_at`) or was stopped.
        """

    def stretch(
        self,
        factors: NDArray[np.float32],
        *,
        key: Key,
        every: int,
        examples: int,
        allowed: int,
        record_every: int = 0,
        seconds: float,
    ) -> Stretch:
        """Take one step per schedule factor, from check to check.

        Every `every` steps the network is checked on the first `examples` examples of stream `key` (0: on none). The
        stretch ends early at a check with at most `allowed` mistakes, after about so many seconds, or where `advance`
        would. Every `record_every` steps (0: never) the change of the weights is recorded; `begin_recording` first.
        Raises Stopped if `stop` comes during a check, and ValueError, with the rule and the value, for a bad argument.
        """

    def begin_recording(self) -> None:
        """From now on the weights are compared with what they are at present."""

    def wrong(self, key: Key, index: NDArray[np.uint32], noisy: bool) -> NDArray[np.bool_]:
        """Whether label * output <= 0 (or not a number) on the examples of stream `key`.

        Raises Stopped after `stop`.
        """

    def labels(self, key: Key, index: NDArray[np.uint32], noisy: bool) -> NDArray[np.int8]:
        """Labels of the examples of stream `key`: -1 or +1."""

    def predict(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Outputs (N,) on real inputs (N, n). Raises Stopped after `stop`."""

    def minibatch(self, step: int) -> NDArray[np.uint32]:
        """Indices (batch_size,) of the examples in the minibatch of a step."""

    def parameters(
        self,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], float]:
        """Copies of W (width, n), b (width,), v (width,), and c."""

    def stop(self) -> None:
        """End a running `advance` after its present step, from any thread, and every later one at once.

        Evaluations raise Stopped. Until `resume`.
        """

    def resume(self) -> None:
        """Undo `stop`."""

    @property
    def stopped(self) -> bool: ...
    @property
    def step(self) -> int:
        """Steps taken, counted from 0 or from the constructor's `step`."""

    @property
    def loss(self) -> float:
        """Mean minibatch loss over the steps of the last `advance`; NaN if there were none."""

    @property
    def error(self) -> float:
        """Mean minibatch error over the steps of the last `advance`; NaN if there were none."""

    @property
    def diverged_at(self) -> int:
        """The step whose outputs were not all finite, where the network stands still; -1: none."""

    @property
    def width(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def instruction_set(self) -> str: ...

class PairNetwork:
    """A network on pairs of elements, f(a, b) = sum_i sigma(u_i(a) + v_i(b)) w_i, trained on the cross-entropy by SGD.

    The right class of (a, b) is ``table[a, b]``. As of `Network`, one thread at a time; the interpreter lock is
    released while it works, and Ctrl-C is heeded.
    """

    def __init__(
        self,
        hidden: NDArray[np.float32],
        output: NDArray[np.float32],
        table: NDArray[np.int32],
        *,
        activation: str = "power",
        degree: int = 2,
        population: bool,
        batch_size: int,
        learning_rates: Sequence[float],
        decays: Sequence[float] = (0.0, 0.0),
        decay_in_gradient: bool = True,
        penalty: float = 0.0,
        penalty_norm: float = 2.0,
        penalty_exponent: float = 2.0,
        sample_key: Key,
        step: int = 0,
    ) -> None:
        """Take copies of (u, v) side by side (width, 2 order), w (order, width) and the table (order, order).

        Each step takes every pair once with `population` (`batch_size` must then be order^2), else `batch_size` pairs
        drawn anew. `learning_rates` and `decays` are for hidden and output weights; decays are as in `Network`. The
        loss has a further term penalty * (sum_i |neuron i|_2^b)^(r/b), b being `penalty_norm` and r
        `penalty_exponent`; a neuron's norm is that of all of its weights. `step` is the first step to take.

        Raises ValueError, with the rule and the value, for a bad argument.
        """

    def advance(self, factors: NDArray[np.float32]) -> int:
        """Take one step per schedule factor; return the steps done.

        They are fewer if the network diverged (see `diverged_at`) or was stopped.
        """

    def outputs(self, pairs: NDArray[np.uint32]) -> NDArray[np.float32]:
        """Outputs (N, order) on pairs by their numbers a * order + b. Raises Stopped after `stop`."""

    def wrong(self, pairs: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Whether the right output of each pair is not above all others. Raises Stopped after `stop`."""

    def minibatch(self, step: int) -> NDArray[np.uint32]:
        """Numbers (batch_size,) of the pairs of a step."""

    def parameters(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Copies of the hidden weights (width, 2 order) and the output weights (order, width)."""

    def stop(self) -> None:
        """End a running `advance` after its present step, from any thread, and every later one at once.

        Evaluations raise Stopped. Until `resume`.
        """

    def resume(self) -> None:
        """Undo `stop`."""

    @property
    def stopped(self) -> bool: ...
    @property
    def step(self) -> int:
        """Steps taken, counted from 0 or from the constructor's `step`."""

    @property
    def loss(self) -> float:
        """Mean cross-entropy, without the penalty, over the steps of the last `advance`; NaN if there were none."""

    @property
    def error(self) -> float:
        """Mean share of pairs that were wrong over the steps of the last `advance`; NaN if there were none."""

    @property
    def diverged_at(self) -> int:
        """The step whose outputs were not all finite, where the network stands still; -1: none."""

    @property
    def width(self) -> int: ...
    @property
    def order(self) -> int: ...
    @property
    def instruction_set(self) -> str: ...

class AttentionNetwork:
    """A transformer of causal attention with relative positions, trained on the mean cross-entropy over all positions.

    As of `Network`, one thread at a time; the interpreter lock is released while it works, and Ctrl-C is heeded.
    """

    def __init__(
        self,
        parameters: NDArray[np.float32],
        learning_rates: NDArray[np.float32],
        decays: NDArray[np.float32],
        *,
        symbols: int,
        width: int,
        length: int,
        heads: Sequence[int],
        normed: bool,
        batch_size: int,
        optimiser: Literal["adam", "sgd"],
        decay_in_gradient: bool = True,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        """Take copies of all parameters in a row, of their learning rates and of their decays.

        The row consists of embeddings (symbols, width); for each layer, scale and shift (width,), query, key and value
        side by side (width, 3 width), what stands for each distance (length, width) and what merges heads (width,
        width); scale and shift (width,), and output (width, symbols). Scales, shifts and merges are there with `normed`
        only. `heads` is one number a layer. Decays are as in `Network`; Adam's are outside of its running means.

        Raises ValueError, with the rule and the value, for a bad argument.
        """

    def advance(self, tokens: NDArray[np.int32], labels: NDArray[np.int32], factors: NDArray[np.float32]) -> int:
        """Take one step per schedule factor; return the steps done, fewer if the network diverged.

        Tokens and labels are (steps, batch_size, length). Raises ValueError where one is no symbol.
        """

    def outputs(self, tokens: NDArray[np.int32]) -> NDArray[np.float32]:
        """Logits (N, length, symbols) of the next tokens of sequences (N, length)."""

    def wrong(self, tokens: NDArray[np.int32], labels: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether the label's logit at the last position of each sequence (N, length) is not above all others."""

    def parameters(self) -> NDArray[np.float32]:
        """A copy of all parameters, in the constructor's order."""

    @property
    def step(self) -> int:
        """Steps taken."""

    @property
    def loss(self) -> float:
        """Mean minibatch loss over the steps of the last `advance`; NaN if there were none."""

    @property
    def error(self) -> float:
        """Mean share of sequences whose last position was wrong, over these steps; NaN if there were none."""

    @property
    def diverged_at(self) -> int:
        """The step whose outputs were not all finite, where the network stands still; -1: none."""

    @property
    def instruction_set(self) -> str: ...

class BitsNetwork:
    """A prenorm transformer of one layer on bits that is read at a class token, trained with dropout.

    As of `Network`, one thread at a time; the interpreter lock is released while it works, and Ctrl-C is heeded.
    """

    def __init__(
        self,
        parameters: NDArray[np.float32],
        learning_rates: NDArray[np.float32],
        decays: NDArray[np.float32],
        *,
        n: int,
        width: int,
        heads: int,
        head_size: int,
        hidden: int,
        encoding: Literal["trained", "fixed", "bag"] = "trained",
        drop: int = 0,
        dropout_key: Key = (0, 0),
        loss: Literal["hinge", "square", "logistic", "correlation"],
        loss_scale: float = 1.0,
        batch_size: int,
        optimiser: Literal["adam", "sgd"],
        decay_in_gradient: bool = True,
        clip: float = ...,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        """Take copies of all parameters in a row, of their learning rates and of their decays.

        The row consists of tokens (2, width; none in a bag), positions (n + 1, width; n where they are not trained),
        class (width,); query, key, value and output (heads head_size, width), the biases of the first three (heads
        head_size,) and of the last (width,); scale and shift (width,) of three norms; hidden weights (hidden, width)
        and biases, residual weights (width, hidden) and biases, and output (2, width). Decays are as in `Network`;
        Adam's are outside of its running means. An entry is dropped in training where its half word is below `drop`
        (0: no dropout), the half words of a step being those of `dropout_key` folded by the step and the site. A
        gradient that is longer than `clip` (by default infinite) is scaled down to it.

        Raises ValueError, with the rule and the value, for a bad argument.
        """

    def advance(
        self,
        bits: NDArray[np.uint8],
        labels: NDArray[np.float32],
        index: NDArray[np.uint32],
        factors: NDArray[np.float32],
    ) -> int:
        """Take one step per schedule factor; return the steps done, fewer if the network diverged.

        Bits are (N, n), labels (N,), and `index` (steps, batch_size) says which of them are in each minibatch. Raises
        ValueError where it names one that there is not.
        """

    def outputs(self, bits: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Outputs (N,) on bits (N, n), without dropout."""

    def parameters(self) -> NDArray[np.float32]:
        """A copy of all parameters, in the constructor's order."""

    @property
    def step(self) -> int:
        """Steps taken."""

    @property
    def loss(self) -> float:
        """Mean minibatch loss over the steps of the last `advance`; NaN if there were none."""

    @property
    def error(self) -> float:
        """Mean minibatch error over the steps of the last `advance`; NaN if there were none."""

    @property
    def diverged_at(self) -> int:
        """The step whose outputs were not all finite, where the network stands still; -1: none."""

    @property
    def instruction_set(self) -> str: ...
