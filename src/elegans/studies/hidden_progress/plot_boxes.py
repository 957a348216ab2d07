"""Boxes of times to solve along one axis, beside a reference."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, logarithmic, name_of, quiet, short

NEEDED = ("median_steps", "lower", "upper", "whisker_low", "whisker_high", "fastest", "slowest", "trials", "solved")


def boxes(table: pd.DataFrame, *, x: str, panel: str, reference: str, axes: Any = None) -> np.ndarray:
    """Draw a box of the times to solve for each value of a column, evenly spaced, and a curve to compare them with.

    Boxes span the quartiles, with the median; whiskers reach the last time within 1.5 interquartile ranges; crosses
    are the fastest and the slowest trial. Unsolved trials are infinite: a box or whisker that leaves the panel at the
    top has no end, and the share that was solved stands above.

    Args:
        table: a row a box, as the experiment ``width`` makes it.
        x: the column along the axis.
        panel: the column whose values are the panels.
        reference: the column of the curve.
        axes: the axes to draw on, one a panel; a new figure by default.

    Returns:
        The axes, one a panel.

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than panels.

    Source: thesis, figures 5.4 (left) and B.10.
    """
    for name in (x, panel, reference, *NEEDED):
        if name not in table:
            raise ExperimentError(f"boxes must have a column {name!r}: {', '.join(map(str, table))}")
    values = sorted(table[panel].unique())
    drawn = _figure(table, len(values)) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != len(values):
        raise ExperimentError(f"axes must be as many as panels: axes={len(drawn)}, panels={len(values)}")
    times = table[["whisker_low", "slowest", "median_steps", "whisker_high", "fastest"]].to_numpy(float)
    known = times[np.isfinite(times)]
    top, bottom = known.max() * 3.5, min(known.min(), table[reference].max()) * 0.6
    for ax, value in zip(drawn, values, strict=True):
        rows = table[table[panel] == value].sort_values(x)
        _draw(ax, rows, reference, top)
        ax.set_ylim(bottom, top)
        logarithmic(ax)
        ax.set_title(name_of(panel, value), loc="left", fontsize=MEDIUM, pad=9)
        ax.set_xticks(range(len(rows)), [short(size) for size in rows[x]])
        ax.set_xlabel(name_of(x, "").partition(" =")[0], fontsize=MEDIUM)
    drawn[0].set_ylabel("steps to solve", fontsize=MEDIUM)
    drawn[0].legend(fontsize=SMALL, frameon=False, loc="lower left")
    return drawn


def _draw(ax: Axes, rows: pd.DataFrame, reference: str, top: float) -> None:
    high = 10 * top  # what has no end leaves at the top
    stats = [
        {
            "med": np.nan_to_num(row["median_steps"], nan=high),
            "q1": min(row["lower"], high),
            "q3": min(row["upper"], high),
            "whislo": min(row["whisker_low"], high),
            "whishi": min(row["whisker_high"], high),
        }
        for row in rows.to_dict("records")
    ]
    lines = {"color": COLOURS[0], "linewidth": 0.8}
    style: dict[str, Any] = {"boxprops": lines, "whiskerprops": lines, "capprops": lines}
    places = np.arange(len(rows))
    ax.bxp(stats, positions=places, widths=0.6, showfliers=False, medianprops={**lines, "linewidth": 1.6}, **style)
    for name in ("fastest", "slowest"):
        ax.plot(places, np.minimum(rows[name], high), "x", color=COLOURS[0], markersize=2.4, markeredgewidth=0.6)
    ax.plot(places, rows[reference], color=COLOURS[1], linewidth=1.2, linestyle="--", label="as many random searches")
    for place, row in enumerate(rows.to_dict("records")):
        if row["solved"] < row["trials"]:
            share = f"{100 * row['solved'] / row['trials']:.0f}%"
            ax.text(place, top * 1.08, share, fontsize=SMALL - 1, color=GREY, ha="center", va="bottom")
    quiet(ax)


def _figure(table: pd.DataFrame, panels: int) -> np.ndarray:
    figure = Figure(figsize=(max(3.4 * panels + 0.3, 5.0), 2.9), layout="constrained")
    fewest, most = int(table["trials"].min()), int(table["trials"].max())
    count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    note = (
        f"{count} trials a box. Boxes: quartiles and median; whiskers: 1.5 interquartile ranges;\n"
        "crosses: fastest and slowest trial. Percentages: trials solved, where not all were."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(1, panels, squeeze=False, sharey=True).ravel()
    return drawn
