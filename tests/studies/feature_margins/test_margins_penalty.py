"""Exact optima at finite penalties: closed forms, the general solver against brute force, and what is absent when."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import elegans as el
from elegans import theory
from elegans.groups import Group

S5_RATIOS = {1e-5: 0.931949, 1e-6: 0.95138, 1e-7: 0.95529, 1e-9: 0.96668, 1e-12: 0.97668, 1e-24: 0.98940}


def loss_of(network, labels, penalty, power=1.0):
    """Return the penalised loss of a network, from its logits."""
    logits = network.logits()
    flat = np.asarray(labels).ravel()
    right = logits[np.arange(len(flat)), flat]
    return (np.logaddexp.reduce(logits, axis=1) - right).mean() + penalty * network.mass**power


@pytest.mark.parametrize(
    ("p", "margin", "mass"), [(71, 5.5334, 11992), (31, 6.1287, 3761.3), (23, 6.3017, 2442.9), (11, 6.6978, 816.20)]
)
def test_addition_at_the_penalty_of_runs_has_these_optima(p, margin, mass):
    optimum = theory.cyclic_penalised_optimum(p, 1e-4)
    assert optimum.margin == pytest.approx(margin, rel=1e-5)
    assert optimum.mass == pytest.approx(mass, rel=5e-5)
    assert optimum.ratio == 1
    assert optimum.error_probability == 1e-4 / theory.cyclic_maximum_margin(p)


def test_the_thresholds_are_these():
    assert theory.penalty_threshold(theory.cyclic_maximum_margin(71), 71) == pytest.approx(4.549e-4, rel=1e-4)
    assert theory.cyclic_penalised_optimum(71, 4.549e-4).mass > 0
    nothing = theory.cyclic_penalised_optimum(71, 4.550e-4)
    assert nothing.mass == 0
    assert nothing.loss == pytest.approx(math.log(71))


def test_a_parity_at_the_penalty_of_runs_has_this_optimum():
    optimum = theory.parity_penalised_optimum(4, 1e-3)
    assert (optimum.margin, optimum.mass) == pytest.approx((6.4071, 10.553), rel=1e-4)
    network = theory.parity_construction(6, range(4)).scaled(optimum.mass ** (1 / 5))
    assert loss_of(network, theory.parity_labels(6, range(4)), 1e-3) == pytest.approx(optimum.loss, rel=1e-12)


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 6])
def test_the_loss_of_the_scaled_construction_is_least_at_the_optimum(exponent):
    p, penalty = 7, 1e-4
    network, labels = theory.cyclic_construction(p), np.add.outer(np.arange(p), np.arange(p)) % p
    optimum = theory.cyclic_penalised_optimum(p, penalty, exponent)
    masses = np.append(0, optimum.mass * np.geomspace(1e-3, 30, 150))
    losses = [loss_of(network.scaled(mass ** (1 / 3)), labels, penalty, exponent / 3) for mass in masses]
    best = loss_of(network.scaled(optimum.mass ** (1 / 3)), labels, penalty, exponent / 3)
    assert best == pytest.approx(optimum.loss, rel=1e-12)
    assert min(losses) >= best * (1 - 1e-12)


def test_a_small_exponent_may_leave_the_zero_network_best():
    assert theory.cyclic_penalised_optimum(7, 1e-3, 1).mass > 0
    nothing = theory.cyclic_penalised_optimum(7, 1, 1)
    assert (nothing.mass, nothing.loss) == (0, pytest.approx(math.log(7)))
    assert math.isnan(nothing.ratio)


@pytest.mark.parametrize(
    ("name", "penalty", "ratio", "mass", "margin", "shares"),
    [
        ("S3", 1e-7, 0.980485, 590.382, 13.66398, {2: 0.833, 1: 0.167}),
        ("S4", 1e-7, 0.946396, 6236.294, 12.25638, {3: 0.38994, 2: 0.17450, 1: 0.04563}),
        ("S5", 1e-5, 0.931949, 51856, 6.40807, {4: 0.29669, 5: 0.18589, 6: 0, 1: 0.03483}),
    ],
)
def test_groups_at_the_penalty_of_runs_have_these_optima(name, penalty, ratio, mass, margin, shares):
    group = Group.parse(name)
    optimum = theory.group_penalised_optimum(group, penalty)
    assert (optimum.ratio, optimum.mass, optimum.margin) == pytest.approx((ratio, mass, margin), rel=2e-6)
    for irrep, share in zip(group.irreps[1:], optimum.shares[1:], strict=True):
        assert share == pytest.approx(shares[irrep.dimension], abs=4e-4)


@pytest.mark.parametrize("penalty", S5_RATIOS)
def test_the_ratio_of_s5_tends_to_1_by_logarithms(penalty):
    optimum = theory.group_penalised_optimum(Group.parse("S5"), penalty)
    assert optimum.ratio == pytest.approx(S5_RATIOS[penalty], abs=6e-6)


def test_below_the_crossing_the_optimum_is_in_closed_form():
    group, penalty = Group.parse("S5"), 1e-9
    optimum = theory.group_penalised_optimum(group, penalty)
    share, weights = penalty / theory.group_maximum_margin(group), theory.group_weighting(group)[1:]
    margins = np.log((1 - share) / (share * weights))
    np.testing.assert_allclose(optimum.class_margins[1:], margins, rtol=1e-9)
    total = group.class_sizes[1:] @ (weights * margins) / theory.group_maximum_margin(group)
    assert optimum.mass == pytest.approx(total, rel=1e-9)
    assert optimum.error_probability == pytest.approx(share, rel=1e-9)
    assert optimum.margin == pytest.approx(margins[weights.argmax()])


@pytest.mark.parametrize(("name", "crossing"), [("S3", 0.0185), ("S4", 0.00189), ("S5", 3.707e-8)])
def test_irreps_are_all_present_up_to_these_penalties(name, crossing):
    group = Group.parse(name)
    exact = theory.group_penalty_crossings(group)[1:].min()
    assert exact == pytest.approx(crossing, rel=2e-3)
    assert (theory.group_penalised_optimum(group, 0.999 * exact).shares[1:] > 0).all()
    assert (theory.group_penalised_optimum(group, 1.001 * exact).shares[1:] == 0).any()


def test_the_irrep_of_dimension_6_is_absent_from_s5_at_the_penalties_of_runs():
    group = Group.parse("S5")
    place = next(place for place, irrep in enumerate(group.irreps) if irrep.dimension == 6)
    assert theory.group_penalty_crossings(group)[1:].argmin() == place - 1
    for penalty in (1e-7, 1e-6, 1e-5):
        optimum = theory.group_penalised_optimum(group, penalty)
        assert optimum.shares[place] == 0
    # at 1e-5 a neuron there would cost more than it brings, by this share of the penalty
    payoff = theory.margin_payoffs(group)[place, 1:]
    chances = group.class_sizes[1:] * np.exp(-optimum.class_margins[1:]) * (1 - optimum.error_probability)
    assert 1 - payoff @ chances / 1e-5 == pytest.approx(0.0429, abs=5e-4)


@pytest.mark.parametrize("name", ["S3", "S4", "S5", "A5", "S6", "Z5", "A4", "D6"])
@pytest.mark.parametrize("share", [0.9, 0.1, 1e-3, 1e-6])
def test_the_active_set_meets_the_conditions_of_an_optimum(name, share):
    group = Group.parse(name)
    penalty = share * theory.group_penalty_threshold(group)
    optimum = theory.group_penalised_optimum(group, penalty)
    payoff, sizes = theory.margin_payoffs(group)[:, 1:], group.class_sizes[1:]
    wrong = sizes * np.exp(-optimum.class_margins[1:])
    slopes = penalty - payoff @ (wrong / (1 + wrong.sum()))
    np.testing.assert_allclose(optimum.class_margins[1:], optimum.mass * optimum.shares @ payoff, rtol=1e-12)
    assert slopes[1:].min() >= -1e-9 * penalty
    assert np.abs(slopes[optimum.shares > 0]).max() <= 1e-9 * penalty
    assert optimum.loss == pytest.approx(np.log1p(wrong.sum()) + penalty * optimum.mass, rel=1e-12)


@pytest.mark.parametrize("name", ["S3", "S4", "Z5"])
def test_above_the_threshold_the_zero_network_is_best(name):
    group = Group.parse(name)
    threshold = theory.group_penalty_threshold(group)
    assert theory.group_penalised_optimum(group, 1.001 * threshold).mass == 0
    assert theory.group_penalised_optimum(group, 0.999 * threshold).mass > 0


@pytest.mark.parametrize("p", [3, 7, 11])
def test_addition_as_a_group_has_the_same_optimum(p):
    as_group = theory.group_penalised_optimum(Group.parse(f"Z{p}"), 1e-4)
    optimum = theory.cyclic_penalised_optimum(p, 1e-4)
    assert (as_group.loss, as_group.mass, as_group.ratio) == pytest.approx((optimum.loss, optimum.mass, 1), rel=1e-9)


def test_no_descent_from_random_networks_ends_below_the_optimum_and_the_best_reaches_it():
    """The reduction to a few masses is right: over all weights of 24 neurons on S_3 the least loss is the same."""
    group, penalty = Group.parse("S3"), 1e-3
    optimum, key = theory.group_penalised_optimum(group, penalty), el.random.stream(0, "probe")
    table, n, width = group.table.ravel(), 6, 24

    def loss(flat):
        u, v, w = flat.reshape(3, width, n)
        sums = (u[:, :, None] + v[:, None]).reshape(width, -1)
        logits = (sums**2).T @ w
        total = np.logaddexp.reduce(logits, axis=1)
        norms = np.sqrt((u**2).sum(1) + (v**2).sum(1) + (w**2).sum(1))
        value = (total - logits[np.arange(36), table]).mean() + penalty * (norms**3).sum()
        error = np.exp(logits - total[:, None])
        error[np.arange(36), table] -= 1
        back = 2 * sums * (w @ error.T) / 36
        back = back.reshape(width, n, n)
        towards = np.stack([back.sum(2), back.sum(1), (sums**2) @ error / 36])
        return value, (towards + 3 * penalty * norms[:, None] * np.stack([u, v, w])).ravel()

    starts = el.random.normal(key, np.arange(2)[:, None], lane=np.arange(3 * width * n)).astype(float)
    ends = [minimize(loss, 0.5 * start, jac=True, method="L-BFGS-B", options={"maxiter": 1500}).fun for start in starts]
    assert min(ends) >= optimum.loss * (1 - 1e-9)
    assert min(ends) == pytest.approx(optimum.loss, rel=2e-3)


@pytest.mark.parametrize("exponent", [1, 2, 4, 6])
def test_other_exponents_are_best_among_all_masses_of_the_path(exponent):
    group, penalty = Group.parse("S3"), 1e-5
    optimum = theory.group_penalised_optimum(group, penalty, exponent)
    multipliers = theory.group_penalty_threshold(group) * np.geomspace(1e-12, 0.99, 30)
    path = [theory.group_penalised_optimum(group, each) for each in multipliers]
    losses = [
        each.loss - multiplier * each.mass + penalty * each.mass ** (exponent / 3)
        for each, multiplier in zip(path, multipliers, strict=True)
    ]
    assert optimum.loss <= min(losses) * (1 + 1e-12)
    assert optimum.loss == pytest.approx(min(losses), rel=0.05)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: theory.cyclic_penalised_optimum(7, 0), "penalty must be positive"),
        (lambda: theory.parity_penalised_optimum(3, 1e-3, -1), "exponent must be positive"),
        (lambda: theory.cyclic_penalised_optimum(8, 1e-3), "p must be odd"),
        (lambda: theory.group_penalised_optimum(Group.parse("S3"), -1.0), "penalty must be positive"),
        (lambda: theory.group_penalty_crossings(Group.parse("A5")), "must be negative for every non-trivial class"),
        (lambda: theory.penalty_threshold(0.1, 1), "labels must be at least 2: labels=1"),
    ],
)
def test_what_has_no_optimum_is_refused(call, rule):
    with pytest.raises(el.errors.TheoryError, match=rule):
        call()
