"""What is proved, on a success frontier: the bounds that no learner passes, and families that are known to succeed."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import Normal, Stroke

from elegans.analysis import cells
from elegans.errors import ExperimentError
from elegans.plots.frontier import NARROW, Grid, checked, layout, matches
from elegans.plots.style import SMALL
from elegans.studies.pareto_frontiers.theory.frontier import (
    mlp_parameters,
    over_sparse_frontier,
    sq_smallest_sample,
    statistical_limit,
    under_sparse_frontier,
)

OUTLINE = [Stroke(linewidth=2.8, foreground="black"), Normal()]
"""A dark edge: lines are read on every colour of the cells."""

LINE = 0.17
"""The height in inches of a line of the legend."""

Points = tuple[np.ndarray, np.ndarray]
"""Widths and sample sizes along a line."""


@dataclass(frozen=True)
class Line:
    """A line of theory.

    Args:
        label: what it is, with its constants.
        style: how it is drawn.
        points: makes its widths and sample sizes from (n, k) and the range of widths; None where its theorem does
            not cover (n, k).
    """

    label: str
    style: dict[str, Any]
    points: Callable[[int, int, np.ndarray], Points | None]


def overlay_theory(axes: Any, table: pd.DataFrame, *, steps: int, constant: float = 1.0) -> Any:
    """Draw the lines of theory on a success frontier, and a legend that states their constants.

    To the left of the statistical limit the sample does not determine the support; to the left of the SQ bound noisy
    gradient descent with so many parameters and steps fails on some parity. Theorems 4 and 5 say where sparse
    initialisations succeed, up to constants (that depend on k) and logarithms: their lines are drawn with
    ``constant``, and only for even k. The legend says which lines lie wholly outside the grid.

    Args:
        axes: what ``success_frontier`` returned.
        table: the table that it was given.
        steps: the number T of gradient steps, for the SQ bound.
        constant: what the sample sizes of Theorems 4 and 5 are multiplied by.

    Returns:
        The axes.

    Raises:
        ExperimentError: the table lacks ``task.n`` or ``task.k``, or a number is not positive.

    Source: Pareto frontiers, Proposition 3 and Theorems 4 and 5.
    """
    if steps < 1 or constant <= 0:
        raise ExperimentError(f"steps and constant must be positive: steps={steps}, constant={constant}")
    found = checked(table if "rate" in table else cells(table))
    for name in ("task.n", "task.k"):
        if name not in found:
            raise ExperimentError(f"theory needs a column {name!r}: {', '.join(map(str, found))}")
    grid, drawn = Grid(found), np.atleast_1d(np.asarray(axes, object)).ravel()
    lines, seen = _lines(steps, constant), set()
    for ax, panel in zip(drawn, _panels(found), strict=True):
        n, k = int(panel["task.n"].iloc[0]), int(panel["task.k"].iloc[0])
        seen |= {line.label for line in lines if _draw(ax, grid, line, n, k)}
    _legend(drawn[0], lines, seen, odd=bool((found["task.k"] % 2 == 1).any()))
    return axes


def _panels(found: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the cells of each panel, in the order of the axes."""
    rows, columns = layout(found)
    return (found[matches(found, {**row, **column})] for row in rows for column in columns)


def _lines(steps: int, constant: float) -> tuple[Line, ...]:
    times = "" if constant == 1 else f"{constant:g} "
    white = {"color": "white", "linewidth": 1.6}
    return (
        Line("statistical limit: another parity fits with probability 1%", white, _statistical),
        Line(
            f"SQ bound: C(n,k) δ / (4 P T) examples, P parameters, T = {steps:,} steps, δ = 1",
            white | {"linestyle": (0, (1, 1))},
            lambda n, k, widths: _sq(n, k, widths, steps),
        ),
        Line(
            f"Theorem 4: width (n/s)^k, {times or ''}n² (s/k)^(k-1) examples, k < s < n",
            {"color": "#FF3B30", "linewidth": 1.6, "linestyle": "--"},
            lambda n, k, _: _over_sparse(n, k, constant, truncated=False),
        ),
        Line(
            f"Theorem 4, gradients truncated: {times}(s/k)^(k-1) examples",
            {"color": "#FF3B30", "linewidth": 1.6, "linestyle": ":"},
            lambda n, k, _: _over_sparse(n, k, constant, truncated=True),
        ),
        Line(
            f"Theorem 5: width (n/k)^s, {times}(n/k)^(k-s-1) examples, s < k",
            {"color": "#FF7AF5", "linewidth": 1.6, "linestyle": "-."},
            lambda n, k, _: _under_sparse(n, k, constant),
        ),
    )


def _statistical(n: int, k: int, widths: np.ndarray) -> Points:
    return widths, np.full(len(widths), float(statistical_limit(n, k)))


def _sq(n: int, k: int, widths: np.ndarray, steps: int) -> Points:
    sizes = [
        sq_smallest_sample(n, k, parameters=mlp_parameters(n, round(width)), steps=steps, delta=1) for width in widths
    ]
    return widths, np.array(sizes)


def _over_sparse(n: int, k: int, constant: float, truncated: bool) -> Points | None:
    if k % 2:
        return None
    family = [over_sparse_frontier(n, k, s, truncated=truncated) for s in range(k + 1, n + 1, 2)]
    return _resources(family, constant)


def _under_sparse(n: int, k: int, constant: float) -> Points | None:
    return None if k % 2 else _resources([under_sparse_frontier(n, k, s) for s in range(0, k, 2)], constant)


def _resources(family: list[Any], constant: float) -> Points:
    widths, sizes = ([float(one[place]) for one in family] for place in (0, 1))
    return np.array(widths), constant * np.array(sizes)


def _draw(ax: Axes, grid: Grid, line: Line, n: int, k: int) -> bool:
    """Draw a line on a panel; return whether any of it lies on the grid."""
    lowest, highest = math.log10(min(grid.widths)) - 1, math.log10(max(grid.widths)) + 1
    points = line.points(n, k, np.logspace(lowest, highest, 200).clip(1))
    if points is None:
        return False
    widths, sizes = (np.exp(_denser(np.log(values))) for values in points)
    x, y = grid.places(widths, sizes)
    across, up = len(grid.sizes), len(grid.widths)
    inside = (x >= 0) & (x <= across) & (y >= 0) & (y <= up)
    if not inside.any():
        return False
    shown = np.where(x <= across, x, np.nan)
    ax.plot(shown, y, path_effects=OUTLINE, **line.style)
    return True


def _denser(values: np.ndarray) -> np.ndarray:
    """Return points with 30 between each two: a straight line in the logarithms bends on a grid of named sizes."""
    if len(values) < 2:
        return values
    places = np.arange(len(values))
    found: np.ndarray = np.interp(np.linspace(0, len(values) - 1, 30 * (len(values) - 1) + 1), places, values)
    return found


def _legend(ax: Axes, lines: tuple[Line, ...], seen: set[str], odd: bool) -> None:
    handles = []
    for line in lines:
        label = line.label + ("" if line.label in seen else " (not on the grid)")
        handles.append(Line2D([], [], label=label, path_effects=OUTLINE, **line.style))
    figure = ax.get_figure(root=True)
    assert figure is not None
    columns = 2 if figure.get_figwidth() > NARROW else 1
    # the note at the foot of the figure would lie under the legend
    note = figure.get_supxlabel()
    figure.supxlabel("")
    title = "\n".join(filter(None, [note, "Theory" + (" (Theorems 4 and 5 hold for even k)" if odd else "")]))
    figure.set_figheight(figure.get_figheight() + LINE * math.ceil(len(handles) / columns))
    legend = figure.legend(
        handles=handles, loc="outside lower left", fontsize=SMALL, title=title, ncols=columns, frameon=False
    )
    legend.get_title().set_fontsize(SMALL)
