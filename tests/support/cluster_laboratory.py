"""Toy engines and a probe for the workers of a cluster: an extension, which a run sends to them."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import elegans as el
from elegans.probes import Probe, Snapshot
from elegans.training.engines import ENGINES, Chunk, ChunkRequest, Engine, Interval


def _width(trial: el.Trial) -> int:
    assert isinstance(trial.model, el.MLP)
    return trial.model.width


class Slow(Engine):
    """Takes any trial and trains nothing: each step takes a millisecond times the width; the seed decides the end."""

    name = "slow"
    side_by_side: ClassVar[int] = 1

    def unavailable(self) -> None:
        return None

    def refusal(self, trial: el.Trial) -> None:
        return None

    def signature(self, trial: el.Trial) -> str:
        return f"width {_width(trial)}"

    def init(self, trials: Sequence[el.Trial]) -> list[el.Trial]:
        return list(trials)

    def advance(self, state: list[el.Trial], plan: ChunkRequest) -> tuple[list[el.Trial], Chunk]:
        steps, ones = min(plan.steps(), plan.pace), np.ones(len(state))
        time.sleep(0.001 * _width(state[0]) * steps)
        return state, Chunk([Interval(steps, ones, ones / 2)], np.full(len(state), -1))

    def wrong(self, state: list[el.Trial], stream: str, index: np.ndarray) -> np.ndarray:
        return index % 10 < np.array([trial.seed % 3 for trial in state])[:, None]

    def predict(self, state: list[el.Trial], x: np.ndarray) -> np.ndarray:
        return np.zeros((len(state), len(x)), np.float32)

    def parameters(self, state: list[el.Trial]) -> list[Any]:
        return [{} for _ in state]

    def select(self, state: list[el.Trial], positions: Sequence[int]) -> list[el.Trial]:
        return [state[position] for position in positions]


class SlowSets(Slow):
    """Trains four trials side by side."""

    name = "slow-sets"
    side_by_side: ClassVar[int] = 4


class Noted(Slow):
    """Writes down each trial that it begins."""

    name = "noted"

    def init(self, trials: Sequence[el.Trial]) -> list[el.Trial]:
        with Path(os.environ["ELEGANS_TRIALS_BEGUN"]).open("a") as file:
            file.write("".join(f"{trial.cell} {trial.seed}\n" for trial in trials))
        return list(trials)


class Deadly(Slow):
    """Kills the process that trains seed 7, as a fault in native code would."""

    name = "deadly"

    def init(self, trials: Sequence[el.Trial]) -> list[el.Trial]:
        if trials[0].seed == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return list(trials)


OWN = {engine.name: engine for engine in (Slow(), SlowSets(), Noted(), Deadly())}
ENGINES.update(OWN)


class Process(Probe):
    """Measures the number of the process that trains."""

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        return {"number": float(os.getpid())}
