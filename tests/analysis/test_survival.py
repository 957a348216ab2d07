"""Times to solve with censoring."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from elegans.analysis import kaplan_meier, median

# weeks in remission under 6-mercaptopurine, + for censored: Freireich et al. (1963), as in Cox and Oakes (1984)
REMISSION = [6, 6, 6, 7, 10, 13, 16, 22, 23]
CENSORED = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]


def test_the_published_example_is_reproduced():
    """Freireich's 21 patients: S = 0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448; the median is 23 weeks."""
    times = np.array(REMISSION + [math.nan] * 12)
    found = kaplan_meier(times, censored_at=np.array([0] * 9 + CENSORED))
    assert found.table["unsolved"].round(3).tolist() == [0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448]
    assert found.table["at_risk"].tolist() == [21, 17, 15, 12, 11, 7, 6]
    assert (found.median, found.trials, found.censored) == (23, 21, 12)
    assert (found.low, found.high) == (13, math.inf)
    # R, survival::survfit(conf.type = "log-log") at 6 and 23 weeks
    assert found.table.loc[[0, 6], ["low", "high"]].to_numpy().round(3).tolist() == [[0.620, 0.952], [0.188, 0.680]]


@pytest.mark.slow
@given(
    st.lists(st.one_of(st.integers(1, 50).map(lambda step: 200.0 * step), st.just(math.nan)), min_size=1, max_size=40)
)
def test_the_median_is_the_plain_one_where_all_unsolved_trials_were_stopped_at_the_end(times):
    found = kaplan_meier(np.array(times), censored_at=20_000)
    assert found.median == pytest.approx(median(np.array(times)), nan_ok=True)
    assert kaplan_meier(np.array(times)).median == pytest.approx(found.median, nan_ok=True)
    assert found.censored == sum(map(math.isnan, times))


def test_trials_stopped_early_do_not_count_as_slow():
    """Two of six were stopped at step 1, before any could be solved: they say nothing."""
    times = np.array([100, 200, 300, 400, math.nan, math.nan])
    assert kaplan_meier(times, censored_at=1).median == median(times[:4]) == 250
    assert math.isfinite(median(times)) and median(times) == 350


@pytest.mark.slow
def test_the_interval_of_the_median_covers_it():
    """2000 sets of 30 exponential times, censored at uniform times: 95% nominal; measured, with 5 standard errors."""
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        time, stop = generator.exponential(size=30), generator.uniform(0, 3, 30)
        found = kaplan_meier(np.where(time <= stop, time, np.nan), censored_at=stop)
        covered += found.low <= math.log(2) <= found.high
    assert 0.925 < covered / 2000 < 0.975


def test_nothing_solved_has_no_median():
    found = kaplan_meier(np.array([math.nan] * 3), censored_at=100)
    assert found.table.empty and math.isnan(found.median) and (found.low, found.high) == (0, math.inf)


@pytest.mark.parametrize(
    ("times", "stop", "confidence", "message"),
    [
        ([], None, 0.95, "at least one trial: trials=0"),
        ([-1.0], None, 0.95, "at least 0: -1.0"),
        ([math.nan], math.nan, 0.95, "must be known"),
        ([1.0], None, 1.0, "confidence must lie between 0 and 1: confidence=1.0"),
    ],
)
def test_what_is_no_time_is_refused(times, stop, confidence, message):
    with pytest.raises(ValueError, match=message):
        kaplan_meier(np.array(times), stop, confidence)
