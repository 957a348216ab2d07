"""The interface of models."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from elegans.component import Component

if TYPE_CHECKING:
    from jaxtyping import Float32

    from elegans import random
    from elegans.tasks import Task


class Model(Component, family=True):
    """A family of functions with parameters, and the distribution of their initial values.

    ``initialise`` runs once per trial, on the host; ``apply`` is traced and must work on JAX arrays.
    """

    @abstractmethod
    def initialise(self, key: random.Key, task: Task) -> Any:
        """Draw the initial parameters of one network from the trial's init stream.

        Returns:
            Float32 arrays in any nesting of dictionaries and tuples, or an ``equinox.Module``.
        """

    @abstractmethod
    def apply(self, parameters: Any, x: Float32[Any, "count input_size"]) -> Float32[Any, " count"]:
        """Return the network's outputs on a batch of inputs, shape (count,), or (count, outputs) for several."""

    def last(self, parameters: Any, x: Any) -> Any:
        """Return only the outputs at the last position, for a model of sequences: often much cheaper than all."""
        return self.apply(parameters, x)[:, -1]

    def train(self, parameters: Any, x: Float32[Any, "count input_size"], key: random.Key) -> Float32[Any, " count"]:
        """Return the outputs used in a step of training: by default, the outputs of ``apply``.

        Args:
            parameters: the parameters, as drawn by ``initialise``.
            x: the minibatch.
            key: the trial's dropout stream, folded by the step.
        """
        return self.apply(parameters, x)

    @property
    def gradient_scale(self) -> float:
        """The factor of gradients before a training uses them: 1, except for networks that are means."""
        return 1.0

    def outputs(self, task: Task) -> int:
        """Return the number of outputs on each example of a task: 1 by default, whose sign is the answer."""
        return 1

    @property
    def homogeneity(self) -> int | None:
        """The degree nu with f(c theta) = c^nu f(theta) for all c > 0, or None (the default) if there is none."""
        return None

    def neurons(self, parameters: Any) -> Any:
        """Return all incoming and outgoing weights of each neuron: shape (width, weights), if there are neurons."""
        raise NotImplementedError(f"{self.kind} has no neurons whose norms can be summed")

    def check(self, task: Task) -> None:
        """Refuse a task that this model cannot learn."""

    def parameter_count(self, task: Task) -> int:
        """Return the number of parameters or a lower bound, so that trials too large for the machine are refused."""
        return 0

    def parameter_names(self, task: Task) -> list[str]:
        """Return the dotted names of the parameter arrays, as in ``hidden.weight``."""
        from elegans import random

        return list(leaves_by_name(self.initialise(random.Key(0, 0), task)))


class Weights(dict[str, Any]):
    """The parameter arrays of a network by dotted name: ``weights["hidden.weight"]``."""

    def __missing__(self, name: Any) -> Any:
        raise KeyError(f"weights must be named as the network names them: {name!r}, not {', '.join(self)}")


def leaves_by_name(parameters: Any) -> Weights:
    """Return the arrays of parameters in any nesting by their dotted names."""
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(parameters)
    return Weights({dotted(path): leaf for path, leaf in leaves})


def dotted(path: Any) -> str:
    """Return a path into a tree of parameters as a dotted name: ``hidden.weight``."""
    import jax

    return jax.tree_util.keystr(path, simple=True, separator=".")
