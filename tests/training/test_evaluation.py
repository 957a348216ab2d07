"""The lazy decision is exact, whatever it skips."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import elegans as el
from elegans.training.evaluation import StoppingChecks, error_rate


class Counted:
    """Networks whose mistakes are given, and how many examples were looked at."""

    def __init__(self, mistakes):
        self.mistakes, self.looked_at = np.asarray(mistakes), 0

    def __call__(self, index):
        self.looked_at += index.size
        return np.take_along_axis(self.mistakes, index.astype(np.int64), axis=1)


@given(data=st.data(), examples=st.integers(1, 300), error=st.floats(0, 0.99), trials=st.integers(1, 3))
def test_the_decision_is_that_of_a_full_count_every_time(data, examples, error, trials):
    success = el.StoppingRule(error=error, examples=examples)
    held_out = StoppingChecks(trials, success)
    for _ in range(3):
        rates = data.draw(st.lists(st.floats(0, 1), min_size=trials, max_size=trials))
        rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
        mistakes = rng.random((trials, examples)) < np.array(rates)[:, None]
        decided = held_out.decide(Counted(mistakes))
        assert np.array_equal(decided, mistakes.sum(axis=1) <= success.allowed)
        assert held_out.error(Counted(mistakes)) == pytest.approx(mistakes.mean(axis=1))
        assert np.array_equal(np.sort(held_out.order, axis=1), np.tile(np.arange(examples), (trials, 1)))


def test_the_allowed_mistakes_are_exact_at_the_threshold():
    success = el.StoppingRule(error=0.1, examples=1000)
    assert success.allowed == 100
    for count, solved in [(100, True), (101, False)]:
        mistakes = np.zeros((1, 1000), bool)
        mistakes[0, -count:] = True
        assert StoppingChecks(1, success).decide(Counted(mistakes)).tolist() == [solved]


def test_a_network_at_chance_is_settled_by_little_more_than_the_allowed_mistakes():
    held_out = StoppingChecks(1, el.StoppingRule())
    network = Counted(np.random.default_rng(0).random((1, 10_000)) < 0.5)
    held_out.decide(network)
    first = network.looked_at
    held_out.decide(network)
    assert first < 2500
    assert network.looked_at - first < 1200


@pytest.mark.parametrize("examples", [1, 100, 5000])
def test_error_rates_are_exact(examples):
    mistakes = np.random.default_rng(1).random((2, examples)) < 0.3
    assert error_rate(Counted(mistakes), 2, examples) == pytest.approx(mistakes.mean(axis=1))
