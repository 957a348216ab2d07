"""The Fourier gap of a neuron: how much a relevant input's gradient stands out."""

from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from elegans.boolean.gaps import relaxed_gap, strict_gap
from elegans.boolean.neurons import LARGEST_ENUMERATED, SineWave, neuron_correlations, sample_correlations
from elegans.models import Activation, Model, PolyNet, Power, Sinusoid
from elegans.probes.base import Probe, Snapshot
from elegans.probes.movement import hidden_weight, require_hidden
from elegans.tasks import SparseParity, Task

ROUNDING = 1e-12
"""Gaps of 0 can be as large as this in a closed form, because of rounding."""


class FourierGap(Probe):
    """How far the gradients on relevant inputs exceed the gradients on irrelevant inputs, neuron by neuron.

    With G = E[y x sigma'(w . x + b)] for a hidden neuron with the activation sigma, the relaxed gap is max |G_i| over
    the support minus max |G_i| elsewhere; the strict gap has the minimum over the support instead. A neuron with a
    positive strict gap identifies the support by its k largest |G_i|, given enough examples. For a factor of a PolyNet,
    sigma' is replaced by the product of the other factors.

    ``estimator`` states how the means are computed:

    - ``sample``: on held-out examples, the same at every measurement. The error of each G_i is about 1/sqrt(examples)
      if |sigma'| <= 1: 0.03 with 1024 examples. The maximum over irrelevant inputs is biased upwards, so without a
      gap the estimate is about -2/sqrt(examples), and smaller gaps cannot be distinguished from none.
    - ``exact``: over all inputs, by a fast Walsh-Hadamard transform, for n up to 20.
    - ``closed form``: exact for any n, for sinusoids, and for powers z^d with d at most k.

    Source: thesis, chapter 5, definition 5.4, and appendix B.3.1 for the relaxed gap.

    Args:
        examples: the number of held-out examples for the estimate ``sample``.
        estimator: ``sample``, ``exact`` or ``closed form``.
    """

    examples: Annotated[int, Field(ge=1)] = 1024
    estimator: Literal["sample", "exact", "closed form"] = "sample"

    def check(self, task: Task, model: Model) -> None:
        require_hidden(self, task, model)
        if not isinstance(task, SparseParity) or not (_activation(model) or isinstance(model, PolyNet)):
            raise ValueError(f"fourier-gap needs neurons on a sparse-parity: {model.kind} on {task.kind}")
        if task.k == task.n:
            raise ValueError(f"fourier-gap must have irrelevant inputs to compare with: k={task.k}, n={task.n}")
        estimators = _estimators(task, model)
        if self.estimator not in estimators:
            activation = _activation(model)
            neurons = f"activation={activation.label()!r}" if activation else f"model={model.label()!r}"
            rule = f"the estimator must be one that works here, {' or '.join(map(repr, estimators))}"
            raise ValueError(f"{rule}: estimator={self.estimator!r}, n={task.n}, k={task.k}, {neurons}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``relaxed`` and ``strict`` (the largest over neurons) and ``positive`` (fraction of gaps > 0)."""
        gradients = self.correlations(snapshot)
        relaxed = relaxed_gap(gradients, snapshot.hidden)
        strict = strict_gap(gradients, snapshot.hidden)
        return {
            "relaxed": float(relaxed.max()),
            "strict": float(strict.max()),
            "positive": float((strict > ROUNDING).mean()),
        }

    def correlations(self, snapshot: Snapshot) -> Float[np.ndarray, "neurons n"]:
        """Return G, one row per neuron."""
        weight, model = hidden_weight(snapshot), snapshot.model
        bias = snapshot.parameters["hidden"].get("bias", 0)
        activation = _activation(model)
        if self.estimator == "sample":
            x, y = snapshot.remember(f"test:{self.examples}", lambda: snapshot.examples("test", self.examples))
            response = activation.derivative if activation else _other_factors
            return sample_correlations(response, weight, bias, x, y)
        assert activation is not None
        form: Any = activation.derivative
        if self.estimator == "closed form" and isinstance(activation, Power):
            form = activation.degree
        elif self.estimator == "closed form" and isinstance(activation, Sinusoid):
            form = SineWave(activation.frequency, activation.phase)
        return neuron_correlations(form, weight, bias, snapshot.hidden)


def _activation(model: Model) -> Activation | None:
    activation = getattr(model, "activation", None)
    return activation if isinstance(activation, Activation) else None


def _estimators(task: SparseParity, model: Model) -> list[str]:
    activation = _activation(model)
    closed = isinstance(activation, Sinusoid) or (isinstance(activation, Power) and activation.degree <= task.k)
    exact = activation is not None and task.n <= LARGEST_ENUMERATED
    return ["sample", *["exact"] * exact, *["closed form"] * closed]


def _other_factors(sums: Float[np.ndarray, "count factors"]) -> Float[np.ndarray, "count factors"]:
    """Return for each factor the product of the others: the derivative of the product of all."""
    products = [np.delete(sums, factor, axis=1).prod(axis=1) for factor in range(sums.shape[1])]
    return np.stack(products, axis=1)
