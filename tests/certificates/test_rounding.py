"""Rounding: what is said of the real function holds for it, and what is said of float32 holds for float32."""

from fractions import Fraction

import numpy as np
import pytest
from hand_made import as_float, exact_margins, inputs, outcome, parity
from hypothesis import given, strategies as st

import elegans as el
from elegans.certificates.network import SINGLE, Network, gamma, network_of
from elegans.training.engines import ChunkRequest, choose


def with_cancellation(size, excess, n=4, support=(0, 1)):
    """Return a parity to which size x (relu(s + 9) - relu(s + 9)) is added in two halves, and ``excess`` at the end."""
    weight, bias, output, offset = parity(n, support)
    twins = np.zeros((2, n))
    twins[:, 2:] = 1
    return outcome(np.concatenate([weight, twins]), [*bias, 9, 9], [*output, size, -size], offset + excess, support)


def float32_margins(made):
    """Return y f as NumPy evaluates it in float32, one neuron after the other."""
    hidden, output = made.parameters["hidden"], made.parameters["output"]
    x = inputs(hidden["weight"].shape[1]).astype(np.float32)
    total = np.zeros(len(x), np.float32)
    for weight, bias, v in zip(hidden["weight"], hidden["bias"], output["weight"], strict=True):
        total = total + v * np.maximum(x @ weight + bias, np.float32(0))
    return x[:, list(made.trial.task.support)].prod(axis=1) * (total + output["bias"])


@pytest.mark.parametrize("size", [2.0**26, 2.0**30])
def test_where_float32_evaluation_errs_the_proof_holds_for_the_real_function_alone(size):
    made = with_cancellation(size, excess=0.0)
    assert float32_margins(made).min() <= 0
    found = el.certify(made)
    assert found.proved and not found.holds_in_float32
    assert found.margin == pytest.approx(1, abs=1e-2)
    assert found.attained == 1


@pytest.mark.parametrize(("excess", "verdict"), [(0.0, "proved"), (1.0, "refuted"), (-1.0, "refuted")])
@pytest.mark.parametrize("size", [2.0**60, 2.0**100])
def test_where_float64_evaluation_errs_exact_arithmetic_decides(size, excess, verdict):
    made = with_cancellation(size, excess)
    naive = network_of(made)
    x = inputs(4).astype(float)
    assert (x[:, 0] * x[:, 1] * naive.outputs(x)).min() <= 0
    found = el.certify(made)
    assert found.verdict == verdict
    assert found.attained == (1 if verdict == "proved" else 0)
    assert found.margin <= as_float(min(exact_margins(made)))


any_float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def any_network(draw):
    """Draw a network whose parameters are any finite float32 numbers, subnormal and enormous ones among them."""
    n, width = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    size = draw(st.sampled_from([None, 1.0, 2.0**-120]))
    number = any_float32 if size is None else st.floats(-size, size, width=32)

    def numbers(*shape):
        count = int(np.prod(shape))
        return np.array(draw(st.lists(number, min_size=count, max_size=count)), np.float32).reshape(shape)

    return outcome(numbers(width, n), numbers(width), numbers(width), numbers()[()], [0])


@given(any_network())
def test_outputs_lie_within_the_stated_rounding_of_the_exact_ones(made):
    network = network_of(made)
    x = inputs(network.n).astype(float)
    for row, value in zip(x, network.outputs(x), strict=True):
        assert abs(Fraction(float(value)) - network.exactly(row)) <= Fraction(network.rounding)


@given(any_network())
def test_no_network_of_finite_numbers_gets_a_false_verdict(made):
    found, least = el.certify(made), min(exact_margins(made))
    assert found.verdict == ("proved" if least > 0 else "refuted")
    assert found.margin <= as_float(least)


@given(any_network(), st.randoms(use_true_random=False), st.booleans())
def test_float32_in_any_order_lies_within_its_stated_rounding(made, random, flushed):
    """Sums in random orders; ``flushed``: subnormal inputs and results count as zero, as in the fused engine."""
    network = network_of(made)
    if not np.isfinite(network.float32_rounding):
        return

    def round_(value):
        value = np.float32(value)
        return np.float32(0) if flushed and abs(value) < 2.0**-126 else value

    def total(terms):
        terms = [round_(term) for term in terms]
        while len(terms) > 1:
            one, other = (terms.pop(random.randrange(len(terms))) for _ in range(2))
            terms.append(round_(one + other))
        return terms[0]

    for x in inputs(network.n):
        hidden = [
            max(total([*(round_(w) * s for w, s in zip(weight, x, strict=True)), bias]), np.float32(0))
            for weight, bias in zip(network.weight.astype(np.float32), network.bias.astype(np.float32), strict=True)
        ]
        products = [round_(np.float32(v)) * h for v, h in zip(network.output, hidden, strict=True)]
        value = total([*products, np.float32(network.offset)])
        assert abs(Fraction(float(value)) - network.exactly(x)) <= Fraction(network.float32_rounding)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "decay", "steps"), [("fused", 0.01, 500), ("fused", 2.0, 400), ("jax", 2.0, 400)])
def test_the_outputs_of_an_engine_lie_within_float32_rounding_of_the_exact_ones(engine, decay, steps):
    """A decay of 2 takes every weight to subnormal numbers, or to 0 where those are flushed."""
    trial = el.Trial(
        task=el.SparseParity(n=30, k=2),
        regime=el.Online(),
        model=el.MLP(width=40),
        training=el.SGD(weight_decay=decay, steps=steps),
    )
    advancing = choose(trial, engine)
    state, _ = advancing.advance(advancing.init([trial]), ChunkRequest.of(steps))
    x = el.random.rademacher(trial.key("probe"), np.arange(20, dtype=np.uint32), 30)
    network: Network = network_of(el.Outcome(trial, "unsolved", parameters=advancing.parameters(state)[0]))
    for row, value in zip(x, advancing.predict(state, x)[0], strict=True):
        assert abs(Fraction(float(value)) - network.exactly(row)) <= Fraction(network.float32_rounding)


def test_float32_rounding_is_unbounded_where_sums_may_overflow():
    made = outcome([[2.0**127]], [2.0**127], [1], 0, [0])
    assert network_of(made).float32_rounding == np.inf
    assert not el.certify(made).holds_in_float32


def test_gamma_is_highams():
    assert gamma(3, SINGLE) == 3 * 2.0**-24 / (1 - 3 * 2.0**-24)
    assert gamma(2**24, SINGLE) == np.inf
