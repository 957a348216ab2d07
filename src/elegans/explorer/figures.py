"""The figures of page, report and notebooks, as plotly's; colours mean what they mean in ``elegans.plots``."""

import html
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import cycle
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from elegans.errors import ExperimentError, printable
from elegans.experiments.registry import find
from elegans.explorer.axes import Axis
from elegans.explorer.cells import Cells
from elegans.explorer.statistics import STATISTICS, Statistic
from elegans.explorer.verdicts import judged
from elegans.explorer.view import SQUARES, View
from elegans.store import Store

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""As ``elegans.plots.style.COLOURS``, which need matplotlib."""
GREY = "#808080"
CONTOUR = COLOURS[1]


def _scale(colours: str) -> list[tuple[float, str]]:
    """Return colours of a scale at equal distances, as plotly takes them."""
    names = colours.split()
    return [(place / (len(names) - 1), f"#{colour}") for place, colour in enumerate(names)]


SHADES = _scale("440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725")
"""Viridis; its colours are written out because numbers in squares must be legible on them."""
DIVERGING = _scale("053061 2166ac 4393c3 92c5de d1e5f0 f7f7f7 fddbc7 f4a582 d6604d b2182b 67001f")
"""As ``elegans.plots.style.DIVERGING``: white is 0, red is above; a page's scale of that name has another middle."""
SQUARE = 26
"""The size of a map's squares in pixels."""
HATCHED = 2_000
"""The maximum number of squares that are hatched: each is an element of the page."""
NUMBERED = 1_000
"""The maximum number of squares of a map whose squares show numbers."""
UNDER = 0.34
"""How far below the middle of a square its mark is: the number there stays legible."""
DASHES = ("solid", "dot", "dash", "dashdot", "longdash")
"""The dashes of the lines of theory, in their order."""
ACROSS = 3
"""The number of panels of a map side by side."""
LEGEND_LETTERS = 44
"""The maximum number of letters in a line of the legend: a phone has room for them."""
LEGEND_LINE = 19
"""The height of a line of the legend in pixels."""


def explore(store_or_table: Any, **view: str) -> "go.Figure":
    """Return the interactive map of a store or of a table of trials, for a notebook.

    Args:
        store_or_table: a store, its place, or a table of trials as ``elegans.run`` returns it.
        **view: what to show: ``x``, ``y`` and ``facet`` (axes), ``stat`` (``rate``, ``median_steps``,
            ``test_error`` or ``seconds``; of an experiment's store also a column of the tables that its claims are
            decided from, such as ``training-curves/final/delay``), and further axes' values as ``at``-parameters:
            ``**{"at.task.n": "50"}``.

    Raises:
        ExperimentError: the table is none of trials, or the view names what there is not.
        StoreError: the store cannot be read.
    """
    if isinstance(store_or_table, pd.DataFrame):
        cells = Cells.of_table(store_or_table)
        return map_figure(cells, View.parse(view, cells))
    if isinstance(store_or_table, Store):
        return _of_store(store_or_table, view)
    if store_or_table is None:
        rule = "explore must have a store, its place or a table of trials"
        raise ExperimentError(f"{rule}: store_or_table=None")
    with Store(store_or_table, create=False) as store:
        return _of_store(store, view)


def _of_store(store: Store, view: Mapping[str, str]) -> "go.Figure":
    cells = Cells(store)
    if view.get("stat", "rate") not in STATISTICS:
        cells.analysed = judged(store, cells).statistics
    try:
        return map_figure(cells, View.parse(view, cells))
    finally:
        cells.close()


def text(value: Any) -> str:
    """Return a text from anywhere as plotly shows it literally: it reads some HTML."""
    return html.escape(printable(str(value)), quote=False)


def as_json(figure: Any) -> dict[str, Any]:
    """Return a figure, or its record, as JSON has it; NaN and infinities are null."""
    record: dict[str, Any] = plain(figure if isinstance(figure, dict) else figure.to_plotly_json())
    return record


def plain(value: Any) -> Any:
    """Return a value as JSON has it; NaN and infinities are None."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return _listed(value)
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, str | int | float | bool) else str(value)


def _listed(array: np.ndarray) -> Any:
    if array.dtype.kind == "f":
        entries = array.astype(object)
        entries[~np.isfinite(array)] = None
        return entries.tolist()
    return plain(array.tolist()) if array.dtype.kind == "O" else array.tolist()


def trace(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a trace as plotly's JSON has it: its objects take too long for a page that is redrawn every second."""
    return {"type": kind, **fields}


def map_figure(cells: Cells, view: View) -> "go.Figure":
    """Return the map of a view: a square per cell, a panel per value of the facet.

    Raises:
        ExperimentError: a panel would have too many squares.
    """
    import plotly.graph_objects as go

    return go.Figure(map_record(cells, view))


def map_record(cells: Cells, view: View) -> dict[str, Any]:
    """Return the same as a record of traces and layout."""
    x, y = (None if name is None else cells.axis(name)[1] for name in (view.x, view.y))
    across, up = (1 if axis is None else len(axis.values) for axis in (x, y))
    panels = _panels(cells, view)
    if across * up * len(panels) > SQUARES:
        shape = f"{across} x {up} squares in {len(panels)} panels"
        raise ExperimentError(f"a map must have at most {SQUARES:,} squares, so choose other axes: {shape}")
    statistic = cells.statistics[view.stat]
    colours = _colour_axis(cells, statistic, np.concatenate([rows for _, rows in panels]))
    traces: list[dict[str, Any]] = []
    for index, (_, rows) in enumerate(panels):
        suffix = "" if index == 0 else str(index + 1)
        grid = MapPanel(cells, view, rows)
        traces += [*grid.heat(statistic, colours, suffix), *grid.hatch(suffix)]
        if view.theory and len(rows) and has_theory(cells, view):
            traces += grid.theory(_lines(cells, view, grid.columns), suffix, first=index == 0)
        if view.contour and x is not None and x.numeric:
            traces += grid.contour(suffix, first=index == 0)
    layout = layout_of(panels, x, y, [line["name"] for line in traces if line.get("showlegend")])
    return {"data": traces, "layout": {**layout, "coloraxis": colours, "barmode": "overlay"}}


def map_table(cells: Cells, view: View) -> pd.DataFrame:
    """Return the numbers of a map: each cell's places on all axes, its statistic with interval, and its counts."""
    statistic = cells.statistics[view.stat]
    rows = np.flatnonzero(view.shown(cells))
    columns: dict[str, Any] = {"cell": cells.numbers[rows]}
    for index, axis in enumerate(cells.axes):
        columns[axis.name] = [axis.texts[code] for code in cells.codes[rows, index]]
    counts = ("trials", "solved", "failed", "running", "missing")
    for name in dict.fromkeys((statistic.column, statistic.low, statistic.high, statistic.trials, *counts)):
        columns[name] = cells.column(name)[rows]
    return pd.DataFrame(columns)


def has_theory(cells: Cells, view: View) -> bool:
    """Return whether an experiment of the store has lines of theory for the plane of a view."""
    return any(_is_plane(plane, view) for entry in cells.experiments for plane in entry.lines)


def _is_plane(plane: Sequence[str], view: View) -> bool:
    return set(plane) == {view.x, view.y}


def _lines(cells: Cells, view: View, columns: Mapping[str, Any]) -> list[Any]:
    """Return the lines of theory of the experiments of a store in the plane of a view, at a cell with given columns."""
    lines: list[Any] = []
    for entry in cells.experiments:
        if any(_is_plane(plane, view) for plane in entry.lines):
            for plane, lines_through in find(entry.name).lines.items():
                lines += lines_through(columns) if _is_plane(plane, view) else []
    return lines


def title(cells: Cells, view: View) -> str:
    """Return what a map shows, in words."""
    fixed = [f"{name} = {value}" for name, value in view.at.items()]
    return ", ".join([cells.statistics[view.stat].label, *fixed])


def _panels(cells: Cells, view: View) -> list[tuple[str, np.ndarray]]:
    visible = np.flatnonzero(view.shown(cells))
    if view.facet is None:
        return [("", visible)]
    index, axis = cells.axis(view.facet)
    codes = cells.codes[visible, index]
    panels = [(f"{axis.name} = {name}", visible[codes == code]) for code, name in enumerate(axis.texts)]
    return [(name, rows) for name, rows in panels if len(rows)] or [("", visible)]


class MapPanel:
    """One panel of a map: which cell is where."""

    def __init__(self, cells: Cells, view: View, rows: np.ndarray) -> None:
        self.cells = cells
        self.x, self.y = (None if name is None else cells.axis(name)[1] for name in (view.x, view.y))
        self.shape = tuple(1 if axis is None else len(axis.values) for axis in (self.y, self.x))
        self.rows = rows
        self.up, self.across = (
            np.zeros(len(rows), np.int64) if name is None else cells.codes[rows, cells.axis(name)[0]]
            for name in (view.y, view.x)
        )

    def heat(self, statistic: Statistic, colours: Mapping[str, Any], suffix: str) -> list[Any]:
        """Return the squares of a statistic."""
        values = self.cells.column(statistic.column)[self.rows]
        written = [number_in(value, statistic) for value in values.tolist()] if len(values) <= NUMBERED else []
        return self.squares(shades_of(values, statistic), self._hover(statistic), written, colours, suffix)

    def squares(
        self, shades: np.ndarray, said: Sequence[str], written: Sequence[str], colours: Mapping[str, Any], suffix: str
    ) -> list[Any]:
        """Return a square for each cell, coloured by a number, with its tooltip and its text.

        Texts are black or white on colours, and as the page's ink on squares without one; the page shows them where
        there is room.
        """
        values = np.full(self.shape, np.nan)
        numbers, texts = np.full(self.shape, None, object), np.full(self.shape, "", object)
        values[self.up, self.across] = shades
        numbers[self.up, self.across] = self.cells.numbers[self.rows]
        texts[self.up, self.across] = said
        ends = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        heat = trace(
            "heatmap",
            z=values,
            x=np.arange(self.shape[1]),
            y=np.arange(self.shape[0]),
            customdata=numbers,
            hovertext=texts,
            hovertemplate="%{hovertext}<extra></extra>",
            coloraxis="coloraxis",
            xgap=1,
            ygap=1,
            name="cells",
            **ends,
        )
        coloured = np.isfinite(shades)
        inks: tuple[tuple[np.ndarray, dict[str, Any]], ...] = (
            (coloured, {"color": legible_on(shades[coloured], colours)}),
            (~coloured, {}),
        )
        return [heat] + [
            trace(
                "scatter",
                x=self.across[which],
                y=self.up[which],
                text=np.array(written, object)[which],
                textfont={"size": 11, **ink},
                mode="text",
                visible=False,
                showlegend=False,
                hoverinfo="skip",
                name="numbers",
                **ends,
            )
            for which, ink in inks
            if written and which.any()
        ]

    def _hover(self, statistic: Statistic) -> list[str]:
        labels = [
            [f"{text(axis.name)} = {text(name)}<br>" for name in axis.texts] if axis is not None else [""]
            for axis in (self.x, self.y)
        ]
        names = (statistic.column, statistic.low, statistic.high, statistic.trials)
        counts = ("solved", "trials", "failed", "running", "missing")
        numbers = zip(*(self.cells.column(name)[self.rows].tolist() for name in (*names, *counts)), strict=True)
        return [
            f"{labels[0][x]}{labels[1][y]}{_said(statistic, *row)}"
            for x, y, row in zip(self.across.tolist(), self.up.tolist(), numbers, strict=True)
        ]

    def hatch(self, suffix: str) -> list[Any]:
        """Return the hatching of the squares whose cells are being trained."""
        active = np.flatnonzero(self.cells.column("running")[self.rows] > 0)[:HATCHED]
        if not len(active):
            return []
        pattern = {"shape": "/", "fgcolor": "white", "bgcolor": "rgba(0,0,0,0.25)", "size": 6, "solidity": 0.3}
        return [
            trace(
                "bar",
                x=self.across[active],
                y=np.full(len(active), 0.96),
                base=self.up[active] - 0.48,
                width=0.96,
                marker={"color": "rgba(0,0,0,0)", "line": {"width": 0}, "pattern": pattern},
                hoverinfo="skip",
                showlegend=False,
                xaxis=f"x{suffix}",
                yaxis=f"y{suffix}",
                name="running",
            )
        ]

    def contour(self, suffix: str, first: bool) -> list[Any]:
        """Return the crossings of one half by the success rate along each row."""
        from elegans.analysis.contours import crossings

        assert self.x is not None
        rates = np.full(self.shape, np.nan)
        rates[self.up, self.across] = self.cells.column("rate")[self.rows]
        numeric = [index for index, value in enumerate(self.x.values) if value is not None]
        x_values = np.array([self.x.values[index] for index in numeric], float)
        points = [
            (self.place(crossing), row - UNDER, crossing)
            for row in range(self.shape[0])
            for crossing in crossings(x_values, rates[row, numeric])
        ]
        if not points:
            return []
        across, up, values = zip(*points, strict=True)
        return [
            trace(
                "scatter",
                x=across,
                y=up,
                mode="markers",
                marker={"color": CONTOUR, "symbol": "triangle-up", "size": 10, "line": {"color": "white", "width": 1}},
                text=[f"half solved at {text(self.x.name)} = {value:.4g}, interpolated" for value in values],
                hovertemplate="%{text}<extra></extra>",
                name="half of the trials solved",
                legendgroup="contour",
                showlegend=first,
                xaxis=f"x{suffix}",
                yaxis=f"y{suffix}",
            )
        ]

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the first cell."""
        row = self.cells.table.iloc[self.rows[0]].items()
        return {str(name): None if pd.api.types.is_scalar(value) and pd.isna(value) else value for name, value in row}

    def theory(self, lines: Sequence[Any], suffix: str, first: bool) -> list[Any]:
        """Return lines of theory, white with a dark edge; in the legend they are grey, which is legible on any page."""
        assert self.x is not None and self.y is not None
        traces = []
        for line, dash in zip(lines, cycle(DASHES)):
            across, up = (places_on(axis, _denser(line.columns[axis.name])) for axis in (self.x, self.y))
            outside = not np.isfinite(across + up).any()
            whole = line.label + " (beyond this map)" * outside
            label = "<br>".join(html.escape(part, quote=False) for part in wrap(whole, LEGEND_LETTERS))
            shared = {"mode": "lines", "legendgroup": label, "name": label, "hoverinfo": "skip"}
            ends = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
            for colour, width, style in (("black", 4, "solid"), ("white", 2, dash)):
                stroke = {"color": colour, "width": width, "dash": style}
                traces.append(trace("scatter", x=across, y=up, line=stroke, showlegend=False, **shared, **ends))
            if first:
                grey = {"color": GREY, "width": 2, "dash": dash}
                traces.append(trace("scatter", x=[None], y=[None], line=grey, showlegend=True, **shared, **ends))
        return traces

    def place(self, value: float) -> float:
        """Return where a number lies on the x axis, which names its values in order."""
        assert self.x is not None
        return float(places_on(self.x, [value])[0])


def places_on(axis: Axis, values: Any) -> np.ndarray:
    """Return where numbers lie on an axis that names its values in order; between two of them on a logarithmic scale.

    Numbers beyond the ends are NaN.
    """
    ticks = np.array([value for value in axis.values if value is not None], float)
    points = np.asarray(values, float)
    if (ticks > 0).all():
        ticks = np.log(ticks)
        points = np.log(np.where(points > 0, points, np.nan))
    positions: np.ndarray = np.interp(points, ticks, np.arange(len(ticks)), left=np.nan, right=np.nan)
    return positions


def _denser(values: np.ndarray) -> np.ndarray:
    """Return points with ten between each two, on a logarithmic scale."""
    logs = np.log(np.asarray(values, float))
    positions = np.linspace(0, len(logs) - 1, 10 * (len(logs) - 1) + 1)
    denser: np.ndarray = np.exp(np.interp(positions, np.arange(len(logs)), logs))
    return denser


@lru_cache(maxsize=50_000)
def _said(statistic: Statistic, value: float, low: float, high: float, trials: float, *counts: int) -> str:
    """Return a statistic with its interval, and a cell's counts: kept, since most cells stay as they were."""
    words = f"{statistic.label}: {shown_number(value, statistic)}"
    solved, finished, *others = counts
    size = [] if math.isnan(trials) else [f"n = {trials:.0f}"]
    if trials == 0:
        words = f"{statistic.label}: no {'value' if finished else 'trials yet'}"
    elif math.isnan(value):
        words += f", at least {shown_number(low, statistic)}" if math.isfinite(low) else ""
        words += f" ({size[0]})"
    elif math.isnan(low):
        words += f" ({', '.join([*size, 'no interval'])})"
    else:
        ends = f"{shown_number(low, statistic)} to {shown_number(high, statistic)} ({statistic.interval})"
        words += f"<br>{', '.join([ends, *size])}"
    more = [f"{count} {name}" for count, name in zip(others, ("failed", "running", "missing"), strict=True) if count]
    return f"{words}<br>{', '.join([f'{solved} of {finished} trials solved', *more])}"


def _size(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def number_in(value: float, statistic: Statistic) -> str:
    """Return a statistic's value as a square has room for it."""
    if not math.isfinite(value):
        return "" if math.isnan(value) else "∞"
    scale, unit, digits = 1.0, "", ".3g" if abs(value) >= 100 else ".2g"
    if statistic.percent:
        scale, unit, digits = 0.01, "%", ".0f"
    elif abs(value) >= 1000:
        scale, unit = (1e6, "M") if abs(value) >= 999_500 else (1e3, "k")
    return typeset(f"{value / scale:{digits}}{unit}")


def shown_number(value: float, statistic: Statistic) -> str:
    """Return a statistic's value in words: a share as per cent."""
    if not math.isfinite(value):
        return "not finite" if math.isnan(value) else typeset("∞" if value > 0 else "-∞")
    return typeset(f"{100 * value:.3g}%" if statistic.percent else f"{value:,.4g}")


def typeset(number: str) -> str:
    """Return a number with a minus sign."""
    return number.replace("-", "\N{MINUS SIGN}")


def shades_of(values: np.ndarray, statistic: Statistic) -> np.ndarray:
    """Return the numbers by which values of a statistic are coloured."""
    if not statistic.logarithmic:
        return values
    with np.errstate(divide="ignore"):
        logarithms: np.ndarray = np.log10(values)
    return logarithms


def legible_on(shades: np.ndarray, colours: Mapping[str, Any]) -> np.ndarray:
    """Return black or white for each number, whichever has a contrast of at least 4.5 on its colour, as WCAG 2 has it.

    Args:
        shades: the numbers.
        colours: the axis of colours, with ``colorscale``, ``cmin`` and ``cmax``.
    """
    stops, names = zip(*colours["colorscale"], strict=True)
    ends = np.array([list(bytes.fromhex(name[1:])) for name in names])
    places = (shades - colours["cmin"]) / (colours["cmax"] - colours["cmin"])
    channels = np.array([np.interp(places, stops, channel) for channel in ends.T]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = np.array([0.2126, 0.7152, 0.0722]) @ linear
    return np.where(luminance > 0.18, "black", "white")


def _colour_axis(cells: Cells, statistic: Statistic, rows: np.ndarray) -> dict[str, Any]:
    shades = shades_of(cells.column(statistic.column)[rows], statistic)
    finite = shades[np.isfinite(shades)]
    low, high = (0.0, 1.0) if statistic.column == "rate" or not len(finite) else (finite.min(), finite.max())
    bar: dict[str, Any] = {"title": {"text": statistic.label, "side": "right"}, "thickness": 14, "outlinewidth": 0}
    if statistic.percent:
        bar["tickformat"] = ".0%"
    if statistic.logarithmic and len(finite):
        ticks = np.linspace(low, max(high, low + 1e-9), 5).tolist()
        bar |= {"tickvals": ticks, "ticktext": [_size(10**tick) for tick in ticks]}
    margin = 0.5 if low == high else 0.0
    return {"colorscale": SHADES, "cmin": low - margin, "cmax": high + margin, "colorbar": bar}


def layout_of(
    panels: Sequence[tuple[str, np.ndarray]], x: Axis | None, y: Axis | None, legend: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the layout of panels; plotly makes the upper margin as wide as the legend is high where it is drawn."""
    columns = min(ACROSS, len(panels))
    rows = math.ceil(len(panels) / columns)
    up = 1 if y is None else len(y.values)
    gap_x, gap_y = 0.04 if columns > 1 else 0, 0.35 / rows if rows > 1 else 0
    wide, high = (1 - gap_x * (columns - 1)) / columns, (1 - gap_y * (rows - 1)) / rows
    lines = sum(label.count("<br>") + 1 for label in legend)
    height = int(max(240, min(rows * (up * SQUARE + 90), 1600))) + 60
    above = (24 if panels[0][0] else 8) / (height - 120)  # at least as many pixels, above the names of panels
    layout: dict[str, Any] = {
        "height": height + LEGEND_LINE * max(0, lines - 1),
        "margin": {"l": 70, "r": 20, "t": 50, "b": 70},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "template": {},
        "plot_bgcolor": "rgba(128,128,128,0.18)",
        "legend": {"orientation": "h", "x": 0, "y": 1 + above, "yanchor": "bottom"},
        "annotations": [],
        "uirevision": "map",
    }
    for index, (name, _) in enumerate(panels):
        row, column = divmod(index, columns)
        left, top = column * (wide + gap_x), 1 - row * (high + gap_y)
        suffix = "" if index == 0 else str(index + 1)
        bottom, edge = index + columns >= len(panels), column == 0
        layout[f"xaxis{suffix}"] = _axis_of(x, [left, min(left + wide, 1.0)], f"y{suffix}", bottom)
        layout[f"yaxis{suffix}"] = _axis_of(y, [max(top - high, 0.0), top], f"x{suffix}", edge)
        if name:
            where = {"x": left, "y": top, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
            layout["annotations"].append({"text": text(name), "showarrow": False, **where})
    return layout


TICKS = 40
"""The maximum number of values of an axis that are named."""


def _axis_of(axis: Axis | None, domain: list[float], anchor: str, labelled: bool) -> dict[str, Any]:
    count = 1 if axis is None else len(axis.values)
    ticks = range(0, count, math.ceil(count / TICKS))
    texts = [""] if axis is None else [text(axis.texts[index]) for index in ticks]
    return {
        "domain": domain,
        "anchor": anchor,
        "range": [-0.5, count - 0.5],
        "tickvals": list(ticks),
        "ticktext": texts,
        "showticklabels": labelled,
        "title": {"text": text(axis.name) if axis is not None and labelled else ""},
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
    }
