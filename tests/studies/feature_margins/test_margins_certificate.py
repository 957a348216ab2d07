"""Certificates of largest margins: what holds of constructions, what is said of others, bounds, and diagnostics."""

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.groups import Group

NORMS = {"Z7": 0.04454354032, "S3": 0.06132750924, "S4": 0.005395289758}
"""Tensor spectral norms of the single-neuron problem."""


def cyclic(p=7):
    return theory.cyclic_construction(p), theory.cyclic_margin_problem(p)


def group(name="S4"):
    return theory.group_construction(Group.parse(name)), theory.group_margin_problem(Group.parse(name))


def parity():
    return theory.parity_construction(7, (1, 2, 5)), theory.parity_margin_problem(7, (1, 2, 5))


def noisy(network, size, number=0):
    row, column = np.indices(network.u.shape)
    draws = el.random.normal(el.random.stream(number, "probe"), row, lane=column)
    return theory.PairWeights(network.u + size * draws, network.v, network.w)


@pytest.mark.parametrize("make", [cyclic, group, parity, lambda: group("D4")])
def test_constructions_are_certified(make):
    network, problem = make()
    found = theory.certify_margin(network.scaled(3.7), problem, tolerance=1e-9)
    assert found.complete
    assert found.maximal
    assert not found.failures
    assert found.ratio == pytest.approx(1, abs=1e-11)
    np.testing.assert_allclose(found.neurons, 1, rtol=1e-10)
    assert found.weights_of_neurons.sum() == pytest.approx(1)
    assert found.warning is None
    assert str(found).startswith("maximal: normalised margin")


@pytest.mark.parametrize("size", [0.0, 0.003, 0.02, 0.3])
def test_what_a_network_lacks_is_split_exactly(size):
    network, problem = cyclic()
    found = theory.certify_margin(noisy(network, size), problem)
    parts = (found.neuron_loss, found.label_loss, found.example_loss)
    assert sum(parts) == pytest.approx(1 - found.ratio, abs=1e-13)
    assert min(parts) >= -1e-14
    assert found.maximal == (size < 0.002)


def test_a_neuron_of_a_wrong_phase_is_named_and_no_other():
    network, problem = cyclic(11)
    u = network.u.copy()
    u[5] = np.roll(u[5], 1)
    found = theory.certify_margin(theory.PairWeights(u, network.v, network.w), problem, tolerance=1e-6)
    assert found.failing_neurons.tolist() == [5]
    assert found.neurons[5] == pytest.approx(np.cos(2 * np.pi / 11))
    assert not found.best_neurons
    assert not found.equal_margins
    assert "1 of 40 neurons, 2.50% of the mass, are not the best: 5 (0.8413)" in str(found)


def test_a_missing_frequency_costs_the_margin_and_no_neuron():
    network, problem = cyclic(11)
    found = theory.certify_margin(network[:32], problem)
    assert found.best_neurons
    assert found.neuron_loss == pytest.approx(0, abs=1e-12)
    assert not found.equal_margins or not found.tied_labels
    assert not found.maximal
    assert "width should be at least 40 for addition mod 11: width=32" in found.warning
    assert "a frequency may be missing" in str(found)


def test_negligible_neurons_are_not_judged():
    network, problem = cyclic()
    small = theory.PairWeights([np.ones(7) * 1e-3], [np.ones(7) * 1e-3], [np.ones(7) * 1e-3])
    both = theory.PairWeights.joined([network, small, small.scaled(0)])
    found = theory.certify_margin(both, problem, tolerance=1e-6)
    assert found.complete
    assert found.neurons[-2] == pytest.approx(0, abs=1e-12)
    assert np.isnan(found.neurons[-1])
    assert found.judged.tolist() == list(range(24))
    strict = theory.certify_margin(both, problem, tolerance=1e-6, negligible=0)
    assert strict.failing_neurons.tolist() == [24]


def test_equal_margins_alone_are_no_certificate():
    network = theory.dense_classifier(np.add.outer(np.arange(7), np.arange(7)) % 7)
    found = theory.certify_margin(network, theory.cyclic_margin_problem(7))
    assert found.equal_margins
    assert found.tied_labels
    assert not found.best_neurons
    assert not found.complete
    assert found.ratio == pytest.approx(0.458, abs=5e-4)
    np.testing.assert_allclose(found.neurons, found.ratio)


def test_a_network_that_is_wrong_is_said_to_be():
    network, problem = cyclic()
    found = theory.certify_margin(theory.PairWeights(network.u, network.v, -network.w), problem)
    assert found.margin < 0
    assert str(found).startswith("wrong somewhere")


@pytest.mark.parametrize("name", NORMS)
def test_every_start_of_the_power_iteration_finds_the_norm(name):
    problem = theory.group_margin_problem(Group.parse(name))
    n = round(len(problem.labels) ** 0.5)
    found = theory.tensor_spectral_norm(problem.payoff.reshape(n, n, n))
    assert found.value == pytest.approx(NORMS[name], rel=1e-9)
    assert found.agreeing == found.starts == 40
    x, y, z = found.vectors
    attained = np.einsum("abc,a,b,c", problem.payoff.reshape(n, n, n), x, y, z)
    assert attained == pytest.approx(found.value)
    assert 2 / (3 * np.sqrt(3)) * found.value == pytest.approx(problem.bound, rel=1e-9)


def test_the_norms_closed_forms():
    assert NORMS["Z7"] == pytest.approx(1 / (np.sqrt(14) * 6), rel=1e-9)
    for name in ("S3", "S4"):
        total = theory.group_positivity(Group.parse(name))[0]
        assert NORMS[name] == pytest.approx(1 / (np.sqrt(Group.parse(name).order) * total), rel=1e-9)


def test_a_diagonal_tensor_has_its_largest_entry_for_norm():
    tensor = np.zeros((4, 5, 6))
    tensor[range(3), range(3), range(3)] = [1.0, -3.0, 2.0]
    assert theory.tensor_spectral_norm(tensor).value == pytest.approx(3)


def test_any_sampling_and_weighting_bound_the_margin_from_above():
    key, table = el.random.stream(4, "probe"), np.add.outer(np.arange(5), np.arange(5)) % 5
    best = theory.cyclic_maximum_margin(5)
    uniform = theory.pair_margin_problem(table)
    assert uniform.bound == pytest.approx(best, rel=1e-10)
    assert not uniform.proved
    for number in range(3):
        tau = el.random.uniform(key.fold(number), np.arange(25)[:, None], lane=np.arange(5)).astype(float)
        tau[np.arange(25), table.ravel()] = 0
        q = el.random.uniform(key.fold(number), np.arange(25), lane=9).astype(float)
        problem = theory.pair_margin_problem(table, tau / tau.sum(axis=1, keepdims=True), q / q.sum())
        assert problem.bound > best * (1 + 1e-6)
        found = theory.certify_margin(theory.cyclic_construction(5), problem)
        assert found.ratio == pytest.approx(best / problem.bound)
        assert "the best bound found" in str(found)


def test_the_best_neuron_attains_what_is_said_of_it_under_any_sampling():
    key, n = el.random.stream(1, "probe"), 4
    payoff = el.random.normal(key, np.arange(n * n)[:, None], lane=np.arange(n)).astype(float).reshape(n, n, n)
    found = theory.best_pair_neuron(payoff)
    network = theory.PairWeights(*(part[None] for part in found.vectors))
    assert network.norms[0] == pytest.approx(1)
    assert network.payoffs(payoff.reshape(n * n, n))[0] == pytest.approx(found.value)
    u, v, w = (el.random.normal(key.fold(part), np.arange(3000)[:, None], lane=np.arange(n)) for part in range(3))
    others = theory.PairWeights(u, v, w)
    assert (others.payoffs(payoff.reshape(n * n, n)) <= found.value * others.norms**3).all()


def test_a_parity_with_a_neuron_of_the_other_sign_names_it():
    network, problem = parity()
    w = network.w.copy()
    w[2] *= -1
    found = theory.certify_margin(theory.ParityWeights(network.u, w, 3), problem)
    assert found.failing_neurons.tolist() == [2]
    assert found.neurons[2] == pytest.approx(-1)


@pytest.mark.parametrize(("outer", "gain"), [(1, 1), (2, 1), (3, 1), (6, 5**0.5), (np.inf, 5)])
def test_norms_are_best_split_by_how_b_compares_with_the_degree(outer, gain):
    assert theory.norm_split_gain(5, 3, outer) == pytest.approx(gain)
    draws = np.abs(
        el.random.normal(el.random.stream(0, "probe"), np.arange(2000)[:, None], lane=np.arange(5)).astype(float)
    )
    norms = np.vstack([np.eye(5)[:1], np.ones((1, 5)), draws])
    values = ((norms / np.linalg.norm(norms, ord=outer, axis=1, keepdims=True)) ** 3).sum(axis=1)
    assert values[:2].max() == pytest.approx(gain)
    assert values.max() <= gain * (1 + 1e-12)


def test_diagnostics_of_the_cyclic_construction_are_perfect():
    network = theory.cyclic_construction(11)
    frequencies, shares = theory.cyclic_main_frequencies(network.u)
    np.testing.assert_allclose(shares, 1)
    np.testing.assert_allclose(theory.phase_residuals(network), 0, atol=1e-12)
    np.testing.assert_allclose(theory.amplitude_spread(network), 0, atol=1e-12)
    np.testing.assert_allclose(theory.mass_shares(network, frequencies, 6), [0] + [0.2] * 5)
    gamma, residual = theory.margin_decomposition(network.logits(), np.add.outer(np.arange(11), np.arange(11)) % 11)
    assert gamma == pytest.approx(theory.cyclic_maximum_margin(11))
    assert residual == pytest.approx(0, abs=1e-12)


def test_diagnostics_see_shifted_phases_and_mixed_frequencies():
    good = theory.cyclic_neurons(11, [2, 2], [0.3, 0.3], [0.5, 0.5])
    u = good.u.copy()
    u[1] = 2 * theory.cyclic_neurons(11, [2], [1.0], [0]).u[0] + theory.cyclic_neurons(11, [4], [1.0], [0]).u[0]
    u[1] += 0.1 * np.linalg.norm(u[1])  # power at frequency 0 counts, folded like all others
    bad = theory.PairWeights(u, good.v, good.w)
    np.testing.assert_allclose(theory.phase_residuals(bad), [0, 0.7], atol=1e-12)
    power = np.abs(np.fft.fft(u[1])) ** 2
    place, share = theory.cyclic_main_frequencies(u)
    assert place.tolist() == [2, 2]
    np.testing.assert_allclose(share, [1, 2 * power[2] / power.sum()])
    assert theory.amplitude_spread(bad)[1] > 0.5


def test_diagnostics_of_groups_tell_rank_one_neurons_with_shared_vectors_from_others():
    chosen, key = Group.parse("S4"), el.random.stream(0, "probe")
    irrep = next(place for place, each in enumerate(chosen.irreps) if each.dimension == 3)
    good = theory.random_group_neurons(chosen, irrep, 4, key)
    np.testing.assert_allclose(theory.rank_one_residuals(chosen, good), 0, atol=1e-7)
    np.testing.assert_allclose(theory.vector_alignment(chosen, good), 1)
    main = theory.group_main_irreps(chosen, good.u)
    assert main.place.tolist() == [irrep] * 4
    np.testing.assert_allclose(main.share, 1)
    # vectors that are not shared are of rank one but do not align; sums of two neurons are of rank two
    strange = theory.PairWeights(good.u, np.roll(good.v, 1, axis=0), good.w)
    np.testing.assert_allclose(theory.rank_one_residuals(chosen, strange), 0, atol=1e-7)
    assert (np.abs(theory.vector_alignment(chosen, strange)) < 0.99).all()
    both = theory.PairWeights(good.u[:2] + good.u[2:], good.v[:2], good.w[:2])
    assert (theory.rank_one_residuals(chosen, both) > 0.05).all()
    network = theory.group_construction(chosen)
    places = theory.group_main_irreps(chosen, network.u).place
    np.testing.assert_allclose(theory.mass_shares(network, places, 5), theory.group_shares(chosen), rtol=1e-12)


def test_the_power_of_an_irrep_and_its_conjugate_is_one():
    chosen = Group.parse("Z7")
    u = el.random.normal(el.random.stream(2, "probe"), np.arange(5)[:, None], lane=np.arange(7)).astype(float)
    folded = theory.group_powers(chosen, u)
    np.testing.assert_allclose(folded.sum(axis=1), (u**2).sum(axis=1))
    expected = 2 * theory.cyclic_powers(u) / 7
    np.testing.assert_allclose(np.sort(folded, axis=1)[:, 3:], np.sort(expected, axis=1), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: theory.certify_margin(cyclic()[0], parity()[1]), "degrees must agree: network=3, task=4"),
        (lambda: theory.certify_margin(cyclic(5)[0], cyclic(7)[1]), "there must be one label per example"),
        (lambda: theory.certify_margin(*cyclic(), tolerance=0), "tolerance must lie between 0 and 1: tolerance=0"),
        (lambda: theory.certify_margin(*cyclic(), negligible=1), "negligible must lie from 0 to below 1"),
        (lambda: theory.certify_margin(cyclic()[0].scaled(0), cyclic()[1]), "must have a neuron that is not 0"),
        (lambda: theory.cyclic_margin_problem(257), "p must be at most 256 for all weights of wrong labels: p=257"),
        (lambda: theory.group_margin_problem(Group.parse("S6")), "the order must be at most 256"),
        (lambda: theory.pair_margin_problem([[0, 1], [1, 2]]), "labels must lie in 0..n-1: n=2"),
        (lambda: theory.pair_margin_problem([[0, 1], [1, 0]], np.full((2, 2, 2), 0.5)), "tau must be 0 at the correct"),
        (lambda: theory.pair_margin_problem([[0, 1], [1, 0]], sampling=np.ones((2, 2))), "must sum to 1"),
        (lambda: theory.tensor_spectral_norm(np.ones((2, 2))), r"a tensor must have three axes: shape=\(2, 2\)"),
        (lambda: theory.tensor_spectral_norm(np.ones((2, 2, 2)), starts=0), "starts must be at least 1: starts=0"),
        (lambda: theory.mass_shares(cyclic()[0], np.full(24, 4), 4), "places must lie in 0..count-1: count=4"),
    ],
)
def test_what_cannot_be_certified_is_refused(call, rule):
    with pytest.raises(el.errors.TheoryError, match=rule):
        call()
