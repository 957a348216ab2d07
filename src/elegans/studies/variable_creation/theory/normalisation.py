"""The softmax: how much it can change, and the error from weights on positions that it should ignore.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

import itertools
import math
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float64

from elegans.calculators.domain import WithInfinity, require, require_positive

LARGEST_SHARPENED = 16
"""The largest number of weights whose subsets are enumerated for the sharp constant."""


def softmax(scores: Annotated[Any, WithInfinity]) -> np.ndarray:
    """Return the weights of scores along the last axis, without overflow.

    Formula: p_t = exp(z_t) / sum_u exp(z_u).
    Source: thesis, section 4.3 (Norm).

    Args:
        scores: z, shape (..., T); -inf gives weight 0.

    Returns:
        float64 of shape (..., T), of sum 1.
    """
    z = np.asarray(scores, float)
    grown = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=-1, keepdims=True))


def softmax_jacobian(weights: Any) -> Float64[np.ndarray, "*shape"]:
    """Return the sum of the absolute entries of the softmax's Jacobian at given weights; C_Norm is its largest value.

    Formula: ||diag(p) - p p^T||_{1,1} = 2 sum_i p_i (1 - p_i), at most 2 (1 - 1/T), attained by equal weights.
    Source: thesis, Corollary A.7 (which bounds it by 2); the largest value derived here.

    Args:
        weights: p, shape (..., T), of sum 1.
    """
    p = _weights(weights)
    return np.asarray(2 * (p * (1 - p)).sum(axis=-1))


def softmax_sharpness(weights: Any) -> float:
    """Return the largest change of the weights, in l1, per unit change of the scores in the maximum norm.

    So the constant 2 of the source may be replaced by 1.

    Formula: ||diag(p) - p p^T||_{inf,1} = max_A 4 P(A) (1 - P(A)) over subsets A, at most 1.
    Source: derived here; the thesis has 2 (Corollary A.7).

    Args:
        weights: p, shape (T,), of sum 1, T at most 16.
    """
    p = _weights(weights)
    require(p.ndim == 1 and p.size <= LARGEST_SHARPENED, f"weights must be at most {LARGEST_SHARPENED}", shape=p.shape)
    masses = (sum(chosen) for size in range(p.size) for chosen in itertools.combinations(p.tolist(), size))
    return float(max(4 * mass * (1 - mass) for mass in masses))


def _weights(weights: Any) -> np.ndarray:
    p = np.asarray(weights, float)
    fits = p.ndim >= 1 and p.size > 0 and bool((p >= 0).all()) and bool(np.allclose(p.sum(axis=-1), 1))
    require(fits, "weights must be at least 0 and add to 1 (Corollary A.7)", weights=weights)
    return p


def softmax_change(change: float, jacobian: float = 2.0) -> float:
    """Return a bound on the change of weights, in l1, when no score changes by more than a given amount.

    Formula: ||p(a) - p(b)||_1 <= C ||a - b||_inf; C = 2 as stated, C = 1 is the smallest valid constant for the
        softmax.
    Source: thesis, Lemma A.6 (any C that bounds the Jacobian) and Corollary A.7; C = 1 derived here.

    Args:
        change: ||a - b||_inf, at least 0.
        jacobian: C.
    """
    require(change >= 0, "change must be at least 0 (Lemma A.6)", change=change)
    require_positive("Lemma A.6", jacobian=jacobian)
    return jacobian * change


def softmax_truncation(T: int, s: int, gap: float) -> float:
    """Return a bound on the l1 error of weights that should ignore all but s of T scores.

    It is at most 2 T exp(-R), which is the form in use.

    Formula: ||p(z') - p(z)||_1 <= 2 (T - s) / (s exp(R)), z' being z with the other T - s scores at -inf.
    Source: thesis, Lemma A.24.

    Args:
        T: how many scores there are.
        s: how many of them are at least R, from 1 to T; the others are at most 0.
        gap: R.
    """
    require(1 <= s <= T, "s must lie in 1..T (Lemma A.24)", s=s, T=T)
    return 2 * (T - s) / s * math.exp(-gap)
