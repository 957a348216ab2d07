"""A traced success frontier: the cells that were examined, and the resulting contour."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import Normal, Stroke

from elegans.analysis import cells
from elegans.analysis.aggregation import STATISTICS
from elegans.errors import ExperimentError
from elegans.plots.frontier import Grid, checked, layout, matches, success_frontier
from elegans.plots.style import COLOURS, GREY, SMALL, figure_of
from elegans.sweeps import Contour

AXES = ("regime.size", "model.width")
LINE = COLOURS[1]
HEIGHT = 0.11
"""The height of a crossing within a row of cells: below the number in the middle."""
OUTLINE = [Stroke(linewidth=2.6, foreground="white"), Normal()]


def traced_frontier(contours: Contour | Sequence[Contour]) -> Any:
    """Draw traced contours over the cells that were examined, one panel each.

    A dot marks the interpolated crossing at a width. The bar through it reaches from the last size that is clearly
    below the level to the first that is clearly above it; an arrow leaves the grid where one of them was not found.
    Hollow dots and dashed bars mark success that is lost as the sample grows. Sizes that were not examined are grey.

    Args:
        contours: one contour, or several of trials that differ in other parameters, such as the initialisation; of
            ``regime.size`` by ``model.width``.

    Returns:
        The axes: one, or an array of shape (rows, columns) where there are several panels.
    """
    given = [contours] if isinstance(contours, Contour) else list(contours)
    for contour in given:
        if (contour.x, contour.y) != AXES:
            raise ExperimentError(f"a traced frontier must be of regime.size by model.width: {contour.x}, {contour.y}")
    found = checked(cells(pd.concat([contour.trials for contour in given], ignore_index=True)))
    rows, columns = layout(found)
    panels = [found[matches(found, {**row, **column})] for row in rows for column in columns]
    whole = pd.concat([_with_gaps(panel, given) for panel in panels if len(panel)], ignore_index=True)
    axes = success_frontier(whole)
    grid, drawn = Grid(whole), np.atleast_1d(np.asarray(axes, object)).ravel()
    for ax, panel in zip(drawn, panels, strict=True):
        for contour in (each for each in given if len(panel) and _belongs(each, panel)):
            _draw(ax, grid, contour)
            ax.set_title(f"{contour.steps / 1e6:.2g} million steps", loc="right", fontsize=SMALL, color=GREY, pad=3)
    figure_of(axes).supxlabel(_note(given[0]), fontsize=SMALL, color=GREY)
    return axes


def _with_gaps(panel: pd.DataFrame, contours: Sequence[Contour]) -> pd.DataFrame:
    """Return a panel's cells, with a row without trials for every cell of the grid that was not examined."""
    contour = next(each for each in contours if _belongs(each, panel))
    have = set(zip(panel["regime.size"], panel["model.width"], strict=True))
    empty = dict.fromkeys(STATISTICS, 0) | dict.fromkeys(("rate", "low", "high", "median_steps"), np.nan)
    common = panel.iloc[0].to_dict()
    missing = [
        {**common, **empty, "regime": f"sample:{size}", "regime.size": float(size), "model.width": float(width)}
        for size in contour.xs
        for width in contour.ys
        if (size, width) not in have
    ]
    return pd.concat([panel, pd.DataFrame(missing).astype(panel.dtypes)], ignore_index=True) if missing else panel


def _belongs(contour: Contour, panel: pd.DataFrame) -> bool:
    """Return whether a panel shows a contour: whether its parameters are those of the contour's trials."""
    own = contour.sweep.cells[0].columns()
    shared = [str(name) for name in panel if name in own and name not in (*AXES, "regime", *STATISTICS)]
    return all(pd.isna(panel[name].iloc[0]) or panel[name].iloc[0] == own[name] for name in shared)


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
    for end, known, marker in ((ends[0], span[0], "<"), (ends[1], span[2], ">")):
        ax.plot([end], [height], linestyle="", marker="|" if np.isfinite(known) else marker, markersize=4, **style)
    if np.isfinite(span[1]):
        ax.plot(
            [across[1]],
            [height],
            linestyle="",
            marker="o",
            markersize=4,
            markerfacecolor=LINE if gained else "white",
            **style,
        )


def _note(contour: Contour) -> str:
    test = contour.test
    return (
        f"In each cell: % of its trials solved (at most {test.maximum} trials), ✓ where all; grey: not examined.\n"
        f"Dots: {100 * contour.level:g}% solved, interpolated. Bars: from the last size clearly below to the first "
        f"clearly above;\na cell's verdict is wrong with probability at most {100 * max(test.error):.2g}%."
    )
