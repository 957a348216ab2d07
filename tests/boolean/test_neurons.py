"""Population gradients of single neurons: closed forms against enumeration and samples."""

import itertools
import math

import numpy as np
import pytest

import elegans as el
from elegans import theory

N = 9
SUPPORTS = [(4,), (0, 7), (1, 2, 8), (0, 3, 5, 6), (0, 1, 2, 3, 4)]
DRAWS = np.random.default_rng(5)
WEIGHT = DRAWS.normal(size=(6, N))
BIAS = DRAWS.normal(size=6)


def step(z):
    return z > 0


@pytest.mark.parametrize("phase", [0.0, math.pi / 2, 0.4])
def test_sinusoid_coefficients_are_those_of_enumeration(phase):
    z = WEIGHT @ theory.sign_table(N).T + BIAS[:, None]
    table = theory.fourier_coefficients(np.sin(0.8 * z + phase))
    for size in range(N + 1):
        for members in itertools.combinations(range(N), size):
            closed = theory.sinusoid_coefficients(WEIGHT, BIAS, members, (0.8, phase))
            np.testing.assert_allclose(closed, table[:, theory.set_index(members)], atol=1e-12)


@pytest.mark.parametrize("support", SUPPORTS)
def test_closed_forms_of_sinusoids_and_powers_are_those_of_enumeration(support):
    k = len(support)
    sinusoid = theory.SineWave(1.3, 0.7)
    listed = theory.neuron_correlations(lambda z: 1.3 * np.cos(1.3 * z + 0.7), WEIGHT, BIAS, support)
    np.testing.assert_allclose(theory.neuron_correlations(sinusoid, WEIGHT, BIAS, support), listed, atol=1e-12)
    listed = theory.neuron_correlations(lambda z: k * z ** (k - 1), WEIGHT, BIAS, support)
    np.testing.assert_allclose(theory.neuron_correlations(k, WEIGHT, BIAS, support), listed, atol=1e-11)


@pytest.mark.parametrize("support", SUPPORTS[1:])
def test_powers_below_the_degree_of_the_parity_have_no_gradient(support):
    for degree in range(1, len(support)):
        listed = theory.neuron_correlations(lambda z, d=degree: d * z ** (d - 1), WEIGHT, BIAS, support)
        np.testing.assert_allclose(listed, 0, atol=1e-12)
        assert not theory.power_correlations(WEIGHT, support, degree).any()


def test_polynomials_below_the_degree_of_the_parity_are_uncorrelated_with_it():
    x = theory.sign_table(N).astype(np.float64)
    for support in SUPPORTS:
        y, k = x[:, support].prod(axis=1), len(support)
        factors = x @ WEIGHT.T + BIAS
        for degree in range(k):
            assert abs(np.mean(y * factors[:, :degree].prod(axis=1))) < 1e-12
        assert abs(np.mean(y * factors[:, :k].prod(axis=1))) > 1e-3


def test_enumeration_of_thresholds_is_the_exact_population_gradient():
    for support in SUPPORTS:
        rows = theory.neuron_correlations(step, WEIGHT, BIAS, support)
        for row, weight, bias in zip(rows, WEIGHT, BIAS, strict=True):
            exact = theory.population_gradient([float(w) for w in weight], float(bias), support)
            np.testing.assert_allclose(row, [float(g) for g in exact], atol=1e-15)


@pytest.mark.parametrize("support", [(0, 1, 5), (1, 2, 3, 4, 8)])
def test_without_a_bias_odd_derivatives_lose_odd_parities_and_even_ones_lose_even_parities(support):
    weights = np.concatenate([WEIGHT, np.sign(WEIGHT), DRAWS.uniform(-1, 1, (4, N))])
    assert np.abs(theory.neuron_correlations(step, weights, 0.0, support)).max() == 0
    minus_cosine = theory.SineWave(1.0, -math.pi / 2)
    assert np.abs(theory.sinusoid_correlations(weights, 0.0, support, minus_cosine)).max() < 1e-15
    assert np.abs(theory.sinusoid_correlations(weights, 0.0, support)).max() > 1e-3
    even = support[:-1]
    assert np.abs(theory.sinusoid_correlations(weights, 0.0, even)).max() < 1e-15
    assert np.abs(theory.sinusoid_correlations(weights, 0.0, even, minus_cosine)).max() > 1e-3


@pytest.mark.parametrize("k", range(1, 9))
def test_the_sinusoid_that_interpolates_a_parity_has_a_gap_without_a_bias(k):
    activation = el.models.Sinusoid(k)
    form = (activation.frequency, activation.phase)
    listed = theory.neuron_correlations(activation.derivative, WEIGHT, 0.0, range(k))
    np.testing.assert_allclose(theory.neuron_correlations(form, WEIGHT, 0.0, range(k)), listed, atol=1e-12)
    weight = DRAWS.uniform(-1, 1, (20, 50)) / math.sqrt(50)
    assert np.median(theory.relaxed_gap(theory.neuron_correlations(form, weight, 0.0, range(k)), range(k))) > 0


def test_estimates_are_within_five_standard_errors_of_the_means():
    """6 neurons of 9 entries, twice: fails for one seed in 15,000."""
    task, count = el.SparseParity(n=N, k=3, support=(1, 2, 8)), 40_000
    key = el.random.stream(0, "test")
    x, y = task.examples(np.asarray(task.support), key, np.arange(count, dtype=np.uint32))
    for derivative in (step, np.cos):
        exact = theory.neuron_correlations(derivative, WEIGHT, BIAS, task.support)
        estimate = theory.sample_correlations(derivative, WEIGHT, BIAS, x, y)
        assert np.abs(estimate - exact).max() < 5 / math.sqrt(count)


def test_a_sample_of_all_inputs_gives_the_means():
    x = theory.sign_table(N)
    y = x[:, [0, 3]].prod(axis=1)
    estimate = theory.sample_correlations(np.tanh, WEIGHT, BIAS, x, y)
    np.testing.assert_allclose(estimate, theory.neuron_correlations(np.tanh, WEIGHT, BIAS, (0, 3)), atol=1e-13)


def test_what_has_neither_a_closed_form_nor_a_table_is_refused():
    with pytest.raises(
        el.errors.TheoryError, match=r"n must be at most 20 .*estimate with sample_correlations\): n=21"
    ):
        theory.neuron_correlations(step, np.ones((1, 21)), 0.0, (0, 1))
    with pytest.raises(
        el.errors.TheoryError, match=r"degree must lie in 1..k for the closed form of z\^d: degree=3, k=2"
    ):
        theory.neuron_correlations(3, WEIGHT, BIAS, (0, 1))
    with pytest.raises(el.errors.TheoryError, match="x must hold one example per label"):
        theory.sample_correlations(step, WEIGHT, BIAS, np.ones((5, N)), np.ones(4))
