"""Theorems 4 and 5: sparse initialisations, one large step of the hidden weights, then the output layer alone.

Over-sparse neurons (Theorems 4 and 16) have weight on the whole support and more, and the step keeps the support;
under-sparse ones (Theorems 5 and 21) have weight on a part of it, which a truncated step completes.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64
from pydantic import Field

from elegans import random
from elegans.calculators.domain import Form, require, require_over_sparse, require_under_sparse
from elegans.models import Init
from elegans.studies.pareto_frontiers.theory import neurons, over_sparse, under_sparse
from elegans.tasks import SparseParity
from elegans.training.layerwise.base import Layerwise, MirroredInit, Parameters, Step, large, random_rows
from elegans.training.layerwise.readouts import ConstructedReadout
from elegans.training.optimisers import Training


class OverSparseInit(MirroredInit, Init, kind="over-sparse"):
    """Exactly s weights of 1 per neuron, more than the size of the support; biases from the theorem's list; mirrored.

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
        return over_sparse.over_sparse_biases(task.k, self.offset, self.form)

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
    """The algorithm of Theorem 4: one step of size 1 / (2k |C_{k,s}|) with weight decay 1, then the output layer alone.

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
        """Return weight decay 1, the learning rate, and the threshold where gradients are truncated."""
        rate = over_sparse.over_sparse_rate(task.k, init.nonzeros)
        least = over_sparse.over_sparse_threshold(task.k, init.nonzeros) if self.truncate else 0
        return Step(1.0, float(rate), float(least))

    def population_gradient(
        self, weight: Float32[np.ndarray, "count n"], support: Int64[np.ndarray, " k"]
    ) -> Float[np.ndarray, "count n"]:
        """Return the correlations of Lemmas 8 and 9."""
        return _population_gradient(neurons.over_sparse_gradient, weight, support)

    def gates(
        self, init: Any, parameters: Parameters
    ) -> tuple[Float32[np.ndarray, "half n"], Float[np.ndarray, " half"]]:
        """Return the initial weights and biases: sums are odd integers, and the bias is below 1/2."""
        hidden = parameters["hidden"]
        half = len(hidden["bias"]) // 2
        return hidden["weight"][:half], hidden["bias"][:half]

    def construction(self, task: SparseParity, init: Any) -> ConstructedReadout:
        """Return the readout nu, spread over the good neurons of each bias (Lemma 11)."""
        k, biases = task.k, tuple(init.biases(task))
        norm = over_sparse.readout_norm(over_sparse.over_sparse_readout(k, biases))
        sign = np.sign(float(neurons.over_sparse_relevant(k, init.nonzeros)))

        def build(bias: Any, good: Any, output: Any) -> tuple[float, np.ndarray]:
            if set(bias[good].tolist()) != set(range(len(biases))):
                return 0.0, np.zeros(2 * len(bias))
            places = [int(place) if is_good else None for place, is_good in zip(bias, good, strict=True)]
            offset = over_sparse.OFFSET if init.offset is None else init.offset
            constant, first, mirrored = over_sparse.spread_readout(k, places, (output * sign > 0).tolist(), offset)
            return constant, np.concatenate([first, mirrored])

        return ConstructedReadout(norm, 1.0, build)


class UnderSparseInit(MirroredInit, Init, kind="under-sparse"):
    """Weights of 1 on s inputs, fewer than the support has, and epsilon elsewhere; k values of the bias; mirrored.

    k, the size of the support, is the task's. Source: Pareto frontiers, Theorem 21 (appendix B.3).

    Args:
        nonzeros: s, even and below k; 0 for no large weight at all.
        epsilon: the small weights, above 0 and below 1/(n - s).
    """

    shorthand = "nonzeros"
    source = "Theorem 5"
    nonzeros: Annotated[int, Field(ge=0)]
    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.0**-10

    def __init__(self, nonzeros: int, epsilon: float = 2.0**-10) -> None:
        """Take the number of ones by position or by name."""
        super().__init__(nonzeros=nonzeros, epsilon=epsilon)  # type: ignore[call-arg]

    def require(self, task: SparseParity) -> None:
        """Refuse odd k or s, s >= k, k >= n, and an epsilon of 1/(n - s) or more."""
        require_under_sparse(task.n, task.k, self.nonzeros, self.source)
        require(task.k < task.n, f"k must be below n ({self.source})", k=task.k, n=task.n)
        under_sparse.under_sparse_rate(task.n, task.k, self.nonzeros, self.epsilon)

    def biases(self, task: SparseParity) -> Sequence[Fraction]:
        """Return the theorem's k biases."""
        return under_sparse.under_sparse_biases(task.k, self.epsilon)

    def good(
        self, weight: Float32[np.ndarray, "count n"], support: Int64[np.ndarray, " k"]
    ) -> Bool[np.ndarray, " count"]:
        """Return which neurons have all their large weights on the support."""
        inside: Bool[np.ndarray, " count"] = (np.delete(weight, support, axis=1) != 1).all(axis=1)
        return inside

    def rows(self, key: random.Key, count: int, n: int) -> Float32[np.ndarray, "count n"]:
        """Draw the weights of the first half of the neurons."""
        return random_rows(key, count, n, self.nonzeros, self.epsilon)


class UnderSparse(Layerwise, Training):
    """The algorithm of Theorem 5: one truncated step with weight decay 1 - epsilon/(2k), then the output layer alone.

    The model is ``MLP(width, init=UnderSparseInit(s))``. The step, of size epsilon / (2k |xi_rel|) and of the hidden
    weights alone, leaves about epsilon/(2k) on the whole support in good neurons' copies for which it points the
    right way. The theorem says that a subnetwork then computes the parity: ``readout="constructed"`` is that
    subnetwork, one good neuron for each bias; the other readouts are fitted over all neurons.

    Source: Pareto frontiers, Theorems 5 and 21 (appendix B.3).

    Args:
        threshold: where gradients are truncated: ``midpoint``, (|xi_rel| + |xi_irr|) / 2, or ``printed``, |xi_irr|,
            which is for population gradients only.
        gradient: ``sample``, or ``population`` for its exact expectation (Lemmas 18 and 19).
        readout: how the output layer is found: ``last-iterate``, ``ridge``, ``linear-program`` or ``constructed``.
        steps: 1 for the hidden weights and the readout's; by default 4001 with ``last-iterate`` and 2 otherwise.
        stopping: when the trial counts as solved, and whether it then ends.
    """

    init = UnderSparseInit
    source = "Theorem 5"
    threshold: Literal["midpoint", "printed"] = "midpoint"

    def first_step(self, task: SparseParity, init: Any) -> Step:
        """Return the theorem's weight decay, learning rate and threshold."""
        n, k, s = task.n, task.k, init.nonzeros
        return Step(
            decay=float(under_sparse.under_sparse_decay(k, init.epsilon)),
            rate=float(under_sparse.under_sparse_rate(n, k, s, init.epsilon)),
            threshold=float(under_sparse.under_sparse_threshold(n, k, s, self.threshold)),
        )

    def population_gradient(
        self, weight: Float32[np.ndarray, "count n"], support: Int64[np.ndarray, " k"]
    ) -> Float[np.ndarray, "count n"]:
        """Return the correlations of Lemmas 18 and 19."""
        return _population_gradient(neurons.under_sparse_gradient, weight, support)

    def gates(
        self, init: Any, parameters: Parameters
    ) -> tuple[Float32[np.ndarray, "half n"], Float[np.ndarray, " half"]]:
        """Return integer weights: a large one outweighs all small ones, as 1 outweighs (n - s) epsilon.

        The large inputs' sum is even, and the bias is below half a small weight and never 0: no sum is tied, and none
        is rounded, whatever epsilon is.
        """
        hidden = parameters["hidden"]
        half, n = len(hidden["bias"]) // 2, hidden["weight"].shape[1]
        whole = np.where(hidden["weight"][:half] == 1, np.float32(n + 1), np.float32(1))
        return whole, hidden["bias"][:half] / np.float32(init.epsilon)

    def construction(self, task: SparseParity, init: Any) -> ConstructedReadout:
        """Return the subnetwork: the first good neuron of each bias, in the copy that moved the right way."""
        constant, listed = under_sparse.under_sparse_subnetwork(task.k, init.epsilon)
        norm = over_sparse.readout_norm(under_sparse.under_sparse_readout(task.k))
        sign = np.sign(float(neurons.under_sparse_relevant(task.n, task.k, init.nonzeros)))

        def build(bias: Any, good: Any, output: Any) -> tuple[float, np.ndarray]:
            weights = np.zeros(2 * len(bias))
            for place, (_, weight) in enumerate(listed):
                found = np.flatnonzero(good & (bias == place))
                if not len(found):
                    return 0.0, np.zeros(2 * len(bias))
                copy = 0 if output[found[0]] * sign > 0 else len(bias)
                weights[copy + found[0]] = float(weight)
            return float(constant), weights

        return ConstructedReadout(norm, init.epsilon, build)


def _population_gradient(
    gradient: Callable[..., Any], weight: Float32[np.ndarray, "count n"], support: Int64[np.ndarray, " k"]
) -> Float[np.ndarray, "count n"]:
    places = support.tolist()
    rows = [gradient(weight.shape[1], places, ones.tolist()) for ones in large(weight)]
    return np.array([[float(value) for value in row] for row in rows])
