"""One step on all pairs of a group: the pairs engine beside the three products of matrices that it consists of.

The products are NumPy's, of arrays that lie ready: outputs from the neurons' values, and from derivatives by the
outputs those by the values and by the output weights. All else of a step (activations, softmax, penalty, update) they
leave out, which the engine and PyTorch's loop do. Ten networks that differ in their seed are trained in turn on one
core and side by side on all of them. Figures are milliseconds a step and network.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, Protocol

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import elegans as el
from benchmarks.measure import best, in_turns, ratios, seconds, seconds_side_by_side, spread
from benchmarks.record import Result, Target, cores
from elegans.training.engines import ENGINES, Engine

SIZES = {
    "mod 71, width 500": ("modular-addition:71", 500),
    "mod 23, width 160": ("modular-addition:23", 160),
    "S4, width 200": ("group-composition:S4", 200),
}
PENALTY = 1e-4
SEEDS = 10
PRODUCTS, TORCH = "NumPy's three products", "PyTorch plain"
ONE, JAX, IN_TURN, SIDE_BY_SIDE = "elegans pairs", "elegans jax", "10 seeds in turn", "10 seeds side by side"

Work = Callable[[int], object]


class PlainLoop:
    """What a PyTorch user would write: one network on all pairs, their rows looked up."""

    def __init__(self, trial: el.Trial) -> None:
        """Put the network and the pairs on hand."""
        training, order = trial.training, trial.task.classes
        assert isinstance(training, el.SGD) and order is not None
        initial = trial.model.initialise(trial.key("init"), trial.task)
        self.left, self.right = (
            torch.nn.Parameter(torch.tensor(half.T.copy())) for half in np.hsplit(initial["hidden"]["weight"], 2)
        )
        self.output = torch.nn.Parameter(torch.tensor(initial["output"]["weight"].T.copy()))
        pairs = torch.arange(order**2)
        self.a, self.b = pairs // order, pairs % order
        self.label = torch.tensor(trial.task.member(None, np.arange(order**2, dtype=np.uint32))[1]).long()
        self.optimiser = torch.optim.SGD([self.left, self.right, self.output], lr=training.learning_rate)

    def loss(self) -> torch.Tensor:
        """Return the cross-entropy."""
        values = (self.left[self.a] + self.right[self.b]) ** 2
        return torch.nn.functional.cross_entropy(values @ self.output, self.label)

    def advance(self, steps: int) -> None:
        """Take steps."""
        for _ in range(steps):
            self.optimiser.zero_grad()
            squares = (self.left**2).sum(0) + (self.right**2).sum(0) + (self.output**2).sum(1)
            (self.loss() + PENALTY * (squares**1.5).sum()).backward()
            self.optimiser.step()


def trial_of(task: str, width: int, seed: int = 0) -> el.Trial:
    """Return the trial that all contenders train."""
    model = {"kind": "mlp", "width": width, "activation": "power:2", "hidden_bias": False, "output_bias": False}
    training = {"kind": "sgd", "steps": 10**6, "loss": "cross-entropy", "penalty": f"norm:{PENALTY}"}
    pairs = el.Trial(task=task, regime="online", model=model, training=training).task.population
    return el.Trial(task=task, regime="population", model=model, training={**training, "batch_size": pairs}, seed=seed)


def run(*, quick: bool) -> Result:
    """Measure every contender at every size."""
    repetitions, budget = (3, 0.1) if quick else (9, 0.2)
    found = {}
    for name, size in SIZES.items():
        contenders = contenders_of(*size)
        steps = {contender: steps_in(work, budget) for contender, work in contenders.items()}
        measures = {contender: partial(milliseconds, work, steps[contender]) for contender, work in contenders.items()}
        found[name] = {"steps": steps, "milliseconds_per_step_and_network": in_turns(measures, repetitions)}
    return Result(
        settings={
            **trial_of(*SIZES["mod 71, width 500"]).model_dump(mode="json", exclude={"seed": True}),
            "sizes": list(SIZES),
            "repetitions": repetitions,
            "seconds_per_repetition": budget,
        },
        repetitions=found,
        summary=[_row(name, _figures(found, name)) for name in SIZES],
        targets=[target for name in SIZES for target in _targets(name, _figures(found, name))],
    )


def contenders_of(task: str, width: int) -> dict[str, Work]:
    """Return by name what takes so many steps; those of several networks take them with each."""
    trials = [trial_of(task, width, seed) for seed in range(SEEDS)]
    engine, general = ENGINES["pairs"], ENGINES["jax"]
    states = [engine.init([trial]) for trial in trials]
    loop, state = PlainLoop(trials[0]), general.init(trials[:1])
    products = _products(task, width)
    found: dict[str, Work] = {}
    for threads in (1, cores()):
        found[f"{PRODUCTS}, threads {threads}"] = partial(products, threads)
        found[f"{TORCH}, threads {threads}"] = partial(in_torch, loop, threads)

    def in_jax(steps: int) -> None:
        nonlocal state
        state = general.advance(state, steps)

    turn = partial(in_turn, engine)
    found |= {JAX: in_jax, ONE: partial(turn, states[:1]), IN_TURN: partial(turn, states)}
    return {**found, SIDE_BY_SIDE: partial(side_by_side, engine, states)}


def in_turn(engine: Engine, states: list[Any], steps: int) -> None:
    """Take steps with each network in turn."""
    for state in states:
        engine.advance(state, steps)


def side_by_side(engine: Engine, states: list[Any], steps: int) -> None:
    """Take steps with each network, on all cores at once."""
    shares = [states[core :: cores()] for core in range(cores())]
    seconds_side_by_side([partial(in_turn, engine, share, steps) for share in shares])


def _products(task: str, width: int) -> Callable[[int, int], None]:
    """Return what takes the three products of a step, on so many threads, so many times."""
    trial = trial_of(task, width)
    pairs, classes = trial.task.population, trial.task.classes
    assert pairs is not None and classes is not None
    random = np.random.default_rng(0)
    values, weight, slope = (
        random.normal(size=shape).astype(np.float32) for shape in ((pairs, width), (width, classes), (pairs, classes))
    )

    def take(threads: int, steps: int) -> None:
        with threadpool_limits(threads):
            for _ in range(steps):
                values @ weight
                slope @ weight.T
                values.T @ slope

    return take


class Loop(Protocol):
    """What a PyTorch user would write."""

    def advance(self, steps: int) -> None:
        """Take steps."""


def in_torch(loop: Loop, threads: int, steps: int) -> None:
    """Take steps of a loop on so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    loop.advance(steps)
    torch.set_num_threads(before)


def steps_in(work: Work, budget: float) -> int:
    """Return how many steps fill some seconds, after a warm-up."""
    work(2)
    return max(5, round(budget / (seconds(partial(work, 5)) / 5)))


def milliseconds(work: Work, steps: int) -> float:
    """Return the milliseconds that a number of steps takes, for each of them."""
    return 1e3 * seconds(partial(work, steps)) / steps


def _figures(found: dict[str, Any], name: str) -> dict[str, list[float]]:
    figures: dict[str, list[float]] = found[name]["milliseconds_per_step_and_network"]
    together = {IN_TURN, SIDE_BY_SIDE}
    return {
        contender: [figure / SEEDS if contender in together else figure for figure in taken]
        for contender, taken in figures.items()
    }


def _row(name: str, figures: dict[str, list[float]]) -> dict[str, str]:
    alone, all_cores = (f"threads {threads}" for threads in (1, cores()))
    torch_best = best(figures, [f"{TORCH}, {alone}", f"{TORCH}, {all_cores}"])
    return {
        "network": name,
        "NumPy's products, one core": spread(figures[f"{PRODUCTS}, {alone}"]),
        "… all cores": spread(figures[f"{PRODUCTS}, {all_cores}"]),
        "PyTorch plain": spread(figures[torch_best]),
        JAX: spread(figures[JAX]),
        ONE: spread(figures[ONE]),
        IN_TURN: spread(figures[IN_TURN]),
        SIDE_BY_SIDE: spread(figures[SIDE_BY_SIDE]),
        "pairs / products, one core": spread(ratios(figures[ONE], figures[f"{PRODUCTS}, {alone}"])),
        "side by side / in turn": spread(ratios(figures[SIDE_BY_SIDE], figures[IN_TURN])),
        "PyTorch / pairs side by side": spread(ratios(figures[torch_best], figures[SIDE_BY_SIDE])),
    }


def _targets(name: str, figures: dict[str, list[float]]) -> list[Target]:
    step = median(ratios(figures[ONE], figures[f"{PRODUCTS}, threads 1"]))
    together = median(ratios(figures[SIDE_BY_SIDE], figures[IN_TURN]))
    return [
        Target(f"a step / NumPy's three products, one core, {name}", step, 1.0, "x", at_least=False),
        Target(f"10 seeds side by side / in turn, {name}", together, 1.0, "x", at_least=False),
    ]
