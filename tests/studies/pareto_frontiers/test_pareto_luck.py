"""Lucky neurons: exact probabilities against counting and simulation."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

import elegans as el
from elegans import theory


def test_probabilities_of_good_neurons_have_their_reference_values():
    assert float(theory.p_good_over(100, 4, 21)) == pytest.approx(0.0015263, abs=5e-8)
    assert float(theory.p_good_over(50, 2, 9)) == pytest.approx(0.029388, abs=5e-7)
    assert float(theory.p_good_over(50, 4, 17)) == pytest.approx(0.010334, abs=5e-7)
    assert theory.p_good_under(50, 3, 2) == Fraction(3, 1225)
    assert theory.p_good_under(50, 4, 2) == Fraction(6, 1225)
    assert float(theory.p_good_under(100, 4, 2)) == pytest.approx(0.0012121, abs=5e-8)
    assert float(theory.p_good_under(51, 6, 4)) == pytest.approx(6.0024e-5, abs=5e-10)
    low, high = theory.p_good_over_bounds(100, 4, 21)
    assert (float(low), float(high)) == pytest.approx((1.2155e-4, 1.9448e-3), abs=5e-8)


@given(n=st.integers(1, 9), data=st.data())
def test_probabilities_are_shares_of_all_subsets(n, data):
    k = data.draw(st.integers(1, n))
    s = data.draw(st.integers(0, n))
    subsets = list(itertools.combinations(range(n), s))
    support = set(range(k))
    if s >= k:
        assert theory.p_good_over(n, k, s) == Fraction(sum(support <= set(ones) for ones in subsets), len(subsets))
    if s <= k:
        assert theory.p_good_under(n, k, s) == Fraction(sum(support >= set(ones) for ones in subsets), len(subsets))


@given(n=st.integers(2, 200), data=st.data())
def test_bounds_hold(n, data):
    k = data.draw(st.integers(1, n // 2))
    s = data.draw(st.integers(2 * k, n))
    low, high = theory.p_good_over_bounds(n, k, s)
    assert low <= theory.p_good_over(n, k, s) <= high
    t = data.draw(st.integers(0, k))
    low, high = theory.p_good_under_bounds(n, k, t)
    assert low <= theory.p_good_under(n, k, t) <= high


def test_the_product_form_is_the_ratio_of_binomials():
    assert theory.p_good_over(50, 4, 17) == math.prod(Fraction(17 - i, 50 - i) for i in range(4))


def test_drawn_neurons_are_good_as_often_as_they_should_be():
    """Two binomial tests over 50000 neurons drawn as sparse initialisations draw them; fails for 2 seeds in 10^4."""
    for s, p, good in [
        (9, theory.p_good_over(50, 2, 9), lambda rows: (rows < 2).sum(axis=1) == 2),
        (2, theory.p_good_under(50, 4, 2), lambda rows: (rows < 4).all(axis=1)),
    ]:
        rows = el.random.subsets(el.random.stream(0, "init"), rows=50_000, n=50, size=s)
        assert stats.binomtest(int(good(rows).sum()), len(rows), float(p)).pvalue > 1e-4


@given(neurons=st.integers(0, 500), numerator=st.integers(0, 50))
def test_chances_of_any_good_neuron_are_exact(neurons, numerator):
    p = Fraction(numerator, 50)
    assert theory.p_any_good(neurons, p) == pytest.approx(float(1 - (1 - p) ** neurons), rel=1e-12)
    assert theory.expected_good(neurons, p) == neurons * p


def test_tiny_chances_keep_their_precision():
    assert theory.p_any_good(10, Fraction(1, 10**18)) == pytest.approx(1e-17, rel=1e-12)


@given(denominator=st.integers(2, 10**4), exponent=st.integers(1, 9), biases=st.integers(1, 6))
def test_the_stated_number_of_neurons_is_the_smallest_that_is_enough(denominator, exponent, biases):
    p, delta = Fraction(1, denominator), 10.0**-exponent
    enough = theory.neurons_for_any_good(p, delta)
    assert theory.p_any_good(enough, p) >= (1 - delta) * (1 - 1e-12) > 0
    assert theory.p_any_good(enough - 1, p) < 1 - delta
    covered = theory.neurons_for_all_biases(p, biases, delta)
    assert theory.p_all_biases_good(covered, p, biases) >= 1 - delta
    assert theory.p_all_biases_good(covered - 1, p, biases) < 1 - delta
    assert covered >= enough - 1


def test_coverage_of_all_biases_is_that_of_enumeration():
    """All outcomes of 5 neurons that are bad (2/5) or good with one of three biases (1/5 each)."""
    covered = sum(
        math.prod(Fraction(2 if place == 3 else 1, 5) for place in outcome)
        for outcome in itertools.product(range(4), repeat=5)
        if {0, 1, 2} <= set(outcome)
    )
    assert theory.p_all_biases_good(5, Fraction(3, 5), 3) == pytest.approx(float(covered), rel=1e-12)
    assert theory.p_all_biases_good(2, 1, 3) == 0
    assert theory.p_all_biases_good(7, Fraction(1, 3), 1) == pytest.approx(theory.p_any_good(7, Fraction(1, 3)))


def test_the_chance_of_an_r_prime_good_initialisation_is_that_of_simulation():
    """A binomial test over 20000 initialisations; fails for one seed in 10^4."""
    neurons, p, biases, r_prime = 300, 0.1, 3, 10.0
    counts = np.random.default_rng(0).multinomial(neurons, [p / biases] * biases + [1 - p], size=20_000)[:, :biases]
    good = sum(theory.is_r_prime_good(row, r_prime) for row in counts.tolist())
    exact = theory.p_r_prime_good(neurons, p, biases, r_prime)
    assert stats.binomtest(good, len(counts), exact).pvalue > 1e-4


def test_r_prime_good_counts_are_within_a_factor_of_two():
    assert theory.is_r_prime_good([5, 20], 10)
    assert not theory.is_r_prime_good([4, 20], 10)
    assert not theory.is_r_prime_good([5, 21], 10)


@pytest.mark.parametrize("n, k, s", [(50, 2, 9), (50, 4, 17), (100, 4, 33)])
@pytest.mark.parametrize("delta", [0.1, 0.01])
def test_lemma_15_holds_with_the_exact_expectation_and_fails_with_the_printed_one(n, k, s, delta):
    width, p = theory.lemma15_width(n, k, s, delta), theory.p_good_over(n, k, s)
    biases = len(theory.over_sparse_biases(k))
    exact = theory.good_per_bias(n, k, s, width)
    printed = theory.good_per_bias(n, k, s, width, form="printed")
    assert printed >= 10 * math.log(2 * k / delta)
    assert theory.p_r_prime_good(width // 2, p, biases, exact) >= 1 - delta
    assert theory.p_r_prime_good(width // 2, p, biases, printed) < 1e-6
    assert exact > 2.5 * printed


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: theory.p_good_over(50, 4, 3), "s must lie in k..n (Lemma 7): s=3, k=4, n=50"),
        (lambda: theory.p_good_over_bounds(50, 4, 7), "s must lie in 2k..n (Lemma 7): s=7, k=4, n=50"),
        (lambda: theory.p_good_under(50, 4, 5), "s must lie in 0..k (Theorem 21): s=5, k=4"),
        (lambda: theory.p_any_good(3, 1.5), "p must lie between 0 and 1: p=1.5"),
        (lambda: theory.p_any_good(-1, 0.5), "neurons must be at least 0: neurons=-1"),
        (lambda: theory.neurons_for_any_good(0, 0.1), "p must be above 0 and at most 1: p=0"),
        (lambda: theory.lemma15_width(50, 2, 9, 1.0), "delta must lie between 0 and 1 (Lemma 15): delta=1.0"),
    ],
)
def test_numbers_outside_their_range_are_refused(ask, message):
    with pytest.raises(el.errors.TheoryError) as refused:
        ask()
    assert str(refused.value) == message
