"""Exact losses, polygons, learning coefficients and phase boundaries against sampling, quadrature and derivatives."""

import itertools
import math

import jax
import numpy as np
import pytest
import scipy.special
from hypothesis import given, strategies as st

from elegans.errors import TheoryError
from elegans.studies.superposition.llc_calibration import rank_zero_estimate
from elegans.studies.superposition.theory.coefficients import (
    normal_crossing_estimate,
    quadratic_estimate,
    reduced_rank_coefficient,
)
from elegans.studies.superposition.theory.features import (
    feature_dimensionality,
    mean_dimensionality,
    two_feature_boundary,
    two_feature_losses,
)
from elegans.studies.superposition.theory.polygons import (
    one_hot_loss,
    polygon_arrays,
    polygon_coefficient,
    polygon_loss,
    polygon_point,
)


def network(seed, m=2, c=6, scale=1.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, c)) * scale, rng.normal(size=c) / 2


def losses_on(weights, bias, active, u):
    x = np.zeros((len(u), len(bias)))
    x[np.arange(len(u)), active] = u
    return ((x - np.maximum(x @ weights.T @ weights + bias, 0)) ** 2).sum(axis=1)


def test_the_exact_loss_is_the_mean_over_draws():  # 20 networks within five standard errors: false in 1 of 10^5 runs
    rng = np.random.default_rng(0)
    for seed in range(20):
        weights, bias = network(seed)
        sampled = losses_on(weights, bias, rng.integers(6, size=100_000), rng.random(100_000))
        error = abs(sampled.mean() - one_hot_loss(weights, bias))
        assert error < 5 * sampled.std() / math.sqrt(len(sampled))


@pytest.mark.parametrize("seed", range(3))
def test_the_exact_loss_is_the_integral_over_a_fine_grid(seed):
    weights, bias = network(seed)
    u = (np.arange(10**6) + 0.5) / 10**6
    total = 0.0
    for i, j in itertools.product(range(6), range(6)):
        output = np.maximum((weights[:, j] @ weights[:, i]) * u + bias[j], 0)
        total += ((u * (i == j) - output) ** 2).mean() / 6
    assert one_hot_loss(weights, bias) == pytest.approx(total, abs=1e-9)


def test_vanishing_products_are_no_exception():
    weights, bias = np.zeros((2, 3)), np.array([0.5, 0.0, -1.0])
    assert one_hot_loss(weights, bias) == pytest.approx((3 / 3 + 2 * 0.25 + 0.25 - 0.5) / 3)


LEVELS = [(0, 0, 0.291667), (2, 0, 0.194444), (3, 0, 0.145833), (4, 0, 0.097222), (4, 1, 0.104167), (4, 2, 0.111111),
          (5, 1, 0.068744), (5, 0, 0.061799), (6, 0, 0.048192)]  # fmt: skip


@pytest.mark.parametrize(("corners", "dead", "loss"), LEVELS)
def test_polygons_have_the_levels_of_the_table(corners, dead, loss):
    point = polygon_point(corners, 6, dead)
    assert point.loss == pytest.approx(loss, abs=1e-6)
    assert one_hot_loss(*polygon_arrays(corners, 6, dead)) == pytest.approx(point.loss, abs=1e-12)


def test_optimal_lengths_and_biases():
    assert polygon_point(5)[:2] == pytest.approx((1.170460, -0.282297), abs=1e-6)
    assert polygon_point(6)[:2] == pytest.approx((1.320526, -0.618135), abs=1e-6)


@pytest.mark.parametrize("features", range(4, 9))
def test_the_formula_up_to_four_corners_is_the_exact_loss(features):
    for corners in range(5):
        for dead in range(features - corners + 1):
            exact = one_hot_loss(*polygon_arrays(corners, features, dead))
            assert polygon_loss(corners, features, dead) == pytest.approx(exact, abs=1e-12)


def derivatives(corners, dead):
    with jax.enable_x64(True):
        weights, bias = polygon_arrays(corners, 6, dead)

        def loss(flat):
            return one_hot_loss(flat[:12].reshape(2, 6), flat[12:])

        flat = jax.numpy.asarray(np.concatenate([weights.ravel(), bias]))
        return np.asarray(jax.grad(loss)(flat)), np.asarray(jax.hessian(loss)(flat))


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.parametrize(("corners", "dead", "rank"), [(6, 0, 17), (5, 0, 17), (5, 1, 14)])
def test_pentagon_and_hexagon_are_critical_with_the_ranks_that_give_the_coefficients(corners, dead, rank):
    gradient, hessian = derivatives(corners, dead)
    assert np.abs(gradient).max() < 1e-8
    assert np.linalg.matrix_rank(hessian, tol=1e-5) == rank
    assert polygon_coefficient(corners, dead) == rank / 2


@pytest.mark.compiles
@pytest.mark.parametrize("size", [1e-8, 1e-12, 1e-15, 1e-19, 1e-22])
@pytest.mark.parametrize("bias", [1 / 12, 0.0, -0.3])
def test_the_gradient_is_finite_at_a_column_that_has_nearly_vanished(size, bias):
    """In single precision, b / a^2 overflows at a pentagon whose sixth column is 1e-12 long."""
    import jax

    arrays = polygon_arrays(5, 6, 0)
    weights, biases = arrays.weights.astype(np.float32), arrays.bias.astype(np.float32)
    weights[:, -1], biases[-1] = size, bias
    loss, gradient = jax.value_and_grad(one_hot_loss, argnums=(0, 1))(*map(jax.numpy.asarray, (weights, biases)))
    assert all(np.isfinite(part).all() for part in gradient)
    assert loss == pytest.approx(one_hot_loss(weights, biases), rel=1e-6)
    weights[:, -1] = 0.0
    at_zero = jax.grad(one_hot_loss, argnums=1)(*map(jax.numpy.asarray, (weights, biases)))
    if bias:  # at a bias of 0 the derivative jumps
        assert np.asarray(gradient[1]) == pytest.approx(np.asarray(at_zero), abs=1e-5)


@given(st.integers(0, 100), st.floats(0, 7), st.permutations(range(6)))
def test_the_loss_is_invariant_under_rotations_and_permutations(seed, angle, order):
    weights, bias = network(seed)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    loss = one_hot_loss(weights, bias)
    assert one_hot_loss((turn @ weights)[:, order], bias[order]) == pytest.approx(loss, abs=1e-12 * max(1, loss))


@pytest.mark.parametrize(
    ("step_size", "pull", "draws", "value"),
    [(1e-4, 1.0, 5000, 1.967), (1e-3, 100.0, 5000, 1.317), (1e-5, 1.0, 2000, 1.369), (1e-2, 1.0, 5000, 10.251)],
)
def test_the_bias_on_quadratics_has_the_values_of_the_table(step_size, pull, draws, value):
    curvatures = np.linspace(0.5, 2, 10 if value > 10 else 4)
    nbeta = 1000 / math.log(1000)
    assert quadratic_estimate(curvatures, step_size, pull, nbeta, draws) == pytest.approx(value, abs=1.1e-3)


@pytest.mark.parametrize(("step_size", "batch", "value"), [(1e-4, 32, 2.026), (1e-3, 32, 2.397), (1e-3, 8, 3.427)])
def test_batches_at_unit_curvatures_raise_the_estimate_by_the_values_of_the_table(step_size, batch, value):
    nbeta, few = 1000 / math.log(1000), 2 * math.sqrt(2 / 1000)  # the noise of its 1000 examples, two standard errors
    without, raised = (quadratic_estimate(np.ones(4), step_size, 1.0, nbeta, 10**6, size) for size in (0, batch))
    assert value - without == pytest.approx(raised - without, rel=few, abs=5e-4)


CROSSINGS = {
    (0, 1): (0.4983, 0.5000, 0.5001), (0, 2): (0.2431, 0.2492, 0.2499, 0.2500),
    (1, 1): (0.3614, 0.4123, 0.4376, 0.4516), (1, 2): (0.2095, 0.2358, 0.2455, 0.2486),
    (2, 2): (0.1504, 0.1785, 0.1960, 0.2067),
}  # fmt: skip


@pytest.mark.parametrize("powers", CROSSINGS)
def test_normal_crossings_have_the_values_of_the_table(powers):
    for value, nbeta in zip(CROSSINGS[powers], (1000 / math.log(1000), 1e4, 1e6, 1e8), strict=False):
        assert normal_crossing_estimate(*powers, nbeta) == pytest.approx(value, abs=1e-3)


def oracle(m, n, h, beta=1e8):
    """Return -d ln Z / d ln beta for reduced-rank regression at rank 0, min(n, h) = 2, under a standard normal prior.

    With B integrated out, Z is the mean of det(I + beta A A^T)^(-m/2) over A, of two singular values.
    """
    least, most = sorted((n, h))
    assert least == 2
    s = np.exp(np.linspace(-22, 2.5, 1500))
    first, second = s[:, None], s[None]
    density = (first * second) ** (most - 2) * np.abs(first**2 - second**2) * np.exp(-(first**2 + second**2) / 2)
    density = density * first * second  # of the logarithms

    def log_z(beta):
        return math.log((density * ((1 + beta * first**2) * (1 + beta * second**2)) ** (-m / 2)).sum())

    return -(log_z(beta * 1.01) - log_z(beta / 1.01)) / (2 * math.log(1.01))


@pytest.mark.parametrize(
    ("sizes", "value"), [((2, 2, 2), 1.4996), ((3, 2, 3), 2.4993), ((2, 2, 4), 1.9999), ((5, 2, 2), 2.0000)]
)
def test_reduced_rank_coefficients_agree_with_the_oracle(sizes, value):
    coefficient, multiplicity = reduced_rank_coefficient(*sizes, 0)
    assert multiplicity == 1
    assert oracle(*sizes) == pytest.approx(value, abs=2e-3)
    assert coefficient == pytest.approx(value, abs=2e-3)


@pytest.mark.parametrize(("sizes", "value"), [((3, 2, 2), 1.942), ((4, 2, 5), 3.938)])
def test_multiplicity_two_lowers_the_oracle_by_an_inverse_logarithm(sizes, value):
    coefficient, multiplicity = reduced_rank_coefficient(*sizes, 0)
    assert multiplicity == 2
    assert oracle(*sizes) == pytest.approx(value, abs=2e-2)
    assert 0 < coefficient - oracle(*sizes) < 2 / math.log(1e8)


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 2, 2), (3, 3, 2), (5, 2, 2)])
def test_a_perfect_sampler_at_rank_zero_returns_the_oracle(sizes):
    assert rank_zero_estimate(*sizes, 1e5) == pytest.approx(oracle(*sizes, 1e5), rel=1e-3)


def test_a_perfect_sampler_with_one_hidden_neuron_returns_an_exponential_integral():
    x = 1 / 2e5  # Z = E[1/(1 + beta |a|^2)] = x e^x E_1(x) with x = 1/(2 beta), for a in two dimensions
    expected = 1 + x - math.exp(-x) / scipy.special.exp1(x)
    assert rank_zero_estimate(2, 2, 1, 1e5) == pytest.approx(expected, rel=1e-4)


def test_reduced_rank_coefficients_are_symmetric_and_continuous_across_cases():
    for m, n, h in itertools.product(range(1, 7), repeat=3):
        for r in range(min(m, n, h) + 1):
            here = reduced_rank_coefficient(m, n, h, r)
            assert here == reduced_rank_coefficient(n, m, h, r)
            inner = (-((h + r) ** 2) - m**2 - n**2 + 2 * (h + r) * (m + n) + 2 * m * n) / 8
            if m + h == n + r:
                assert inner == (h * m - h * r + n * r) / 2
            if m + n == h + r:
                assert inner == m * n / 2


@pytest.mark.parametrize(("r", "p"), [(0.3, 0.343), (0.5, 0.444), (0.7, 0.509), (1.0, 0.571)])
def test_two_features_cross_at_the_boundary(r, p):
    assert two_feature_boundary(r) == pytest.approx(p, abs=5e-4)
    losses = two_feature_losses(two_feature_boundary(r), r)
    assert losses.keep == pytest.approx(losses.antipodal)


@pytest.mark.parametrize(("p", "r"), [(0.2, 0.5), (0.7, 1.0)])
def test_two_feature_losses_agree_with_quadrature(p, r):
    u = (np.arange(2000) + 0.5) / 2000
    one = p * (1 - p) * (u**2).mean()  # y is exact for the active feature alone
    both = p**2 * np.mean((u[:, None] - np.maximum(u[:, None] - u[None], 0)) ** 2)
    other = p**2 * np.mean((u[None] - np.maximum(u[None] - u[:, None], 0)) ** 2)
    assert one > 0
    assert two_feature_losses(p, r).antipodal == pytest.approx(both + r * other, abs=1e-5)
    kept = p * (u**2).mean() - (p / 2) ** 2  # the variance of the feature that is not kept
    assert two_feature_losses(p, r).keep == pytest.approx(min(1, r) * kept, abs=1e-5)


SHAPES = {
    1 / 2: [[1, -1]],
    2 / 3: [[math.cos(angle) for angle in (0, 2.0943951, 4.1887902)], [math.sin(a) for a in (0, 2.0943951, 4.1887902)]],
    3 / 4: [[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]],
    2 / 5: polygon_arrays(5)[0][:, :5],
}


@pytest.mark.parametrize("share", SHAPES)
def test_regular_arrangements_share_dimensions_equally(share):
    assert feature_dimensionality(np.array(SHAPES[share], float)) == pytest.approx(share, abs=1e-6)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 9))
def test_features_never_have_more_dimensions_than_there_are(seed, m, n):
    weights = np.random.default_rng(seed).normal(size=(m, n))
    assert feature_dimensionality(weights).sum() <= m + 1e-9
    assert mean_dimensionality(weights) == pytest.approx(m / (weights**2).sum())


def test_impossible_arguments_are_refused():
    for call in (
        lambda: polygon_coefficient(3),
        lambda: polygon_loss(5),
        lambda: reduced_rank_coefficient(2, 2, 2, 3),
        lambda: two_feature_losses(1.5),
        lambda: normal_crossing_estimate(0, 0, 100.0),
    ):
        with pytest.raises(TheoryError):
            call()


@pytest.mark.compiles
@pytest.mark.slow
def test_optimised_biases_lower_the_antipodal_loss():
    from elegans.studies.superposition.two_in_one import optimal_outcome

    both, loss = optimal_outcome(0.5, 1.0)
    assert both == 1 and loss == pytest.approx(0.0763, abs=1e-4)
    assert two_feature_losses(0.5, 1.0).antipodal == pytest.approx(0.0833, abs=1e-4)
    assert optimal_outcome(0.7, 1.0)[0] == 1 and two_feature_boundary(1.0) < 0.6
