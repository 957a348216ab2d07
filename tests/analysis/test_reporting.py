"""Numbers of findings: rounded, with intervals, and as JSON has them."""

import math

import numpy as np
import pandas as pd
import pytest

from elegans.analysis import describe, finite_or_none, proportion, round_significant, wilson


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_none(number):
    assert finite_or_none(number) is None and round_significant(number) is None


def test_numbers_are_rounded_to_decimals_or_significant_digits():
    assert (finite_or_none(123.456), finite_or_none(123.456, 1)) == (123.456, 123.5)
    assert (round_significant(123.456, 2), round_significant(0.00123456)) == (120.0, 0.001235)


def test_a_spread_counts_what_was_not_reached_as_infinite():
    assert describe([1.0, 2, 3, 4, 5]) == {"median": 3, "interval": [1, 5], "range": [1, 5], "reached": "5 of 5"}
    assert describe([1.0, 2, 3, math.inf, math.nan]) == {
        "median": 3, "interval": None, "range": [1, 3], "reached": "3 of 5",
    }  # fmt: skip
    assert describe([math.nan] * 2) == {"median": None, "interval": None, "range": None, "reached": "0 of 2"}
    assert describe([1.0, 2, 3])["interval"] is None


def test_a_share_has_its_interval_and_names_the_exceptions():
    found = proportion(pd.Series([True, False, True, True], index=[3, 5, 8, 9]))
    assert (found["count"], found["of"], found["exceptions"]) == (3, 4, [5])
    np.testing.assert_allclose(found["interval"], wilson(3, 4), atol=5e-5)


def test_a_share_of_no_trials_has_no_interval():
    assert proportion(pd.Series([], dtype=bool)) == {"count": 0, "of": 0, "interval": None, "exceptions": []}


def test_the_largest_floats_are_not_rounded_to_infinity():
    assert round_significant(1.79e308, 1) == 1.79e308 and describe([1.79e308] * 5, 1)["range"] == [1.79e308] * 2
