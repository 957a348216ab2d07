"""Constructed attention computes sparse Boolean functions on all inputs, with the stated errors and norms."""

import itertools
import math

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.tasks import BooleanFunction

KINDS = [(encoding, target) for encoding in ("fixed", "trained", "bag") for target in ("scalar", "vector")]
GATES = ["and", "or", "symmetric:1110", "parity", "majority", "threshold:2"]


def every(T):
    """All 2^T inputs."""
    return (np.arange(2**T)[:, None] >> np.arange(T)) & 1


def real_values(seed, count):
    return np.asarray(el.random.normal(el.random.stream(seed, "probe"), np.arange(count)), float)


def gamma_of(s, encoding, target):
    return min(1.0, theory.selection_separation(s, encoding, target))


@pytest.mark.parametrize(("encoding", "target"), KINDS)
@pytest.mark.parametrize(("T", "s"), [(6, 1), (6, 2), (8, 3), (10, 5), (5, 5)])
def test_heads_err_by_exactly_the_closed_form_and_less_than_allowed(encoding, target, T, s):
    support, gamma = list(range(T - s, T)), gamma_of(s, encoding, target)
    heads = theory.selection_heads(theory.orthonormal_codes(T), support, encoding=encoding, target=target, gamma=gamma)
    found = heads.outputs(every(T))
    wanted = theory.selection_target(every(T)[:, support], encoding, target)
    error = np.abs(found[:, : wanted.shape[1]] - wanted).max()
    gap = theory.selection_gap(T, s, gamma, encoding)
    assert error == pytest.approx(theory.selection_worst_error(T, s, gap, encoding, target), abs=1e-14)
    assert error == pytest.approx(theory.selection_error(heads, support, target=target), abs=1e-14)
    assert error < gamma / 4
    assert (found[:, wanted.shape[1] :] == 0).all()


@pytest.mark.parametrize(
    ("encoding", "target", "T", "s", "gamma", "error"),
    [
        ("fixed", "scalar", 6, 2, 1, 0.0891089),
        ("fixed", "scalar", 8, 3, 2 / 3, 0.0374150),
        ("fixed", "scalar", 10, 3, 2 / 3, 0.0407609),
        ("fixed", "scalar", 10, 5, 2 / 5, 0.0109343),
        ("bag", "scalar", 6, 2, 1 / 2, 0.0606061),
        ("bag", "vector", 6, 2, 1 / 2, 0.0303030),
        ("bag", "scalar", 10, 3, 1 / 3, 0.0410959),
        ("bag", "vector", 10, 3, 1 / 3, 0.0136986),
        ("bag", "scalar", 10, 4, 1 / 4, 0.0310078),
        ("bag", "vector", 10, 4, 1 / 4, 0.0077519),
        ("fixed", "vector", 6, 4, 1, 0.2037037),
        ("fixed", "vector", 10, 2, 1, 0.2111111),
    ],
)
def test_the_worst_errors_are_these_numbers(encoding, target, T, s, gamma, error):
    gap = theory.selection_gap(T, s, gamma, encoding)
    assert theory.selection_worst_error(T, s, gap, encoding, target) == pytest.approx(error, abs=1e-7)


@pytest.mark.parametrize(("encoding", "target"), KINDS)
def test_norms_are_the_exact_ones_and_within_the_claims(encoding, target):
    T, s = 9, 4
    gamma = gamma_of(s, encoding, target)
    heads = theory.selection_heads(theory.orthonormal_codes(T), range(2, 6), encoding=encoding, target=target)
    found = theory.attention_norms(heads.query, heads.key, heads.value, heads.output)
    exact = theory.selection_norms(T, s, gamma, encoding, target)
    claimed = theory.selection_norms(T, s, gamma, encoding, target, form="printed")
    for name in ("query", "key", "value", "output"):
        assert getattr(found, name) == pytest.approx(getattr(exact, name), abs=1e-12)
        assert getattr(exact, name) <= getattr(claimed, name)
    if encoding == "trained":
        assert theory.row_norm_sum(heads.codes.position) == exact.position == claimed.position == s
    assert found.merged == pytest.approx(exact.query * exact.key)
    if encoding != "bag":  # one coordinate is the class token's, so rows are one row
        assert found.merged_rows == pytest.approx(exact.query * exact.key)
        assert found.mapped == pytest.approx(math.sqrt(2)) and found.mapped_rows == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(("encoding", "target"), KINDS)
@pytest.mark.parametrize("name", GATES)
def test_gates_of_three_bits_are_exact_on_all_inputs(encoding, target, name):
    T, support = 8, (6, 1, 3)
    made = theory.selecting_transformer(name, T, support, encoding=encoding, target=target)
    labels = 2 * BooleanFunction.parse(name).value(every(T)[:, support]) - 1
    assert np.abs(made(every(T)) - labels).max() < 1e-9


@pytest.mark.parametrize("encoding", ["fixed", "trained", "bag"])
def test_every_function_of_up_to_three_bits_is_exact_on_all_inputs(encoding):
    """All 4, 16 and 256 tables: heads and MLP but for its last layer are the same for all functions."""
    T = 7
    for s in (1, 2, 3):
        support = [4, 0, 6][:s]
        made = theory.selecting_transformer(np.zeros(2**s), T, support, encoding=encoding, target="vector")
        mlp = made.mlp
        units = np.maximum(made.selected(every(T)) @ mlp.first[:-1] + mlp.first[-1], 0)
        units = np.maximum(units @ mlp.second[:-1] + mlp.second[-1], 0)
        places = every(T)[:, support] @ 2 ** np.arange(s)
        tables = every(2**s).T.astype(float)
        assert np.abs(units @ np.concatenate([tables, -tables]) - tables[places]).max() < 1e-9


@pytest.mark.parametrize("encoding", ["fixed", "trained", "bag"])
def test_every_gate_of_two_bits_takes_one_head(encoding):
    """The symmetric ones of the 16 gates: a single head that counts ones, for trained and fixed positions."""
    for values in itertools.product((0.0, 1.0), repeat=3):
        made = theory.selecting_transformer(values, 6, (2, 5), encoding=encoding, target="scalar")
        assert len(made.selection.query) == 1
        assert made(every(6)) == pytest.approx(np.array(values)[every(6)[:, [2, 5]].sum(axis=1)], abs=1e-9)


@pytest.mark.parametrize("encoding", ["fixed", "trained", "bag"])
@pytest.mark.parametrize(("T", "s"), [(6, 2), (8, 3), (9, 4)])
def test_real_valued_functions_are_exact_with_entries_within_the_printed_bounds(encoding, T, s):
    support = list(range(s))[::-1]
    patterns = every(T)[:, support]
    for target, values in (("scalar", real_values(1, s + 1)), ("vector", real_values(2, 2**s))):
        made = theory.selecting_transformer(values, T, support, encoding=encoding, target=target)
        places = patterns.sum(axis=1) if target == "scalar" else patterns @ 2 ** np.arange(s)
        assert np.abs(made(every(T)) - values[places]).max() < 1e-9
        gamma, read = gamma_of(s, encoding, target), 1 if target == "scalar" else s
        bound = s if (encoding, target) == ("bag", "scalar") else 1
        first, second, last = (np.abs(part).max() for part in made.mlp)
        assert first <= 8 * max(1, bound) / gamma and second <= 8 * s / gamma and last == np.abs(values).max()
        exact = theory.memoriser_norms(bound, read, gamma / 4, last)
        assert (first <= exact[0] * (1 + 1e-12), second) == (True, pytest.approx(exact[1]))
        points = s + 1 if target == "scalar" else 2**s
        assert tuple(part.shape for part in made.mlp) == theory.memoriser_shapes(points, read)
    assert (made.mlp.first.shape[1], len(made.mlp.last)) == theory.memoriser_units(s)


@pytest.mark.parametrize("encoding", ["fixed", "trained", "bag"])
def test_bits_off_the_support_never_matter(encoding):
    made = theory.selecting_transformer(real_values(3, 8), 8, (1, 4, 6), encoding=encoding)
    values = made(every(8)).reshape((2,) * 8)  # the axis of bit t is 7 - t
    for bit in (0, 2, 3, 5, 7):
        assert np.abs(np.diff(values, axis=7 - bit)).max() < 1e-9
    assert np.abs(np.diff(values, axis=7 - 4)).max() > 0.1


def test_the_order_of_vectors_in_a_bag_does_not_matter():
    made = theory.selection_heads(theory.orthonormal_codes(6), (1, 3), encoding="bag")
    order = np.array([4, 2, 0, 5, 1, 3])
    moved = made._replace(codes=made.codes._replace(position=made.codes.position[order]))
    assert made.outputs(every(6)) == pytest.approx(moved.outputs(every(6)[:, order]), abs=1e-15)


@pytest.mark.parametrize(("encoding", "target"), KINDS)
def test_the_forward_pass_is_softmax_attention_over_the_tokens(encoding, target):
    codes = theory.random_codes(6, 40, seed=1)
    heads = theory.selection_heads(codes, (0, 2, 5), encoding=encoding, target=target, k=4)
    tokens = theory.attention_inputs(heads.codes, every(6), encoding)
    total = 0
    for q, k, v, c in zip(heads.query, heads.key, heads.value, heads.output, strict=True):
        scores = tokens @ (k @ (q.T @ codes.class_token))
        weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        total = total + (weights[:, None] @ tokens)[:, 0] @ v @ c
    assert heads.outputs(every(6)) == pytest.approx(total, abs=1e-12)
    assert heads.attention(every(6)).sum(axis=2) == pytest.approx(1)


def test_heads_without_scores_take_the_plain_mean():
    codes = theory.orthonormal_codes(5)
    heads = theory.selection_heads(codes, (1, 2))
    blind = heads._replace(query=0 * heads.query, key=0 * heads.key)
    mean = theory.attention_inputs(codes, every(5)).mean(axis=1)
    assert blind.outputs(every(5)) == pytest.approx(mean @ heads.value[0] @ heads.output[0], abs=1e-15)


def test_a_flip_changes_less_and_less_at_fixed_norms():
    T, s, gap = 9, 3, 2.0
    heads = theory.selection_heads(theory.orthonormal_codes(T), (0, 4, 8))
    scaled = heads._replace(query=heads.query * gap / np.linalg.norm(heads.query))
    outputs = scaled.outputs(every(T))[:, 0].reshape((2,) * T)
    largest = max(np.abs(np.diff(outputs, axis=axis)).max() for axis in range(T))
    assert theory.selection_flip_change(T, s, gap) == pytest.approx(largest, abs=1e-14)
    changes = [theory.selection_flip_change(10**power, s, gap) for power in (1, 3, 5)]
    assert changes[0] > changes[1] > changes[2] and changes[2] < 1e-3
    growing = [theory.selection_flip_change(10**power, s, math.log(10**power)) for power in (1, 3, 5)]
    assert min(growing) > 0.49


def test_softmax_truncation_bounds_what_is_lost():
    key = el.random.stream(0, "probe")
    for draw in range(200):
        drawn = np.asarray(el.random.uniform_signed(key, np.uint32(draw), lane=np.arange(12)), float)
        gap, s, scores = 3 * abs(drawn[0]), 1 + draw % 10, -np.abs(drawn)
        scores[:s] = gap + np.abs(drawn[:s])
        cut = scores.copy()
        cut[s:] = -math.inf
        lost = np.abs(theory.softmax(cut) - theory.softmax(scores)).sum()
        assert lost <= theory.softmax_truncation(12, s, gap) <= 2 * 12 * math.exp(-gap)


@pytest.mark.parametrize("encoding", ["fixed", "bag"])
def test_dual_vectors_serve_positions_that_are_not_orthogonal(encoding):
    bits = (np.asarray(el.random.rademacher(el.random.stream(0, "probe"), np.arange(400), 50)) > 0).astype(int)
    for seed in range(5):
        codes = theory.random_codes(50, 1027, seed)
        assert 0.08 < theory.code_coherence(codes.position) < 0.15
        heads = theory.selection_heads(codes, (3, 20, 41), encoding=encoding)
        gamma = gamma_of(3, encoding, "scalar")
        assert theory.selection_error(heads, (3, 20, 41), bits) < gamma / 4
        if encoding == "fixed":  # exactly, over all 2^50 inputs
            assert theory.selection_error(heads, (3, 20, 41)) < 0.2 * gamma
            on_support = heads.scores(bits[:1])[0, 0, [3, 20, 41]]
            assert np.ptp(on_support) < 1e-10
    made = theory.selecting_transformer("parity", 50, (3, 20, 41), encoding=encoding, codes=codes)
    assert made(bits) == pytest.approx(2.0 * (bits[:, [3, 20, 41]].sum(axis=1) % 2) - 1, abs=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: theory.orthonormal_codes(9, 11),
            "d must be at least T . 3 = 12 for orthonormal positions: d=11, T=9",
        ),
        (lambda: theory.random_codes(4, 3), "d must be at least 4"),
        (lambda: theory.selecting_transformer("and", 5, (1, 5)), "support must lie in 0..n-1"),
        (lambda: theory.selecting_transformer("and", 5, ()), "s must be at least 1"),
        (lambda: theory.selecting_transformer("table:0010", 5, (1, 2), target="scalar"), "a scalar head counts ones"),
        (lambda: theory.selecting_transformer([0, 1, 2, 3, 4], 5, (1, 2)), r"there must be s \+ 1 or 2\^s values"),
        (
            lambda: theory.selecting_transformer("parity", 12, range(9), target="vector"),
            "s must be at most 8 for a table",
        ),
        (lambda: theory.selecting_transformer("and", 5, (1, 2, 3), gamma=0.9), "gamma must be at most the separation"),
        (
            lambda: theory.selection_heads(theory.orthonormal_codes(5), (1, 2, 3), encoding="bag", k=2),
            r"k must be at least 3 \(bag positions\): k=2, s=3",
        ),
        (
            lambda: theory.selection_heads(theory.random_codes(9, 6), range(5), encoding="trained", target="vector"),
            r"d must be at least 8 \(trained positions, vector\): d=6, s=5",
        ),
        (
            lambda: theory.selection_heads(theory.random_codes(200, 10), (0, 1)),
            "positions are too far from orthogonal",
        ),
        (lambda: theory.memoriser([[0.0], [0.5]], [1, 2], 0.2), "points must be 4 delta apart"),
        (lambda: theory.memoriser([[0.0]], [1], 1.5), r"delta must lie in \(0, 1\]"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_is_needed(call, message):
    with pytest.raises(el.errors.TheoryError, match=message):
        call()


def test_the_memoriser_is_exact_in_the_ball_and_no_further_than_it_must_be():
    delta = 0.1
    points = np.array([[0.0, 0.0], [0.4, 0.0], [0.0, -0.8], [1.0, 1.0]])
    values = np.array([3.0, -1.0, 0.5, 2.0])
    made = theory.memoriser(points, values, delta)
    corners = np.array(list(itertools.product((-1, 0, 0.3, 1), repeat=2)))
    for shift in corners:
        assert made(points + delta * shift) == pytest.approx(values, abs=1e-12)
    assert made(points + 3 * delta)[3] == 0
    one = theory.memoriser([[0.0], [1.0]], [1.0, 5.0], 0.25)
    x = np.linspace(-1, 2, 301)
    inside = (np.abs(x) <= 0.25) | (np.abs(x - 1) <= 0.25)
    assert one(x[:, None])[inside] == pytest.approx(np.where(x[inside] < 0.5, 1.0, 5.0), abs=1e-12)


def test_a_construction_s_capacity_is_polylogarithmic_in_the_context():
    """s log^2(T) log(d m T) up to constants: the ratio to it moves little while T grows a millionfold."""
    ratios = []
    for T in (10**2, 10**4, 10**8):
        exact = theory.selection_norms(T, 3, 2 / 3)
        merged = exact.query * exact.key
        capacity = theory.head_capacity(math.sqrt(2), math.sqrt(2), merged, 1000 * T, d=T + 3, form="unit-query")
        ratios.append(capacity / (math.log(T) ** 2 * math.log((T + 3) * 1000 * T)))
    assert max(ratios) / min(ratios) < 4
