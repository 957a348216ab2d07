"""Networks that learn Markov chains in context: losses, distances to strategies, and how far back they look."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, quiet, shades, short

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
    for number, (series, rows) in enumerate(named.groupby("series", sort=False)):
        colour = COLOURS[(0, 2, 3, 4, 5, 1)[number % 6]] if "series" in table else "black"
        runs = rows.pivot_table(index="sequences", columns="seed", values="loss")
        if runs.shape[1] > 1:
            ax.plot(runs.index, runs, color=colour, linewidth=0.6, alpha=0.3)
        ax.plot(runs.index, runs.median(axis=1), color=colour, linewidth=1.3, label=str(series), zorder=3)
    for name in strategies:
        loss = float(table.groupby("seed")[f"line.{name}"].first().median())
        ax.axhline(loss, color=STRATEGY_COLOURS[name], linewidth=0.9, linestyle="--", zorder=1)
        place: dict[str, Any] = {"x": 1.01, "y": loss, "transform": ax.get_yaxis_transform()}
        ax.text(**place, s=name, color=STRATEGY_COLOURS[name], fontsize=SMALL, va="center")
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
        style: dict[str, Any] = {"fontsize": SMALL, "title_fontsize": SMALL, "edgecolor": "none", "framealpha": 0.7}
        ax.legend(title="distance to", alignment="left", loc="center right", bbox_to_anchor=(1, 0.57), **style)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("KL(strategy ‖ network)", fontsize=MEDIUM)
    _by_sequences(ax, table)
    return ax


def chain_encodings(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw at how many tokens back the first layer looks, whatever the tokens, a curve a moment; symbols are averaged.

    Args:
        table: a row a moment, symbol and distance: ``moment``, ``sequences``, ``distance`` and ``encoding``.
        ax: the axes to draw on; new ones by default.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing.

    Source: thesis, figures 8.3 (middle) and E.7.
    """
    _require(table, ("moment", "sequences", "distance", "encoding"), "encodings")
    ax = _axes() if ax is None else ax
    moments = table.groupby(["moment", "sequences"], sort=False)
    for ((moment, _), rows), colour in zip(moments, shades(len(moments)), strict=True):
        seen = float(rows["sequences"].iloc[0])
        encoding = rows.groupby("distance")["encoding"].mean()
        label = f"{moment}, {short(round(seen, -2))}" if seen else str(moment)
        ax.plot(encoding.index, encoding, "o-", color=colour, linewidth=1, markersize=2.5, label=label)
    ax.set_yscale("log")
    ax.set_xticks(range(0, int(table["distance"].max()) + 1, 2))
    ax.set_xlabel("tokens back", fontsize=MEDIUM)
    ax.set_ylabel("effective encoding", fontsize=MEDIUM)
    ax.legend(fontsize=SMALL - 0.5, frameon=False)
    quiet(ax)
    return ax


def induction_phases(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw, a row a series: losses of all trials; distances to strategies and positional encodings of a typical one.

    Args:
        table: rows of the parts ``course`` and ``encoding``, as the experiment ``induction-phases`` makes them.
        axes: the axes to draw on, three a series; a new figure by default.

    Returns:
        The axes, of shape (series, 3).

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than places.

    Source: thesis, figures 8.1, 8.3 (above), E.3 and E.7.
    """
    _require(table, ("part", "series", "typical"), "phases")
    series = [(str(name), rows.drop(columns="series")) for name, rows in table.groupby("series", sort=False)]
    drawn = _panels(len(series), 3) if axes is None else np.asarray(axes, object)
    if drawn.size != 3 * len(series):
        raise ExperimentError(f"axes must be three a series: axes={drawn.size}, series={len(series)}")
    drawn = drawn.reshape(len(series), 3)
    for row, (name, rows) in zip(drawn, series, strict=True):
        courses = rows[rows["part"] == "course"]
        trials = courses["seed"].nunique()
        chain_losses(courses, row[0])
        chosen = courses[courses["typical"].astype(bool)]
        chain_distances(chosen, row[1], legend=row[1] is drawn[0, 1])
        chain_encodings(rows[rows["part"] == "encoding"], row[2])
        _title(row[0], f"{name}: {trials} trials, median" if trials > 1 else f"{name}: one trial")
        _title(row[1], f"seed {chosen['seed'].iloc[0]}; shade: closest")
        _title(row[2], f"seed {chosen['seed'].iloc[0]}; attention by distance")
    return drawn


def encoding_bars(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the effective positional encoding at one moment, a bar a distance and symbol that asks.

    Args:
        table: a row a symbol and distance: ``symbol``, ``distance`` and ``encoding``.
        ax: the axes to draw on; new ones by default.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing.

    Source: thesis, figure E.7.
    """
    _require(table, ("symbol", "distance", "encoding"), "encodings")
    ax = _axes() if ax is None else ax
    symbols = list(table.groupby("symbol"))
    width = 0.8 / len(symbols)
    for number, (symbol, rows) in enumerate(symbols):
        at = rows["distance"] + (number - (len(symbols) - 1) / 2) * width
        ax.bar(at, rows["encoding"], width=width, color=COLOURS[number % len(COLOURS)], label=f"symbol {symbol}")
    ax.set_xticks(range(0, int(table["distance"].max()) + 1, 2))
    ax.set_xlabel("tokens back", fontsize=MEDIUM)
    quiet(ax)
    return ax


def profile_map(table: pd.DataFrame, ax: Axes | None = None, *, strongest: float | None = None) -> Axes:
    """Draw a positional profile over time: a row a distance, a column a look, red where it is favoured.

    Args:
        table: a row a look and distance: ``sequences``, ``distance`` and ``profile``.
        ax: the axes to draw on; new ones by default.
        strongest: at which size of a profile the colours end; the largest by default.

    Returns:
        The axes, with the image on them.

    Raises:
        ExperimentError: a column is missing.

    Source: thesis, figures 8.3 (middle) and 8.4b, over all of training.
    """
    _require(table, ("sequences", "distance", "profile"), "profiles")
    ax = _axes() if ax is None else ax
    grid = table.pivot(index="distance", columns="sequences", values="profile")
    limit = float(np.nanmax(np.abs(grid.to_numpy(float)))) if strongest is None else strongest
    values = grid.to_numpy(float)
    ax.pcolormesh(grid.columns, grid.index, values, cmap="RdBu_r", vmin=-limit, vmax=limit, shading="nearest")
    ax.set_yticks(range(0, int(grid.index.max()) + 1, 2))
    ax.set_ylabel("tokens back", fontsize=MEDIUM)
    _by_sequences(ax, table)
    return ax


def positional_profiles(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw, a row a series, a typical trial's encoding at four moments; then profiles over time, and biases of trials.

    Below, on the left: how much the first layer favours odd numbers of tokens back, of all trials, over the time
    relative to the transition; then a map of the profile of each series, whose colours end at 0.5.

    Args:
        table: rows of the parts ``course``, ``encoding`` and ``profile``, as the experiment ``positional-profile``
            makes them.
        axes: the axes to draw on, four a series and one, and one a series; a new figure by default.

    Returns:
        The axes, in reading order.

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than places.

    Source: thesis, figures 8.3 (middle) and E.7.
    """
    _require(table, ("part", "series", "cell", "seed"), "positional profiles")
    series = [(str(name), rows) for name, rows in table.groupby("series", sort=False)]
    places = 5 * len(series) + 1
    drawn = _profile_panels(len(series)) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != places:
        raise ExperimentError(f"axes must be five a series and one: axes={len(drawn)}, series={len(series)}")
    for row, (name, rows) in zip(drawn[: 4 * len(series)].reshape(-1, 4), series, strict=True):
        moments = rows[rows["part"] == "encoding"].groupby(["moment", "sequences"], sort=False)
        for ax, ((moment, _), own) in zip(row, moments, strict=True):
            seen = float(own["sequences"].iloc[0])
            encoding_bars(own.astype({"symbol": int}), ax)
            _title(ax, f"{moment}, {short(round(seen, -2))}" if seen else f"{name}: {moment}")
        row[0].set_ylabel("effective encoding", fontsize=MEDIUM)
        row[0].legend(fontsize=SMALL, frameon=False, loc="upper center", ncols=2, columnspacing=0.8, handlelength=1)
        row[0].set_ylim(top=1.6 * row[0].get_ylim()[1])
    _biases(drawn[4 * len(series)], table[table["part"] == "course"])
    for ax, (name, rows) in zip(drawn[4 * len(series) + 1 :], series, strict=True):
        moved = rows["transition"].where(rows["typical"].eq(True)).max() if "transition" in rows else np.nan
        profile_map(rows[rows["part"] == "profile"], ax, strongest=0.5)
        _until_after(ax, rows[rows["typical"].eq(True)], moved)
        _title(ax, name)
    last = drawn[-1]
    bar = last.figure.colorbar(last.collections[0], ax=last, extend="both", ticks=[-0.5, 0, 0.5], pad=0.02)
    bar.set_label("logit less its mean", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    return drawn


def _until_after(ax: Axes, run: pd.DataFrame, moved: float) -> None:
    """Mark where a run has its transition, given in steps, on an axis of sequences, and end the axis soon after."""
    there = run[run["step"] == moved]
    if len(there):
        at = float(there["sequences"].iloc[0])
        ax.axvline(at, color="black", linewidth=0.8, linestyle=":")
        ax.set_xlim(0, min(1.25 * at, run["sequences"].max()))


def _biases(ax: Axes, courses: pd.DataFrame) -> None:
    """Draw the parity bias of all trials over the time relative to their transitions, a colour a cell."""
    for number, (cell, rows) in enumerate(courses.groupby("cell", sort=False)):
        colour = COLOURS[number % len(COLOURS)]
        for _, run in rows.groupby("seed"):
            ax.plot(run["step"] / run["transition"], run["parity_bias"], color=colour, linewidth=0.7, alpha=0.7)
        ax.plot([], [], color=colour, label=str(cell))
    ax.axhline(0, color=GREY, linewidth=0.6)
    ax.axvline(1, color="black", linewidth=0.8, linestyle=":")
    ax.set_xlim(0, 1.25)
    ax.set_ylim(-1, 1)
    ax.set_xlabel("steps / transition", fontsize=MEDIUM)
    ax.set_ylabel("parity bias", fontsize=MEDIUM)
    ax.legend(fontsize=SMALL, frameon=False, loc="upper left")
    _title(ax, "all trials")
    quiet(ax)


def _profile_panels(series: int) -> np.ndarray:
    figure = Figure(figsize=(7.2, 1.6 * series + 2.2), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.6 * series, 2.2])
    upper, lower = parts[0].subplots(series, 4, squeeze=False), parts[1].subplots(1, series + 1, squeeze=False)
    return np.array([*upper.ravel(), *lower.ravel()], object)


def chain_laws(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw losses on several laws of chains over that of uniform guesses there, a panel a cell, a colour a law.

    Faint curves are trials, strong ones medians; dashed lines are unigrams', dotted ones bigrams'; the grey line is the
    median transition on the trained law.

    Args:
        table: as the experiment ``out-of-distribution`` makes it.
        axes: the axes to draw on, one a cell; a new figure by default.

    Returns:
        The axes, one a cell.

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than cells.

    Source: thesis, figure E.6.
    """
    _require(table, ("cell", "law", "sequences", "seed", "loss", "step", "transition", "line.uniform"), "laws")
    cells = [(str(cell), rows) for cell, rows in table.groupby("cell", sort=False)]
    drawn = _panels((len(cells) + 1) // 2, 2, 2.3).ravel() if axes is None else np.asarray(axes, object).ravel()
    if axes is None and len(drawn) > len(cells):
        drawn[-1].remove()
        drawn = drawn[:-1]
    if len(drawn) != len(cells):
        raise ExperimentError(f"axes must be one a cell: axes={len(drawn)}, cells={len(cells)}")
    for ax, (cell, rows) in zip(drawn, cells, strict=True):
        for number, (law, own) in enumerate(rows.groupby("law", sort=False)):
            colour = COLOURS[(0, 2, 1)[number % 3]]
            runs = own.assign(share=own["loss"] / own["line.uniform"]).pivot(
                index="sequences", columns="seed", values="share"
            )
            ax.plot(runs.index, runs, color=colour, linewidth=0.5, alpha=0.3)
            ax.plot(runs.index, runs.median(axis=1), color=colour, linewidth=1.3, label=str(law))
            for name, style in (("unigram", "--"), ("bigram", ":")):
                level = (own[f"line.{name}"] / own["line.uniform"]).median()
                ax.axhline(level, color=colour, linewidth=0.7, linestyle=style, alpha=0.8)
        moved = rows["transition"].median() * rows["sequences"].max() / rows["step"].max()
        if np.isfinite(moved):
            ax.axvline(moved, color=GREY, linewidth=0.7)
        ax.set_ylim(0, 1.3)
        ax.set_ylabel("KL / uniform guesses'", fontsize=MEDIUM)
        _by_sequences(ax, rows)
        _title(ax, f"{cell}: {rows['seed'].nunique()} trials")
    drawn[0].legend(fontsize=SMALL, frameon=False, loc="center right", bbox_to_anchor=(1, 0.56))
    return drawn


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


def _panels(rows: int, columns: int, height: float = 2.1) -> np.ndarray:
    figure = Figure(figsize=(7.2, height * rows), layout="constrained")
    drawn: np.ndarray = figure.subplots(rows, columns, squeeze=False)
    return drawn


def _title(ax: Axes, title: str) -> None:
    ax.set_title(title, loc="left", fontsize=MEDIUM)


def _axes() -> Axes:
    return Figure(figsize=(3.6, 2.6), layout="constrained").subplots()


def _require(table: pd.DataFrame, names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in table:
            raise ExperimentError(f"{what} must have a column {name!r}: {', '.join(map(str, table))}")
