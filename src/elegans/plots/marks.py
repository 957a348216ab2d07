"""Marks of figures in house style: curves of trials, bands of quantiles, estimates with intervals, maps, survival.

They draw on the axes that they are given and label nothing but their series: whatever matplotlib can do besides remains
possible. A style that is passed on as keyword arguments replaces the one of the house.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.patches import Rectangle

from elegans.plots.style import COLOURS, RATES, SMALL, contrast_colour

QUANTILES = (0.1, 0.5, 0.9)
"""The lower end, the line and the upper end of a band over trials."""


def band(ax: Axes, x: Any, middle: Any, low: Any, high: Any, colour: Any = COLOURS[0], **style: Any) -> None:
    """Draw a line with a band around it.

    Args:
        ax: the axes.
        x: where, of shape (points,).
        middle: the line.
        low: the lower end of the band.
        high: the upper end; an infinite one reaches beyond the figure.
        colour: of both.
        style: of the line, and its ``label``.
    """
    high = np.where(np.isposinf(np.asarray(high, float)), 1e12, high)
    ax.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0, step=_step_of(style))
    ax.plot(x, middle, color=colour, **{"linewidth": 1.3, **style})


def _step_of(style: dict[str, Any]) -> Any:
    drawstyle = str(style.get("drawstyle", ""))
    return drawstyle.partition("-")[2] or None


def bands(
    ax: Axes,
    table: pd.DataFrame,
    x: str,
    y: str,
    by: str | Sequence[str] | None = None,
    *,
    label: str = "{}",
    quantiles: Sequence[float] = QUANTILES,
    colours: Sequence[Any] = COLOURS,
    **style: Any,
) -> None:
    """Draw, for each group of a table's rows, quantiles of one column over the rows with the same value of another.

    Args:
        ax: the axes.
        table: one row per trial and point.
        x: the column along the axis.
        y: the column whose quantiles are drawn.
        by: the columns whose values make a group, in the order of their first rows; one group by default.
        label: a group's label, a format string of these values; none if it is empty.
        quantiles: the shares of the band's lower end, its line and its upper end.
        colours: by group.
        style: of the lines.
    """
    columns = [by] if isinstance(by, str) else list(by or ())
    groups = table.groupby(columns, sort=False) if columns else [((), table)]
    for (key, rows), colour in zip(groups, colours, strict=False):
        low, middle, high = (rows.groupby(x)[y].quantile(share) for share in quantiles)
        named = {"label": label.format(*key)} if columns and label else {}
        band(ax, middle.index, middle, low, high, colour, **named, **style)


def curves(ax: Axes, table: pd.DataFrame, x: str, y: str, colour: Any = COLOURS[0], **style: Any) -> None:
    """Draw one thin curve per trial of a table, by its column ``trial`` or ``seed``; one curve gets the label."""
    label = style.pop("label", None)
    for number, (_, rows) in enumerate(table.groupby("trial" if "trial" in table else "seed", sort=False)):
        own = {"label": label} if label and not number else {}
        ax.plot(rows[x], rows[y], color=colour, **{"linewidth": 0.8, "alpha": 0.6, **style, **own})


def estimates(
    ax: Axes, x: Any, y: Any, low: Any, high: Any, colour: Any = COLOURS[0], *, across: bool = False, **style: Any
) -> None:
    """Draw estimates with their intervals; where the upper end is infinite, the mark is a triangle.

    Args:
        ax: the axes.
        x: where, of shape (estimates,).
        y: the estimates; estimates that are not finite are omitted.
        low: the lower ends of their intervals.
        high: the upper ends.
        colour: of all.
        across: whether the estimates lie along the x axis, with ``x`` as their places along y.
        style: of the marks, and their ``label``; a line joins them if ``fmt`` has one, as ``o-``.
    """
    places, middle, lower, upper = np.broadcast_arrays(*(np.asarray(values, float) for values in (x, y, low, high)))
    known = np.isfinite(middle)
    places, middle, lower, upper = (values[known] for values in (places, middle, lower, upper))
    reach = np.maximum(np.nan_to_num([middle - lower, upper - middle], nan=0, posinf=0, neginf=0), 0)
    given = {"fmt": "o", "markersize": 3.2, "linewidth": 1.0, "elinewidth": 0.9, "capsize": 1.5, **style}
    first, second = (middle, places) if across else (places, middle)
    ax.errorbar(first, second, **{"xerr" if across else "yerr": reach}, color=colour, **given)
    endless = np.isposinf(upper)
    ax.plot(first[endless], second[endless], ">" if across else "^", color=colour, markersize=5)


def dots(
    ax: Axes, x: Any, y: Any, colour: Any = COLOURS[0], *, spread: float = 0.1, shift: float = 0.0, **style: Any
) -> None:
    """Draw one dot per trial; dots at the same position lie side by side, so that none hides another.

    Args:
        ax: the axes, whose x axis has its scale already.
        x: the places, of shape (trials,).
        y: the values.
        colour: of all.
        spread: over which distance the dots of a place are spread, in units of the axis, or of its natural logarithm.
        shift: by how much all of them are moved, in the same units.
        style: of the dots, and their ``label``.
    """
    places = pd.Series(np.asarray(x, float))
    groups = places.groupby(places)
    aside = shift + spread * ((groups.cumcount() + 0.5) / groups.transform("size") - 0.5)
    moved = places * np.exp(aside) if ax.get_xscale() == "log" else places + aside
    ax.plot(moved, np.asarray(y, float), color=colour, **{"marker": "o", "linestyle": "", "markersize": 2.5, **style})


def heat_map(
    ax: Axes,
    values: pd.DataFrame,
    *,
    text: Callable[[Any], str] | pd.DataFrame | None = None,
    norm: Normalize | None = None,
    colours: Colormap = RATES,
) -> None:
    """Draw a table as a map, the first row at the top, with its index and columns as ticks and texts in its cells.

    Args:
        ax: the axes.
        values: the table; cells that are not finite have no colour, or a light grey where they have a text.
        text: a function from a value to the text of its cell, or a table of texts; none by default.
        norm: from values to [0, 1]; their range by default.
        colours: the colour map.
    """
    numbers = values.to_numpy(float)
    finite = numbers[np.isfinite(numbers)]
    scale = norm or Normalize(finite.min(initial=0), finite.max(initial=1))
    columns, rows = (np.arange(size + 1) - 0.5 for size in numbers.shape[::-1])
    gaps: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.8}
    ax.pcolormesh(columns, rows, np.ma.masked_invalid(numbers), cmap=colours, norm=scale, **gaps)
    for (row, column), value in np.ndenumerate(numbers):
        said = str(text.iloc[row, column] if isinstance(text, pd.DataFrame) else text(value) if text else "")
        colour = contrast_colour(colours(scale(value))) if np.isfinite(value) else "0.2"
        if said and not np.isfinite(value):
            ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor="0.93", **gaps))
        ax.text(column, row, said, fontsize=SMALL - (len(columns) > 13), color=colour, ha="center", va="center")
    ax.set(xlim=columns[[0, -1]], ylim=rows[[-1, 0]])
    for set_ticks, labels in ((ax.set_xticks, values.columns), (ax.set_yticks, values.index)):
        set_ticks(range(len(labels)), [f"{label:g}" if isinstance(label, float) else str(label) for label in labels])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def survival(ax: Axes, times: Any, colour: Any = COLOURS[0], *, end: float = np.nan, **style: Any) -> None:
    """Draw the share of trials whose event has occurred, against its time.

    Args:
        ax: the axes.
        times: one per trial, NaN or infinite where the event has not occurred.
        colour: of the line.
        end: where the line ends; at the last event by default.
        style: of the line, and its ``label``.
    """
    values = np.asarray(times, float)
    events = np.sort(values[np.isfinite(values)])
    share = np.arange(len(events) + 1) / max(len(values), 1)
    at = np.concatenate([[0.0], events, [] if np.isnan(end) else [end]])
    ax.step(
        at, np.concatenate([share, share[-1:]])[: len(at)], where="post", color=colour, **{"linewidth": 1.3, **style}
    )
