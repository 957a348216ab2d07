"""What is excluded, what is known to succeed, and the searches at the corners."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

import elegans as el
from elegans import theory

PARITIES = {(50, 3): 19600, (50, 4): 230300, (100, 3): 161700, (100, 4): 3921225, (200, 3): 1313400}


@pytest.mark.parametrize("sizes", [*PARITIES, (300, 4)])
def test_thresholds_are_a_quarter_and_half_of_the_number_of_parities(sizes):
    parities = PARITIES.get(sizes, 330791175)
    assert theory.sq_threshold(*sizes) == Fraction(parities, 4)
    assert theory.sq_threshold(*sizes, form="printed") == Fraction(parities, 2)


def test_resources_multiply_and_a_sample_gives_its_precision():
    assert theory.sq_resource(100, 10, 0.5, 0.25) == 100 * 10 / (0.25 * 0.25)
    assert theory.sq_resource(100, 10, theory.sq_precision(400), 1) == pytest.approx(100 * 10 * 400)


def test_exclusion_ends_at_the_smallest_sample():
    """(100, 4) with 10 parameters, 20 steps and luck 1/2: a sample of 2450 is excluded, one of 2452 is not."""
    setting = {"parameters": 10, "steps": 20, "delta": 0.5}
    edge = theory.sq_smallest_sample(100, 4, **setting)
    assert edge == pytest.approx(3921225 / 4 * 0.5 / 200)
    assert theory.sq_excluded(100, 4, tau=theory.sq_precision(math.floor(edge)), **setting)
    assert not theory.sq_excluded(100, 4, tau=theory.sq_precision(math.ceil(edge)), **setting)
    assert theory.sq_excluded(100, 4, tau=theory.sq_precision(math.ceil(edge)), form="printed", **setting)
    assert theory.sq_smallest_sample(100, 4, form="printed", **setting) == pytest.approx(2 * edge)


def test_the_printed_constant_promises_more_than_markov_gives():
    """At resource C/2 the mean squared deviation is delta tau^2 / 2; Markov at tau/2 then allows 2 delta."""
    parities, tau, delta = 230300, 0.1, 0.05
    for form, allowed in (("strict", delta), ("printed", 2 * delta)):
        queries = float(theory.sq_threshold(50, 4, form)) * tau**2 * delta
        assert queries / parities / (tau / 2) ** 2 == pytest.approx(allowed)


def test_parameters_of_a_network_are_counted():
    model, task = el.MLP(width=7), el.SparseParity(n=5, k=2)
    parameters = model.initialise(el.random.Key(0, 0), task)
    count = sum(np.size(array) for layer in parameters.values() for array in layer.values())
    assert theory.mlp_parameters(5, 7) == count


@pytest.mark.parametrize("n, k", [(20, 4), (51, 4), (64, 6)])
def test_under_sparse_width_times_sample_is_the_same_for_every_s(n, k):
    points = [theory.under_sparse_frontier(n, k, s) for s in range(0, k, 2)]
    assert {point.width * point.sample for point in points} == {Fraction(n, k) ** (k - 1)}
    assert [point.width for point in points] == sorted(point.width for point in points)


@pytest.mark.parametrize("n, k", [(101, 2), (101, 4)])
def test_over_sparse_width_rises_and_sample_falls_as_s_falls(n, k):
    sizes = range(k + 1, n + 1, 2)
    points = [theory.over_sparse_frontier(n, k, s) for s in sizes]
    for s, point in zip(sizes, points, strict=True):
        assert point.width * point.sample == Fraction(n ** (k + 2), s * k ** (k - 1))
        assert theory.over_sparse_frontier(n, k, s, truncated=True).sample * n**2 == point.sample
    assert all(a.width > b.width and a.sample < b.sample for a, b in itertools.pairwise(points))


def test_the_dense_family_spans_the_claimed_range():
    low, high = theory.dense_frontier(50, 4)
    assert (low.width, low.sample, high.sample) == (1, 50**3, 50**5)
    assert theory.under_sparse_frontier(50, 4, 0).width == 1


def test_the_selection_sample_is_lemma_10_at_half_the_gap():
    gap = theory.over_sparse_gap(2, 9)
    assert theory.selection_sample(20, 200, gap, 0.01) == theory.lemma10_sample(20, 200, float(gap) / 2, 0.01)


@given(n=st.integers(1, 60), data=st.data())
def test_the_statistical_limit_is_the_smallest_sample_that_is_enough(n, data):
    k, delta = data.draw(st.integers(1, n)), data.draw(st.sampled_from([0.5, 0.01, 1e-6]))
    sample = theory.statistical_limit(n, k, delta)
    assert theory.p_ambiguous_bound(n, k, sample) <= delta
    assert sample == 0 or theory.p_ambiguous_bound(n, k, sample - 1) > delta
    assert sample <= theory.information_bits(n, k) + math.log2(1 / delta) + 1


def test_exhaustive_search_identifies_the_support_as_often_as_promised():
    """(8, 3), 400 samples of 12: at least 1 - 55/4096 are unambiguous. Binomial bound, fails for one seed in 10^4."""
    n, k, m, repeats = 8, 3, 12, 400
    sets = np.array(list(itertools.combinations(range(n), k)))
    x = el.random.rademacher(el.random.stream(0, "sample"), np.arange(m * repeats, dtype=np.uint32), n)
    labels = x.reshape(repeats, m, n)[:, :, sets].prod(axis=-1)
    consistent = (labels == labels[:, :, :1]).all(axis=1).sum(axis=1)
    ambiguous = int((consistent > 1).sum())
    bound = float(theory.p_ambiguous_bound(n, k, m))
    assert stats.binomtest(ambiguous, repeats, bound, alternative="greater").pvalue > 1e-4


def test_random_subset_search_succeeds_as_often_as_its_share():
    """A binomial test over 20000 searches of 40 of the 210 parities of (10, 4); fails for one seed in 10^4."""
    cost = theory.random_subset_search(10, 4, width=8, steps=5)
    assert cost.success == Fraction(40, 210)
    tried = el.random.subsets(el.random.stream(0, "probe"), rows=20_000, n=210, size=40)
    assert stats.binomtest(int((tried == 17).any(axis=1).sum()), 20_000, float(cost.success)).pvalue > 1e-4


def test_searches_trade_width_for_steps_and_luck():
    alone, together = theory.exhaustive_search(50, 3), theory.parallel_search(50, 3, 100)
    assert (alone.steps, together.steps, together.queries) == (19600, 196, 19600)
    assert alone.sample == theory.statistical_limit(50, 3) == 21
    assert theory.random_subset_search(50, 3, 100, 1000).success == 1
    assert theory.random_subset_search(50, 3, 10, 10).sample < alone.sample


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: theory.sq_threshold(3, 4), "k must be at most n (Proposition 3): k=4, n=3"),
        (lambda: theory.sq_resource(0, 1, 1, 1), "parameters must be positive (Proposition 3): parameters=0"),
        (lambda: theory.sq_resource(1, 1, 1, 2), "delta must be at most 1 (Proposition 3): delta=2"),
        (lambda: theory.sq_threshold(9, 4, "half"), "form must be one of strict, printed: form=half"),
        (lambda: theory.over_sparse_frontier(50, 3, 9), "k must be even (Theorem 4): k=3"),
        (lambda: theory.over_sparse_frontier(50, 4, 51), "s must be at most n (Theorem 4): s=51, n=50"),
        (lambda: theory.under_sparse_frontier(50, 4, 1), "s must be even (Theorem 5): s=1"),
        (lambda: theory.selection_sample(9, 9, 0, 0.1), "gap must be positive (Lemma 10): gap=0"),
        (
            lambda: theory.statistical_limit(9, 3, 0),
            "delta must lie between 0 and 1 (a probability of failure): delta=0",
        ),
        (lambda: theory.parallel_search(9, 3, 0), "width must be positive (parallel search): width=0"),
    ],
)
def test_hypotheses_that_fail_are_named(ask, message):
    with pytest.raises(el.errors.TheoryError) as refused:
        ask()
    assert str(refused.value) == message
