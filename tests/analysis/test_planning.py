"""The choice of the place of a row to train next."""

from collections.abc import Iterator

import pytest

from elegans.analysis.planning import _cheapest, next_places

Tree = tuple[int, "Tree | None", "Tree | None"]


def trees(first: int, last: int) -> Iterator[Tree | None]:
    """Yield all searches of the places from first to last: a place, and the searches to its left and to its right."""
    if first > last:
        yield None
    for root in range(first, last + 1):
        for left in trees(first, root - 1):
            for right in trees(root + 1, last):
                yield root, left, right


def cost(tree: Tree | None, meeting: int, left: float, right: float) -> float:
    """Return what a search costs if the kinds meet after so many places."""
    if tree is None:
        return 0.0
    root, below, above = tree
    if meeting >= root:
        return left + cost(above, meeting, left, right)
    return right + cost(below, meeting, left, right)


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize(("left", "right"), [(1.0, 1.0), (1.0, 5.0), (7.0, 2.0)])
def test_the_next_place_begins_the_cheapest_of_all_searches(left, right, near):
    for between in range(1, 6):
        weight = [0.5**k if near else 1.0 for k in range(between + 1)]
        means = {
            tree: sum(w * cost(tree, k, left, right) for k, w in enumerate(weight)) / sum(weight)
            for tree in trees(1, between)
        }
        expected, place = _cheapest(between, left, right, near=near)
        assert expected == pytest.approx(min(means.values()))
        assert min(mean for tree, mean in means.items() if tree[0] == place) == pytest.approx(expected)


def test_looking_leans_towards_what_is_cheap():
    assert next_places({}, 17, 4, {}, 1.0) == [16]
    assert next_places({16: 1}, 17, 4, {16: 1.0}, 1.0) in ([7], [8])
    assert next_places({16: 1}, 17, 4, {16: 1.0}, 20.0)[0] > 10
    assert next_places({0: -1, 1: 1, 6: 1, 10: 1}, 11, 4, {}, 1.0) == [2]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({0: -1, 1: 1}, []),  # neighbours that differ have nothing between them
        ({0: -1, 2: 1}, [1]),
        ({4: -1}, []),  # as far from the start as a gap allows: places 0 to 3
        ({5: -1}, [1]),
        ({0: -1, 4: -1}, []),
        ({0: -1, 5: -1}, [1]),
    ],
)
def test_a_row_is_done_when_no_gap_is_too_large_and_nothing_lies_between_places_that_differ(known, expected):
    assert next_places(known, max(known) + 1, 4, {}, 1.0) == expected


@pytest.mark.parametrize("known", [{0: -1, 16: 1}, {0: 1, 16: -1}])
def test_kinds_are_expected_to_meet_near_a_known_left_place(known):
    found = next_places({**known}, 17, 20, {}, 1.0)
    assert found == [_cheapest(15, 1.0, 1.0, near=True)[1]]
    assert found[0] < _cheapest(15, 1.0, 1.0, near=False)[1] == 8
