"""Networks with other activations than the ReLU, and products of linear forms, train as the reference does."""

import itertools

import numpy as np
import pytest
from native_reference import Problem, activate, coefficients, signs
from test_training import ONE, assert_equal, assert_steps_agree

ACTIVATIONS = [
    ("relu6", 1, 1.0),
    ("leaky-relu", 1, 0.1),
    ("elu", 1, 0.5),
    ("silu", 1, 1.0),
    ("softplus", 1, 1.0),
    ("gelu", 1, 1.0),
    ("gelu-tanh", 1, 1.0),
    ("sine", 1, 1.3),
    ("tanh", 1, 1.0),
    ("sigmoid", 1, 1.0),
    ("power", 1, 1.0),
    ("power", 4, 1.0),
    ("zigzag", 2, 1.0),
    ("zigzag", 3, 1.0),
    ("triangle-wave", 3, 1.0),
    ("triangle-wave", 4, 1.0),
    ("oscillating-polynomial", 3, 1.0),
    ("oscillating-polynomial", 5, 1.0),
    ("sinusoid", 1, 1.0),
    ("sinusoid", 2, 1.7),
    ("sinusoid", 3, 2.0),
    ("sinusoid", 4, 1.0),
]
LOSSES = ["hinge", "square", "logistic", "correlation"]


def problem_of(activation, **more):
    name, degree, scale = activation
    return Problem(activation=name, degree=degree, scale=scale, **more)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_steps_agree_with_the_reference(native, activation, loss):
    grows = activation[0] in ("power", "oscillating-polynomial")  # others may go beyond where they are clipped or turn
    for (place, n), (shift, width) in itertools.product(enumerate((1, 7, 50)), enumerate((1, 10, 40))):
        batch_size = (1, 32, 37)[(place + shift) % 3]  # all pairs of a size, a width and a batch size
        gain = 1.0 if grows else 3.0
        problem = problem_of(
            activation, n=n, gain=gain, width=width, batch_size=batch_size, loss=loss, support=(0,), noise=0.1
        )
        assert_steps_agree(native, problem.but(learning_rates=(0.01, 0.02, 0.01, 0.02)), (1.0, 0.5))


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 9, 17, 64])
@pytest.mark.parametrize("loss", LOSSES)
def test_products_agree_with_the_reference(native, width, loss):
    for n, batch_size in itertools.product((1, 7, 50), (1, 5, 32, 37, 100)):
        problem = Problem(
            activation="product",
            n=n,
            gain=1.5,
            width=width,
            batch_size=batch_size,
            loss=loss,
            support=(0,),
            learning_rates=(0.05, 0.02, 0, 0),
            decays=(0.01, 0.1, 0, 0),
        )
        assert_steps_agree(native, problem, (1.0, 0.5))


@pytest.mark.parametrize("activation", [("relu", 1, 1.0), ("sinusoid", 2, 1.0), ("product", 1, 1.0)], ids=str)
@pytest.mark.parametrize(("n", "batch_size"), [(4096, 33), (20, 4096)])
def test_large_inputs_and_batches_agree_with_the_reference(native, activation, n, batch_size):
    width = 3 if activation[0] == "product" else 20
    problem = problem_of(activation, n=n, width=width, batch_size=batch_size, loss="square", decays=(0, 0, 0, 0))
    assert_steps_agree(native, problem.but(learning_rates=(0.1, 0.1, 0, 0)), (1.0,))


@pytest.mark.parametrize("activation", ["relu", "power"])
@pytest.mark.parametrize("loss", LOSSES)
def test_decays_of_parameters_do_not_depend_on_rates(native, activation, loss):
    problem = Problem(
        activation=activation,
        degree=2,
        loss=loss,
        learning_rates=(0.0, 0.2, 0.1, 0.05),
        decays=(0.5, 0.1, 0.2, 0.3),
        decay_in_gradient=False,
    )
    assert_steps_agree(native, problem, (1.0, 0.0, 2.0))


@pytest.mark.parametrize("activation", ["relu", "relu6"])
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_scaled(native, activation, loss):
    assert_steps_agree(native, Problem(activation=activation, loss=loss, loss_scale=2.5), (1.0, 0.5))


def test_correlations_train_relus(native):
    for n, width, batch_size in itertools.product((1, 50), (1, 40), (1, 32, 100)):
        assert_steps_agree(
            native, Problem(n=n, width=width, batch_size=batch_size, support=(0,), loss="correlation"), (1.0, 0.5)
        )


def values(native, activation, z):
    """What one neuron makes of these sums."""
    problem = problem_of(activation, n=1, width=1, support=(0,))
    start = (np.ones((1, 1), np.float32), np.zeros(1, np.float32), np.ones(1, np.float32), 0.0)
    return problem.network(native, start=start).predict(np.asarray(z, np.float32)[:, None])


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_values_are_the_references(native, activation):
    # float32 arguments: the reference sees the same, scaled exactly by powers of two only
    name, degree, scale = activation
    z = np.linspace(-9, 9, 2001, dtype=np.float32)
    rounded = (np.float32(scale) * z).astype(np.float64) / scale
    wanted = activate(name, rounded if name == "sinusoid" else z.astype(np.float64), degree, scale)[0]
    is_polynomial = name == "oscillating-polynomial"
    size = np.abs(coefficients(degree)) @ np.abs(z) ** np.arange(degree + 1)[:, None] if is_polynomial else 1
    np.testing.assert_allclose(values(native, activation, z), wanted, rtol=1e-6, atol=1e-6 * np.max(size))


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_a_sinusoid_is_exact_however_large_its_argument(native, degree):
    z = np.float32(2.0) ** np.arange(1, 120) * np.float32(1.1)
    turns = np.array([(int(4096 * float(x)) % 16384) / 4096 for x in z]) + 1 - degree  # exact: whole numbers
    assert abs(z).max() > 1e30
    np.testing.assert_allclose(values(native, ("sinusoid", degree, 1.0), z), np.sin(np.pi / 2 * turns), atol=1e-3)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_sum_that_is_not_finite_shows_in_the_output(native, activation, bad):
    assert not np.isfinite(values(native, activation, [bad])).any()


@pytest.mark.parametrize("activation", [*ACTIVATIONS, ("product", 1, 1.0)], ids=str)
def test_results_do_not_depend_on_how_steps_are_grouped(native, activation):
    for batch_size in (1, 32, 100):
        problem = problem_of(activation, n=20, width=18, batch_size=batch_size, loss="logistic")
        factors = np.linspace(0.1, 0.01, 20, dtype=np.float32)
        whole, parts = problem.network(native), problem.network(native)
        whole.advance(factors)
        for part in np.split(factors, [1, 2, 13]):
            parts.advance(part)
        assert_equal(whole.parameters(), parts.parameters())


@pytest.mark.parametrize("width", [1, 3, 64])
def test_products_diverge_at_the_step_where_they_overflow(native, width):
    network = Problem(activation="product", width=width, learning_rates=(0.1, 0.1, 0, 0)).network(native)
    factors = np.ones(10, np.float32)
    factors[3] = np.inf
    assert network.advance(factors) == 4
    assert network.diverged_at == 4


@pytest.mark.parametrize("activation", [*ACTIVATIONS, ("product", 1, 1.0)], ids=str)
def test_wrong_and_predict_agree_with_the_reference(native, activation):
    problem = problem_of(activation, n=50, width=3, gain=2.0)
    network = problem.network(native)
    index = np.random.default_rng(0).integers(0, 2**32, 1001, dtype=np.uint32)
    x = signs((3, 4), index, 50)
    f = problem.outputs(problem.start(), x)
    np.testing.assert_allclose(network.predict(x.astype(np.float32)), f, rtol=1e-4, atol=1e-4)
    margin = f * problem.labels((3, 4), index, False)
    clear = abs(margin) > 1e-4
    np.testing.assert_array_equal(network.wrong((3, 4), index, False)[clear], margin[clear] <= 0)


def test_networks_that_are_padded_to_whole_vectors_stay_so(native):
    # a cosine is not 0 at 0: neurons that are not there must not begin to count
    small = problem_of(("sinusoid", 2, 1.0), width=1, loss="square", decays=(0, 0, 0, 0))
    network = small.network(native)
    network.advance(np.ones(50, np.float32))
    parameters = small.start()
    for step in range(50):
        parameters, _, _ = small.step(parameters, step)
    for got, wanted in zip(network.parameters(), parameters, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-4)
    assert network.advance(ONE) == 1


def test_a_product_of_unit_vectors_is_the_parity(native):
    weight = np.zeros((3, 20), np.float32)
    weight[range(3), (2, 7, 11)] = 1
    start = (weight, np.zeros(3, np.float32), np.ones(3, np.float32), 0.0)
    problem = Problem(activation="product", n=20, width=3, support=(2, 7, 11), decays=(0, 0, 0, 0))
    network = problem.network(native, start=start)
    assert not network.wrong((1, 2), np.arange(5000, dtype=np.uint32), False).any()
    assert network.advance(np.ones(10, np.float32)) == 10
    assert network.loss == network.error == 0
    assert_equal(network.parameters(), start)
