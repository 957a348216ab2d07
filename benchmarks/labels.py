"""A step of the native engine on a sum of parities, whose labels are looked up in a table, and on one parity."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import elegans as el
from benchmarks.measure import in_turns, ratios, spread
from benchmarks.record import Result, at_most
from elegans.training.engines import ENGINES, ChunkRequest

INPUTS, BATCH = 50, 32
WIDTHS = (100, 512)
SUMS = {
    "one parity of 3": {"k": 3, "sets": [[0, 1, 2]]},
    "staircase of 5": {"k": 5, "sets": [list(range(size)) for size in range(1, 6)]},
    "12 coordinates": {"k": 12, "sets": [[place] for place in range(12)]},
}
SPAN = 4000
"""Steps in one measurement at width 100; fewer at larger widths, so that each takes as long."""
LIMIT = 1.05


def run(*, quick: bool) -> Result:
    """Measure both tasks alternately, in seconds of one core, so that other load hardly matters."""
    repetitions = 5 if quick else 41
    found = {(width, name): _measured(width, name, repetitions) for width in WIDTHS for name in SUMS}
    cells = {f"{name}, width {width}": figures for (width, name), figures in found.items()}
    return Result(
        settings={"n": INPUTS, "batch_size": BATCH, "repetitions": repetitions},
        repetitions=cells,
        summary=[
            {
                "labels and width": name,
                "parity, µs per step": spread(figures["parity"]),
                "table, µs per step": spread(figures["table"]),
                "table / parity": spread(ratios(figures["table"], figures["parity"])),
            }
            for name, figures in cells.items()
        ],
        targets=[
            at_most(f"a step with a table / with a parity, {name}", _ratio(figures), LIMIT, "x")
            for name, figures in cells.items()
        ],
    )


def _ratio(figures: dict[str, list[float]]) -> float:
    return median(ratios(figures["table"], figures["parity"]))


def _measured(width: int, name: str, repetitions: int) -> dict[str, list[float]]:
    tasks = {"parity": el.SparseParity(n=INPUTS, k=3), "table": el.MonomialSum(n=INPUTS, **SUMS[name])}
    return in_turns({which: _stepping(task, width) for which, task in tasks.items()}, repetitions)


def _stepping(task: Any, width: int) -> Callable[[], float]:
    """Return a function that takes some steps, and returns the microseconds of each."""
    engine, steps = ENGINES["fused"], SPAN * WIDTHS[0] // width
    training = el.SGD(learning_rate=0.01, batch_size=BATCH, steps=10**8, loss="square")
    one = el.Trial(task=task, regime=el.Online(), model=el.MLP(width=width), training=training)
    state = engine.init([one])

    def timed() -> float:
        nonlocal state
        begun = time.process_time()
        state, _ = engine.advance(state, ChunkRequest.of(steps))
        return 1e6 / steps * (time.process_time() - begun)

    timed()
    return timed
