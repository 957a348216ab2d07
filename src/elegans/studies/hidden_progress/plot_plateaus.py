"""How much of the way to a solution an error stays at chance."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import GREY, LARGE, MEDIUM, SMALL, quiet, shades

NEEDED = ("network", "model.width", "training.batch_size", "seed", "step", "error", "ends", "plateau")
NAMES = {"z^k": "$z^k$", "relu": "ReLU"}


def plateaus(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw test errors against the share of the time to an error of 5%, a panel a network, a colour a batch size.

    Args:
        table: a row a trial and measured step, as the experiment ``no-plateau`` makes it.
        axes: the axes to draw on, one a panel; a new figure by default.

    Returns:
        The axes, one a panel.

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than panels.

    Source: thesis, figure B.13, with time in units of each trial's own.
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"plateaus must have a column {name!r}: {', '.join(map(str, table))}")
    groups = [rows for _, rows in table.groupby(["network", "model.width"], sort=False)]
    drawn = _figure(table, len(groups)) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != len(groups):
        raise ExperimentError(f"axes must be as many as panels: axes={len(drawn)}, panels={len(groups)}")
    sizes = sorted(table["training.batch_size"].unique())
    colours = dict(zip(sizes, shades(len(sizes)), strict=True))
    for ax, rows in zip(drawn, groups, strict=True):
        _draw(ax, rows, colours)
    drawn[0].set_ylabel("test error", fontsize=MEDIUM)
    drawn[0].legend(fontsize=SMALL, frameon=False, loc="lower left", title="batch size", title_fontsize=SMALL)
    return drawn


def _draw(ax: Axes, rows: pd.DataFrame, colours: dict[Any, Any]) -> None:
    for size, cell in rows.groupby("training.batch_size"):
        for order, (_, network) in enumerate(cell.dropna(subset=["ends"]).groupby("seed")):
            share = network["step"] / network["ends"]
            ax.plot(share, network["error"], color=colours[size], linewidth=0.7, label="" if order else f"{size}")
    ax.axhline(0.45, color=GREY, linewidth=0.6, linestyle=":")
    first = rows.iloc[0]
    ax.set_title(f"{NAMES[first['network']]}, width {first['model.width']:,}", loc="left", fontsize=SMALL)
    ax.set(xlim=(0, 1.05), ylim=(0, 0.53))
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    quiet(ax)


def _figure(table: pd.DataFrame, panels: int) -> np.ndarray:
    figure = Figure(figsize=(max(1.55 * panels + 0.4, 5.2), 2.5), layout="constrained")
    first = table.iloc[0]
    task = f"sparse parity, n = {first['task.n']}, k = {first['task.k']}"
    figure.suptitle(f"How long the error stays at chance: {task}", fontsize=LARGE, fontweight="bold")
    note = "Steps as a share of those to a test error of 5%. Dotted: 45%, where the plateau ends."
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
    return drawn
