"""Many parities at once: control bits say which of them gives the label."""

import math
from typing import Annotated, Any, Self

import numpy as np
from jaxtyping import Float64
from pydantic import Field, model_validator

from elegans import random
from elegans.tasks.arrays import Indices, SignedExamples
from elegans.tasks.base import Task


class MultitaskParity(Task):
    """Many (n, k)-parities behind one-hot control bits; few of them are frequent and many are rare.

    An input has ``tasks`` control bits, one of them set, and then n uniform data bits, all of them 0 or 1. If
    control bit i is set, counted from 0, the label is the parity of k data bits that belong to subtask i: 1 if an even
    number of them is set, -1 if an odd number is. Its frequency is proportional to (i + 1)^-(1 + alpha).

    Counters: the data bits of example i are 1 where the signs of ``random.rademacher`` are -1; its subtask follows from
    the first word of the lane after theirs.

    Source: Michaud et al., "The Quantization Model of Neural Scaling" (2023), section 3: a model whose skills are
    learned one by one, the frequent ones first, so the loss falls as a power of width, samples and steps.

    Args:
        n: the number of data bits, at least 1.
        k: how many of them a subtask depends on, from 1 to n.
        tasks: the number of subtasks, at least 1.
        alpha: how fast frequencies fall, above -1; at 0 they follow Zipf's law.
    """

    n: Annotated[int, Field(ge=1, le=65536)]
    k: Annotated[int, Field(ge=1)]
    tasks: Annotated[int, Field(ge=1, le=65536)]
    alpha: Annotated[float, Field(gt=-1, le=10)] = 0.4

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.k > self.n:
            raise ValueError(f"k must be at most n: k={self.k}, n={self.n}")
        return self

    @property
    def input_size(self) -> int:
        return self.tasks + self.n

    @property
    def frequencies(self) -> Float64[np.ndarray, " tasks"]:
        """The probability of each subtask, the largest first."""
        powers = np.arange(1, self.tasks + 1, dtype=np.float64) ** -(1 + self.alpha)
        return np.asarray(powers / powers.sum())

    @property
    def information(self) -> float:
        """log2 of the number of choices of all supports: the bits that identify them."""
        return self.tasks * math.log2(math.comb(self.n, self.k))

    def draw(self, key: random.Key) -> dict[str, np.ndarray]:
        """Return the ``supports``, int64 (tasks, k), and the ``cumulative`` frequencies, float32 (tasks,)."""
        cumulative = np.cumsum(self.frequencies).astype(np.float32)
        cumulative[-1] = 1
        return {"supports": random.subsets(key, rows=self.tasks, n=self.n, size=self.k), "cumulative": cumulative}

    def subtasks(self, hidden: Any, key: random.Key, index: Indices) -> Any:
        """Return the subtask of each example, whole numbers (count,)."""
        uniforms = random.uniform(key, index, lane=np.uint32((self.n + 63) // 64))
        return (uniforms[:, None] >= hidden["cumulative"][None, :]).sum(axis=1)

    def examples(self, hidden: Any, key: random.Key, index: Indices) -> SignedExamples:
        """Return control and data bits (count, tasks + n), and the labels of the subtasks (count,)."""
        signs, subtask = random.rademacher(key, index, self.n), self.subtasks(hidden, key, index)
        control = (subtask[:, None] == np.arange(self.tasks)[None, :]).astype(np.float32)
        labels = signs[np.arange(len(index))[:, None], hidden["supports"][subtask]].prod(axis=1)
        return signs.__array_namespace__().concat([control, (1 - signs) / 2], axis=1), labels
