"""Thresholds and how they grow: by hand, against least squares, and on laws that are known."""

import numpy as np
import pytest

from elegans.analysis import estimate_threshold, growth, threshold_draws

SIZES = [20, 50, 100, 200]


def test_a_threshold_is_the_first_size_with_enough_solved():
    assert estimate_threshold([20, 30, 40], [7, 8, 10], 10) == 30
    assert estimate_threshold([20, 30, 40], [8, 0, 10], 10) == 20
    assert estimate_threshold([20, 30, 40], [7, 7, 7], 10) == np.inf
    assert estimate_threshold([20, 30], [0, 4], [0, 5]) == 30
    assert estimate_threshold([20, 30], [9, 10], 10, level=1.0) == 30
    assert estimate_threshold([20, 30], [[10, 10], [0, 10], [0, 0]], 10).tolist() == [20, 30, np.inf]


def test_bootstrap_samples_have_the_binomial_law():
    """Of size 20 six in ten are solved: eight or more of ten redrawn are with probability 0.167 (4000 samples: five
    standard deviations are 0.03)."""
    drawn = threshold_draws([20, 30], [6, 10], [10, 10], generator=np.random.default_rng(0), resamples=4000)
    assert set(drawn) == {20, 30}
    assert (drawn == 20).mean() == pytest.approx(0.1673, abs=0.03)


def test_laws_are_found_again():
    for power in (-0.5, 0.4, 1.0):
        (found,) = growth(SIZES, 3 + 2 * np.array(SIZES, float) ** power * np.sign(power))
        assert found.power == pytest.approx(power, abs=1e-9)
        assert found.power_residual == pytest.approx(0, abs=1e-6)
    (found,) = growth(SIZES, 3 + 2 * np.log(SIZES))
    assert (found.intercept, found.slope, found.power) == pytest.approx((3, 2, 0), abs=1e-9)
    assert found.residual == pytest.approx(0, abs=1e-6)


def test_residuals_are_those_of_least_squares():
    values = np.random.default_rng(0).normal(50, 10, (5, len(SIZES)))
    for row, found in zip(values, growth(SIZES, values), strict=True):
        for size, residual in ((np.log(SIZES), found.residual), (np.array(SIZES), found.linear_residual)):
            line = np.polyval(np.polyfit(size, row, 1), size)
            assert residual == pytest.approx(np.sqrt(((row - line) ** 2).mean()), abs=1e-6)
        assert found.power_residual <= min(found.residual, found.linear_residual) + 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: estimate_threshold([30, 20], [1, 1], 1),
            r"sizes must increase, and there must be at least one: sizes=\[30, 20\]",
        ),
        (lambda: estimate_threshold([20, 30], [1, 1], 1, level=0), "level must be above 0 and at most 1: level=0"),
        (lambda: growth([20, 50], [1.0, 2.0]), "at least three sizes"),
        (lambda: growth([20, 50, 50], [1.0, 2.0, 3.0]), "positive and distinct"),
        (lambda: growth([20, 50, 100], [1.0, np.inf, 3.0]), "finite values"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
