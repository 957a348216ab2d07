"""Predictors of the remaining time, on made-up trials whose remaining times are known."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from elegans.analysis import predictions, rank_correlation, rank_correlation_interval
from elegans.analysis.prediction import FIXED, HALF, clock, initially, measured


def table(times, speeds, predictors, steps=()):
    """Return the predictions for trials whose measure grows by a trial's ``speed`` per step."""
    found = predictions(
        pd.DataFrame({"solved_at": times}, dtype=float),
        movements(speeds),
        predictors,
        steps=steps,
        generator=np.random.default_rng(0),
        resamples=50,
    )
    return found.set_index(["when", "predictor"])


def movements(speeds):
    steps = np.arange(0, 1001, 10)
    trials = [pd.DataFrame({"trial": i, "step": steps, "movement": speed * steps}) for i, speed in enumerate(speeds)]
    return {"weight-movement": pd.concat(trials, ignore_index=True)}


MOVEMENT = measured("weight-movement", "movement")


def test_rank_correlations_are_scipys_whatever_the_ties():
    generator = np.random.default_rng(0)
    x, y = generator.integers(0, 5, (3, 40)), generator.integers(0, 5, 40)
    expected = [stats.spearmanr(row, y).statistic for row in x]
    np.testing.assert_allclose(rank_correlation(x, y), expected, atol=1e-12)
    assert rank_correlation([1, 2, 3], [5, np.inf, np.inf]) == pytest.approx(np.sqrt(3) / 2)
    assert np.isnan(rank_correlation([1, 1], [1, 2]))


@pytest.mark.slow
def test_the_interval_covers_the_true_correlation_as_often_as_it_says():
    """Normal pairs with a Pearson correlation of 0.6, whose Spearman's is (6 / pi) asin(0.3) = 0.5826; 200 samples of
    100, nominal coverage 95%: 180 or fewer cover with probability 0.002 at exact coverage."""
    generator = np.random.default_rng(1)
    truth, covered = 6 / np.pi * np.arcsin(0.3), 0
    for _ in range(200):
        x = generator.normal(size=100)
        y = 0.6 * x + 0.8 * generator.normal(size=100)
        low, high = rank_correlation_interval(x, y, generator=generator, resamples=300)
        covered += low <= truth <= high
    assert 181 <= covered < 200


@pytest.mark.parametrize(
    ("options", "message"),
    [({"confidence": 1.0}, "confidence must lie between 0 and 1: confidence=1.0"), ({"resamples": 0}, "resamples=0")],
)
def test_intervals_refuse_what_is_none(options, message):
    with pytest.raises(ValueError, match=message):
        rank_correlation_interval(np.arange(3.0), np.arange(3.0), generator=np.random.default_rng(0), **options)


def test_at_half_of_the_time_a_clock_knows_all_and_at_a_fixed_step_nothing():
    found = table((200, 300, 500, 800), np.ones(4), {"clock": clock, "movement": MOVEMENT}, steps=[100])
    for name in ("clock", "movement"):
        assert found.loc[(HALF, name), "correlation"] == pytest.approx(1)
        assert np.isnan(found.loc[(FIXED, name), "correlation"])


def test_at_a_fixed_step_those_that_move_fast_are_solved_soon():
    """Speed is 1/time: at any step the movement orders the trials; the initial movement is 0 for all."""
    times = np.array([200, 300, 500, 800])
    found = table(times, 1 / times, {"movement": MOVEMENT, "before": initially(MOVEMENT)}, steps=[100])
    assert found.loc[(FIXED, "movement"), "correlation"] == pytest.approx(-1)
    assert np.isnan(found.loc[(FIXED, "before"), "correlation"])
    assert np.isnan(found.loc[(HALF, "before"), "correlation"])


def test_solved_trials_have_no_place_at_a_later_step_and_unsolved_ones_rank_as_slowest():
    found = table((200, 300, 500, None), 1 / np.array([200, 300, 500, 2000]), {"movement": MOVEMENT}, steps=[300])
    assert found.loc[(HALF, "movement"), ["trials", "censored"]].tolist() == [3, 0]
    assert found.loc[(FIXED, "movement"), ["trials", "censored"]].tolist() == [2, 1]
    assert found.loc[(FIXED, "movement"), "correlation"] == pytest.approx(-1)


def test_a_predictor_sees_nothing_that_comes_later():
    measures, at = movements([1.0, 2.0]), pd.Series([99, 100])
    assert MOVEMENT(measures, at).tolist() == [90, 200]
    assert MOVEMENT(measures, at.iloc[[1]]).tolist() == [200]
    assert initially(MOVEMENT)(measures, at).tolist() == [0, 0]
