"""Movement of the first layer's weights, which can grow while loss and accuracy stay constant."""

from typing import Any

import numpy as np
from jaxtyping import Float32

from elegans.learners.base import Learner
from elegans.models import Model
from elegans.probes.base import Probe, Snapshot
from elegans.tasks import Task


class WeightMovement(Probe):
    """The largest change of a first-layer weight since the start: rho = max |W_t - W_0|, in all and by part.

    Differences are taken in float32, the type of the weights. As a baseline without anything to learn, use the same
    trial with ``task.noise`` at 0.5: labels are then independent of inputs, and all other draws are the same.

    Source: thesis, chapter 5, section 5.3 (the measure of hidden progress).
    """

    def check(self, task: Task, model: Model) -> None:
        require_hidden(self, task, model)

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``movement``, and on tasks with a support its parts.

        These are ``relevant`` (the largest change on the support) and, unless that is all inputs, ``irrelevant`` (the
        largest elsewhere) and ``leader`` (1 if the first exceeds the second, else 0).
        """
        changes = np.abs(hidden_weight(snapshot) - hidden_weight(snapshot, snapshot.initial)).max(axis=0)
        measures = {"movement": float(changes.max())}
        if snapshot.support is None:
            return measures
        measures["relevant"] = float(changes[snapshot.support].max())
        irrelevant = np.delete(changes, snapshot.support)
        if len(irrelevant):
            measures["irrelevant"] = float(irrelevant.max())
            measures["leader"] = float(measures["relevant"] > measures["irrelevant"])
        return measures


def hidden_weight(snapshot: Snapshot, parameters: Any = None) -> Float32[np.ndarray, "neurons n"]:
    """Return the first layer's weights, by default the current ones; factors on disjoint blocks form one row."""
    layer = (snapshot.parameters if parameters is None else parameters)["hidden"]
    weight: Float32[np.ndarray, "neurons n"] = np.asarray(layer["weight"]).reshape(-1, snapshot.task.input_size)
    return weight


def require_hidden(probe: Probe, task: Task, model: Model) -> None:
    """Refuse models whose parameters have no layer ``hidden`` with a ``weight``."""
    if isinstance(model, Learner) or "hidden.weight" not in model.parameter_names(task):
        raise ValueError(f"{probe.kind} needs a network with hidden weights: {model.kind}")
