"""What can be predicted in context: uniform guesses, n-gram frequencies, Bayes' rule, and oracles that know the chain.

Strategies take tokens of shape (count, length), numbered from 0, of ``k`` symbols, and return the distribution of the
next token at every position, which depends on the tokens up to it. Oracles take ``chains``: the next symbol's
distribution after each context, shape (count, contexts, k). Arguments outside a function's hypotheses or domain raise
``TheoryError``.
"""

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import rel_entr

from elegans.calculators.domain import AtMost, Side, require, whole_array
from elegans.studies.induction_heads.theory.quadrature import unit_rule
from elegans.tasks.chains import context_codes, stationary_distribution, transitions, true_rows

BLOCK = 4096
"""The number of posteriors computed at a time."""


def kl_divergence(true: Any, predicted: Any) -> np.ndarray:
    """Return Kullback-Leibler divergences of distributions along the last axis, which broadcast, in nats.

    Formula: KL(p || q) = sum_i p_i ln(p_i / q_i); infinite where q_i = 0 < p_i.
    Source: Kullback and Leibler, "On information and sufficiency" (1951).
    """
    p, q = np.asarray(true, float), np.asarray(predicted, float)
    require(not ((p < 0).any() or (q < 0).any()), "probabilities must be at least 0", true=p, predicted=q)
    return np.asarray(rel_entr(p, q).sum(axis=-1))


def ngram_counts(tokens: Any, k: Side, order: Annotated[int, AtMost(100)]) -> Int[np.ndarray, "count length k"]:
    """Return how often each symbol has followed the last order - 1 tokens, at every position.

    Formula: counts_p(i) = #{q < p : x_(q-m+1..q) = x_(p-m+1..p), x_(q+1) = i} with m = order - 1; of order 1, how often
        i is among x_1..x_p. Where fewer than m tokens have been seen, 0.
    Source: thesis, section 8.2.2; of order 2 they are the c_ij for i = x_p.

    Args:
        order: n of the n-gram, from 1 to the length.
    """
    seen = sequences(tokens, k)
    (count, length), width = seen.shape, order - 1
    require(1 <= order <= length, "the order of an n-gram must lie in 1..length", order=order, length=length)
    contexts, every = np.zeros((count, length), np.int64), np.arange(count)
    if width:
        contexts[:, width - 1 :] = context_codes(seen, k, width)
    table, found = np.zeros((count, k**width, k), np.int64), np.zeros((count, length, k), np.int64)
    for place in range(length):
        if place >= width:
            table[every, contexts[:, place - 1], seen[:, place]] += 1
        if place >= width - 1:
            found[:, place] = table[every, contexts[:, place]]
    return found


def ngram_strategy(
    tokens: Any, k: Side, order: Annotated[int, AtMost(100)], concentration: float | tuple[float, ...] = 1.0
) -> Float[np.ndarray, "count length k"]:
    """Return the prediction from smoothed n-gram frequencies: uniform, unigram, bigram, trigram for orders 0 to 3.

    It is the posterior mean under independent Dirichlet rows, with a first context whose distribution does not depend
    on the chain. No simple closed form is known for the posterior of single tokens of Markov chains; the smoothed
    unigram is the working definition.

    Formula: (c_i + alpha_i) / (N + sum alpha), with c = ``ngram_counts`` and N = sum c; 1/k of order 0.
    Source: thesis, equations 8.1 to 8.3, which print a leading k in the Dirichlet density, and N for the number N_i of
        transitions out of the current symbol; the denominator here makes probabilities sum to 1.

    Args:
        order: n of the n-gram, from 0 to the length.
        concentration: alpha, one number for all symbols or one for each.
    """
    seen, alpha = sequences(tokens, k), np.broadcast_to(np.asarray(concentration, float), (k,))
    require(bool((alpha > 0).all()), "the concentration must be positive", concentration=concentration)
    if order == 0:
        return np.full((*seen.shape, k), 1 / k)
    counts = ngram_counts(seen, k, order)
    return np.asarray((counts + alpha) / (counts.sum(axis=-1, keepdims=True) + alpha.sum()))


def chain_strategies(
    tokens: Any, k: Side, order: Annotated[int, AtMost(100)] = 2
) -> dict[str, Float[np.ndarray, "count length k"]]:
    """Return the predictions of n-gram strategies by name: uniform, unigram, bigram, trigram, 4-gram, ….

    Formula: ``ngram_strategy`` of orders 0, 1, …, order.
    Source: thesis, sections 8.2.2 and 8.3.3.

    Args:
        order: the largest n.
    """
    named = ("uniform", "unigram", "bigram", "trigram")
    require(order >= 0, "the order of strategies must be at least 0", order=order)
    orders = range(order + 1)
    return {named[n] if n < len(named) else f"{n}-gram": ngram_strategy(tokens, k, n) for n in orders}


def bayes_strategy(tokens: Any, nodes: Annotated[int, AtMost(1_000)] = 128) -> Float[np.ndarray, "count length 2"]:
    """Return Bayes' prediction for two symbols, flat rows and a stationary start.

    Add-one bigrams only approach it: they ignore what the first token says about the chain.

    Formula: E[P_(x_p, i) | x], the posterior's density on (a, b) in (0, 1)^2 being proportional to
        pi_{x_1} a^c11 (1-a)^c12 b^c22 (1-b)^c21 with pi_1 = (1-b) / (2-a-b), by Gauss and Legendre's rule.
    Source: thesis, Remark 8.1.
    """
    seen = sequences(tokens, 2)
    count, length = seen.shape
    moves = np.zeros((count, length, 4), np.int64)
    place = np.arange(1, length)
    moves[np.arange(count)[:, None], place, 2 * seen[:, :-1] + seen[:, 1:]] = 1
    totals = moves.cumsum(axis=1)
    first = np.broadcast_to(seen[:, :1, None], (count, length, 1))
    rows = np.concatenate([first, totals], axis=2).reshape(-1, 5)
    stays = np.concatenate([_posterior_means(rows[at : at + BLOCK], nodes) for at in range(0, len(rows), BLOCK)])
    stay = np.take_along_axis(stays.reshape(count, length, 2), seen[:, :, None], axis=2)[:, :, 0]
    zero = np.where(seen == 0, stay, 1 - stay)
    return np.asarray(np.stack([zero, 1 - zero], axis=2))


def _posterior_means(rows: np.ndarray, nodes: int) -> np.ndarray:
    """Return the posterior means of a and b for rows of the first token and c11, c12, c21, c22."""
    stay, weight = unit_rule(nodes)
    first, (kept0, left0, left1, kept1) = rows[:, 0], rows[:, 1:].T
    logs = np.log(stay), np.log1p(-stay)
    along_a, along_b = (
        np.exp(exponent - exponent.max(axis=1, keepdims=True)) * weight
        for exponent in (
            kept0[:, None] * logs[0] + left0[:, None] * logs[1],
            kept1[:, None] * logs[0] + left1[:, None] * logs[1],
        )
    )
    leave = 1 - stay
    share = leave[None, :] / (leave[:, None] + leave[None, :])  # pi_1 at (a, b); pi_2 = 1 - pi_1

    def against(density: np.ndarray) -> np.ndarray:
        found = density @ share
        return np.asarray(np.where(first[:, None] == 0, found, density.sum(axis=1, keepdims=True) - found))

    over_b = against(along_a)
    total = (over_b * along_b).sum(axis=1)
    mean_a = (against(along_a * stay) * along_b).sum(axis=1)
    mean_b = (over_b * along_b * stay).sum(axis=1)
    return np.asarray(np.stack([mean_a, mean_b], axis=1) / total[:, None])


def row_oracle(chains: Any, tokens: Any) -> Float[np.ndarray, "count length k"]:
    """Return the true distribution of the next token: the prediction of an oracle that knows the chain.

    Formula: P_(x_p, .); for n-grams, before a context is complete, the prediction implied by the stationary
        distribution of contexts.
    Source: thesis, section 8.2.1.
    """
    rows = np.asarray(chains, float)
    return np.asarray(true_rows(rows, stationary_distribution(transitions(rows)), sequences(tokens, rows.shape[2])))


def stationary_oracle(chains: Any) -> Float[np.ndarray, "count k"]:
    """Return the stationary distribution of symbols: the limit of the unigram strategy in long contexts.

    Formula: pi with pi P = pi; for n-grams, its marginal on the last symbol.
    Source: thesis, section 8.2.2.
    """
    rows = np.asarray(chains, float)
    return np.asarray(stationary_distribution(transitions(rows)).reshape(len(rows), -1, rows.shape[2]).sum(axis=1))


def sequences(tokens: Any, k: int) -> Int[np.ndarray, "count length"]:
    """Return tokens as int64, refusing anything but sequences of symbols 0, …, k - 1."""
    seen = whole_array("tokens", tokens)
    require(seen.ndim == 2 and seen.shape[1] > 0, "tokens must be of shape (count, length)", shape=seen.shape)
    require(k >= 2, "k must be at least 2", k=k)
    require(bool(((seen >= 0) & (seen < k)).all()), "tokens must be whole numbers in 0..k-1", k=k)
    return seen
