"""The contract between the loop and whatever advances networks."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, UInt32

from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.training.trial import Trial


@dataclass(frozen=True)
class Plan:
    """What an engine is asked to do before it returns to the loop.

    Args:
        step: how many steps have been taken.
        last: how many there are in all.
        pace: how many of them are expected to take no longer than ``seconds``.
        seconds: how long a chunk may last.
        stopping: when checks are due and what they ask for.
        probes: the probes of the trials.
        undecided: whether a check may still decide something.
        watched: whether the loop has to see every check itself.
    """

    step: int
    last: int
    pace: int
    seconds: float
    stopping: StoppingRule
    probes: Sequence[Probe] = ()
    undecided: bool = True
    watched: bool = False

    @classmethod
    def of(cls, steps: int) -> "Plan":
        """Return the plan of exactly so many steps without checks."""
        return cls(0, steps, steps, math.inf, StoppingRule(every=steps), watched=True)

    def steps(self, *, checks: bool = True, measured: Sequence[Probe] = ()) -> int:
        """Return how many steps remain until the loop has to act.

        Args:
            checks: whether the loop evaluates the checks, instead of the engine.
            measured: the probes that the engine measures itself.
        """
        periods = [probe.every for probe in self.probes if probe not in measured]
        return next_event(self.step, self.last, [*periods, *[self.stopping.every] * checks]) - self.step


def next_event(step: int, last: int, periods: Iterable[int]) -> int:
    """Return the first step after ``step`` at which something is due, ``last`` at the latest."""
    return min([last, *((step // every + 1) * every for every in periods)])


class Interval(NamedTuple):
    """Some consecutive steps.

    Args:
        steps: how many.
        loss: the mean minibatch loss over them, one entry per trial.
        error: the mean share of minibatch examples that were wrong before each of them, one entry per trial.
    """

    steps: int
    loss: Sequence[float] | Float[np.ndarray, " trials"]
    error: Sequence[float] | Float[np.ndarray, " trials"]


@dataclass(frozen=True)
class Chunk:
    """The results of some steps.

    Args:
        intervals: the steps taken; where the engine evaluates checks itself, an interval ends at each of them.
        diverged_at: the first step (counted from 0) whose outputs were not all finite, or -1; one entry per trial.
        checked: whether the engine evaluated the checks on the way and at the end.
        mistakes: the exact number of mistakes on the held-out examples at the check that ended the chunk because they
            are few enough; None where every check on the way had too many.
        evaluation_seconds: how long the engine evaluated checks.
        measures: the measurements of each probe that the engine took itself, by kind: ``step`` and one list per name.
    """

    intervals: Sequence[Interval]
    diverged_at: Sequence[int] | Int[np.ndarray, " trials"]
    checked: bool = False
    mistakes: int | None = None
    evaluation_seconds: float = 0.0
    measures: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)


class Engine(ABC):
    """Advances the networks of trials that share a signature; knows nothing of stopping.

    States are the engine's own. A state may be changed in place: use only the one returned last.
    """

    name: str
    side_by_side: ClassVar[int]
    """How many trials it trains at once at most."""

    def together(self, trial: Trial) -> int:
        """Return how many trials of one signature train side by side at most, none slower for it."""
        return self.side_by_side

    @abstractmethod
    def unavailable(self) -> str | None:
        """Return why this engine cannot work on this machine, or None where it can."""

    @abstractmethod
    def refusal(self, trial: Trial) -> str | None:
        """Return why this engine cannot take a trial, or None where it can."""

    @abstractmethod
    def signature(self, trial: Trial) -> str:
        """Return what trials must share to train side by side."""

    @abstractmethod
    def init(self, trials: Sequence[Trial]) -> Any:
        """Return the state of the networks of at most ``side_by_side`` trials before their first step."""

    @abstractmethod
    def advance(self, state: Any, plan: Plan) -> tuple[Any, Chunk]:
        """Return the state after some steps of every network that has not diverged, and their results.

        An engine takes ``min(plan.steps(), plan.pace)`` steps. One that evaluates checks or takes measurements itself
        may pass them, for as long as a check counts more mistakes than are allowed and nobody watches.
        """

    @abstractmethod
    def wrong(
        self, state: Any, stream: str, index: UInt32[np.ndarray, "trials count"]
    ) -> Bool[np.ndarray, "trials count"]:
        """Return which examples each network gets wrong: the margin is not above 0 (``mistakes.wrong``).

        Args:
            state: the state.
            stream: ``test`` (labels clean) or ``sample`` (labels as training sees them).
            index: which examples of each trial's stream.
        """

    @abstractmethod
    def predict(self, state: Any, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, "trials count ..."]:
        """Return each network's outputs on the same inputs; of several outputs, with another axis."""

    @abstractmethod
    def parameters(self, state: Any) -> list[Any]:
        """Return each network's parameters as NumPy arrays, in the model's own nesting."""

    @abstractmethod
    def select(self, state: Any, positions: Sequence[int]) -> Any:
        """Return the state of some of the networks only, in the given order."""
