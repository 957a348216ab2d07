"""How single networks learn: errors on the sample and on held-out examples, against steps."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, name_of, percent, quiet, short


def error_lines(ax: Axes, cell: pd.DataFrame, colour: str, solved: float) -> None:
    """Draw the train (grey) and the test error of a cell's networks, and the error at which a task counts as solved."""
    for order, (_, network) in enumerate(cell.groupby("seed")):
        after = network[network["step"] > 0]
        for name, shade, label in (("train", "0.55", "on the sample"), ("test", colour, "held out")):
            error = after[f"{name}_error"]
            ax.plot(after["step"], error, color=shade, linewidth=0.75, label="" if order else label)
    ax.axhline(solved, color=GREY, linewidth=0.6, linestyle=":")
    ax.set_xscale("log")
    ax.set_ylim(-0.02, 0.6)
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    percent(ax)
    quiet(ax)


def error_grid(table: pd.DataFrame, *, row: str, column: str, solved: float, axes: Any = None) -> np.ndarray:
    """Draw the train (grey) and the test error (coloured) of every network against steps, one panel a pair of values.

    Args:
        table: a row a trial and measured step, as the experiment ``grokking`` makes it.
        row: the column whose values are the rows, in increasing order.
        column: the column whose values are the columns, in decreasing order.
        solved: the test error at which a task counts as solved: a dotted line, and the count in each panel.
        axes: the axes to draw on, in reading order; a new figure by default.

    Returns:
        The axes, of shape (rows, columns).

    Source: thesis, figures 5.4 (right) and B.11.
    """
    for name in (row, column, "seed", "step", "train_error", "test_error", "train_at", "test_at"):
        if name not in table:
            raise ExperimentError(f"error curves must have a column {name!r}: {', '.join(map(str, table))}")
    rows, columns = sorted(table[row].unique()), sorted(table[column].unique(), reverse=True)
    drawn = _grid(len(rows), len(columns), table, solved) if axes is None else np.asarray(axes, object).reshape(-1)
    if drawn.size != len(rows) * len(columns):
        raise ExperimentError(f"axes must be as many as panels: axes={drawn.size}, panels={len(rows) * len(columns)}")
    drawn = drawn.reshape(len(rows), len(columns))
    for (down, across), ax in np.ndenumerate(drawn):
        cell = table[(table[row] == rows[down]) & (table[column] == columns[across])]
        error_lines(ax, cell, COLOURS[0], solved)
        last = cell.groupby("seed").last()
        count = f"{last['test_at'].notna().sum()}/{len(last)}"
        ax.text(0.03, 0.06, count, transform=ax.transAxes, fontsize=SMALL, color=GREY)
    for ax, value in zip(drawn[0], columns, strict=True):
        ax.set_title(f"m = {value:,.0f}", loc="left", fontsize=MEDIUM)
    for ax, value in zip(drawn[:, 0], rows, strict=True):
        ax.set_ylabel(f"{name_of(row, value)}\nerror", fontsize=SMALL)
    for ax in drawn[-1]:
        ax.set_xlabel("steps", fontsize=MEDIUM)
    drawn[0, -1].legend(fontsize=SMALL, frameon=False, loc="center right")
    return drawn


def _grid(rows: int, columns: int, table: pd.DataFrame, solved: float) -> np.ndarray:
    figure = Figure(figsize=(max(1.35 * columns + 0.5, 4.5), 1.15 * rows + 0.6), layout="constrained")
    networks = table.groupby([name for name in table if str(name).partition(".")[0] in ("regime", "training")])
    note = (
        f"{networks['seed'].nunique().min()} networks per panel. Numbers: how many reached a test error of "
        f"{100 * solved:g}% (dotted)."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    return drawn
