"""What grows while loss and accuracy stand still: a column a network, with its weights below its errors."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, GREY, MEDIUM, SMALL, quiet, short

NEEDED = ("part", "panel", "n", "k", "step", "quantity", "neuron", "coordinate", "relevant", "value", "solved_at")
LINES = {
    "loss": (GREY, "held-out loss"),
    "error": (COLOURS[0], "held-out error"),
    "movement": (COLOURS[1], "largest change of a weight"),
    "control": ("black", "the same with labels of pure noise"),
}
ROWS = (("loss", "error"), ("weight",), ("movement", "control"))


def hidden_progress(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw, a column a panel: loss and error; all first-layer weights; their largest change, and that of the control.

    Relevant weights are coloured, by neuron where there are several, and drawn over the grey irrelevant ones. A dotted
    line marks the step at which the network solved its task.

    Args:
        table: rows of the parts ``course`` and ``weight``, as the experiment ``hidden-progress`` makes them.
        axes: the axes to draw on, three rows of one a panel; a new figure by default.

    Returns:
        The axes, of shape (3, panels).

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than places.

    Source: thesis, figures 5.3 and B.9.
    """
    for name in NEEDED:
        if name not in table:
            raise ExperimentError(f"hidden progress must have a column {name!r}: {', '.join(map(str, table))}")
    panels = [rows for _, rows in table[table["part"] != "trial"].groupby("panel", sort=False)]
    drawn = _figure(len(panels), table) if axes is None else np.asarray(axes, object).reshape(-1)
    if drawn.size != 3 * len(panels):
        raise ExperimentError(f"axes must be three a panel: axes={drawn.size}, panels={len(panels)}")
    drawn = drawn.reshape(3, len(panels))
    for column, rows in zip(drawn.T, panels, strict=True):
        _lines(column[0], rows, ROWS[0])
        _weights(column[1], rows[rows["part"] == "weight"])
        _lines(column[2], rows, ROWS[2])
        network, _, batch = str(rows["panel"].iloc[0]).rpartition(", ")
        column[0].set_title(f"{network}\n{batch}", loc="left", fontsize=SMALL)
        column[2].set_xlabel("steps", fontsize=MEDIUM)
    for ax, label in zip(drawn[:, 0], ("loss, error", "weights", "movement"), strict=True):
        ax.set_ylabel(label, fontsize=MEDIUM)
    if axes is None:
        handles = [
            drawn[0, 0].plot([], [], color=colour, linewidth=1.3, label=label)[0] for colour, label in LINES.values()
        ]
        drawn[0, 0].figure.legend(
            handles=handles, fontsize=SMALL, frameon=False, ncols=len(handles), loc="outside upper center"
        )
    return drawn


def _lines(ax: Axes, rows: pd.DataFrame, names: tuple[str, ...]) -> None:
    for name in names:
        line = rows[rows["quantity"] == name]
        ax.plot(line["step"], line["value"], color=LINES[name][0], linewidth=1.1)
    ax.set_ylim(bottom=0)
    _finish(ax, rows)


def _weights(ax: Axes, rows: pd.DataFrame) -> None:
    for relevant, width in ((False, 0.4), (True, 1.0)):
        kept = rows[rows["relevant"] == relevant]
        for neuron, own in kept.groupby(kept["neuron"].astype(int)):
            colour = COLOURS[(neuron + 1) % len(COLOURS)] if relevant else "0.75"
            for _, line in own.groupby("coordinate"):
                ax.plot(line["step"], line["value"], color=colour, linewidth=width)
    _finish(ax, rows)


def _finish(ax: Axes, rows: pd.DataFrame) -> None:
    solved_at = float(rows["solved_at"].iloc[0])
    if np.isfinite(solved_at):
        ax.axvline(solved_at, color=GREY, linewidth=0.8, linestyle=":")
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    ax.locator_params(axis="x", nbins=4)
    ax.set_xlim(left=0)
    quiet(ax)


def _figure(columns: int, table: pd.DataFrame) -> np.ndarray:
    figure = Figure(figsize=(max(1.75 * columns, 7.0), 5.0), layout="constrained")
    note = (
        f"Sparse parity, n = {table['n'].iloc[0]}, k = {table['k'].iloc[0]}; one network a column. First-layer weights "
        "on the support in colour (by neuron), all others grey. Dotted: solved."
    )
    figure.supxlabel(note, fontsize=SMALL, color=GREY)
    drawn: np.ndarray = figure.subplots(3, columns, squeeze=False, sharex="col")
    return drawn.ravel()
