"""Predictors of the remaining time, on made-up trials whose remaining times are known."""

import numpy as np
import pytest
from scipy import stats

import elegans as el
from elegans.analysis import predictions, rank_correlation, rank_correlation_interval
from elegans.analysis.prediction import FIXED, HALF, clock, initially, measured
from elegans.training import Outcome

TRIAL = el.Trial(task=el.SparseParity(n=5, k=2), regime=el.Online(), model=el.MLP(width=1), training=el.SGD(steps=1000))


def outcome(seed, solved_at, speed):
    """A trial whose measure grows by ``speed`` a step."""
    steps = list(range(0, 1001, 10))
    measures = {"weight-movement": {"step": steps, "movement": [speed * step for step in steps]}}
    return Outcome(TRIAL.with_seed(seed), "solved", solved_at=solved_at, steps=1000, measures=measures)


def table(outcomes, predictors, steps=()):
    found = predictions(outcomes, predictors, steps=steps, generator=np.random.default_rng(0), resamples=50)
    return found.set_index(["when", "predictor"])


MOVEMENT = measured("weight-movement", "movement")


def test_rank_correlations_are_scipys_whatever_the_ties():
    generator = np.random.default_rng(0)
    x, y = generator.integers(0, 5, (3, 40)), generator.integers(0, 5, 40)
    expected = [stats.spearmanr(row, y).statistic for row in x]
    np.testing.assert_allclose(rank_correlation(x, y), expected, atol=1e-12)
    assert rank_correlation([1, 2, 3], [5, np.inf, np.inf]) == pytest.approx(np.sqrt(3) / 2)
    assert np.isnan(rank_correlation([1, 1], [1, 2]))


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
    outcomes = [outcome(seed, solved_at, speed=1.0) for seed, solved_at in enumerate((200, 300, 500, 800))]
    found = table(outcomes, {"clock": clock, "movement": MOVEMENT}, steps=[100])
    for name in ("clock", "movement"):
        assert found.loc[(HALF, name), "correlation"] == pytest.approx(1)
        assert np.isnan(found.loc[(FIXED, name), "correlation"])


def test_at_a_fixed_step_those_that_move_fast_are_solved_soon():
    """Speed is 1/time: at any step the movement orders the trials; the initial movement is 0 for all."""
    outcomes = [outcome(seed, time, speed=1 / time) for seed, time in enumerate((200, 300, 500, 800))]
    found = table(outcomes, {"movement": MOVEMENT, "before": initially(MOVEMENT)}, steps=[100])
    assert found.loc[(FIXED, "movement"), "correlation"] == pytest.approx(-1)
    assert np.isnan(found.loc[(FIXED, "before"), "correlation"])
    assert np.isnan(found.loc[(HALF, "before"), "correlation"])


def test_solved_trials_have_no_place_at_a_later_step_and_unsolved_ones_rank_as_slowest():
    times = [200, 300, 500, None]
    outcomes = [outcome(seed, time, speed=1 / (time or 2000)) for seed, time in enumerate(times)]
    found = table(outcomes, {"movement": MOVEMENT}, steps=[300])
    assert found.loc[(HALF, "movement"), ["trials", "censored"]].tolist() == [3, 0]
    assert found.loc[(FIXED, "movement"), ["trials", "censored"]].tolist() == [2, 1]
    assert found.loc[(FIXED, "movement"), "correlation"] == pytest.approx(-1)


def test_a_predictor_sees_nothing_that_comes_later():
    one = outcome(0, 800, speed=1.0)
    assert MOVEMENT(one, 99) == 90 and MOVEMENT(one, 100) == 100
    assert initially(MOVEMENT)(one, 100) == 0
