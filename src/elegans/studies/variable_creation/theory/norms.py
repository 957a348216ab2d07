"""The norms that measure attention's capacity.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Float64

from elegans.calculators.domain import Extended, Form, require, require_form


def mixed_norm(matrix: Float[Any, "rows columns"], p: Extended, q: Extended) -> float:
    """Return the q-norm of the p-norms of a matrix' columns.

    Formula: ||M||_{p,q} = || (||M_:1||_p, ||M_:2||_p, ...) ||_q, the columns first.
    Source: thesis, section 4.3.

    Args:
        p: the norm of a column, at least 1; ``math.inf`` for the largest entry.
        q: the norm of the column norms.
    """
    require(min(p, q) >= 1, "norms must be at least 1", p=p, q=q)
    entries = _matrix(matrix)
    return float(np.linalg.norm(np.linalg.norm(entries, ord=p, axis=0), ord=q))


def token_norm(context: Any, form: Form = "corrected") -> float:
    """Return the largest norm of a token, B_X.

    The text often omits the transpose, and so refers to the largest column: a token of d ones has no column above 1,
    but norm sqrt(d).

    Formula: ||X^T||_{2,inf} = max_t ||x_t||; printed: ||X||_{2,inf}, the largest norm of a column.
    Source: thesis, section 4.4 (Corollary 4.9 has the transpose, Theorem 4.11 does not).

    Args:
        context: X, shape (T, d), one row per token.
    """
    require_form(form)
    entries = _matrix(context)
    return mixed_norm(entries.T if form == "corrected" else entries, 2, np.inf)


def row_norm_sum(matrix: Float[Any, "outputs inputs"]) -> float:
    """Return the sum of the norms of a matrix' rows: the (2,1)-norm that enters covers of x -> W x.

    Formula: ||W^T||_{2,1} = sum_i ||w_i||, over rows w_i.
    Source: thesis, Lemma 4.10.
    """
    return mixed_norm(_matrix(matrix).T, 2, 1)


def merged_query_key(query: Float[Any, "d k"], key: Float[Any, "d k"], form: Form = "corrected") -> np.ndarray:
    """Return the single matrix through which queries and keys enter the scores.

    The definition of the deep class prints W_K^T W_Q, of shape (k, k), which does not act on tokens.

    Formula: W_K W_Q^T, shape (d, d); printed: W_K^T W_Q.
    Source: thesis, section 4.4.3.

    Returns:
        float64 of shape (d, d), or (k, k) as printed.
    """
    require_form(form)
    asked, offered = _matrix(query), _matrix(key)
    require(
        asked.shape == offered.shape, "query and key must have the same shape", query=asked.shape, key=offered.shape
    )
    return np.asarray(offered @ asked.T if form == "corrected" else offered.T @ asked)


def project_to_ball(vectors: Float[Any, "*shape d"]) -> Float64[np.ndarray, "*shape d"]:
    """Return vectors along the last axis, those longer than 1 scaled to norm 1: the theory's layer norm.

    Distances never increase. The printed proof has (1 - alpha^2) where (1 - alpha)^2 is meant, and alpha is at most 1 /
    ||u||, not above it.

    Formula: v / max(1, ||v||).
    Source: thesis, section 4.4.3 and Lemma A.9.
    """
    v = np.asarray(vectors, float)
    return np.asarray(v / np.maximum(1, np.linalg.norm(v, axis=-1, keepdims=True)))


def _matrix(matrix: Any) -> np.ndarray:
    entries = np.asarray(matrix, float)
    require(entries.ndim == 2, "a matrix must have two axes", shape=entries.shape)
    return entries
