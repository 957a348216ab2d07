"""Sparse parities: the label is the product of k of the n input signs."""

import math
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float32, UInt32
from pydantic import Field, field_validator, model_validator

from elegans import random
from elegans.tasks.base import Task, flip


class SparseParity(Task):
    """The (n, k)-parity: x uniform on {-1, +1}^n, y the product of x over a support of k coordinates.

    The support is drawn from the trial's task stream unless it is given. Any k coordinates are equally
    hard for a learner that treats coordinates alike, and no correlation with fewer than k of them
    carries information: the model system of "Pareto Frontiers in Deep Feature Learning", section 2.

    Args:
        n: the input size, at least 1.
        k: the size of the support, from 1 to n.
        support: the k distinct coordinates, or None to draw them for each trial.
        noise: the probability that a training label is flipped, from 0 to 1. Evaluation is clean.
    """

    n: Annotated[int, Field(ge=1, le=65536)]
    k: Annotated[int, Field(ge=1)]
    support: tuple[int, ...] | None = None
    noise: Annotated[float, Field(ge=0, le=1)] = 0.0

    @field_validator("support")
    @classmethod
    def _in_order(cls, support: tuple[int, ...] | None) -> tuple[int, ...] | None:
        return None if support is None else tuple(sorted(support))

    @model_validator(mode="after")
    def _support_fits(self) -> "SparseParity":
        if self.k > self.n:
            raise ValueError(f"k must be at most n: k={self.k}, n={self.n}")
        if self.support is None:
            return self
        if len(set(self.support)) != self.k or len(self.support) != self.k:
            raise ValueError(f"support must hold k distinct coordinates: k={self.k}, support={self.support}")
        if min(self.support) < 0 or max(self.support) >= self.n:
            raise ValueError(f"support must lie in 0..n-1: n={self.n}, support={self.support}")
        return self

    @property
    def input_size(self) -> int:
        """The number n of signs."""
        return self.n

    @property
    def information(self) -> float:
        """log2 of the number of supports: the bits that identify one (Pareto frontiers, section 1)."""
        return math.log2(math.comb(self.n, self.k))

    def draw(self, key: random.Key) -> np.ndarray:
        """Return the support, int64 of shape (k,), in increasing order."""
        if self.support is not None:
            return np.asarray(self.support, np.int64)
        return np.asarray(random.subsets(key, rows=1, n=self.n, size=self.k)[0])

    def examples(
        self, hidden: Any, key: random.Key, index: UInt32[Any, " count"]
    ) -> tuple[Float32[Any, "count n"], Float32[Any, " count"]]:
        """Return signs (count, n) and their products over the support (count,)."""
        x = random.signs(key, index, self.n)
        return x, x[:, hidden].prod(axis=1)

    def corrupt(self, labels: Float32[Any, " count"], key: random.Key, index: UInt32[Any, " count"]) -> Any:
        """Flip each label with the probability ``noise``; the same examples every time they are seen."""
        return flip(labels, self.noise, key, index)
