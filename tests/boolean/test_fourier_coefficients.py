"""Majorities, halves and thresholds: closed forms against enumeration."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

import elegans as el
from elegans import theory


def enumerated(function, n):
    """All Fourier coefficients of a function of the sum of signs, one for each degree, exactly."""
    sums = theory.sign_table(n).sum(axis=1, dtype=np.int64)
    transformed = theory.walsh_hadamard(function(sums))
    return [Fraction(int(transformed[(1 << degree) - 1]), 2**n) for degree in range(n + 1)]


def sign(sums, tie=0):
    return np.where(sums == 0, tie, np.sign(sums))


@pytest.mark.parametrize("n", range(1, 16))
@pytest.mark.parametrize("tie", [-1, 0, 1])
def test_majority_coefficients_are_those_of_enumeration(n, tie):
    assert [theory.majority_coefficient(n, d, tie) for d in range(n + 1)] == enumerated(lambda sums: sign(sums, tie), n)


@pytest.mark.parametrize("n", range(0, 15, 2))
def test_half_coefficients_are_those_of_enumeration_and_of_the_next_majority(n):
    closed = [theory.half_coefficient(n, d) for d in range(n + 1)]
    assert closed == enumerated(lambda sums: sums == 0, n)
    assert closed == [theory.majority_coefficient(n + 1, d + 1) for d in range(n + 1)]


@given(n=st.integers(1, 40), data=st.data())
def test_symmetric_coefficients_agree_with_the_closed_form_at_any_size(n, data):
    degree = data.draw(st.integers(0, n))
    values = [int(np.sign(n - 2 * a)) for a in range(n + 1)]
    assert theory.symmetric_coefficient(values, degree) == theory.majority_coefficient(n, degree)


@pytest.mark.parametrize("n", range(1, 40, 2))
def test_majority_weights_sum_to_one(n):
    assert sum(theory.majority_weight(n, d) for d in range(n + 1)) == 1


@given(half=st.integers(2, 40), data=st.data())
def test_neighbouring_majority_coefficients_have_the_exact_ratio_and_opposite_signs(half, data):
    n = 2 * half + 1
    degree = 2 * data.draw(st.integers(0, half - 1)) + 1
    ratio = theory.majority_coefficient(n, degree + 2) / theory.majority_coefficient(n, degree)
    assert ratio == -theory.majority_ratio(n, degree)


def test_limit_weights_sum_to_one_and_start_at_two_over_pi():
    weights = [theory.limit_weight(d) for d in range(1, 1001, 2)]
    assert weights[0] == pytest.approx(2 / math.pi, rel=1e-15)
    # the tail beyond d falls as d^(-1/2) times (2 / pi)^(3/2)
    assert sum(weights) + (2 / math.pi) ** 1.5 / math.sqrt(1000) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("degree", [1, 3, 5, 9])
def test_majority_weights_fall_towards_the_corrected_limit(degree):
    weights = [float(theory.majority_weight(n, degree)) for n in (21, 51, 101, 1001)]
    assert weights == sorted(weights, reverse=True)
    assert weights[-1] > theory.limit_weight(degree)
    assert weights[-1] == pytest.approx(theory.limit_weight(degree), rel=0.05)


def test_the_printed_upper_bound_on_weights_fails_at_every_finite_size():
    for n in range(5, 60, 2):
        for degree in range(1, min(n - 1, 12), 2):
            weight = float(theory.majority_weight(n, degree))
            assert weight >= theory.limit_weight(degree, "printed")  # the lower bound is true
            assert weight > 2 * theory.limit_weight(degree, "printed")  # the upper bound, <=, is not
    assert float(theory.majority_weight(17, 3)) == pytest.approx(0.11655, abs=5e-6)
    assert 2 * theory.limit_weight(3, "printed") == pytest.approx(0.10610, abs=5e-6)


@given(data=st.data(), n=st.integers(2, 9))
def test_two_level_thresholds_agree_with_enumeration_ties_included(data, n):
    s = data.draw(st.integers(0, n))
    epsilon = Fraction(data.draw(st.integers(0, 12)), data.draw(st.integers(1, 30)))
    bias = Fraction(data.draw(st.integers(-8, 8)), data.draw(st.integers(1, 10)))
    degrees = data.draw(st.integers(0, s)), data.draw(st.integers(0, n - s))
    x = theory.sign_table(n).astype(object)
    weight = np.array([Fraction(1)] * s + [epsilon] * (n - s), dtype=object)
    active = np.array([total + bias > 0 for total in x @ weight])
    members = [*range(degrees[0]), *range(s, s + degrees[1])]
    mean = Fraction(int(theory.walsh_hadamard(active)[theory.set_index(members)]), 2**n)
    assert theory.two_level_coefficient(n, s, degrees, epsilon=epsilon, bias=bias) == mean


def test_two_level_ties_are_exact_where_rounding_would_break_them():
    """With epsilon = 0.1 in floating point, 0.1 + 0.1 + 0.1 - 0.1 - 0.1 - 0.1 is not 0."""
    assert theory.two_level_coefficient(8, 2, (2, 1), epsilon=0.1) == theory.two_level_coefficient(
        8, 2, (2, 1), epsilon=Fraction(1, 10)
    )


@given(n=st.integers(0, 10), lead=st.integers(1, 3), seed=st.integers(0, 1000))
def test_the_fast_transform_is_its_own_inverse_and_keeps_the_norm(n, lead, seed):
    values = np.random.default_rng(seed).integers(-9, 10, (lead, 2**n))
    once = theory.walsh_hadamard(values)
    assert np.array_equal(theory.walsh_hadamard(once), values * 2**n)
    assert np.array_equal((once**2).sum(axis=-1), (values**2).sum(axis=-1) * 2**n)


def test_the_fast_transform_agrees_with_the_definition():
    x = theory.sign_table(5).astype(np.int64)
    values = np.asfortranarray(np.random.default_rng(0).normal(size=(3, 32)))
    for members in [(), (0,), (1, 4), (0, 2, 3)]:
        slow = (values * x[:, list(members)].prod(axis=1)).mean(axis=1)
        assert theory.fourier_coefficients(values)[:, theory.set_index(members)] == pytest.approx(slow)


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: theory.half_coefficient(3, 2), "n must be even (Lemma 17, Half): n=3"),
        (lambda: theory.majority_coefficient(5, 6), "degree must lie in 0..n: degree=6, n=5"),
        (lambda: theory.majority_coefficient(4, 2, tie=2), "tie must be -1, 0 or 1: tie=2"),
        (lambda: theory.majority_ratio(4, 1), "n must be odd (Lemma 17, Maj): n=4"),
        (lambda: theory.majority_weight(4, 1), "n must be odd (Lemma 8): n=4"),
        (lambda: theory.limit_weight(2), "degree must be odd (Lemma 8): degree=2"),
        (lambda: theory.limit_weight(3, "half"), "form must be one of corrected, printed: form=half"),
        (lambda: theory.krawtchouk(3, 1, 4), "minus_ones must lie in 0..n: minus_ones=4, n=3"),
        (lambda: theory.walsh_hadamard([1, 2, 3]), "a table of a function must have 2^n values: size=3"),
        (lambda: theory.sign_table(25), "n must be at most 24 for a table of all inputs: n=25"),
    ],
)
def test_what_lies_outside_the_domain_is_refused_with_rule_and_value(ask, message):
    with pytest.raises(el.errors.TheoryError) as refused:
        ask()
    assert str(refused.value) == message
