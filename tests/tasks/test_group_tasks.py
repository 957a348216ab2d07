"""Modular addition and operations in groups: populations, uniform draws, labels, and what is refused."""

import numpy as np
import pytest
from scipy import stats

import elegans as el
from elegans.tasks.pairs import one_hot_pairs

KLEIN = el.Group.from_table([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]], title="V4")
TASKS = [
    el.ModularAddition(p=7),
    el.GroupComposition(group="S3"),
    el.GroupComposition(group="D4"),
    el.GroupComposition(group="Z4"),
    el.GroupComposition(group=KLEIN),
    el.GroupOperation(group="S3", operation="xyx^-1"),
    el.GroupOperation(group="D4", operation="xyx"),
]
PERMUTED = ("group-composition", "modular-addition")
"""Kinds of tasks whose results are all equally frequent."""


def elements(task, x):
    """The numbers of the two elements of each input, each of which must be one-hot."""
    first, second = x[:, : task.classes], x[:, task.classes :]
    assert (x.sum(axis=1) == 2).all() and (first.sum(axis=1) == 1).all() and set(np.unique(x)) == {0, 1}
    return first.argmax(axis=1), second.argmax(axis=1)


def product(task, a, b):
    if isinstance(task, el.ModularAddition):
        return (a + b) % task.p
    table = task.group.table
    operation = getattr(task, "operation", "xy")
    if operation == "xyx^-1":  # the z with z x = x y
        return np.array([np.flatnonzero(table[:, x] == table[x, y])[0] for x, y in zip(a, b, strict=True)])
    return table[table[a, b], a] if operation == "xyx" else table[a, b]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.label())
def test_the_population_is_every_pair_once_in_order(task):
    x, y = task.member(None, np.arange(task.population, dtype=np.uint32))
    a, b = elements(task, x)
    assert x.shape == (task.classes**2, task.input_size) == (task.population, 2 * task.classes)
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    assert np.array_equal(a * task.classes + b, np.arange(task.population))
    assert np.array_equal(y, product(task, a, b))
    if task.kind in PERMUTED:
        assert np.array_equal(np.bincount(y), [task.classes] * task.classes)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.label())
def test_examples_are_uniform_pairs_with_their_products(task):
    """Chi-squared tests of the pairs' counts, 100 expected of each, at 10^-4 for each of two seeds."""
    index = np.arange(100 * task.population, dtype=np.uint32)
    for seed in (0, 1):
        x, y = task.examples(task.draw(el.random.stream(seed, "task")), el.random.stream(seed, "sample"), index)
        a, b = elements(task, x)
        assert np.array_equal(y, product(task, a, b))
        counts = np.bincount(a * task.classes + b, minlength=task.population)
        assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.label())
def test_examples_are_the_same_in_compiled_programs(task):
    import jax

    index = np.arange(50, dtype=np.uint32)
    key = el.random.stream(3, "sample")
    compiled = jax.jit(lambda index: (*task.examples(None, key, index), *task.member(None, index % task.population)))
    expected = (*task.examples(None, key, index), *task.member(None, index % task.population))
    for found, value in zip(compiled(index), expected, strict=True):
        assert found.dtype == value.dtype and np.array_equal(found, value)


def test_addition_is_composition_in_the_cyclic_group():
    index = np.arange(25, dtype=np.uint32)
    sums, products = el.ModularAddition(p=5), el.GroupComposition(group="Z5")
    for found, expected in zip(sums.member(None, index), products.member(None, index), strict=True):
        assert np.array_equal(found, expected)


def test_conjugation_fixes_the_identity_and_classes_and_is_the_second_operand_in_abelian_groups():
    task = el.GroupOperation(group="S4", operation="xyx^-1")
    results = task.results(np.arange(24**2, dtype=np.uint32)).reshape(24, 24)
    class_of = task.group.class_of
    assert np.array_equal(class_of[results], np.tile(class_of, (24, 1)))
    assert np.array_equal(np.sort(results, axis=1), np.tile(np.arange(24), (24, 1)))
    abelian = el.GroupOperation(group="Z6", operation="xyx^-1").results(np.arange(36, dtype=np.uint32))
    assert np.array_equal(abelian, np.tile(np.arange(6), 6))


def test_a_pair_is_two_ones():
    assert one_hot_pairs(np.array([0, 5], np.uint32), 3).tolist() == [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 0, 1]]


def test_tasks_are_written_by_their_groups():
    task = el.Task.parse("group-composition:S3xZ2")
    assert task == el.GroupComposition(group="S3xZ2")
    assert el.Task.model_validate_json(task.model_dump_json()) == task
    assert task.label() == "group-composition:S3xZ2" and task.columns()["group"] == "S3xZ2"
    conjugation = {"kind": "group-operation", "group": "S5", "operation": "xyx^-1"}
    assert el.Task.parse(conjugation).label() == "xyx^-1 in S5"
    assert el.Task.parse("modular-addition:11").label() == "modular-addition:11"
    assert el.GroupComposition().group.name == "S4"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: el.ModularAddition(p=10), r"p must be odd \(.*no phase.*GroupComposition takes Z10\): p=10"),
        (lambda: el.ModularAddition(p=1), "p must be greater than or equal to 3: p=1"),
        (lambda: el.GroupComposition(group="Z1"), "must have at least 2 elements to be learned: order=1 of Z1"),
        (lambda: el.GroupOperation(group="Z1", operation="xyx"), "at least 2 elements to be learned: order=1 of Z1"),
        (lambda: el.GroupOperation(operation="xy"), r"must be one of .* \(composition is group-composition\): 'xy'"),
        (lambda: el.GroupOperation(operation="yx"), "operation must be .*'yx'"),
        (lambda: el.GroupComposition(group="S8"), "the order must be at most 5040 for a table: order=40320 of S8"),
        (lambda: el.GroupComposition(group="Q8"), "a group must be one of .*: 'Q8'"),
    ],
)
def test_what_breaks_a_rule_is_refused(make, message):
    with pytest.raises(el.errors.TrialError, match=message):
        make()
