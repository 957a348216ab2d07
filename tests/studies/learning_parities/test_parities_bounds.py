"""Biased parities: the distribution, what linear predictors cannot do, and the bounds on training."""

import math

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.boolean.fourier import sign_table


@pytest.mark.parametrize("k, places", [(3, (1, 4, 7)), (5, (0, 2, 3, 8, 9))])
def test_the_label_is_the_parity_and_counts_the_sum_of_its_signs(k, places):
    signs = sign_table(10)[:, places]
    label = theory.biased_table(10, places).label
    assert np.array_equal(label, signs.prod(axis=1))
    assert np.array_equal(label, (-1) ** ((k - signs.sum(axis=1, dtype=int)) // 2))


@pytest.mark.parametrize("mix", [0, 0.5, 0.25, 1])
def test_only_the_aligned_part_correlates_single_inputs_with_the_label(mix):
    n, places = 9, (2, 3, 7)
    table = theory.biased_table(n, places, mix)
    assert table.probability.sum() == pytest.approx(1, abs=1e-12)
    correlation = (table.probability * table.label) @ sign_table(n)
    expected = np.zeros(n)
    expected[list(places)] = mix
    assert correlation == pytest.approx(expected, abs=1e-12)
    ends = np.abs(sign_table(n)[:, places].sum(axis=1)) == 3
    assert table.probability[ends].sum() == pytest.approx(mix + (1 - mix) * 2 / 8)


def test_theorem_2_at_known_sizes():
    assert theory.biased_linear_bound(7, 512, 1) == pytest.approx(0.375)
    assert theory.biased_linear_bound(3, 512, 1) == pytest.approx(-1.5)
    assert theory.biased_fourier_bound(48, 3, 512, 1) == pytest.approx(0.414, abs=5e-4)


def test_theorem_2_falls_with_the_features_and_the_norm():
    for bound in (theory.biased_linear_bound, lambda *a, **o: theory.biased_fourier_bound(160, *a, **o)):
        assert bound(7, 512, 1) > bound(7, 513, 1) > bound(7, 513, 1.1)


@pytest.mark.parametrize("form", ["corrected", "printed"])
def test_the_fourier_bound_implies_theorem_2_in_both_forms_where_it_says_anything(form):
    """So the printed statement, with B under the root, is true though the proof does not give it."""
    for k in (3, 5, 7):
        for n in (16 * k, 40 * k):
            for features in (1, 10, 1000):
                for norm in (1e-3, 0.3, 1, 3, 1e2, 1e5):
                    bound = theory.biased_linear_bound(k, features, norm, form)
                    assert bound < 0 or theory.biased_fourier_bound(n, k, features, norm) >= bound


def random_relus(n, count, seed):
    x = sign_table(n) / math.sqrt(n)
    weight = el.random.uniform_signed(
        el.random.stream(seed, "init"), np.arange(count)[:, None], lane=np.arange(n)[None, :]
    )
    # without a bias a relu of signs has no odd Fourier coefficient but those of degree 1
    bias = el.random.uniform_signed(el.random.stream(seed, "init").fold(1), np.arange(count))
    hidden = np.maximum(weight.astype(float) @ x.T + bias[:, None] / 2, 0)
    return hidden / np.abs(hidden).max()


def test_parseval_over_all_supports():
    n, features = 10, random_relus(10, 5, 0)
    total = np.mean(features, axis=1) ** 2
    for k in range(1, n + 1):
        found = theory.biased_support_bounds(features[:1], k, 1)
        total[0] += ((1 - found.bound) ** 2).sum()
    assert total[0] == pytest.approx((features[0] ** 2).mean(), abs=1e-12)


def best_hinge(rows, norm):
    """The smallest mean hinge loss over the ball: by its dual, max sum a - B ||sum_p a_p r_p|| over 0 <= a <= 1/P.

    Any feasible predictor's loss bounds it above and any feasible dual below; both are returned.
    """
    points = len(rows)
    weight, best = np.zeros(rows.shape[1]), 1.0
    amount = np.full(points, 1 / points)
    low = amount.sum() - norm * np.linalg.norm(rows.T @ amount)
    for step in range(1, 200):
        slack = 1 - rows @ weight
        gradient = -(rows * (slack > 0)[:, None]).mean(axis=0)
        weight = weight - gradient * norm / (np.linalg.norm(gradient) + 1e-12) / math.sqrt(step)
        weight *= min(1, norm / np.linalg.norm(weight))
        best = min(best, np.maximum(1 - rows @ weight, 0).mean())
        active = (slack > 0) / points
        low = max(low, active.sum() - norm * np.linalg.norm(rows.T @ active))
    return low, best


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.parametrize("norm", [1.0, 4.0])
def test_no_linear_predictor_beats_the_bounds_on_any_support(norm):
    """12 inputs, 64 random features, all 220 supports bounded and five solved: dual and primal within 0.01."""
    n, k = 12, 3
    features = random_relus(n, 64, 1)
    found = theory.biased_support_bounds(features, k, norm)
    mean = 0.0
    for places, bound in list(zip(found.supports, found.bound, strict=True))[::44]:
        label = sign_table(n)[:, places].prod(axis=1)
        low, best = best_hinge(label[:, None] * features.T, norm)
        assert best - 0.01 <= low <= best + 1e-9
        assert best >= bound - 1e-6
        mean += low / 5
    assert len(found.supports) == 220
    assert found.bound.mean() >= 2 * theory.biased_fourier_bound(n, k, 64, norm) - 1e-12
    assert mean >= 2 * theory.biased_fourier_bound(n, k, 64, norm)
    assert 2 * theory.biased_fourier_bound(n, k, 64, norm) > theory.biased_average_bound(n, k, 64, norm)


def test_theorem_3_explicit_form_with_the_constants_of_its_own_proof():
    """||u|| ||dL/du|| can be 12 q k / sqrt(n), above the printed 6 sqrt(2), and eta ||dL/du||^2 is 72 eta q."""
    k, q, n, steps = 7, 50, 1e6, 1e9
    start = np.full(2 * q, theory.biased_output_bound(n, k))
    gradient = np.full(2 * q, 6.0)
    product = np.linalg.norm(start) * np.linalg.norm(gradient)
    noise = k**2 / (steps * math.sqrt(q)) * np.linalg.norm(gradient) ** 2
    corrected = theory.biased_explicit_bound(k, q, n, steps, readout=0, drift=0)
    assert corrected == pytest.approx(product + noise)
    assert theory.biased_explicit_bound(k, q, n, steps, readout=0, drift=0, form="printed") < product
    assert theory.biased_explicit_bound(k, q, n, steps) > theory.biased_explicit_bound(k, q, n, steps, readout=0.5)


@pytest.mark.parametrize("epsilon", [0.3, 0.01, 1e-4])
def test_corollary_4_needs_the_square_of_epsilon_in_the_width(epsilon):
    k, delta = 7, 0.1
    sizes = theory.biased_sizes(k, epsilon, delta)
    bound = theory.biased_loss_bound(k, sizes.q, sizes.n, sizes.steps)
    assert bound <= 4 * epsilon * (1 + 1e-9)
    printed = theory.biased_sizes(k, epsilon, delta, form="printed")
    assert printed.q < sizes.q
    loss = theory.biased_loss_bound(k, printed.q, printed.n, printed.steps)
    assert loss >= math.sqrt(epsilon / math.log(k / delta))


def test_corollary_4_in_the_printed_form_misses_epsilon_by_any_factor():
    def ratio(epsilon, form):
        sizes = theory.biased_sizes(7, epsilon, 0.1, form=form)
        return theory.biased_loss_bound(7, sizes.q, sizes.n, sizes.steps) / epsilon

    assert ratio(1e-6, "printed") > 400
    assert ratio(1e-6, "corrected") < 4


def test_theorem_13_holds_for_absolute_values_and_quadratics():
    """100 random sequences of convex functions and comparators; the inequality is never violated."""
    key = el.random.stream(3, "probe")
    for trial in range(100):
        size, steps = 3, 20
        draws = el.random.uniform_signed(
            key, np.uint32(trial), lane=np.arange(1 + steps * 4 + 6)[:, None] * 8 + np.arange(size)
        )
        rate = float(abs(draws[0, 0])) + 1e-3
        theta, star = 2.0 * draws[1], 3.0 * draws[2]
        start = np.linalg.norm(theta)
        seen, against, norms = [], [], []
        for step in range(steps):
            slope, centre = draws[6 + 2 * step].astype(float), draws[7 + 2 * step].astype(float)

            def value(point, step=step, slope=slope, centre=centre):
                return abs(slope @ point - centre[0]) if step % 2 else ((point - centre) ** 2).sum() / 4

            gradient = slope * np.sign(slope @ theta - centre[0]) if step % 2 else (theta - centre) / 2
            seen.append(value(theta))
            against.append(value(star))
            norms.append(np.linalg.norm(gradient))
            theta = theta - rate * gradient
        bound = theory.online_descent_bound(against, float(np.linalg.norm(star)), norms, rate, float(start))
        assert np.mean(seen) <= bound + 1e-9


def descend(n, k, q, steps, rate, decay, seed, batch=None):
    """Gradient descent after the exact first step, mirrored initialisation: parameters after every step."""
    key = el.random.stream(seed, "init")
    weight = el.random.integers(key.fold(0), np.arange(q)[:, None], lane=np.arange(n)[None, :], bound=3).astype(int) - 1
    output = el.random.uniform_signed(key.fold(1), np.arange(q)).astype(float) * n / k
    first = theory.biased_first_step(weight, 1 / (8 * k), output, range(k))
    w = np.vstack([first.weight, -first.weight])
    b = np.concatenate([first.bias, 2 / (8 * k) - first.bias])
    u = np.concatenate([first.output, first.output])
    yield w, b, u
    whole = theory.biased_table(n, range(k)) if batch is None else None
    for step in range(steps):
        if whole is not None:
            x, y, share = sign_table(n) / math.sqrt(n), whole.label, whole.probability
        else:
            draws = el.random.stream(seed, "batches").fold(step)
            signs = el.random.rademacher(draws, np.arange(batch, dtype=np.uint32), n).astype(float)
            signs[: batch // 2, :k] = signs[: batch // 2, :1]
            x, y, share = signs / math.sqrt(n), signs[:, :k].prod(axis=1), np.full(batch, 1 / batch)
        v = x @ w.T + b
        hidden, open_ = np.clip(v, 0, 6), (v > 0) & (v < 6)
        slope = -y * share * (1 - y * (hidden @ u) > 0)
        into = slope[:, None] * open_ * u
        w, b, u = (
            w - rate * (into.T @ x + 2 * decay * w),
            b - rate * into.sum(axis=0),
            u - rate * (slope @ hidden + 2 * decay * u),
        )
        yield w, b, u


@pytest.mark.parametrize(
    "n, k, q, batch, decay", [(11, 3, 12, None, 0.0), (11, 3, 12, None, 0.2), (101, 3, 64, 64, 0.01)]
)
def test_neurons_drift_no_further_than_lemma_15_allows(n, k, q, batch, decay):
    steps = 60
    rate = k**2 / (steps * math.sqrt(q))
    run = descend(n, k, q, steps, rate, decay, 0, batch)
    start_w, start_b, start_u = next(run)
    assert np.abs(start_u).max() <= theory.biased_output_bound(n, k)
    readout = el.random.uniform_signed(el.random.stream(1, "probe"), np.arange(2 * q)).astype(float)
    readout[::3] = 0
    points = el.random.rademacher(el.random.stream(2, "probe"), np.arange(64, dtype=np.uint32), n) / math.sqrt(n)
    ideal = np.clip(points @ start_w.T + start_b, 0, 6) @ readout
    for step, (w, b, u) in enumerate(run, start=1):
        bound = theory.biased_drift(n, k, rate, step, decay)
        assert np.abs(u).max() <= bound.output
        assert np.linalg.norm(w - start_w, axis=1).max() <= bound.weight
        assert np.abs(b - start_b).max() <= bound.bias
        moved = theory.biased_loss_drift(
            n,
            k,
            rate,
            step,
            readout_norm=float(np.linalg.norm(readout)),
            readout_size=int((readout != 0).sum()),
            decay=decay,
        )
        assert np.abs(np.clip(points @ w.T + b, 0, 6) @ readout - ideal).max() <= moved


def test_the_printed_drift_of_the_weights_is_exceeded_by_a_run_with_small_steps():
    run = descend(11, 3, 12, 3, 1e-4, 0.0, 0)
    start = next(run)[0]
    for step, (w, _, _) in enumerate(run, start=1):
        moved = np.linalg.norm(w - start, axis=1).max()
        assert moved <= theory.biased_drift(11, 3, 1e-4, step).weight
        assert moved > theory.biased_drift(11, 3, 1e-4, step, form="printed").weight


def test_the_bounds_are_what_their_formulas_say():
    """Values by hand: the bounds are loose, so that no run tells their constants."""
    assert theory.biased_average_bound(32, 2, 8, 0.5) == pytest.approx(1 - 4 * 0.5 / 496**0.25)
    assert theory.biased_loss_bound(2, 4, 16, 8, (1, 2, 3, 4)) == pytest.approx(256 + 2 * 128 + 3 * 2 + 4 * 1)
    explicit = theory.biased_explicit_bound(2, 4, 16, 8, readout=2, drift=3)
    assert explicit == pytest.approx(4 * (128 + 64) + 3 * (384 + 32) + 12 * 2 + 72)
    sizes, log = theory.biased_sizes(7, 0.1, 0.2, constants=(2, 3, 4)), math.log(35)
    assert sizes == pytest.approx((200 * 7**16 * log, 300 * 7**10 * math.sqrt(log), 4e6 * 7**34 * log**2))
    drift = theory.biased_drift(100, 3, 0.1, 2, 0.5)
    assert drift == pytest.approx((1.2 + 0.3, 0.24 + 0.06 + 0.1 * 100 / 3, 0.24 + 0.06))
    moved = theory.biased_loss_drift(100, 3, 0.1, 2, readout_norm=3, readout_size=4, decay=0.5)
    assert moved == pytest.approx(12 * drift.weight)
    assert theory.online_descent_bound([1, 3], 2, [1, 2], 0.5, 4) == pytest.approx(2 + 2 + 6 + 1.25)


def test_lemma_12_promises_scale_as_stated():
    small, large = theory.biased_readout_bounds(7, 1e4, 0.1), theory.biased_readout_bounds(7, 4e4, 0.1)
    assert small.norm == 2 * large.norm
    assert large.size == 4 * small.size
    assert small.width == large.width == pytest.approx(7**7 * math.log(80))


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: theory.biased_table(6, (0, 1)), "k must be odd (biased parity): k=2"),
        (lambda: theory.biased_table(6, (0, 1, 2), 1.5), "mix must lie in 0..1 (biased parity): mix=1.5"),
        (lambda: theory.biased_linear_bound(3, 0, 1), "features must be positive (Theorem 2): features=0"),
        (lambda: theory.biased_fourier_bound(3, 5, 9, 1), "k must be at most n (Theorem 2): k=5, n=3"),
        (
            lambda: theory.biased_sizes(7, 0.5, 0.1),
            "epsilon must lie between 0 and 1/2 (Corollary 4): epsilon=0.5",
        ),
        (lambda: theory.biased_drift(101, 3, 0.6, 1), "rate must lie in 0..1/2 (Lemma 15): rate=0.6"),
        (lambda: theory.biased_drift(7, 3, 0.1, 1), "n must be at least (1 + sqrt(k))^2 (Lemma 15): n=7, k=3"),
        (lambda: theory.online_descent_bound([1], 1, [1], 0, 1), "rate must be positive (Theorem 13): rate=0"),
    ],
)
def test_arguments_outside_the_theorems_name_the_hypothesis(ask, message):
    with pytest.raises(el.errors.TheoryError) as refused:
        ask()
    assert str(refused.value) == message
