"""Success and time to solve along one axis: where a transition lies, and how long training takes near it."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from elegans.analysis import summarise_cells
from elegans.plots.marks import estimates
from elegans.plots.style import (
    COLOURS,
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
AXES = {
    "regime.size": ("sample size (examples)", "online"),
    "model.init.nonzeros": ("non-zero initial weights per neuron", "dense"),
}
"""For each axis its label, and what a missing value stands for (drawn separately, at the right)."""
DRAWN = (("rate", "low", "high"), ("median_steps", "median_low", "median_high"))
"""The estimate of each panel with the ends of its interval."""


def timed_cells(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell with the interval of its median time, as ``elegans.analysis.summarise_cells``.

    Adds its ``network`` (initialisation and width in words), the number of ``steps``, and the ``times`` to solve of all
    its trials.
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


def success_and_time(table: pd.DataFrame, *, curve: str, x: str = "regime.size", panel: str | None = None) -> Figure:
    """Draw the success rate and the median time to solve against one parameter, one curve for each value of another.

    Bars are Wilson 95% intervals of the rate, and 95% order-statistic intervals of the median, in which unsolved
    trials are infinite: no median is drawn where fewer than half of the trials were solved, and a triangle stands for
    an upper end that is infinite. Online training, or the dense initialisation, is drawn separately at the right.

    Args:
        table: as ``timed_cells`` returns it.
        curve: the column whose values are the curves.
        x: the column along the axis: ``regime.size`` or ``model.init.nonzeros``.
        panel: the column whose values are the rows of panels; one row by default.

    Source: Pareto frontiers, figure 2.
    """
    values = [None] if panel is None else sorted(table[panel].unique())
    figure, axes = panels(len(values), 2, height=2.15 + 0.55 / len(values), sharex=True, sharey="col")
    keys = sorted(table[curve].unique())
    ordered = all(isinstance(key, int | float | np.number) for key in keys)
    colours = dict(zip(keys, shades(len(keys)) if ordered else COLOURS, strict=False))
    axis = _Axis(table, x)
    titles: list[str] = []
    for row, value in zip(axes, values, strict=True):
        shown = table if value is None else table[table[panel] == value]
        for order, (key, colour) in enumerate(colours.items()):
            cells = shown[shown[curve] == key].sort_values(x)
            at = axis.places(cells) * axis.spread ** (0.009 * (order - (len(colours) - 1) / 2))
            inside = cells[x].notna().to_numpy()
            for ax, names in zip(row, DRAWN, strict=True):
                middle, low, high = (_numbers(cells[name]) for name in names)
                ax.plot(at[inside], middle[inside], linewidth=1.1, alpha=0.6, color=colour)
                estimates(ax, at, middle, low, high, colour, markersize=2.6, label=name_of(curve, key))
        for ax, label in zip(row, ("trials solved", "median steps to solve"), strict=True):
            axis.label(ax)
            ax.set_ylabel(label)
        row[0].set_ylim(-0.03, 1.03)
        percent(row[0])
        group = "" if panel is None else f", {name_of(panel, value)}"
        titles += [f"Trials solved{group}", f"Median time{group}"]
    title_panels(axes, titles)
    medians = _numbers(table["median_steps"])
    for ax in axes[:, 1]:
        if np.isfinite(medians).any():
            ax.set_ylim(np.nanmin(medians) * 0.7, np.nanmax(medians) * 1.8)
        logarithmic(ax)
    for ax in axes[-1]:
        ax.set_xlabel(AXES[x][0])
    labels = axes[0, 0].get_legend_handles_labels()[1]
    figure_legend(figure, axes[0, 0], columns=len(labels) if sum(map(len, labels)) < LONG else 3)
    return figure


class _Axis:
    """A logarithmic axis, with what has no value set apart at the right."""

    def __init__(self, table: pd.DataFrame, x: str) -> None:
        self.x = x
        values = _numbers(table[x])
        self.known = np.unique(values[np.isfinite(values)])
        self.has_apart = bool(np.isnan(values).any())
        self.spread = float(max(self.known[-1] / self.known[0], 10)) if len(self.known) else 10.0
        self.apart = float(self.known[-1] * self.spread**0.16) if len(self.known) else 1.0

    def places(self, cells: pd.DataFrame) -> np.ndarray:
        return np.where(cells[self.x].isna(), self.apart, _numbers(cells[self.x]))

    def label(self, ax: Axes) -> None:
        """Abbreviate the sizes, at least a fourteenth of the axis apart, and label what is set apart at the right."""
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
            spaced, names = [*spaced, self.apart], [*names, AXES[self.x][1]]
        ax.set_xticks(spaced, names)
        ax.xaxis.set_minor_locator(NullLocator())


def _numbers(column: pd.Series) -> np.ndarray:
    return column.to_numpy(float, na_value=np.nan)
