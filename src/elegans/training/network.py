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

        Each layer, activation and attention pattern is a submodule, on which forward hooks work. The ``apply`` of a
        model that the lab does not have runs on tensors unchanged, so it must use only operators and methods that
        NumPy and torch share. Outputs are compared on a few examples.

        Raises:
            TrialError: it does not run on tensors or differs, or the parameters are not nested dictionaries of arrays.
            ImportError: PyTorch is not installed.
        """
        import torch

        from elegans.training.torch_modules import module_of

        model = self.trial.model
        x, _ = self.examples(4)
        try:
            module = module_of(model, self.parameters)
            theirs, ours = _outputs(module, x), self(x)
        except Exception as error:  # whatever a model's own code raises when given tensors
            raise TrialError(f"a model must also run on tensors: model={model.label()!r} ({_reason(error)})") from error
        if not _agree(theirs, ours):
            raise TrialError(f"a model must return the same on tensors: {shown(ours)} here, {shown(theirs)} in torch")
        assert isinstance(module, torch.nn.Module)
        return module


def from_torch(module: Any, trial: Trial) -> TrainedNetwork:
    """Return a PyTorch module's network as one of a trial, whose model must compute the same function.

    Parameters are matched by name where all of the model's names are there, otherwise in order, where sizes agree
    apart from axes of length 1: ``Sequential(Linear(n, width), ReLU(), Linear(width, 1))`` is an ``MLP``. Outputs
    are compared on a few examples.

    Args:
        module: a ``torch.nn.Module`` that takes a batch of the task's inputs.
        trial: the trial whose model and task they are.

    Raises:
        TrialError: sizes do not agree, or outputs differ.
    """
    task, model = trial.task, trial.model
    wanted = model.initialise(trial.key("init"), task)
    names, given = _flat(wanted), {name: each.detach().cpu().numpy() for name, each in module.named_parameters()}
    matching = names if names.keys() <= given.keys() else given
    sizes = [[size for size in array.shape if size != 1] for array in names.values()]
    if sizes != [[size for size in given[name].shape if size != 1] for name in matching]:
        ours, theirs = (", ".join(f"{name} {array.shape}" for name, array in each.items()) for each in (names, given))
        raise TrialError(f"the sizes of a module's parameters must equal the model's: {theirs}, not {ours}")
    values = {
        ours: np.array(given[theirs], array.dtype).reshape(array.shape)
        for (ours, array), theirs in zip(names.items(), matching, strict=True)
    }
    network = TrainedNetwork(trial, _filled(wanted, values))
    x, _ = network.examples(4)
    try:
        outputs = _outputs(module, x)
    except Exception as error:  # whatever a module raises
        rule = f"a module must take a batch of the task's inputs, an array of shape {x.shape}"
        raise TrialError(f"{rule}: {_reason(error)}") from error
    expected = network(x)
    if outputs.size != expected.size or not _agree(outputs.reshape(expected.shape), expected):
        rule = "a module must compute the function of the model"
        raise TrialError(f"{rule}: {outputs.ravel()[:4]}, not {expected.ravel()[:4]} of model={model.label()!r}")
    return network


def _outputs(module: Any, x: Any) -> Any:
    """Return a module's outputs on NumPy's array, without what it does only in training, such as dropout."""
    import torch

    is_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            return module(torch.from_numpy(np.asarray(x))).cpu().numpy()
    finally:
        module.train(is_training)


def _agree(theirs: Any, ours: Any) -> bool:
    return np.allclose(theirs, ours, rtol=0, atol=TOLERANCE * np.abs(ours).max())


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _flat(part: Any, prefix: str = "") -> dict[str, Any]:
    """Return the arrays of nested dictionaries by dotted name, in their own order."""
    if not isinstance(part, Mapping):
        raise TrialError(f"a model must have nested dictionaries of arrays as its parameters: {shown(part)}")
    flat: dict[str, Any] = {}
    for name, value in part.items():
        flat |= (
            _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": np.asarray(value)}
        )
    return flat


def _filled(part: Mapping[str, Any], values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested dictionaries of the same form with these arrays."""
    return {
        name: _filled(value, values, f"{prefix}{name}.") if isinstance(value, Mapping) else values[f"{prefix}{name}"]
        for name, value in part.items()
    }
