"""Which hidden neurons are the strongest, and how much of their weight lies on the support."""

from typing import Annotated

import numpy as np
from pydantic import Field

from elegans.models import MLP, Model
from elegans.probes.base import Probe, Snapshot
from elegans.tasks import Task
from elegans.tasks.parity import Supported


class StrongestNeurons(Probe):
    """The places of the strongest hidden neurons, by two norms: |w|, of the incoming weights, and |v| |w|.

    With weight decay, neurons that do not help the output shrink, and the strongest ones tell what was learned;
    without it all keep about the norm that they began with.

    Source: Pareto frontiers, figure 5 (which leaves open the norm).

    Args:
        every: how many steps lie between two measurements.
        count: how many neurons are named.
    """

    count: Annotated[int, Field(ge=1)]

    def check(self, task: Task, model: Model) -> None:
        """Refuse models without hidden neurons, or with too few of them."""
        if not isinstance(model, MLP) or not model.readout:
            raise ValueError(f"strongest-neurons needs an mlp with a second layer: {model.kind}")
        if self.count > model.width:
            raise ValueError(f"count must be at most the width: count={self.count}, width={model.width}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``weight.1`` (the place of the neuron with the largest |w|), ``weight.2``, …, ``product.1``, …."""
        hidden, output = snapshot.parameters["hidden"], snapshot.parameters["output"]
        weight = np.linalg.norm(hidden["weight"], axis=1)
        norms = {"weight": weight, "product": weight * np.abs(output["weight"])}
        return {
            f"{name}.{rank}": float(place)
            for name, values in norms.items()
            for rank, place in enumerate(np.argsort(-values, kind="stable")[: self.count], start=1)
        }


class SupportShare(Probe):
    """The share of the squared hidden weights, each neuron's times its squared output weight, that is on the support.

    Source: Pareto frontiers, remarks after Theorem 21 (which leave open how pruning is measured).
    """

    def check(self, task: Task, model: Model) -> None:
        """Refuse models without output weights, and tasks without a support."""
        if not isinstance(model, MLP) or not model.readout or not isinstance(task, Supported):
            raise ValueError(f"support-share must look at an mlp with a second layer on a parity: {model.kind}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``share``, from 0 to 1."""
        hidden, output = snapshot.parameters["hidden"], snapshot.parameters["output"]
        mass = np.square(output["weight"], dtype=float) @ np.square(hidden["weight"], dtype=float)
        return {"share": float(mass[snapshot.support].sum() / mass.sum())}
