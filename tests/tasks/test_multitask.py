"""Many parities behind control bits."""

import numpy as np
import pytest

import elegans as el
from elegans import random
from elegans.errors import TrialError

TASK = el.MultitaskParity(n=70, k=3, tasks=6, alpha=0.4)
INDEX = np.arange(40_000, dtype=np.uint32)


@pytest.fixture(scope="module")
def drawn():
    hidden = TASK.draw(random.stream(3, "task"))
    return hidden, *TASK.examples(hidden, random.stream(3, "sample"), INDEX)


def test_inputs_have_one_control_bit_and_uniform_data_bits(drawn):
    _, x, y = drawn
    assert x.shape == (40_000, 76) and x.dtype == y.dtype == np.float32
    assert set(np.unique(x)) == {0, 1} and set(np.unique(y)) == {-1, 1}
    assert (x[:, :6].sum(axis=1) == 1).all()
    # 70 means of 40,000 fair bits: beyond 4.9 standard errors (10^-6 two-sided) with probability 7 x 10^-5
    assert np.abs(x[:, 6:].mean(axis=0) - 0.5).max() < 4.9 * 0.5 / 200


def test_subtasks_are_as_frequent_as_stated(drawn):
    counts = drawn[1][:, :6].sum(axis=0)
    expected = 40_000 * TASK.frequencies
    assert TASK.frequencies == pytest.approx(np.arange(1, 7) ** -1.4 / (np.arange(1, 7) ** -1.4).sum())
    # chi-squared with 5 degrees of freedom: above 36 with probability 10^-6
    assert ((counts - expected) ** 2 / expected).sum() < 36


def test_the_label_is_the_parity_of_the_subtask_s_bits(drawn):
    hidden, x, y = drawn
    subtask = x[:, :6].argmax(axis=1)
    assert (subtask == TASK.subtasks(hidden, random.stream(3, "sample"), INDEX)).all()
    bits = np.take_along_axis(x[:, 6:], hidden["supports"][subtask], axis=1)
    assert (y == 1 - 2 * (bits.sum(axis=1) % 2)).all()
    assert all(len(set(support)) == 3 for support in hidden["supports"].tolist())


def test_jax_draws_the_same_examples(drawn):
    import jax
    import jax.numpy as jnp

    hidden, x, y = drawn
    there = jax.tree.map(jnp.asarray, hidden)
    found = jax.jit(lambda index: TASK.examples(there, random.stream(3, "sample"), index))(jnp.asarray(INDEX[:500]))
    np.testing.assert_array_equal(found[0], x[:500])
    np.testing.assert_array_equal(found[1], y[:500])


def test_the_frequent_parity_is_learned_before_the_rare_one():
    """Two subtasks, one eight times as frequent, in each of three networks."""
    task = el.MultitaskParity(n=8, k=2, tasks=2, alpha=2.0)
    training = el.Adam(steps=1500, batch_size=128, learning_rate=0.01, stopping=el.StoppingRule(stop=False, every=500))
    for seed in range(3):
        trial = el.Trial(task=task, regime="online", model=el.MLP(width=64), training=training, seed=seed)
        early = _errors(el.train(trial.replace("training.steps", 100)), trial)
        late = _errors(el.train(trial), trial)
        assert early[0] < early[1] and late.max() < 0.02


def _errors(outcome, trial):
    hidden, index = trial.task.draw(trial.key("task")), np.arange(4000, dtype=np.uint32)
    x, y = trial.task.examples(hidden, trial.key("test"), index)
    wrong = outcome.network(x) * y <= 0
    return np.array([wrong[x[:, place] == 1].mean() for place in range(2)])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"k": 9}, "k must be at most n: k=9, n=8"),
        ({"tasks": 0}, "tasks"),
        ({"alpha": -1.0}, "alpha"),
        ({"n": 0}, "n"),
    ],
)
def test_impossible_tasks_are_refused(fields, message):
    with pytest.raises(TrialError, match=message):
        el.MultitaskParity(**{"n": 8, "k": 2, "tasks": 3, **fields})
