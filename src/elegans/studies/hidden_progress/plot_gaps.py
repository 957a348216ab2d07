"""Fourier gaps: of random neurons as histograms, and of neurons that learn against steps."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, quiet, short

NEEDED = ("part", "function", "law", "task.n", "task.k", "seed", "step", "solved_at", "relaxed", "majority")
LAWS = {"dense": "uniform weights", "gaussian": "Gaussian weights", "bernoulli": "sign weights"}
RUNS = 10
"""How many of the networks that learn are drawn."""


def gap_histograms(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw a histogram of relaxed gaps for each function and parity, and the gap along training.

    Sign weights all have one gap, drawn as a line, as the majority's is; half a percent of the others' gaps lie beyond
    either end of a histogram. Gaps along training are drawn up to the step at which each network solved its task,
    marked by a dot.

    Args:
        table: a row a random neuron and a row a measurement, as the experiment ``fourier-gaps`` makes it.
        axes: the axes to draw on, one a histogram and one for training; a new figure by default.

    Returns:
        The axes.

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than panels.

    Source: thesis, figures B.7 and B.8.
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"gap histograms must have a column {name!r}: {', '.join(map(str, table))}")
    random, trained = table[table["part"] == "random"], table[table["part"] == "trained"]
    groups = list(random.groupby(["function", "task.k"], sort=False))
    drawn = _figure(len(groups) + 1, random) if axes is None else np.asarray(axes, object).ravel()
    if len(drawn) != len(groups) + 1:
        raise ExperimentError(f"axes must be as many as panels: axes={len(drawn)}, panels={len(groups) + 1}")
    for ax, ((function, k), rows) in zip(drawn, groups, strict=False):
        _histogram(ax, rows)
        shown = "1{w·x > 0}" if function == "threshold" else "sin(w·x)"
        ax.set_title(f"{shown}, n = {rows['task.n'].iloc[0]}, k = {k}", loc="left", fontsize=MEDIUM)
    drawn[0].set_ylabel("density", fontsize=MEDIUM)
    if axes is None:
        handles, labels = drawn[0].get_legend_handles_labels()
        drawn[0].figure.legend(handles, labels, fontsize=SMALL, frameon=False, ncols=4, loc="outside upper center")
    _training(drawn[-1], trained)
    return drawn


def _histogram(ax: Axes, rows: pd.DataFrame) -> None:
    laws = {str(law): group["relaxed"].to_numpy(float) for law, group in rows.groupby("law", sort=False)}
    spread = {law: values for law, values in laws.items() if np.ptp(values) > 1e-9}
    together = np.concatenate(list(spread.values()) or [np.zeros(1)])
    edges = np.linspace(np.quantile(together, 0.005), np.quantile(together, 0.995), 41).tolist()
    for colour, (law, values) in zip(COLOURS, laws.items(), strict=False):
        name = LAWS.get(law.partition(":")[0], law)
        if law in spread:
            style: dict[str, Any] = {"density": True, "color": colour, "label": name}
            ax.hist(values, edges, alpha=0.25, **{**style, "label": None})
            ax.hist(values, edges, histtype="step", linewidth=1, **style)
        else:
            ax.axvline(values[0], color=colour, linewidth=1.4, label=name)
    ax.axvline(rows["majority"].iloc[0], color="black", linewidth=0.9, linestyle=":", label="majority")
    ax.axvline(0, color=GREY, linewidth=0.5)
    ax.set_yticks([])
    ax.set_xlabel("relaxed gap Γ", fontsize=MEDIUM)
    quiet(ax)


def _training(ax: Axes, trained: pd.DataFrame) -> None:
    for _, run in list(trained.groupby("seed", sort=False))[:RUNS]:
        solved_at = float(run["solved_at"].iloc[0])
        until = run[run["step"] <= solved_at] if np.isfinite(solved_at) else run
        ax.plot(until["step"], until["relaxed"], color=COLOURS[0], linewidth=0.8, alpha=0.7)
        ax.plot(until["step"].iloc[-1], until["relaxed"].iloc[-1], color=COLOURS[0], marker="o", markersize=2)
    ax.axhline(trained["majority"].iloc[0], color="black", linewidth=0.9, linestyle=":", label="majority")
    ax.axhline(0, color=GREY, linewidth=0.5)
    n, k = trained["task.n"].iloc[0], trained["task.k"].iloc[0]
    ax.set_title(f"{RUNS} neurons learning, n = {n}, k = {k}", loc="left", fontsize=MEDIUM)
    ax.set_yscale("symlog", linthresh=trained["majority"].iloc[0])
    ax.set_xscale("symlog", linthresh=100)
    ax.set_xlim(left=0)
    ax.set_xlabel("steps", fontsize=MEDIUM)
    ax.set_ylabel("relaxed gap Γ", fontsize=MEDIUM)
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    quiet(ax)


def _figure(panels: int, random: pd.DataFrame) -> np.ndarray:
    columns = min(panels, 3)
    rows = -(-panels // columns)
    figure = Figure(figsize=(7.2, 1.95 * rows + 0.6), layout="constrained")
    count = random.groupby(["function", "task.k", "law"])["seed"].nunique().max()
    note = f"{count} random neurons a histogram, exact over all inputs. Γ > 0: one relevant input can be told."
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax in drawn[panels:]:
        ax.set_axis_off()
    return drawn[:panels]
