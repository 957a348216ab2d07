"""Plots that several experiments on Markov chains share: losses, distances to strategies, curves of all trials."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.plots.marks import estimates
from elegans.plots.style import (
    GRAMS,
    GREY,
    SMALL,
    figure_legend,
    panel_legend,
    panels,
    short,
    title_figure,
    title_panels,
)
from elegans.studies.induction_heads.tables import strategies_of

ROWS = 3
"""The largest number of series in a figure."""
CHAINS = "Markov chains on k symbols; two-layer attention-only transformers"
"""The task and networks of most figures."""
TRIALS = "faint: trials, strong: their median"
HEADROOM = 1.12
"""How far an axis of losses extends above the largest loss."""


def along(ax: Axes, end: float, label: str = "sequences seen") -> None:
    """Set up an axis of sequences, from 0 to an end."""
    ax.set_xlim(0, end)
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel(label)


def curves_of_trials(
    ax: Axes,
    rows: pd.DataFrame,
    name: str,
    colour: Any,
    label: str | None = None,
    style: Any = "-",
    at: str = "sequences",
) -> None:
    """Draw one quantity of all trials of a cell as faint curves, and their median as a strong one.

    Trials may have been measured at different times, so the median is taken over their interpolated curves.
    """
    runs = rows.pivot_table(index=at, columns="seed", values=name)
    if runs.shape[1] > 1:
        for _, run in runs.items():
            ax.plot(run.dropna(), color=colour, linewidth=0.5, alpha=0.3, linestyle=style)
    runs = runs.interpolate(method="index", limit_direction="both")
    ax.plot(runs.index, runs.median(axis=1), color=colour, linewidth=1.2, linestyle=style, label=label, zorder=3)


def level(ax: Axes, loss: float, colour: Any, name: str, *, style: str = "--", above: str = "center") -> None:
    """Draw a loss as a horizontal line with its name at its right end."""
    ax.axhline(loss, color=colour, linewidth=0.9, linestyle=style, zorder=1)
    ax.text(1.01, loss, name, color=colour, fontsize=SMALL, va=above, transform=ax.get_yaxis_transform())


def strategy_levels(ax: Axes, rows: pd.DataFrame, strategies: Sequence[str] = ("unigram", "bigram")) -> None:
    """Draw the median losses of strategies as horizontal lines."""
    for name in strategies:
        level(ax, per_trial(rows, f"line.{name}"), GRAMS[name], name)


def per_trial(rows: pd.DataFrame, name: str) -> float:
    """Return the median over trials of a quantity that is the same in all rows of a trial."""
    return float(rows.groupby("seed")[name].first().median())


def chain_losses(ax: Axes, rows: pd.DataFrame, strategies: Sequence[str] = ("unigram", "bigram")) -> None:
    """Draw the test losses of all trials of a cell against the sequences seen, and the strategies' as horizontal lines.

    Source: thesis, figures 8.1 (left), 8.3 and E.3.
    """
    curves_of_trials(ax, rows, "loss", "black")
    loss_axis(ax, rows, strategies)


def loss_axis(ax: Axes, rows: pd.DataFrame, strategies: Sequence[str] = ("unigram", "bigram")) -> None:
    """Set up the axes of losses of a cell's trials, with the strategies' as horizontal lines."""
    strategy_levels(ax, rows, strategies)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("loss (KL, nats)")
    along(ax, rows["sequences"].max())


def chain_distances(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw the distance of the smallest seed's trial from each strategy; the background has the colour of the closest.

    Source: thesis, figure 8.1 (right).
    """
    run = rows[rows["seed"] == rows["seed"].min()].sort_values("sequences")
    times, phases = run["sequences"].to_numpy(float), run["phase"].to_numpy(object)
    starts = [0, *(np.flatnonzero(phases[1:] != phases[:-1]) + 1)]
    for first, after in zip(starts, [*starts[1:], len(times) - 1], strict=True):
        colour = GRAMS.get(str(phases[first]), "white")
        ax.axvspan(times[first], times[after], color=colour, alpha=0.12, linewidth=0, zorder=0)
    for name in strategies_of(rows):
        ax.plot(times, run[f"distance.{name}"], color=GRAMS[name], linewidth=1.3, label=f"distance to {name}")
    ax.set_ylim(bottom=0)
    ax.set_ylabel("distance (KL, nats)")
    along(ax, run["sequences"].max())


def chain_stages(rows: pd.DataFrame, finding: str, task: str) -> Figure:
    """Draw, one row per series, the losses of all trials with the strategies' lines, and the typical trial's distances.

    The first three series are drawn. Where there is a column ``linear``, a dotted line is the loss of the best multiple
    of the construction's frequencies as logits. Source: thesis, figures 8.5 and E.4.

    Args:
        rows: the table ``curves``.
        finding: the figure's title.
        task: what was trained on what, for the line below.
    """
    series = list(rows.groupby("series", sort=False))[:ROWS]
    figure, drawn = panels(len(series), 2)
    titles = []
    for (left, right), (name, own) in zip(drawn, series, strict=True):
        chain_losses(left, own, [line for line in GRAMS if line != "uniform" and f"line.{line}" in own])
        left.set_ylim(0, HEADROOM * float(own["loss"].max()))
        if "linear" in own:
            level(left, per_trial(own, "linear"), GREY, "linear logits", style=":")
        chosen = own[own["typical"]]
        chain_distances(right, chosen)
        titles += [f"{name}: {trials_of(own)}", f"Distances of one of them, seed {chosen['seed'].iloc[0]}"]
    title_panels(drawn, titles)
    title_figure(figure, finding, f"{task}; {TRIALS}; shade: the closest strategy")
    figure_legend(figure, *drawn[:, 1], columns=4)
    return figure


def by_cell(curves: pd.DataFrame) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Return the first two cells of a table: name, rows, and rows of the typical trial of the largest series."""
    cells = []
    for cell, rows in list(curves.groupby("cell", sort=False))[:2]:
        largest = rows.groupby("series", sort=False)["seed"].nunique().idxmax()
        cells.append((str(cell), rows, rows[rows["typical"] & (rows["series"] == largest)]))
    return cells


def trials_of(rows: pd.DataFrame) -> str:
    """Return how many trials are shown, in words."""
    count = rows["seed"].nunique()
    return "one trial" if count == 1 else f"{count} trials, median"


def points(ax: Axes, at: Any, rows: pd.DataFrame, colour: str) -> None:
    """Draw measured values with their intervals."""
    estimates(ax, at, rows["measured"], rows["low"], rows["high"], colour, markersize=2.2, linewidth=0.8, zorder=3)


def finish(ax: Axes, across: str, up: str, columns: int = 2) -> None:
    """Give a small panel its axis labels and legend."""
    ax.set(xlabel=across, ylabel=up)
    panel_legend(ax, columns, columnspacing=1)
