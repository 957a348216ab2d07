"""Intervals and censored medians."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from elegans.analysis import bootstrap_interval, median, median_interval, quantile, wilson
from elegans.analysis.intervals import mean_interval, mean_intervals
from elegans.errors import AnalysisError


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


@given(counts(), st.floats(0.01, 0.999))
def test_wilson_is_that_of_statsmodels(count, confidence):
    expected = proportion_confint(*count, alpha=1 - confidence, method="wilson")
    assert wilson(*count, confidence) == pytest.approx(expected, abs=1e-12)


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


@given(st.lists(st.floats(1, 1e5) | st.just(math.inf), min_size=1, max_size=30), st.integers(0, 1000))
def test_a_quantile_interpolates_between_trials_the_unsolved_last(times, share):
    share = share / 1000
    found = quantile(times, share)
    with np.errstate(invalid="ignore"):
        expected = np.quantile(np.minimum(times, 1e300), share)
    assert math.isnan(found) if expected > 1e6 else found == pytest.approx(expected)


def test_quantiles_of_many_groups_are_those_of_each():
    times = np.array([[30.0, 10.0, 20.0], [5.0, math.nan, 7.0]])
    assert quantile(times, 0.5) == pytest.approx([20, 7])
    assert quantile(times, 1.0)[0] == 30 and math.isnan(quantile(times, 1.0)[1])


def test_the_bootstrap_interval_of_a_median_covers_it():
    """200 data sets of 25 log-normal times: 95% nominal, with 5 standard errors and what percentiles miss."""
    source, covered = np.random.default_rng(5), 0
    for _ in range(200):
        low, high = bootstrap_interval(np.exp(source.normal(size=25)), generator=source, resamples=200)
        covered += low <= 1 <= high
    assert 0.86 < covered / 200 <= 1


def test_a_bootstrap_interval_goes_to_infinity_where_too_few_trials_are_solved():
    times = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, math.nan, math.nan, math.nan, math.nan]
    low, high = bootstrap_interval(times, generator=np.random.default_rng(0))
    assert 1 <= low <= 5 and high == math.inf


@pytest.mark.parametrize(
    ("times", "settings", "message"),
    [
        ([], {}, "trials=0"),
        ([1.0], {"share": 1.5}, "share=1.5"),
        ([1.0], {"resamples": 0}, "resamples=0"),
        ([1.0], {"confidence": 1}, "confidence=1"),
    ],
)
def test_what_has_no_bootstrap_interval_is_refused(times, settings, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(times, generator=np.random.default_rng(0), **settings)


def test_a_time_of_minus_infinity_is_refused():
    for statistic in (median, median_interval, lambda times: quantile(times, 0.5)):
        with pytest.raises(AnalysisError, match="a time must not be minus infinity"):
            statistic([1.0, -np.inf])


def test_intervals_of_means_are_students():
    generator = np.random.default_rng(3)
    groups = [generator.normal(3, 2, size) for size in (2, 5, 30)]
    count = np.array([len(one) for one in groups])
    total, squares = (np.array([(one**power).sum() for one in groups]) for power in (1, 2))
    mean, low, high = mean_intervals(count, total, squares, 0.9)
    expected = [stats.t.interval(0.9, len(one) - 1, one.mean(), stats.sem(one)) for one in groups]
    assert mean == pytest.approx([one.mean() for one in groups])
    assert np.stack([low, high], axis=1) == pytest.approx(np.array(expected))


@pytest.mark.parametrize("shape", [(7,), (7, 2)])
def test_the_interval_of_a_mean_is_students_for_each_entry_of_arrays(shape):
    values = np.random.default_rng(0).normal(2, 3, shape)
    expected = stats.t.interval(0.9, 6, values.mean(axis=0), stats.sem(values))
    assert np.array(mean_interval(values, 0.9)) == pytest.approx(np.array(expected))


@pytest.mark.parametrize("values", [[1.0], [], [1.0, np.nan], [1.0, np.inf]])
def test_the_interval_of_a_mean_needs_two_finite_numbers(values):
    with pytest.raises(AnalysisError, match="two or more finite numbers"):
        mean_interval(values)


def test_the_mean_of_one_number_has_no_finite_interval_and_none_has_no_mean():
    mean, low, high = mean_intervals(np.array([1, 0]), np.array([2.5, 0.0]), np.array([6.25, 0.0]))
    assert (mean[0], low[0], high[0]) == (2.5, -math.inf, math.inf)
    assert np.isnan([mean[1], low[1], high[1]]).all()
