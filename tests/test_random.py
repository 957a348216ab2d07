"""Draws are functions of key and counter, the same in NumPy, in JAX and in the native code."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from elegans import random
from elegans.errors import TrialError

WORD = st.integers(0, 2**32 - 1)
KNOWN = [
    # Random123's known-answer vectors for Threefry-2x32, 20 rounds: key, counter, block.
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]
FORMS = {"numpy": np.asarray, "jax": jnp.asarray}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("key", "counter", "block"), KNOWN)
def test_words_are_the_published_vectors(form, key, counter, block):
    index, lane = (form(np.array([word], np.uint32)) for word in counter)
    assert [int(word[0]) for word in random.bits(random.Key(*key), index, lane=lane)] == list(block)


@given(key=st.tuples(WORD, WORD), counter=st.tuples(WORD, WORD))
def test_the_native_and_the_portable_generator_agree(key, counter):
    index, lane = (np.array([word], np.uint32) for word in counter)
    portable = random.threefry(*(np.array([word], np.uint32) for word in key), index, lane)
    assert np.array_equal(random.bits(random.Key(*key), index, lane=lane), portable)


@given(seed=st.integers(0, 2**32 - 1), number=st.sampled_from(sorted(random.STREAMS.items())))
def test_a_stream_is_jax_fold_in(seed, number):
    name, value = number
    expected = jax.random.key_data(jax.random.fold_in(jax.random.key(np.uint32(seed)), value))
    assert list(random.stream(seed, name)) == expected.tolist()
    assert jax.random.key_data(random.stream(seed, name).for_jax()).tolist() == expected.tolist()


def test_streams_and_seeds_have_keys_of_their_own():
    seeds = [0, 1, 2**32, 2**63, 2**64 - 1]
    keys = [random.stream(seed, name) for seed in seeds for name in random.STREAMS]
    assert len(set(keys)) == len(keys)


@given(a=WORD, b=WORD)
def test_multiply_high_is_the_upper_half_of_the_product(a, b):
    for form in FORMS.values():
        high = random._multiply_high(form(np.array([a], np.uint32)), form(np.array([b], np.uint32)))
        assert int(high[0]) == a * b >> 32


@given(seed=WORD, bound=st.integers(1, 2**30))
def test_integers_are_the_scaled_64_bit_words(seed, bound):
    key, index = random.Key(seed, 7), np.arange(20, dtype=np.uint32)
    first, second = (words.astype(object) for words in random.bits(key, index, lane=np.uint32(3)))
    expected = [(int(a) << 32 | int(b)) * bound >> 64 for a, b in zip(first, second, strict=True)]
    assert random.integers(key, index, lane=np.uint32(3), bound=np.uint32(bound)).tolist() == expected


@pytest.mark.parametrize(
    "draw",
    [
        lambda key, index: random.uniform(key, index),
        lambda key, index: random.uniform_signed(key, index),
        lambda key, index: random.integers(key, index, lane=np.uint32(1), bound=np.uint32(999_999_937)),
        lambda key, index: random.rademacher(key, index, 70),
        lambda key, index: random.permuted(
            key, epoch=index // np.uint32(77), position=index % np.uint32(77), size=np.uint32(77)
        ),
    ],
    ids=["uniform", "symmetric", "integers", "signs", "permuted"],
)
def test_numpy_and_jax_draw_the_same_bits(draw):
    key, index = random.stream(11, "probe"), np.arange(500, dtype=np.uint32)
    traced = jax.jit(lambda index: draw(random.Key(*(jnp.uint32(word) for word in key)), index))(index)
    host = draw(key, index)
    assert host.dtype == traced.dtype
    assert np.array_equal(host, traced)


def test_uniform_draws_fill_their_range_evenly():
    """Kolmogorov-Smirnov at one fixed seed; a sound generator would fail this for one seed in 10^4."""
    index = np.arange(20_000, dtype=np.uint32)
    drawn = random.uniform(random.stream(3, "probe"), index)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert stats.kstest(drawn, "uniform").pvalue > 1e-4
    assert stats.kstest(random.uniform_signed(random.stream(4, "probe"), index), "uniform", (-1, 2)).pvalue > 1e-4


@given(n=st.integers(1, 200), data=st.data())
def test_signs_do_not_depend_on_the_others_drawn(n, data):
    key = random.Key(1, data.draw(WORD))
    index = np.array(data.draw(st.lists(WORD, min_size=1, max_size=5)), np.uint32)
    together = random.rademacher(key, index, n)
    assert np.array_equal(
        together, np.concatenate([random.rademacher(key, index[i : i + 1], n) for i in range(len(index))])
    )
    assert set(np.unique(together)) <= {-1.0, 1.0}


@given(n=st.integers(1, 40), data=st.data())
def test_subsets_hold_distinct_elements_in_order(n, data):
    size = data.draw(st.integers(1, n))
    drawn = random.subsets(random.Key(0, data.draw(WORD)), rows=6, n=n, size=size)
    assert drawn.shape == (6, size)
    assert (np.diff(drawn, axis=1) > 0).all()
    assert drawn.min() >= 0
    assert drawn.max() < n


def test_every_subset_is_equally_likely():
    """Chi-square over the 10 pairs of 5 at one fixed seed; would fail for one seed in 10^4."""
    pairs = random.subsets(random.stream(5, "probe"), rows=20_000, n=5, size=2)
    counts = np.unique(pairs @ [5, 1], return_counts=True)[1]
    assert len(counts) == 10
    assert stats.chisquare(counts).pvalue > 1e-4


@given(size=st.integers(1, 300), epoch=WORD, key=WORD)
def test_an_epoch_visits_every_place_once(size, epoch, key):
    place = np.arange(size, dtype=np.uint32)
    order = random.permuted(
        random.Key(0, key), epoch=np.full(size, epoch, np.uint32), position=place, size=np.uint32(size)
    )
    assert sorted(order.tolist()) == place.tolist()


def test_every_order_of_four_is_equally_likely():
    """Chi-square over the 24 orders in 24 000 epochs at one fixed seed; would fail for one seed in 10^4."""
    epoch, place = np.divmod(np.arange(96_000, dtype=np.uint32), np.uint32(4))
    orders = random.permuted(random.stream(6, "batches"), epoch=epoch, position=place, size=np.uint32(4)).reshape(-1, 4)
    counts = np.unique(orders @ [64, 16, 4, 1], return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-4


def test_half_words_are_quarters_of_blocks_on_host_and_device():
    key, index, n = random.stream(2, "dropout"), np.array([0, 7, 2**32 - 1], np.uint32), 10
    first, second = random.bits(key, index[:, None], lane=np.arange(3, dtype=np.uint32))
    quarters = np.stack([first % 2**16, first // 2**16, second % 2**16, second // 2**16], axis=2)
    expected = quarters.reshape(3, 12)[:, :n]
    assert np.array_equal(random.half_bits(key, index, n), expected)
    in_jax = jax.jit(lambda high, low, at: random.half_bits(random.Key(high, low), at, n))
    assert np.array_equal(in_jax(np.uint32(key.high), np.uint32(key.low), index), expected)


KEY = random.Key(1, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: random.stream(-1, "init"), "a seed must be a whole number from 0 to 2^64 - 1: seed=-1"),
        (
            lambda: random.stream(2**64, "init"),
            "a seed must be a whole number from 0 to 2^64 - 1: seed=184467440737095",
        ),
        (lambda: random.stream(1.5, "init"), "a seed must be a whole number from 0 to 2^64 - 1: seed=1.5"),
        (lambda: random.stream([1], "init"), "a seed must be a whole number from 0 to 2^64 - 1: seed=[1]"),
        (lambda: random.stream(0, "inits"), "unknown stream 'inits'; did you mean 'init'?"),
        (lambda: random.stream(0, ["init"]), "unknown stream ['init']"),
        (lambda: random.Key(1, 2).fold(-1), "the number of a key must be from 0 to 2^32 - 1: number=-1"),
        (
            lambda: random.Key(1, 2).fold(np.int64(2**32)),
            "the number of a key must be from 0 to 2^32 - 1: number=4294967296",
        ),
        (lambda: random.Key(1, 2).fold(1.5), "the number of a key must be a whole number: number=1.5"),
        (lambda: random.Key(1, 2).fold(np.arange(2)), "the number of a key must be a single whole number: number="),
        (lambda: random.Key(1, 2).fold(jnp.arange(1, 3)), "the number of a key must be a single whole number: number="),
        (lambda: random.Key(1, 2).fold("a"), "the number of a key must be a whole number: number='a'"),
        (lambda: random.normal(0, 0), "a key must be a Key, as stream(seed, name) and fold give it: key=0"),
        (lambda: random.bits((1, 2), 0), "a key must be a Key, as stream(seed, name) and fold give it: key=(1, 2)"),
        (lambda: random.half_bits((1, 2), np.arange(2), 3), "a key must be a Key"),
        (lambda: random.uniform(KEY, 0.5), "index must be a whole number or an array of them: index=0.5"),
        (lambda: random.uniform(KEY, 0, lane="a"), "lane must be a whole number or an array of them: lane='a'"),
        (lambda: random.uniform(KEY, [[1], [2, 3]]), "index must be a whole number or an array of them"),
        (lambda: random.uniform(KEY, -1), "index must be from 0 to 2^32 - 1: index=-1"),
        (lambda: random.uniform(KEY, 0, lane=np.array([2**32])), "lane must be from 0 to 2^32 - 1: lane="),
        (lambda: random.uniform(KEY, jnp.ones(2)), "index must be a whole number or an array of them"),
        (
            lambda: random.bits(KEY, np.arange(2), lane=np.arange(3)),
            "the counters of draws must broadcast: shapes (2,), (3,)",
        ),
        (
            lambda: random.bits(KEY, jnp.arange(2), lane=np.arange(3)),
            "the counters of draws must broadcast: shapes (2,), (3,)",
        ),
        (lambda: random.integers(KEY, 0, bound=2.5), "bound must be a whole number or an array of them: bound=2.5"),
        (lambda: random.rademacher(KEY, 3, 10), "index must have one axis: index=3"),
        (lambda: random.rademacher(KEY, np.arange(3), -1), "n must be a whole number from 0 to 2^32 - 1: n=-1"),
        (lambda: random.half_bits(KEY, np.zeros(3), 2), "index must be a whole number or an array of them"),
        (lambda: random.subsets(KEY, rows=2, n=3, size=4), "size must be at most n: size=4, n=3"),
        (
            lambda: random.subsets(KEY, rows=2.5, n=3, size=2),
            "rows must be a whole number from 0 to 2^32 - 1: rows=2.5",
        ),
        (lambda: random.permuted(KEY, epoch=0, position=3, size=5), "position must have one axis: position=3"),
        (
            lambda: random.permuted(KEY, epoch=0, position=np.arange(5), size="a"),
            "size must be a whole number or an array of them",
        ),
        (lambda: random.threefry(1, 2, 3, 0.5), "a word of a block must be a whole number or an array of them"),
    ],
)
def test_wrong_seeds_streams_and_numbers_are_refused(make, message):
    with pytest.raises(TrialError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("number", [np.uint32(7), np.int64(7), np.array(7), jnp.uint32(7)])
def test_a_number_of_any_whole_type_folds_alike(number):
    folded = random.Key(1, 2).fold(number)
    assert tuple(map(int, folded)) == tuple(random.Key(1, 2).fold(7))
