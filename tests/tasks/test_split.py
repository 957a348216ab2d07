"""A split gives every input of a finite task to training or to testing, never to both."""

import numpy as np
import pytest

import elegans as el
from elegans.random import Key

TASK = el.ModularAddition(p=11)


def parts(regime, task, key):
    sizes = {"sample": regime.sample_size(task), "test": regime.held_out_size(task)}
    return [regime.numbers(task, key, name, np.arange(size, dtype=np.uint32)) for name, size in sizes.items()]


@pytest.mark.parametrize("fraction", [0.01, 0.3, 0.5, 0.99])
@pytest.mark.parametrize("task", [TASK, el.GroupComposition(group="S4"), el.SparseParity(n=7, k=2)], ids=str)
def test_each_input_is_trained_on_or_held_out_once(task, fraction):
    regime = el.Split(fraction)
    train, test = parts(regime, task, Key(3, 4))
    assert len(train) == round(fraction * task.population)
    assert sorted([*train, *test]) == list(range(task.population))


def test_the_sample_key_decides_the_split_and_an_input_is_for_training_with_the_given_probability():
    regime, seeds = el.Split(0.5), 100
    index = np.arange(regime.sample_size(TASK), dtype=np.uint32)
    counts = np.zeros(TASK.population)
    for seed in range(seeds):
        counts[regime.numbers(TASK, el.random.stream(seed, "sample"), "sample", index)] += 1
    deviation = seeds**0.5 / 2  # of one count; one of 121 exceeds 4.5 of them with a probability below 0.001
    assert np.abs(counts - seeds / 2).max() < 4.5 * deviation


def test_a_larger_fraction_adds_inputs():
    small, large = (parts(el.Split(fraction), TASK, Key(0, 1))[0] for fraction in (0.2, 0.6))
    np.testing.assert_array_equal(large[: len(small)], small)


def test_examples_are_the_inputs_with_these_numbers_and_their_labels():
    regime, key, index = el.Split(0.4), Key(5, 6), np.arange(48, dtype=np.uint32)
    train, test = parts(regime, TASK, key)
    for stream, numbers in (("sample", train[:48]), ("test", test[:48])):
        x, y = regime.evaluated(TASK, None, lambda name: {"sample": key}[name], stream, index)
        wanted_x, wanted_y = TASK.member(None, numbers)
        np.testing.assert_array_equal(x, wanted_x)
        np.testing.assert_array_equal(y, wanted_y)
    np.testing.assert_array_equal(regime.examples(TASK, None, key, index)[0], TASK.member(None, train[:48])[0])


def test_an_epoch_of_full_batches_takes_every_training_input_once_in_each_step():
    regime = el.Split(0.4)
    size = regime.sample_size(TASK)
    for step in range(3):
        batch = regime.batch(TASK, Key(1, 2), np.uint32(step), size, "epochs")
        assert sorted(batch) == list(range(size))


def trial(task=TASK, fraction=0.5, **change):
    base = el.Trial(
        task=task,
        regime=el.Split(fraction),
        model=el.MLP(width=8, hidden_bias=False, output_bias=False, activation="power:2"),
        training=el.SGD(steps=4, loss="cross-entropy" if task.classes else "hinge", batch_size=8),
    )
    for path, value in change.items():
        base = base.replace(path.replace("__", "."), value)
    return base


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fraction": 0.001}, "fraction must leave an input for training: fraction=0.001, 121 inputs"),
        ({"fraction": 0.999}, "fraction must leave an input for testing: fraction=0.999, 121 inputs"),
        ({"task": el.MarkovChains(k=2, length=5)}, "a split must have a task of finitely many, equally likely inputs"),
        ({"task": el.BiasedParity(n=9, k=3)}, "a split must have a task of finitely many, .*: 'biased-parity'"),
        ({"task": el.SparseParity(n=21, k=2)}, "a split must have at most 2\\^20 inputs .*: 2097152 inputs"),
        ({"task": el.ModularAddition(p=1025)}, "a split must have at most 2\\^20 inputs .*: 1050625 inputs"),
    ],
)
def test_a_task_or_a_fraction_that_cannot_be_split_is_refused(change, message):
    with pytest.raises(el.errors.TrialError, match=message):
        trial(**change)


@pytest.mark.parametrize("fraction", [0, 1, -0.2, 1.5, float("nan")])
def test_a_fraction_lies_between_0_and_1(fraction):
    with pytest.raises(el.errors.TrialError, match=r"fraction.* (above 0|below 1|greater than 0|less than 1)"):
        el.Split(fraction)


def test_learners_that_are_not_trained_by_minibatches_refuse_a_split():
    with pytest.raises(el.errors.TrialError, match="by minibatches: model='subset-search'"):
        el.Trial(task=el.SparseParity(n=6, k=2), regime=el.Split(0.5), model=el.learners.SubsetSearch(examples=10))


def test_a_split_is_written_as_text_and_read_back():
    assert el.Trial.from_toml(trial().to_toml()).regime == el.Split(0.5)
    assert trial().replace("regime", "split:0.25").regime == el.Split(0.25)


@pytest.mark.parametrize(
    "task",
    [TASK, el.GroupComposition(group="D3"), pytest.param(el.SparseParity(n=6, k=2), marks=pytest.mark.slow)],
    ids=str,
)
def test_training_and_test_errors_are_exact(task):
    regime = el.Split(0.6)
    size, others = regime.sample_size(task), regime.held_out_size(task)
    stopping = el.StoppingRule(error=0, examples=others)
    one = trial(task, 0.6, training__stopping=stopping, training__steps=30)
    probes = [el.probes.TrainErrorRate(every=30), el.probes.HeldOutErrorRate(every=30, examples=others)]
    outcome = el.train(one, probes=probes)
    wrong = []
    for numbers in parts(regime, task, one.key("sample")):
        x, y = task.member(task.draw(one.key("task")), numbers)
        outputs = np.asarray(one.model.apply(outcome.parameters, x))
        wrong.append(outputs.argmax(axis=1) != y if task.classes else ~(outputs * y > 0))
    train, test = wrong
    assert outcome.train_error == pytest.approx(train[: min(size, others)].mean())  # as many as are held out
    assert outcome.measures["train-error"]["error"][-1] == pytest.approx(train.mean())
    assert outcome.test_error == outcome.measures["test-error"]["error"][-1] == pytest.approx(test.mean())
