"""Training curves of many settings, one small panel each."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, LARGE, MEDIUM, SMALL, quiet, short

NEEDED = ("figure", "panel", "seed", "step", "error", "solved_at")
FEW = 8
"""Up to so many panels stand four in a row; more stand six in a row."""
LONGEST = 3
"""How many times the median time of the solved trials an axis has at the most."""


def courses(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw the minibatch error of every network against steps, one panel a setting, those of a figure together.

    The network with the smallest seed is drawn strongly, the others faintly. What goes on long after most have solved
    is left out.

    Args:
        table: a row a trial and point of its curve, as the experiment ``training-curves-zoo`` makes it.
        axes: the axes to draw on, one a panel; a new figure by default.

    Returns:
        The axes, one a panel.

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than panels.

    Source: thesis, figures 5.1 (left) and B.2.
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"courses must have a column {name!r}: {', '.join(map(str, table))}")
    groups = {
        figure: [rows for _, rows in own.groupby("panel", sort=False)]
        for figure, own in table.groupby("figure", sort=False)
    }
    panels = [rows for own in groups.values() for rows in own]
    drawn = _figure(groups) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != len(panels):
        raise ExperimentError(f"axes must be as many as panels: axes={len(drawn)}, panels={len(panels)}")
    for ax, rows in zip(drawn, panels, strict=True):
        _draw(ax, rows)
    return drawn


def _draw(ax: Axes, rows: pd.DataFrame) -> None:
    first = rows["seed"].min()
    for seed, own in reversed(list(rows.groupby("seed"))):
        strong = seed == first
        style: dict[str, Any] = {"linewidth": 1.2, "zorder": 3} if strong else {"linewidth": 0.6, "alpha": 0.35}
        ax.plot([0, *own["step"]], [0.5, *own["error"]], color=COLOURS[0], **style)
    ax.set_title(rows["panel"].iloc[0], loc="left", fontsize=SMALL - 0.8)
    ax.set_ylim(-0.02, 0.62)
    solved = rows.groupby("seed")["solved_at"].first().dropna()
    longest = rows["step"].max()
    ax.set_xlim(0, 1.04 * min(longest, LONGEST * solved.median() if len(solved) else longest))
    ax.set_yticks([0, 0.25, 0.5])
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    ax.locator_params(axis="x", nbins=3)
    quiet(ax)
    ax.tick_params(labelsize=SMALL - 0.5)


def _figure(groups: dict[Any, list[pd.DataFrame]]) -> np.ndarray:
    """Return an axis for each panel, the groups below each other, each under its name."""
    shapes = {name: (min(4, len(own)) if len(own) <= FEW else 6, len(own)) for name, own in groups.items()}
    heights = [0.35 + (1.2 if columns > 4 else 1.35) * -(-count // columns) for columns, count in shapes.values()]
    figure = Figure(figsize=(7.4, sum(heights) + 0.4), layout="constrained")
    note = (
        "Error on fresh minibatches, averaged between checks, against steps; strong: seed 0. Curves end where solved;\n"
        f"axes end at {LONGEST} times the median time of the trials that were solved, or before."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: list[Axes] = []
    parts: Any = figure.subfigures(len(groups), 1, squeeze=False, height_ratios=heights).ravel()
    for part, (name, (columns, count)) in zip(parts, shapes.items(), strict=True):
        part.suptitle(f"Settings of {name}", fontsize=LARGE, x=0.01, ha="left")
        axes = part.subplots(-(-count // columns), columns, squeeze=False, sharey=True)
        for ax in axes[:, 0]:
            ax.set_ylabel("error", fontsize=MEDIUM)
        for ax in axes.ravel()[count:]:
            ax.set_axis_off()
        drawn += list(axes.ravel()[:count])
    return np.array(drawn, object)
