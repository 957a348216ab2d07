"""Biased parities, whose coordinates are correlated with the label on some of the inputs."""

from typing import Annotated, Any, Self

import numpy as np
from jaxtyping import Bool
from pydantic import Field, model_validator

from elegans import random
from elegans.tasks.arrays import Indices, SignedExamples
from elegans.tasks.base import Task
from elegans.tasks.parity import Supported


class BiasedParity(Supported, Task):
    """D_A: the parity of k of n signs, on a mixture of uniform inputs (D1) and inputs whose k signs are all equal (D2).

    Inputs are x = e / sqrt(n) with signs e, so ||x|| = 1. D1 is uniform; D2 is uniform off the support A and has
    all signs on A equal, to +1 or to -1 with probability 1/2 each. The label is the product of the signs on A; k is
    odd, so on D2 the label is the common sign, and E[y x_j] is mix / sqrt(n) on A and 0 elsewhere.

    Counters: example i has the signs of ``random.rademacher`` in its first ceil(n / 64) lanes. In the next lane, bit 0
    of the first word is the common sign (0 for +1), and the example comes from D2 if the upper 24 bits of the second
    word, as a uniform number, are below ``mix``; its signs on A are then replaced by the common sign.

    Source: Daniely and Malach, "Learning Parities with Neural Networks" (2020), section 2 (which prints the signs on A
    in D2 as +-1; they are +-1/sqrt(n) as all others are).

    Args:
        mix: the probability of D2. The other fields are as in ``Supported``, with k odd.
    """

    mix: Annotated[float, Field(ge=0, le=1)] = 0.5

    @model_validator(mode="after")
    def _is_odd(self) -> Self:
        if self.k % 2 == 0:
            raise ValueError(f"k of a biased parity must be odd: k={self.k}")
        return self

    def aligned(self, key: random.Key, index: Indices) -> Bool[Any, " count"]:
        """Return which of the examples with the given indices come from D2."""
        return self._is_aligned(self._words(key, index)[1])

    def _is_aligned(self, words: Any) -> Any:
        return (words >> 8).astype(np.float32) * np.float32(2.0**-24) < np.float32(1) * self.mix

    def examples(self, hidden: Any, key: random.Key, index: Indices) -> SignedExamples:
        """Return inputs (count, n) of +-1/sqrt(n), and the products of their signs over the support (count,)."""
        first, second = self._words(key, index)
        common = 1 - 2 * (first & 1).astype(np.float32)
        on_support = (np.arange(self.n)[:, None] == hidden[None, :]).any(axis=1)
        replaced = (self._is_aligned(second)[:, None] & on_support[None, :]).astype(np.float32)
        signs = random.rademacher(key, index, self.n) * (1 - replaced) + common[:, None] * replaced
        return signs * np.float32(self.n**-0.5), signs[:, hidden].prod(axis=1)

    def _words(self, key: random.Key, index: Indices) -> tuple[Any, Any]:
        return random.bits(key, index, lane=np.uint32((self.n + 63) // 64))
