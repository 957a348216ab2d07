"""Networks that learn Markov chains in context, stage by stage: a row of pictures a setting."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.errors import ExperimentError
from elegans.plots.style import GREY, MEDIUM, SMALL
from elegans.studies.induction_heads.plots import STRATEGY_COLOURS, chain_distances, chain_losses

HEADROOM = 1.12
"""How far above the largest loss an axis of losses goes."""


def chain_stages(table: pd.DataFrame, axes: Any = None) -> np.ndarray:
    """Draw, a row a series, the losses of all trials with the strategies' lines, and a typical trial's distances.

    Where the table has ``linear``, a dotted line is what the best multiple of the construction's frequencies loses as
    logits.

    Args:
        table: a row a trial and measured step, as the experiments ``more-symbols`` and ``three-grams`` make it.
        axes: the axes to draw on, two a series; a new figure by default.

    Returns:
        The axes, of shape (series, 2).

    Raises:
        ExperimentError: a column is missing, or there are fewer or more axes than places.

    Source: thesis, figures 8.5 and E.4.
    """
    for column in ("series", "seed", "sequences", "loss", "typical"):
        if column not in table:
            raise ExperimentError(f"stages must have a column {column!r}: {', '.join(map(str, table))}")
    series = list(table.groupby("series", sort=False))
    drawn = _panels(len(series)) if axes is None else np.asarray(axes, object)
    if drawn.size != 2 * len(series):
        raise ExperimentError(f"axes must be two a series: axes={drawn.size}, series={len(series)}")
    drawn = drawn.reshape(len(series), 2)
    for number, (row, (name, rows)) in enumerate(zip(drawn, series, strict=True)):
        lines = [line for line in STRATEGY_COLOURS if line != "uniform" and f"line.{line}" in rows]
        chain_losses(rows.drop(columns="series"), row[0], strategies=lines)
        row[0].set_ylim(0, HEADROOM * float(rows["loss"].max()))
        if "linear" in rows:
            _linear(row[0], float(rows.groupby("seed")["linear"].first().median()))
        chosen = rows[rows["typical"].astype(bool)]
        chain_distances(chosen, row[1], legend=False)
        if number == 0:
            style: dict[str, Any] = {"fontsize": SMALL, "title_fontsize": SMALL, "edgecolor": "none", "framealpha": 0.7}
            row[1].legend(title="distance to", alignment="left", loc="best", **style)
        trials = rows["seed"].nunique()
        row[0].set_title(f"{name}: {_trials(trials)}", loc="left", fontsize=MEDIUM)
        row[1].set_title(f"seed {chosen['seed'].iloc[0]}; shade: closest", loc="left", fontsize=MEDIUM)
    return drawn


def _trials(count: int) -> str:
    return "one trial" if count == 1 else f"{count} trials, median"


def _linear(ax: Axes, loss: float) -> None:
    ax.axhline(loss, color=GREY, linewidth=0.9, linestyle=":", zorder=1)
    place: dict[str, Any] = {"x": 1.01, "y": loss, "transform": ax.get_yaxis_transform(), "va": "center"}
    ax.text(**place, s="linear logits", color=GREY, fontsize=SMALL)


def _panels(rows: int) -> np.ndarray:
    figure = Figure(figsize=(7.2, 2.1 * rows), layout="constrained")
    drawn: np.ndarray = figure.subplots(rows, 2, squeeze=False)
    return drawn
