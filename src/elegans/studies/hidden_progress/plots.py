"""Times to solve against a size, both on logarithmic axes: where a power law holds, they lie on a straight line."""

import textwrap
from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from elegans.plots.marks import band
from elegans.plots.style import COLOURS, logarithmic, name_of, panel_legend, panels, shades, title_figure, title_panels

TITLE = 38
"""Characters in a line of a panel's title."""
TICKS = 6
"""The approximate number of ticks on an axis of sizes."""
MARKERS = "osD^v"
KEY = "bands: 95% bootstrap intervals of the median; dashed: fitted power laws"
"""What marks of these figures mean."""


def power_laws(table: pd.DataFrame, *, x: str, label: str, curve: str, panel: str, finding: str, task: str) -> Figure:
    """Draw the median time to solve against a size, with the power law fitted to it, one curve per value of a column.

    Bands are 95% bootstrap intervals of the medians, unsolved trials being infinite: a curve ends where at most half of
    the trials are solved. Dashed lines are the fits; the legend gives their exponents.

    Args:
        table: one row per cell, as ``timed`` makes it, with its curve's ``exponent`` and ``factor`` from ``fits``.
        x: the column of the size.
        label: what the size is called.
        curve: the column whose values are the curves.
        panel: the column whose values are the panels.
        finding: the figure's title.
        task: what was trained on what; the number of trials and what the marks mean are added to it.

    Source: thesis, figures 5.1 (right) and B.6.
    """
    groups = list(table.groupby(panel, sort=False))
    columns = 2 if len(groups) == 4 else min(3, len(groups))
    rows = -(-len(groups) // columns)
    figure, drawn = panels(rows, columns, height=1.95 + 0.5 / rows, width=7.0 if columns == 3 else 5.0)
    axes = drawn.ravel()
    values = sorted(table[curve].unique())
    colours = dict(zip(values, COLOURS if len(values) <= 2 else shades(len(values)), strict=False))
    for place, (ax, (_, shown)) in enumerate(zip(axes, groups, strict=False)):
        power_law(ax, shown, x=x, curve=curve, colours=colours)
        if place % columns == 0:
            ax.set_ylabel("median steps to solve")
        if place >= len(groups) - columns:
            ax.set_xlabel(label)
    for ax in axes[len(groups) :]:
        ax.set_axis_off()
    if len(groups) > 1:
        title_panels(axes, [textwrap.fill(name_of(panel, value), TITLE) for value, _ in groups])
    title_figure(figure, finding, f"{task}; {trials_of(table)} per point; {KEY}")
    return figure


def typeset(network: str) -> str:
    """Return a network's name with its power as a formula, and without what follows a colon."""
    return network.partition(":")[0].replace("z^k", "$z^k$")


def plain(network: str) -> str:
    """Return a network's name as ``typeset`` has it, without its number in the thesis."""
    return typeset(network.partition(") ")[2] or network)


def counted(count: int, total: int) -> str:
    """Return a count out of a total in words: ``all 30``, ``none of 30``, ``28 of 30``."""
    return f"all {total}" if count == total else f"{count or 'none'} of {total}"


def trials_of(table: pd.DataFrame) -> str:
    """Return in words how many trials the cells of a table have."""
    fewest, most = int(table["trials"].min()), int(table["trials"].max())
    return f"{most:,} trials" if fewest == most else f"{fewest:,} to {most:,} trials"


def power_law(ax: Axes, shown: pd.DataFrame, *, x: str, curve: str, colours: Mapping[Any, Any]) -> None:
    """Draw one panel of ``power_laws``: the curves of one group, each value of ``curve`` in its colour."""
    for (key, colour), marker in zip(colours.items(), cycle(MARKERS), strict=False):
        _line(ax, shown[shown[curve] == key], x, name_of(curve, key), colour, marker)
    _describe(ax, shown, x)


def _line(ax: Axes, rows: pd.DataFrame, x: str, name: str, colour: Any, marker: str) -> None:
    rows = rows[rows["median_steps"].notna()].sort_values(x)
    if rows.empty:
        return
    size, law = rows[x].to_numpy(float), rows.iloc[0]
    exponent = f": {law['exponent']:z.2f}".replace("-", "\N{MINUS SIGN}") if np.isfinite(law["exponent"]) else ""
    middle, low, high = (rows[column].fillna(np.inf) for column in ("median_steps", "median_low", "median_high"))
    style: dict[str, Any] = {"linewidth": 1.2, "marker": marker, "markersize": 3}
    band(ax, size, middle, low, high, colour, label=f"{name}{exponent}", **style)
    if exponent:
        ax.plot(size, law["factor"] * size ** law["exponent"], color=colour, linewidth=0.7, linestyle=(0, (4, 3)))


def _describe(ax: Axes, shown: pd.DataFrame, x: str) -> None:
    ax.set_xscale("log")
    values = sorted(shown[x].unique())
    apart, ticks = (values[-1] / values[0]) ** (1 / TICKS), values[:1]
    for value in values:
        if value >= apart * ticks[-1]:
            ticks.append(value)
    ax.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    known = shown["median_steps"].dropna()
    if len(known):
        ax.set_ylim(known.min() * 0.6, known.max() * 1.5)
    logarithmic(ax)
    panel_legend(ax, title="fitted exponents", columnspacing=1)
