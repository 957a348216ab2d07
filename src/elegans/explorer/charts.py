"""The figures of one cell: learning curves, times to solve, measures."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elegans.analysis import kaplan_meier
from elegans.explorer.figures import COLOURS, DIVERGING, GREY, SHADES, text, trace
from elegans.training.outcome import Curve, ErrorCurve

Line = tuple[np.ndarray, np.ndarray]
"""Steps, and a value at each."""
POINTS = 400
"""The maximum number of points per curve."""
LINES = 50
"""The maximum number of single curves that are drawn behind their quantiles."""
QUARTILES = (0.25, 0.75)
FRAMES = 60
"""The maximum number of steps of a slider."""
ENTRIES = 200
"""The maximum number of rows and of columns of an array that is drawn."""


def curves(by_seed: Mapping[int, tuple[Curve, ErrorCurve]], points: int | None = None) -> dict[str, Any] | None:
    """Return the learning curves of a cell's trials, on a logarithmic axis of steps.

    These are the held-out and the train error of each, their medians and quartiles, and the loss. Of trials of earlier
    versions, which have no held-out error, the minibatch error is shown.

    Args:
        by_seed: the curves.
        points: the maximum number of points of each.
    """
    found = lines_by_name(by_seed)
    shown = zip(found.items(), (COLOURS[1], COLOURS[0], COLOURS[0], GREY), strict=True)
    traces: list[Any] = []
    for (name, lines), colour in shown:
        if lines:
            _add_band(traces, lines, name, colour, points, "legendonly" if name == "loss" else True)
    if not traces:
        return None
    layout = _layout(_steps_title([line for lines in found.values() for line in lines.values()]), "error, loss")
    layout["xaxis"] |= {"type": "log", "dtick": "D2"}
    return {"data": traces, "layout": layout}


def lines_by_name(by_seed: Mapping[int, tuple[Curve, ErrorCurve]]) -> dict[str, dict[int, Line]]:
    """Return steps and values of each recorded error and of the loss, by name and seed."""
    lines: dict[str, dict[int, Line]] = {"held-out error": {}, "train error": {}, "minibatch error": {}, "loss": {}}
    for seed, (curve, errors) in by_seed.items():
        if errors.step:
            rows = {"held-out error": errors.test_error, "train error": errors.train_error, "loss": errors.loss}
        elif curve.step:
            rows = {"minibatch error": curve.error, "loss": curve.loss}
        else:
            continue
        steps = np.asarray(errors.step or curve.step, float)
        for name, values in rows.items():
            lines[name][seed] = steps, np.asarray(values, float)
    return lines


def overlay(lines_by_cell: Mapping[str, Mapping[int, Line]], what: str) -> dict[str, Any]:
    """Return the curves of several cells in one figure: of each the median over its trials and the quartiles.

    Args:
        lines_by_cell: steps and values of each trial by the cell's name and by seed.
        what: the quantity, as the axis names it.
    """
    traces: list[Any] = []
    looks = ((colour, dash) for dash in ("solid", "dash", "dot") for colour in COLOURS)
    for (name, lines), (colour, dash) in zip(lines_by_cell.items(), looks, strict=False):
        label = f"{name} ({len(lines)} trials)"
        _add_quartiles(traces, lines, label, colour, POINTS, {"legendgroup": name}, dash)
    layout = _layout(_steps_title([line for lines in lines_by_cell.values() for line in lines.values()]), text(what))
    layout["xaxis"] |= {"type": "log", "dtick": "D2"}
    return {"data": traces, "layout": layout | {"height": 460}}


def survival(times: np.ndarray, until: np.ndarray) -> dict[str, Any] | None:
    """Return the share of trials that are still unsolved against steps, with its pointwise interval.

    Args:
        times: the step at which each trial was solved, NaN where it was not.
        until: the step up to which each was trained, at which unsolved trials are censored.
    """
    if not len(times):
        return None
    estimate = kaplan_meier(times, until)
    table = estimate.table
    end = float(until.max())
    steps = np.concatenate([[0], table["steps"], [max(end, *table["steps"], 0)]])

    def course(name: str) -> np.ndarray:
        values = table[name].to_numpy(float)
        return np.concatenate([[1], values, values[-1:] if len(values) else [1]])

    traces: list[Any] = []
    traces.extend(_band(steps, course("low"), course("high"), COLOURS[0], "hv"))
    censored = np.sort(until[~np.isfinite(times)])
    left = course("unsolved")
    line = {"color": COLOURS[0], "shape": "hv", "width": 2}
    name = "unsolved, with pointwise 95% interval"
    traces.append(trace("scatter", x=steps, y=left, mode="lines", line=line, name=name))
    if len(censored):
        fractions = left[np.searchsorted(steps, censored, side="right") - 1]
        marks = {"symbol": "line-ns-open", "color": COLOURS[1], "size": 9}
        name = f"{len(censored)} of {len(times)} stopped unsolved (censored)"
        traces.append(trace("scatter", x=censored, y=fractions, mode="markers", marker=marks, name=name))
    layout = _layout("steps", "trials unsolved")
    layout["yaxis"] |= {"range": [-0.02, 1.02], "tickformat": ".0%"}
    return {"data": traces, "layout": layout}


def measure(
    by_seed: Mapping[int, Mapping[str, Mapping[str, Any]]], name: str | None, points: int | None = None
) -> dict[str, Any] | None:
    """Return what a probe measured: numbers as lines over steps, arrays as a heat map with a slider of steps.

    Args:
        by_seed: the measures of each trial, as in ``Outcome``.
        name: ``kind.quantity``; by default the first one.
        points: the maximum number of points per line.
    """
    quantities = measured(by_seed, name)
    if not quantities:
        return None
    seed, (steps, values) = next(iter(quantities.items()))
    if values.ndim > 1:
        return _array(seed, steps, values)
    traces: list[Any] = []
    lines = {seed: (steps, values) for seed, (steps, values) in quantities.items() if values.ndim == 1}
    _add_band(traces, lines, text(name or "measure"), COLOURS[2], points, True)
    return {"data": traces, "layout": _layout(_steps_title(list(lines.values())), text(name or "measure"))}


def measured(by_seed: Mapping[int, Mapping[str, Mapping[str, Any]]], name: str | None) -> dict[int, tuple[Any, Any]]:
    """Return the steps and values of one quantity by seed, without values that are not numbers."""
    quantities = {}
    for seed, measures in by_seed.items():
        for kind, quantity_values in measures.items():
            for quantity, values in quantity_values.items():
                if quantity == "step" or (name is not None and name != f"{kind}.{quantity}"):
                    continue
                name = f"{kind}.{quantity}"
                array = _numbers(values)
                if array is not None and len(array) == len(quantity_values["step"]):
                    quantities[seed] = (np.asarray(quantity_values["step"], float), array)
    return quantities


def _numbers(values: Any) -> np.ndarray | None:
    try:
        array = np.asarray([math.nan if value is None else value for value in values], float)
    except (TypeError, ValueError, OverflowError):  # texts, arrays of various shapes, numbers beyond floats
        return None
    return array if array.ndim and len(array) else None


def _array(seed: int, steps: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    """Return an array over steps: a vector as a heat map over steps, others as one heat map per step of a slider."""
    indices = _thinned(len(steps), FRAMES if values.ndim > 2 else ENTRIES)
    steps, values = steps[indices], values[indices]
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    signed, reach = low < 0 < high, max(-low, high)
    ends = (-reach, reach) if signed else (low, high)
    colours = {"colorscale": DIVERGING if signed else SHADES, "zmin": ends[0], "zmax": ends[1]}
    if values.ndim == 2:
        rows = _thinned(values.shape[1], ENTRIES)
        heat_map = trace("heatmap", x=steps, y=rows, z=values[:, rows].T, **colours)
        return {"data": [heat_map], "layout": _layout("steps", f"entry (seed {seed})")}
    flat = values.reshape(len(values), values.shape[1], -1)
    rows, columns = (_thinned(size, ENTRIES) for size in flat.shape[1:])
    arrays = flat[:, rows][:, :, columns]
    maps = [trace("heatmap", x=columns, y=rows, z=array, **colours) for array in arrays]
    names = [f"{step:g}" for step in steps]
    frames = [{"data": [heat_map], "name": name} for heat_map, name in zip(maps, names, strict=True)]
    how = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    choices = [{"label": name, "method": "animate", "args": [[name], how]} for name in names]
    slider = {"active": len(names) - 1, "steps": choices, "currentvalue": {"prefix": "step "}, "pad": {"t": 40}}
    layout = {**_layout("column", f"row (seed {seed})"), "sliders": [slider]}
    layout["yaxis"]["autorange"] = "reversed"
    return {"data": [maps[-1]], "layout": layout, "frames": frames}


def _thinned(count: int, most: int) -> np.ndarray:
    """Return at most so many places from 0 to ``count - 1``, first and last among them."""
    return np.arange(count) if count <= most else np.unique(np.linspace(0, count - 1, most).round().astype(int))


def _add_band(
    traces: list[Any],
    lines: Mapping[int, tuple[np.ndarray, np.ndarray]],
    name: str,
    colour: str,
    points: int | None,
    visible: bool | str,
) -> None:
    """Add the lines of some seeds, and above them their median with the band between the quartiles.

    A trial that has ended keeps its last value there: quartiles of the running trials alone would describe the slowest.
    """
    most = max(2, points or POINTS)
    group = {"legendgroup": name, "visible": visible}
    for seed, (steps, values) in list(lines.items())[:LINES]:
        indices = _thinned(len(steps), most)
        traces.append(
            trace(
                "scatter",
                x=steps[indices],
                y=values[indices],
                mode="lines",
                line={"color": colour, "width": 0.7},
                opacity=0.35,
                name=f"seed {seed}",
                hovertemplate=f"seed {seed}: %{{y:.4g}} at step %{{x:,}}<extra></extra>",
                showlegend=False,
                **group,
            )
        )
    _add_quartiles(traces, lines, f"{name}: median and quartiles of {len(lines)} trials", colour, most, group)


def _add_quartiles(
    traces: list[Any],
    lines: Mapping[int, Line],
    label: str,
    colour: str,
    most: int,
    group: Mapping[str, Any],
    dash: str = "solid",
) -> None:
    """Add the median of some lines, and the band between the quartiles."""
    grid = _common(list(lines.values()), most)
    every = np.array([np.interp(grid, steps, values, left=np.nan) for steps, values in lines.values()])
    counts = np.isfinite(every).sum(0)
    grid, every = grid[counts > 0], every[:, counts > 0]
    if not len(grid):
        return
    low, middle, high = np.nanquantile(every, (QUARTILES[0], 0.5, QUARTILES[1]), axis=0)
    traces.extend(edge | group for edge in _band(grid, low, high, colour, "linear"))
    style = {"color": colour, "width": 2.2, "dash": dash}
    traces.append(trace("scatter", x=grid, y=middle, mode="lines", line=style, name=text(label), **group))


def _steps_title(lines: Sequence[tuple[np.ndarray, np.ndarray]]) -> str:
    """Return the title of the axis of steps, which says what quantiles count of trials that have ended."""
    return "steps; ended trials keep their last value" if len({steps[-1] for steps, _ in lines}) > 1 else "steps"


def _common(lines: Sequence[tuple[np.ndarray, np.ndarray]], most: int) -> np.ndarray:
    """Return steps at which all lines are read: the distinct ones, thinned."""
    steps = np.unique(np.concatenate([steps for steps, _ in lines]))
    thinned: np.ndarray = steps[_thinned(len(steps), most)]
    return thinned


def _band(x: np.ndarray, low: np.ndarray, high: np.ndarray, colour: str, shape: str) -> list[Any]:
    """Return the area between two lines."""
    line = {"width": 0, "shape": shape, "color": colour}
    style: dict[str, Any] = {"x": x, "mode": "lines", "line": line, "hoverinfo": "skip", "showlegend": False}
    filled = {"fill": "tonexty", "fillcolor": _faint(colour)}
    return [trace("scatter", y=low, **style), trace("scatter", y=high, **filled, **style)]


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[index : index + 2], 16) for index in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"


def _layout(x: str, y: str) -> dict[str, Any]:
    grid = {"gridcolor": "rgba(128,128,128,0.25)", "zeroline": False}
    return {
        "template": {},
        "height": 380,
        "margin": {"l": 60, "r": 20, "t": 30, "b": 50},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "xaxis": {"title": {"text": x}, **grid},
        "yaxis": {"title": {"text": y}, **grid},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
    }
