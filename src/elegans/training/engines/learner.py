"""The engine of learners that are not networks: each runs its own algorithm on the host."""

from typing import Any, ClassVar, cast

import numpy as np
from jaxtyping import Bool, Float32, UInt32

from elegans.learners.base import Learner, LearnerData, LearnerRun
from elegans.training.engines.single import SequentialEngine, SingleNetwork
from elegans.training.mistakes import wrong
from elegans.training.trial import Trial


class _Pupil(SingleNetwork):
    engine: ClassVar[str] = "learner"

    @classmethod
    def refusal(cls, trial: Trial) -> str | None:
        return None if isinstance(trial.model, Learner) else f"the learner engine takes no network {trial.model.kind!r}"

    def __init__(self, trial: Trial) -> None:
        self.model = cast(Any, trial.model)
        self.lesson = LearnerData(trial.task, trial.regime, trial.task.draw(trial.key("task")), trial.key)
        self.course: LearnerRun = self.model.begin(self.lesson)

    def take(self, steps: int) -> tuple[float, float]:
        self.course.advance(steps)
        return self.course.loss, self.course.error

    def outputs(self, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, " count"]:
        return np.asarray(self.model.apply(self.parameters, x))

    @property
    def parameters(self) -> Any:
        return self.course.parameters

    def wrong(self, stream: str, index: UInt32[np.ndarray, " count"]) -> Bool[np.ndarray, " count"]:
        if self.course.solved is not None:
            return np.full(len(index), not self.course.solved)
        if stream == "sample":
            x, y = self.lesson.examples(index)
        else:
            hidden = self.lesson.task.held_out(self.lesson.hidden)
            x, y = self.lesson.task.examples(hidden, self.lesson.key(stream), index)
        return np.asarray(wrong(self.model.apply(self.course.parameters, x), y, self.lesson.task.real_labels))


ENGINE = SequentialEngine(_Pupil)
