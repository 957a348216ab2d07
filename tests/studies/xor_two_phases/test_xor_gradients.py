"""XOR: loss, parts, and the closed forms of surrogate and clean gradients against enumeration."""

import math

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.boolean.fourier import sign_table
from elegans.studies.xor_two_phases.theory.noise import noise_sums
from elegans.studies.xor_two_phases.theory.surrogate import PHASE_ONE_RATE


def draw(*shape, seed=0):
    """Roughly normal numbers: sums of four uniform ones."""
    key = el.random.stream(seed, "probe")
    count = math.prod(shape)
    return np.sum(el.random.uniform_signed(key, np.arange(count)[:, None], lane=np.arange(4)[None, :]), axis=1).reshape(
        shape
    )


def networks(p, d, count, size=0.7):
    """Random networks, the plane's weights as large as all others together in half of them."""
    for seed in range(count):
        weight, output = size * draw(p, d, seed=seed).astype(float), draw(p, seed=1000 + seed).astype(float)
        weight[:, :2] *= 1 if seed % 2 else math.sqrt(d)
        yield weight, output


def test_a_flip_of_a_label_bit_moves_the_slope_by_two():
    d, x = 8, sign_table(8).astype(float)
    weight, output = 0.01 * draw(5, d).astype(float), 0.01 * draw(5).astype(float)
    label = theory.xor_label(x)
    slope = -label * theory.xor_slope(label * theory.xor_output(weight, output, x))
    bound = theory.xor_surrogate_errors(weight, output).flip
    for i in range(d):
        flipped = np.arange(2**d) ^ (1 << i)
        most = np.abs(slope - slope[flipped]).max()
        assert (most > 1.9) if i < 2 else (most <= bound[i])
        assert np.abs(slope + label - (slope + label)[flipped]).max() <= bound[i] < 0.1


def rotation(d):
    return np.linalg.qr(draw(d, d, seed=77).astype(float))[0]


def test_the_loss_at_known_margins():
    assert theory.xor_loss(0) == pytest.approx(1.386294, abs=1e-6)
    assert theory.xor_slope(0) == 1
    margins = np.array([-50, -3, -0.2, 0.0, 0.5, 4, 50])
    differences = (theory.xor_loss(margins + 1e-5) - theory.xor_loss(margins - 1e-5)) / 2e-5
    assert theory.xor_slope(margins) == pytest.approx(-differences, abs=1e-6)
    assert theory.xor_loss(np.array([-1e3, 1e3])) == pytest.approx([2e3, 0])
    assert np.abs(np.diff(theory.xor_slope(np.linspace(-9, 9, 999)))).max() <= 0.5 * 18 / 998


@pytest.mark.parametrize("basis", [None, rotation(9)])
def test_gradients_are_those_of_p_times_the_loss(basis):
    weight, output = next(networks(5, 9, 1))
    x = sign_table(9)[::7].astype(float) @ (np.eye(9) if basis is None else basis.T)
    label = theory.xor_label(x, basis)

    def total(w, a):
        return 5 * theory.xor_loss(label * theory.xor_output(w, a, x)).mean()

    found = theory.xor_gradients(weight, output, x, basis=basis)
    for neuron, column in [(0, 0), (2, 1), (4, 8)]:
        moved = np.zeros(weight.shape)
        moved[neuron, column] = 1e-6
        numeric = (total(weight + moved, output) - total(weight - moved, output)) / 2e-6
        assert found.weight[neuron, column] == pytest.approx(numeric, abs=1e-6)
        shift = 1e-6 * (np.arange(5) == neuron)
        numeric = (total(weight, output + shift) - total(weight, output - shift)) / 2e-6
        assert found.output[neuron] == pytest.approx(numeric, abs=1e-6)


@pytest.mark.parametrize("slope", ["network", "zero", "clean"])
def test_one_step_changes_the_balance_of_layers_by_the_identity(slope):
    d, rate = 10, 0.2
    x = sign_table(d)[::5].astype(float)
    for weight, output in networks(8, d, 20):
        gradient = theory.xor_gradients(weight, output, x, slope=slope)
        assert (weight * gradient.weight).sum(axis=1) == pytest.approx(output * gradient.output, abs=1e-12)
        after_w, after_a = weight - rate * gradient.weight, output - rate * gradient.output
        change = after_a**2 - (after_w**2).sum(axis=1) - output**2 + (weight**2).sum(axis=1)
        expected = theory.xor_balance_change(gradient.weight, gradient.output, rate)
        assert change == pytest.approx(expected, abs=1e-12)


def test_balanced_layers_stay_ordered_and_their_gap_grows_slowly():
    """Minibatch steps from |a| = ||w||: Lemma B.13's bounds on every step and neuron."""
    d, p, rate, batch = 12, 16, 0.25, 256
    weight = draw(p, d).astype(float)
    weight *= 0.3 / np.linalg.norm(weight, axis=1, keepdims=True)
    output = np.where(np.arange(p) % 2, 1, -1) * np.linalg.norm(weight, axis=1)
    for step in range(60):
        x = el.random.rademacher(el.random.stream(0, "batches").fold(step), np.arange(batch, dtype=np.uint32), d)
        gradient = theory.xor_gradients(weight, output, x)
        bound = theory.xor_layer_bounds(weight, output, rate)
        assert (np.linalg.norm(gradient.weight, axis=1) <= bound.weight).all()
        assert (np.abs(gradient.output) <= bound.output).all()
        gap = (weight**2).sum(axis=1) - output**2
        weight, output = weight - rate * gradient.weight, output - rate * gradient.output
        after = (weight**2).sum(axis=1) - output**2
        assert (after - gap <= bound.gap + 1e-12).all()
        assert (np.abs(output) <= np.linalg.norm(weight, axis=1) + 1e-9).all()


@pytest.mark.parametrize("basis", [None, rotation(7)])
def test_parts_sum_to_the_weights_and_are_orthogonal(basis):
    weight, output = next(networks(30, 7, 1))
    parts, sizes = theory.xor_parts(weight, output, basis), theory.xor_sizes(weight, output, basis)
    assert sum(parts) == pytest.approx(weight, abs=1e-12)
    for first, second in [(0, 1), (0, 2), (1, 2)]:
        assert (parts[first] * parts[second]).sum(axis=1) == pytest.approx(0, abs=1e-12)
    for part, size in zip(parts, sizes[:3], strict=True):
        assert np.linalg.norm(part, axis=1) == pytest.approx(size, abs=1e-12)
    swapped = theory.xor_parts(weight, -output, basis)
    assert np.array_equal(swapped.signal, parts.opposite)
    assert np.array_equal(swapped.opposite, parts.signal)
    columns = np.eye(7) if basis is None else basis
    clusters = np.array([columns[:, 0] - columns[:, 1], columns[:, 0] + columns[:, 1]])
    clusters = np.stack([clusters[0], -clusters[0], clusters[1], -clusters[1]])
    rows = np.arange(30)
    assert ((parts.signal @ clusters.T)[rows, sizes.cluster] > 0).all()
    assert ((parts.opposite @ clusters.T)[rows, sizes.facing] > 0).all()
    label = theory.xor_label(clusters, basis)
    assert label.tolist() == [1, 1, -1, -1]
    assert theory.xor_margins(weight, output, basis) == pytest.approx(
        label * theory.xor_output(weight, output, clusters)
    )


def test_the_surrogate_gradient_of_a_known_neuron():
    weight, output = [[0.9, -0.1, 0.3, 0.25, -0.2, 0.15]], [0.5]
    expected = (-0.015625, 0.234375, 0.015625, 0.015625, -0.015625, 0.015625)
    for found in (
        theory.xor_gradients(weight, output, sign_table(6), slope="zero"),
        theory.xor_surrogate_gradient(weight, output),
    ):
        assert found.weight[0] == pytest.approx(expected, abs=1e-15)
        assert found.output[0] == pytest.approx(-0.046875, abs=1e-15)


@pytest.mark.parametrize("d", [12, 13])
def test_surrogate_closed_forms_are_the_enumeration(d):
    x = sign_table(d)
    cases = set()
    for weight, output in networks(6, d, 4):
        counted = theory.xor_gradients(weight, output, x, slope="zero").weight
        parts, sizes = theory.xor_parts(weight, output), theory.xor_sizes(weight, output)
        cases |= set((sizes.signal > sizes.opposite).tolist())
        growth = theory.xor_surrogate_growth(weight, output, distribution="exact")
        for part, found in zip(parts, growth, strict=True):
            assert found == pytest.approx(-(part * counted).sum(axis=1), abs=1e-14)
        single = theory.xor_surrogate_coordinates(weight, output)
        assert single == pytest.approx(-(weight * counted)[:, 2:], abs=1e-14)
        assert single.sum(axis=1) == pytest.approx(growth.rest, abs=1e-13)
        printed = theory.xor_surrogate_coordinates(weight, output, form="printed")
        assert np.abs(printed + (weight * counted)[:, 2:]).max() > 1e-3
    assert cases == {True, False}


def test_ties_count_half_as_gradients_with_no_slope_at_zero_make_them():
    weight = np.array([[1.0, 0.0, 0.5, -0.5, 0.0, 0.0], [0.0, 0.5, 0.5, 0.5, 0.5, 1.0]])
    output = np.array([1.0, -2.0])
    counted = theory.xor_gradients(weight, output, sign_table(6), slope="zero")
    closed = theory.xor_surrogate_gradient(weight, output)
    assert closed.weight == pytest.approx(counted.weight, abs=1e-15)
    assert closed.output == pytest.approx(counted.output, abs=1e-15)


def test_closed_forms_in_a_rotated_basis():
    basis, x = rotation(10), sign_table(10) @ rotation(10).T
    weight, output = next(networks(6, 10, 1))
    counted = theory.xor_gradients(weight, output, x, slope="zero", basis=basis)
    closed = theory.xor_surrogate_gradient(weight, output, basis=basis)
    assert closed.weight == pytest.approx(counted.weight, abs=1e-13)
    clean = theory.xor_gradients(weight, output, x, slope="clean", basis=basis)
    growth = theory.xor_clean_growth(weight, output, basis=basis)
    assert growth.total == pytest.approx(-output * clean.output, abs=1e-13)


def test_training_in_a_rotated_basis_is_the_rotated_training():
    d, p, basis = 8, 10, rotation(8)
    weight, output = next(networks(p, d, 1, size=0.1))
    turned, same = weight @ basis.T, output
    for step in range(80):
        x = el.random.rademacher(el.random.stream(0, "batches").fold(step), np.arange(64, dtype=np.uint32), d)
        x = x.astype(float)
        first = theory.xor_gradients(weight, output, x)
        second = theory.xor_gradients(turned, same, x @ basis.T, basis=basis)
        weight, output = weight - 0.2 * first.weight, output - 0.2 * first.output
        turned, same = turned - 0.2 * second.weight, same - 0.2 * second.output
    assert turned == pytest.approx(weight @ basis.T, abs=1e-10)
    assert same == pytest.approx(output, abs=1e-10)


def test_the_laws_of_the_noise_agree():
    """A binomial row is also enumerated; drawn signs are within 5 standard errors of it, one seed."""
    rest = 0.1 * np.where(draw(6, 12) > 0, 1.0, -1.0)
    rest[0, 3:] = 0
    limit = np.array([0.05, 0.2, 0.3, 0.4, 0.1, 0.0])
    exact, binomial = noise_sums(rest, limit, "exact"), noise_sums(rest, limit, "binomial")
    drawn = noise_sums(rest, limit, "sampled")
    for counted, closed, sampled in zip(exact, binomial, drawn, strict=True):
        assert closed == pytest.approx(counted, abs=1e-12)
        assert sampled == pytest.approx(counted, abs=5 * 0.5 / 2**7)
    wide = np.repeat(rest[1:], 3, axis=1)
    automatic, closed = noise_sums(wide, limit[1:], "auto"), noise_sums(wide, limit[1:], "binomial")
    assert np.array_equal(automatic.within, closed.within)


def test_the_gaussian_form_at_200_inputs():
    """Against 100 000 drawn signs: five standard errors and the Berry-Esseen gap are below 0.01."""
    ratio = np.array([0.1, 0.5, 1, 2])
    vector = draw(198).astype(float)
    norm = np.linalg.norm(vector)
    limit = math.sqrt(2) * ratio * norm
    gaussian = noise_sums(np.tile(vector, (4, 1)), limit, "gaussian")
    assert gaussian.within == pytest.approx([math.erf(value) for value in ratio], abs=1e-12)
    signs = el.random.rademacher(el.random.stream(0, "test"), np.arange(100_000, dtype=np.uint32), 198)
    size = np.abs(signs @ vector.astype(np.float32))[:, None]
    assert (size <= limit).mean(axis=0) == pytest.approx(gaussian.within, abs=0.01)
    assert (size * (size > limit)).mean(axis=0) == pytest.approx(gaussian.beyond, abs=0.01 * norm)


def test_equation_43_holds_for_small_signals():
    weight = draw(4, 200).astype(float)
    weight[:, :2] = 0
    weight /= np.linalg.norm(weight, axis=1, keepdims=True)
    weight[:, 0], weight[:, 1] = 0.1 / math.sqrt(2), -0.1 / math.sqrt(2)
    weight[:, :2] += 0.05 / math.sqrt(2)
    output = np.array([1.0, 1, -1, -1])
    parts = theory.xor_parts(weight, output)
    gradient = theory.xor_surrogate_gradient(weight, output, distribution="gaussian").weight
    first = (parts.signal - parts.opposite) * PHASE_ONE_RATE / np.linalg.norm(weight, axis=1)[:, None]
    assert np.abs(-gradient[:, :2] - first[:, :2]).max() < 0.03 * np.abs(first).max()


@pytest.mark.compiles
@pytest.mark.slow
def test_the_gaussian_gradient_is_close_to_drawn_ones():
    d, p = 60, 4
    weight, output = next(networks(p, d, 1))
    x = el.random.rademacher(el.random.stream(3, "test"), np.arange(100_000, dtype=np.uint32), d)
    drawn = theory.xor_gradients(weight, output, x, slope="zero")
    closed = theory.xor_surrogate_gradient(weight, output, distribution="gaussian")
    scale = np.abs(output)[:, None]
    assert np.abs((drawn.weight - closed.weight) / scale).max() < 0.02
    sampled = theory.xor_surrogate_growth(weight, output)
    assert sampled.signal == pytest.approx(
        theory.xor_surrogate_growth(weight, output, distribution="gaussian").signal, rel=0.05
    )


def test_the_surrogate_map_predicts_a_run_of_minibatch_sgd():
    """d = 64, 80 steps of 2048, one seed; seeds 5 to 7 give errors of 2.4 to 3.0% and rates of 0.398 to 0.400."""
    d, p, rate, batch, steps, theta = 64, 96, 0.05, 2048, 80, 0.05
    weight = draw(p, d, seed=5).astype(float)
    weight *= theta / np.linalg.norm(weight, axis=1, keepdims=True)
    output = np.where(np.arange(p) % 2, theta, -theta)
    first = theory.xor_sizes(weight, output)
    path = theory.xor_surrogate_trajectory([*first[:3], np.abs(output)], rate, steps)
    for step in range(steps):
        x = el.random.rademacher(el.random.stream(5, "batches").fold(step), np.arange(batch, dtype=np.uint32), d)
        gradient = theory.xor_gradients(weight, output, x)
        weight, output = weight - rate * gradient.weight, output - rate * gradient.output
    last = theory.xor_sizes(weight, output)
    large = first.signal > np.median(first.signal)
    growth = np.median(np.log(last.signal / first.signal)[large]) / (rate * steps)
    assert np.median(np.abs(last.signal / path[-1, 0] - 1)[large]) < 0.04
    assert 0.37 < growth < 0.42
    assert np.median(np.log(path[-1, 0] / first.signal)[large]) / (rate * steps) == pytest.approx(
        PHASE_ONE_RATE, abs=0.02
    )


@pytest.mark.parametrize("d", [11, 12])
def test_clean_closed_forms_are_the_enumeration(d):
    x = sign_table(d)
    for weight, output in networks(8, d, 6):
        counted = theory.xor_gradients(weight, output, x, slope="clean")
        growth = theory.xor_clean_growth(weight, output, distribution="exact")
        for part, found in zip(theory.xor_parts(weight, output), growth, strict=True):
            assert found == pytest.approx(-(part * counted.weight).sum(axis=1), abs=1e-12)
        assert growth.total == pytest.approx(-output * counted.output, abs=1e-12)
        bound = theory.xor_clean_bounds(weight, output, 0.1)
        assert (np.abs(counted.output) <= bound.size).all()


def test_clean_gradients_of_a_network_without_output_are_those_of_the_surrogate():
    weight, output = next(networks(5, 10, 1))
    doubled, cancelled = np.vstack([weight, weight]), np.concatenate([output, -output])
    clean = theory.xor_clean_growth(doubled, cancelled)
    surrogate = theory.xor_surrogate_growth(doubled, cancelled)
    for first, second in zip(clean, surrogate, strict=True):
        assert first == pytest.approx(second, abs=1e-14)


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: theory.xor_parts(np.ones((3, 1)), np.ones(3)), "weight must have shape (p, d), d >= 2: shape=(3, 1)"),
        (lambda: theory.xor_parts(np.ones((3, 4)), np.ones(2)), "output must have shape (p,): shape=(2,), p=3"),
        (
            lambda: theory.xor_sizes(np.ones((3, 4)), np.ones(3), np.eye(3)),
            "basis must have shape (d, d): shape=(3, 3), d=4",
        ),
        (
            lambda: theory.xor_surrogate_growth(np.ones((1, 30)), np.ones(1), distribution="exact"),
            "d must be at most 20 for the exact distribution: d=30",
        ),
        (
            lambda: theory.xor_surrogate_growth(np.arange(4.0)[None] + 1, np.ones(1), distribution="binomial"),
            "weights outside the plane must be 0 or of equal magnitude (binomial distribution): d=4",
        ),
        (
            lambda: theory.xor_gradients(np.ones((1, 4)), np.ones(1), np.ones((2, 4)), slope="none"),
            "slope must be one of network, zero, clean: slope=none",
        ),
        (
            lambda: theory.xor_layer_bounds(np.ones((1, 4)), [1], 0.3),
            "rate must lie in (0, 1/4] (Lemma B.13): rate=0.3",
        ),
    ],
)
def test_arguments_that_make_no_network_name_the_rule(ask, message):
    with pytest.raises(el.errors.TheoryError) as refused:
        ask()
    assert str(refused.value) == message
