"""Composition in groups: closed forms from characters, coefficients in irreps, and networks of the largest margin."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import elegans as el
from elegans import theory
from elegans.groups import Group

CLOSED = {  # the sum of d^2.5, the width and the largest margin where positivity holds
    "S2": (1, 2, 0.2721655270),
    "Z2^2": (3, 6, 0.06415002991),
    "Z2^3": (7, 14, 0.01944039478),
    "Z2^4": (15, 30, 0.006415002991),
    "S3": (6.656854249, 18, 0.02360496931),
    "D4": (8.656854249, 22, 0.01571965515),
    "D5": (12.31370850, 34, 0.009884603318),
    "D6": (14.31370850, 38, 0.007762566292),
    "S3xZ2": (14.31370850, 38, 0.007762566292),
    "S4": (37.83376879, 126, 0.002076647996),
    "S4xZ2": (76.66753757, 254, 7.246294496e-4),
    "S3xS3": (57.62741700, 198, 0.001113185932),
    "S5": (264.9850296, 1190, 1.325977490e-4),
}
SUMS = {  # by cycle type, longest cycle first
    "S3": {(2,): -1, (3,): -1.828427},
    "S4": {(2,): -1, (2, 2): -3.735451, (3,): -1.828427, (4,): -1},
    "S5": {(2,): -1, (3,): -5.360680, (2, 2): -6.033197, (4,): -1, (3, 2): -1, (5,): -0.303062},
}
WEIGHTS = {
    "S3": {(2,): 0.150221, (3,): 0.274668},
    "S4": {(2,): 0.0264314, (3,): 0.0483279, (2, 2): 0.0987332, (4,): 0.0264314},
    "S5": {(2,): 0.0037738, (4,): 0.0037738, (3, 2): 0.0037738, (3,): 0.0202301, (2, 2): 0.0227681, (5,): 0.00114369},
}
SHARES = {  # by dimension
    "S3": {2: 0.849779, 1: 0.150221},
    "S4": {3: 0.412025, 2: 0.149519, 1: 0.0264314},
    "S5": {4: 0.120762, 5: 0.210962, 6: 0.332780, 1: 0.0037738},
}
CONSTRUCTED = ["S2", "Z2^2", "Z2^3", "Z2^4", "S3", "D4", "D5", "D6", "S4", "S3xS3"]
S5_TABLE = [  # classes e, (12), (12)(34), (123), (1234), (12345), (12)(345)
    [1, 1, 1, 1, 1, 1, 1],
    [1, -1, 1, 1, -1, 1, -1],
    [4, 2, 0, 1, 0, -1, -1],
    [4, -2, 0, 1, 0, -1, 1],
    [5, 1, 1, -1, -1, 0, 1],
    [5, -1, 1, -1, 1, 0, -1],
    [6, 0, -2, 0, 0, 1, 0],
]


def cycle_type(name):
    """Return the cycle lengths of a class name such as (12)(345), the longest first."""
    return tuple(sorted((len(part) - 1 for part in name.split(")") if len(part) > 1), reverse=True))


def by_type(group, values):
    return {cycle_type(name): float(value) for name, value in zip(group.class_names, values, strict=True)}


def draws(group, count=4, number=0):
    key = el.random.stream(number, "probe")
    index = np.arange(count)[:, None]
    return [el.random.normal(key.fold(part), index, lane=np.arange(group.order)).astype(float) for part in range(3)]


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_are_these(name):
    group, (total, width, margin) = Group.parse(name), CLOSED[name]
    assert theory.group_positivity(group)[0] == pytest.approx(total, rel=1e-9)
    assert theory.group_width(group) == width
    assert theory.group_maximum_margin(group) == pytest.approx(margin, rel=1e-9)


def test_the_characters_of_s5_are_orthogonal_and_its_standard_irrep_counts_fixed_points():
    # in print the labels of the two irreps of dimension 4 are exchanged
    group, table = Group.parse("S5"), np.array(S5_TABLE)
    sizes = np.array([1, 10, 15, 20, 30, 24, 20])
    assert (table * sizes @ table.T == 120 * np.eye(7)).all()
    np.testing.assert_allclose(table.T @ table, np.diag(120 / sizes), atol=1e-12)
    order = [(), (2,), (2, 2), (3,), (4,), (5,), (3, 2)]
    places = [[cycle_type(name) for name in group.class_names].index(each) if each else 0 for each in order]
    found = {tuple(row) for row in group.characters[:, places]}
    assert found == {tuple(row) for row in table.astype(float)}
    fixed_points = [5 - sum(lengths) for lengths in order]
    assert S5_TABLE[2] == [fixed - 1 for fixed in fixed_points]


@pytest.mark.parametrize("name", SUMS)
def test_positivity_holds_by_these_sums(name):
    group = Group.parse(name)
    found = by_type(group, theory.group_positivity(group))
    assert {each: found[each] for each in SUMS[name]} == pytest.approx(SUMS[name], abs=1e-6)
    assert len(found) == len(SUMS[name]) + 1


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_of_wrong_labels_are_these_and_negative_as_printed(name):
    group = Group.parse(name)
    weights = theory.group_weighting(group)
    found = by_type(group, weights)
    assert {each: found[each] for each in WEIGHTS[name]} == pytest.approx(WEIGHTS[name], rel=1e-4)
    assert weights @ group.class_sizes == pytest.approx(1)
    assert (theory.group_weighting(group, form="printed")[1:] < 0).all()


@pytest.mark.parametrize("name", SHARES)
def test_shares_of_the_mass_are_these(name):
    group = Group.parse(name)
    shares = theory.group_shares(group)
    assert shares.sum() == pytest.approx(1)
    for irrep, share in zip(group.irreps[1:], shares[1:], strict=True):
        assert share == pytest.approx(SHARES[name][irrep.dimension], rel=1e-5)


@pytest.mark.parametrize("name", ["S3", "D4", "Z2^3", "S4", "S5"])
def test_all_irreps_are_equally_good_under_these_weights_and_half_as_good_in_print(name):
    group = Group.parse(name)
    scores = theory.irrep_scores(group, theory.group_weighting(group))
    np.testing.assert_allclose(scores[1:], theory.group_maximum_margin(group), rtol=1e-12)
    assert scores[0] == pytest.approx(0, abs=1e-15)
    printed = theory.irrep_scores(group, theory.group_weighting(group), form="printed")
    np.testing.assert_allclose(2 * printed, scores, rtol=1e-12)


def test_uniform_weights_prefer_irreps_of_dimension_1():
    group = Group.parse("S4")
    scores = theory.irrep_scores(group, np.full(5, 1 / 23))
    assert group.irreps[int(scores.argmax())].dimension == 1


@pytest.mark.parametrize("name", CONSTRUCTED)
def test_the_construction_has_the_largest_margin_at_every_pair(name):
    group = Group.parse(name)
    network = theory.group_construction(group)
    margins = theory.pointwise_margins(network, group.table)
    assert len(network.u) == theory.group_width(group)
    assert network.mass == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(margins, theory.group_maximum_margin(group), rtol=1e-11)
    right = np.eye(group.order, dtype=bool)[group.table.ravel()]
    logits = network.logits()
    for found, expected in zip((logits[right], logits[~right]), theory.group_logits(group), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(("name", "right"), [("S3", 0.01967080776), ("S4", 0.001990120996)])
def test_right_logits_are_these(name, right):
    assert theory.group_logits(Group.parse(name))[0] == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize("name", ["S3", "S4", "D5"])
def test_the_neurons_of_one_irrep_compute_its_character(name):
    group = Group.parse(name)
    errors = group.table[group.table][..., group.inverses]  # (ab) c^(-1)
    for irrep in range(1, len(group.irreps)):
        d = group.irreps[irrep].dimension
        unit = theory.irrep_construction(group, irrep)
        assert len(unit.u) == 2 * d**3
        np.testing.assert_allclose(unit.norms, 1)
        scale = 4 * theory.irrep_neuron_scale(group, irrep) ** 3
        expected = scale * group.characters[irrep, group.class_of[errors]]
        np.testing.assert_allclose(unit.logits(), expected.reshape(-1, group.order), atol=1e-13)
        printed = theory.irrep_neuron_scale(group, irrep, form="printed")
        assert printed * np.sqrt(d) == pytest.approx(theory.irrep_neuron_scale(group, irrep))


@pytest.mark.parametrize("name", ["S3", "S4", "S5", "D4", "A5"])
@pytest.mark.parametrize("number", [0, 1])
def test_the_objective_in_coefficients_is_that_over_all_pairs(name, number):
    group = Group.parse(name)
    u, v, w = draws(group, 2, number)
    raw = el.random.uniform(el.random.stream(number, "task"), np.arange(len(group.classes))).astype(float)
    weights = raw / (raw[1:] @ group.class_sizes[1:])
    errors = theory.group_errors(group, u, v, w)
    element = weights[group.class_of]
    expected = errors[:, 0] - errors[:, 1:] @ element[1:]
    np.testing.assert_allclose(theory.group_objective(group, u, v, w, weights), expected, atol=1e-12)
    # the cross term alone, which the lemma states, is half of it
    w_of_product = w[:, group.table]
    cross = np.einsum("na,nb,nabc->nc", u, v, w_of_product[:, group.table]) / group.order**2
    np.testing.assert_allclose(2 * (cross[:, 0] - cross[:, 1:] @ element[1:]), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["S3", "S4", "D6", "A5"])
def test_coefficients_make_their_vectors_and_powers_add_up(name):
    group = Group.parse(name)
    u = draws(group)[0]
    coefficients = theory.group_coefficients(group, u)
    np.testing.assert_allclose(theory.group_vectors(group, coefficients), u, atol=1e-12)
    powers = theory.group_powers(group, u)
    np.testing.assert_allclose(powers.sum(axis=1), (u**2).sum(axis=1))
    for place, alpha in enumerate(coefficients):
        d = alpha.shape[-1]
        np.testing.assert_allclose(powers[:, place], group.order / d * (alpha**2).sum(axis=(1, 2)))


@given(st.integers(0, 10**6), st.sampled_from(["S3", "S4", "D4", "Z2^3"]))
def test_no_neuron_is_better_than_the_largest_margin(number, name):
    group = Group.parse(name)
    u, v, w = draws(group, 3, number)
    sizes = theory.PairWeights(u, v, w).norms
    values = theory.group_objective(group, u, v, w, theory.group_weighting(group))
    assert (values <= theory.group_maximum_margin(group) * sizes**3 * (1 + 1e-12)).all()


@pytest.mark.parametrize("name", ["Z2^3", "S3", "D5", "S4"])
def test_neurons_of_rank_one_attain_it_in_every_irrep(name):
    group = Group.parse(name)
    weights, best = theory.group_weighting(group), theory.group_maximum_margin(group)
    for irrep in range(1, len(group.irreps)):
        neurons = theory.random_group_neurons(group, irrep, 20, el.random.stream(irrep, "probe"))
        np.testing.assert_allclose(neurons.norms, 1)
        np.testing.assert_allclose(theory.group_objective(group, neurons.u, neurons.v, neurons.w, weights), best)
        powers = theory.group_powers(group, neurons.w)
        np.testing.assert_allclose(powers[:, irrep], 1 / 3)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("S3", {2: 0.2124447237, 1: 0.8497788952}),
        ("S4", {3: 0.1329054717, 2: 0.2990373114, 1: 1.1961492457}),
    ],
)
def test_matched_coefficients_of_the_transform_are_these_for_every_irrep(name, values):
    group = Group.parse(name)
    logits = theory.group_construction(group).logits()
    for place, irrep in enumerate(group.irreps[1:], 1):
        found = theory.matched_transform(group, place, logits)
        np.testing.assert_allclose(found, values[irrep.dimension], rtol=1e-9)
        closed = theory.group_maximum_margin(group) * group.order**2 / irrep.dimension**2
        np.testing.assert_allclose(found, closed, rtol=1e-11)


def test_matched_coefficients_are_those_of_the_whole_transform():
    group = Group.parse("S3")
    logits = el.random.normal(el.random.stream(0, "probe"), np.arange(36)[:, None], lane=np.arange(6))
    whole = theory.group_transform(group, logits)
    for irrep in range(3):
        d = group.irreps[irrep].dimension
        first = sum(each.dimension**2 for each in group.irreps[:irrep])
        entry = np.arange(first, first + d * d).reshape(d, d)
        x, z, y = np.indices((d, d, d))
        found = theory.matched_transform(group, irrep, logits)
        np.testing.assert_allclose(found, whole[entry[x, z], entry[z, y], entry[x, y]], atol=1e-12)


def test_matching_indices_the_other_way_contributes_nothing():
    group = Group.parse("S3")
    whole = theory.group_transform(group, theory.group_construction(group).logits())
    entry = np.arange(2, 6).reshape(2, 2)  # of the standard irrep, after two of dimension 1
    x, z, y = np.indices((2, 2, 2))
    other = whole[entry[z, y], entry[x, z], entry[x, y]]
    assert np.abs(other[(x != y) | (y != z)]).max() < 1e-12


def test_a_neuron_has_a_transform_in_its_own_irrep_alone():
    group = Group.parse("S4")
    irrep = next(place for place, each in enumerate(group.irreps) if each.dimension == 2)
    neuron = theory.random_group_neurons(group, irrep, 1, el.random.stream(0, "probe"))
    transform = theory.group_transform(group, neuron.logits())
    first = sum(each.dimension**2 for each in group.irreps[:irrep])
    inside = slice(first, first + 4)
    assert np.abs(transform[inside, inside, inside]).max() > 1e-3
    transform[inside, inside, inside] = 0
    assert np.abs(transform[1:, 1:]).max() < 1e-12


def test_entries_of_irreps_are_an_orthogonal_basis():
    group = Group.parse("S4")
    basis = theory.group_basis(group)
    lengths = np.concatenate([np.full(each.dimension**2, 24 / each.dimension) for each in group.irreps])
    np.testing.assert_allclose(basis @ basis.T, np.diag(lengths), atol=1e-12)


@pytest.mark.parametrize("name", ["S4", "D5", "A5"])
def test_entries_of_irreps_sum_over_classes_to_multiples_of_the_identity(name):
    group = Group.parse(name)
    for irrep in group.irreps:
        for place, members in enumerate(group.classes):
            size = len(members) * irrep.character[place] / irrep.dimension
            np.testing.assert_allclose(irrep.matrices[members].sum(axis=0), size * np.eye(irrep.dimension), atol=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "rule"),
    [
        (
            lambda: theory.group_maximum_margin(Group.parse("A5")),
            el.errors.TheoryError,
            r"sum d\^1.5 chi\(C\) must be negative .*failing=\{'\(12\)\(34\)': 0.788035",
        ),
        (lambda: theory.group_shares(Group.parse("S6")), el.errors.TheoryError, "margin_game does not require this"),
        (lambda: theory.group_maximum_margin(Group.parse("Z5")), el.errors.GroupError, "all irreps must be real"),
        (
            lambda: theory.group_powers(Group.parse("S3"), np.ones((2, 5))),
            el.errors.TheoryError,
            r"shape \(neurons, order\)",
        ),
        (
            lambda: theory.irrep_construction(Group.parse("S3"), 0),
            el.errors.TheoryError,
            "irrep must be the index of a non-trivial one: irrep=0",
        ),
        (lambda: theory.irrep_scores(Group.parse("S3"), [0, 1, 1]), el.errors.TheoryError, "must sum to 1"),
        (
            lambda: theory.group_construction(Group.parse("S3"), [0.5, 0.5, 0]),
            el.errors.TheoryError,
            "split among non-trivial",
        ),
        (lambda: theory.group_weighting(Group.parse("S3"), form="old"), el.errors.TheoryError, "form must be one of"),
    ],
)
def test_what_no_theorem_covers_is_refused(call, error, rule):
    with pytest.raises(error, match=rule):
        call()
