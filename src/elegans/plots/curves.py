"""How networks learn: losses, errors and measures against steps."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from elegans.plots.style import COLOURS, GREY, LARGE, MEDIUM, SMALL, despine, new_figure, percent, short
from elegans.training import Outcome, Trial


def learning_curve(outcome: Outcome, ax: Axes | None = None) -> Axes:
    """Draw the loss, the train and held-out error and the measures of one trial against steps, on a logarithmic axis.

    Error rates and losses share the left axis; other measures are dashed and use the right one. A vertical line
    marks the step at which the trial was solved. Outcomes of earlier versions have no held-out error: their minibatch
    error is drawn alone, and the title says so.

    Args:
        outcome: the outcome of ``elegans.train``, or its state so far.
        ax: the axes to draw on; a new figure's by default.
    """
    if ax is None:
        ax = new_figure(4.5, 2.8).subplots()
    curve, errors = outcome.curve, outcome.errors
    error = "error" if outcome.trial.task.targets is None else "loss"
    if errors.step:
        ax.plot(errors.step, errors.loss, color=GREY, linewidth=1.2, label="minibatch loss")
        ax.plot(errors.step, errors.train_error, color=COLOURS[0], linewidth=1.2, label=f"train {error} (minibatches)")
        ax.plot(errors.step, errors.test_error, color=COLOURS[1], linewidth=1.2, label=f"held-out {error}")
    else:
        ax.plot(curve.step, curve.loss, color=GREY, linewidth=1.2, label="minibatch loss")
        ax.plot(curve.step, curve.error, color=COLOURS[0], linewidth=1.2, label="minibatch error")
    _draw_measures(ax, outcome)
    if (step := outcome.solved_at) is not None:
        ax.axvline(step, color=COLOURS[2], linewidth=1, linestyle=":", label=f"solved at {step:,}")
    missing = "" if errors.step or not curve.step else " (no held-out error was recorded)"
    ax.set_title(f"{describe(outcome.trial)}: {outcome.state}{missing}", fontsize=LARGE, loc="left")
    ax.set_xlabel("steps", fontsize=MEDIUM)
    ax.set_ylabel("loss, error rate", fontsize=MEDIUM)
    ax.set_ylim(bottom=0)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    _finish(ax)
    return ax


def error_lines(ax: Axes, cell: pd.DataFrame, colour: str, solved: float) -> None:
    """Draw the train error (grey) and test error of a cell's networks, and the error at which a task is solved."""
    for order, (_, network) in enumerate(cell.groupby("seed")):
        after = network[network["step"] > 0]
        for name, shade, label in (("train", "0.55", "on the sample"), ("test", colour, "held out")):
            error = after[f"{name}_error"]
            ax.plot(after["step"], error, color=shade, linewidth=0.75, label="" if order else label)
    ax.axhline(solved, color=GREY, linewidth=0.6, linestyle=":")
    ax.set_xscale("log")
    ax.set_ylim(-0.02, 0.6)
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    percent(ax)
    despine(ax)


def describe(trial: Trial) -> str:
    """Return a trial in a few words, for a title: ``sparse parity, sample:1000, mlp, seed 0``."""
    columns = trial.columns()
    model = f"width {columns['model.width']}" if "model.width" in columns else trial.model.kind
    parts = [trial.task.kind.replace("-", " "), columns["regime"], model, columns.get("model.init")]
    return ", ".join([str(part) for part in parts if part] + [f"seed {trial.seed}"])


def _draw_measures(ax: Axes, outcome: Outcome) -> None:
    """Draw error measures on the left axis and all other numbers on a second axis, with one cycle of colours."""
    colours = iter(COLOURS[3:] + COLOURS[:3])
    right: Axes | None = None
    for kind, measures in outcome.measures.items():
        for name, values in measures.items():
            if name == "step" or np.ndim(values[0]) > 0:
                continue
            label, axes, line = kind.replace("-", " "), ax, "-"
            if name != "error":
                if right is None:
                    right = ax.twinx()
                    right.set_ylabel("measures (dashed)", fontsize=MEDIUM)
                label, axes, line = f"{label}: {name}", right, "--"
            style: dict[str, Any] = {"color": next(colours, GREY), "linewidth": 1.2, "linestyle": line}
            axes.plot(measures["step"], np.asarray(values, float), label=label, **style)


def _finish(ax: Axes) -> None:
    """Put one legend for both axes below them, and simplify the frames."""
    twins = [other for other in ax.figure.axes if other is not ax and other.bbox.bounds == ax.bbox.bounds]
    handles: list[Any] = []
    for axes in (ax, *twins):
        handles += axes.get_legend_handles_labels()[0]
        axes.tick_params(labelsize=SMALL, length=2)
        axes.spines["top"].set_visible(False)
    if not twins:
        ax.spines["right"].set_visible(False)
    style: dict[str, Any] = {"fontsize": SMALL, "frameon": False, "ncols": 3}
    ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.18), **style)
