"""Feature importances of an estimator."""

from contextlib import suppress
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError, printable, shown
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, despine


def feature_importances(estimator: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """Draw an estimator's feature importances as bars, the largest at the top, and its members' importances as points.

    Args:
        estimator: any fitted estimator with ``feature_importances_``; points need ``member_importances_`` of more than
            one member, as in ``SparseMLPClassifier`` and ``SparseMLPRegressor``.
        ax: the axes to draw on; a new figure's by default.
        most: the largest number of features to draw; the y axis states how many there are.
    """
    kind = getattr(estimator, "__name__", type(estimator).__name__)
    values = None if isinstance(estimator, type) else getattr(estimator, "feature_importances_", None)
    if values is None:
        raise ExperimentError(f"feature_importances takes a fitted estimator that has feature_importances_: got {kind}")
    values = _finite(values, "feature_importances_", kind)
    if values.ndim != 1 or not len(values):
        raise ExperimentError(f"feature_importances_ must have one entry per feature: {kind}'s shape is {values.shape}")
    if most < 1:
        raise ExperimentError(f"most must be at least 1: most={most}")
    order = np.argsort(-values, kind="stable")[:most]
    numbered = [f"feature {index}" for index in range(len(values))]
    names = np.ravel(np.asarray(getattr(estimator, "feature_names_in_", numbered), object)).tolist()
    members = _finite(getattr(estimator, "member_importances_", values[None]), "member_importances_", kind)
    if len(names) != len(values) or members.shape[1:] != values.shape:
        raise ExperimentError(
            f"names and importances must have the same features: {kind} has {len(names)} names, {len(values)} "
            f"importances, and its members have importances of shape {members.shape}"
        )
    if ax is None:
        ax = Figure(figsize=(5, 0.7 + 0.17 * len(order)), layout="constrained").subplots()
    y = np.arange(len(order))
    ax.barh(y, values[order], color=COLOURS[0], height=0.7)
    if len(members) > 1:
        ax.plot(members[:, order].T, y, linestyle="none", marker="o", markersize=2, color=GREY, zorder=3)
    ax.set_yticks(y, [shown(printable(str(names[feature])), str) for feature in order], parse_math=False)
    ax.invert_yaxis()
    if values.min() >= 0:
        ax.set_xlim(left=0)
    ax.set_xlabel("importance", fontsize=MEDIUM)
    if len(order) < len(values):
        ax.set_ylabel(f"{len(order)} of {len(values)} features", fontsize=MEDIUM)
    despine(ax)
    ax.tick_params(axis="y", labelsize=SMALL)
    return ax


def _finite(values: Any, name: str, kind: str) -> np.ndarray:
    with suppress(TypeError, ValueError):
        array = np.asarray(values)
        if array.dtype.kind in "iuf" and array.ndim > 0 and np.isfinite(array).all():
            return array
    raise ExperimentError(f"{name} must be an array of finite numbers: {kind} has {shown(values)}")
