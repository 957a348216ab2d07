"""Exact steps of the minimal model of two attention layers, beside what sampled sequences give."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, logarithmic, quiet, shades

FLAT, SYMMETRIC, DRAWN = COLOURS[0], COLOURS[1], COLOURS[2]
"""Chains with flat rows, symmetric chains, and draws of chains."""
FEW = 12
"""How many coordinates are shown one by one."""
STEPS = ("part", "law", "step", "place", "entry", "exact", "leading", "printed", "drawn", "measured", "low", "high")
RATE = 0.03
"""The learning rate of the thesis' figures."""


def first_steps(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw the minimal model's first two steps: lines are exact, points measured on sequences with 95% intervals.

    Crosses are averages of closed forms over drawn chains. In reading order: W after a step; v after it; the gradient
    of v at W = I; v after two steps, on chains with flat rows and on symmetric ones; the rate from which v_2 leads.

    Args:
        table: as the experiment ``first-steps`` makes it.
        axes: the six axes to draw on, in reading order; a new figure by default.

    Returns:
        The axes, of shape (6,).

    Raises:
        ExperimentError: a column is missing, or there are other than six axes.

    Source: thesis, figures E.1 and E.2, Lemma 8.4 and Corollary E.2.
    """
    _require(table, (*STEPS, "length", "rate"), "first steps")
    drawn = _panels(2, 3, 4.6) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != 6:
        raise ExperimentError(f"first steps must have six axes: axes={len(drawn)}")
    parts = {key: rows for key, rows in table[table["part"] != "rate"].groupby(["law", "part", "step"])}
    _entries(drawn[0], parts)
    _first_position(drawn[1], parts)
    _gradient(drawn[2], parts["flat", "diagonal", 1])
    for ax, law, colour in ((drawn[3], "flat", FLAT), (drawn[4], "symmetric", SYMMETRIC)):
        _two_steps(ax, law, colour, parts)
    _overtaking(drawn[5], table[table["part"] == "rate"], int(table["length"][table["part"] != "rate"].iloc[0]))
    for ax in drawn:
        quiet(ax)
    return drawn


def _entries(ax: Axes, parts: Any) -> None:
    for law, colour, shift in (("flat", FLAT, -0.12), ("symmetric", SYMMETRIC, 0.12)):
        rows = parts[law, "pair", 1]
        at = np.arange(len(rows)) + shift
        ax.hlines(rows["exact"], at - 0.2, at + 0.2, color=colour, linewidth=1.2)
        ax.plot(at - 0.07, rows["drawn"], "x", color=DRAWN, markersize=4, markeredgewidth=0.9)
        _points(ax, at + 0.07, rows, colour)
    names = [f"$W_{{{entry}}}$" for entry in parts["flat", "pair", 1]["entry"]]
    ax.set_xticks(range(len(names)), names)
    ax.plot([], [], color=FLAT, label="flat rows")
    ax.plot([], [], color=SYMMETRIC, label="symmetric")
    ax.plot([], [], "x", color=DRAWN, markersize=4, label="10,000 chains")
    ax.plot([], [], "o", color=GREY, markersize=2.5, label="sequences")
    _title(ax, "W after one step")
    _legend(ax)


def _first_position(ax: Axes, parts: Any) -> None:
    for law, colour in (("flat", FLAT), ("symmetric", SYMMETRIC)):
        rows = parts[law, "position", 1]
        ax.plot(rows["place"], rows["exact"], color=colour, linewidth=1.2, label=f"{law} rows" * (law == "flat") or law)
        few = rows.iloc[:: max(1, len(rows) // 20)]
        _points(ax, few["place"], few, colour)
    flat, symmetric = parts["flat", "position", 1], parts["symmetric", "position", 1]
    ax.plot(flat["place"], flat["leading"], color="black", linewidth=0.8, linestyle="--", label="leading term")
    style: dict[str, Any] = {"color": "black", "linewidth": 0.8, "linestyle": ":"}
    ax.plot(symmetric["place"], symmetric["printed"], **style, label="symmetric, printed")
    ax.set_xlabel("place j", fontsize=MEDIUM)
    _title(ax, "$v_j$ after one step")
    _legend(ax)


def _gradient(ax: Axes, rows: pd.DataFrame) -> None:
    few = rows[rows["place"] <= FEW + 2]
    ax.plot(few["place"], few["leading"], color="black", linewidth=0.8, linestyle="--", label="leading term")
    ax.plot(few["place"], few["exact"], color=FLAT, linewidth=1.2, label="exact")
    ax.plot(few["place"] - 0.15, few["drawn"], "x", color=DRAWN, markersize=4, markeredgewidth=0.9)
    _points(ax, few["place"] + 0.15, few, FLAT)
    ax.set_xticks(range(2, FEW + 3, 2))
    ax.set_xlabel("place j", fontsize=MEDIUM)
    _title(ax, r"$-\partial L/\partial v_j$ at W = I, flat rows")
    _legend(ax)


def _two_steps(ax: Axes, law: str, colour: str, parts: Any) -> None:
    for step, style in ((1, "--"), (2, "-")):
        rows = parts[law, "position", step]
        few = rows[rows["place"] <= FEW]
        label = "one step" if step == 1 else "two steps"
        ax.plot(few["place"], few["exact"], color=colour, linewidth=1.2, linestyle=style, label=label)
        _points(ax, few["place"], few, colour)
    ax.set_xticks(range(2, FEW + 1, 2))
    ax.set_xlabel("place j", fontsize=MEDIUM)
    _title(ax, f"$v_j$, {law} rows" if law == "flat" else f"$v_j$, {law} chains")
    _legend(ax)


def _overtaking(ax: Axes, rows: pd.DataFrame, length: int) -> None:
    for law, colour in (("flat", FLAT), ("symmetric", SYMMETRIC)):
        own = rows[(rows["law"] == law) & np.isfinite(rows["rate"])]
        ax.plot(own["length"], own["rate"], "o-", color=colour, markersize=2.5, linewidth=1)
    ax.plot(length, RATE, "*", color="black", markersize=7, label="rate of this figure")
    logarithmic(ax, "x")
    ax.set_yscale("log")
    ax.set_xlabel("tokens t", fontsize=MEDIUM)
    _title(ax, "rate from which $v_2$ leads")
    _legend(ax)


def _points(ax: Axes, at: Any, rows: pd.DataFrame, colour: str) -> None:
    reach = [rows["measured"] - rows["low"], rows["high"] - rows["measured"]]
    style: dict[str, Any] = {"fmt": "o", "markersize": 2.2, "linewidth": 0.8, "capsize": 1.5, "zorder": 3}
    ax.errorbar(at, rows["measured"], yerr=reach, color=colour, **style)


def _require(table: pd.DataFrame, names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in table:
            raise ExperimentError(f"{what} must have a column {name!r}: {', '.join(map(str, table))}")


def _panels(rows: int, columns: int, height: float) -> np.ndarray:
    figure = Figure(figsize=(7.2, height), layout="constrained")
    drawn: np.ndarray = figure.subplots(rows, columns, squeeze=False).ravel()
    return drawn


def _title(ax: Axes, title: str) -> None:
    ax.set_title(title, loc="left", fontsize=MEDIUM)


def _legend(ax: Axes, place: str = "best") -> None:
    ax.legend(fontsize=SMALL - 0.5, frameon=False, loc=place, handlelength=1.6)
