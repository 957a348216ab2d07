"""Attention: lines between rows of tokens, heat maps, and weights by position."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from elegans.errors import ExperimentError
from elegans.plots.style import COLOURS, DIVERGING, GREY, MEDIUM, RATES, SMALL, despine, new_figure, panel_legend

HEAD_COLOURS = ("0.15", *COLOURS[1:])
"""Colours of a layer's heads: a single one is black, so that only tokens have colours."""
TOKEN_COLOURS = (COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[3], "#8C5B00", "#1B7FA8")
"""Colours of symbols: dark enough for letters on white."""
FAINTEST = 0.02
"""Smaller weights have no line."""
GOLDEN = (5**0.5 - 1) / 2


def letter(token: int) -> str:
    """Return the text of a token: ``a``, ``b``, …; numbers beyond the alphabet."""
    return chr(ord("a") + token) if token < 26 else str(token)


def token_colour(token: int) -> str:
    """Return a token's colour; tokens that share a colour differ by their letters."""
    return TOKEN_COLOURS[token % len(TOKEN_COLOURS)]


def attention_lines(
    tokens: Int[Any, " length"],
    layers: Sequence[Float[Any, "heads length length"]],
    ax: Axes | None = None,
    *,
    queries: Sequence[Sequence[int] | None] | None = None,
) -> Axes:
    """Draw attention weights as lines between rows of tokens: queries above, keys below, one more row than layers.

    Wider and darker lines are larger weights; weights below 0.02 are not drawn. The heads of a layer differ in colour.

    Args:
        tokens: a sequence of tokens, counted from 0.
        layers: the weights of each layer, the first at the bottom; queries before keys.
        ax: the axes to draw on; new ones by default.
        queries: for each layer, the queries to draw (negative ones count from the end), or None for all of them.

    Source: thesis, figures 8.2 and E.5.
    """
    queries = [None] * len(layers) if queries is None else queries
    if len(queries) != len(layers) or not layers:
        raise ExperimentError(f"queries must be given for each of the layers: {len(queries)}, layers={len(layers)}")
    length, every = len(tokens), range(len(tokens))
    by_layer = [np.asarray(layer, float) for layer in layers]
    for weights in by_layer:
        if weights.ndim != 3 or weights.shape[1:] != (length, length):
            raise ExperimentError(f"weights must be of shape (heads, {length}, {length}): shape={weights.shape}")
    ax = new_figure(3.2, 0.5 + 0.8 * len(layers)).subplots() if ax is None else ax
    for row, (weights, positions) in enumerate(zip(by_layer, queries, strict=True)):
        for head, colour in zip(weights, cycle(HEAD_COLOURS), strict=False):
            ax.add_collection(_lines(head, row, every if positions is None else positions, colour))
    top = every if queries[-1] is None else [position % length for position in queries[-1]]
    for row in range(len(layers) + 1):
        for position, token in enumerate(np.asarray(tokens).tolist()):
            alpha = 1.0 if position in top or row < len(layers) else 0.3
            style: dict[str, Any] = {"color": token_colour(token), "weight": "bold", "fontsize": SMALL, "alpha": alpha}
            ax.text(position, row, letter(token), ha="center", va="center_baseline", **style)
    ax.set(xlim=(-0.8, length - 0.2), ylim=(-0.3, len(layers) + 0.3))
    ax.set_axis_off()
    return ax


def attention_map(
    values: Float[Any, "length length"],
    ax: Axes | None = None,
    *,
    logits: bool = False,
    limit: float | None = None,
    tokens: Int[Any, " length"] | None = None,
) -> Axes:
    """Draw one head's weights or logits as a heat map, one row per query; later keys are not drawn.

    The map is ``ax.images[0]``, for a colour bar.

    Args:
        values: queries before keys; entries above the diagonal are ignored.
        ax: the axes to draw on; new ones by default.
        logits: whether the values precede the softmax; the scale is then symmetric, with white at 0.
        limit: the largest weight (1 by default) or absolute logit (the map's largest by default) on the scale.
        tokens: tokens to write along the axes.

    Source: thesis, figure E.5.
    """
    rows = np.asarray(values, float)
    if rows.ndim != 2 or rows.shape[0] != rows.shape[1] or len(rows) != len(rows if tokens is None else tokens):
        raise ExperimentError(f"a map of attention must be square, one row per token: shape={rows.shape}")
    masked = np.ma.masked_where(~np.tri(len(rows), dtype=bool), rows)
    if not np.isfinite(masked.compressed()).all():
        raise ExperimentError("a map of attention must be finite on and below the diagonal: there is NaN or infinity")
    ax = new_figure(2.2, 2.2).subplots() if ax is None else ax
    top = limit or (max(float(np.abs(masked).max()), 1e-9) if logits else 1.0)
    ax.imshow(masked, cmap=DIVERGING if logits else RATES, vmin=-top if logits else 0, vmax=top)
    ax.spines[:].set_visible(False)
    ax.set(xticks=[], yticks=[])
    if tokens is not None:
        for position, token in enumerate(np.asarray(tokens).tolist()):
            text: dict[str, Any] = {"s": letter(token), "color": token_colour(token), "fontsize": SMALL - 1.5}
            ax.text(position, len(rows) - 0.3, **text, ha="center", va="top")
            ax.text(-0.8, position, **text, ha="right", va="center")
    return ax


def attention_by_position(
    weights: Float[Any, "examples places"], ax: Axes | None = None, *, support: Int[Any, " support"] = ()
) -> Axes:
    """Draw one query's weights in one head by position, one dot per example, with the class token set apart.

    The dots of a position lie side by side in the order of the examples, and a bar marks their mean; a dotted line
    marks uniform attention.

    Args:
        weights: each example's weights on T positions and, last, the class token; NaN where unknown.
        ax: the axes to draw on; new ones by default.
        support: the positions in the task's support, counted from 0, which have their own colour.

    Source: thesis, figure 4.3 (right).
    """
    values = np.asarray(weights, float)
    if values.ndim != 2 or not values.shape[0] or values.shape[1] < 2:
        raise ExperimentError(f"weights must have axes for examples and positions: shape={values.shape}")
    examples, last = values.shape[0], values.shape[1] - 1
    relevant = np.asarray(support, int).ravel()
    if ((relevant < 0) | (relevant >= last)).any():
        raise ExperimentError(f"support must lie in 0..{last - 1}: support={relevant.tolist()}")
    ax = new_figure(3.4, 2.3).subplots() if ax is None else ax
    x = np.arange(last + 1, dtype=float)
    x[-1] += 0.5
    shift = 0.6 * (np.arange(examples) * GOLDEN % 1 - 0.5)
    in_support = np.isin(np.arange(last + 1), relevant)
    groups = {
        "in the support": (in_support, COLOURS[1]),
        "outside" if in_support.any() else "positions": (~in_support & (x < last), COLOURS[0]),
        "class token": (x > last, GREY),
    }
    for name, (members, colour) in groups.items():
        if members.any():
            across, y = (x[members] + shift[:, None]).ravel(), values[:, members].ravel()
            ax.scatter(across, y, s=4, color=colour, alpha=0.35, linewidth=0, label=name, rasterized=True)
    ax.hlines(np.nanmean(values, axis=0), x - 0.4, x + 0.4, color="black", linewidth=1)
    ax.axvline(last - 0.25, color=GREY, linewidth=0.6)
    ax.axhline(1 / (last + 1), color=GREY, linewidth=0.7, linestyle=":")
    step = max(1, last // 10)
    ticks = relevant if len(relevant) else np.arange(0, last - step // 2, step)
    ax.set_xticks([*ticks, x[-1]], [*map(str, ticks), "class"])
    ax.set_xlim(-0.7, x[-1] + 0.7)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("position", fontsize=MEDIUM)
    ax.set_ylabel("attention weight", fontsize=MEDIUM)
    panel_legend(ax, 3, markerscale=2, handletextpad=0.2)
    despine(ax)
    return ax


def _lines(weights: Float[np.ndarray, "length length"], below: int, queries: Any, colour: str) -> LineCollection:
    """Return the lines of one head from queries in the row above to keys in the row below, the strongest on top."""
    length = len(weights)
    pairs = [(weights[query, key], query % length, key) for query in queries for key in range(query % length + 1)]
    lines = sorted(pair for pair in pairs if pair[0] >= FAINTEST)
    segments = [[(key, below + 0.2), (query, below + 0.8)] for _, query, key in lines]
    strength = [min(float(weight), 1.0) for weight, *_ in lines]
    widths = [0.3 + 1.4 * weight for weight in strength]
    return LineCollection(segments, colors=colour, linewidths=widths, alpha=np.sqrt(strength), zorder=1)
