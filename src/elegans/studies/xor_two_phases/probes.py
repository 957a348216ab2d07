"""Quantities of the theory of the XOR in two phases: parts of weights, margins, signal-heavy networks.

All are in the mean-field scaling, whatever the network's own, and in the task's basis. The source is Glasgow, "SGD
Finds then Tunes Features in Two-Layer Neural Networks with Near-Optimal Sample Complexity: A Case Study in the XOR
Problem" (2024).
"""

import math
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from elegans.models import MLP, Model, ReLU
from elegans.probes.base import Probe, Snapshot
from elegans.probes.movement import hidden_weight, require_hidden
from elegans.studies.xor_two_phases.theory.heavy import xor_marks, xor_smallest_zeta
from elegans.studies.xor_two_phases.theory.network import (
    xor_heaviness,
    xor_loss,
    xor_margins,
    xor_output,
    xor_sizes,
    xor_slope,
)
from elegans.tasks import XOR, Parity, Task

SHARES = (0.1, 0.5, 0.9)
"""The quantiles over neurons that are measured."""


class XORProbe(Probe):
    """A measure of a ReLU network without biases that learns the XOR.

    Args:
        every: how many steps lie between two measurements.
    """

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(task, XOR) or (task.k, task.function) != (2, Parity()):
            function = f" with k={task.k}, function={task.function.label()!r}" if isinstance(task, XOR) else ""
            raise ValueError(f"{self.kind} needs the xor of two directions: task={task.kind!r}{function}")
        biased = isinstance(model, MLP) and (model.hidden_bias or model.output_bias)
        if not isinstance(model, MLP) or not isinstance(model.activation, ReLU) or not model.readout or biased:
            raise ValueError(f"{self.kind} needs a two-layer relu mlp without biases: model={model.kind!r}")


class XORParts(XORProbe):
    """How large the signal, opposite and remaining parts of neurons are, and their output weights.

    Source: section 4.
    """

    def measure(self, snapshot: Snapshot) -> dict[str, float | np.ndarray]:
        """Return quantiles over neurons and means.

        Of shape (3,), the 10%, 50% and 90% quantiles of ``signal`` (||w_sig||), ``opposite``, ``rest`` (||w_perp||) and
        ``output`` (|a|). Numbers: ``weight_square`` (E||w||^2), ``output_square`` (E a^2), ``noise``
        (E||w_perp + w_opp||^2), ``heaviness`` (E||a w||), and ``excess``, the largest |a| / ||w|| - 1, which stays at
        most 0 while steps are small; medians over neurons of ``moved``, ||w_perp - w_perp(0)|| / ||w(0)||, and of
        ``drift``, the relative deviation of |a| from |a(0)|.
        """
        weight, output = mean_field(snapshot)
        sizes = xor_sizes(weight, output, snapshot.hidden)
        norms, outer = np.linalg.norm(weight, axis=1), np.abs(output)
        first, start = snapshot.remember("mean-field", lambda: mean_field_of(snapshot.model, snapshot.initial))
        change = xor_sizes(weight - first, output, snapshot.hidden).rest
        parts = {"signal": sizes.signal, "opposite": sizes.opposite, "rest": sizes.rest, "output": outer}
        return {
            **{name: np.quantile(values, SHARES) for name, values in parts.items()},
            "weight_square": float((norms**2).mean()),
            "output_square": float((outer**2).mean()),
            "noise": float((sizes.opposite**2 + sizes.rest**2).mean()),
            "heaviness": xor_heaviness(weight, output),
            "excess": float((outer / norms).max()) - 1,
            "moved": float(np.median(change / np.linalg.norm(first, axis=1))),
            "drift": float(np.median(np.abs(outer / np.abs(start) - 1))),
        }


class XORMargins(XORProbe):
    """The margins of the four clusters, the loss's slopes there, the marks of the phases, and loss and error.

    Phases have no sharp ends, and the theorem's own definitions are vacuous below n = 3e5. The marks are the first
    steps at which ``least_share`` is 0.1 (the signal is found: each cluster has a tenth of all neurons whose signal
    exceeds the rest), ``dominance`` 10 (it dominates) and ``fit`` 1 (the data are fit).

    Source: Table 1, Definition 4.2, Lemma C.1 and Equation 4.1.

    Args:
        examples: the number of held-out examples for loss and error, the first of the trial's test
            stream.
    """

    examples: Annotated[int, Field(ge=1)] = 4000

    def measure(self, snapshot: Snapshot) -> dict[str, float | np.ndarray]:
        """Return arrays over the clusters mu1, -mu1, mu2, -mu2, and numbers.

        Of shape (4,): ``margin`` (gamma), ``heavy`` (the margins from only those neurons whose signal exceeds the
        rest), ``slope`` (g) and ``share`` (of these neurons among all). Numbers: ``least_share``, ``dominance`` (the
        smallest of ``heavy`` over E||w_perp + w_opp||^2), ``fit`` (the smallest margin); ``loss`` (2 log(1 + e^-yf)),
        ``error`` and ``largest`` (|f|) on held-out examples. ``tenth`` is the signal that a tenth of all neurons
        exceeds in each cluster, in the weakest one; ``heavy_share`` and ``heavy_mass`` are the shares of all neurons
        and of E||w||^2 of the neurons whose signal exceeds the rest, and ``heavy_signal`` their median signal, NaN
        without any.
        """
        weight, output = mean_field(snapshot)
        marks = xor_marks(weight, output, snapshot.hidden)
        margins = xor_margins(weight, output, snapshot.hidden)
        x, y = snapshot.remember(f"test:{self.examples}", lambda: snapshot.examples("test", self.examples))
        held_out = y * xor_output(weight, output, x)
        sizes, square = xor_sizes(weight, output, snapshot.hidden), (weight**2).sum(axis=1)
        members = sizes.signal**2 > sizes.opposite**2 + sizes.rest**2
        return {
            "margin": margins,
            "heavy": marks.margins,
            "slope": xor_slope(margins),
            "share": marks.share,
            "least_share": float(marks.share.min()),
            "dominance": marks.dominance,
            "fit": marks.fit,
            "loss": float(xor_loss(held_out).mean()),
            "error": float((held_out <= 0).mean()),
            "largest": float(np.abs(held_out).max()),
            "tenth": min(_exceeded(sizes.signal[sizes.cluster == mu], len(square)) for mu in range(4)),
            "heavy_share": float(members.mean()),
            "heavy_mass": float(square[members].sum() / square.sum()),
            "heavy_signal": float(np.median(sizes.signal[members])) if members.any() else np.nan,
        }


def _exceeded(signals: np.ndarray, neurons: int) -> float:
    """Return the signal that a tenth of all neurons reach within one cluster, 0 if it has fewer."""
    needed = math.ceil(neurons / 10)
    return float(np.sort(signals)[-needed]) if len(signals) >= needed else 0.0


class SignalHeavy(XORProbe):
    """How far a network is from signal-heavy: the smallest zeta for which the conditions hold, as defined and relaxed.

    Source: Definition 4.2; the relaxed version is derived here, see ``theory.xor_signal_heavy``.

    Args:
        scale: H, at least 1; None for the smallest that the definition allows, max(1, E||w||^2 / 2).
        kappa: the factor that replaces exp(6 H) in the relaxed version, above 0.
    """

    scale: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None
    kappa: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``zeta``, its required upper limit (``asked``, exp(-10 H)), ``relaxed``, ``scale``, and ``holds``.

        ``zeta`` is the smallest with the factor exp(6 H), ``relaxed`` with kappa in its place; both are infinite where
        no zeta suffices, for example where some |a| exceeds ||w||. ``scale`` is H; ``holds`` 1 where zeta is small
        enough.
        """
        weight, output = mean_field(snapshot)
        scale = self.scale or max(1.0, float((weight**2).sum(axis=1).mean()) / 2)
        zeta, relaxed = (
            xor_smallest_zeta(weight, output, scale=scale, kappa=kappa, basis=snapshot.hidden)
            for kappa in (None, self.kappa)
        )
        asked = math.exp(-10 * scale)
        return {"zeta": zeta, "asked": asked, "relaxed": relaxed, "scale": scale, "holds": float(zeta <= asked)}


class SubspaceShare(Probe):
    """How much of the first layer lies in the subspace that the labels depend on; it grows as features are found."""

    def check(self, task: Task, model: Model) -> None:
        require_hidden(self, task, model)
        if not isinstance(task, XOR):
            raise ValueError(f"{self.kind} must have a task of few directions: task={task.kind!r}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``share``: ||W U||^2 / ||W||^2 in Frobenius norms, U the k directions; about k / n initially."""
        assert isinstance(snapshot.task, XOR)
        weight, k = hidden_weight(snapshot), snapshot.task.k
        along = weight[:, :k] if snapshot.hidden is None else weight @ snapshot.hidden[:, :k]
        return {"share": float((along**2).sum() / (weight**2).sum())}


def mean_field(snapshot: Snapshot) -> tuple[np.ndarray, np.ndarray]:
    """Return a network's weights (p, n) and output weights (p,) in the form of a mean over neurons, float64."""
    return mean_field_of(snapshot.model, snapshot.parameters)


def mean_field_of(model: Model, parameters: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (p, n) and output weights (p,) in the form of a mean over neurons, float64.

    Args:
        model: an ``MLP`` with a second layer.
        parameters: its parameters.
    """
    assert isinstance(model, MLP)
    factor = 1.0 if model.scaling == "mean-field" else math.sqrt(model.width)
    weight, output = (np.asarray(parameters[name]["weight"], float) for name in ("hidden", "output"))
    return factor * weight, factor * output
