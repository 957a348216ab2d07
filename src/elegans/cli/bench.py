"""How fast this machine trains: steps per second of each engine, beside the measured multiply-add peak."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from elegans.machine import cores, instruction_sets
from elegans.models import MLP
from elegans.stopping import StoppingRule
from elegans.tasks import Sample, SparseParity
from elegans.training import SGD, Trial
from elegans.training.engines import ENGINES, ChunkRequest, Engine

WIDTHS = (10, 100, 1000, 10_000)
INPUTS, SUPPORT, SAMPLE, BATCH = 50, 3, 1000, 32
SECONDS = 1.0
"""Seconds for which each engine is measured at each width."""
TRIAL_STEPS = 20_000
"""Steps of one trial, for counting trials per second."""
JAX_NETWORKS = 32
"""Number of networks that the general engine trains side by side on the CPU."""


@dataclass(frozen=True)
class Rate:
    """The speed at which one engine trains networks of one width, using the whole machine.

    Args:
        engine: the engine's name.
        device: ``cpu``, or the name of an accelerator.
        width: hidden neurons per network.
        networks: how many networks were trained at once.
        steps_per_second: steps of all networks together.
        trials_per_second: the same in trials of 20 000 steps.
        gflops: 4 x batch x n x width operations per step, the usual count for both passes, in 10^9 per second. The
            fused engine adds up signs with fewer operations and can exceed the machine's peak.
    """

    engine: str
    device: str
    width: int
    networks: int
    steps_per_second: float
    trials_per_second: float
    gflops: float


def trial(width: int, seed: int = 0) -> Trial:
    """Return a trial whose steps all have their full cost.

    The fused engine skips the backward pass of examples with zero loss, so a network that has memorised
    its sample trains faster. With this learning rate none gets that far.
    """
    return Trial(
        task=SparseParity(n=INPUTS, k=SUPPORT),
        regime=Sample(SAMPLE),
        model=MLP(width=width),
        training=SGD(
            learning_rate=1e-5, weight_decay=0.01, batch_size=BATCH, steps=10**6, stopping=StoppingRule(every=10**6)
        ),
        seed=seed,
    )


def steps_per_second(engine: Engine, trials: Sequence[Trial], seconds: float) -> float:
    """Return the steps per second of all networks together, over successive calls.

    Args:
        engine: the engine that trains the networks.
        trials: trials that it can train side by side.
        seconds: how long to measure, after an uncounted first call.
    """
    state, _ = engine.advance(engine.init(trials), ChunkRequest.of(16))
    stride, taken, spent = 1, 0, 0.0
    while spent < seconds:
        begun = time.perf_counter()
        state, _ = engine.advance(state, ChunkRequest.of(stride))
        last = time.perf_counter() - begun
        taken, spent = taken + stride, spent + last
        if last < seconds / 16:
            stride *= 2
    return taken * len(trials) / spent


def together(work: Callable[[int], float], threads: int) -> float:
    """Return the sum of the results of ``work(0)``, ``work(1)``, …, which run at once, one per thread."""
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads)))


def peak(seconds: float = 0.5) -> float | None:
    """Return the measured float32 multiply-add peak in GFLOP/s with all cores busy; None without native code.

    Args:
        seconds: how long to measure.
    """
    try:
        from elegans import _native
    except ImportError:
        return None
    return together(lambda _: float(_native.fma_peak(seconds)), cores())


def rates(seconds: float) -> Iterator[Rate]:
    """Measure every engine that works here at every width, and the accelerator that JAX sees first.

    Args:
        seconds: how long to measure each.
    """
    for width in WIDTHS:
        if ENGINES["fused"].unavailable() is None:
            yield _fused(width, seconds)
        if ENGINES["jax"].unavailable() is None:
            yield from _jax(width, seconds)


def report(show: Callable[[Rate], None] = lambda rate: None) -> dict[str, Any]:
    """Measure everything and return one record of plain values.

    Args:
        show: called with each rate as it is known.
    """
    rows, highest = [], peak()
    for rate in rates(SECONDS):
        show(rate)
        share = rate.gflops / highest if highest and rate.device == "cpu" else None
        rows.append({**asdict(rate), "share_of_peak": share})
    return {
        "cores": cores(),
        "instruction_set": instruction_sets()[0],
        "peak_gflops": highest,
        "n": INPUTS,
        "sample_size": SAMPLE,
        "batch_size": BATCH,
        "trial_steps": TRIAL_STEPS,
        "rates": rows,
    }


def heading() -> str:
    """Return the settings of the measurement and the column headings for ``row``."""
    return (
        f"n={INPUTS}, sample {SAMPLE}, batch {BATCH}; a trial is {TRIAL_STEPS} steps; {cores()} cores at work\n"
        f"{'engine':8}{'device':24}{'width':>7}{'networks':>10}{'trials/s':>12}{'steps/s':>12}{'GFLOP/s':>10}"
    )


def row(rate: Rate) -> str:
    """Return one rate as a row under ``heading``."""
    return (
        f"{rate.engine:8}{rate.device:24}{rate.width:>7}{rate.networks:>10}{rate.trials_per_second:>12.3g}"
        f"{rate.steps_per_second:>12.0f}{rate.gflops:>10.1f}"
    )


def _fused(width: int, seconds: float) -> Rate:
    engine, threads = ENGINES["fused"], cores()
    measured = together(lambda seed: steps_per_second(engine, [trial(width, seed=seed)], seconds), threads)
    return _rate("fused", "cpu", width, threads, measured)


def _jax(width: int, seconds: float) -> Iterator[Rate]:
    import jax

    engine = ENGINES["jax"]
    places: list[tuple[str, int, AbstractContextManager[Any]]] = [("cpu", JAX_NETWORKS, nullcontext())]
    accelerators = [device for device in jax.devices() if device.platform != "cpu"]
    if accelerators:
        # On an accelerator, networks are batched until it is busy or holds 200 MB of weights.
        many = max(JAX_NETWORKS, min(1024, 2**20 // width))
        places = [("cpu", JAX_NETWORKS, jax.default_device(jax.devices("cpu")[0]))]
        places.append((accelerators[0].device_kind, many, jax.default_device(accelerators[0])))
    for device, networks, place in places:
        with place:
            measured = steps_per_second(engine, [trial(width, seed=seed) for seed in range(networks)], seconds)
        yield _rate("jax", device, width, networks, measured)


def _rate(engine: str, device: str, width: int, networks: int, measured: float) -> Rate:
    gflops = 4 * BATCH * INPUTS * width * measured / 1e9
    return Rate(engine, device, width, networks, measured, measured / TRIAL_STEPS, gflops)
