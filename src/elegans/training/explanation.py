"""Which engine trains a trial, why, and how long that takes."""

from collections.abc import Mapping
from dataclasses import dataclass

from elegans.display import span
from elegans.training.cost import Cost, cost_of
from elegans.training.engines import choose, refusals
from elegans.training.trial import Trial


@dataclass(frozen=True)
class Explanation:
    """Which engine ``auto`` chooses for a trial, and what the trial costs on this machine; ``str`` of it is for people.

    Args:
        engine: the engine's name.
        refused: by name, why each engine that ``auto`` prefers does not take the trial.
        steps: the largest number of steps.
        cost: of a step and of a check, by itself and after compiling.
        seconds: how long the trial takes if it takes all its steps.
    """

    engine: str
    refused: Mapping[str, str]
    steps: int
    cost: Cost
    seconds: float

    def __str__(self) -> str:
        reasons = [f"  not {name}: {reason}" for name, reason in self.refused.items()]
        per = f"{1e6 * self.cost.step:.3g} µs per step, {1e6 * self.cost.check:.3g} µs per check"
        return "\n".join(
            [f"engine  {self.engine}", *reasons, f"time    {span(self.seconds)} at most: {self.steps:,} steps, {per}"]
        )


def explain(trial: Trial, *, budget: float = 1.0) -> Explanation:
    """Return which engine trains a trial, why not another, and the projected time.

    Args:
        trial: the trial.
        budget: about how many seconds of it are trained to measure the cost of its steps.

    Raises:
        EngineError: no engine takes it.
    """
    engine = choose(trial)
    cost = cost_of(trial, [trial.seed], (), budget)
    refused = {name: reason for name, reason in refusals(trial).items() if name != engine.name}
    return Explanation(engine.name, refused, trial.steps, cost, cost.of(trial, ()))
