"""The analytic solution of addition mod p against brute force and Monte Carlo."""

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.errors import TheoryError
from elegans.studies.modular_grokking.theory.analytic import quadratic_accuracy


def key(seed):
    return el.random.stream(seed, "probe")


def margins(p, width, seeds):
    """The right output less each other one at pair (0, 0), shape (seeds, p - 1)."""
    found = []
    for seed in seeds:
        u, v, w = theory.analytic_weights(p, width, key(seed))
        outputs = (u[:, 0] + v[:, 0]) ** 2 @ w
        found.append(outputs[0] - outputs[1:])
    return np.array(found)


def test_weights_are_cosines_of_balanced_frequencies_whose_phases_add_up():
    u, v, w = theory.analytic_weights(11, 15, key(0))
    frequencies = theory.analytic_frequencies(11, 15)
    assert np.bincount(frequencies).tolist() == [0, 3, 3, 3, 3, 3]
    found = [np.fft.fft(part)[np.arange(15), frequencies] for part in (u, v, w)]
    assert np.allclose([np.abs(each) for each in found], 11 / 2)
    first, second, third = (np.angle(each) for each in found)
    assert np.allclose(np.exp(1j * (first + second - third)), 1)


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize(("p", "width"), [(7, 12), (11, 40), (23, 66)])
def test_margins_have_this_mean_and_deviation(p, width):
    """3000 networks: the mean within 5 standard errors, the deviation within 10%; wrong once in 10^5."""
    mean, deviation = theory.analytic_margin(p, width)
    found = margins(p, width, range(3000))
    assert np.abs(found.mean(axis=0) - mean).max() < 5 * deviation / 3000**0.5
    assert np.abs(found.std(axis=0) / deviation - 1).max() < 0.1


def test_the_accuracy_is_the_network_s():
    p, width = 7, 20
    u, v, w = theory.analytic_weights(p, width, key(3))
    network = el.MLP(width=width, activation="power:2", hidden_bias=False, output_bias=False)
    x, y = el.ModularAddition(p=p).member(None, np.arange(p * p, dtype=np.uint32))
    outputs = network.apply({"hidden": {"weight": np.concatenate([u, v], axis=1)}, "output": {"weight": w.T}}, x)
    assert theory.analytic_accuracy(p, width, key(3)) == (outputs.argmax(axis=1) == y).mean()
    assert quadratic_accuracy(u, v, 0 * w) == 0  # ties are wrong


@pytest.mark.parametrize(("p", "width"), [(11, 30), (11, 60), (23, 110)])
def test_the_bound_is_below_the_mean_accuracy_and_approaches_it(p, width):
    """The mean of 200 networks, whose pairs are dependent: its error is below 0.02 with a probability above 0.999."""
    found = np.mean([theory.analytic_accuracy(p, width, key(seed)) for seed in range(200)])
    bound = theory.analytic_accuracy_bound(p, width)
    assert bound - 0.02 < found <= 1
    assert width < 60 or found - bound < 0.05


def test_the_least_width_has_the_accuracy_and_one_less_has_not():
    for p, accuracy in ((7, 0.5), (23, 0.99), (97, 0.99), (97, 0.999)):
        width = theory.analytic_width(p, accuracy)
        assert theory.analytic_accuracy_bound(p, width) >= accuracy > theory.analytic_accuracy_bound(p, width - 1)
    assert theory.analytic_width(97) < 2 * theory.analytic_width(11)  # it grows as log p


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.analytic_weights(8, 10, key(0)), "p must be odd and at least 3: p=8"),
        (lambda: theory.analytic_margin(1, 10), "p must be odd and at least 3: p=1"),
        (lambda: theory.analytic_accuracy(7, 0, key(0)), "width must be at least 1: width=0"),
        (lambda: theory.analytic_width(7, 1.0), "accuracy must lie between 0 and 1: accuracy=1"),
    ],
)
def test_what_breaks_a_rule_is_refused(call, message):
    with pytest.raises(TheoryError, match=message):
        call()
