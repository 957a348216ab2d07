"""Stores with made-up outcomes, so that it is known what the explorer must show, and a server of them to look at."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import elegans as el
from elegans.store import Store
from elegans.store.postgresql import begun
from elegans.training.outcome import Curve

TRIAL = el.Trial(
    task=el.SparseParity(n=20, k=2),
    regime=el.Sample(100),
    model=el.MLP(width=10),
    training=el.SGD(steps=2000, stopping=el.StoppingRule(examples=1000, every=100)),
)
AXES: dict[str, Sequence[Any]] = {
    "model.width": [10, 30, 100, 300],
    "regime.size": [100, 300, 1000, 3000, 10_000],
    "model.init": ["dense", "sparse:2"],
    "training.learning_rate": [0.05, 0.1],
}


def sweep(axes: Mapping[str, Sequence[Any]] = AXES, seeds: int = 8, trial: el.Trial = TRIAL) -> el.Sweep:
    return el.grid(trial, axes, seeds=seeds)


def outcome(trial: el.Trial, error: str | None = None) -> el.Outcome:
    """Return how a trial might end: wide networks, large samples and sparse initialisations solve it more often."""
    if error is not None:
        return el.Outcome(trial, "failed", error=error, steps=100, seconds=0.01, engine="fused")
    model: Any = trial.model
    regime: Any = trial.regime
    chance = np.random.default_rng([trial.seed, model.width, regime.size])
    ease = np.log10(model.width * regime.size) - 4.2 + 0.8 * (model.init.kind == "sparse")
    steps = np.arange(100, 2100, 100)
    middle = 900 * np.exp(-0.4 * ease) + chance.normal(0, 80)
    solved = bool(ease + chance.normal(0, 0.5) > 0)
    errors = 0.5 / (1 + np.exp((steps - middle) / 90)) if solved else np.full(len(steps), 0.5)
    errors = np.clip(errors + chance.normal(0, 0.01, len(steps)), 0, 1)
    at = int(steps[np.argmax(errors < 0.1)]) if solved else None
    grid = np.exp(-((np.arange(12) - 3) ** 2) / 8) * steps[:, None] / 2000
    return el.Outcome(
        trial,
        "solved" if solved else "unsolved",
        solved_at=at,
        test_error=float(errors[-1]),
        train_error=0.0,
        steps=2000 if at is None else at,
        seconds=float(0.01 + 0.0001 * model.width),
        engine="fused",
        curve=Curve(steps.tolist(), (2 * errors).tolist(), errors.tolist()),
        measures={
            "fourier-gap": {"step": steps.tolist(), "gap": (1 - 2 * errors).tolist()},
            "weights": {"step": steps.tolist()[::5], "map": [np.outer(row, row) for row in grid[::5]]},
        },
    )


def fill(
    place: Path | str, trials: el.Sweep, errors: Mapping[int, str] | None = None, name: str = "invented"
) -> Path | str:
    """Record outcomes of a sweep's trials; of the seeds of ``errors`` failures with these tracebacks."""
    with Store(place) as store:
        run, _ = store.begin(trials, name=name)
        run.record([outcome(one, (errors or {}).get(one.seed)) for one in run.claim(trials)])
        run.release()
    return place


@contextmanager
def serving(*stores: Path | str, port: int = 0) -> Iterator[str]:
    """Yield the address of `elegans explore` over some stores, in a process of its own."""
    command = [sys.executable, "-m", "elegans", "explore", *map(str, stores), "--no-open", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, f"no address: {line!r}"
            yield found[0]
        finally:
            server.terminate()
            server.wait(20)
            server.stdout.close()


def fill_many(place: Path | str, across: int = 100, up: int = 100, seeds: int = 100) -> Path | str:
    """Record made-up outcomes of many trials, without curves: the database makes 10^6 of them in seconds."""
    axes = {"model.width": list(range(10, 10 + up)), "regime.size": list(range(100, 100 + across))}
    with Store(place) as store:
        run, _ = store.begin(el.grid(TRIAL, axes, seeds=seeds), name="many")
        with begun(store.engine) as connection:
            connection.exec_driver_sql(
                f"""
                WITH RECURSIVE seeds(seed) AS (SELECT 0 UNION ALL SELECT seed + 1 FROM seeds WHERE seed < {seeds - 1})
                INSERT INTO trials
                    (cell, seed, state, solved_at, test_error, steps, seconds, evaluation_seconds, engine, attempts,
                    recorded)
                SELECT id, seed, iif(seed < id % 101, 'solved', 'unsolved'), iif(seed < id % 101, 100 + seed, NULL),
                    0.25, 2000, 0.125, 0.0, 'fused', 1, {time.time()}
                FROM cells, seeds
                """
            )
        run.release()
    return place
