"""Optimisers: stochastic gradient descent, Adam, AdamW and AdaDelta."""

from __future__ import annotations

from abc import abstractmethod
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, SerializeAsAny

from elegans import random
from elegans.component import Component, Later, none_if_zero
from elegans.errors import suggest
from elegans.models import Model
from elegans.models.base import dotted
from elegans.stopping import StoppingRule
from elegans.tasks import Regime, Task
from elegans.training.losses import Hinge, Loss
from elegans.training.penalties import Penalty
from elegans.training.schedules import Constant, Rate, Schedule

if TYPE_CHECKING:
    from jaxtyping import Float32

Momentum = Annotated[float, Field(ge=0, lt=1)]
"""The fraction of a running mean that is kept per step."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class LayerRates(Component):
    """The learning rate and weight decay of one layer or parameter, if they differ from the rest.

    Args:
        learning_rate: at least 0, or None for the training's rate.
        weight_decay: at least 0, or None for the training's weight decay.
    """

    learning_rate: Rate | None = None
    weight_decay: Rate | None = None


class Training(Component, family=True):
    """How a network learns: its number of steps, stopping rule and optimiser.

    Args:
        steps: the largest number of steps.
        stopping: when the trial counts as solved, and whether it then ends.
    """

    steps: Annotated[int, Field(ge=1, lt=2**32)]
    stopping: StoppingRule = StoppingRule()

    def check(self, task: Task, regime: Regime, model: Model) -> None:
        """Refuse parts that do not fit this training."""


class Minibatches(Component):
    """The fields of a training by minibatches; inherit from this and ``Training``.

    Args:
        batch_size: the number of examples in a minibatch.
        loss: the loss, by name or as a component.
        batches: whether minibatches of a sample are drawn with replacement or by shuffled epochs.
    """

    batch_size: Annotated[int, Field(ge=1)] = 32
    loss: SerializeAsAny[Loss] = Hinge()
    batches: Literal["replacement", "epochs"] = "replacement"

    def added(self, model: Model, parameters: Any) -> Any:
        """Return the term added to a minibatch's loss: nothing by default."""
        return 0.0

    def objective(self, task: Task, model: Model, parameters: Any) -> Any:
        """Return the loss that replaces a minibatch's, or None (the default) for the minibatch's."""
        return None

    def prepared(self, gradients: Any, key: random.Key) -> Any:
        """Return what the optimiser takes for the gradients of a step, given the step's key: them, by default."""
        return gradients

    @abstractmethod
    def optimiser(self, factor: Any) -> Any:
        """Return an optax gradient transformation; ``factor`` is the schedule's value at the step."""

    @abstractmethod
    def factors(self, first: int, count: int) -> Float32[np.ndarray, " count"]:
        """Return the schedule's factors for the steps first, …, first + count - 1."""


class Descent(Minibatches, Training):
    """The fields that gradient descent adds to ``Training`` and ``Minibatches``: learning rates and schedule.

    Args:
        learning_rate: at least 0.
        weight_decay: at least 0.
        schedule: the factor of the learning rate at each step.
        layers: other learning rates for a layer (``"hidden"``) or a parameter (``"output.bias"``) by its name.
        penalty: a penalty on the size of the weights, added to the loss, or None.
        clip: the largest norm of the gradient of all parameters together; larger gradients are scaled down to it. None
            for none.
        gradient_noise: the standard deviation of the Gaussian noise that is added to each entry of the gradient at each
            step, after clipping; None for none.
    """

    learning_rate: Rate = 0.1
    weight_decay: Rate = 0.0
    schedule: SerializeAsAny[Schedule] = Constant()
    layers: dict[str, LayerRates] = Field(default_factory=dict)
    penalty: SerializeAsAny[Penalty] | None = None
    clip: Positive | None = None
    gradient_noise: Annotated[Positive | None, Later] = None

    def check(self, task: Task, regime: Regime, model: Model) -> None:
        regime.check(task, self.steps, self.batch_size)
        outputs = model.outputs(task)
        if task.targets is None and self.loss.several_outputs != (outputs > 1):
            takes = "an output for each class" if self.loss.several_outputs else "one output"
            raise ValueError(f"the loss must fit the outputs: {self.loss.kind!r} takes {takes}, outputs={outputs}")
        if (task.real_labels or task.targets is not None) and not self.loss.real_labels:
            raise ValueError(f"the loss must take real labels (square, correlation): {self.loss.kind!r}")
        if self.penalty is not None:
            self.penalty.check(model)
        if not self.layers:
            return
        parameters = model.parameter_names(task)
        names = {prefix for name in parameters for prefix in accumulate(name.split("."), "{}.{}".format)}
        for name in self.layers:
            if name not in names:
                suggestion = suggest(name, list(names))
                raise ValueError(f"layers must name a layer or parameter of the model: {name!r}{suggestion}")

    def added(self, model: Model, parameters: Any) -> Any:
        return 0.0 if self.penalty is None else self.penalty.value(model, parameters)

    def factors(self, first: int, count: int) -> Float32[np.ndarray, " count"]:
        return self.schedule.factors(first, count)

    def prepared(self, gradients: Any, key: random.Key) -> Any:
        """Return the gradients of a step scaled down to the largest norm, if they exceed it, and with their noise."""
        import jax
        import jax.numpy as jnp
        import optax

        if self.clip is not None:
            gradients = optax.tree.scale(jnp.minimum(1, self.clip / (optax.tree.norm(gradients) + 1e-6)), gradients)
        if self.gradient_noise is None:
            return gradients
        arrays, form = jax.tree.flatten(gradients)
        for number, array in enumerate(arrays):
            noise = random.normal(key.fold(number), jnp.arange(array.size, dtype=jnp.uint32)).reshape(array.shape)
            arrays[number] = array + self.gradient_noise * noise
        return jax.tree.unflatten(form, arrays)

    def rates(self, parameter: str) -> tuple[Any, Any]:
        """Return the learning rate and weight decay of a parameter by its dotted name.

        The parameter's own entry in ``layers`` takes precedence over its layer's, and both over the training's.
        """
        learning_rate, weight_decay = self.learning_rate, self.weight_decay
        for name in sorted(self.layers, key=len):
            if parameter == name or parameter.startswith(f"{name}."):
                layer = self.layers[name]
                learning_rate = learning_rate if layer.learning_rate is None else layer.learning_rate
                weight_decay = weight_decay if layer.weight_decay is None else layer.weight_decay
        return learning_rate, weight_decay


class SGD(Descent):
    """Minibatch stochastic gradient descent, with weight decay as L2 in the gradient by default.

    A step moves theta to theta - learning_rate x factor x g with g = gradient + weight_decay x theta, as
    ``torch.optim.SGD``. With ``decay="parameters"`` it moves theta to (1 - weight_decay) theta - learning_rate x factor
    x gradient, as the thesis writes it (chapter 5, equation 5.1), and g is the gradient.

    With momentum, v becomes momentum x v + g, and v takes the place of g; with Nesterov's, g + momentum x v does.

    Source: Sutskever et al., "On the importance of initialization and momentum in deep learning" (2013), in PyTorch's
    form, whose learning rate is outside of v.

    Args:
        decay: whether weight decay is part of the ``gradient`` or shrinks the ``parameters`` themselves.
        momentum: the share of v that a step keeps, below 1; None (or 0) for a step along g.
        nesterov: True for a step that looks ahead along v; None (or False) for one along v.
        learning_rate: at least 0; for the others see ``Descent``, ``Minibatches`` and ``Training``.
    """

    decay: Literal["gradient", "parameters"] = "gradient"
    momentum: Annotated[Annotated[float, Field(gt=0, lt=1)] | None, BeforeValidator(none_if_zero), Later] = None
    nesterov: Annotated[Literal[True] | None, BeforeValidator(none_if_zero), Later] = None

    def check(self, task: Task, regime: Regime, model: Model) -> None:
        super().check(task, regime, model)
        if self.nesterov and self.momentum is None:
            raise ValueError("nesterov=True must have a momentum: momentum=None")

    def optimiser(self, factor: Any) -> Any:
        import jax
        import optax

        if self.momentum is not None:
            return self._with_momentum(factor, self.momentum)

        def update(gradients: Any, state: Any, parameters: Any = None) -> tuple[Any, Any]:
            def move(path: Any, gradient: Any, parameter: Any) -> Any:
                learning_rate, weight_decay = self.rates(dotted(path))
                rate = learning_rate * factor
                shrink = rate * weight_decay if self.decay == "gradient" else weight_decay
                return -rate * gradient - shrink * parameter

            return jax.tree_util.tree_map_with_path(move, gradients, parameters), state

        return optax.GradientTransformation(lambda _: optax.EmptyState(), update)

    def _with_momentum(self, factor: Any, momentum: Any) -> Any:
        import jax
        import jax.numpy as jnp
        import optax

        in_gradient = self.decay == "gradient"

        def update(gradients: Any, state: Any, parameters: Any = None) -> tuple[Any, Any]:
            def decayed(path: Any, gradient: Any, parameter: Any) -> Any:
                return gradient + self.rates(dotted(path))[1] * parameter if in_gradient else gradient

            def move(path: Any, direction: Any, parameter: Any) -> Any:
                learning_rate, weight_decay = self.rates(dotted(path))
                return -(learning_rate * factor) * direction - (0.0 if in_gradient else weight_decay) * parameter

            given = jax.tree_util.tree_map_with_path(decayed, gradients, parameters)
            state = jax.tree.map(lambda kept, new: momentum * kept + new, state, given)
            directions = state
            if self.nesterov:
                directions = jax.tree.map(lambda new, kept: new + momentum * kept, given, state)
            return jax.tree_util.tree_map_with_path(move, directions, parameters), state

        return optax.GradientTransformation(lambda tree: jax.tree.map(jnp.zeros_like, tree), update)


class ExactDescent(SGD):
    """Gradient descent on the exact mean loss of a task that has a closed form: ``Task.expected_loss``.

    No example is drawn. The loss is the task's, so ``loss`` counts only for the evaluation.

    Args:
        learning_rate: at least 0; for the others see ``SGD``.
    """

    batch_size: Literal[1] = 1

    def check(self, task: Task, regime: Regime, model: Model) -> None:
        super().check(task, regime, model)
        if self.objective(task, model, model.initialise(random.Key(0, 0), task)) is None:
            kinds = f"task={task.kind!r}, model={model.kind!r}"
            raise ValueError(f"exact descent must have a closed form of the mean loss: {kinds}")

    def objective(self, task: Task, model: Model, parameters: Any) -> Any:
        return task.expected_loss(model, parameters)


class Adaptive(Descent):
    """The common part of trainings whose steps are scaled by earlier gradients.

    A step moves theta to theta - learning_rate x factor x (direction + weight_decay x theta): weight decay is not part
    of the running means, as in AdamW (Loshchilov and Hutter, 2019).
    """

    @abstractmethod
    def directions(self) -> Any:
        """Return the optax transformation from gradients to directions."""

    def optimiser(self, factor: Any) -> Any:
        import jax
        import optax

        scaled = self.directions()

        def update(gradients: Any, state: Any, parameters: Any = None) -> tuple[Any, Any]:
            directions, state = scaled.update(gradients, state, parameters)

            def move(path: Any, direction: Any, parameter: Any) -> Any:
                learning_rate, weight_decay = self.rates(dotted(path))
                return -(learning_rate * factor) * (direction + weight_decay * parameter)

            return jax.tree_util.tree_map_with_path(move, directions, parameters), state

        return optax.GradientTransformation(scaled.init, update)


class Adam(Adaptive):
    """Adam: directions m / (sqrt(v) + epsilon), with running means m of the gradient and v of its square.

    Both means are corrected for the bias of starting at 0. Weight decay is decoupled from both, as in AdamW, and not
    the L2 term in the gradient of ``torch.optim.Adam``. ``AdamW`` is the same with a default weight decay of 0.01.

    Source: Kingma and Ba, "Adam: a method for stochastic optimization" (2015).

    Args:
        beta1: the fraction of the mean that is kept per step.
        beta2: the fraction of the mean square that is kept per step.
        epsilon: the number added to the root.
        learning_rate: at least 0; for the others see ``Descent``.
    """

    learning_rate: Rate = 0.001
    beta1: Momentum = 0.9
    beta2: Momentum = 0.999
    epsilon: Positive = 1e-8

    def directions(self) -> Any:
        import optax

        return optax.scale_by_adam(b1=self.beta1, b2=self.beta2, eps=self.epsilon)


class AdamW(Adam, kind="adamw"):
    """Adam with decoupled weight decay, 0.01 by default.

    Source: Loshchilov and Hutter, "Decoupled weight decay regularization" (ICLR 2019).

    Args:
        weight_decay: at least 0; a step also multiplies parameters by 1 - learning_rate x factor x weight_decay.
        learning_rate: at least 0; for the others see ``Adam`` and ``Descent``.
    """

    weight_decay: Rate = 0.01


class AdaDelta(Adaptive, kind="adadelta"):
    """AdaDelta: directions sqrt(u + epsilon) / sqrt(v + epsilon) x gradient, with running mean squares v and u.

    v is the average over gradients, u the average over earlier directions.

    Source: Zeiler, "ADADELTA: an adaptive learning rate method" (2012).

    Args:
        rho: the fraction of the mean squares that is kept per step.
        epsilon: the number added under both roots.
        learning_rate: at least 0; for the others see ``Descent``.
    """

    learning_rate: Rate = 1.0
    rho: Momentum = 0.95
    epsilon: Positive = 1e-6

    def directions(self) -> Any:
        import optax

        return optax.scale_by_adadelta(rho=self.rho, eps=self.epsilon)
