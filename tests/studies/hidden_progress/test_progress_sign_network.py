"""One step of a ReLU network of signs, its readout, and Theorem 5.5: exact statements and printed ones that fail."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import elegans as el
from elegans import theory

DRAWS = np.random.default_rng(11)


@pytest.mark.parametrize("bias", [Fraction(0), Fraction(-7, 8), Fraction(3, 4)])
@pytest.mark.parametrize(("n", "support"), [(9, (0, 2, 3, 7)), (7, (1, 4)), (5, (0, 1, 2, 4))])
def test_the_first_gradient_is_that_of_enumeration_below_the_size_that_the_lemma_asks_for(n, support, bias):
    for _ in range(4):
        weight = [int(w) for w in DRAWS.choice([-1, 1], n)]
        exact = theory.population_gradient(weight, bias, support)
        for output in (-1, 1):
            gradient = theory.sign_neuron_gradient(weight, support, output)
            assert gradient == tuple(-output * g for g in exact)
        table = theory.fourier_coefficients(theory.sign_table(n) @ np.asarray(weight) + float(bias) > 0)
        assert table[theory.set_index(support)] == 0  # the bias' own gradient


def test_the_sizes_of_the_gradient_at_nine_inputs_and_a_support_of_four():
    weight = (1, -1, 1, 1, -1, -1, 1, 1, -1)
    size = [abs(g) for g in theory.sign_neuron_gradient(weight, range(4))]
    assert size == [0.01953125] * 4 + [0.01171875] * 5


@pytest.mark.parametrize(("n", "k"), [(15, 2), (15, 4), (31, 6)])
def test_a_good_neuron_gets_the_same_weight_on_all_of_the_support(n, k):
    for output in (-1, 1):
        sign = output * int(np.sign(theory.majority_coefficient(n, k - 1)))
        weight = [sign] * k + [int(w) for w in DRAWS.choice([-1, 1], n - k)]
        after = theory.feature_step(weight, range(k), output)
        assert after[:k] == (Fraction(1, 2 * k),) * k
        assert {abs(w) for w in after[k:]} == {Fraction(k - 1, 2 * k * (n - k))}
        mirrored = theory.feature_step(weight, range(k), -output)
        assert mirrored == tuple(-w for w in after)


@pytest.mark.parametrize(("n", "k"), [(15, 2), (31, 4)])
def test_bounds_on_a_step_with_an_inexact_gradient_are_attained_and_the_printed_one_is_loose(n, k):
    tau = 1e-3
    weight = [int(np.sign(theory.majority_coefficient(n, k - 1)))] * k + [1] * (n - k)
    gradient = np.asarray([float(g) for g in theory.sign_neuron_gradient(weight, range(k))])
    rate = float(theory.over_sparse_rate(k, n))
    after = -rate * (gradient + tau * np.sign(gradient))
    bounds, printed = theory.feature_bounds(n, k, tau), theory.feature_bounds(n, k, tau, "printed")
    assert np.abs(after[:k] - 1 / (2 * k)).max() == pytest.approx(bounds.relevant)
    assert np.abs(after[k:]).max() == pytest.approx(bounds.irrelevant)
    assert rate * tau == pytest.approx(bounds.bias)
    assert printed.relevant == pytest.approx(k * bounds.relevant)


@pytest.mark.parametrize("epsilon", [0.3, 0.05])
def test_features_are_as_far_off_as_promised_and_the_printed_root_promises_too_much(epsilon):
    n, k = 15, 2
    promised, printed = (theory.feature_error(n, k, 0, epsilon, form) for form in ("corrected", "printed"))
    ideal = Fraction(1, 2 * k)
    after = theory.feature_step([1] * n, range(k))
    off = np.abs(theory.sign_table(n) @ np.asarray([float(w - ideal * (i < k)) for i, w in enumerate(after)]))
    assert np.mean(off > promised) <= epsilon / (k + 1)
    assert np.mean(off > printed) > epsilon / k


def test_the_precision_uses_up_what_the_readout_allows_and_grows_from_the_smallest_n():
    for k, epsilon in ((2, 0.1), (4, 0.01)):
        n = theory.feature_smallest_n(k, epsilon)
        assert theory.feature_error(n, k, 0, epsilon) < 1 / (8 * k**2) <= theory.feature_error(n - 2, k, 0, epsilon)
        for larger in (n, 2 * n + 1):
            tau = theory.feature_precision(larger, k, epsilon)
            assert theory.feature_error(larger, k, tau, epsilon) == pytest.approx(1 / (8 * k**2))
        with pytest.raises(
            el.errors.TheoryError, match="n must be large enough for irrelevant weights to be negligible"
        ):
            theory.feature_precision(n - 2, k, epsilon)
        assert theory.feature_smallest_n(k, epsilon, "printed") > 100 * n


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_the_readout_makes_twice_the_parity_and_the_printed_one_does_not(k):
    readout = theory.parity_readout(k)
    assert readout.output(k) == tuple(2 * sign for sign in theory.parity_of_sum(k))
    assert theory.parity_readout(k, "printed").output(k) == (
        *(-2 * sign for sign in theory.parity_of_sum(k)[:-1]),
        6,
    )
    size = [abs(u) for u in readout.weights]
    assert max(size) <= 8 * k
    assert sum(size) == 8 * k**2
    assert sum(u**2 for u in size) <= 64 * k**3
    in_grid = set(readout.biases) <= set(theory.unbiased_biases(k))
    assert in_grid == (k >= 4)


def test_the_parity_of_two_has_a_readout_within_the_grid_of_biases():
    """The mirrored copy, with -1/(2k) on the support, stands in for the bias of 1."""

    def output(total):
        good, mirrored = Fraction(total, 4), -Fraction(total, 4)
        half = Fraction(1, 2)
        return 16 * max(good, 0) - 6 * max(good + half, 0) + 2 * max(mirrored + half, 0)

    assert [output(total) for total in (-2, 0, 2)] == [2, -2, 2]
    assert {0, Fraction(1, 2)} <= set(theory.unbiased_biases(2))


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_the_width_holds_a_good_neuron_a_bias_and_the_printed_one_mostly_does_not(k):
    delta = 0.1
    grid = 2 * k - 1
    for form, biases, holds in (("corrected", k + 1 if k > 2 else 2, True), ("printed", k, False)):
        pairs = theory.feature_width(k, delta, form) // 2
        good = Fraction(biases, grid * 2 ** (k - 1))
        assert (theory.p_all_biases_good(pairs, good, biases) >= 1 - delta) == holds


def test_a_batch_of_this_size_keeps_gradients_close():
    """Twenty batches of 31 x 8 entries at a failure probability of 0.05 in all: 3 failures in one of 300 seeds."""
    n, k, width, tau, delta = 31, 2, 8, 0.1, 0.05
    batch = theory.feature_batch(n, width, tau, delta)
    assert batch == math.ceil(200 * math.log(4 * 31 * 8 / 0.05))
    weight = DRAWS.choice([-1, 1], (width, n))
    exact = np.asarray([[-float(g) for g in theory.sign_neuron_gradient(row.tolist(), range(k))] for row in weight])
    failures = 0
    for seed in range(20):
        x = el.random.rademacher(el.random.stream(seed, "sample"), np.arange(batch, dtype=np.uint32), n)
        estimate = theory.sample_correlations(lambda z: z > 0, weight, 0.0, x, x[:, :k].prod(axis=1))
        failures += np.abs(estimate - exact).max() > tau
    assert failures <= 2


def test_descent_with_random_gradients_exceeds_the_bound_in_some_runs_and_not_in_expectation():
    """A linear function of slope 1/sqrt(T), whose gradients are 1 or -1."""
    steps, runs = 100, 2000
    slope = 1 / math.sqrt(steps)
    gradients = np.where(np.random.default_rng(0).random((steps, runs)) < (1 + slope) / 2, 1.0, -1.0)
    path = -theory.convex_sgd_rate(1, 1, steps) * np.cumsum(gradients, axis=0)
    excess = slope * (path.mean(axis=0) + 1)
    assert (excess > theory.convex_sgd_excess(1, 1, steps)).mean() > 0.1
    assert excess.mean() < theory.convex_sgd_excess(1, 1, steps)


def test_descent_on_a_convex_function_stays_within_its_excess():
    target, steps = np.asarray([3.0, -1.0]), 400
    norm = float(np.linalg.norm(target))
    rate = theory.convex_sgd_rate(norm, math.sqrt(2), steps)
    u, values = np.zeros(2), []
    for _ in range(steps):
        values.append(np.abs(u - target).sum())
        u -= rate * np.sign(u - target)
    assert np.mean(values) <= theory.convex_sgd_excess(norm, math.sqrt(2), steps)
    assert theory.convex_sgd_excess(2.0, 3.0, 9) == 2.0
    assert theory.convex_sgd_rate(6.0, 3.0, 4) == 1.0


@pytest.mark.parametrize(("n", "k"), [(5001, 2), (200_001, 4)])
def test_theorem_55_adds_up_with_corrected_constants_and_not_with_printed_ones(n, k):
    epsilon = 0.2
    right, printed = (theory.theorem55_parameters(n, k, epsilon, form) for form in ("corrected", "printed"))
    assert right.satisfied
    assert not printed.satisfied
    assert right.readout_excess == pytest.approx(epsilon / 4, rel=1e-12)
    assert right.loss == pytest.approx(3 * epsilon / 4, rel=1e-12)
    assert printed.readout_excess == pytest.approx(epsilon / math.sqrt(2), rel=1e-6)
    assert printed.loss > epsilon
    assert right.steps - 1 == pytest.approx(2**12 * k**3 * right.width * n**2 / epsilon**2)
    assert right.readout_rate == pytest.approx(4 * k**1.5 / (n * math.sqrt(right.width * (right.steps - 1))))
    assert right.feature_rate == pytest.approx(float(theory.over_sparse_rate(k, n)), rel=1e-12)
    assert right.batch == theory.feature_batch(n, right.width, right.tau, epsilon / 8)
    share = epsilon / (64 * k**2 * n)
    assert theory.feature_error(n, k, right.tau, share) == pytest.approx(1 / (8 * k**2))
    assert theory.feature_loss(n, k, share) == pytest.approx(epsilon / 4)


def test_sizes_too_small_for_theorem_55_have_no_batch_that_would_do():
    small = theory.theorem55_parameters(31, 4, 0.1)
    assert (small.satisfied, small.tau, small.batch) == (False, 0.0, math.inf)
    with pytest.raises(el.errors.TheoryError, match=r"n must be odd \(Theorem 5.5\): n=100"):
        theory.theorem55_parameters(100, 4, 0.1)
    with pytest.raises(el.errors.TheoryError, match=r"epsilon must lie between 0 and 1/2 \(Theorem 5.5\): epsilon=0.5"):
        theory.theorem55_parameters(101, 4, 0.5)


def test_the_orders_of_the_main_text_differ_from_the_appendix_in_the_steps_alone():
    right, printed = (theory.theorem55_orders(101, 4, 0.1, form) for form in ("corrected", "printed"))
    assert right[:3] == printed[:3]
    assert printed.steps / right.steps == pytest.approx(right.width / 101)
    # a doubled n: the batch grows as n^k, the steps as n^2, the width not at all
    doubled = theory.theorem55_orders(202, 4, 0.1)
    assert doubled.width == right.width
    assert doubled.steps == pytest.approx(4 * right.steps)
    assert doubled.batch / right.batch == pytest.approx(16 * math.log(2020) / math.log(1010))


def test_the_supports_of_a_step_are_checked():
    with pytest.raises(el.errors.TheoryError, match=r"k must be even \(Claim 5\): k=3"):
        theory.parity_readout(3)
    with pytest.raises(el.errors.TheoryError, match="output must have only 1 and -1: output=0"):
        theory.sign_neuron_gradient([1, 1, 1], (0, 1), 0)
    with pytest.raises(el.errors.TheoryError, match=r"k must be even \(Lemma B.3\): k=3"):
        theory.sign_neuron_gradient([1] * 5, (0, 1, 2))
    assert all(len(theory.unbiased_biases(k)) == 2 * k - 1 for k in range(1, 6))
    assert all(b - a == Fraction(1, 4) for a, b in itertools.pairwise(theory.unbiased_biases(4)))
