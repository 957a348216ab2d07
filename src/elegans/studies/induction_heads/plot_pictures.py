"""One network's attention at five times of its training, and what all of them come to."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.attention import attention_lines, attention_map
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, quiet, short
from elegans.studies.induction_heads.animations import AttentionCourse, course_of
from elegans.studies.induction_heads.plots import STRATEGY_COLOURS

NEEDED = ("cell", "series", "typical", "seed", "step", "loss", "transition", "previous", "induction", "ungrafted")
MASSES = {"previous": ("layer 1: token before", COLOURS[0]), "induction": ("layer 2: what followed", COLOURS[1])}
GRAFTS = {
    "ungrafted": ("the network itself", "black", "-"),
    "layer1_alone": ("layer 1 of then, rest of the end", COLOURS[0], "-"),
    "layer2_alone": ("layer 2 of then, rest of the end", COLOURS[1], "-"),
    "layer1_with_ends": ("layer 2 of the end, rest of then", COLOURS[0], ":"),
    "layer2_with_ends": ("layer 1 of the end, rest of then", COLOURS[1], ":"),
}
SHARES = {"plateau": 0.5, "before": 0.85, "after": 1.25}
"""At which share of the time to the transition pictures between start and end are taken."""


def attention_pictures(table: pd.DataFrame) -> np.ndarray:
    """Draw what the first series' typical network attends to at five times, then the courses of each series.

    Rows of pictures: lines (in layer 2 those of the last query), weights of both layers, logits of both. Under them is
    a row of three panels a series: losses, masses and grafts; the typical trial is strong there, others are faint.

    Args:
        table: a row a trial and measured step, as the experiment ``attention-pictures`` makes it.

    Returns:
        The axes: first the 25 pictures in reading order, then three a series.

    Raises:
        ExperimentError: a column is missing.

    Source: thesis, figures 8.2 and E.5.
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"pictures of attention must have a column {name!r}: {', '.join(map(str, table))}")
    series = [rows for _, rows in table.groupby("series", sort=False)]
    heights = [5.6, 0.8 + 1.75 * len(series)]
    figure = Figure(figsize=(7.4, sum(heights)), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=heights)
    pictures = parts[0].subplots(5, 5, height_ratios=[1.25, 1, 1, 1, 1])
    first = series[0][series[0]["typical"]].sort_values("step")
    _pictures(pictures, course_of(first), shown_steps(first))
    panels = parts[1].subplots(len(series), 3, squeeze=False)
    for place, rows in enumerate(series):
        _courses(panels[place], rows, legend=place == 0)
    for ax in panels[-1]:
        ax.set_xlabel("steps", fontsize=MEDIUM)
    named = panels[0, 2].get_legend_handles_labels()
    parts[1].legend(*named, loc="outside lower center", ncols=3, fontsize=SMALL, frameon=False)
    return np.array([*pictures.ravel(), *panels.ravel()], object)


def shown_steps(run: pd.DataFrame) -> dict[str, int]:
    """Return the measured steps at which pictures are taken, by name: start, plateau, before, after, end.

    Those between are nearest to 0.5, 0.85 and 1.25 of the transition's, or of the last step where there is none.

    Args:
        run: one trial's rows in order: ``step`` and ``transition``.
    """
    steps, moved = run["step"].to_numpy(int), float(run["transition"].iloc[0])
    until = moved if np.isfinite(moved) else float(steps[-1])
    between = {name: int(steps[np.abs(steps - share * until).argmin()]) for name, share in SHARES.items()}
    return {"start": int(steps[0]), **between, "end": int(steps[-1])}


def _pictures(axes: np.ndarray, course: AttentionCourse, shown: dict[str, int]) -> None:
    looks = [int(np.flatnonzero(course.steps == step)[0]) for step in shown.values()]
    largest = [max(float(np.abs(np.tril(layer[look, 0])).max()) for look in looks) for layer in course.logits]
    for column, (name, look) in enumerate(zip(shown, looks, strict=True)):
        weights = course.weights(look)
        attention_lines(course.tokens, weights, axes[0, column], queries=[None, (len(course.tokens) - 1,)])
        for word in axes[0, column].texts:
            word.set_fontsize(SMALL - 2)
        axes[0, column].set_title(f"{name}: step {course.steps[look]}", fontsize=MEDIUM)
        for layer in range(2):
            attention_map(weights[layer][0], axes[1 + layer, column])
            attention_map(course.logits[layer][look, 0], axes[3 + layer, column], logits=True, limit=largest[layer])
    for row, what in enumerate(("weights, layer 1", "weights, layer 2", "logits, layer 1", "logits, layer 2"), 1):
        axes[row, 0].set_ylabel(what, fontsize=SMALL)
        bar = axes[row, 0].figure.colorbar(axes[row, -1].images[0], ax=list(axes[row]), fraction=0.02, pad=0.01)
        bar.ax.tick_params(labelsize=SMALL - 1, length=1)
        bar.outline.set_visible(False)


def _courses(axes: np.ndarray, rows: pd.DataFrame, legend: bool) -> None:
    runs = [run.sort_values("step") for _, run in rows.groupby("seed")]
    typical = next(run for run in runs if run["typical"].all())
    for run in runs:
        style: dict[str, Any] = {"linewidth": 1.3, "zorder": 3} if run is typical else {"linewidth": 0.5, "alpha": 0.3}
        axes[0].plot(run["step"], run["loss"], color="black", **style)
        for name, (label, colour) in MASSES.items():
            axes[1].plot(run["step"], run[name], color=colour, label=label if run is typical else None, **style)
    for name in ("unigram", "bigram"):
        axes[0].axhline(typical[f"line.{name}"].iloc[0], color=STRATEGY_COLOURS[name], linewidth=0.8, linestyle="--")
        axes[0].plot([], [], color=STRATEGY_COLOURS[name], linewidth=0.8, linestyle="--", label=name)
    for name, (_, colour) in MASSES.items():
        axes[1].axhline(typical[f"uniform_{name}"].iloc[0], color=colour, linewidth=0.8, linestyle="--")
    _grafts(axes[2], typical)
    axes[1].set_ylim(0, 1)
    axes[0].set_ylim(0, 1.05 * typical["loss"].max())
    for ax, title in zip(axes, (f"{rows['series'].iloc[0]}: test loss", "attention masses", "grafts"), strict=True):
        ax.set_title(title, loc="left", fontsize=MEDIUM)
        ax.set_xlim(0, typical["step"].max())
        ax.xaxis.set_major_formatter(lambda value, _: short(value))
        for step in shown_steps(typical).values():
            ax.axvline(step, color=GREY, linewidth=0.5, linestyle=":", zorder=0)
        quiet(ax)
        if legend and ax is not axes[2]:
            ax.legend(fontsize=SMALL - 1, frameon=False, labelspacing=0.2)


def _grafts(ax: Axes, run: pd.DataFrame) -> None:
    looked = run.dropna(subset="ungrafted")
    for name, (label, colour, style) in GRAFTS.items():
        ax.plot(looked["step"], looked[name], color=colour, linestyle=style, linewidth=1, label=label)
    middle = (run["line.unigram"].iloc[0] + run["line.bigram"].iloc[0]) / 2
    ax.axhline(middle, color=GREY, linewidth=0.7)
    ax.set_ylim(0, 1.05 * looked["ungrafted"].max())
