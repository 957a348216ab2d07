"""What kinds of network come to, against steps: how wrong they are, and how many have solved."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, quiet, short

DASHES = ("-", "-", (0, (3, 2)), "-", "-", "-")
"""The third kind is dashed: it may lie on the second."""
NEEDED = ("arm", "step", "error", "error_10", "error_90", "solved", "low", "high")


def learned_by(table: pd.DataFrame, names: Mapping[str, str], axes: Any = None) -> np.ndarray:
    """Draw the error and the share of networks that had solved, against steps, one colour for each kind of network.

    Args:
        table: a row a kind (``arm``) and step, as the experiment ``lottery-tickets`` makes it.
        names: the kinds in words, in the order of the legend.
        axes: two axes; a new figure by default.

    Returns:
        The two axes: the median error with the 10th to 90th percentile of networks, and the share solved with its 95%
        interval.

    Raises:
        ExperimentError: a column is missing, or there are not two axes.

    Source: Pareto frontiers, figure 5.
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"tickets must have a column {name!r}: {', '.join(map(str, table))}")
    drawn = _figure() if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != 2:
        raise ExperimentError(f"axes must be two: axes={len(drawn)}")
    for (arm, name), colour, dashes in zip(names.items(), COLOURS, DASHES, strict=False):
        rows = table[table["arm"] == arm]
        for ax, middle, low, high in ((drawn[0], "error", "error_10", "error_90"), (drawn[1], "solved", "low", "high")):
            ax.fill_between(rows["step"], rows[low], rows[high], color=colour, alpha=0.15, linewidth=0)
            ax.plot(rows["step"], rows[middle], color=colour, linewidth=1.4, linestyle=dashes, label=name)
    for ax, label in zip(drawn, ("error on new examples", "networks solved"), strict=True):
        ax.set_xlabel("steps", fontsize=MEDIUM)
        ax.set_ylabel(label, fontsize=MEDIUM)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda value, _: short(value))
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
        quiet(ax)
    if axes is None:
        handles, labels = drawn[0].get_legend_handles_labels()
        drawn[0].figure.legend(handles, labels, fontsize=SMALL, frameon=False, loc="outside upper center", ncols=3)
    drawn[0].set_ylim(-0.02, 0.55)
    drawn[1].set_ylim(-0.03, 1.03)
    return drawn


def _figure() -> np.ndarray:
    figure = Figure(figsize=(7.0, 3.3), layout="constrained")
    drawn: np.ndarray = figure.subplots(1, 2)
    note = (
        "Left: medians, 10th to 90th percentiles of networks. Right: Wilson 95% intervals, for as many trials as "
        "there are independent networks.\nThe error of a network that stops when it is solved stays at its last value."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    return drawn
