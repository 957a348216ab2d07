"""How models learn the parity of strips of digits."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from elegans import random
from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, LARGE, MEDIUM, SMALL, quiet
from elegans.tasks import DigitParity
from elegans.tasks.images import strip

NEEDED = ("images", "k", "model", "seed", "epoch", "train_accuracy", "test_accuracy")
SHOWN = 2
"""Strips that are shown of each length."""


def digit_curves(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw the accuracies of every model against epochs, a panel for each k, above two held-out strips with labels.

    Solid lines are held-out accuracies, dotted ones those on the first strips trained on; medians over trials.

    Args:
        table: a row a trial and epoch, as the experiment ``digit-parity`` makes it.
        axes: the axes to draw on: two for each k, its curves' and its strips'; a new figure by default.

    Returns:
        The axes, of shape (2, number of k).

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than two for each k.
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"digit curves must have a column {name!r}: {', '.join(map(str, table))}")
    lengths = sorted(table["k"].unique())
    drawn = _figure(table, len(lengths)) if axes is None else np.asarray(axes, object).reshape(-1)
    if drawn.size != 2 * len(lengths):
        raise ExperimentError(f"axes must be two for each k: axes={drawn.size}, k={lengths}")
    drawn = drawn.reshape(2, len(lengths))
    for (above, below), k in zip(drawn.T, lengths, strict=True):
        _curves(above, table[table["k"] == k])
        above.set_title("one digit" if k == 1 else f"sum of {k} digits", loc="left", fontsize=MEDIUM)
        _strips(below, DigitParity(k=int(k), images=str(table["images"].iloc[0])))
    drawn[0, 0].set_ylabel("accuracy", fontsize=MEDIUM)
    drawn[0, 0].legend(fontsize=SMALL, frameon=False, loc="lower right")
    return drawn


def _curves(ax: Axes, part: pd.DataFrame) -> None:
    for (model, rows), colour in zip(part.groupby("model", sort=False), COLOURS, strict=False):
        seen = rows[rows["epoch"] > 0]
        middle = seen.groupby("epoch")[["train_accuracy", "test_accuracy"]].median()
        ax.plot(middle.index, middle["test_accuracy"], color=colour, linewidth=1.2, label=str(model))
        ax.plot(middle.index, middle["train_accuracy"], color=colour, linewidth=0.9, linestyle=":")
    ax.axhline(0.5, color=GREY, linewidth=0.6, linestyle=":")
    ax.set_ylim(0.45, 1.02)
    ax.set_xlim(left=0)
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("epochs", fontsize=MEDIUM)
    quiet(ax)


def _strips(ax: Axes, task: DigitParity) -> None:
    """Show held-out strips of a task side by side, each with its label."""
    x, y = task.examples(task.held_out(None), random.stream(0, "test"), np.arange(SHOWN, dtype=np.uint32))
    pictures = [strip(row, task.data.shape) for row in x]
    height, width = pictures[0].shape
    gap = height // 2
    for place, (picture, label) in enumerate(zip(pictures, y, strict=True)):
        left = place * (width + gap)
        ax.imshow(1 - picture, cmap="gray", extent=(left, left + width, height, 0), vmin=0, vmax=1)
        ax.text(left + width / 2, 1.15 * height, "even" if label > 0 else "odd", fontsize=SMALL, ha="center", va="top")
    ax.set_xlim(0, SHOWN * (width + gap) - gap)
    ax.set_ylim(1.6 * height, 0)
    ax.set_axis_off()


def _figure(table: pd.DataFrame, panels: int) -> np.ndarray:
    figure = Figure(figsize=(3.6 * panels, 3.6), layout="constrained")
    figure.suptitle("Parity of a strip of digits", fontsize=LARGE, fontweight="bold")
    trials = table.groupby(["k", "model"])["seed"].nunique().min()
    images = {"digits": "scikit-learn's digits", "mnist": "MNIST"}.get(table["images"].iloc[0], table["images"].iloc[0])
    count = f"{trials} trial{'s' if trials > 1 else ''} a line"
    note = f"{images}; {count}. Solid: held-out strips; dotted: the first 10000 trained on."
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(2, panels, squeeze=False, height_ratios=(4, 1))
    return drawn
