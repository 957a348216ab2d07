"""How far the output of attention blocks moves when weights or inputs do: the steps of the deep capacity bound.

Blocks are g' = Pi(act(Pi(f(g))) W_C), row by row, with f(Z) = softmax(Z W_Q (Z W_K)^T) Z W_V, Pi the projection onto
the unit ball and no residual path. All distances are for the token that moves most.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    block: the weights.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64

from elegans.calculators.domain import require
from elegans.studies.variable_creation.theory.normalisation import softmax
from elegans.studies.variable_creation.theory.norms import project_to_ball, token_norm


class Block(NamedTuple):
    """The weights of one block: W_Q, W_K, W_V of shape (d, k) and W_C of shape (k, d)."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    output: np.ndarray

    @property
    def merged(self) -> np.ndarray:
        """W_Q W_K^T, shape (d, d)."""
        return np.asarray(self.query @ self.key.T)


def attention_output(tokens: Float[Any, "T d"], block: Block) -> Float64[np.ndarray, "T k"]:
    """Return every token's output of attention over all tokens.

    Formula: f(Z) = RowSoftmax(Z W_Q (Z W_K)^T) Z W_V.
    Source: thesis, section 4.4.3.
    """
    z = np.asarray(tokens, float)
    return np.asarray(softmax(z @ block.merged @ z.T) @ z @ block.value)


def attention_block(tokens: Float[Any, "T d"], block: Block) -> Float64[np.ndarray, "T d"]:
    """Return the output of a block with the activation relu.

    Formula: Pi(relu(Pi(f(Z))) W_C), Pi row by row.
    Source: thesis, section 4.4.3.
    """
    return project_to_ball(np.maximum(project_to_ball(attention_output(tokens, block)), 0) @ block.output)


def weight_change_bound(tokens: Any, block: Block, other: Block) -> float:
    """Return a bound on how far attention moves when its weights change.

    Formula: 2 ||W_V|| ||(W_Q W_K^T - W'_Q W'_K^T) Z^T||_{2,inf} + ||(W_V - W'_V)^T Z^T||_{2,inf}.
    Source: thesis, Lemma A.13.

    Args:
        tokens: Z, shape (T, d), rows of norm at most 1.
    """
    z = _short(tokens, "Lemma A.13")
    moved = token_norm(z @ (block.merged - other.merged).T)
    return 2 * _spectral(block.value) * moved + token_norm(z @ (block.value - other.value))


def input_change_bound(tokens: Any, others: Any, block: Block) -> float:
    """Return a bound on how far attention moves when its input changes.

    Formula: ||W_V|| (1 + 4 ||W_K W_Q^T||) ||(Z - Z')^T||_{2,inf}.
    Source: thesis, Lemma A.14.

    Args:
        tokens: Z, shape (T, d), rows of norm at most 1.
        others: Z', the same.
    """
    z, moved = _short(tokens, "Lemma A.14"), _short(others, "Lemma A.14")
    return _spectral(block.value) * (1 + 4 * _spectral(block.merged)) * token_norm(z - moved)


def block_change_bound(tokens: Any, others: Any, block: Block, other: Block) -> float:
    """Return a bound on how far a block's output moves when its input and its weights change; the activation is relu.

    Formula: B_C B_V (1 + 4 B_QK) ||(g - g')^T|| + ||(W_C - W'_C)^T act(Pi(f(g'; W')))^T|| + 2 B_C B_V ||(W_Q W_K^T -
        W'_Q W'_K^T) g'^T|| + B_C ||(W_V - W'_V)^T g'^T||, all ||.||_{2,inf}, B spectral norms.
    Source: thesis, Lemma A.15.

    Args:
        tokens: g, shape (T, d), rows of norm at most 1.
        others: g', the same.
    """
    moved = _short(others, "Lemma A.15")
    hidden = np.maximum(project_to_ball(attention_output(moved, other)), 0)
    outer = _spectral(block.output)
    own = token_norm(hidden @ (block.output - other.output))
    return outer * (input_change_bound(tokens, others, block) + weight_change_bound(others, block, other)) + own


def readout_change_bound(weight: Float[Any, " d"], other: Any, token: Float[Any, " d"], moved: Any) -> float:
    """Return a bound on how far the scalar read-out moves.

    Formula: ||w|| ||g - g'|| + |(w - w') . g'|, g being the last block's output at [CLS].
    Source: thesis, Lemma A.16.

    Args:
        other: w'.
        moved: g'.
    """
    w, v = np.asarray(weight, float), np.asarray(other, float)
    g, h = np.asarray(token, float), np.asarray(moved, float)
    return float(np.linalg.norm(w) * np.linalg.norm(g - h) + abs((w - v) @ h))


def _short(tokens: Any, source: str) -> np.ndarray:
    z = np.asarray(tokens, float)
    largest = token_norm(z)
    require(largest <= 1 + 1e-12, f"tokens must have norm at most 1 ({source})", largest=largest)
    return z


def _spectral(matrix: np.ndarray) -> float:
    return float(np.linalg.norm(matrix, 2))
