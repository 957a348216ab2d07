"""Intervals of differences: as published, paired where trials are, and with the coverage that they claim."""

import numpy as np
import pytest

from elegans.analysis import bootstrap_difference, newcombe
from elegans.analysis.differences import _correlation, _middles
from elegans.analysis.intervals import median, median_interval, median_intervals, medians
from elegans.errors import AnalysisError


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [  # Newcombe (1998), "Interval estimation for the difference between independent proportions", table II, method 10
        ((56, 70), (48, 80), (0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.1705, 0.8090)),
        ((10, 10), (0, 20), (0.6791, 1.0000)),
        ((10, 10), (0, 10), (0.6075, 1.0000)),
    ],
)
def test_the_difference_of_two_shares_is_as_published(first, second, expected):
    assert newcombe(first, second) == pytest.approx(expected, abs=6e-5)


def test_the_difference_of_paired_shares_is_as_published():
    # Newcombe (1998), "… based on paired data", table I: 36 both, 12 first only, 2 second only, 0 neither; method 10
    low, high = newcombe((48, 50), (38, 50), both=36)
    assert (low, high) == pytest.approx((0.0569, 0.3404), abs=6e-5)


def test_an_interval_of_pairs_that_agree_is_narrower():
    paired, unpaired = newcombe((30, 50), (20, 50), both=20), newcombe((30, 50), (20, 50))
    assert unpaired[0] < paired[0] < 0.2 < paired[1] < unpaired[1]


def test_the_correlation_of_pairs_is_corrected_for_continuity():
    """20 both, 10 first only, 20 neither: (20 x 20 - 50 / 2) / sqrt(30 x 20 x 20 x 30) = 375 / 600."""
    assert _correlation(20, 10, 0, 20) == pytest.approx(0.625)
    assert _correlation(1, 0, 0, 1) == 0.0  # 1 - 2 / 2


def test_the_median_of_an_even_number_lies_between_the_two_in_the_middle():
    assert _middles(np.array([[1.0, 10, 2, 3], [5, 5, np.nan, 7]]), "median").tolist() == [2.5, 6.0]


def test_sides_that_change_places_change_the_sign():
    low, high = newcombe((12, 40), (30, 35))
    assert newcombe((30, 35), (12, 40)) == pytest.approx((-high, -low))


def test_a_side_without_trials_has_no_interval():
    assert np.isnan(newcombe((0, 0), (3, 5))).all()


@pytest.mark.parametrize(("second", "both"), [((3, 6), 1), ((3, 5), 4), ((4, 5), 1)])
def test_pairs_that_cannot_be_are_refused(second, both):
    with pytest.raises(AnalysisError, match="paired samples must have the same number of trials"):
        newcombe((3, 5), second, both=both)


@pytest.mark.parametrize("of", ["mean", "median"])
def test_equal_pairs_differ_by_nothing(of):
    values = np.array([3.0, 5.0, 9.0, 2.0])
    drawn = {"generator": np.random.default_rng(0), "paired": True}
    assert bootstrap_difference(values, values, of=of, **drawn) == (0, 0)


def test_medians_that_are_both_infinite_widen_both_ends():
    unsolved = np.full(9, np.nan)
    assert bootstrap_difference(unsolved, unsolved, generator=np.random.default_rng(0)) == (-np.inf, np.inf)
    low, high = bootstrap_difference(np.full(9, 5.0), unsolved, generator=np.random.default_rng(0))
    assert (low, high) == (-np.inf, -np.inf)


@pytest.mark.parametrize("paired", [False, True])
def test_the_bootstrap_covers_the_difference_of_means_about_as_often_as_it_says(paired):
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        shared = generator.normal(size=40) if paired else 0
        first, second = shared + generator.normal(1, 1, 40), shared + generator.normal(0, 1, 40)
        drawn = {"generator": generator, "paired": paired, "resamples": 300}
        low, high = bootstrap_difference(first, second, of="mean", **drawn)
        covered += low <= 1 <= high
    assert covered >= 180  # with coverage 0.93 less than once in 20 such tests


def test_many_medians_at_once_are_those_of_each_group():
    generator = np.random.default_rng(2)
    groups = [
        np.where(generator.random(n) < 0.6, generator.integers(1, 50, n), np.inf) for n in (0, 1, 2, 5, 9, 20, 31)
    ]
    groups.append(generator.integers(1, 50, 30) * 1.0)  # all solved: both ends are finite
    solved = [np.sort(group[np.isfinite(group)]) for group in groups]
    given = np.concatenate(solved), np.array([len(one) for one in solved]), np.array([len(one) for one in groups])
    assert medians(*given) == pytest.approx([median(group) for group in groups], nan_ok=True)
    low, high = median_intervals(*given)
    assert list(zip(low, high, strict=True)) == [median_interval(group) for group in groups]


@pytest.mark.parametrize(("of", "value"), [("median", -np.inf), ("mean", -np.inf), ("mean", np.inf), ("mean", np.nan)])
def test_numbers_that_have_no_difference_are_refused(of, value):
    for first, second in (([1.0, value], [1.0]), ([1.0], [1.0, value])):
        rule = {"median": "a time must not be minus infinity", "mean": "a number must be finite for a mean"}[of]
        with pytest.raises(AnalysisError, match=f"{rule}: {value}"):
            bootstrap_difference(first, second, of=of, generator=np.random.default_rng(0))


def test_a_statistic_of_another_name_is_refused():
    with pytest.raises(AnalysisError, match="of must be median or mean: of='middle'"):
        bootstrap_difference([1.0], [2.0], of="middle", generator=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"confidence": 1.0}, "confidence must lie between 0 and 1: confidence=1.0"),
        ({"resamples": 0}, "resamples must be at least 1: resamples=0"),
        ({"second": []}, "a bootstrap must have at least one trial on either side: 2, 0"),
        ({"paired": True}, "paired samples must have the same number of trials: 2, 3"),
    ],
)
def test_a_bootstrap_that_cannot_be_is_refused(change, message):
    given = {"first": [1.0, 2.0], "second": [1.0, 2.0, 3.0], "generator": np.random.default_rng(0)} | change
    with pytest.raises(AnalysisError, match=message):
        bootstrap_difference(given.pop("first"), given.pop("second"), **given)
