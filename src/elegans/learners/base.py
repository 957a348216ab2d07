"""The interface of learners that are not networks and have no training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from elegans import random
from elegans.component import Component
from elegans.stopping import StoppingRule
from elegans.tasks import Regime, Task

if TYPE_CHECKING:
    from jaxtyping import UInt32

    from elegans.tasks.arrays import SignedExamples


@dataclass(frozen=True)
class LearnerData:
    """The input of a learner: examples, and keys for its draws.

    Args:
        task: the task to learn.
        regime: how examples reach the learner.
        hidden: the task's draw for this trial; for drawing examples, not for the learner to read.
        key: returns the key of one of the trial's streams by its name.
    """

    task: Task
    regime: Regime
    hidden: Any
    key: Callable[[str], random.Key]

    def examples(self, index: UInt32[np.ndarray, " count"]) -> SignedExamples:
        """Return training examples by their indices: inputs (count, n) and labels (count,), as used in training."""
        x, y = self.task.examples(self.hidden, self.key("sample"), index)
        return x, self.task.corrupt(y, self.key("noise"), index)


class LearnerRun(ABC):
    """One learner under way: its current answers, and how well they fit the training examples."""

    loss: float = 1.0
    """The mean loss over the rounds of the last ``advance``, before each round."""
    error: float = 1.0
    """The mean fraction of training examples that were wrong, before each of those rounds."""

    @abstractmethod
    def advance(self, rounds: int) -> None:
        """Continue for a number of rounds."""

    @property
    @abstractmethod
    def parameters(self) -> Any:
        """The parameters for ``Model.apply``, as NumPy arrays."""

    @property
    def solved(self) -> bool | None:
        """Whether the learner's criterion is met, if it has one; None (the default) if its answers are checked instead.

        Until it is met every held-out example counts as a mistake, and none does afterwards.
        """
        return None


class Learner(Component):
    """What a model that is not a network has instead of a training.

    Inherit from this and then from ``Model``: ``class SubsetSearch(Learner, Model)``. A trial of such a model has
    ``training=None``; its steps are sequential rounds, and success is decided as for networks.

    Args:
        steps: the largest number of rounds; None for all of them.
        stopping: when the trial counts as solved, and whether it then ends.
    """

    steps: Annotated[int, Field(ge=1, lt=2**32)] | None = None
    stopping: StoppingRule = StoppingRule()

    @abstractmethod
    def rounds(self, task: Task) -> int:
        """Return the largest number of rounds."""

    @abstractmethod
    def begin(self, lesson: LearnerData) -> LearnerRun:
        """Return the learner before its first round."""

    def check_regime(self, task: Task, regime: Regime) -> None:
        """Refuse a regime that cannot feed this learner."""
