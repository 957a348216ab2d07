"""How often cells of a plane of sizes are solved, one panel a network."""

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from elegans.errors import ExperimentError
from elegans.plots.style import GREY, LARGE, MEDIUM, RATES, SMALL, ink, name_of, quiet, short

NEEDED = ("rate", "solved", "trials", "median_steps")


def success_grid(table: pd.DataFrame, *, panel: str, x: str, y: str, axes: Any = None) -> np.ndarray:
    """Draw how many trials of each cell were solved, as colours and numbers, and the median time to solve.

    Args:
        table: a row a cell, with ``rate``, ``solved``, ``trials`` and ``median_steps`` (NaN where it is not finite).
        panel: the column whose values are the panels, in the order of the table.
        x: the column along the horizontal axis; its values have one place each.
        y: the column along the vertical axis.
        axes: the axes to draw on, one a panel; a new figure by default.

    Returns:
        The axes, one a panel.

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than panels.
    """
    for name in (panel, x, y, *NEEDED):
        if name not in table:
            raise ExperimentError(f"a success grid must have a column {name!r}: {', '.join(map(str, table))}")
    groups = [rows for _, rows in table.groupby(panel, sort=False)]
    places = [(sorted(rows[x].unique()), sorted(rows[y].unique())) for rows in groups]
    drawn = _figure(table, places, panel) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != len(groups):
        raise ExperimentError(f"axes must be as many as panels: axes={len(drawn)}, panels={len(groups)}")
    for ax, rows, (columns, lines) in zip(drawn, groups, places, strict=True):
        for _, cell in rows.iterrows():
            _cell(ax, columns.index(cell[x]), lines.index(cell[y]), cell)
        ax.set(xlim=(-0.5, len(columns) - 0.5), ylim=(-0.5, len(lines) - 0.5))
        ax.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
        ax.set_yticks(range(len(lines)), [f"{value:g}" for value in lines])
        ax.set_xlabel(name_of(x, "").partition(" =")[0], fontsize=MEDIUM)
        ax.set_ylabel(name_of(y, "").partition(" =")[0], fontsize=MEDIUM)
        title = textwrap.fill(str(rows[panel].iloc[0]), 12 * len(columns))
        ax.set_title(title, loc="left", fontsize=SMALL)
        quiet(ax)
    return drawn


def _cell(ax: Axes, column: int, line: int, cell: pd.Series) -> None:
    colour = RATES(float(cell["rate"]))
    ax.add_patch(Rectangle((column - 0.48, line - 0.46), 0.96, 0.92, facecolor=colour))
    count = f"{cell['solved']:.0f}/{cell['trials']:.0f}"
    middle = float(f"{cell['median_steps']:.3g}")
    steps = f"\n{short(middle)}" if np.isfinite(middle) else ""
    ax.text(column, line, count + steps, ha="center", va="center", fontsize=SMALL, color=ink(colour))


def _figure(table: pd.DataFrame, places: list[tuple[list[Any], list[Any]]], panel: str) -> np.ndarray:
    columns, rows = [len(found) for found, _ in places], max(len(lines) for _, lines in places)
    figure = Figure(
        figsize=(max(0.52 * sum(columns) + 0.75 * len(places), 4.5), 0.52 * rows + 1.25), layout="constrained"
    )
    figure.suptitle(f"Solved trials, by {panel}", fontsize=LARGE, fontweight="bold")
    note = "Trials solved of those trained, and below them the median number of steps to solve, where it is finite."
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    grid = figure.add_gridspec(rows, len(places), width_ratios=columns)
    drawn = [figure.add_subplot(grid[rows - len(lines) :, place]) for place, (_, lines) in enumerate(places)]
    return np.array(drawn, object)
