"""Exact checks of whether a network has solved its task, with as few evaluations as possible."""

from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Bool, Float, Shaped, UInt32

from elegans.stopping import StoppingRule

Wrong = Callable[[UInt32[np.ndarray, "trials count"]], Shaped[np.ndarray, "trials count"]]
"""Returns which of the examples with given indices each network gets wrong, or its losses on real-valued targets."""

MARGIN = 32
"""Examples evaluated beyond the fewest that could decide, since some of the last check's mistakes are now corrected."""
SMALLEST_BLOCK, LARGEST_BLOCK = 128, 4096
CURVE_EXAMPLES, MOST_POINTS, FEWEST_POINTS = 64, 100, 8
"""For a curve of errors: the held-out examples at each point, and the number of points."""
CURVE_SHARE = 0.02
"""Held-out examples that a curve of errors evaluates up to any step, per example in the minibatches up to then. In the
cheapest steps (a ReLU network in the fused engine) an example takes little more time than its evaluation."""


@lru_cache(maxsize=256)
def curve_steps(steps: int, batch_size: int, cost: int = CURVE_EXAMPLES) -> tuple[int, ...]:
    """Return the steps at which errors are evaluated for a curve, evenly spaced on a logarithmic axis.

    Up to ``FEWEST_POINTS`` of them are always evaluated. Others are added only where the curve costs little up to their
    step, since a training may end long before its last step.

    Args:
        steps: the number of steps of the training.
        batch_size: examples per step.
        cost: what a point costs, in examples of a step: see ``Engine.point_cost``.
    """
    few = _spaced(steps, FEWEST_POINTS)
    best = few
    for density in range(MOST_POINTS, 4 * MOST_POINTS, 10):
        further: list[int] = []
        for step in sorted(_spaced(steps, density) - few):
            if (len(further) + 1) * cost <= CURVE_SHARE * step * batch_size:
                further.append(step)
        if len(few) + len(further) > MOST_POINTS:
            break
        best = few.union(further)
    return tuple(sorted(best))


def _spaced(steps: int, points: int) -> set[int]:
    return {round(float(step)) for step in np.geomspace(1, steps, points)}


class StoppingChecks:
    """Decides for trials side by side whether at most the allowed number of held-out examples are wrong.

    Counting stops once the answer is certain, and the last check's mistakes are evaluated first: a network far from
    solving the task needs little more than the allowed number of mistakes. The order does not change the answer.

    Args:
        trials: the number of trials.
        stopping: the rule: the number of examples, and the number of mistakes allowed.
    """

    def __init__(self, trials: int, stopping: StoppingRule) -> None:
        self.examples, self.allowed, self.consecutive = stopping.examples, stopping.allowed, stopping.consecutive
        self.streak = np.zeros(trials, np.int64)
        self.mistakes = np.zeros(trials, np.int64)
        self.unseen: UInt32[np.ndarray, "trials count"] | None = None

    @cached_property
    def order(self) -> UInt32[np.ndarray, "trials examples"]:
        """The examples in the order in which they are evaluated, one row per trial."""
        return np.tile(np.arange(self.examples, dtype=np.uint32), (len(self.streak), 1))

    def decide(self, wrong: Wrong) -> Bool[np.ndarray, " trials"]:
        """Return exactly which trials have had at most the allowed number of mistakes in enough consecutive checks."""
        mistakes = np.zeros(len(self.order), np.int64)
        unsolved = solved = np.zeros(len(self.order), bool)
        seen, blocks, block, smallest = 0, [], self.allowed + 1 + MARGIN, SMALLEST_BLOCK
        while not (unsolved | solved).all():
            index = self.order[:, seen : seen + block]
            blocks.append(wrong(index))
            seen += index.shape[1]
            mistakes += blocks[-1].sum(axis=1)
            unsolved = mistakes > self.allowed
            solved = seen - mistakes >= self.examples - self.allowed
            block = max(smallest, 2 * int(self.allowed + 1 - mistakes.min()))
            smallest = min(2 * smallest, LARGEST_BLOCK)
        self.mistakes, self.unseen = mistakes, self.order[:, seen:].copy()
        self._reorder(np.concatenate(blocks, axis=1) if len(blocks) > 1 else blocks[0])
        return self._count_checks(~unsolved)

    def take(self, mistakes: int | None) -> Bool[np.ndarray, " trials"]:
        """Return the decision on a single trial, given its number of mistakes, or None if it is larger than allowed."""
        self.mistakes = np.array([mistakes or 0])
        self.unseen = None if mistakes is None else np.zeros((1, 0), np.uint32)
        return self._count_checks(np.array([mistakes is not None]))

    def _count_checks(self, passed: Bool[np.ndarray, " trials"]) -> Bool[np.ndarray, " trials"]:
        self.streak = np.where(passed, self.streak + 1, 0)
        return np.asarray(self.streak >= self.consecutive)

    def error(self, wrong: Wrong) -> Float[np.ndarray, " trials"]:
        """Return the exact test errors, if no parameter has changed since the last decision."""
        if self.unseen is None:
            return error_rate(wrong, len(self.streak), self.examples)
        return np.asarray((self.mistakes + _count(wrong, self.unseen)) / self.examples)

    def select(self, positions: list[int]) -> None:
        """Keep only some of the trials, in the given order."""
        self.order, self.streak = self.order[positions], self.streak[positions]

    def _reorder(self, wrong: Bool[np.ndarray, "trials seen"]) -> None:
        """Put the last check's mistakes first, then unevaluated examples, then those classified correctly."""
        seen = wrong.shape[1]
        for row, mistakes in zip(self.order, wrong, strict=True):
            head = row[:seen]
            row[:] = np.concatenate([head[mistakes], row[seen:], head[~mistakes]])


class LossChecks(StoppingChecks):
    """Decides for trials side by side on a task with real-valued targets, whose mean held-out loss is bounded."""

    def __init__(self, trials: int, stopping: StoppingRule) -> None:
        super().__init__(trials, stopping)
        self.bound = stopping.loss

    def decide(self, wrong: Wrong) -> Bool[np.ndarray, " trials"]:
        """Return which trials have had a mean loss of at most the bound in enough consecutive checks."""
        if self.bound is None:
            return np.zeros(len(self.streak), bool)
        return self._count_checks(self.error(wrong) <= self.bound)

    def error(self, wrong: Wrong) -> Float[np.ndarray, " trials"]:
        """Return the mean losses on the held-out examples."""
        return error_rate(wrong, len(self.streak), self.examples)

    def select(self, positions: list[int]) -> None:
        self.streak = self.streak[positions]


def error_rate(wrong: Wrong, trials: int, examples: int) -> Float[np.ndarray, " trials"]:
    """Return each network's fraction of mistakes, or mean loss, on the first examples of a stream."""
    index = np.broadcast_to(np.arange(examples, dtype=np.uint32), (trials, examples))
    return _count(wrong, index) / examples


def _count(wrong: Wrong, index: UInt32[np.ndarray, "trials count"]) -> Float[np.ndarray, " trials"]:
    mistakes = np.zeros(len(index))  # counts are exact, and losses are summed in double precision
    for first in range(0, index.shape[1], LARGEST_BLOCK):
        mistakes += wrong(index[:, first : first + LARGEST_BLOCK]).sum(axis=1, dtype=np.float64)
    return mistakes
