"""Dense neurons: how well a random neuron's gradient separates the support from the rest, and the best of many neurons.

No theorem covers dense initialisation: it would need anti-concentration of the Fourier coefficients of general
halfspaces. Here neurons are drawn and measured instead.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

import math
from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from elegans import random
from elegans.boolean.fourier import set_index, sign_table, walsh_hadamard
from elegans.calculators.domain import AtMost, Listed, Seed, Side, coordinates, require
from elegans.models.inits import DenseInit, fan_in_uniform

LARGEST_EXACT = 16
"""The largest number of inputs for which dense neurons are enumerated."""

LARGEST_SUM = 10**11
"""The largest number of products that means are taken of, a few seconds of work."""
_ENTRIES = 2**23


def dense_gradients(
    n: Side,
    support: Iterable[int],
    neurons: Annotated[int, AtMost(10_000)],
    *,
    seed: Seed = 0,
    examples: Listed | None = None,
) -> Float[np.ndarray, "neurons n"]:
    """Return the correlations G_i of dense neurons, drawn as ``DenseInit`` draws them, biases included.

    Formula: G_i = E[1{w . x + b > 0} x_i chi_S(x)], all w_i and b uniform on [-1/sqrt(n), 1/sqrt(n)].
    Source: Pareto frontiers, section 4 (initialisation) and Lemma 8 (correlation).

    Args:
        n: the number of inputs.
        support: the coordinates of S.
        neurons: how many neurons to draw.
        seed: the seed of the neurons (stream ``init``) and of the examples (stream ``probe``).
        examples: how many uniform examples to estimate the means on, with a standard error of at most
            1/sqrt(examples) an entry, below which no gap can be seen; None to take them over all 2^n inputs, for
            n up to 16.
    """
    relevant = coordinates("support", support, n)
    require(
        examples is not None or n <= LARGEST_EXACT,
        f"n must be at most {LARGEST_EXACT} for means over all inputs (give examples for an estimate)",
        n=n,
    )
    total = n * neurons * (2**n if examples is None else examples)
    require(total <= LARGEST_SUM, "n times neurons times examples must be at most 10^11", n=n, neurons=neurons)
    key = random.stream(seed, "init")
    weight = DenseInit().weights(key.fold(0), neurons, n)
    bias = fan_in_uniform(key.fold(1), (neurons,), n)
    if examples is None:
        x = sign_table(n).astype(np.float32)
    else:
        x = random.rademacher(random.stream(seed, "probe"), np.arange(examples, dtype=np.uint32), n)
    places = sorted(relevant)
    size = max(1, _ENTRIES // len(x))
    parts = []
    for first in range(0, neurons, size):
        active = weight[first : first + size] @ x.T + bias[first : first + size, None] > 0
        parts.append(_exact_means(active, places, n) if examples is None else _means(active, x, places))
    return np.concatenate(parts)


def _exact_means(active: np.ndarray, places: list[int], n: int) -> np.ndarray:
    sums = walsh_hadamard(active)
    columns = [set_index(places) ^ (1 << i) for i in range(n)]
    return np.asarray(sums[:, columns] / 2**n)


def _means(active: np.ndarray, x: np.ndarray, places: list[int]) -> np.ndarray:
    y = x[:, places].prod(axis=1)
    return np.asarray((active.astype(np.float32) @ (x * y[:, None])).astype(np.float64) / len(x))


def fourier_gap(gradients: Any, support: Iterable[int]) -> np.ndarray:
    """Return how far a neuron's correlations on the support stand above its correlations elsewhere, as a ratio.

    The k largest correlations of a neuron with a ratio above 1 identify the support.

    Formula: min_{i in S} |G_i| / max_{i not in S} |G_i|.
    Source: after the Fourier gap of Barak et al., "Hidden progress in deep learning" (2022), there a difference.

    Args:
        gradients: correlations, shape (..., n).
        support: the coordinates of S, fewer than n.

    Returns:
        float64 of shape (...): 0 where a correlation on the support is exactly 0; otherwise infinite where all others
        are 0.
    """
    size = np.abs(np.asarray(gradients, np.float64))
    n = size.shape[-1]
    relevant = sorted(coordinates("support", support, n))
    require(0 < len(relevant) < n, "support must leave irrelevant inputs to compare with", k=len(relevant), n=n)
    high, low = size[..., relevant].min(axis=-1), np.delete(size, relevant, axis=-1).max(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(high == 0, 0.0, high / low)


def expected_best(values: Any, width: int) -> float:
    """Return the expected largest of several neurons' values, drawn without repetition from those given.

    This is what "parallel search" buys: it never falls as the width grows.

    Formula: sum_j v_(j) (C(j, r) - C(j - 1, r)) / C(N, r) over the N values in increasing order.
    Source: order statistics of a finite population; after Pareto frontiers, section 4.

    Args:
        values: N numbers, such as Fourier gaps.
        width: how many r are drawn, from 1 to N.
    """
    ordered = np.sort(np.asarray(values, np.float64).ravel())
    count = len(ordered)
    require(1 <= width <= count, "width must lie between 1 and the number of values", width=width, values=count)
    total = _log_choose(count, width)
    chance = [math.exp(_log_choose(place, width - 1) - total) for place in range(width - 1, count)]
    return float(np.dot(ordered[width - 1 :], chance))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
