"""Which engine trains a trial, why, and how long it takes."""

from collections.abc import Mapping
from dataclasses import dataclass

from elegans.display import displayed, span
from elegans.training.cost import Cost, cost_of
from elegans.training.engines import choose, refusals
from elegans.training.trial import Trial


@displayed
@dataclass(frozen=True)
class Explanation:
    """The engine that ``auto`` chooses for a trial, and the trial's cost on this machine; ``str`` makes it readable.

    Args:
        engine: the engine's name.
        refused: why each engine that ``auto`` prefers cannot train the trial, by name.
        steps: the largest number of steps.
        cost: the cost of a step and of a check of a single trial, without compilation.
        seconds: how long the trial takes if it uses all its steps.
    """

    engine: str
    refused: Mapping[str, str]
    steps: int
    cost: Cost
    seconds: float

    def __str__(self) -> str:
        reasons = [f"  not {name}: {reason}" for name, reason in self.refused.items()]
        cost = f"{1e6 * self.cost.step:.3g} µs per step, {1e6 * self.cost.check:.3g} µs per check"
        time = f"time    {span(self.seconds)} at most: {self.steps:,} steps, {cost}"
        return "\n".join([f"engine  {self.engine}", *reasons, time])


def explain(trial: Trial, *, budget: float = 1.0) -> Explanation:
    """Return which engine trains a trial, why not another, and the projected time.

    Args:
        trial: the trial.
        budget: about how many seconds to train for measuring the cost of its steps.

    Raises:
        EngineError: no engine can train it.
    """
    engine = choose(trial)
    cost = cost_of(trial, [trial.seed], (), budget)
    refused = {name: reason for name, reason in refusals(trial).items() if name != engine.name}
    return Explanation(engine.name, refused, trial.steps, cost, cost.of(trial, ()))
