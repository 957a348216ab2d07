"""Biased parities: the mixture, its labels, and what it refuses."""

import jax
import numpy as np
import pytest
from scipy import stats

import elegans as el

INDEX = np.arange(100_000, dtype=np.uint32)
KEY = el.random.stream(3, "sample")


def signs_of(task, index=INDEX, key=KEY):
    support = task.draw(el.random.stream(3, "task"))
    x, y = task.examples(support, key, index)
    return support, np.rint(x * task.n**0.5), y


def test_inputs_have_norm_1_and_single_coordinates_tell_the_label_on_the_support_alone():
    """Means of 10^5 signs, of standard error 0.0032: all 101 within 0.02 fails for fewer than one seed in 10^7."""
    task = el.BiasedParity(n=101, k=3)
    support = task.draw(el.random.stream(3, "task"))
    x, y = task.examples(support, KEY, INDEX)
    assert (x.dtype, y.dtype) == (np.float32, np.float32)
    assert np.linalg.norm(x[:100], axis=1) == pytest.approx(1, abs=1e-6)
    correlation = (y[:, None] * x).mean(axis=0) * 101**0.5
    assert correlation[support] == pytest.approx(0.5, abs=0.02)
    assert np.abs(np.delete(correlation, support)).max() < 0.02


@pytest.mark.parametrize("k", [3, 5])
def test_the_label_is_the_parity_of_the_sum_of_the_support(k):
    """And the sum is +-k with probability 1/2 + 2^-k: a binomial test that fails for one seed in 10^4."""
    support, signs, y = signs_of(el.BiasedParity(n=10, k=k))
    z = signs[:, support].sum(axis=1)
    assert np.array_equal(y, (-1) ** ((k - z) / 2))
    assert stats.binomtest(int((np.abs(z) == k).sum()), len(z), 0.5 + 2.0**-k).pvalue > 1e-4
    assert len(np.unique(signs, axis=0)) == 2**10


@pytest.mark.parametrize("mix", [0.0, 0.25, 1.0])
def test_the_parts_are_told_apart_and_as_likely_as_said(mix):
    """A binomial test of the share of D2 and one of its common sign; fail for one seed in 10^4."""
    task = el.BiasedParity(n=70, k=3, mix=mix)
    support, signs, y = signs_of(task)
    aligned = task.aligned(KEY, INDEX)
    assert stats.binomtest(int(aligned.sum()), len(aligned), mix).pvalue > 1e-4
    assert (signs[aligned][:, support] == y[aligned, None]).all()
    assert np.array_equal(signs[~aligned], el.random.rademacher(KEY, INDEX, 70)[~aligned])
    if mix:
        assert stats.binomtest(int((y[aligned] > 0).sum()), int(aligned.sum()), 0.5).pvalue > 1e-4


def test_compiled_programs_draw_the_same_examples():
    task = el.BiasedParity(n=65, k=5, mix=0.3)
    support = task.draw(el.random.stream(0, "task"))
    here = task.examples(support, KEY, INDEX[:50])
    there = jax.jit(lambda index: task.examples(jax.numpy.asarray(support), KEY, index))(INDEX[:50])
    for ours, theirs in zip(here, there, strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n": 10, "k": 4}, "k of a biased parity must be odd: k=4"),
        ({"n": 3, "k": 5}, "k must be at most n: k=5, n=3"),
        ({"n": 9, "k": 3, "support": (1, 2)}, "support must hold k distinct coordinates"),
        ({"n": 9, "k": 3, "mix": 1.5}, "mix must be less than or equal to 1: mix=1.5"),
    ],
)
def test_what_is_no_biased_parity_is_refused(fields, message):
    with pytest.raises(el.errors.TrialError, match=message):
        el.BiasedParity(**fields)


def test_the_cube_refuses_a_task_that_is_not_uniform():
    training = el.SGD(steps=1, batch_size=2**9)
    with pytest.raises(el.errors.TrialError, match="finitely many, equally likely inputs: 'biased-parity'"):
        el.Trial(task=el.BiasedParity(n=9, k=3), regime=el.Population(), model=el.MLP(width=4), training=training)
