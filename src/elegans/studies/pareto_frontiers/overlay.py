"""Theory on a success frontier: bounds that no learner can cross, and families that provably succeed."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import Normal, Stroke

from elegans.analysis import summarise_cells
from elegans.errors import ExperimentError
from elegans.experiments import Line
from elegans.plots import figure_of
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
"""A dark edge keeps lines legible on cells of any colour."""
LINE = 0.17
"""The height in inches of a line of the legend."""
STYLES: dict[str, dict[str, Any]] = {
    "statistical limit: another parity fits with probability 1%": {"color": "white"},
    "SQ bound: C(n,k) δ / (4 P T) examples, P parameters, T = {steps:,} steps, δ = 1": {
        "color": "white",
        "linestyle": (0, (1, 1)),
    },
    "Theorem 4: width (n/s)^k, {times}n² (s/k)^(k-1) examples, k < s < n": {"color": "#FF3B30", "linestyle": "--"},
    "Theorem 4, gradients truncated: {times}(s/k)^(k-1) examples": {"color": "#FF3B30", "linestyle": ":"},
    "Theorem 5: width (n/k)^s, {times}(n/k)^(k-s-1) examples, s < k": {"color": "#FF7AF5", "linestyle": "-."},
}
"""The lines: what each is, with its constants, and how it is drawn."""

WIDTHS = (1.0, 1e5)
"""The widths of lines that are drawn without a grid."""
Points = tuple[np.ndarray, np.ndarray]
"""Widths and sample sizes along a line."""


def overlay_theory(axes: Any, table: pd.DataFrame, *, steps: int, constant: float = 1.0) -> Any:
    """Draw theoretical lines on a success frontier, with a legend that states their constants.

    To the left of the statistical limit the sample does not determine the support; to the left of the SQ bound noisy
    gradient descent with so many parameters and steps fails on some parity. Theorems 4 and 5 say where sparse
    initialisations succeed, up to constants (that depend on k) and logarithms: their lines are drawn with
    ``constant``, and only for even k. The legend says which lines lie entirely outside the grid.

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
    cells = checked(table if "rate" in table else summarise_cells(table))
    for name in ("task.n", "task.k"):
        if name not in cells:
            raise ExperimentError(f"theory needs a column {name!r}: {', '.join(map(str, cells))}")
    grid, drawn = Grid(cells), np.atleast_1d(np.asarray(axes, object)).ravel()
    visible = np.zeros(len(STYLES), bool)
    rows, columns = layout(cells)
    for ax, where in zip(drawn, ({**row, **column} for row in rows for column in columns), strict=True):
        n, k = cells[matches(cells, where)][["task.n", "task.k"]].iloc[0].astype(int)
        lines = _lines(n, k, (min(grid.widths), max(grid.widths)), steps, constant)
        visible |= [
            points is not None and _draw(ax, grid, points, style)
            for points, style in zip(lines, STYLES.values(), strict=True)
        ]
    times = "" if constant == 1 else f"{constant:g} "
    labels = [
        label.format(steps=steps, times=times) + " (not on the grid)" * (not shown)
        for label, shown in zip(STYLES, visible.tolist(), strict=True)
    ]
    _legend(drawn[0], labels, odd=bool((cells["task.k"] % 2 == 1).any()))
    return axes


def theory_lines(columns: Mapping[str, Any]) -> list[Line]:
    """Return the lines of ``overlay_theory``, with constant 1, in the plane of sample size and width of a cell."""
    n, k, steps = (columns.get(name) for name in ("task.n", "task.k", "training.steps"))
    if n is None or k is None or steps is None:
        return []
    labels = (label.format(steps=int(steps), times="") for label in STYLES)
    return [
        Line(label, {"model.width": points[0], "regime.size": points[1]})
        for label, points in zip(labels, _lines(int(n), int(k), WIDTHS, int(steps), 1.0), strict=True)
        if points is not None
    ]


def _lines(n: int, k: int, span: tuple[float, float], steps: int, constant: float) -> list[Points | None]:
    """Return the widths and sample sizes of each line; None where its theorem does not cover (n, k)."""
    widths = np.logspace(math.log10(span[0]) - 1, math.log10(span[1]) + 1, 200).clip(1)
    limit = np.full(len(widths), float(statistical_limit(n, k)))
    parameters = [mlp_parameters(n, round(width)) for width in widths]
    bound = np.array([sq_smallest_sample(n, k, parameters=count, steps=steps, delta=1) for count in parameters])
    if k % 2:
        return [(widths, limit), (widths, bound), None, None, None]
    over = range(k + 1, n + 1, 2)
    families = (
        [over_sparse_frontier(n, k, s) for s in over],
        [over_sparse_frontier(n, k, s, truncated=True) for s in over],
        [under_sparse_frontier(n, k, s) for s in range(0, k, 2)],
    )
    proved = [(width, constant * sample) for width, sample in (np.array(family, float).T for family in families)]
    return [(widths, limit), (widths, bound), *proved]


def _draw(ax: Axes, grid: Grid, points: Points, style: dict[str, Any]) -> bool:
    """Draw a line on a panel; return whether any of it lies on the grid."""
    widths, sizes = (np.exp(_denser(np.log(values))) for values in points)
    x, y = grid.places(widths, sizes)
    across, up = len(grid.sizes), len(grid.widths)
    if not ((x >= 0) & (x <= across) & (y >= 0) & (y <= up)).any():
        return False
    ax.plot(np.where(x <= across, x, np.nan), y, path_effects=OUTLINE, linewidth=1.6, **style)
    return True


def _denser(values: np.ndarray) -> np.ndarray:
    """Return the points with 30 between each pair: a line straight in the logarithms bends on a categorical grid."""
    if len(values) < 2:
        return values
    places = np.arange(len(values))
    return np.asarray(np.interp(np.linspace(0, len(values) - 1, 30 * (len(values) - 1) + 1), places, values))


def _legend(ax: Axes, labels: list[str], *, odd: bool) -> None:
    handles = [
        Line2D([], [], label=label, path_effects=OUTLINE, linewidth=1.6, **style)
        for label, style in zip(labels, STYLES.values(), strict=True)
    ]
    figure = figure_of(ax)
    columns = 2 if figure.get_figwidth() > NARROW else 1
    # the note at the foot of the figure would lie under the legend
    note = figure.get_supxlabel()
    figure.supxlabel("")
    title = "\n".join(filter(None, [note, "Theory" + " (Theorems 4 and 5 hold for even k)" * odd]))
    figure.set_figheight(figure.get_figheight() + LINE * math.ceil(len(handles) / columns))
    style: dict[str, Any] = {"fontsize": SMALL, "title_fontsize": SMALL, "ncols": columns, "frameon": False}
    figure.legend(handles=handles, loc="outside lower left", title=title, **style)
