"""Sums of parities: the label is a real-valued function of a few of the n input signs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from elegans.errors import shown
from elegans.tasks.base import Task
from elegans.tasks.parity import Supported

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float32

    from elegans import random
    from elegans.tasks.arrays import Indices, SignedExamples


class MonomialSum(Supported, Task):
    """A sum of parities of k of n uniform signs: y = sum_S g_S chi_S, chi_S the product of the coordinates in S.

    Labels are real numbers, for the square and the correlation loss. An example is wrong if the output differs from
    its label by more than 1/2. For ``sets=[[0, 1, 2]]`` inputs and labels are the same as for ``SparseParity(k=3)``.

    Source: Abbe, Boix-Adsera and Misiakiewicz (2023), section 1.

    Args: as ``Supported``, with k at most 12, and
        sets: the sets S, each of numbers from 0 to k - 1: place i is the support's ith coordinate in increasing order.
        coefficients: the number g_S of each set; 1 each by default.
    """

    k: Annotated[int, Field(ge=1, le=12)]
    sets: tuple[tuple[Annotated[int, Field(ge=0, lt=12)], ...], ...]
    coefficients: tuple[Annotated[float, Field(allow_inf_nan=False)], ...] | None = None

    @model_validator(mode="after")
    def _sets_fit(self) -> Self:
        if not self.sets:
            raise ValueError("sets must hold at least one set: sets=()")
        for members in self.sets:
            if len(set(members)) != len(members) or max(members, default=0) >= self.k:
                raise ValueError(f"a set must hold distinct numbers below k: k={self.k}, set={shown(members)}")
        if len({frozenset(members) for members in self.sets}) != len(self.sets):
            raise ValueError(f"sets must be distinct: sets={shown(self.sets)}")
        if self.coefficients is not None and len(self.coefficients) != len(self.sets):
            counts = f"{len(self.coefficients)} coefficients, {len(self.sets)} sets"
            raise ValueError(f"there must be one coefficient per set: {counts}")
        return self

    @property
    def real_labels(self) -> bool:
        return True

    @cached_property
    def values(self) -> Float32[np.ndarray, " values"]:
        """The labels by the signs of the support, shape (2^k,): its ith coordinate is -1 if bit i of the place is 1."""
        import numpy as np

        place = np.arange(2**self.k)
        values = np.zeros(2**self.k)
        for members, coefficient in zip(self.sets, self.coefficients or (1.0,) * len(self.sets), strict=True):
            negative = np.bitwise_count(place & sum(1 << member for member in members)) % 2
            values += coefficient * (1.0 - 2.0 * negative)
        return values.astype(np.float32)

    def examples(self, hidden: Any, key: random.Key, index: Indices) -> SignedExamples:
        """Return signs (count, n) and their labels (count,)."""
        from elegans import random

        x = random.rademacher(key, index, self.n)
        return x, self.target(hidden, x)

    def target(self, hidden: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        import numpy as np

        arrays = x.__array_namespace__()
        place = ((x[:, hidden] < 0) * 2 ** np.arange(self.k, dtype=np.int32)).sum(axis=1)
        return arrays.asarray(self.values)[place]
