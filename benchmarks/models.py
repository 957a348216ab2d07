"""The time of a model that is checked every 10 steps, from its draw to its outcome, and that of a PyTorch loop."""

import time
from collections.abc import Callable, Iterator
from itertools import count
from statistics import median

import torch

import elegans as el
from benchmarks.measure import in_turns, ratios, short, spread
from benchmarks.peers import hinge
from benchmarks.record import Result, at_most
from elegans.studies.hidden_progress.settings import configuration
from elegans.training.engines import choose
from elegans.training.loop import train_together

TRIALS = {
    "(ii): ReLU network of width 100, n 30, k 3, learning rate 1": configuration("ii", 30, 3, learning_rate=1.0),
    "(xv): PolyNet, n 30, k 3": configuration("xv", 30, 3),
    "(xv): PolyNet, n 20, k 3": configuration("xv", 20, 3),
}
LIMIT = 2.0
"""Milliseconds per solved model."""
IN_A_ROW = {"elegans": 20, "PyTorch plain": 1}
"""Models that a contender trains per turn: a single one of ours would pay for the caches that the peer filled."""

Figures = dict[str, list[float]]


class Product(torch.nn.Module):
    """A product of affine forms."""

    def __init__(self, inputs: int, degree: int) -> None:
        """Draw as PyTorch does."""
        super().__init__()
        self.factors = torch.nn.Linear(inputs, degree)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the products."""
        factors: torch.Tensor = self.factors(x)
        return factors.prod(dim=1, keepdim=True)


def run(*, quick: bool) -> Result:
    """Train models of both contenders alternately, one at a time on one core."""
    torch.set_num_threads(1)
    repetitions = 10 if quick else 50
    found = {name: _measured(trial, repetitions) for name, trial in TRIALS.items()}
    return Result(
        settings={
            "repetitions": repetitions,
            "in_a_row": IN_A_ROW,
            "trials": {name: trial.model_dump(mode="json") for name, trial in TRIALS.items()},
        },
        repetitions={
            name: {"milliseconds_per_model": milliseconds, "steps": steps}
            for name, (milliseconds, steps) in found.items()
        },
        summary=[_row(name, *figures) for name, figures in found.items()],
        targets=[
            at_most(f"median ms per solved model, {name}", median(milliseconds["elegans"]), LIMIT, " ms")
            for name, (milliseconds, _) in found.items()
        ],
    )


def _measured(trial: el.Trial, repetitions: int) -> tuple[Figures, Figures]:
    """Return the milliseconds of each model and the steps after which it was solved, by contender."""
    steps: Figures = {"elegans": [], "PyTorch plain": []}
    seeds = count()

    def timed(name: str, train: Callable[[el.Trial, Iterator[int]], int]) -> Callable[[], float]:
        def one() -> float:
            begun = time.perf_counter()
            steps[name].append(train(trial, seeds))
            return 1e3 * (time.perf_counter() - begun)

        return lambda: median(one() for _ in range(IN_A_ROW[name]))

    contenders = {"elegans": timed("elegans", fused), "PyTorch plain": timed("PyTorch plain", plain)}
    for contender in contenders.values():
        contender()
    for taken in steps.values():
        taken.clear()
    return in_turns(contenders, repetitions), steps


def fused(trial: el.Trial, seeds: Iterator[int]) -> int:
    """Train one model as in a run, and return its steps."""
    outcome = next(iter(train_together([trial.with_seed(next(seeds))], choose(trial, "fused"))))
    assert outcome.state == "solved", outcome.state
    return outcome.steps


def plain(trial: el.Trial, seeds: Iterator[int]) -> int:
    """Train one model in a tutorial's loop, by the same rules, and return its steps."""
    task, training = trial.task, trial.training
    assert isinstance(task, el.SparseParity) and isinstance(training, el.SGD)
    random = torch.Generator().manual_seed(next(seeds))
    support = torch.randperm(task.n, generator=random)[: task.k]

    def draw(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = 2.0 * torch.randint(2, (size, task.n), generator=random) - 1
        return x, x[:, support].prod(dim=1)

    network = _network(trial.model, task.n)
    optimiser = torch.optim.SGD(network.parameters(), lr=training.learning_rate)
    x_test, y_test = draw(training.stopping.examples)
    for step in range(1, training.steps + 1):
        x, y = draw(training.batch_size)
        optimiser.zero_grad()
        hinge(network(x).squeeze(-1), y).backward()
        optimiser.step()
        if step % training.stopping.every == 0:
            with torch.no_grad():
                if (y_test * network(x_test).squeeze(-1) > 0).all():
                    return step
    raise AssertionError(f"not solved in {training.steps} steps")


def _network(model: object, inputs: int) -> torch.nn.Module:
    if isinstance(model, el.PolyNet):
        return Product(inputs, model.degree)
    assert isinstance(model, el.MLP)
    return torch.nn.Sequential(torch.nn.Linear(inputs, model.width), torch.nn.ReLU(), torch.nn.Linear(model.width, 1))


def _row(name: str, milliseconds: Figures, steps: Figures) -> dict[str, str]:
    ours, theirs = milliseconds["elegans"], milliseconds["PyTorch plain"]
    return {
        "model": name,
        "elegans, ms": spread(ours),
        "PyTorch plain, ms": spread(theirs),
        "plain / elegans": short(median(ratios(theirs, ours))),
        "median steps, elegans": short(median(steps["elegans"])),
        "median steps, PyTorch": short(median(steps["PyTorch plain"])),
    }
