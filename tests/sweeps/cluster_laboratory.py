"""Toy engines and a probe for the workers of a cluster: an extension, which a run sends to them."""

import os
import signal
import time
from typing import ClassVar

import numpy as np

from elegans.probes import Probe
from elegans.training.engines import ENGINES, Chunk, Engine, Interval


class Slow(Engine):
    """Takes any trial and trains nothing: each step takes a millisecond times the width; the seed decides the end."""

    name = "slow"
    side_by_side: ClassVar[int] = 1

    def unavailable(self):
        return None

    def refusal(self, trial):
        return None

    def signature(self, trial):
        return f"width {trial.model.width}"

    def init(self, trials):
        return list(trials)

    def advance(self, state, plan):
        steps, ones = min(plan.steps(), plan.pace), np.ones(len(state))
        time.sleep(0.001 * state[0].model.width * steps)
        return state, Chunk([Interval(steps, ones, ones / 2)], np.full(len(state), -1))

    def wrong(self, state, stream, index):
        return index % 10 < np.array([trial.seed % 3 for trial in state])[:, None]

    def predict(self, state, x):
        return np.zeros((len(state), len(x)), np.float32)

    def parameters(self, state):
        return [{} for _ in state]

    def select(self, state, positions):
        return [state[position] for position in positions]


class SlowSets(Slow):
    """Trains four trials side by side."""

    name = "slow-sets"
    side_by_side: ClassVar[int] = 4


class Deadly(Slow):
    """Kills the process that trains seed 7, as a fault in native code would."""

    name = "deadly"

    def init(self, trials):
        if trials[0].seed == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return list(trials)


OWN = {engine.name: engine for engine in (Slow(), SlowSets(), Deadly())}
ENGINES.update(OWN)


class Process(Probe):
    """Measures the number of the process that trains."""

    def measure(self, snapshot):
        return {"number": float(os.getpid())}
