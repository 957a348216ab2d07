"""The effect of the one step of Theorems 4 and 5 on the hidden neurons."""

from typing import Annotated

import numpy as np
from pydantic import Field

from elegans.models import MLP, Model
from elegans.probes import Probe, Snapshot
from elegans.tasks import SparseParity, Task
from elegans.training.layerwise.base import MirroredInit


class FeatureSelection(Probe):
    """How many neurons are good, how many may fire, and where their weights lie.

    A neuron is good if its initial weights cover the support (over-sparse), or if the large ones lie within it
    (under-sparse). It may fire on some input if and only if the sum of its |weights| plus its bias is above 0.

    Source: Pareto frontiers, Theorems 16 and 21 (good and bad neurons).

    Args:
        examples: the number of held-out examples for estimating the hinge loss.
    """

    examples: Annotated[int, Field(ge=1)] = 2000

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(task, SparseParity) or not isinstance(model, MLP) or not isinstance(model.init, MirroredInit):
            init = f" with init={model.init.kind!r}" if isinstance(model, MLP) else ""
            raise ValueError(f"feature-selection needs a mirrored initialisation: {model.kind}{init}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return the numbers of neurons, the size of their weights, and the held-out hinge loss.

        ``good`` counts the first half of the neurons, ``active`` and ``bad_active`` both halves; ``on_support`` is the
        mean |weight| on the support of good active neurons, ``off_support`` the largest |weight| off the support of any
        active neuron (0 if there is none); ``ranked`` is 1 if the support's inputs have the largest sums of |weights|;
        ``hinge`` is the loss.
        """
        assert isinstance(snapshot.model, MLP) and isinstance(snapshot.model.init, MirroredInit)
        weight, bias = snapshot.parameters["hidden"]["weight"], snapshot.parameters["hidden"]["bias"]
        support = np.asarray(snapshot.hidden)
        good = snapshot.model.init.good(snapshot.initial["hidden"]["weight"], support)
        size = np.abs(weight.astype(np.float64))
        active = size.sum(axis=1) + bias > 0
        off = np.delete(size[active], support, axis=1)
        return {
            "good": float(good[: len(good) // 2].sum()),
            "active": float(active.sum()),
            "bad_active": float((active & ~good).sum()),
            "on_support": float(size[active & good][:, support].mean()) if (active & good).any() else 0.0,
            "off_support": float(off.max(initial=0.0)),
            "ranked": float(set(np.argsort(-size.sum(axis=0), kind="stable")[: len(support)]) == set(support)),
            "hinge": self._hinge(snapshot, active),
        }

    def _hinge(self, snapshot: Snapshot, active: np.ndarray) -> float:
        x, y = snapshot.examples("test", self.examples)
        hidden, output = snapshot.parameters["hidden"], snapshot.parameters["output"]
        z = x.astype(np.float64) @ hidden["weight"][active].T.astype(np.float64) + hidden["bias"][active]
        outputs = np.maximum(z, 0) @ output["weight"][active].astype(np.float64) + output["bias"]
        return float(np.maximum(1 - y * outputs, 0).mean())
