"""How single networks learn: errors on the sample and on held-out examples, against steps."""

import pandas as pd
from matplotlib.axes import Axes

from elegans.plots.style import GREY, percent, quiet, short


def error_lines(ax: Axes, cell: pd.DataFrame, colour: str, solved: float) -> None:
    """Draw the train (grey) and the test error of a cell's networks, and the error at which a task counts as solved."""
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
    quiet(ax)
