"""The choice of the cell to train next, so that a row's crossing is found in few training steps."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import takewhile

from elegans.analysis.sequential import ABOVE, BELOW

START = -1
"""The position before the first, from which a row is searched as if it were below the level."""


def next_places(
    known: Mapping[int, int], length: int, gap: int, costs: Mapping[int, float], unseen: float
) -> list[int]:
    """Return the positions of a row to train next, or none if the row is done.

    A row is done when its last position is known, no position lies between neighbouring known positions that differ,
    and none lies more than ``gap`` from a known one to its right. Between known positions of the same kind, success may
    be lost and regained within a gap.

    Two positions that differ are expected to meet near the left one, which lies at a larger row's crossing or is itself
    undecided. This affects only the order of work.

    Args:
        known: ``BELOW``, ``OPEN`` (trained, but undecided) or ``ABOVE``, by position.
        length: how many positions the row has.
        gap: how far apart known positions of the same kind may be.
        costs: the cost of training so far, by known position.
        unseen: the expected cost of a position below the level if none has been trained.
    """
    if length - 1 not in known:
        return [length - 1]
    positions = []
    ordered = sorted(known)
    for left, right in zip([START, *ordered], ordered, strict=False):
        if right - left < 2:
            continue
        if known.get(left, BELOW) != known[right]:
            ends = costs.get(left, unseen), costs.get(right, unseen)
            positions.append(left + _cheapest(right - left - 1, *ends, near=left != START)[1])
        elif right - left > gap + (left == START):
            positions.append(right - gap)
    return positions


@lru_cache(maxsize=4096)
def _cheapest(between: int, left_cost: float, right_cost: float, *, near: bool) -> tuple[float, int]:
    """Return the expected cost of finding where two kinds meet between two places, and where to train next to find it.

    The kinds may meet after any number k of the g places between, from 0 to g: all are equally likely, or k has the
    weight 2^-k if they are expected to meet near the left end. If k is at least j, the j-th place is of the left kind,
    at that kind's cost, and g - j places remain; otherwise j - 1 remain. For equal costs and equally likely k this is
    bisection.
    """
    if between == 0:
        return 0.0, 0
    weight = [0.5**position if near else 1.0 for position in range(between + 1)]
    best = (float("inf"), 0)
    for position in range(1, between + 1):
        is_left = sum(weight[position:]) / sum(weight)
        on_left = left_cost + _cheapest(between - position, left_cost, right_cost, near=near)[0]
        on_right = right_cost + _cheapest(position - 1, left_cost, right_cost, near=near)[0]
        best = min(best, (is_left * on_left + (1 - is_left) * on_right, position))
    return best


def carried(known: Mapping[int, int]) -> list[int]:
    """Return the positions of a row that lie below the level together with all known positions to their left."""
    unbroken = takewhile(lambda position: known[position] != ABOVE, sorted(known))
    return [position for position in unbroken if known[position] == BELOW]
