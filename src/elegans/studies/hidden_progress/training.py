"""The trainings of the theorems of the thesis, chapter 5.

Theorem 5.5: one large step of a network of sign neurons finds the support, then its readout is trained on fresh
examples. Theorem 5.8: stochastic descent on disjoint parities; and population descent, whose limit is gradient flow.
"""

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64
from pydantic import Field, SerializeAsAny

from elegans import random
from elegans.boolean.gaps import require_majority_gap
from elegans.calculators.domain import Form
from elegans.models import DisjointPolyNet, Init, Model
from elegans.studies.hidden_progress.theory.sign_network import sign_network_rate, sign_neuron_gradient, unbiased_biases
from elegans.tasks import DisjointParity, Regime, Sample, SparseParity, Task
from elegans.training.layerwise.base import Layerwise, MirroredInit, Parameters, Step
from elegans.training.layerwise.readouts import ConstructedReadout, FreshDescent, Readout
from elegans.training.losses import Correlation, Loss
from elegans.training.optimisers import Minibatches, Training
from elegans.training.schedules import Rate


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

    The model is ``MLP(width, init=SignNetworkInit())``. The step erases the initial weights (weight decay 1), moves
    biases too, and leaves 1/(2k) on the support of good neurons and (k - 1) / (2k (n - k)) elsewhere, up to the error
    of the gradient. A regime ``Sample(m)`` gives the first step a batch of m examples, the theorem's B; the readout is
    trained on fresh examples.

    The output weights are 0 when the readout starts, as the theorem's proof needs; its statement would also update
    them.

    Source: thesis, Theorem 5.5 and appendix B.2.1.

    Args:
        gradient: ``sample``, or ``population`` for its exact expectation (Lemma B.3).
        readout: how the output layer is found: ``fresh-descent``, the theorem's; ``last-iterate`` with a given weight
            decay, ``ridge`` or ``linear-program``, on the sample.
        steps: 1 for the hidden layer and the readout's; by default 4001 with ``fresh-descent``.
        stopping: when the trial counts as solved, and whether it then ends.
    """

    init = SignNetworkInit
    source = "Theorem 5.5"
    moves_biases = True
    readout: SerializeAsAny[Readout] = FreshDescent()

    def first_step(self, task: SparseParity, init: Any) -> Step:
        """Return weight decay 1 and the theorem's learning rate, with nothing truncated."""
        return Step(1.0, float(sign_network_rate(task.n, task.k)), 0.0)

    def population_gradient(
        self, weight: Float32[np.ndarray, "count n"], support: Int64[np.ndarray, " k"]
    ) -> Float[np.ndarray, "count n"]:
        """Return the correlations of Lemma B.3; for the biases they are 0.

        Products of signs over the support without j, or with it, are that over the support times the sign at j.
        """
        sizes = [float(size) for size in sign_neuron_gradient([1] * weight.shape[1], support.tolist(), -1)]
        products: Float[np.ndarray, "count n"] = weight[:, support].prod(axis=1, keepdims=True) * weight * sizes
        return products

    def gates(
        self, init: Any, parameters: Parameters
    ) -> tuple[Float32[np.ndarray, "half n"], Float[np.ndarray, " half"]]:
        """Return the initial weights and biases: sums of an odd number of signs, and a bias between -1 and 1."""
        hidden = parameters["hidden"]
        half = len(hidden["bias"]) // 2
        return hidden["weight"][:half], hidden["bias"][:half]

    def construction(self, task: SparseParity, init: Any) -> ConstructedReadout:
        """Refuse: ``theory.parity_readout`` needs exact features, which a sign network does not have."""
        rule = f"readout must need no construction ({self.source})"
        raise ValueError(f"{rule}: readout={self.readout.kind!r}")

    def check(self, task: Task, regime: Regime, model: Model) -> None:
        """Refuse what lies outside the theorem's hypotheses, and more examples than counters can number."""
        super().check(task, regime, model)
        if isinstance(self.readout, FreshDescent):
            count = (regime.size if isinstance(regime, Sample) else 0) + self.steps * self.readout.batch_size
            if count >= 2**32:
                raise ValueError(f"the sample and all batches must have fewer than 2^32 examples: examples={count}")


class DisjointTraining(Minibatches, Training):
    """The common part of trainings of disjoint PolyNets with the correlation loss.

    Args:
        steps: the largest number of steps.
        batch_size: the number of examples in a minibatch.
        loss: the correlation loss.
        batches: whether minibatches of a sample are drawn with replacement or by shuffled epochs.
        stopping: when the trial counts as solved, and whether it then ends.
    """

    batch_size: Annotated[int, Field(ge=1)] = 1
    loss: SerializeAsAny[Loss] = Correlation()

    @abstractmethod
    def changes(self, weight: Any, gradient: Any) -> Any:
        """Return what one step adds to the weights, as JAX arrays of shape (k, n')."""

    def check(self, task: Task, regime: Regime, model: Model) -> None:
        """Refuse other networks, tasks and losses, and more examples than a regime can number."""
        if not isinstance(model, DisjointPolyNet) or not isinstance(task, DisjointParity) or model.degree != task.k:
            named = f"model={model.kind!r}, task={task.kind!r}"
            raise ValueError(f"{self.kind} must train a disjoint-poly-net of degree k on a disjoint-parity: {named}")
        if not isinstance(self.loss, Correlation):
            raise ValueError(f"{self.kind} must descend the correlation loss: loss={self.loss.kind!r}")
        regime.check(task, self.steps, self.batch_size)

    def factors(self, first: int, count: int) -> Float32[np.ndarray, " count"]:
        """Return ones."""
        return np.ones(count, np.float32)

    def optimiser(self, factor: Any) -> Any:
        """Return the optax transformation of one step.

        With millions of steps, each is hardly larger than the weights' rounding error: what rounding loses in one step
        is kept and added to the next (Kahan summation).
        """
        import jax.numpy as jnp
        import optax

        def begin(parameters: Any) -> Any:
            return jnp.zeros_like(parameters["hidden"]["weight"])

        def update(gradients: Any, left: Any, parameters: Any = None) -> tuple[Any, Any]:
            weight = parameters["hidden"]["weight"]
            wanted = self.changes(weight, gradients["hidden"]["weight"]) + left
            taken = (weight + wanted) - weight
            return {"hidden": {"weight": taken}}, wanted - taken

        return optax.GradientTransformation(begin, update)


class DisjointDescent(DisjointTraining):
    """Stochastic gradient descent on disjoint parities at any batch size, with the learning rates of Theorem 5.8.

    The learning rate of a block is 1 / (c sqrt(2 T ln(2 n T / delta)) prod_{l != i} ||w_l||_1) at every step, c = 4, or
    2 as printed (see ``theory.disjoint_sgd_rates``). The theorem's initial weights are signs whose product over the
    support is positive: ``DisjointPolyNet(degree=k, init=BernoulliInit(size=1), positive=True)``.

    Source: thesis, Theorem 5.8.

    Args:
        delta: the probability of failure over the examples.
        form: ``corrected`` for learning rates whose noise stays within 1/2, ``printed`` for the thesis'.
        steps: the number T of steps; ``theory.theorem58_parameters`` has the theorem's.
    """

    delta: Annotated[float, Field(gt=0, lt=1)] = 0.01
    form: Form = "corrected"

    def changes(self, weight: Any, gradient: Any) -> Any:
        """Return minus the learning rates times the gradient."""
        import jax.numpy as jnp

        log = jnp.log(2.0 * weight.size * self.steps / self.delta)
        scale = (4 if self.form == "corrected" else 2) * jnp.sqrt(2.0 * self.steps * log)
        return -gradient / (scale * _others(jnp.abs(weight).sum(axis=1)))[:, None]


class DisjointFlow(DisjointTraining):
    """Gradient descent on the population's correlation loss, in closed form: gradient flow for small learning rates.

    Only relevant weights move: the weight of block i by the learning rate times the product of the other blocks'.
    Minibatches are evaluated for the training curve alone. The task must have the first coordinate of every block as
    its support.

    Source: thesis, section 5.4.2 and Lemma B.8.

    Args:
        learning_rate: how much of the flow's time a step takes.
    """

    learning_rate: Rate = 0.001

    def check(self, task: Task, regime: Regime, model: Model) -> None:
        """Refuse all but a disjoint PolyNet on a disjoint parity whose support is the first of every block."""
        super().check(task, regime, model)
        assert isinstance(task, DisjointParity)
        if task.support != tuple(range(0, task.n, task.block)):
            raise ValueError(f"the support must be the first coordinate of every block: support={task.support}")

    def changes(self, weight: Any, gradient: Any) -> Any:
        """Return the learning rate times the product of the other relevant weights; 0 for irrelevant weights."""
        import jax.numpy as jnp

        return jnp.zeros_like(weight).at[:, 0].set(self.learning_rate * _others(weight[:, 0]))


def _others(values: Any) -> Any:
    """Return, for each entry, the product of all others."""
    import jax.numpy as jnp

    return jnp.where(jnp.eye(len(values), dtype=bool), 1, values[None, :]).prod(axis=1)
