"""Which parameters matter: permutation importance over cells, and the cells as lines across parallel axes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from elegans.errors import ExperimentError
from elegans.explorer.axes import Axis, words_of
from elegans.explorer.cells import Cells
from elegans.explorer.figures import COLOURS, as_json, shown_number, text, trace
from elegans.explorer.statistics import Statistic

MOST, FEWEST = 2_000, 12
"""The maximum and the minimum number of cells; of more, a random choice is taken."""
TREES, FOLDS, SHUFFLES, SEED = 50, 4, 5, 0
"""Settings of the forests and the shuffles; the seed is fixed, so the same cells give the same numbers."""
POOR = 0.5
"""The share of explained variance below which forests say little."""
RAMP = ("#7b5cc9", "#2f83c5", "#1f9e89", "#b58a00", "#d5502e")
"""Colours of lines from the lowest fifth to the highest, legible on light pages and on dark ones."""
NAMED = 12
"""The maximum number of values of a parallel axis that are named."""


def parameters_record(cells: Cells, stat: str, shown: np.ndarray) -> dict[str, Any]:
    """Return how much each parameter matters for a statistic, in words and as figures, as JSON has them.

    Args:
        cells: the cells.
        stat: the statistic.
        shown: which cells count.

    Raises:
        ExperimentError: too few cells have a value, or no parameter or value differs.
    """
    statistic = cells.statistics[stat]
    values = cells.column(statistic.column)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.log10(values) if statistic.logarithmic else values * (100 if statistic.percent else 1)
    every = np.flatnonzero(shown & np.isfinite(scaled))
    if len(every) < FEWEST:
        raise ExperimentError(f"at least {FEWEST} cells with a {statistic.label} are needed: {len(every)}")
    rows = every
    if len(every) > MOST:
        rows = np.sort(np.random.default_rng(SEED).choice(every, MOST, replace=False))
    axes = [index for index in range(len(cells.axes)) if len(np.unique(cells.codes[rows, index])) > 1]
    codes = cells.codes[rows][:, axes]
    if not axes or np.ptp(scaled[rows]) == 0:
        raise ExperimentError(f"a parameter and the {statistic.label} must differ between cells: they are all equal")
    growth, explained = permutation_importance(codes, scaled[rows])
    words = [words_of(cells.axes)[index] for index in axes]
    unit = "orders of magnitude" if statistic.logarithmic else "percentage points" if statistic.percent else "its unit"
    lines = Parallel(cells, [cells.axes[index] for index in axes], codes, words)
    return {
        "explanation": _explained(statistic, explained, len(rows), len(every), int(shown.sum())),
        "importance": as_json(_bars(words, growth, unit)),
        "parallel": as_json(lines.figure(rows, scaled[rows], statistic)),
        "ranked": [words[index] for index in np.argsort(-growth.mean(0), kind="stable")],
        "explained": explained,
    }


def permutation_importance(parameters: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return by how much the error of a random forest grows where one parameter is shuffled between cells.

    A forest learns from three quarters of the cells; its mean absolute error is taken on the rest, before and after.

    Args:
        parameters: of shape (cells, parameters), as ranks.
        values: of shape (cells,).

    Returns:
        The growth by fold and parameter, a mean over shuffles; and the share of the variance that the forests explain.
    """
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.model_selection import KFold

    generator = np.random.default_rng(SEED)
    growth, residuals = np.zeros((FOLDS, parameters.shape[1])), np.zeros(len(values))
    for fold, (seen, held) in enumerate(KFold(FOLDS, shuffle=True, random_state=SEED).split(parameters)):
        forest = RandomForestRegressor(TREES, random_state=SEED).fit(parameters[seen], values[seen])
        residuals[held] = forest.predict(parameters[held]) - values[held]
        for column in range(parameters.shape[1]):
            shuffled = np.tile(parameters[held], (SHUFFLES, 1, 1))
            shuffled[:, :, column] = [generator.permutation(parameters[held, column]) for _ in range(SHUFFLES)]
            predicted = forest.predict(shuffled.reshape(-1, parameters.shape[1])).reshape(SHUFFLES, -1)
            growth[fold, column] = np.abs(predicted - values[held]).mean() - np.abs(residuals[held]).mean()
    return growth, float(1 - (residuals**2).mean() / values.var())


def _explained(statistic: Statistic, explained: float, count: int, having: int, shown: int) -> list[str]:
    """Return in sentences what the figures show."""
    of = f"{count:,} of {having:,} cells, chosen at random" if count < having else f"{count:,} cells"
    poor = " That is little, so the bars say little." if explained < POOR else ""
    left = f" {shown - having:,} cells without a finite value are left out." if shown > having else ""
    return [
        f"A random forest predicts the {statistic.label} of a cell from its parameters, for {of}. On cells that it has "
        f"not seen it explains {max(0.0, explained):.0%} of the variance.{poor}{left}",
        "Then the values of one parameter are shuffled between the cells. The more the prediction suffers, the more "
        "the parameter matters: a bar is the growth of the mean absolute error, with its range over "
        f"{FOLDS} forests. The seed is fixed, so the same cells give the same bars.",
    ]


def _bars(words: Sequence[str], growth: np.ndarray, unit: str) -> dict[str, Any]:
    means = growth.mean(0)
    order = np.argsort(means, kind="stable")  # the largest is on top
    reach = {"array": (growth.max(0) - means)[order], "arrayminus": (means - growth.min(0))[order], "color": "#808080"}
    bars = trace(
        "bar",
        x=means[order],
        y=[text(words[index]) for index in order],
        orientation="h",
        marker={"color": COLOURS[0]},
        error_x={"type": "data", "symmetric": False, **reach},
        hovertemplate="%{y}: %{x:.3g}<extra></extra>",
        name="importance",
    )
    grid = {"gridcolor": "rgba(128,128,128,0.25)"}
    layout = {
        "template": {},
        "height": 110 + 34 * len(words),
        "margin": {"l": 20, "r": 20, "t": 10, "b": 55},
        "bargap": 0.35,
        "xaxis": {"title": {"text": f"error grows by ({unit})"}, "zeroline": True, **grid},
        "yaxis": {"automargin": True, "type": "category", "ticksuffix": "  "},
    }
    return {"data": [bars], "layout": layout}


class Parallel:
    """Cells as lines across parallel axes, one for each parameter and the last for the statistic.

    Args:
        cells: the cells.
        axes: the parameters.
        codes: each cell's places on them, of shape (cells, parameters).
        words: what the parameters are called.
    """

    def __init__(self, cells: Cells, axes: Sequence[Axis], codes: np.ndarray, words: Sequence[str]) -> None:
        self.cells, self.axes, self.codes, self.words = cells, axes, codes, words

    def heights(self, scaled: np.ndarray) -> np.ndarray:
        """Return where each line crosses each axis, from 0 to 1; lines with the same value are spread apart."""
        low, reach = scaled.min(), np.ptp(scaled) or 1.0
        columns = [
            (codes + 0.5 + 0.7 * (_ranks(codes, scaled) - 0.5)) / len(axis.values)
            for axis, codes in zip(self.axes, self.codes.T, strict=True)
        ]
        return np.column_stack([*columns, (scaled - low) / reach])

    def figure(self, rows: np.ndarray, scaled: np.ndarray, statistic: Statistic) -> dict[str, Any]:
        """Return the figure: colours are fifths of the statistic's range, which the legend hides and shows."""
        heights = self.heights(scaled)
        ends = np.linspace(scaled.min(), scaled.max(), len(RAMP) + 1)
        fifth = np.clip(np.searchsorted(ends, scaled, side="right") - 1, 0, len(RAMP) - 1)
        across, gap = np.arange(heights.shape[1] + 1, dtype=float), np.full((len(rows), 1), np.nan)
        lines = np.hstack([heights, gap])
        values = self.cells.column(statistic.column)[rows]
        said = [
            f"{text(self.cells.name(number))}<br>{statistic.label}: {shown_number(value, statistic)}"
            for number, value in zip(self.cells.numbers[rows].tolist(), values.tolist(), strict=True)
        ]
        traces = []
        for index, colour in enumerate(RAMP):
            members = np.flatnonzero(fifth == index)
            if not len(members):
                continue
            numbers = np.repeat(self.cells.numbers[rows[members]], len(across))
            traces.append(
                trace(
                    "scatter",
                    x=np.tile(across, len(members)),
                    y=lines[members].ravel(),
                    mode="lines",
                    line={"color": colour, "width": 1.2},
                    opacity=0.75 if len(rows) < 300 else 0.4,
                    customdata=numbers,
                    text=[said[member] for member in members for _ in across],
                    hovertemplate="%{text}<extra></extra>",
                    name=f"{_said(ends[index], statistic)} to {_said(ends[index + 1], statistic)}",
                )
            )
        return {"data": traces, "layout": self._layout(ends, statistic)}

    def _layout(self, ends: np.ndarray, statistic: Statistic) -> dict[str, Any]:
        count = len(self.axes)
        ticks = [
            (index, (code + 0.5) / len(axis.values), text(axis.texts[code]))
            for index, axis in enumerate(self.axes)
            for code in range(0, len(axis.values), -(-len(axis.values) // NAMED))
        ]
        ticks += [(count, index / (len(ends) - 1), _said(end, statistic)) for index, end in enumerate(ends)]
        where = {"showarrow": False, "bgcolor": "card", "borderpad": 1, "xanchor": "right", "xshift": -4}
        upright = {"type": "line", "y0": 0, "y1": 1, "line": {"color": "#808080", "width": 1}, "layer": "above"}
        return {
            "template": {},
            "height": 460,
            "margin": {"l": 50, "r": 20, "t": 30, "b": 40},
            "hovermode": "closest",
            "showlegend": True,
            "legend": {"orientation": "h", "x": 0, "y": 1.04, "yanchor": "bottom"},
            "annotations": [{"x": x, "y": y, "text": said, **where} for x, y, said in ticks],
            "shapes": [{"x0": index, "x1": index, **upright} for index in range(count + 1)],
            "xaxis": {
                "range": [-0.35, count + 0.3],
                "tickvals": list(range(count + 1)),
                "ticktext": [*map(text, self.words), statistic.label],
                "showgrid": False,
                "zeroline": False,
            },
            "yaxis": {"visible": False, "range": [-0.03, 1.03]},
        }


def _said(scaled: float, statistic: Statistic) -> str:
    value = 10**scaled if statistic.logarithmic else scaled / (100 if statistic.percent else 1)
    return shown_number(float(f"{value:.3g}"), statistic)


def _ranks(codes: np.ndarray, scaled: np.ndarray) -> np.ndarray:
    """Return the rank of each cell's value among the cells with the same value on an axis, from 0 to 1."""
    order = np.lexsort((scaled, codes))
    sizes = np.bincount(codes)
    first = np.concatenate([[0], np.cumsum(sizes)])[codes[order]]
    ranks = np.full(len(codes), 0.5)
    several = sizes[codes[order]] > 1
    ranks[order[several]] = ((np.arange(len(codes)) - first) / np.maximum(sizes[codes[order]] - 1, 1))[several]
    return ranks
