"""The minimal model of two attention layers, bilinear in its weights, and its population gradients for any chain.

Its loss is the margin loss, averaged over positions, where every hinge is active: then it is affine in the logits, and
L = const - sum_j sum_ml v_j W_ml T_jml with a tensor T of the distribution of chains, of shape (length, k, k).
Gradients are given as the direction of descent, -dL/dW and -dL/dv. There are at least two symbols and two tokens;
arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from elegans.calculators.domain import AtMost, Side, require
from elegans.studies.induction_heads.theory.strategies import sequences
from elegans.tasks.chains import stationary_distribution


class MinimalWeights(NamedTuple):
    """The minimal model's weights, or directions of descent.

    Args:
        pair: W, which compares the current token with earlier ones, shape (k, k).
        position: v, the weight of each distance, shape (length,).
    """

    pair: Float[np.ndarray, "k k"]
    position: Float[np.ndarray, " length"]


def minimal_logits(weights: MinimalWeights, tokens: Any) -> Float[np.ndarray, "count length k"]:
    """Return the logits of the minimal model.

    Formula: f_{p,i} = sum_{t'=1}^{p} [x_{t'} = i] sum_{s=1}^{t'} v_{t'-s+1} W[x_p, x_s].
    Source: thesis, equations 8.8 and E.2.
    """
    pair, position = np.asarray(weights.pair, float), np.asarray(weights.position, float)
    seen = sequences(tokens, len(pair))
    length = seen.shape[1]
    require(length <= len(position), "sequences must not be longer than v", length=length, known=len(position))
    symbols = np.eye(len(pair))[seen]
    distance = np.arange(length)[:, None] - np.arange(length)[None, :]
    toeplitz = np.where(distance >= 0, position[np.maximum(distance, 0)], 0)
    gathered = np.einsum("cpl,cpi->cpli", toeplitz @ symbols, symbols).cumsum(axis=1)
    return np.asarray(np.einsum("cpl,cpli->cpi", pair[seen], gathered))


def minimal_bigram(k: Side, length: Side) -> MinimalWeights:
    """Return weights that make the minimal model count bigrams exactly.

    Formula: v = delta_2, W = I: f_{p,i} = sum_{t'=2}^{p} 1[x_{t'} = i] 1[x_{t'-1} = x_p].
    Source: thesis, Fact 8.3.
    """
    _require_sizes(k, length)
    return MinimalWeights(np.eye(k), np.eye(length)[1])


def minimal_unigram(k: Side, length: Side) -> MinimalWeights:
    """Return weights that make the minimal model count single tokens exactly.

    Formula: v = delta_1, W = 1 1^T: f_{p,i} = sum_{t'=1}^{p} [x_{t'} = i].
    Source: thesis, Fact 8.3.
    """
    _require_sizes(k, length)
    return MinimalWeights(np.ones((k, k)), np.eye(length)[0])


def minimal_constant(k: Side, length: Side, pair: float, position: float) -> MinimalWeights:
    """Return the constant weights at the start of training.

    Formula: W = w 1 1^T, v = c 1.
    Source: thesis, Lemma 8.4 (w = c) and Proposition E.3.
    """
    _require_sizes(k, length)
    return MinimalWeights(np.full((k, k), float(pair)), np.full(length, float(position)))


def chain_tensor(chains: Any, length: Annotated[int, AtMost(10_000)]) -> Float[np.ndarray, "*chains length k k"]:
    """Return the tensor of the minimal model's loss for given chains of any number of symbols, with a stationary start.

    Averaged over a distribution of chains it gives the population loss, which is linear in it.

    Formula: T_jml = (1/t) sum_i C_{t-j+1}[m,i] pi_l (P^{j-1})_li with
        C_n[m,i] = (P_mi - 1/k) sum_{d=0}^{n-1} (n-d) (P^d)_im, so L = const - sum v_j W_ml T_jml.
    Source: derived here from the thesis' equation E.13, which is the case v = c 1.

    Args:
        chains: transition matrices P, irreducible, shape (..., k, k).
    """
    rows = np.asarray(chains, float)
    square = rows.ndim >= 2 and rows.shape[-1] == rows.shape[-2]
    require(square, "chains must be of shape (..., k, k)", shape=rows.shape)
    sums = rows.sum(axis=-1)
    stochastic = bool(rows.min() >= 0 and np.abs(sums - 1).max() < 1e-6)
    require(stochastic, "rows of a chain must be probabilities that sum to 1", least=rows.min(), sums=sums)
    k = rows.shape[-1]
    _require_sizes(k, length)
    start = stationary_distribution(rows.reshape(-1, k, k)).reshape(*rows.shape[:-1])[..., :, None]
    centred, power = rows - 1 / k, np.broadcast_to(np.eye(k), rows.shape)
    inner = total = np.zeros_like(rows)
    back, ahead = [], []
    for _ in range(length):
        inner = inner + centred * np.swapaxes(power, -1, -2)
        total = total + inner
        ahead.append(total)
        back.append(start * power)
        power = power @ rows
    pairs = zip(reversed(ahead), back, strict=True)
    return np.stack([total @ np.swapaxes(earlier, -1, -2) for total, earlier in pairs], axis=-3) / length


def minimal_gradients(tensor: Any, weights: MinimalWeights) -> MinimalWeights:
    """Return the directions of descent of the minimal model's weights.

    Formula: -dL/dW_ml = sum_j v_j T_jml; -dL/dv_j = sum_ml W_ml T_jml. So sum_j v_j (-dL/dv_j) = sum W_ml (-dL/dW_ml).
    Source: thesis, equations E.13 and E.26 to E.33, for any weights.
    """
    terms = np.asarray(tensor, float)
    shapes = (len(weights.position), *weights.pair.shape)
    require(terms.shape == shapes, "the tensor must be of shape (length, k, k)", tensor=terms.shape, weights=shapes)
    return MinimalWeights(
        np.tensordot(weights.position, terms, axes=1), np.tensordot(terms, weights.pair, axes=((1, 2), (0, 1)))
    )


def minimal_step(
    tensor: Any, weights: MinimalWeights, rate: float, *, pair_decay: float = 0.0, position_decay: float = 0.0
) -> MinimalWeights:
    """Return the weights after one step of gradient descent on the population loss.

    Formula: W' = (1 - decay) W - rate dL/dW, v' likewise, both gradients at (W, v).
    Source: thesis, equations E.18, E.28, E.37 and E.53.

    Args:
        pair_decay: the weight decay of W in this step, as a share.
        position_decay: the weight decay of v in this step, as a share.
    """
    descent = minimal_gradients(tensor, weights)
    return MinimalWeights(
        (1 - pair_decay) * weights.pair + rate * descent.pair,
        (1 - position_decay) * weights.position + rate * descent.position,
    )


def _require_sizes(k: int, length: int) -> None:
    require(k >= 2, "k must be at least 2", k=k)
    require(length >= 2, "length must be at least 2", length=length)
