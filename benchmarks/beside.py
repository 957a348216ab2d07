"""The method of pairs, attention and bits: a step of a native engine, of the jax engine and of a plain PyTorch loop.

The native engine is measured on one core, the jax engine on all, PyTorch with one thread and with all. Networks that
differ in their seed are trained in turn on one core and side by side on all of them. Figures are milliseconds per step
and network.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch

import elegans as el
from benchmarks.measure import best, in_turns, ratios, seconds, seconds_side_by_side, spread
from benchmarks.peers import Loop, torch_threads
from benchmarks.record import Result, Target, at_least, cores
from elegans.training.engines import ENGINES, ChunkRequest, Engine

TORCH, JAX = "PyTorch plain", "elegans jax"
Work = Callable[[int], object]
Figures = Mapping[str, Sequence[float]]


class AdamLoop(Loop):
    """The loop that a PyTorch user would write for a transformer, with AdamW."""

    def __init__(self, trial: el.Trial) -> None:
        """Prepare the network."""
        training: Any = trial.training
        initial = trial.model.initialise(trial.key("init"), trial.task)
        self.parameters = {
            layer: {name: torch.nn.Parameter(torch.tensor(array)) for name, array in arrays.items()}
            for layer, arrays in initial.items()
        }
        self.optimiser = torch.optim.AdamW(
            [array for arrays in self.parameters.values() for array in arrays.values()],
            lr=training.learning_rate,
            weight_decay=training.weight_decay,
        )


def normed(arrays: Mapping[str, torch.Tensor], z: torch.Tensor) -> torch.Tensor:
    """Return normalised activations, or unchanged ones if a layer has no norm."""
    if "scale" not in arrays:
        return z
    return torch.nn.functional.layer_norm(z, z.shape[-1:], arrays["scale"], arrays["shift"])


@dataclass(frozen=True)
class Contest:
    """A comparison of one native engine with the others, on some cases.

    Args:
        engine: its name.
        loop: makes PyTorch's loop from a trial.
        trial: makes the trial of a case and a seed.
        cases: the arguments of a trial, by name of the case.
        column: the heading of the table's first column, which names the cases.
        seeds: the number of networks trained in turn and side by side.
        budget: seconds of one measurement.
    """

    engine: str
    loop: Callable[[el.Trial], Loop]
    trial: Callable[..., el.Trial]
    cases: Mapping[str, Sequence[Any]]
    column: str
    seeds: int
    budget: float = 0.3

    @property
    def names(self) -> tuple[str, str, str]:
        """The native contenders: one network, several in turn, several side by side."""
        return f"elegans {self.engine}", f"{self.seeds} seeds in turn", f"{self.seeds} seeds side by side"

    def run(
        self,
        *,
        quick: bool,
        row: Callable[[str, Figures, Any], Mapping[str, str]],
        targets: Callable[[str, Figures, Any], Sequence[Target]],
        others: Callable[[str], Mapping[str, Work]] = lambda case: {},
        more: Callable[[str], Mapping[str, Any]] = lambda case: {},
    ) -> Result:
        """Measure every contender in every case.

        Args:
            quick: whether a coarse run is enough.
            row: returns the row of a case in the table, given its name, figures and further figures.
            targets: returns a case's targets, given the same.
            others: returns further contenders of a case.
            more: returns further figures of a case.
        """
        repetitions, budget = (3, 0.1) if quick else (9, self.budget)
        found, figures = {}, {}
        for case in self.cases:
            contenders = {**others(case), **self.contenders(case)}
            steps = {name: steps_in(work, budget) for name, work in contenders.items()}
            measures = {name: partial(milliseconds, work, steps[name]) for name, work in contenders.items()}
            taken = in_turns(measures, repetitions)
            found[case] = {"steps": steps, "milliseconds_per_step_and_network": taken, **more(case)}
            figures[case] = {
                name: [each / (self.seeds if name in self.names[1:] else 1) for each in taken[name]] for name in taken
            }
        first, *_ = self.cases
        return Result(
            settings={
                **self.trial(*self.cases[first]).model_dump(mode="json", exclude={"seed": True}),
                "cases": self.cases,
                "repetitions": repetitions,
                "seconds_per_repetition": budget,
            },
            repetitions=found,
            summary=[{self.column: case, **row(case, figures[case], found[case])} for case in self.cases],
            targets=[target for case in self.cases for target in targets(case, figures[case], found[case])],
        )

    def contenders(self, case: str) -> dict[str, Work]:
        """Return functions that take a number of steps, by name; those of several networks take them with each."""
        trials = [self.trial(*self.cases[case], seed=seed) for seed in range(self.seeds)]
        engine, general = ENGINES[self.engine], ENGINES["jax"]
        states = [engine.init([trial]) for trial in trials]
        loop, state = self.loop(trials[0]), general.init(trials[:1])

        def in_jax(steps: int) -> None:
            nonlocal state
            state, _ = general.advance(state, ChunkRequest.of(steps))

        one, turn, together = self.names
        return {
            **{f"{TORCH}, threads {threads}": partial(in_torch, loop, threads) for threads in (1, cores())},
            JAX: in_jax,
            one: partial(in_turn, engine, states[:1]),
            turn: partial(in_turn, engine, states),
            together: partial(side_by_side, engine, states),
        }

    def columns(self, figures: Figures) -> dict[str, str]:
        """Return the columns of PyTorch and the engines."""
        one, turn, together = self.names
        alone, all_cores = torch_names()
        return {
            "PyTorch, one core": spread(figures[alone]),
            "PyTorch, all cores": spread(figures[all_cores]),
            "elegans jax, all cores": spread(figures[JAX]),
            f"{one}, one core": spread(figures[one]),
            turn: spread(figures[turn]),
            together: spread(figures[together]),
            f"PyTorch / {self.engine}, one core": spread(ratios(figures[alone], figures[one])),
            f"PyTorch / {self.engine} side by side": spread(ratios(figures[fastest(figures)], figures[together])),
        }

    def faster(self, case: str, figures: Figures, limit: float) -> Target:
        """Return the target of a step on one core, compared with PyTorch's."""
        measured = median(ratios(figures[torch_names()[0]], figures[self.names[0]]))
        return at_least(f"PyTorch's plain loop / a step, one core, {case}", measured, limit, "x")


def torch_names() -> list[str]:
    """Return PyTorch's contenders: with one thread, and with all."""
    return [f"{TORCH}, threads {threads}" for threads in (1, cores())]


def fastest(figures: Figures) -> str:
    """Return the faster of PyTorch's contenders."""
    return best(figures, torch_names())


def in_torch(loop: Loop, threads: int, steps: int) -> None:
    """Take steps of a loop on a number of threads."""
    with torch_threads(threads):
        loop.advance(steps)


def in_turn(engine: Engine, states: Sequence[Any], steps: int) -> None:
    """Take steps with each network in turn."""
    for state in states:
        engine.advance(state, ChunkRequest.of(steps))


def side_by_side(engine: Engine, states: Sequence[Any], steps: int) -> None:
    """Take steps with each network, on all cores at once."""
    shares = [states[core :: cores()] for core in range(cores())]
    seconds_side_by_side([partial(in_turn, engine, share, steps) for share in shares])


def steps_in(work: Work, budget: float) -> int:
    """Return how many steps take a given time, after a warm-up."""
    work(2)
    return max(5, round(budget / (seconds(partial(work, 5)) / 5)))


def milliseconds(work: Work, steps: int) -> float:
    """Return the milliseconds per step, over a number of steps."""
    return 1e3 * seconds(partial(work, steps)) / steps
