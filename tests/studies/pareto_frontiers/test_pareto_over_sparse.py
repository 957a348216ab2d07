"""Over-sparse initialisation: biases, the step, the readout, and the numbers of Theorem 16."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.calculators.rational import rank

SIZES = [2, 4, 6, 8]
PAPER = Fraction(1, 16)


def chances(k):
    return np.array([math.comb(k, minus) / 2**k for minus in range(k, -1, -1)])


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("offset", [None, PAPER, Fraction(9, 10)])
def test_the_corrected_biases_make_the_parity_exactly(k, offset):
    biases = theory.over_sparse_biases(k, offset)
    features = theory.readout_features(k, biases)
    assert len(biases) == k // 2
    assert len(features) == len(features[0]) == rank(features) == k + 1
    readout = theory.over_sparse_readout(k, biases)
    for row, sign in zip(features, theory.parity_of_sum(k), strict=True):
        assert sum(a * b for a, b in zip(row, readout, strict=True)) == sign
    assert theory.smallest_hinge_loss(k, biases) == 0


@pytest.mark.parametrize("k", SIZES)
def test_the_printed_biases_cannot_make_the_parity(k):
    biases = theory.over_sparse_biases(k, form="printed")
    features = theory.readout_features(k, biases)
    assert len(biases) == k // 2 - 1
    assert rank(features) == len(features[0]) == k - 1
    matrix, parity = np.array(features, float), np.array(theory.parity_of_sum(k), float)
    fit = np.linalg.lstsq(matrix, parity, rcond=None)[0]
    assert np.abs(matrix @ fit - parity).max() > 1
    with pytest.raises(el.errors.TheoryError, match=r"biases must give k \+ 1 independent features \(Lemma 11\): k="):
        theory.over_sparse_readout(k, biases)


@pytest.mark.parametrize("k, loss", [(2, 1), (4, 0.773), (6, 0.646), (8, 0.565), (10, 0.509)])
def test_the_printed_biases_leave_a_large_hinge_loss(k, loss):
    biases = theory.over_sparse_biases(k, form="printed")
    smallest = theory.smallest_hinge_loss(k, biases)
    assert float(smallest) == pytest.approx(loss, abs=5e-4)


def test_the_smallest_hinge_loss_is_that_of_a_linear_program():
    from scipy.optimize import linprog

    for k in (4, 6, 8):
        biases = theory.over_sparse_biases(k, form="printed")
        matrix, signs = np.array(theory.readout_features(k, biases), float), np.array(theory.parity_of_sum(k), float)
        cost = np.concatenate([np.zeros(matrix.shape[1]), chances(k)])
        bounds = [(None, None)] * matrix.shape[1] + [(0, None)] * (k + 1)
        found = linprog(cost, np.hstack([-signs[:, None] * matrix, -np.eye(k + 1)]), -np.ones(k + 1), bounds=bounds)
        assert found.fun == pytest.approx(float(theory.smallest_hinge_loss(k, biases)), rel=1e-9)


@pytest.mark.parametrize(
    "offset, norms",
    [
        (PAPER, [181, 1.2e4, 5.6e5, 2.3e7]),
        (Fraction(3, 4), [15, 115, 405, 1081]),
        (Fraction(9, 10), [12.6, 85, 258, 579]),
    ],
)
def test_norms_of_the_readout_depend_on_the_offset(offset, norms):
    found = [theory.readout_norm(theory.over_sparse_readout(k, theory.over_sparse_biases(k, offset))) for k in SIZES]
    assert found == pytest.approx(norms, rel=0.02)


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("offset", [PAPER, Fraction(3, 4), Fraction(99, 100)])
def test_biases_are_small_enough_for_the_gradient_and_negative_enough_for_bad_neurons(k, offset):
    biases = theory.over_sparse_biases(k, offset)
    assert all(abs(bias) < Fraction(1, 2) for bias in biases)
    slack = theory.bad_neuron_slack(k, offset)
    assert slack == (1 - offset) / (2 * k) > 0
    assert max(biases) + Fraction(1, 2 * k) == -slack


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("truncated", [False, True])
def test_the_step_leaves_the_support_for_good_neurons_and_kills_bad_ones(sign, truncated):
    n, k, s = 20, 4, 11
    good = theory.over_sparse_step(n, range(k), range(s), sign=sign, truncated=truncated)
    direction = 1 if theory.over_sparse_relevant(k, s) > 0 else -1
    assert good[:k] == (sign * direction * Fraction(1, 2 * k),) * k
    rest = 0 if truncated else -sign * direction * Fraction(k - 1, 2 * k * (s - k))
    assert good[k:s] == (rest,) * (s - k)
    assert abs(rest) <= Fraction(2, s)
    assert good[s:] == (0,) * (n - s)
    for ones in (range(1, s + 1), range(2, s + 2), range(k, k + s)):
        bad = theory.over_sparse_step(n, range(k), ones, sign=sign, truncated=truncated)
        assert sum(map(abs, bad)) + max(theory.over_sparse_biases(k)) < 0


def test_the_threshold_lies_in_the_middle_of_the_gap():
    high, low = abs(theory.over_sparse_relevant(2, 9)), abs(theory.over_sparse_irrelevant(2, 9))
    assert theory.over_sparse_threshold(2, 9) - low == high - theory.over_sparse_threshold(2, 9)
    assert theory.over_sparse_rate(2, 9) == 1 / (4 * high)


def population(n, k, s, rows, truncated, seed=0):
    """Hidden features of a mirrored network on all inputs after the population step, and their ideal readout."""
    ones = el.random.subsets(el.random.stream(seed, "init"), rows=rows, n=n, size=s)
    biases = [float(bias) for bias in theory.over_sparse_biases(k)]
    chosen = [place % len(biases) for place in range(rows)]
    good = [set(range(k)) <= set(row.tolist()) for row in ones]
    weight = np.array([theory.over_sparse_step(n, range(k), row.tolist(), truncated=truncated) for row in ones], float)
    x = theory.sign_table(n).astype(float)
    hidden = x @ np.vstack([weight, -weight]).T + np.tile([biases[j] for j in chosen], 2)
    positive = [theory.over_sparse_relevant(k, s) > 0] * rows
    index = [j if ok else None for j, ok in zip(chosen, good, strict=True)]
    constant, first, mirrored = theory.spread_readout(k, index, positive)
    readout = np.concatenate([[constant], first, mirrored])
    features = np.hstack([np.ones((2**n, 1)), np.maximum(hidden, 0)])
    counts = [index.count(j) for j in range(len(biases))]
    return features, readout, x[:, :k].prod(axis=1), counts


@pytest.mark.parametrize("k, s", [(2, 7), (4, 9)])
def test_ideal_features_and_the_spread_readout_make_the_parity_on_every_input(k, s):
    features, readout, y, counts = population(10, k, s, rows=30, truncated=True)
    assert min(counts) >= 1
    assert features @ readout == pytest.approx(y, abs=1e-9)
    assert np.linalg.norm(readout) <= theory.readout_norm(theory.over_sparse_readout(k)) + 1e-9


def test_lemma_11_bounds_the_features_norm_and_the_loss_of_the_ideal_readout():
    n, k, s = 12, 2, 11
    features, readout, y, counts = population(n, k, s, rows=12, truncated=False)
    r_prime = max(counts) / 2
    assert theory.is_r_prime_good(counts, r_prime)
    assert np.linalg.norm(features[:, 1:], axis=1).max() <= theory.lemma11_feature_norm(k, r_prime)
    loss = np.maximum(1 - y * (features @ readout), 0).mean()
    assert 0 < loss <= theory.lemma11_loss(k, s, r_prime, float(np.linalg.norm(readout)))


def test_lemma_12_bounds_what_another_set_of_features_costs():
    features, readout, y, _ = population(10, 2, 7, rows=20, truncated=True)
    other = population(10, 2, 7, rows=20, truncated=False)[0]
    losses = [np.maximum(1 - y * (phi @ readout), 0).mean() for phi in (features, other)]
    distance = np.linalg.norm(features - other, axis=1).max()
    bound = theory.lemma12_bound(float(np.linalg.norm(readout)), float(distance))
    assert 0 < abs(losses[0] - losses[1]) <= bound


def test_lemma_10_holds_far_more_often_than_it_promises():
    """The largest of 20 x 20 deviations over 50 samples is within tau, where each may fail with probability 0.1."""
    n, k, s, rows, tau = 20, 2, 9, 20, 0.15
    sample = theory.lemma10_sample(n, rows, tau, 0.1)
    ones = el.random.subsets(el.random.stream(0, "init"), rows=rows, n=n, size=s)
    weight = np.zeros((rows, n), np.float32)
    np.put_along_axis(weight, ones, np.float32(1), axis=1)
    means = np.array([theory.over_sparse_gradient(n, range(k), row.tolist()) for row in ones], float)
    for number in range(50):
        index = np.arange(number * sample, (number + 1) * sample, dtype=np.uint32)
        x = el.random.rademacher(el.random.stream(0, "sample"), index, n)
        seen = (weight @ x.T > 0) @ (x * x[:, :k].prod(axis=1)[:, None]) / sample
        assert np.abs(seen - means).max() <= tau


@pytest.mark.parametrize("n, k, s, half, sample", [(20, 2, 9, 100, 20_000), (16, 2, 7, 60, 20_000)])
@pytest.mark.parametrize("seed", [0, 1])
def test_truncated_training_on_a_sample_keeps_exactly_the_good_neurons(n, k, s, half, sample, seed):
    """Theorem 4 with truncation: active neurons are twice the good ones, no bad one is, and the parity follows.

    Thresholds and the slack of bad neurons are 6 standard errors or more away: fails for one seed in 10^5.
    """
    ones = el.random.subsets(el.random.stream(seed, "init"), rows=half, n=n, size=s)
    weight = np.zeros((half, n))
    np.put_along_axis(weight, ones, 1, axis=1)
    knots = np.array(theory.over_sparse_biases(k), float)
    bias = knots[np.arange(half) % len(knots)]
    x = el.random.rademacher(el.random.stream(seed, "sample"), np.arange(sample, dtype=np.uint32), n).astype(float)
    y = x[:, :k].prod(axis=1)
    gradient = (weight @ x.T + bias[:, None] > 0) @ (x * y[:, None]) / sample
    gradient[np.abs(gradient) <= float(theory.over_sparse_threshold(k, s))] = 0
    step = float(theory.over_sparse_rate(k, s)) * gradient
    good = (ones < k).sum(axis=1) == k
    active = np.abs(step).sum(axis=1) + bias > 0
    assert good.any()
    assert np.array_equal(active, good)

    def features(inputs):
        hidden = inputs @ np.vstack([step, -step]).T + np.tile(bias, 2)
        assert np.array_equal((hidden > 0).any(axis=0)[:half], good)
        return np.hstack([np.ones((len(inputs), 1)), np.maximum(hidden, 0)])

    fit = features(x)
    readout = np.linalg.solve(fit.T @ fit + 1e-6 * np.eye(fit.shape[1]), fit.T @ y)
    fresh = el.random.rademacher(el.random.stream(seed, "test"), np.arange(4000, dtype=np.uint32), n).astype(float)
    assert (np.sign(features(fresh) @ readout) == fresh[:, :k].prod(axis=1)).all()


def test_theorem_16_puts_its_lemmas_together():
    n, k, s, epsilon, delta = 1001, 4, 101, 0.1, 0.01
    found = theory.theorem16_parameters(n, k, s, epsilon, delta)
    assert found.width == theory.lemma15_width(n, k, s, delta)
    assert found.r_prime >= 10 * math.log(2 * k / delta)
    assert theory.lemma11_distance(n, k, found.r_prime, found.rate, found.tau) <= epsilon / found.norm * (1 + 1e-12)
    assert found.tau <= theory.lemma11_precision(n, k, found.rate)
    assert found.sample >= theory.lemma10_sample(n, found.width, found.tau, delta)
    least = math.ceil(found.smallest_s)
    assert theory.lemma11_loss(k, least, found.r_prime, found.norm) <= epsilon
    assert not found.satisfied


def test_theorem_16_is_satisfied_once_everything_is_large_enough():
    found = theory.theorem16_parameters(10**9 + 1, 2, 10**8 + 1, 0.4, 0.4)
    assert found.satisfied
    assert found.smallest_s < 10**7
    assert found.loss < 5


def test_the_rate_of_a_large_s_continues_the_exact_one():
    for k, s in [(2, 10_003), (6, 10_003)]:
        rate = theory.theorem16_parameters(10**6, k, s, 0.1, 0.1).rate
        assert rate == pytest.approx(float(theory.over_sparse_rate(k, s)), rel=1e-13)


def test_theorem_16_scales_as_its_statement_says():
    """Sample ~ C(s, k - 1) n^2, width ~ (n / s)^k, steps independent of n."""
    small = theory.theorem16_parameters(2001, 4, 101, 0.1, 0.01)
    large = theory.theorem16_parameters(20001, 4, 101, 0.1, 0.01)
    assert large.width / small.width == pytest.approx((20001 / 2001) ** 4, rel=1e-3)
    logs = math.log(4 * 20001 * large.width / 0.01) / math.log(4 * 2001 * small.width / 0.01)
    assert large.sample / small.sample == pytest.approx((20001 / 2001) ** 2 * logs, rel=0.02)
    assert large.steps == pytest.approx(small.steps, rel=0.02)


def test_the_printed_form_takes_the_small_r_prime_and_the_paper_offset():
    printed = theory.theorem16_parameters(1001, 4, 101, 0.1, 0.01, form="printed")
    assert 10 * math.log(800) <= printed.r_prime <= 20 * math.log(800)
    assert printed.norm == pytest.approx(11952.76, abs=0.01)
    assert printed.steps < theory.theorem16_parameters(1001, 4, 101, 0.1, 0.01, offset=PAPER).steps / 1e6


@pytest.mark.parametrize("norm, size, epsilon", [(15, 10, 0.1), (115, 50, 0.05)])
def test_lemma_14_needs_the_factor_that_the_printed_condition_has_lost(norm, size, epsilon):
    def error(steps):
        return 100 * norm**2 * (size + epsilon / norm) ** 2 * (1 + math.log(steps)) / (epsilon * steps)

    enough = theory.lemma14_steps(norm, size, epsilon)
    assert error(enough) <= epsilon
    assert error(theory.lemma14_steps(norm, size, epsilon, "printed")) > 100 * epsilon


@pytest.mark.parametrize("norm, size, epsilon, delta", [(15, 10, 0.1, 0.01), (115, 50, 0.05, 0.2)])
def test_lemma_14_reaches_eleven_epsilon_rather_than_seven(norm, size, epsilon, delta):
    """The parts of the proof at exactly its sample size: 4 epsilon and Lemma 13 for readouts of norm sqrt(8) B."""
    sample = theory.lemma14_sample(norm, size, epsilon, delta)
    excess = theory.lemma13_excess(math.sqrt(8) * norm, size, epsilon / norm, sample, delta)
    total = 4 * epsilon + excess
    assert total <= theory.lemma14_loss(epsilon) * (1 + 1e-9)
    assert total > theory.lemma14_loss(epsilon, "printed")


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: theory.over_sparse_biases(3), "k must be even (Theorem 16): k=3"),
        (lambda: theory.over_sparse_biases(0), "k must be at least 2 (Theorem 16): k=0"),
        (lambda: theory.over_sparse_biases(4, 1), "offset must lie between 0 and 1 (biases of Theorem 16): offset=1"),
        (lambda: theory.over_sparse_threshold(4, 7), "s must be above 2k - 1 for a gap (Lemma 8): s=7, k=4"),
        (lambda: theory.over_sparse_step(9, (0, 1), (0, 1, 2), sign=0), "sign must be -1 or 1: sign=0"),
        (
            lambda: theory.spread_readout(4, [0, None], [True, True]),
            "every bias must have a good neuron (Lemma 11): bias=1",
        ),
        (lambda: theory.theorem16_parameters(99, 4, 15, 0.1, 0.1), "s must be above 4k (Theorem 16): s=15, k=4"),
        (lambda: theory.theorem16_parameters(99, 4, 18, 0.1, 0.1), "s must be odd (Theorem 16): s=18"),
        (
            lambda: theory.theorem16_parameters(99, 4, 17, 0.5, 0.1),
            "epsilon must lie between 0 and 1/2 (Theorem 16): epsilon=0.5",
        ),
        (
            lambda: theory.theorem16_parameters(99, 4, 17, 0.1, 0.6),
            "delta must lie between 0 and 1/2 (Theorem 16): delta=0.6",
        ),
        (lambda: theory.readout_decay(0.7, 1), "epsilon must lie between 0 and 1/2 (Lemma 14): epsilon=0.7"),
    ],
)
def test_parameters_outside_the_theorem_name_the_hypothesis(ask, message):
    with pytest.raises(el.errors.TheoryError) as refused:
        ask()
    assert str(refused.value) == message


def test_the_readout_decay_is_that_of_lemma_14():
    assert theory.readout_decay(0.3, 15) == 0.3 / 225


def test_features_of_the_sum_are_features_of_the_signs():
    k, biases = 4, theory.over_sparse_biases(4)
    rows = theory.readout_features(k, biases)
    for signs in itertools.product([-1, 1], repeat=k):
        place = (sum(signs) + k) // 2
        assert theory.parity_of_sum(k)[place] == math.prod(signs)
        assert rows[place][1] == max(0, Fraction(sum(signs), 2 * k) + biases[0])
