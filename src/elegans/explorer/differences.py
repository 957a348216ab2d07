"""The figure of a comparison: differences with their intervals, as a map or along one axis."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from elegans.explorer.cells import Cells
from elegans.explorer.figures import COLOURS, DIVERGING, MapPanel, layout_of, shown_number, trace
from elegans.explorer.statistics import STATISTICS, Statistic
from elegans.explorer.view import View


def difference_record(cells: Cells, view: View, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the differences of pairs of cells: as a map, a dot where the interval is clear of 0, or along one axis.

    Args:
        cells: the cells of the first of each pair.
        view: the plane.
        rows: ``cell``, ``a``, ``b``, ``difference``, ``low``, ``high``, ``n`` and ``paired``.
    """
    statistic = STATISTICS[view.stat]
    panel = MapPanel(cells, view, cells.places(rows["cell"]))
    difference, low, high = (rows[name].to_numpy(float) for name in ("difference", "low", "high"))
    said = [_difference_said(statistic, row) for row in rows.to_dict("records")]
    layout = layout_of([("", panel.rows)], panel.x, panel.y)
    if view.y is None:
        reach = {"array": high - difference, "arrayminus": difference - low, "color": COLOURS[0]}
        points = trace(
            "scatter",
            x=panel.across,
            y=difference,
            error_y={"type": "data", "symmetric": False, **reach},
            mode="markers",
            marker={"color": COLOURS[0], "size": 9},
            text=said,
            customdata=rows["cell"].to_numpy(),
            hovertemplate="%{text}<extra></extra>",
            name="difference",
        )
        axis = {"zeroline": True, "title": {"text": f"difference of the {statistic.label}"}}
        return {"data": [points], "layout": {**layout, "yaxis": axis, "height": 380}}
    largest = float(np.abs(difference[np.isfinite(difference)]).max(initial=0)) or 1.0
    bar: dict[str, Any] = {"title": {"text": "difference", "side": "right"}, "thickness": 14, "outlinewidth": 0}
    bar |= {"tickformat": ".0%"} if statistic.percent else {}
    clear = (low > 0) | (high < 0)
    dots = trace(
        "scatter",
        x=panel.across[clear],
        y=panel.up[clear],
        mode="markers",
        marker={"color": "black", "size": 5, "line": {"color": "white", "width": 1}},
        name="interval clear of 0",
        showlegend=True,
        hoverinfo="skip",
    )
    colours = {"colorscale": DIVERGING, "cmin": -largest, "cmax": largest, "colorbar": bar}
    return {"data": [panel.squares(difference, said, ""), dots], "layout": {**layout, "coloraxis": colours}}


def _difference_said(statistic: Statistic, row: Mapping[Any, Any]) -> str:
    if not row["n"]:
        return "no trials on one side"
    a, b, difference, low, high = (
        shown_number(row[name], statistic) for name in ("a", "b", "difference", "low", "high")
    )
    paired = "paired by seed" if row["paired"] else "not paired"
    return f"{a} minus {b}: {difference}<br>{low} to {high} (95%), n = {row['n']}, {paired}"
