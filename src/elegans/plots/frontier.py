"""The success frontier: success rates over sample size and width."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from pandas.api.types import is_numeric_dtype

from elegans.analysis import summarise_cells, wilson
from elegans.analysis.aggregation import cell_parameters
from elegans.errors import ExperimentError, article
from elegans.plots.style import GREY, LARGE, MEDIUM, RATES, SMALL, SomeAxes, contrast_colour, name_of, new_figure, short

GAP = 0.35
"""The gap before the online column, in columns."""
CELL = 0.275, 0.25
"""Width and height of a cell, in inches."""
PANEL = 2.9
"""Width of a panel in inches, for its title and number of trials side by side."""
LEAST = 0.145, 2.65
"""Minimum widths of a cell and of a panel in inches, taken where a figure would be wider than a page."""
WIDTHS = 5.0, 7.0
"""Widths of figures in inches, taken where the cells fit in after shrinking by at most 15%."""
NARROW = 7.0
"""Maximum width in inches of a figure whose note takes two lines."""


def success_frontier(table: pd.DataFrame, axes: SomeAxes | None = None) -> Any:
    """Draw the success rate over sample size and width, one panel for each initialisation and task.

    Each cell shows the percentage of its trials that were solved, or a tick if all were. Sizes are equally spaced, in
    increasing order; the online column is set apart on the right. Panels have one row for each input size and one
    column for each combination of the other parameters (initialisation, support size, …); where a figure would be wider
    than 7 inches, the last parameters vary from row to row instead. Intervals are not drawn: the columns ``low`` and
    ``high`` of ``elegans.analysis.summarise_cells`` have them, and a note under a new figure states their width.

    Args:
        table: one row per trial, as ``elegans.run`` returns it, or per cell (``elegans.analysis.summarise_cells``).
        axes: the axes to draw on, one per panel in reading order; a new figure by default.

    Returns:
        The axes: one, or an array of shape (rows, columns) where there are several panels.

    Raises:
        ExperimentError: a column is missing, two cells have one position, or there are not as many axes as panels.

    Source: Pareto frontiers, figures 1 (left) and 4.
    """
    summary = checked(table if "rate" in table else summarise_cells(table))
    rows, columns = layout(summary)
    grid = Grid(summary)
    panels = _figure(grid, rows, columns, summary) if axes is None else _reshape(axes, len(rows), len(columns))
    image = None
    for row, column in np.ndindex(panels.shape):
        ax: Axes = panels.item(row, column)
        panel = summary[matches(summary, {**rows[row], **columns[column]})]
        image = grid.draw(ax, panel)
        _describe(ax, panel, rows[row], columns[column], edge=(row == len(rows) - 1, column == 0))
    bar = panels.item(0).figure.colorbar(image, ax=list(panels.flat), pad=0.015, aspect=18 * len(rows), fraction=0.04)
    bar.set_label("trials solved (%)", fontsize=MEDIUM)
    bar.ax.tick_params(labelsize=SMALL, length=2)
    bar.outline.set_visible(False)
    return panels.item() if panels.size == 1 else panels


class Grid:
    """The columns (sample sizes, then online) and rows (widths) that all panels share."""

    def __init__(self, summary: pd.DataFrame) -> None:
        self.sizes = sorted(summary["regime.size"].dropna().unique())
        self.widths = sorted(summary["model.width"].unique())
        self.online = bool(summary["regime.size"].isna().any())
        self.online_at = len(self.sizes) + (GAP if self.sizes else 0)
        self.extent = self.online_at + self.online, len(self.widths)  # in cells, with the gap
        self.font: float = MEDIUM

    def draw(self, ax: Axes, panel: pd.DataFrame) -> Any:
        """Draw one panel, and return its image for a colour bar."""
        rates = np.full((len(self.widths), len(self.sizes) + 1), np.nan)
        for width, size, rate in zip(panel["model.width"], panel["regime.size"], panel["rate"], strict=True):
            column = len(self.sizes) if np.isnan(size) else self.sizes.index(size)
            rates[self.widths.index(width), column] = rate
        up = np.arange(len(self.widths) + 1)
        style: dict[str, Any] = {"cmap": RATES.with_extremes(bad="0.9"), "norm": Normalize(0, 100)}
        style |= {"edgecolors": "white", "linewidth": 0.6}
        image = None
        if self.sizes:
            image = ax.pcolormesh(np.arange(len(self.sizes) + 1), up, 100 * rates[:, :-1], **style)
        if self.online:
            image = ax.pcolormesh([self.online_at, self.online_at + 1], up, 100 * rates[:, -1:], **style)
        for row, column in zip(*np.nonzero(np.isfinite(rates)), strict=True):
            left = self.online_at if column == len(self.sizes) else column
            _write(ax, left + 0.5, row + 0.5, rates[row, column], self.font)
        x = [index + 0.5 for index in range(len(self.sizes))] + [self.online_at + 0.5] * self.online
        names = [short(size) for size in self.sizes] + ["online"] * self.online
        ax.set_xticks(x, names, rotation=45, ha="right", rotation_mode="anchor")
        ax.set_yticks(up[:-1] + 0.5, [short(width) for width in self.widths])
        ax.tick_params(length=0, pad=2, labelsize=SMALL)
        ax.set(xlim=(0, self.extent[0]), ylim=(0, self.extent[1]))
        ax.spines[:].set_visible(False)
        return image

    def places(self, widths: Any, sizes: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the coordinates of widths and sample sizes on axes that space their sizes equally.

        Between two sizes the scale is logarithmic; beyond the last it continues as between the last two.
        """
        return _coordinates(sizes, self.sizes), _coordinates(widths, self.widths)


def _coordinates(values: Any, ticks: Sequence[float]) -> np.ndarray:
    logs, tick_logs = np.log(np.asarray(values, float)), np.log(np.asarray(ticks, float))
    centres = np.arange(len(tick_logs)) + 0.5
    if len(tick_logs) < 2:
        return centres[0] + np.sign(logs - tick_logs[0]) * 1e3 if len(tick_logs) else np.full(logs.shape, np.nan)
    inside = np.interp(logs, tick_logs, centres)
    before = centres[0] + (logs - tick_logs[0]) / (tick_logs[1] - tick_logs[0])
    after = centres[-1] + (logs - tick_logs[-1]) / (tick_logs[-1] - tick_logs[-2])
    return np.asarray(np.where(logs < tick_logs[0], before, np.where(logs > tick_logs[-1], after, inside)))


def _write(ax: Axes, x: float, y: float, rate: float, font: float) -> None:
    """Write a cell's percentage, or a tick where all trials were solved; never round to 0 or 100."""
    percent = 100 * rate
    text = "✓" if percent == 100 else "0" if percent == 0 else f"{min(max(round(percent), 1), 99)}"
    style: dict[str, Any] = {"fontsize": font, "color": contrast_colour(RATES(rate)), "fontfamily": "DejaVu Sans"}
    # the layout need not measure thousands of numbers that are inside their cells
    ax.text(x, y, text, ha="center", va="center", in_layout=False, **style)


def checked(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the table with sizes as floating-point numbers, NaN for online, or refuse it."""
    for name in ("regime.size", "model.width", "rate", "solved", "trials"):
        if name not in summary:
            raise ExperimentError(
                f"a success frontier must have a column {name!r}: {', '.join(map(str, summary)) or 'it has no columns'}"
            )
    if summary.empty:
        raise ExperimentError("a success frontier must have at least one cell: cells=0")
    sizes = ("regime.size", "model.width")
    return summary.assign(**{name: summary[name].to_numpy(float, na_value=np.nan) for name in sizes})


def layout(summary: pd.DataFrame) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the varying parameters of each row and of each column of panels."""
    others = [name for name in cell_parameters(summary) if name not in ("regime", "regime.size", "model.width")]
    varied = [name for name in others if summary[name].nunique(dropna=False) > 1]
    across = sorted((name for name in varied if name != "task.n"), key=lambda name: name != "model.init")
    down = [name for name in varied if name == "task.n"]
    while len(across) > 1 and _width(Grid(summary), len(_combinations(summary, across)), *LEAST) > WIDTHS[-1]:
        down.append(across.pop())
    positions = summary[[*down, *across, "model.width", "regime.size"]]
    for position in positions[positions.duplicated()].to_dict("records"):
        values = ", ".join(f"{name}={value}" for name, value in position.items())
        raise ExperimentError(f"a position in a success frontier must have one cell: {values}")
    return _combinations(summary, down), _combinations(summary, across)


def _combinations(summary: pd.DataFrame, names: list[str]) -> list[dict[str, Any]]:
    if not names:
        return [{}]
    distinct = summary[names].drop_duplicates()
    ordered = distinct.sort_values(names, key=lambda column: column if is_numeric_dtype(column) else column.map(str))
    return [{str(name): value for name, value in record.items()} for record in ordered.to_dict("records")]


def matches(summary: pd.DataFrame, where: dict[str, Any]) -> np.ndarray:
    """Return which rows have the given values; missing values count as equal."""
    mask = np.ones(len(summary), bool)
    for name, value in where.items():
        mask &= (summary[name].isna() if pd.isna(value) else summary[name] == value).to_numpy(bool)
    return mask


def _figure(grid: Grid, rows: Sequence[Any], columns: Sequence[Any], summary: pd.DataFrame) -> np.ndarray:
    across, up = grid.extent
    preferred, least = (_width(grid, len(columns), *sizes) for sizes in ((CELL[0], PANEL), LEAST))
    width = next((width for width in WIDTHS if preferred <= 1.15 * width), max(WIDTHS[-1], least))
    grid.font = min(MEDIUM, 40 * ((width - 1.3) / len(columns) - 0.15) / across)
    figure = new_figure(width, len(rows) * (up * CELL[1] + 0.3) + 1.25)
    figure.suptitle(_title(summary), fontsize=LARGE)
    cells = len(rows) * len(columns) * len(grid.widths) * (len(grid.sizes) + grid.online)
    figure.supxlabel(("  " if width > NARROW else "\n").join(_note(summary, cells)), fontsize=SMALL, color=GREY)
    return figure.subplots(len(rows), len(columns), squeeze=False, sharex=True, sharey=True)


def _width(grid: Grid, columns: int, cell: float, panel: float) -> float:
    """Return the width of a figure in inches, given the width of a cell and the least width of a panel."""
    return columns * (max(grid.extent[0] * cell, panel) + 0.15) + 1.3


def _reshape(axes: Any, rows: int, columns: int) -> np.ndarray:
    flat = np.atleast_1d(np.asarray(axes, object)).ravel()
    for ax in flat:
        if not isinstance(ax, Axes):
            raise ExperimentError(f"axes must hold axes of matplotlib: got {article(type(ax).__name__)}")
    if len(flat) != rows * columns:
        raise ExperimentError(f"there must be as many axes as panels: axes={len(flat)}, panels={rows * columns}")
    return flat.reshape(rows, columns)


def _title(summary: pd.DataFrame) -> str:
    if "task" not in summary:
        return "Success rate"
    parts = [" and ".join(str(name).replace("-", " ") for name in summary["task"].unique())]
    for name in ("task.n", "task.k"):
        if name in summary and summary[name].nunique(dropna=False) == 1 and pd.notna(summary[name].iloc[0]):
            parts.append(f"{name.removeprefix('task.')} = {short(summary[name].iloc[0])}")
    return f"Success rate: {', '.join(parts)}"


def _note(summary: pd.DataFrame, cells: int) -> list[str]:
    trained = summary[summary["trials"] > 0]
    if trained.empty:
        return ["No trials have ended yet."]
    fewest = int(trained["trials"].min())
    low, high = wilson(trained["solved"], trained["trials"])
    widest = 50 * float((high - low).max())
    return [
        f"In each cell: % of its trials solved, ✓ where all{'; grey: none ended yet' * (len(trained) < cells)}.",
        f"Wilson 95% intervals: at most ±{widest:.0f} points, {100 * wilson(fewest, fewest)[0]:.0f} to 100% at ✓.",
    ]


def _describe(
    ax: Axes, panel: pd.DataFrame, row: dict[str, Any], column: dict[str, Any], edge: tuple[bool, bool]
) -> None:
    """Write a panel's title and its number of trials per cell, and label the axes at the edge of the figure."""
    at_bottom, at_left = edge
    if not column and "model.init" in panel:
        column = {"model.init": panel["model.init"].iloc[0]}
    ax.set_title(", ".join(name_of(name, value) for name, value in column.items()), loc="left", fontsize=MEDIUM, pad=3)
    fewest, most = panel["trials"].min(), panel["trials"].max()
    trials = f"{fewest if fewest == most else f'{fewest} to {most}'} trials per cell" if len(panel) else "not run"
    ax.set_title(trials, loc="right", fontsize=SMALL, color=GREY, pad=3)
    if at_bottom:
        ax.set_xlabel("sample size (examples)", fontsize=MEDIUM)
    if at_left:
        prefix = "".join(f"{name_of(name, value)}\n" for name, value in row.items())
        ax.set_ylabel(f"{prefix}width (hidden neurons)", fontsize=MEDIUM)
