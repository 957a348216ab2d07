"""The matrix game: the largest margin of every finite group, and networks that attain it."""

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.groups import Group

POSITIVE = ["S2", "Z2^2", "Z2^3", "Z2^4", "S3", "D4", "D5", "D6", "S4", "S4xZ2", "S3xS3", "S5"]
WITHOUT = {  # the game's value, and the closed form that does not hold
    "A5": (4.315708988e-4, 4.172907111e-4),
    "S6": (7.266303386e-6, 6.059993682e-6),
    "S7": (2.688982402e-7, 2.153271218e-7),
    "S8": (1.072802721e-8, 6.087602924e-9),
}
QUATERNIONS = [
    [0, 1, 2, 3, 4, 5, 6, 7],
    [1, 0, 3, 2, 5, 4, 7, 6],
    [2, 3, 1, 0, 6, 7, 5, 4],
    [3, 2, 0, 1, 7, 6, 4, 5],
    [4, 5, 7, 6, 1, 0, 2, 3],
    [5, 4, 6, 7, 0, 1, 3, 2],
    [6, 7, 4, 5, 3, 2, 1, 0],
    [7, 6, 5, 4, 2, 3, 0, 1],
]
"""The products of 1, -1, i, -i, j, -j, k, -k."""


def group_of(name):
    return Group.from_table(QUATERNIONS, title="Q8") if name == "Q8" else Group.parse(name)


@pytest.mark.parametrize("name", POSITIVE)
def test_the_game_has_the_closed_forms_value_shares_and_weights(name):
    group = Group.parse(name)
    game = theory.margin_game(group)
    assert game.value == pytest.approx(theory.group_maximum_margin(group), rel=1e-12)
    np.testing.assert_allclose(game.shares, theory.group_shares(group), atol=1e-10)
    np.testing.assert_allclose(game.weighting, theory.group_weighting(group), atol=1e-10)
    assert len(game.irreps) == len(game.classes) == len(group.irreps) - 1


@pytest.mark.parametrize("name", WITHOUT)
def test_without_positivity_the_value_is_larger_than_the_closed_form(name):
    group, (value, formula) = Group.parse(name), WITHOUT[name]
    game = theory.margin_game(group)
    assert game.value == pytest.approx(value, rel=1e-9)
    total = theory.group_positivity(group)[0]
    assert 2 / (3 * np.sqrt(3 * group.order) * total) == pytest.approx(formula, rel=1e-9)
    assert game.weighting @ group.class_sizes == pytest.approx(1)
    # both sides' plays certify the value, so that neither solver nor rounding is relied on
    payoff = theory.margin_payoffs(group)
    assert (game.shares @ payoff)[1:].min() == pytest.approx(game.value, rel=1e-9)
    assert (payoff @ (game.weighting * group.class_sizes)).max() == pytest.approx(game.value, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "failing"), [("S6", {"(12)(3456)": 10.27864, "(12345)": 11.0}), ("A5", {"(12)(34)": 0.788035})]
)
def test_these_classes_break_positivity(name, failing):
    group = Group.parse(name)
    sums = dict(zip(group.class_names, theory.group_positivity(group), strict=True))
    found = {each: value for each, value in sums.items() if value >= 0 and each != group.class_names[0]}
    assert found == pytest.approx(failing, rel=1e-6)


def test_the_largest_margin_of_a5_leaves_out_the_irrep_of_dimension_5_and_one_class():
    group = Group.parse("A5")
    (only,) = theory.margin_subsets(group)
    dimensions = {irrep.name: irrep.dimension for irrep in group.irreps}
    assert [dimensions[name] for name in only.irreps] == [3, 3, 4]
    assert set(only.classes) == set(group.class_names) - {group.class_names[0], "(12)(34)"}
    np.testing.assert_allclose(only.scaling, [0.4, 0.4, 0.2])
    np.testing.assert_allclose(only.shares, [0.361037, 0.361037, 0.277926], atol=1e-6)
    game = theory.margin_game(group)
    np.testing.assert_allclose(game.shares[game.shares > 0], only.shares, rtol=1e-9)
    assert only.value == pytest.approx(game.value, rel=1e-12)
    scores = theory.irrep_scores(group, game.weighting)
    unit = scores / (2 / (3 * np.sqrt(3) * 60**1.5))
    np.testing.assert_allclose(unit[1:], [0.521, 0.521, 0.521, 0.484], atol=5e-4)


def test_the_network_that_the_game_splits_a5_into_has_its_value():
    group = Group.parse("A5")
    game = theory.margin_game(group)
    network = theory.group_construction(group, game.shares)
    margins = theory.pointwise_margins(network, group.table)
    assert network.mass == pytest.approx(1)
    np.testing.assert_allclose(margins, game.value, rtol=1e-10)
    certificate = theory.certify_margin(network, theory.group_margin_problem(group), tolerance=1e-9)
    assert certificate.complete


@pytest.mark.parametrize("name", ["S3", "S4", "D4", "S5"])
def test_with_positivity_all_irreps_and_classes_are_the_only_choice(name):
    group = Group.parse(name)
    (only,) = theory.margin_subsets(group)
    assert len(only.irreps) == len(group.irreps) - 1
    np.testing.assert_allclose(only.shares, theory.group_shares(group)[1:], rtol=1e-9)
    np.testing.assert_allclose(only.weighting, theory.group_weighting(group)[1:], rtol=1e-9)


def test_s6_has_several_choices_of_one_value():
    group = Group.parse("S6")
    found = theory.margin_subsets(group)
    assert len(found) > 1
    np.testing.assert_allclose([each.value for each in found], theory.margin_game(group).value, rtol=1e-9)


@pytest.mark.parametrize("p", [3, 5, 7, 9, 23])
def test_addition_mod_p_is_a_group_whose_irreps_are_not_real(p):
    game = theory.margin_game(Group.parse(f"Z{p}"))
    assert game.value == pytest.approx(theory.cyclic_maximum_margin(p), rel=1e-12)
    np.testing.assert_allclose(game.weighting[1:], 1 / (p - 1), rtol=1e-9)
    if p != 9:  # frequency 3 of 9 has a share of its own choice
        np.testing.assert_allclose(game.shares[game.shares > 0], 2 / (p - 1), rtol=1e-9)


@pytest.mark.parametrize("name", ["Z3", "Z4", "Z6", "Q8", "A4", "S3", "D4", "S4"])
def test_no_neuron_beats_the_value_and_the_best_found_attains_it(name):
    group = group_of(name)
    problem = theory.group_margin_problem(group)
    found = theory.best_pair_neuron(problem.payoff.reshape((group.order,) * 3), starts=20)
    assert found.value == pytest.approx(problem.bound, rel=1e-10)


@pytest.mark.parametrize("name", ["Z2", "Z3", "Z4", "Z6", "Z9", "Q8", "A4", "Z4xZ2", "A5"])
def test_the_construction_has_the_games_value_at_every_pair_of_any_group(name):
    group = group_of(name)
    game, network = theory.margin_game(group), theory.group_construction(group)
    assert network.mass == pytest.approx(1, rel=1e-9)
    assert theory.normalised_margin(network, group.table) == pytest.approx(game.value, rel=1e-9)
    problem = theory.group_margin_problem(group)
    found = theory.certify_margin(network, problem, tolerance=1e-8)
    assert found.maximal
    assert found.best_neurons
    assert found.tied_labels
    assert len(network.u) == problem.width


@pytest.mark.parametrize("name", ["Z5", "Q8", "A4"])
def test_random_neurons_of_norm_1_are_all_equally_good_in_irreps_that_are_not_real(name):
    group = group_of(name)
    game, problem = theory.margin_game(group), theory.group_margin_problem(group)
    for place in np.flatnonzero(game.shares):
        neurons = theory.random_group_neurons(group, int(place), 10, el.random.stream(int(place), "probe"))
        np.testing.assert_allclose(neurons.norms, 1)
        np.testing.assert_allclose(neurons.payoffs(problem.payoff), game.value, rtol=1e-9)


@pytest.mark.parametrize("p", [3, 7, 11])
def test_addition_has_the_theorems_width_as_a_group(p):
    assert theory.group_width(Group.parse(f"Z{p}")) == theory.cyclic_width(p)


def test_the_trivial_group_and_large_tables_are_refused():
    with pytest.raises(el.errors.TheoryError, match="a group must have at least two elements: order=1"):
        theory.margin_game(Group.parse("S1"))
    with pytest.raises(el.errors.TheoryError, match="classes must be at most 11 to try all subsets: classes=15"):
        theory.margin_subsets(Group.parse("S7"))
