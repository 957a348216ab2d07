"""A trained network as a function, in NumPy and in other libraries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from elegans.arguments import FAILURES, AtMost, methods_checked
from elegans.display import card
from elegans.errors import TrialError, shown
from elegans.models.base import Weights, leaves_by_name
from elegans.training.trial import Trial

TOLERANCE = 1e-4  # maximum deviation of another library's outputs from NumPy's, relative to the largest output


@dataclass(frozen=True)
@methods_checked()
class TrainedNetwork:
    """A trained network: call it with inputs of shape (count, input size) for its outputs.

    Args:
        trial: the trial that trained it.
        parameters: its parameters as NumPy arrays, in the model's own nesting.
    """

    trial: Trial
    parameters: Any

    def __call__(self, x: Any) -> Float[np.ndarray, "count ..."]:
        """Return the outputs on a batch of inputs.

        Raises:
            TrialError: the inputs are not numbers of that shape.
        """
        try:
            inputs = np.asarray(x)
            if inputs.dtype.kind in "OcMmSU" or np.ma.is_masked(x):
                raise TypeError("inputs must be real numbers")
            return np.asarray(self.trial.model.apply(self.parameters, inputs))
        except FAILURES as error:
            rule = f"inputs must be an array of shape (count, {self.trial.task.input_size})"
            raise TrialError(f"{rule}: x={shown(x)}") from error

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in self.weights.items())
        return f"TrainedNetwork({self.trial.model.label()}: {shapes})"

    def _repr_html_(self) -> str:
        shapes = {name: " x ".join(map(str, array.shape)) or "1" for name, array in self.weights.items()}
        return card(f"Trained network: {self.trial.model.label()}", shapes)

    @property
    def weights(self) -> Weights:
        """The parameter arrays by dotted name: ``hidden.weight``."""
        return Weights({name: np.asarray(leaf) for name, leaf in leaves_by_name(self.parameters).items()})

    def examples(self, count: Annotated[int, AtMost(10**7, least=0)]) -> tuple[np.ndarray, np.ndarray]:
        """Return the first examples of the trial's test stream: inputs and clean labels."""
        task = self.trial.task
        hidden, index = task.draw(self.trial.key("task")), np.arange(count, dtype=np.uint32)
        x, y = self.trial.regime.evaluated(task, hidden, self.trial.key, "test", index)
        return np.asarray(x), np.asarray(y)

    def to_equinox(self) -> Any:
        """Return the network as an ``equinox.Module`` whose leaves are JAX arrays; it takes a batch, as here."""
        import equinox
        import jax

        class Module(equinox.Module):
            parameters: Any
            model: Any = equinox.field(static=True)

            def __call__(self, x: Any) -> Any:
                return self.model.apply(self.parameters, x)

        return Module(jax.tree.map(jax.numpy.asarray, self.parameters), self.trial.model)

    def to_torch(self) -> Any:
        """Return the network as a ``torch.nn.Module`` with parameters of the same names; it takes a batch, as here.

        The model's ``apply`` runs on tensors unchanged, so it must use only operators and methods that NumPy and torch
        share, as for MLPs and products of affine forms. Its outputs are compared on a few examples.

        Raises:
            TrialError: it does not run on tensors or differs, or the parameters are not nested dictionaries of arrays.
            ImportError: PyTorch is not installed.
        """
        import torch

        model = self.trial.model

        class Module(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return model.apply(_nested(self), x)

        x, _ = self.examples(4)
        try:
            module = _filled(Module(), self.parameters)
            with torch.no_grad():
                theirs, ours = module(torch.from_numpy(x)).numpy(), self(x)
        except Exception as error:  # whatever a model's own code raises when given tensors
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            raise TrialError(f"a model must also run on tensors: model={model.label()!r} ({reason})") from error
        if not np.allclose(theirs, ours, rtol=0, atol=TOLERANCE * np.abs(ours).max()):
            raise TrialError(f"a model must return the same on tensors: {ours} here, {theirs} in torch")
        return module


def _filled(module: Any, part: Mapping[str, Any]) -> Any:
    import torch

    for name, value in part.items():
        if isinstance(value, Mapping):
            module.add_module(name, _filled(torch.nn.Module(), value))
        else:
            module.register_parameter(name, torch.nn.Parameter(torch.from_numpy(np.array(value))))
    return module


def _nested(module: Any) -> dict[str, Any]:
    inner = {name: _nested(part) for name, part in module.named_children()}
    return {**dict(module.named_parameters(recurse=False)), **inner}
