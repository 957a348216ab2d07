"""Fourier gaps: how a neuron's population gradient at the first step distinguishes the support from the rest.

With the correlation loss (or the hinge at an output of 0), the gradient of a neuron is -G for the correlations
G_i = E[y x_i h(x)] with h(x) = sigma'(w . x + b). They are Fourier coefficients of h: of degree k - 1 on the support S
of y, and of degree k + 1 elsewhere. A neuron *has a gap* at S where the first all exceed the second in absolute value.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    correlations: G, shape (..., n): one row per neuron.
    support: the coordinates of S; for gaps at least one and not all.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from elegans.boolean.fourier import majority_coefficient, set_index
from elegans.calculators.domain import Binomial, Form, coordinates, require, require_form, require_parity


def gap_correlations(coefficients: Any, support: Iterable[int]) -> np.ndarray:
    """Return the correlations that the definition of a gap compares, from a table of all Fourier coefficients.

    Formula: G_i = hat f(S - i) for i in S, hat f(S + i) for i outside S.
    Source: thesis, chapter 5, Definition 5.4 and Proposition B.7.

    Args:
        coefficients: the coefficients of f, shape (..., 2^n), in the order of ``fourier_coefficients``.

    Returns:
        The table's entries, shape (..., n).
    """
    table = np.asarray(coefficients)
    n = table.shape[-1].bit_length() - 1
    require(table.shape[-1] == 1 << n, "a table of a function must have 2^n values", size=table.shape[-1])
    whole = set_index(coordinates("support", support, n))
    return table[..., [whole ^ (1 << i) for i in range(n)]]


def strict_gap(correlations: Any, support: Iterable[int]) -> np.ndarray:
    """Return the gap at a support: gradients with errors below half of it identify all of S.

    Formula: gamma = min_{i in S} |G_i| - max_{i not in S} |G_i|; f has a gap of gamma at S where this is at least
        gamma.
    Source: thesis, chapter 5, Definition 5.4.

    Returns:
        float64 of shape (...).
    """
    relevant, irrelevant = _sizes(correlations, support)
    return np.asarray(relevant.min(axis=-1) - irrelevant.max(axis=-1))


def relaxed_gap(correlations: Any, support: Iterable[int]) -> np.ndarray:
    """Return the relaxed gap: if it is positive, gradients identify at least one coordinate of S.

    Formula: Gamma = max_{i in S} |G_i| - max_{i not in S} |G_i|.
    Source: thesis, appendix B.3.1.

    Returns:
        float64 of shape (...).
    """
    relevant, irrelevant = _sizes(correlations, support)
    return np.asarray(relevant.max(axis=-1) - irrelevant.max(axis=-1))


def _sizes(correlations: Any, support: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    size = np.abs(np.asarray(correlations, np.float64))
    n = size.shape[-1]
    relevant = sorted(coordinates("support", support, n))
    require(0 < len(relevant) < n, "support must leave irrelevant inputs to compare with", k=len(relevant), n=n)
    return size[..., relevant], np.delete(size, relevant, axis=-1)


def majority_gap(n: Binomial, k: int) -> Fraction:
    """Return the gap of the majority of n signs at every support of size k: positive exactly if n > 2k - 1.

    A threshold neuron with weights of 1 and -1 has half of it.

    Formula: gamma_k = |xi_{k-1}| - |xi_{k+1}| = |xi_{k+1}| (n - 2k + 1) / (k - 1), with xi_d = hat Maj_n(d).
    Source: thesis, Lemma B.2, which requires n >= 4k and omits that n is odd and k even.

    Args:
        n: the number of signs, odd and above k.
        k: the size of the support, even.
    """
    require_majority_gap(n, k, "Lemma B.2")
    return abs(majority_coefficient(n, k - 1)) - abs(majority_coefficient(n, k + 1))


def majority_gap_bound(n: int, k: int) -> float:
    """Return a lower bound on the gap of the majority.

    It is far from tight: gamma_k (n - 1)^((k - 1) / 2) is above 0.64 for every n below 400.

    Formula: gamma_k >= 0.03 (n - 1)^(-(k - 1) / 2).
    Source: thesis, Lemma B.2.

    Args:
        n: the number of signs, odd and at least 4k.
        k: the size of the support, even.
    """
    require_majority_gap(n, k, "Lemma B.2")
    require(n >= 4 * k, "n must be at least 4k (Lemma B.2)", n=n, k=k)
    return float(0.03 * (n - 1) ** (-(k - 1) / 2))


def majority_weight_scale(degree: int, form: Form = "corrected") -> float:
    """Return how the Fourier weight of a large majority falls with the degree.

    The printed power is a misprint: C(n, d) hat Maj_n(d)^2 d^(3/2) tends to a constant, and weights with the printed
    power would not even have a finite sum, although they sum to 1.

    Formula: (2 / pi)^(3/2) d^(-3/2); printed: d^(-2/3), up to constants that are not given.
    Source: O'Donnell, "Analysis of Boolean Functions" (2014), section 5.3; printed in the thesis, Lemma B.1.

    Args:
        degree: the degree d, odd.
        form: "corrected" for the limit's leading term, "printed" for the thesis' power with a constant of 1.
    """
    require(degree >= 1 and degree % 2 == 1, "degree must be odd (Lemma B.1)", degree=degree)
    require_form(form)
    return float((2 / math.pi / degree) ** 1.5 if form == "corrected" else degree ** (-2 / 3))


def sign_threshold_coefficient(weight: Sequence[int], members: Iterable[int]) -> Fraction:
    """Return a Fourier coefficient of a threshold with weights of 1 and -1, whatever its bias within (-1, 1).

    Formula: 1{w . x + b > 0} = (1 + Maj(w x)) / 2, so hat LTF(A) = xi_|A| prod_{i in A} w_i / 2; 1/2 for
        the empty A.
    Source: thesis, appendix B.2.1.

    Args:
        weight: the n weights, n odd.
        members: the coordinates of A.
    """
    n = len(weight)
    require_signs("weight", weight)
    require(n % 2 == 1, "n must be odd (a threshold of signs)", n=n)
    chosen = coordinates("members", members, n)
    if not chosen:
        return Fraction(1, 2)
    return math.prod(int(weight[i]) for i in chosen) * majority_coefficient(n, len(chosen)) / 2


def require_majority_gap(n: int, k: int, source: str) -> None:
    """Refuse sizes at which the majority carries no information about a support: n even, k odd, or k >= n."""
    require_parity(n, k, source)
    require(n % 2 == 1, f"n must be odd ({source})", n=n)
    require(k % 2 == 0, f"k must be even ({source})", k=k)


def require_signs(name: str, values: Iterable[int]) -> None:
    """Refuse values other than 1 and -1."""
    for value in values:
        require(value in (-1, 1), f"{name} must have only 1 and -1", **{name: value})
