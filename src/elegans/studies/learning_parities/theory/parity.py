"""Biased parities: the distribution D_A, and the limits of linear predictors on fixed features.

Inputs are x = e / sqrt(n) with signs e, so ||x|| = 1; the label is the product of the k signs on a set A, k odd.
D1 is uniform. D2 draws the signs outside A uniformly and makes all signs on A equal, to +1 or to -1. D_A takes D2
with probability ``mix``, one half in the source. The source prints the bits of A in D2 as +-1; they are +-1/sqrt(n)
like all others.

Source of all functions: Daniely and Malach, "Learning Parities with Neural Networks" (NeurIPS 2020).

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    k: the size of A.
    norm: the largest norm B of the predictor's weights.
    n: the number of inputs.
    features: the number N of features, all in [-1, 1].
"""

import itertools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from elegans.boolean.fourier import set_index, sign_table, walsh_hadamard
from elegans.calculators.domain import (
    Binomial,
    Form,
    binomial,
    coordinates,
    require,
    require_form,
    require_parity,
    require_positive,
)

LARGEST_SHARE = 16
"""How many times k must fit into n for C(n, k) >= 16^k (Theorem 2)."""


class BiasedTable(NamedTuple):
    """The distribution D_A over all inputs, in the order of ``sign_table``.

    Args:
        probability: float64 of shape (2^n,).
        label: int8 of shape (2^n,).
    """

    probability: np.ndarray
    label: np.ndarray


def biased_table(n: int, support: Iterable[int], mix: float = 0.5) -> BiasedTable:
    """Return the probability and the label of every input under D_A.

    With mix 1/2 the correlation sqrt(n) E[y x_j] is 1/2 on A and 0 elsewhere, and the sum of the signs on A is k or
    -k with probability 1/2 + 2^-k.

    Formula: P(e) = (1 - mix) 2^-n + mix 2^-(n - k + 1) 1{the signs on A are equal}; y = prod_A e_i.
    Source: Daniely and Malach (2020), section 2.

    Args:
        n: the number of inputs, at most 24.
        support: the k coordinates of A, k odd.
        mix: the probability of D2.
    """
    places = biased_support(support, n)
    require_mix(mix)
    sums = sign_table(n)[:, places].sum(axis=1, dtype=np.int64)
    k = len(places)
    probability = (1 - mix) * 2.0**-n + mix * 2.0 ** (k - 1 - n) * (np.abs(sums) == k)
    return BiasedTable(probability, np.where((k - sums) // 2 % 2, -1, 1).astype(np.int8))


def biased_support(support: Iterable[int], n: int) -> list[int]:
    """Return the coordinates of A in increasing order, refusing an even number of them."""
    places = sorted(coordinates("support", support, n))
    require(len(places) % 2 == 1, "k must be odd (biased parity)", k=len(places))
    return places


def require_mix(mix: float) -> None:
    """Refuse values that are not a probability of D2."""
    require(0 <= mix <= 1, "mix must lie in 0..1 (biased parity)", mix=mix)


def biased_linear_bound(k: int, features: int, norm: float, form: Form = "corrected") -> float:
    """Return Theorem 2's bound on the hinge loss of linear predictors, for the worst set A.

    The proof has B outside the root, the statement under it. The printed bound holds nonetheless:
    it is at most ``biased_fourier_bound`` while B <= 2 4^k, and beyond that it is negative (derived here).

    Formula: L >= 1/2 - sqrt(N) B / (2^k sqrt(2)); printed: 1/2 - sqrt(N B) / (2^k sqrt(2)).
    Source: Daniely and Malach (2020), Theorem 2, for k <= n / 16 and features in [-1, 1].

    Args:
        features: the number N of features.
        form: "corrected" for what the proof gives, "printed" for the statement.

    Returns:
        The bound; it says nothing where it is negative.
    """
    require_positive("Theorem 2", k=k, features=features, norm=norm)
    require_form(form)
    size: float = math.sqrt(features) * norm if form == "corrected" else math.sqrt(features * norm)
    return 0.5 - size / (2.0**k * math.sqrt(2))


def biased_average_bound(n: Binomial, k: Binomial, features: int, norm: float) -> float:
    """Return the proof's bound on the mean, over A, of the best hinge loss on the uniform part D1.

    Formula: E_A min_{||w|| <= B} L_{D1} >= 1 - sqrt(2 N) B C(n, k)^(-1/4).
    Source: Daniely and Malach (2020), proof of Theorem 2, before C(n, k) >= 16^k is used.

    Returns:
        The bound; it says nothing where it is negative.
    """
    _require_linear(n, k, features, norm)
    return 1 - norm * math.sqrt(2 * math.sqrt(features**2 / binomial(n, k)))


def biased_fourier_bound(n: int, k: int, features: int, norm: float) -> float:
    """Return a sharper bound than Theorem 2's on the hinge loss of linear predictors, for the worst set A.

    The hinge loss is at least 1 - y v, so no regulariser is needed. It is at least the bound of Theorem 2 for
    k <= n / 16, and holds without that condition.

    Formula: L_{D_A} >= 1/2 - (B / 2) sqrt(N / C(n, k)) for some A.
    Source: derived here, from the Fourier argument in Daniely and Malach (2020), section 4.

    Returns:
        The bound; it says nothing where it is negative.
    """
    _require_linear(n, k, features, norm)
    return 0.5 - norm / 2 * math.sqrt(features / binomial(n, k))


def _require_linear(n: int, k: int, features: int, norm: float) -> None:
    require_parity(n, k, "Theorem 2")
    require_positive("Theorem 2", features=features, norm=norm)


class SupportBounds(NamedTuple):
    """A lower bound for every set A of one size.

    Args:
        supports: int64 of shape (C(n, k), k), in lexicographic order.
        bound: float64 of shape (C(n, k),), on the hinge loss on D1; half of it bounds the loss on D_A with mix 1/2.
    """

    supports: np.ndarray
    bound: np.ndarray


def biased_support_bounds(features: Any, k: int, norm: float) -> SupportBounds:
    """Return, for every set A of k inputs, a lower bound on the hinge loss of linear predictors on given features.

    Formula: min_{||w|| <= B} L_{D1} >= 1 - B ||E[f_A Psi]||_2.
    Source: derived here, from the hinge loss being at least 1 - y v.

    Args:
        features: Psi at all 2^n inputs in the order of ``sign_table``, shape (N, 2^n), of any size.
    """
    sums = walsh_hadamard(np.atleast_2d(features))
    n = sums.shape[-1].bit_length() - 1
    _require_linear(n, k, len(sums), norm)
    chosen = list(itertools.combinations(range(n), k))
    correlations = sums[:, [set_index(places) for places in chosen]] / sums.shape[-1]
    return SupportBounds(np.array(chosen, np.int64), 1 - norm * np.linalg.norm(correlations, axis=0))
