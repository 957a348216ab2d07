"""The engine of learners that are no networks: each goes its own way, on the host."""

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np
from jaxtyping import Bool, Float32, UInt32

from elegans.models import Course, Learner, Lesson
from elegans.tabular import learners as _learners  # noqa: F401 (so that trials of tables are known wherever trials are)
from elegans.training.engines.base import Engine, Progress
from elegans.training.trial import Trial


class LearnerEngine(Engine):
    """Advances learners that have no training, as ``SubsetSearch``; a step is one of their rounds."""

    name: ClassVar[str] = "learner"
    side_by_side: ClassVar[int] = 1

    def unavailable(self) -> str | None:
        """Return None: NumPy is everywhere."""
        return None

    def refusal(self, trial: Trial) -> str | None:
        """Return None for a learner, and for a network that it needs another engine."""
        return None if isinstance(trial.model, Learner) else f"the learner engine takes no network {trial.model.kind!r}"

    def signature(self, trial: Trial) -> str:
        """Return the trial's identity: learners go their ways one at a time."""
        return trial.identity

    def init(self, trials: Sequence[Trial]) -> Any:
        """Return each learner before its first round."""
        return [_Pupil(trial) for trial in trials]

    def advance(self, state: Any, steps: int) -> Any:
        """Let each learner go on, in place."""
        for pupil in state:
            pupil.course.advance(steps)
        return state

    def progress(self, state: Any) -> Progress:
        """Return what the last ``advance`` saw."""
        return Progress(
            loss=np.array([pupil.course.loss for pupil in state]),
            error=np.array([pupil.course.error for pupil in state]),
            diverged_at=np.full(len(state), -1),
        )

    def wrong(
        self, state: Any, stream: str, index: UInt32[np.ndarray, "trials count"]
    ) -> Bool[np.ndarray, "trials count"]:
        """Return which examples each learner gets wrong."""
        return np.stack([pupil.wrong(stream, row) for pupil, row in zip(state, index, strict=True)])

    def predict(self, state: Any, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, "trials count"]:
        """Return each learner's answers to the same inputs."""
        return np.stack([pupil.model.apply(pupil.course.parameters, x) for pupil in state])

    def parameters(self, state: Any) -> list[Any]:
        """Return what each learner's model needs to answer."""
        return [pupil.course.parameters for pupil in state]

    def select(self, state: Any, positions: Sequence[int]) -> Any:
        """Keep some of the learners."""
        return [state[position] for position in positions]


class _Pupil:
    """One learner, and the streams that it is evaluated on."""

    def __init__(self, trial: Trial) -> None:
        self.model = cast(Any, trial.model)
        self.lesson = Lesson(trial.task, trial.regime, trial.task.draw(trial.key("task")), trial.key)
        self.course: Course = self.model.begin(self.lesson)

    def wrong(self, stream: str, index: UInt32[np.ndarray, " count"]) -> Bool[np.ndarray, " count"]:
        if stream == "sample":
            x, y = self.lesson.examples(index)
        else:
            hidden = self.lesson.task.held_out(self.lesson.hidden)
            x, y = self.lesson.task.examples(hidden, self.lesson.key(stream), index)
        return np.asarray(~(y * self.model.apply(self.course.parameters, x) > 0))
