"""Readouts: ways to fit an output layer to fixed features."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int64
from pydantic import Field

from elegans.boolean.learning import convex_sgd_rate, readout_decay
from elegans.component import Component
from elegans.training.schedules import Rate


@dataclass(frozen=True)
class ConstructedReadout:
    """A theorem's readout.

    Args:
        norm: B_k, the norm of its weights for features divided by ``scale``.
        scale: the size of the features: epsilon in Theorem 5, else 1.
        build: returns the output bias and weights of all neurons, given for each neuron of the first half the index of
            its bias in the list, whether the neuron is good, and the sign of its output weight.
    """

    norm: float
    scale: float
    build: Callable[
        [Int64[np.ndarray, " half"], Bool[np.ndarray, " half"], Float[np.ndarray, " half"]],
        tuple[float, Float[np.ndarray, " width"]],
    ]


@dataclass(frozen=True)
class Features:
    """Some distinct examples as inputs of the output layer.

    Args:
        values: the constant 1 and the features of neurons that may fire, shape (count, 1 + active).
        labels: the labels, shape (count,).
        share: the fraction of the sample that each example represents, shape (count,).
    """

    values: Float[np.ndarray, "count features"]
    labels: Float[np.ndarray, " count"]
    share: Float[np.ndarray, " count"]

    def hinge(self, output: Float[np.ndarray, " features"]) -> tuple[float, float, Float[np.ndarray, " features"]]:
        """Return this part of the hinge loss, of the error, and of the loss's gradient."""
        margin = self.labels * (self.values @ output)
        short = margin < 1
        loss = float(self.share[short] @ (1 - margin[short]))
        error = float(self.share[~(margin > 0)].sum())
        return loss, error, -((self.share * self.labels * short) @ self.values)


class Readout(Component, family=True):
    """A way to fit an output layer to fixed features."""

    needs_sample: ClassVar[bool] = True
    """Whether it uses examples."""
    default_steps: ClassVar[int] = 1
    """The default number of steps."""

    def check(self, construction: Callable[[], ConstructedReadout]) -> None:
        """Refuse a training that this readout does not fit."""


class LastIterate(Readout):
    """Full-batch gradient descent on the hinge loss with L2, with the step sizes of last-iterate bounds.

    Step t = 1, 2, … moves u to u - (gradient + decay u) / (decay t), which amounts to a weight decay of 1/t: the
    initial output layer is erased at once. Features of size epsilon (Theorem 5) are divided by it.

    Source: Pareto frontiers, proof of Lemma 14; the schedule after Shamir and Zhang (2013).

    Args:
        epsilon: the target loss, between 0 and 1/2; decay = epsilon / B_k^2.
        decay: the coefficient of half the squared norm, instead of that from epsilon.
    """

    default_steps = 4000
    epsilon: Annotated[float, Field(gt=0, lt=0.5)] = 0.3
    decay: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    def check(self, construction: Callable[[], ConstructedReadout]) -> None:
        if self.decay is None:
            construction()

    def strength(self, norm: float) -> float:
        """Return the weight decay, given the norm of the theorem's readout."""
        return readout_decay(self.epsilon, norm) if self.decay is None else self.decay


class FreshDescent(Readout):
    """Stochastic gradient descent on the hinge loss, from output weights of 0, with fresh examples at each step.

    The output bias stays 0. Source: thesis, Theorem 5.5 and Theorem B.6.

    Args:
        learning_rate: None for the theorem's 4 k^1.5 / (n sqrt(r (T - 1))) with r neurons and T steps in all.
        batch_size: the number of examples per step.
    """

    needs_sample = False
    default_steps = 4000
    learning_rate: Rate | None = None
    batch_size: Annotated[int, Field(ge=1)] = 32

    def rate(self, n: int, k: int, width: int, steps: int) -> float:
        """Return the learning rate, given the task, the width and the total number of steps."""
        if self.learning_rate is not None:
            return self.learning_rate
        return convex_sgd_rate(8 * k**1.5, 2 * math.sqrt(width) * n, steps - 1)


class Solver(Component):
    """A readout computed in one step; later steps change nothing. Inherit from this and ``Readout``."""

    @abstractmethod
    def solve(self, parts: Callable[[], Iterable[Features]]) -> Float[np.ndarray, " features"]:
        """Return the output layer, constant first."""


class Ridge(Solver, Readout):
    """Least squares with L2 on all weights, as a reference for the quality of the features.

    Args:
        penalty: the coefficient of the squared norm, in units of the features' mean square; above 0.
    """

    penalty: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-6

    def solve(self, parts: Callable[[], Iterable[Features]]) -> Float[np.ndarray, " features"]:
        gram, moment = np.zeros((1, 1)), np.zeros(1)
        for part in parts():
            weighted = part.values * part.share[:, None]
            gram = gram + part.values.T @ weighted
            moment = moment + part.labels @ weighted
        # features are scaled to a mean square of 1, so that all are penalised alike
        size = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
        scaled = gram / np.outer(size, size) + self.penalty * np.eye(len(gram))
        return np.asarray(np.linalg.solve(scaled, moment / size) / size)


class LinearProgram(Solver, Readout):
    """The minimum of the hinge loss, by linear programming (HiGHS), as a reference for gradient descent.

    Args:
        examples: the largest number of distinct examples in the linear program, the first of the sample.
    """

    examples: Annotated[int, Field(ge=1)] = 2000

    def solve(self, parts: Callable[[], Iterable[Features]]) -> Float[np.ndarray, " features"]:
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, eye_array, hstack

        chosen: list[Features] = []
        room = self.examples
        for part in parts():
            chosen.append(Features(part.values[:room], part.labels[:room], part.share[:room]))
            room -= len(chosen[-1].labels)
            if room <= 0:
                break
        columns = zip(*((part.values, part.labels, part.share) for part in chosen), strict=True)
        values, labels, share = map(np.concatenate, columns)
        share = share / share.sum()
        size = np.maximum(np.abs(values).max(axis=0), np.finfo(float).tiny)
        count, features = values.shape
        rows = hstack([csr_array(-(labels[:, None] * values / size)), -eye_array(count)])
        optimum = linprog(
            np.concatenate([np.zeros(features), share]),
            A_ub=rows,
            b_ub=-np.ones(count),
            bounds=[(None, None)] * features + [(0, None)] * count,
            method="highs",
        )
        if optimum.x is None:
            raise RuntimeError(f"the linear program of the readout has not been solved: {optimum.message}")
        return np.asarray(optimum.x[:features] / size)


class Constructed(Readout):
    """The weights constructed in the theorem's proof: an oracle that knows the support and uses no examples.

    If some bias of the list has no good neuron, the output layer stays 0 and the trial is not solved. The weights are
    those for the population's features. Even if a sample's gradient selects the right inputs, it has errors in size,
    and so has the output: Theorem 4 averages them over all good neurons, Theorem 5 does not.

    Source: Pareto frontiers, proofs of Lemma 11 (``theory.spread_readout``) and Theorem 21
    (``theory.under_sparse_subnetwork``).
    """

    needs_sample = False

    def check(self, construction: Callable[[], ConstructedReadout]) -> None:
        construction()
