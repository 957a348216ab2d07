"""Sparse parities and the regimes that feed them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

import elegans as el

TASK = el.SparseParity(n=10, k=2)

INDEX = np.arange(4000, dtype=np.uint32)


def sample(task, seed=0, index=INDEX):
    trial_key = el.random.stream(seed, "sample")
    hidden = task.draw(el.random.stream(seed, "task"))
    return hidden, *task.examples(hidden, trial_key, index)


@given(n=st.integers(1, 130), data=st.data())
def test_labels_are_products_over_the_support(n, data):
    k = data.draw(st.integers(1, n))
    hidden, x, y = sample(el.SparseParity(n=n, k=k), seed=data.draw(st.integers(0, 2**64 - 1)), index=INDEX[:20])
    assert x.shape == (20, n)
    assert np.array_equal(y, np.prod([x[:, place] for place in hidden], axis=0))
    assert len(set(hidden)) == k


def test_a_given_support_is_used():
    hidden, _, _ = sample(el.SparseParity(n=9, k=2, support=(7, 1)))
    assert hidden.tolist() == [1, 7]


def test_every_support_is_equally_likely():
    """Chi-square over the 10 supports of (5, 2) in 5000 seeds; would fail for one choice of seeds in 10^4."""
    task = el.SparseParity(n=5, k=2)
    drawn = [tuple(task.draw(el.random.stream(seed, "task"))) for seed in range(5000)]
    counts = [drawn.count(pair) for pair in itertools.combinations(range(5), 2)]
    assert stats.chisquare(counts).pvalue > 1e-4


def test_no_smaller_set_of_coordinates_says_anything():
    """Correlations of 4000 labels with all sets of at most 3 of 8 coordinates: only the support's is large.

    The others have standard deviation 1/sqrt(4000); the bound of 5.5 of them fails for one seed in 10^5.
    """
    hidden, x, y = sample(el.SparseParity(n=8, k=3))
    for size in (1, 2, 3):
        for places in itertools.combinations(range(8), size):
            correlation = abs((y * x[:, places].prod(axis=1)).mean())
            assert correlation == 1 if places == tuple(hidden) else correlation < 5.5 / np.sqrt(len(y))


def test_noise_flips_labels_at_its_rate_and_always_the_same_ones():
    """A binomial test at one seed; would fail for one seed in 10^4."""
    task = el.SparseParity(n=10, k=2, noise=0.3)
    key, ones = el.random.stream(1, "noise"), np.ones(len(INDEX), np.float32)
    seen = task.corrupt(ones, key, INDEX)
    assert stats.binomtest(int((seen < 0).sum()), len(INDEX), 0.3).pvalue > 1e-4
    assert np.array_equal(task.corrupt(ones[100:], key, INDEX[100:]), seen[100:])
    assert np.array_equal(el.SparseParity(n=10, k=2).corrupt(ones, key, INDEX), ones)


def test_information_counts_the_supports_in_bits():
    assert el.SparseParity(n=50, k=3).information == pytest.approx(np.log2(19600))


def test_online_batches_never_repeat_an_example():
    batches = [el.Online().batch(TASK, el.random.Key(0, 0), np.uint32(step), 32, "replacement") for step in range(5)]
    assert np.concatenate(batches).tolist() == list(range(160))


def test_batches_with_replacement_are_uniform_over_the_sample():
    """Chi-square over 50 examples in 1000 batches of 32; would fail for one seed in 10^4."""
    key = el.random.stream(2, "batches")
    drawn = np.concatenate([el.Sample(50).batch(TASK, key, np.uint32(step), 32, "replacement") for step in range(1000)])
    assert stats.chisquare(np.bincount(drawn, minlength=50)).pvalue > 1e-4


@pytest.mark.slow
@settings(max_examples=30)
@given(size=st.integers(1, 50), batch_size=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_epochs_visit_every_example_once(size, batch_size, seed):
    key = el.random.stream(seed, "batches")
    steps = -(-2 * size // batch_size)
    batches = [el.Sample(size).batch(TASK, key, np.uint32(step), batch_size, "epochs") for step in range(steps)]
    seen = np.concatenate(batches)[: 2 * size].reshape(2, size)
    assert [sorted(epoch) for epoch in seen.tolist()] == [list(range(size))] * 2


def test_the_largest_sample_costs_no_memory():
    batch = el.Sample(10**9).batch(TASK, el.random.stream(0, "batches"), np.uint32(0), 1000, "replacement")
    assert batch.max() > 9 * 10**8
    batch = el.Sample(10**9).batch(TASK, el.random.stream(0, "batches"), np.uint32(0), 1000, "epochs")
    assert len(np.unique(batch)) == 1000


def test_a_disjoint_support_has_one_coordinate_a_block():
    task = el.DisjointParity(n=12, k=3)
    supports = np.array([task.draw(el.random.stream(seed, "task")) for seed in range(200)])
    assert (supports // 4 == np.arange(3)).all()
    assert all(len(np.unique(column)) == 4 for column in supports.T)
    with pytest.raises(el.errors.TrialError, match="n of a disjoint parity must be a multiple of k: n=10, k=3"):
        el.DisjointParity(n=10, k=3)
    with pytest.raises(el.errors.TrialError, match="support must have one coordinate per block of 4"):
        el.DisjointParity(n=12, k=3, support=(0, 1, 8))
