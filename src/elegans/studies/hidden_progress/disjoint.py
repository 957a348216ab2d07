"""Disjoint parities: the descent of Theorem 5.8, and that of the population, which gradient flow is the limit of."""

from abc import abstractmethod
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float32
from pydantic import Field, SerializeAsAny

from elegans.calculators.domain import Form
from elegans.models import DisjointPolyNet, Model
from elegans.tasks import DisjointParity, Regime, Task
from elegans.training.losses import Correlation, Loss
from elegans.training.optimisers import Minibatches, Training
from elegans.training.schedules import Rate


class DisjointTraining(Minibatches, Training):
    """What trainings of disjoint PolyNets by the correlation loss have in common.

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
        """Refuse other networks, tasks and losses, and more examples than a regime can count."""
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

        Where there are millions of steps, each is hardly larger than what weights are rounded to: what rounding takes
        from one step is kept and added to the next (Kahan's compensated sums).
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
    """Stochastic gradient descent on disjoint parities at any batch size, with the rates of Theorem 5.8.

    The rate of a block is 1 / (c sqrt(2 T ln(2 n T / delta)) prod_{l != i} ||w_l||_1) at every step, c = 4, or 2 as
    printed (see ``theory.disjoint_sgd_rates``). The theorem's initial weights are signs whose product over the support
    is positive: ``DisjointPolyNet(degree=k, init=BernoulliInit(size=1), positive=True)``.

    Source: thesis, Theorem 5.8.

    Args:
        delta: the probability of failure over the examples.
        form: ``corrected`` for rates whose noise stays within 1/2, ``printed`` for the thesis'.
        steps: the number T of steps; ``theory.theorem58_parameters`` has the theorem's.
        batch_size: the number of examples in a minibatch.
        loss: the correlation loss.
        batches: whether minibatches of a sample are drawn with replacement or by shuffled epochs.
        stopping: when the trial counts as solved, and whether it then ends.
    """

    delta: Annotated[float, Field(gt=0, lt=1)] = 0.01
    form: Form = "corrected"

    def changes(self, weight: Any, gradient: Any) -> Any:
        """Return minus the rates times the gradient."""
        import jax.numpy as jnp

        log = jnp.log(2.0 * weight.size * self.steps / self.delta)
        scale = (4 if self.form == "corrected" else 2) * jnp.sqrt(2.0 * self.steps * log)
        return -gradient / (scale * _others(jnp.abs(weight).sum(axis=1)))[:, None]


class DisjointFlow(DisjointTraining):
    """Gradient descent on the population's correlation loss, in closed form: gradient flow for small rates.

    Only relevant weights move: that of block i by the rate times the product of the other blocks'. Minibatches are
    looked at for the curve alone. The task must have the first coordinate of every block as its support.

    Source: thesis, section 5.4.2 and Lemma B.8.

    Args:
        learning_rate: how much of the flow's time a step takes.
        steps: the largest number of steps.
        batch_size: the number of examples in a minibatch.
        loss: the correlation loss.
        batches: whether minibatches of a sample are drawn with replacement or by shuffled epochs.
        stopping: when the trial counts as solved, and whether it then ends.
    """

    learning_rate: Rate = 0.001

    def check(self, task: Task, regime: Regime, model: Model) -> None:
        """Refuse what is no disjoint PolyNet on a disjoint parity whose support is the first of every block."""
        super().check(task, regime, model)
        assert isinstance(task, DisjointParity)
        if task.support != tuple(range(0, task.n, task.block)):
            raise ValueError(f"the support must be the first coordinate of every block: support={task.support}")

    def changes(self, weight: Any, gradient: Any) -> Any:
        """Return the rate times the products of the other blocks' relevant weights, and 0 for irrelevant ones."""
        import jax.numpy as jnp

        return jnp.zeros_like(weight).at[:, 0].set(self.learning_rate * _others(weight[:, 0]))


def _others(values: Any) -> Any:
    """Return, for each entry, the product of all others."""
    import jax.numpy as jnp

    return jnp.where(jnp.eye(len(values), dtype=bool), 1, values[None, :]).prod(axis=1)
