"""Losses of subtasks and products of gradients against JAX, and clusters against networks that are known."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import elegans as el
from elegans.errors import TrialError
from elegans.studies.neural_scaling.probes import (
    GradientClusters,
    SubtaskLosses,
    adjusted_rand,
    angular,
    cosines,
    gradient_products,
)
from elegans.studies.neural_scaling.settings import trial

TASK = el.MultitaskParity(n=9, k=2, tasks=4)
TRIAL = trial(TASK, width=30, steps=40, batch_size=50)


@pytest.fixture(scope="module")
def outcome():
    return el.train(TRIAL, probes=[SubtaskLosses(every=40, examples=64)])


def test_losses_of_subtasks_are_means_over_the_same_bits(outcome):
    found = outcome.measures["subtask-losses"]
    hidden = TASK.draw(TRIAL.key("task"))
    signs = el.random.rademacher(TRIAL.key("test"), np.arange(64, dtype=np.uint32), 9)
    for subtask in range(4):
        control = np.tile(np.eye(4, dtype=np.float32)[subtask], (64, 1))
        outputs = outcome.network(np.concatenate([control, (1 - signs) / 2], axis=1))
        margins = outputs * signs[:, hidden["supports"][subtask]].prod(axis=1)
        expected = np.log1p(np.exp(-margins)).mean() / math.log(2)
        assert found["losses"][-1][subtask] == pytest.approx(expected, rel=1e-4)
    assert found["loss"][-1] == pytest.approx(TASK.frequencies @ found["losses"][-1], rel=1e-5)
    assert found["learned"][-1] == (np.array(found["losses"][-1]) <= 0.5).sum()


def test_products_of_gradients_are_those_of_automatic_differentiation(outcome):
    x, y = TASK.examples(TASK.draw(TRIAL.key("task")), TRIAL.key("test"), np.arange(20, dtype=np.uint32))
    parameters = outcome.network.parameters

    def loss(parameters, x, y):
        return jnp.logaddexp(0, -y * TRIAL.model.apply(parameters, x[None])[0])

    each = jax.vmap(jax.grad(loss), (None, 0, 0))(jax.tree.map(jnp.asarray, parameters), x, y)
    control = np.asarray(each["hidden"]["weight"][:, :, :4]).reshape(20, -1)
    others = [
        each["hidden"]["weight"][:, :, 4:],
        each["hidden"]["bias"],
        each["output"]["weight"],
        each["output"]["bias"],
    ]
    shared = np.concatenate([np.asarray(part).reshape(20, -1) for part in others], axis=1)
    found = gradient_products(parameters, x, y, 4)
    np.testing.assert_allclose(found["control"], control @ control.T, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(found["shared"], shared @ shared.T, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(found["margin"], y * outcome.network(x), rtol=1e-4, atol=1e-5)


def test_angles_are_those_between_vectors():
    vectors = np.array([[1.0, 0], [0, 2], [-3, 0], [1, 1], [0, 0]])
    found = angular(cosines(vectors @ vectors.T))
    assert found[0] == pytest.approx([1, 0.5, 0, 0.75, 0.5])


def test_clusters_of_well_separated_groups_are_the_groups_and_noise_has_none():
    generator = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 15)
    centres = np.eye(8)[truth]
    near = centres + 0.05 * generator.normal(size=centres.shape)
    assert adjusted_rand(angular(cosines(near @ near.T)), truth) == 1
    noise = generator.normal(size=(60, 40))
    assert abs(adjusted_rand(angular(cosines(noise @ noise.T)), truth)) < 0.2


def test_clusters_are_measured_for_every_affinity():
    found = el.train(TRIAL, probes=[GradientClusters(every=40, subtasks=3, examples=10)]).measures["gradient-clusters"]
    names = {"angular", "unsigned", "whole", "active", "inputs", "labelled", "learned"}
    assert set(found) == {"step", *names}
    assert all(-1 <= value <= 1 for name in names for value in found[name])


@pytest.mark.parametrize(
    ("probe", "change", "message"),
    [
        (
            SubtaskLosses(),
            {"task": el.SparseParity(n=9, k=2)},
            "subtask-losses needs many parities: task='sparse-parity'",
        ),
        (SubtaskLosses(), {"model": el.MLP(width=9, activation="relu6")}, "needs a two-layer relu mlp"),
        (GradientClusters(subtasks=5), {}, "subtasks must be at most tasks: subtasks=5, tasks=4"),
    ],
)
def test_what_the_probes_do_not_measure_is_refused(probe, change, message):
    other = TRIAL
    for path, value in change.items():
        other = other.replace(path, value)
    with pytest.raises((TrialError, ValueError), match=message):
        el.train(other, probes=[probe])
