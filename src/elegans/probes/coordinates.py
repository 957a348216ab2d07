"""How large the coordinates of a network are, and how much they change."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from elegans.models import MLP, DeepMLP, Model
from elegans.models.mlp import preactivations
from elegans.probes.base import Probe, Snapshot
from elegans.tasks import Task


class CoordinateCheck(Probe):
    """Root mean squares of a network's pre-activations and outputs on fixed inputs, and of their changes since step 0.

    In a parametrisation that learns features none of the changes grows or shrinks with the width.

    Source: Yang et al., "Tensor Programs V" (2022), appendix D.1 (coordinate checking).

    Args:
        every: the number of steps between two measurements.
        examples: the number of inputs, the first of the test stream.
    """

    every: Annotated[int, Field(ge=1, lt=2**32)] = 1
    examples: Annotated[int, Field(ge=1, le=10**6)] = 32

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(model, MLP | DeepMLP):
            raise ValueError(f"coordinate-check needs an mlp or a deep-mlp: {model.kind}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``h1``, ``h2``, … and ``f``, and their changes ``dh1``, ``dh2``, … and ``df``."""
        x = snapshot.remember("coordinate inputs", lambda: snapshot.examples("test", self.examples)[0])
        start = snapshot.remember("coordinates", lambda: self._coordinates(snapshot, snapshot.initial, x))
        now = self._coordinates(snapshot, snapshot.parameters, x)
        sizes = {name: _size(values) for name, values in now.items()}
        return sizes | {f"d{name}": _size(values - start[name]) for name, values in now.items()}

    def _coordinates(
        self, snapshot: Snapshot, parameters: Mapping[str, Mapping[str, np.ndarray]], x: np.ndarray
    ) -> dict[str, np.ndarray]:
        model = snapshot.model
        assert isinstance(model, MLP | DeepMLP)
        layers, z, coordinates = [name for name in parameters if name != "output"], np.asarray(x), {}
        for depth, layer in enumerate(layers, 1):
            coordinates[f"h{depth}"] = preactivations(parameters[layer], z)
            z = model.activation.value(coordinates[f"h{depth}"])
        return {**coordinates, "f": np.asarray(model.apply(parameters, np.asarray(x)))}


def _size(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))
