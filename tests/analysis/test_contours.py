"""Where success rates cross a level along a row."""

import math

import pytest

from elegans.analysis import crossings
from elegans.analysis.contours import Segment, segments


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ({3: -1, 4: 0, 5: 1, 16: 1}, [Segment("gained", 3, 5)]),
        ({3: -1, 16: -1}, [Segment("gained", 16, None)]),
        ({0: 1, 16: 1}, [Segment("gained", None, 0)]),
        ({2: -1, 3: 1, 8: 1, 9: -1, 12: 1}, [Segment("gained", 2, 3), Segment("lost", 8, 9), Segment("gained", 9, 12)]),
        ({2: -1, 3: 1, 16: 0}, [Segment("gained", 2, 3), Segment("lost", 3, None)]),
        ({8: 0, 16: 0}, [Segment("gained", None, None)]),
    ],
)
def test_verdicts_of_a_row_give_its_segments(verdicts, expected):
    assert segments(verdicts) == expected


def test_crossings_are_interpolated_on_a_logarithmic_axis():
    assert crossings([100, 10_000], [0, 1]) == pytest.approx([1000])
    assert crossings([10, 100, 1000, 10_000], [0, 1, 1, 0.2], 0.6) == pytest.approx([10**1.6, 10**3.5])
    assert crossings([-1, 0, 1], [0, math.nan, 1]) == pytest.approx([0])
    assert crossings([1, 2], [0.1, 0.2]) == []
