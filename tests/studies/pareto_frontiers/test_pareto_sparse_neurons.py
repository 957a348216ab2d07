"""Sparse neurons' first gradients: closed forms against exact enumeration and against a network's own gradient."""

import itertools
from fractions import Fraction

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import elegans as el
from elegans import theory

OVER = {
    (2, 9): (0.13671875, -0.01953125),
    (2, 17): (0.0981903076171875, -0.0065460205078125),
    (4, 17): (-0.0065460205078125, 0.0015106201171875),
}


@pytest.mark.parametrize("sizes", OVER)
def test_over_sparse_correlations_have_their_reference_values(sizes):
    assert (float(theory.over_sparse_relevant(*sizes)), float(theory.over_sparse_irrelevant(*sizes))) == OVER[sizes]


def test_further_reference_values():
    assert float(theory.over_sparse_relevant(4, 33)) == pytest.approx(-0.0022572570014745, rel=1e-13)
    assert float(theory.over_sparse_relevant(6, 25)) == pytest.approx(0.000500559806823731, rel=1e-13)
    assert float(theory.under_sparse_relevant(51, 4, 2)) == pytest.approx(-0.028641625678371696, rel=1e-14)
    assert float(theory.under_sparse_irrelevant(51, 4, 2)) == pytest.approx(0.000609396291029185, rel=1e-14)
    assert float(theory.under_sparse_relevant(51, 6, 4)) == pytest.approx(0.02193826647705066, rel=1e-14)
    assert float(theory.under_sparse_irrelevant(51, 6, 4)) == pytest.approx(-0.000487517032823348, rel=1e-14)


@given(half=st.integers(1, 6), data=st.data())
def test_over_sparse_correlations_keep_their_ratio_sign_and_order(half, data):
    k = 2 * half
    s = 2 * data.draw(st.integers(half, 60)) + 1
    high, low = theory.over_sparse_relevant(k, s), theory.over_sparse_irrelevant(k, s)
    assert -low / high == theory.over_sparse_ratio(k, s) == Fraction(k - 1, s - k)
    assert (high > 0) == (half % 2 == 1)
    assert abs(high) - abs(low) == theory.over_sparse_gap(k, s) == abs(high) * Fraction(s - 2 * k + 1, s - k)
    if s >= k + 3:
        assert low == theory.over_sparse_relevant(k + 2, s)
    if s > 4 * k:
        assert theory.over_sparse_ratio(k, s) <= Fraction(4 * k, s)
        for form in ("corrected", "printed"):
            assert abs(high) >= theory.over_sparse_lower_bound(k, s, form)


@pytest.mark.parametrize("ones", [range(9), (0, *range(2, 10)), range(2, 11), range(5, 14)])
@pytest.mark.parametrize("bias", [0, Fraction(99, 100), Fraction(-99, 100), Fraction(-1, 3)])
def test_over_sparse_gradients_agree_with_enumeration_for_every_small_bias(ones, bias):
    """Support (0, 1): covered, one member missing, both missing."""
    weight = [int(i in ones) for i in range(14)]
    closed = theory.over_sparse_gradient(14, (0, 1), ones)
    assert closed == theory.population_gradient(weight, bias, (0, 1))
    assert sum(map(abs, closed)) <= abs(theory.over_sparse_relevant(2, 9)) or set(ones) >= {0, 1}


def test_a_bias_of_one_changes_an_over_sparse_gradient():
    weight = [1] * 9 + [0] * 3
    assert theory.population_gradient(weight, Fraction(11, 10), (0, 1)) != theory.over_sparse_gradient(
        12, (0, 1), range(9)
    )


@settings(max_examples=25)
@given(data=st.data(), n=st.integers(6, 11))
def test_over_sparse_gradients_agree_with_enumeration_for_any_support(data, n):
    k = data.draw(st.sampled_from([2, 4]))
    s = data.draw(st.sampled_from(range(k + 1, n + 1, 2)))
    support = data.draw(st.permutations(range(n)))[:k]
    ones = data.draw(st.permutations(range(n)))[:s]
    weight = [int(i in ones) for i in range(n)]
    assert theory.over_sparse_gradient(n, support, ones) == theory.population_gradient(weight, 0, support)


@pytest.mark.parametrize("n, k, s", [(11, 4, 2), (12, 4, 2), (13, 6, 2), (14, 6, 4), (9, 4, 0), (10, 2, 0)])
def test_under_sparse_gradients_agree_with_enumeration_for_every_overlap(n, k, s):
    epsilon = Fraction(1, n - s + 1)
    bound = epsilon * (k - 1) / (2 * k)
    for inside, bias in itertools.product(range(s + 1), (0, bound, -bound, epsilon * Fraction(99, 100))):
        ones = (*range(inside), *range(k, k + s - inside))
        weight = [1 if i in ones else epsilon for i in range(n)]
        assert theory.under_sparse_gradient(n, range(k), ones) == theory.population_gradient(weight, bias, range(k))


@pytest.mark.parametrize("n, k, s", [(11, 4, 2), (12, 4, 2), (14, 6, 4)])
def test_good_under_sparse_neurons_have_three_levels(n, k, s):
    gradient = theory.under_sparse_gradient(n, range(k), range(s))
    assert set(gradient[:s]) == {0}
    assert set(gradient[s:k]) == {theory.under_sparse_relevant(n, k, s)}
    assert set(gradient[k:]) == {theory.under_sparse_irrelevant(n, k, s)}


def test_without_a_perturbation_the_rest_of_the_support_is_invisible():
    gradient = theory.population_gradient([1, 1, *[0] * 9], 0, range(4))
    assert gradient[2:] == (0,) * 9


def test_small_weights_that_outweigh_a_pair_of_ones_leave_the_closed_form():
    weight = [1, 1, *[Fraction(1, 4)] * 9]
    assert theory.population_gradient(weight, 0, range(4)) != theory.under_sparse_gradient(11, range(4), range(2))


@given(data=st.data())
def test_the_under_sparse_ratio_is_exact_and_the_printed_one_is_not(data):
    k = 2 * data.draw(st.integers(1, 5))
    s = 2 * data.draw(st.integers(0, k // 2 - 1))
    n = data.draw(st.integers(k + 2, 80))
    exact = abs(theory.under_sparse_relevant(n, k, s)) / abs(theory.under_sparse_irrelevant(n, k, s))
    assert theory.under_sparse_ratio(n, k, s) == exact
    # for n - s even and s = k - 2 ... n - s and n - k + 1 differ by k - s - 1 >= 1, for n - s odd by k - s >= 2
    assert theory.under_sparse_ratio(n, k, s, "printed") > exact


def test_under_sparse_reference_ratios():
    assert theory.under_sparse_ratio(51, 4, 2) == 47
    assert theory.under_sparse_ratio(51, 4, 2, "printed") == 49
    assert theory.under_sparse_ratio(51, 6, 4) == 45


@given(seed=st.integers(0, 10**6), n=st.integers(1, 8))
def test_population_gradients_are_means_over_all_inputs(seed, n):
    generator = np.random.default_rng(seed)
    weight, bias = generator.normal(size=n), generator.normal()
    support = sorted(generator.choice(n, generator.integers(1, n + 1), replace=False))
    x = theory.sign_table(n).astype(float)
    y = x[:, support].prod(axis=1)
    slow = (x * (y * (x @ weight + bias > 0))[:, None]).mean(axis=0)
    assert [float(g) for g in theory.population_gradient(weight, bias, support)] == pytest.approx(list(slow))


def test_mirrored_networks_are_zero_and_their_hinge_gradient_is_the_correlation():
    """f = 0 for every input, and the gradient of w_i is -u_i times the empirical correlation, for every sample."""
    n, k, s, half, count = 20, 2, 9, 8, 50
    rows = np.zeros((half, n), np.float32)
    ones = el.random.subsets(el.random.stream(0, "init"), rows=half, n=n, size=s)
    np.put_along_axis(rows, ones, np.float32(1), axis=1)
    biases = np.resize([float(b) for b in theory.over_sparse_biases(k)], half).astype(np.float32)
    u = el.random.rademacher(el.random.stream(1, "init"), np.zeros(1, np.uint32), half)[0]
    x = el.random.rademacher(el.random.stream(0, "sample"), np.arange(count, dtype=np.uint32), n)
    y = x[:, :k].prod(axis=1)
    network = {
        "hidden": {"weight": np.vstack([rows, rows]), "bias": np.tile(biases, 2)},
        "output": {"weight": np.concatenate([u, -u]), "bias": np.float32(0)},
    }
    model = el.MLP(width=2 * half)
    assert np.array_equal(model.apply(network, x), np.zeros(count))

    def loss(parameters):
        return jax.numpy.maximum(1 - y * model.apply(parameters, x), 0).mean()

    seen = jax.grad(loss)(jax.tree.map(jax.numpy.asarray, network))["hidden"]["weight"]
    active = rows @ x.T + biases[:, None] > 0
    expected = -u[:, None] * (active @ (x * y[:, None])) / count
    assert np.asarray(seen[:half]) == pytest.approx(expected, abs=1e-6)
    assert np.asarray(seen[half:]) == pytest.approx(-expected, abs=1e-6)


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: theory.over_sparse_relevant(3, 9), "k must be even (Lemma 8): k=3"),
        (lambda: theory.over_sparse_relevant(2, 8), "s must be odd (Lemma 8): s=8"),
        (lambda: theory.over_sparse_irrelevant(4, 3), "s must be above k (Lemma 8): s=3, k=4"),
        (lambda: theory.over_sparse_lower_bound(4, 15), "s must be above 4k (Lemma 8): s=15, k=4"),
        (lambda: theory.over_sparse_gradient(9, (0, 9), range(3)), "support must lie in 0..n-1: support=[0, 9], n=9"),
        (lambda: theory.under_sparse_relevant(20, 4, 3), "s must be even (Lemma 20): s=3"),
        (lambda: theory.under_sparse_relevant(20, 4, 4), "s must be below k (Lemma 20): s=4, k=4"),
        (lambda: theory.under_sparse_relevant(20, 5, 2), "k must be even (Lemma 20): k=5"),
        (
            lambda: theory.under_sparse_gradient(9, (1, 1), (0,)),
            "support must hold distinct coordinates: support=[1, 1]",
        ),
        (lambda: theory.population_gradient([1] * 25, 0, (0,)), "n must be at most 24 for a table of all inputs: n=25"),
    ],
)
def test_a_hypothesis_that_fails_is_named_with_its_value(ask, message):
    with pytest.raises(el.errors.TheoryError) as refused:
        ask()
    assert str(refused.value) == message
