"""A traced success frontier: the cells that were examined, and the resulting contour."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import Normal, Stroke

from elegans.analysis import summarise_cells
from elegans.analysis.aggregation import STATISTICS
from elegans.errors import ExperimentError
from elegans.plots.frontier import Grid, checked, layout, matches, success_frontier
from elegans.plots.style import COLOURS, GREY, LARGE, SMALL, figure_of
from elegans.sweeps import Contour

AXES = ("regime.size", "model.width")
LINE = COLOURS[1]
HEIGHT = 0.11
"""The height of a crossing within a row of cells: below the number in the middle."""
OUTLINE = [Stroke(linewidth=2.6, foreground="white"), Normal()]


def traced_frontier(contours: Contour | Sequence[Contour]) -> Any:
    """Draw traced contours over the cells that were examined, one panel each.

    A dot marks the interpolated crossing at a width. Its bar reaches from the last size clearly below the level to the
    first size clearly above it; an arrow leaves the grid where there is none. Hollow dots and dashed bars mark success
    that is lost as the sample grows. Sizes that were not examined are grey.

    Args:
        contours: one contour, or several of trials that differ in other parameters, such as the initialisation; of
            ``regime.size`` by ``model.width``.

    Returns:
        The axes: one, or an array of shape (rows, columns) where there are several panels.
    """
    contours = [contours] if isinstance(contours, Contour) else list(contours)
    for contour in contours:
        if (contour.x, contour.y) != AXES:
            raise ExperimentError(
                f"a traced frontier must have the axes regime.size and model.width: {contour.x}, {contour.y}"
            )
    summary = checked(summarise_cells(pd.concat([contour.trials for contour in contours], ignore_index=True)))
    rows, columns = layout(summary)
    panels = [summary[matches(summary, {**row, **column})] for row in rows for column in columns]
    whole = pd.concat([_with_gaps(panel, contours) for panel in panels if len(panel)], ignore_index=True)
    axes, grid = success_frontier(whole), Grid(whole)
    for ax, panel in zip(np.atleast_1d(np.asarray(axes, object)).ravel(), panels, strict=True):
        for contour in contours:
            if len(panel) and _belongs(contour, panel):
                _draw(ax, grid, contour)
                ax.set_title(f"{contour.steps / 1e6:.2g} million steps", loc="right", fontsize=SMALL, color=GREY, pad=3)
    test, level = contours[0].test, contours[0].level
    note = (
        f"In each cell: % of its trials solved (at most {test.maximum} trials), ✓ where all; grey: not examined.\n"
        f"Dots: {100 * level:g}% solved, interpolated. Bars: from the last size clearly below to the first clearly "
        f"above;\na cell's verdict is wrong with probability at most {100 * max(test.error):.2g}%."
    )
    figure = figure_of(axes)
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    if finding := _finding(contours):
        figure.suptitle(f"{finding}\n{figure.get_suptitle()}", fontsize=LARGE)
    return axes


def _finding(contours: Sequence[Contour]) -> str:
    """Return what all contours show of the narrowest and the widest networks, or nothing where they differ."""
    ratios = []
    for contour in contours:
        gained = contour.crossings[contour.crossings["direction"] == "gained"]
        first = gained.drop_duplicates("model.width").set_index("model.width")["crossing"]
        ratios.append(first.get(min(contour.ys), np.nan) / first.get(max(contour.ys), np.nan))
    if not min(ratios) > 1:  # NaN where a crossing is missing
        return ""
    times = " and ".join(dict.fromkeys(f"{ratio:.2g}" for ratio in ratios))
    return f"The narrowest networks need {times} times as many examples as the widest"


def _with_gaps(panel: pd.DataFrame, contours: Sequence[Contour]) -> pd.DataFrame:
    """Return a panel's cells, with a row without trials for every cell of the grid that was not examined."""
    contour = next(contour for contour in contours if _belongs(contour, panel))
    examined = set(zip(panel["regime.size"], panel["model.width"], strict=True))
    empty = dict.fromkeys(STATISTICS, 0) | dict.fromkeys(("rate", "low", "high", "median_steps"), np.nan)
    common = panel.iloc[0].to_dict()
    missing = [
        {**common, **empty, "regime": f"sample:{size}", "regime.size": float(size), "model.width": float(width)}
        for size in contour.xs
        for width in contour.ys
        if (size, width) not in examined
    ]
    return pd.concat([panel, pd.DataFrame(missing).astype(panel.dtypes)], ignore_index=True) if missing else panel


def _belongs(contour: Contour, panel: pd.DataFrame) -> bool:
    """Return whether a panel and a contour have the same parameters."""
    parameters = contour.sweep.cells[0].columns()
    shared = [str(name) for name in panel if name in parameters and name not in (*AXES, "regime", *STATISTICS)]
    return all(pd.isna(panel[name].iloc[0]) or panel[name].iloc[0] == parameters[name] for name in shared)


def _draw(ax: Axes, grid: Grid, contour: Contour) -> None:
    first = contour.crossings[contour.crossings["direction"] == "gained"].drop_duplicates("model.width")
    joined = first[first["crossing"].notna()]
    if len(joined):
        across, up = grid.places(joined["model.width"], joined["crossing"])
        ax.plot(across, up - 0.5 + HEIGHT, color=LINE, linewidth=1.3, linestyle=":", zorder=2.5)
    for width, direction, low, crossing, high in contour.crossings.itertuples(index=False):
        _draw_one(ax, grid, width, (low, crossing, high), gained=direction == "gained")


def _draw_one(ax: Axes, grid: Grid, width: float, span: tuple[float, float, float], *, gained: bool) -> None:
    across, up = grid.places([width] * 3, np.asarray(span, float))
    height = up[0] - 0.5 + HEIGHT
    ends = [across[0] if np.isfinite(span[0]) else 0.0, across[2] if np.isfinite(span[2]) else float(len(grid.sizes))]
    style: dict[str, Any] = {"color": LINE, "path_effects": OUTLINE, "zorder": 5, "clip_on": False}
    ax.plot(ends, [height] * 2, linewidth=1.2, linestyle="-" if gained else "--", **style)
    for end, edge, marker in ((ends[0], span[0], "<"), (ends[1], span[2], ">")):
        ax.plot([end], [height], linestyle="", marker="|" if np.isfinite(edge) else marker, markersize=4, **style)
    if np.isfinite(span[1]):
        face = LINE if gained else "white"
        ax.plot([across[1]], [height], linestyle="", marker="o", markersize=4, markerfacecolor=face, **style)
