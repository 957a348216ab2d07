"""Addition mod p: the largest margin, the neurons and networks that have it, and what is printed of them."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

import elegans as el
from elegans import theory

MARGINS = {  # p: the largest margin and the theorem's width
    3: (0.07856742013, 8),
    5: (0.03042903097, 16),
    7: (0.01714481666, 24),
    11: (0.008206099399, 40),
    13: (0.006290427967, 48),
    17: (0.004125614762, 64),
    23: (0.002579565245, 88),
    29: (0.001804995342, 112),
    31: (0.001629412389, 120),
    53: (7.189386591e-4, 208),
    59: (6.109126476e-4, 232),
    71: (4.614300792e-4, 280),
    97: (2.878564834e-4, 384),
    113: (2.285998133e-4, 448),
}
weights_mod_7 = arrays.arrays(np.float64, 7, elements=st.floats(-3, 3, allow_subnormal=False))


def sums(p):
    return np.add.outer(np.arange(p), np.arange(p)) % p


def key(number=0):
    return el.random.stream(number, "probe")


@pytest.mark.parametrize("p", MARGINS)
def test_the_largest_margin_and_its_width_are_these(p):
    margin, width = MARGINS[p]
    assert theory.cyclic_maximum_margin(p) == pytest.approx(margin, rel=1e-9)
    assert theory.cyclic_width(p) == width


@pytest.mark.parametrize("per_frequency", [6, 7, 8])
@pytest.mark.parametrize("p", [3, 5, 7, 9, 11, 15, 23, 31])
def test_constructions_have_the_largest_margin_at_every_pair(p, per_frequency):
    network = theory.cyclic_construction(p, per_frequency)
    margins = theory.pointwise_margins(network, sums(p))
    assert len(network.u) == theory.cyclic_width(p, per_frequency)
    assert network.mass == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(margins, theory.cyclic_maximum_margin(p), rtol=1e-12)


@pytest.mark.parametrize("p", [5, 7, 11])
def test_eight_unit_cosines_a_frequency_have_these_logits(p):
    unit = theory.cyclic_construction(p)
    logits = unit.scaled(1 / np.abs(unit.u).max()).logits()
    right = np.eye(p, dtype=bool)[sums(p).ravel()]
    np.testing.assert_allclose(logits[right], 2 * (p - 1), atol=1e-12 * p)
    np.testing.assert_allclose(logits[~right], -2, atol=1e-12 * p)


@pytest.mark.parametrize("p", [3, 7, 13])
def test_the_sum_of_cosines_is_minus_a_half_at_wrong_labels_and_not_0_as_printed(p):
    angles = 2 * np.pi / p * np.outer(np.arange(p), np.arange(1, (p + 1) // 2))
    totals = np.cos(angles).sum(axis=1)
    right, wrong = theory.cyclic_logits(p)
    assert totals[0] == pytest.approx(right)
    np.testing.assert_allclose(totals[1:], wrong)
    assert theory.cyclic_logits(p, form="printed") == (right, 0)


@given(weights_mod_7, weights_mod_7, weights_mod_7)
def test_the_objective_in_frequencies_is_that_over_all_pairs(u, v, w):
    errors = theory.cyclic_errors(u, v, w)
    scale = 1 + np.abs(u).max() * np.abs(v).max() * np.abs(w).max()
    assert theory.cyclic_objective(u, v, w) == pytest.approx(errors[0] - errors[1:].mean(), abs=1e-11 * scale)


@given(weights_mod_7)
def test_powers_add_up_to_the_squared_length(u):
    assert theory.cyclic_powers(u[None]).sum() == pytest.approx(7 * (u @ u) / 2, abs=1e-9)


@given(weights_mod_7, weights_mod_7, weights_mod_7)
def test_no_neuron_is_better_than_the_largest_margin(u, v, w):
    size = np.sqrt(u @ u + v @ v + w @ w)
    assert theory.cyclic_objective(u, v, w) <= theory.cyclic_maximum_margin(7) * size**3 * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize("p", [3, 7, 11])
def test_neurons_of_the_theorems_form_attain_it_and_others_do_not(p):
    neurons = theory.random_cyclic_neurons(p, 50, key())
    np.testing.assert_allclose(neurons.norms, 1)
    best = theory.cyclic_maximum_margin(p)
    np.testing.assert_allclose(theory.cyclic_objective(neurons.u, neurons.v, neurons.w), best, rtol=1e-12)
    # phases that do not add up lose the cosine of what is missing
    shifted = theory.cyclic_neurons(p, np.ones(9), np.linspace(0, 3, 9), 0)
    values = theory.cyclic_objective(shifted.u, shifted.v, theory.cyclic_neurons(p, np.ones(9), 0, 0).w)
    np.testing.assert_allclose(values, best * np.cos(np.linspace(0, 3, 9)), atol=1e-15)


def test_a_neuron_of_norm_1_has_this_amplitude_and_these_powers():
    neuron = theory.cyclic_neurons(11, [3], [0.4], [1.1])
    assert theory.cyclic_amplitude(11) == np.sqrt(2 / 33)
    powers = theory.cyclic_powers(neuron.w)
    assert powers[0, 3] == pytest.approx(11 / 6)
    assert np.delete(powers[0], 3) == pytest.approx(np.zeros(5), abs=1e-25)


def test_the_transform_of_the_largest_margin_is_its_margin_at_matched_frequencies():
    p, margin = 7, theory.cyclic_maximum_margin(7)
    transform = theory.cyclic_transform(theory.cyclic_construction(p).logits())
    j = np.arange(1, p)
    np.testing.assert_allclose(transform[j, j, -j], margin * p**2, rtol=1e-12)
    assert transform[1, 1, -1].real == pytest.approx(0.84009601646, rel=1e-10)
    transform[j, j, -j] = 0
    assert np.abs(transform[1:, :, 1:]).max() < 1e-12
    # as printed there is one frequency for all three, and the right label shows nowhere
    printed = theory.cyclic_transform(theory.cyclic_construction(p).logits(), form="printed")
    assert np.abs(printed[1:]).max() < 1e-12


@pytest.mark.parametrize("zeta", [1, 2, 3])
def test_a_neuron_has_a_transform_at_its_own_frequency_alone(zeta):
    neuron = theory.cyclic_neurons(7, [zeta], [0.3], [1.2])
    transform = np.abs(theory.cyclic_transform(neuron.logits()))
    inside = np.ix_([zeta, -zeta], [zeta, -zeta], [zeta, -zeta])
    assert transform[inside].min() > 0.01
    transform[inside] = 0
    assert transform[1:, 1:].max() < 1e-12


@pytest.mark.parametrize(
    ("balanced", "margin"), [(False, 0.00344495054), (True, 0.00785510570)], ids=["printed", "balanced"]
)
def test_a_classifier_without_sparse_features_has_these_margins_at_7(balanced, margin):
    network = theory.dense_classifier(sums(7), balanced)
    np.testing.assert_allclose(network.logits(), np.eye(7)[sums(7).ravel()], atol=1e-15)
    assert theory.normalised_margin(network, sums(7)) == pytest.approx(margin, rel=1e-8)
    assert theory.dense_classifier_margin(7, balanced) == pytest.approx(margin, rel=1e-8)
    power = theory.cyclic_powers(network.u)[0]
    np.testing.assert_allclose(power[1:], 2 * power[0])  # flat


@pytest.mark.parametrize(("p", "share"), [(7, 0.458), (71, 0.165)])
def test_its_share_of_the_largest_margin_falls_with_p(p, share):
    ratio = theory.dense_classifier_margin(p) / theory.cyclic_maximum_margin(p)
    assert ratio == pytest.approx(share, abs=5e-4)
    assert ratio == pytest.approx(np.sqrt(2 * p) * (p - 1) / p**2)


def test_any_labels_are_computed_without_sparse_features():
    labels = el.random.integers(key(1), np.arange(5)[:, None], lane=np.arange(5), bound=5)
    np.testing.assert_allclose(theory.dense_classifier(labels).logits(), np.eye(5)[labels.ravel()], atol=1e-15)


def test_weights_go_through_the_parameters_of_a_model_and_back():
    network = theory.cyclic_construction(5)
    again = theory.PairWeights.from_parameters(network.parameters())
    np.testing.assert_allclose(again.w, network.w, atol=1e-7)
    model = el.MLP(width=16, activation="power:2", hidden_bias=False, output_bias=False)
    pairs, labels = el.ModularAddition(p=5).member(None, np.arange(25, dtype=np.uint32))
    logits = model.apply(network.parameters(), pairs)
    np.testing.assert_allclose(logits, network.logits(), atol=1e-6)
    assert (logits.argmax(axis=1) == labels).all()


def test_a_relu_network_is_of_degree_2():
    network = theory.PairWeights([[1.0, -1]], [[0.5, 0]], [[2.0, -2]], "relu")
    assert network.logits().tolist() == [[3, -3], [2, -2], [0, 0], [0, 0]]
    assert theory.normalised_margin(network, [[0, 0], [0, 0]]) == 0
    assert network.scaled(3).logits().tolist() == [[27, -27], [18, -18], [0, 0], [0, 0]]
    assert network.mass == pytest.approx(1 + 1 + 0.25 + 8)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: theory.cyclic_maximum_margin(8), r"p must be odd \(Theorem 7.7.*: p=8"),
        (lambda: theory.cyclic_maximum_margin(1), r"p must be at least 3 \(Theorem 7.7\): p=1"),
        (lambda: theory.cyclic_width(7, 5), "per_frequency must be one of 6, 7, 8: per_frequency=5"),
        (
            lambda: theory.cyclic_neurons(7, [4], 0, 0),
            r"frequencies must lie in 1..\(p - 1\)/2: p=7, frequencies=\[4\]",
        ),
        (lambda: theory.cyclic_objective(np.ones(7), np.ones(5), np.ones(7)), "u, v and w must have the same shape"),
        (lambda: theory.cyclic_transform(np.ones((7, 7))), "there must be one logit for each pair and output"),
        (lambda: theory.PairWeights([[1.0]], [[1.0, 2]], [[1.0]]), "u, v and w must all have the shape"),
        (lambda: theory.PairWeights([[np.nan]], [[1.0]], [[1.0]]), "weights must be finite"),
        (lambda: theory.pointwise_margins(theory.cyclic_construction(5), [0]), "there must be one label per example"),
        (lambda: theory.normalised_margin(theory.cyclic_construction(5).scaled(0), sums(5)), "that is not 0"),
        (lambda: theory.dense_classifier([[0, 1], [1, 2]]), "labels must lie in 0..n-1: n=2"),
    ],
)
def test_what_no_theorem_covers_is_refused(call, rule):
    with pytest.raises(el.errors.TheoryError, match=rule):
        call()
