"""What a network on addition mod p has learned, from its outputs on all pairs and from its weights.

The outputs' part that depends on a + b alone is the mean over the pairs of each sum. Its Fourier components are the
waves of a + b that Nanda et al. use for restricted and excluded logits.
"""

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from elegans.models import MLP, Model, Power
from elegans.probes.base import Probe, Snapshot
from elegans.studies.modular_grokking.theory.analytic import quadratic_accuracy
from elegans.tasks import ModularAddition, Split, Task

LARGEST = 127
"""The largest p whose p^2 pairs a probe evaluates."""


class PairProbe(Probe):
    """A measure of a network on all pairs of addition mod p.

    Args:
        every: how many steps lie between two measurements.
    """

    def check(self, task: Task, model: Model) -> None:
        """Refuse other tasks, and moduli whose pairs are too many."""
        if not isinstance(task, ModularAddition):
            raise ValueError(f"{self.kind} needs addition mod p: task={task.label()!r}")
        if task.p > LARGEST:
            raise ValueError(f"{self.kind} evaluates all pairs, so that p must be at most {LARGEST}: p={task.p}")


class ProgressMeasures(PairProbe):
    """Restricted and excluded loss, and the Gini coefficient of the first layer's Fourier spectrum.

    The restricted logits keep the constant and the key frequencies of a + b alone, the excluded ones lose these
    frequencies. Here the key frequencies are the strongest ones at the time of the measurement, so a prediction
    could have been made with them; the source takes the trained network's frequencies.

    Source: Nanda et al. (2023), section 5.1.

    Args:
        keys: the number of key frequencies; five in the source's network.
    """

    keys: Annotated[int, Field(ge=1)] = 5

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return losses, the sum of squared weights, and two measures of the spectrum.

        ``train`` and ``test`` are the cross-entropies on the two parts of the pairs, ``restricted`` the restricted loss
        on all pairs and ``excluded`` the excluded loss on the training set; ``error`` is the share of held-out pairs
        that are wrong. ``norm`` is the sum of all squared weights. ``gini`` is the Gini coefficient of the squared
        norms of the first layer's Fourier components, ``first`` the share of the strongest ones in their sum, and
        ``key`` the share of the outputs' variation that the key frequencies explain.
        """
        assert isinstance(snapshot.task, ModularAddition)
        p = snapshot.task.p
        x, label, trained = snapshot.remember("pairs", lambda: _pairs(snapshot))
        logits = np.asarray(snapshot.model.apply(snapshot.parameters, x), float)
        spectrum = np.fft.rfft(sum_means(logits, p), axis=0)
        power = (np.abs(spectrum) ** 2).sum(axis=1)
        chosen = 1 + np.argsort(-power[1:], kind="stable")[: self.keys]
        waves = np.zeros_like(spectrum)
        waves[chosen] = spectrum[chosen]
        wave = np.fft.irfft(waves, p, axis=0)[label]
        loss = cross_entropy(logits, label)
        varied = ((logits - logits.mean(axis=0)) ** 2).sum()
        powers = np.sort(embedding_powers(snapshot.parameters, p))[::-1]
        return {
            "train": float(loss[trained].mean()),
            "test": float(loss[~trained].mean()),
            "restricted": float(cross_entropy(logits.mean(axis=0) + wave, label).mean()),
            "excluded": float(cross_entropy((logits - wave)[trained], label[trained]).mean()),
            "error": float((logits.argmax(axis=1) != label)[~trained].mean()),
            "gini": gini(powers),
            "first": float(powers[: self.keys].sum() / powers.sum()) if powers.any() else 0.0,
            "key": float((wave**2).sum() / varied) if varied > 0 else 0.0,
            "norm": float(sum((np.asarray(array, float) ** 2).sum() for array in _arrays(snapshot.parameters))),
        }


class AnalyticForm(PairProbe):
    """How close the neurons of a quadratic network are to the analytic solution's cosines, and what these achieve.

    Neurons are weighted by the product of the norms of u, v and w, which is their contribution to the outputs.

    Source: Gromov (2023), sections 3 and 4.
    """

    def check(self, task: Task, model: Model) -> None:
        """Refuse networks that are not quadratic with one output per number."""
        super().check(task, model)
        if not isinstance(model, MLP) or model.hidden_bias or model.output_bias or model.activation != Power(2):
            raise ValueError(f"{self.kind} needs a quadratic mlp without biases: model={model.label()!r}")

    def measure(self, snapshot: Snapshot) -> dict[str, float | np.ndarray]:
        """Return arrays over neurons and numbers.

        Over neurons, float32: ``share`` (of the power of u, v and w, each of norm 1, at the neuron's own frequency),
        ``phase`` (|phi_u + phi_v - phi_w| in radians, at most pi) and ``size`` (relative to the largest). Numbers:
        ``shares`` and ``phases``, their means weighted by size; ``accuracy`` on all pairs; ``cosines``, the accuracy of
        the network whose neurons are replaced by their cosines; ``analytic``, its accuracy once w also has
        the phase phi_u + phi_v; and ``frequencies``, how many frequencies neurons of at least 1% of the largest size
        have.
        """
        assert isinstance(snapshot.task, ModularAddition)
        return analytic_form(*pair_weights(snapshot.parameters, snapshot.task.p))


def analytic_form(u: np.ndarray, v: np.ndarray, w: np.ndarray) -> dict[str, float | np.ndarray]:
    """Return the measures of ``AnalyticForm`` of weights of shape (neurons, p)."""
    p = u.shape[1]
    parts = [np.fft.rfft(part, axis=1) for part in (u, v, w)]
    norms = [np.sqrt((part**2).sum(axis=1)) for part in (u, v, w)]
    powers = np.mean([_shares(part, p) for part in (u, v, w)], axis=0)
    own = 1 + powers[:, 1:].argmax(axis=1)
    place = np.arange(len(u))
    at = [part[place, own] for part in parts]
    phase = np.angle(at[0] * at[1] * at[2].conj())
    size = norms[0] * norms[1] * norms[2]
    weight = size / size.sum() if size.sum() > 0 else np.full(len(size), 1 / len(size))
    turns = 2j * np.pi * np.outer(own, np.arange(p)) / p
    cosines = [2 / p * (each[:, None] * np.exp(turns)).real for each in at]
    added = np.abs(at[2]) * np.exp(1j * np.angle(at[0] * at[1]))
    return {
        "share": powers[place, own].astype(np.float32),
        "phase": np.abs(phase).astype(np.float32),
        "size": (size / size.max()).astype(np.float32) if size.max() > 0 else size.astype(np.float32),
        "shares": float((weight * powers[place, own]).sum()),
        "phases": float((weight * np.abs(phase)).sum()),
        "accuracy": quadratic_accuracy(u, v, w),
        "cosines": quadratic_accuracy(*cosines),
        "analytic": quadratic_accuracy(cosines[0], cosines[1], 2 / p * (added[:, None] * np.exp(turns)).real),
        "frequencies": float(len(np.unique(own[size >= 0.01 * size.max()]))),
    }


def pair_weights(parameters: Any, p: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return u, v and w of a two-layer network, float64 of shape (neurons, p)."""
    hidden = np.asarray(parameters["hidden"]["weight"], float)
    return hidden[:, :p], hidden[:, p:], np.asarray(parameters["output"]["weight"], float).T


def sum_means(logits: Float[np.ndarray, "pairs p"], p: int) -> Float[np.ndarray, "p p"]:
    """Return the mean outputs over the p pairs of each sum, one row per sum; pairs are ordered by a p + b."""
    table = logits.reshape(p, p, -1)
    return np.asarray(np.mean([np.roll(table[a], a, axis=0) for a in range(p)], axis=0))


def cross_entropy(
    logits: Float[np.ndarray, "pairs p"], label: Int[np.ndarray, " pairs"]
) -> Float[np.ndarray, " pairs"]:
    """Return the cross-entropy of each pair."""
    centred = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(centred).sum(axis=1)) - centred[np.arange(len(label)), label])


def gini(values: Float[np.ndarray, " values"]) -> float:
    """Return the Gini coefficient: 0 where all values are equal, 1 - 1/n where one of n is not 0."""
    ordered = np.sort(values)
    count, total = len(ordered), ordered.sum()
    if total <= 0:
        return 0.0
    return float(2 * (np.arange(1, count + 1) * ordered).sum() / (count * total) - (count + 1) / count)


def embedding_powers(parameters: Any, p: int) -> Float[np.ndarray, " frequencies"]:
    """Return the squared norm of each Fourier component of what the numbers are embedded as, without the constant."""
    if "embedding" in parameters:
        embedded = [np.asarray(parameters["embedding"]["number"], float).T]
    else:
        embedded = list(pair_weights(parameters, p)[:2])
    powers = sum((np.abs(np.fft.rfft(part, axis=1)) ** 2).sum(axis=0) for part in embedded)
    return np.asarray(powers)[1:]


def _shares(part: np.ndarray, p: int) -> np.ndarray:
    """Return the share that each frequency has of each row's power; rows that are 0 have none."""
    powers = np.abs(np.fft.rfft(part, axis=1)) ** 2
    powers[:, 1:] *= 2
    total = powers.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(powers, total, out=np.zeros_like(powers), where=total > 0))


def _pairs(snapshot: Snapshot) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all pairs in order, their sums, and which are for training; all are where nothing is held out."""
    task = snapshot.task
    assert isinstance(task, ModularAddition)
    index = np.arange(task.population, dtype=np.uint32)
    x, label = task.member(None, index)
    trained = np.ones(task.population, bool)
    if isinstance(regime := snapshot.regime, Split):
        held_out = np.arange(regime.held_out_size(task), dtype=np.uint32)
        trained[regime.numbers(task, snapshot.key("sample"), "test", held_out)] = False
    return x, label, trained


def _arrays(parameters: Any) -> list[Any]:
    """Return all arrays of nested dictionaries."""
    if isinstance(parameters, dict):
        return [array for each in parameters.values() for array in _arrays(each)]
    return [parameters]


class LayerNorms(Probe):
    """The Euclidean norms of the two layers' weights."""

    def check(self, task: Task, model: Model) -> None:
        """Refuse models that are not two-layer networks."""
        if not isinstance(model, MLP) or not model.readout:
            raise ValueError(f"{self.kind} needs an mlp with a second layer: model={model.label()!r}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``hidden`` and ``output``."""
        return {
            layer: float(np.linalg.norm(np.asarray(snapshot.parameters[layer]["weight"], float)))
            for layer in ("hidden", "output")
        }
