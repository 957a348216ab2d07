"""Reading a parity's support off a gradient: the sample size required, and the cost of label noise.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    n: the number of inputs.
    k: the size of the support, from 1 to n.
    delta: the probability of failure, between 0 and 1.
    noise: the probability p of a flip, from 0 to 1; not 1/2 for sample sizes.
"""

import math
from typing import Any

import numpy as np

from elegans.calculators.domain import Number, require, require_parity, require_positive, require_probability


def recover_support(gradient: Any, k: int) -> np.ndarray:
    """Return the k coordinates where a gradient is largest in absolute value.

    They are the support where the neuron has a gamma-gap there and every entry is within less than gamma / 2 of its
    mean. (The proof says that relevant entries exceed gamma / 2 and others do not, which need not be true; their order
    is right.)

    Formula: the indices of the k largest |g_i|, the first ones in case of ties.
    Source: thesis, Proposition B.7. ``sample_correlations`` makes the gradient from examples, up to its sign.

    Args:
        gradient: shape (..., n).
        k: how many coordinates, from 1 to n.

    Returns:
        int64 of shape (..., k), in increasing order.
    """
    size = np.abs(np.asarray(gradient))
    require_parity(size.shape[-1], k, "Proposition B.7")
    largest = np.argsort(-size, axis=-1, kind="stable")[..., :k]
    return np.sort(largest, axis=-1)


def recovery_sample(n: int, gap: Number, delta: float) -> int:
    """Return the sample size that identifies the support by a gradient, with probability at least 1 - delta.

    A single neuron with all weights 1 has half of ``majority_gap``: of order n^(k - 1) ln n examples.

    Formula: m = ceil((8 / gamma^2) ln(2n / delta)) for |sigma'| <= 1 (Hoeffding, errors below gamma / 2).
    Source: thesis, Proposition B.7, with its constant.

    Args:
        gap: the strict gap gamma.
    """
    require_positive("Proposition B.7", n=n, gap=gap)
    require_probability("delta", delta, "Proposition B.7")
    return math.ceil(8 / float(gap) ** 2 * math.log(2 * n / delta))


def noisy_correlation(correlation: Number, noise: Number) -> Number:
    """Return what remains of a correlation with the label, or of a gap, when labels are flipped at random.

    Formula: (1 - 2p) E[y f].
    Source: thesis, appendix B.3.6. (It states p = 1/2 - epsilon in one place and 1 - 2p = epsilon in others; the latter
        is meant. Flips at p = 0.49 leave 0.02, not 0.01.)

    Args:
        correlation: E[y f] for clean labels, or a difference of such.
    """
    require(0 <= noise <= 1, "noise must lie in 0..1 (label noise)", noise=noise)
    return (1 - 2 * noise) * correlation


def noisy_sample(sample: Number, noise: Number) -> int:
    """Return the sample size needed for averaged correlations when labels are flipped at random.

    Formula: ceil(m / (1 - 2p)^2).
    Source: thesis, appendix B.3.6.

    Args:
        sample: the sample size m for clean labels.
    """
    require(sample >= 0, "sample must be at least 0 (label noise)", sample=sample)
    require(noise != 0.5, "noise must not be 1/2 (label noise: nothing is left)", noise=noise)
    return math.ceil(sample / noisy_correlation(1, noise) ** 2)


def noisy_statistical_limit(n: int, k: int, noise: Number) -> float:
    """Return the order of the sample that identifies a support from noisy labels, ignoring compute.

    Formula: k ln(n) / (1 - 2p)^2, constants dropped.
    Source: thesis, appendix B.3.6.
    """
    require_parity(n, k, "an (n, k)-parity")
    require(noise != 0.5, "noise must not be 1/2 (label noise: nothing is left)", noise=noise)
    return k * math.log(n) / float(noisy_correlation(1, noise)) ** 2
