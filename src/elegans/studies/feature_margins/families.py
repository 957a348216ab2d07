"""What theory knows about each family of tasks: one table shared by probes, experiments and certificates.

The largest margin is known for squares on addition mod p and on composition in a finite group, and for powers x^k on
k-sparse parities.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Int

from elegans.models import MLP, Model, Power
from elegans.studies.feature_margins.theory.cyclic import cyclic_maximum_margin
from elegans.studies.feature_margins.theory.game import margin_game
from elegans.studies.feature_margins.theory.parity import parity_labels, parity_maximum_margin
from elegans.studies.feature_margins.theory.penalty import (
    PenalisedOptimum,
    cyclic_penalised_optimum,
    group_penalised_optimum,
    parity_penalised_optimum,
)
from elegans.studies.feature_margins.theory.problems import (
    LARGEST_ORDER,
    MarginProblem,
    cyclic_margin_problem,
    group_margin_problem,
    parity_margin_problem,
)
from elegans.studies.feature_margins.theory.weights import LARGEST_INPUT, HomogeneousWeights, PairWeights, ParityWeights
from elegans.tasks import GroupComposition, ModularAddition, SparseParity, Task
from elegans.training import NormPenalty, Trial
from elegans.training.optimisers import Descent

Labels = Int[np.ndarray, " population"]
NAMED = "addition mod p, composition in a group, or a sparse parity"


@dataclass(frozen=True)
class Family:
    """What is known about one family of tasks.

    Args:
        power: of a task: the degree of the activation whose largest margin is known.
        maximum_margin: of a task: gamma*.
        optimum: of a task, the penalty's strength and its exponent: the exact optimum of the penalised loss.
        problem: of a task and a parity's support: the task in the form that certificates need.
        labels: of a task and a parity's support: the correct output of every input, in the order of the population.
        weights: of a network's parameters and its activation's degree (1 for ReLU): its weights, neuron by neuron.
        size: of a task: how large its population is, as a number of elements or signs.
        largest: the largest such number at which the population is enumerated.
    """

    power: Callable[[Any], int]
    maximum_margin: Callable[[Any], float]
    optimum: Callable[[Any, float, float], PenalisedOptimum]
    problem: Callable[[Any, Iterable[int]], MarginProblem]
    labels: Callable[[Any, Any], Labels]
    weights: Callable[[Mapping[str, Any], int], HomogeneousWeights]
    size: Callable[[Any], int]
    largest: int


def _pairs(parameters: Mapping[str, Any], power: int) -> PairWeights:
    return PairWeights.from_parameters(parameters, "square" if power == 2 else "relu")


FAMILIES: dict[type[Task], Family] = {
    ModularAddition: Family(
        power=lambda task: 2,
        maximum_margin=lambda task: cyclic_maximum_margin(task.p),
        optimum=lambda task, *penalty: cyclic_penalised_optimum(task.p, *penalty),
        problem=lambda task, support: cyclic_margin_problem(task.p),
        labels=lambda task, support: np.add.outer(np.arange(task.p), np.arange(task.p)).ravel() % task.p,
        weights=_pairs,
        size=lambda task: int(task.p),
        largest=LARGEST_ORDER,
    ),
    GroupComposition: Family(
        power=lambda task: 2,
        maximum_margin=lambda task: margin_game(task.group).value,
        optimum=lambda task, *penalty: group_penalised_optimum(task.group, *penalty),
        problem=lambda task, support: group_margin_problem(task.group),
        labels=lambda task, support: task.group.table.ravel(),
        weights=_pairs,
        size=lambda task: int(task.group.order),
        largest=LARGEST_ORDER,
    ),
    SparseParity: Family(
        power=lambda task: int(task.k),
        maximum_margin=lambda task: parity_maximum_margin(task.k),
        optimum=lambda task, *penalty: parity_penalised_optimum(task.k, *penalty),
        problem=lambda task, support: parity_margin_problem(task.n, support),
        labels=lambda task, support: parity_labels(task.n, support),
        weights=ParityWeights.from_parameters,
        size=lambda task: int(task.n),
        largest=LARGEST_INPUT,
    ),
}


def family_of(task: Task) -> Family | None:
    """Return what is known about a task's family, or None."""
    return next((family for kind, family in FAMILIES.items() if isinstance(task, kind)), None)


def activation_degree(model: Model) -> int | None:
    """Return the degree of a network's activation, None where it is not a power."""
    return model.activation.degree if isinstance(model, MLP) and isinstance(model.activation, Power) else None


def largest_margin(task: Task, model: Model) -> float | None:
    """Return gamma*, the largest normalised margin under L_{2,nu}, or None where theory does not give it."""
    family = family_of(task)
    return family.maximum_margin(task) if family and activation_degree(model) == family.power(task) else None


def optimum_of(trial: Trial, task: Task | None = None) -> PenalisedOptimum | None:
    """Return the exact optimum of a trial's penalised loss, or None where theory does not give it.

    Args:
        trial: its training and model.
        task: a task other than its own.
    """
    training, model, task = trial.training, trial.model, task or trial.task
    family = family_of(task)
    if family is None or activation_degree(model) != family.power(task) or not isinstance(training, Descent):
        return None
    penalty, degree = training.penalty, model.homogeneity
    if training.weight_decay or training.layers or not isinstance(penalty, NormPenalty) or not penalty.strength:
        return None
    outer, exponent = penalty.exponents(model)
    if penalty.inner != 2 or outer != degree:
        return None
    return _optimum(family.optimum, task, penalty.strength, exponent)


@lru_cache(maxsize=256)
def _optimum(solve: Callable[..., PenalisedOptimum], task: Task, *penalty: float) -> PenalisedOptimum:
    return solve(task, *penalty)
