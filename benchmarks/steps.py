"""One training step: the fused and the JAX engine, plain and vmapped PyTorch.

The figure of every contender is the wall time divided by (steps x networks), with both cores at its
disposal. Plain PyTorch trains one network in one process, with its default threads or with one thread
(whichever is faster), and also as two processes of one thread each. The fused engine trains one network per
core. All train the same trials from the start, with the same initial weights and samples; each draws its
minibatches step by step with its own generator.
"""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch

import elegans as el
from benchmarks import peers
from benchmarks.beside import in_turn
from benchmarks.measure import best, in_turns, ratios, seconds, seconds_side_by_side, spread
from benchmarks.record import Result, Target, at_least, cores
from elegans.training.engines import ENGINES, ChunkRequest

WIDTHS = (10, 100, 1000, 10000)
LIMITS = {10: 150.0, 100: 80.0, 1000: 20.0, 10000: 7.0}
"""The target speed of the fused engine, in multiples of the plain loop's."""
VMAPPED_LIMIT = 5.0
BATCHED = (10, 32)
LONGEST = {10: 500, 100: 200, 1000: 50, 10000: 20}
"""Maximum number of steps from the start, by width: few, so that most examples still have a hinge gradient."""
MOST_ROUNDS = 20
"""Maximum number of times that fresh networks are trained within one repetition."""
PROCESSES = "PyTorch plain, 2 processes"


@dataclass(frozen=True)
class Contender:
    """A contender that trains networks.

    Args:
        networks: how many it trains at once.
        prepare: makes the networks before their first step.
        advance: takes steps, and returns their seconds.
    """

    networks: int
    prepare: Callable[[], Any]
    advance: Callable[[Any, int], float]


def trial_of(width: int, seed: int = 0) -> el.Trial:
    """Return the trial that all contenders train."""
    return el.Trial(
        task=el.SparseParity(n=50, k=3),
        regime=el.Sample(1000),
        model=el.MLP(width=width),
        training=el.SGD(learning_rate=0.1, weight_decay=0.01, batch_size=32, steps=10**6, loss="hinge"),
        seed=seed,
    )


def run(*, quick: bool) -> Result:
    """Measure every contender at every width."""
    repetitions, budget = (3, 0.1) if quick else (9, 0.5)
    torch.set_flush_denormal(True)
    found = {}
    with ProcessPoolExecutor(cores(), mp_context=multiprocessing.get_context("spawn")) as pool:
        for width in WIDTHS:
            contenders = contenders_of(width, pool, budget)
            plans = {name: plan(one, LONGEST[width], budget) for name, one in contenders.items()}
            measures = {name: partial(milliseconds, one, *plans[name]) for name, one in contenders.items()}
            figures = in_turns(measures, repetitions)
            found[width] = {
                "rounds_and_steps": plans,
                "networks": {name: one.networks for name, one in contenders.items()},
                "share_of_examples_with_a_gradient": active(width, LONGEST[width]),
                "milliseconds_per_1000_steps_and_network": figures,
            }
            print(f"  width {width} measured", flush=True)
    return Result(
        settings={
            **trial_of(10).model_dump(mode="json", exclude={"model": {"width"}, "seed": True}),
            "widths": WIDTHS,
            "repetitions": repetitions,
            "seconds_per_repetition": budget,
            "definition": "wall time / (steps x networks), both cores at the contender's disposal",
        },
        repetitions=found,
        summary=[_row(width, _figures(found, width)) for width in WIDTHS],
        targets=[target for width in WIDTHS for target in _targets(width, _figures(found, width))],
    )


def contenders_of(width: int, pool: ProcessPoolExecutor, budget: float) -> dict[str, Contender]:
    """Return the contenders at a width."""
    trial = trial_of(width)
    found = {}
    for threads in {1, cores()}:
        found[f"PyTorch plain, threads {threads}"] = Contender(
            1, partial(peers.PlainLoop, trial), partial(_advance_torch, threads)
        )
        for count in BATCHED:
            found[f"PyTorch vmap, threads {threads}, networks {count}"] = Contender(
                count, partial(peers.VmappedLoop, _trials(width, count)), partial(_advance_torch, threads)
            )
    for count in BATCHED:
        found[f"elegans jax, networks {count}"] = _jax(width, count)
    found[PROCESSES] = Contender(cores(), lambda: None, partial(_advance_processes, pool, trial))
    found["elegans fused"] = _fused(width, budget)
    return found


def _trials(width: int, count: int) -> list[el.Trial]:
    return [trial_of(width, seed) for seed in range(count)]


def _advance_torch(threads: int, loop: peers.PlainLoop | peers.VmappedLoop, steps: int) -> float:
    with peers.torch_threads(threads):
        return seconds(lambda: loop.advance(steps))


def _advance_processes(pool: ProcessPoolExecutor, trial: el.Trial, _: None, steps: int) -> float:
    jobs = [pool.submit(peers.plain_seconds, trial, steps) for _ in range(cores())]
    return max(job.result() for job in jobs)


def _jax(width: int, count: int) -> Contender:
    engine = ENGINES["jax"]
    return Contender(
        count,
        lambda: engine.init(_trials(width, count)),
        lambda state, steps: seconds(lambda: engine.advance(state, ChunkRequest.of(steps))),
    )


def _fused(width: int, budget: float) -> Contender:
    """Return the fused engine with enough networks per core for a repetition, since fresh ones take few steps."""
    engine = ENGINES["fused"]
    state = engine.init([trial_of(width)])
    whole = ChunkRequest.of(LONGEST[width])
    engine.advance(state, whole)
    one = seconds(lambda: engine.advance(engine.init([trial_of(width)]), whole))
    per_core = max(1, min(500, round(budget / one)))

    def prepare() -> list[Any]:
        return [
            [engine.init([trial_of(width, core * per_core + number)]) for number in range(per_core)]
            for core in range(cores())
        ]

    def advance(states: list[Any], steps: int) -> float:
        return seconds_side_by_side([partial(in_turn, engine, networks, steps) for networks in states])

    return Contender(per_core * cores(), prepare, advance)


def plan(contender: Contender, longest: int, budget: float) -> tuple[int, int]:
    """Return the numbers of rounds and of steps per round for the time of a repetition, after a warm-up."""
    contender.advance(contender.prepare(), 5)
    one = contender.advance(contender.prepare(), 10) / 10
    steps = max(10, min(longest, round(budget / one)))
    return max(1, min(MOST_ROUNDS, round(budget / (one * steps)))), steps


def milliseconds(contender: Contender, rounds: int, steps: int) -> float:
    """Return the milliseconds for 1000 steps of one network; every round begins with fresh networks."""
    spent = sum(contender.advance(contender.prepare(), steps) for _ in range(rounds))
    return spent / (rounds * steps * contender.networks) * 1e6


def active(width: int, steps: int) -> dict[str, float]:
    """Return the fraction of a network's sample with a hinge gradient, at the start and after some steps."""
    trial, engine = trial_of(width), ENGINES["fused"]
    _, x, y = peers.material(trial)
    fresh = engine.init([trial])
    trained, _ = engine.advance(engine.init([trial]), ChunkRequest.of(steps))
    return {
        f"after {taken} steps": float(np.mean(y.numpy() * engine.predict(state, x.numpy())[0] < 1))
        for taken, state in ((0, fresh), (steps, trained))
    }


def _figures(found: dict[int, Any], width: int) -> dict[str, list[float]]:
    figures: dict[str, list[float]] = found[width]["milliseconds_per_1000_steps_and_network"]
    return figures


def _bests(figures: dict[str, list[float]]) -> tuple[str, str, str]:
    """Return the best plain loop, the best vmapped PyTorch and the best batch of the JAX engine."""
    plain, vmapped, jax = (
        best(figures, [name for name in figures if name.startswith(start) and name != PROCESSES])
        for start in ("PyTorch plain", "PyTorch vmap", "elegans jax")
    )
    return plain, vmapped, jax


def _row(width: int, figures: dict[str, list[float]]) -> dict[str, str]:
    plain, vmapped, jax = _bests(figures)
    fused = figures["elegans fused"]
    return {
        "width": str(width),
        "PyTorch plain": spread(figures[plain]),
        "… 2 processes": spread(figures[PROCESSES]),
        "PyTorch vmap": spread(figures[vmapped]),
        "elegans jax": spread(figures[jax]),
        "elegans fused": spread(fused),
        "plain / fused": spread(ratios(figures[plain], fused)),
        "2 processes / fused": spread(ratios(figures[PROCESSES], fused)),
        "best batched / fused": spread(ratios(figures[best(figures, [vmapped, jax])], fused)),
    }


def _targets(width: int, figures: dict[str, list[float]]) -> list[Target]:
    plain, vmapped, jax = _bests(figures)
    fused = figures["elegans fused"]
    batched = best(figures, [vmapped, jax])
    return [
        at_least(f"plain PyTorch / fused, width {width}", median(ratios(figures[plain], fused)), LIMITS[width], "x"),
        at_least(f"faster vmapped / fused, width {width}", median(ratios(figures[batched], fused)), VMAPPED_LIMIT, "x"),
    ]
