"""The robust space as tables: configurations against batch sizes, one panel a statement."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import GREY, MEDIUM, RATES, SMALL, ink, quiet, short

NEEDED = (
    "network",
    "task.n",
    "task.k",
    "training.batch_size",
    "model.init",
    "training.loss",
    "tenth",
    "rate",
    "trials",
    "alpha",
    "best",
    "holds",
)


def robust_space(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw four tables, a row a network and a column a k and batch size, each cell at its best learning rate.

    The 10th percentile of the time to solve at the largest n, the share of trials solved there, and the coarse
    exponent, all three with hinge loss and uniform initialisation; and the share of all losses, initialisations and n
    with which the criterion holds (at least a fifth of the trials solved), with a frame where it is not all.

    Args:
        table: a row a cell and learning rate, as the experiment ``robust-space`` makes it.
        axes: four axes; a new figure by default.

    Returns:
        The four axes.

    Raises:
        ExperimentError: a column is missing, or there are not four axes.

    Source: thesis, figures B.3, B.4 and B.5.
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"the robust space must have a column {name!r}: {', '.join(map(str, table))}")
    cells = table[table["best"]]
    networks = list(cells["network"].drop_duplicates())
    drawn = _figure(cells, len(networks)) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != 4:
        raise ExperimentError(f"axes must be four: axes={len(drawn)}")
    largest = cells["task.n"].max()
    plain = cells[(cells["training.loss"] == "hinge") & (cells["model.init"] == "dense") & (cells["task.n"] == largest)]
    times = _matrix(plain, "tenth", networks)
    alphas = _matrix(plain, "alpha", networks)
    known = times.to_numpy(float)[np.isfinite(times.to_numpy(float))]
    scale = LogNorm(known.min(), max(known.max(), known.min() * 2)) if len(known) else Normalize(0, 1)
    steepest = float(np.nanmax(alphas.to_numpy(float))) if alphas.notna().any(axis=None) else 1.0
    _draw(drawn[0], times, scale, short_steps, f"steps, 10th percentile, n = {largest}")
    _draw(drawn[1], _matrix(plain, "rate", networks), Normalize(0, 1), percent, f"trials solved (%), n = {largest}")
    _draw(drawn[2], alphas, Normalize(0, max(steepest, 0.1)), lambda value: f"{value:.1f}", "coarse exponent")
    held = _matrix(cells, "holds", networks)
    _draw(drawn[3], held, Normalize(0, 1), percent, "cells that hold (%)")
    for row, column in np.argwhere(held.to_numpy(float) < 1):
        drawn[3].add_patch(_frame(row, column))
    for ax in drawn[1:]:
        ax.tick_params(labelleft=False)
    return drawn


def short_steps(value: float) -> str:
    """Return a number of steps with two digits."""
    return short(float(f"{value:.2g}"))


def percent(value: float) -> str:
    """Return a share as a whole percentage."""
    return f"{100 * value:.0f}"


def _matrix(cells: pd.DataFrame, value: str, networks: list[str]) -> pd.DataFrame:
    """Return the means of a column, a row a network and a column a k and batch size."""
    numbers = cells.assign(value=cells[value].astype(float))
    columns = ["task.k", "training.batch_size"]
    return numbers.pivot_table("value", "network", columns, dropna=False).reindex(networks)


def _draw(ax: Axes, matrix: pd.DataFrame, scale: Normalize, text: Any, title: str) -> None:
    values = matrix.to_numpy(float)
    ax.imshow(np.ma.masked_invalid(values), cmap=RATES, norm=scale, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        colour = ink(RATES(scale(value))) if np.isfinite(value) else GREY
        shown = text(value) if np.isfinite(value) else "-"
        ax.text(column, row, shown, fontsize=SMALL - 1.3, color=colour, ha="center", va="center")
    ax.set_title(title, fontsize=MEDIUM - 0.5, loc="left")
    ax.set_yticks(range(len(matrix)), list(matrix.index))
    degrees, batches = ([str(column[part]) for column in list(matrix.columns)] for part in (0, 1))
    ax.set_xticks(range(len(batches)), batches, rotation=90 if max(map(len, batches)) > 3 else 0)
    for k in dict.fromkeys(degrees):
        places = [place for place, own in enumerate(degrees) if own == k]
        ax.text(sum(places) / len(places), len(matrix) + 0.55, f"k = {k}", fontsize=SMALL, ha="center", va="top")
        if places[0]:
            ax.axvline(places[0] - 0.5, color="white", linewidth=2)
    quiet(ax)
    ax.tick_params(labelsize=SMALL - 0.5, length=0)
    ax.spines[:].set_visible(False)


def _frame(row: int, column: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor="#D55E00", linewidth=1.1)


def _figure(cells: pd.DataFrame, networks: int) -> np.ndarray:
    columns = len(cells[["task.k", "training.batch_size"]].drop_duplicates())
    figure = Figure(figsize=(2.4 + 4 * max(0.3 + 0.26 * columns, 1.4), 0.9 + 0.2 * networks), layout="constrained")
    trials = int(cells["trials"].max())
    note = (
        f"Columns: batch sizes, by k. {trials} trials a cell and learning rate; the best learning rate of each cell. "
        "First three tables: hinge loss, uniform initialisation.\nLast: percentage of cells in which at least a fifth "
        "of the trials are solved; framed where not all."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(1, 4, sharey=True)
    return drawn
