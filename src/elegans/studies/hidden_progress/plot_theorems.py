"""The algorithms of Theorems 5.5 and 5.8 beside what the theorems promise."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, LARGE, MEDIUM, SMALL, quiet, short

FEATURE_NEEDED = ("task.n", "task.k", "batch", "rate", "error", "error_low", "error_high")
DESCENT_NEEDED = ("k", "block", "form", "steps", "seed", "step", "relevant", "irrelevant", "relevant_bound", "error")


def feature_steps(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw the error after the first step and the readout: against the first batch, and against n with none.

    Args:
        table: a row a cell, as the experiment ``theorem-5.5`` makes it.
        axes: two axes to draw on; a new figure by default.

    Returns:
        The two axes.

    Raises:
        ExperimentError: a column is missing, or there are not two axes.
    """
    drawn = _axes(table, FEATURE_NEEDED, axes, 2, "Theorem 5.5: one step of a network of signs, then its readout")
    given = table[table["rate"] == "given"]
    for place, ((n, k), rows) in enumerate(given.dropna(subset=["batch"]).groupby(["task.n", "task.k"], sort=False)):
        _with_intervals(drawn[0], rows.sort_values("batch"), "batch", COLOURS[place], f"({n}, {k})")
    exact = table[table["batch"].isna()]
    for place, ((rate, k), rows) in enumerate(exact.groupby(["rate", "task.k"], sort=False)):
        label = f"k = {k}" + (", theorem's rate" if rate == "theorem" else "")
        _with_intervals(drawn[1], rows.sort_values("task.n"), "task.n", COLOURS[place], label)
    drawn[0].set_xlabel("examples of the first step", fontsize=MEDIUM)
    drawn[0].set_ylabel("error on held-out examples", fontsize=MEDIUM)
    drawn[1].set_xlabel("n, with the exact first gradient", fontsize=MEDIUM)
    for ax in drawn:
        ax.set(xscale="log", ylim=(-0.015, 0.55))
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
        ax.legend(fontsize=SMALL, frameon=False, loc=(0.2, 0.66))
    sizes = sorted(exact["task.n"].unique())
    drawn[1].set_xticks(sizes, [f"{size}" for size in sizes])
    drawn[1].minorticks_off()
    return drawn


def _with_intervals(ax: Axes, rows: pd.DataFrame, x: str, colour: str, label: str) -> None:
    ends = [rows["error"] - rows["error_low"], np.minimum(rows["error_high"], 1) - rows["error"]]
    ax.errorbar(
        rows[x], rows["error"], yerr=ends, color=colour, marker="o", markersize=3, linewidth=1, capsize=2, label=label
    )


def disjoint_descents(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw the least relevant and the largest irrelevant weight along the way, and final errors against steps.

    Weights are those of trainings with the theorem's number of steps, or of all where there are none.

    Args:
        table: a row a trial and measured step, as the experiment ``theorem-5.8`` makes it.
        axes: three axes to draw on; a new figure by default.

    Returns:
        The three axes.

    Raises:
        ExperimentError: a column is missing, or there are not three axes.
    """
    drawn = _axes(table, DESCENT_NEEDED, axes, 3, "Theorem 5.8: disjoint parities by descent, one example a step")
    shown = table[table["whole"]] if table["whole"].any() else table
    cells = table.groupby(["k", "block", "form"], sort=False)
    colours = dict(zip(cells.groups, COLOURS, strict=False))
    for key, rows in shown.groupby(["k", "block", "form"], sort=False):
        _weights(drawn, rows, colours[key], "k = {}, n' = {}, {}".format(*key))
    drawn[1].axhline(float(table["irrelevant_bound"].iloc[0]), color="black", linewidth=0.8, linestyle="--")
    for key, rows in cells:
        last = rows.groupby(["steps", "seed"])["error"].last().reset_index()
        middle = last.groupby("steps")["error"].median()
        drawn[2].plot(last["steps"], last["error"], "o", color=colours[key], markersize=2.5, alpha=0.5)
        drawn[2].plot(middle.index, middle, color=colours[key], linewidth=1, label="{}, {}, {}".format(*key))
    drawn[0].set(yscale="log", ylim=(0.4, 8 * shown["relevant"].max()))
    drawn[0].set_ylabel("least relevant weight", fontsize=MEDIUM)
    drawn[1].set_ylabel("largest irrelevant weight so far", fontsize=MEDIUM)
    drawn[2].set_ylabel("final error", fontsize=MEDIUM)
    drawn[2].set(xscale="log")
    drawn[2].xaxis.set_major_formatter(lambda value, _: short(value))
    drawn[2].yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    drawn[2].set_xlabel("steps in all, T", fontsize=MEDIUM)
    drawn[2].legend(fontsize=SMALL, frameon=False, title="k, n', form", title_fontsize=SMALL)
    drawn[0].legend(fontsize=SMALL, frameon=False, loc="upper left")
    for ax in drawn[:2]:
        ax.set_xlabel("share of all steps", fontsize=MEDIUM)
    return drawn


def _weights(drawn: np.ndarray, rows: pd.DataFrame, colour: str, label: str) -> None:
    for order, (_, network) in enumerate(rows.groupby("seed")):
        share = network["step"] / network["steps"]
        drawn[0].plot(share, network["relevant"], color=colour, linewidth=0.8, label="" if order else label)
        drawn[1].plot(share, network["irrelevant"], color=colour, linewidth=0.8)
    first = rows[rows["seed"] == rows["seed"].min()]
    share = first["step"] / first["steps"]
    drawn[0].plot(share, first["relevant_bound"], color=colour, linewidth=0.9, linestyle="--")


def _axes(table: pd.DataFrame, needed: tuple[str, ...], axes: Any, panels: int, title: str) -> np.ndarray:
    for name in needed:
        if name not in table:
            raise ExperimentError(f"the picture of a theorem must have a column {name!r}: {', '.join(map(str, table))}")
    if axes is None:
        figure = Figure(figsize=(2.55 * panels, 2.7), layout="constrained")
        figure.suptitle(title, fontsize=LARGE, fontweight="bold")
        bars = "Medians with 95% order-statistic intervals." if panels == 2 else "A line a network; dashed: the bounds."
        figure.supxlabel(bars, fontsize=SMALL, color=GREY)
        axes = figure.subplots(1, panels)
    drawn = np.asarray(axes, object).ravel()
    if len(drawn) != panels:
        raise ExperimentError(f"the picture of a theorem must have {panels} axes: axes={len(drawn)}")
    for ax in drawn:
        quiet(ax)
    return drawn
