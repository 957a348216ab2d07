"""Sparse Boolean functions: the label is a function of k of the n independent bits of an input."""

import math
from abc import abstractmethod
from typing import Annotated, Any, Self

import numpy as np
from jaxtyping import Float32, Float64, Int64
from pydantic import AfterValidator, Field, SerializeAsAny, model_validator

from elegans import random
from elegans.component import Component
from elegans.errors import TrialError, shown
from elegans.tasks.arrays import Indices, SignedExamples
from elegans.tasks.base import NoisyLabels, Task
from elegans.tasks.parity import Supported

LARGEST_TABLE = 16
"""Maximum number s of bits for a table of all 2^s values."""
LARGEST_BATCH = 2**22
"""Maximum size in bytes of the packed examples that a search for supports holds at once."""


class BooleanFunction(Component, family=True):
    """A function of s bits with values 0 and 1, where s is the size of the support.

    Its derived quantities are exact: its values, how often it is 1, and how much it depends on each bit.
    """

    @abstractmethod
    def by_count(self, s: int) -> Float32[np.ndarray, " counts"] | None:
        """Return the values by the number of ones, shape (s + 1,), or None if they depend on more than that."""

    def table(self, s: int) -> Float32[np.ndarray, " inputs"]:
        """Return all values, shape (2^s,): entry p is the value of the bits whose j-th is bit j of p."""
        if s > LARGEST_TABLE:
            raise TrialError(f"s must be at most {LARGEST_TABLE} for a table of 2^s values: s={s}")
        counts = self.by_count(s)
        if counts is None:
            raise NotImplementedError(f"{self.kind} is not symmetric and must define its own table")
        return np.asarray(counts[np.bitwise_count(np.arange(2**s))])

    def value(self, bits: Any) -> Any:
        """Return the values of inputs (..., s), float32 of shape (...)."""
        arrays, s = bits.__array_namespace__(), bits.shape[-1]
        counts = self.by_count(s)
        if counts is None:
            patterns = (bits * 2 ** np.arange(s, dtype=np.uint32)).sum(axis=-1)
            return arrays.asarray(self.table(s))[patterns.astype(np.int32)]
        return arrays.asarray(counts)[bits.astype(np.int32).sum(axis=-1)]

    def chance(self, s: int, p: float = 0.5) -> float:
        """Return the probability of the value 1 if each bit is 1 with probability p."""
        counts = self.by_count(s)
        if counts is not None:
            return float(sum(_binomial(s, ones, p) for ones in range(s + 1) if counts[ones]))
        return float(self.table(s) @ _weights(s, p))

    def balancing_bias(self, s: int) -> float:
        """Return the probability of a one under which both values are equally likely: 2^(-1/s) for a conjunction.

        Raises:
            TrialError: the function has the same value on all zeros as on all ones, and p = 1/2 does not balance it.
        """
        from scipy.optimize import brentq

        if self.chance(s) == 0.5:
            return 0.5
        if self.chance(s, 0.0) == self.chance(s, 1.0):
            rule = "a function must differ on all zeros and all ones to be balanced"
            raise TrialError(f"{rule}: {self.label()!r}, s={s}")
        return float(brentq(lambda p: self.chance(s, p) - 0.5, 0.0, 1.0, xtol=1e-15))

    def influences(self, s: int, p: float = 0.5) -> Float64[np.ndarray, " s"]:
        """Return the probability that flipping a bit changes the value, if each other bit is 1 with probability p."""
        counts = self.by_count(s)
        if counts is not None:
            changing = np.flatnonzero(np.diff(counts))
            return np.full(s, sum(_binomial(s - 1, int(ones), p) for ones in changing))
        table, weights = self.table(s), _weights(s, p)
        changes = table[np.arange(2**s)[:, None] ^ 1 << np.arange(s)] != table[:, None]
        return np.array([weights[changes[:, bit]].sum() for bit in range(s)])


def _binomial(n: int, ones: int, p: float) -> float:
    return float(math.comb(n, ones) * p**ones * (1 - p) ** (n - ones))


def _weights(s: int, p: float) -> np.ndarray:
    ones = np.bitwise_count(np.arange(2**s)).astype(int)
    return np.asarray(p**ones * (1 - p) ** (s - ones))


class And(BooleanFunction):
    """1 if all bits are 1."""

    def by_count(self, s: int) -> Float32[np.ndarray, " counts"]:
        return np.asarray(np.arange(s + 1) == s, np.float32)


class Or(BooleanFunction):
    """1 if some bit is 1."""

    def by_count(self, s: int) -> Float32[np.ndarray, " counts"]:
        return np.asarray(np.arange(s + 1) > 0, np.float32)


class Parity(BooleanFunction):
    """1 if an odd number of bits are 1."""

    def by_count(self, s: int) -> Float32[np.ndarray, " counts"]:
        return np.asarray(np.arange(s + 1) % 2, np.float32)


class Majority(BooleanFunction):
    """1 if more than half of the bits are 1; a tie counts as 0."""

    def by_count(self, s: int) -> Float32[np.ndarray, " counts"]:
        return np.asarray(2 * np.arange(s + 1) > s, np.float32)


class Threshold(BooleanFunction):
    """1 if at least ``least`` bits are 1.

    Args:
        least: the threshold, from 1 to the number of bits.
    """

    shorthand = "least"
    least: Annotated[int, Field(ge=1)]

    def by_count(self, s: int) -> Float32[np.ndarray, " counts"]:
        if self.least > s:
            raise TrialError(f"least of a threshold must be at most the number of bits: least={self.least}, s={s}")
        return np.asarray(np.arange(s + 1) >= self.least, np.float32)


def _require_digits(values: str) -> str:
    if not values or set(values) - set("01"):
        raise ValueError(f"values must be characters 0 and 1: values={shown(values)}")
    return values


Digits = Annotated[str, AfterValidator(_require_digits)]


def _numbers(values: str, size: int, s: int) -> Float32[np.ndarray, " values"]:
    if len(values) != size:
        raise TrialError(f"values must be {size} characters for s={s} bits: values={shown(values)}")
    return np.array([int(value) for value in values], np.float32)


class SymmetricFunction(BooleanFunction, kind="symmetric"):
    """Any function of the number of ones: ``symmetric:0110`` is 1 if one or two of three bits are 1.

    Args:
        values: s + 1 characters 0 and 1, for no ones, one, two, and so on.
    """

    shorthand = "values"
    values: Digits

    def by_count(self, s: int) -> Float32[np.ndarray, " counts"]:
        return _numbers(self.values, s + 1, s)


class TableFunction(BooleanFunction, kind="table"):
    """Any function of a few bits: ``table:0110`` is the parity of two.

    Args:
        values: 2^s characters 0 and 1; character p is the value of the bits whose j-th is bit j of p: for two bits
            00, 10, 01, 11. The bits are the bits of the support, in increasing order.
    """

    shorthand = "values"
    values: Digits

    def by_count(self, s: int) -> Float32[np.ndarray, " counts"] | None:
        """Return the values by the number of ones, if they depend on nothing else."""
        table = self.table(s)
        counts = table[2 ** np.arange(s + 1) - 1]
        return counts if np.array_equal(counts[np.bitwise_count(np.arange(2**s))], table) else None

    def table(self, s: int) -> Float32[np.ndarray, " inputs"]:
        if s > LARGEST_TABLE:
            raise TrialError(f"s must be at most {LARGEST_TABLE} for a table of 2^s values: s={s}")
        return _numbers(self.values, 2**s, s)


class SparseBoolean(NoisyLabels, Supported, Task):
    """A function of k of n bits; each bit is 1 with probability p, independently of the others.

    An input is x = 2 b - 1, +1 if the bit b is 1; the label is 2 f - 1, +1 if the function is 1. With p = 1/2 inputs
    are uniform signs. The model, not the task, decides how bits become vectors (fixed or trained positions, a bag).

    Counters: bit j of example i is 1 if word j mod 2 of the block (i, j // 2), as a uniform of 24 bits, is below p.

    Source: thesis, section 4.6 (conjunctions of three bits, p = 2^(-1/3), for which labels are balanced; parities).

    Args: as ``Supported`` (n and k are the thesis' T and s) and ``NoisyLabels``, and
        function: the function of the bits on the support, in increasing order, that gives the label: ``and``, ``or``,
            ``parity``, ``majority``, ``threshold:2``, ``symmetric:0110``, ``table:01101001``.
        p: the probability of a one; ``function.balancing_bias(k)`` makes both labels equally likely.
    """

    function: SerializeAsAny[BooleanFunction]
    p: Annotated[float, Field(ge=0, le=1)] = 0.5

    @model_validator(mode="after")
    def _has_values(self) -> Self:
        self.function.by_count(self.k)
        return self

    @property
    def on_cube(self) -> bool:
        return self.p == 0.5

    def examples(self, hidden: Any, key: random.Key, index: Indices) -> SignedExamples:
        """Return signs (count, n) and the labels of their bits (count,)."""
        first, second = random.bits(key, index[:, None], lane=np.arange((self.n + 1) // 2, dtype=np.uint32)[None, :])
        arrays = first.__array_namespace__()
        words = arrays.stack([first, second], axis=-1).reshape(len(index), 2 * first.shape[1])[:, : self.n]
        uniform = (words >> 8).astype(np.float32) * np.float32(2.0**-24)
        x = 2 * (uniform < np.float32(1) * self.p).astype(np.float32) - 1
        return x, self.target(hidden, x)

    def target(self, hidden: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        return 2 * self.function.value(x[:, hidden] > 0) - 1

    def consistent(
        self, x: Float32[np.ndarray, "count n"], y: Float32[np.ndarray, " count"], most: int | None = None
    ) -> Int64[np.ndarray, "supports k"]:
        """Return the supports on which the function agrees with all labels of a sample, in lexicographic order.

        Supports grow coordinate by coordinate, and are abandoned as soon as an example's bits imply the wrong value: a
        conjunction visits almost none, a parity all C(n, k - 1) that lack one coordinate.

        Args:
            x: inputs, signs.
            y: their labels, -1 or 1.
            most: the number of supports after which to stop; 2 is enough to see whether the sample identifies the
                support.

        Returns:
            int64 of shape (supports, k), rows in increasing order; every support if there are no examples.
        """
        if x.shape != (len(y), self.n):
            raise TrialError(f"x and y must have shapes (count, {self.n}) and (count,): {x.shape} and {y.shape}")
        return _Search(self.function.table(self.k), np.asarray(x) > 0, np.asarray(y) > 0, most).run()


class _Search:
    """The supports consistent with a sample, in batches depth first; examples are bits packed into bytes."""

    def __init__(self, table: np.ndarray, bits: np.ndarray, labels: np.ndarray, most: int | None) -> None:
        self.k = len(table).bit_length() - 1
        self.columns = np.packbits(bits, axis=0).T
        self.all = np.packbits(np.ones(len(labels), bool))
        self.wrong = (np.packbits(labels), np.packbits(~labels))
        self.most = most
        self.supports: list[np.ndarray] = []
        # if a few supports are enough and there are many, the search ends soon: small batches waste less work
        largest = LARGEST_BATCH if most is None else LARGEST_BATCH // 16
        self.batch = max(1, largest // (len(self.columns) * max(1, len(self.all)) * len(table)))
        # for each number of chosen coordinates and pattern of their bits: the value that it implies, or -1
        self.fixed = []
        for chosen in range(self.k + 1):
            rest = table.reshape(-1, 2**chosen)
            self.fixed.append(np.where((rest == rest[0]).all(axis=0), rest[0], -1).astype(int))
        self.candidates = [self._candidates(table, position) for position in range(self.k)]

    def _candidates(self, table: np.ndarray, position: int) -> Int64[np.ndarray, " coordinates"]:
        """Return the coordinates that are possible at one position of a support, whatever the others are."""
        alive = np.ones(len(self.columns), bool)
        bits = np.arange(len(table)) >> position & 1
        for bit, cells in ((0, self.all & ~self.columns), (1, self.columns)):
            values = set(table[bits == bit].tolist())
            if len(values) == 1:
                alive &= ~(cells & self.wrong[int(values.pop())]).any(axis=1)
        return np.flatnonzero(alive)

    def run(self) -> Int64[np.ndarray, "supports k"]:
        self._extend(np.empty((1, 0), np.int64), self.all[None, None, :])
        return np.concatenate([np.empty((0, self.k), np.int64), *self.supports])[: self.most]

    def _extend(self, chosen: np.ndarray, cells: np.ndarray) -> None:
        """Add every further coordinate to partial supports; ``cells`` are the examples of each of their patterns."""
        n, size = len(self.columns), chosen.shape[1]
        candidates = self.candidates[size]
        columns = self.columns[None, candidates, None, :]
        grown = np.concatenate([cells[:, None] & ~columns, cells[:, None] & columns], axis=2)
        alive = np.broadcast_to(candidates <= n - (self.k - size), grown.shape[:2]).copy()
        if size:
            alive &= candidates > chosen[:, -1:]
        for value in (0, 1):
            fixing = self.fixed[size + 1] == value
            alive &= ~(grown[:, :, fixing] & self.wrong[value]).any(axis=(2, 3))
        rows, added = np.nonzero(alive)
        supports = np.concatenate([chosen[rows], candidates[added][:, None]], axis=1)
        if size + 1 == self.k:
            self.supports.append(supports)
            return
        for start in range(0, len(supports), self.batch):
            if self.most is not None and sum(map(len, self.supports)) >= self.most:
                return
            part = slice(start, start + self.batch)
            self._extend(supports[part], grown[rows[part], added[part]])
