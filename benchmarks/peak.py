"""The fraction of a core's measured multiply-add peak that the fused engine reaches, with both cores busy.

A step is counted as 4 x batch x n x width operations: those of matrix products forward and backward. The
engine itself needs fewer, so its figure may exceed 100%.
"""

from functools import partial
from statistics import median
from typing import Any

import elegans as el
from benchmarks.measure import in_turns, ratios, seconds, seconds_side_by_side, spread
from benchmarks.record import Result, at_least, cores
from elegans import _native
from elegans.training.engines import ENGINES, ChunkRequest

WIDTH, BATCH = 1000, 32
INPUTS = (50, 200)
LIMIT = 75.0


def run(*, quick: bool) -> Result:
    """Measure the engine and the peak alternately."""
    repetitions, budget = (3, 0.2) if quick else (15, 1.0)
    contenders = {f"fused, n {n}": partial(gigaflops, n, steps_in(n, budget)) for n in INPUTS}
    contenders["peak, one core busy"] = partial(_native.fma_peak, budget / 4)
    contenders["peak, both cores busy"] = partial(peak_of_all, budget / 4)
    figures = in_turns(contenders, repetitions)
    alone = figures["peak, one core busy"]
    shares = {n: [100 * ratio for ratio in ratios(figures[f"fused, n {n}"], alone)] for n in INPUTS}
    return Result(
        settings={"width": WIDTH, "batch_size": BATCH, "inputs": INPUTS, "repetitions": repetitions},
        repetitions={"gigaflops_per_core": figures, "percent_of_peak": shares},
        summary=[
            {
                "n": str(n),
                "fused, GFLOP/s per core": spread(figures[f"fused, n {n}"]),
                "peak of one core": spread(alone),
                "peak, both cores busy": spread(figures["peak, both cores busy"]),
                "fused / peak of one core, %": spread(shares[n]),
            }
            for n in INPUTS
        ],
        targets=[
            at_least(f"share of the core's peak, width {WIDTH}, n {n}", median(shares[n]), LIMIT, "%") for n in INPUTS
        ],
    )


def _trial(n: int, seed: int) -> el.Trial:
    return el.Trial(
        task=el.SparseParity(n=n, k=3),
        regime=el.Sample(1000),
        model=el.MLP(width=WIDTH),
        training=el.SGD(weight_decay=0.01, batch_size=BATCH, steps=10**6),
        seed=seed,
    )


def steps_in(n: int, budget: float) -> int:
    """Return how many steps of one network take a given time."""
    engine = ENGINES["fused"]
    state: Any = engine.init([_trial(n, 0)])
    few = ChunkRequest.of(200)
    engine.advance(state, few)
    return max(200, round(budget / (seconds(lambda: engine.advance(state, few)) / 200)))


def gigaflops(n: int, steps: int) -> float:
    """Return a core's GFLOP/s while every core trains its own network."""
    engine = ENGINES["fused"]
    states = [engine.init([_trial(n, seed)]) for seed in range(cores())]
    spent = seconds_side_by_side([partial(engine.advance, state, ChunkRequest.of(steps)) for state in states])
    return 4 * BATCH * n * WIDTH * steps / spent / 1e9


def peak_of_all(budget: float) -> float:
    """Return the mean over cores of the peak that each reaches while all are busy."""
    found: list[float] = []
    seconds_side_by_side([lambda: found.append(_native.fma_peak(budget))] * cores())
    return sum(found) / len(found)
