"""Theorem 5.5: neurons of random signs, one big step that finds the support, a readout trained on fresh examples."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64
from pydantic import SerializeAsAny

from elegans import random
from elegans.boolean.gaps import require_majority_gap
from elegans.models import Init, Model
from elegans.studies.hidden_progress.theory.sign_network import sign_network_rate, sign_neuron_gradient, unbiased_biases
from elegans.tasks import Regime, Sample, SparseParity, Task
from elegans.training.layerwise.base import Layerwise, MirroredInit, Parameters, Step
from elegans.training.layerwise.readouts import ConstructedReadout, FreshDescent, Readout
from elegans.training.optimisers import Training


class SignNetworkInit(MirroredInit, Init, kind="sign-network"):
    """Hidden weights uniform on -1 and +1, biases uniform on -1 + 1/k, -1 + 2/k, …, 1 - 1/k; mirrored.

    The thesis calls it unbiased: the network is 0 on every input. k, the size of the support, is the task's and even;
    n is odd. Source: thesis, appendix B.2.1.
    """

    source = "Theorem 5.5"

    def require(self, task: SparseParity) -> None:
        """Refuse even n, odd k and k >= n."""
        require_majority_gap(task.n, task.k, self.source)

    def biases(self, task: SparseParity) -> Sequence[Fraction]:
        """Return the theorem's 2k - 1 biases."""
        return unbiased_biases(task.k)

    def good(
        self, weight: Float32[np.ndarray, "count n"], support: Int64[np.ndarray, " k"]
    ) -> Bool[np.ndarray, " count"]:
        """Return which neurons have one sign on all of the support: they or their copies move the right way."""
        on_support = weight[:, support]
        agree: Bool[np.ndarray, " count"] = (on_support == on_support[:, :1]).all(axis=1)
        return agree

    def rows(self, key: random.Key, count: int, n: int) -> Float32[np.ndarray, "count n"]:
        """Draw the weights of the first half of the neurons."""
        signs: Float32[np.ndarray, "count n"] = random.rademacher(key, np.arange(count, dtype=np.uint32), n)
        return signs


class SignNetwork(Layerwise, Training):
    """The algorithm of Theorem 5.5: one step of size 1 / (k |xi_{k-1}|) of the hidden layer, then the output alone.

    The model is ``MLP(width, init=SignNetworkInit())``. The step erases the initial weights (decay 1), moves biases
    too, and leaves 1/(2k) on the support of good neurons and (k - 1) / (2k (n - k)) elsewhere, up to the error of the
    gradient. A regime ``Sample(m)`` gives the first step a batch of m examples, the theorem's B; the readout goes on
    with examples that no step has seen.

    The output weights begin the readout at 0, where the theorem's proof needs them; its statement would take a step
    of them too.

    Source: thesis, Theorem 5.5 and appendix B.2.1.

    Args:
        gradient: ``sample``, or ``population`` for its exact expectation (Lemma B.3).
        readout: how the output layer is found: ``fresh-descent``, the theorem's; ``last-iterate`` with a given decay,
            ``ridge`` or ``linear-program``, on the sample.
        steps: 1 for the hidden layer and the readout's; by default 4001 with ``fresh-descent``.
        stopping: when the trial counts as solved, and whether it then ends.
    """

    init = SignNetworkInit
    source = "Theorem 5.5"
    moves_biases = True
    readout: SerializeAsAny[Readout] = FreshDescent()

    def first_step(self, task: SparseParity, init: Any) -> Step:
        """Return decay 1 and the theorem's rate, with nothing truncated."""
        return Step(1.0, float(sign_network_rate(task.n, task.k)), 0.0)

    def population_gradient(
        self, weight: Float32[np.ndarray, "count n"], support: Int64[np.ndarray, " k"]
    ) -> Float[np.ndarray, "count n"]:
        """Return the correlations of Lemma B.3; those of the biases are 0."""
        rows = [sign_neuron_gradient(row, support.tolist(), -1) for row in weight.astype(int).tolist()]
        return np.array([[float(value) for value in row] for row in rows])

    def gates(
        self, init: Any, parameters: Parameters
    ) -> tuple[Float32[np.ndarray, "half n"], Float[np.ndarray, " half"]]:
        """Return the initial weights and biases: sums of an odd number of signs, and a bias between -1 and 1."""
        hidden = parameters["hidden"]
        half = len(hidden["bias"]) // 2
        return hidden["weight"][:half], hidden["bias"][:half]

    def construction(self, task: SparseParity, init: Any) -> ConstructedReadout:
        """Refuse: ``theory.parity_readout`` is of exact features, of which a network of signs has none."""
        rule = f"readout must be one that needs no construction ({self.source})"
        raise ValueError(f"{rule}: readout={self.readout.kind!r}")

    def check(self, task: Task, regime: Regime, model: Model) -> None:
        """Refuse what lies outside the theorem's hypotheses, and more examples than can be counted."""
        super().check(task, regime, model)
        if isinstance(self.readout, FreshDescent):
            count = (regime.size if isinstance(regime, Sample) else 0) + self.steps * self.readout.batch_size
            if count >= 2**32:
                raise ValueError(f"the sample and all batches must have fewer than 2^32 examples: examples={count}")
