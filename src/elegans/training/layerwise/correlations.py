"""The correlations that determine the first step, from a sample of any size in bounded memory."""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float, Float32, Int64, UInt32

Draw = Callable[[UInt32[np.ndarray, " count"]], tuple[Float32[np.ndarray, "count n"], Float32[np.ndarray, " count"]]]
"""Returns training examples by their indices: inputs and labels."""

BLOCK = 2**14
"""Examples drawn at once; below 2^24, so that sums of signs over a block are exact in float32."""
NEURONS = 2**9
"""Neurons evaluated at once."""
LARGEST_PATTERN = 16
"""Maximum number of inputs whose patterns are counted instead of keeping examples."""


def blocks(
    draw: Draw, count: int, size: int | None = None
) -> Iterator[tuple[Float32[np.ndarray, "block n"], Float32[np.ndarray, " block"]]]:
    """Yield the first examples of a sample, a block at a time."""
    size = size or BLOCK
    for first in range(0, count, size):
        yield draw(np.arange(first, min(first + size, count), dtype=np.uint32))


def correlations(
    weight: Float32[np.ndarray, "neurons n"], bias: Float[np.ndarray, " neurons"], draw: Draw, count: int
) -> Float[np.ndarray, "neurons n"]:
    """Return (1/m) sum 1{w . x + b > 0} x y over a sample, for each neuron.

    Each entry is within 2 sqrt(log(4 n r / delta) / m) of its expectation, for all n inputs of all r neurons at once
    with probability 1 - delta (Pareto frontiers, Lemma 10).

    Args:
        weight: hidden weights whose sums with signs are exact in float32: whole numbers.
        bias: hidden biases, which are not whole numbers.
        draw: returns examples.
        count: the number m of examples.
    """
    total = np.zeros(weight.shape)
    for x, y in blocks(draw, count):
        signed = x * y[:, None]
        for first in range(0, len(weight), NEURONS):
            neurons = slice(first, first + NEURONS)
            fires = (x @ weight[neurons].T > -bias[neurons]).astype(np.float32)
            total[neurons] += fires.T @ signed
    return total / count


def patterns(
    draw: Draw, count: int, used: Int64[np.ndarray, " inputs"]
) -> tuple[Float[np.ndarray, "patterns inputs"], Float[np.ndarray, " patterns"], Float[np.ndarray, " patterns"]]:
    """Return the distinct patterns (inputs on some coordinates, and label) of a sample, and the fraction of each."""
    powers = 1 << np.arange(1, len(used) + 1)
    counts = np.zeros(2 ** (len(used) + 1), np.int64)
    for x, y in blocks(draw, count):
        codes = (x[:, used] < 0) @ powers + (y < 0)
        counts += np.bincount(codes, minlength=len(counts))
    present = np.flatnonzero(counts)
    signs = 1.0 - 2.0 * ((present[:, None] >> np.arange(len(used) + 1)) & 1)
    return signs[:, 1:], signs[:, 0], counts[present] / count
