"""How often one gradient names the support, against the examples that it is taken on."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, LARGE, MEDIUM, SMALL, quiet

NEEDED = ("task.n", "task.k", "regime.size", "share", "bound", "rate", "low", "high", "trials")


def recovery_curves(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the rate of success against the batch in units of the bound, a curve a parity, with Wilson 95% bands.

    Args:
        table: a row a cell, as the experiment ``one-step-recovery`` makes it.
        ax: the axes to draw on; a new figure's by default.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing.

    Source: thesis, chapter 5, Proposition B.7.
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"recovery curves must have a column {name!r}: {', '.join(map(str, table))}")
    if ax is None:
        figure = Figure(figsize=(4.6, 3.1), layout="constrained")
        figure.supxlabel(
            f"{table['trials'].max()} trials a point. Bands: Wilson 95% intervals.", fontsize=SMALL, color=GREY
        )
        ax = figure.subplots()
    groups = table.groupby(["task.n", "task.k"], sort=False)
    for colour, ((n, k), rows) in zip(COLOURS, groups, strict=False):
        x = rows["share"].to_numpy(float)
        label = f"n = {n}, k = {k}: bound of {rows['bound'].iloc[0]:,.0f} examples"
        ax.fill_between(x, rows["low"], rows["high"], color=colour, alpha=0.16, linewidth=0)
        ax.plot(x, rows["rate"], color=colour, linewidth=1.3, marker="o", markersize=2.5, label=label)
    ax.axvline(1, color=GREY, linewidth=0.8, linestyle="--")
    ax.annotate("proved: 95%", (1, 0.03), xytext=(-3, 0), textcoords="offset points", ha="right", fontsize=SMALL)
    ax.set_xscale("log", base=2)
    ticks = 2.0 ** np.arange(-6, 1)
    ax.set_xticks(ticks, ["1" if tick == 1 else f"1/{1 / tick:.0f}" for tick in ticks])
    ax.set_xlim(right=1.15)
    ax.set_ylim(-0.03, 1.03)
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    ax.set_xlabel("examples, in units of Hoeffding's bound", fontsize=MEDIUM)
    ax.set_ylabel("support named", fontsize=MEDIUM)
    ax.set_title("One gradient of one neuron, all weights 1", loc="left", fontsize=LARGE)
    ax.legend(fontsize=SMALL, frameon=False, loc="lower right", bbox_to_anchor=(0.99, 0.12))
    quiet(ax)
    return ax
