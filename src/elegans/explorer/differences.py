"""The figure of a comparison: differences with their intervals, as a map or along one axis."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from elegans.explorer.cells import Cells
from elegans.explorer.figures import (
    COLOURS,
    DIVERGING,
    NUMBERED,
    UNDER,
    MapPanel,
    layout_of,
    number_in,
    shown_number,
    trace,
    typeset,
)
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
        label = {"text": f"difference of the {statistic.label}", "standoff": 8}
        axis: dict[str, Any] = {"zeroline": True, "automargin": True, "title": label}
        axis |= {"tickformat": ".0%"} if statistic.percent else {}
        ground = {"plot_bgcolor": "rgba(0,0,0,0)", "yaxis": axis, "height": 380}  # grey is for squares without trials
        return {"data": [points], "layout": {**layout, **ground}}
    largest = float(np.abs(difference[np.isfinite(difference)]).max(initial=0)) or 1.0
    bar: dict[str, Any] = {"title": {"text": "difference", "side": "right"}, "thickness": 14, "outlinewidth": 0}
    bar |= {"tickformat": ".0%"} if statistic.percent else {}
    written = [number_in(value, statistic) for value in difference] if len(rows) <= NUMBERED else []
    clear = (low > 0) | (high < 0)
    dots = trace(
        "scatter",
        x=panel.across[clear],
        y=panel.up[clear] - UNDER,
        mode="markers",
        marker={"color": "black", "size": 5, "line": {"color": "white", "width": 1}},
        name="interval clear of 0",
        showlegend=True,
        hoverinfo="skip",
    )
    colours = {"colorscale": DIVERGING, "cmin": -largest, "cmax": largest, "colorbar": bar}
    squares = panel.squares(difference, said, written, colours, "")
    return {"data": [*squares, dots], "layout": {**layout, "coloraxis": colours}}


def differences_in_words(view: View, rows: pd.DataFrame) -> list[dict[str, str]]:
    """Return for each pair ``a``, ``b``, ``difference`` and its ``interval``, to as many digits as the interval allows.

    Differences of shares are in percentage points.
    """
    scale, unit = (100, "%") if STATISTICS[view.stat].percent else (1, "")
    return [_in_words({name: scale * row[name] for name in NUMBERS}, unit) for row in rows.to_dict("records")]


NUMBERS = ("a", "b", "difference", "low", "high")


def _in_words(row: Mapping[str, float], unit: str) -> dict[str, str]:
    width = row["high"] - row["low"]
    size = next((size for size in (width, abs(row["a"]), abs(row["b"])) if 0 < size < math.inf), 1.0)
    digits = min(max(0, 1 - math.floor(math.log10(size))), 6)

    def said(value: float) -> str:
        if not math.isfinite(value):
            return "none" if math.isnan(value) else typeset("∞" if value > 0 else "-∞")
        return typeset(f"{round(value, digits) + 0.0:,.{digits}f}")

    sides = {name: said(row[name]) + (unit if math.isfinite(row[name]) else "") for name in ("a", "b")}
    interval = "none" if math.isnan(width) else f"{said(row['low'])} to {said(row['high'])}"
    return {**sides, "difference": said(row["difference"]), "interval": interval}


def _difference_said(statistic: Statistic, row: Mapping[Any, Any]) -> str:
    if not row["n"]:
        return "no trials on one side"
    a, b, difference, low, high = (
        shown_number(row[name], statistic) for name in ("a", "b", "difference", "low", "high")
    )
    paired = "paired by seed" if row["paired"] else "not paired"
    return f"{a} minus {b}: {difference}<br>{low} to {high} (95%), n = {row['n']}, {paired}"
