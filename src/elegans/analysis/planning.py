"""Which cell of a row to train next, so that a crossing is found with few training steps."""

from collections.abc import Mapping
from functools import lru_cache

from elegans.analysis.sequential import ABOVE, BELOW

START = -1
"""The place before the first: a row is searched from there as if success began below the level."""


def next_places(
    known: Mapping[int, int], length: int, gap: int, costs: Mapping[int, float], unseen: float
) -> list[int]:
    """Return the places of a row to train next; none where the row is done.

    A row is done when its last place is known, when neighbouring known places that differ have nothing between them,
    and when no place lies more than ``gap`` from a known one to its right. Nothing else is assumed of how success
    depends on the place: between known places of one kind it may be lost and regained, if both happen within a gap.

    Two that differ are believed to meet near the left one: it lies where a larger row's crossing is, or is undecided
    itself. Only the order of work follows from that.

    Args:
        known: by place, ``BELOW``, ``OPEN`` (trained, and undecided) or ``ABOVE``.
        length: how many places the row has.
        gap: how far apart known places of one kind may be.
        costs: by known place, what training there has cost.
        unseen: what is expected of a place below the level where nothing is known of its cost.
    """
    if length - 1 not in known:
        return [length - 1]
    chosen = []
    ordered = sorted(known)
    for left, right in zip([START, *ordered], ordered, strict=False):
        if right - left < 2:
            continue
        if known.get(left, BELOW) != known[right]:
            ends = costs.get(left, unseen), costs.get(right, unseen)
            chosen.append(left + _cheapest(right - left - 1, *ends, near=left != START)[1])
        elif right - left > gap + (left == START):
            chosen.append(right - gap)
    return chosen


@lru_cache(maxsize=4096)
def _cheapest(between: int, left_cost: float, right_cost: float, *, near: bool) -> tuple[float, int]:
    """Return the expected cost of finding where two kinds meet between two places, and where to train next to find it.

    The kinds may meet after any number k of the g places between, 0 to g: all of them equally likely, or, where
    they are believed to meet near the left end, k with a weight of 2^-k. Training at the j-th place finds it of the
    left kind, at that kind's cost, if k is at least j; then g - j places are left, and otherwise j - 1. Equal costs
    and likely ends make it bisection.
    """
    if between == 0:
        return 0.0, 0
    weight = [0.5**place if near else 1.0 for place in range(between + 1)]
    best = (float("inf"), 0)
    for place in range(1, between + 1):
        is_left = sum(weight[place:]) / sum(weight)
        on_left = left_cost + _cheapest(between - place, left_cost, right_cost, near=near)[0]
        on_right = right_cost + _cheapest(place - 1, left_cost, right_cost, near=near)[0]
        best = min(best, (is_left * on_left + (1 - is_left) * on_right, place))
    return best


def carried(known: Mapping[int, int]) -> list[int]:
    """Return the places of a row that lie below the level as all known ones to their left do."""
    found = []
    for place in sorted(known):
        if known[place] == ABOVE:
            break
        if known[place] == BELOW:
            found.append(place)
    return found
