"""What a network has learned of many parities: losses of subtasks, and clusters of examples by their gradients."""

import math
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float32, Float64
from pydantic import Field

from elegans import random
from elegans.models import MLP, Model
from elegans.probes.base import Probe, Snapshot
from elegans.tasks import MultitaskParity, Task


class MultitaskProbe(Probe):
    """A measure of a two-layer ReLU network that learns many parities.

    Args:
        every: how many steps lie between two measurements.
    """

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(task, MultitaskParity):
            raise ValueError(f"{self.kind} needs many parities: task={task.kind!r}")
        if not isinstance(model, MLP) or not model.is_plain or model.scaling != "standard":
            raise ValueError(f"{self.kind} needs a two-layer relu mlp with biases and one output: model={model.kind!r}")


class SubtaskLosses(MultitaskProbe):
    """The held-out loss of each subtask, on the same data bits for all of them, and their mean by frequency.

    The bits come from the first examples of the trial's test stream: means over subtasks and over bits are unbiased,
    but losses of subtasks are not independent.

    Args:
        examples: the number of data bits' vectors for each subtask.
        every: how many steps lie between two measurements.
    """

    examples: Annotated[int, Field(ge=1, le=2**20)] = 256

    def measure(self, snapshot: Snapshot) -> dict[str, float | np.ndarray]:
        """Return ``losses`` (tasks,) in bits, their mean ``loss`` by frequency, and how many are ``learned``.

        A subtask is learned if its loss is at most half a bit.
        """
        task = snapshot.task
        assert isinstance(task, MultitaskParity)
        bits, labels = snapshot.remember("multitask bits", lambda: _shared(snapshot, task, self.examples))
        losses = subtask_losses(snapshot.parameters, bits, labels)
        mean = float(task.frequencies @ losses)
        return {"losses": losses.astype(np.float32), "loss": mean, "learned": float((losses <= 0.5).sum())}


def _shared(snapshot: Snapshot, task: MultitaskParity, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return data bits (count, n) and the labels (tasks, count) that each subtask gives them."""
    signs = random.rademacher(snapshot.key("test"), np.arange(count, dtype=np.uint32), task.n)
    labels = np.stack([signs[:, support].prod(axis=1) for support in snapshot.hidden["supports"]])
    return (1 - signs) / 2, labels


def subtask_losses(
    parameters: Any, bits: Float32[np.ndarray, "count n"], labels: Float32[np.ndarray, "tasks count"]
) -> Float64[np.ndarray, " tasks"]:
    """Return the mean logistic loss of each subtask on the same data bits, in bits.

    Args:
        parameters: of a two-layer ReLU network whose inputs are control and data bits.
        bits: the data bits.
        labels: the label of each subtask for each of them.
    """
    weight, bias = parameters["hidden"]["weight"], parameters["hidden"]["bias"]
    tasks = len(labels)
    common = bits @ weight[:, tasks:].T + bias
    found = np.empty(tasks)
    for subtask, label in enumerate(labels):
        hidden = np.maximum(common + weight[:, subtask], 0)
        output = hidden @ parameters["output"]["weight"] + parameters["output"]["bias"]
        found[subtask] = np.logaddexp(0, -output * label, dtype=np.float64).mean()
    return np.asarray(found / math.log(2))


class GradientClusters(MultitaskProbe):
    """Quanta discovered from gradients: examples clustered by the angles between their gradients of the loss.

    The clusters are compared with the true subtasks by the adjusted Rand index: 1 if they are the same, about 0 for
    clusters that know nothing. Examples are the same number of each of the most frequent subtasks; there are as many
    clusters as subtasks. Gradients leave out the weights of control bits unless stated, since these alone give a
    subtask away: they are 0 except in the column of its own control bit.

    Source: Michaud et al. (2023), section 5, by spectral clustering with the affinity 1 - angle / pi. Labels change
    the sign of a gradient, and so turn one subtask into two opposite clusters; we added the affinity ``unsigned``.

    Args:
        subtasks: how many of the most frequent subtasks there are examples of, at least 2.
        examples: the number of examples of each.
        every: how many steps lie between two measurements.
    """

    subtasks: Annotated[int, Field(ge=2, le=1000)] = 10
    examples: Annotated[int, Field(ge=2, le=1000)] = 40

    def check(self, task: Task, model: Model) -> None:
        super().check(task, model)
        assert isinstance(task, MultitaskParity)
        if self.subtasks > task.tasks:
            raise ValueError(f"subtasks must be at most tasks: subtasks={self.subtasks}, tasks={task.tasks}")

    def measure(self, snapshot: Snapshot) -> dict[str, float | np.ndarray]:
        """Return adjusted Rand indices by affinity, and the share of the subtasks that are ``learned``.

        Affinities: ``angular``, 1 - angle / pi between gradients; ``unsigned``, the size of their cosine; ``whole``,
        the same with the weights of control bits; ``active``, angular by which neurons are active instead of
        gradients; ``inputs``, angular by data bits as signs. ``labelled`` compares twice as many clusters by
        ``angular`` with the pairs of subtask and label.
        """
        task = snapshot.task
        assert isinstance(task, MultitaskParity)
        x, labels = snapshot.remember("multitask examples", lambda: self._examples(snapshot, task))
        subtask = np.repeat(np.arange(self.subtasks), self.examples)
        parts = gradient_products(snapshot.parameters, x, labels, task.tasks)
        signs = 1 - 2 * x[:, task.tasks :]
        angles = angular(cosines(parts["shared"]))
        affinities = {
            "angular": angles,
            "unsigned": np.abs(cosines(parts["shared"])),
            "whole": np.abs(cosines(parts["shared"] + parts["control"])),
            "active": angular(cosines(parts["active"])),
            "inputs": angular(cosines(signs @ signs.T)),
        }
        found: dict[str, float | np.ndarray] = {
            name: adjusted_rand(affinity, subtask) for name, affinity in affinities.items()
        }
        found["labelled"] = adjusted_rand(angles, 2 * subtask + (labels > 0))
        losses = np.logaddexp(0, -parts["margin"]).reshape(self.subtasks, self.examples).mean(axis=1) / math.log(2)
        return {**found, "learned": float((losses <= 0.5).mean())}

    def _examples(self, snapshot: Snapshot, task: MultitaskParity) -> tuple[np.ndarray, np.ndarray]:
        count = self.subtasks * self.examples
        signs = random.rademacher(snapshot.key("test"), np.arange(count, dtype=np.uint32), task.n)
        subtask = np.repeat(np.arange(self.subtasks), self.examples)
        control = (subtask[:, None] == np.arange(task.tasks)).astype(np.float32)
        labels = np.take_along_axis(signs, snapshot.hidden["supports"][subtask], axis=1).prod(axis=1)
        return np.concatenate([control, (1 - signs) / 2], axis=1), labels


def gradient_products(
    parameters: Any, x: Float32[np.ndarray, "count inputs"], labels: Float32[np.ndarray, " count"], tasks: int
) -> dict[str, Float64[np.ndarray, "..."]]:
    """Return the products of the gradients of the logistic loss at every two examples, exactly.

    Args:
        parameters: of a two-layer ReLU network.
        x: control and data bits.
        labels: -1 or 1.
        tasks: the number of control bits.

    Returns:
        ``control`` (count, count), the part of the weights of control bits; ``shared``, the part of all other
        parameters; ``active``, the products of the neurons' patterns of activity; ``margin`` (count,), labels times
        outputs.
    """
    weight, output = (np.asarray(parameters[layer]["weight"], float) for layer in ("hidden", "output"))
    sums = x @ weight.T + parameters["hidden"]["bias"]
    active = (sums > 0).astype(float)
    hidden = sums * active
    margin = labels * (hidden @ output + parameters["output"]["bias"])
    slope = -labels / (1 + np.exp(np.minimum(margin, 700.0)))
    signs = np.outer(slope, slope)
    through = signs * ((active * output**2) @ active.T)
    control, bits = x[:, :tasks], x[:, tasks:]
    shared = through * (bits @ bits.T + 1) + signs * (hidden @ hidden.T + 1)
    return {
        "control": through * (control @ control.T),
        "shared": shared,
        "active": active @ active.T + 1,
        "margin": margin,
    }


def cosines(products: Float64[np.ndarray, "count count"]) -> Float64[np.ndarray, "count count"]:
    """Return the cosine of the angle between every two vectors, given their products; 0 if one of them is 0."""
    norms = np.sqrt(np.diag(products))
    scale = np.outer(norms, norms)
    found = np.divide(products, scale, out=np.zeros(scale.shape), where=scale > 0)
    return np.asarray(np.clip(found, -1, 1))


def angular(cosine: Float64[np.ndarray, "*shape"]) -> Float64[np.ndarray, "*shape"]:
    """Return 1 - angle / pi, from 0 for opposite vectors to 1 for parallel ones."""
    return np.asarray(1 - np.arccos(cosine) / math.pi)


def adjusted_rand(affinity: Float64[np.ndarray, "count count"], truth: np.ndarray) -> float:
    """Return how well spectral clusters of an affinity agree with the truth, which has as many clusters.

    Source: Hubert and Arabie, "Comparing partitions" (1985).
    """
    from sklearn.cluster import SpectralClustering
    from sklearn.metrics import adjusted_rand_score

    clusters = SpectralClustering(len(np.unique(truth)), affinity="precomputed", random_state=0)
    return float(adjusted_rand_score(truth, clusters.fit_predict(affinity)))
