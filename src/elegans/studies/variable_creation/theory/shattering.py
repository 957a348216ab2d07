"""One attention head with unbounded weights shatters log2 T sequences: capacity cannot be independent of T.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from elegans.calculators.domain import require
from elegans.studies.variable_creation.theory.normalisation import softmax

LARGEST_CONTEXT = 1024
"""The largest T at which sequences and labelings are written out: log2(T) T^2 weights."""


class Shattering(NamedTuple):
    """Sequences, the queries that label them in every way, and the heads' outputs.

    Args:
        contexts: X^(i), shape (inputs, T, 3), inputs = floor(log2 T).
        queries: w_QK^(c) for each chosen position c, shape (T, 3).
        value: w_V, shape (3,).
        weights: the weight of the chosen position, shape (T,).
        outputs: f(X^(i); c), shape (T, inputs).
    """

    contexts: Float64[np.ndarray, "inputs T 3"]
    queries: Float64[np.ndarray, "T 3"]
    value: Float64[np.ndarray, " 3"]
    weights: Float64[np.ndarray, " T"]
    outputs: Float64[np.ndarray, "T inputs"]

    @property
    def labelings(self) -> Bool[np.ndarray, "T inputs"]:
        """Which outputs lie above the threshold 1/2."""
        return np.asarray(self.outputs > 0.5)


def attention_pdim_bound(T: int) -> int:
    """Return a lower bound on the pseudo-dimension of one attention head on tokens of dimension 3.

    The source allows one threshold for all inputs; the usual pseudo-dimension is no smaller.

    Formula: Pdim >= floor(log2 T).
    Source: thesis, Proposition 4.8.

    Args:
        T: the context length, at least 2.
    """
    _require_context(T)
    return T.bit_length() - 1


def attention_shattering(T: int) -> Shattering:
    """Return floor(log2 T) sequences that one head labels in every way, by where it attends.

    The source takes T to be a power of 2. Positions on a circle work for any T: the first 2^m of them, with
    m = floor(log2 T), give every labeling, and the rest repeat some.

    Formula: x_t^(i) = (cos(2 pi t/T), sin(2 pi t/T), bit i of t), t from 0; w_QK^(c) = T^2 (cos(2 pi c/T),
        sin(2 pi c/T), 0); w_V = (0, 0, 1); the weight of c is at least 1 / (1 + sqrt(pi/8)) = 0.615, so
        f(X^(i); c) > 1/2 exactly where bit i of c is 1.
    Source: thesis, Proposition 4.8 and its proof; for T other than powers of 2 derived here.

    Args:
        T: the context length, from 2 to 1024.
    """
    _require_context(T)
    require(T <= LARGEST_CONTEXT, f"T must be at most {LARGEST_CONTEXT} to be written out", T=T)
    places = np.arange(T)
    circle = np.stack([np.cos(2 * np.pi * places / T), np.sin(2 * np.pi * places / T)], axis=1)
    bits = (places[None, :] >> np.arange(attention_pdim_bound(T))[:, None]) & 1
    contexts = np.concatenate([np.broadcast_to(circle, (len(bits), T, 2)), bits[:, :, None]], axis=2)
    queries = np.column_stack([T**2 * circle, np.zeros(T)])
    value = np.array([0.0, 0.0, 1.0])
    weights = softmax(queries @ contexts[0].T)
    return Shattering(contexts, queries, value, np.diag(weights).copy(), weights @ (contexts @ value).T)


def _require_context(T: int) -> None:
    require(T >= 2, "T must be at least 2 (Proposition 4.8)", T=T)
