"""In-context regression in closed form: against sampling, search, quadrature and flows."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import elegans as el
from elegans import theory
from elegans.errors import TheoryError
from elegans.studies.in_context_regression.models import LinearAttention, expected_moments
from elegans.studies.in_context_regression.tasks import LinearRegressionSequences
from elegans.studies.in_context_regression.theory.bayes import pool_predictions, ridge_predictions, ridge_variance
from elegans.studies.in_context_regression.theory.descent import (
    context_drop,
    context_half_time,
    context_head_time,
    context_levels,
    context_moment,
    context_optimum,
    context_risk,
    context_step_rate,
)
from elegans.studies.in_context_regression.theory.diversity import diversity_error, pool_optimum, statistics_moments

LINEAR = [0.4, 0.3, 0.2, 0.1]
N = 31


def sequences(spectrum, n, noise, count, seed=0):
    """Return s, x_q and y_q of sequences that are drawn example by example."""
    generator = np.random.default_rng(seed)
    d, scale = len(spectrum), np.sqrt(spectrum)
    x = generator.standard_normal((count, n, d)) * scale
    w = generator.standard_normal((count, d))
    y = np.einsum("cni,ci->cn", x, w) + math.sqrt(noise) * generator.standard_normal((count, n))
    x_q = generator.standard_normal((count, d)) * scale
    return np.einsum("cn,cni->ci", y, x) / n, x_q, (x_q * w).sum(axis=1)


@pytest.mark.parametrize("spectrum", [LINEAR, [0.5, 0.5, 0.5]])
@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_the_contexts_second_moment_is_lambda_gamma(spectrum, noise):
    """Check 1: within five standard errors of 40,000 sequences, for each entry."""
    s, _, _ = sequences(spectrum, 8, noise, 40_000)
    products = s[:, :, None] * s[:, None, :]
    expected = np.diag(spectrum * context_moment(spectrum, 8, noise))
    assert (np.abs(products.mean(axis=0) - expected) < 5 * products.std(axis=0) / 200).all()


def test_the_gradient_of_the_distribution_vanishes_at_the_inverse_of_gamma():
    """Check 2."""
    task = LinearRegressionSequences(d=4, length=N, covariance="linear", noise=0.25)
    expected, best = expected_moments(task), np.diag(context_optimum(LINEAR, N, 0.25))
    assert expected.labels == pytest.approx(expected.features @ best.ravel(), abs=1e-12)
    assert expected.least == pytest.approx(context_risk(LINEAR, N, 0.25), abs=1e-12)


@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_the_risk_at_the_length_of_training_is_the_least(noise):
    """Check 3; and the risk is that of sequences."""
    least = context_risk(LINEAR, N, noise)
    best = np.diag(context_optimum(LINEAR, N, noise))
    generator = np.random.default_rng(0)
    others = [context_risk(LINEAR, N, noise, best + 0.1 * generator.standard_normal((4, 4))) for _ in range(20)]
    assert min(others) > least
    assert least == pytest.approx({0.0: 0.13600, 0.25: 0.15808}[noise], abs=1e-5)
    s, x_q, y = sequences(LINEAR, N, noise, 20_000)
    errors = (np.einsum("ci,ij,cj->c", s, best, x_q) - y) ** 2
    assert abs(errors.mean() - least) < 5 * errors.std() / math.sqrt(20_000)


def test_the_best_single_step_has_the_stated_rate():
    """Check 4."""
    for d, n, noise in ((4, 31, 0.0), (8, 5, 0.5)):
        search = minimize_scalar(lambda eta, d=d, n=n, noise=noise: context_risk([1.0] * d, n, noise, [eta] * d))
        assert search.x == pytest.approx(context_step_rate(d, n, noise), rel=1e-6)


def test_a_model_of_one_length_has_the_stated_error_at_others():
    """Check 5: five standard errors; the limit is above 0."""
    best = context_optimum(LINEAR, N)
    for n, stated in ((5, 0.7353), (31, 0.1360), (500, 0.0279)):
        risk = context_risk(LINEAR, n, matrix=best)
        assert risk == pytest.approx(stated, abs=5e-5)
        s, x_q, y = sequences(LINEAR, n, 0, 4000)
        errors = ((s * best * x_q).sum(axis=1) - y) ** 2
        assert abs(errors.mean() - risk) < 5 * errors.std() / math.sqrt(4000)
    limit = (LINEAR * (1 - LINEAR * best) ** 2).sum()
    assert context_risk(LINEAR, math.inf, matrix=best) == pytest.approx(limit, rel=1e-12)
    assert limit > 0.02


def flow(model, seed, rate, time, task=None):
    """Return the learner of a population's gradient flow after some time, by steps of some rate."""
    task = task or LinearRegressionSequences(d=4, length=N, trace=4.0)
    steps = round(time / rate)
    attention = LinearAttention(**model, rate=rate, steps=max(1, steps))
    key = el.Trial(task=task, regime=el.Online(), model=attention, seed=seed).key
    from elegans.learners.base import LearnerData

    course = attention.begin(LearnerData(task, el.Online(), None, key))
    if steps:
        course.advance(steps)
    return attention, course.parameters


@pytest.mark.parametrize("rank", [None, 1, 2])
def test_the_balance_of_value_and_keys_drifts_in_proportion_to_the_rate(rank):
    """Check 6: halving the rate halves the drift, to a tenth."""
    drifts = []
    for rate in (0.004, 0.002):
        balances = []
        for time in (0, 4):
            _, p = flow({"heads": 3, "rank": rank, "init": 0.3}, 0, rate, time)
            size = (p["key_query"] if rank is None else p["key"]) ** 2
            balances.append((p["value"] ** 2)[:, 0] - size.sum(axis=(1, 2)))
        drifts.append(np.abs(balances[1] - balances[0]).max())
    assert drifts[0] / drifts[1] == pytest.approx(2, rel=0.1)


def test_merged_attention_falls_as_the_logistic():
    """Check 7: over the whole drop, to 1% of its height."""
    d = 4
    model = {"heads": 8, "init": 1e-5}
    _, first = flow(model, 0, 0.01, 0)
    traces = first["key_query"].trace(axis1=1, axis2=2)
    start = float((((first["value"][:, 0] + traces / math.sqrt(d)) / 2) ** 2).sum())
    end = math.sqrt(d) / (1 + (1 + d) / N)
    half = context_half_time(d, N, start)
    assert context_drop([half], d, N, start)[0] == pytest.approx(end / 2, rel=1e-9)
    for time in half + np.array([-1, -0.5, 0, 0.5, 1.5]):
        attention, p = flow(model, 0, 1e-3, time)
        learned = attention.matrix(p)[0].trace() / math.sqrt(d)
        assert learned == pytest.approx(context_drop([time], d, N, start)[0], abs=0.01 * end)


def test_levels_start_at_the_trace_and_end_at_the_least_risk():
    """Check 8."""
    levels = context_levels(LINEAR, N, 0.1)
    assert levels[0] == pytest.approx(1, abs=1e-15)
    assert levels[-1] == pytest.approx(context_risk(LINEAR, N, 0.1), abs=1e-15)
    assert (np.diff(levels) < 0).all()
    assert context_levels(LINEAR, N) == pytest.approx([1, 0.6406, 0.3774, 0.2098, 0.1360], abs=5e-5)


def test_an_aligned_head_takes_the_time_of_its_equation():
    """Check 9: against steps of the equation."""
    gamma = context_moment(LINEAR, N)
    times = [context_head_time(lam, g, 0.05) for lam, g in zip(LINEAR, gamma, strict=True)]
    assert times == pytest.approx([120.9, 215.6, 486.8, 1956.3], abs=0.06)
    a, step, count = 0.05, 1e-3, 0
    while gamma[0] * a**3 < 0.5:
        a, count = a + step * a**2 * LINEAR[0] ** 2 * (1 - gamma[0] * a**3), count + 1
    assert count * step == pytest.approx(times[0], rel=1e-3)


@pytest.mark.parametrize(("alpha", "kappa"), [(2, 0.5), (10, 1.0), (10, 4.0)])
def test_the_limiting_error_has_its_limits(alpha, kappa):
    """Check 12."""
    rho, x = 0.1, 1.1 / alpha
    assert diversity_error(alpha, 1e9, rho) == pytest.approx(rho + x / (1 + x), abs=1e-6)
    assert diversity_error(alpha, math.inf, rho) == pytest.approx(rho + x / (1 + x), abs=1e-12)
    assert diversity_error(1e9, kappa, rho) == pytest.approx(rho + max(0, 1 - kappa), abs=1e-3)
    assert diversity_error(math.inf, kappa, rho) == rho + max(0, 1 - kappa)
    assert diversity_error(alpha, kappa, rho, 1e9) == pytest.approx(diversity_error(alpha, kappa, rho), abs=1e-7)
    for tau in (1 - 1e-6, 1.0, 1 + 1e-6):
        assert diversity_error(alpha, kappa, rho, tau) > 1e4
    with pytest.raises(TheoryError, match="alpha may be infinite"):
        diversity_error(math.inf, kappa, rho, 2.0)


def pool(d, tasks, seed=0):
    w = np.random.default_rng(seed).standard_normal((tasks, d))
    return w * math.sqrt(d) / np.linalg.norm(w, axis=1, keepdims=True)


@pytest.mark.parametrize(("alpha", "kappa"), [(2, 0.5), (2, 4), (10, 1), (100, 0.5), (100, 2)])
def test_the_best_answer_for_a_pool_of_200_dimensions_is_near_the_limit(alpha, kappa):
    """Check 13: the mean of four pools."""
    d, rho, errors = 200, 0.1, []
    for seed in range(4):
        w, spectrum = pool(d, round(kappa * d), seed), [1 / d] * d
        best = pool_optimum(w.T @ w / len(w), spectrum, alpha * d, rho)
        errors.append(context_risk(spectrum, alpha * d, rho, best) + rho)
    assert np.mean(errors) == pytest.approx(diversity_error(alpha, kappa, rho), rel=0.01)


def test_moments_of_a_pools_features_are_those_of_sequences():
    d, n, rho = 3, 5, 0.4
    w, generator = pool(d, 2), np.random.default_rng(0)
    tasks = w[generator.integers(2, size=100_000)]
    x = generator.standard_normal((len(tasks), n, d)) / math.sqrt(d)
    y = np.einsum("cni,ci->cn", x, tasks) + math.sqrt(rho) * generator.standard_normal((len(tasks), n))
    z = np.column_stack([d * np.einsum("cn,cni->ci", y, x) / n, np.square(y).mean(axis=1)])
    expected = statistics_moments(n, rho, w.T @ w / 2, w.mean(axis=0))
    for drawn, moment in ((z, expected.features), (tasks, expected.labels)):
        products = drawn[:, :, None] * z[:, None, :]
        errors = np.abs(products.mean(axis=0) - moment)
        assert (errors < 5 * products.std(axis=0) / math.sqrt(len(tasks))).all()


@pytest.mark.parametrize("k", range(1, 17))
def test_ridge_has_the_posterior_variance_as_its_error(k):
    """Check 14: at each length of the context, five standard errors of 4000 sequences."""
    generator, d, noise = np.random.default_rng(k), 8, 0.25
    x, w = generator.standard_normal((4000, k, d)), generator.standard_normal((4000, d))
    y = np.einsum("cni,ci->cn", x, w) + math.sqrt(noise) * generator.standard_normal((4000, k))
    query = generator.standard_normal((4000, d))
    answers = (query * w).sum(axis=1) + math.sqrt(noise) * generator.standard_normal(4000)
    excess = (ridge_predictions(x, y, query, noise) - answers) ** 2 - ridge_variance(x, query, noise)
    assert abs(excess.mean()) < 5 * excess.std() / math.sqrt(4000)


def test_the_predictor_of_a_pool_knows_its_only_task_and_no_order_of_several():
    """Check 15."""
    generator, noise = np.random.default_rng(0), 0.25
    tasks = generator.standard_normal((6, 4))
    x, query = generator.standard_normal((50, 7, 4)), generator.standard_normal((50, 4))
    y = np.einsum("cni,i->cn", x, tasks[0]) + math.sqrt(noise) * generator.standard_normal((50, 7))
    assert pool_predictions(x, y, query, noise, tasks[:1]) == pytest.approx(query @ tasks[0], abs=1e-12)
    shuffled = pool_predictions(x, y, query, noise, tasks[::-1])
    assert pool_predictions(x, y, query, noise, tasks) == pytest.approx(shuffled, abs=1e-12)
    clean = np.einsum("cni,i->cn", x, tasks[2])
    with np.errstate(all="raise", under="ignore"):
        exact = pool_predictions(x, clean, query, 1e-6, tasks)
    assert exact == pytest.approx(query @ tasks[2], abs=1e-6)
    first = pool_predictions(x[:, :0], y[:, :0], query, noise, tasks)
    assert first == pytest.approx(query @ tasks.mean(axis=0), abs=1e-12)


def test_a_pool_of_all_directions_has_the_answer_of_fresh_tasks():
    """Check 16."""
    best = pool_optimum(np.eye(4), LINEAR, N, 0.25)
    assert best == pytest.approx(np.diag(context_optimum(LINEAR, N, 0.25)), abs=1e-12)
    assert theory.context_risk(LINEAR, N, 0.25, best) == pytest.approx(context_risk(LINEAR, N, 0.25), abs=1e-12)
