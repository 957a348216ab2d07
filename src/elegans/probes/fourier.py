"""The Fourier gap of a neuron: how much a relevant input's gradient stands out."""

from typing import Annotated

import numpy as np
from pydantic import Field

from elegans.models import MLP, Model
from elegans.probes.base import Probe, Snapshot
from elegans.tasks import SparseParity, Task


class FourierGap(Probe):
    """How far the gradients of relevant inputs stand above those of irrelevant ones, neuron by neuron.

    With g = E[y x 1{w.x + b > 0}] of a hidden neuron, estimated on held-out examples, the relaxed gap is
    max |g_i| over the support less max |g_i| elsewhere; the strict gap has the min over the support in
    place of the max. A neuron with a positive strict gap could name the support by its k largest |g_i|.
    Estimates carry a sampling error of about 1/sqrt(examples) an entry.

    Source: thesis, chapter 5, definition 5.4 and its relaxation.

    Args:
        every: how many steps lie between two measurements.
        examples: how many held-out examples the expectation is estimated on.
    """

    examples: Annotated[int, Field(ge=1)] = 10_000

    def check(self, task: Task, model: Model) -> None:
        """Refuse trials without a support or without hidden neurons, and supports that are everything."""
        if not isinstance(task, SparseParity) or not isinstance(model, MLP):
            raise ValueError(f"fourier-gap must look at an mlp on a sparse-parity: {model.kind} on {task.kind}")
        if task.k == task.n:
            raise ValueError(f"fourier-gap must have irrelevant inputs to compare with: k={task.k}, n={task.n}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``relaxed`` and ``strict`` (the largest over neurons) and ``positive`` (share of strict gaps > 0)."""
        x, y = snapshot.examples("test", self.examples)
        weight, bias = snapshot.parameters["hidden"]["weight"], snapshot.parameters["hidden"]["bias"]
        size = max(1, 2**24 // len(x))
        gaps = [
            _gaps(x, y, weight[first : first + size], bias[first : first + size], snapshot.hidden)
            for first in range(0, len(weight), size)
        ]
        relaxed, strict = (np.concatenate(part) for part in zip(*gaps, strict=True))
        return {
            "relaxed": float(relaxed.max()),
            "strict": float(strict.max()),
            "positive": float((strict > 0).mean()),
        }


def _gaps(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray, support: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the relaxed and strict gap of each neuron, from examples (count, n) and rows (neurons, n)."""
    active = (x @ weight.T + bias > 0).astype(np.float32)
    size = np.abs(active.T @ (x * y[:, None])) / np.float32(len(x))
    relevant, irrelevant = size[:, support], np.delete(size, support, axis=1).max(axis=1)
    return relevant.max(axis=1) - irrelevant, relevant.min(axis=1) - irrelevant
