"""What a head that selects looks at: single weights by position, and how it comes to them beside the construction."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from elegans.errors import ExperimentError
from elegans.plots.attention import attention_by_position
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, quiet

COURSE = (
    "part",
    "arm",
    "seed",
    "step",
    "support",
    "class_token",
    "others",
    "distance",
    "construction_distance",
    "uniform",
)
WEIGHTS = ("example", "place", "weight", "relevant")
PLACES = {
    "on_zeros": "support,\nbit 0",
    "on_ones": "support,\nbit 1",
    "mean_other_negative": "others,\nlabel $-$",
    "mean_other_positive": "others,\nlabel $+$",
    "class_token": "class\ntoken",
}
MARKERS = ("o", "s", "^")


def attention_pattern(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw single weights by position of up to three networks, then masses, distance and weights by bit.

    Above: the first arm, the second, and the construction. Below: where the first arm's attention goes as it is
    trained; how far each arm's is from the construction, a line a trial; and what a place gets at the end by what it
    is, a dot a trial, with a bar for the construction.

    Args:
        table: as the experiment ``attention-pattern`` makes it.
        axes: the six axes to draw on, in reading order; a new figure by default.

    Returns:
        The axes, of shape (6,).

    Raises:
        ExperimentError: a column is missing, or there are other than six axes.

    Source: thesis, figure 4.3 (right).
    """
    missing = [name for name in (*COURSE, *PLACES, *WEIGHTS) if name not in table]
    if missing:
        raise ExperimentError(f"a picture of attention needs the columns {missing}")
    if axes is None:
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        axes = figure.subplots(2, 3)
    drawn = np.asarray(axes, object).ravel()
    if len(drawn) != 6:
        raise ExperimentError(f"a picture of attention must have six axes: axes={len(drawn)}")
    weights, course = table[table["part"] == "weight"], table[table["part"] == "course"]
    names = [*weights["arm"].unique()]
    shown = [*names[:2], *(name for name in names if name == "construction")]
    for ax, name in zip(drawn, shown, strict=False):
        _by_position(ax, weights[weights["arm"] == name], name, labelled=ax is drawn[0], legend=name == shown[-1])
    for ax in drawn[len(shown) : 3]:
        ax.set_axis_off()
    arms = list(course["arm"].unique())
    _masses(drawn[3], course[course["arm"] == arms[0]])
    _distances(drawn[4], course, arms)
    _by_bit(drawn[5], course, arms)
    return drawn


def _by_position(ax: Axes, rows: pd.DataFrame, name: str, *, labelled: bool, legend: bool) -> None:
    places = int(rows["place"].max()) + 1
    weights = rows.sort_values(["example", "place"])["weight"].to_numpy(float).reshape(-1, 1, places)
    support = np.sort(rows.loc[rows["relevant"] == 1, "place"].unique()).astype(int)
    attention_by_position(weights, support=support, axes=[ax])
    drawn = ax.get_legend()
    assert drawn is not None
    if legend:  # in the panel that has the most room for it
        drawn.set_loc("upper center")
    else:
        drawn.remove()
    if not labelled:
        ax.set_ylabel("")
    ax.set_ylim(0, 1.02)
    ax.set_title(name, loc="left", fontsize=MEDIUM)


def _masses(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw the mass on the support, on the class token and on the rest: a median and the range over trials."""
    places = {"support": COLOURS[1], "class_token": GREY, "others": COLOURS[0]}
    for name, colour in places.items():
        by_step = rows.groupby("step")[name]
        ax.fill_between(by_step.min().index, by_step.min(), by_step.max(), color=colour, alpha=0.2, linewidth=0)
        label = {"support": "support", "class_token": "class token", "others": "all others"}[name]
        ax.plot(by_step.median(), color=colour, linewidth=1.2, label=label)
    ax.set(ylim=(0, 1.2), xlim=(0, rows["step"].max()), yticks=np.linspace(0, 1, 6))
    ax.set_xlabel("steps", fontsize=MEDIUM)
    ax.set_ylabel("mass of attention", fontsize=MEDIUM)
    ax.set_title(str(rows["arm"].iloc[0]), loc="left", fontsize=MEDIUM)
    ax.legend(
        fontsize=SMALL, frameon=False, ncols=3, loc="upper left", handlelength=0.8, columnspacing=0.8, handletextpad=0.4
    )
    quiet(ax)


def _distances(ax: Axes, course: pd.DataFrame, arms: list[str]) -> None:
    for arm, colour in zip(arms, COLOURS[2:], strict=False):
        for number, (_, run) in enumerate(course[course["arm"] == arm].groupby("seed")):
            ax.plot(run["step"], run["distance"], color=colour, linewidth=0.7, alpha=0.7, label=None if number else arm)
    ax.axhline(course["construction_distance"].min(), color="black", linewidth=0.8, linestyle=":", label="construction")
    ax.set(ylim=(0, 2.8), xlim=(0, course["step"].max()), yticks=np.linspace(0, 2, 5))
    ax.set_xlabel("steps", fontsize=MEDIUM)
    ax.set_ylabel(r"$\ell_1$ distance of weights", fontsize=MEDIUM)
    ax.set_title("from equal weights on the support", loc="left", fontsize=MEDIUM)
    ax.legend(fontsize=SMALL, frameon=False, loc="upper right", handlelength=1, labelspacing=0.2)
    quiet(ax)


def _by_bit(ax: Axes, course: pd.DataFrame, arms: list[str]) -> None:
    last = course.sort_values("step").groupby(["arm", "seed"], sort=False).last()
    for number, (arm, colour) in enumerate(zip(arms, COLOURS[2:], strict=False)):
        own = last.loc[arm]
        for place, name in enumerate(PLACES):
            beside = place + 0.22 * (number - 1) + 0.012 * (np.arange(len(own)) - (len(own) - 1) / 2)
            style: dict[str, Any] = {"s": 8, "color": colour, "alpha": 0.8, "linewidth": 0}
            ax.scatter(beside, own[name], marker=MARKERS[number % 3], **style)
    for place, name in enumerate(PLACES):
        made = last[f"construction_{name.removesuffix('_negative').removesuffix('_positive')}"].median()
        ax.hlines(made, place - 0.35, place + 0.35, color="black", linewidth=0.8)
    uniform = float(last["uniform"].iloc[0])
    ax.axhline(uniform, color=GREY, linewidth=0.7, linestyle=":")
    ax.text(-0.45, uniform * 1.12, "uniform", fontsize=SMALL, color=GREY, va="bottom")
    ax.set_yscale("log")
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set(xlim=(-0.5, len(PLACES) - 0.5))
    ax.set_xticks(range(len(PLACES)), list(PLACES.values()), fontsize=SMALL)
    ax.set_ylabel("mean weight of one place", fontsize=MEDIUM)
    ax.set_title("at the end", loc="left", fontsize=MEDIUM)
    quiet(ax)
