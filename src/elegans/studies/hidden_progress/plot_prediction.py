"""How well measures tell the remaining time: rank correlations with intervals, a panel a network and moment."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, quiet

NEEDED = ("network", "when", "step", "share", "median_steps", "predictor", "knows", "correlation", "low", "high")
KNOWS = {
    "time": "a clock",
    "outputs": "looks at outputs",
    "weights": "looks at weights",
    "support": "looks at weights, knows the support",
}


def prediction_dots(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw each predictor's rank correlation with the remaining time, with its interval: a row of panels a network.

    The first column is half of the time to solve, the others are fixed steps. Below 0, more of a measure means that
    the trial is solved sooner. A predictor that is the same for all trials has no dot.

    Args:
        table: a row a network, moment and predictor, as the experiment ``progress-prediction`` makes it.
        axes: the axes to draw on, a row of them a network; a new figure by default.

    Returns:
        The axes, of shape (networks, moments).

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than panels.
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"prediction dots must have a column {name!r}: {', '.join(map(str, table))}")
    networks = [rows for _, rows in table.groupby("network", sort=False)]
    moments = [[panel for _, panel in rows.groupby(["when", "step"], sort=False, dropna=False)] for rows in networks]
    shape = len(moments), max(len(row) for row in moments)
    drawn = _figure(shape) if axes is None else np.asarray(axes, object).reshape(-1)
    if drawn.size != shape[0] * shape[1]:
        raise ExperimentError(f"axes must be as many as panels: axes={drawn.size}, panels={shape[0] * shape[1]}")
    drawn = drawn.reshape(shape)
    for line, panels in zip(drawn, moments, strict=True):
        for ax, rows in zip(line, panels, strict=False):
            _dots(ax, rows)
        first = panels[0].iloc[0]
        line[0].set_ylabel(f"{first['network']}\nmedian {first['median_steps']:,.0f} steps", fontsize=MEDIUM)
    for ax in drawn[-1]:
        ax.set_xlabel("rank correlation", fontsize=SMALL)
    if axes is None:
        handles = [
            drawn[0, 0].plot([], [], marker="o", markersize=3, color=colour, label=KNOWS[name])[0]
            for name, colour in zip(KNOWS, (GREY, *COLOURS), strict=False)
        ]
        drawn[0, 0].figure.legend(handles=handles, fontsize=SMALL, frameon=False, ncols=4, loc="outside upper center")
    return drawn


def _dots(ax: Axes, rows: pd.DataFrame) -> None:
    colours = dict(zip(KNOWS, (GREY, *COLOURS), strict=False))
    places = np.arange(len(rows))[::-1]
    for place, row in zip(places, rows.to_dict("records"), strict=True):
        colour = colours[row["knows"]]
        ax.plot([row["low"], row["high"]], [place, place], color=colour, linewidth=1.2)
        ax.plot(row["correlation"], place, color=colour, marker="o", markersize=3)
    ax.axvline(0, color=GREY, linewidth=0.6)
    ax.set_xlim(-1.05, 1.05)
    ax.set_ylim(-0.7, len(rows) - 0.3)
    ax.set_yticks(places, rows["predictor"], fontsize=SMALL)
    ax.grid(axis="x", color="0.9", linewidth=0.5)
    ax.set_axisbelow(True)
    first = rows.iloc[0]
    fixed = np.isfinite(first["step"])
    when = f"step {first['step']:.0f} ({100 * first['share']:.0f}% of median)" if fixed else first["when"]
    ax.set_title(f"{when}\n{first['trials']:,} trials", loc="left", fontsize=SMALL)
    quiet(ax)


def _figure(shape: tuple[int, int]) -> np.ndarray:
    figure = Figure(figsize=(1.75 * shape[1] + 2.0, 2.2 * shape[0] + 1.0), layout="constrained")
    note = (
        "Spearman's rank correlation with the steps that remain, 95% bootstrap intervals. Left: at half of its own "
        "time a trial's clock\nshows the remaining time. Fixed steps: among trials not solved by then; never solved "
        "ones rank as slowest."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(*shape, squeeze=False, sharey=True)
    return drawn
