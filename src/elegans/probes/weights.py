"""Probes of weights: their trajectories, and the comparison of those on the support with others."""

from bisect import bisect_right
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from elegans import random
from elegans.errors import shown
from elegans.learners.base import Learner
from elegans.models import MLP, Model
from elegans.models.base import leaves_by_name
from elegans.probes.base import Probe, Snapshot
from elegans.probes.movement import hidden_weight, require_hidden
from elegans.tasks import SparseParity, Task


class WeightTrajectory(Probe):
    """The first layer's weights during training, of all neurons or of some.

    A store keeps them compressed in one row per trial, at most four bytes per weight and measurement.

    Source: thesis, chapter 5, section 5.3 (coordinates of w_t).

    Args:
        neurons: which neurons, by index; all by default.
        outgoing: whether to include their output weights.
    """

    neurons: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    outgoing: bool = False

    def check(self, task: Task, model: Model) -> None:
        require_hidden(self, task, model)
        if self.outgoing and not (isinstance(model, MLP) and model.readout):
            raise ValueError(f"outgoing weights need an mlp with a second layer: {model.kind}")
        if self.neurons is None:
            return
        width = model.initialise(random.Key(0, 0), task)["hidden"]["weight"].size // task.input_size
        if not self.neurons or max(self.neurons) >= width:
            raise ValueError(f"neurons must be below the width, at least one: neurons={self.neurons}, width={width}")

    def measure(self, snapshot: Snapshot) -> dict[str, np.ndarray]:
        """Return ``weight``, float32 of shape (neurons, n), and ``outgoing``, (neurons, outputs), if requested."""
        weight = hidden_weight(snapshot)
        chosen = list(range(len(weight)) if self.neurons is None else self.neurons)
        arrays = {"weight": weight[chosen]}
        if self.outgoing:
            arrays["outgoing"] = np.atleast_2d(snapshot.parameters["output"]["weight"]).T[chosen]
        return arrays


class ParameterTrajectory(Probe):
    """Parameters of any network during training, to inspect or to run the model with.

    A store keeps them compressed, at most four bytes per entry and measurement.

    Args:
        names: dotted names of parameters or of layers (``["pair", "layer1"]``), or None for all.
    """

    names: tuple[str, ...] | None = None

    def check(self, task: Task, model: Model) -> None:
        if isinstance(model, Learner):
            raise ValueError(f"{self.kind} needs a network: {model.kind}")
        parameters = model.parameter_names(task)
        for name in self.names or ():
            if not any(f"{parameter}.".startswith(f"{name}.") for parameter in parameters):
                raise ValueError(f"names must be parameters or layers of the model: {name!r}")

    def measure(self, snapshot: Snapshot) -> dict[str, np.ndarray]:
        """Return the arrays of the chosen parameters by their dotted names, as in ``hidden.weight``."""
        prefixes = tuple(f"{name}." for name in self.names) if self.names is not None else ("",)
        leaves = leaves_by_name(snapshot.parameters).items()
        return {name: np.array(leaf) for name, leaf in leaves if f"{name}.".startswith(prefixes)}


class Checkpoints(ParameterTrajectory):
    """Parameters of any network at the first, the last and given steps: ``Checkpoints(steps=(10, 100, 1000))``.

    A store keeps them like the parameters of ``ParameterTrajectory``; ``elegans export --weights`` writes each as a
    file.

    Args:
        steps: the steps, increasing; those after the training's end are left out.
        every: also at every multiple of this number of steps; by default, never.
        names: dotted names of parameters or of layers, or None for all.
    """

    every: Annotated[int, Field(ge=1, lt=2**32)] = 2**32 - 1
    steps: tuple[Annotated[int, Field(ge=0, lt=2**32)], ...] = ()

    @model_validator(mode="after")
    def _increase(self) -> Self:
        if list(self.steps) != sorted(set(self.steps)):
            raise ValueError(f"steps of checkpoints must increase: steps={shown(self.steps)}")
        return self

    def due(self, step: int) -> bool:
        return super().due(step) or step in self.steps

    def next_due(self, step: int) -> int:
        later = bisect_right(self.steps, step)
        return min([super().next_due(step), *self.steps[later : later + 1]])


class RelevantWeights(Probe):
    """The size of the first layer's weights on and off the support.

    Source: thesis, chapter 5, section 5.3 (relevant weights overtake irrelevant ones before the loss moves).
    """

    def check(self, task: Task, model: Model) -> None:
        require_hidden(self, task, model)
        if not isinstance(task, SparseParity):
            raise ValueError(f"relevant-weights must have a task with a support: {task.kind}")
        if task.k == task.n:
            raise ValueError(f"relevant-weights must have irrelevant inputs to compare with: k={task.k}, n={task.n}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return the smallest, mean and largest |w| on the support over all neurons, the largest off it, and the best.

        They are ``minimum``, ``mean``, ``maximum`` and ``irrelevant``. ``best`` is the index of the neuron with the
        largest ``margin``: the smallest |w| on the support minus the largest off it.
        """
        size = np.abs(hidden_weight(snapshot))
        relevant, irrelevant = size[:, snapshot.hidden], np.delete(size, snapshot.hidden, axis=1).max(axis=1)
        margin = relevant.min(axis=1) - irrelevant
        best = int(margin.argmax())
        return {
            "minimum": float(relevant.min()),
            "mean": float(relevant.mean()),
            "maximum": float(relevant.max()),
            "irrelevant": float(irrelevant.max()),
            "best": float(best),
            "margin": float(margin[best]),
        }
