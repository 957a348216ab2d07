"""Sparse functions of bits learned by transformers: thresholds of samples, accuracies, and the courses of parities."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, quiet, shades, short

DASHED, DOTTED = (0, (4, 3)), (0, (1, 1.5))
BESIDE = 0.7
"""By how many examples the points of one curve stand beside those of the next, so that bars can be told apart."""
THRESHOLDS = ("part", "n", "m", "rate", "low", "high", "threshold", "information", "identified", "level")
ACCURACIES = ("n", "m", "seed", "step", "held_out", "training")
COURSES = ("n", "seed", "step", "loss", "above_99")


def sample_thresholds(table: pd.DataFrame, published: Mapping[int, float] = {}, axes: Any = None) -> np.ndarray:
    """Draw how often networks succeed against the number of examples, and the threshold against that of bits.

    Bars are 95% intervals, Wilson's of the rates and the bootstrap's of the thresholds. Dotted curves are how often
    samples single out the support; grey in the second panel are log2 C(n, 3) and a line through the origin and
    the first threshold.

    Args:
        table: the parts ``cell``, ``threshold``, ``identified``, ``fit``, as the experiment ``and-samples`` makes it.
        published: thresholds by numbers of bits that are shown beside.
        axes: the two axes to draw on; a new figure by default.

    Returns:
        The axes, of shape (2,).

    Raises:
        ExperimentError: a column is missing, or there are other than two axes.

    Source: thesis, figure 4.2, which is the second panel.
    """
    _require(table, THRESHOLDS, "thresholds")
    drawn = _axes(axes, 2, "thresholds", 3.1)
    _rates(drawn[0], table)
    _thresholds(drawn[1], table, published)
    return drawn


def _rates(ax: Axes, table: pd.DataFrame) -> None:
    cells, identified = table[table["part"] == "cell"], table[table["part"] == "identified"]
    bits = sorted(set(cells["n"]))
    for place, (n, colour) in enumerate(zip(bits, shades(len(bits)), strict=True)):
        rows = cells[cells["n"] == n]
        ends = [rows["rate"] - rows["low"], rows["high"] - rows["rate"]]
        beside = rows["m"] + BESIDE * (place - (len(bits) - 1) / 2)
        style: dict[str, Any] = {"fmt": "o-", "markersize": 3, "linewidth": 1.1, "elinewidth": 0.5}
        ax.errorbar(beside, rows["rate"], yerr=ends, color=colour, label=f"T = {n:g}", **style)
        known = identified[identified["n"] == n]
        ax.plot(known["m"], known["rate"], color=colour, linewidth=0.8, linestyle=DOTTED)
    ax.plot([], [], color=GREY, linewidth=0.8, linestyle=DOTTED, label="support singled out")
    ax.axhline(float(table["level"].iloc[0]), color=GREY, linewidth=0.6, linestyle=DASHED, zorder=0)
    quiet(ax)
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlim(left=0)
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    ax.set_xlabel("examples m", fontsize=MEDIUM)
    _title(ax, "trials that succeed")
    ax.legend(fontsize=SMALL, frameon=False, loc="lower right", ncols=1 + len(bits) // 7)


def _thresholds(ax: Axes, table: pd.DataFrame, published: Mapping[int, float]) -> None:
    rows = table[table["part"] == "threshold"]
    known = rows[np.isfinite(rows["threshold"])]
    size, middle = known["n"], known["threshold"]
    ends = [middle - known["threshold_low"], known["threshold_high"].replace(np.inf, np.nan).fillna(middle) - middle]
    style: dict[str, Any] = {"fmt": "o", "markersize": 4, "capsize": 2, "elinewidth": 0.8, "zorder": 3}
    ax.errorbar(size, middle, yerr=ends, color=COLOURS[0], label=f"threshold at {_percent(table)}", **style)
    for n, value in published.items():
        ax.plot(n, value, "*", color=COLOURS[1], markersize=9, zorder=2.5, label="threshold in the thesis")
    ax.plot(rows["n"], rows["identified"], color=COLOURS[2], linewidth=1, linestyle=DOTTED, label="support singled out")
    ax.plot(rows["n"], rows["information"], color=GREY, linewidth=1, label=r"$\log_2 C(T, 3)$")
    every = np.geomspace(rows["n"].min(), max([*rows["n"], *published]), 100)
    for fit in table[table["part"] == "fit"].to_dict("records"):
        logarithm = fit["intercept"] + fit["slope"] * np.log(every)
        ax.plot(every, logarithm, color=COLOURS[0], linewidth=0.9, label=r"$a + b\,\log T$")
        bent = np.log(every) if abs(fit["power"]) < 1e-9 else every ** fit["power"]
        own = np.log(size) if abs(fit["power"]) < 1e-9 else size ** fit["power"]
        law = np.polyval(np.polyfit(own, middle, 1), bent)
        label = rf"$a + b\,T^c$, c = {fit['power']:.2f}"
        ax.plot(every, law, color=COLOURS[3], linewidth=0.9, linestyle=DASHED, label=label)
    quiet(ax)
    ax.set_xscale("log")
    ax.set_xticks(rows["n"].to_list(), [short(n) for n in rows["n"]])
    ax.xaxis.set_minor_locator(NullLocator())
    ends = known["threshold_high"][np.isfinite(known["threshold_high"])]
    top = max([1.2 * max([*middle, *rows["identified"], *published.values()]), *(1.04 * ends)])
    if len(known):
        straight = middle.iloc[0] * every / size.iloc[0]
        inside = straight <= top
        ax.plot(every[inside], straight[inside], color="0.8", linewidth=0.9, zorder=0, label="proportional to T")
    ax.set_ylim(0, top)
    ax.set_xlabel("bits T", fontsize=MEDIUM)
    _title(ax, "examples m")
    handles, labels = ax.get_legend_handles_labels()  # points with bars come last, and are what is looked for first
    beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    ax.legend([handles[-1], *handles[:-1]], [labels[-1], *labels[:-1]], fontsize=SMALL, frameon=False, **beside)


def _percent(table: pd.DataFrame) -> str:
    return f"{100 * float(table['level'].iloc[0]):g}%"


def accuracy_curves(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw accuracies on held-out examples and on the sample against steps, a curve a network, a colour a sample size.

    Args:
        table: a row a network and look, as the experiment ``and-curves`` makes it.
        axes: the two axes to draw on; a new figure by default.

    Returns:
        The axes, of shape (2,).

    Raises:
        ExperimentError: a column is missing, or there are other than two axes.

    Source: thesis, figure 4.3 (left), which is the first panel.
    """
    _require(table, ACCURACIES, "accuracies")
    drawn = _axes(axes, 2, "accuracies", 2.6)
    titles = {"held_out": "accuracy on held-out examples", "training": "accuracy on the sample"}
    for ax, (name, title) in zip(drawn, titles.items(), strict=True):
        for (size, rows), colour in zip(table.groupby("m", sort=False), COLOURS, strict=False):
            for _, run in rows.groupby("seed"):
                ax.plot(run["step"], run[name], color=colour, linewidth=0.8, alpha=0.6)
            count = rows["seed"].nunique()
            ax.plot([], [], color=colour, label=f"m = {size}, {count} replicates")
        quiet(ax)
        ax.set_ylim(0.45, 1.02)
        ax.set_xlim(0, table["step"].max())
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
        ax.set_xlabel("steps", fontsize=MEDIUM)
        _title(ax, f"{title}, T = {table['n'].iloc[0]}")
    drawn[1].legend(fontsize=SMALL, frameon=False, loc="lower right")
    return drawn


def parity_courses(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw minibatch losses against steps, a panel for each number of bits, a curve a network.

    The dashed line is log 2, the loss of a network that knows nothing; dots are where accuracy on held-out examples is
    above 99% from.

    Args:
        table: a row a network and point of its curve, as the experiment ``parity-transformer`` makes it.
        axes: as many axes as there are numbers of bits; a new figure by default.

    Returns:
        The axes, one a number of bits.

    Raises:
        ExperimentError: a column is missing, or there are other than so many axes.

    Source: thesis, figure 4.4.
    """
    _require(table, COURSES, "courses of parities")
    panels = list(table.groupby("n", sort=False))
    drawn = _axes(axes, len(panels), "courses of parities", 2.5)
    for ax, (n, rows) in zip(drawn, panels, strict=True):
        runs = [run for _, run in rows.groupby("seed")]
        for place, run in enumerate(runs):
            colour = (*COLOURS, "black", "0.6", "#8C564B", "#117733")[place % 10]
            ax.plot(run["step"], run["loss"], color=colour, linewidth=1)
            ax.plot(run["above_99"].iloc[0], 0, "o", color=colour, markersize=3, clip_on=False, zorder=3)
        ax.axhline(math.log(2), color=GREY, linewidth=0.7, linestyle=DASHED, zorder=0)
        ax.text(1, math.log(2), "log 2", fontsize=SMALL, color=GREY, va="bottom", ha="right", transform=_across(ax))
        quiet(ax)
        ax.set_ylim(0, 0.8)
        ax.set_xlim(left=0)
        ax.set_xlabel("steps", fontsize=MEDIUM)
        _title(ax, f"minibatch loss, T = {n}, {len(runs)} networks")
    return drawn


def _across(ax: Axes) -> Any:
    return ax.get_yaxis_transform()


def _require(table: pd.DataFrame, names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in table:
            raise ExperimentError(f"{what} must have a column {name!r}: {', '.join(map(str, table))}")


def _axes(axes: Any, count: int, what: str, height: float) -> np.ndarray:
    if axes is None:
        drawn: np.ndarray = Figure(figsize=(7.2, height), layout="constrained").subplots(1, count, squeeze=False)
        return drawn.ravel()
    given = np.asarray(axes, object).ravel()
    if len(given) != count:
        raise ExperimentError(f"{what} must have as many axes as panels: axes={len(given)}, panels={count}")
    return given


def _title(ax: Axes, title: str) -> None:
    ax.set_title(title, loc="left", fontsize=MEDIUM)
