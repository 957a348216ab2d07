"""Networks on their way to the largest margin: their margin, their neurons, and which features they share out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, ink, logarithmic, quiet

DASHED = (0, (4, 3))
ALIKE = 1e-6
"""Below this difference two of theory's numbers are one line."""
FINE = 20
"""Points an interpolation has from one weight to the next."""
NAMED = 20
"""So many features are named on an axis at the most."""
COURSE = ("series", "seed", "step", "ratio", "optimum")
WEIGHTS = ("neuron", "place", "value")
POWERS = ("power", "initial_power", "kept")
FEATURES = ("series", "seed", "feature", "neurons", "share", "limit", "theory")
STRONGEST = ("neuron", "weight", "value")


def margin_courses(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the normalised margin as a share of the largest against steps, with what theory says that it tends to.

    Steps are drawn from the first positive margin on, the trial of each series with the smallest seed strongly. The
    solid line at 1 is gamma*, which the optimum tends to as the penalty vanishes; dashed lines are the exact optima at
    the runs' own.

    Args:
        table: a row a trial and measured step: ``series``, ``seed``, ``step``, ``ratio`` and ``optimum``, the last two
            in units of gamma*.
        ax: the axes to draw on; new ones by default.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing.

    Source: thesis, figures 7.1 (c), 7.5, 7.6 (a), D.2 (a) and D.3 (a), none of which has the dashed lines.
    """
    _require(table, COURSE, "courses of margins")
    ax = _axes() if ax is None else ax
    _lines(table, "ratio", ax)
    optima = [optimum for optimum in table["optimum"].unique() if optimum < 1 - ALIKE]
    ax.axhline(
        1, color="black", linewidth=0.9, label=r"$\gamma^*$" + ("" if optima else "\n" + r"and optimum at $\lambda$")
    )
    for optimum in optima:
        label = rf"optimum at $\lambda$: {optimum:.3f}"
        ax.axhline(optimum, color=COLOURS[1], linewidth=0.9, linestyle=DASHED, label=label)
    ax.set_ylim(0, 1.08)
    ax.set_ylabel(r"normalised margin / $\gamma^*$", fontsize=MEDIUM)
    ax.legend(fontsize=SMALL, frameon=False, loc="lower right")
    return ax


def plain_courses(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the normalised margin itself against steps, for networks whose largest margin no theorem gives.

    Args:
        table: a row a trial and measured step: ``series``, ``seed``, ``step`` and ``normalised``.
        ax: the axes to draw on; new ones by default.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing.
    """
    _require(table, ("series", "seed", "step", "normalised"), "courses of margins")
    ax = _axes() if ax is None else ax
    _lines(table, "normalised", ax)
    ax.set_ylim(0, 1.15 * table["normalised"].max())
    ax.set_ylabel("normalised margin", fontsize=MEDIUM)
    ax.legend(fontsize=SMALL, frameon=False, loc="lower right")
    return ax


def _lines(table: pd.DataFrame, quantity: str, ax: Axes) -> None:
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
    quiet(ax)


def neuron_rows(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw a neuron a row: its embedding weights as dots with their interpolation, and their power by frequency.

    The interpolation is the function over the reals with the same Fourier coefficients, no frequency above (p - 1)/2.

    Args:
        table: a row a weight: ``neuron``, ``place`` (the residue) and ``value``.
        axes: the axes to draw on, two a neuron; a new figure by default.

    Returns:
        The axes, of shape (neurons, 2).

    Raises:
        ExperimentError: a column is missing, or there are other than two axes a neuron.

    Source: thesis, figure 7.1 (a) and (b).
    """
    _require(table, WEIGHTS, "neurons")
    neurons = [rows.sort_values("place")["value"].to_numpy(float) for _, rows in table.groupby("neuron", sort=False)]
    drawn = _figure(len(neurons), 2) if axes is None else np.asarray(axes, object)
    if drawn.size != 2 * len(neurons):
        raise ExperimentError(f"axes must be two a neuron: axes={drawn.size}, neurons={len(neurons)}")
    drawn = drawn.reshape(len(neurons), 2)
    for (left, right), values in zip(drawn, neurons, strict=True):
        p = len(values)
        places, smooth = interpolation(values)
        left.plot(places, smooth, color=COLOURS[5], linewidth=1)
        left.plot(np.arange(p), values, ".", color=COLOURS[1], markersize=2.5)
        left.set_ylim(-1.15 * np.abs(smooth).max(), 1.15 * np.abs(smooth).max())
        left.set_yticks([0])
        power = np.abs(np.fft.rfft(values)) ** 2
        right.bar(np.arange(1, len(power)), power[1:] / power.sum(), color=COLOURS[0], width=0.8)
        right.set_ylim(0, 1.08)
        right.set_yticks([0, 1])
        for ax in (left, right):
            quiet(ax)
            ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            ax.tick_params(labelbottom=ax in drawn[-1])
    drawn[-1, 0].set_xlabel("a", fontsize=MEDIUM)
    drawn[-1, 1].set_xlabel("frequency", fontsize=MEDIUM)
    return drawn


def interpolation(values: Float[np.ndarray, " p"]) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Return the real function of the lowest frequencies through p values at 0, …, p - 1, p odd: places and values."""
    p = len(values)
    coefficients = np.fft.rfft(values) / p
    places = np.linspace(0, p - 1, FINE * (p - 1) + 1)
    waves = np.exp(2j * np.pi / p * np.outer(places, np.arange(1, len(coefficients))))
    return places, coefficients[0].real + 2 * (waves @ coefficients[1:]).real


def power_histogram(table: pd.DataFrame, ax: Axes | None = None, *, start: bool = True, end: bool = True) -> Axes:
    """Draw how many neurons have which share of their embedding's power in one feature, at the beginning and the end.

    Neurons that training has given up (``kept`` is false) are left out at the end.

    Args:
        table: a row a neuron: ``power`` and ``initial_power``, from 0 to 1, and ``kept``.
        ax: the axes to draw on; new ones by default.
        start: whether the beginning is drawn.
        end: whether the end is drawn.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing.

    Source: thesis, figures 7.4, 7.6 (c) and (d), D.2 and D.3.
    """
    _require(table, POWERS, "powers")
    ax = _axes() if ax is None else ax
    bins = np.linspace(0, 1, 41).tolist()
    drawn = {
        "beginning": (table["initial_power"], "0.65", start),
        "end": (table.loc[table["kept"], "power"], COLOURS[0], end),
    }
    for label, (values, colour, wanted) in drawn.items():
        if wanted:
            weights = np.full(len(values), 100 / max(1, len(values)))
            # a power of 1 may come out above 1 by rounding
            ax.hist(np.minimum(values, 1), bins=bins, weights=weights, color=colour, alpha=0.8, label=label)
    ax.set_xlim(0, 1.02)
    ax.set_xlabel("maximum normalised power", fontsize=MEDIUM)
    ax.set_ylabel("neurons (%)", fontsize=MEDIUM)
    quiet(ax)
    return ax


def feature_counts(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw how many neurons each feature has: means over trials, and the range where there are several.

    Args:
        table: a row a trial and feature: ``series`` (whose bars stand side by side), ``seed``, ``feature``, ``neurons``
            and the columns of ``feature_shares``.
        ax: the axes to draw on; new ones by default.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing.

    Source: thesis, figures 7.6 (b), D.1, D.2 (b) and D.3 (b).
    """
    _require(table, FEATURES, "features")
    ax = _axes() if ax is None else ax
    _bars(table, "neurons", ax)
    ax.set_ylabel("neurons", fontsize=MEDIUM)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return ax


def feature_shares(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw each feature's share of sum ||omega||^nu: means and ranges over trials, and what theory says.

    Black strokes are the shares at gamma*, in the limit of no penalty; dashed ones those of the exact optimum at the
    penalty of the runs, where it has others.

    Args:
        table: a row a trial and feature: ``series``, ``seed``, ``feature``, ``neurons``, ``share``, and the shares
            ``limit`` at gamma* and ``theory`` at the penalty (NaN where no theorem says).
        ax: the axes to draw on; new ones by default.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing.
    """
    _require(table, FEATURES, "features")
    ax = _axes() if ax is None else ax
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
    return ax


def _bars(table: pd.DataFrame, quantity: str, ax: Axes) -> None:
    """Draw a bar a feature and series: the mean of a quantity over trials, with its range."""
    names = list(table["feature"].drop_duplicates())
    series = list(table["series"].drop_duplicates())
    width = 0.8 / len(series)
    for number, name in enumerate(series):
        own = table[table["series"] == name]
        by_trial = own.pivot(index="seed", columns="feature", values=quantity).reindex(columns=names).to_numpy(float)
        middle, at = by_trial.mean(axis=0), np.arange(len(names)) + (number - (len(series) - 1) / 2) * width
        ax.bar(at, middle, width=width, color=COLOURS[number], label=name)
        if len(by_trial) > 1:
            ranges = np.abs(np.stack([by_trial.min(axis=0), by_trial.max(axis=0)]) - middle)
            ax.errorbar(at, middle, yerr=ranges, fmt="none", ecolor=GREY, elinewidth=0.7, capsize=1)
    each = 1 + (len(names) - 1) // NAMED
    ax.set_xticks(range(0, len(names), each), [str(name) for name in names[::each]])
    quiet(ax)


def strongest_neurons(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the weights of neurons, a row a neuron, each divided by its neuron's norm.

    Args:
        table: a row a weight: ``neuron``, ``weight`` (its name) and ``value``.
        ax: the axes to draw on; new ones by default.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing.

    Source: thesis, figure 7.5 (left).
    """
    _require(table, STRONGEST, "neurons")
    ax = _axes() if ax is None else ax
    grid = table.pivot(index="neuron", columns="weight", values="value")
    grid = grid.loc[list(table["neuron"].drop_duplicates()), list(table["weight"].drop_duplicates())]
    values = grid.to_numpy(float)
    image = ax.imshow(values, cmap="RdBu", vmin=-0.6, vmax=0.6, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        colour = ink(image.cmap(image.norm(value)))
        ax.text(
            column, row, f"{round(value, 2) + 0.0:.2f}", ha="center", va="center", fontsize=SMALL - 1.5, color=colour
        )
    ax.set_xticks(range(len(grid.columns)), [str(name) for name in grid.columns])
    ax.set_yticks([])
    ax.tick_params(labelsize=SMALL, length=0)
    ax.spines[:].set_visible(False)
    return ax


def modular_addition(table: pd.DataFrame) -> np.ndarray:
    """Draw all that there is to see of networks that add mod p, on a new figure.

    From top to bottom: neurons of the largest p, by activation; courses of margins, and the margin by width where
    there are several at one p; the largest power of all neurons at the beginning and the end; neurons and shares by
    frequency.

    Args:
        table: as the experiment ``modular-addition`` makes it.

    Returns:
        The axes, in reading order.

    Raises:
        ExperimentError: a column is missing.

    Source: thesis, figures 7.1, 7.4 and D.1.
    """
    _require(table, ("part", "p", "activation", "width", "rate"), "addition mod p")
    named = table.assign(series="p = " + table["p"].astype(str))
    narrow = named["rate"] < named.groupby("p")["rate"].transform("max")
    main, widths = named[~narrow], named[narrow & (named["part"] == "course")]
    largest = main[main["p"] == main["p"].max()]
    kinds = list(dict.fromkeys(largest["activation"]))
    parts = _stack((3.0, 2.2, 1.9, 1.9))
    sides = zip(parts[0].subfigures(1, 2), kinds[::-1], strict=False)
    drawn = [ax for side, kind in sides for ax in _rows(side, largest, kind)]
    axes = parts[1].subplots(1, len(kinds) + (len(widths) > 0), squeeze=False)[0]
    for ax, kind in zip(axes, kinds, strict=False):
        courses = main[(main["part"] == "course") & (main["activation"] == kind)]
        (plain_courses if courses["ratio"].isna().all() else margin_courses)(courses, ax)
        _title(ax, kind)
    if len(widths):
        _widths(widths, axes[-1])
    drawn += list(axes)
    axes = parts[2].subplots(1, 1 + len(kinds), squeeze=False)[0]
    powers = largest[largest["part"] == "neuron"]
    for place, (ax, kind) in enumerate(zip(axes, [kinds[-1], *kinds[::-1]], strict=True)):
        power_histogram(powers[powers["activation"] == kind], ax, start=place == 0, end=place > 0)
        _title(ax, f"{kind}: {'end' if place else 'beginning'}")
    drawn += list(axes)
    axes = parts[3].subplots(1, 2)
    shared = largest[largest["part"] == "feature"].assign(series=largest["activation"])
    for ax, picture in zip(axes, (feature_counts, feature_shares), strict=True):
        picture(shared.assign(feature=shared["feature"].astype(int)), ax)
        ax.set_xlabel("frequency", fontsize=MEDIUM)
    axes[0].set_ylim(top=1.3 * axes[0].get_ylim()[1])
    axes[0].legend(fontsize=SMALL, frameon=False, ncols=2, loc="upper left")
    return np.array([*drawn, *axes], object)


def _rows(side: Any, table: pd.DataFrame, kind: str) -> list[Axes]:
    """Draw the neurons of one activation on a part of a figure, under a title; return the axes."""
    weights = table[(table["part"] == "weight") & (table["activation"] == kind)]
    axes = side.subplots(weights["neuron"].nunique(), 2, squeeze=False, sharex="col")
    side.suptitle(f"{kind}, p = {table['p'].iloc[0]}: weights and power by frequency", fontsize=MEDIUM)
    return list(neuron_rows(weights, axes).ravel())


def _widths(courses: pd.DataFrame, ax: Axes) -> None:
    """Draw the final margin of every trial against the width, beside the width that the theorem asks for."""
    last = courses.groupby(["width", "seed"]).last().reset_index()
    diverged = last["state"] == "diverged"
    ended, lost = last[~diverged], last[diverged]
    ax.plot(ended["width"], ended["ratio"], "o", color=COLOURS[0], markersize=3, alpha=0.6, markeredgewidth=0)
    middle = ended.groupby("width")["ratio"].median()
    ax.plot(middle.index, middle, color=COLOURS[0], linewidth=1)
    if len(lost):
        ax.plot(
            lost["width"], np.full(len(lost), 0.03), "x", color=COLOURS[1], markersize=4, label=f"{len(lost)} diverged"
        )
        ax.legend(fontsize=SMALL, frameon=False, loc="lower right")
    p = int(last["p"].iloc[0])
    ax.axvline(4 * (p - 1), color=GREY, linewidth=0.9, linestyle=":")
    ax.text(4 * (p - 1), 0.3, " 4(p - 1)", fontsize=SMALL, color=GREY)
    ax.axhline(1, color="black", linewidth=0.9)
    ax.set_ylim(0, 1.08)
    ax.set_xlabel("width", fontsize=MEDIUM)
    _title(ax, f"quadratic, p = {p}, by width")
    quiet(ax)


def parity_margin(table: pd.DataFrame) -> np.ndarray:
    """Draw networks on sparse parities, on a new figure.

    The strongest neurons of the largest k; the courses of margins of all; and the ratios |u_j| / ||w|| of all neurons,
    which theory has at 1 on the support and at 0 off it.

    Args:
        table: as the experiment ``parity-margin`` makes it.

    Returns:
        The axes, of shape (3,).

    Raises:
        ExperimentError: a column is missing.

    Source: thesis, figure 7.5.
    """
    _require(table, ("part", "n", "k", "inside"), "parities")
    named = table.assign(series="n = " + table["n"].astype(str) + ", k = " + table["k"].astype(str))
    largest = named[named["k"] == named["k"].max()]
    upper, lower = _stack((2.5, 2.5))
    top = upper.subplots(1, 1)
    strongest_neurons(largest[largest["part"] == "weight"], top)
    _title(top, f"strongest neurons, {largest['series'].iloc[0]}; each row over its norm")
    left, right = lower.subplots(1, 2)
    margin_courses(named[named["part"] == "course"], left)
    own = largest[largest["part"] == "neuron"]
    bins = (np.arange(-0.5, 46) / 30).tolist()  # 0 and 1 are the middles of two
    for inside, label, colour in ((True, "on the support", COLOURS[0]), (False, "off it", "0.65")):
        values = own.loc[own["inside"].eq(inside), "value"]
        weights = np.full(len(values), 100 / max(1, len(values)))
        right.hist(values, bins=bins, weights=weights, color=colour, alpha=0.8, label=label)
    right.set_xlabel(r"$|u_j| \, / \, \|w\|$", fontsize=MEDIUM)
    right.set_ylabel("weights (%)", fontsize=MEDIUM)
    right.legend(fontsize=SMALL, frameon=False, loc="upper center", bbox_to_anchor=(0.37, 1))
    _title(right, f"neurons that count, {largest['series'].iloc[0]}")
    quiet(right)
    return np.array([top, left, right], object)


def group_margins(table: pd.DataFrame) -> np.ndarray:
    """Draw networks that compose in groups, a column a group, on a new figure.

    From top to bottom: the course of the margin, how many neurons each irrep has, its share of the mass, and the
    histogram of the largest power at the beginning and the end.

    Args:
        table: as the experiment ``group-margins`` makes it.

    Returns:
        The axes, of shape (4, groups).

    Raises:
        ExperimentError: a column is missing.

    Source: thesis, figures 7.6, D.2 and D.3.
    """
    _require(table, ("part", "group", "dimension"), "groups")
    groups = {str(name): rows.assign(series=str(name)) for name, rows in table.groupby("group", sort=False)}
    part = _stack((8.0,), width=max(3.6, 2.4 * len(groups)))[0]
    drawn: np.ndarray = part.subplots(4, len(groups), squeeze=False)
    for column, (name, rows) in zip(drawn.T, groups.items(), strict=True):
        parts = dict(tuple(rows.groupby("part")))
        margin_courses(parts["course"], column[0])
        _title(column[0], f"{name}, {rows['width'].iloc[0]} neurons")
        irreps = parts["feature"].assign(feature=_labels(parts["feature"]))
        feature_counts(irreps, column[1])
        feature_shares(irreps, column[2])
        power_histogram(parts["neuron"], column[3])
        column[3].legend(fontsize=SMALL, frameon=False, loc="upper left")
    for ax in drawn[:, 1:].ravel():
        ax.set_ylabel("")
    return drawn


def _labels(irreps: pd.DataFrame) -> pd.Series:
    """Return the names of irreps with their dimensions, in lines."""
    names = irreps["feature"].astype(str).str.replace("⊗", "\n⊗ ")
    return names + "\n(" + irreps["dimension"].astype(int).astype(str) + ")"


def _stack(heights: Sequence[float], width: float = 7.2) -> list[Any]:
    """Return the parts of a new figure, one below the other, of given heights in inches."""
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    parts: Any = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)
    return list(parts.ravel())


def _title(ax: Axes, title: str) -> None:
    ax.set_title(title, loc="left", fontsize=MEDIUM)


def _axes() -> Axes:
    drawn: Axes = _figure(1, 1)[0, 0]
    return drawn


def _figure(rows: int, columns: int) -> np.ndarray:
    figure = Figure(figsize=(3.4 * columns, 1 + 1.6 * rows), layout="constrained")
    drawn: np.ndarray = figure.subplots(rows, columns, squeeze=False)
    return drawn


def _require(table: pd.DataFrame, names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in table:
            raise ExperimentError(f"{what} must have a column {name!r}: {', '.join(map(str, table))}")
