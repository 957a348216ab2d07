"""The XOR in any orthonormal basis, and its neighbours: labels that depend on a few directions of the inputs."""

from abc import abstractmethod
from typing import Annotated, Any, Literal, Self

import numpy as np
from jaxtyping import Float32, UInt32
from pydantic import Field, SerializeAsAny, field_validator, model_validator

from elegans import random
from elegans.component import Component
from elegans.tasks.base import Task, flip

ORTHONORMAL = 1e-5
"""How far Q^T Q may be from the identity, entry by entry, for a basis Q that is given in single precision."""
LARGEST_TABLE = 10
"""The largest number of directions of a truth table."""


class Link(Component, family=True):
    """The function g of a multi-index target y = g(U x): of the signs of a few directions of x, with labels -1 and 1.

    All functions of signs are of this form; on Gaussian inputs they are those of the orthants.
    """

    @property
    @abstractmethod
    def directions(self) -> int:
        """How many directions it looks at."""

    @abstractmethod
    def value(self, along: Float32[Any, "count directions"]) -> Float32[Any, " count"]:
        """Return the labels, -1 or 1, of the inputs' coordinates along the directions; 0 counts as positive."""


class SignedParity(Link, kind="signed-parity"):
    """The product of k signs, times a sign: the XOR of two by default, which is 1 where they differ.

    Args:
        k: how many directions, at least 1.
        sign: what the product is multiplied by, -1 or 1.
    """

    shorthand = "k"
    k: Annotated[int, Field(ge=1)] = 2
    sign: Literal[-1, 1] = -1

    @property
    def directions(self) -> int:
        """The number k."""
        return self.k

    def value(self, along: Float32[Any, "count k"]) -> Float32[Any, " count"]:
        """Return the labels (count,)."""
        return self.sign * signs_of(along).prod(axis=1)


class TruthTable(Link, kind="truth-table"):
    """Any function of a few signs, its values written one after another: ``-++-`` is the XOR of two.

    Args:
        labels: 2^k characters + and -, for k from 1 to 10; in the place p, that of the signs of which the j-th is -1
            where bit j of p is set: for two directions ++, -+, +-, --.
    """

    shorthand = "labels"
    labels: str

    @field_validator("labels")
    @classmethod
    def _is_table(cls, labels: str) -> str:
        sizes = [2**k for k in range(1, LARGEST_TABLE + 1)]
        if set(labels) - set("+-") or len(labels) not in sizes:
            raise ValueError(f"labels of a truth table must be 2, 4, …, {sizes[-1]} characters + and -: {labels!r}")
        return labels

    @property
    def directions(self) -> int:
        """The number k of signs whose 2^k values are written."""
        return len(self.labels).bit_length() - 1

    def value(self, along: Float32[Any, "count k"]) -> Float32[Any, " count"]:
        """Return the labels (count,)."""
        place = ((along < 0) * 2 ** np.arange(self.directions, dtype=np.uint32)).sum(axis=1)
        table = np.array([1 if label == "+" else -1 for label in self.labels], np.float32)
        return along.__array_namespace__().asarray(table)[place]


class XOR(Task, kind="xor"):
    """The XOR y = -(x . q_1)(x . q_2) on the hypercube in an orthonormal basis Q, x = Q s with s uniform signs.

    A learner that is rotation invariant learns it in every basis alike. Beyond the two-phase theory, inputs may be
    Gaussian, and the label another function of the signs of the first few directions q_1, q_2, …: another parity
    (``link="signed-parity:3"``) or any truth table. Labels are signs: real-valued targets are not of this family.

    Counters: example i is drawn as for ``SparseParity``, so that in the standard basis both have the same inputs; a
    normal coordinate j is drawn at (i, j).

    Source: Glasgow, "SGD Finds then Tunes Features in Two-Layer Neural Networks with Near-Optimal Sample Complexity: A
    Case Study in the XOR Problem" (2024), section 2, and section 6 for what lies beyond.

    Args:
        n: the input size, at least 2.
        basis: ``standard``, ``random`` (uniform, drawn for each trial from its task stream), or Q itself, n rows of n.
        inputs: whether s has uniform ``signs`` or is standard ``gaussian``.
        link: what the label is of the coordinates of s: their XOR by default.
        noise: the probability that a training label is flipped, from 0 to 1. Evaluation is clean.
    """

    n: Annotated[int, Field(ge=2, le=65536)]
    basis: Literal["standard", "random"] | tuple[tuple[float, ...], ...] = "standard"
    inputs: Literal["signs", "gaussian"] = "signs"
    link: SerializeAsAny[Link] = SignedParity()
    noise: Annotated[float, Field(ge=0, le=1)] = 0.0

    @field_validator("basis", mode="before")
    @classmethod
    def _is_matrix(cls, basis: Any) -> Any:
        """Turn arrays into rows of numbers."""
        if isinstance(basis, str) and basis in ("standard", "random"):
            return basis
        try:
            matrix = np.asarray(basis, float)
        except (TypeError, ValueError):
            raise ValueError(f"basis must be standard, random, or n rows of n numbers: basis={basis!r}") from None
        if matrix.ndim != 2:
            raise ValueError(f"basis must have shape (n, n): shape={matrix.shape}")
        return tuple(tuple(row) for row in matrix.tolist())

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.link.directions > self.n:
            named = f"{self.link.label()!r} has {self.link.directions}, n={self.n}"
            raise ValueError(f"a link must look at no more than n directions: {named}")
        if isinstance(self.basis, str):
            return self
        matrix = np.array(self.basis)
        if matrix.shape != (self.n, self.n):
            raise ValueError(f"basis must have shape (n, n): shape={matrix.shape}, n={self.n}")
        error = float(np.abs(matrix.T @ matrix - np.eye(self.n)).max())
        if not error <= ORTHONORMAL:
            rule = f"basis must be orthonormal: each entry of Q^T Q - 1 at most {ORTHONORMAL:g} in size"
            raise ValueError(f"{rule}: largest={error:.6g}")
        return self

    @property
    def input_size(self) -> int:
        """The number n of coordinates."""
        return self.n

    @property
    def on_cube(self) -> bool:
        """Whether inputs are uniform signs as they stand, in no other basis."""
        return self.basis == "standard" and self.inputs == "signs"

    def draw(self, key: random.Key) -> Float32[np.ndarray, "n n"] | None:
        """Return the basis Q, a column a direction; None for the standard one."""
        if self.basis == "standard":
            return None
        if self.basis == "random":
            return uniform_basis(key, self.n).astype(np.float32)
        return np.array(self.basis, np.float32)

    def examples(
        self, hidden: Any, key: random.Key, index: UInt32[Any, " count"]
    ) -> tuple[Float32[Any, "count n"], Float32[Any, " count"]]:
        """Return inputs (count, n) and their labels (count,)."""
        if self.inputs == "signs":
            along = random.rademacher(key, index, self.n)
        else:
            along = random.normal(key, index[:, None], np.arange(self.n, dtype=np.uint32)[None, :])
        labels = self.link.value(along[:, : self.link.directions])
        return (along if hidden is None else along @ hidden.T), labels

    def target(self, hidden: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        """Return the clean labels (count,) of given inputs."""
        few = slice(self.link.directions)
        return self.link.value(x[:, few] if hidden is None else x @ hidden[:, few])

    def corrupt(self, labels: Float32[Any, " count"], key: random.Key, index: UInt32[Any, " count"]) -> Any:
        """Flip each label with the probability ``noise``; the same examples every time they are seen."""
        return flip(labels, self.noise, key, index)


def signs_of(numbers: Float32[Any, "*shape"]) -> Float32[Any, "*shape"]:
    """Return 1 where a number is at least 0 and -1 elsewhere."""
    return 1 - 2 * (numbers < 0).astype(np.float32)


def uniform_basis(key: random.Key, n: int) -> np.ndarray:
    """Return a uniform orthonormal matrix: the Q of a normal matrix's QR decomposition, R's diagonal being positive.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups" (2007).

    Args:
        key: the key of its draws.
        n: its size.

    Returns:
        float64 of shape (n, n).
    """
    place = np.arange(n, dtype=np.uint32)
    orthonormal, upper = np.linalg.qr(np.asarray(random.normal(key, place[:, None], place[None, :]), np.float64))
    return np.asarray(orthonormal * np.sign(np.diag(upper)))
