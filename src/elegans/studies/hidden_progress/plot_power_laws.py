"""Times to solve against a size, both on logarithmic axes: where a power law holds, they lie on a straight line."""

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, logarithmic, name_of, quiet, shades

NEEDED = ("median_steps", "median_low", "median_high", "trials", "exponent", "factor")
COLUMNS = 3
"""Panels in a row, but for four panels."""
TITLE = 38
"""Characters in a line of a panel's title."""


def power_laws(
    table: pd.DataFrame, *, x: str, curve: str, panel: str, label: str | None = None, axes: Any = None
) -> np.ndarray:
    """Draw the median time to solve against a size, with the power law fitted to it, one curve a value of a column.

    Bands are 95% bootstrap intervals of the medians, unsolved trials being infinite: a curve ends where at most half of
    the trials are solved. Dashed lines are the fits; the legend gives their exponents.

    Args:
        table: a row a cell, as ``elegans.experiments.progress.tables.timed`` makes it, with the ``exponent`` and the
            ``factor`` of its curve's power law.
        x: the column of the size.
        curve: the column whose values are the curves.
        panel: the column whose values are the panels.
        label: what the size is called; the column's own name by default.
        axes: the axes to draw on, one a panel; a new figure by default.

    Returns:
        The axes, one a panel.

    Raises:
        ExperimentError: a column is missing, or there are fewer axes than panels.

    Source: thesis, figures 5.1 (right) and B.6.
    """
    for name in (x, curve, panel, *NEEDED):
        if name not in table:
            raise ExperimentError(f"power laws must have a column {name!r}: {', '.join(map(str, table))}")
    panels = list(table[panel].unique())
    drawn = _figure(table, len(panels)) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) < len(panels):
        raise ExperimentError(f"axes must be at least as many as panels: axes={len(drawn)}, panels={len(panels)}")
    values = sorted(table[curve].unique())
    colours = dict(zip(values, COLOURS if len(values) <= 2 else shades(len(values)), strict=False))
    for ax, value in zip(drawn, panels, strict=False):
        shown = table[table[panel] == value]
        for key, colour in colours.items():
            _line(ax, shown[shown[curve] == key], x, name_of(curve, key), colour)
        _describe(ax, shown, x, name_of(panel, value))
    for ax in drawn[len(panels) :]:
        ax.set_axis_off()
    columns = _columns(len(panels))
    for place, ax in enumerate(drawn[: len(panels)]):
        if place % columns == 0:
            ax.set_ylabel("median steps to solve", fontsize=MEDIUM)
        if place >= len(panels) - columns:
            ax.set_xlabel(label or name_of(x, "").partition(" =")[0], fontsize=MEDIUM)
            ax.tick_params(labelbottom=True)
    return drawn[: len(panels)]


def _line(ax: Axes, rows: pd.DataFrame, x: str, name: str, colour: Any) -> None:
    rows = rows[rows["median_steps"].notna()].sort_values(x)
    if rows.empty:
        return
    size, middle = rows[x].to_numpy(float), rows["median_steps"].to_numpy(float)
    low, high = rows["median_low"].to_numpy(float), rows["median_high"].to_numpy(float)
    law = rows.iloc[0]
    exponent = f": {law['exponent']:.2f}" if np.isfinite(law["exponent"]) else ""
    ax.fill_between(size, low, np.where(np.isfinite(high), high, 1e12), color=colour, alpha=0.16, linewidth=0)
    ax.plot(size, middle, color=colour, linewidth=1.2, marker="o", markersize=2.4, label=f"{name}{exponent}")
    if exponent:
        ax.plot(size, law["factor"] * size ** law["exponent"], color=colour, linewidth=0.7, linestyle=(0, (4, 3)))


def _describe(ax: Axes, shown: pd.DataFrame, x: str, title: str) -> None:
    quiet(ax)
    ax.set_title(textwrap.fill(title, TITLE), loc="left", fontsize=MEDIUM)
    ax.set_xscale("log")
    ticks = sorted(shown[x].unique())
    ax.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    known = shown["median_steps"].dropna()
    if len(known):
        ax.set_ylim(known.min() * 0.6, known.max() * 1.8)
    logarithmic(ax)
    ax.legend(
        fontsize=SMALL, frameon=False, title="exponents", title_fontsize=SMALL, alignment="left", handlelength=1.2
    )


def _columns(panels: int) -> int:
    return 2 if panels == 4 else min(COLUMNS, panels)


def _figure(table: pd.DataFrame, panels: int) -> np.ndarray:
    columns = _columns(panels)
    rows = -(-panels // columns)
    figure = Figure(figsize=(max(2.35 * columns + 0.3, 5.0), 1.95 * rows + 0.5), layout="constrained")
    fewest, most = int(table["trials"].min()), int(table["trials"].max())
    count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    note = (
        f"{count} trials a point. Bands: 95% bootstrap intervals of the median time,\n"
        "unsolved trials counted as infinite. Dashed: fitted power laws."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(rows, columns, squeeze=False, sharey=False).ravel()
    return drawn
