"""Effective positional encodings: how the first layer weights distances, whatever the tokens are."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.special import softmax

from elegans.plots.style import shades
from elegans.studies.induction_heads.tables import BEFORE, EARLY

FARTHEST = 12
"""The largest distance at which an encoding is shown."""
MOMENTS = {"start": "at the start", "plateau": "on the plateau", "before": "before the drop", "end": "at the end"}
"""Labels for the moments of ``encodings``."""


def encodings(profiles: pd.DataFrame, moved: float) -> pd.DataFrame:
    """Return one trial's effective positional encoding at four moments, averaged over heads.

    They are the start, 60% and 90% of the time to the transition, and the end, or shares of the whole training where
    there was no transition. One row per ``moment``, ``symbol`` (the query's) and ``distance`` (0 is the token itself),
    with ``step`` and ``encoding``.

    Args:
        profiles: the measures of ``PositionalProfile``, one row per measured step.
        moved: the step of the transition, or NaN.
    """
    steps, parts = profiles["step"].to_numpy(), []
    whole = moved if np.isfinite(moved) else steps[-1]
    for moment, time in {"start": 0, "plateau": EARLY * whole, "before": BEFORE * whole, "end": steps[-1]}.items():
        place = int(np.searchsorted(steps, time, side="right")) - 1
        encoding = softmax(profiles["logits"].iloc[place], axis=-1).mean(axis=0)[:, : FARTHEST + 1]
        symbol, distance = np.indices(encoding.shape)
        columns = {"symbol": symbol.ravel(), "distance": distance.ravel(), "encoding": encoding.ravel()}
        parts.append(pd.DataFrame({"moment": moment, "step": steps[place], **columns}))
    return pd.concat(parts, ignore_index=True)


def encoding_curves(ax: Axes, table: pd.DataFrame, label: str) -> None:
    """Draw how the first layer weights distances regardless of tokens, one curve per moment, averaged over symbols."""
    moments: Any = table.groupby("moment", sort=False)
    for (moment, rows), colour in zip(moments, shades(len(moments)), strict=True):
        encoding, name = rows.groupby("distance")["encoding"].mean(), label.format(MOMENTS[moment])
        ax.plot(encoding.index, encoding, "o-", color=colour, linewidth=1, markersize=2.5, label=name)
    ax.set(yscale="log", xlabel="distance back (tokens)")
    ax.set_xticks(range(0, int(table["distance"].max()) + 1, 2))


def encoding_shapes(taken: pd.DataFrame) -> pd.DataFrame:
    """Return how positions and symbols shape the attention of a first layer of one head, step by step.

    Besides ``trial`` and ``step``: ``difference``, the largest total variation distance between the encodings of two
    symbols, and ``shape``, the same between their mean and uniform attention; ``correlation``, the smallest between two
    symbols' logits over distances up to 12; ``content`` and ``position``, the standard deviation of the layer's logits
    over the symbols of the key, and over distances; ``odd``, whether the encoding is larger at 1, 3 and 5 tokens back
    than at each of their neighbours.

    Args:
        taken: one trial's measures of ``PositionalProfile``.
    """
    logits, content = (np.stack(list(taken[name]))[:, 0] for name in ("logits", "content"))
    encodings = softmax(logits, axis=-1)
    mean = encodings.mean(axis=1)
    pairs = list(combinations(range(encodings.shape[1]), 2))
    near = logits[:, :, : FARTHEST + 1]
    even, odd = mean[:, 0:7:2], mean[:, 1:6:2]
    return taken[["trial", "step"]].assign(
        difference=np.max([_variation(encodings[:, one], encodings[:, other]) for one, other in pairs], axis=0),
        shape=_variation(mean, np.full(mean.shape[1], 1 / mean.shape[1])),
        correlation=np.min([_correlation(near[:, one], near[:, other]) for one, other in pairs], axis=0),
        content=np.sqrt(content.var(axis=2).mean(axis=1)),
        position=np.sqrt(logits.var(axis=2).mean(axis=1)),
        odd=((odd > even[:, :-1]) & (odd > even[:, 1:])).all(axis=1),
    )


def _variation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the total variation distance of distributions along the last axis."""
    return np.asarray(np.abs(one - other).sum(axis=-1) / 2)


def _correlation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the correlation of numbers along the last axis."""
    one, other = (numbers - numbers.mean(axis=-1, keepdims=True) for numbers in (one, other))
    return np.asarray((one * other).sum(axis=-1) / np.sqrt((one**2).sum(axis=-1) * (other**2).sum(axis=-1)))
