"""The contract between the loop and whatever advances networks."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, UInt32

from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.training.trial import Trial


@dataclass(frozen=True)
class Progress:
    """What an engine saw during its last ``advance``, one entry a trial.

    Args:
        loss: the mean minibatch loss over the steps taken.
        error: the mean share of minibatch examples that were wrong before each step.
        diverged_at: the first step (counted from 0) whose outputs were not all finite, or -1.
    """

    loss: Float[np.ndarray, " trials"]
    error: Float[np.ndarray, " trials"]
    diverged_at: Int[np.ndarray, " trials"]


@dataclass(frozen=True)
class Plan:
    """How an engine may go on before the loop looks up.

    Args:
        steps: how many steps at the most.
        pace: how many of them are believed to take no longer than ``seconds``.
        seconds: how long a stretch may last.
        stopping: when the checks on the way are due and what they ask for.
        looking: whether a check may still be a success; else there is nothing to look for.
        measured: the probes that the engine measures by itself.
    """

    steps: int
    pace: int
    seconds: float
    stopping: StoppingRule
    looking: bool
    measured: Sequence[Probe] = ()


class Lap(NamedTuple):
    """Some steps of a stretch.

    Args:
        steps: how many.
        loss: the mean minibatch loss over them, one entry a trial.
        error: the mean share of minibatch examples that were wrong before each of them, one entry a trial.
    """

    steps: int
    loss: Sequence[float] | Float[np.ndarray, " trials"]
    error: Sequence[float] | Float[np.ndarray, " trials"]


@dataclass(frozen=True)
class Stretch:
    """What came of a stretch of steps.

    Args:
        laps: the steps taken; where the engine looks at checks by itself, a lap ends at each of them.
        diverged_at: the first step (counted from 0) whose outputs were not all finite, or -1; one entry a trial.
        mistakes: the number of mistakes on the held-out examples, exact, at the check that ended the stretch because
            they are few enough; None where every check on the way had too many.
        evaluation_seconds: how long the engine looked at checks.
        measures: of each probe that the engine measures by itself, by kind: ``step`` and one list for each name.
    """

    laps: Sequence[Lap]
    diverged_at: Sequence[int] | Int[np.ndarray, " trials"]
    mistakes: int | None = None
    evaluation_seconds: float = 0.0
    measures: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)


class Engine(ABC):
    """Advances the networks of trials that share a signature; knows nothing of stopping or measuring.

    What it may take off the loop's hands is to look at checks on the way, as long as none can be a success, and to
    take some probes' measurements; what follows from them stays with the loop.

    States are the engine's own. A state may be changed in place: use only the one returned last.
    """

    name: ClassVar[str]
    side_by_side: ClassVar[int]
    """How many trials it trains at once at the most."""

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
        """Return the state of these trials' networks before their first step."""

    @abstractmethod
    def advance(self, state: Any, steps: int) -> Any:
        """Return the state after so many further steps of every network that has not diverged."""

    @abstractmethod
    def progress(self, state: Any) -> Progress:
        """Return what the last ``advance`` saw."""

    def looks(self, state: Any) -> bool:
        """Return whether ``stretch`` goes past checks that are certainly no success, instead of ending at them."""
        return False

    def measures(self, trial: Trial, probe: Probe) -> bool:
        """Return whether ``stretch`` takes a probe's measurements on the way, where it looks at checks by itself."""
        return False

    def stretch(self, state: Any, plan: Plan) -> tuple[Any, Stretch]:
        """Return the state after a part of the planned steps, and what came of them.

        This one takes as many steps as are believed to fit into the time, in one lap, and looks at nothing. An engine
        that ``looks`` takes one network further: until the steps are done or the time is over, the network diverges,
        or a check counts no more mistakes than are allowed.
        """
        steps = min(plan.steps, plan.pace)
        state = self.advance(state, steps)
        seen = self.progress(state)
        return state, Stretch([Lap(steps, seen.loss, seen.error)], seen.diverged_at)

    @abstractmethod
    def wrong(
        self, state: Any, stream: str, index: UInt32[np.ndarray, "trials count"]
    ) -> Bool[np.ndarray, "trials count"]:
        """Return which examples each network gets wrong: the margin is not above 0 (``losses.wrong``).

        Args:
            state: the state.
            stream: ``test`` (labels clean) or ``sample`` (labels as training sees them).
            index: which examples of each trial's stream.
        """

    @abstractmethod
    def predict(self, state: Any, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, "trials count ..."]:
        """Return each network's outputs on the same inputs; of several outputs, with an axis more."""

    @abstractmethod
    def parameters(self, state: Any) -> list[Any]:
        """Return each network's parameters as NumPy arrays, in the model's own nesting."""

    @abstractmethod
    def select(self, state: Any, positions: Sequence[int]) -> Any:
        """Return the state of some of the networks only, in the given order."""
