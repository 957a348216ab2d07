"""XOR: error bounds, heavy networks, margins that balance, and the calculators of both phases."""

import math

import numpy as np
import pytest
from test_xor_gradients import draw, networks

import elegans as el
from elegans import theory
from elegans.boolean.fourier import sign_table
from elegans.studies.xor_two_phases.reference import lopsided_network
from elegans.studies.xor_two_phases.theory.surrogate import PHASE_ONE_RATE


def aligned(p, d, noise=1e-6, size=1.0, seed=0):
    """A balanced network whose neurons face the four clusters in turn, with a little noise."""
    weight = noise * draw(p, d, seed=seed).astype(float)
    cluster = np.arange(p) % 4
    weight[:, 0] += size * np.where(cluster % 2, -1, 1) / math.sqrt(2)
    weight[:, 1] += size * np.choose(cluster, [-1, 1, 1, -1]) / math.sqrt(2)
    return weight, np.where(cluster < 2, 1, -1) * np.linalg.norm(weight, axis=1)


@pytest.mark.parametrize("lipschitz", [2, 0.5])
def test_the_surrogate_is_as_close_to_the_loss_as_stated(lipschitz):
    """50 random networks, all inputs: no bound is ever exceeded, with the source's constant or the sharper one."""
    d = 9
    x = sign_table(d).astype(float)
    tightest = 0.0
    for weight, output in networks(6, d, 50, size=0.4):
        true, zero = (theory.xor_gradients(weight, output, x, slope=slope) for slope in ("network", "zero"))
        bound = theory.xor_surrogate_errors(weight, output, lipschitz)
        distance = np.linalg.norm(true.weight - zero.weight, axis=1)
        assert (distance <= bound.weight).all()
        assert (np.abs(true.output - zero.output) <= bound.output).all()
        single = theory.xor_coordinate_errors(weight, output, x, lipschitz)
        assert (np.abs(true.weight - zero.weight) <= single).all()
        label = theory.xor_label(x)
        slope = -label * theory.xor_slope(label * theory.xor_output(weight, output, x))
        assert ((slope + label) ** 2).mean() <= bound.slope
        for i in range(2, d):
            flipped = slope[np.arange(2**d) ^ (1 << i)]
            assert np.abs(slope - flipped).max() <= bound.flip[i]
        tightest = max(tightest, float((distance / bound.weight).max()))
    assert tightest * lipschitz > 0.05


def test_minibatch_gradients_are_as_close_to_the_population_as_stated():
    """Standard errors are about a quarter of the bounds' roots: 50 draws an output, 700 a weight, seeds fixed."""
    d, batch = 14, 128 * 8
    weight, output = next(networks(5, d, 1, size=0.02))
    output = 0.02 * np.where(output > 0, 1, -1)
    whole = theory.xor_gradients(weight, output, sign_table(d))
    bound = theory.xor_gradient_noise(d, batch)
    for seed in range(10):
        x = el.random.rademacher(el.random.stream(seed, "batches"), np.arange(batch, dtype=np.uint32), d)
        part = theory.xor_gradients(weight, output, x)
        away = (part.weight - whole.weight) ** 2 / output[:, None] ** 2
        assert away.sum(axis=1).max() <= bound.weight
        assert away.max() <= bound.coordinate
        assert ((part.output - whole.output) ** 2 / (weight**2).sum(axis=1)).max() <= bound.output


def test_an_aligned_network_is_signal_heavy_with_a_tiny_zeta():
    weight, output = aligned(40, 12, noise=1e-9)
    zeta = theory.xor_smallest_zeta(weight, output)
    assert zeta < math.exp(-10)
    found = theory.xor_signal_heavy(weight, output, 2 * zeta)
    assert found.holds
    assert found.members.all()
    assert found.margins == pytest.approx(theory.xor_margins(weight, output), rel=1e-6)
    assert theory.xor_signal_heavy(weight, output, zeta * (1 + 1e-6)).holds
    assert not theory.xor_signal_heavy(weight, output, zeta * (1 - 1e-6)).holds


def test_a_random_network_is_not_signal_heavy():
    weight, output = next(networks(40, 12, 1))
    assert theory.xor_smallest_zeta(weight, output) > math.exp(-10)
    assert not theory.xor_signal_heavy(weight, output, 4e-5).holds


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.1])
def test_signal_heavy_is_monotone_in_zeta_and_its_smallest_is_where_it_starts(noise):
    weight, output = aligned(80, 12, noise=noise)
    least = theory.xor_smallest_zeta(weight, output, kappa=1)
    answers = [
        theory.xor_signal_heavy(weight, output, least * factor, kappa=1).holds
        for factor in (0.1, 0.5, 0.999, 1.001, 2, 10)
    ]
    assert answers == [False] * 3 + [True] * 3
    strict = theory.xor_smallest_zeta(weight, output)
    assert strict > least
    assert not theory.xor_signal_heavy(weight, output, strict * 1.001).holds


def test_the_largest_set_of_heavy_neurons_is_the_best():
    """200 random sub-selections: none has a smaller remainder relative to its smallest margin."""
    weight, output = aligned(60, 12, noise=0.08)
    zeta = 0.5
    found = theory.xor_signal_heavy(weight, output, zeta, kappa=1)
    assert 20 < found.members.sum() < 60
    square = (weight**2).sum(axis=1)
    for seed in range(200):
        keep = el.random.uniform(el.random.stream(seed, "probe"), np.arange(60)) < 0.8
        members = found.members & keep
        margins = theory.xor_heavy_margins(weight, output, members)
        assert (margins <= found.margins + 1e-12).all()
        light = square[~members].sum() / 60
        assert light - zeta * margins.min() >= found.light - zeta * found.margins.min() - 1e-12


def test_each_condition_of_a_signal_heavy_network_can_fail_on_its_own():
    weight, output = aligned(40, 12, noise=1e-9, size=1.2)
    zeta = 2e-5
    whole = theory.xor_signal_heavy(weight, output, zeta, scale=1)
    assert whole.holds
    assert theory.xor_signal_heavy(weight, output, 4e-5, scale=1).small
    assert not theory.xor_signal_heavy(weight, output, 5e-5, scale=1).small
    assert not theory.xor_signal_heavy(weight, 1.001 * output, zeta, scale=1).ordered
    # E ||w||^2 is 1.44: 1.5^2 times it exceeds 2 H, and a second layer smaller by zeta unbalances
    assert not theory.xor_signal_heavy(1.5 * weight, 1.5 * output, zeta, scale=1).bounded
    lighter = math.sqrt(1 - zeta / 1.44)
    assert theory.xor_signal_heavy(weight, lighter * 1.0000001 * output, zeta, scale=1).balanced
    assert not theory.xor_signal_heavy(weight, lighter * 0.9999999 * output, zeta, scale=1).balanced


def test_what_is_light_is_measured_by_the_weakest_cluster():
    weight, output = aligned(40, 12, noise=1e-9)
    weight[0::4], output[0::4] = 3 * weight[0::4], 3 * output[0::4]
    weight[4, 5] = 1.0
    found = theory.xor_signal_heavy(weight, output, 1.1, kappa=10)
    assert not found.members[4]
    assert found.members.sum() == 39
    assert found.light == pytest.approx(10 / 40)
    assert found.margins == pytest.approx(math.sqrt(2) * np.array([9 * 9, 10, 10, 10]) / 40)
    assert not theory.xor_signal_heavy(weight, output, 0.7, kappa=10, scale=2).outside
    assert theory.xor_signal_heavy(weight, output, 0.71, kappa=10, scale=2).outside


def test_marks_count_the_opposite_part_as_noise():
    weight, output = aligned(8, 6, noise=0)
    weight[0, :2] += 1.1 / math.sqrt(2)
    found = theory.xor_marks(weight, output)
    assert found.share == pytest.approx([1 / 8, 1 / 4, 1 / 4, 1 / 4])
    assert found.noise == pytest.approx(1.21 / 8)
    assert found.dominance == pytest.approx(math.sqrt(2) / 8 / (1.21 / 8))


def test_heavy_margins_of_all_neurons_are_positive_and_leave_out_the_opposite_parts():
    weight, output = next(networks(30, 8, 1))
    members = np.ones(30, bool)
    margins = theory.xor_heavy_margins(weight, output, members)
    clusters = np.zeros((4, 8))
    clusters[:, :2] = [[1, -1], [-1, 1], [1, 1], [-1, -1]]
    signal = theory.xor_parts(weight, output).signal
    direct = np.maximum(signal @ clusters.T, 0).T @ np.abs(output) / 30
    assert margins == pytest.approx(direct, abs=1e-12)
    assert not theory.xor_heavy_margins(weight, output, ~members).any()


def test_the_marks_tell_an_aligned_network_from_a_random_one():
    found = theory.xor_marks(*aligned(40, 32, noise=0.01, size=3))
    assert found.share == pytest.approx([0.25] * 4)
    assert found.dominance > 10
    assert found.fit > 1
    assert found.margins == pytest.approx(np.full(4, found.fit), rel=0.02)
    weight = draw(40, 32).astype(float)
    start = theory.xor_marks(weight, np.where(np.arange(40) % 2, 1.0, -1.0))
    assert start.share.max() == 0
    assert start.dominance == 0


def test_the_printed_least_slope_forgets_the_norm_of_the_clusters():
    weight = np.tile([3.0, -3.0, 0, 0], (4, 1))
    output = np.ones(4)
    least = float(theory.xor_slope(theory.xor_margins(weight, output)).min())
    heaviness = theory.xor_heaviness(weight, output)
    assert theory.xor_least_slope(heaviness) <= least < theory.xor_least_slope(heaviness, "printed")
    for random_weight, random_output in networks(5, 6, 20):
        slopes = theory.xor_slope(theory.xor_margins(random_weight, random_output))
        assert slopes.min() >= theory.xor_least_slope(theory.xor_heaviness(random_weight, random_output))


@pytest.mark.parametrize(("scale", "broken"), [(1.0, False), (2.0, True), (5.0, True)])
def test_signal_heavy_networks_on_one_cluster_break_the_printed_least_slope(scale, broken):
    network = lopsided_network(400, 6, scale)
    assert theory.xor_signal_heavy(*network, 0.9 * math.exp(-10 * scale), scale=scale).holds
    assert theory.xor_heaviness(*network) == pytest.approx(scale)
    least = theory.xor_slope(theory.xor_margins(*network)).min()
    assert least >= theory.xor_least_slope(theory.xor_heaviness(*network))
    assert (least < theory.xor_least_slope(theory.xor_heaviness(*network), "printed")) == broken


@pytest.mark.parametrize("noise", [1e-3, 1e-2])
def test_clean_gradients_are_close_for_heavy_networks(noise):
    d = 10
    weight, output = aligned(24, d, noise=noise, size=1.3)
    zeta = theory.xor_smallest_zeta(weight, output, kappa=1)
    x = sign_table(d)
    clean, true = (theory.xor_gradients(weight, output, x, slope=slope) for slope in ("clean", "network"))
    bound = theory.xor_clean_bounds(weight, output, zeta)
    assert (np.linalg.norm(clean.weight - true.weight, axis=1) <= bound.weight).all()
    assert (np.abs(clean.output - true.output) <= bound.output).all()


def test_claim_d6_heavy_neurons_grow_at_the_second_rate():
    weight, output = aligned(24, 10, noise=1e-4, size=1.2)
    growth, sizes = theory.xor_clean_growth(weight, output), theory.xor_sizes(weight, output)
    slopes = theory.xor_slope(theory.xor_margins(weight, output))[sizes.cluster]
    rate = math.sqrt(2) / 4
    assert growth.signal / sizes.signal == pytest.approx(rate * slopes * np.abs(output), rel=1e-9)
    assert growth.total / np.abs(output) == pytest.approx(rate * slopes * sizes.signal, rel=1e-3)


def test_corollary_d8_the_noise_of_heavy_neurons_shrinks():
    weight, output = aligned(24, 12, noise=1e-9)
    zeta = theory.xor_smallest_zeta(weight, output)
    assert zeta < math.exp(-10)
    assert (theory.xor_noise_decay(weight, output, 1.0) >= zeta**0.75).all()


def test_one_step_of_phase_two_does_what_the_induction_says():
    """Population steps of an imbalanced aligned network, with o(1) at 2%."""
    d, rate = 10, 0.01
    weight, output = aligned(40, d, noise=1e-4, size=1.2)
    strong = np.arange(40) % 4 == 0
    weight[strong], output[strong] = 1.5 * weight[strong], 1.5 * output[strong]
    x = sign_table(d)
    members = np.ones(40, bool)
    for _ in range(30):
        zeta = theory.xor_smallest_zeta(weight, output, kappa=1)
        before = theory.xor_heavy_margins(weight, output, members)
        step = theory.xor_inductive_step(zeta, 1.2, rate, theory.xor_margins(weight, output), vanishing=0.02)
        gradient = theory.xor_gradients(weight, output, x)
        norms = (weight**2).sum(axis=1)
        weight, output = weight - rate * gradient.weight, output - rate * gradient.output
        after = theory.xor_heavy_margins(weight, output, members)
        assert after.min() / before.min() >= step.least
        assert after.max() / before.max() <= step.most
        assert ((weight**2).sum(axis=1) / norms).max() <= step.norm + 4 * rate**2
        assert np.abs(after - before).max() <= step.change
        assert np.abs(theory.xor_margins(weight, output) - after).max() <= 2 * zeta * 1.2


def test_the_final_loss_is_bounded_by_the_smallest_margin():
    weight, output = aligned(40, 10, noise=1e-3, size=2.5)
    margin = theory.xor_margins(weight, output).min()
    x = sign_table(10).astype(float)
    loss = theory.xor_loss(theory.xor_label(x) * theory.xor_output(weight, output, x)).mean()
    assert loss <= theory.xor_final_loss(float(margin))
    assert loss > theory.xor_final_loss(float(margin)) / 4


def test_the_clean_margin_equation_and_its_solution():
    path = theory.xor_clean_map([0.0318] * 4, 0.01, 2000)
    assert path[-1] == pytest.approx([4.069] * 4, abs=2e-3)
    gamma = 0.0318
    for _ in range(2000):
        gamma += 0.01 * math.sqrt(2) * gamma / (1 + math.exp(gamma))
    assert gamma == pytest.approx(4.068, abs=2e-3)
    clock = theory.xor_clean_clock(gamma) - theory.xor_clean_clock(0.0318)
    assert clock == pytest.approx(math.sqrt(2) * 20, abs=0.02)
    assert theory.xor_clean_margin(0.0318, 20) == pytest.approx(gamma, abs=5e-3)
    assert theory.xor_clean_margin(2.0, 0) == 2.0


def test_clean_margins_balance():
    path = theory.xor_clean_map([0.1, 0.2, 0.4, 0.8], 0.05, 2000)
    ratio = path.max(axis=1) / path.min(axis=1)
    assert (np.diff(ratio) < 0).all()
    assert ratio[-1] < 1.02
    late = [theory.xor_clean_margin(1.0, time) for time in (1e3, 1e4, 1e5)]
    assert late[2] - late[1] == pytest.approx(math.log(10), abs=0.35)


def test_berry_esseen_holds_and_the_gaussian_form_fails_for_sparse_vectors():
    x = sign_table(13).astype(float)
    sparse = np.zeros(13)
    sparse[:3] = 1
    for vector in [*draw(10, 13).astype(float), sparse]:
        sums = np.sort(x @ vector)
        normal = np.array([math.erfc(-t / np.linalg.norm(vector) / math.sqrt(2)) / 2 for t in sums])
        above = np.searchsorted(sums, sums - 1e-9, side="left") / len(sums)
        upto = np.searchsorted(sums, sums + 1e-9, side="right") / len(sums)
        gap = max(np.abs(above - normal).max(), np.abs(upto - normal).max())
        assert gap <= theory.berry_esseen_bound(vector)
    assert gap > 0.18
    short = 0.9 / np.linalg.norm(sparse)
    assert abs(math.erf(short / math.sqrt(2)) - (np.abs(x @ sparse) <= 0.9).mean()) > 0.3


def test_the_small_ball_bound_holds_for_signed_sums():
    x = sign_table(12).astype(float)
    for vector in draw(20, 12).astype(float):
        vector = vector / np.abs(vector).max()
        assert (np.abs(x @ vector) <= 2).mean() >= theory.small_ball_bound(12)


def test_uniform_vectors_are_well_spread_and_others_are_not():
    """980 of 1000 at d = 256, c = 5; the chance of one failing is about 0.002, so fewer has probability below 1e-9."""
    u = el.random.uniform(el.random.stream(0, "probe"), np.arange(1000)[:, None], lane=np.arange(512)[None, :])
    radius, angle = np.sqrt(-2 * np.log1p(-u[:, :256].astype(float))), 2 * math.pi * u[:, 256:]
    spread = theory.is_well_spread(radius * np.cos(angle), 5)
    assert spread.sum() >= 980
    assert not theory.is_well_spread(np.eye(256)[:3], 5).any()
    assert not theory.is_well_spread(np.ones(256), 5)
    assert theory.is_well_spread(np.repeat([0.34, 0.001, 0.0187], [8, 20, 228]), 5)


def test_phase_one_lengths_say_nothing_at_feasible_sizes():
    for d in (100, 10**4, 10**5):
        assert theory.xor_phase_one_lengths(d, 1 / math.log(d), 0.01).signal <= 0
    for d in (10**6, 10**9):
        found = theory.xor_phase_one_lengths(d, 1 / math.log(d), 0.01)
        assert 0 < found.signal < found.growth


def test_control_quantities_start_and_grow_as_defined():
    d, theta, rate = 10**9, 1e-3, 0.01
    zeta = 1 / math.log(d)
    first, growth = theory.xor_phase_one_lengths(d, zeta, rate, exponent=3)
    start = theory.xor_control(d, theta, zeta, rate, 0)
    assert start.signal == pytest.approx(math.log(d) ** 3 * theta**2 / d)
    assert start.noise == pytest.approx(math.log(d) ** 2 * theta**2 / d)
    last, beyond, end = (theory.xor_control(d, theta, zeta, rate, t).signal for t in (first, first + 1, growth))
    assert last <= theta**2 * zeta**2 < last * (1 + 2 * rate)
    assert beyond == pytest.approx(last * (1 + 4 * rate))
    assert end <= theta**2 * zeta**-3 < end * (1 + 4 * rate)


def test_strong_neurons_grow_slowly_at_first_and_at_the_full_rate_later():
    d, theta, rate, zeta = 10**200, 1e-3, 0.01, 1e-30
    growth = 2 * rate * PHASE_ONE_RATE
    signal = [theory.xor_strong_signal(d, theta, zeta, rate, t, spread=5) for t in (0, 1, 20_000, 20_001)]
    assert signal[0] == theta**2 / d
    assert signal[1] / signal[0] == pytest.approx(1 + growth / 5)
    assert signal[3] / signal[2] == pytest.approx(1 + growth * (1 - 5e-3))
    first = theory.xor_phase_one_lengths(10**9, 0.04, rate).signal
    late = [theory.xor_strong_signal(10**9, theta, 0.04, rate, t, spread=5) for t in (first + 5, first + 6)]
    assert late[1] / late[0] == pytest.approx(1 + growth / 20)


def test_the_bounds_of_phase_two_are_what_their_formulas_say():
    """Values by hand: the bounds are loose, so that no run tells their constants."""
    step = theory.xor_inductive_step(0.1, 2, 0.01, [0, 0, 0, 3])
    assert step.zeta == pytest.approx(0.1 * 1.02)
    assert step.least == pytest.approx(1 + 0.02 * math.sqrt(2) / 4)
    assert step.most == pytest.approx(1 + 0.02 * math.sqrt(2) / 4 * 2 / (1 + math.exp(3)))
    assert step.norm == pytest.approx(1 + 0.02 * 1.4 * math.sqrt(2) / 4)
    assert (step.change, step.gap, step.largest_rate) == pytest.approx((0.1, 0.4, 1e-3))
    weight = np.array([[3.0, 0, 4], [0, 0, 1]])
    bound = theory.xor_clean_bounds(weight, [2.0, 0], 0.1)
    assert bound.weight == pytest.approx([0.4 * 5 * 2, 0])
    assert bound.output == pytest.approx([0.4 * 5 * 5, 0.4 * 5])
    assert theory.xor_final_loss(math.log(8)) == pytest.approx(0.5)
    ratio = theory.xor_control(10**6, 1, 0.1, 0.01, 1).noise / theory.xor_control(10**6, 1, 0.1, 0.01, 0).noise
    assert ratio == pytest.approx(1 + 0.5 / math.log(10**6))


def test_the_decay_of_noise_is_the_weighted_clean_gradient():
    d, scale = 9, 0.3
    for weight, output in networks(6, d, 3):
        clean = theory.xor_gradients(weight, output, sign_table(d), slope="clean").weight
        parts, sizes = theory.xor_parts(weight, output), theory.xor_sizes(weight, output)
        weighted = (parts.opposite + math.exp(6 * scale) * parts.rest) * clean
        size = np.abs(output) * (sizes.opposite + math.exp(6 * scale) * sizes.rest)
        found = theory.xor_noise_decay(weight, output, scale)
        assert found == pytest.approx(weighted.sum(axis=1) / size, abs=1e-12)


def test_the_main_theorem_and_phase_two_parameters():
    found = theory.xor_theorem_parameters(1000, 2)
    log = math.log(1000)
    assert found.samples == pytest.approx(2 * 1000 * log**5)
    assert found.batch == pytest.approx(1000 * log**2)
    assert found.width == pytest.approx(1 / found.rate)
    second = theory.xor_phase_two(10**6, 60, 1e-3)
    assert second.zeta == pytest.approx(math.log(10**6) ** -20)
    assert second.scale == pytest.approx(-math.log(second.zeta) / 20)
    assert second.scale > 1
    assert second.zeta <= math.exp(-10 * second.scale)
    wide = theory.xor_phase_two(10**6, 6, 1e-3)
    assert wide.largest_zeta / wide.zeta - 1 == pytest.approx(10 * wide.zeta ** (159 / 160) * wide.scale, rel=0.05)


def test_the_lower_bound_asks_for_about_d_over_log_d_examples():
    assert theory.xor_lower_bound(1024, 50) == (50 * math.log2(1025), True, 0.0375)
    assert theory.xor_lower_bound(1024, 103).limit == 0
    assert theory.xor_sample_rates(100) == (10**4, 100, 100 / math.log(100) ** 2)
    assert theory.xor_sample_rates(100, degree=4, leap=4).sgd == 10**6
    for d in (10**6, 10**8):
        assert theory.xor_lower_bound(d, int(theory.xor_sample_rates(d).invariant)).applies


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: theory.xor_signal_heavy(np.ones((2, 3)), [1, 1], 0), "zeta must be positive (signal-heavy): zeta=0"),
        (
            lambda: theory.xor_smallest_zeta(np.ones((2, 3)), [1, 1], scale=0.5),
            "H must be at least 1 (signal-heavy): H=0.5",
        ),
        (
            lambda: theory.xor_gradient_noise(100, 50),
            f"batch must be at least d log(d)^2 (Lemma B.12): batch=50, least={100 * math.log(100) ** 2}",
        ),
        (lambda: theory.is_well_spread(np.ones(9), 4), "c must lie in 1..sqrt(d) (Definition B.1): c=4, d=9"),
        (
            lambda: theory.xor_phase_one_lengths(100, 1.5, 0.1),
            "zeta must lie between 0 and 1 (Definition C.8): zeta=1.5",
        ),
        (lambda: theory.xor_clean_margin(0, 1), "start must be positive (clean margins): start=0"),
        (lambda: theory.xor_lower_bound(2, 1), "d must be at least 3 (Proposition F.1): d=2"),
    ],
)
def test_arguments_outside_the_lemmas_name_the_hypothesis(ask, message):
    with pytest.raises(el.errors.TheoryError) as refused:
        ask()
    assert str(refused.value) == message
