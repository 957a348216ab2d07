"""One step on all pairs of a group: the pairs engine, and the three matrix products of which a step consists.

The products are NumPy's, of prepared arrays: outputs from the neurons' values, and from derivatives by the outputs
those by the values and by the output weights. They omit the rest of a step (activations, softmax, penalty, update),
which the engine and PyTorch's loop include. For the method, see ``beside``.
"""

from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import elegans as el
from benchmarks.beside import JAX, Contest, Figures, Work, fastest
from benchmarks.measure import ratios, spread
from benchmarks.peers import Loop
from benchmarks.record import Result, Target, at_most, cores

SIZES = {
    "mod 71, width 500": ("modular-addition:71", 500),
    "mod 23, width 160": ("modular-addition:23", 160),
    "S4, width 200": ("group-composition:S4", 200),
}
PENALTY = 1e-4
PRODUCTS = "NumPy's three products"


class PlainLoop(Loop):
    """One network on all pairs, their rows looked up; plain descent."""

    def __init__(self, trial: el.Trial) -> None:
        """Prepare the network and the pairs."""
        training, order = trial.training, trial.task.classes
        assert isinstance(training, el.SGD) and order is not None
        initial = trial.model.initialise(trial.key("init"), trial.task)
        self.left, self.right, self.output = (
            torch.nn.Parameter(torch.tensor(part.T.copy()))
            for part in (*np.hsplit(initial["hidden"]["weight"], 2), initial["output"]["weight"])
        )
        pairs = torch.arange(order**2)
        self.a, self.b = pairs // order, pairs % order
        self.label = torch.tensor(trial.task.member(None, np.arange(order**2, dtype=np.uint32))[1]).long()
        self.optimiser = torch.optim.SGD([self.left, self.right, self.output], lr=training.learning_rate)

    def loss(self, step: int) -> torch.Tensor:
        """Return the cross-entropy with its penalty."""
        values = (self.left[self.a] + self.right[self.b]) ** 2
        squares = (self.left**2).sum(0) + (self.right**2).sum(0) + (self.output**2).sum(1)
        return torch.nn.functional.cross_entropy(values @ self.output, self.label) + PENALTY * (squares**1.5).sum()


def trial_of(task: str, width: int, seed: int = 0) -> el.Trial:
    """Return the trial that all contenders train."""
    model = {"kind": "mlp", "width": width, "activation": "power:2", "hidden_bias": False, "output_bias": False}
    training = {"kind": "sgd", "steps": 10**6, "loss": "cross-entropy", "penalty": f"norm:{PENALTY}"}
    pairs = el.Trial(task=task, regime="online", model=model, training=training).task.population
    return el.Trial(task=task, regime="population", model=model, training={**training, "batch_size": pairs}, seed=seed)


CONTEST = Contest("pairs", PlainLoop, trial_of, SIZES, "network", seeds=10, budget=0.2)


def run(*, quick: bool) -> Result:
    """Measure every contender at every size."""
    return CONTEST.run(quick=quick, row=_row, targets=_targets, others=_products)


def _products(case: str) -> dict[str, Work]:
    """Return functions that compute the three products of a step repeatedly, by name."""
    task, width = SIZES[case]
    trial, random = trial_of(task, width), np.random.default_rng(0)
    pairs, classes = trial.task.population, trial.task.classes
    assert pairs is not None and classes is not None
    values, weight, grad = (
        random.normal(size=shape).astype(np.float32) for shape in ((pairs, width), (width, classes), (pairs, classes))
    )

    def take(threads: int, steps: int) -> None:
        with threadpool_limits(threads):
            for _ in range(steps):
                values @ weight
                grad @ weight.T
                values.T @ grad

    return {f"{PRODUCTS}, threads {threads}": partial(take, threads) for threads in (1, cores())}


def _row(case: str, figures: Figures, found: Any) -> dict[str, str]:
    one, turn, together = CONTEST.names
    alone, torch_best = figures[f"{PRODUCTS}, threads 1"], figures[fastest(figures)]
    return {
        "NumPy's products, one core": spread(alone),
        "… all cores": spread(figures[f"{PRODUCTS}, threads {cores()}"]),
        "PyTorch plain": spread(torch_best),
        **{name: spread(figures[name]) for name in (JAX, one, turn, together)},
        "pairs / products, one core": spread(ratios(figures[one], alone)),
        "side by side / in turn": spread(ratios(figures[together], figures[turn])),
        "PyTorch / pairs side by side": spread(ratios(torch_best, figures[together])),
    }


def _targets(case: str, figures: Figures, found: Any) -> list[Target]:
    one, turn, together = CONTEST.names
    step = median(ratios(figures[one], figures[f"{PRODUCTS}, threads 1"]))
    gain = median(ratios(figures[together], figures[turn]))
    return [
        at_most(f"a step / NumPy's three products, one core, {case}", step, 1.0, "x"),
        at_most(f"10 seeds side by side / in turn, {case}", gain, 1.0, "x"),
    ]
