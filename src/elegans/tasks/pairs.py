"""Tasks on pairs: predict the result of an operation on two elements, each given as a one-hot vector."""

from abc import abstractmethod
from typing import Any

import numpy as np
from jaxtyping import Float32, Int32

from elegans import random
from elegans.tasks.arrays import Examples, Indices
from elegans.tasks.base import Task


class PairTask(Task):
    """An operation on two elements of a finite set: the class of the pair (a, b) is the number of its result.

    Pairs are uniform over all pairs on which the operation is defined, by default all.
    """

    @property
    @abstractmethod
    def order(self) -> int:
        """The number of elements."""

    @abstractmethod
    def results(self, pairs: Indices) -> Int32[Any, " count"]:
        """Return the results of pairs by their numbers a order + b."""

    def pairs(self, index: Indices) -> Indices:
        """Return the numbers a order + b of the members of the population; the same by default."""
        return index

    @property
    def input_size(self) -> int:
        return 2 * self.order

    @property
    def classes(self) -> int:
        return self.order

    @property
    def population(self) -> int:
        return self.order**2

    def member(self, hidden: Any, index: Indices) -> Examples:
        pairs = self.pairs(index)
        return one_hot_pairs(pairs, self.order), self.results(pairs)

    def examples(self, hidden: Any, key: random.Key, index: Indices) -> Examples:
        return self.member(hidden, self.drawn(key, index))

    def drawn(self, key: random.Key, index: Indices) -> Indices:
        """Return the numbers, in the population, of the examples with the given indices."""
        return random.integers(key, index, bound=np.uint32(self.population))


def one_hot_pairs(index: Indices, order: int) -> Float32[Any, "count twice_order"]:
    """Return pairs by their numbers a order + b: ones at the coordinates a and order + b, zeros elsewhere."""
    coordinate = np.arange(2 * order, dtype=np.uint32)
    first, second = index // order, index % order + order
    return ((coordinate == first[:, None]) | (coordinate == second[:, None])).astype(np.float32)
