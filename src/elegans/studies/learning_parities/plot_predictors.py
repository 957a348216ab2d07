"""Networks beside linear predictors: losses on both parts of a mixture while they learn, and where bounds lie."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, LARGE, MEDIUM, SMALL, quiet, short

NEEDED = ("panel", "n", "k", "arm", "seed", "step", "hinge", "hinge_d1", "hinge_d2", "error_d1")
HIGHEST = 1.3
"""Where axes of the hinge loss end; what lies beyond is drawn at the edge."""


def predictors(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw, for each panel and size: hinge loss on D1 and on D2 against steps, and at the end, with lower bounds.

    Lines are medians over trials. On the right, a dot is a trial's hinge loss on D_A at the last step and a small ring
    its best; a triangle is Theorem 2's lower bound at the predictor's own number and norm of features and a bar the
    sharper one (negative ones are not drawn); the number is the median error on D1.

    Args:
        table: a row a panel, arm, trial and measured step, as the experiment ``biased-parity`` makes it.
        axes: the axes to draw on, three a row; a new figure by default.

    Returns:
        The axes, of shape (rows, 3).

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than places for panels.
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"predictors must have a column {name!r}: {', '.join(map(str, table))}")
    rows = [part for _, part in table.groupby(["panel", "n", "k"], sort=False)]
    drawn = _figure(rows) if axes is None else np.asarray(axes, object).reshape(-1)
    if drawn.size != 3 * len(rows):
        raise ExperimentError(f"axes must be three a row: axes={drawn.size}, rows={len(rows)}")
    drawn = drawn.reshape(len(rows), 3)
    for places, part in zip(drawn, rows, strict=True):
        arms = list(part["arm"].unique())
        colours = dict(zip(arms, (*COLOURS, GREY, "black"), strict=False))
        for ax, column, where in zip(places, ("hinge_d1", "hinge_d2"), ("D1 (uniform)", "D2 (aligned)"), strict=False):
            _courses(ax, part, column, colours)
            ax.set_ylabel(f"hinge loss on {where}", fontsize=MEDIUM)
        _ends(places[2], part, colours)
        first = part.iloc[0]
        title = f"{first['panel']}, n = {first['n']}, k = {first['k']}"
        places[0].set_title(title, loc="left", fontsize=MEDIUM, fontweight="bold")
    for ax in drawn[-1, :2]:
        ax.set_xlabel("steps after the first", fontsize=MEDIUM)
    drawn[-1, 2].set_xlabel("hinge loss on what is trained on", fontsize=MEDIUM)
    return drawn


def _courses(ax: Axes, part: pd.DataFrame, column: str, colours: dict[str, Any]) -> None:
    for arm, rows in part.groupby("arm", sort=False):
        middle = rows.groupby("step")[column].median()
        ax.plot(middle.index, middle.clip(upper=HIGHEST), color=colours[str(arm)], linewidth=1.1)
    ax.set_ylim(-0.04, HIGHEST + 0.03)
    ax.set_xlim(left=0)
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    quiet(ax)


def _ends(ax: Axes, part: pd.DataFrame, colours: dict[str, Any]) -> None:
    """Draw one line of dots an arm, the first at the top, with its bounds and its error on D1."""
    arms = list(colours)
    for place, arm in enumerate(arms):
        trials = part[part["arm"] == arm].groupby("seed")
        last, best = trials.last(), trials["hinge"].min()
        style = {"color": colours[arm], "linestyle": "", "clip_on": False}
        level = np.full(len(last), len(arms) - 1 - place)
        ax.plot(best.clip(upper=HIGHEST), level, marker="o", markersize=6, fillstyle="none", alpha=0.6, **style)
        ax.plot(last["hinge"].clip(upper=HIGHEST), level, marker="o", markersize=3, **style)
        for name, marker, size in (("theorem2", ">", 4), ("fourier", "|", 11)):
            if name in last and (last[name] > 0).any():
                ax.plot(last[name].where(last[name] > 0), level, marker=marker, markersize=size, **style)
        error = f"{100 * last['error_d1'].median():.0f}%"
        ax.text(HIGHEST + 0.06, level[0], error, fontsize=SMALL, va="center", ha="left", color=GREY)
    ax.text(HIGHEST + 0.06, len(arms) - 0.4, "error on D1", fontsize=SMALL, color=GREY, ha="center", va="bottom")
    ax.set_yticks(range(len(arms)), arms[::-1])
    for tick, arm in zip(ax.get_yticklabels(), arms[::-1], strict=True):
        tick.set_color(colours[arm])
    ax.set_ylim(-0.6, len(arms) - 0.4)
    ax.set_xlim(-0.04, HIGHEST)
    ax.axvline(0.5, color=GREY, linewidth=0.6, linestyle=":")
    quiet(ax)


def _figure(rows: list[pd.DataFrame]) -> np.ndarray:
    figure = Figure(figsize=(8.4, 2.1 * len(rows) + 0.8), layout="constrained")
    figure.suptitle("Biased parities: networks and linear predictors", fontsize=LARGE, fontweight="bold")
    counts = pd.concat([part.groupby("arm")["seed"].nunique() for part in rows])
    note = (
        f"{counts.min()} trial{'s' if counts.min() > 1 else ''} each. Dots: the last step; rings: the best. "
        "Lower bounds at each predictor's own N and B: triangle, Theorem 2; bar, the sharper one."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(len(rows), 3, squeeze=False, width_ratios=(1, 1, 1))
    return drawn
