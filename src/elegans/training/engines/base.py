"""The contract between the loop and whatever advances networks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, UInt32

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


class Engine(ABC):
    """Advances the networks of trials that share a signature; knows nothing of stopping or measuring.

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

    @abstractmethod
    def wrong(
        self, state: Any, stream: str, index: UInt32[np.ndarray, "trials count"]
    ) -> Bool[np.ndarray, "trials count"]:
        """Return which examples each network gets wrong: the margin y f is not above 0.

        Args:
            state: the state.
            stream: ``test`` (labels clean) or ``sample`` (labels as training sees them).
            index: which examples of each trial's stream.
        """

    @abstractmethod
    def predict(self, state: Any, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, "trials count"]:
        """Return each network's outputs on the same inputs."""

    @abstractmethod
    def parameters(self, state: Any) -> list[Any]:
        """Return each network's parameters as NumPy arrays, in the model's own nesting."""

    @abstractmethod
    def select(self, state: Any, positions: Sequence[int]) -> Any:
        """Return the state of some of the networks only, in the given order."""
