"""The cost of probes: the time of training with one of them every 100 steps, relative to that without."""

from collections.abc import Sequence
from functools import partial
from statistics import median

from threadpoolctl import threadpool_limits

import elegans as el
from benchmarks.measure import in_turns, ratios, seconds, short, spread
from benchmarks.record import Result, at_most
from elegans.probes import (
    FourierGap,
    HeldOutErrorRate,
    HeldOutLoss,
    ParameterTrajectory,
    Probe,
    TrainErrorRate,
    WeightMovement,
    WeightTrajectory,
)
from elegans.stopping import StoppingRule
from elegans.studies.learning_parities.probes import ComponentLosses
from elegans.studies.pareto_frontiers.probes import StrongestNeurons, SupportShare
from elegans.studies.xor_two_phases.probes import SignalHeavy, SubspaceShare, XORMargins, XORParts
from elegans.training.engines import choose
from elegans.training.loop import train_together

EVERY, LIMIT = 100, 1.1
STEPS = {10: 100_000, 100: 30_000, 1000: 6_000}
"""The steps with a cheap probe, by width; the others get fewer."""
PARITY, XOR, BIASED = "", "XOR: ", "biased parity: "
TASKS: dict[str, el.Task] = {
    PARITY: el.SparseParity(n=50, k=3),
    XOR: el.XOR(n=50),
    BIASED: el.BiasedParity(n=50, k=3, support=(0, 1, 2)),
}
PROBES: dict[str, tuple[Probe, int]] = {
    "WeightMovement": (WeightMovement(every=EVERY), 1),
    "TestError, 1000 examples": (HeldOutErrorRate(every=EVERY, examples=1000), 5),
    "TestError, 10000 examples": (HeldOutErrorRate(every=EVERY, examples=10_000), 5),
    "FourierGap, 1000 examples": (FourierGap(every=EVERY, examples=1000), 20),
    "FourierGap, 10000 examples": (FourierGap(every=EVERY, examples=10_000), 20),
}
"""A probe, and the factor by which its trainings are shorter, by name; measured at every width."""
OTHERS: dict[tuple[str, str], tuple[Probe, int]] = {
    (PARITY, "TestLoss, 1024 examples"): (HeldOutLoss(every=EVERY), 5),
    (PARITY, "TrainError, 10000 examples"): (TrainErrorRate(every=EVERY), 5),
    (PARITY, "WeightTrajectory"): (WeightTrajectory(every=EVERY), 5),
    (PARITY, "ParameterTrajectory"): (ParameterTrajectory(every=EVERY), 5),
    (PARITY, "StrongestNeurons, 3"): (StrongestNeurons(every=EVERY, count=3), 5),
    (PARITY, "SupportShare"): (SupportShare(every=EVERY), 5),
    (XOR, "XORMargins, 4000 examples"): (XORMargins(every=EVERY), 20),
    (XOR, "XORParts"): (XORParts(every=EVERY), 5),
    (XOR, "SignalHeavy"): (SignalHeavy(every=EVERY), 20),
    (XOR, "SubspaceShare"): (SubspaceShare(every=EVERY), 5),
    (BIASED, "ComponentLosses, 10000 examples"): (ComponentLosses(every=EVERY), 20),
}
"""The same by task and name; measured only at width 100."""
Case = tuple[int, str, str]
"""Width, task and probe."""
CASES: dict[Case, tuple[Probe, int]] = {
    **{(width, PARITY, name): case for width in STEPS for name, case in PROBES.items()},
    **{(100, *named): case for named, case in OTHERS.items()},
}


def run(*, quick: bool) -> Result:
    """Train without and with each probe alternately."""
    repetitions = 2 if quick else 7
    found = {
        (width, task, name): in_turns(
            {
                "off": partial(_train, width, task, STEPS[width] // shorter, ()),
                "on": partial(_train, width, task, STEPS[width] // shorter, (probe,)),
            },
            3 * repetitions if shorter == 1 else repetitions,
        )
        for (width, task, name), (probe, shorter) in sorted(CASES.items(), key=lambda case: case[0][0])
    }
    return Result(
        settings={"repetitions": repetitions, "every": EVERY, "steps": STEPS, "n": 50, "k": 3, "batch_size": 32},
        repetitions={
            f"width {width}, {task}{name}": {"microseconds_a_step": value}
            for (width, task, name), value in found.items()
        },
        summary=[_row(width, task + name, figures) for (width, task, name), figures in found.items()],
        targets=[
            at_most(
                f"time with WeightMovement every {EVERY} steps / without, width {width}",
                median(ratios(own["on"], own["off"])),
                LIMIT,
                "x",
            )
            for width in STEPS
            for own in [found[width, PARITY, "WeightMovement"]]
        ],
    )


def _train(width: int, task: str, steps: int, probes: Sequence[Probe]) -> float:
    """Return the microseconds per step of a training that does not end early and stays at chance."""
    trial = el.Trial(
        task=TASKS[task],
        regime=el.Online(),
        model=el.MLP(width=width, hidden_bias=task != XOR, output_bias=task == PARITY),
        training=el.SGD(learning_rate=0.001, steps=steps, stopping=StoppingRule(every=steps)),
    )
    with threadpool_limits(1, user_api="blas"):  # as in a sweep with a worker per core
        return 1e6 * seconds(lambda: list(train_together([trial], choose(trial, "fused"), probes=probes))) / steps


def _row(width: int, name: str, figures: dict[str, list[float]]) -> dict[str, str]:
    on, off = figures["on"], figures["off"]
    more = [EVERY * (one - other) for one, other in zip(on, off, strict=True)]
    return {
        "width": str(width),
        "probe": name,
        "off, µs per step": spread(off),
        "on, µs per step": spread(on),
        "cost, % of 100 steps": spread([100 * (ratio - 1) for ratio in ratios(on, off)]),
        "µs per measurement": short(median(more)),
    }
