"""Read-outs and spectra against enumeration."""

import numpy as np
import pytest
from hand_made import inputs, outcome, parity
from hypothesis import given, strategies as st

import elegans as el
from elegans.certificates import readout
from elegans.certificates.network import network_of


@pytest.mark.parametrize("by", ["weights", "influence"])
@pytest.mark.parametrize(("n", "support"), [(6, (1, 4)), (20, (0, 7, 19)), (40, (3, 30, 39)), (3, (0, 1, 2))])
def test_the_support_of_a_network_that_is_a_parity_is_read_out(n, support, by):
    found = el.read_out(outcome(*parity(n, support), support), by=by)
    assert found.support == support and found.correct is True and found.by == by
    assert found.gap == np.inf
    assert set(found.order[: len(support)]) == set(support)
    assert (found.scores > 0).sum() == len(support)
    if by == "influence":
        assert set(found.scores) <= {0, 1}


def random_network(seed, n, width=6, support=(0,)):
    random = np.random.default_rng(seed)
    shapes = (width, n), (width,), (width,), ()
    return outcome(*(random.normal(size=shape) for shape in shapes), support)


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_a_flip_changes_the_output_by_at_most_twice_the_mass_of_its_coordinate(seed, n):
    made = random_network(seed, n)
    outputs = network_of(made).outputs(inputs(n).astype(float))
    for j, mass in enumerate(el.read_out(made).scores):
        assert np.abs(outputs - outputs[np.arange(2**n) ^ 1 << j]).max() <= 2 * mass * (1 + 1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_influences_are_those_of_the_definition(seed, n):
    made = random_network(seed, n)
    answers = network_of(made).outputs(inputs(n).astype(float)) > 0
    expected = [(answers != answers[np.arange(2**n) ^ 1 << j]).mean() for j in range(n)]
    assert el.read_out(made, by="influence").scores == pytest.approx(expected, abs=0)


def test_estimated_influences_agree_with_exact_ones(monkeypatch):
    """Seven estimates from 4096 inputs each within 5 standard errors: fails for one seed in 10^5."""
    made = random_network(3, 7)
    exact = el.read_out(made, by="influence").scores
    monkeypatch.setattr(readout, "LARGEST_N", 6)
    estimated = el.read_out(made, by="influence").scores
    assert (np.abs(estimated - exact) <= 5 * np.sqrt(exact * (1 - exact) / readout.EXAMPLES)).all()
    assert (estimated != exact).any()


def test_a_network_that_prefers_nothing_has_no_gap():
    everything = el.read_out(outcome(np.ones((2, 5)), [0, 0], [1, 1], 0, [0]))
    assert (everything.support, everything.gap, everything.correct) == ((0, 1, 2, 3, 4), np.inf, False)
    nothing = el.read_out(outcome(np.zeros((2, 5)), [0, 0], [1, 1], 0, [0]))
    assert (nothing.support, nothing.gap) == ((), 1)
    fresh = el.MLP(width=100)
    task = el.SparseParity(n=40, k=3)
    trial = el.Trial(task=task, regime=el.Online(), model=fresh, training=el.SGD(steps=1))
    start = el.Outcome(trial, "unsolved", parameters=fresh.initialise(trial.key("init"), task))
    assert el.read_out(start).gap < 1.2


def test_noise_below_the_rounding_of_the_output_makes_no_gap():
    weight, bias, output, offset = parity(8, [1, 2])
    weight[0, 5], weight[0, 6] = 1e-9, 1e-30
    found = el.read_out(outcome(weight, bias, output, offset, [1, 2]))
    assert found.correct
    assert found.gap == pytest.approx(3e9)


@pytest.mark.parametrize("of", ["outputs", "signs"])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_a_spectrum_is_the_direct_sums(n, of):
    made = random_network(n, n)
    x = inputs(n)
    values = network_of(made).outputs(x.astype(float))
    values = np.sign(values) if of == "signs" else values
    found = el.spectrum(made, of=of)
    for place in range(2**n):
        members = [j for j in range(n) if place >> j & 1]
        direct = (values * x[:, members].prod(axis=1)).mean()
        assert found.coefficient(members) == pytest.approx(direct, abs=1e-12)
    assert found.weights.sum() == pytest.approx((values**2).mean(), rel=1e-12)
    assert 0 < found.error < 1e-11


@pytest.mark.parametrize("of", ["outputs", "signs"])
def test_the_spectrum_of_a_parity_is_one_coefficient(of):
    found = el.spectrum(outcome(*parity(14, (2, 3, 13)), (2, 3, 13)).parameters, of=of)
    assert found.largest(1) == [((2, 3, 13), 1)]
    assert np.abs(found.coefficients).sum() == 1
    assert found.weights.tolist() == [0, 0, 0, 1, *[0] * 11]


def test_signs_that_rounding_may_change_are_part_of_the_error():
    """Two neurons cancel up to 2^-30 of a number of size 2^60: no sign is certain in float64."""
    made = outcome([[1, 1], [1, 1]], [3, 3], [2.0**60, -(2.0**60)], 2.0**-30, [0])
    assert el.spectrum(made, of="signs").error >= 2


def test_what_is_not_covered_is_refused():
    made = outcome(*parity(21, [0, 1]), [0, 1])
    cases = [
        (lambda: el.spectrum(made), "n must be at most 20 for all 2\\^n coefficients: n=21; read_out"),
        (lambda: el.spectrum(made, of="losses"), "of must be outputs or signs: of='losses'"),
        (lambda: el.read_out(made, by="magic"), "by must be weights or influence: by='magic'"),
        (lambda: el.spectrum(random_network(0, 3)).coefficient([3]), "members must lie in 0..n-1: n=3, members=.3,."),
        (lambda: el.spectrum({}), "parameters must hold numbers 'hidden.weight'"),
        (lambda: el.read_out(el.Outcome(made.trial, "solved")), "an outcome must hold its parameters"),
    ]
    for call, message in cases:
        with pytest.raises(el.errors.CertificateError, match=message):
            call()
