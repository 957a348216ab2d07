"""What probes cost: the time of training with one of them every 100 steps over that without."""

from collections.abc import Sequence
from functools import partial
from statistics import median

import elegans as el
from benchmarks.measure import in_turns, ratios, seconds, short, spread
from benchmarks.record import Result, at_most
from elegans.probes import FourierGap, Probe, TestError, WeightMovement
from elegans.stopping import StoppingRule
from elegans.training.engines import choose
from elegans.training.loop import train_together

EVERY, LIMIT = 100, 1.1
STEPS = {10: 100_000, 100: 30_000, 1000: 6_000}
"""By width, the steps with a probe that costs little; the others get fewer."""
PROBES: dict[str, tuple[Probe, int]] = {
    "WeightMovement": (WeightMovement(every=EVERY), 1),
    "TestError, 1000 examples": (TestError(every=EVERY, examples=1000), 5),
    "TestError, 10000 examples": (TestError(every=EVERY, examples=10_000), 5),
    "FourierGap, 1000 examples": (FourierGap(every=EVERY, examples=1000), 20),
    "FourierGap, 10000 examples": (FourierGap(every=EVERY, examples=10_000), 20),
}
"""By name, a probe, and by how much its trainings are shorter."""


def run(*, quick: bool) -> Result:
    """Train without and with each probe, in turns."""
    repetitions = 2 if quick else 5
    found = {
        (width, name): in_turns(
            {
                "off": partial(_train, width, STEPS[width] // shorter, ()),
                "on": partial(_train, width, STEPS[width] // shorter, (probe,)),
            },
            3 * repetitions if shorter == 1 else repetitions,
        )
        for width in STEPS
        for name, (probe, shorter) in PROBES.items()
    }
    return Result(
        settings={"repetitions": repetitions, "every": EVERY, "steps": STEPS, "n": 50, "batch_size": 32},
        repetitions={
            f"width {width}, {name}": {"microseconds_a_step": value} for (width, name), value in found.items()
        },
        summary=[_row(width, name, figures) for (width, name), figures in found.items()],
        targets=[
            at_most(
                f"time with WeightMovement every {EVERY} steps / without, width {width}",
                median(ratios(found[width, "WeightMovement"]["on"], found[width, "WeightMovement"]["off"])),
                LIMIT,
                "x",
            )
            for width in STEPS
        ],
    )


def _train(width: int, steps: int, probes: Sequence[Probe]) -> float:
    """Return the microseconds a step of a training that nothing ends early."""
    trial = el.Trial(
        task=el.SparseParity(n=50, k=25),
        regime=el.Online(),
        model=el.MLP(width=width),
        training=el.SGD(learning_rate=0.1, steps=steps, stopping=StoppingRule(every=steps)),
    )
    return 1e6 * seconds(lambda: list(train_together([trial], choose(trial, "fused"), probes=probes))) / steps


def _row(width: int, name: str, figures: dict[str, list[float]]) -> dict[str, str]:
    on, off = figures["on"], figures["off"]
    more = [EVERY * (one - other) for one, other in zip(on, off, strict=True)]
    return {
        "width": str(width),
        "probe": name,
        "off, us a step": spread(off),
        "on, us a step": spread(on),
        "on / off": spread(ratios(on, off)),
        "us a measurement": short(median(more)),
    }
