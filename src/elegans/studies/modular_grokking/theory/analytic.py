"""The analytic solution of addition mod p by quadratic networks: cosines of random phases, and how often it is right.

Neuron i has a frequency k and two phases: u(a) = cos(2 pi k a/p + phi_u), v(b) = cos(2 pi k b/p + phi_v) and
w(c) = cos(2 pi k c/p + phi_u + phi_v). The outputs sum (u(a) + v(b))^2 w(c) over neurons, so terms in a + b - c
add up and all others, whose phases are random, average out with the width.

The source permutes N frequencies at random; here neurons are balanced over the (p - 1)/2 frequencies that differ.

Shared arguments:
    p: the modulus, odd and at least 3.
    width: the number N of neurons.
    key: the key of the phases, which are independent and uniform.

Source: Gromov, "Grokking modular arithmetic" (2023), section 3.
"""

import math
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int

from elegans import random
from elegans.calculators.domain import AtMost, require

Modulus = Annotated[int, AtMost(200)]
Neurons = Annotated[int, AtMost(5000)]


def analytic_frequencies(p: Modulus, width: Neurons) -> Int[np.ndarray, " width"]:
    """Return the frequency of each neuron.

    Formula: 1 + (i mod (p - 1)/2), i = 0, ..., N - 1.
    Source: derived here; Gromov (2023), section 3, permutes them.
    """
    _require(p, width)
    return 1 + np.arange(width) % ((p - 1) // 2)


def analytic_weights(
    p: Modulus, width: Neurons, key: random.Key
) -> tuple[Float[np.ndarray, "width p"], Float[np.ndarray, "width p"], Float[np.ndarray, "width p"]]:
    """Return the weights u, v and w of the analytic solution, one row per neuron.

    Formula: u(a) = cos(2 pi k a/p + phi_u), v(b) = cos(2 pi k b/p + phi_v), w(c) = cos(2 pi k c/p + phi_u + phi_v).
    Source: Gromov (2023), section 3; frequencies as in ``analytic_frequencies``.
    """
    turns = np.outer(analytic_frequencies(p, width), np.arange(p)) / p
    place = np.arange(width, dtype=np.uint32)
    first, second = (random.uniform(key, place, lane=np.uint32(which)).astype(float)[:, None] for which in (0, 1))
    u, v, w = (np.cos(2 * np.pi * (turns + phase)) for phase in (first, second, first + second))
    return u, v, w


def quadratic_accuracy(
    u: Float[np.ndarray, "width p"], v: Float[np.ndarray, "width p"], w: Float[np.ndarray, "width p"]
) -> float:
    """Return the exact share of the p^2 pairs whose largest output is for a + b mod p; ties are wrong.

    The outputs at (a, b) are sum_i (u_i(a) + v_i(b))^2 w_i.
    """
    p, right = u.shape[1], 0
    for a in range(p):
        outputs = ((u[:, a, None] + v) ** 2).T @ w
        label = (a + np.arange(p)) % p
        own = outputs[np.arange(p), label]
        outputs[np.arange(p), label] = -np.inf
        right += int((own > outputs.max(axis=1)).sum())
    return float(right / p**2)


def analytic_accuracy(p: Modulus, width: Neurons, key: random.Key) -> float:
    """Return the exact accuracy of the analytic solution with given random phases, on all p^2 pairs.

    Formula: ``quadratic_accuracy`` of ``analytic_weights``.
    Source: Gromov (2023), section 3.
    """
    return quadratic_accuracy(*analytic_weights(p, width, key))


def analytic_margin(p: Modulus, width: Neurons) -> tuple[float, float]:
    """Return mean and standard deviation, over phases, of the right output less any other one.

    Both are the same for every pair and every wrong class if the width is a multiple of (p - 1)/2, and of this size
    otherwise.

    Formula: mean N p / (2 (p - 1)), variance (33/16) N p / (p - 1).
    Source: derived here: with t = phi_u + phi_v and d = phi_u - phi_v, which are independent and uniform, a neuron adds
        (1 + cos d)(1 + cos t)(cos t - cos(t - x)) at the pair (0, 0), x = 2 pi k c/p; its mean is s and its second
        moment 3 s (5/4 + s/2), s = sin^2(x/2), whose sums over k are sums of sin^2 and sin^4.
    """
    _require(p, width)
    share = width * p / (p - 1)
    return share / 2, math.sqrt(33 / 16 * share)


def analytic_accuracy_bound(p: Modulus, width: Neurons) -> float:
    """Return a lower bound on the expected accuracy of the analytic solution, with margins taken as normal.

    By the central limit theorem margins become normal as the width grows; of the p - 1 wrong classes each wins with the
    same probability.

    Formula: 1 - (p - 1) Phi(-sqrt(4 N p / (33 (p - 1)))), at least 0.
    Source: derived here from ``analytic_margin`` and the union bound.
    """
    mean, deviation = analytic_margin(p, width)
    return max(0.0, 1 - (p - 1) * 0.5 * math.erfc(mean / deviation / math.sqrt(2)))


def analytic_width(p: Modulus, accuracy: float = 0.99) -> int:
    """Return the least width whose ``analytic_accuracy_bound`` is at least a given accuracy.

    Formula: N = ceil(33 (p - 1) z^2 / (4 p)), Phi(-z) = (1 - accuracy) / (p - 1); it grows as log p.
    Source: derived here from ``analytic_accuracy_bound``.

    Args:
        accuracy: above 0 and below 1.
    """
    from scipy.stats import norm

    _require(p, 1)
    require(0 < accuracy < 1, "accuracy must lie between 0 and 1", accuracy=accuracy)
    quantile = float(norm.isf((1 - accuracy) / (p - 1)))
    width = max(1, math.floor(33 * (p - 1) * max(quantile, 0.0) ** 2 / (4 * p)))
    while analytic_accuracy_bound(p, width) < accuracy:
        width += 1
    return width


def _require(p: int, width: int) -> None:
    require(p >= 3 and p % 2 == 1, "p must be odd and at least 3", p=p)
    require(width >= 1, "width must be at least 1", width=width)
