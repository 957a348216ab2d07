"""The quantization model against sums term by term, limits, and Monte Carlo."""

import math

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.errors import TheoryError


@pytest.mark.parametrize(("tasks", "alpha"), [(1, 0.4), (7, 0.4), (100, 1.5)])
def test_frequencies_are_those_of_the_task(tasks, alpha):
    task = el.MultitaskParity(n=5, k=2, tasks=tasks, alpha=alpha)
    np.testing.assert_allclose(theory.quanta_frequencies(tasks, alpha), task.frequencies, rtol=1e-12)


def test_the_loss_is_the_probability_of_what_is_not_learned():
    p = theory.quanta_frequencies(20, 0.4)
    found = theory.quanta_loss(np.arange(21), 20, 0.4)
    assert found == pytest.approx([p[n:].sum() for n in range(21)])
    assert found[0] == pytest.approx(1) and found[-1] == 0
    assert theory.quanta_loss(3.25, 20, 0.4) == pytest.approx(0.75 * found[3] + 0.25 * found[4])


@pytest.mark.parametrize("alpha", [0.4, 1.0])
def test_exponents_are_approached_in_the_middle_of_a_long_list(alpha):
    """At n = 30 of 10^6 the sum differs from its integral by less than 1 / n, the list's end by (n / tasks)^alpha."""
    tasks = 10**6
    ended = 1 / (1 - (30 / tasks) ** alpha)
    assert theory.quanta_local_exponent(30, tasks, alpha) == pytest.approx(alpha * ended, rel=0.04)
    exponents = theory.quanta_exponents(alpha)
    assert exponents == (alpha, alpha / (1 + alpha), alpha / (1 + alpha))
    sizes = np.array([1e3, 1e4])
    end = 1 / (1 - (sizes.prod() ** 0.5 / 3) ** (alpha / (1 + alpha)) * tasks**-alpha)
    for loss in (theory.quanta_step_loss, theory.quanta_sample_loss):
        first, last = loss(sizes, 3, tasks, alpha)
        assert math.log10(first / last) == pytest.approx(exponents.samples * end, rel=0.08)


def test_the_crossover_is_where_the_list_ends():
    for tasks, alpha, excess in ((500, 0.4, 0.25), (100, 0.4, 0.5), (1000, 1.0, 0.1)):
        crossover = theory.quanta_crossover(tasks, alpha, excess)
        beyond = theory.quanta_local_exponent(np.arange(crossover, tasks - 1), tasks, alpha)
        assert (beyond > (1 + excess) * alpha).all()
        assert crossover == 1 or theory.quanta_local_exponent(crossover - 1, tasks, alpha) <= (1 + excess) * alpha
    assert theory.quanta_crossover(100_000, 0.4, 0.25) == pytest.approx(100_000 * 0.2**2.5, rel=0.05)


def test_losses_of_width_and_steps_are_those_of_the_learned_subtasks():
    assert theory.quanta_width_loss([0, 12, 10**9], 4, 50, 0.4) == pytest.approx(
        theory.quanta_loss([0, 3, 50], 50, 0.4)
    )
    steps = 700 * np.array([0.99, 1, 2**1.4, 3**1.4, 10**6])
    expected = theory.quanta_loss([0, 1, 2, 3, 50], 50, 0.4)
    assert theory.quanta_step_loss(steps, 700, 50, 0.4) == pytest.approx(expected)


def test_the_loss_of_a_sample_is_its_mean_over_samples():
    """4000 samples; the standard error of the mean is below 0.0014, so that 0.007 is missed once in 10^6 times."""
    p = theory.quanta_frequencies(10, 0.4)
    counts = np.random.default_rng(0).multinomial(60, p, size=4000)
    losses = (counts < 5) @ p
    assert losses.std() / math.sqrt(4000) < 0.0014
    assert theory.quanta_sample_loss(60, 5, 10, 0.4) == pytest.approx(losses.mean(), abs=0.007)
    assert theory.quanta_sample_loss([0, 10**9], 5, 10, 0.4) == pytest.approx([1, 0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.quanta_frequencies(0, 0.4), "tasks must be at least 1: tasks=0"),
        (lambda: theory.quanta_frequencies(3, 0.0), "alpha must be positive"),
        (lambda: theory.quanta_loss(4, 3, 0.4), "learned must lie in 0 ... tasks: tasks=3"),
        (lambda: theory.quanta_local_exponent(2, 3, 0.4), "learned must lie in 1 ... tasks - 2: tasks=3"),
        (lambda: theory.quanta_crossover(2, 0.4, 0.25), "tasks must be at least 3: tasks=2"),
        (lambda: theory.quanta_width_loss(4, 0, 3, 0.4), "each must be positive"),
        (lambda: theory.quanta_step_loss(4, -1, 3, 0.4), "first must be positive"),
        (lambda: theory.quanta_step_loss(-4, 1, 3, 0.4), "steps must be at least 0"),
        (lambda: theory.quanta_sample_loss(-1, 1, 3, 0.4), "samples must be at least 0"),
        (lambda: theory.quanta_width_loss(-1, 1, 3, 0.4), "width must be at least 0"),
    ],
)
def test_what_is_outside_the_model_is_refused(call, message):
    with pytest.raises(TheoryError, match=message.replace(".", r"\.")):
        call()
