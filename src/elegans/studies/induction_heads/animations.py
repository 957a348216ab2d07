"""Attention over training as a film: an animated GIF, and a page with a slider for the time."""

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from matplotlib.animation import PillowWriter
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import softmax

from elegans.errors import ExperimentError
from elegans.plots.attention import HEAD_COLOURS, TOKEN_COLOURS, attention_lines, attention_map, letter
from elegans.plots.style import GREY, MEDIUM, SMALL, quiet, short
from elegans.studies.induction_heads.plots import STRATEGY_COLOURS

FRAMES = 50
"""How many times a film shows at the most."""
A_SECOND = 8
"""How many of them a second."""
DPI = 100
DIGITS = 2
"""Of a page's logits: a weight is within 1% of its value."""


class AttentionCourse(NamedTuple):
    """What one network attends to in one sequence over training.

    Args:
        tokens: the sequence.
        steps: when it was looked at.
        logits: of each layer, shape (times, heads, length, length), queries before keys; what lies above the diagonal
            is not read.
        losses: at each time.
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

    def thinned(self, frames: int) -> Self:
        """Return the course at so many of its times at the most, evenly spaced, the first and the last among them.

        Raises:
            ExperimentError: fewer than two frames, or arrays that do not agree.
        """
        if frames < 2:
            raise ExperimentError(f"a film must have at least two frames: frames={frames}")
        times, length = len(self.steps), len(self.tokens)
        shapes = [np.shape(layer) for layer in self.logits]
        fits = all(len(shape) == 4 and (shape[0], *shape[2:]) == (times, length, length) for shape in shapes)
        if not (shapes and fits and len(self.losses) == times):
            rule = "logits must be of shape (times, heads, length, length), with a loss for each time"
            raise ExperimentError(f"{rule}: {shapes}, times={times}, losses={len(self.losses)}, length={length}")
        kept = np.unique(np.linspace(0, times - 1, min(frames, times)).round().astype(int))
        logits = tuple(np.asarray(layer)[kept] for layer in self.logits)
        return self._replace(steps=np.asarray(self.steps)[kept], logits=logits, losses=np.asarray(self.losses)[kept])


def course_of(run: pd.DataFrame) -> AttentionCourse:
    """Return one network's course from its rows of a table.

    Args:
        run: a row a measured step, as the experiment ``attention-pictures`` makes them: ``step``, ``loss``, ``tokens``,
            ``line.unigram`` and ``line.bigram``, and by layer ``layer1``, …: a list of one head's logits on and below
            the diagonal, row by row.

    Raises:
        ExperimentError: a column is missing.
    """
    for name in ("step", "loss", "tokens", "line.unigram", "line.bigram", "layer1"):
        if name not in run:
            raise ExperimentError(f"a course of attention must have a column {name!r}: {', '.join(map(str, run))}")
    run = run.sort_values("step")
    tokens = np.asarray(run["tokens"].iloc[0], int)
    layers: list[np.ndarray] = []
    while f"layer{len(layers) + 1}" in run:
        logits = np.zeros((len(run), 1, len(tokens), len(tokens)))
        logits[:, 0, *np.tril_indices(len(tokens))] = np.array(run[f"layer{len(layers) + 1}"].to_list())
        layers.append(logits)
    lines = {name: float(run[f"line.{name}"].iloc[0]) for name in ("unigram", "bigram")}
    return AttentionCourse(tokens, run["step"].to_numpy(int), tuple(layers), run["loss"].to_numpy(float), lines)


def attention_film(course: AttentionCourse, path: Path | str, *, frames: int = FRAMES) -> None:
    """Write an animated GIF: lines, the first head's weights in the last two layers, and the loss so far.

    In the last layer the last query alone has lines. The last frame stays for a second more.

    Args:
        course: what is shown.
        path: the file.
        frames: how many times are shown at the most.

    Raises:
        ExperimentError: the course's arrays do not agree, or there are fewer than two frames.
        OSError: the file cannot be written.
    """
    course = course.thinned(frames)
    figure = Figure(figsize=(7.2, 2.9), dpi=DPI)
    grid = figure.add_gridspec(2, 3, width_ratios=(2.3, 1, 1), left=0.01, right=0.985, top=0.89, bottom=0.15)
    lines, curve = figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[1, 1:])
    maps = [figure.add_subplot(grid[0, 1 + place]) for place in range(min(2, len(course.logits)))]

    def draw(time: int) -> None:
        for ax in (lines, curve, *maps):
            ax.clear()
        weights = course.weights(time)
        queries = [None] * (len(weights) - 1) + [(len(course.tokens) - 1,)]
        attention_lines(course.tokens, weights, lines, queries=queries)
        lines.set_title(f"step {course.steps[time]}", loc="left", fontsize=MEDIUM, x=0.03)
        for ax, layer in zip(maps, range(len(weights) - len(maps), len(weights)), strict=True):
            attention_map(weights[layer][0], ax)
            ax.set_title(f"layer {layer + 1}", fontsize=SMALL, pad=2)
        _losses(curve, course, time)

    writer = PillowWriter(fps=A_SECOND)
    with writer.saving(figure, str(path), DPI):
        for time in range(len(course.steps)):
            draw(time)
            writer.grab_frame()
        for _ in range(A_SECOND):
            writer.grab_frame()


def attention_page(courses: Mapping[str, AttentionCourse], path: Path | str, *, frames: int = FRAMES) -> None:
    """Write a page by itself, for any browser: attention of one or more networks, with a slider for the time.

    It needs no network; the data are in it. Layer, head and query are chosen, weights are shown under the pointer and
    by arrow keys, and colours follow the reader's light or dark scheme.

    Args:
        courses: what is shown, by names to choose from.
        path: the file.
        frames: how many times are shown at the most.

    Raises:
        ExperimentError: there is no course, a course's arrays do not agree, or there are fewer than two frames.
        OSError: the file cannot be written.
    """
    if not courses:
        raise ExperimentError("a page must show at least one network: courses=0")
    data = [_data(name, course.thinned(frames)) for name, course in courses.items()]
    colours = {"heads": ["currentColor", *HEAD_COLOURS[1:]], "tokens": TOKEN_COLOURS, "lines": STRATEGY_COLOURS}
    inside = json.dumps({"networks": data, "colours": colours}, allow_nan=False, separators=(",", ":"))
    page = files("elegans.plots").joinpath("attention.html").read_text(encoding="utf-8")
    Path(path).write_text(page.replace("{{data}}", inside.replace("<", "\\u003c")), encoding="utf-8")


def _data(name: str, course: AttentionCourse) -> dict[str, Any]:
    """Return a course for a page: logits on and below the diagonal row by row."""
    seen = np.tril_indices(len(course.tokens))
    layers = []
    for logits in course.logits:
        kept = np.asarray(logits, float)[:, :, *seen]
        if not (np.isfinite(kept).all() and np.isfinite(course.losses).all()):
            raise ExperimentError(f"losses, and logits on and below the diagonal, must be finite: {name}")
        layers.append(np.round(kept, DIGITS).tolist())
    return {
        "name": name,
        "tokens": np.asarray(course.tokens).tolist(),
        "letters": [letter(token) for token in np.asarray(course.tokens).tolist()],
        "steps": np.asarray(course.steps).tolist(),
        "losses": np.round(course.losses, 5).tolist(),
        "lines": {line: round(float(loss), 5) for line, loss in course.lines.items()},
        "layers": layers,
    }


def _losses(ax: Axes, course: AttentionCourse, time: int) -> None:
    """Draw the whole curve faintly, what has been seen of it strongly, and the lines."""
    ax.plot(course.steps, course.losses, color=GREY, linewidth=0.6)
    ax.plot(course.steps[: time + 1], course.losses[: time + 1], color="black", linewidth=1.2)
    ax.plot(course.steps[time], course.losses[time], "o", color="black", markersize=3)
    for name, loss in course.lines.items():
        colour, lowest = STRATEGY_COLOURS.get(name, GREY), loss == min(course.lines.values())
        ax.axhline(loss, color=colour, linewidth=0.8, linestyle="--")
        # the curve is high on the left and low on the right
        place: dict[str, Any] = {"x": 0.02 if lowest else 1.0, "ha": "left" if lowest else "right", "y": loss}
        ax.text(s=name, **place, va="bottom", color=colour, fontsize=SMALL, transform=ax.get_yaxis_transform())
    ax.set(xlim=(0, course.steps[-1]), ylim=(0, 1.05 * max(course.losses)))
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    ax.set_xlabel("steps", fontsize=SMALL, labelpad=1)
    ax.set_ylabel("test loss", fontsize=SMALL, labelpad=1)
    ax.locator_params(nbins=4)
    quiet(ax)
