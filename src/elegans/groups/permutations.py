"""Symmetric and alternating groups: permutations of 1, …, n in lexicographic order, written by their cycles."""

from functools import cache, partial
from math import factorial
from typing import Annotated, Any

import numpy as np
from jaxtyping import Int32, Int64
from pydantic import Field

from elegans.groups import young
from elegans.groups.base import Group
from elegans.groups.irreps import Irrep
from elegans.groups.young import Partition


class Symmetric(Group):
    """The symmetric group S_n of all permutations of n points; (ab)(x) = a(b(x)).

    Its irreps have Young's orthogonal form and are named by their partitions; ``trivial``, ``sign``, ``standard`` and
    ``standard⊗sign`` are (n), (1, …, 1), (n-1, 1) and (2, 1, …, 1). Classes are in the lexicographic order of their
    cycles' lengths.

    Args:
        n: the number of points, from 1 to 12; elements and matrices are available up to n = 7.
    """

    n: Annotated[int, Field(ge=1, le=12)]

    @property
    def name(self) -> str:
        return f"S{self.n}"

    @property
    def order(self) -> int:
        return factorial(self.n)

    def make_elements(self) -> tuple[str, ...]:
        return tuple(map(cycle_notation, young.permutation_rows(self.n).tolist()))

    def make_table(self) -> Int32[np.ndarray, "order order"]:
        return compositions(young.permutation_rows(self.n))

    def make_class_of(self) -> Int64[np.ndarray, " order"]:
        number = {cycles: index for index, cycles in enumerate(young.partitions(self.n))}
        return np.array([number[cycle_lengths(row)] for row in young.permutation_rows(self.n).tolist()])

    def make_class_sizes(self) -> Int64[np.ndarray, " classes"]:
        return np.array([young.class_size(cycles) for cycles in young.partitions(self.n)])

    def make_class_names(self) -> tuple[str, ...]:
        """Name the permutation whose cycles, short ones first, use the points in order."""
        return tuple(map(_class_name, young.partitions(self.n)))

    def make_irreps(self) -> tuple[Irrep, ...]:
        """Make names and characters, and on demand matrices, by partition."""
        cycles = list(young.partitions(self.n))
        irreps = []
        for shape in reversed(cycles):
            values = np.array([young.character(shape, lengths) for lengths in cycles], dtype=float)
            build = partial(self._matrices, shape)
            irreps.append(Irrep(_irrep_name(shape), int(values[0]), values, 1, build))
        return tuple(sorted(irreps, key=lambda irrep: irrep.dimension))

    def _matrices(self, shape: Partition) -> Any:
        self.check_order("list of matrices")
        return young.orthogonal_form(shape)


class Alternating(Group):
    """The alternating group A_n of the even permutations of n points; (ab)(x) = a(b(x)).

    Args:
        n: the number of points, from 3 to 7.
    """

    n: Annotated[int, Field(ge=3, le=7)]

    @property
    def name(self) -> str:
        return f"A{self.n}"

    @property
    def order(self) -> int:
        return factorial(self.n) // 2

    def make_elements(self) -> tuple[str, ...]:
        return tuple(map(cycle_notation, _even_rows(self.n).tolist()))

    def make_table(self) -> Int32[np.ndarray, "order order"]:
        return compositions(_even_rows(self.n))


def compositions(rows: Int64[np.ndarray, "order n"]) -> Int32[np.ndarray, "order order"]:
    """Return the table of the compositions a after b of permutations in lexicographic order."""
    lexicographic = young.codes(rows)
    number = np.full(lexicographic[-1] + 1, -1, np.int32)
    number[lexicographic] = np.arange(len(rows))
    return np.stack([number[young.codes(row[rows])] for row in rows])


@cache
def _even_rows(n: int) -> Int64[np.ndarray, "order n"]:
    rows = young.permutation_rows(n)
    moved = np.array([n - len(cycle_lengths(row)) for row in rows.tolist()])
    return np.asarray(rows[moved % 2 == 0])


def cycles_of(row: list[int]) -> list[list[int]]:
    """Return the cycles of a permutation of 0, …, n - 1, each from its smallest point, in the order of these."""
    rest, cycles = set(range(len(row))), []
    while rest:
        cycle = [min(rest)]
        while (point := row[cycle[-1]]) != cycle[0]:
            cycle.append(point)
        rest.difference_update(cycle)
        cycles.append(cycle)
    return cycles


def cycle_lengths(row: list[int]) -> Partition:
    """Return the lengths of a permutation's cycles, longest first."""
    return tuple(sorted(map(len, cycles_of(row)), reverse=True))


def cycle_notation(row: list[int]) -> str:
    """Write a permutation by its cycles of the points 1, …, n: ``(12)(345)``; the identity is ``e``."""
    between = "" if len(row) < 10 else " "
    cycles = [between.join(str(point + 1) for point in cycle) for cycle in cycles_of(row) if len(cycle) > 1]
    return "".join(f"({cycle})" for cycle in cycles) or "e"


def _class_name(cycles: Partition) -> str:
    row, start = list(range(sum(cycles))), 0
    for length in sorted(length for length in cycles if length > 1):
        row[start : start + length] = [*range(start + 1, start + length), start]
        start += length
    return cycle_notation(row)


def _irrep_name(shape: Partition) -> str:
    n = sum(shape)
    known = {
        (2, *[1] * (n - 2)): "standard⊗sign",
        (n - 1, 1): "standard",
        tuple([1] * n): "sign",
        (n,): "trivial",
    }
    return known.get(shape, f"({','.join(map(str, shape))})")
