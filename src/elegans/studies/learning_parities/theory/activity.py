"""Biased parities: how active a neuron is, and how little that depends on the signs on A (Lemmas 5, 6 and 8).

Source of all functions: Daniely and Malach (2020), section 5.1; exact values are derived here.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    n: the number of inputs.
    k: the size of A, below n.
"""

import math
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import numpy as np

from elegans.boolean.fourier import sign_table
from elegans.calculators.domain import AtMost, binomial, require, require_positive
from elegans.studies.learning_parities.theory.parity import require_mix
from elegans.studies.learning_parities.theory.window import InitialNeurons, Window, signed_window


def biased_uniform_bound(n: int, k: int, factor: float, together: bool = False) -> float:
    """Return a bound on the uniform part's correlations outside A, with probability 1 - 1/factor over the weights.

    Formula: c C(n - 1, k)^(-1/2) for one coordinate or the bias; C (n - 1) C(n - 1, k)^(-1/2) for all together.
    Source: Daniely and Malach (2020), Lemma 5, and Lemma 6 for all together (odd n and k).

    Args:
        factor: c or C, above 0.
        together: whether the bound is for all coordinates outside A and the bias at once.

    Returns:
        The bound on |E[e_j y relu6'(v)]| and |E[y relu6'(v)]|, with signs e.
    """
    require_positive("Lemma 5", factor=factor)
    require(1 <= k < n, "k must lie in 1..n-1 (Lemma 5)", k=k, n=n)
    return factor * (n - 1 if together else 1) / math.sqrt(binomial(n - 1, k))


def biased_uniform_mean_square(n: Annotated[int, AtMost(500)], k: int, bias: float) -> float:
    """Return the mean over random weights of a squared uniform correlation outside A, exactly.

    Lemma 5 applies Markov's inequality to the bound 1 / C(n - 1, k). This mean is a small part of the bound: 2.8e-6
    against 2.7e-3 for n = 15, k = 3, b = 1/24.

    Formula: E_w (E[e_j y relu6'])^2 = (2/3)^(k+1) sum_m P(Bin(n - k - 1, 2/3) = m) kap(k + 1, m + k + 1, b)^2.
    Source: derived here; bounded in Daniely and Malach (2020), Lemma 5.

    Args:
        bias: the neuron's bias b.

    Returns:
        The mean square for weights uniform on {-1, 0, 1}^n.
    """
    require(1 <= k < n, "k must lie in 1..n-1 (Lemma 5)", k=k, n=n)
    rest = n - k - 1
    counts = np.arange(rest + 1)
    chances = np.array([math.comb(rest, m) * 2**m / 3**rest for m in range(rest + 1)])
    window = Window(n, np.full(rest + 1, float(bias)))
    values = signed_window(k + 1, counts + k + 1, np.zeros(rest + 1, np.int64), window)
    return float((2 / 3) ** (k + 1) * (chances * values**2).sum())


class WindowGap(NamedTuple):
    """How far a neuron's activity is from being independent of a function of the signs on A.

    Args:
        gap: |E[h relu6'] - E[h] phi|, float64 of shape (q,).
        ratio: gap sqrt(|J|) / k, with J the nonzero weights outside A, which Lemma 8 bounds by a constant.
    """

    gap: np.ndarray
    ratio: np.ndarray


def biased_window_gap(weight: Any, bias: Any, support: Iterable[int], values: Any, mix: float = 0.5) -> WindowGap:
    """Return both sides of Lemma 8 for q neurons, exactly.

    Formula: phi = P(k / sqrt(n) < sum_{J} w_j x_j + b < 6 - k / sqrt(n)); |E[h relu6'(v)] - E[h] phi| <= C k / sqrt|J|.
    Source: Daniely and Malach (2020), Lemma 8. J holds the nonzero weights outside A. Computed by summing over the
        2^k signs on A.

    Args:
        weight: the weights, all -1, 0 or 1, shape (q, n).
        bias: the biases, shape (q,) or one for all.
        support: the k coordinates of A in increasing order, k odd.
        values: h at the 2^k signs on A, in the order of ``sign_table``, within [-1, 1].
        mix: the probability of D2 in the mixture.

    Returns:
        The gap and its ratio to k / sqrt(|J|).
    """
    neurons = InitialNeurons(weight, bias, support)
    require_mix(mix)
    patterns = sign_table(neurons.k).astype(np.int64)
    table = np.asarray(values, float)
    require(
        table.shape == (2**neurons.k,),
        "values must have one entry for each of the 2^k sign patterns",
        shape=table.shape,
    )
    equal = np.abs(patterns.sum(axis=1)) == neurons.k
    chance = (1 - mix) / 2**neurons.k + mix / 2 * equal
    active = sum(
        float(chance[place] * table[place]) * neurons.win(neurons.outside, neurons.relevant @ pattern)
        for place, pattern in enumerate(patterns)
        if table[place]
    )
    inner = neurons.win(neurons.outside, 0, margin=neurons.k)
    gap = np.abs(active - float((chance * table).sum()) * inner)
    return WindowGap(gap, gap * np.sqrt(neurons.outside) / neurons.k)
