"""Sparse parity by powers: the largest margin, and the neurons and networks that have it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import elegans as el
from elegans import theory

MARGINS = {
    1: (0.7071067812, 1),
    2: (0.5443310540, 2),
    3: (0.5303300859, 4),
    4: (0.6071573108, 8),
    5: (0.7856742013, 16),
    6: (1.122029704, 32),
    7: (1.740145594, 64),
    8: (2.896971541, 128),
}


@pytest.mark.parametrize("k", MARGINS)
def test_the_largest_margin_and_its_width_are_these(k):
    margin, width = MARGINS[k]
    assert theory.parity_maximum_margin(k) == pytest.approx(margin, rel=1e-9)
    assert theory.parity_width(k) == width


def test_the_largest_margin_is_smallest_at_3():
    margins = [theory.parity_maximum_margin(k) for k in range(1, 60)]
    assert int(np.argmin(margins)) + 1 == 3


@pytest.mark.parametrize(
    ("n", "support"),
    [(3, (1,)), (4, (0, 3)), (5, (0, 2, 4)), (6, (1, 2, 3, 5)), (10, range(4)), (7, range(1, 6)), (8, range(6))],
)
def test_the_construction_has_the_largest_margin_at_every_input(n, support):
    k = len(support)
    network = theory.parity_construction(n, support)
    assert len(network.u) == theory.parity_width(k)
    assert network.mass == pytest.approx(1, rel=1e-12)
    margins = theory.pointwise_margins(network, theory.parity_labels(n, support))
    np.testing.assert_allclose(margins, theory.parity_maximum_margin(k), rtol=1e-11)
    report = theory.parity_neurons(network, support)
    for name, value in report._asdict().items():
        np.testing.assert_allclose(value, 0 if name == "outside" else 1, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_its_logits_are_those_of_the_formula(k):
    logits = theory.parity_construction(k + 1, range(k)).logits()
    size = math.factorial(k) * (k + 1) ** (-(k + 1) / 2) / math.sqrt(2)
    signs = 1 - 2 * theory.parity_labels(k + 1, range(k))
    np.testing.assert_allclose(logits, size * np.outer(signs, [1, -1]), rtol=1e-12)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=7))
def test_signed_powers_sum_to_the_product(y):
    signs = itertools.product((1, -1), repeat=len(y))
    total = sum(math.prod(s) * sum(a * b for a, b in zip(s, y, strict=True)) ** len(y) for s in signs)
    assert theory.sign_power_sum(y) == total


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_expected_margin_of_a_neuron_is_that_over_all_inputs(k):
    n, key = k + 2, el.random.stream(k, "probe")
    u = el.random.normal(key, np.arange(6)[:, None], lane=np.arange(n)).astype(float)
    w = el.random.normal(key, np.arange(6)[:, None], lane=np.arange(n, n + 2)).astype(float)
    support = range(1, k + 1)
    labels = theory.parity_labels(n, support)
    hidden = theory.ParityWeights(u, w, k).hidden(slice(None))
    expected = (hidden * np.where(labels, -1, 1)[:, None]).mean(axis=0) * (w[:, 0] - w[:, 1])
    np.testing.assert_allclose(theory.parity_objective(u, w, support), expected, atol=1e-12 * math.factorial(k) * 10)
    size = np.sqrt((u**2).sum(axis=1) + (w**2).sum(axis=1))
    assert (theory.parity_objective(u, w, support) <= theory.parity_maximum_margin(k) * size ** (k + 1)).all()


def test_a_neuron_that_breaks_a_condition_is_seen():
    u = np.array([[1.0, 1, 0], [1, 1, 1], [2, 1, 0], [1, 1, 0], [1, -1, 0]])
    w = np.array([[1.0, -1], [1, -1], [1, -1], [1, 1], [1, -1]]) / np.sqrt(2)
    found = theory.parity_neurons(theory.ParityWeights(u, w, 2), [0, 1])
    np.testing.assert_allclose(found.outside, [0, 1 / 3, 0, 0, 0], atol=1e-15)
    np.testing.assert_allclose(found.largest, [1, 1, 2, 1, 1])
    np.testing.assert_allclose(found.smallest, 1)
    np.testing.assert_allclose(found.alignment, [1, 1, 1, 0, 1], atol=1e-15)
    assert found.sign.tolist() == [1, 1, 1, 0, -1]


def test_weights_go_through_the_parameters_of_a_model_and_back():
    network = theory.parity_construction(5, [0, 1, 2])
    again = theory.ParityWeights.from_parameters(network.parameters(), power=3)
    np.testing.assert_allclose(again.logits(), network.logits(), atol=1e-6)
    assert again.power == 3


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: theory.parity_maximum_margin(0), r"k must be at least 1 \(Theorem 7.8\): k=0"),
        (lambda: theory.parity_construction(3, [0, 3]), "support must lie in 0..n-1"),
        (lambda: theory.parity_construction(30, range(17)), "k must be at most 16"),
        (lambda: theory.parity_labels(21, [0]), r"n must be at most 20 for all 2\^n inputs: n=21"),
        (lambda: theory.ParityWeights([[1.0]], [[1.0]], 1), "must have shapes"),
        (lambda: theory.ParityWeights.from_parameters({"hidden": {"weight": [[1.0]], "bias": [0]},
                                                       "output": {"weight": [[1.0], [1]]}}, 1), "no biases"),
    ],
)  # fmt: skip
def test_what_no_theorem_covers_is_refused(call, rule):
    with pytest.raises(el.errors.TheoryError, match=rule):
        call()
