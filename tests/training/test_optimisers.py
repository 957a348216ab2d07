"""Optimisers against traces by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

import elegans as el


def trace(training, gradients, start=1.0):
    """Return the values of a parameter that meets these gradients one after the other."""
    parameters = {"output": {"bias": jnp.float32(start)}}
    state = training.optimiser(1.0).init(parameters)
    values = []
    for gradient in gradients:
        updates, state = training.optimiser(1.0).update({"output": {"bias": jnp.float32(gradient)}}, state, parameters)
        parameters = {"output": {"bias": parameters["output"]["bias"] + updates["output"]["bias"]}}
        values.append(float(parameters["output"]["bias"]))
    return values


def test_adam_is_its_formula():
    value, mean, square, expected = 1.0, 0.0, 0.0, []
    for step, gradient in enumerate([0.5, -1.0, 2.0], start=1):
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        direction = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        value -= 0.01 * (direction + 0.1 * value)
        expected.append(value)
    assert trace(el.Adam(steps=1, learning_rate=0.01, weight_decay=0.1), [0.5, -1.0, 2.0]) == pytest.approx(expected)


def test_adamw_is_adam_with_a_weight_decay_of_its_own():
    gradients = [0.5, -1.0, 2.0]
    settings = {"steps": 1, "learning_rate": 0.01}
    assert trace(el.AdamW(**settings), gradients) == trace(el.Adam(**settings, weight_decay=0.01), gradients)
    assert trace(el.AdamW(**settings, weight_decay=0), gradients) == trace(el.Adam(**settings), gradients)


def test_adadelta_is_its_formula():
    value, square, moved, expected = 1.0, 0.0, 0.0, []
    for gradient in [0.5, -1.0, 2.0]:
        square = 0.95 * square + 0.05 * gradient**2
        direction = np.sqrt(moved + 1e-6) / np.sqrt(square + 1e-6) * gradient
        moved = 0.95 * moved + 0.05 * direction**2
        value -= direction
        expected.append(value)
    assert trace(el.training.AdaDelta(steps=1), [0.5, -1.0, 2.0]) == pytest.approx(expected)


CLIPPED = [{"a": [3.0, 0.0], "b": 4.0}, {"a": [0.3, 0.0], "b": -0.4}, {"a": [-30.0, 40.0], "b": 0.0}]
"""Gradients of norms 5, 0.5 and 50."""


def clipped(gradient, largest):
    """Gradient entries (3,) scaled down by all of their norm together, as ``torch.nn.utils.clip_grad_norm_`` does."""
    flat = np.array([*gradient["a"], gradient["b"]])
    return flat * min(1, largest / (np.linalg.norm(flat) + 1e-6))


def steps(training, gradients):
    """The entries (3,) of two parameters after each of these gradients."""
    layers = {"layer": {"a": jnp.zeros(2), "b": jnp.float32(0)}}
    state, values = training.optimiser(1.0).init(layers), []
    for gradient in gradients:
        given = {"layer": {name: jnp.asarray(part, jnp.float32) for name, part in gradient.items()}}
        updates, state = training.optimiser(1.0).update(given, state, layers)
        layers = {"layer": {name: part + updates["layer"][name] for name, part in layers["layer"].items()}}
        values.append([*np.asarray(layers["layer"]["a"]), float(layers["layer"]["b"])])
    return np.array(values)


def test_gradients_longer_than_the_clip_are_scaled_down_by_the_norm_of_all_parameters():
    """The first and the last are scaled, to norms of 1; the one between them stays."""
    scaled = np.array([clipped(gradient, 1.0) for gradient in CLIPPED])
    assert np.linalg.norm(scaled, axis=1) == pytest.approx([1, 0.5, 1], abs=1e-5)
    found = steps(el.SGD(steps=1, learning_rate=0.1, clip=1.0), CLIPPED)
    assert found == pytest.approx(-0.1 * scaled.cumsum(axis=0), abs=1e-6)
    assert steps(el.SGD(steps=1, learning_rate=0.1), CLIPPED)[0] == pytest.approx([-0.3, 0, -0.4])


def test_adam_takes_its_means_of_clipped_gradients_and_decay_is_not_clipped():
    value, mean, square, expected = np.zeros(3), np.zeros(3), np.zeros(3), []
    for step, gradient in enumerate(clipped(gradient, 1.0) for gradient in CLIPPED):
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        unbiased = mean / (1 - 0.9 ** (step + 1)), square / (1 - 0.999 ** (step + 1))
        value = value - 0.01 * (unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8) + 0.5 * value)
        expected.append(value)
    found = steps(el.Adam(steps=1, learning_rate=0.01, weight_decay=0.5, clip=1.0), CLIPPED)
    assert found == pytest.approx(np.array(expected), abs=1e-6)


def test_a_clip_must_be_positive():
    with pytest.raises(el.errors.TrialError, match="clip must be greater than 0: clip=0.0"):
        el.Adam(steps=1, clip=0.0)


def test_sgd_decays_through_the_gradient_or_the_parameters_themselves():
    rates = {"learning_rate": 0.1, "weight_decay": 0.01}
    assert trace(el.SGD(steps=1, **rates), [2.0]) == pytest.approx([1 - 0.1 * (2 + 0.01)])
    assert trace(el.SGD(steps=1, decay="parameters", **rates), [2.0]) == pytest.approx([0.99 - 0.1 * 2])


def test_the_cube_gives_the_population_gradient_of_a_parity():
    """One step of SGD on all inputs moves the weights of a square unit by k! times the other relevant weight."""
    task = el.SparseParity(n=6, k=2, support=(1, 4))
    model = el.MLP(width=1, activation=el.models.Power(2), readout=False)
    training = el.SGD(steps=1, learning_rate=0.5, batch_size=64, loss="correlation")
    trial = el.Trial(task=task, regime=el.Population(), model=model, training=training)
    before = model.initialise(trial.key("init"), task)["hidden"]["weight"][0]
    after = el.train(trial).parameters["hidden"]["weight"][0]
    expected = np.zeros(6)
    expected[[1, 4]] = 0.5 * 2 * before[[4, 1]]
    assert after - before == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 32}, "batch_size must be the number of inputs: batch_size=32, 64 inputs"),
        ({"n": 21}, "a population must have at most 2\\^20 inputs .*: 2097152 inputs"),
    ],
)
def test_the_cube_refuses_what_it_cannot_hold(changes, message):
    n = changes.pop("n", 6)
    with pytest.raises(el.errors.TrialError, match=message):
        el.Trial(
            task=el.SparseParity(n=n, k=2),
            regime=el.Population(),
            model=el.MLP(width=1),
            training=el.SGD(steps=1, **{"batch_size": 64, **changes}),
        )
