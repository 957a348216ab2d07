"""Components of variance."""

import math

import numpy as np
import pytest

from elegans.analysis import variance_components


def test_the_components_of_a_table_worked_by_hand():
    """Means 2 and 6 of groups of 2: MSB = 16, MSW = 2, so between = 7; F(1, 2) has quantiles 38.506 and 0.001252."""
    found = variance_components([[1, 3], [5, 7]])
    assert (found.between, found.within, found.ratio) == (7, 2, 3.5)
    assert (found.low, found.high) == (0, pytest.approx((8 / 0.0012516 - 1) / 2, rel=1e-3))


def test_the_interval_has_the_degrees_of_freedom_of_three_groups():
    """MSB = 128, MSW = 2; F(2, 3) has the quantiles 16.0441 and 1 / 39.1655."""
    found = variance_components([[1, 3], [9, 11], [17, 19]])
    assert (found.low, found.high) == pytest.approx(((64 / 16.0441 - 1) / 2, (64 * 39.1655 - 1) / 2), rel=1e-4)


def test_the_interval_covers_the_ratio_of_normal_values():
    """200 data sets of 10 groups of 6, ratio 4: an exact 95% interval, with 5 standard errors."""
    source, covered = np.random.default_rng(0), 0
    for _ in range(200):
        groups = 2 * source.normal(size=(10, 1)) + source.normal(size=(10, 6))
        found = variance_components(list(groups))
        covered += found.low <= 4 <= found.high
    assert 0.87 < covered / 200 <= 1


def test_groups_that_differ_in_nothing_but_chance_have_no_component_between():
    found = variance_components([[1, 3], [1, 3], [1, 3]])
    assert (found.between, found.within, found.ratio) == (0, 2, 0)
    assert variance_components([[1, 1], [2, 2]]).ratio == math.inf


@pytest.mark.parametrize(
    ("groups", "settings", "message"),
    [
        ([[1, 2]], {}, "groups=1"),
        ([[1], [2]], {}, r"sizes=\[1, 1\]"),
        ([[1, math.inf], [2]], {}, "a value must be finite: inf"),
        ([[1, 2], [2]], {"confidence": 0}, "confidence=0"),
    ],
)
def test_what_has_no_components_is_refused(groups, settings, message):
    with pytest.raises(ValueError, match=message):
        variance_components(groups, **settings)


def test_the_ratio_is_infinite_if_nothing_varies_within_groups_and_undefined_if_nothing_varies():
    found = variance_components([[1.0, 1.0], [2.0, 2.0]])
    assert (found.ratio, found.low, found.high) == (np.inf, np.inf, np.inf)
    found = variance_components([[1.0, 1.0], [1.0, 1.0]])
    assert np.isnan([found.ratio, found.low, found.high]).all()
