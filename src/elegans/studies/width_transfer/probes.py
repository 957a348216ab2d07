"""How far training moves a network's tangent kernel."""

from typing import Annotated

import numpy as np
from pydantic import Field

from elegans.models import MLP, Model
from elegans.models.mlp import preactivations
from elegans.probes.base import Probe, Snapshot
from elegans.tasks import Task


class KernelChange(Probe):
    """The change of the tangent kernel since the start, relative to the kernel: |K_t - K_0| / |K_0|, Frobenius norms.

    K sums the layers' parts, each times the factor of its learning rate: (z . z') last + (x . x' + 1) (g . g') first,
    with the hidden activations z and g = v relu'(h). It stays at 0 where features do not move.

    Source: Jacot, Gabriel and Hongler (2018); Yang and Hu (2021), section 5 (feature learning and kernels).

    Args:
        every: the number of steps between two measurements.
        examples: the number of inputs, the first of the test stream.
        first: the factor of the first layer's learning rate.
        last: the factor of the last layer's.
    """

    every: Annotated[int, Field(ge=1, lt=2**32)] = 1
    examples: Annotated[int, Field(ge=1, le=4096)] = 64
    first: Annotated[float, Field(gt=0)] = 1.0
    last: Annotated[float, Field(gt=0)] = 1.0

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(model, MLP) or model.outputs(task) != 1:
            raise ValueError(f"kernel-change needs an mlp of one output: {model.kind}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``change``."""
        x = snapshot.remember("kernel inputs", lambda: np.asarray(snapshot.examples("test", self.examples)[0], float))
        start = snapshot.remember("kernel", lambda: self._kernel(snapshot.initial, x))
        change = self._kernel(snapshot.parameters, x) - start
        return {"change": float(np.linalg.norm(change) / np.linalg.norm(start))}

    def _kernel(self, parameters: dict[str, dict[str, np.ndarray]], x: np.ndarray) -> np.ndarray:
        h = np.asarray(preactivations(parameters["hidden"], x), float)
        z, gradient = np.maximum(h, 0), np.asarray(parameters["output"]["weight"], float) * (h > 0)
        return np.asarray(self.last * (z @ z.T) + self.first * (x @ x.T + 1) * (gradient @ gradient.T))
