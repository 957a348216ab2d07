"""Searches over parities: the learners at the corners of the statistical query frontier."""

import math
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float32, Int64, UInt64
from pydantic import Field

from elegans import random
from elegans.learners.base import Learner, LearnerData, LearnerRun
from elegans.models.base import Model
from elegans.tasks import Regime, Sample, SparseParity, Task

LARGEST_SEARCH = 2**30
"""Maximum number of parities for a search in random order."""
KEPT = 2**18
"""Random orders of at most this many parities are drawn at once and kept."""
BLOCK = 2**21
"""Approximate number of words of 64 examples in memory at once."""


class SubsetSearch(Learner, Model):
    """Tries parities of k inputs on the sample and keeps the one with the fewest mistakes, or the first of several.

    ``SubsetSearch()`` is exhaustive search: one parity per round, in C(n, k) rounds. ``parallel=r`` tries r at once, in
    ceil(C(n, k) / r) rounds. ``order="random", steps=T`` tries q = r T distinct random parities: the right one is
    among them with probability min(1, q / C(n, k)). If all are tried and labels are clean, the answer is right
    with probability at least 1 - (C(n, k) - 1) 2^-m for a sample of size m.

    Its parameters are ``{"support": (k,)}``; before the first round the support is empty and the answer always +1.

    Source: Pareto frontiers, section 3.2 (warm-up: exhaustive, parallel and random subset search); costs in
    ``elegans.theory.exhaustive_search`` and its neighbours.

    Args:
        order: ``exhaustive`` (the order of their largest coordinates) or ``random`` (drawn for each trial).
        parallel: r, the number of parities tried per round.
        examples: the number of examples on which a round's parities are tried: the first of the sample, by default all
            of it; online, where it must be given, fresh ones in each round.
        steps: T, the largest number of rounds; None to try all parities.
        stopping: when the trial counts as solved, and whether it then ends.
    """

    shorthand = "order"
    order: Literal["exhaustive", "random"] = "exhaustive"
    parallel: Annotated[int, Field(ge=1, lt=2**32)] = 1
    examples: Annotated[int, Field(ge=1, lt=2**31)] | None = None

    def check(self, task: Task) -> None:
        if not isinstance(task, SparseParity):
            raise ValueError(f"subset-search must look for a sparse-parity: task={task.kind!r}")
        if math.comb(task.n, task.k) > LARGEST_SEARCH:
            count = math.comb(task.n, task.k)
            raise ValueError(f"C(n, k) must be at most 2^30 for a search: n={task.n}, k={task.k}, C(n, k)={count}")

    def check_regime(self, task: Task, regime: Regime) -> None:
        if isinstance(regime, Sample):
            return
        if self.examples is None:
            raise ValueError(f"examples of subset-search must be given without a sample: regime={regime.kind!r}")
        regime.check(task, self.rounds(task), self.examples)

    def rounds(self, task: Task) -> int:
        """Return the number of rounds for trying all parities, or ``steps`` if that is smaller."""
        assert isinstance(task, SparseParity)
        every = -(-math.comb(task.n, task.k) // self.parallel)
        return every if self.steps is None else min(every, self.steps)

    def initialise(self, key: random.Key, task: Task) -> dict[str, np.ndarray]:
        return {"support": np.zeros(0, np.int64)}

    def apply(self, parameters: Any, x: Float32[Any, "count n"]) -> Float32[Any, " count"]:
        return x[:, parameters["support"]].prod(axis=1)

    def begin(self, lesson: LearnerData) -> LearnerRun:
        return _Search(self, lesson)


class _Search(LearnerRun):
    """A search under way: the number of rounds done, and the best parity so far."""

    def __init__(self, search: SubsetSearch, lesson: LearnerData) -> None:
        assert isinstance(lesson.task, SparseParity)
        self.search, self.lesson = search, lesson
        self.n, self.k = lesson.task.n, lesson.task.k
        self.total = math.comb(self.n, self.k)
        self.round = 0
        self.best, self.support = math.inf, np.zeros(0, np.int64)
        self.sample: Sheet | None = None
        if isinstance(lesson.regime, Sample):
            size = lesson.regime.size
            self.sample = Sheet(lesson, 0, size if search.examples is None else min(size, search.examples))

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        return {"support": self.support}

    def advance(self, rounds: int) -> None:
        first, last = self.round, self.round + rounds
        if self.sample is not None:
            before = self._try(self.sample, first, last)
        else:
            assert self.search.examples is not None
            before = 0.0
            for number in range(first, last):
                sheet = Sheet(self.lesson, number * self.search.examples, self.search.examples)
                before += self._try(sheet, number, number + 1)
        self.loss = self.error = before / rounds
        self.round = last

    def _try(self, sheet: "Sheet", first: int, last: int) -> float:
        """Try the parities of some rounds and keep the best; return the sum over rounds of the best error before."""
        parallel, size, before = self.search.parallel, max(1, BLOCK // sheet.columns.shape[1]), 0.0
        end = min(last * parallel, self.total)
        for start in range(first * parallel, end, size):
            supports = self._supports(np.arange(start, min(start + size, end)))
            errors = sheet.mistakes(supports) / sheet.count
            best = np.minimum.accumulate(np.concatenate([[min(self.best, 1.0)], errors]))
            before += float(best[:-1][np.arange(start, start + len(errors)) % parallel == 0].sum())
            row = int(errors.argmin())
            if errors[row] < self.best:
                self.best, self.support = float(errors[row]), np.sort(supports[row])
        return before

    def _supports(self, positions: Int64[np.ndarray, " count"]) -> Int64[np.ndarray, "count k"]:
        """Return the supports at some positions in the order of the search."""
        if self.search.order == "random":
            positions = self._ranks(positions) if self.total > KEPT else self._all_ranks[positions]
        return unrank(positions, self.n, self.k)

    @cached_property
    def _all_ranks(self) -> Int64[np.ndarray, " total"]:
        return self._ranks(np.arange(self.total))

    def _ranks(self, positions: Int64[np.ndarray, " count"]) -> Int64[np.ndarray, " count"]:
        """Return the positions in exhaustive order of the parities at some positions in random order."""
        key, epoch, size = self.lesson.key("init"), np.zeros(len(positions), np.uint32), np.uint32(self.total)
        ranks = random.permuted(key, epoch=epoch, position=positions.astype(np.uint32), size=size)
        return np.asarray(ranks).astype(np.int64)


class Sheet:
    """Examples packed for counting: bit e of a coordinate's row is 1 where example e is -1 there.

    Args:
        lesson: the source of the examples.
        first: the index of the first one.
        count: the number of examples.
    """

    def __init__(self, lesson: LearnerData, first: int, count: int) -> None:
        self.count = count
        parts = []
        for start in range(first, first + count, 2**16):
            index = np.arange(start, min(start + 2**16, first + count), dtype=np.uint32)
            x, y = lesson.examples(index)
            parts.append(np.packbits(np.vstack([x.T, y]) < 0, axis=1))
        packed = np.concatenate(parts, axis=1)
        padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
        padded[:, : packed.shape[1]] = packed
        words: UInt64[np.ndarray, "n_and_label words"] = padded.view(np.uint64)
        self.columns, self.labels = words[:-1], words[-1]

    def mistakes(self, supports: Int64[np.ndarray, "count k"]) -> Int64[np.ndarray, " count"]:
        """Return how many examples each parity gets wrong."""
        wrong = self.columns[supports[:, 0]] ^ self.labels
        for column in range(1, supports.shape[1]):
            wrong ^= self.columns[supports[:, column]]
        return np.asarray(np.bitwise_count(wrong).sum(axis=1, dtype=np.int64))


def unrank(places: Int64[np.ndarray, " count"], n: int, k: int) -> Int64[np.ndarray, "count k"]:
    """Return the subsets of {0, …, n-1} at some positions in colexicographic order, one per row.

    Formula: place = sum_i C(c_i, i) with c_1 < … < c_k (the combinatorial number system).
    Source: Knuth, "The Art of Computer Programming", volume 4A, section 7.2.1.3.

    Args:
        places: from 0 to C(n, k) - 1.
        n: the size of the ground set.
        k: the size of the subsets.

    Returns:
        int64 of shape (count, k), each row in decreasing order.
    """
    left = np.array(places, np.int64)
    chosen = np.empty((len(left), k), np.int64)
    for column, size in enumerate(range(k, 0, -1)):
        counts = _counts(n, size)
        chosen[:, column] = np.searchsorted(counts, left, side="right") - 1
        left -= counts[chosen[:, column]]
    return chosen


@lru_cache(maxsize=64)
def _counts(n: int, size: int) -> Int64[np.ndarray, " n"]:
    return np.array([math.comb(c, size) for c in range(n)], np.int64)
