"""Crossings of a level by the success rate along a row of cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from elegans.analysis.sequential import ABOVE, BELOW, OPEN
from elegans.errors import AnalysisError, shown


def crossings(x: Float[Any, " cells"], rates: Float[Any, " cells"], level: float = 0.5) -> list[float]:
    """Return where the interpolated success rate crosses a level, in increasing order.

    Between neighbouring cells the rate is linear in log x (in x itself if some x is not positive). Cells whose rate
    equals the level count as above it. Cells without a rate are skipped.
    """
    position, rate = np.asarray(x, float), np.asarray(rates, float)
    if not np.isfinite(position).all():
        raise AnalysisError(f"a cell's position must be finite: x={shown(x)}")
    if not np.isfinite(level):
        raise AnalysisError(f"level must be finite: level={level}")
    position, rate = position[np.isfinite(rate)], rate[np.isfinite(rate)]
    logarithmic = bool((position > 0).all())
    position = np.log(position) if logarithmic else position
    left = np.flatnonzero(np.diff(rate >= level))
    width, rise = np.diff(position)[left], np.diff(rate)[left]
    crossing = position[left] + (level - rate[left]) / rise * width
    return [float(value) for value in (np.exp(crossing) if logarithmic else crossing)]


@dataclass(frozen=True)
class Segment:
    """A part of a row in which success is gained or lost.

    Args:
        direction: ``gained`` if the left end lies below the level, ``lost`` if it lies above.
        left: the last decided position before the crossing, or None if the crossing lies before the first position.
        right: the first decided position after it, or None if there is none.
    """

    direction: Literal["gained", "lost"]
    left: int | None
    right: int | None


def segments(known: Mapping[int, int]) -> list[Segment]:
    """Return the parts of a row in which verdicts cross the level; undecided positions widen them.

    A row that is nowhere clearly above the level has one open segment: success is gained after its last position below
    the level, if at all. A row whose end is undecided has an open segment there, too.
    """
    crossed: list[Segment] = []
    last: int | None = None
    direction: Literal["gained", "lost"] = "gained"
    decided = [(position, side) for position, side in sorted(known.items()) if side != OPEN]
    for position, side in decided:
        if side == (ABOVE if direction == "gained" else BELOW):
            crossed.append(Segment(direction, last, position))
        last, direction = position, "lost" if side == ABOVE else "gained"
    if not crossed or known[max(known)] == OPEN:
        crossed.append(Segment(direction, last, None))
    return crossed


def crossing_within(segment: Segment, x: Sequence[float], rates: Mapping[int, float], level: float) -> float:
    """Return the interpolated crossing of a segment (the middle one of several), or NaN if the segment is open."""
    if segment.left is None or segment.right is None:
        return float("nan")
    positions = [position for position in sorted(rates) if segment.left <= position <= segment.right]
    inside = crossings([x[position] for position in positions], [rates[position] for position in positions], level)
    return inside[len(inside) // 2]
