"""Steps of the native engine that must cost nothing more: labels from a table, and rates of a parametrisation."""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import elegans as el
from benchmarks.measure import in_turns, ratios, spread
from benchmarks.record import Result, at_most
from elegans.training import Parametrisation
from elegans.training.engines import ENGINES, ChunkRequest

INPUTS, BATCH = 50, 32
WIDTHS = (100, 512)
SUMS = {
    "one parity of 3": {"k": 3, "sets": [[0, 1, 2]]},
    "staircase of 5": {"k": 5, "sets": [list(range(size)) for size in range(1, 6)]},
    "12 coordinates": {"k": 12, "sets": [[place] for place in range(12)]},
}
PARITY = el.SparseParity(n=INPUTS, k=3)


def _trial(width: int, task: Any) -> el.Trial:
    training = el.SGD(learning_rate=0.01, batch_size=BATCH, steps=10**8, loss="square")
    return el.Trial(task=task, regime=el.Online(), model=el.MLP(width=width), training=training)


CASES: dict[str, Callable[[int], el.Trial]] = {
    **{name: partial(_trial, task=el.MonomialSum(n=INPUTS, **fields)) for name, fields in SUMS.items()},
    "maximal-update": lambda width: Parametrisation(name="maximal-update").apply(_trial(width, PARITY)),
}
SPAN = 4000
"""Steps in one measurement at width 100; fewer at larger widths, so that each takes as long."""
LIMIT = 1.05


def run(*, quick: bool) -> Result:
    """Measure both tasks alternately, in seconds of one core, so that other load hardly matters."""
    repetitions = 5 if quick else 41
    cells = {f"{name}, width {width}": _measured(width, name, repetitions) for width in WIDTHS for name in CASES}
    return Result(
        settings={"n": INPUTS, "batch_size": BATCH, "repetitions": repetitions},
        repetitions=cells,
        summary=[
            {
                "case and width": name,
                "parity, µs per step": spread(figures["parity"]),
                "case, µs per step": spread(figures["case"]),
                "case / parity": spread(ratios(figures["case"], figures["parity"])),
            }
            for name, figures in cells.items()
        ],
        targets=[
            at_most(f"a step / a step of a plain parity, {name}", _ratio(figures), LIMIT, "x")
            for name, figures in cells.items()
        ],
    )


def _ratio(figures: dict[str, list[float]]) -> float:
    return median(ratios(figures["case"], figures["parity"]))


def _measured(width: int, name: str, repetitions: int) -> dict[str, list[float]]:
    trials = {"parity": _trial(width, PARITY), "case": CASES[name](width)}
    return in_turns({which: _stepping(one, SPAN * WIDTHS[0] // width) for which, one in trials.items()}, repetitions)


def _stepping(one: el.Trial, steps: int) -> Callable[[], float]:
    """Return a function that takes some steps, and returns the microseconds of each."""
    engine = ENGINES["fused"]
    state = engine.init([one])

    def timed() -> float:
        nonlocal state
        begun = time.process_time()
        state, _ = engine.advance(state, ChunkRequest.of(steps))
        return 1e6 / steps * (time.process_time() - begun)

    timed()
    return timed
