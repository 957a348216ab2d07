"""How far trained attention is from the construction: where it goes, with what gap between scores, at what norms.

These are functions of plain arrays. Places are the T positions and, last, the class token, as in
``ParityTransformer.attention``.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    support: the s coordinates.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64

from elegans.calculators.domain import coordinates, require
from elegans.studies.variable_creation.theory.norms import row_norm_sum


class AttentionShare(NamedTuple):
    """Where the class token's attention goes; all arrays have the weights' shape without its last axis.

    Args:
        support: the mass on the support.
        class_token: the mass on the class token itself.
        others: the mass on all other positions.
        mean_other: the mean weight of one of them; equal weights would be 1 / (T + 1).
        largest_other: the largest weight of one of them.
        distance: the l1 distance from equal weights on the support and none elsewhere, from 0 to 2.
    """

    support: Float64[np.ndarray, "*shape"]
    class_token: Float64[np.ndarray, "*shape"]
    others: Float64[np.ndarray, "*shape"]
    mean_other: Float64[np.ndarray, "*shape"]
    largest_other: Float64[np.ndarray, "*shape"]
    distance: Float64[np.ndarray, "*shape"]


class AttentionNorms(NamedTuple):
    """Norms of each head's weights, each of shape (heads,).

    Args:
        query: ||W_Q||_F.
        key: ||W_K||_F.
        value: ||W_V||_F.
        output: ||W_C||_F.
        merged: the spectral norm of W_Q W_K^T.
        merged_rows: ||(W_Q W_K^T)^T||_{2,1}: ``merged_rows`` of ``head_capacity``.
        mapped: the spectral norm of W_V W_C: its ``value``.
        mapped_rows: ||W_V W_C||_{2,1}: its ``value_rows``.
    """

    query: Float64[np.ndarray, " heads"]
    key: Float64[np.ndarray, " heads"]
    value: Float64[np.ndarray, " heads"]
    output: Float64[np.ndarray, " heads"]
    merged: Float64[np.ndarray, " heads"]
    merged_rows: Float64[np.ndarray, " heads"]
    mapped: Float64[np.ndarray, " heads"]
    mapped_rows: Float64[np.ndarray, " heads"]


def attention_share(weights: Any, support: Sequence[int]) -> AttentionShare:
    """Return where attention goes.

    Formula: sum_I p_t; p_{T+1}; sum_{t not in I} p_t; sum_I |p_t - 1/s| + sum_{t not in I} p_t.
    Source: derived here; the thesis shows the weights themselves (Figure 4.3, right).

    Args:
        weights: p, shape (..., T + 1), the class token last.
    """
    p = np.asarray(weights, float)
    places = list(support)
    T = p.shape[-1] - 1
    coordinates("support", places, T)
    require(len(places) > 0, "s must be at least 1", s=len(places))
    chosen, off = p[..., places], np.delete(p, [*places, T], axis=-1)
    others = off.sum(axis=-1)
    distance = np.abs(chosen - 1 / len(places)).sum(axis=-1) + others + p[..., T]
    mean = others / max(1, T - len(places))
    return AttentionShare(chosen.sum(axis=-1), p[..., T], others, mean, off.max(axis=-1, initial=0.0), distance)


def score_gap(scores: Any, support: Sequence[int]) -> np.ndarray:
    """Return by how much every score on the support exceeds all others: R of the construction.

    Formula: min_I z_t - max_{t not in I} z_t, the class token's own score being one of the others.
    Source: thesis, Lemma A.24 (its R).

    Args:
        scores: z, shape (..., T + 1), the class token last.

    Returns:
        float64 of shape (...), negative where another place exceeds one of the support.
    """
    z = np.asarray(scores, float)
    places = list(support)
    coordinates("support", places, z.shape[-1] - 1)
    require(len(places) > 0, "s must be at least 1", s=len(places))
    return np.asarray(z[..., places].min(axis=-1) - np.delete(z, places, axis=-1).max(axis=-1))


def implied_score_gap(mass: float, T: int, s: int) -> float:
    """Return the gap between scores at which the construction would have a given mass on the support.

    Formula: R = log(M (T + 1 - s) / (s (1 - M))), the inverse of M = s e^R / (s e^R + T + 1 - s).
    Source: derived here from the thesis' Lemma A.19.

    Args:
        mass: M, between 0 and 1.
        T: the number of bits.
        s: the size of the support, from 1 to T.
    """
    require(0 < mass < 1, "mass must lie between 0 and 1", mass=mass)
    require(1 <= s <= T, "s must lie in 1..T (Lemma A.19)", s=s, T=T)
    return math.log(mass * (T + 1 - s) / (s * (1 - mass)))


def attention_norms(
    query: Float[Any, "heads d k"],
    key: Float[Any, "heads d k"],
    value: Float[Any, "heads d k"],
    output: Float[Any, "heads k d"],
) -> AttentionNorms:
    """Return the norms of heads' weights, constructed or trained.

    Formula: ||.||_F of all four; of W_QK = W_Q W_K^T and of W_V W_C, which act as x_tau^T W_QK x and (W_V W_C)^T x, the
        spectral norm, ||W_QK^T||_{2,1} (its rows) and ||W_V W_C||_{2,1} (its columns).
    Source: thesis, section 4.3 and appendix A.2.2.
    """
    q, k, v, c = (np.asarray(part, float) for part in (query, key, value, output))
    merged, mapped = np.einsum("hak,hbk->hab", q, k), v @ c
    frobenius = {
        name: np.linalg.norm(part, axis=(1, 2))
        for name, part in zip(("query", "key", "value", "output"), (q, k, v, c), strict=True)
    }
    return AttentionNorms(
        **frobenius,
        merged=np.linalg.norm(merged, 2, axis=(1, 2)),
        merged_rows=np.array([row_norm_sum(head) for head in merged]),
        mapped=np.linalg.norm(mapped, 2, axis=(1, 2)),
        mapped_rows=np.array([row_norm_sum(head.T) for head in mapped]),
    )
