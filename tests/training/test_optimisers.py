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


def test_adadelta_is_its_formula():
    value, square, moved, expected = 1.0, 0.0, 0.0, []
    for gradient in [0.5, -1.0, 2.0]:
        square = 0.95 * square + 0.05 * gradient**2
        direction = np.sqrt(moved + 1e-6) / np.sqrt(square + 1e-6) * gradient
        moved = 0.95 * moved + 0.05 * direction**2
        value -= direction
        expected.append(value)
    assert trace(el.AdaDelta(steps=1), [0.5, -1.0, 2.0]) == pytest.approx(expected)


def test_sgd_decays_through_the_gradient_or_the_parameters_themselves():
    rates = {"learning_rate": 0.1, "weight_decay": 0.01}
    assert trace(el.SGD(steps=1, **rates), [2.0]) == pytest.approx([1 - 0.1 * (2 + 0.01)])
    assert trace(el.SGD(steps=1, decay="parameters", **rates), [2.0]) == pytest.approx([0.99 - 0.1 * 2])


def test_the_cube_gives_the_population_gradient_of_a_parity():
    """One step of SGD on all inputs moves the weights of a square unit by k! times the other relevant weight."""
    task = el.SparseParity(n=6, k=2, support=(1, 4))
    model = el.MLP(width=1, activation=el.Power(2), second_layer=False)
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
    with pytest.raises(el.TrialError, match=message):
        el.Trial(
            task=el.SparseParity(n=n, k=2),
            regime=el.Population(),
            model=el.MLP(width=1),
            training=el.SGD(steps=1, **{"batch_size": 64, **changes}),
        )
