"""Sparse parities: the label is the product of k of the n input signs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from elegans.component import Component
from elegans.errors import shown
from elegans.tasks.base import NoisyLabels, Task

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float32

    from elegans import random
    from elegans.tasks.arrays import Indices, SignedExamples


class Supported(Component):
    """The part of a task whose labels depend on k of its n coordinates; inherit from this and then from ``Task``.

    Args:
        n: the input size, at least 1.
        k: the size of the support, from 1 to n.
        support: the k distinct coordinates, or None to draw them for each trial.
    """

    n: Annotated[int, Field(ge=1, le=65536)]
    k: Annotated[int, Field(ge=1)]
    support: tuple[int, ...] | None = None

    @field_validator("support")
    @classmethod
    def _in_order(cls, support: tuple[int, ...] | None) -> tuple[int, ...] | None:
        return None if support is None else tuple(sorted(support))

    @model_validator(mode="after")
    def _support_fits(self) -> Self:
        if self.k > self.n:
            raise ValueError(f"k must be at most n: k={self.k}, n={self.n}")
        if self.support is None:
            return self
        if len(set(self.support)) != self.k or len(self.support) != self.k:
            raise ValueError(f"support must hold k distinct coordinates: k={self.k}, support={shown(self.support)}")
        if min(self.support) < 0 or max(self.support) >= self.n:
            raise ValueError(f"support must lie in 0..n-1: n={self.n}, support={shown(self.support)}")
        return self

    @property
    def input_size(self) -> int:
        """The number n of coordinates."""
        return self.n

    @property
    def information(self) -> float:
        """log2 of the number of supports: the bits that identify one (Pareto frontiers, section 1)."""
        return math.log2(math.comb(self.n, self.k))

    def draw(self, key: random.Key) -> np.ndarray:
        """Return the support, int64 of shape (k,), in increasing order."""
        import numpy as np

        from elegans import random

        if self.support is not None:
            return np.asarray(self.support, np.int64)
        return np.asarray(random.subsets(key, rows=1, n=self.n, size=self.k)[0])


class SparseParity(NoisyLabels, Supported, Task):
    """The (n, k)-parity: x uniform on {-1, +1}^n, y the product of x over a support of k coordinates.

    The support is drawn from the trial's task stream unless it is given. All supports are equally hard for a learner
    that treats coordinates alike, and correlations with fewer than k coordinates carry no information.

    Source: Pareto frontiers, section 2.

    Args: as ``Supported`` and ``NoisyLabels``.
    """

    def examples(self, hidden: Any, key: random.Key, index: Indices) -> SignedExamples:
        """Return signs (count, n) and their products over the support (count,)."""
        from elegans import random

        x = random.rademacher(key, index, self.n)
        return x, self.target(hidden, x)

    def target(self, hidden: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        return x[:, hidden].prod(axis=1)


class DisjointParity(SparseParity):
    """A (n, k)-parity with one coordinate of its support in each of k blocks of n/k successive coordinates.

    Source: thesis, chapter 5, section 5.4 (disjoint parities).

    Args: as ``SparseParity``, with n a multiple of k, and one coordinate of ``support`` per block.
    """

    @model_validator(mode="after")
    def _blocks_fit(self) -> DisjointParity:
        if self.n % self.k:
            raise ValueError(f"n of a disjoint parity must be a multiple of k: n={self.n}, k={self.k}")
        blocks = [coordinate // self.block for coordinate in self.support or ()]
        if self.support is not None and blocks != list(range(self.k)):
            rule = f"support must have one coordinate per block of {self.block}"
            raise ValueError(f"{rule}: support={shown(self.support)}")
        return self

    @property
    def block(self) -> int:
        """The number n/k of coordinates in a block."""
        return self.n // self.k

    @property
    def information(self) -> float:
        return self.k * math.log2(self.block)

    def draw(self, key: random.Key) -> np.ndarray:
        import numpy as np

        from elegans import random

        if self.support is not None:
            return super().draw(key)
        offsets = random.integers(key, np.arange(self.k, dtype=np.uint32), bound=np.uint32(self.block))
        return np.asarray(np.arange(self.k) * self.block + offsets.astype(np.int64))
