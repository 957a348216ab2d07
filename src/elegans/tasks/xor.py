"""The XOR in any orthonormal basis, and its neighbours: labels that depend on a few directions of the inputs."""

from typing import Annotated, Any, Literal, Self

import numpy as np
from jaxtyping import Float32
from pydantic import Field, SerializeAsAny, field_validator, model_validator

from elegans import random
from elegans.errors import shown
from elegans.tasks.arrays import Indices, SignedExamples
from elegans.tasks.base import NoisyLabels, Task
from elegans.tasks.boolean import BooleanFunction, Parity

ORTHONORMAL = 1e-5
"""Maximum deviation of Q^T Q from the identity, entry by entry, for a basis Q given in single precision."""


class XOR(NoisyLabels, Task, kind="xor"):
    """The XOR y = -(x . q_1)(x . q_2) on the hypercube in an orthonormal basis Q, x = Q s with s uniform signs.

    A rotation-invariant learner learns it equally well in every basis. Beyond the two-phase theory, inputs may be
    Gaussian, and the label another function of the signs of the first k directions q_1, q_2, …: the parity of more
    (``k=3``) or any Boolean function. As in Fourier analysis, a bit is 1 if its coordinate is negative (0 counts as
    positive); the label is 1 if the function is 1, and -1 otherwise.

    Counters: example i is drawn as for ``SparseParity``, so in the standard basis both have the same inputs; a
    normal coordinate j is drawn at (i, j).

    Source: Glasgow, "SGD Finds then Tunes Features in Two-Layer Neural Networks with Near-Optimal Sample Complexity: A
    Case Study in the XOR Problem" (2024), section 2, and section 6 for what lies beyond.

    Args:
        n: the input size, at least 2.
        basis: ``standard``, ``random`` (uniform, drawn for each trial from its task stream), or Q itself, n rows of n.
        inputs: whether s has uniform ``signs`` or is standard ``gaussian``.
        k: how many directions the label depends on, from 1 to n.
        function: the function of their k bits that gives the label: ``parity``, ``majority``, ``table:01111110``.
        noise: as in ``NoisyLabels``.
    """

    n: Annotated[int, Field(ge=2, le=65536)]
    basis: Literal["standard", "random"] | tuple[tuple[float, ...], ...] = "standard"
    inputs: Literal["signs", "gaussian"] = "signs"
    k: Annotated[int, Field(ge=1)] = 2
    function: SerializeAsAny[BooleanFunction] = Parity()

    @field_validator("basis", mode="before")
    @classmethod
    def _is_matrix(cls, basis: Any) -> Any:
        if isinstance(basis, str) and basis in ("standard", "random"):
            return basis
        try:
            matrix = np.asarray(basis, float)
        except (TypeError, ValueError):
            raise ValueError(f"basis must be standard, random, or n rows of n numbers: basis={shown(basis)}") from None
        if matrix.ndim != 2:
            raise ValueError(f"basis must have shape (n, n): shape={matrix.shape}")
        return tuple(tuple(row) for row in matrix.tolist())

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.k > self.n:
            raise ValueError(f"k must be at most n: k={self.k}, n={self.n}")
        self.function.by_count(self.k)
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
        return self.n

    @property
    def on_cube(self) -> bool:
        return self.basis == "standard" and self.inputs == "signs"

    def draw(self, key: random.Key) -> Float32[np.ndarray, "n n"] | None:
        """Return the basis Q, with one column per direction; None for the standard one."""
        if self.basis == "standard":
            return None
        if self.basis == "random":
            return uniform_basis(key, self.n).astype(np.float32)
        return np.array(self.basis, np.float32)

    def examples(self, hidden: Any, key: random.Key, index: Indices) -> SignedExamples:
        if self.inputs == "signs":
            along = random.rademacher(key, index, self.n)
        else:
            along = random.normal(key, index[:, None], lane=np.arange(self.n, dtype=np.uint32)[None, :])
        return (along if hidden is None else along @ hidden.T), self._labels(along)

    def target(self, hidden: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        return self._labels(x if hidden is None else x @ hidden[:, : self.k])

    def _labels(self, along: Float32[Any, "count directions"]) -> Float32[Any, " count"]:
        return 2 * self.function.value(along[:, : self.k] < 0) - 1


def uniform_basis(key: random.Key, n: int) -> np.ndarray:
    """Return a uniform orthonormal matrix, float64 of shape (n, n).

    It is the Q of a normal matrix's QR decomposition with positive diagonal of R.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups" (2007).
    """
    index = np.arange(n, dtype=np.uint32)
    orthonormal, upper = np.linalg.qr(np.asarray(random.normal(key, index[:, None], lane=index[None, :]), np.float64))
    return np.asarray(orthonormal * np.sign(np.diag(upper)))
