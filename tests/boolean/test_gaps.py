"""Fourier gaps of the majority and of thresholds: closed forms, their domain, and what is printed of them."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import elegans as el
from elegans import theory

ODD = range(3, 400, 2)


def majority_table(n):
    return np.sign(theory.sign_table(n).sum(axis=1, dtype=np.int64))


@pytest.mark.parametrize(
    ("n", "values"),
    [
        (5, [0.375, -0.125, 0.375]),
        (7, [0.3125, -0.0625, 0.0625, -0.3125]),
        (15, [0.20947265625, -0.01611328125, 0.00439453125, -0.00244140625]),
    ],
)
def test_the_majority_of_a_few_signs_has_these_coefficients(n, values):
    assert [theory.majority_coefficient(n, degree) for degree in range(1, 2 * len(values), 2)] == values


@pytest.mark.parametrize("n", [5, 9, 11])
def test_the_majority_gap_is_that_of_its_table_at_every_support(n):
    table = theory.fourier_coefficients(majority_table(n))
    for k in range(2, n, 2):
        for support in itertools.islice(itertools.combinations(range(n), k), 0, None, 7):
            correlations = theory.gap_correlations(table, support)
            assert theory.strict_gap(correlations, support) == theory.majority_gap(n, k)
            assert theory.relaxed_gap(correlations, support) == theory.majority_gap(n, k)


@pytest.mark.parametrize(
    ("n", "k", "ratio"),
    [(15, 2, 13), (31, 2, 29), (15, 4, Fraction(11, 3)), (31, 4, 9)],
)
def test_the_coefficients_on_both_sides_of_a_gap_have_this_ratio(n, k, ratio):
    assert 1 / theory.majority_ratio(n, k - 1) == ratio == Fraction(n - k, k - 1)
    lower = abs(theory.majority_coefficient(n, k + 1))
    assert theory.majority_gap(n, k) == lower * Fraction(n - 2 * k + 1, k - 1)


@pytest.mark.parametrize(
    ("n", "k", "gap"),
    [(15, 2, 0.0966796875), (15, 4, 0.005859375), (31, 2, 0.0697415), (31, 4, 0.0022140145), (9, 6, -0.0078125)],
)
def test_thresholds_of_signs_have_half_the_majoritys_gap(n, k, gap):
    assert float(theory.majority_gap(n, k) / 2) == pytest.approx(gap, rel=1e-6)
    assert theory.majority_gap(n, k) / 2 == theory.over_sparse_gap(k, n)


def test_a_gap_is_positive_exactly_where_n_exceeds_2k_minus_1():
    for n in range(3, 40, 2):
        for k in range(2, n, 2):
            assert (theory.majority_gap(n, k) > 0) == (n > 2 * k - 1)


def test_the_printed_lower_bound_holds_with_room_for_a_factor_of_twenty():
    for n in ODD:
        for k in range(2, n // 4 + 1, 2):
            gap = float(theory.majority_gap(n, k))
            assert gap >= 0.64 * (n - 1) ** (-(k - 1) / 2) > 20 * theory.majority_gap_bound(n, k)


@pytest.mark.parametrize("n", [5, 15, 31])
def test_squared_majority_coefficients_sum_to_one(n):
    assert sum(math.comb(n, k) * theory.majority_coefficient(n, k) ** 2 for k in range(1, n + 1, 2)) == 1


def test_level_weights_fall_with_the_power_three_halves_and_not_two_thirds():
    weights = {k: float(theory.majority_weight(1001, k)) for k in (3, 5, 9)}
    assert [weights[k] * k**1.5 for k in (3, 5, 9)] == pytest.approx([0.552, 0.535, 0.525], abs=5e-4)
    for k, weight in weights.items():
        assert weight == pytest.approx(theory.majority_weight_scale(k), rel=0.09)
    against_printed = [weights[k] / theory.majority_weight_scale(k, "printed") for k in (3, 5, 9)]
    assert against_printed[0] > 2.4 * against_printed[2]  # no constant fits: it falls as k^(-5/6)
    assert theory.limit_weight(901) == pytest.approx(theory.majority_weight_scale(901), rel=1e-3)
    assert theory.limit_weight(1) == pytest.approx(2 / math.pi, rel=1e-15)


@pytest.mark.parametrize("bias", [Fraction(0), Fraction(-9, 10), Fraction(1, 3)])
def test_thresholds_of_signs_are_shifted_majorities(bias):
    weight, n = (1, -1, -1, 1, 1, -1, 1), 7
    table = theory.fourier_coefficients(theory.sign_table(n) @ np.asarray(weight) + float(bias) > 0)
    for members in itertools.chain.from_iterable(itertools.combinations(range(n), size) for size in range(n + 1)):
        assert theory.sign_threshold_coefficient(weight, members) == table[theory.set_index(members)]


def test_tables_and_supports_that_do_not_fit_are_refused():
    with pytest.raises(el.errors.TheoryError, match=r"n must be odd \(Lemma B.2\): n=8"):
        theory.majority_gap(8, 2)
    with pytest.raises(el.errors.TheoryError, match=r"k must be even \(Lemma B.2\): k=3"):
        theory.majority_gap(9, 3)
    with pytest.raises(el.errors.TheoryError, match=r"n must be at least 4k \(Lemma B.2\): n=15, k=4"):
        theory.majority_gap_bound(15, 4)
    with pytest.raises(el.errors.TheoryError, match="a table of a function must have 2\\^n values: size=6"):
        theory.gap_correlations(np.zeros(6), [0])
    with pytest.raises(el.errors.TheoryError, match="support must leave irrelevant inputs to compare with: k=2, n=2"):
        theory.strict_gap([1.0, 2.0], [0, 1])
    with pytest.raises(el.errors.TheoryError, match="weight must have only 1 and -1: weight=2"):
        theory.sign_threshold_coefficient([1, 2, 1], [0])
