"""Attention over training: an animated GIF, and a page with a slider for the time."""

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int
from matplotlib.animation import PillowWriter
from matplotlib.axes import Axes
from scipy.special import softmax

from elegans.errors import ExperimentError
from elegans.plots.attention import HEAD_COLOURS, TOKEN_COLOURS, attention_lines, attention_map, letter
from elegans.plots.style import GRAMS, GREY, MEDIUM, SMALL, HouseFigure, despine, short

FRAMES = 50
"""The largest number of times that are shown."""
PER_SECOND = 8
DPI = 100
DIGITS = 2
"""The precision of a page's logits: weights are accurate to 1%."""


class AttentionHistory(NamedTuple):
    """What one network attends to in one sequence over training.

    Args:
        tokens: the sequence.
        steps: when it was measured.
        logits: of each layer, queries before keys; entries above the diagonal are ignored.
        losses: at each step.
        lines: losses to compare them with, by name.
    """

    tokens: Int[np.ndarray, " length"]
    steps: Int[np.ndarray, " times"]
    logits: tuple[Float[np.ndarray, "times heads length length"], ...]
    losses: Float[np.ndarray, " times"]
    lines: Mapping[str, float]

    def weights(self, time: int) -> list[Float[np.ndarray, "heads length length"]]:
        """Return the weights of each layer at a time."""
        seen = np.tri(len(self.tokens), dtype=bool)
        return [softmax(np.where(seen, layer[time], -np.inf), axis=-1) for layer in self.logits]

    def thinned(self, frames: int = FRAMES) -> Self:
        """Return the history at a limited number of its times, evenly spaced, including the first and the last."""
        times = len(self.steps)
        kept = np.unique(np.linspace(0, times - 1, min(frames, times)).round().astype(int))
        logits = tuple(layer[kept] for layer in self.logits)
        return self._replace(steps=self.steps[kept], logits=logits, losses=self.losses[kept])


def attention_animation(history: AttentionHistory, path: Path) -> None:
    """Write an animated GIF: lines, the first head's weights in the last two layers, and the loss so far.

    In the last layer only the last query has lines. The last frame is shown for one more second.
    """
    history = history.thinned()
    figure = HouseFigure(figsize=(7.2, 2.9), dpi=DPI)
    grid = figure.add_gridspec(2, 3, width_ratios=(2.3, 1, 1), left=0.01, right=0.985, top=0.89, bottom=0.15)
    lines, curve = figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[1, 1:])
    maps = [figure.add_subplot(grid[0, 1 + place]) for place in range(2)]

    def draw(time: int) -> None:
        for ax in (lines, curve, *maps):
            ax.clear()
        weights = history.weights(time)
        queries = [None] * (len(weights) - 1) + [(len(history.tokens) - 1,)]
        attention_lines(history.tokens, weights, lines, queries=queries)
        lines.set_title(f"step {history.steps[time]}", loc="left", fontsize=MEDIUM, x=0.03)
        for ax, layer in zip(maps, range(len(weights) - len(maps), len(weights)), strict=True):
            attention_map(weights[layer][0], ax)
            ax.set_title(f"layer {layer + 1}", fontsize=SMALL, pad=2)
        _losses(curve, history, time)

    writer = PillowWriter(fps=PER_SECOND)
    with writer.saving(figure, str(path), DPI):
        for time in range(len(history.steps)):
            draw(time)
            writer.grab_frame()
        for _ in range(PER_SECOND):
            writer.grab_frame()


def _losses(ax: Axes, history: AttentionHistory, time: int) -> None:
    """Draw the whole curve faintly, the part so far strongly, and the lines."""
    ax.plot(history.steps, history.losses, color=GREY, linewidth=0.6)
    ax.plot(history.steps[: time + 1], history.losses[: time + 1], color="black", linewidth=1.2)
    ax.plot(history.steps[time], history.losses[time], "o", color="black", markersize=3)
    for name, loss in history.lines.items():
        colour, lowest = GRAMS[name], loss == min(history.lines.values())
        ax.axhline(loss, color=colour, linewidth=0.8, linestyle="--")
        # the curve is high on the left and low on the right
        place: dict[str, Any] = {"x": 0.02 if lowest else 1.0, "ha": "left" if lowest else "right", "y": loss}
        ax.text(s=name, **place, va="bottom", color=colour, fontsize=SMALL, transform=ax.get_yaxis_transform())
    ax.set(xlim=(0, history.steps[-1]), ylim=(0, 1.05 * max(history.losses)))
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    ax.set_xlabel("steps", fontsize=SMALL, labelpad=1)
    ax.set_ylabel("test loss", fontsize=SMALL, labelpad=1)
    ax.locator_params(nbins=4)
    despine(ax)


def attention_page(histories: Mapping[str, AttentionHistory], path: Path) -> None:
    """Write a self-contained page for any browser: attention of one or more networks, with a slider for the time.

    It contains its data and loads nothing. Layer, head and query can be chosen, weights are shown under the pointer and
    with the arrow keys, and colours follow the reader's light or dark scheme.

    Args:
        histories: by the names to choose from.
        path: of the file.

    Raises:
        ExperimentError: a network has diverged.
    """
    data = [_data(name, history.thinned()) for name, history in histories.items()]
    colours = {"heads": ["currentColor", *HEAD_COLOURS[1:]], "tokens": TOKEN_COLOURS, "lines": GRAMS}
    inside = json.dumps({"networks": data, "colours": colours}, allow_nan=False, separators=(",", ":"))
    page = files("elegans.studies.induction_heads").joinpath("attention.html").read_text(encoding="utf-8")
    path.write_text(page.replace("{{data}}", inside.replace("<", "\\u003c")), encoding="utf-8")


def _data(name: str, history: AttentionHistory) -> dict[str, Any]:
    """Return a history for a page: logits on and below the diagonal row by row."""
    seen = np.tril_indices(len(history.tokens))
    layers = []
    for logits in history.logits:
        kept = logits[:, :, *seen]
        if not (np.isfinite(kept).all() and np.isfinite(history.losses).all()):
            raise ExperimentError(f"losses, and logits on and below the diagonal, must be finite: {name}")
        layers.append(np.round(kept, DIGITS).tolist())
    return {
        "name": name,
        "tokens": history.tokens.tolist(),
        "letters": [letter(token) for token in history.tokens.tolist()],
        "steps": history.steps.tolist(),
        "losses": np.round(history.losses, 5).tolist(),
        "lines": {line: round(float(loss), 5) for line, loss in history.lines.items()},
        "layers": layers,
    }
