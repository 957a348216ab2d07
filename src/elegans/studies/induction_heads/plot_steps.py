"""Exact steps of the minimal model of two attention layers, beside what sampled sequences give."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, logarithmic, quiet

FLAT, SYMMETRIC, DRAWN = COLOURS[0], COLOURS[1], COLOURS[2]
"""Chains with flat rows, symmetric chains, and draws of chains."""
FEW = 12
"""How many coordinates are shown one by one."""
STEPS = ("part", "law", "step", "place", "entry", "exact", "leading", "printed", "drawn", "measured", "low", "high")
CURRICULUM = (
    "part",
    "step",
    "place",
    "epsilon",
    "exact",
    "measured",
    "v_2",
    "others",
    "limit",
    "loss",
    "counts",
    "start",
    "kept",
)
EPSILON = 0.25
"""Half the length of the curriculum's interval, where it does not vary."""
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
    parts = dict(iter(table[table["part"] != "rate"].groupby(["law", "part", "step"])))
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


def curriculum_steps(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw two steps with a curriculum: lines are exact, points measured on sequences with 95% intervals.

    In reading order: v over v_2; how v_2 and what stands beside it grow with epsilon, times W; all other coordinates
    over v_2, in sum and the largest, with the limits of the sum for long sequences; the correlation of logits with
    counts; the loss of the best multiple of logits and of counts; what a start w of W does to that loss.

    Args:
        table: as the experiment ``curriculum`` makes it.
        axes: the six axes to draw on, in reading order; a new figure by default.

    Returns:
        The axes, of shape (6,).

    Raises:
        ExperimentError: a column is missing, or there are other than six axes.

    Source: thesis, Propositions 8.5 and E.3.
    """
    _require(table, CURRICULUM, "a curriculum")
    drawn = _panels(2, 3, 4.6) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != 6:
        raise ExperimentError(f"a curriculum must have six axes: axes={len(drawn)}")
    weights, predictors = (table[table["part"] == part] for part in ("weights", "predictor"))
    exact = predictors[(predictors["source"] == "exact") & predictors["epsilon"].eq(EPSILON)]
    plain = exact[(exact["start"] == 0) & ~exact["kept"].astype(bool)].sort_values("length")
    seen = predictors[(predictors["source"] == "measured") & predictors["epsilon"].eq(EPSILON)]
    _coordinates(drawn[0], table[(table["part"] == "position") & (table["step"] == 2)])
    _powers(drawn[1], weights[weights["length"] == weights["length"].max()])
    _background(drawn[2], weights)
    _correlations(drawn[3], plain, seen)
    _worth(drawn[4], plain, seen)
    _starts(drawn[5], exact[exact["length"] == seen["length"].iloc[0]])
    for ax in drawn:
        quiet(ax)
    return drawn


def _coordinates(ax: Axes, rows: pd.DataFrame) -> None:
    ax.axhline(0, color="0.8", linewidth=0.7, zorder=0)
    for colour, (epsilon, own) in zip((FLAT, SYMMETRIC), rows.groupby("epsilon"), strict=False):
        unit = float(own["exact"].iloc[1])
        few = own[own["place"] <= FEW].copy()
        few[["exact", "measured", "low", "high"]] /= unit
        ax.plot(few["place"], few["exact"], color=colour, linewidth=1.2, label=f"$\\epsilon$ = {epsilon:g}")
        _points(ax, few["place"], few, colour)
    ax.set_xticks(range(2, FEW + 1, 2))
    ax.set_xlabel("place j", fontsize=MEDIUM)
    _title(ax, f"$v_j$ over $v_2$, t = {rows['length'].iloc[0]:.0f}")
    _legend(ax)


def _powers(ax: Axes, rows: pd.DataFrame) -> None:
    names = {"v_2": "$v_2$ W", "v_4": "$v_4$ W", "others": "all but $v_2$, W"}
    rows = rows.sort_values("epsilon")
    for colour, (name, label) in zip(COLOURS, names.items(), strict=False):
        product = rows["diagonal"] * rows[name]
        ax.plot(rows["epsilon"], product, "o-", color=colour, markersize=2.5, linewidth=1, label=label)
        for power in (4, 6) if name == "v_2" else ():
            reference = product.iloc[-1] * (rows["epsilon"] / rows["epsilon"].iloc[-1]) ** power / 30
            ax.plot(rows["epsilon"], reference, color="0.75", linewidth=0.8, zorder=0)
            ax.text(
                rows["epsilon"].iloc[0],
                reference.iloc[0],
                f"$\\epsilon^{power}$ ",
                ha="right",
                fontsize=SMALL,
                color=GREY,
            )
    alone = rows["diagonal"] * rows["v_4_alone"]
    ax.plot(rows["epsilon"], alone, "--", color=COLOURS[1], linewidth=0.8, label="$v_4$ W, long sequences")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(left=float(rows["epsilon"].min()) / 2)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel(r"$\epsilon$", fontsize=MEDIUM)
    _title(ax, f"products of weights, t = {rows['length'].iloc[0]:.0f}")
    _legend(ax)


def _background(ax: Axes, rows: pd.DataFrame) -> None:
    for colour, epsilon in zip(COLOURS, (0.1, 0.2, 0.4), strict=False):
        own = rows[rows["epsilon"] == epsilon].sort_values("length")
        ax.plot(
            own["length"],
            own["others"] / own["v_2"],
            "o-",
            color=colour,
            markersize=2.5,
            label=rf"$\epsilon$ = {epsilon:g}",
        )
        ax.axhline(float(own["limit"].iloc[0]), color=colour, linewidth=0.8, linestyle=":")
        ax.plot(own["length"], own["largest_other"] / own["v_2"], "s--", color=colour, markersize=2.2, linewidth=0.8)
    ax.plot([], [], "s--", color=GREY, markersize=2.2, linewidth=0.8, label="their largest")
    ax.plot([], [], ":", color=GREY, linewidth=0.8, label="sum, long sequences")
    ax.set_ylim(0, 2 * float(rows["limit"].max()))
    _by_length(ax, rows)
    _title(ax, "all but $v_2$, over $v_2$")
    _legend(ax)


def _correlations(ax: Axes, rows: pd.DataFrame, seen: pd.DataFrame) -> None:
    for name, colour in (("bigram", COLOURS[1]), ("unigram", COLOURS[0])):
        ax.plot(rows["length"], rows[name], "-", color=colour, linewidth=1.2, label=f"{name} counts")
        ax.plot(seen["length"], seen[name], "o", color=colour, markersize=3)
    ax.plot(rows["length"], rows["counts"], "--", color=GREY, linewidth=0.9, label="of the two counts")
    ax.set_ylim(0.5, 1.01)
    _by_length(ax, rows)
    _title(ax, "correlation of logits with")
    _legend(ax)


def _worth(ax: Axes, rows: pd.DataFrame, seen: pd.DataFrame) -> None:
    ax.plot(rows["length"], rows["loss"], color="black", linewidth=1.2, label="logits, rescaled")
    ax.plot(seen["length"], seen["loss"], "o", color="black", markersize=3, label="as measured")
    for name, colour in (("unigram", COLOURS[0]), ("bigram", COLOURS[1])):
        ax.plot(rows["length"], rows[f"{name}_loss"], color=colour, linewidth=1, label=f"{name} counts, rescaled")
        ax.plot(
            rows["length"], rows[f"line.{name}"], color=colour, linewidth=0.8, linestyle="--", label=f"{name} strategy"
        )
    _by_length(ax, rows)
    ax.set_ylim(0, 2.2 * float(rows["unigram_loss"].max()))
    _title(ax, "KL(true ‖ network), flat rows")
    _legend(ax)


def _starts(ax: Axes, rows: pd.DataFrame) -> None:
    for kept, colour, label in ((False, COLOURS[2], "v forgotten"), (True, COLOURS[3], "v kept")):
        own = rows[rows["kept"].astype(bool) == kept].sort_values("start")
        ax.plot(own["start"], own["loss"], "o-", color=colour, markersize=2.5, linewidth=1, label=label)
    for name, colour in (("unigram", COLOURS[0]), ("bigram", COLOURS[1])):
        ax.axhline(float(rows[f"line.{name}"].iloc[0]), color=colour, linewidth=0.8, linestyle="--", zorder=0)
    least = float(rows["start"][rows["start"] > 0].min())
    ax.set_xscale("symlog", linthresh=least)
    ax.set_xticks([0, 0.01, 0.1, 1])
    ax.minorticks_off()
    ax.set_xlim(-least / 2, 1.3 * float(rows["start"].max()))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_ylim(bottom=0)
    ax.set_xlabel("initial w of W", fontsize=MEDIUM)
    _title(ax, f"KL, t = {rows['length'].iloc[0]:.0f}")
    ax.legend(fontsize=SMALL - 0.5, frameon=False, handlelength=1.6, loc="lower left", bbox_to_anchor=(0, 0.15))


def _by_length(ax: Axes, rows: pd.DataFrame) -> None:
    lengths = sorted(rows["length"].unique())
    ax.set_xscale("log")
    ax.set_xticks(lengths, [f"{length:.0f}" for length in lengths])
    ax.minorticks_off()
    ax.set_xlabel("tokens t", fontsize=MEDIUM)


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


def _legend(ax: Axes) -> None:
    ax.legend(fontsize=SMALL - 0.5, frameon=False, handlelength=1.6)
