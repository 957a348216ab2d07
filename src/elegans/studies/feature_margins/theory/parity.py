"""Sparse parity by a network of powers x^k: the largest margin, and the neurons and networks that attain it.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    k: the size of the support, at least 1.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from elegans.boolean.fourier import sign_table
from elegans.calculators.domain import Listed, coordinates, require
from elegans.studies.feature_margins.theory.weights import LARGEST_INPUT, ParityWeights

LARGEST_K = 16
"""The largest k whose network of 2^(k-1) neurons is built."""


def parity_maximum_margin(k: int) -> float:
    """Return the largest normalised margin of networks of powers x^k on a k-sparse parity.

    It does not depend on n, and is smallest at k = 3.

    Formula: gamma* = k! sqrt(2 (k + 1)^(-(k + 1))), in the norm L_{2,k+1}.
    Source: thesis, Theorem 7.8.
    """
    _require_k(k)
    return math.exp(math.lgamma(k + 1) + (math.log(2) - (k + 1) * math.log(k + 1)) / 2)


def parity_width(k: Listed) -> int:
    """Return the number of neurons in the construction of the largest margin.

    Formula: 2^(k - 1).
    Source: thesis, Theorem 7.8.
    """
    _require_k(k)
    return int(2 ** (k - 1))


def parity_labels(n: int, support: Iterable[int]) -> Int[np.ndarray, " inputs"]:
    """Return the labels of all inputs as outputs of a network: 0 where the parity is 1, 1 where it is -1.

    Formula: (1 - prod_{j in S} x_j) / 2.
    Source: thesis, section 7.5.

    Args:
        n: the input size, at most 20.

    Returns:
        int64 of shape (2^n,), where bit j of an input's index is set if x_j = -1.
    """
    require(n <= LARGEST_INPUT, f"n must be at most {LARGEST_INPUT} for all 2^n inputs", n=n)
    places = sorted(coordinates("support", support, n))
    return np.asarray((1 - sign_table(n)[:, places].astype(np.int64).prod(axis=1)) // 2)


def parity_objective(u: Any, w: Any, support: Iterable[int]) -> Float[np.ndarray, " neurons"]:
    """Return the expected margin of single neurons over uniform inputs.

    Formula: E psi = k! (prod_{j in S} u_j) (w_0 - w_1), that is sqrt(2) k! (prod_j u_j) beta with w = (alpha (1, 1) +
        beta (1, -1)) / sqrt(2).
    Source: thesis, appendix D.7.

    Args:
        u: incoming weights, shape (neurons, n).
        w: outgoing weights, shape (neurons, 2).
        support: the coordinates S, k of them; the activation is x^k.
    """
    rows, outputs = np.asarray(u, float), np.asarray(w, float)
    fits = rows.ndim == 2 and outputs.shape == (len(rows), 2)
    require(fits, "u and w must have shapes (neurons, n) and (neurons, 2)", u=rows.shape, w=outputs.shape)
    places = sorted(coordinates("support", support, rows.shape[1]))
    _require_k(len(places))
    return np.asarray(math.factorial(len(places)) * rows[:, places].prod(axis=1) * (outputs[:, 0] - outputs[:, 1]))


def sign_power_sum(y: Sequence[int | float]) -> float:
    """Return the sum of powers of signed sums, with their signs, which the parity's network uses.

    Formula: sum over sigma in {-1, 1}^k of (prod_i sigma_i) (sum_i sigma_i y_i)^k = 2^k k! prod_i y_i; sigma and -sigma
        contribute the same, so half of them suffice.
    Source: thesis, appendix D.7.

    Args:
        y: k numbers, at least one.
    """
    _require_k(len(y))
    return float(2 ** len(y) * math.factorial(len(y)) * math.prod(y))


def parity_construction(n: int, support: Iterable[int]) -> ParityWeights:
    """Return a network of L_{2,k+1} norm 1 that has the largest margin, the same at every input.

    The thesis' conditions on the set of sign vectors are misprinted: either of sigma and -sigma may be chosen. Here it
    is the one with sigma_1 = 1.

    Formula: u_S = s sigma / sqrt(k + 1), w = s (prod sigma) (1, -1) / sqrt(2 (k + 1)), s = 2^(-(k - 1)/(k + 1)), for
        2^(k - 1) vectors sigma.
    Source: thesis, appendix D.7.

    Args:
        support: the coordinates S, k of them, at most 16.
    """
    places = sorted(coordinates("support", support, n))
    k = len(places)
    _require_k(k)
    require(k <= LARGEST_K, f"k must be at most {LARGEST_K} for a network of 2^(k-1) neurons", k=k)
    signs = np.array([(1, *rest) for rest in itertools.product((1, -1), repeat=k - 1)], float)
    size = 2 ** (-(k - 1) / (k + 1)) / math.sqrt(k + 1)
    u = np.zeros((len(signs), n))
    u[:, places] = size * signs
    w = size / math.sqrt(2) * signs.prod(axis=1)[:, None] * np.array([1.0, -1.0])
    return ParityWeights(u, w, k)


def _require_k(k: int) -> None:
    require(k >= 1, "k must be at least 1 (Theorem 7.8)", k=k)
