"""Theorems 4 and 16: over-sparse neurons, one big step that keeps the support, a readout."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64
from pydantic import Field

from elegans import random
from elegans.calculators.domain import Form, require_over_sparse
from elegans.models import Init
from elegans.studies.pareto_frontiers.theory.neurons import over_sparse_gradient, over_sparse_relevant
from elegans.studies.pareto_frontiers.theory.over_sparse import (
    OFFSET,
    over_sparse_biases,
    over_sparse_rate,
    over_sparse_readout,
    over_sparse_threshold,
    readout_norm,
    spread_readout,
)
from elegans.tasks import SparseParity
from elegans.training.layerwise.base import Layerwise, MirroredInit, Parameters, Step, large, random_rows
from elegans.training.layerwise.readouts import ConstructedReadout
from elegans.training.optimisers import Training


class OverSparseInit(MirroredInit, Init, kind="over-sparse"):
    """Exactly s weights of 1 a neuron, more than the support has; biases from the theorem's list; mirrored.

    k, the size of the support, is the task's. Source: Pareto frontiers, Theorem 16 (appendix B.2).

    Args:
        nonzeros: s, odd, above k and at most n.
        offset: the knots' offset in the list of biases, between 0 and 1; None for 3/4, or for the paper's 1/16 with
            the printed list.
        form: ``corrected`` for the k/2 biases with which the parity can be read out, ``printed`` for the paper's
            k/2 - 1 (none at k = 2), with which it cannot.
    """

    shorthand = "nonzeros"
    source = "Theorem 4"
    nonzeros: Annotated[int, Field(ge=1)]
    offset: Annotated[float, Field(gt=0, lt=1)] | None = None
    form: Form = "corrected"

    def __init__(self, nonzeros: int, offset: float | None = None, form: Form = "corrected") -> None:
        """Take the number of ones by position or by name."""
        super().__init__(nonzeros=nonzeros, offset=offset, form=form)  # type: ignore[call-arg]

    def require(self, task: SparseParity) -> None:
        """Refuse odd k, even s, s <= k, s > n, and an empty list of biases."""
        require_over_sparse(task.k, self.nonzeros, self.source, task.n)
        if not self.biases(task):
            raise ValueError(f"k must be above 2 for the printed list of biases ({self.source}): k={task.k}")

    def biases(self, task: SparseParity) -> Sequence[Fraction]:
        """Return the theorem's list of biases."""
        return over_sparse_biases(task.k, self.offset, self.form)

    def good(
        self, weight: Float32[np.ndarray, "count n"], support: Int64[np.ndarray, " k"]
    ) -> Bool[np.ndarray, " count"]:
        """Return which neurons have weight on all of the support."""
        covers: Bool[np.ndarray, " count"] = (weight[:, support] == 1).all(axis=1)
        return covers

    def rows(self, key: random.Key, count: int, n: int) -> Float32[np.ndarray, "count n"]:
        """Draw the weights of the first half of the neurons."""
        return random_rows(key, count, n, self.nonzeros, 0.0)


class OverSparse(Layerwise, Training):
    """The algorithm of Theorem 4: one step of size 1 / (2k |C_{k,s}|) with decay 1, then the output layer alone.

    The model is ``MLP(width, init=OverSparseInit(s))``. The step leaves +-1/(2k) on the support for good neurons and
    kills the bad ones. With ``truncate``, entries of the gradient of at most (|C_{k,s}| + |c_{k,s}|) / 2 are set to 0
    first, which keeps exactly the support where the sample is large enough (``theory.selection_sample``).

    Source: Pareto frontiers, Theorems 4 and 16 (appendix B.2); the truncation is the footnote's.

    Args:
        truncate: whether small entries of the gradient are set to 0.
        gradient: ``sample``, or ``population`` for its exact expectation (Lemmas 8 and 9).
        readout: how the output layer is found: ``last-iterate``, ``ridge``, ``linear-program`` or ``constructed``.
        steps: 1 for the hidden weights and the readout's; by default 4001 with ``last-iterate`` and 2 otherwise.
        stopping: when the trial counts as solved, and whether it then ends.
    """

    init = OverSparseInit
    source = "Theorem 4"
    truncate: bool = False

    def first_step(self, task: SparseParity, init: Any) -> Step:
        """Return decay 1, the rate, and the threshold where gradients are truncated."""
        rate = over_sparse_rate(task.k, init.nonzeros)
        least = over_sparse_threshold(task.k, init.nonzeros) if self.truncate else 0
        return Step(1.0, float(rate), float(least))

    def population_gradient(
        self, weight: Float32[np.ndarray, "count n"], support: Int64[np.ndarray, " k"]
    ) -> Float[np.ndarray, "count n"]:
        """Return the correlations of Lemmas 8 and 9."""
        places = support.tolist()
        rows = [over_sparse_gradient(weight.shape[1], places, ones.tolist()) for ones in large(weight)]
        return np.array([[float(value) for value in row] for row in rows])

    def gates(
        self, init: Any, parameters: Parameters
    ) -> tuple[Float32[np.ndarray, "half n"], Float[np.ndarray, " half"]]:
        """Return the initial weights and biases: sums of whole numbers, which are odd, and a bias below 1/2."""
        hidden = parameters["hidden"]
        half = len(hidden["bias"]) // 2
        return hidden["weight"][:half], hidden["bias"][:half]

    def construction(self, task: SparseParity, init: Any) -> ConstructedReadout:
        """Return the readout nu, spread over the good neurons of each bias (Lemma 11)."""
        k, biases = task.k, tuple(init.biases(task))
        norm = readout_norm(over_sparse_readout(k, biases))
        sign = np.sign(float(over_sparse_relevant(k, init.nonzeros)))

        def build(bias: Any, good: Any, output: Any) -> tuple[float, np.ndarray]:
            if set(bias[good].tolist()) != set(range(len(biases))):
                return 0.0, np.zeros(2 * len(bias))
            places = [int(place) if is_good else None for place, is_good in zip(bias, good, strict=True)]
            offset = OFFSET if init.offset is None else init.offset
            constant, first, mirrored = spread_readout(k, places, (output * sign > 0).tolist(), offset)
            return constant, np.concatenate([first, mirrored])

        return ConstructedReadout(norm, 1.0, build)
