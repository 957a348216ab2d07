"""Engines that train one network at a time: several train side by side in threads of the runner."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Float32, UInt32

from elegans.training.engines.base import Chunk, ChunkRequest, Engine, Interval
from elegans.training.losses import Correlation, Hinge, Logistic, Loss, Square
from elegans.training.optimisers import SGD, Adam
from elegans.training.trial import Trial

LOSSES: dict[type[Loss], str] = {Hinge: "hinge", Square: "square", Logistic: "logistic", Correlation: "correlation"}


class SingleNetwork(ABC):
    """One network, or one learner, in training; made from a trial, and advanced in place.

    Args:
        diverged_at: the first step (counted from 0) whose outputs were not all finite, or -1.
    """

    engine: ClassVar[str]
    """The name of the engine that trains it."""
    diverged_at: int = -1

    @classmethod
    def unavailable(cls) -> str | None:
        """Return why such networks cannot be trained on this machine, or None if they can."""
        return None

    @classmethod
    @abstractmethod
    def refusal(cls, trial: Trial) -> str | None:
        """Return why a trial's network is not one of these, or None if it is."""

    @abstractmethod
    def __init__(self, trial: Trial) -> None: ...

    @abstractmethod
    def take(self, steps: int) -> tuple[float, float]:
        """Take some steps; return the mean loss, and the mean fraction of examples that were wrong before each."""

    def advance(self, plan: ChunkRequest) -> Chunk:
        """Take the planned steps, as one interval."""
        steps = min(plan.steps(), plan.pace)
        loss, error = self.take(steps)
        return Chunk([Interval(steps, (loss,), (error,))], (self.diverged_at,))

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


class SequentialEngine(Engine):
    """Trains one network of a class at a time; the state is that network."""

    side_by_side: ClassVar[int] = 1

    def __init__(self, network: type[SingleNetwork]) -> None:
        self.network, self.name = network, network.engine

    def unavailable(self) -> str | None:
        return self.network.unavailable()

    def refusal(self, trial: Trial) -> str | None:
        return self.network.refusal(trial)

    def signature(self, trial: Trial) -> str:
        return trial.identity  # nothing trains beside it

    def init(self, trials: Sequence[Trial]) -> SingleNetwork:
        (trial,) = trials
        return self.network(trial)

    def advance(self, state: SingleNetwork, plan: ChunkRequest) -> tuple[SingleNetwork, Chunk]:
        return state, state.advance(plan)

    def wrong(
        self, state: SingleNetwork, stream: str, index: UInt32[np.ndarray, "1 count"]
    ) -> Bool[np.ndarray, "1 count"]:
        return state.wrong(stream, index[0])[None]

    def predict(self, state: SingleNetwork, x: Float32[np.ndarray, "count n"]) -> Float32[np.ndarray, "1 count ..."]:
        return np.asarray(state.outputs(x), np.float32)[None]

    def parameters(self, state: SingleNetwork) -> list[Any]:
        return [state.parameters]

    def select(self, state: SingleNetwork, positions: Sequence[int]) -> SingleNetwork:
        return state


class NativeNetwork(SingleNetwork):
    """A network held by an object of the native module, which provides its step, loss, error and divergence.

    Args:
        native: the object.
        training: the source of the schedule's factors.
    """

    takes: ClassVar[dict[str, tuple[type, ...]]]
    """The classes that are built into the native code, by the path of a trial's part."""
    native: Any
    training: Any

    @classmethod
    def unavailable(cls) -> str | None:
        try:
            from elegans import _native  # noqa: F401
        except ImportError as error:
            return f"its native module does not load: {error}"
        return None

    @classmethod
    def refusal(cls, trial: Trial) -> str | None:
        """Return the first part of the trial that is not built into the native code, or None."""
        for path, classes in cls.takes.items():
            *owners, name = path.split(".")
            owner: Any = trial
            for step in owners:
                owner = getattr(owner, step)
            part = getattr(owner, name, None)
            if hasattr(owner, name) and type(part) not in classes:
                return f"the {cls.engine} engine takes no {name} {getattr(part, 'kind', part)!r}"
        for owner, name in ((trial.training, "gradient_noise"), (getattr(trial.training, "loss", None), "smoothing")):
            if getattr(owner, name, None) is not None:
                return f"the {cls.engine} engine takes no {name}"
        reason = cls.limits(trial)
        return reason and f"the {cls.engine} engine takes {reason}"

    @classmethod
    def limits(cls, trial: Trial) -> str | None:
        """Return what the native code does not support in a trial whose parts are all built in, or None."""
        return None

    def take(self, steps: int) -> tuple[float, float]:
        """Take some steps with the interpreter lock released."""
        self.native.advance(self.training.factors(self.native.step, steps))
        return self.native.loss, self.native.error

    @property
    def diverged_at(self) -> int:  # type: ignore[override]
        return int(self.native.diverged_at)


def optimiser_of(training: SGD | Adam) -> dict[str, Any]:
    """Return the options for a native network's updates, other than rates and decays."""
    if isinstance(training, SGD):
        kind = "sgd" if training.momentum is None else "nesterov" if training.nesterov else "momentum"
        return {"optimiser": kind, "decay_in_gradient": training.decay == "gradient", "beta1": training.momentum or 0.0}
    constants = {"beta1": training.beta1, "beta2": training.beta2, "epsilon": training.epsilon}
    return {"optimiser": "adam", "decay_in_gradient": True, **constants}


def loss_of(training: Any) -> tuple[str, float]:
    """Return the native name and the factor of a training's loss."""
    return LOSSES[type(training.loss)], getattr(training.loss, "scale", 1.0)
