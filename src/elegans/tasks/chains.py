"""In-context learning of Markov chains: every example is a sequence from its own chain.

Source: thesis, chapter 8; Edelman, Edelman, Goel, Malach and Tsilivis, "The evolution of statistical induction heads:
in-context learning Markov chains" (NeurIPS 2024).
"""

from typing import Annotated, Any, Literal, Self

import numpy as np
from jaxtyping import Float, Float32, Int, Int32
from pydantic import Field, SerializeAsAny, model_validator

from elegans import random
from elegans.tasks.arrays import Indices
from elegans.tasks.base import Task
from elegans.tasks.priors import LARGEST_STATES, Dirichlet, Prior

SMALLEST_LEAVING = np.float32(2.0**-60)
"""A stand-in for a leaving probability of 0, so that a state that is never left has all of the stationary mass."""


class MarkovChains(Task):
    """Sequences of Markov chains or n-grams, each from its own chain: the class at a position is the next token.

    An input is a sequence of tokens, with a label at every position. Only the sequence itself reveals its chain.

    Counters: an example's chain, start and steps have their own keys, folded from the stream's by 0, 1 and 2; the
    step from position p uses the uniform at (i, p), and moves to the first symbol whose cumulative probability is above
    it. With a uniform start and a prior of exact multiples of 2^-24, all engines draw the same tokens; with a
    stationary start, or a prior that rounds, about one example in some millions differs.

    Args:
        k: the number of symbols, from 2 to 128.
        length: the number of tokens of an example; one more is drawn, as the label of the last.
        prior: the distribution of the chains, ``dirichlet:1`` by default: ``dirichlet:alpha``, ``unigram``,
            ``doubly-stochastic``, ``mixture:weight``, ``symmetric2:epsilon``, ``ngram:n``.
        start: whether the first n - 1 tokens are drawn from the chain's ``stationary`` distribution or ``uniform``.
    """

    k: Annotated[int, Field(ge=2, le=LARGEST_STATES)] = 2
    length: Annotated[int, Field(ge=1, le=65536)] = 100
    prior: SerializeAsAny[Prior] = Dirichlet()
    start: Literal["stationary", "uniform"] = "stationary"

    @model_validator(mode="after")
    def _prior_fits(self) -> Self:
        self.prior.check(self.k)
        if self.prior.order > self.length:
            rule = "the order of the chains must be at most the length"
            raise ValueError(f"{rule}: order={self.prior.order} of {self.prior.label()}, length={self.length}")
        return self

    @property
    def input_size(self) -> int:
        return self.length

    @property
    def classes(self) -> int:
        return self.k

    @property
    def symbols(self) -> int:
        return self.k

    def examples(
        self, hidden: Any, key: random.Key, index: Indices
    ) -> tuple[Int32[Any, "count length"], Int32[Any, "count length"]]:
        """Return sequences of tokens (count, length), and the next token at every position (count, length)."""
        tokens = self._tokens(self.chains(key, index), key, index)
        return tokens[:, :-1], tokens[:, 1:]

    def chains(self, key: random.Key, index: Indices) -> Float32[Any, "count contexts k"]:
        """Return the chains of examples: the next symbol's distribution after each of the k^(order - 1) contexts.

        A context's number has its symbols as digits in base k, the oldest being the highest.
        """
        return self.prior.rows(key.fold(0), index, self.k)

    def conditionals(self, hidden: Any, key: random.Key, index: Indices) -> Float32[Any, "count length k"]:
        """Return the true distribution of the next token at every position, given the chain and the tokens so far."""
        chains = self.chains(key, index)
        return true_rows(chains, self._start(chains), self._tokens(chains, key, index)[:, :-1])

    def _start(self, chains: Any) -> Any:
        """Return the distribution of the first context, shape (count, contexts)."""
        if self.start == "stationary":
            return stationary_distribution(transitions(chains))
        return chains[:, :, 0] * 0 + np.float32(1 / chains.shape[1])

    def _tokens(self, chains: Any, key: random.Key, index: Any) -> Any:
        xp, width = chains.__array_namespace__(), self.prior.order - 1
        steps = self.length + 2 - width
        if self.start == "stationary":
            first = inverse(self._start(chains), random.uniform(key.fold(1), index))
        else:
            first = random.integers(key.fold(1), index, bound=np.uint32(chains.shape[1])).astype(np.int32)
        positions = np.arange(steps, dtype=np.uint32)[None, :]
        uniforms = random.uniform(key.fold(2), index[:, None], lane=positions)
        symbols = inverse(chains[:, None], uniforms[:, :, None])
        context = np.arange(chains.shape[1], dtype=np.int32)
        states = walk((context * self.k) % chains.shape[1] + symbols, first)
        digits = self.k ** np.arange(width - 1, 0, -1)
        opening = (first[:, None] // digits.astype(np.int32)) % self.k
        return xp.concatenate([opening, states % self.k], axis=1).astype(np.int32)


def inverse(rows: Float[Any, "*#shape symbols"], uniforms: Float[Any, "*#shape"]) -> Int32[Any, "..."]:
    """Return the first symbol whose cumulative probability is above a uniform."""
    total = rows[..., 0]
    symbol = (uniforms >= total).astype(np.int8)
    for column in range(1, rows.shape[-1] - 1):
        total = total + rows[..., column]
        symbol = symbol + (uniforms >= total)
    return symbol.astype(np.int32)


def walk(maps: Int[Any, "count steps states"], first: Int[Any, " count"]) -> Int[Any, "count steps"]:
    """Return the states of walks before every step, in the type of the maps; the last map is not applied.

    Maps are composed over two steps, four steps and so on; then states are computed from the coarsest level to the
    finest. This takes twice the work of single steps, in 2 log2(steps) operations on whole arrays.

    Args:
        maps: the next state of every state at each step.
        first: the states before the first step.
    """
    xp, steps = maps.__array_namespace__(), maps.shape[1]
    levels = [maps]
    while levels[-1].shape[1] > 1:
        finer = levels[-1]
        pairs = finer.shape[1] // 2
        composed = xp.take_along_axis(finer[:, 1 : 2 * pairs : 2], finer[:, 0 : 2 * pairs : 2], axis=2)
        levels.append(xp.concatenate([composed, finer[:, 2 * pairs :]], axis=1))
    states = first[:, None]
    for finer in reversed(levels[:-1]):
        pairs = finer.shape[1] // 2
        before = states[:, :pairs]
        between = xp.take_along_axis(finer[:, 0 : 2 * pairs : 2], before[:, :, None], axis=2)[:, :, 0]
        merged = xp.stack([before, between], axis=2).reshape(len(before), 2 * pairs)
        states = xp.concatenate([merged, states[:, pairs:]], axis=1)
    return states[:, :steps]


def transitions(chains: Float[Any, "count contexts k"]) -> Float[Any, "count contexts contexts"]:
    """Return the transition matrices of contexts; each transition drops the oldest symbol and adds a new one."""
    contexts, k = chains.shape[1:]
    context = np.arange(contexts)
    follows = context[None, :] // k == context[:, None] % (contexts // k)
    return chains[:, :, context % k] * follows.astype(np.float32)


def stationary_distribution(matrix: Float[Any, "count states states"]) -> Float[Any, "count states"]:
    """Return the stationary distributions of Markov chains by elimination without subtractions.

    States are eliminated from the last to the first. Every quantity is a sum of products of probabilities, so each
    entry is accurate up to a few roundings, even if eigenvalues are close to 1 and -1. The diagonal is ignored, and a
    state that is never left has all of the mass.

    Source: Grassmann, Taksar and Heyman, "Regenerative analysis and steady state distributions for Markov chains"
    (1985).
    """
    xp, shares = matrix.__array_namespace__(), []
    while matrix.shape[1] > 1:
        last = matrix.shape[1] - 1
        leaving = xp.maximum(matrix[:, last, :last].sum(axis=1), SMALLEST_LEAVING)
        into = matrix[:, :last, last] / leaving[:, None]
        shares.append(into)
        matrix = matrix[:, :last, :last] + into[:, :, None] * matrix[:, last, None, :last]
    masses = matrix[:, :, 0] * 0 + 1
    for into in reversed(shares):
        masses = xp.concatenate([masses, (masses * into).sum(axis=1, keepdims=True)], axis=1)
    return masses / masses.sum(axis=1, keepdims=True)


def true_rows(
    chains: Float[Any, "count contexts k"], start: Float[Any, "count contexts"], tokens: Int32[Any, "count length"]
) -> Float[Any, "count length k"]:
    """Return the distribution of the next token at every position, given the chain and the tokens so far."""
    xp, (count, contexts, k) = chains.__array_namespace__(), chains.shape
    width = 1
    while k**width < contexts:
        width += 1
    rows, context, prefixes = [], tokens[:, 0] * 0, 1
    for position in range(min(tokens.shape[1], width - 1)):
        context, prefixes = context * k + tokens[:, position], prefixes * k
        masses = start.reshape(count, prefixes, k, -1).sum(axis=-1)
        row = xp.take_along_axis(masses, context[:, None, None], axis=1)
        rows.append(row / xp.maximum(row.sum(axis=-1, keepdims=True), SMALLEST_LEAVING))
    codes = context_codes(tokens, k, width)
    return xp.concatenate([*rows, xp.take_along_axis(chains, codes[:, :, None], axis=1)], axis=1)


def context_codes(tokens: Int[Any, "count length"], k: int, width: int) -> Int[Any, "count places"]:
    """Return the numbers of the contexts of a given width at each of the length - width + 1 positions that have one."""
    positions = tokens.shape[1] - width + 1
    codes = tokens[:, :positions]
    for offset in range(1, width):
        codes = codes * k + tokens[:, offset : offset + positions]
    return codes
