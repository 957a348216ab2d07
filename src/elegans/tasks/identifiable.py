"""Samples that leave one support alone: those that leave more are redrawn."""

from functools import lru_cache

import numpy as np

from elegans import random
from elegans.errors import TrialError
from elegans.tasks.base import Task
from elegans.tasks.boolean import SparseBoolean
from elegans.tasks.regimes import Sample

MOST_DRAWS = 10_000
"""After how many samples in vain there is believed to be none."""


class IdentifiableSample(Sample):
    """A fixed sample with which the task's function has all labels on one support alone.

    A sample that leaves several is redrawn, all of it, until one does not: the first is the one that ``Sample`` has,
    the r-th after it that of the sample stream's key folded by r. What is hidden stays. So a learner that fails had all
    it needed to know, and a small sample does not excuse it.

    Source: thesis, appendix A.3.1.

    All of its examples are evaluated before each trial.
    """

    def check(self, task: Task, steps: int, batch_size: int) -> None:
        """Refuse tasks without supports that a sample could identify."""
        super().check(task, steps, batch_size)
        if not isinstance(task, SparseBoolean):
            raise ValueError(f"an identifiable sample must have a sparse Boolean function: task={task.kind!r}")
        if task.noise != 0:
            raise ValueError(f"an identifiable sample must have no noise in its labels: noise={task.noise}")

    def sample_key(self, task: Task, seed: int) -> random.Key:
        """Return the key of the first sample that is not redrawn."""
        rejected = self.rejected(task, seed)
        key = super().sample_key(task, seed)
        return key.fold(rejected) if rejected else key

    def rejected(self, task: Task, seed: int) -> int:
        """Return how many samples a trial draws in vain.

        Raises:
            TrialError: 10,000 samples leave several supports each.
        """
        assert isinstance(task, SparseBoolean)
        return _rejected(task, self.size, seed)


@lru_cache(maxsize=4096)
def _rejected(task: SparseBoolean, size: int, seed: int) -> int:
    support, first = task.draw(random.stream(seed, "task")), random.stream(seed, "sample")
    index = np.arange(size, dtype=np.uint32)
    for draw in range(MOST_DRAWS):
        x, y = task.examples(support, first.fold(draw) if draw else first, index)
        if len(task.consistent(x, y, most=2)) == 1:
            return draw
    rule = f"a sample must identify the support within {MOST_DRAWS} draws"
    raise TrialError(f"{rule}: size={size}, n={task.n}, k={task.k}, seed={seed}")
