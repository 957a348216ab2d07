"""How times to solve are spread: beside searches without memory, and by the initial values of the network."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, logarithmic, quiet, short

NEEDED = (
    "part",
    "network",
    "task.n",
    "task.k",
    "above",
    "until",
    "count",
    "memoryless",
    "random_search",
    "init",
    "steps",
)
COLUMNS = 2


def luck_of_times(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw the histogram of times to solve of each network, and of networks with common initial values each time.

    Args:
        table: bins and trials, as the experiment ``not-random-search`` makes them.
        axes: the axes to draw on, one a panel: histograms, then initial values; a new figure by default.

    Returns:
        The axes, one a panel.

    Raises:
        ExperimentError: a column is missing, or there are fewer axes than panels.

    Source: thesis, figure 5.2 (left and centre).
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"times must have a column {name!r}: {', '.join(map(str, table))}")
    panels = [rows for _, rows in table.groupby(["part", "network", "task.n", "task.k"], sort=False)]
    panels.sort(key=lambda rows: rows["part"].iloc[0] != "luck")
    drawn = _figure(len(panels)) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) < len(panels):
        raise ExperimentError(f"axes must be at least as many as panels: axes={len(drawn)}, panels={len(panels)}")
    for ax, rows in zip(drawn, panels, strict=False):
        (_histogram if rows["part"].iloc[0] == "luck" else _inits)(ax, rows)
        first = rows.iloc[0]
        ax.set_title(f"{first['network']}, n = {first['task.n']}, k = {first['task.k']}", loc="left", fontsize=MEDIUM)
        quiet(ax)
    for ax in drawn[len(panels) :]:
        ax.set_axis_off()
    return drawn[: len(panels)]


def _histogram(ax: Axes, rows: pd.DataFrame) -> None:
    left, right = rows["above"].to_numpy(float), rows["until"].to_numpy(float)
    trials, first = int(rows["trials"].iloc[0]), rows.iloc[0]
    ax.bar(left, rows["count"], right - left, align="edge", color=COLOURS[0], alpha=0.75, label=f"{trials:,} trials")
    middle = (left + right) / 2
    laws = {"random_search": "random search, p = 1/C(n, k)", "memoryless": "no memory, same median"}
    for (name, label), style in zip(laws.items(), ("--", ":"), strict=True):
        ax.plot(middle, rows[name], color=COLOURS[1], linewidth=1.2, linestyle=style, label=label)
    cumulative = np.cumsum(rows["count"].to_numpy())
    last = right[min(np.searchsorted(cumulative, 0.998 * cumulative[-1]), len(right) - 1)]
    ax.set_xlim(0, last)
    label = f"fastest trial: {first['fastest']:.0f}"
    ax.axvline(first["fastest"], color=GREY, linewidth=0.8, label=label)
    ax.set_xlabel("steps to solve", fontsize=MEDIUM)
    ax.set_ylabel("trials", fontsize=MEDIUM)
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    ax.legend(fontsize=SMALL, frameon=False, loc="upper right")


def _inits(ax: Axes, rows: pd.DataFrame) -> None:
    middles = rows.assign(steps=rows["steps"].fillna(np.inf)).groupby("init")["steps"].median().sort_values()
    place = {init: order for order, init in enumerate(middles.index)}
    x = rows["init"].map(place)
    ax.plot(x, rows["steps"], "o", color=COLOURS[0], markersize=2.2, alpha=0.5, markeredgewidth=0)
    ax.plot(range(len(middles)), middles, "_", color=COLOURS[1], markersize=6, markeredgewidth=1.2, label="median")
    logarithmic(ax)
    ax.set_xticks([])
    ax.set_xlabel("initial values, from fastest to slowest", fontsize=MEDIUM)
    ax.set_ylabel("steps to solve", fontsize=MEDIUM)
    ax.legend(fontsize=SMALL, frameon=False, loc="upper left")


def _figure(panels: int) -> np.ndarray:
    rows = -(-panels // COLUMNS)
    figure = Figure(figsize=(7.0, 2.2 * rows + 0.5), layout="constrained")
    note = (
        "Above: a new network and new data each trial. Below: each column is one network's initial values, each dot "
        "one stream of examples."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    return drawn
