"""A user's own classes that raise while a trial trains, but not before: an extension, which a run sends to workers."""

import asyncio
import builtins
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import elegans as el
from elegans.training.engines import ENGINES, Engine
from elegans.training.losses import Loss

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "UnicodeDecodeError": ("utf-8", b"x", 0, 1, "bad"),
    "UnicodeEncodeError": ("utf-8", "x", 0, 1, "bad"),
    "UnicodeTranslateError": ("x", 0, 1, "bad"),
    "ExceptionGroup": ("several", [ValueError("one")]),
    "BaseExceptionGroup": ("several", [KeyboardInterrupt()]),
}


class Unsendable(BaseException):
    """An error that pickle cannot make anew."""

    def __init__(self, one: str, *, other: threading.Lock) -> None:
        super().__init__(one)
        self.other = other


def kind_of(name: str) -> type[BaseException]:
    """Return an exception's type by its name."""
    own = {"CancelledError": asyncio.CancelledError, "Unsendable": Unsendable}
    return own.get(name) or getattr(builtins, name)


def fail(name: str) -> None:
    """Raise an exception outside the main thread, where the parts of a trial are only rehearsed."""
    if threading.current_thread() is not threading.main_thread():
        if name == "Unsendable":
            raise Unsendable("raised", other=threading.Lock())
        raise kind_of(name)(*ARGUMENTS.get(name, ("raised",)))


class Raising(el.Probe, kind="raising"):
    """Raises at its second measurement."""

    error: str

    def measure(self, snapshot: el.Snapshot) -> dict[str, float]:
        if snapshot.step:
            fail(self.error)
        return {"there": 1.0}


class RaisingParity(el.SparseParity, kind="raising-parity"):
    """Raises when its hidden support is drawn."""

    error: str

    def draw(self, key: el.random.Key) -> np.ndarray:
        fail(self.error)
        return super().draw(key)


class RaisingMLP(el.MLP, kind="raising-mlp"):
    """Raises when it is initialised."""

    error: str

    def initialise(self, key: el.random.Key, task: el.Task) -> Any:
        fail(self.error)
        return super().initialise(key, task)


class RaisingLoss(Loss, kind="raising-loss"):
    """Raises when it is computed."""

    error: str

    def value(self, output: Any, label: Any) -> Any:
        fail(self.error)
        return -label * output


class RaisingEngine(Engine):
    """Takes any trial and raises before its first step."""

    side_by_side: ClassVar[int] = 1

    def __init__(self, error: str) -> None:
        self.name, self.error = f"raising-{error}", error

    def unavailable(self) -> None:
        return None

    def refusal(self, trial: el.Trial) -> None:
        return None

    def signature(self, trial: el.Trial) -> str:
        return "any"

    def init(self, trials: Sequence[el.Trial]) -> Any:
        fail(self.error)

    _never: Any = None
    advance = wrong = predict = parameters = select = _never


FEW = ("KeyboardInterrupt", "GeneratorExit", "SystemExit", "CancelledError", "StopIteration", "BaseExceptionGroup")
OWN = {engine.name: engine for engine in map(RaisingEngine, FEW)}
ENGINES.update(OWN)

TRIAL = el.Trial(
    task=el.SparseParity(n=5, k=1),
    regime=el.Online(),
    model=el.MLP(width=2),
    training=el.SGD(steps=4, stopping=el.StoppingRule(examples=10, every=2, stop=False)),
)
PARTS = ("probe", "task", "model", "loss", "engine")


def run_of(part: str, error: str) -> tuple[el.Trial, dict[str, Any]]:
    """Return a trial and options of ``run`` with which one part of it raises."""
    own: dict[str, Any] = {
        "task": RaisingParity(n=5, k=1, error=error),
        "model": RaisingMLP(width=2, error=error),
        "training.loss": RaisingLoss(error=error),
    }
    path = "training.loss" if part == "loss" else part
    trial = TRIAL.replace(path, own[path]) if path in own else TRIAL
    options: dict[str, Any] = {"probes": [Raising(every=2, error=error)]} if part == "probe" else {}
    return trial, options | ({"engine": f"raising-{error}"} if part == "engine" else {})
