"""The interface between the training loop and the engines."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int, Shaped, UInt32

from elegans.errors import EngineError, shown
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.training.evaluation import CURVE_EXAMPLES
from elegans.training.outcome import ErrorCurve
from elegans.training.states import LONGEST_ENGINE
from elegans.training.trial import Trial

BatchIndices = UInt32[np.ndarray, "trials count"]
"""Indices of examples, one row per trial."""


@dataclass(frozen=True)
class ChunkRequest:
    """The work of an engine until it returns to the loop.

    Args:
        step: the number of steps taken so far.
        last: the total number of steps.
        pace: how many steps are expected to take no longer than ``seconds``.
        seconds: how long a chunk may last.
        stopping: the stopping rule, which states when checks are due.
        probes: the probes of the trials.
        undecided: whether a check may still decide something.
        watched: whether the loop has to perform every check itself.
        points: the next steps of the curve of errors, in order.
    """

    step: int
    last: int
    pace: int
    seconds: float
    stopping: StoppingRule
    probes: Sequence[Probe] = ()
    undecided: bool = True
    watched: bool = False
    points: Sequence[int] = ()

    @classmethod
    def of(cls, steps: int) -> "ChunkRequest":
        """Return the plan of a given number of steps without checks."""
        return cls(0, steps, steps, math.inf, StoppingRule(every=steps), watched=True)

    def steps(self, *, checks: bool = True, measured: Sequence[Probe] = (), points: bool = True) -> int:
        """Return how many steps remain until the loop has to act.

        Args:
            checks: whether the loop, not the engine, evaluates the checks.
            measured: the probes that the engine measures itself.
            points: whether the loop, not the engine, evaluates the curve of errors.
        """
        probes = [probe for probe in self.probes if probe not in measured]
        last = min([self.last, *self.points[:1]]) if points else self.last
        return next_event(self.step, last, [self.stopping.every] * checks, probes) - self.step


def next_event(step: int, last: int, periods: Iterable[int], probes: Iterable[Probe]) -> int:
    """Return the first step after ``step`` at which something is due, at most ``last``."""
    regular = ((step // every + 1) * every for every in periods)
    return min([last, *regular, *(probe.next_due(step) for probe in probes)])


class Interval(NamedTuple):
    """Some consecutive steps.

    Args:
        steps: how many.
        loss: the mean minibatch loss over them, one entry per trial.
        error: the mean fraction of minibatch examples that were wrong before each of them, one entry per trial.
    """

    steps: int
    loss: Sequence[float] | Float[np.ndarray, " trials"]
    error: Sequence[float] | Float[np.ndarray, " trials"]


@dataclass(frozen=True)
class Chunk:
    """The results of some steps.

    Args:
        intervals: the steps taken; if the engine evaluates checks itself, an interval ends at each of them.
        diverged_at: the first step (counted from 0) whose outputs were not all finite, or -1; one entry per trial.
        checked: whether the engine evaluated the checks during the chunk and at its end.
        mistakes: the exact number of held-out mistakes if a check passed and ended the chunk; None if none passed.
        evaluation_seconds: how long the engine evaluated checks and curves.
        points: of a single trial, the points of the curve of errors that the engine evaluated itself, if it does so.
        since_point: the steps since the last of these.
        measures: the measurements of each probe that the engine took itself, by kind: ``step`` and one list per name.
    """

    intervals: Sequence[Interval]
    diverged_at: Sequence[int] | Int[np.ndarray, " trials"]
    checked: bool = False
    mistakes: int | None = None
    evaluation_seconds: float = 0.0
    measures: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    points: ErrorCurve | None = None
    since_point: Sequence[Interval] = ()


def jax_failure() -> str | None:
    """Return why JAX cannot be used on this machine, or None if it can."""
    try:
        import jax

        jax.devices()
    except (ImportError, RuntimeError) as error:
        return f"JAX does not load: {error}"
    return None


class Engine(ABC):
    """Trains the networks of trials that share a signature; stopping is left to the loop.

    States are private to the engine. A state may be changed in place: use only the one returned last.
    """

    name: str
    side_by_side: ClassVar[int]
    """Maximum number of trials that it trains at once."""
    takes_targets: ClassVar[bool] = False
    """Whether it trains on tasks with real-valued targets."""
    point_cost: ClassVar[int] = CURVE_EXAMPLES
    """What the evaluation of a curve's ``CURVE_EXAMPLES`` held-out examples costs, in examples of a step."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name = getattr(cls, "name", "engine")
        if not (name and name.isprintable() and len(name) <= LONGEST_ENGINE):
            rule = f"an engine's name must have 1 to {LONGEST_ENGINE} printable characters"
            raise EngineError(f"{rule}: name={shown(name)}")

    def together(self, trial: Trial) -> int:
        """Return how many trials of one signature can train side by side without slowing each other down."""
        return self.side_by_side

    @abstractmethod
    def unavailable(self) -> str | None:
        """Return why this engine cannot work on this machine, or None if it can."""

    @abstractmethod
    def refusal(self, trial: Trial) -> str | None:
        """Return why this engine cannot train a trial, or None if it can."""

    @abstractmethod
    def signature(self, trial: Trial) -> str:
        """Return a text that trials must share to train side by side."""

    @abstractmethod
    def init(self, trials: Sequence[Trial]) -> Any:
        """Return the state of the networks of at most ``side_by_side`` trials before their first step."""

    @abstractmethod
    def advance(self, state: Any, plan: ChunkRequest) -> tuple[Any, Chunk]:
        """Return the state after some steps of every network that has not diverged, and their results.

        An engine takes ``min(plan.steps(), plan.pace)`` steps. One that evaluates checks or takes measurements itself
        may continue past them, unless a check passes or the plan is watched.
        """

    @abstractmethod
    def wrong(self, state: Any, stream: str, index: BatchIndices) -> Shaped[np.ndarray, "trials count"]:
        """Return which examples each network gets wrong, or its losses on real-valued targets (``mistakes.mistakes``).

        Args:
            state: the state.
            stream: ``test`` (clean labels) or ``sample`` (labels as used in training).
            index: indices of examples in each trial's stream.
        """

    @abstractmethod
    def predict(self, state: Any, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, "trials count ..."]:
        """Return each network's outputs on the same inputs, with a further axis for several outputs."""

    @abstractmethod
    def parameters(self, state: Any) -> list[Any]:
        """Return each network's parameters as NumPy arrays, in the model's own nesting."""

    @abstractmethod
    def select(self, state: Any, positions: Sequence[int]) -> Any:
        """Return the state of only some of the networks, in the given order."""
