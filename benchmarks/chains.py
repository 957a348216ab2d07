"""A step of one neuron on the sphere, whose overlap is a Markov chain: the same cost in every dimension."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.measure import in_turns, spread
from benchmarks.record import Result, at_most
from elegans import _native
from elegans.studies.staircases.chains import OverlapChain, chain_arguments

DIMENSIONS = (100, 1_000_000)
CASES: dict[str, dict[str, Any]] = {
    "h2": {},
    "h3": {},
    "h4": {},
    "h3, square loss": {"loss": "square"},
    "h3, each example twice": {"reuse": 0.35},
}
SPAN, LIMIT = 200_000, 0.15
"""Steps in one measurement, and the target in microseconds."""


def run(*, quick: bool) -> Result:
    """Measure all cases alternately, in seconds of one core, so that other load hardly matters."""
    contenders = {
        f"{case}, n = {n:,}": _stepping(case.partition(",")[0], n, fields)
        for case, fields in CASES.items()
        for n in DIMENSIONS
    }
    figures = in_turns(contenders, 5 if quick else 41)
    return Result(
        settings={"steps": SPAN},
        repetitions=figures,
        summary=[{"link and dimension": name, "µs per step": spread(each)} for name, each in figures.items()],
        targets=[at_most(f"a step, {name}", median(each), LIMIT, " µs") for name, each in figures.items()],
    )


def _stepping(link: str, n: int, fields: dict[str, Any]) -> Callable[[], float]:
    """Return a function that takes some steps, and returns the microseconds of each."""
    chain = OverlapChain(neuron=link, rate=1e-6, reach=2.0, steps=SPAN, **fields)
    arguments = chain_arguments(chain, link, n)

    def timed() -> float:
        begun = time.process_time()
        _native.overlap_steps((1, 2), first=0, steps=SPAN, overlap=0.1, **arguments)
        return 1e6 / SPAN * (time.process_time() - begun)

    return timed
