"""Finite groups: multiplication tables, and the representations used in theory.

A group is a component, so it can be written as a name (``S4``, ``S3xZ2``) or a record, and equal groups are equal
records. Its properties are computed on demand, once for all groups of the same content: the classes and characters of
S_8 never need its table of 40320^2 products.

Source of the notation: thesis, chapter 7 and appendix D; Serre, "Linear Representations of Finite Groups" (1977).
"""

import re
from abc import abstractmethod
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np
from jaxtyping import Int, Int64, Num

from elegans.component import Component
from elegans.errors import GroupError, TrialError, shown
from elegans.groups.decomposition import decompose
from elegans.groups.irreps import Irrep, frozen
from elegans.groups.multiplication import LARGEST_ORDER, read

_Member = TypeVar("_Member", bound="Group")
_Value = TypeVar("_Value")

_NAMES = {"S": "symmetric", "A": "alternating", "D": "dihedral", "Z": "cyclic"}
_FILES = (".csv", ".json", ".npy")


class Group(Component, family=True):
    """A finite group; its elements are numbered from 0, the identity.

    Written as a name: ``Z7`` (cyclic), ``S4`` (symmetric), ``A5`` (alternating), ``D4`` (dihedral, of order 8),
    ``Z2^3``, products such as ``S4xZ2``, or the path of a file with a multiplication table.
    Your own class defines ``name``, ``order`` and ``make_table``; the other ``make_`` methods have defaults.

    Raises:
        GroupError: the name is unknown, a parameter is out of range, or a table is not a group's.
    """

    host_only = True

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except TrialError as error:
            raise GroupError(str(error)) from None

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Make a group from its name, the path of a file with its table, a record with a ``kind``, or a group."""
        try:
            return super().parse(value)
        except TrialError as error:
            raise GroupError(str(error)) from None

    @classmethod
    def from_table(cls, table: Any, names: Any = None, title: str | None = None) -> "Group":
        """Make a group from a multiplication table.

        The identity may have any number; it is moved to the front, and the others keep their order.

        Args:
            table: whole numbers (order, order), as an array or lists: the number of the product ab in row a, column b.
            names: the elements' names, in the table's order; their numbers by default.
            title: the group's name, ``group of order n`` by default.
        """
        names = None if names is None else tuple(map(str, names))
        return cls.of_kind("table")(rows=table, names=names, title=title)

    @classmethod
    def from_file(cls, path: str | Path) -> "Group":
        """Make a group from a file with a multiplication table in the form of ``from_table``.

        Args:
            path: a ``.csv`` file of whole numbers, with or without a line of names above them; a ``.npy`` array; or a
                ``.json`` file: a list of lists, or a record with ``table`` and optionally ``names`` and ``name``.
                A group without a name is named after its file.
        """
        return cls.from_table(**read(Path(path)))

    @classmethod
    def _from_text(cls, text: str) -> dict[str, Any]:
        if Path(text).suffix in _FILES:
            return cls.from_file(text).model_dump()
        if text.partition(":")[0] in cls._members:
            return super()._from_text(text)
        factors = [record for part in text.split("x") for record in _named(part, text)]
        return factors[0] if len(factors) == 1 else {"kind": "direct-product", "factors": factors}

    def label(self) -> str:
        """Return the name."""
        return self.name

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the group: ``S4``, ``S4xZ2``."""

    @property
    @abstractmethod
    def order(self) -> int:
        """The number of elements."""

    @abstractmethod
    def make_table(self) -> Any:
        """Compute ``table``; called once."""

    def make_elements(self) -> tuple[str, ...]:
        """Compute ``elements``; by default their numbers."""
        return tuple(map(str, range(self.order)))

    def make_class_of(self) -> Any:
        """Compute ``class_of``; by default by conjugation, classes in the order of their first elements."""
        return conjugacy_classes(self.table, self.inverses)

    def make_class_sizes(self) -> Any:
        """Compute ``class_sizes``; by default by counting."""
        return np.bincount(self.class_of)

    def make_class_names(self) -> tuple[str, ...]:
        """Compute ``class_names``; by default the shortest name in each class, the first of equally long ones."""
        return tuple(
            min((self.elements[element] for element in members), key=lambda name: (len(name), name))
            for members in self.classes
        )

    def make_irreps(self) -> tuple[Irrep, ...]:
        """Compute ``irreps``; by default by a numerical decomposition of the regular representation."""
        return decompose(self)

    @property
    def table(self) -> Int[np.ndarray, "order order"]:
        """The number of the product ab, in row a and column b."""
        self.check_order("table")
        return _once(type(self).make_table, self)

    @property
    def inverses(self) -> Int64[np.ndarray, " order"]:
        """The number of the inverse of each element."""
        return _once(_inverses, self)

    @property
    def elements(self) -> tuple[str, ...]:
        """A readable name of each element: ``(12)(345)``, ``r^2 s``."""
        self.check_order("list of elements")
        return _once(type(self).make_elements, self)

    @property
    def class_of(self) -> Int64[np.ndarray, " order"]:
        """The number of the conjugacy class of each element; the identity's is 0."""
        self.check_order("list of classes")
        return _once(type(self).make_class_of, self)

    @property
    def classes(self) -> tuple[Int64[np.ndarray, " size"], ...]:
        """The elements of each conjugacy class, in increasing order; the first class contains the identity."""
        return _once(_classes, self)

    @property
    def class_sizes(self) -> Int64[np.ndarray, " classes"]:
        """The number of elements of each conjugacy class."""
        return _once(type(self).make_class_sizes, self)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The name of an element of each conjugacy class."""
        return _once(type(self).make_class_names, self)

    @property
    def irreps(self) -> tuple[Irrep, ...]:
        """All irreducible representations over the complex numbers: the trivial one, then by dimension."""
        return _once(type(self).make_irreps, self)

    @property
    def characters(self) -> Num[np.ndarray, "irreps classes"]:
        """The character table: float64 where all characters are real, complex128 otherwise."""
        return _once(_characters, self)

    def real_irreps(self) -> tuple[Irrep, ...]:
        """Return the irreps of a group all of whose irreps can be written with real matrices.

        Raises:
            GroupError: one cannot; the message states which, and why that matters.
        """
        for irrep in self.irreps:
            if irrep.indicator != 1:
                reason = "is not real" if irrep.indicator == 0 else "is real but its matrices cannot be"
                raise GroupError(
                    f"all irreps must be real: the irrep {irrep.name!r} of {self.name}, of dimension "
                    f"{irrep.dimension}, has the Frobenius-Schur indicator {irrep.indicator}, its character {reason} "
                    "(weights are real, and theory expands them in the entries of real irreps)"
                )
        return self.irreps

    def check_order(self, what: str) -> None:
        """Refuse computations that take too much memory for a group of many elements."""
        if self.order > LARGEST_ORDER:
            raise GroupError(
                f"the order must be at most {LARGEST_ORDER} for a {what}: order={self.order} of {self.name}; "
                "its class sizes and characters need none"
            )


@cache
def _remembered(compute: Callable[[Group], Any], group: Group) -> Any:
    return frozen(compute(group))


def _once(compute: Callable[[_Member], _Value], group: _Member) -> _Value:
    """Return a computed property of a group, from memory if it is known for a group of the same content."""
    return cast(_Value, _remembered(cast(Callable[[Group], Any], compute), group))


def _inverses(group: Group) -> Int64[np.ndarray, " order"]:
    return np.asarray(np.argmin(group.table, axis=1))


def _classes(group: Group) -> tuple[Int64[np.ndarray, " size"], ...]:
    sizes = np.bincount(group.class_of)
    return tuple(map(frozen, np.split(np.argsort(group.class_of, kind="stable"), np.cumsum(sizes)[:-1])))


def _characters(group: Group) -> Num[np.ndarray, "irreps classes"]:
    return np.stack([irrep.character for irrep in group.irreps])


def conjugacy_classes(
    table: Int[np.ndarray, "order order"], inverses: Int64[np.ndarray, " order"]
) -> Int64[np.ndarray, " order"]:
    """Return the number of each element's conjugacy class, classes numbered by their first elements."""
    class_of = np.full(len(table), -1)
    for element in range(len(table)):
        if class_of[element] < 0:
            class_of[table[table[:, element], inverses]] = class_of.max() + 1
    return class_of


def _named(part: str, text: str) -> list[dict[str, Any]]:
    found = re.fullmatch(r"([SADZ])(\d+)(?:\^(\d+))?", part.strip())
    if not found:
        raise ValueError(
            "a group must be one of Z7 (cyclic), S4 (symmetric), A5 (alternating), D4 (dihedral, of order 2 x 4), "
            f"Z2^3, a product such as S4xZ2, or a file of its multiplication table ({', '.join(_FILES)}): {shown(text)}"
        )
    letter, number, power = found.groups()
    if power is not None and (letter, number) == ("Z", "2"):
        return [{"kind": "elementary-abelian", "k": int(power)}]
    if power == "0":
        raise ValueError(f"a power of a group must be at least 1: {text!r}")
    return [{"kind": _NAMES[letter], "n": int(number)}] * int(power or 1)
