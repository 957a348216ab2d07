"""Crossings of a level by the success rate along a row of cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from elegans.analysis.sequential import ABOVE, BELOW, OPEN


def crossings(x: Float[Any, " cells"], rates: Float[Any, " cells"], level: float = 0.5) -> list[float]:
    """Return where the interpolated success rate crosses a level, in increasing order.

    Between neighbouring cells the rate is linear in log x (in x itself if some x is not positive). Cells whose rate
    equals the level count as above it. Cells without a rate are skipped.
    """
    place, rate = np.asarray(x, float), np.asarray(rates, float)
    place, rate = place[np.isfinite(rate)], rate[np.isfinite(rate)]
    logarithmic = bool((place > 0).all())
    at: Float[np.ndarray, " cells"] = np.log(place) if logarithmic else place
    first = np.flatnonzero(np.diff(rate >= level))
    found = at[first] + (level - rate[first]) / (rate[first + 1] - rate[first]) * (at[first + 1] - at[first])
    return [float(each) for each in (np.exp(found) if logarithmic else found)]


@dataclass(frozen=True)
class Segment:
    """A part of a row in which success is gained or lost.

    Args:
        direction: ``gained`` if the left end lies below the level, ``lost`` if it lies above.
        left: the last known place before the crossing, or None if the crossing lies before the first place.
        right: the first known place after it, or None if there is none.
    """

    direction: Literal["gained", "lost"]
    left: int | None
    right: int | None


def segments(known: Mapping[int, int]) -> list[Segment]:
    """Return the parts of a row in which verdicts cross the level; undecided places widen them.

    A row that is nowhere clearly above the level has one open segment: success is gained after its last place below
    the level, if at all. A row whose end is undecided has an open segment there, too.
    """
    found: list[Segment] = []
    last, side = None, BELOW
    ordered = sorted(known)
    for place in ordered:
        if known[place] == OPEN:
            continue
        if known[place] != side:
            found.append(Segment(_direction(side), last, place))
        last, side = place, known[place]
    if not found or known[ordered[-1]] == OPEN:
        found.append(Segment(_direction(side), last, None))
    return found


def _direction(side: int) -> Literal["gained", "lost"]:
    return "lost" if side == ABOVE else "gained"


def crossing_within(segment: Segment, x: Sequence[float], rates: Mapping[int, float], level: float) -> float:
    """Return the interpolated crossing of a segment (the middle one of several), or NaN if the segment is open."""
    if segment.left is None or segment.right is None:
        return float("nan")
    places = [place for place in sorted(rates) if segment.left <= place <= segment.right]
    found = crossings([x[place] for place in places], [rates[place] for place in places], level)
    return found[len(found) // 2]
