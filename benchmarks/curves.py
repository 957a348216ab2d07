"""The cost of curves of errors: the time of training with them, relative to that with a single point at the end.

Whole trainings of every number of steps, on fresh examples and without stopping, on one core. A point's evaluation is
counted as the engine does it: on blocks of 64 examples natively, of 512 with JAX.
"""

from functools import partial
from statistics import median
from unittest.mock import patch

from threadpoolctl import threadpool_limits

import elegans as el
from benchmarks.measure import in_turns, ratios, seconds, spread
from benchmarks.record import Result, at_most
from elegans.store.codec import pack_curves
from elegans.training import Curve, loop
from elegans.training.engines import ENGINES
from elegans.training.loop import train_together

STEPS = {10: 20_000, 100: 20_000, 1000: 6_000, 10_000: 1_000}
"""The steps, by width."""
CASES = [*(("fused", width) for width in STEPS), ("jax", 100), ("jax", 1000)]
SHARE, POINT_BYTES = 1.03, 40


def trial(width: int) -> el.Trial:
    """Return the trial of a width; it is never solved, and checked rarely."""
    stopping = el.StoppingRule(every=1000, stop=False)
    training = el.SGD(steps=STEPS[width], stopping=stopping)
    return el.Trial(task=el.SparseParity(n=50, k=3), regime=el.Online(), model=el.MLP(width=width), training=training)


def _train(one: el.Trial, engine: str) -> el.Outcome:
    with threadpool_limits(1):
        return next(iter(train_together([one], ENGINES[engine])))


def _train_plainly(one: el.Trial, engine: str) -> None:
    """Leave only the last point of the curve."""
    with patch.object(loop, "curve_steps", lambda steps, *_: [steps]):
        _train(one, engine)


def run(*, quick: bool) -> Result:
    """Measure every case."""
    repetitions, found, rows, targets = 3 if quick else 15, {}, [], []
    for engine, width in CASES:
        one, name = trial(width), f"{engine}, width {width:,}"

        train, plain = partial(_train, one, engine), partial(_train_plainly, one, engine)
        outcome = train()  # compiled and warm
        size = len(pack_curves(Curve(), outcome.errors) or b"") / len(outcome.errors.step)
        taken = in_turns({"with": partial(seconds, train), "without": partial(seconds, plain)}, repetitions)
        shares = ratios(taken["with"], taken["without"])
        found[name] = taken
        rows.append(
            {
                "engine, width": name,
                "steps": f"{one.steps:,}",
                "points": len(outcome.errors.step),
                "seconds without": spread(taken["without"]),
                "with / without": spread(shares),
                "bytes per point": f"{size:.1f}",
            }
        )
        targets.append(at_most(f"a training with its curve / without, {name}", median(shares), SHARE, "x"))
        targets.append(at_most(f"bytes per point, {name}", size, POINT_BYTES, ""))
    settings = {**trial(100).model_dump(mode="json"), "cases": CASES, "repetitions": repetitions}
    return Result(settings, found, rows, targets)
