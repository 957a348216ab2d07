"""Sums of parities: inputs, real labels, and the native engine that looks labels up in a table."""

import itertools

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.errors import TrialError
from elegans.training.engines import ENGINES, ChunkRequest
from elegans.training.mistakes import wrong

SETS, COEFFICIENTS = [[0], [1, 2], [], [0, 1, 3]], [1.0, -0.5, 0.25, 2.0]
TASK = el.MonomialSum(n=70, k=4, sets=SETS, coefficients=COEFFICIENTS)
INDEX = np.arange(500, dtype=np.uint32)


def trial(task, loss="square", activation="relu", batch_size=32, steps=300, width=40, seed=3):
    model = el.MLP(width=width, activation=activation)
    training = el.SGD(learning_rate=0.02, batch_size=batch_size, steps=steps, loss=loss)
    return el.Trial(task=task, regime=el.Online(), model=model, training=training, seed=seed)


def test_labels_are_sums_of_products_over_the_support():
    hidden = TASK.draw(el.random.stream(1, "task"))
    x, y = TASK.examples(hidden, el.random.stream(1, "sample"), INDEX)
    products = [x[:, hidden[members]].prod(axis=1) for members in SETS]
    np.testing.assert_allclose(y, np.tensordot(COEFFICIENTS, products, 1), rtol=1e-6)


def test_values_are_those_of_the_theory():
    np.testing.assert_allclose(TASK.values, theory.monomial_values(SETS, COEFFICIENTS))


def test_inputs_and_support_are_those_of_the_parity():
    parity, monomial = el.SparseParity(n=70, k=3), el.MonomialSum(n=70, k=3, sets=[[0, 1, 2]])
    supports = [task.draw(el.random.stream(5, "task")) for task in (parity, monomial)]
    assert np.array_equal(*supports)
    drawn = [task.examples(supports[0], el.random.stream(5, "sample"), INDEX) for task in (parity, monomial)]
    assert all(np.array_equal(*pair) for pair in zip(*drawn, strict=True))


def test_jax_draws_the_same_examples():
    import jax
    import jax.numpy as jnp

    hidden, key = TASK.draw(el.random.stream(2, "task")), el.random.stream(2, "sample")
    found = jax.jit(lambda index: TASK.examples(jnp.asarray(hidden), key, index))(jnp.asarray(INDEX))
    for there, here in zip(found, TASK.examples(hidden, key, INDEX), strict=True):
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("batch_size", [4, 32, 33])
def test_a_table_of_three_signs_reproduces_the_parity_s_trajectory(activation, batch_size):
    tasks = el.SparseParity(n=50, k=3), el.MonomialSum(n=50, k=3, sets=[[0, 1, 2]])
    states = [el.train(trial(task, "square", activation, batch_size), engine="fused").parameters for task in tasks]
    for layer, part in itertools.product(("hidden", "output"), ("weight", "bias")):
        assert np.array_equal(*(state[layer][part] for state in states)), (layer, part)


@pytest.mark.parametrize("loss", ["square", "correlation"])
@pytest.mark.parametrize("batch_size", [4, 33])
def test_native_and_general_engine_agree_on_real_labels(loss, batch_size):
    one = trial(TASK, loss, batch_size=batch_size)
    fused, general = (ENGINES[name] for name in ("fused", "jax"))
    native, state = fused.init([one]), general.init([one])
    native, ours = fused.advance(native, ChunkRequest.of(3))
    state, theirs = general.advance(state, ChunkRequest.of(3))
    assert ours.intervals[0].loss == pytest.approx(theirs.intervals[0].loss, rel=1e-4)
    assert ours.intervals[0].error == pytest.approx(theirs.intervals[0].error)
    index = INDEX[None]
    assert (fused.wrong(native, "test", index) != general.wrong(state, "test", index)).mean() < 0.01
    here, there = fused.parameters(native)[0], general.parameters(state)[0]
    np.testing.assert_allclose(here["hidden"]["weight"], there["hidden"]["weight"], rtol=2e-4, atol=2e-5)


def test_outputs_within_a_half_of_real_labels_are_right():
    output, label = np.array([1.0, 2.6, -0.4, np.nan]), np.array([1.5, 2.0, 0.0, 0.0])
    assert wrong(output, label, real=True).tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: el.MonomialSum(n=9, k=3, sets=[]), "at least one set"),
        (lambda: el.MonomialSum(n=9, k=3, sets=[[3]]), "distinct numbers below k: k=3"),
        (lambda: el.MonomialSum(n=9, k=3, sets=[[0, 0]]), "distinct numbers below k"),
        (lambda: el.MonomialSum(n=9, k=3, sets=[[0, 1], [1, 0]]), "sets must be distinct"),
        (lambda: el.MonomialSum(n=9, k=3, sets=[[0]], coefficients=[1, 2]), "one coefficient per set"),
        (lambda: el.MonomialSum(n=20, k=13, sets=[[0]]), "less than or equal to 12"),
        (lambda: trial(TASK, loss="hinge"), "the loss must take real labels"),
    ],
)
def test_bad_sums_are_refused(make, message):
    with pytest.raises(TrialError, match=message):
        make()
