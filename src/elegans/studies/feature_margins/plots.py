"""Networks on their way to the largest margin: the panels of the experiments' figures."""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.ticker import MaxNLocator

from elegans.plots.marks import heat_map
from elegans.plots.style import COLOURS, DIVERGING, GREY, MEDIUM, despine, logarithmic, panel_legend

DASHED = (0, (4, 3))
ALIKE = 1e-6
"""Theoretical values that differ by less are drawn as one line."""
NAMED = 12
"""The largest number of features named on an axis."""
APART = 2.4
"""The distance between the waves of two neurons, in units of their amplitude."""
FINE = 20
"""The number of interpolated points from one weight to the next."""


def symbol_of(group: str) -> str:
    """Return a group's name for a figure, with its number as an index."""
    return f"${group[0]}_{{{group[1:]}}}$" if group[:1].isalpha() and group[1:].isdigit() else group


def share_of(neurons: pd.Series) -> str:
    """Return in words which share of some neurons have a property."""
    return "all active neurons" if neurons.all() else f"{100 * neurons.mean():.3g}% of active neurons"


def margin_curves(table: pd.DataFrame, ax: Axes) -> None:
    """Draw the normalised margin as a share of the largest against steps, with the limits that theory gives.

    Curves start at the first positive margin; in each series the trial with the smallest seed is emphasised. The
    solid line at 1 is gamma*, the limit as the penalty vanishes; dashed lines are the exact optima at the trials' own
    penalties.

    Args:
        table: one row per trial and measured step: ``series``, ``seed``, ``step``, ``ratio`` and ``optimum``, the last
            two in units of gamma*.
        ax: the axes to draw on.

    Source: thesis, figures 7.1 (c), 7.5, 7.6 (a), D.2 (a) and D.3 (a), without the dashed lines.
    """
    lines(table, "ratio", ax)
    optima = [optimum for optimum in table["optimum"].unique() if optimum < 1 - ALIKE]
    limit = r"$\gamma^*$" + ("" if optima else r" and optimum at $\lambda$")
    ax.axhline(1, color="black", linewidth=0.9, label=limit)
    for optimum in optima:
        label = rf"optimum at $\lambda$: {optimum:.3f}"
        ax.axhline(optimum, color="black", linewidth=0.9, linestyle=DASHED, label=label)
    ax.set_ylim(0, 1.08)
    ax.set_ylabel(r"normalised margin / $\gamma^*$", fontsize=MEDIUM)
    panel_legend(ax)


def lines(table: pd.DataFrame, quantity: str, ax: Axes) -> None:
    """Draw a quantity against steps, one curve per trial, one colour per series."""
    for colour, (series, rows) in zip(COLOURS, table[table["step"] > 0].groupby("series", sort=False), strict=False):
        first = rows["seed"].min()
        for seed, run in rows.groupby("seed"):
            strong = seed == first
            style: dict[str, Any] = {"linewidth": 1.2, "zorder": 3} if strong else {"linewidth": 0.6, "alpha": 0.4}
            ax.plot(run["step"], run[quantity], color=colour, label=series if strong else None, **style)
    positive = table.loc[(table[quantity] > 0) & (table["step"] > 0), "step"]
    ax.set_xlim(0.7 * positive.min() if len(positive) else 1, 1.2 * table["step"].max())
    logarithmic(ax, "x")
    ax.set_xlabel("steps", fontsize=MEDIUM)
    despine(ax)


def margins_by_width(curves: pd.DataFrame, ax: Axes) -> None:
    """Draw the final margin of every trial against the width, with the width that the theorem requires."""
    last = curves.groupby(["width", "seed"]).last().reset_index()
    diverged = last["state"] == "diverged"
    ended, lost = last[~diverged], last[diverged]
    ax.plot(ended["width"], ended["ratio"], "o", color=COLOURS[0], markersize=3, alpha=0.6, markeredgewidth=0)
    middle = ended.groupby("width")["ratio"].median()
    ax.plot(middle.index, middle, color=COLOURS[0], linewidth=1, label="median")
    if len(lost):
        bottom, label = np.full(len(lost), 0.03), f"{len(lost)} diverged"
        ax.plot(lost["width"], bottom, "x", color=COLOURS[1], markersize=4, label=label)
    p = int(last["p"].iloc[0])
    ax.axvline(4 * (p - 1), color=GREY, linewidth=0.9, linestyle=":", label="$4(p - 1)$")
    ax.axhline(1, color="black", linewidth=0.9)
    ax.set(ylim=(0, 1.08), xlabel="width", ylabel=r"normalised margin / $\gamma^*$")
    panel_legend(ax)


def power_histogram(
    table: pd.DataFrame, ax: Axes, *, start: bool = True, colour: str = COLOURS[0], label: str = "end"
) -> None:
    """Draw how many neurons have which share of their embedding's power in one feature, at the beginning and the end.

    Inactive neurons (``kept`` is false) are left out at the end.

    Args:
        table: one row per neuron: ``power`` and ``initial_power``, from 0 to 1, and ``kept``.
        ax: the axes to draw on.
        start: whether the start is drawn.
        colour: the colour of the end.
        label: the label of the end.

    Source: thesis, figures 7.4, 7.6 (c) and (d), D.2 and D.3.
    """
    bins = np.linspace(0, 1, 41).tolist()
    beginning = [("beginning", table["initial_power"], "0.65")] if start else []
    for name, values, shade in (*beginning, (label, table.loc[table["kept"], "power"], colour)):
        # rounding may turn a power of 1 into one above 1
        _percentages(np.minimum(values, 1), bins, ax, shade, name)
    ax.set_xlim(0, 1.02)
    ax.set_xlabel("largest share of a neuron's power", fontsize=MEDIUM)
    ax.set_ylabel("neurons (%)", fontsize=MEDIUM)
    despine(ax)


def weight_ratios(table: pd.DataFrame, ax: Axes) -> None:
    """Draw how many weights on a parity's support, and off it, have which ratio to their neuron's output weights.

    Args:
        table: one row per weight: ``value``, which is 1 or 0 at the largest margin, and whether it is ``inside``.
        ax: the axes to draw on.
    """
    bins = (np.arange(-0.5, 46) / 30).tolist()  # 0 and 1 are the middles of two
    for inside, label, colour in ((True, "on the support", COLOURS[0]), (False, "off it", "0.65")):
        _percentages(table.loc[table["inside"].eq(inside), "value"], bins, ax, colour, label)
    ax.set(xlabel=r"$|u_j| \, / \, \|w\|$", ylabel="weights (%)")
    panel_legend(ax)


def _percentages(values: Any, bins: list[float], ax: Axes, colour: str, label: str) -> None:
    """Draw what percentage of some values each bin has."""
    weights = np.full(len(values), 100 / max(1, len(values)))
    ax.hist(values, bins=bins, weights=weights, color=colour, alpha=0.8, label=label)


def neuron_weights(table: pd.DataFrame, ax: Axes) -> None:
    """Draw the ``value`` of each ``weight`` of some neurons, one ``neuron`` per row."""
    cells = table.pivot(index="neuron", columns="weight", values="value")
    cells = cells.loc[list(table["neuron"].drop_duplicates()), list(table["weight"].drop_duplicates())]
    texts = cells.map(lambda value: f"{round(value, 2) + 0.0:.2f}".replace("-", "\N{MINUS SIGN}"))
    heat_map(ax, cells, text=texts, norm=Normalize(-0.6, 0.6), colours=DIVERGING)
    ax.set_yticks([])


def feature_counts(table: pd.DataFrame, ax: Axes) -> None:
    """Draw how many neurons each feature has: means over trials, and the range where there are several.

    Args:
        table: one row per trial and feature: ``series`` (with bars side by side), ``seed``, ``feature`` and
            ``neurons``.
        ax: the axes to draw on.

    Source: thesis, figures 7.6 (b), D.1, D.2 (b) and D.3 (b).
    """
    _bars(table, "neurons", ax)
    ax.set_ylabel("neurons", fontsize=MEDIUM)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))


def feature_shares(table: pd.DataFrame, ax: Axes) -> None:
    """Draw each feature's share of sum ||omega||^nu: means and ranges over trials, and the theoretical shares.

    Solid black strokes are the shares at gamma*, in the limit of no penalty. Where the exact optimum at the runs'
    penalty has other shares, dashed strokes show them.

    Args:
        table: one row per trial and feature: ``series``, ``seed``, ``feature``, ``neurons``, ``share``, and the shares
            ``limit`` at gamma* and ``theory`` at the penalty (NaN where unknown).
        ax: the axes to draw on.
    """
    _bars(table, "share", ax)
    said = table.dropna(subset=["limit"]).groupby("feature", sort=False)[["limit", "theory"]].first()
    places = {name: place for place, name in enumerate(table["feature"].drop_duplicates())}
    for name, row in said.iterrows():
        ends = (places[name] - 0.45, places[name] + 0.45)
        ax.hlines(row["limit"], *ends, color="black", linewidth=1)
        if abs(row["limit"] - row["theory"]) > ALIKE:
            ax.hlines(row["theory"], *ends, color="black", linewidth=1, linestyle=(0, (2, 1)))
    ax.set_ylabel(r"share of $\sum\|\omega\|^\nu$", fontsize=MEDIUM)
    ax.set_ylim(bottom=0)


def _bars(table: pd.DataFrame, quantity: str, ax: Axes) -> None:
    """Draw one bar per feature and series: the mean of a quantity over trials, with its range."""
    names, count = list(table["feature"].drop_duplicates()), table["series"].nunique()
    for number, (name, rows) in enumerate(table.groupby("series", sort=False)):
        by_trial = rows.pivot(index="seed", columns="feature", values=quantity).reindex(columns=names).to_numpy(float)
        middle, at = by_trial.mean(axis=0), np.arange(len(names)) + (number - (count - 1) / 2) * 0.8 / count
        ax.bar(at, middle, width=0.8 / count, color=COLOURS[number], label=name)
        if len(by_trial) > 1:
            ranges = np.abs(np.stack([by_trial.min(axis=0), by_trial.max(axis=0)]) - middle)
            ax.errorbar(at, middle, yerr=ranges, fmt="none", ecolor=GREY, elinewidth=0.7, capsize=1)
    each = 1 + (len(names) - 1) // NAMED
    ax.set_xticks(range(0, len(names), each), [str(name) for name in names[::each]])
    despine(ax)


def neuron_waves(table: pd.DataFrame, ax: Axes) -> None:
    """Draw neurons one above another: embedding weights as dots, relative to the largest, and the wave through them."""
    names = []
    groups = [rows.sort_values("place")["value"].to_numpy(float) for _, rows in table.groupby("neuron", sort=False)]
    for height, values in enumerate(groups[::-1]):
        places, smooth = interpolation(values)
        scale = APART * np.abs(smooth).max()
        ax.axhline(height, color="0.85", linewidth=0.6)
        ax.plot(places, height + smooth / scale, color=COLOURS[5], linewidth=1)
        ax.plot(np.arange(len(values)), height + values / scale, ".", color=COLOURS[0], markersize=3)
        power = np.abs(np.fft.rfft(values)[1:]) ** 2
        names.append(f"frequency {power.argmax() + 1}\n{100 * power.max() / power.sum():.4g}% of power")
    ax.set_yticks(range(len(names)), names)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.set_xlabel("input a")


def interpolation(values: Float[np.ndarray, " p"]) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Return the real function of the lowest frequencies through p values at 0, …, p - 1, p odd: points and values."""
    p = len(values)
    coefficients = np.fft.rfft(values) / p
    places = np.linspace(0, p - 1, FINE * (p - 1) + 1)
    waves = np.exp(2j * np.pi / p * np.outer(places, np.arange(1, len(coefficients))))
    return places, coefficients[0].real + 2 * (waves @ coefficients[1:]).real
