"""Errors of networks and forests on tables."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, LARGE, MEDIUM, SMALL, figure_of, quiet, shades, short

NEEDED = ("table", "rows", "learner", "optimiser", "width", "depth", "init", "weight_decay", "test_error")
NEEDED_ERRORS = ("table", "reduced", "part", "learner", "error", "low", "high", "honest_error", "published")
GOLD, BLACK = "#B8860B", "black"
DEPTH = 2
"""The depth whose widths are drawn."""
COLUMNS = 4
"""Panels in a line."""
Stroke = Literal["-", "--"]
LINES: dict[str, Stroke] = {"sparse:2": "-", "dense": "--"}
BEST: dict[str, tuple[str, Stroke]] = {"network": (GOLD, "-"), "network by sgd": (GOLD, "--"), "forest": (BLACK, "-")}
"""How the best of what learns is drawn."""


def tabular_frontier(
    table: pd.DataFrame, best: pd.DataFrame, full: Mapping[Any, tuple[float, float]], axes: Any = None
) -> np.ndarray:
    """Draw median held-out errors against rows of the sample, a panel a table.

    Coloured lines are networks of two hidden layers trained by SGD, solid with 2 non-zeros a neuron and dashed dense;
    the gold line is the best network of all, the dashed one the best by SGD, the black one the best forest.
    Dotted lines are published errors of a tuned network and a tuned forest on the full data.

    Args:
        table: a row a trial, as the experiment ``tabular-frontier`` makes it.
        best: the selected of each table and size, with ``error``; ``learner`` is one of ``BEST``.
        full: for the tables that have them, the two published errors in percent.
        axes: at least as many axes as there are tables; a new figure by default.

    Returns:
        The axes that were drawn on, one a table.

    Raises:
        ExperimentError: a column is missing, or there are too few axes.
    """
    _check(table, NEEDED)
    names = list(dict.fromkeys(table["table"]))
    drawn = _grid(len(names)) if axes is None else np.asarray(axes, object).reshape(-1)
    if drawn.size < len(names):
        raise ExperimentError(f"axes must be one a table: axes={drawn.size}, tables={len(names)}")
    widths = sorted(_shown(table)["width"].unique())
    colours = dict(zip(widths, shades(len(widths)), strict=True))
    for ax, name in zip(drawn, names, strict=False):
        _panel(ax, _shown(table[table["table"] == name]), best[best["table"] == name], colours)
        for error, colour in zip(full.get(name, ()), (GOLD, BLACK), strict=False):
            ax.axhline(error, color=colour, linewidth=0.8, linestyle=":")
        ax.set_title(str(name), loc="left", fontsize=MEDIUM)
    for ax in drawn[len(names) :]:
        ax.set_axis_off()
    drawn[0].set_ylabel("held-out error (%)", fontsize=MEDIUM)
    for ax in drawn[max(0, len(names) - COLUMNS) : len(names)]:
        ax.set_xlabel("rows trained on", fontsize=MEDIUM)
    _legend(figure_of(drawn), colours)
    return drawn[: len(names)]


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the networks whose widths are drawn."""
    chosen = (table["depth"] == DEPTH) & (table["optimiser"] == "sgd") & (table["weight_decay"] == 0)
    return table[chosen & table["init"].isin(list(LINES)) & table["width"].notna()]


def _panel(ax: Axes, networks: pd.DataFrame, best: pd.DataFrame, colours: Mapping[Any, Any]) -> None:
    for (init, width), rows in networks.groupby(["init", "width"], sort=True):
        middle = 100 * rows.groupby("rows")["test_error"].median()
        ax.plot(middle.index, middle, LINES[str(init)], color=colours[width], linewidth=1, marker=".", markersize=3)
    for learner, (colour, line) in BEST.items():
        rows = best[best["learner"] == learner].sort_values("rows")
        ax.plot(rows["rows"], 100 * rows["error"], line, color=colour, linewidth=1.4, marker=".", markersize=4)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    ax.xaxis.set_minor_formatter(lambda value, _: "")
    quiet(ax)


def _legend(figure: Figure, colours: Mapping[Any, Any]) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=colour, label=f"width {short(width)}") for width, colour in colours.items()]
    lines += [Line2D([], [], color=GREY, linestyle=line, label=f"{init}") for init, line in LINES.items()]
    lines += [
        *(Line2D([], [], color=colour, linestyle=line, label=f"best {name}") for name, (colour, line) in BEST.items()),
        Line2D([], [], color=GREY, linestyle=":", label="published, full data"),
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=-(-len(lines) // 2), fontsize=SMALL, frameon=False)


def _grid(panels: int) -> np.ndarray:
    columns = min(COLUMNS, panels)
    rows = -(-panels // columns)
    figure = Figure(figsize=(1.9 * columns, 1.7 * rows + 0.8), layout="constrained")
    figure.suptitle("Networks and forests on samples of tables", fontsize=LARGE, fontweight="bold")
    drawn: np.ndarray = figure.subplots(rows, columns, squeeze=False).reshape(-1)
    return drawn


def tabular_errors(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw the selected errors beside the published ones: a panel a part of the training pool, a line a table.

    Filled marks are errors as published ones are selected, with 95% bootstrap intervals; crosses are the honestly
    selected; open marks the published. Tables that are parts of the benchmark's are marked with an asterisk.

    Args:
        table: a row a table, part and learner, as the experiment ``tabular-table`` makes it.
        axes: one a part; a new figure by default.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than parts.
    """
    _check(table, NEEDED_ERRORS)
    names = list(dict.fromkeys(table["table"]))[::-1]
    parts = {"full": table["part"].str.endswith("rows") | (table["part"] == "full")}
    parts |= {label: table["part"] == label for label in ("10%", "1%")}
    parts = {label: chosen for label, chosen in parts.items() if chosen.any()}
    drawn = _lines(len(parts), len(names)) if axes is None else np.asarray(axes, object).reshape(-1)
    if drawn.size != len(parts):
        raise ExperimentError(f"axes must be one a part: axes={drawn.size}, parts={list(parts)}")
    for ax, (label, chosen) in zip(drawn, parts.items(), strict=True):
        for learner, colour, shift in (("network", COLOURS[0], 0.17), ("forest", COLOURS[1], -0.17)):
            rows = table[chosen & (table["learner"] == learner)]
            _marks(ax, rows, np.array([names.index(name) for name in rows["table"]]) + shift, colour, learner)
        ax.set_title({"full": "largest sample"}.get(label, f"{label} of the pool"), loc="left", fontsize=MEDIUM)
        ax.set_xlabel("test error (%)", fontsize=MEDIUM)
        quiet(ax)
    reduced = set(table.loc[table["reduced"], "table"])
    drawn[0].set_yticks(range(len(names)), [f"{name}*" if name in reduced else name for name in names], fontsize=SMALL)
    handles, labels = drawn[0].get_legend_handles_labels()
    figure = figure_of(drawn)
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=SMALL, frameon=False)
    return drawn


def _marks(ax: Axes, rows: pd.DataFrame, place: np.ndarray, colour: str, learner: str) -> None:
    error = rows["error"].to_numpy(float)
    span = np.abs(rows[["low", "high"]].to_numpy(float).T - error)
    ax.errorbar(error, place, xerr=span, fmt="o", color=colour, markersize=3, linewidth=0.8, label=learner)
    ax.plot(rows["honest_error"], place, "x", color=colour, markersize=4, label=f"{learner}, honestly selected")
    known = rows["published"].to_numpy(float)
    ax.plot(known, place, "o", color=colour, markersize=4, fillstyle="none", label=f"{learner}, published")


def _lines(panels: int, names: int) -> np.ndarray:
    figure = Figure(figsize=(2.2 * panels + 1.2, 0.26 * names + 1.5), layout="constrained")
    figure.suptitle("Best network and best forest", fontsize=LARGE, fontweight="bold")
    drawn: np.ndarray = figure.subplots(1, panels, sharey=True, squeeze=False).reshape(-1)
    return drawn


def _check(table: pd.DataFrame, needed: tuple[str, ...]) -> None:
    for name in needed:
        if name not in table:
            raise ExperimentError(f"errors on tables must have a column {name!r}: {', '.join(map(str, table))}")
