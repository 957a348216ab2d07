"""Error rates during training."""

from typing import Annotated

import numpy as np
from pydantic import Field

from elegans.learners.base import Learner
from elegans.models import Model
from elegans.probes.base import Probe, Snapshot
from elegans.tasks import Task


class HeldOutErrorRate(Probe, kind="test-error"):
    """The exact fraction of held-out examples that the network gets wrong (with clean labels).

    On a task with real-valued targets, it is the mean held-out loss.

    Args:
        examples: the number of held-out examples, the first of the trial's test stream.
    """

    examples: Annotated[int, Field(ge=1)] = 10_000

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``error``, from 0 to 1, or the mean loss of real-valued targets."""
        return {"error": float(snapshot.wrong("test", np.arange(self.examples, dtype=np.uint32)).mean())}


class HeldOutLoss(Probe, kind="test-loss"):
    """The mean hinge loss on held-out examples, (1 - y f(x))_+, and the fraction that the network gets wrong.

    Args:
        examples: the number of held-out examples, the first of the trial's test stream.

    Raises:
        TrialError: labels are not signs: they are classes or real numbers, or the task has real-valued targets.
    """

    examples: Annotated[int, Field(ge=1)] = 1024

    def check(self, task: Task, model: Model) -> None:
        if isinstance(model, Learner):
            raise ValueError(f"test-loss needs a network: {model.kind}")
        if task.targets is not None:
            rule = "test-loss is the hinge loss of signs; test-error measures the loss of real-valued targets"
            raise ValueError(f"{rule}: task={task.kind!r}")
        if task.real_labels or task.classes is not None:
            labels = "real labels" if task.real_labels else "classes"
            rule = f"test-loss is the hinge loss of signs, not of {labels}; test-error measures the share of mistakes"
            raise ValueError(f"{rule}: task={task.kind!r}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``hinge``, at least 0, and ``error``, from 0 to 1."""
        x, y = snapshot.remember(f"test:{self.examples}", lambda: snapshot.examples("test", self.examples))
        margin = y * np.asarray(snapshot.model.apply(snapshot.parameters, x))
        return {"hinge": float(np.maximum(1 - margin, 0).mean()), "error": float((~(margin > 0)).mean())}


class TrainErrorRate(Probe, kind="train-error"):
    """The exact fraction of the sample that the network gets wrong (with the labels used in training).

    On a task with real-valued targets, it is the mean loss on the sample.

    Online trials have no sample: the first examples of training are used instead.

    Args:
        examples: the largest number of examples of the sample to evaluate.
    """

    examples: Annotated[int, Field(ge=1)] = 10_000

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``error``, from 0 to 1, or the mean loss of real-valued targets."""
        count = min(self.examples, snapshot.sample_size or self.examples)
        return {"error": float(snapshot.wrong("sample", np.arange(count, dtype=np.uint32)).mean())}
