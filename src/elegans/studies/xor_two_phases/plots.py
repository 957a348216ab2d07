"""The XOR in two phases: a run with its phases, and how many examples it takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, quiet, short

DASHED = (0, (4, 3))
CLUSTERS = (r"$\mu_1$", r"$-\mu_1$", r"$\mu_2$", r"$-\mu_2$")
MARKS = {"found_at": "found", "dominates_at": "dominates", "fit_at": "fit"}
RUN = ("arm", "seed", "step", "loss", "error", "signal", "predicted_signal", "margin_1", "slope_1", "noise", "zeta")
SAMPLES = ("learner", "task.n", "samples", "low", "high", "exponent", "exponent_low", "exponent_high", "factor")
FEATURES = ("variant", "step", "error", "error_low", "error_high", "share", "share_low", "share_high")


def xor_phases(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw a run in six panels: loss and error, parts of neurons, margins, slopes, dominance, and signal-heaviness.

    Parts, margins and slopes are those of the first arm's trial with the smallest seed; elsewhere its other trials are
    faint. Vertical lines are that trial's marks: the signal is found, it dominates, the data are fit.

    Args:
        table: a row a trial and measured step, as the experiment ``xor-phases`` makes it.
        axes: the six axes to draw on, in reading order; a new figure by default.

    Returns:
        The axes, of shape (6,).

    Raises:
        ExperimentError: a column is missing, or there are other than six axes.

    Source: Glasgow (2024), sections 4 and 5, whose quantities these are.
    """
    _require(table, RUN, "a run in phases")
    drawn = _panels(2, 3, 4.4) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != 6:
        raise ExperimentError(f"a run in phases must have six axes: axes={len(drawn)}")
    arm = table[table["arm"] == table["arm"].iloc[0]]
    runs = [run for _, run in arm.groupby("seed")]
    _losses(drawn[0], runs)
    _parts(drawn[1], runs[0])
    _clusters(drawn[2], runs[0], "margin", r"margins $\gamma_\mu$")
    drawn[2].plot(runs[0]["step"], runs[0]["predicted_margin"], color="black", linewidth=0.8, linestyle=DASHED)
    drawn[2].plot([], [], color="black", linewidth=0.8, linestyle=DASHED, label="clean equation")
    _legend(drawn[2], "lower right")
    _clusters(drawn[3], runs[0], "slope", r"slopes $g_\mu$")
    _legend(drawn[3], "lower left")
    _dominance(drawn[4], runs)
    _heavy(drawn[5], runs)
    for place, ax in enumerate(drawn):
        quiet(ax)
        ax.set_xlim(0, runs[0]["step"].max())
        _mark(ax, runs[0], named=place < 3)
        if place >= 3:
            ax.set_xlabel("steps", fontsize=MEDIUM)
    return drawn


def _losses(ax: Axes, runs: Sequence[pd.DataFrame]) -> None:
    for run, style in _faint(runs):
        ax.plot(run["step"], run["loss"], color=COLOURS[0], **style)
        ax.plot(run["step"], run["error"], color=COLOURS[1], **style)
    ax.plot([], [], color=COLOURS[0], label="loss")
    ax.plot([], [], color=COLOURS[1], label="error")
    ax.set_ylim(0, 1.95)
    _title(ax, "held-out loss and error")
    _legend(ax, "center right")


def _parts(ax: Axes, run: pd.DataFrame) -> None:
    names = {"signal": r"signal $\|w_{sig}\|$", "opposite": r"opposite $\|w_{opp}\|$", "rest": r"rest $\|w_\perp\|$"}
    for (name, label), colour in zip(names.items(), COLOURS, strict=False):
        ax.fill_between(run["step"], run[f"{name}_low"], run[f"{name}_high"], color=colour, alpha=0.15, linewidth=0)
        ax.plot(run["step"], run[name], color=colour, linewidth=1.2, label=label)
    ax.set_yscale("log")
    seen = run[["signal", "opposite", "rest"]].to_numpy()
    ax.set_ylim(seen.min() / 20, seen.max() * 20)
    for name in names:
        ax.plot(run["step"], run[f"predicted_{name}"], color="black", linewidth=0.8, linestyle=DASHED)
    ax.plot([], [], color="black", linewidth=0.8, linestyle=DASHED, label="surrogate map")
    _title(ax, "parts of neurons: median, 10 to 90%")
    _legend(ax, "lower right", ncols=2)


def _clusters(ax: Axes, run: pd.DataFrame, name: str, title: str) -> None:
    for place, cluster in enumerate(CLUSTERS):
        ax.plot(run["step"], run[f"{name}_{place + 1}"], color=COLOURS[place], linewidth=1, label=cluster)
    _title(ax, title)


def _dominance(ax: Axes, runs: Sequence[pd.DataFrame]) -> None:
    for run, style in _faint(runs):
        least = run[[f"heavy_{place}" for place in range(1, 5)]].min(axis=1)
        ax.plot(run["step"], least.where(least > 0), color=COLOURS[0], **style)
        ax.plot(run["step"], run["noise"], color=COLOURS[2], **style)
    ax.plot([], [], color=COLOURS[0], label="least heavy margin")
    ax.plot([], [], color=COLOURS[2], label=r"$E\|w_\perp + w_{opp}\|^2$")
    ax.set_yscale("log")
    _title(ax, "heavy margins against noise")
    _legend(ax, "upper left")
    ax.set_ylim(top=ax.get_ylim()[1] * 10)


def _heavy(ax: Axes, runs: Sequence[pd.DataFrame]) -> None:
    lines = {"zeta": r"least $\zeta$, factor $e^{6H}$", "relaxed": r"least $\zeta$, factor 1", "asked": r"$e^{-10H}$"}
    for (name, label), colour in zip(lines.items(), (COLOURS[1], COLOURS[0], "black"), strict=True):
        for run, style in _faint(runs):
            ax.plot(run["step"], run[name].where(np.isfinite(run[name])), color=colour, **style)
        ax.plot([], [], color=colour, label=label)
    ax.set_yscale("log")
    ax.set_ylim(1e-10, 1e6)
    _title(ax, "signal-heavy condition")
    _legend(ax, "lower right")


def _faint(runs: Sequence[pd.DataFrame]) -> list[tuple[pd.DataFrame, dict[str, Any]]]:
    """Return runs and how they are drawn: the first strongly, on top of the others."""
    strong: dict[str, Any] = {"linewidth": 1.2, "zorder": 3}
    return [(run, {"linewidth": 0.6, "alpha": 0.35} if place else strong) for place, run in enumerate(runs)]


def _mark(ax: Axes, run: pd.DataFrame, named: bool) -> None:
    for column, name in MARKS.items():
        step = float(run[column].iloc[0])
        if not np.isfinite(step):
            continue
        ax.axvline(step, color=GREY, linewidth=0.7, linestyle=":")
        if named:
            place: dict[str, Any] = {"x": step, "y": 1.0, "s": f" {name}", "rotation": 90, "va": "top", "ha": "right"}
            ax.text(**place, fontsize=SMALL - 0.5, color=GREY, transform=ax.get_xaxis_transform())


def xor_samples(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the examples to an error against the dimension, a curve a learner, with the power law fitted to each.

    Bars are 95% bootstrap intervals of the medians; dashed lines are the fits, whose exponents with intervals are in
    the legend. Grey lines have the slopes 1 and 2.

    Args:
        table: a row a learner and dimension, as the experiment ``xor-samples`` makes it.
        ax: the axes to draw on; new ones by default.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing.

    Source: Glasgow (2024), Theorem 3.1 and section 1.1, whose orders these are.
    """
    _require(table, SAMPLES, "samples")
    if ax is None:
        ax = _panels(1, 1, 4.0, width=4.4)[0]
    for place, (learner, rows) in enumerate(table.groupby("learner", sort=False)):
        known = rows[np.isfinite(rows["samples"])]
        law, size, middle = rows.iloc[0], known["task.n"], known["samples"]
        ends = [middle - known["low"], known["high"].where(np.isfinite(known["high"]), middle) - middle]
        between = f" ({law['exponent_low']:.2f} to {law['exponent_high']:.2f})"
        label = f"{learner}: {law['exponent']:.2f}{between}" if np.isfinite(law["exponent"]) else str(learner)
        style: dict[str, Any] = {"fmt": "osD^v"[place % 5], "markersize": 3, "linewidth": 0.8, "capsize": 1.5}
        ax.errorbar(size, middle, yerr=ends, color=COLOURS[place], label=label, **style)
        ax.plot(size, law["factor"] * size ** law["exponent"], color=COLOURS[place], linewidth=0.8, linestyle=DASHED)
    sizes = np.array(sorted(table["task.n"].unique()), float)
    bottom = float(table["samples"].min())
    for power in (1, 2):
        reference = bottom / 5 * (sizes / sizes[0]) ** power
        ax.plot(sizes, reference, color="0.75", linewidth=0.8, zorder=0)
        ax.text(sizes[-1], reference[-1], f" $n^{power}$", fontsize=SMALL, color=GREY, va="center")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(sizes, [f"{size:g}" for size in sizes])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(lambda value, _: short(value))
    quiet(ax)
    ax.set_xlabel("dimension n", fontsize=MEDIUM)
    ax.set_ylabel("examples to an error of 1%", fontsize=MEDIUM)
    below: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, -0.16)}
    ax.legend(fontsize=SMALL, frameon=False, title="exponents", title_fontsize=SMALL, alignment="left", **below)
    return ax


def xor_features(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw the error and the first layer's share in the relevant subspace against steps, a curve a variant.

    Curves are medians over trials, bands their whole range.

    Args:
        table: a row a variant and measured step, as the experiment ``xor-variants`` makes it.
        axes: the two axes to draw on; a new figure by default.

    Returns:
        The axes, of shape (2,).

    Raises:
        ExperimentError: a column is missing, or there are other than two axes.
    """
    _require(table, FEATURES, "variants")
    drawn = _panels(1, 2, 2.9) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != 2:
        raise ExperimentError(f"variants must have two axes: axes={len(drawn)}")
    titles = {"error": "held-out error", "share": "share of the first layer in the relevant subspace"}
    for ax, (name, title) in zip(drawn, titles.items(), strict=True):
        for place, (variant, rows) in enumerate(table.groupby("variant", sort=False)):
            colour = (*COLOURS, "black")[place % 7]
            low, high = rows[f"{name}_low"], rows[f"{name}_high"]
            ax.fill_between(rows["step"], low, high, color=colour, alpha=0.13, linewidth=0)
            style: dict[str, Any] = {"linewidth": 1.2, "linestyle": DASHED if place % 2 else "-"}
            ax.plot(rows["step"], rows[name], color=colour, label=str(variant), **style)
        quiet(ax)
        ax.set_ylim(-0.02, 0.8 if name == "error" else 1.02)
        ax.set_xlim(0, table["step"].max())
        ax.set_xlabel("steps", fontsize=MEDIUM)
        _title(ax, title)
    if axes is not None:
        drawn[0].legend(fontsize=SMALL, frameon=False)
        return drawn
    named = drawn[0].get_legend_handles_labels()
    drawn[0].figure.legend(*named, loc="outside lower center", ncols=4, fontsize=SMALL, frameon=False)
    return drawn


def _require(table: pd.DataFrame, names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in table:
            raise ExperimentError(f"{what} must have a column {name!r}: {', '.join(map(str, table))}")


def _panels(rows: int, columns: int, height: float, width: float = 7.2) -> np.ndarray:
    figure = Figure(figsize=(width, height), layout="constrained")
    drawn: np.ndarray = figure.subplots(rows, columns, squeeze=False).ravel()
    return drawn


def _title(ax: Axes, title: str) -> None:
    ax.set_title(title, loc="left", fontsize=MEDIUM)


def _legend(ax: Axes, place: Any, ncols: int = 1) -> None:
    ax.legend(fontsize=SMALL - 0.5, frameon=False, loc=place, handlelength=1.4, columnspacing=1, ncols=ncols)
