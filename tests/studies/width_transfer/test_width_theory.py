"""Exponents of the first step, the closed recursion of linear networks, and kernels, against trained networks."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from elegans import theory
from elegans.errors import TheoryError
from elegans.studies.width_transfer import width_linear

HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    ("parametrisation", "optimiser", "decrease", "exponents"),
    [
        ("standard", "sgd", 0, (0, -HALF, HALF, 1, 3 * HALF)),
        ("standard", "sgd", 1, (0, -3 * HALF, -HALF, 0, 0)),
        ("ntk", "sgd", 0, (0, -HALF, -HALF, 0, 0)),
        ("maximal-update", "sgd", 0, (-HALF, 0, 0, 0, 0)),
        ("standard", "adam", 0, (0, 0, 1, 3 * HALF, 2)),
        ("ntk", "adam", 0, (0, 0, HALF, 1, 1)),
        ("maximal-update", "adam", 0, (-HALF, 0, 0, 0, 0)),
    ],
)
def test_exponents_of_the_first_step_are_those_of_the_table(parametrisation, optimiser, decrease, exponents):
    assert tuple(theory.first_step_exponents(parametrisation, optimiser, decrease)) == exponents


def first_step(width, parametrisation, optimiser, seed, sparse, rate):
    """Return root mean squares of the changes of a ReLU network with two hidden layers, in double precision.

    The last is of the part of the output's change that has the old last layer and the new second one.
    """
    generator = np.random.default_rng(seed)
    d, ratio = 20, width / 64
    x, y = generator.choice([-1.0, 1.0], (64, d)), generator.choice([-1.0, 1.0], 64)
    w1 = _rows(generator, width, d, sparse)
    w2 = _rows(generator, width, width, sparse)
    v = generator.normal(size=width) * width**-0.5 * (ratio**-0.5 if parametrisation == "maximal-update" else 1)
    scalings = [theory.plain_scaling(parametrisation, role, optimiser) for role in ("first", "inner", "last")]
    rates = [rate * ratio ** -float(scaling.c) for scaling in scalings]
    h1 = x @ w1.T
    h2 = np.maximum(h1, 0) @ w2.T
    f = np.maximum(h2, 0) @ v
    e = -y[:, None] / len(y)  # the correlation loss: with the square loss f, which depends on the width, enters
    g2 = e * v * (h2 > 0)
    g1 = g2 @ w2 * (h1 > 0)
    gradients = [g1.T @ x, g2.T @ np.maximum(h1, 0), np.maximum(h2, 0).T @ e[:, 0]]
    if optimiser == "adam":
        gradients = [np.sign(gradient) for gradient in gradients]
    old = v
    w1, w2, v = (part - step * gradient for part, step, gradient in zip((w1, w2, v), rates, gradients, strict=True))
    new1 = x @ w1.T
    new2 = np.maximum(new1, 0) @ w2.T
    changes = f, new1 - h1, new2 - h2, np.maximum(new2, 0) @ v - f, (np.maximum(new2, 0) - np.maximum(h2, 0)) @ old
    return [float(np.sqrt((change**2).mean())) for change in changes]


def _rows(generator, width, fan_in, sparse):
    if not sparse:
        return generator.normal(size=(width, fan_in)) * (2 / fan_in) ** 0.5
    rows = np.zeros((width, fan_in))
    columns = np.argsort(generator.random((width, fan_in)), axis=1)[:, :2]
    np.put_along_axis(rows, columns, generator.choice([-1.0, 1.0], (width, 2)), axis=1)
    return rows


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.parametrize(
    ("parametrisation", "optimiser", "sparse"),
    [
        ("standard", "sgd", False),
        ("ntk", "sgd", False),
        ("maximal-update", "sgd", False),
        ("standard", "adam", False),
        ("ntk", "adam", False),
        ("maximal-update", "adam", False),
        ("maximal-update", "sgd", True),
        ("maximal-update", "adam", True),
    ],
)
def test_measured_exponents_of_the_first_step(parametrisation, optimiser, sparse):
    """Mean squares over 8 networks at n = 256 and 1024: within 0.1 of the theory, and f and df within 0.2."""
    rate = 0.1 if optimiser == "sgd" else 0.01
    few, many = (
        np.sqrt(
            np.mean([np.square(first_step(n, parametrisation, optimiser, s, sparse, rate)) for s in range(8)], axis=0)
        )
        for n in (256, 1024)
    )
    output, h1, h2, change, through = np.log(many / few) / np.log(4)
    theirs = theory.first_step_exponents(parametrisation, optimiser)
    assert output == pytest.approx(float(theirs.output), abs=0.2)
    assert (h1, h2) == (pytest.approx(float(theirs.h1), abs=0.1), pytest.approx(float(theirs.h2), abs=0.1))
    assert theirs.change - 0.2 < change < theirs.product + 0.2
    last = theory.plain_scaling(parametrisation, "last", optimiser)
    assert through == pytest.approx(float(1 - last.b + theirs.h2), abs=0.2)


def train_linear(w, v, beta, eta, steps, hidden, output):
    for _ in range(steps):
        e = beta - w.T @ v
        w, v = w + eta * hidden * np.outer(v, e), v + eta * output * (w @ e)
    return w, v


@pytest.mark.parametrize(("hidden", "output"), [(1.0, 1.0), (1.0, 1 / 300), (300.0, 1 / 300)])
def test_the_recursion_is_training_of_a_two_layer_linear_network(hidden, output):
    """n = 300, d = 7, 30 steps, in raw Gram variables: standard, NTK and maximal update."""
    generator = np.random.default_rng(0)
    n, d = 300, 7
    w, v = generator.normal(size=(n, d)) / d**0.5, generator.normal(size=n) / n
    beta = generator.normal(size=d) / d**0.5
    eta = 0.2 / (output * n / d + hidden * float(v @ v))
    state = theory.linear_step(w.T @ w, w.T @ v, v @ v, beta, 0.0)
    for _ in range(30):
        state = theory.linear_step(*state, beta, eta, hidden, output)
    w, v = train_linear(w, v, beta, eta, 30, hidden, output)
    assert np.abs(state.gram - w.T @ w).max() < 1e-12 * np.abs(state.gram).max()
    assert np.abs(state.predictor - w.T @ v).max() < 1e-12
    assert abs(state.norm - v @ v) < 1e-12 * max(1, state.norm)


def test_in_the_maximal_update_form_the_recursion_is_free_of_the_width():
    generator = np.random.default_rng(1)
    n, d = 300, 7
    w, v = generator.normal(size=(n, d)) / d**0.5, generator.normal(size=n) / n
    beta = generator.normal(size=d) / d**0.5
    state = theory.linear_step(w.T @ w / n, w.T @ v, n * (v @ v), beta, 0.0)
    for _ in range(30):
        state = theory.linear_step(*state, beta, 0.3)
    w, v = train_linear(w, v, beta, 0.3, 30, n, 1 / n)
    assert np.abs(state.predictor - w.T @ v).max() < 1e-12
    assert np.abs(state.gram - w.T @ w / n).max() < 1e-12


def test_in_one_dimension_three_combinations_are_multiplied():
    g, q, u, beta = 0.7, 1.3, 0.2, 1.1
    for eta in (0.1, 0.5, -0.3):
        e = beta - u
        state = theory.linear_step([[g]], [u], q, [beta], eta)
        new_g, new_q, new_u = float(state.gram[0, 0]), float(state.norm), float(state.predictor[0])
        for new, old, factor in (
            (new_g + new_q + 2 * new_u, g + q + 2 * u, (1 + eta * e) ** 2),
            (new_g + new_q - 2 * new_u, g + q - 2 * u, (1 - eta * e) ** 2),
            (new_g - new_q, g - q, 1 - eta**2 * e**2),
        ):
            assert new == pytest.approx(old * factor, abs=1e-12)


def test_one_step_at_the_best_rate_reaches_the_target():
    beta = np.array([0.6, -0.8])
    for hidden, output in itertools.product((1.0, 0.25), (1.0, 4.0)):
        eta = theory.linear_one_step_rate(0.5, 1.2, hidden, output)
        state = theory.linear_step(0.5 * np.eye(2), [0, 0], 1.2, beta, eta, hidden, output)
        assert np.abs(state.predictor - beta).max() < 1e-10


def test_the_linearised_network_diverges_beyond_the_kernels_rate():
    generator = np.random.default_rng(0)
    hidden = [generator.normal(size=(24, 6)), generator.normal(size=(16, 24)) / 5]
    output, x = generator.normal(size=16) / 4, generator.normal(size=(10, 6))
    parts = theory.tangent_kernel_parts(hidden, output, x)
    flat = np.concatenate([weight.ravel() for weight in (*hidden, output)])

    def forward(theta):
        w1, w2, v = theta[:144].reshape(24, 6), theta[144:528].reshape(16, 24), theta[528:]
        return np.maximum(np.maximum(x @ w1.T, 0) @ w2.T, 0) @ v

    step = 1e-6
    jacobian = np.array(
        [(forward(flat + step * unit) - forward(flat - step * unit)) / (2 * step) for unit in np.eye(544)]
    )
    for part, (first, last) in zip(parts, ((0, 144), (144, 528), (528, 544)), strict=True):
        assert part == pytest.approx(jacobian[first:last].T @ jacobian[first:last] / 10, rel=1e-4, abs=1e-5)
    factors = (2.0, 1.0, 0.5)
    limit = theory.kernel_stable_rate(parts, factors)
    kernel = np.tensordot(factors, parts, 1)
    for share, diverges in ((0.99, False), (1.01, True)):
        residual = generator.normal(size=10)
        start = np.linalg.norm(residual)
        for _ in range(3000):
            residual = residual - share * limit * kernel @ residual
        assert (np.linalg.norm(residual) > start) == diverges


def test_shares_of_supports_sum_to_one():
    assert theory.support_share(50, 3, 2, 2) == Fraction(3, 1225)
    for d, k, s in ((50, 3, 2), (20, 2, 8), (5, 5, 3)):
        assert sum(theory.support_share(d, k, s, j) for j in range(s + 1)) == 1
    with pytest.raises(TheoryError, match="must be at most d"):
        theory.support_share(3, 4, 2, 1)


def test_the_best_rate_of_one_step_falls_by_two_octaves_with_four_times_the_width():
    """Standard parametrisation, 40 starts, n = 256 to 16,384."""
    means = [
        width_linear.recursion_optima(width_linear.STANDARD, n, 40, 5).query("steps == 1")["rate"].mean()
        for n in (256, 1024, 4096, 16_384)
    ]
    assert np.diff(means) == pytest.approx([-2, -2, -2], abs=0.125)


def largest_stable_rate(hidden, output, x, y, rates, steps=200):
    """Return the largest of the rates, all below it included, at which full-batch training does not diverge."""
    for place, eta in enumerate(rates):
        w, v = hidden.copy(), output.copy()
        for _ in range(steps):
            h = x @ w.T
            z = np.maximum(h, 0)
            e = (z @ v - y) / len(y)
            w, v = w - eta * ((e[:, None] * v * (h > 0)).T @ x), v - eta * (z.T @ e)
            if not np.abs(v).max() < 1e3:
                return rates[place - 1]
    return rates[-1]


@pytest.mark.parametrize("n", [64, 512])
def test_trained_networks_are_stable_up_to_a_few_times_the_kernels_rate(n):
    """The bound is local: the ratio, on a grid of factors of root two, is 1.4 or 2 for three seeds at both widths."""
    generator = np.random.default_rng(0)
    x, y = generator.choice([-1.0, 1.0], (128, 20)), generator.choice([-1.0, 1.0], 128)
    hidden, output = generator.normal(size=(n, 20)) * 0.1**0.5, generator.normal(size=n) * (2 / n) ** 0.5
    limit = theory.kernel_stable_rate(theory.tangent_kernel_parts([hidden], output, x))
    ratio = largest_stable_rate(hidden, output, x, y, limit * 2 ** np.arange(-2, 5.1, 0.5)) / limit
    assert 0.9 < ratio < 4
