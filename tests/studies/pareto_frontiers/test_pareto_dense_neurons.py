"""Dense neurons' Fourier gaps."""

import itertools

import numpy as np
import pytest

import elegans as el
from elegans import theory

SUPPORT = (0, 1, 2)


def test_exact_gradients_are_those_of_single_neurons():
    n, neurons = 8, 5
    key = el.random.stream(3, "init")
    weight = el.DenseInit().weights(key.fold(0), neurons, n)
    bias = el.MLP(width=neurons).initialise(key, el.SparseParity(n=n, k=3))["hidden"]["bias"]
    rows = theory.dense_gradients(n, SUPPORT, neurons, seed=3)
    for row, w, b in zip(rows, weight, bias, strict=True):
        exact = theory.population_gradient([float(v) for v in w], float(b), SUPPORT)
        assert list(row) == [float(g) for g in exact]


def test_estimates_are_within_their_standard_error_of_exact_gradients():
    """50 neurons of 10 entries at 5 standard errors: fails for one seed in 3000."""
    exact = theory.dense_gradients(10, SUPPORT, 50, seed=1)
    estimate = theory.dense_gradients(10, SUPPORT, 50, seed=1, examples=20_000)
    assert np.abs(estimate - exact).max() < 5 / np.sqrt(20_000)


def test_the_gap_is_the_smallest_relevant_over_the_largest_irrelevant():
    assert theory.fourier_gap([[3, -2, 1, -0.5], [1, 1, 4, 0]], (0, 1)) == pytest.approx([2, 0.25])


def test_the_expected_best_is_the_mean_over_all_choices():
    values = [3.0, -1.0, 4.0, 1.5, 0.0]
    for width in range(1, 6):
        best = [max(choice) for choice in itertools.combinations(values, width)]
        assert theory.expected_best(values, width) == pytest.approx(np.mean(best))


def test_more_neurons_find_a_better_gap():
    """Parallel search: one dense neuron hardly ever names the support, the best of many does."""
    gaps = theory.fourier_gap(theory.dense_gradients(11, SUPPORT, 1000), SUPPORT)
    best = [theory.expected_best(gaps, width) for width in (1, 10, 100, 1000)]
    assert best == sorted(best)
    assert best[0] < 1 < best[2]
    assert 0 < (gaps > 1).mean() < 0.2


def test_too_many_inputs_and_supports_without_a_rest_are_refused():
    with pytest.raises(el.errors.TheoryError, match=r"n must be at most 16 for means over all inputs .*: n=17"):
        theory.dense_gradients(17, SUPPORT, 1)
    with pytest.raises(el.errors.TheoryError, match="support must leave irrelevant inputs to compare with: k=2, n=2"):
        theory.fourier_gap([1, 2], (0, 1))
    with pytest.raises(
        el.errors.TheoryError, match="width must lie between 1 and the number of values: width=3, values=2"
    ):
        theory.expected_best([1, 2], 3)
