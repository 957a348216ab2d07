"""Averages over two-state chains with flat rows, and the losses of the simplest strategies on them.

A chain of two symbols is P = ((a, 1-a), (1-b, b)); its eigenvalue is lambda = a + b - 1 and its stationary
distribution pi = (1-b, 1-a) / (2-a-b). Integrands are singular only where 1 - a and 1 - b both go to 0, and smooth in
their ratio.

``nodes`` is the number of nodes in each direction; ``k``, the number of symbols, is at least 2. Arguments outside a
function's hypotheses or domain raise ``TheoryError``.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import comb, entr

from elegans.calculators.domain import AtMost, Listed, require


@lru_cache(maxsize=16)
def unit_rule(nodes: int) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Return nodes and weights of Gauss and Legendre's rule on (0, 1)."""
    require(nodes >= 1, "nodes must be at least 1", nodes=nodes)
    places, weights = np.polynomial.legendre.leggauss(nodes)
    return (places + 1) / 2, weights / 2


def flat_rule(nodes: Annotated[int, AtMost(500)] = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a rule for averages over a and b, independent and uniform on (0, 1).

    Each half of the square is mapped so that its corner a = b = 1 becomes an edge; 40 nodes give the constants to
    machine precision, and 60 nodes give gradients for sequences of up to 1000 tokens to nine digits.

    Formula: the integral of f over 1 - a = r, 1 - b = r s and over the same with a and b exchanged, each with the
        weight r dr ds on (0, 1)^2, by Gauss and Legendre's rule in r and s.
    Source: Duffy, "Quadrature over a pyramid or cube of integrands with a singularity at a vertex" (1982).

    Returns:
        1 - a, 1 - b and weights, float64 of shape (2 nodes^2,): the differences are computed without cancellation.
    """
    place, weight = unit_rule(nodes)
    larger, ratio = (part.ravel() for part in np.meshgrid(place, place, indexing="ij"))
    weights = (weight[:, None] * weight[None, :]).ravel() * larger
    smaller = larger * ratio
    return np.concatenate([larger, smaller]), np.concatenate([smaller, larger]), np.tile(weights, 2)


def flat_average(value: Callable[..., Any], nodes: Annotated[int, AtMost(500)] = 60) -> np.ndarray:
    """Return the average of a function of a chain over flat rows of two symbols.

    Formula: the integral of f(1 - a, 1 - b) over a, b in (0, 1).
    Source: thesis, appendix E.1, where such averages are drawn; here by ``flat_rule``.

    Args:
        value: a function of the probabilities 1 - a and 1 - b of leaving a symbol, both of shape (nodes,), that returns
            an array whose first axis is theirs.
    """
    first, second, weights = flat_rule(nodes)
    return np.tensordot(weights, np.asarray(value(first, second)), axes=1)


class TwoStateLosses(NamedTuple):
    """Losses at the last token of chains with flat rows and a stationary start, in nats.

    Args:
        uniform: KL(true row, uniform).
        stationary: KL(true row, stationary distribution): the mutual information of successive tokens.
        entropy: of the next token, given the chain and the token.
    """

    uniform: float
    stationary: float
    entropy: float


def two_state_losses(nodes: Annotated[int, AtMost(500)] = 60) -> TwoStateLosses:
    """Return the losses of uniform guesses and of the stationary distribution on two-symbol chains with flat rows.

    The token at which the loss is taken follows the stationary distribution, so rows are weighted by their symbols'
    shares, and the uniform loss is not ``simplex_uniform_loss``.

    Formula: E[ln 2 - h], E[H(pi) - h], E[h] with h = sum_i pi_i H(P_i).
    Source: derived here, for the lines of the thesis' figures 8.1 and 8.3.
    """

    def entropies(leave_a: Any, leave_b: Any) -> Any:
        share = leave_b / (leave_a + leave_b)
        given = share * _entropy(leave_a) + (1 - share) * _entropy(leave_b)
        return np.stack([given, _entropy(share)], axis=1)

    given, alone = flat_average(entropies, nodes)
    return TwoStateLosses(float(math.log(2) - given), float(alone - given), float(given))


def simplex_uniform_loss(k: Listed) -> float:
    """Return the loss of uniform guesses on distributions that are uniform on the simplex.

    It holds for independent tokens, and for doubly stochastic chains of two symbols.

    Formula: ln k - (H_k - 1) with the harmonic number H_k.
    Source: derived here.
    """
    require(k >= 2, "k must be at least 2", k=k)
    return math.log(k) - sum(1 / i for i in range(2, k + 1))


def smoothed_unigram_loss(k: Listed, seen: Listed) -> float:
    """Return the exact loss of the add-one unigram on independent tokens from a distribution uniform on the simplex.

    Formula: k sum_{c=0}^{N} p(c) (-q ln q) - (H_k - 1) with q = (c + 1) / (N + k) and
        p(c) = C(N-c+k-2, k-2) / C(N+k-1, k-1).
    Source: derived here.

    Args:
        seen: the number N of tokens in the context.
    """
    require(k >= 2, "k must be at least 2", k=k)
    require(seen >= 0, "seen must be at least 0", seen=seen)
    count = np.arange(seen + 1)
    chance = comb(seen - count + k - 2, k - 2) / comb(seen + k - 1, k - 1)
    return float(k * (chance * entr((count + 1) / (seen + k))).sum() - sum(1 / i for i in range(2, k + 1)))


def _entropy(probability: Any) -> Any:
    return entr(probability) + entr(1 - probability)
