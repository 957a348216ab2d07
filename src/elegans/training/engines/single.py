"""What engines share that advance one network at a time: a state is the list of them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Float32, UInt32

from elegans.training.engines.base import Engine, Progress
from elegans.training.trial import Trial


class Single(ABC):
    """One network, or one learner, on its way.

    Args:
        loss: the mean loss over the steps of the last ``advance``.
        error: the mean share of examples that were wrong before each of them.
        diverged_at: the first step (counted from 0) whose outputs were not all finite, or -1.
    """

    loss: float
    error: float
    diverged_at: int = -1

    @abstractmethod
    def advance(self, steps: int) -> None:
        """Go on for so many steps, in place."""

    @abstractmethod
    def wrong(self, stream: str, index: UInt32[np.ndarray, " count"]) -> Bool[np.ndarray, " count"]:
        """Return which examples of a stream it gets wrong."""

    @abstractmethod
    def outputs(self, x: Float32[np.ndarray, "count n"]) -> Float[np.ndarray, "count ..."]:
        """Return the outputs on given inputs."""

    @property
    @abstractmethod
    def parameters(self) -> Any:
        """The parameters as NumPy arrays, in the model's own nesting."""


class OneByOne(Engine):
    """Advances ``Single`` networks one after the other; several train side by side in threads of the runner."""

    side_by_side: ClassVar[int] = 1

    @abstractmethod
    def begin(self, trial: Trial) -> Single:
        """Return a trial's network before its first step."""

    def unavailable(self) -> str | None:
        """Return None: what has no needs works everywhere."""
        return None

    def signature(self, trial: Trial) -> str:
        """Return the trial's identity: networks train one at a time."""
        return trial.identity

    def init(self, trials: Sequence[Trial]) -> Any:
        """Return each trial's network before its first step."""
        return [self.begin(trial) for trial in trials]

    def advance(self, state: Any, steps: int) -> Any:
        """Advance each network in place."""
        for single in state:
            single.advance(steps)
        return state

    def progress(self, state: Any) -> Progress:
        """Return what the last ``advance`` saw."""
        return Progress(
            loss=np.array([single.loss for single in state]),
            error=np.array([single.error for single in state]),
            diverged_at=np.array([single.diverged_at for single in state]),
        )

    def wrong(
        self, state: Any, stream: str, index: UInt32[np.ndarray, "trials count"]
    ) -> Bool[np.ndarray, "trials count"]:
        """Return which examples each network gets wrong."""
        rows = [single.wrong(stream, row) for single, row in zip(state, index, strict=True)]
        return rows[0][None] if len(rows) == 1 else np.stack(rows)

    def predict(self, state: Any, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, "trials count ..."]:
        """Return each network's outputs on the same inputs; of several outputs, with an axis more."""
        return np.stack([np.asarray(single.outputs(x), np.float32) for single in state])

    def parameters(self, state: Any) -> list[Any]:
        """Return each network's parameters."""
        return [single.parameters for single in state]

    def select(self, state: Any, positions: Sequence[int]) -> Any:
        """Keep some of the networks."""
        return [state[position] for position in positions]


class NativeEngine(OneByOne):
    """An engine whose networks are in the native module."""

    def unavailable(self) -> str | None:
        """Return why the native module could not be loaded, or None."""
        try:
            from elegans import _native  # noqa: F401 (whether it loads)
        except ImportError as error:
            return f"its native module does not load: {error}"
        return None

    def first_refused(self, parts: Mapping[str, tuple[Any, Sequence[Any]]]) -> str | None:
        """Return why the first part that is not built in is refused, or None.

        Args:
            parts: by name, each part of a trial and the classes of those that are built in.
        """
        for name, (part, taken) in parts.items():
            if type(part) not in taken:
                return f"the {self.name} engine takes no {name} {getattr(part, 'kind', None)!r}"
        return None


class NativeNetwork(Single):
    """A network that is an object of the native module, which knows its step, loss, error and divergence.

    Args:
        native: that object.
        training: what gives the schedule's factors.
    """

    native: Any
    training: Any

    def advance(self, steps: int) -> None:
        """Go on for so many steps, in place; the interpreter is released meanwhile."""
        self.native.advance(self.training.factors(self.native.step, steps))

    @property
    def loss(self) -> float:  # type: ignore[override]
        """The mean loss over the steps of the last ``advance``."""
        return float(self.native.loss)

    @property
    def error(self) -> float:  # type: ignore[override]
        """The mean share of examples that were wrong before each of them."""
        return float(self.native.error)

    @property
    def diverged_at(self) -> int:  # type: ignore[override]
        """The first step whose outputs were not all finite, or -1."""
        return int(self.native.diverged_at)
