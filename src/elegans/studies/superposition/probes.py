"""Geometry of features: norms, dimensionalities, and the nearest polygon."""

import numpy as np

from elegans.models import Model
from elegans.probes import Probe, Snapshot
from elegans.studies.superposition.models import TiedAutoencoder
from elegans.studies.superposition.theory.features import feature_dimensionality, mean_dimensionality
from elegans.studies.superposition.theory.polygons import one_hot_loss
from elegans.tasks import Task

REPRESENTED = 0.5
"""The norm above which a feature counts as represented."""


class FeatureGeometry(Probe):
    """The norm and the dimensionality of each feature of a tied autoencoder."""

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(model, TiedAutoencoder):
            raise ValueError(f"{self.kind} needs a tied autoencoder: {model.kind}")

    def measure(self, snapshot: Snapshot) -> dict[str, float | np.ndarray]:
        """Return ``norm`` and ``dimensionality`` (n,), ``mean_dimensionality``, and how many are ``represented``."""
        weight = np.asarray(snapshot.parameters["weight"], float)
        norm = np.linalg.norm(weight, axis=0)
        return {
            "norm": norm,
            "dimensionality": feature_dimensionality(weight),
            "mean_dimensionality": mean_dimensionality(weight),
            "represented": float((norm > REPRESENTED).sum()),
        }


class NearestPolygon(Probe):
    """Which polygon the columns of a tied autoencoder of two neurons form: its corners, and the others' biases."""

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(model, TiedAutoencoder) or model.hidden != 2:
            raise ValueError(f"{self.kind} needs a tied autoencoder of two neurons: {model.kind}")

    def measure(self, snapshot: Snapshot) -> dict[str, float]:
        """Return ``corners``, ``dead`` and ``distance``, as ``nearest_polygon`` gives them, and the exact ``loss``."""
        weight, bias = (np.asarray(snapshot.parameters[name], float) for name in ("weight", "bias"))
        corners, dead, distance = nearest_polygon(weight, bias)
        return {
            "corners": float(corners),
            "dead": float(dead),
            "distance": distance,
            "loss": float(one_hot_loss(weight, bias)),
        }


def nearest_polygon(weight: np.ndarray, bias: np.ndarray) -> tuple[int, int, float]:
    """Return the number of represented columns, how many others have a negative bias, and how irregular they are.

    The distance is the root mean square difference of the represented columns from a regular polygon of their mean
    length, after the best rotation.
    """
    norms = np.linalg.norm(weight, axis=0)
    is_corner = norms > REPRESENTED
    corners, dead = int(is_corner.sum()), int((bias[~is_corner] < 0).sum())
    if not corners:
        return 0, dead, 0.0
    columns = weight[0, is_corner] + 1j * weight[1, is_corner]
    columns = columns[np.argsort(np.angle(columns))]
    regular = norms[is_corner].mean() * np.exp(2j * np.pi * np.arange(corners) / corners)
    overlap = np.vdot(regular, columns)
    turned = regular * overlap / abs(overlap) if abs(overlap) > 0 else regular
    return corners, dead, float(np.sqrt((abs(columns - turned) ** 2).mean()))
