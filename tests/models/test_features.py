"""Linear predictors on features that stay: their functions, their sizes, and that nothing else learns."""

import jax
import numpy as np
import pytest

import elegans as el
from elegans.training.engines import ENGINES, ChunkRequest

TASK = el.BiasedParity(n=8, k=3)
KEY = el.random.stream(5, "init")
MODELS = [
    el.models.LinearPredictor(),
    el.models.RandomReLU(width=6),
    el.models.RandomFourier(width=6),
    el.models.GatedLinear(width=6),
]
BY_KIND = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)


def cube(n):
    return el.tasks.base.corners(np.arange(2**n, dtype=np.uint32), n) * np.float32(n**-0.5)


def moved(model, scale=0.3):
    """Return parameters whose readout is random, and so not 0."""
    parameters = model.initialise(KEY, TASK)
    drawn = np.random.default_rng(0)
    return {
        name: {key: array + scale * drawn.normal(size=array.shape).astype(np.float32) for key, array in layer.items()}
        if name != "gates"
        else layer
        for name, layer in parameters.items()
    }


def features(model, parameters, x):
    """Return Psi(x) written out by hand, the constant last."""
    one = np.ones((len(x), 1))
    if model.kind == "linear-predictor":
        return np.hstack([x, one])
    hidden = parameters["hidden"]
    z = x @ hidden["weight"].T + hidden["bias"]
    if model.kind == "random-relu":
        return np.hstack([np.maximum(z, 0), one])
    if model.kind == "random-fourier":
        return np.hstack([np.sqrt(2 / model.width) * np.cos(z), one])
    gates = x @ parameters["gates"]["weight"].T + parameters["gates"]["bias"] > 0
    gated = gates[:, :, None] * np.hstack([x, one])[:, None, :]
    return np.hstack([gated.reshape(len(x), -1), one])


@BY_KIND
def test_the_output_is_the_readout_of_features_that_stay_within_their_bounds(model):
    x, parameters = cube(8), moved(model)
    table = features(model, parameters, x)
    assert np.asarray(model.apply(parameters, x)) == pytest.approx(table @ model.readout(parameters), abs=1e-5)
    bounds = model.bounds(parameters, 8**-0.5)
    assert (np.abs(table).max(axis=0) <= bounds + 1e-6).all()
    assert np.abs(table).max(axis=0) == pytest.approx(bounds, abs=1e-5) or model.kind in (
        "random-fourier",
        "gated-linear",
    )
    count, norm = model.size(parameters, 8**-0.5)
    assert count == table.shape[1]
    assert norm == pytest.approx(np.linalg.norm(model.readout(parameters) * bounds))


@BY_KIND
def test_only_the_readout_learns(model):
    """Gates and features are the same bits after 20 steps of AdaDelta; what learns has moved."""
    training = el.training.AdaDelta(steps=20, loss="logistic")
    trial, engine = el.Trial(task=TASK, regime=el.Online(), model=model, training=training), ENGINES["jax"]
    before = model.initialise(trial.key("init"), TASK)
    after = engine.parameters(engine.advance(engine.init([trial]), ChunkRequest.of(20))[0])[0]
    learns = {"hidden", "output"} if model.kind == "gated-linear" else {"output"}
    for layer, arrays in before.items():
        for name, array in arrays.items():
            assert np.array_equal(array, after[layer][name]) != (layer in learns)


def test_a_gated_network_begins_as_the_network_that_is_drawn_alike():
    x = cube(8)
    network, gated = el.MLP(width=9), el.models.GatedLinear(width=9)
    assert np.asarray(gated.apply(gated.initialise(KEY, TASK), x)) == pytest.approx(
        network.apply(network.initialise(KEY, TASK), x), abs=1e-6
    )
    relu = el.models.RandomReLU(width=9)
    assert np.asarray(relu.apply(relu.initialise(KEY, TASK), x)) == pytest.approx(
        network.apply(network.initialise(KEY, TASK), x), abs=1e-6
    )


def test_a_gated_network_is_linear_in_its_inner_weights():
    model, x = el.models.GatedLinear(width=5), cube(8)
    one, other = moved(model), moved(model, scale=0.7)
    outputs = [np.asarray(model.apply({**one, "hidden": part["hidden"]}, x)) for part in (one, other)]
    mean = jax.tree.map(lambda a, b: (a + b) / 2, one["hidden"], other["hidden"])
    assert np.asarray(model.apply({**one, "hidden": mean}, x)) == pytest.approx(np.mean(outputs, axis=0), abs=1e-6)


@pytest.mark.parametrize("bandwidth", [0.7, 2.0])
def test_fourier_features_have_the_gaussian_kernel_as_their_inner_products(bandwidth):
    """100000 features: standard errors of at most 0.0032 over 66 pairs; 0.02 fails for fewer than one seed in 10^6."""
    model = el.models.RandomFourier(width=100_000, bandwidth=bandwidth)
    x = np.random.default_rng(1).normal(size=(12, 8)).astype(np.float32) / 2
    table = features(model, model.initialise(KEY, TASK), x)[:, :-1]
    squares = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    assert table @ table.T == pytest.approx(np.exp(-squares / (2 * bandwidth**2)), abs=0.02)


def test_the_bandwidth_is_the_median_distance_unless_it_is_given():
    """Inputs of norm 1: distances in D_A lie around sqrt(2), and frequencies have that scale to within 3%.

    3% is 5.5 standard errors of the deviation of 100 x 200 normal draws, and the median is exact to less.
    """
    model, task = el.models.RandomFourier(width=200), el.BiasedParity(n=100, k=3)
    weight = model.initialise(KEY, task)["hidden"]["weight"]
    assert 1 / weight.std() == pytest.approx(np.sqrt(2), rel=0.03)
    assert np.array_equal(
        el.models.RandomFourier(width=200, bandwidth=1.0).initialise(KEY, task)["hidden"]["bias"],
        model.initialise(KEY, task)["hidden"]["bias"],
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: el.models.RandomFourier(width=0), "width must be greater than or equal to 1: width=0"),
        (lambda: el.models.RandomFourier(width=3, bandwidth=0), "bandwidth must be greater than 0"),
        (
            lambda: el.Trial(
                task=TASK,
                regime=el.Online(),
                model=el.models.GatedLinear(width=3, init=el.SparseInit(9)),
                training=el.SGD(steps=1),
            ),
            "nonzeros of a sparse init must be at most n: nonzeros=9, n=8",
        ),
    ],
)
def test_predictors_that_cannot_be_are_refused(make, message):
    with pytest.raises(el.errors.TrialError, match=message):
        make()
