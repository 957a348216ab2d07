"""Success rates and times to solve the task, against the sample size or as dots with intervals."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from elegans.analysis import summarise_cells
from elegans.plots.marks import estimates
from elegans.plots.style import (
    COLOURS,
    SMALL,
    figure_legend,
    logarithmic,
    name_of,
    panels,
    percent,
    shades,
    short,
    title_panels,
)
from elegans.studies.pareto_frontiers.rules import listed
from elegans.training.states import FINISHED

LONG = 90
"""The total length of the curves' names above which the legend has three columns."""
DRAWN = (("rate", "low", "high"), ("median_steps", "median_low", "median_high"))
"""The estimate of each panel with the ends of its interval."""
BARS = "bars: 95% intervals (Wilson for shares, order statistics for medians; triangle: no upper end)"
"""What the bars are, in words."""


def timed_cells(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell with the interval of its median time, as ``elegans.analysis.summarise_cells``.

    Adds the ``network`` (initialisation and width in words), the number of ``steps``, and the ``times`` at which its
    trials solved the task.
    """
    cells = summarise_cells(trials, intervals="order")
    names = list(cells.columns[: list(cells).index("trials")])
    network = cells["model.init"].str.partition(":")[0] + ", width " + cells["model.width"].astype(str)
    ended = trials[trials["state"].isin(FINISHED)]
    known = ended.groupby(names, dropna=False).agg(steps=("training.steps", "max"), times=("solved_at", listed))
    return cells.assign(network=network).merge(known.reset_index(), on=names, how="left")


def half_solved_from(cells: pd.DataFrame, by: str | list[str]) -> pd.Series:
    """Return, for each value of a column, the first sample size at which at least half of the trials were solved."""
    return cells[cells["rate"] >= 0.5].groupby(by)["regime.size"].min().dropna()


def setting_of(cells: pd.DataFrame, *more: str) -> str:
    """Return a line that names the tasks of cells, further remarks, and the number of trials per cell."""
    tasks = dict.fromkeys(zip(cells["task.n"], cells["task.k"], strict=True))
    fewest, most = cells["trials"].min(), cells["trials"].max()
    trials = f"{fewest if fewest == most else f'{fewest} to {most}'} trials per cell"
    words = [f"({n:g}, {k:g})" for n, k in tasks]
    return "; ".join([f"{' and '.join(words) if len(words) < 3 else 'Sparse'} parity", *more, trials])


def dots(ax: Axes, cells: pd.DataFrame, by: tuple[str, str], rows: Sequence[str], keys: Mapping[Any, str]) -> None:
    """Draw the success rates of some cells, one below the other, with Wilson 95% intervals.

    Args:
        ax: the axes.
        cells: as ``timed_cells`` returns them.
        by: the column that says in which row a cell is drawn, and the column that decides its colour.
        rows: the values of the first column, from the top.
        keys: the values of the second column, with their labels.
    """
    _dots(ax, cells, by, rows, keys, DRAWN[0])
    ax.set(xlim=(-0.03, 1.03), xlabel="trials solved")
    ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")


def time_dots(ax: Axes, cells: pd.DataFrame, by: tuple[str, str], rows: Sequence[str], keys: Mapping[Any, str]) -> None:
    """Draw the median times of some cells with 95% intervals from order statistics, otherwise like ``dots``."""
    _dots(ax, cells, by, rows, keys, DRAWN[1])
    ax.set_xlabel("median steps to solve the task")
    ax.margins(x=0.08)
    logarithmic(ax, "x")


def _dots(
    ax: Axes, cells: pd.DataFrame, by: tuple[str, str], rows: Sequence[str], keys: Mapping[Any, str], names: Any
) -> None:
    for order, ((key, label), colour) in enumerate(zip(keys.items(), COLOURS, strict=False)):
        shown = cells[cells[by[1]] == key]
        places = np.array([rows.index(name) for name in shown[by[0]]]) + 0.22 * (order - (len(keys) - 1) / 2)
        middle, low, high = (_numbers(shown[name]) for name in names)
        estimates(ax, places, middle, low, high, colour, across=True, label=label)
    ax.set_yticks(range(len(rows)), rows, fontsize=SMALL)
    ax.set_ylim(len(rows) - 0.4, -0.6)


def success_and_time(table: pd.DataFrame, *, curve: str, panel: str | None = None) -> Figure:
    """Draw success rates and median times to solve the task against the sample size, one curve per value of a column.

    Bars are 95% intervals: Wilson's for the rate, order statistics for the median, which counts unsolved trials as
    infinite. No median is drawn where fewer than half of the trials were solved, and a triangle marks an infinite
    upper end. Online training is drawn separately at the right.

    Args:
        table: as ``timed_cells`` returns it.
        curve: the column whose values are the curves.
        panel: the column whose values are the rows of panels; one row by default.

    Source: Pareto frontiers, figure 2.
    """
    values = [None] if panel is None else sorted(table[panel].unique())
    figure, axes = panels(len(values), 2, height=2.25 + 0.55 / len(values), sharex=True, sharey="col")
    keys = sorted(table[curve].unique())
    ordered = all(isinstance(key, int | float | np.number) for key in keys)
    colours = dict(zip(keys, shades(len(keys)) if ordered else COLOURS, strict=False))
    axis = _Axis(table)
    titles: list[str] = []
    for row, value in zip(axes, values, strict=True):
        shown = table if value is None else table[table[panel] == value]
        for order, (key, colour) in enumerate(colours.items()):
            cells = shown[shown[curve] == key].sort_values("regime.size")
            at = axis.places(cells) * axis.spread ** (0.018 * (order - (len(colours) - 1) / 2))
            inside = cells["regime.size"].notna().to_numpy()
            for ax, names in zip(row, DRAWN, strict=True):
                middle, low, high = (_numbers(cells[name]) for name in names)
                ax.plot(at[inside], middle[inside], linewidth=1.1, alpha=0.6, color=colour)
                estimates(ax, at, middle, low, high, colour, markersize=2.6, label=name_of(curve, key))
        for ax, label in zip(row, ("trials solved", "median steps to solve the task"), strict=True):
            axis.label(ax)
            ax.set_ylabel(label)
        row[0].set_ylim(-0.03, 1.03)
        percent(row[0])
        group = "" if panel is None else f"{name_of(panel, value).capitalize()}: "
        titles += [f"{group}{finding}" for finding in _findings(shown, curve)]
    title_panels(axes, titles, setting_of(table, BARS))
    medians = _numbers(table["median_steps"])
    for ax in axes[:, 1]:
        if np.isfinite(medians).any():
            ax.set_ylim(np.nanmin(medians) * 0.7, np.nanmax(medians) * 1.8)
        logarithmic(ax)
    for ax in axes[-1]:
        ax.set_xlabel("sample size (examples)")
    labels = axes[0, 0].get_legend_handles_labels()[1]
    figure_legend(figure, axes[0, 0], columns=len(labels) if sum(map(len, labels)) < LONG else 3)
    return figure


def _findings(cells: pd.DataFrame, curve: str) -> tuple[str, str]:
    """Return the panels' titles: whether width, if it is the curve, saves examples, and whether it saves steps."""
    first = half_solved_from(cells, curve).sort_index()
    medians = cells.pivot_table(index=curve, columns="regime", values="median_steps").sort_index()
    both = medians.iloc[[0, -1]].dropna(axis=1)
    is_width = curve == "model.width" and len(first) > 1
    saves = is_width and first.is_monotonic_decreasing and first.iloc[-1] < first.iloc[0]
    faster = is_width and both.shape[1] > 0 and bool((both.iloc[-1] < both.iloc[0]).all())
    return "width saves examples" if saves else "trials solved", "width saves steps" if faster else "median time"


class _Axis:
    """A logarithmic axis of sample sizes, with online training set apart at the right."""

    def __init__(self, table: pd.DataFrame) -> None:
        values = _numbers(table["regime.size"])
        self.known = np.unique(values[np.isfinite(values)])
        self.has_apart = bool(np.isnan(values).any())
        self.spread = float(max(self.known[-1] / self.known[0], 10)) if len(self.known) else 10.0
        self.apart = float(self.known[-1] * self.spread**0.16) if len(self.known) else 1.0

    def places(self, cells: pd.DataFrame) -> np.ndarray:
        return np.where(cells["regime.size"].isna(), self.apart, _numbers(cells["regime.size"]))

    def label(self, ax: Axes) -> None:
        """Abbreviate the sizes, at least a fourteenth of the axis apart, and label online training at the right."""
        ticks = self.known.tolist()
        if len(ticks) > 8:
            steps = (1, 3) if ticks[-1] / ticks[0] > 30 else (1, 2, 5)
            round_sizes = [factor * 10.0**power for power in range(9) for factor in steps]
            ticks = [size for size in round_sizes if ticks[0] <= size <= ticks[-1] * 1.001]
        least = (self.apart / self.known[0]) ** (1 / 14) if len(self.known) else 1.0
        spaced = list[float]()
        for tick in ticks:
            if not spaced or tick >= spaced[-1] * least:
                spaced.append(tick)
        names = [short(tick) for tick in spaced]
        ax.set_xscale("log")
        if self.has_apart:
            spaced, names = [*spaced, self.apart], [*names, "online"]
        ax.set_xticks(spaced, names)
        ax.xaxis.set_minor_locator(NullLocator())


def _numbers(column: pd.Series) -> np.ndarray:
    return column.to_numpy(float, na_value=np.nan)
