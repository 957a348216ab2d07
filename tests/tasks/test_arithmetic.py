"""Operations modulo p: populations, labels by plain arithmetic, uniform draws, and what is refused."""

from typing import get_args

import numpy as np
import pytest
from scipy import stats

import elegans as el
from elegans.tasks.arithmetic import Operation

OPERATIONS = get_args(Operation)
FORMULAS = {
    "x-y": lambda x, y, p: x - y,
    "x*y": lambda x, y, p: x * y,
    "x/y": lambda x, y, p: x * pow(y, -1, p),
    "x^2+y^2": lambda x, y, p: x**2 + y**2,
    "x^2+xy+y^2": lambda x, y, p: x**2 + x * y + y**2,
    "x^2+xy+y^2+x": lambda x, y, p: x**2 + x * y + y**2 + x,
    "x^3+xy": lambda x, y, p: x**3 + x * y,
    "x^3+xy^2+y": lambda x, y, p: x**3 + x * y**2 + y,
}


def operands(task, x):
    """The two numbers of each input, each of which must be one-hot."""
    first, second = x[:, : task.p], x[:, task.p :]
    assert (first.sum(axis=1) == 1).all() and (second.sum(axis=1) == 1).all() and set(np.unique(x)) == {0, 1}
    return first.argmax(axis=1).tolist(), second.argmax(axis=1).tolist()


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("p", [3, 11])
def test_the_population_is_every_pair_once_with_the_result_of_plain_arithmetic(operation, p):
    task = el.ModularArithmetic(p=p, operation=operation)
    inputs, labels = task.member(None, np.arange(task.population, dtype=np.uint32))
    pairs = list(zip(*operands(task, inputs), strict=True))
    divides = operation == "x/y"
    assert pairs == [(x, y) for x in range(p) for y in range(divides, p)]
    assert task.population == p * (p - divides) and task.classes == p and task.input_size == 2 * p
    assert (inputs.dtype, labels.dtype) == (np.float32, np.int32)
    assert labels.tolist() == [FORMULAS[operation](x, y, p) % p for x, y in pairs]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_results_are_exact_at_the_largest_modulus(operation):
    p = 32749 if operation == "x/y" else 32767  # the largest prime below, and the largest modulus
    task = el.ModularArithmetic(p=p, operation=operation)
    index = np.array([0, 5, p, p * (p - 1) - 1], np.uint32)
    pairs = task.pairs(index)
    wanted = [FORMULAS[operation](int(pair) // p, int(pair) % p, p) % p for pair in pairs]
    assert task.results(pairs).tolist() == wanted


@pytest.mark.parametrize("operation", ["x/y", "x^2+xy+y^2"])
def test_examples_are_uniform_over_the_population(operation):
    """Chi-squared tests of the pairs' counts, 100 expected of each, at 10^-4 for each of two seeds."""
    task = el.ModularArithmetic(p=7, operation=operation)
    index = np.arange(100 * task.population, dtype=np.uint32)
    for seed in (0, 1):
        x, _ = task.examples(None, el.random.stream(seed, "sample"), index)
        first, second = (np.array(part) for part in operands(task, x))
        counts = np.bincount(first * 7 + second, minlength=49)
        assert stats.chisquare(counts[task.pairs(np.arange(task.population, dtype=np.uint32))]).pvalue > 1e-4
        assert counts.sum() == len(index)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_examples_are_the_same_in_compiled_programs(operation):
    import jax

    task, key = el.ModularArithmetic(p=11, operation=operation), el.random.stream(3, "sample")
    index = np.arange(50, dtype=np.uint32)
    make = lambda index: (*task.examples(None, key, index), *task.member(None, index))  # noqa: E731
    for found, value in zip(jax.jit(make)(index), make(index), strict=True):
        assert found.dtype == value.dtype and np.array_equal(found, value)


@pytest.mark.parametrize("fraction", [0.3, 0.9])
def test_a_split_of_division_leaves_out_pairs_that_are_no_inputs(fraction):
    task, regime, key = el.ModularArithmetic(p=7, operation="x/y"), el.Split(fraction), el.random.stream(1, "sample")
    sizes = {"sample": regime.sample_size(task), "test": regime.held_out_size(task)}
    parts = [regime.numbers(task, key, name, np.arange(size, dtype=np.uint32)) for name, size in sizes.items()]
    pairs = task.pairs(np.concatenate(parts))
    assert sorted(pairs.tolist()) == [x * 7 + y for x in range(7) for y in range(1, 7)]


def test_a_task_is_written_as_a_record_and_read_back():
    task = el.Task.parse({"kind": "modular-arithmetic", "p": 97, "operation": "x/y"})
    assert task == el.ModularArithmetic(p=97, operation="x/y") and task.label() == "x/y mod 97"
    assert el.Task.model_validate_json(task.model_dump_json()) == task


@pytest.mark.parametrize(
    ("p", "operation", "message"),
    [
        (9, "x/y", "p must be prime for division: p=9"),
        (2, "x-y", "p must be greater than or equal to 3: p=2"),
        (7, "x+y", "operation must be one of x-y, .* \\(addition is modular-addition\\): 'x\\+y'"),
        (7, "x%y", "operation must be .*'x%y'"),
    ],
)
def test_what_breaks_a_rule_is_refused(p, operation, message):
    with pytest.raises(el.errors.TrialError, match=message):
        el.ModularArithmetic(p=p, operation=operation)
