"""Calculators state what they are defined for: whatever they are given, they answer with a number or a TheoryError."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from calculator_arguments import LAYER, NETWORK, arguments
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import elegans as el
from elegans import groups, theory
from elegans.errors import ElegansError, TheoryError

NAMES = sorted(entry.name for entry in theory.catalogue())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("krawtchouk", {"n": 10**4299, "degree": 1, "minus_ones": 1}, "n must be at most 2000: n=2^14280 or more"),
        ("krawtchouk", {"n": 2001, "degree": 1, "minus_ones": 1}, "n must be at most 2000: n=2001"),
        ("krawtchouk", {"n": 5.5, "degree": 1, "minus_ones": 1}, "n must be a whole number: n=5.5"),
        ("krawtchouk", {"n": True, "degree": 1, "minus_ones": 1}, "n must be a whole number: n=True"),
        ("krawtchouk", {"n": "5", "degree": 1, "minus_ones": 1}, "n must be a whole number: n=5"),
        ("parity_of_sum", {"k": 10**6}, "k must be at most 50000: k=1000000"),
        ("flat_tensor", {"length": 10**9}, "length must be at most 1000: length=1000000000"),
        ("convex_sgd_rate", {"norm": math.nan, "gradient": 1, "steps": 1}, "norm must be finite: norm=nan"),
        ("convex_sgd_rate", {"norm": math.inf, "gradient": 1, "steps": 1}, "norm must be finite: norm=inf"),
        ("convex_sgd_rate", {"norm": 10**400, "gradient": 1, "steps": 1}, "norm must be at most 1.8e308: norm=2^1328"),
        (
            "expected_good",
            {"neurons": 3, "p": Fraction(1, 10**400)},
            "p must have terms below 2^1100: p=",
        ),
        ("walsh_hadamard", {"values": [1, math.nan]}, "values must be finite: values=nan"),
        ("walsh_hadamard", {"values": [[1, 2], [3]]}, "values must be an array of real numbers: values=[[1, 2], [3]]"),
        ("walsh_hadamard", {"values": ["a"]}, "values must be an array of real numbers: values=['a']"),
        ("walsh_hadamard", {"values": [1j]}, "values must be an array of real numbers: values=[1j]"),
        ("walsh_hadamard", {"values": range(10**12)}, "values must have at most 10000000 entries: values=range(0, "),
        ("strict_gap", {"correlations": [1.0, 2], "support": 1}, "support must be a list of whole numbers: support=1"),
        ("strict_gap", {"correlations": [1.0, 2], "support": [0.5]}, "support must be a whole number: support=0.5"),
        ("group_width", {"group": 3}, "group must be a Group: group=3"),
        ("dense_gradients", {"n": 5, "support": [0], "neurons": 1, "seed": -1}, "seed must be at least 0: seed=-1"),
        (
            "strict_gap",
            {"correlations": [1.0, 2], "support": range(10**12)},
            "support must have at most 100000 entries",
        ),
        (
            "walsh_hadamard",
            {"values": np.ma.masked_array([1.0, 2.0], [True, False])},
            "values must not be masked: values=",
        ),
        (
            "odd_probability",
            {"probabilities": np.array([0.5, np.nan])},
            "probabilities must be finite: probabilities=nan",
        ),
        (
            "convex_sgd_excess",
            {"norm": 1e308, "gradient": 1e308, "steps": 1},
            "convex_sgd_excess has no value here: the result is infinite: norm=1e+308",
        ),
        (
            "biased_sizes",
            {"k": 10**9, "epsilon": 0.1, "delta": 0.1},
            "biased_sizes has no value here: the result is infinite: k=1000000000, epsilon=0.1, delta=0.1",
        ),
        (
            "attention_parameters",
            {"network": NETWORK._replace(layers=(LAYER._replace(query=np.full((3, 3), np.nan)),))},
            "network.layers.query must be finite: network.layers.query=nan",
        ),
        (
            "attention_parameters",
            {"network": NETWORK._replace(embedding=None)},
            "network.embedding must be an array of real numbers: network.embedding=None",
        ),
        (
            "attention_parameters",
            {"network": NETWORK._replace(readout=np.ones(3))},
            "network.readout must have the axes (d k): network.readout=a ndarray of shape (3,)",
        ),
        (
            "attention_parameters",
            {"network": NETWORK._replace(layers=(None,))},
            "network.layers must be an AttentionLayer: network.layers=None",
        ),
        (
            "attention_parameters",
            {"network": NETWORK._replace(layers=(LAYER._replace(relative=np.full((4, 3), np.inf)),))},
            "network.layers.relative must be finite: network.layers.relative=inf",
        ),
        (
            "attention_parameters",
            {"network": NETWORK._replace(layers=(LAYER._replace(query=np.ones((1000, 1000))),) * 11)},
            "network must have at most 10000000 entries: network=AttentionNetwork(",
        ),
        ("parity_of_sum", {"k": np.ma.masked}, "k must be a whole number: k="),
        ("game_value", {"payoff": np.ones((501, 500))}, "payoff must have at most 250000 entries: shape=(501, 500)"),
        (
            "selecting_transformer_for",
            {"task": el.SparseParity(n=65536, k=2), "support": [0, 1]},
            "n must be at most 2000: n=65536",
        ),
        (
            "group_neurons",
            {"group": groups.Symmetric(n=5), "irrep": 2, **dict.fromkeys("xyz", np.ones((10**6, 4)))},
            "neurons times |G| times d must be at most 300000000: neurons=1000000, order=120, d=4",
        ),
        (
            "irrep_widths",
            {"group": groups.Cyclic(n=1001)},
            "irreps must be at most 1000 to be compared: irreps=1001, order=1001",
        ),
        ("p_good_under", {"n": 10**9, "k": 10**8, "s": 10**8}, "C(n, k) must have at most a million binary digits"),
        (
            "p_good_over_bounds",
            {"n": 10**9, "k": 10**6, "s": 10**8},
            "a power must have at most a million binary",
        ),
        ("symmetric_coefficient", {"values": [1] * 3000, "degree": 1}, "values must be at most 2001: values=3000"),
        ("smallest_hinge_loss", {"k": 12, "biases": [1]}, "the dual must have at most 1000 corners: corners="),
        ("smallest_hinge_loss", {"k": 8, "biases": (3,)}, "the dual must have at most 1000 corners: corners=4608"),
        ("kl_divergence", {"true": [-1, 2], "predicted": [0.5, 0.5]}, "probabilities must be at least 0: true="),
        ("disjoint_gradient", {"weights": np.ones((10**6, 1))}, "blocks times k must be at most 100000000: k=1000000"),
        (
            "disjoint_sgd_rates",
            {"weights": np.ones((10**6, 1)), "steps": 4, "delta": 0.25},
            "blocks times k must be at most 100000000: k=1000000",
        ),
        ("margin_payoffs", {"group": groups.Cyclic(n=5000)}, "irreps must be at most 1000 to be compared: irreps=5000"),
        ("flat_tensor", {"length": 1000, "nodes": 200}, "length times nodes^2 must be at most 3 x 10^7: length=1000"),
        ("odd_probability", {"probabilities": [12, 12]}, "probabilities must lie in 0..1 (Lemma B.9): probabilities="),
        ("lemma14_steps", {"norm": 1e17, "feature_norm": 1e301, "epsilon": 0.01}, "enough must be below 2^1000"),
    ],
)
def test_what_a_calculator_is_not_defined_for_is_refused_with_rule_and_value(name, given, message):
    with pytest.raises(TheoryError, match=re.escape(message)):
        getattr(theory, name)(**given)


def test_a_value_is_infinite_where_its_annotation_says_so():
    assert theory.flow_time((0.5, 2.0)) == math.inf
    assert theory.theorem55_parameters(31, 4, 0.1).batch == math.inf


def test_numbers_of_any_precision_are_those_of_python():
    assert theory.convex_sgd_rate(np.longdouble(2), np.float16(1), 4) == theory.convex_sgd_rate(2.0, 1.0, 4)
    for kind in (np.longdouble, object):
        assert theory.gap_correlations(np.array([2, 1, 0, 1]).astype(kind), [0]).dtype == np.float64
    assert theory.set_index([np.longdouble(2**60 + 1) - 2**60]) == 2
    assert type(theory.convex_sgd_rate(np.longdouble(2), 1, 4)) is float


def test_numbers_of_numpy_and_integral_floats_are_whole_numbers():
    assert theory.krawtchouk(np.int32(40), 2.0, np.uint8(20)) == theory.krawtchouk(40, 2, 20)


SEARCH = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2, 2)])
@pytest.mark.parametrize(
    ("calculator", "wrong", "message"),
    [
        (lambda samples: theory.quanta_sample_loss(samples, 0.5, 100, 0.5), 0.9, "samples must be whole numbers: sam"),
        (lambda learned: theory.quanta_loss(learned, 100, 0.5), -0.5, "learned must lie in 0 ... tasks: "),
        (lambda learned: theory.quanta_loss(learned, 100, 0.5), np.nan, "learned must be finite: learned=nan"),
        (theory.bayes_strategy, 0.5, "tokens must be whole numbers: tokens=0.5"),
        (theory.dense_classifier, 0.5, "labels must be whole numbers: labels=0.5"),
        (theory.softmax, np.nan, "scores must be "),
    ],
)
def test_what_is_refused_as_a_number_is_refused_in_arrays(calculator, wrong, message, shape):
    for argument in (np.full(shape, wrong), np.full(shape, wrong).tolist(), np.full(shape, wrong, np.float32)):
        with pytest.raises(TheoryError, match=message):
            calculator(argument)


def test_whole_numbers_beyond_int64_are_summed_as_floats():
    """Their sums used to wrap around."""
    assert theory.walsh_hadamard([2**62, 2**62]).tolist() == [2.0**63, 0]
    assert theory.walsh_hadamard([2**61, 2**61]).tolist() == [2**62, 0]


@pytest.mark.parametrize(
    "calculator",
    [
        lambda labels: theory.normalised_margin(theory.cyclic_construction(3), labels),
        lambda labels: theory.margin_decomposition(np.eye(9)[:, :3], labels),
        lambda labels: theory.pair_margin_problem(np.reshape(labels, (3, 3))),
        lambda labels: theory.mass_shares(theory.dense_classifier([[0, 1], [1, 0]]), labels[:8], 3),
    ],
)
@pytest.mark.parametrize("wrong", [0.5, -1, 3])
def test_a_label_that_names_no_output_is_refused(calculator, wrong):
    """A fraction used to be cut off, and a negative label to count from the end."""
    calculator([0, 1, 2, 1, 2, 0, 2, 0, 1])
    with pytest.raises(TheoryError, match="must be whole numbers|must lie in|must name outputs"):
        calculator([0, 1, 2, 1, 2, 0, 2, wrong, 1])


@pytest.mark.parametrize("features", [[], np.zeros((0, 3)), np.zeros((2, 0))])
def test_a_separator_of_nothing_is_refused(features):
    """SciPy's solver ends the interpreter on a matrix without columns."""
    with pytest.raises(TheoryError, match="features must have at least one point and one neuron"):
        theory.smallest_separator(features, np.ones(len(features)))


def test_an_iterator_is_read_once():
    assert theory.strict_gap([1.0, 2, 3], iter([2])) == theory.strict_gap([1.0, 2, 3], [2])


@settings(SEARCH, max_examples=250)
@given(st.data())
def test_any_arguments_have_a_value_or_a_refusal_in_one_line(data):
    name = data.draw(st.sampled_from(NAMES))
    try:
        value = getattr(theory, name)(**data.draw(arguments(name)))
    except ElegansError as error:
        assert "\n" not in str(error) and len(str(error)) < 1000
    else:
        assert not isinstance(value, float) or not math.isnan(value)
