"""Success and time to solve along one axis: where a transition lies, and how long training takes near it."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from elegans.analysis import summarise_cells
from elegans.plots.style import (
    COLOURS,
    SMALL,
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


def timed_cells(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell with the interval of its median time, as ``elegans.analysis.summarise_cells``.

    Adds its ``network`` (initialisation and width in words), the number of ``steps``, and the ``times`` to solve of all
    its trials.
    """
    found = summarise_cells(trials, intervals="order")
    names = list(found.columns[: list(found).index("trials")])
    network = found["model.init"].str.partition(":")[0] + ", width " + found["model.width"].astype(str)
    ended = trials[trials["state"].isin(FINISHED)]
    known = ended.groupby(names, dropna=False).agg(steps=("training.steps", "max"), times=("solved_at", listed))
    return found.assign(network=network).merge(known.reset_index(), on=names, how="left")


def half_solved_from(cells: pd.DataFrame, by: str | list[str]) -> pd.Series:
    """Return, for each value of a column, the first sample size at which at least half of the trials were solved."""
    return cells[cells["rate"] >= 0.5].groupby(by)["regime.size"].min().dropna()


def success_and_time(table: pd.DataFrame, *, curve: str, x: str = "regime.size", panel: str | None = None) -> Figure:
    """Draw the success rate and the median time to solve against one parameter, one curve for each value of another.

    Bars are Wilson 95% intervals of the rate, and 95% order-statistic intervals of the median, in which unsolved
    trials are infinite: no median is drawn where fewer than half of the trials were solved, and an arrow stands for an
    upper end that is infinite. Online training, or the dense initialisation, is drawn separately at the right.

    Args:
        table: as ``timed_cells`` returns it.
        curve: the column whose values are the curves.
        x: the column along the axis: ``regime.size`` or ``model.init.nonzeros``.
        panel: the column whose values are the rows of panels; one row by default.

    Source: Pareto frontiers, figure 2.
    """
    values = [None] if panel is None else sorted(table[panel].unique())
    figure, axes = panels(len(values), 2, height=2.15 + 0.55 / len(values), sharex=True, sharey="col")
    colours = _colours(sorted(table[curve].unique()))
    places = _Places(table, x)
    titles: list[str] = []
    for row, value in zip(axes, values, strict=True):
        shown = table if value is None else table[table[panel] == value]
        for order, (key, colour) in enumerate(colours.items()):
            chosen = shown[shown[curve] == key]
            label = name_of(curve, key)
            shift = places.spread ** (0.009 * (order - (len(colours) - 1) / 2))
            places.draw(row[0], chosen, ("rate", "low", "high"), colour, label, shift)
            places.draw(row[1], chosen, ("median_steps", "median_low", "median_high"), colour, label, shift)
        _describe(row, places)
        group = "" if panel is None else f", {name_of(panel, value)}"
        titles += [f"Trials solved{group}", f"Median time{group}"]
    title_panels(axes, titles)
    for ax in axes[-1]:
        ax.set_xlabel(AXES[x][0])
    _limit_times(axes[:, 1], table)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    columns = len(labels) if sum(map(len, labels)) < LONG else 3
    figure.legend(handles, labels, loc="outside lower center", fontsize=SMALL, frameon=False, ncols=columns)
    return figure


def _colours(values: list[Any]) -> dict[Any, Any]:
    """Return a colour for each curve: shades for ordered values, distinct colours for names."""
    ordered = all(isinstance(value, int | float | np.number) for value in values)
    return dict(zip(values, shades(len(values)) if ordered else COLOURS, strict=False))


class _Places:
    """Positions along the axis: logarithmic, with what has no value set apart at the right."""

    def __init__(self, table: pd.DataFrame, x: str) -> None:
        self.x = x
        self.apart = AXES[x][1]
        values = _numbers(table[x])
        self.known = np.unique(values[np.isfinite(values)])
        self.has_apart = bool(np.isnan(values).any())
        self.spread = float(max(self.known[-1] / self.known[0], 10)) if len(self.known) else 10.0
        self.at = float(self.known[-1] * self.spread**0.16) if len(self.known) else 1.0

    def draw(
        self, ax: Axes, cells: pd.DataFrame, columns: tuple[str, str, str], colour: Any, label: str, shift: float
    ) -> None:
        """Draw one curve with its intervals, side by side with the others; an arrow marks an infinite end."""
        x = _numbers(cells[self.x])
        middle, low, high = (_numbers(cells[name]) for name in columns)
        at = np.where(np.isnan(x), self.at, x) * shift
        order = np.argsort(x)
        inside = order[np.isfinite(x[order])]
        style: dict[str, Any] = {"color": colour, "markersize": 2.6}
        ax.plot(at[inside], middle[inside], linewidth=1.1, alpha=0.6, color=colour)
        known = np.isfinite(middle)
        bars = [(middle - low)[known], np.where(np.isfinite(high), high - middle, 0.35 * middle)[known]]
        ax.errorbar(at[known], middle[known], yerr=bars, fmt="o", elinewidth=1.0, label=label, **style)
        endless = known & ~np.isfinite(high)
        ax.plot(at[endless], 1.35 * middle[endless], "^", **style)

    def label_axis(self, ax: Axes) -> None:
        """Abbreviate the sizes, and label what is set apart at the right."""
        ax.set_xscale("log")
        ticks = self._apart_enough(list(self.known) if len(self.known) <= 8 else _round_numbers(self.known))
        names = [short(tick) for tick in ticks]
        if self.has_apart:
            ticks, names = [*ticks, self.at], [*names, self.apart]
        ax.set_xticks(ticks, names)
        ax.xaxis.set_minor_locator(NullLocator())

    def _apart_enough(self, ticks: list[float]) -> list[float]:
        """Return the ticks whose labels do not overlap, each at least a fourteenth of the axis from the last."""
        least, kept = (self.at / self.known[0]) ** (1 / 14) if len(self.known) else 1.0, list[float]()
        for tick in ticks:
            if not kept or tick >= kept[-1] * least:
                kept.append(tick)
        return kept


def _round_numbers(known: np.ndarray) -> list[float]:
    steps = (1, 3) if known[-1] / known[0] > 30 else (1, 2, 5)
    candidates = [factor * 10.0**power for power in range(9) for factor in steps]
    return [one for one in candidates if known[0] <= one <= known[-1] * 1.001]


def _numbers(column: pd.Series) -> np.ndarray:
    return column.to_numpy(float, na_value=np.nan)


def _describe(row: np.ndarray, places: _Places) -> None:
    """Label the axes of a row of panels."""
    rate, time = row
    for ax in row:
        places.label_axis(ax)
    rate.set_ylabel("trials solved")
    rate.set_ylim(-0.03, 1.03)
    percent(rate)
    time.set_ylabel("median steps to solve")


def _limit_times(axes: np.ndarray, table: pd.DataFrame) -> None:
    """Limit the time axes to the medians: intervals without an upper end extend beyond the top."""
    medians = _numbers(table["median_steps"])
    for ax in axes:
        if np.isfinite(medians).any():
            ax.set_ylim(np.nanmin(medians) * 0.7, np.nanmax(medians) * 1.8)
        logarithmic(ax)
