"""Which hidden neurons are strongest, how much of their weight is on the support, what good ones can represent."""

from typing import Annotated

import numpy as np
from pydantic import Field

from elegans.models import MLP, Model
from elegans.probes.base import Probe, Snapshot
from elegans.tasks import Task
from elegans.tasks.parity import Supported
from elegans.training.layerwise.base import MirroredInit


class StrongestNeurons(Probe):
    """The indices of the strongest hidden neurons, by two norms: |w|, of the incoming weights, and |v| |w|.

    With weight decay, neurons that do not help the output shrink, and the strongest ones show what was learned; without
    it all keep about their initial norm.

    Source: Pareto frontiers, figure 5 (which leaves open the norm).

    Args:
        every: how many steps lie between two measurements.
        count: how many neurons are returned.
    """

    count: Annotated[int, Field(ge=1)]

    def check(self, task: Task, model: Model) -> None:
        """Refuse models without hidden neurons, or with too few of them."""
        if not isinstance(model, MLP) or not model.readout:
            raise ValueError(f"strongest-neurons needs an mlp with a second layer: {model.kind}")
        if self.count > model.width:
            raise ValueError(f"count must be at most the width: count={self.count}, width={model.width}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``weight.1`` (the index of the neuron with the largest |w|), ``weight.2``, …, ``product.1``, …."""
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


class GoodNeurons(Probe):
    """What the initially good neurons can represent: least squares of their features, judged on held-out examples.

    Source: Pareto frontiers, Theorem 5 (a subnetwork approximates the parity).

    Args:
        examples: how many examples the readout is fitted on, and how many others the correlation is measured on.
    """

    examples: Annotated[int, Field(ge=1)] = 2000

    def check(self, task: Task, model: Model) -> None:
        """Refuse networks for whose neurons good and bad are not defined."""
        if not isinstance(task, Supported) or not isinstance(model, MLP) or not isinstance(model.init, MirroredInit):
            raise ValueError(f"good-neurons needs a mirrored initialisation on a parity: {model.kind}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``correlation``, the correlation of the fitted output with the label."""
        assert isinstance(snapshot.model, MLP) and isinstance(snapshot.model.init, MirroredInit)
        hidden = snapshot.parameters["hidden"]
        good = snapshot.model.init.good(snapshot.initial["hidden"]["weight"], np.asarray(snapshot.support))
        x, y = snapshot.examples("test", 2 * self.examples)
        features = np.maximum(x.astype(np.float64) @ hidden["weight"][good].T + hidden["bias"][good], 0)
        features = np.column_stack([np.ones(len(x)), features / max(float(features.max(initial=0)), 1e-300)])
        half = self.examples
        readout = np.linalg.lstsq(features[:half], y[:half].astype(np.float64), rcond=1e-9)[0]
        output = features[half:] @ readout
        return {"correlation": float((y[half:] * output).mean() / np.sqrt(np.square(output).mean()))}
