"""Normalised margins along the way, and how near a network is to the form of those of the largest margin.

Networks are homogeneous, one hidden layer deep, with an output for each class: on one-hot pairs (addition mod p,
composition in a finite group) f(a, b)[c] = sum_i sigma(u_i(a) + v_i(b)) w_i(c), sigma the square or relu, and on signs
f(x) = sum_i (u_i . x)^d w_i with two outputs. Everything is taken over the whole population, in float64.

Source of all here: thesis, chapter 7; Morwani, Edelman, Oncescu, Zhao and Kakade, "Feature emergence via margin
maximization: case studies in algebraic tasks" (ICLR 2024).
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from jaxtyping import Int
from pydantic import Field

from elegans.models import MLP, Model, Power, ReLU
from elegans.probes.base import Probe, Snapshot
from elegans.studies.feature_margins.theory.cyclic import cyclic_maximum_margin
from elegans.studies.feature_margins.theory.diagnostics import margin_decomposition
from elegans.studies.feature_margins.theory.game import margin_game
from elegans.studies.feature_margins.theory.parity import parity_labels, parity_maximum_margin
from elegans.studies.feature_margins.theory.problems import LARGEST_ORDER
from elegans.studies.feature_margins.theory.weights import (
    LARGEST_INPUT,
    HomogeneousWeights,
    PairWeights,
    ParityWeights,
    pointwise_margins,
)
from elegans.tasks import GroupComposition, ModularAddition, SparseParity, Task

Exponent = Annotated[float, Field(ge=1, allow_inf_nan=False)]


class MarginProbe(Probe):
    """What looks at a homogeneous network on all of a population: on one-hot pairs, or on signs.

    Of a network that is 0, or has weights that are not finite, every quantity is nan.

    Args:
        every: how many steps lie between two measurements.
    """

    def check(self, task: Task, model: Model) -> None:
        """Refuse other tasks, populations that are too large, and other networks."""
        require_homogeneous(self, task, model)

    def measure(self, snapshot: Snapshot) -> dict[str, float | np.ndarray]:
        """Return what ``look`` returns of a network whose weights are finite and not all 0."""
        layers = {name: np.asarray(layer["weight"], float) for name, layer in snapshot.parameters.items()}
        usable = all(np.isfinite(weight).all() for weight in layers.values()) and any(map(np.any, layers.values()))
        # what cannot be looked at has the names and shapes of what can
        given = {name: {"weight": weight if usable else np.ones(weight.shape)} for name, weight in layers.items()}
        assert isinstance(snapshot.model, MLP)
        found = self.look(homogeneous_weights(snapshot.task, snapshot.model, given), snapshot)
        return found if usable else {name: math.nan * value for name, value in found.items()}

    @abstractmethod
    def look(self, weights: HomogeneousWeights, snapshot: Snapshot) -> dict[str, float | np.ndarray]:
        """Return the named quantities of a network, as numbers or arrays of floating-point numbers."""


class NormalisedMargin(MarginProbe):
    """The smallest margin over the whole population, for weights of norm 1, and its share of the largest there is.

    The margin of an example is f(x)[y] less the largest other output; the normalised margin is the smallest of them
    over ||theta||^nu, with ||theta||_{a,b} = (sum over neurons of ||omega||_a^b)^(1/b), omega all weights of a neuron
    and nu the network's degree: 3 for squares, 2 for relu, d + 1 for powers z^d.

    Source: thesis, section 7.2, and Theorems 7.7 to 7.9 for the largest margin gamma*.

    Args:
        every: how many steps lie between two measurements.
        inner: a.
        outer: b; None for the degree nu.
    """

    inner: Exponent = 2.0
    outer: Exponent | None = None

    def look(self, weights: HomogeneousWeights, snapshot: Snapshot) -> dict[str, float | np.ndarray]:
        """Return numbers.

        They are ``normalised``, ``margin`` (the smallest), ``norm`` (sum ||omega||_a^b), ``accuracy`` (the share of the
        population with a margin above 0) and ``spread`` (the largest margin less the smallest); and where theory has
        gamma*, for squares on pairs and powers z^k on a k-sparse parity under L_{2,nu}, ``ratio`` (normalised over
        gamma*, 1 for a network of the largest margin).
        """
        degree = weights.degree
        outer = degree if self.outer is None else self.outer
        margins = pointwise_margins(weights, known_labels(snapshot))
        norm = float(((np.abs(neurons_of(weights)) ** self.inner).sum(axis=1) ** (outer / self.inner)).sum())
        least = float(margins.min())
        normalised = least / norm ** (degree / outer)
        found: dict[str, float | np.ndarray] = {
            "normalised": normalised,
            "margin": least,
            "norm": norm,
            "accuracy": float((margins > 0).mean()),
            "spread": float(np.ptp(margins)),
        }
        gamma = snapshot.remember("largest margin", lambda: largest_margin(snapshot.task, snapshot.model))
        if gamma is not None and self.inner == 2 and outer == degree:
            found["ratio"] = normalised / gamma
        return found


class Decomposition(MarginProbe):
    """How near the logits are to a part that no answer depends on, plus gamma for the right answer.

    Every network of the largest margin on addition mod p, on a parity or, where Theorem 7.9 holds, on a group has the
    logits F(a, b) + gamma 1[c = ab]; F and gamma are fitted by least squares, in closed form.

    Source: thesis, appendix D.6.3 and D.9.1.

    Args:
        every: how many steps lie between two measurements.
    """

    def look(self, weights: HomogeneousWeights, snapshot: Snapshot) -> dict[str, float | np.ndarray]:
        """Return ``gamma``, ``normalised`` and ``residual``.

        ``normalised`` is gamma at L_{2,nu} norm 1, gamma* at the largest margin; ``residual`` the root of the share of
        the logits' variation over outputs that the fit leaves, from 0 to 1.
        """
        found = margin_decomposition(weights.logits(), known_labels(snapshot))
        return {"gamma": found.gamma, "normalised": found.gamma / weights.mass, "residual": found.residual}


def largest_margin(task: Task, model: Model) -> float | None:
    """Return gamma*, the largest normalised margin under L_{2,nu} of the networks that a model stands for.

    Args:
        task: what is learned.
        model: a network that a ``MarginProbe`` looks at.

    Returns:
        None where theory has none: for relu, and for powers other than z^k on a k-sparse parity.
    """
    degree = model.activation.degree if isinstance(model, MLP) and isinstance(model.activation, Power) else None
    if isinstance(task, SparseParity):
        return parity_maximum_margin(task.k) if degree == task.k else None
    if degree != 2:
        return None
    if isinstance(task, ModularAddition):
        return cyclic_maximum_margin(task.p)
    return margin_game(task.group).value if isinstance(task, GroupComposition) else None


def homogeneous_weights(task: Task, model: MLP, parameters: Mapping[str, Any]) -> HomogeneousWeights:
    """Return a network's weights by neuron: u, v and w on pairs, u and w on signs.

    Args:
        task: what is learned.
        model: a network that a ``MarginProbe`` looks at.
        parameters: its parameters, finite.
    """
    power = model.activation.degree if isinstance(model.activation, Power) else 1
    if isinstance(task, SparseParity):
        return ParityWeights.from_parameters(parameters, power)
    return PairWeights.from_parameters(parameters, "square" if power == 2 else "relu")


def neurons_of(weights: HomogeneousWeights) -> np.ndarray:
    """Return all weights of each neuron, into it and out of it, shape (neurons, weights)."""
    assert isinstance(weights, PairWeights | ParityWeights)
    inward = [weights.u, weights.v] if isinstance(weights, PairWeights) else [weights.u]
    return np.concatenate([*inward, weights.w], axis=1)


def known_labels(snapshot: Snapshot) -> Int[np.ndarray, " population"]:
    """Return the labels of a trial's population, made once."""
    labels: Int[np.ndarray, " population"] = snapshot.remember(
        "population labels", lambda: population_labels(snapshot.task, snapshot.hidden)
    )
    return labels


def population_labels(task: Task, hidden: Any) -> Int[np.ndarray, " population"]:
    """Return the right output of every input, in the order of the population.

    Args:
        task: addition mod p, composition in a group, or a sparse parity.
        hidden: what it drew.
    """
    if isinstance(task, SparseParity):
        return parity_labels(task.n, hidden)
    if isinstance(task, GroupComposition):
        return task.group.table.ravel()
    assert isinstance(task, ModularAddition)
    return np.asarray(np.add.outer(np.arange(task.p), np.arange(task.p)).ravel() % task.p)


def require_homogeneous(probe: Probe, task: Task, model: Model) -> None:
    """Refuse tasks, populations and networks that are not those of the theory of margins.

    Raises:
        ValueError: with the rule and the value.
    """
    on_pairs = isinstance(task, ModularAddition | GroupComposition)
    if not on_pairs and not isinstance(task, SparseParity):
        raise ValueError(
            f"{probe.kind} must look at addition mod p, composition in a group, or a sparse parity: task={task.kind!r}"
        )
    if on_pairs and (task.classes or 0) > LARGEST_ORDER:
        raise ValueError(f"{probe.kind} goes through all pairs of at most {LARGEST_ORDER} elements: {task.classes}")
    if isinstance(task, SparseParity) and task.n > LARGEST_INPUT:
        raise ValueError(f"{probe.kind} goes through all inputs, so n must be at most {LARGEST_INPUT}: n={task.n}")
    rule = f"{probe.kind} must look at a two-layer mlp without biases"
    if not isinstance(model, MLP) or not model.readout or model.hidden_bias or model.output_bias:
        raise ValueError(f"{rule}: model={model.kind!r}")
    if model.scaling != "standard" or model.outputs(task) != (task.classes or 2):
        named = f"scaling={model.scaling!r}, outputs={model.outputs(task)}, classes={task.classes or 2}"
        raise ValueError(f"{rule}, of standard scaling, with an output for each class: {named}")
    squares = isinstance(model.activation, Power) and (model.activation.degree == 2 or not on_pairs)
    if not squares and not (on_pairs and isinstance(model.activation, ReLU)):
        wanted = "power:2 or relu" if on_pairs else "a power"
        raise ValueError(f"{rule} whose activation is {wanted} on {task.kind}: {model.activation.label()!r}")
