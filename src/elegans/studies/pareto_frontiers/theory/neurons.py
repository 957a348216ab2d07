"""What one sparse neuron's first gradient reveals about the hidden support.

Everything concerns the correlation G_i = E[1{w . x + b > 0} x_i y] of a hidden neuron of weights w and bias b with the
parity y over the support S: with a hinge loss and an output of 0, the loss gradient of w_i is -u_i G_i for output
weight u_i. An *over-sparse* neuron has s > k weights 1 and the others 0, and is good when they cover S. An
*under-sparse* neuron has s < k weights 1 and a small epsilon elsewhere, and is good when the ones lie inside S.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    k: the size of the support, even.
    s: how many weights are 1, odd and above k.
    n: the number of inputs.
    support: the k coordinates of S, k even.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from elegans.boolean.fourier import (
    LARGEST_TABLE,
    half_coefficient,
    limit_weight,
    majority_coefficient,
    set_index,
    walsh_hadamard,
)
from elegans.calculators.domain import (
    Binomial,
    Form,
    Number,
    Side,
    coordinates,
    require,
    require_form,
    require_over_sparse,
    require_under_sparse,
)


def over_sparse_relevant(k: int, s: Binomial) -> Fraction:
    """Return C_{k,s}: a good over-sparse neuron's correlation on the coordinates of the support.

    Its sign is (-1)^((k - 2) / 2). It holds for every bias b with |b| < 1.

    Formula: C_{k,s} = hat Maj_s(k - 1) / 2.
    Source: Pareto frontiers, Lemma 8. The identity holds for every odd s above k; k < s/4 is for the bounds.
    """
    require_over_sparse(k, s, "Lemma 8")
    return majority_coefficient(s, k - 1) / 2


def over_sparse_irrelevant(k: int, s: Binomial) -> Fraction:
    """Return c_{k,s}: a good over-sparse neuron's correlation on its weights outside the support.

    Formula: c_{k,s} = hat Maj_s(k + 1) / 2.
    Source: Pareto frontiers, Lemma 8.

    Returns:
        The exact correlation, of the opposite sign to C_{k,s}.
    """
    require_over_sparse(k, s, "Lemma 8")
    return majority_coefficient(s, k + 1) / 2


def over_sparse_ratio(k: int, s: int) -> Fraction:
    """Return |c_{k,s}| / |C_{k,s}|.

    Lemma 8 bounds it by 4 k / s. The bound holds, although the proof reaches it through an inverted fraction of
    binomials; it follows at once from the exact ratio.

    Formula: |c| / |C| = (k - 1) / (s - k).
    Source: follows from Pareto frontiers, Lemma 17; bounded in Lemma 8.
    """
    require_over_sparse(k, s, "Lemma 8")
    return Fraction(k - 1, s - k)


def over_sparse_lower_bound(k: int, s: int, form: Form = "corrected") -> float:
    """Return the paper's lower bound on |C_{k,s}|.

    It holds with either weight: the printed one is smaller by a factor of sqrt(2).

    Formula: |C_{k,s}| >= sqrt(rho(k - 1)) / (2 sqrt(C(s, k - 1))).
    Source: Pareto frontiers, proof of Lemma 8.

    Args:
        s: how many weights are 1, odd and above 4k.
        form: which limit weight stands for rho: see ``limit_weight``.
    """
    require_over_sparse(k, s, "Lemma 8")
    require(s > 4 * k, "s must be above 4k (Lemma 8)", s=s, k=k)
    return math.sqrt(limit_weight(k - 1, form) / math.comb(s, k - 1)) / 2


def over_sparse_gradient(n: Side, support: Iterable[int], ones: Iterable[int]) -> tuple[Fraction, ...]:
    """Return the population correlation of an over-sparse neuron, good or bad, with any bias |b| < 1.

    Formula: good neuron: G_i = C_{k,s} on S, c_{k,s} on the ones outside S, else 0. One member j of S missing:
        G_j = C_{k,s}, else 0. Two or more missing: G = 0.
    Source: Pareto frontiers, Lemmas 8 and 9.

    Args:
        ones: the s coordinates with weight 1, s odd and above k; the other weights are 0.
    """
    relevant, chosen = coordinates("support", support, n), coordinates("ones", ones, n)
    k, s = len(relevant), len(chosen)
    high, low = over_sparse_relevant(k, s), over_sparse_irrelevant(k, s)
    missing = relevant - chosen
    if not missing:
        return tuple(high if i in relevant else low if i in chosen else Fraction(0) for i in range(n))
    return tuple(high if missing == {i} else Fraction(0) for i in range(n))


def under_sparse_relevant(n: Binomial, k: int, s: int) -> Fraction:
    """Return xi_rel: a good under-sparse neuron's correlation on the rest of the support.

    Formula: xi_rel = hat Half_s(s) hat Maj_{n-s}(k - s - 1) / 2.
    Source: Pareto frontiers, Lemma 20. For even n - s the majority's value at a tie is 0.

    Args:
        s: how many weights are 1, even and below k; the others are 0 < epsilon < 1/(n - s).

    Returns:
        The exact correlation on the coordinates of S that are not among the ones.
    """
    require_under_sparse(n, k, s, "Lemma 20")
    return half_coefficient(s, s) * majority_coefficient(n - s, k - s - 1) / 2


def under_sparse_irrelevant(n: Binomial, k: int, s: int) -> Fraction:
    """Return xi_irr: a good under-sparse neuron's correlation outside the support.

    Formula: xi_irr = hat Half_s(s) hat Maj_{n-s}(k - s + 1) / 2.
    Source: Pareto frontiers, Lemma 20.

    Args:
        n: the number of inputs, above k.
        s: how many weights are 1, even and below k.

    Returns:
        The exact correlation, of the opposite sign to xi_rel.
    """
    require_under_sparse(n, k, s, "Lemma 20")
    require(k < n, "k must be below n for there to be irrelevant coordinates (Lemma 20)", k=k, n=n)
    return half_coefficient(s, s) * majority_coefficient(n - s, k - s + 1) / 2


def under_sparse_ratio(n: int, k: int, s: int, form: Form = "corrected") -> Fraction:
    """Return |xi_rel| / |xi_irr|.

    The printed ratio is larger than the exact one wherever s < k - 1: (51, 4, 2) has 47, printed as 49.

    Formula: (n - k) / (k - s - 1) for odd n - s, (n - k + 1) / (k - s - 1) for even n - s;
        printed: (n - s) / (k - s - 1).
    Source: follows from Pareto frontiers, Lemma 17; printed in the proof of Theorem 21.

    Args:
        n: the number of inputs, above k.
        s: how many weights are 1, even and below k.
        form: "corrected" for the exact ratio, "printed" for the paper's.
    """
    require_under_sparse(n, k, s, "Theorem 21")
    require(k < n, "k must be below n for there to be irrelevant coordinates (Theorem 21)", k=k, n=n)
    require_form(form)
    above = n - s if form == "printed" else n - k + (n - s + 1) % 2
    return Fraction(above, k - s - 1)


def under_sparse_gradient(n: Side, support: Iterable[int], ones: Iterable[int]) -> tuple[Fraction, ...]:
    """Return the population correlation of an under-sparse neuron, good or bad.

    It is the same for every epsilon with 0 < epsilon < 1/(n - s) and every bias with |b| < epsilon.

    Formula: for i in S: hat Half_s(|S'S - i|) hat Maj_{n-s}(|S - S' - i|) / 2; for i outside S:
        hat Half_s(|S'S + S'i|) hat Maj_{n-s}(|S + i - S'|) / 2, with S' the ones and products for intersections.
    Source: Pareto frontiers, Lemmas 18 and 19.

    Args:
        ones: the s coordinates of S' with weight 1, s even and below k; the other weights are epsilon.
    """
    relevant, large = coordinates("support", support, n), coordinates("ones", ones, n)
    s = len(large)
    require_under_sparse(n, len(relevant), s, "Lemma 18")

    def correlation(i: int) -> Fraction:
        rest = relevant ^ {i}
        return half_coefficient(s, len(rest & large)) * majority_coefficient(n - s, len(rest - large)) / 2

    return tuple(correlation(i) for i in range(n))


def population_gradient(weight: Sequence[Number], bias: Number, support: Iterable[int]) -> tuple[Fraction, ...]:
    """Return any neuron's population correlation by enumerating all 2^n inputs, in exact arithmetic.

    Formula: G_i = 2^-n sum_x 1{w . x + b > 0} x_i chi_S(x).
    Source: the definition in Pareto frontiers, Lemma 8; the reference for every closed form here.

    Args:
        weight: the n weights, n at most 24. Give fractions: a float is the dyadic rational that it stores, so 0.1 is
            not a tenth and an intended tie may not be one.
        bias: the neuron's bias.
        support: the coordinates of the support.
    """
    n = len(weight)
    relevant = coordinates("support", support, n)
    sums = walsh_hadamard(_activations(weight, bias))
    whole = set_index(relevant)
    return tuple(Fraction(int(sums[whole ^ (1 << i)]), 2**n) for i in range(n))


def _activations(weight: Sequence[Number], bias: Number) -> np.ndarray:
    """Return 1{w . x + b > 0} at all inputs, in the order of ``sign_table``."""
    require(len(weight) <= LARGEST_TABLE, f"n must be at most {LARGEST_TABLE} for a table of all inputs", n=len(weight))
    exact = [Fraction(value) for value in (*weight, bias)]
    scale = math.lcm(*(value.denominator for value in exact))
    *whole, offset = (int(value * scale) for value in exact)
    largest = sum(map(abs, whole)) + abs(offset)
    sums = np.asarray([sum(whole) + offset], np.int64 if largest < 2**62 else object)
    for value in whole:
        sums = np.concatenate([sums, sums - 2 * value])
    return np.asarray(sums > 0, bool)
