"""Intervals and censored medians."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elegans.analysis import median, median_interval, wilson


@st.composite
def counts(draw):
    trials = draw(st.integers(1, 500))
    return draw(st.integers(0, trials)), trials


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (0, 20, 0.0, 0.16112),
        (20, 20, 0.83888, 1.0),
        (10, 20, 0.29930, 0.70070),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_wilson_gives_the_published_values(successes, trials, low, high):
    """81 of 263 is the example of Newcombe (1998), table I, to the digits printed there (0.2553, 0.3662)."""
    assert wilson(successes, trials) == pytest.approx((low, high), abs=6e-5)


@given(counts())
def test_wilson_solves_its_quadratic(count):
    successes, trials = count
    rate = successes / trials
    for end in wilson(successes, trials):
        spread = 1.959963984540054 * math.sqrt(end * (1 - end) / trials)
        assert abs(rate - end) == pytest.approx(spread, abs=1e-9)


@given(counts())
def test_wilson_of_failures_mirrors_that_of_successes(count):
    successes, trials = count
    low, high = wilson(successes, trials)
    assert wilson(trials - successes, trials) == pytest.approx((1 - high, 1 - low), abs=1e-12)
    assert 0 <= low <= successes / trials <= high <= 1


def test_wilson_takes_arrays_and_knows_nothing_without_trials():
    low, high = wilson([0, 3, 0], [5, 5, 0])
    np.testing.assert_allclose(low[:2], [0, wilson(3, 5)[0]])
    assert np.isnan(low[2]) and np.isnan(high[2])


@pytest.mark.parametrize(("successes", "trials", "confidence"), [(6, 5, 0.95), (-1, 5, 0.95), (1, 5, 0), (1, 5, 1)])
def test_wilson_refuses_what_is_no_count_or_no_probability(successes, trials, confidence):
    with pytest.raises(ValueError, match="must lie"):
        wilson(successes, trials, confidence)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([200, 400, 600], 400),
        ([200, 400, math.nan], 400),
        ([200, 400, 600, math.inf], 500),
        ([200, 400, math.nan, math.inf], math.nan),
        ([200, math.nan, math.nan], math.nan),
        ([], math.nan),
    ],
)
def test_median_counts_unsolved_trials_as_infinite(times, expected):
    assert median(np.array(times, float)) == pytest.approx(expected, nan_ok=True)


def test_median_interval_has_the_tabulated_ranks():
    """For 20 trials the 95% interval runs from the 6th to the 15th, for 5 there is none (Conover, table)."""
    times = np.arange(1.0, 21.0)
    assert median_interval(times) == (6, 15)
    assert median_interval(times[:5]) == (0, math.inf)
    assert median_interval(np.where(times > 12, np.nan, times)) == (6, math.inf)


def test_median_interval_covers_the_median():
    """10^4 exponential samples of 20: true coverage 95.86%; a correct interval fails with probability below 1e-5."""
    samples = np.random.default_rng(0).exponential(size=(10_000, 20))
    covered = [low <= math.log(2) <= high for low, high in map(median_interval, samples)]
    assert 0.949 < np.mean(covered) < 0.968
