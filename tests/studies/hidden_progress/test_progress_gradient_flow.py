"""Gradient flow on disjoint PolyNets: the integrator, the closed forms, and the bounds around them."""

import math

import numpy as np
import pytest

import elegans as el
from elegans import theory

START = (0.7, 1.2, 0.5, 1.5)
STARTS = [START, (-0.7, 1.1, -0.9), (0.2, 1.0, 1.0, 2.0, 0.4), (-1.3, -0.6)]


@pytest.mark.parametrize("start", [*STARTS, (-0.5, 1.0, 1.2)])
def test_squares_of_relevant_weights_all_grow_by_the_same(start):
    end = 0.9 * theory.flow_time(start) if math.prod(start) > 0 and len(start) > 2 else 1.0
    path = theory.relevant_flow(start, np.linspace(0, end, 9))
    growth = path**2 - np.square(start)
    np.testing.assert_allclose(growth, growth[:, :1].repeat(len(start), axis=1), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(path[0], start)


def test_the_explosion_of_four_weights_lies_between_its_bounds():
    low, high = theory.flow_explosion_bounds(START)
    assert theory.flow_time(START) == pytest.approx(0.557707, abs=1e-6)
    assert (low, high) == pytest.approx((0.451467, 0.629941), abs=1e-6)
    assert high == pytest.approx(1 / (2 * math.prod(START) ** (1 - 2 / 4)))


@pytest.mark.parametrize("start", STARTS)
def test_growth_times_are_those_of_the_integrator_and_lie_within_the_bounds(start):
    for growth in (0.05, 0.5, 3.0, 20.0):
        time = theory.flow_time(start, growth)
        path = theory.relevant_flow(start, [time])
        np.testing.assert_allclose(path[0] ** 2 - np.square(start), growth, rtol=1e-6)
        low, high = theory.flow_growth_bounds(start, time)
        assert low <= growth * (1 + 1e-9)
        assert high >= growth * (1 - 1e-9)


@pytest.mark.parametrize("start", STARTS[:3])
def test_times_of_levels_lie_within_the_lemmas_bounds(start):
    end = theory.flow_time(start)
    for block, first in enumerate(start):
        for level in (abs(first), 1.2 * abs(first), 5.0, 50.0):
            time = theory.flow_level_time(start, level, block)
            assert theory.flow_level_bound(start, level, block) <= time + 1e-12
            assert end - time <= theory.flow_remaining_bound(start, level, block) + 1e-9
            if time > 0:
                assert abs(theory.relevant_flow(start, [time])[0, block]) == pytest.approx(level, rel=1e-6)


@pytest.mark.parametrize("k", [2, 3, 4, 6])
@pytest.mark.parametrize("first", [1.0, 0.6])
def test_equal_weights_have_a_closed_form_where_all_bounds_meet(k, first):
    start = [first] * k
    end = theory.flow_time(start) if k > 2 else 2.0
    times = np.asarray([0.0, 0.3, 0.8]) * end
    closed = theory.equal_flow(first, k, times)
    np.testing.assert_allclose(theory.relevant_flow(start, times), closed[:, None].repeat(k, axis=1), rtol=1e-8)
    for bound in theory.flow_growth_bounds(start, times):
        np.testing.assert_allclose(bound, closed**2 - first**2, rtol=1e-9, atol=1e-12)
    if k > 2:
        assert end == pytest.approx(first ** (2 - k) / (k - 2), rel=1e-8)
        assert theory.flow_explosion_bounds(start) == pytest.approx((end, end), rel=1e-8)
        assert math.isinf(theory.equal_flow(first, k, 1.0001 * end))


def test_two_blocks_never_explode_and_grow_exponentially_between_their_bounds():
    assert math.isinf(theory.flow_time((0.5, 2.0)))
    low, high = theory.flow_growth_bounds((0.5, 2.0), 1.5)
    assert low == pytest.approx(1.0 * (math.exp(3) - 1))
    assert high == pytest.approx((0.25 + 4) / 2 * (math.exp(3) - 1))
    path = theory.relevant_flow((0.5, 2.0), [20.0])[0]
    assert path == pytest.approx([1.25 * math.exp(20)] * 2, rel=1e-6)


def test_a_negative_product_shrinks_to_zero_first_and_then_grows():
    path = theory.relevant_flow((-0.5, 1.0, 1.2), [0.1, 0.2, 1.0])
    assert (np.prod(path, axis=1) > 0).tolist() == [False, False, True]
    assert np.abs(path[1]).max() < 1.2 < np.abs(path[2]).max()


def test_flows_outside_the_lemma_are_refused():
    with pytest.raises(el.errors.TheoryError, match=r"relevant weights must have a positive product \(Lemma B.8\)"):
        theory.flow_time((1.0, -1.0, 1.0))
    with pytest.raises(el.errors.TheoryError, match=r"there must be at least 3 blocks \(Lemma B.8\): k=2"):
        theory.flow_explosion_bounds((1.0, 1.0))
    with pytest.raises(el.errors.TheoryError, match="level must be at least .v_i"):
        theory.flow_level_time(START, 0.1)
    with pytest.raises(el.errors.TheoryError, match=r"times must lie before the explosion .*\[0.56\]"):
        theory.relevant_flow(START, [0.56])
    with pytest.raises(el.errors.TheoryError, match="times must be at least 0 and in increasing order"):
        theory.relevant_flow(START, [0.2, 0.1])
    with pytest.raises(el.errors.TheoryError, match=r"block must lie in 0..k-1 \(Lemma B.8\): block=4, k=4"):
        theory.flow_level_time(START, 2.0, 4)
