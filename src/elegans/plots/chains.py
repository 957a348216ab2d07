"""Networks that learn Markov chains in context: losses, distances to strategies, and how far back they look."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, MEDIUM, SMALL, quiet, short

STRATEGY_COLOURS = {
    "uniform": COLOURS[4],
    "unigram": COLOURS[0],
    "bigram": COLOURS[1],
    "trigram": COLOURS[2],
    "4-gram": COLOURS[3],
}
"""A strategy has one colour in all pictures."""


def chain_losses(
    table: pd.DataFrame, ax: Axes | None = None, *, strategies: Sequence[str] = ("unigram", "bigram")
) -> Axes:
    """Draw test losses against the sequences seen, and what strategies have as horizontal lines.

    Faint curves are trials, the strong one the median of those measured there. Where there are several series, each has
    a colour and a name in the legend; the lines are the medians over all trials.

    Args:
        table: a row a trial and measured step: ``sequences``, ``seed``, ``loss``, ``line.unigram``, …; ``series`` where
            there are several.
        ax: the axes to draw on; new ones by default.
        strategies: whose lines are drawn.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing.

    Source: thesis, figures 8.1 (left), 8.3 and E.3.
    """
    _require(table, ("sequences", "seed", "loss", *(f"line.{name}" for name in strategies)), "losses")
    ax = _axes() if ax is None else ax
    named = table if "series" in table else table.assign(series="")
    for place, (series, rows) in enumerate(named.groupby("series", sort=False)):
        colour = COLOURS[(0, 2, 3, 4, 5, 1)[place % 6]] if "series" in table else "black"
        runs = rows.pivot_table(index="sequences", columns="seed", values="loss")
        if runs.shape[1] > 1:
            ax.plot(runs.index, runs, color=colour, linewidth=0.6, alpha=0.3)
        ax.plot(runs.index, runs.median(axis=1), color=colour, linewidth=1.3, label=str(series), zorder=3)
    for name in strategies:
        loss = float(table.groupby("seed")[f"line.{name}"].first().median())
        ax.axhline(loss, color=STRATEGY_COLOURS[name], linewidth=0.9, linestyle="--", zorder=1)
        place: dict[str, Any] = {"x": 1.0, "y": loss, "transform": ax.get_yaxis_transform()}
        ax.text(**place, s=name, color=STRATEGY_COLOURS[name], fontsize=SMALL, ha="right", va="bottom")
    if "series" in table:
        ax.legend(fontsize=SMALL, frameon=False)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("KL(true ‖ network)", fontsize=MEDIUM)
    _by_sequences(ax, table)
    return ax


def chain_distances(table: pd.DataFrame, ax: Axes | None = None, *, legend: bool = True) -> Axes:
    """Draw how far one network is from each strategy, the background in the colour of the closest.

    The network is that with the smallest seed.

    Args:
        table: a row a trial and measured step: ``sequences``, ``seed``, ``distance.unigram``, …, ``phase``.
        ax: the axes to draw on; new ones by default.
        legend: whether strategies are named.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing, or there are no distances.

    Source: thesis, figure 8.1 (right).
    """
    _require(table, ("sequences", "seed", "phase"), "distances")
    names = [str(name).removeprefix("distance.") for name in table if str(name).startswith("distance.")]
    if not names:
        raise ExperimentError(f"distances must have columns 'distance.…': {', '.join(map(str, table))}")
    ax = _axes() if ax is None else ax
    run = table[table["seed"] == table["seed"].min()].sort_values("sequences")
    shade_phases(ax, run)
    for name in names:
        colour = STRATEGY_COLOURS[name]
        ax.plot(run["sequences"], run[f"distance.{name}"], color=colour, linewidth=1.3, label=name)
    if legend:
        ax.legend(fontsize=SMALL, frameon=False, title="distance to", title_fontsize=SMALL, alignment="left")
    ax.set_ylim(bottom=0)
    ax.set_ylabel("KL(strategy ‖ network)", fontsize=MEDIUM)
    _by_sequences(ax, table)
    return ax


def shade_phases(ax: Axes, run: pd.DataFrame) -> None:
    """Shade the background in the colour of the strategy that is closest, from one measured step to the next.

    Args:
        ax: the axes.
        run: one trial's rows in order: ``sequences`` and ``phase``.
    """
    times, phases = run["sequences"].to_numpy(float), run["phase"].to_numpy(object)
    starts = [0, *(np.flatnonzero(phases[1:] != phases[:-1]) + 1)]
    for first, after in zip(starts, [*starts[1:], len(times) - 1], strict=True):
        colour = STRATEGY_COLOURS.get(str(phases[first]), "white")
        ax.axvspan(times[first], times[after], color=colour, alpha=0.12, linewidth=0, zorder=0)


def _by_sequences(ax: Axes, table: pd.DataFrame) -> None:
    ax.set_xlim(0, table["sequences"].max())
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("sequences seen", fontsize=MEDIUM)
    quiet(ax)


def _axes() -> Axes:
    return Figure(figsize=(3.6, 2.6), layout="constrained").subplots()


def _require(table: pd.DataFrame, names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in table:
            raise ExperimentError(f"{what} must have a column {name!r}: {', '.join(map(str, table))}")
