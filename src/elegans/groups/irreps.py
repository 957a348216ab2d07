"""Irreducible representations, and what their making needs to know of a group."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float64, Int32, Int64, Num

TOLERANCE = 1e-10
"""How far matrices may be from a homomorphism and from unitary, entry by entry, and characters from whole numbers."""


@dataclass(frozen=True, eq=False)
class Irrep:
    """An irreducible representation R of a finite group, by orthogonal or unitary matrices.

    Args:
        name: what it is called among the irreps of its group.
        dimension: d, the size of its matrices.
        character: tr R on each conjugacy class, shape (classes,): float64 where it is real, complex128 otherwise.
        indicator: Frobenius and Schur's, the mean of tr R(g^2): 1 where R can be written by real matrices, 0 where its
            character is not real, -1 where its character is real but its matrices cannot be.
        build: makes the matrices, when they are first asked for.
    """

    name: str
    dimension: int
    character: Num[np.ndarray, " classes"]
    indicator: int
    build: Callable[[], Num[np.ndarray, "order d d"]]

    @cached_property
    def matrices(self) -> Num[np.ndarray, "order d d"]:
        """R(g) for every element g, shape (order, d, d), with R(ab) = R(a) R(b).

        Real orthogonal (float64) where the indicator is 1, complex unitary otherwise.
        """
        matrices: Num[np.ndarray, "order d d"] = frozen(self.build())
        return matrices


class Finite(Protocol):
    """What representations are computed from: a group's table and classes; see ``Group`` for each of them."""

    @property
    def name(self) -> str: ...
    @property
    def order(self) -> int: ...
    @property
    def table(self) -> Int32[np.ndarray, "order order"]: ...
    @property
    def inverses(self) -> Int64[np.ndarray, " order"]: ...
    @property
    def class_of(self) -> Int64[np.ndarray, " order"]: ...
    @property
    def classes(self) -> tuple[Int64[np.ndarray, " size"], ...]: ...
    @property
    def class_sizes(self) -> Int64[np.ndarray, " classes"]: ...


def frozen(value: Any) -> Any:
    """Return a value whose array, if it is one, can no longer be written to: it is shared by all who ask."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    return value


def whole(values: Any) -> Any:
    """Return an array with real and imaginary parts within 1e-10 of whole numbers made these; no zero is negative."""
    if np.iscomplexobj(values):
        return whole(values.real) + 1j * whole(values.imag)
    nearest = np.rint(values)
    return np.asarray(np.where(np.abs(values - nearest) < TOLERANCE, nearest, values) + 0.0)


def indicators(group: Finite, characters: Num[np.ndarray, "irreps classes"]) -> Float64[np.ndarray, " irreps"]:
    """Return the Frobenius-Schur indicator (1 / |G|) sum_g chi(g^2) of each character, before rounding."""
    squares = group.class_of[np.diagonal(group.table)]
    return np.asarray(characters[:, squares].mean(axis=1).real)
