"""What the tests of sweeps share: a toy engine whose outcomes are known, and processes that run sweeps."""

import multiprocessing
import signal
import time
from collections.abc import Callable, Collection, Sequence
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sqlalchemy import func, select

import elegans as el
from elegans.stopping import StoppingRule
from elegans.store import Store
from elegans.store.schema import TRIALS
from elegans.training.engines import ENGINES, Chunk, ChunkRequest, Engine, Interval
from elegans.training.states import FINISHED

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["elegans.sweeps.runner", "elegans.models.mlp", "elegans.tasks.parity", "pandas"])

TRIAL = el.Trial(
    task=el.SparseParity(n=20, k=2),
    regime=el.Sample(100),
    model=el.MLP(width=10),
    training=el.SGD(steps=4, stopping=StoppingRule(examples=10, every=2)),
)
TIMES = ["seconds", "evaluation_seconds"]


class ToyEngine(Engine):
    """Takes any trial and trains nothing: how a trial ends follows from its seed, and each step takes a while."""

    name = "toy"
    side_by_side: ClassVar[int] = 1

    def __init__(self, seconds: float = 0.0, side_by_side: int = 1, broken: Collection[int] = ()) -> None:
        self.seconds, self.broken = seconds, set(broken)
        self.side_by_side = side_by_side  # type: ignore[misc]  # of this engine alone
        self.batches: list[list[tuple[str, int]]] = []

    def unavailable(self) -> None:
        return None

    def refusal(self, trial: el.Trial) -> str | None:
        task: Any = trial.task
        return "the toy engine takes no task 'impossible'" if task.n == 13 else None

    def signature(self, trial: el.Trial) -> str:
        model: Any = trial.model
        return f"width {model.width}"

    def init(self, trials: Sequence[el.Trial]) -> list[el.Trial]:
        self.batches.append([(trial.cell, trial.seed) for trial in trials])
        for trial in trials:
            if trial.seed in self.broken:
                raise RuntimeError(f"seed {trial.seed} is broken")
        return list(trials)

    def advance(self, state: list[el.Trial], plan: ChunkRequest) -> tuple[list[el.Trial], Chunk]:
        steps, ones = min(plan.steps(), plan.pace), np.ones(len(state))
        time.sleep(self.seconds * steps)
        diverged = [0 if trial.seed % 7 == 5 else -1 for trial in state]
        return state, Chunk([Interval(steps, ones, ones / 2)], np.array(diverged))

    def wrong(self, state: list[el.Trial], stream: str, index: np.ndarray) -> np.ndarray:
        level = np.array([trial.seed % 3 for trial in state])
        return index % 10 < level[:, None]

    def predict(self, state: list[el.Trial], x: np.ndarray) -> np.ndarray:
        return np.zeros((len(state), len(x)), np.float32)

    def parameters(self, state: list[el.Trial]) -> list[Any]:
        return [{} for _ in state]

    def select(self, state: list[el.Trial], positions: Sequence[int]) -> list[el.Trial]:
        return [state[position] for position in positions]

    @property
    def trained(self) -> list[tuple[str, int]]:
        return sorted(trial for batch in self.batches for trial in batch)


def untimed(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table without the columns that differ from run to run."""
    return table.drop(columns=TIMES)


def process(target: Callable[..., object], *arguments: object) -> BaseProcess:
    """Start a process that is sure to be gone with the test."""
    child = PROCESSES.Process(target=target, args=arguments, daemon=True)
    child.start()
    return child


def wait_for_outcomes(path: Path | str, count: int, child: BaseProcess) -> None:
    """Wait until a store holds so many outcomes of trials, or the process that trains them has ended."""
    with Store(path) as store:
        while child.is_alive():
            with store.engine.connect() as connection:
                if connection.execute(select(func.count()).where(TRIALS.c.state.in_(FINISHED))).scalar_one() >= count:
                    return
            time.sleep(0.001)


def run_toy(
    path: Path | str,
    seeds: int,
    seconds: float,
    report: "Queue[str] | None" = None,
    together: "Barrier | None" = None,
) -> None:
    """Run a toy sweep in a process of its own, and report how it ended.

    The process can be interrupted even where the tests run in the background of a shell, which ignores SIGINT.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if together is not None:
        together.wait()
    ENGINES["toy"] = ToyEngine(seconds)
    sweep = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=seeds)
    try:
        el.run(sweep, path, engine="toy", workers=2)
        ended = "complete"
    except BaseException as error:
        ended = f"{type(error).__name__}: {error}"
    if report is not None:
        report.put(ended)
