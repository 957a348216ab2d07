"""Operations in finite groups: predict a product of two elements, each given as a one-hot vector.

Source: thesis, chapter 7; Morwani, Edelman, Oncescu, Zhao and Kakade, "Feature emergence via margin maximization: case
studies in algebraic tasks" (ICLR 2024); Power, Burda, Edwards, Babuschkin and Misra, "Grokking: generalization beyond
overfitting on small algorithmic datasets" (2022), for operations besides composition.
"""

from typing import Annotated, Any, Literal, get_args

import numpy as np
from jaxtyping import Int32
from pydantic import Field, SerializeAsAny, field_validator, model_validator

from elegans.groups import Group, Symmetric
from elegans.tasks.arrays import Indices
from elegans.tasks.pairs import PairTask

LARGEST_MODULUS = 32767
"""The largest p whose p^2 pairs can be drawn."""


class ModularAddition(PairTask):
    """Addition modulo p: the class of the pair (a, b) is a + b.

    Pairs are uniform; pair a p + b of the population is (a, b). ``ModularArithmetic`` has other operations.

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
    def order(self) -> int:
        return self.p

    def results(self, pairs: Indices) -> Int32[Any, " count"]:
        return ((pairs // self.p + pairs % self.p) % self.p).astype(np.int32)


class GroupTask(PairTask):
    """An operation on pairs of elements of a finite group.

    Args:
        group: a group of at least two elements, by its name (``S4``), the file of its table, or a record.
    """

    group: SerializeAsAny[Group] = Symmetric(n=4)

    @field_validator("group")
    @classmethod
    def _has_a_table(cls, group: Group) -> Group:
        group.check_order("table")
        if group.order < 2:
            raise ValueError(f"a group must have at least 2 elements to be learned: order=1 of {group.name}")
        return group

    @property
    def order(self) -> int:
        return self.group.order


class GroupComposition(GroupTask):
    """Composition in a finite group: the class of the pair (a, b) is ab.

    Pairs are uniform; pair a |G| + b of the population is (a, b). ``GroupOperation`` has other operations.

    Args: as ``GroupTask``.
    """

    shorthand = "group"

    def label(self) -> str:
        return f"{self.kind}:{self.group.name}"

    def results(self, pairs: Indices) -> Int32[Any, " count"]:
        return pairs.__array_namespace__().asarray(self.group.table.ravel())[pairs]


class GroupOperation(GroupTask):
    """Another operation in a finite group: the class of the pair (x, y) is its result.

    Pairs are uniform; pair x |G| + y of the population is (x, y).

    Args: as ``GroupTask``, and
        operation: ``xyx^-1`` or ``xyx``; composition is the task ``GroupComposition``.
    """

    operation: Literal["xyx^-1", "xyx"]

    @model_validator(mode="before")
    @classmethod
    def _is_not_composition(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and fields.get("operation") == "xy":
            operations = ", ".join(get_args(cls.model_fields["operation"].annotation))
            raise ValueError(f"operation must be one of {operations} (composition is group-composition): 'xy'")
        return fields

    def label(self) -> str:
        return f"{self.operation} in {self.group.name}"

    def results(self, pairs: Indices) -> Int32[Any, " count"]:
        table, first = self.group.table, np.arange(self.order)
        last = first if self.operation == "xyx" else self.group.inverses
        return pairs.__array_namespace__().asarray(table[table, last[:, None]].astype(np.int32).ravel())[pairs]
