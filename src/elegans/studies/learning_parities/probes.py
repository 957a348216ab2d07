"""Measures on biased parities: the loss on either part of the mixture, and the size of a predictor."""

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from elegans.learners.base import Learner
from elegans.models import LinearPredictor, Model
from elegans.probes.base import Probe, Snapshot
from elegans.tasks import BiasedParity, Task


class ComponentLosses(Probe):
    """Hinge loss and error on D_A and on its two parts, over held-out examples.

    Accuracy is misleading: for k = 3 the threshold of e1 + e2 - e3 is right on 3/4 of D1 and on all of D2, with a hinge
    loss of one half. The hinge loss and the error on D1 separate networks from linear predictors.

    Args:
        every: how many steps lie between two measurements.
        examples: how many held-out examples, the first of the trial's test stream.
    """

    examples: Annotated[int, Field(ge=2)] = 10_000

    def check(self, task: Task, model: Model) -> None:
        """Refuse other tasks, and learners without outputs for a loss."""
        if not isinstance(task, BiasedParity) or isinstance(model, Learner):
            raise ValueError(f"{self.kind} needs a network on a biased-parity: {model.kind} on {task.kind}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``hinge`` and ``error`` on D_A, with ``.d1`` and ``.d2`` on its parts.

        Those on D_A weight the parts by their probabilities, not by how often they were drawn. A part without examples
        is not measured.
        """
        x, y, aligned = snapshot.remember(self.kind, lambda: self._examples(snapshot))
        margin = y * np.asarray(snapshot.model.apply(snapshot.parameters, x))
        assert isinstance(snapshot.task, BiasedParity)
        shares = {"d1": (~aligned, 1 - snapshot.task.mix), "d2": (aligned, snapshot.task.mix)}
        losses = {"hinge": 0.0, "error": 0.0}
        for part, (chosen, share) in shares.items():
            if not chosen.any():
                continue
            hinge, error = np.maximum(1 - margin[chosen], 0).mean(), (margin[chosen] <= 0).mean()
            losses |= {f"hinge.{part}": float(hinge), f"error.{part}": float(error)}
            losses["hinge"] += share * float(hinge)
            losses["error"] += share * float(error)
        return losses

    def _examples(self, snapshot: Snapshot) -> tuple[Any, Any, Any]:
        x, y = snapshot.examples("test", self.examples)
        assert isinstance(snapshot.task, BiasedParity)
        index = np.arange(self.examples, dtype=np.uint32)
        return x, y, np.asarray(snapshot.task.aligned(snapshot.key("test"), index))


class PredictorSize(Probe):
    """How many features a linear predictor has, and the norm of their weights: N and B of the lower bounds.

    All features are scaled to lie in [-1, 1] on the task's inputs.

    Args:
        every: how many steps lie between two measurements.
    """

    def check(self, task: Task, model: Model) -> None:
        """Refuse tasks other than biased parities, and models that are not linear predictors."""
        if not isinstance(task, BiasedParity) or not isinstance(model, LinearPredictor):
            raise ValueError(f"{self.kind} needs a linear predictor on a biased-parity: {model.kind} on {task.kind}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``features`` (N) and ``norm`` (B)."""
        assert isinstance(snapshot.model, LinearPredictor)
        count, norm = snapshot.model.size(snapshot.parameters, snapshot.task.input_size**-0.5)
        return {"features": float(count), "norm": norm}
