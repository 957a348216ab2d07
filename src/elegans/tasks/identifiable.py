"""Samples that identify a single support: other samples are redrawn."""

from functools import lru_cache

import numpy as np

from elegans import random
from elegans.errors import TrialError
from elegans.tasks.base import Task
from elegans.tasks.boolean import SparseBoolean
from elegans.tasks.regimes import Sample

MOST_DRAWS = 10_000
"""Number of failed draws after which no such sample is assumed to exist."""


class IdentifiableSample(Sample):
    """A fixed sample that is consistent with the task's function on only one support.

    A sample that is consistent with several supports is redrawn completely, but the hidden support stays the same. The
    first sample is the same as for ``Sample``; the r-th redraw folds the sample stream's key by r. A learner that fails
    thus had all the necessary information, however small the sample. All examples are evaluated before each trial.

    Source: thesis, appendix A.3.1.
    """

    def check(self, task: Task, steps: int, batch_size: int) -> None:
        super().check(task, steps, batch_size)
        if not isinstance(task, SparseBoolean):
            raise ValueError(f"an identifiable sample must have a sparse Boolean function: task={task.kind!r}")
        if task.noise != 0:
            raise ValueError(f"an identifiable sample must have no noise in its labels: noise={task.noise}")

    def sample_key(self, task: Task, seed: int) -> random.Key:
        rejected = self.rejected(task, seed)
        key = super().sample_key(task, seed)
        return key.fold(rejected) if rejected else key

    def rejected(self, task: Task, seed: int) -> int:
        """Return how many samples a trial rejects.

        Raises:
            TrialError: each of 10,000 samples is consistent with several supports.
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
