"""Kernel ridge regression: its kernels, its rounds, and how many examples of the XOR it takes."""

import numpy as np
import pytest

import elegans as el
from elegans.learners.base import LearnerData

TASK = el.XOR(n=12)


def lesson(regime, task=TASK, seed=0):
    return LearnerData(
        task, regime, task.draw(el.random.stream(seed, "task")), lambda name: el.random.stream(seed, name)
    )


def trial(count, task=TASK, **fields):
    return el.Trial(task=task, regime=el.Sample(count), model=el.KernelRidge(**fields))


def test_kernels_are_those_of_infinitely_many_random_neurons():
    """2 E[relu(w.x) relu(w.x')] and 2 x.x' E[1{w.x > 0} 1{w.x' > 0}] over 200000 normal w; means err by less than 0.02
    (norms are below 3), the bound of 0.1 is 5 deviations."""
    generator = np.random.default_rng(0)
    x, weight = generator.normal(size=(5, 3)), generator.normal(size=(200_000, 3))
    pre = weight @ x.T
    hidden, open_ = np.maximum(pre, 0), (pre > 0).astype(float)
    relu = 2 * hidden.T @ hidden / len(weight)
    tangent = relu + 2 * (x @ x.T) * (open_.T @ open_) / len(weight)
    assert el.KernelRidge(kernel="relu").gram(x, x) == pytest.approx(relu, abs=0.1)
    assert el.KernelRidge(kernel="ntk").gram(x, x) == pytest.approx(tangent, abs=0.1)
    assert el.KernelRidge().gram(np.zeros((1, 3)), x) == pytest.approx(0)


@pytest.mark.parametrize("kernel", ["ntk", "relu"])
@pytest.mark.parametrize("inputs", ["signs", "gaussian"])
def test_rounds_come_to_the_regression_on_all_examples(kernel, inputs):
    task = el.XOR(n=12, inputs=inputs)
    model = el.KernelRidge(kernel=kernel, ridge=0.01, examples=17, steps=5)
    course = model.begin(lesson(el.Online(), task))
    course.advance(2)
    course.advance(3)
    x, y = lesson(el.Online(), task).examples(np.arange(85, dtype=np.uint32))
    gram = model.gram(x, x)
    ridge = 0.01 * np.diag(gram)[:17].mean()
    expected = np.linalg.solve(gram + ridge * np.eye(85), y)
    assert np.array_equal(course.parameters["x"], x)
    assert course.parameters["coefficients"] == pytest.approx(expected, abs=1e-10)


def test_loss_and_error_are_those_on_the_examples_to_come():
    model = el.KernelRidge(examples=40, steps=2)
    course = model.begin(lesson(el.Online()))
    course.advance(1)
    assert (course.loss, course.error) == (1, 1)
    x, y = lesson(el.Online()).examples(np.arange(40, 80, dtype=np.uint32))
    answer = model.apply(course.parameters, x)
    course.advance(1)
    assert course.loss == pytest.approx(((answer - y) ** 2).mean())
    assert course.error == (answer * y <= 0).mean()


def test_without_a_number_the_whole_sample_is_one_round():
    outcome = el.train(trial(300, stopping={"error": 0.05}))
    assert (outcome.steps, outcome.engine, outcome.train_error) == (1, "learner", 0)
    assert len(outcome.parameters["x"]) == 300


def test_flipped_labels_are_fitted_as_they_are_seen():
    one = trial(200, task=el.XOR(n=30, noise=0.3))
    outcome = el.train(one)
    x, y = one.task.examples(None, one.key("sample"), np.arange(200, dtype=np.uint32))
    flipped = one.task.corrupt(y, one.key("noise"), np.arange(200, dtype=np.uint32)) != y
    assert outcome.train_error == 0 and flipped.any()
    assert np.array_equal(y * one.model.apply(outcome.parameters, x) < 0, flipped)


REFUSED = [
    (el.Sample(10), {"examples": 4, "steps": 3}, "kernel-ridge must regress on at most 10 examples: 12"),
    (el.Sample(10**6), {}, "kernel-ridge must regress on at most 30000 examples: 1000000"),
    (el.Sample(10), {"steps": 2}, "examples of kernel-ridge must be given, except for one round on a sample"),
    (el.Online(), {}, "examples of kernel-ridge must be given, except for one round on a sample: regime='online'"),
    (el.Online(), {"examples": 300, "steps": 101}, "at most 30000 examples: 30300"),
    (el.Online(), {"examples": 3, "ridge": 0}, "ridge must be greater than 0"),
]


@pytest.mark.parametrize(("regime", "fields", "message"), REFUSED)
def test_regressions_on_what_is_not_there_are_refused(regime, fields, message):
    with pytest.raises(el.errors.TrialError, match=message):
        el.Trial(task=TASK, regime=regime, model=el.KernelRidge(**fields))


def test_a_quarter_of_the_squared_dimension_is_too_few_examples():
    """Errors of five seeds at n = 16 lie in 0.26 to 0.36 with n^2 / 4 examples and below 0.005 with n^2."""
    task = el.XOR(n=16, basis="random")
    few, many = ([el.train(trial(count, task).with_seed(seed)).test_error for seed in range(3)] for count in (64, 256))
    assert min(few) > 0.15
    assert max(many) < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("n", [32, 48])
def test_so_it_is_in_larger_dimensions(n):
    """Measured over five seeds: at least 0.2 with n^2 / 4 examples and at most 0.005 with n^2."""
    few, many = (el.train(trial(count, el.XOR(n=n))).test_error for count in (n * n // 4, n * n))
    assert few > 0.15
    assert many < 0.03
