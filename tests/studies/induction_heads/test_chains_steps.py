"""Two symbols: closed forms against sums, the first two steps, chains without unigrams, the curriculum."""

import math

import numpy as np
import pytest
from scipy import integrate

import elegans as el
from elegans import theory

LN2 = math.log(2)
A, B = np.random.default_rng(0).random((2, 20))


def chains(a, b):
    return np.stack([np.stack([a, 1 - a], axis=-1), np.stack([1 - b, b], axis=-1)], axis=-2)


def test_gradients_of_one_chain_are_the_known_ones():
    tensor = theory.chain_tensor(chains(np.array(0.3), np.array(0.85)), 7)
    position = (0.8873697, 0.6706996, 0.4839357, 0.3270784, 0.2001303, 0.1031092, 0.0361345)
    diagonal = (0.9495672, 0.5703150, 0.3999646, 0.2726628, 0.1700200, 0.0901347, 0.0330203)
    found = theory.minimal_gradients(tensor, theory.minimal_constant(2, 7, 1, 1))
    assert found.pair == pytest.approx(np.array([[-0.0687552, 0.0810083], [0.1417645, 2.5544397]]), abs=6e-8)
    assert found.position == pytest.approx(position, abs=6e-8)
    assert np.trace(tensor, axis1=1, axis2=2) == pytest.approx(diagonal, abs=6e-8)


@pytest.mark.parametrize("length", [2, 7, 40])
def test_closed_forms_are_the_gradients_of_the_tensor(length):
    tensor = theory.chain_tensor(chains(A, B), length)
    for method in ("sums", "closed"):
        assert theory.first_pair_gradient(A, B, length, method) == pytest.approx(
            tensor.sum(axis=1), abs=1e-7 * length**2
        )
    assert theory.first_position_gradient(A, B, length) == pytest.approx(tensor.sum(axis=(2, 3)), abs=1e-9 * length)
    diagonal = np.trace(tensor, axis1=2, axis2=3)
    assert theory.second_position_gradient(A, B, length) == pytest.approx(diagonal, abs=1e-9 * length)


@pytest.mark.parametrize("eigenvalue", [-1.0, -0.9, -1e-3, 0.0, 0.5, 0.999999, 1.0])
def test_power_sums_are_sums_over_ordered_triples(eigenvalue):
    length = 9
    expected = np.zeros(4)
    for p in range(length):
        for middle in range(p + 1):
            for s in range(middle + 1):
                expected += [eigenvalue**n for n in (p - s, p - middle, middle - s, 0)]
    assert theory.power_sums(eigenvalue, length) == pytest.approx(expected)
    if abs(eigenvalue) in (0.9, 0.5):
        assert theory.power_sums(eigenvalue, length, "closed") == pytest.approx(expected)


def test_entries_of_the_first_gradient_as_printed():
    """Equations E.19 to E.22, entry by entry."""
    u, w, x, t = A - 1, B - 1, A + B - 1, 30
    ratio = (1 - x**t) / (1 - x)
    one = (x - (t + 1) * x ** (t + 1) + t * x ** (t + 2)) / (1 - x) ** 2 - ratio / (1 - 1 / x) + t / (x - 1)
    two = x**2 * ratio - x * t * (t + 3) / 2 + t * (t + 1) / 2
    three = t * x / (1 - x) - (x**2 - x ** (t + 2)) / (1 - x) ** 2 - t * (t + 1) / 2
    one, two, three, four = one / (x - 1), two / (x - 1) ** 2, three / (x - 1), t * (t + 1) * (t + 2) / 6
    gap, half_a, half_b, middle = (x - 1) ** 3, A - 0.5, 0.5 - B, 2 * u * w * two
    entries = [
        [w * half_a * (u * (A - B) * one + middle + 2 * u * w * three + w * (B - A) * four),
         u * half_a * (-w * (A - B) * one + middle - 2 * w**2 * three + w * (B - A) * four)],
        [w * half_b * (-u * (A - B) * one - middle + 2 * u**2 * three + u * (B - A) * four),
         u * half_b * (w * (A - B) * one - middle - 2 * u * w * three + u * (B - A) * four)],
    ]  # fmt: skip
    expected = np.moveaxis(np.array(entries) / gap / t, 2, 0)
    assert theory.first_pair_gradient(A, B, t) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("length", [3, 12])
def test_the_printed_second_step_is_not_the_gradient(length):
    exact = np.trace(theory.chain_tensor(chains(A, B), length), axis1=2, axis2=3)
    printed = theory.second_position_gradient(A, B, length, form="printed")
    assert (np.abs(printed - exact).max(axis=0) > 1e-2).all()
    opening, x = printed[:, 0] - exact[:, 0], A + B - 1
    own = ((B - 1) ** 2 * (A - 0.5) + (A - 1) ** 2 * (B - 0.5)) / (x - 1) ** 2
    factor = x / (x - 1)
    bracket = (x - x ** (length + 1)) / (1 - x) - length
    lacks = (1 - factor) * bracket * (A - 1) * (B - 1) / (x - 1) ** 2 - own * length
    assert opening == pytest.approx(lacks / length)


FLAT = {10: (1.2433, 0.1310), 100: (81.703, 18.307), 200: (315.19, 74.66), 1000: (7635.5, 1896.1)}


@pytest.mark.parametrize("length", FLAT)
def test_the_first_gradient_on_flat_rows(length):
    gradient = theory.flat_tensor(length).sum(axis=0)
    diagonal, off = FLAT[length]
    assert gradient[0, 0] == pytest.approx(diagonal, rel=5e-5) == gradient[1, 1]
    assert gradient[0, 1] == pytest.approx(off, rel=4e-4) == gradient[1, 0]
    leading = theory.first_step_leading(length, 1.0, 1.0).pair - 1
    assert np.abs(gradient - leading).max() < length / 7


def test_the_flat_tensor_is_the_average_over_chains():
    """The recipe of the closed forms on the same nodes, and 20000 drawn chains within 4.5 standard errors."""
    leave_a, leave_b, weights = theory.flat_rule(20)
    tensor = theory.chain_tensor(chains(1 - leave_a, 1 - leave_b), 12)
    assert theory.flat_tensor(12, nodes=20) == pytest.approx(np.tensordot(weights, tensor, axes=1), abs=1e-11)
    drawn = theory.chain_tensor(np.random.default_rng(0).dirichlet(np.ones(2), size=(20_000, 2)), 12)
    error = drawn.std(axis=0) / math.sqrt(20_000)
    assert (np.abs(drawn.mean(axis=0) - theory.flat_tensor(12)) < 4.5 * error).all()


def test_the_first_two_steps():
    """Constant weights 0.02, rate 0.03, 100 tokens: the setting of figures E.1 and E.2; v_2 becomes the largest."""
    tensor = theory.flat_tensor(100)
    first = theory.minimal_step(tensor, theory.minimal_constant(2, 100, 0.02, 0.02), 0.03)
    second = theory.minimal_step(tensor, first, 0.03)
    assert first.pair == pytest.approx(np.array([[0.0690216, 0.0309841], [0.0309841, 0.0690216]]), abs=6e-8)
    few = first.position[[0, 1, 2, 49, 99]]
    assert few == pytest.approx([0.0235060, 0.0234371, 0.0233689, 0.0209332, 0.0200005], abs=6e-8)
    diagonal = np.trace(tensor, axis1=1, axis2=2)[:10]
    known = [5.2159, 6.2664, 4.3863, 5.0551, 4.2370, 4.5576, 4.0864, 4.2466, 3.9291, 4.0061]
    assert diagonal == pytest.approx(known, abs=6e-5)
    six = [0.0348895, 0.0359126, 0.0335933, 0.0341844, 0.0330804, 0.0332777]
    assert second.position[:6] == pytest.approx(six, abs=6e-8)
    assert second.position.argmax() == 1
    constant, own = first.pair[0, 1], first.pair[0, 0] - first.pair[0, 1]
    parts = constant * tensor.sum(axis=(1, 2)) + own * np.trace(tensor, axis1=1, axis2=2)
    assert second.position == pytest.approx(first.position + 0.03 * parts)
    assert (constant * tensor.sum(axis=(1, 2))[:-1] > 0).all()


def test_constants_are_averages_over_flat_rows():
    def values(leave_a, leave_b):
        u, w, gap = -leave_a, -leave_b, -leave_a - leave_b
        half, difference = 0.5 + u, w - u
        one = w**2 * difference * half / gap**3
        two = u * w * difference * half / gap**3
        return np.stack([one, two, (u**2 + w**2) / gap**2 - 0.5, (w / gap) ** 2, u * w / gap**2], axis=1)

    found = theory.flat_average(values, nodes=40)
    constants = theory.first_step_constants()
    assert found[:3] == pytest.approx(constants, abs=1e-14)
    assert constants == pytest.approx((0.0454315, 0.0114214, 0.1137056), abs=6e-8)
    assert found[3:] == pytest.approx([1 - LN2, LN2 - 0.5], abs=1e-14)
    assert constants.diagonal / constants.off_diagonal == pytest.approx(3.978, abs=5e-4)


def test_the_leading_terms_are_approached():
    for length in (100, 400):
        tensor, n = theory.flat_tensor(length), np.arange(length, 0, -1)
        leading = theory.first_step_leading(length, 1.0, 1.0).position - 1
        assert np.abs(tensor.sum(axis=(1, 2)) - leading).max() < 1
        profile = theory.second_step_profile(np.arange(1, length + 1)) * n * (n + 1) / (2 * length)
        assert np.abs(np.trace(tensor, axis1=1, axis2=2) - profile).max() < 1


def test_the_second_step_has_an_even_odd_pattern():
    found = theory.second_step_profile(np.arange(1, 41))
    known = [0.10228, 0.12513, 0.08893, 0.10482, 0.08944, 0.09837, 0.08992, 0.09553]
    assert found[:8] == pytest.approx(known, abs=6e-6)
    assert found[0] == pytest.approx((1 - LN2) / 3) and found[1] == pytest.approx(
        (7 - 10 * LN2) / 2 + (8 * LN2 - 5) / 6
    )
    limit = (8 * LN2 - 5) / 6
    even, odd = found[1::2] - limit, found[2::2] - limit
    assert (even > 0).all() and (np.diff(even) < 0).all()
    assert (odd < 0).all() and (np.diff(odd) > 0).all()
    assert found.argmax() == 1


def test_the_printed_profile_has_v_1_above_v_2():
    """With the sign of E.43 the lemma's conclusion would not follow."""
    printed = theory.second_step_profile(np.arange(1, 3), form="printed")
    assert printed[1] == pytest.approx((7 - 10 * LN2) / 2 + (5 - 8 * LN2) / 6)
    assert printed[1] < 0 < printed[0]


@pytest.mark.parametrize("tensor", [theory.flat_tensor(30), theory.symmetric_tensor(30)], ids=["flat", "symmetric"])
def test_v_2_overtakes_v_1_in_the_second_step_from_a_rate_on(tensor):
    rate = theory.overtaking_rate(tensor)
    for factor, overtakes in ((0.999, False), (1.001, True)):
        for scale in (0.02, 1.0):
            weights = theory.minimal_constant(2, 30, scale, scale)
            for _ in range(2):
                weights = theory.minimal_step(tensor, weights, factor * rate)
            assert (weights.position[1] > weights.position[0]) == overtakes


def test_the_overtaking_rate_falls_with_the_cube_of_the_length_and_short_sequences_have_none():
    constants, (first, second) = theory.first_step_constants(), theory.second_step_profile([1, 2])
    factor = 24 * constants.position / ((constants.diagonal - constants.off_diagonal) * (second - first))
    assert factor == pytest.approx(3513, abs=1)
    assert theory.overtaking_rate(theory.flat_tensor(500)) * 500**3 == pytest.approx(factor, rel=1e-3)
    assert theory.overtaking_rate(theory.flat_tensor(100)) == pytest.approx(0.00356, abs=5e-6)
    assert math.isinf(theory.overtaking_rate(theory.flat_tensor(9)))
    assert theory.overtaking_rate(theory.flat_tensor(10)) > 100


def test_the_symmetric_tensor_is_the_average_over_symmetric_chains():
    places, weights = np.polynomial.legendre.leggauss(20)
    for epsilon in (0.5, 0.2):
        kept = 0.5 + epsilon * places
        exact = np.tensordot(weights / 2, theory.chain_tensor(chains(kept, kept), 9), axes=1)
        assert theory.symmetric_tensor(9, epsilon) == pytest.approx(exact, abs=1e-14)


def test_gradients_without_unigrams():
    tensor = theory.symmetric_tensor(6)
    assert tensor.sum(axis=0) == pytest.approx(0.2642857 * np.eye(2), abs=6e-8)
    known = [0.2007937, 0.1444444, 0.1, 0.0555556, 0.0277778, 0]
    assert theory.symmetric_first_position(6) == pytest.approx(known, abs=6e-8)
    for length, diagonal, first in ((100, 16.0154, 0.743315), (1000, 294.253, 1.298119)):
        tensor = theory.symmetric_tensor(length)
        assert tensor.sum(axis=0) == pytest.approx(diagonal * np.eye(2), abs=6e-4)
        assert theory.symmetric_first_position(length)[0] == pytest.approx(first, abs=6e-7)
    tensor = theory.symmetric_tensor(100, 0.25)
    assert tensor.sum(axis=0)[0, 0] == pytest.approx(1.211137, abs=6e-7)
    diagonal = np.trace(tensor, axis1=1, axis2=2)[:4]
    assert diagonal == pytest.approx([0.0243128, 1.0553163, 0.0238197, 0.1721045], abs=6e-8)
    assert tensor.sum(axis=(1, 2))[:2] == pytest.approx([0.0486256, 0.0481325], abs=6e-8)


def test_growth_without_unigrams_is_logarithmic_and_of_the_other_sign_than_printed():
    growth = [theory.symmetric_tensor(length).sum(axis=0)[0, 0] / length for length in (1000, 4000, 16000)]
    assert np.diff(growth) == pytest.approx(math.log(4) / 16, rel=0.02)
    first = [theory.symmetric_first_position(length)[0] for length in (1000, 4000, 16000)]
    assert np.diff(first) == pytest.approx(math.log(4) / 4, rel=0.02)
    printed = theory.symmetric_first_position(100, form="printed")
    assert printed[0] == -0.5 and (printed < 0).all() and (theory.symmetric_first_position(100)[:-1] > 0).all()
    assert theory.flat_tensor(100).sum(axis=(1, 2))[0] > 7 * theory.symmetric_first_position(100)[0]


CURRICULUM = {100: 1.920, 400: 2.094, 1000: 2.134}


@pytest.mark.parametrize("length", CURRICULUM)
def test_the_curriculum_ends_at_the_bigram_solution_coordinate_by_coordinate(length):
    found = theory.two_step_curriculum(length, 0.25, 1 / length**2, 1 / length)
    v = found.position
    assert v.argmax() == 1
    assert (v.sum() - v[1]) / v[1] == pytest.approx(CURRICULUM[length], abs=6e-4)
    assert found.pair == pytest.approx(found.pair[0, 0] * np.eye(2), abs=1e-12)
    if length == 400:
        assert v[:4] == pytest.approx([5.905e-7, 6.131e-5, 5.875e-7, 9.603e-6], rel=1e-4)
        assert v[1] / v[0] == pytest.approx(0.26 * length, rel=0.01)


@pytest.mark.compiles
@pytest.mark.slow
def test_limits_of_the_curriculum():
    length = 1500
    found = theory.two_step_curriculum(length, 0.25, 1 / length**2, 1 / length)
    v = found.position
    assert theory.curriculum_background(0.25) == pytest.approx(2.1615, abs=5e-5)
    assert theory.curriculum_background(1e-3) == pytest.approx(1.67165, abs=6e-6)
    assert (v.sum() - v[1]) / v[1] == pytest.approx(theory.curriculum_background(0.25), abs=30 / length)
    assert found.pair[0, 0] == pytest.approx(theory.curriculum_diagonal(0.25), rel=2e-3)
    constants = theory.first_step_constants()
    aligned = (constants.diagonal - constants.off_diagonal) / 6
    for place in (2, 4):
        expected = aligned / 2 * theory.curriculum_position(place, 0.25)
        assert v[place - 1] == pytest.approx(expected, abs=1.5e-3 / length)
    small = theory.two_step_curriculum(400, 0.02, 1 / 400**2, 1 / 400).position
    assert theory.curriculum_position(4, 0.02) / theory.curriculum_position(2, 0.02) == pytest.approx(12 / 5 * 0.02**2)
    assert small.argmax() == 1
    assert theory.curriculum_diagonal(0.02) == pytest.approx(0.02**2 / 6, rel=2e-3)


def test_printed_integrals_of_the_curriculum_lack_the_density():
    epsilon = 0.2
    diagonal, _ = integrate.quad(lambda a: (a - 0.5) / (a - 1), 0.5 - epsilon, 0.5 + epsilon)
    assert theory.curriculum_diagonal(epsilon, form="printed") == pytest.approx(diagonal)
    assert theory.curriculum_diagonal(epsilon) == pytest.approx(-diagonal / (2 * epsilon) / 8)
    assert theory.curriculum_diagonal(1e-2, form="printed") == pytest.approx(-8 / 3 * 1e-6, rel=1e-3)
    for place in (1, 2, 3, 4):
        own, _ = integrate.quad(lambda a, j=place: (a - 0.5) * (2 * a - 1) ** (j - 1), 0.5 - epsilon, 0.5 + epsilon)
        assert theory.curriculum_position(place, epsilon, form="printed") == pytest.approx(own, abs=1e-15)
        assert theory.curriculum_position(place, epsilon) == pytest.approx(own / (2 * epsilon) / 2, abs=1e-15)


def test_weight_decay_of_the_curriculum_may_spare_the_positions():
    kept = theory.two_step_curriculum(50, 0.25, 1e-4, 1e-2, start=(0.0, 1.0), keep_position=True)
    erased = theory.two_step_curriculum(50, 0.25, 1e-4, 1e-2)
    assert kept.position == pytest.approx(1 + erased.position)
    assert np.array_equal(kept.pair, erased.pair)
    large = theory.two_step_curriculum(400, 0.25, 1 / 400**2, 1 / 400, start=(1.0, 1.0))
    small = theory.two_step_curriculum(400, 0.25, 1 / 400**2, 1 / 400)
    assert large.position.sum() / large.position[1] > 10 * small.position.sum() / small.position[1]


def test_logits_after_the_curriculum_keep_a_part_in_single_tokens():
    """Correlations 0.976 and 0.937 of the last logits' difference with those of bigram and of unigram counts, on 1500
    sequences of 400 tokens with flat rows; their standard errors are below 0.003, and five of them are allowed."""
    tokens, _ = el.MarkovChains(length=400).examples(
        None, el.random.stream(0, "test"), np.arange(1500, dtype=np.uint32)
    )
    weights = theory.two_step_curriculum(400, 0.25, 1 / 400**2, 1 / 400)
    parts = [theory.minimal_logits(weights, tokens), *(theory.ngram_counts(tokens, 2, order) for order in (2, 1))]
    logits, bigrams, unigrams = (part[:, -1, 0] - part[:, -1, 1] for part in parts)
    assert np.corrcoef(logits, bigrams)[0, 1] == pytest.approx(0.976, abs=0.015)
    assert np.corrcoef(logits, unigrams)[0, 1] == pytest.approx(0.937, abs=0.015)


REFUSED = [
    (lambda: theory.power_sums(1.5, 9), r"the eigenvalue must lie in -1..1: eigenvalue=1.5"),
    (lambda: theory.power_sums(0.5, 9, "exact"), "method must be one of sums, closed: method=exact"),
    (lambda: theory.first_pair_gradient(1.2, 0.5, 9), r"a and b must lie in 0..1: a=1.2, b=0.5"),
    (lambda: theory.first_position_gradient(1.0, 1.0, 9), "a and b must not both be 1: a=1.0, b=1.0"),
    (lambda: theory.second_position_gradient(0.5, 0.4, 1), "length must be at least 2: length=1"),
    (lambda: theory.second_step_profile(0), "places must be at least 1: places=0"),
    (lambda: theory.symmetric_tensor(9, 0.7), r"epsilon must lie in \(0, 1/2\]: epsilon=0.7"),
    (lambda: theory.curriculum_diagonal(0.5), "epsilon must lie between 0 and 1/2 .*: epsilon=0.5"),
    (lambda: theory.two_step_curriculum(9, 0.25, 0.0, 1.0), "first_rate must be positive .*: first_rate=0.0"),
    (lambda: theory.overtaking_rate(np.zeros((9, 3, 3))), "the tensor must be of shape .*: shape=\\(9, 3, 3\\)"),
    (
        lambda: theory.overtaking_rate(theory.chain_tensor(chains(A[0], B[0]), 9)),
        "must not distinguish the two",
    ),
    (lambda: theory.curriculum_position(0, 0.25), "place must be at least 1: place=0"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_lies_outside_the_theory_is_refused(call, message):
    with pytest.raises(el.errors.TheoryError, match=message):
        call()
