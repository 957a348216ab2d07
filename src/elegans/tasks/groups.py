"""Composition in finite groups: predict the product of two elements, each given as a one-hot vector.

Source: thesis, chapter 7; Morwani, Edelman, Oncescu, Zhao and Kakade, "Feature emergence via margin maximization: case
studies in algebraic tasks" (ICLR 2024).
"""

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float32, Int32, UInt32
from pydantic import Field, SerializeAsAny, field_validator

from elegans import random
from elegans.groups import Group, Symmetric
from elegans.tasks.base import Task

LARGEST_MODULUS = 32767
"""The largest p whose p^2 pairs can be drawn."""


class ModularAddition(Task):
    """Addition modulo p: the class of the pair (a, b) is a + b.

    Pairs are uniform; pair a p + b of the population is (a, b).

    Args:
        p: the modulus, odd, at least 3. For an even one, the frequency p / 2 has a cosine but no sine, hence no free
            phase, and the closed forms of the largest margin do not hold.
    """

    shorthand = "p"
    p: Annotated[int, Field(ge=3, le=LARGEST_MODULUS)]

    @field_validator("p")
    @classmethod
    def _is_odd(cls, p: int) -> int:
        if p % 2 == 0:
            raise ValueError(
                "p must be odd (at the frequency p/2 of an even p there is a cosine but no sine, so no phase is free, "
                f"and the closed forms do not hold; GroupComposition takes Z{p}): p={p}"
            )
        return p

    @property
    def input_size(self) -> int:
        return 2 * self.p

    @property
    def classes(self) -> int:
        return self.p

    @property
    def population(self) -> int:
        return self.p**2

    def member(
        self, hidden: Any, index: UInt32[Any, " count"]
    ) -> tuple[Float32[Any, "count input_size"], Int32[Any, " count"]]:
        """Return the pairs with the given numbers, one-hot, and their sums modulo p."""
        return one_hot_pairs(index, self.p), ((index // self.p + index % self.p) % self.p).astype(np.int32)

    def examples(
        self, hidden: Any, key: random.Key, index: UInt32[Any, " count"]
    ) -> tuple[Float32[Any, "count input_size"], Int32[Any, " count"]]:
        """Return uniform pairs, one-hot, and their sums modulo p."""
        return self.member(hidden, random.integers(key, index, np.uint32(0), np.uint32(self.population)))


class GroupComposition(Task):
    """Composition in a finite group: the class of the pair (a, b) is ab.

    Pairs are uniform; pair a |G| + b of the population is (a, b).

    Args:
        group: a group of at least two elements, by its name (``S4``), the file of its table, or a record.
    """

    shorthand = "group"
    group: SerializeAsAny[Group] = Symmetric(n=4)

    @field_validator("group")
    @classmethod
    def _has_a_table(cls, group: Group) -> Group:
        group.check_order("table")
        if group.order < 2:
            raise ValueError(f"a group must have at least 2 elements to be learned: order=1 of {group.name}")
        return group

    def label(self) -> str:
        """Return the kind with the group's name."""
        return f"{self.kind}:{self.group.name}"

    @property
    def input_size(self) -> int:
        return 2 * self.group.order

    @property
    def classes(self) -> int:
        return self.group.order

    @property
    def population(self) -> int:
        return self.group.order**2

    def member(
        self, hidden: Any, index: UInt32[Any, " count"]
    ) -> tuple[Float32[Any, "count input_size"], Int32[Any, " count"]]:
        """Return the pairs with the given numbers, one-hot, and their products."""
        products = index.__array_namespace__().asarray(self.group.table.ravel())
        return one_hot_pairs(index, self.group.order), products[index]

    def examples(
        self, hidden: Any, key: random.Key, index: UInt32[Any, " count"]
    ) -> tuple[Float32[Any, "count input_size"], Int32[Any, " count"]]:
        """Return uniform pairs, one-hot, and their products."""
        return self.member(hidden, random.integers(key, index, np.uint32(0), np.uint32(self.population)))


def one_hot_pairs(index: UInt32[Any, " count"], order: int) -> Float32[Any, "count twice_order"]:
    """Return pairs by their numbers a |G| + b: ones at the coordinates a and |G| + b, zeros elsewhere."""
    place = np.arange(2 * order, dtype=np.uint32)
    first, second = index // order, index % order + order
    return ((place == first[:, None]) | (place == second[:, None])).astype(np.float32)
