"""Whether a network after long weight decay steps as fast as a fresh one.

Weight decay multiplies weights without a gradient by 0.999 per step: after 10^5 steps they would be
subnormal, and arithmetic on subnormal numbers is many times slower. Both engines set them to zero. A network
is trained to the end of that range and beyond, and its speed is compared with a fresh network's on the way.
"""

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

import elegans as el
from benchmarks.measure import ratios, short, spread
from benchmarks.record import Result, at_least
from elegans.training.engines import ENGINES, ChunkRequest, Engine

WIDTH = 1000
AGES = (60_000, 88_000, 130_000)
"""The steps after which the speed is measured: 0.999^t is subnormal from 88000 to 104000, and then zero."""
SPAN, REPETITIONS = 1000, 15
"""Steps in one measurement, and measurements at one age: together the whole subnormal range."""
TINY = 1e-20
LIMIT = 0.9


def run(*, quick: bool) -> Result:
    """Age networks in both engines and measure at every age."""
    scale = 10 if quick else 1
    found = {name: _aged(ENGINES[name], scale) for name in ("fused", "jax")}
    return Result(
        settings={
            "width": WIDTH,
            "ages": [age // scale for age in AGES],
            "weight_decay": 0.01 * scale,
            "span": SPAN // scale,
        },
        repetitions=found,
        summary=[row for name, ages in found.items() for row in _rows(name, ages)],
        targets=[
            at_least(
                f"speed of a long-decayed network / a fresh one, {name}, the slowest age",
                min(median(age["fresh_over_old"]) for age in ages),
                LIMIT,
                "x",
            )
            for name, ages in found.items()
        ],
    )


def _trial(scale: int) -> el.Trial:
    return el.Trial(
        task=el.SparseParity(n=50, k=3),
        regime=el.Sample(10_000),
        model=el.MLP(width=WIDTH, init=el.SparseInit(2)),
        training=el.SGD(learning_rate=0.1, weight_decay=0.01 * scale, batch_size=32, steps=10**6),
    )


def _aged(engine: Engine, scale: int) -> list[dict[str, Any]]:
    """Train from age to age, and measure at each."""
    trial, taken, found = _trial(scale), 0, []
    span = SPAN // scale
    state = engine.init([trial])
    _timed(engine, engine.init([trial]), span)
    for age in (age // scale for age in AGES):
        state, _ = engine.advance(state, ChunkRequest.of(age - taken))
        tiny = _share_tiny(engine, state)
        fresh, old = [], []
        for _ in range(REPETITIONS):
            young = _timed(engine, engine.init([trial]), 1)[1]
            fresh.append(_timed(engine, young, span)[0])
            spent, state = _timed(engine, state, span)
            old.append(spent)
        taken = age + REPETITIONS * span
        found.append(
            {
                "steps": f"{age} to {taken}",
                "share_of_weights_below_1e-20": tiny,
                "fresh_microseconds_a_step": [1e6 / span * value for value in fresh],
                "old_microseconds_a_step": [1e6 / span * value for value in old],
                "fresh_over_old": ratios(fresh, old),
            }
        )
    return found


def _timed(engine: Engine, state: Any, steps: int) -> tuple[float, Any]:
    """Return the seconds that some steps take, and the state after them."""
    begun = time.perf_counter()
    state, _ = engine.advance(state, ChunkRequest.of(steps))
    return time.perf_counter() - begun, state


def _share_tiny(engine: Engine, state: Any) -> float:
    return float(np.mean(np.abs(engine.parameters(state)[0]["hidden"]["weight"]) < TINY))


def _rows(name: str, ages: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    return [
        {
            "engine": name,
            "steps taken": age["steps"],
            "hidden weights below 1e-20, %": short(100 * age["share_of_weights_below_1e-20"]),
            "fresh, µs per step": spread(age["fresh_microseconds_a_step"]),
            "old, µs per step": spread(age["old_microseconds_a_step"]),
            "speed of old / fresh": spread(age["fresh_over_old"]),
        }
        for age in ages
    ]
