"""Your own optimiser; it inherits the steps, minibatches, loss and stopping rule from its base class."""

from typing import Annotated, Any

from pydantic import Field

import elegans as el


class MyFirst(el.training.Adaptive):
    """Steps along the sign of a mean of the gradients, with the learning rate, decay and schedule of ``el.SGD``.

    Args:
        beta: the fraction of the mean that is kept at each step.
    """

    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9

    def directions(self) -> Any:
        """Return the optax transformation from gradients to the directions of the steps."""
        import jax
        import jax.numpy as jnp
        import optax

        mean = optax.ema(self.beta)

        def update(gradients: Any, state: Any, parameters: Any = None) -> tuple[Any, Any]:
            means, state = mean.update(gradients, state)
            return jax.tree.map(jnp.sign, means), state

        return optax.GradientTransformation(mean.init, update)
