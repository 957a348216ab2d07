"""The lower bound: Parseval's core, and the adversary at work."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import elegans as el
from elegans import theory


@settings(max_examples=40)
@given(n=st.integers(2, 12), seed=st.integers(0, 10**6), data=st.data())
def test_lemma_6_bounds_the_mean_squared_correlation(n, seed, data):
    """Gradient entries 1{w . x + b > 0} x_j of random halfspaces with bias."""
    k = data.draw(st.integers(1, n))
    generator = np.random.default_rng(seed)
    x = theory.sign_table(n)
    active = x @ generator.normal(size=n) + generator.normal() > 0
    entries = active * x.T
    weights = theory.parity_weight(entries, k)
    assert (weights <= (entries.astype(float) ** 2).mean(axis=1) / math.comb(n, k) + 1e-15).all()


def test_the_mean_is_over_all_parities():
    x = theory.sign_table(5)
    values = np.random.default_rng(0).normal(size=32)
    slow = [(values * x[:, members].prod(axis=1)).mean() ** 2 for members in itertools.combinations(range(5), 2)]
    assert theory.parity_weight(values, 2) == pytest.approx(np.mean(slow))


def test_unbiased_halfspaces_say_nothing_about_odd_parities():
    active = theory.sign_table(9).sum(axis=1) > 0
    entry = active * theory.sign_table(9)[:, 0]
    assert theory.parity_weight(entry, 3) == 0
    assert theory.parity_weight(entry, 4) > 0


@pytest.mark.parametrize("seed", range(20))
def test_where_the_bound_excludes_success_noise_hides_the_target(seed):
    """(12, 6), 14 parameters, 3 steps: tau = 0.45 excludes luck above 0.9, and 0.44 does not.

    Correlations may be as large as 1, so that this noise could fall short: see the next test.
    """
    seen = theory.noise_forcing_demo(12, 6, width=1, steps=3, tau=0.45, seed=seed)
    assert seen.resource == pytest.approx(42 / 0.45**2)
    for tau, excluded in ((0.45, True), (0.44, False)):
        assert theory.sq_excluded(12, 6, parameters=seen.parameters, steps=3, tau=tau, delta=0.9) == excluded
    assert seen.forced
    assert seen.noise <= 0.45
    assert seen.departure < 1e-12


def test_the_same_noise_does_not_hide_a_target_of_one_input():
    """A neuron's correlation with x_i x_i is how often it fires: above 0.45 at about half of the initialisations."""
    runs = [theory.noise_forcing_demo(12, 1, width=1, steps=3, tau=0.45, seed=seed) for seed in range(20)]
    assert {run.forced for run in runs} == {True, False}
    for run in runs:
        assert run.forced == (run.noise <= 0.45) == (run.departure < 1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_noise_below_what_the_parity_takes_does_not_hide_it(seed):
    needed = theory.noise_forcing_demo(12, 6, width=1, steps=3, tau=0.45, seed=seed).noise
    for share, forced in ((1.001, True), (0.9, False)):
        seen = theory.noise_forcing_demo(12, 6, width=1, steps=3, tau=share * needed, seed=seed)
        assert seen.forced == forced == (seen.departure < 1e-12)


@pytest.mark.parametrize("n, k, width, steps", [(8, 3, 1, 1), (9, 4, 3, 3)])
def test_the_noise_of_all_parities_at_once_is_that_of_each(n, k, width, steps):
    every = theory.target_free_noise(n, k, width=width, steps=steps, seed=2)
    places = [theory.set_index(members) for members in itertools.combinations(range(n), k)]
    assert len(every) == len(places) == math.comb(n, k)
    support = el.random.subsets(el.random.stream(2, "task"), rows=1, n=n, size=k)[0]
    seen = theory.noise_forcing_demo(n, k, width=width, steps=steps, tau=1.0, seed=2)
    assert every[sorted(places).index(theory.set_index(support.tolist()))] == pytest.approx(seen.signal, rel=1e-9)


@pytest.mark.parametrize("sample", [300, 3000])
def test_fresh_batches_are_forced_too_once_noise_covers_their_error(sample):
    """tau = 10 / sqrt(m): what sampling adds is of order 1 / sqrt(m). Fails for fewer than one seed in 10^6."""
    tau = 10 * theory.sq_precision(sample)
    seen = theory.noise_forcing_demo(10, 5, width=4, steps=10, tau=tau, sample=sample)
    assert seen.forced
    assert 0 < seen.sampling <= tau / 2
    assert seen.departure < 1e-12


def test_noise_that_has_to_be_clipped_lets_the_target_through():
    seen = theory.noise_forcing_demo(8, 2, width=8, steps=20, tau=0.001)
    assert not seen.forced
    assert seen.noise > 0.001
    assert seen.departure > 1e-3
    assert not theory.sq_excluded(8, 2, parameters=seen.parameters, steps=20, tau=0.001, delta=1)


def test_population_gradients_need_noise_of_the_signal_only():
    seen = theory.noise_forcing_demo(10, 4, width=3, steps=5, tau=1.0)
    assert seen.noise == pytest.approx(seen.signal, rel=1e-9)
    assert seen.sampling == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"n": 17, "k": 2}, "n must be at most 16 for population gradients: n=17"),
        ({"n": 3, "k": 4}, "k must be at most n (Proposition 3): k=4, n=3"),
        ({"n": 9, "k": 4, "tau": 0}, "tau must be positive (Proposition 3): tau=0"),
        ({"n": 9, "k": 4, "sample": 0}, "sample must be positive (Proposition 3): sample=0"),
    ],
)
def test_a_demonstration_outside_its_domain_is_refused(arguments, message):
    with pytest.raises(el.errors.TheoryError) as refused:
        theory.noise_forcing_demo(**{"width": 1, "steps": 1, "tau": 1.0, **arguments})
    assert str(refused.value) == message
