"""What helps and hinders a network that learns pairs of tokens: its two parameters, unigrams, one layer only."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, quiet, shades, short
from elegans.studies.induction_heads.plots import STRATEGY_COLOURS, chain_distances, chain_losses

COORDINATES = 10
"""How many of the first coordinates of v are drawn."""
PROFILE_AT = (0.05, 0.25, 0.5, 1.0)
"""At which shares of the training the coordinates of v are drawn."""
LIMIT = COLOURS[2]
"""The colour of the best loss that counts of pairs allow."""
MINIMAL = ("k", "seed", "step", "sequences", "limit", "own", "early_pair", "early_position", "diagonal", "off_diagonal")
DELAY = ("k", "arm", "added", "seed", "doubly", "loss", "level", "crossed_at", "step", "line.unigram", "line.bigram")
LAYERS = ("network", "seed", "sequences", "loss", "steepest", "line.unigram", "line.bigram")
MARKERS = "os^Dv"


def minimal_courses(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw the minimal model in six panels a number of symbols.

    Above: losses, with the limit of counts; distances to strategies; losses of grafts, each with the factor that suits
    it best. Below: entries of W; v at some steps; coordinates of v along the way. Faint curves are trials, strong ones
    medians.

    Args:
        table: a row a trial and measured step, as the experiment ``induction-minimal`` makes it.
        axes: the axes to draw on, six a number of symbols; a new figure by default.

    Returns:
        The axes, of shape (numbers of symbols, 6).

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than panels.

    Source: thesis, figures 8.3 (bottom), 8.4b and E.7 (bottom).
    """
    _require(table, (*MINIMAL, *(f"v_{place + 1}" for place in range(COORDINATES))), "minimal models")
    groups = [(k, rows) for k, rows in table.groupby("k", sort=False)]
    drawn = _panels(2 * len(groups), 3, 2.1) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != 6 * len(groups):
        raise ExperimentError(f"axes must be six a number of symbols: axes={len(drawn)}, numbers={len(groups)}")
    drawn = drawn.reshape(len(groups), 6)
    for panels, (k, rows) in zip(drawn, groups, strict=True):
        chain_losses(rows, panels[0])
        _level(panels[0], _line(rows, "limit"), LIMIT, "best counts", "bottom")
        chain_distances(rows, panels[1], legend=False)
        _legend_above(panels[1], 1.4)
        _grafts(panels[2], rows)
        _pair(panels[3], rows)
        _profiles(panels[4], rows)
        _coordinates(panels[5], rows)
        titles = ("loss", "distance to strategies", "grafts: which is first", "W", "v by place", "v along the way")
        for ax, title in zip(panels, titles, strict=True):
            ax.set_title(f"k = {k}: {title}", loc="left", fontsize=MEDIUM)
    return drawn


def _grafts(ax: Axes, rows: pd.DataFrame) -> None:
    names = {"early_pair": "W early, v of the end", "early_position": "v early, W of the end", "own": "both early"}
    looks: tuple[tuple[Any, Any], ...] = ((COLOURS[3], "-"), (COLOURS[5], "-"), ("black", (0, (3, 1.5))))
    for (name, label), (colour, style) in zip(names.items(), looks, strict=True):
        _curves(ax, rows, name, colour, label, style)
    _level(ax, _line(rows, "line.unigram"), STRATEGY_COLOURS["unigram"], "unigram")
    _level(ax, _line(rows, "limit"), LIMIT, "best counts")
    ax.set_ylim(0, 1.4 * _line(rows, "line.unigram"))
    ax.set_ylabel("KL(true ‖ rescaled)", fontsize=MEDIUM)
    _along(ax, rows)
    ax.legend(fontsize=SMALL - 0.5, frameon=False, loc="upper right", handlelength=1.6, labelspacing=0.2)


def _pair(ax: Axes, rows: pd.DataFrame) -> None:
    for name, label, colour in (("diagonal", "diagonal", COLOURS[1]), ("off_diagonal", "off the diagonal", COLOURS[0])):
        _curves(ax, rows, name, colour, label)
    ax.axhline(0, color=GREY, linewidth=0.6)
    ax.set_ylabel("mean entry of W", fontsize=MEDIUM)
    _along(ax, rows)
    _legend_above(ax, 1.2)


def _profiles(ax: Axes, rows: pd.DataFrame) -> None:
    steps = np.array(sorted(rows["step"].unique()))
    chosen = sorted({int(steps[np.abs(steps - share * steps[-1]).argmin()]) for share in PROFILE_AT})
    places = np.arange(1, COORDINATES + 1)
    for step, colour in zip(chosen, shades(len(chosen)), strict=True):
        values = rows[rows["step"] == step][[f"v_{place}" for place in places]].median()
        ax.plot(places, values, color=colour, linewidth=1, marker="o", markersize=2.5, label=f"step {step}")
    ax.axhline(0, color=GREY, linewidth=0.6)
    ax.set_xticks(places)
    ax.set_xlabel("place j, from the token itself back", fontsize=MEDIUM)
    ax.set_ylabel("$v_j$", fontsize=MEDIUM)
    quiet(ax)
    ax.legend(fontsize=SMALL, frameon=False)


def _coordinates(ax: Axes, rows: pd.DataFrame) -> None:
    for place in range(1, 7):
        style = "-" if place % 2 == 0 else (0, (3, 1.5))
        _curves(ax, rows, f"v_{place}", COLOURS[place - 1], f"$v_{place}$", style)
    ax.axhline(0, color=GREY, linewidth=0.6)
    ax.set_ylabel("$v_j$", fontsize=MEDIUM)
    _along(ax, rows)
    _legend_above(ax, 1.35, ncols=3)


def unigram_delay(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw losses on chains of flat rows against doubly stochastic sequences seen, and beside them when they fall.

    There is a row a number of symbols. On the left, faint curves are trials, the strong one the median; the darker, the
    fewer sequences of independent tokens were added. On the right, a mark a trial is where its loss first is below the
    dotted level; open marks at the edge are trials whose loss never is. Of flat rows all sequences count.

    Args:
        table: a row a trial and measured step, as the experiment ``unigrams-delay`` makes it.
        axes: the axes to draw on, two a number of symbols; a new figure by default.

    Returns:
        The axes, of shape (numbers of symbols, 2).

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than panels.

    Source: thesis, figure 8.4a.
    """
    _require(table, DELAY, "delays")
    groups = [(k, rows) for k, rows in table.groupby("k", sort=False)]
    drawn = _panels(len(groups), 2, 2.5) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != 2 * len(groups):
        raise ExperimentError(f"axes must be two a number of symbols: axes={len(drawn)}, numbers={len(groups)}")
    drawn = drawn.reshape(len(groups), 2)
    for (left, right), (k, rows) in zip(drawn, groups, strict=True):
        colours = _arm_colours(rows)
        for arm, own in rows.groupby("arm", sort=False):
            _curves(left, own, "loss", colours[str(arm)], None, at="doubly")
        left.axhline(rows["level"].iloc[0], color=GREY, linewidth=0.8, linestyle=":")
        for name in ("unigram", "bigram"):
            _level(left, _line(rows, f"line.{name}"), STRATEGY_COLOURS[name], name)
        left.set(xlim=(0, rows["doubly"].max()), ylim=(0, None))
        left.set_ylabel("KL(true ‖ network), flat rows", fontsize=MEDIUM)
        left.set_title(f"k = {k}: loss on chains of flat rows", loc="left", fontsize=MEDIUM)
        _crossings(right, rows, colours)
        right.set_title(f"loss below {rows['level'].iloc[0]:g}", loc="left", fontsize=MEDIUM)
        for ax in (left, right):
            _sequences(ax, "doubly stochastic sequences seen")
    return drawn


def _arm_colours(rows: pd.DataFrame) -> dict[str, Any]:
    """Return a colour an arm: from dark to light the more is added, one of its own for fewer a step, black without."""
    last = rows[rows["step"] == rows["step"].max()].groupby("arm", sort=False).first()
    added = last.index[last["added"].notna() & (last["doubly"] > 0.99 * last["doubly"].max())]
    shaded = dict(zip(added, shades(len(added)), strict=True))
    others = {arm: "black" if np.isnan(last.loc[arm, "added"]) else COLOURS[1] for arm in last.index}
    return {str(arm): shaded.get(arm, other) for arm, other in others.items()}


def _crossings(ax: Axes, rows: pd.DataFrame, colours: dict[str, Any]) -> None:
    """Draw a mark a trial, an arm a line, the first above."""
    edge = float(rows["doubly"].max())
    for place, (arm, own) in enumerate(rows.groupby("arm", sort=False)):
        last = own.groupby("seed").last()
        at = last["crossed_at"] * last["doubly"] / last["step"]
        height = -place + np.linspace(-0.18, 0.18, len(at)) if len(at) > 1 else np.array([-float(place)])
        there = at.notna().to_numpy()
        ax.plot(at[there], height[there], "o", color=colours[str(arm)], markersize=3, linewidth=0)
        style: dict[str, Any] = {"markerfacecolor": "none", "linewidth": 0}
        ax.plot(
            [0.985 * edge] * int((~there).sum()), height[~there], ">", color=colours[str(arm)], markersize=4, **style
        )
    arms = list(colours)
    ax.set_yticks([-place for place in range(len(arms))], arms)
    ax.set(xlim=(0, edge), ylim=(-len(arms) + 0.4, 0.6))


def one_layer_losses(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw losses of networks of one layer and of two, and whether any of them has a transition.

    On the right, a mark a trial: the loss at the end over the unigram strategy's, and the largest share of the loss
    that is lost from one look to the next once the first 5% of the training are over. Networks right of one dotted line
    and below the other have had none.

    Args:
        table: a row a trial and measured step, as the experiment ``one-layer-fails`` makes it.
        axes: the two axes to draw on; a new figure by default.

    Returns:
        The axes, of shape (2,).

    Raises:
        ExperimentError: a column is missing, or there are other than two axes.

    Source: thesis, figure E.8.
    """
    _require(table, LAYERS, "networks of one layer")
    drawn = _panels(1, 2, 3.0) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != 2:
        raise ExperimentError(f"networks of one layer must have two axes: axes={len(drawn)}")
    left, right = drawn
    networks = [(str(name), rows) for name, rows in table.groupby("network", sort=False)]
    for (name, rows), colour, marker in zip(networks, ("black", *COLOURS[2:]), MARKERS, strict=False):
        _curves(left, rows, "loss", colour, name)
        last = rows.groupby("seed").last()
        right.plot(
            last["loss"] / last["line.unigram"], last["steepest"], marker, color=colour, markersize=4, label=name
        )
    for name in ("unigram", "bigram"):
        _level(left, _line(table, f"line.{name}"), STRATEGY_COLOURS[name], name)
    settled = table[table["sequences"] > 0.01 * table["sequences"].max()]["loss"]
    left.set_ylim(0, 1.15 * float(max(settled.max(), table["line.unigram"].max())))
    left.set_ylabel("KL(true ‖ network)", fontsize=MEDIUM)
    left.set_title("held-out loss", loc="left", fontsize=MEDIUM)
    _along(left, table)
    left.legend(fontsize=SMALL, frameon=False, loc="center right", bbox_to_anchor=(1, 0.58), labelspacing=0.3)
    right.axvline(0.5, color=GREY, linewidth=0.8, linestyle=":")
    right.axhline(0.2, color=GREY, linewidth=0.8, linestyle=":")
    right.set(xlim=(0, 1.1), ylim=(0, None))
    right.set_xlabel("loss at the end / unigram strategy's", fontsize=MEDIUM)
    right.set_ylabel("largest fall between looks", fontsize=MEDIUM)
    right.set_title("transitions", loc="left", fontsize=MEDIUM)
    right.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    quiet(right)
    return drawn


def _curves(
    ax: Axes, rows: pd.DataFrame, name: str, colour: Any, label: str | None, style: Any = "-", at: str = "sequences"
) -> None:
    """Draw one quantity of all trials, and its median."""
    runs = rows.pivot_table(index=at, columns="seed", values=name)
    if runs.shape[1] > 1:
        ax.plot(runs.index, runs, color=colour, linewidth=0.5, alpha=0.3, linestyle=style)
    ax.plot(runs.index, runs.median(axis=1), color=colour, linewidth=1.2, linestyle=style, label=label, zorder=3)


def _level(ax: Axes, loss: float, colour: Any, name: str, above: str = "center") -> None:
    """Draw a loss as a horizontal line with its name at its right end."""
    ax.axhline(loss, color=colour, linewidth=0.9, linestyle="--", zorder=1)
    ax.text(1.01, loss, name, color=colour, fontsize=SMALL, va=above, transform=ax.get_yaxis_transform())


def _line(rows: pd.DataFrame, name: str) -> float:
    """Return the median over trials of what is the same in all rows of a trial."""
    return float(rows.groupby("seed")[name].first().median())


def _legend_above(ax: Axes, room: float, ncols: int = 2) -> None:
    """Make room for a legend above what is drawn."""
    ax.set_ylim(top=room * ax.get_ylim()[1])
    style: dict[str, Any] = {"fontsize": SMALL - 0.5, "frameon": False, "labelspacing": 0.2}
    ax.legend(loc="upper left", ncols=ncols, columnspacing=0.8, handlelength=1.4, borderaxespad=0.1, **style)


def _along(ax: Axes, rows: pd.DataFrame) -> None:
    ax.set_xlim(0, rows["sequences"].max())
    _sequences(ax, "sequences seen")


def _sequences(ax: Axes, label: str) -> None:
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel(label, fontsize=MEDIUM)
    quiet(ax)


def _panels(rows: int, columns: int, height: float) -> np.ndarray:
    figure = Figure(figsize=(7.2, height * rows), layout="constrained")
    drawn: np.ndarray = figure.subplots(rows, columns, squeeze=False).ravel()
    return drawn


def _require(table: pd.DataFrame, names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in table:
            raise ExperimentError(f"{what} must have a column {name!r}: {', '.join(map(str, table))}")
