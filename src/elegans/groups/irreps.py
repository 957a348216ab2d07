"""Irreducible representations, and the properties of a group needed to compute them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float64, Int32, Int64, Num

from elegans.display import displayed

TOLERANCE = 1e-10
"""Maximum deviation of matrices from homomorphic and unitary ones, by entry, and of characters from whole numbers."""


@displayed
@dataclass(frozen=True, eq=False)
class Irrep:
    """An irreducible representation R of a finite group, by orthogonal or unitary matrices.

    Args:
        name: its name among the irreps of its group.
        dimension: d, the size of its matrices.
        character: tr R on each conjugacy class, shape (classes,): float64 if it is real, complex128 otherwise.
        indicator: Frobenius and Schur's, the mean of tr R(g^2): 1 if R can be written with real matrices, 0 if its
            character is not real, -1 if its character is real but its matrices cannot be.
        build: makes the matrices on first use.
    """

    name: str
    dimension: int
    character: Num[np.ndarray, " classes"]
    indicator: int
    build: Callable[[], Num[np.ndarray, "order d d"]]

    @cached_property
    def matrices(self) -> Num[np.ndarray, "order d d"]:
        """R(g) for every element g, shape (order, d, d), with R(ab) = R(a) R(b).

        Real orthogonal (float64) if the indicator is 1, complex unitary otherwise.
        """
        matrices: Num[np.ndarray, "order d d"] = frozen(self.build())
        return matrices


class Finite(Protocol):
    """The properties of a group from which representations are computed; see ``Group`` for each of them."""

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
    """Return a value and make it read-only if it is an array, since it is shared."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    return value


def whole(values: Any) -> Any:
    """Round real and imaginary parts within 1e-10 of whole numbers; no zero is negative."""
    if np.iscomplexobj(values):
        return whole(values.real) + 1j * whole(values.imag)
    nearest = np.rint(values)
    return np.asarray(np.where(np.abs(values - nearest) < TOLERANCE, nearest, values) + 0.0)


def indicators(group: Finite, characters: Num[np.ndarray, "irreps classes"]) -> Float64[np.ndarray, " irreps"]:
    """Return the Frobenius-Schur indicator (1 / |G|) sum_g chi(g^2) of each character, before rounding."""
    squares = group.class_of[np.diagonal(group.table)]
    return np.asarray(characters[:, squares].mean(axis=1).real)
