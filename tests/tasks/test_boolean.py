"""Sparse Boolean functions: values, facts, biased draws, labels, and the supports that a sample leaves."""

import itertools
import math

import jax
import numpy as np
import pytest
from scipy import stats

import elegans as el
from elegans.tasks import And, BooleanFunction, Majority, Or, Parity, SymmetricFunction, TableFunction, Threshold

FUNCTIONS = ["and", "or", "parity", "majority", "threshold:2", "symmetric:1101", "table:01110010", "table:01101001"]
INPUTS = np.array(list(itertools.product((0, 1), repeat=3)))[:, ::-1]
KEY = el.random.stream(3, "sample")


def index(count):
    return np.arange(count, dtype=np.uint32)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("and", lambda b: min(b)),
        ("or", lambda b: max(b)),
        ("parity", lambda b: sum(b) % 2),
        ("majority", lambda b: int(sum(b) >= 2)),
        ("threshold:1", lambda b: max(b)),
        ("threshold:2", lambda b: int(sum(b) >= 2)),
        ("symmetric:1101", lambda b: int(sum(b) != 2)),
        ("table:01110010", lambda b: int("01110010"[b[0] + 2 * b[1] + 4 * b[2]])),
    ],
)
def test_values_are_those_of_the_name(text, expected):
    function = BooleanFunction.parse(text)
    wanted = np.array([expected(bits) for bits in INPUTS.tolist()], np.float32)
    assert np.array_equal(function.table(3), wanted)
    for bits in (INPUTS, INPUTS > 0, INPUTS.astype(np.float32), jax.numpy.asarray(INPUTS)):
        assert np.array_equal(function.value(bits), wanted)
    assert function.label() == text


@pytest.mark.parametrize("text", FUNCTIONS)
@pytest.mark.parametrize("p", [0.5, 0.8])
def test_facts_agree_with_enumeration(text, p):
    function = BooleanFunction.parse(text)
    table = function.table(3)
    odds = np.where(INPUTS, p, 1 - p).prod(axis=1)
    changes = np.array([[table[place] != table[place ^ 1 << bit] for bit in range(3)] for place in range(8)])
    assert function.chance(3, p) == pytest.approx(odds @ table, abs=1e-15)
    assert function.influences(3, p) == pytest.approx(odds @ changes, abs=1e-15)


def test_tables_know_when_they_are_symmetric():
    assert np.array_equal(TableFunction(values="01101001").by_count(3), Parity().by_count(3))
    assert TableFunction(values="0010").by_count(2) is None


def test_the_bias_balances():
    assert And().balancing_bias(3) == pytest.approx(0.5 ** (1 / 3), abs=1e-15)
    assert Or().balancing_bias(2) == pytest.approx(1 - 0.5**0.5, abs=1e-15)
    assert Parity().balancing_bias(4) == Majority().balancing_bias(3) == 0.5
    with pytest.raises(
        el.errors.TrialError, match="must differ on all zeros and all ones to be balanced: 'symmetric:0100'"
    ):
        SymmetricFunction(values="0100").balancing_bias(3)


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5 ** (1 / 3), 1.0])
def test_bits_are_independent_and_as_likely_as_said(p):
    """A z-test of all ones, and pairs of neighbours (which share a block): each fails for fewer than 1 seed in 10^4."""
    task = el.SparseBoolean(n=7, k=3, function="and", p=p)
    x, _ = task.examples(task.draw(KEY), KEY, index(40_000))
    assert x.dtype == np.float32 and set(np.unique(x)) <= {-1, 1}
    ones = x > 0
    assert stats.binomtest(int(ones.sum()), ones.size, p).pvalue > 1e-4
    for first, second in itertools.pairwise(range(7)):
        assert stats.binomtest(int((ones[:, first] & ones[:, second]).sum()), len(ones), p * p).pvalue > 1e-5


@pytest.mark.parametrize("text", FUNCTIONS)
def test_labels_are_the_values_on_the_support(text):
    task = el.SparseBoolean(n=9, k=3, function=text, support=(7, 1, 4), p=0.6)
    x, y = task.examples(task.draw(KEY), KEY, index(200))
    assert y.dtype == np.float32
    assert np.array_equal(y, 2 * task.function.value(x[:, [1, 4, 7]] > 0) - 1)


def test_balanced_conjunctions_have_balanced_labels():
    """10^5 labels: a binomial test that fails for one seed in 10^4. Three ones make a 1."""
    task = el.SparseBoolean(n=20, k=3, function="and", p=And().balancing_bias(3))
    support = task.draw(el.random.stream(1, "task"))
    x, y = task.examples(support, KEY, index(100_000))
    assert stats.binomtest(int((y > 0).sum()), len(y)).pvalue > 1e-4
    assert np.array_equal(y > 0, (x[:, support] > 0).all(axis=1))
    assert task.information == math.log2(1140)


def test_parities_of_uniform_bits_tell_nothing_by_single_bits():
    """Exact: of all 2^n inputs half have each label, whatever one bit is. Biased bits tell."""
    task = el.SparseBoolean(n=6, k=3, function="parity", support=(0, 2, 5))
    assert task.on_cube and task.population == 64
    x, y = task.member(task.draw(KEY), index(64))
    assert y.sum() == 0 and (y @ x == 0).all()
    assert not el.SparseBoolean(n=6, k=3, function="parity", p=0.6).on_cube


def test_examples_are_the_same_in_compiled_programs():
    task = el.SparseBoolean(n=9, k=3, function="table:01110010", p=0.3)
    support = task.draw(el.random.stream(0, "task"))
    here = task.examples(support, KEY, index(50))
    there = jax.jit(lambda i, p: task.substitute({"p": p}).examples(jax.numpy.asarray(support), KEY, i))(index(50), 0.3)
    for ours, theirs in zip(here, there, strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("text", FUNCTIONS)
@pytest.mark.parametrize("count", [0, 3, 8])
def test_the_consistent_supports_are_all_that_brute_force_finds(text, count):
    task = el.SparseBoolean(n=11, k=3, function=text, p=0.6)
    support = task.draw(el.random.stream(count, "task"))
    x, y = task.examples(support, KEY, index(count))
    every = np.array(list(itertools.combinations(range(11), 3)))
    agree = np.array([np.array_equal(task.target(places, x), y) for places in every])
    found = task.consistent(x, y)
    assert np.array_equal(found, every[agree])
    assert (found == support).all(axis=1).any()
    assert np.array_equal(task.consistent(x, y, most=2), found[:2])


def test_a_wrong_sample_leaves_no_support():
    task = el.SparseBoolean(n=5, k=2, function="or")
    assert task.consistent(-np.ones((1, 5), np.float32), np.ones(1, np.float32)).shape == (0, 2)


TRIAL = el.Trial(
    task=el.SparseBoolean(n=12, k=3, function="and", p=And().balancing_bias(3)),
    regime="online",
    model=el.MLP(width=32),
    training=el.SGD(learning_rate=0.2, steps=500),
)


def test_trials_of_them_are_written_and_read():
    again = el.Trial.parse(TRIAL.model_dump(mode="json"))
    assert again == TRIAL and again.task.function == And()


@pytest.mark.slow
def test_networks_learn_them():
    assert el.train(TRIAL).test_error < 0.01


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"k": 13}, "k must be at most n: k=13, n=12"),
        ({"function": "adn"}, "unknown booleanfunction 'adn'; did you mean 'and'?"),
        ({"function": "threshold:4"}, "least of a threshold must be at most the number of bits: least=4, s=3"),
        ({"function": "symmetric:011"}, "values must be 4 characters for s=3 bits: values='011'"),
        ({"function": "table:0110"}, "values must be 8 characters for s=3 bits: values='0110'"),
        ({"function": "symmetric:01x"}, "values must be characters 0 and 1: values='01x'"),
        ({"p": 1.5}, "p must be less than or equal to 1: p=1.5"),
    ],
)
def test_what_is_no_sparse_function_is_refused(fields, message):
    with pytest.raises(el.errors.TrialError, match=message.replace("?", r"\?")):
        el.SparseBoolean(**{"n": 12, "k": 3, "function": "and", **fields})


def test_tables_are_of_a_few_bits():
    with pytest.raises(el.errors.TrialError, match=r"s must be at most 16 for a table of 2\^s values: s=17"):
        And().table(17)
    assert Threshold(least=20).value(np.ones((1, 40))) == 1
