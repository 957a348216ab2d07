"""Leaps, exponents and overlaps against brute force, enumeration, quadrature and published values."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm

from elegans import theory
from elegans.errors import TheoryError
from elegans.studies.staircases.theory.exponents import same_label
from elegans.studies.staircases.theory.links import link_named

E3 = [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]
MAJORITY = [[0], [1], [2], [0, 1, 2]]
TABLE = [  # sets, coefficients, leap, label leap
    ([[0], [0, 1], [0, 1, 2]], None, 1, 1),
    ([[0, 1]], None, 2, 2),
    ([[0], [0, 1, 2]], None, 2, 2),
    ([[0, 1], [0, 1, 2]], None, 2, 2),
    ([[0, 1, 2]], None, 3, 3),
    (MAJORITY, [0.5, 0.5, 0.5, -0.5], 1, 1),
    ([[*members, 3] for members in MAJORITY], [0.5, 0.5, 0.5, -0.5], 2, 2),
    ([[0, 1, 2], [0, 1, 3]], None, 3, 2),
    ([[0, 1, 2], [0, 3, 4]], None, 3, 3),
    (E3, None, 3, 1),
]


def by_all_orders(sets):
    def worst(order):
        known, largest = set(), 0
        for members in order:
            largest = max(largest, len(set(members) - known))
            known |= set(members)
        return largest

    return min(worst(order) for order in itertools.permutations(sets))


def random_family(generator):
    count = int(generator.integers(1, 6))
    return [sorted(generator.choice(6, int(generator.integers(1, 7)), replace=False).tolist()) for _ in range(count)]


def test_the_greedy_order_attains_the_least_over_all_orders():
    generator = np.random.default_rng(0)
    families = [random_family(generator) for _ in range(400)]
    assert [theory.leap(sets) for sets in families] == [by_all_orders(sets) for sets in families]
    assert {theory.leap(sets) for sets in families} >= {1, 2, 3, 4}


def test_degrees_in_new_directions_are_added_up_in_the_best_order():
    """100 random families against all orders; degrees of 0 and 1 are sets."""
    generator = np.random.default_rng(2)
    assert theory.multi_index_leap([[1, 0, 0], [1, 1, 0], [1, 1, 1]]) == 1
    assert theory.multi_index_leap([[2, 0], [1, 1]]) == 2 and theory.multi_index_leap([[3, 0], [0, 1]]) == 3
    assert theory.multi_index_leap([[1, 0], [3, 2]]) == 2 and theory.multi_index_leap([[0, 0]]) == 0
    for _ in range(100):
        degrees = generator.integers(0, 4, (int(generator.integers(1, 6)), 4))

        def worst(order):
            known = np.zeros(4, bool)
            largest = 0
            for term in order:
                largest = max(largest, int(term[~known].sum()))
                known |= term > 0
            return largest

        assert theory.multi_index_leap(degrees.tolist()) == min(map(worst, itertools.permutations(degrees)))
        sets = [np.flatnonzero(term).tolist() for term in degrees]
        assert theory.multi_index_leap((degrees > 0).astype(int).tolist()) == theory.leap(sets)


def test_renaming_and_flipping_coordinates_changes_no_leap():
    generator = np.random.default_rng(1)
    for sets, coefficients, *_ in TABLE:
        values = theory.monomial_values(sets, coefficients, size=5)
        names = generator.permutation(5)
        mask = int(generator.integers(32))
        renamed = [[int(names[j]) for j in members] for members in sets]
        flipped = values[np.arange(32) ^ mask]
        assert theory.leap(renamed) == theory.leap(sets) == theory.leap(theory.nonzero_sets(flipped))
        assert theory.label_leap(flipped) == theory.label_leap(values)


@pytest.mark.parametrize(("sets", "coefficients", "leap", "label_leap"), TABLE)
def test_leaps_of_the_table_of_targets(sets, coefficients, leap, label_leap):
    values = theory.monomial_values(sets, coefficients)
    assert theory.leap(sets) == theory.leap(theory.nonzero_sets(values)) == leap
    assert theory.label_leap(values) == label_leap


def test_labels_of_two_values_have_the_leap_of_their_target():
    number = np.arange(8)
    for function in range(256):
        values = 1.0 - 2.0 * (function >> number & 1)
        assert theory.label_leap(values) == theory.leap(theory.nonzero_sets(values))


@pytest.mark.compiles
@pytest.mark.slow
def test_the_label_leap_never_exceeds_the_leap():
    sets = [list(s) for size in (1, 2, 3) for s in itertools.combinations(range(3), size)]
    for signs in itertools.product((-1, 0, 1), repeat=7):
        chosen = [(s, c) for s, c in zip(sets, signs, strict=True) if c]
        if chosen:
            values = theory.monomial_values([s for s, _ in chosen], [c for _, c in chosen], size=3)
            assert theory.label_leap(values) <= theory.leap([s for s, _ in chosen])


def test_hermite_coefficients_of_relu():
    found = [theory.hermite_coefficient("relu", k) for k in range(5)]
    np.testing.assert_allclose(found, [0.3989, 0.5, 0.2821, 0, -0.0814], atol=5e-5)


@pytest.mark.parametrize(
    ("link", "information", "generative"),
    [
        *(("relu", 1, 1), ("tanh", 1, 1), ("step3", 1, 1), ("square", 2, 2), ("abs", 2, 2), ("cosine", 2, 2)),
        *(("h3", 3, 1), ("h5", 5, 1), ("h4", 4, 2), ("bump", 4, 4)),
    ],
)
def test_exponents_of_the_table_of_links(link, information, generative):
    assert theory.information_exponent(link) == information
    assert theory.generative_exponent(link) == generative


def test_published_sizes_of_what_labels_reveal():
    assert theory.hermite_coefficient("tanh", 1) == pytest.approx(0.606, abs=5e-4)
    assert theory.hermite_coefficient("step3", 1) == pytest.approx(-0.442, abs=5e-4)
    assert theory.label_information("h3", 1) == pytest.approx(0.667, abs=2e-3)
    assert theory.label_information("h5", 1) == pytest.approx(0.601, abs=4e-3)
    assert theory.label_information("h4", 2) == pytest.approx(0.775, abs=6e-3)
    assert theory.label_information("bump", 4) == pytest.approx(0.231, abs=2e-3)


def test_the_label_of_the_bump_reveals_nothing_of_degree_two():
    bump = link_named("bump")
    labels = bump.value(np.linspace(-4, 4, 10_001) + 1e-5)
    assert np.abs(same_label(bump, labels).conditional_hermite(2)).max() < 1e-12


@pytest.mark.parametrize("link", ["relu", "tanh", "abs", "h3", "h4", "bump"])
def test_a_coefficient_is_bounded_by_what_the_label_reveals(link):
    from elegans.studies.staircases.theory.links import normal_rule

    g = link_named(link)
    z, weight = normal_rule(g.breaks)
    size = float(weight @ g.value(z) ** 2)
    for degree in (1, 2, 3, 4):
        bound = theory.label_information(link, degree) * size
        assert theory.hermite_coefficient(link, degree) ** 2 <= bound + 0.01 * size


def test_a_monotone_label_reveals_everything():
    for degree in (1, 2, 5):
        assert theory.label_information("tanh", degree) == pytest.approx(1, abs=1e-6)


def test_noise_of_both_losses_without_overlap():
    for degree, square in ((2, 12), (3, 96), (4, 856)):
        name = f"h{degree}"
        assert theory.overlap_noise(name, name, 0.0, "correlation") == pytest.approx(degree, abs=1e-9)
        assert theory.overlap_noise(name, name, 0.0, "square") == pytest.approx(square, rel=1e-9)


def test_the_fixed_point_balances_drift_and_noise():
    m = theory.overlap_fixed_point(2, 0.5)
    assert m == pytest.approx(0.61, abs=3e-3)
    noise = theory.overlap_noise("h2", "h2", m, "correlation")
    assert 2 * (1 - m**2) == pytest.approx(0.25 * noise, abs=1e-9)
    path = theory.overlap_path("h2", "h2", 0.1, [0.0, 20.0], 0.5)
    assert path[0] == 0.1 and path[1] == pytest.approx(m, abs=1e-3)


def test_the_drift_of_reuse_against_samples():
    """The mean of 10^6 samples is within four standard errors, which a true value misses once in 16,000 times."""
    generator = np.random.default_rng(2)
    along, z = generator.standard_normal((2, 10**6))
    y = link_named("h3").value(along)
    for rho, published in ((0.1, -0.030), (0.5, -0.053), (1.0, -0.040), (4.0, -0.002)):
        samples = along * y * ((z > 0) & (z + rho * y > 0))
        drift = theory.reuse_drift("h3", rho)
        assert abs(samples.mean() - drift) < 4 * samples.std() / 1e3
        assert drift == pytest.approx(published, abs=6e-4)
    assert theory.reuse_drift("h3", 0.0) == pytest.approx(0, abs=1e-12)


def test_the_drift_of_reuse_on_four_triples():
    values = theory.monomial_values(E3)
    for rho in (0.1, 0.35, 1.0):
        closed = (norm.sf(4 * rho) - norm.sf(2 * rho)) / 4
        np.testing.assert_allclose(theory.boolean_reuse_drift(values, rho), closed, atol=1e-12)
    assert theory.boolean_reuse_drift(values, 0.35)[0] == pytest.approx(-0.0403, abs=5e-5)
    parity = theory.monomial_values([[0, 1, 2]])
    np.testing.assert_allclose(theory.boolean_reuse_drift(parity, 0.35), 0, atol=1e-12)


def test_escape_times_solve_their_equation():
    for degree in (2, 3, 4):
        start, product = 1e-3, 0.5
        time = theory.escape_time(degree, product, start)
        rate = degree * product
        if degree == 2:
            assert start * np.exp(rate * time) == pytest.approx(1)
        else:  # m^(2-k) = m0^(2-k) - (k - 2) k a c t vanishes at the escape
            assert start ** (2 - degree) == pytest.approx((degree - 2) * rate * time)
    assert theory.noise_crossover(3, 1.0, 0.02, 3.0) == pytest.approx(1e4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.leap([]), "at least one set"),
        (lambda: theory.leap([[-1]]), "coordinates must be at least 0"),
        (lambda: theory.label_leap([1.0, 2.0, 3.0]), "a power of two"),
        (lambda: theory.monomial_values([[0]], [1.0, 2.0]), "one coefficient per set"),
        (lambda: theory.monomial_values([[13]]), "at most 12"),
        (lambda: theory.hermite_coefficient("sigmoid", 1), "link must be one of"),
        (lambda: theory.hermite_coefficient("h2", 1, bias=0.5), "only relu has a bias"),
        (lambda: theory.overlap_drift("h2", "h2", 1.5), "from -1 to 1"),
        (lambda: theory.overlap_fixed_point(3, 50.0), "noise must not exceed"),
    ],
)
def test_arguments_out_of_domain_are_refused(call, message):
    with pytest.raises(TheoryError, match=message):
        call()
