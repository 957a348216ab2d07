"""Covers, capacities and generalisation bounds of attention: against optimisers, integrals and brute force."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import elegans as el
from elegans import theory
from elegans.studies.variable_creation.theory.capacity import BlockNorms, HeadNorms

KEY = el.random.stream(0, "probe")


def normal(number, *shape):
    drawn = el.random.normal(KEY.fold(number), np.arange(math.prod(shape)))
    return np.asarray(drawn, float).reshape(shape)


def draw_block(number, d=5, k=3):
    scale = 0.3 + (number % 7) / 4
    parts = (normal(10 * number + place, d, k) for place in range(3))
    return theory.Block(*(scale * part for part in parts), scale * normal(10 * number + 3, k, d))


def nudged(block, number, size):
    return theory.Block(*(part + size * normal(1000 + 10 * number + i, *part.shape) for i, part in enumerate(block)))


def tokens(number, T=6, d=5):
    return theory.project_to_ball(normal(5000 + number, T, d))


def test_the_softmax_jacobian_is_largest_at_equal_weights():
    for n in (2, 3, 10):
        uniform = np.full(n, 1 / n)
        assert theory.softmax_jacobian(uniform) == pytest.approx(2 * (1 - 1 / n), abs=1e-15)
        for number in range(30):
            p = theory.softmax(3 * normal(number, n))
            jacobian = np.diag(p) - np.outer(p, p)
            assert theory.softmax_jacobian(p) == pytest.approx(np.abs(jacobian).sum(), abs=1e-14)
            assert theory.softmax_jacobian(p) <= 2 * (1 - 1 / n) + 1e-15


def test_the_sharp_constant_of_the_softmax_is_one():
    for number in range(40):
        p = theory.softmax(2 * normal(number, 6))
        jacobian = np.diag(p) - np.outer(p, p)
        corners = 1.0 - 2 * ((np.arange(64)[:, None] >> np.arange(6)) & 1)
        assert theory.softmax_sharpness(p) == pytest.approx(np.abs(corners @ jacobian).sum(axis=1).max(), abs=1e-14)
        assert theory.softmax_sharpness(p) <= 1
        a, b = 3 * normal(100 + number, 8), 3 * normal(200 + number, 8)
        moved = np.abs(theory.softmax(a) - theory.softmax(b)).sum()
        change = np.abs(a - b).max()
        assert moved <= theory.softmax_change(change, 1.0) < theory.softmax_change(change) == 2 * change
    assert theory.softmax_sharpness([0.5, 0.5]) == 1
    tiny = 1e-4
    moved = np.abs(theory.softmax([tiny, -tiny]) - theory.softmax([-tiny, tiny])).sum()
    assert moved / (2 * tiny) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("number", range(5))
def test_the_allocation_is_what_an_optimiser_finds(number):
    alpha, beta = np.exp(normal(number, 4)), np.exp(normal(50 + number, 4))
    best = theory.cover_allocation(alpha.tolist(), beta.tolist(), 1.7)
    assert best.shares @ beta == pytest.approx(1.7) and (alpha / np.square(best.shares)).sum() == pytest.approx(
        best.value
    )
    found = minimize(
        lambda u: (alpha / (1.7 / beta * np.exp(u) / np.exp(u).sum()) ** 2).sum(), np.zeros(4), method="BFGS"
    )
    assert best.value == pytest.approx(found.fun, rel=1e-6)


def test_linear_covers_are_the_explicit_ones():
    assert theory.linear_cover(1, 1, 1000, 0.1) == pytest.approx(40_818.90, abs=0.005)
    assert theory.linear_cover(2, 1, 1000, 0.2) == pytest.approx(theory.linear_cover(1, 1, 1000, 0.1))


def test_explicit_matrix_covers_split_the_precision_best():
    found = theory.matrix_cover(3, 2, 500, 0.5, 10)
    splits = np.linspace(0.001, 0.999, 5000)
    by_hand = [36 * 144 / (1 - a) ** 2 * math.log(2 * math.ceil(48 / (1 - a) + 2) * 500 + 1) for a in splits]
    rows = 144 * math.log(21) / splits**2
    assert found == pytest.approx((rows + by_hand).min(), rel=1e-3)
    assert found > theory.matrix_cover(3, 2, 500, 0.5, 10, form="printed") == pytest.approx(144 * math.log(5000))


def test_heads_are_covered_as_the_general_theorem_says():
    """Corollary 4.9 with its constants is Theorem 4.6 with covers B^2 log(d m T) / eps^2 at the best alpha."""
    value_rows, value, merged_rows, B_X, L, d, points = 3.0, 1.4, 2.0, 1.7, 0.8, 16, 5000
    log = math.log(d * points)
    # of a query of norm B_X, an error of W_QK x counts B_X-fold
    found = theory.head_cover(
        lambda eps: (merged_rows * B_X * B_X / eps) ** 2 * log,
        lambda eps: (value_rows * B_X / eps) ** 2 * log,
        0.3,
        input_norm=B_X,
        value_bound=value,
        output_lipschitz=L,
    )
    capacity = theory.head_capacity(value_rows, value, merged_rows, points, d=d, input_norm=B_X, lipschitz=L)
    assert found == pytest.approx(capacity / 0.3**2, rel=1e-6)
    fixed = theory.head_cover(lambda eps: 1 / eps, lambda eps: 2 / eps, 0.3, share=0.5)
    assert fixed == pytest.approx(2 / 0.15 + 2 / 0.15)


def test_head_changes_are_bounded():
    for number in range(50):
        X, q, p = normal(number, 7, 4), normal(300 + number, 4), normal(400 + number, 4)
        V, W = normal(500 + number, 4, 3), normal(600 + number, 4, 3)
        here = np.tanh(theory.softmax(X @ q) @ X @ V)
        there = np.tanh(theory.softmax(X @ p) @ X @ W)
        bound = theory.head_change(
            np.abs(X @ q - X @ p).max(),
            theory.token_norm(X @ (V - W)),
            input_norm=theory.token_norm(X),
            value_bound=np.linalg.norm(V, 2),
        )
        assert np.linalg.norm(here - there) <= bound


def test_capacity_grows_with_the_logarithm_of_the_context():
    def ratio(form, T):
        return theory.head_capacity(2, 1, 3, 1000 * T, d=64, form=form)

    assert ratio("corrected", 10_000) / ratio("corrected", 100) == pytest.approx(1.29385, abs=5e-6)
    assert ratio("printed-main", 100) == pytest.approx((2 ** (2 / 3) + 3 ** (2 / 3)) ** 3 * math.log(1e5))
    deep = [theory.depth_capacity([BlockNorms(1, 1, 1, 1, 1, 1)] * 3, 2.0, 1000 * T, d=64, k=8) for T in (100, 10_000)]
    assert deep[1] / deep[0] == pytest.approx(1.29385, abs=5e-6)


@pytest.mark.parametrize("form", ["corrected", "unit-query", "printed"])
def test_equal_heads_cost_their_number_cubed(form):
    one, five = ([HeadNorms(2, 1.5, 3)] * count for count in (1, 5))
    sizes = [theory.heads_capacity(heads, 10**5, d=64, input_norm=1.3, form=form) for heads in (one, five)]
    assert sizes[1] == pytest.approx(125 * sizes[0])
    if form != "printed":
        assert sizes[0] == pytest.approx(theory.head_capacity(2, 1.5, 3, 10**5, d=64, input_norm=1.3, form=form))


def test_depth_one_is_the_split_over_one_block():
    block, B_w, L, points, d = BlockNorms(1.2, 0.9, 2.0, 0.7, 1.5, 1.1), 1.4, 0.8, 5000, 16
    costs = [B_w**2, block.output_rows**2, block.merged_rows**2, block.value_rows**2]
    outer = L * block.output
    counts = [1, B_w, 2 * B_w * outer * block.value, B_w * outer]
    by_hand = math.log(d * points) * theory.cover_allocation(costs, counts, 1).value
    assert theory.depth_capacity([block], B_w, points, d=d, k=4, lipschitz=L) == pytest.approx(by_hand)


def test_capacity_scales_with_the_square_of_the_readout():
    blocks = [BlockNorms(1, 1.2, 2, 0.5, 1, 0.9), BlockNorms(2, 0.8, 1, 0.3, 3, 1.1)]
    found = [theory.depth_capacity(blocks, B_w, 5000, d=16, k=4) for B_w in (1.0, 3.0)]
    assert found[1] == pytest.approx(9 * found[0])
    simple = [theory.depth_capacity_simplified(1.5, 2, B_w, 5000, d=16, depth=3) for B_w in (1.0, 3.0)]
    assert simple[1] == pytest.approx(9 * simple[0]) and simple[0] == pytest.approx(1.5**3 * 4 * math.log(80_000))


@pytest.mark.slow
@pytest.mark.compiles
def test_attention_moves_no_further_than_its_lemmas_say():
    """500 random pairs of blocks with relu; a bound that fails once fails the test."""
    largest = 0.0
    for number in range(1500, 2000):
        block, z = draw_block(number), tokens(number)
        size = (0.01, 0.1, 1.0)[number % 3]
        other, moved = nudged(block, number, size), theory.project_to_ball(z + size * normal(9000 + number, 6, 5))
        by_weights = theory.token_norm(theory.attention_output(z, block) - theory.attention_output(z, other))
        assert by_weights <= theory.weight_change_bound(z, block, other) * (1 + 1e-12)
        by_input = theory.token_norm(theory.attention_output(z, block) - theory.attention_output(moved, block))
        assert by_input <= theory.input_change_bound(z, moved, block) * (1 + 1e-12)
        here, there = theory.attention_block(z, block), theory.attention_block(moved, other)
        bound = theory.block_change_bound(z, moved, block, other)
        largest = max(largest, theory.token_norm(here - there) / bound)
        w, v = normal(20_000 + number, 5), normal(30_000 + number, 5)
        assert abs(w @ here[-1] - v @ there[-1]) <= theory.readout_change_bound(w, v, here[-1], there[-1]) + 1e-12
    assert 0.13 < largest <= 1


def test_the_projection_is_non_expansive():
    for number in range(100):
        u, v = 2 * normal(number, 4, 3), 2 * normal(700 + number, 4, 3)
        shrunk = theory.project_to_ball(u) - theory.project_to_ball(v)
        assert (np.linalg.norm(shrunk, axis=1) <= np.linalg.norm(u - v, axis=1) + 1e-15).all()
        assert (np.linalg.norm(theory.project_to_ball(u), axis=1) <= 1 + 1e-15).all()


def test_the_entropy_integral_is_best_at_its_closed_form():
    C, A, m = 7.0, 2.0, 500
    least = math.sqrt(C / m)
    found = [theory.dudley_bound(lambda eps: C / eps**2, A, m, delta=c * least) for c in (0.5, 1.0, 2.0)]
    assert found[1] == pytest.approx(theory.rademacher_bound(C, A, m), rel=1e-9)
    assert found[1] < min(found[0], found[2])
    assert theory.dudley_bound(lambda eps: C / eps**2, A, m) == pytest.approx(found[1], rel=1e-9)
    assert theory.dudley_bound(lambda eps: 1000 / eps, A, m) == A  # covers too large for any integral


def test_the_generalisation_bound_is_the_sum_of_its_parts_and_inverts():
    gap = theory.generalisation_gap(50.0, 3.0, 10_000, lipschitz=2, loss_bound=1.5, failure=0.01, constant=0.7)
    root = math.sqrt(50 / 10_000)
    by_hand = 4 * 0.7 * 2 * root * (1 + math.log(3 / root)) + 2 * 1.5 * math.sqrt(math.log(100) / 20_000)
    assert gap == pytest.approx(by_hand)
    least = theory.generalisation_sample(50.0, 3.0, 0.1)
    assert theory.generalisation_gap(50.0, 3.0, least) <= 0.1 < theory.generalisation_gap(50.0, 3.0, least - 1)
    # a head's capacity grows with log m: d T once, then once more for each unit of log m
    once, growth = (theory.head_capacity(2, 1, 3, points, d=64) for points in (100, 1))
    growth /= math.log(64)
    least = theory.generalisation_sample(once, 1.0, 0.2, growth=growth)
    reached = theory.head_capacity(2, 1, 3, 100 * least, d=64)
    assert theory.generalisation_gap(reached, 1.0, least) == pytest.approx(0.2, abs=1e-6)
    with pytest.raises(el.errors.TheoryError, match=r"sqrt\(C/m\) must be at most A"):
        theory.rademacher_bound(100, 1, 99)


@pytest.mark.parametrize("T", [2, 3, 4, 8, 12, 16, 64, 100, 256])
def test_one_head_shatters_log_many_sequences(T):
    witness = theory.attention_shattering(T)
    inputs = theory.attention_pdim_bound(T)
    assert inputs == int(math.log2(T)) and witness.contexts.shape == (inputs, T, 3)
    scores = witness.contexts @ witness.queries.T
    outputs = (theory.softmax(scores.swapaxes(1, 2)) @ witness.contexts) @ witness.value
    assert witness.outputs == pytest.approx(outputs.T, abs=1e-12)
    assert (witness.weights >= 1 / (1 + math.sqrt(math.pi / 8))).all()
    labelings, counts = np.unique(witness.labelings, axis=0, return_counts=True)
    assert len(labelings) == 2**inputs
    assert np.array_equal(witness.labelings, (np.arange(T)[:, None] >> np.arange(inputs)) & 1)
    if 2**inputs == T:
        assert (counts == 1).all()


def test_the_shattering_weights_are_what_they_are():
    assert theory.attention_shattering(2).weights == pytest.approx(0.99966, abs=5e-6)
    for T in (4, 16, 64):
        assert (theory.attention_shattering(T).weights > 0.9999997).all()


def test_a_readout_of_norm_b_needs_the_heads_at_a_precision_b_times_finer():
    """A readout moves at most B times as far as what it reads: 1000 random pairs."""
    assert theory.readout_cover(lambda eps: 3 / eps**2, 0.5, 2.0) == 3 / 0.25**2
    heads, w = normal(1, 200, 4), 2 * normal(2, 4) / np.linalg.norm(normal(2, 4))
    centres = heads[:5]
    distances = np.linalg.norm(heads[:, None] - centres, axis=2)
    assert (np.abs((heads[:, None] - centres) @ w) <= 2 * distances + 1e-12).all()
    with pytest.raises(el.errors.TheoryError, match="readout must be positive"):
        theory.readout_cover(lambda eps: 1 / eps, 0.1, 0)
