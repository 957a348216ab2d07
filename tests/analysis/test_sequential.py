"""A sequential test of a rate against a level: exact error rates, curtailment."""

from itertools import product

import numpy as np
import pytest

from elegans.analysis import SequentialTest, wilson
from elegans.analysis.sequential import _clear, _passage


def ended(test, outcomes):
    """Follow outcomes one by one and return where the test ends, and with what verdict."""
    for trials in range(len(outcomes) + 1):
        solved = sum(outcomes[:trials])
        if test.wait(solved, trials) == 0:
            return trials, test.verdict(solved, trials)
    raise AssertionError("a test ends within its trials")


@pytest.mark.slow
def test_error_rates_are_those_of_every_path():
    """All 2^12 paths, each weighted by its probability."""
    test = SequentialTest(maximum=12)
    for rate in (0.3, 0.5, 0.65):
        found = {"below": 0.0, "above": 0.0, "undecided": 0.0}
        for path in product((0, 1), repeat=12):
            found[ended(test, path)[1]] += rate ** sum(path) * (1 - rate) ** (12 - sum(path))
        assert test.probabilities(rate) == pytest.approx((found["below"], found["above"]))


@pytest.mark.parametrize("level", [0.3, 0.5, 0.6])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("maximum", [20, 50])
def test_neither_wrong_verdict_is_likelier_than_was_asked(level, confidence, maximum):
    test = SequentialTest(level, confidence, maximum)
    assert max(test.error) <= 1 - confidence
    below = [test.probabilities(rate)[0] for rate in np.linspace(level, 1, 7)]
    assert below == sorted(below, reverse=True)


def test_the_plain_99_percent_interval_misleads_more_often_when_it_is_looked_at_after_every_trial():
    assert max(_passage(_clear(0.5, (0.99, 0.99), 20), 0.5)) == pytest.approx(0.0184, abs=1e-4)
    test = SequentialTest()
    assert min(test.nominal) > 0.99
    assert max(test.error) == pytest.approx(0.0092, abs=1e-4)


def test_a_verdict_means_that_the_99_percent_interval_is_clear_of_the_level():
    test = SequentialTest()
    for trials in range(1, 21):
        for solved in range(trials + 1):
            low, high = wilson(solved, trials, 0.99)
            if test.verdict(solved, trials) != "undecided":
                assert low > 0.5 or high < 0.5


@pytest.mark.slow
def test_curtailment_saves_trials_and_changes_no_verdict():
    """10^3 paths at each of three rates: the verdict is that of a test that goes on to the end."""
    test, generator = SequentialTest(), np.random.default_rng(0)
    for rate in (0.2, 0.5, 0.8):
        for path in generator.random((1000, 20)) < rate:
            counts = [(int(path[:trials].sum()), trials) for trials in range(1, 21)]
            whole = next((v for v in (test.verdict(*each) for each in counts) if v != "undecided"), "undecided")
            assert ended(test, path.astype(int).tolist())[1] == whole
    assert ended(test, [0, 1] * 10) == (8, "undecided")


def test_waiting_is_the_least_number_of_trials_until_the_test_may_end():
    test = SequentialTest()
    assert (test.wait(0, 0), test.wait(0, 7), test.wait(0, 8)) == (8, 1, 0)
    for trials in range(20):
        for solved in range(trials + 1):
            if wait := test.wait(solved, trials):
                assert wait == 1 + min(test.wait(solved + one, trials + 1) for one in (0, 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": 0}, "level must lie between 0 and 1: level=0"),
        ({"level": 1.5}, "level must lie between 0 and 1: level=1.5"),
        ({"confidence": 1}, "confidence must lie between 0 and 1: confidence=1"),
        ({"maximum": 6}, "there must be enough trials to tell a rate of 0 or 1 from 0.5 at 0.99: trials=6"),
    ],
)
def test_what_is_no_test_is_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        SequentialTest(**arguments)
