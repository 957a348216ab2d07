"""How disjoint PolyNets learn, beside what theory says of them."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, LARGE, MEDIUM, SMALL, quiet

NEEDED = ("part", "k", "block", "seed", "time", "error", "flow_error", "growth", "growth_low", "growth_high", "share")
SHOWN = 3
"""How many networks' growth is drawn."""
HIGHEST = 1e2
"""The end of the axis of growth: weights and bounds explode."""


def disjoint_courses(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw errors of population and of stochastic descent, the growth of relevant weights, and shares of plateaus.

    Errors are drawn over those along gradient flow, growth between its bounds, shares over their exact values.

    Args:
        table: as the experiment ``disjoint-polynet`` makes it.
        axes: four axes to draw on; a new figure by default.

    Returns:
        The four axes.

    Raises:
        ExperimentError: a column is missing, or there are not four axes.

    Source: thesis, figure B.1 (errors), Lemma B.8 (bounds) and Theorem 5.7 (shares).
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"disjoint courses must have a column {name!r}: {', '.join(map(str, table))}")
    drawn = _figure(table) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != 4:
        raise ExperimentError(f"disjoint courses must have four axes: axes={len(drawn)}")
    parts = {str(name): rows for name, rows in table.groupby("part")}
    k, block = (parts["population"][name].iloc[0] for name in ("k", "block"))
    shown = {name: rows[(rows["k"] == k) & (rows["block"] == block)] for name, rows in parts.items()}
    course = f"population, {k} blocks of {block}"
    titles = (course, "one example a step", "growth, and its bounds", "share of the plateau")
    for ax, title in zip(drawn, titles, strict=True):
        ax.set_title(title, loc="left", fontsize=MEDIUM)
        quiet(ax)
    _errors(drawn[0], shown["population"])
    _errors(drawn[1], shown["sgd"])
    _growth(drawn[2], shown["population"])
    _shares(drawn[3], parts["plateau"])
    return drawn


def _errors(ax: Axes, rows: pd.DataFrame) -> None:
    for place, (_, network) in enumerate(rows.groupby("seed")):
        colour = COLOURS[place % len(COLOURS)]
        ax.plot(network["time"], network["error"], color=colour, linewidth=1.4, alpha=0.6)
        label = "gradient flow, exactly" if place == 0 else ""
        ax.plot(network["time"], network["flow_error"], color="black", linewidth=0.7, linestyle="--", label=label)
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    ax.set_xlabel("time (steps x learning rate)", fontsize=MEDIUM)
    ax.set_ylabel("error", fontsize=MEDIUM)
    ax.legend(fontsize=SMALL, frameon=False, loc=(0.45, 0.4))


def _growth(ax: Axes, rows: pd.DataFrame) -> None:
    for place, (_, network) in enumerate(rows.groupby("seed")):
        if place == SHOWN:
            break
        later, colour = network[network["time"] > 0], COLOURS[place]
        high = later["growth_high"].clip(upper=HIGHEST)
        ax.fill_between(later["time"], later["growth_low"], high, color=colour, alpha=0.2, linewidth=0)
        ax.plot(later["time"], later["growth"], color=colour, linewidth=1.2)
    ax.set(yscale="log", ylim=(1e-2, HIGHEST))
    ax.set_xlabel("time (steps x learning rate)", fontsize=MEDIUM)
    ax.set_ylabel("$v_i(t)^2 - v_i(0)^2$", fontsize=MEDIUM)


def _shares(ax: Axes, rows: pd.DataFrame) -> None:
    for place, (k, cells) in enumerate(rows.groupby("k")):
        seen = cells.groupby("block")[["share", "exact_share"]].first().reset_index()
        colour = COLOURS[place % len(COLOURS)]
        ax.plot(seen["block"], 1 - seen["exact_share"], color=colour, linewidth=1, label=f"k = {k}")
        ax.plot(seen["block"], 1 - seen["share"], "o", color=colour, markersize=3.5)
    ax.set(xscale="log", yscale="log", ylim=(3e-5, 1))
    blocks = sorted(rows["block"].unique())
    ax.set_xticks(blocks, [f"{block}" for block in blocks])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
    ax.set_xlabel("signs in a block", fontsize=MEDIUM)
    ax.set_ylabel("1 - T(49%) / T(0)", fontsize=MEDIUM)
    ax.legend(fontsize=SMALL, frameon=False, loc="upper right", ncols=3)


def _figure(table: pd.DataFrame) -> np.ndarray:
    figure = Figure(figsize=(7.4, 4.6), layout="constrained")
    figure.suptitle("Disjoint PolyNets on disjoint parities, correlation loss", fontsize=LARGE, fontweight="bold")
    note = "A colour a network, each from normal weights. Share: points are runs from signs, lines the exact values."
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(2, 2).ravel()
    return drawn
