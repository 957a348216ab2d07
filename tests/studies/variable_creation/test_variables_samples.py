"""How many examples identify a support, and how trained heads are measured against constructed ones."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.tasks import And, BooleanFunction

BIAS = And().balancing_bias(3)


@pytest.mark.parametrize("name", ["and", "parity", "majority", "symmetric:0110"])
@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(4, 5)])
def test_agreement_is_exact(name, p):
    function = BooleanFunction.parse(name)
    for overlap in range(4):
        first, second = list(range(3)), list(range(3 - overlap, 6 - overlap))
        total = Fraction(0)
        for bits in itertools.product((0, 1), repeat=6):
            x = np.array([bits])
            if function.value(x[:, first]) == function.value(x[:, second]):
                total += math.prod(p if bit else 1 - p for bit in bits)
        assert theory.support_agreement(name, 3, overlap, p) == total


def test_another_conjunction_is_wrong_on_a_fifth_of_the_inputs():
    nearest = theory.support_agreement("and", 3, 2, BIAS)
    assert nearest == pytest.approx(1 - 2 * (BIAS**3 - BIAS**4)) == pytest.approx(0.7937, abs=1e-4)


def test_the_expected_number_of_wrong_supports_is_that_of_all_samples():
    """Over all 2^(4 x 2) samples of two examples of four bits, p = 1/2: an exact mean."""
    n, k, m = 4, 2, 2
    for name in ("and", "parity"):
        task = el.SparseBoolean(n=n, k=k, function=name, support=(0, 2))
        total = 0
        for bits in itertools.product((-1.0, 1.0), repeat=n * m):
            x = np.array(bits, np.float32).reshape(m, n)
            total += len(task.consistent(x, task.target(np.array([0, 2]), x))) - 1
        assert theory.expected_consistent(name, n, k, m) == Fraction(total, 2 ** (n * m))


def test_the_identifiability_curve_is_below_the_union_bound_and_above_the_counting_bound():
    """300 draws a point, each within 4 standard errors (one seed in 10^4) of the bound at worst."""
    task = el.SparseBoolean(n=20, k=3, function="and", p=BIAS)
    curve = theory.identifiability(task, [5, 10, 15, 20, 25, 30, 50, 60], draws=300, seed=1)
    assert (np.diff(curve.share) >= 0).all()
    assert ((curve.low <= curve.share) & (curve.share <= curve.high)).all()
    for size, share in zip(curve.sizes, curve.share, strict=True):
        bound = theory.expected_consistent("and", 20, 3, int(size), BIAS)
        assert 1 - share <= bound + 4 * math.sqrt(0.25 / 300)
    assert curve.share[0] == 0  # 5 labels do not tell 1140 supports apart: log2 of them is 10.15
    # first at 0.8 by 25 examples, of those on a grid of 5; 0.98 at 50
    assert curve.share[3] < 0.8 < curve.high[4] and curve.share[6] > 0.95


def test_a_hundred_bits_take_hardly_more_examples():
    task = el.SparseBoolean(n=100, k=3, function="and", p=BIAS)
    least = theory.identifying_samples(task, draws=60, largest=120, seed=2)
    task_key, sample_key = (el.random.stream(2, name).fold(0) for name in ("task", "sample"))
    x, y = task.examples(task.draw(task_key), sample_key, np.arange(120, dtype=np.uint32))
    assert len(task.consistent(x[: least[0]], y[: least[0]])) == 1
    assert len(task.consistent(x[: least[0] - 1], y[: least[0] - 1])) > 1
    assert 15 < np.quantile(least, 0.8) <= 45
    assert el.theory.information_bits(100, 3) == pytest.approx(17.30, abs=0.005)


@pytest.mark.parametrize(
    ("n", "bits"), [(20, 10.15), (50, 14.26), (200, 20.32), (300, 22.09), (500, 24.30), (800, 26.34), (1100, 27.72)]
)
def test_the_counting_bound_is_these_numbers(n, bits):
    assert el.theory.information_bits(n, 3) == pytest.approx(bits, abs=0.005)
    assert el.SparseBoolean(n=n, k=3, function="and").information == el.theory.information_bits(n, 3)


def test_functions_that_are_not_symmetric_have_no_closed_form():
    with pytest.raises(el.errors.TheoryError, match="the function must be symmetric: function=table:0010"):
        theory.support_agreement("table:0010", 2, 1)


def test_measures_of_a_constructed_head_are_those_of_the_construction():
    T, support = 10, (2, 5, 8)
    heads = theory.selection_heads(theory.orthonormal_codes(T), support)
    bits = np.zeros((1, T), int)
    gap = theory.selection_gap(T, 3, 2 / 3)
    assert theory.score_gap(heads.scores(bits), support) == pytest.approx(gap)
    share = theory.attention_share(heads.attention(bits), support)
    mass = 3 * math.exp(gap) / (3 * math.exp(gap) + T - 2)
    assert share.support == pytest.approx(mass)
    assert share.class_token == pytest.approx(1 / (3 * math.exp(gap) + T - 2))
    assert share.mean_other == pytest.approx(share.class_token)
    assert share.largest_other == pytest.approx(share.class_token)
    assert share.support + share.class_token + share.others == pytest.approx(1)
    assert share.distance == pytest.approx(2 * (1 - mass))
    assert theory.implied_score_gap(mass, T, 3) == pytest.approx(gap)


def test_equal_attention_is_at_the_distance_of_knowing_nothing():
    share = theory.attention_share(np.full((4, 2, 11), 1 / 11), (0, 1))
    assert share.support.shape == (4, 2)
    assert share.mean_other == pytest.approx(1 / 11)
    assert share.distance == pytest.approx(2 * (1 - 2 / 11))
    assert theory.score_gap(np.zeros(11), (0, 1)) == 0


@pytest.mark.slow
def test_a_trained_transformer_s_attention_has_the_shape_that_measures_take():
    from elegans.models import ParityTransformer

    task = el.SparseBoolean(n=6, k=2, function="and")
    model = ParityTransformer(width=8, heads=2, head_size=3)
    parameters = model.initialise(el.random.stream(0, "init"), task)
    x, _ = task.examples(np.array([1, 4]), el.random.stream(0, "sample"), np.arange(5, dtype=np.uint32))
    share = theory.attention_share(model.attention(parameters, x), (1, 4))
    assert share.support.shape == (5, 2) and (share.support > 0).all()
    parts = parameters["attention"]
    norms = theory.attention_norms(parts["query"], parts["key"], parts["value"], parts["output"])
    assert norms.merged == pytest.approx(
        [np.linalg.norm(q @ k.T, 2) for q, k in zip(parts["query"], parts["key"], strict=True)], rel=1e-5
    )


def test_the_transformer_has_as_many_parameters_as_counted():
    assert [theory.transformer_parameters(T) for T in (100, 300, 800, 1100)] == [56_896, 69_696, 101_696, 120_896]
    assert theory.transformer_parameters(10) == 50_432 + 64 * 11
