"""How single networks learn, one panel a cell."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, LARGE, MEDIUM, SMALL, name_of, quiet, short

NEEDED = ("model.init", "model.width", "regime.size", "seed", "step", "train_error", "test_error")


def error_curves(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw the train (grey) and the test error (coloured) of every network against steps, one panel a cell.

    A row of panels for each initialisation. Steps are on a logarithmic scale, which begins at the first measurement
    after training began.

    Args:
        table: a row a trial and measured step, as the experiment ``training-curves`` makes it.
        axes: the axes to draw on, in reading order; a new figure by default.

    Returns:
        The axes, of shape (initialisations, cells).

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than places for panels.

    Source: Pareto frontiers, figure 1 (right).
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"error curves must have a column {name!r}: {', '.join(map(str, table))}")
    rows = [_panels(table, init) for init in sorted(table["model.init"].unique())]
    columns = max(len(panels) for panels in rows)
    drawn = _figure(len(rows), columns, table) if axes is None else np.asarray(axes, object).reshape(-1)
    if drawn.size != len(rows) * columns:
        raise ExperimentError(f"axes must be as many as panels: axes={drawn.size}, panels={len(rows) * columns}")
    drawn = drawn.reshape(len(rows), columns)
    for row, panels in zip(drawn, rows, strict=True):
        for place, ax in enumerate(row):
            if place >= len(panels):
                ax.set_axis_off()
                continue
            _draw(ax, panels[place])
        init = name_of("model.init", panels[0]["model.init"].iloc[0]).partition(" (")[0]
        row[0].set_ylabel(f"{init}\nerror", fontsize=MEDIUM)
    for ax in drawn[-1]:
        ax.set_xlabel("steps", fontsize=MEDIUM)
    drawn[0, 0].legend(fontsize=SMALL, frameon=False, loc="center right")
    return drawn


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

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than pairs.

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
        _lines(ax, cell, COLOURS[0], solved)
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


def _panels(table: pd.DataFrame, init: str) -> list[pd.DataFrame]:
    """Return the cells of an initialisation, in the order in which the table has them."""
    mine = table[table["model.init"] == init]
    return [cell for _, cell in mine.groupby(["model.width", "regime.size"], sort=False)]


def _draw(ax: Axes, cell: pd.DataFrame) -> None:
    _lines(ax, cell, COLOURS[0] if cell["model.init"].iloc[0] == "dense" else COLOURS[1], 0.1)
    first = cell.iloc[0]
    ax.set_title(f"{first['regime.size']:,.0f} examples, width {first['model.width']:,}", loc="left", fontsize=SMALL)


def _lines(ax: Axes, cell: pd.DataFrame, colour: str, solved: float) -> None:
    for order, (_, network) in enumerate(cell.groupby("seed")):
        seen = network[network["step"] > 0]
        ax.plot(seen["step"], seen["train_error"], color="0.55", linewidth=0.7, label="" if order else "on the sample")
        ax.plot(seen["step"], seen["test_error"], color=colour, linewidth=0.8, label="" if order else "held out")
    ax.axhline(solved, color=GREY, linewidth=0.6, linestyle=":")
    ax.set_xscale("log")
    ax.set_ylim(-0.02, 0.6)
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    quiet(ax)


def _figure(rows: int, columns: int, table: pd.DataFrame) -> np.ndarray:
    figure = Figure(figsize=(max(1.85 * columns + 0.3, 4.5), 1.75 * rows + 0.75), layout="constrained")
    first = table.iloc[0]
    task = f"sparse parity, n = {first['task.n']}, k = {first['task.k']}" if "task.n" in table else ""
    figure.suptitle(f"Error while training: {task}", fontsize=LARGE, fontweight="bold")
    networks = table.groupby(["model.init", "model.width", "regime.size"])["seed"].nunique()
    note = f"{networks.min()} networks a panel. Dotted: the 10% at which a task counts as solved."
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    return drawn


def _grid(rows: int, columns: int, table: pd.DataFrame, solved: float) -> np.ndarray:
    figure = Figure(figsize=(max(1.35 * columns + 0.5, 4.5), 1.15 * rows + 0.6), layout="constrained")
    networks = table.groupby([name for name in table if str(name).partition(".")[0] in ("regime", "training")])
    note = (
        f"{networks['seed'].nunique().min()} networks a panel. Numbers: how many came to a test error of "
        f"{100 * solved:g}% (dotted)."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    return drawn
