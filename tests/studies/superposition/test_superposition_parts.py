"""Sparse features, tied autoencoders, exact descent, Langevin dynamics, and the probes on them."""

import math

import numpy as np
import pytest

import elegans as el
from elegans import random
from elegans.probes import Langevin
from elegans.studies.superposition.llc_calibration import crossing
from elegans.studies.superposition.models import TiedAutoencoder
from elegans.studies.superposition.probes import FeatureGeometry, NearestPolygon, nearest_polygon
from elegans.studies.superposition.stagewise import State, dwellings
from elegans.studies.superposition.tasks import SparseFeatures
from elegans.studies.superposition.theory.coefficients import baseline_noise, quadratic_estimate
from elegans.studies.superposition.theory.polygons import one_hot_loss, polygon_arrays, polygon_point
from elegans.training import LocalLearningCoefficient

NBETA = 1000 / math.log(1000)
ONE_HOT = SparseFeatures(n=6, one_hot=True)


def quadratic(w, curvatures):
    return (curvatures * w**2).sum() / 2


def regression(w, curvatures, key):
    """Return the loss of eight fresh examples with unit noise."""
    index, lane = np.arange(8, dtype=np.uint32), np.arange(len(w), dtype=np.uint32)
    x = random.normal(key, index[:, None], lane=lane) * curvatures**0.5
    return ((x @ w - random.normal(key.fold(1), index)) ** 2).mean() / 2


@pytest.mark.parametrize("first, second", [(0, 1), (0, 3), (1, 2)])
def test_chains_on_a_crossing_move_and_stay_finite(first, second):
    sampler = Langevin(chains=2, draws=20, step_size=1e-4)
    sampled = sampler.sample(crossing(first, second), np.zeros(2), NBETA, random.stream(1, "probe"))
    assert (sampled.mean > 0).all() and np.isfinite(sampled.end).all()


CELLS = [(1e-4, 1.0, 5000, 0), (1e-3, 100.0, 5000, 0), (1e-3, 1.0, 100, 0), (1e-2, 1.0, 2000, 0), (1e-4, 10.0, 500, 0),
         (1e-3, 1.0, 2000, 8)]  # fmt: skip


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.parametrize(("step_size", "pull", "draws", "batch"), CELLS)
def test_the_sampler_has_the_exact_bias_on_quadratics(step_size, pull, draws, batch):  # five standard errors
    curvatures = np.array([0.5, 1.0, 1.0, 2.0])
    sampler = Langevin(chains=128, draws=draws, step_size=step_size, localisation=pull)
    noisy = regression if batch else None
    chains = sampler.sample(quadratic, np.zeros(4), NBETA, random.Key(1, 2), curvatures, noisy)
    values = NBETA * chains.mean
    predicted = quadratic_estimate(curvatures, step_size, pull, NBETA, draws, batch)
    assert abs(values.mean() - predicted) < 5 * values.std() / math.sqrt(len(values))
    assert chains.left == 0


def test_a_chain_is_the_same_alone_and_beside_others():
    few, many = (
        Langevin(chains=count, draws=200, step_size=1e-3).sample(
            quadratic, np.zeros(3), NBETA, random.Key(5, 6), np.ones(3)
        )
        for count in (2, 9)
    )
    np.testing.assert_allclose(many.mean[:2], few.mean, rtol=1e-12)
    np.testing.assert_allclose(many.end[:2], few.end, rtol=1e-12)


def reduced_rank(w, target):
    b, a = w[:9].reshape(3, 3), w[9:].reshape(3, 3)
    return ((b @ a - target) ** 2).sum() / 2


@pytest.mark.slow
@pytest.mark.compiles
def test_reduced_rank_regression_has_its_coefficient():
    target = np.diag([1.0, 0, 0])
    sampler = Langevin(chains=100, draws=20_000, burn_in=20_000, step_size=5e-7)
    chains = sampler.sample(
        reduced_rank, np.concatenate([target.ravel(), target.ravel()]), 1e5, random.Key(1, 1), target
    )
    values = 1e5 * chains.mean
    assert values.mean() == pytest.approx(4, abs=0.1 + 4 * values.std() / 10)  # 3.91(2) of 4 at this temperature


@pytest.mark.compiles
@pytest.mark.slow
def test_a_saddle_is_left_and_a_minimum_is_not():
    for corners, leaves in ((6, False), (2, True)):
        weights, bias = polygon_arrays(corners)
        start = np.concatenate([weights.ravel(), bias])
        sampler = Langevin(chains=8, draws=2000, step_size=1e-7)
        chains = sampler.sample(flat_loss, start, 1e5, random.Key(0, corners))
        assert (chains.left > 0.5) == leaves


def flat_loss(w, _):
    return one_hot_loss(w[:12].reshape(2, 6), w[12:])


def test_examples_have_their_density_and_one_hot_examples_one_feature():
    index, key = np.arange(20_000, dtype=np.uint32), random.Key(3, 4)
    x, y = SparseFeatures(n=5, density=0.2).examples(None, key, index)
    assert x is y and (x > 0).mean() == pytest.approx(0.2, abs=0.01) and x[x > 0].mean() == pytest.approx(0.5, abs=0.01)
    x, _ = ONE_HOT.examples(None, key, index)
    assert ((x > 0).sum(axis=1) <= 1).all() and (x > 0).mean(axis=0) == pytest.approx(1 / 6, abs=0.01)
    x, _ = SparseFeatures(n=5, one_hot=True, values="binary").examples(None, key, index)
    assert (x.sum(axis=1) == 1).all()


def descent(model, seed=0, **changes):
    training = {"kind": "exact-descent", "steps": 3000, "learning_rate": 0.1, "loss": {"kind": "square", "scale": 2}}
    training |= {"stopping": {"examples": 1000, "every": 3000, "loss": 0.06}, **changes}
    return el.Trial(task=ONE_HOT, regime="online", model=model, training=training, seed=seed)


@pytest.mark.compiles
@pytest.mark.slow
def test_exact_descent_from_near_the_hexagon_ends_there():
    probe = NearestPolygon(every=3000)
    outcome = el.train(
        descent(TiedAutoencoder(hidden=2, corners=6, scale=0.05)), probes=[probe, FeatureGeometry(every=3000)]
    )
    measured = outcome.measures[probe.kind]
    assert outcome.engine == "jax" and outcome.solved
    assert measured["corners"][-1] == 6 and measured["distance"][-1] < 0.01
    assert measured["loss"][-1] == pytest.approx(polygon_point(6).loss, rel=1e-3)
    assert outcome.test_loss == pytest.approx(measured["loss"][-1], rel=0.2)
    assert outcome.curve.loss[-1] == pytest.approx(measured["loss"][-1], rel=0.5)
    assert outcome.measures["feature-geometry"]["represented"][-1] == 6


def test_exact_descent_needs_a_closed_form():
    trial = descent(TiedAutoencoder(hidden=2))
    for path, value in (("task.one_hot", False), ("task.values", "binary"), ("model.activation", "linear")):
        with pytest.raises(el.errors.TrialError, match="exact descent must have a closed form of the mean loss"):
            trial.replace(path, value)


def test_polygons_are_their_own_nearest():
    for corners, dead in ((4, 2), (5, 1), (5, 0), (6, 0)):
        weights, bias = polygon_arrays(corners, 6, dead)
        turned = np.array([[0.6, -0.8], [0.8, 0.6]]) @ weights[:, [3, 1, 2, 0, 5, 4]]
        assert nearest_polygon(turned, bias[[3, 1, 2, 0, 5, 4]]) == (corners, dead, pytest.approx(0, abs=1e-12))


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:this local learning coefficient means nothing")
def test_the_probe_estimates_the_hexagon_and_distrusts_a_square_that_chains_leave():
    sampler = Langevin(chains=32, draws=4000, burn_in=2000, step_size=3e-8)
    cold = LocalLearningCoefficient(every=3000, sampler=sampler, nbeta=1e6)
    model = TiedAutoencoder(hidden=2, corners=6, scale=0.0)
    measured = el.train(descent(model), probes=[cold]).measures[cold.kind]
    assert measured["estimate"][-1] == pytest.approx(8.5, abs=0.8)
    assert measured["trusted"][-1] == 1 and measured["acceptance"][-1] > 0.99
    warm = cold.replace("nbeta", None).replace("sampler", {"chains": 16, "draws": 4000, "step_size": 1e-3})
    with pytest.warns(UserWarning, match="means nothing"):
        measured = el.train(descent(TiedAutoencoder(hidden=2, corners=4, scale=0.0), steps=1), probes=[warm]).measures[
            warm.kind
        ]
    assert measured["trusted"][-1] == 0 and measured["left"][-1] > 0.3


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:this local learning coefficient means nothing")
def test_a_baseline_of_few_batches_is_distrusted():
    probe = LocalLearningCoefficient(
        every=1, examples=200, batch_size=10, batches=2, sampler={"chains": 4, "draws": 50}
    )
    trial = descent(TiedAutoencoder(hidden=2), steps=1, kind="sgd").replace("task.one_hot", False)
    measured = el.train(trial, probes=[probe]).measures[probe.kind]
    assert measured["noise"][-1] > 0.1 * abs(measured["estimate"][-1]) and measured["trusted"][-1] == 0
    with pytest.raises(el.errors.TrialError, match="batches of the baseline must have a size"):
        el.train(trial, probes=[LocalLearningCoefficient(batches=3)])


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:this local learning coefficient means nothing")
def test_few_batches_spread_estimates_as_the_formula_says():
    sampler = Langevin(chains=2, draws=1, step_size=1e-9)
    probe = LocalLearningCoefficient(every=1, examples=1000, batch_size=32, batches=3, sampler=sampler)
    stopping = {"examples": 1000, "every": 200}
    trial = descent(TiedAutoencoder(hidden=2, corners=6, scale=0.0), steps=200, stopping=stopping)
    measured = el.train(trial, probes=[probe]).measures[probe.kind]
    hexagon, x = polygon_arrays(6), np.linspace(0, 1, 1001)[:, None] * np.eye(6)[0]
    outputs = np.maximum(x @ hexagon.weights.T @ hexagon.weights + hexagon.bias, 0)
    predicted = baseline_noise(NBETA, ((x - outputs) ** 2).sum(axis=1).std(), 32, 3)
    assert measured["noise"][-1] == pytest.approx(predicted, rel=0.1)  # the loss of 1000 examples
    assert np.std(measured["estimate"]) == pytest.approx(predicted, rel=0.2)  # four standard errors


def test_a_network_dwells_where_its_loss_stays_on_a_level_with_as_many_columns():
    levels = {corners: polygon_point(corners).loss for corners in (3, 4, 5)}
    loss = np.array([levels[3]] * 4 + [0.12] + [levels[4] * 1.01] * 2 + [0.08] + [levels[5]] * 3)
    corners = np.array([3.0] * 4 + [4] * 4 + [5] * 3)
    assert dwellings(corners, loss) == [(State(3, 0), 2), (State(5, 0), 9)]  # two measurements on a square are too few
    assert [state.name for state, _ in dwellings(corners, loss)] == ["3+++", "5+"]
    assert dwellings(corners + 1, loss) == []
