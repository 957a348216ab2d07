"""Priors over Markov chains; every example of ``MarkovChains`` has its own chain, drawn from a prior.

Source: thesis, chapter 8 (flat Dirichlet rows, n-grams, doubly stochastic chains and independent tokens);
Edelman, Edelman, Goel, Malach and Tsilivis, "The evolution of statistical induction heads: in-context learning Markov
chains" (NeurIPS 2024).
"""

import math
from abc import abstractmethod
from typing import Annotated, Any, Literal, Self

import numpy as np
from jaxtyping import Float32, Float64
from pydantic import Field, SerializeAsAny, field_validator, model_validator

from elegans import random
from elegans.component import Component
from elegans.tasks.arrays import Indices

LARGEST_STATES = 128
"""Maximum number of states of a chain (contexts, for an n-gram): elimination takes them one by one."""
REJECTION_TRIES = {2: 1, 3: 24, 4: 69}
"""Tries by number of symbols, after which no uniform doubly stochastic matrix is found with probability 10^-7."""
SINKHORN_ROUNDS = 50
"""Number of times that columns and rows are scaled."""
GAMMA_TRIES = 6
"""Tries of a gamma variable, each accepted with probability above 0.95: all fail once in 6 x 10^7."""
LARGEST_SPACINGS = 64
"""Maximum sum of whole concentrations for which uniforms are sorted."""


class Prior(Component, family=True):
    """A distribution over transition matrices, or over the next-symbol distributions of an n-gram's contexts."""

    @property
    def order(self) -> int:
        """The number of tokens of an n-gram, including the next one: 2 (the default) for Markov chains."""
        return 2

    def check(self, k: int) -> None:
        """Refuse a number of symbols for which this prior has no chains; none by default."""

    @abstractmethod
    def rows(self, key: random.Key, index: Indices, k: int) -> Float32[Any, "count contexts k"]:
        """Return the next-symbol distributions of the chains with the given indices, for all k^(order - 1) contexts.

        A context's number has its symbols as digits in base k, the oldest being the highest.
        """


class Dirichlet(Prior):
    """Independent Dirichlet rows: flat by default, that is, uniform on the simplex.

    Rows with whole concentrations of sum at most 64 are spacings of sorted uniforms, exact multiples of 2^-24 that are
    bit for bit the same in every engine; others are normalised gamma variables (Marsaglia and Tsang, "A simple method
    for generating gamma variables", 2000), which are the same up to rounding.

    Args:
        alpha: the positive concentrations: one for all symbols, or one for each (``dirichlet:1,2,1``).
    """

    shorthand = "alpha"
    alpha: tuple[float, ...] = (1.0,)

    @field_validator("alpha", mode="before")
    @classmethod
    def _listed(cls, alpha: Any) -> Any:
        if isinstance(alpha, str):
            return tuple(alpha.split(","))
        return (alpha,) if isinstance(alpha, int | float) else alpha

    @field_validator("alpha")
    @classmethod
    def _positive(cls, alpha: tuple[float, ...]) -> tuple[float, ...]:
        if not alpha or not all(0 < value < math.inf for value in alpha):
            raise ValueError(f"alpha of a Dirichlet distribution must be positive: alpha={alpha}")
        return alpha

    def label(self) -> str:
        return f"{self.kind}:{','.join(f'{value:g}' for value in self.alpha)}"

    def check(self, k: int) -> None:
        if len(self.alpha) not in (1, k):
            raise ValueError(f"alpha must hold one number, or one per symbol: alpha={self.alpha}, k={k}")

    def rows(self, key: random.Key, index: Indices, k: int) -> Float32[Any, "count k k"]:
        return dirichlet_rows(key, index, k, np.broadcast_to(np.asarray(self.alpha), (k,)))


class Unigram(Prior):
    """One distribution, uniform on the simplex, in every row: tokens are independent, and unigrams are optimal."""

    def rows(self, key: random.Key, index: Indices, k: int) -> Float32[Any, "count k k"]:
        rows = flat_rows(key, index, (1,), k)
        return rows.__array_namespace__().broadcast_to(rows, (len(index), k, k))


class DoublyStochastic(Prior):
    """Doubly stochastic matrices: their stationary distribution is uniform, so single tokens are uninformative.

    ``uniform`` draws k - 1 rows from the simplex and accepts them if the remainder of every column is positive: with
    probability 1, 1/2 and 0.21 for k = 2, 3, 4, and too rarely beyond. Where no draw is accepted, about once in 10^7
    chains, all entries are 1/k. ``sinkhorn`` draws flat rows and normalises columns and rows in turn, for any k; its
    distribution is not uniform.

    Args:
        method: ``uniform`` (k up to 4) or ``sinkhorn``.
    """

    shorthand = "method"
    method: Literal["uniform", "sinkhorn"] = "uniform"

    def check(self, k: int) -> None:
        if self.method == "uniform" and k > max(REJECTION_TRIES):
            raise ValueError(
                "uniform doubly stochastic chains must have k at most 4 "
                f"('doubly-stochastic:sinkhorn' has another distribution for any k): k={k}"
            )

    def rows(self, key: random.Key, index: Indices, k: int) -> Float32[Any, "count k k"]:
        if self.method == "uniform":
            return _by_rejection(key, index, k)
        matrix = flat_rows(key, index, (k,), k)
        for _ in range(SINKHORN_ROUNDS):
            matrix = matrix / matrix.sum(axis=1, keepdims=True)
            matrix = matrix / matrix.sum(axis=2, keepdims=True)
        return matrix


class Mixture(Prior):
    """A mixture of two priors: by default doubly stochastic chains, and chains with equal rows.

    Args:
        weight: the probability of the first, from 0 to 1.
        first: a prior.
        second: another, of the same order.
    """

    shorthand = "weight"
    weight: Annotated[float, Field(ge=0, le=1)] = 0.5
    first: SerializeAsAny[Prior] = DoublyStochastic()
    second: SerializeAsAny[Prior] = Unigram()

    @model_validator(mode="after")
    def _same_order(self) -> Self:
        if self.first.order != self.second.order:
            orders = f"{self.first.label()} has {self.first.order}, {self.second.label()} {self.second.order}"
            raise ValueError(f"the priors of a mixture must have the same order: {orders}")
        return self

    @property
    def order(self) -> int:
        return self.first.order

    def check(self, k: int) -> None:
        self.first.check(k)
        self.second.check(k)

    def rows(self, key: random.Key, index: Indices, k: int) -> Float32[Any, "count contexts k"]:
        is_first = random.uniform(key, index) < np.float32(1) * self.weight
        first, second = self.first.rows(key.fold(1), index, k), self.second.rows(key.fold(2), index, k)
        return first.__array_namespace__().where(is_first[:, None, None], first, second)


class BinarySymmetricPrior(Prior, kind="symmetric2"):
    """Two symbols, each repeated with the same probability a, uniform from 1/2 - epsilon to 1/2 + epsilon.

    With epsilon = 1/2 these are all doubly stochastic chains of two symbols; a small epsilon leaves chains near coin
    flips.

    Args:
        epsilon: half the length of the interval, positive and at most 1/2, the default.
    """

    shorthand = "epsilon"
    epsilon: Annotated[float, Field(gt=0, le=0.5)] = 0.5

    def check(self, k: int) -> None:
        if k != 2:
            raise ValueError(f"k of symmetric2 must be 2: k={k}")

    def rows(self, key: random.Key, index: Indices, k: int) -> Float32[Any, "count 2 2"]:
        a = np.float32(0.5) + random.uniform_signed(key, index) * (np.float32(1) * self.epsilon)
        xp = a.__array_namespace__()
        return xp.stack([xp.stack([a, 1 - a], axis=-1), xp.stack([1 - a, a], axis=-1)], axis=-2)


class NGram(Prior, kind="ngram"):
    """The next symbol depends on the last n - 1 symbols: each context has its own distribution, uniform on the simplex.

    Args:
        n: the order, at least 2: ``ngram:2`` has the distribution of ``dirichlet:1``.
    """

    shorthand = "n"
    n: Annotated[int, Field(ge=2)]

    @property
    def order(self) -> int:
        return self.n

    def check(self, k: int) -> None:
        if k ** (self.n - 1) > LARGEST_STATES:
            rule = f"an n-gram must have at most {LARGEST_STATES} contexts k^(n - 1)"
            raise ValueError(f"{rule}: {k ** (self.n - 1)} for k={k}, n={self.n}")

    def rows(self, key: random.Key, index: Indices, k: int) -> Float32[Any, "count contexts k"]:
        return flat_rows(key, index, (k ** (self.n - 1),), k)


def flat_rows(key: random.Key, index: Indices, shape: tuple[int, ...], k: int) -> Float32[Any, "..."]:
    """Return points uniform on the simplex: spacings of k - 1 sorted uniforms, multiples of 2^-24 that sum to 1.

    Args:
        key: the key of the draws; the lanes are counted over ``shape`` and the uniforms of a point.
        index: indices, each with points of shape ``shape``.
        shape: the shape of an index's points.
        k: the number of entries of a point, the last axis of the result (count, *shape, k).
    """
    return _spacings(_uniforms(key, index, (*shape, k - 1)), np.arange(k - 1))


def dirichlet_rows(
    key: random.Key, index: Indices, rows: int, alpha: Float64[np.ndarray, " k"]
) -> Float32[Any, "count rows k"]:
    """Return independent Dirichlet points, as ``Dirichlet`` describes."""
    total = int(alpha.sum())
    if (alpha == alpha.round()).all() and total <= LARGEST_SPACINGS:
        return _spacings(_uniforms(key, index, (rows, total - 1)), np.cumsum(alpha)[:-1].astype(int) - 1)
    logarithms = _log_gamma(key, index, rows, alpha)
    weights = logarithms.__array_namespace__().exp(logarithms - logarithms.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _uniforms(key: random.Key, index: Any, shape: tuple[int, ...]) -> Any:
    lanes = np.arange(math.prod(shape), dtype=np.uint32)
    return random.uniform(key, index[:, None], lane=lanes[None, :]).reshape(len(index), *shape)


def _spacings(uniforms: Any, places: np.ndarray) -> Any:
    """Return the distances between 0, some of the sorted uniforms, and 1."""
    xp = uniforms.__array_namespace__()
    cuts = xp.sort(uniforms, axis=-1)[..., places]
    ends = xp.zeros_like(cuts[..., :1])
    return xp.diff(xp.concatenate([ends, cuts, ends + 1], axis=-1), axis=-1)


def _by_rejection(key: random.Key, index: Any, k: int) -> Any:
    """Return the first of some matrices, with k - 1 rows uniform on the simplex, whose last row is positive."""
    rows = flat_rows(key, index, (REJECTION_TRIES[k], k - 1), k)
    xp = rows.__array_namespace__()
    matrices = xp.concatenate([rows, 1 - rows.sum(axis=2, keepdims=True)], axis=2)
    accepted = (matrices[:, :, -1] > 0).all(axis=-1)
    first = xp.take_along_axis(matrices, accepted.argmax(axis=1)[:, None, None, None], axis=1)[:, 0]
    return xp.where(accepted.any(axis=1)[:, None, None], first, np.float32(1 / k))


def _log_gamma(key: random.Key, index: Any, rows: int, alpha: np.ndarray) -> Any:
    """Return logarithms of gamma variables: a variable below 1 is one of alpha + 1 times a uniform to the 1/alpha."""
    shape = (rows, len(alpha))
    lanes = np.arange(math.prod((GAMMA_TRIES, *shape)), dtype=np.uint32)[None, :]
    normal = random.normal(key.fold(0), index[:, None], lane=lanes).reshape(len(index), GAMMA_TRIES, *shape)
    xp = normal.__array_namespace__()
    mode = (np.where(alpha < 1, alpha + 1, alpha) - 1 / 3).astype(np.float32)
    cube = (1 + normal / np.sqrt(9 * mode)) ** 3
    positive = xp.where(cube > 0, cube, np.float32(1))
    below = xp.log(1 - _uniforms(key.fold(1), index, (GAMMA_TRIES, *shape)))
    accepted = (cube > 0) & (below < normal**2 / 2 + mode * (1 - positive + xp.log(positive)))
    first = xp.take_along_axis(positive, accepted.argmax(axis=1)[:, None], axis=1)[:, 0]
    logarithm = xp.log(xp.where(accepted.any(axis=1), first, np.float32(1)) * mode)
    boost = xp.log(1 - _uniforms(key.fold(2), index, shape)) / alpha.astype(np.float32)
    return logarithm + xp.where(alpha < 1, boost, np.float32(0))
