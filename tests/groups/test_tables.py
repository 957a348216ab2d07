"""Multiplication tables of a user's own: what is read, what is refused and by which elements."""

import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import elegans as el

KLEIN = [[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]
LOOP = [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]
"""A Latin square with identity and inverses that is no group's: there is no group of order 5 of involutions."""


@settings(max_examples=20)
@given(st.permutations(range(24)))
def test_relabelled_elements_have_the_same_characters(order):
    known = el.Group.parse("S4")
    place = np.argsort(order)
    group = el.Group.from_table(place[known.table[np.ix_(order, order)]], [known.elements[old] for old in order])
    assert group.elements[0] == "e"
    product = group.table[group.elements.index("(12)"), group.elements.index("(23)")]
    assert group.elements[product] == "(123)"
    sizes = dict(zip(known.class_names, known.class_sizes, strict=True))
    assert dict(zip(group.class_names, group.class_sizes, strict=True)) == sizes
    names = [group.class_names.index(name) for name in known.class_names]
    found = {tuple(np.round(row, 9)) for row in group.characters[:, names]}
    assert found == {tuple(row) for row in known.characters}


def test_the_identity_is_moved_to_the_front_and_the_others_keep_their_order():
    group = el.Group.from_table([[1, 0, 3, 2], [0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]], ["a", "e", "b", "c"])
    assert group.elements == ("e", "a", "b", "c")
    assert group.table.tolist() == KLEIN


def changed(table, *entries):
    table = np.array(table)
    for a, b, value in entries:
        table[a, b] = value
    return table.tolist()


S3 = el.Group.parse("S3").table
REFUSED = {
    "no rows": ([], None, "must have from 1 to 5040 rows: rows=0"),
    "no table": (7, None, "must be a list of rows: rows=7"),
    "not square": ([[0, 1], [1]], None, "must be square: rows=2, entries of row 1=1"),
    "closure": (changed(KLEIN, (1, 2, 4)), None, r"0, …, 3 \(closure\): the product of 1 and 2 is 4"),
    "not whole": ([[0.5]], None, "the product of 0 and 0 is 0.5"),
    "no identity": ([[1, 0], [1, 0]], None, "must have an identity e, with e b = b for all b: 0 · 0 = 1, 1 · 0 = 1"),
    "left identity": (
        [[0, 1, 2], [0, 1, 2], [2, 1, 0]],
        "abc",
        "identity: the product of a and any b is b, but the product of b and a is a",
    ),
    "no inverse": (
        [[0, 1, 2], [1, 1, 1], [2, 1, 0]],
        None,
        "must have an inverse: no product of 1 with another is the identity 0",
    ),
    "one-sided inverse": (
        [[0, 1, 2, 3], [1, 2, 0, 1], [2, 3, 1, 0], [3, 0, 1, 2]],
        "exyz",
        "must have an inverse: the product of x and y is the identity e, but the product of y and x is z",
    ),
    "associativity": (LOOP, None, r"must be associative: \(1 · 1\) · 2 = 2, but 1 · \(1 · 2\) = 4"),
    "associativity, named": (LOOP, "eabcd", r"must be associative: \(a · a\) · b = b, but a · \(a · b\) = d"),
    "names": (KLEIN, "eab", "distinct, one per element: 4 elements"),
    "same names": (KLEIN, "eaab", "distinct, one per element: 4 elements"),
}


@pytest.mark.parametrize(("table", "names", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_groups_table_is_refused_by_its_elements(table, names, message):
    with pytest.raises(el.errors.GroupError, match=message):
        el.Group.from_table(table, names)


@settings(max_examples=60)
@given(st.integers(1, 23), st.integers(1, 23), st.integers(0, 23))
def test_a_table_with_one_wrong_product_is_refused(a, b, value):
    table = np.array(el.Group.parse("S4").table)
    if table[a, b] != value:
        table[a, b] = value
        with pytest.raises(el.errors.GroupError, match="associative|inverse"):
            el.Group.from_table(table)


@settings(max_examples=60)
@given(st.integers(1, 6), st.randoms(use_true_random=False))
def test_a_table_is_taken_exactly_if_it_is_a_groups(order, draws):
    """Tables near the cyclic group's, against the axioms gone through one by one."""
    table = np.add.outer(range(order), range(order)) % order
    for _ in range(draws.choice([0, 1, 2])):
        table[draws.randrange(order), draws.randrange(order)] = draws.randrange(order)
    places = range(order)
    product = table.__getitem__
    holds = [e for e in places if all(product((e, a)) == a == product((a, e)) for a in places)]
    holds = holds and all(any(product((a, b)) == holds[0] == product((b, a)) for b in places) for a in places)
    triples = [(a, b, c) for a in places for b in places for c in places]
    holds = holds and all(product((product((a, b)), c)) == product((a, product((b, c)))) for a, b, c in triples)
    if holds:
        assert el.Group.from_table(table).order == order
    else:
        with pytest.raises(el.errors.GroupError):
            el.Group.from_table(table)


def test_tables_are_read_from_files(tmp_path):
    np.save(tmp_path / "klein.npy", np.array(KLEIN))
    (tmp_path / "plain.csv").write_text("\n".join(",".join(map(str, row)) for row in KLEIN))
    (tmp_path / "named.csv").write_text("e,a,b,ab\n" + "\n".join(", ".join(map(str, row)) for row in KLEIN) + "\n")
    (tmp_path / "plain.json").write_text(json.dumps(KLEIN))
    (tmp_path / "named.json").write_text(json.dumps({"table": KLEIN, "names": ["e", "a", "b", "ab"], "name": "V4"}))
    for file, name, elements in [
        ("klein.npy", "klein", ("0", "1", "2", "3")),
        ("plain.csv", "plain", ("0", "1", "2", "3")),
        ("named.csv", "named", ("e", "a", "b", "ab")),
        ("plain.json", "plain", ("0", "1", "2", "3")),
        ("named.json", "V4", ("e", "a", "b", "ab")),
    ]:
        group = el.Group.from_file(tmp_path / file)
        assert (group.name, group.elements, group.table.tolist()) == (name, elements, KLEIN)
        assert el.Group.parse(str(tmp_path / file)) == group


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("absent.csv", None, "cannot be read from .*absent.csv"),
        ("group.txt", "0", r"must be in a file .csv, .json, .npy: .*group.txt"),
        ("words.csv", "a,b\nb,a", "cannot be read from .*words.csv: invalid literal"),
        ("empty.csv", "", "cannot be read from .*empty.csv: the file is empty"),
        ("broken.json", "[[0", "cannot be read from .*broken.json"),
        ("other.json", '{"rows": [[0]]}', "it must be a list of lists, or a record with 'table'"),
        ("array.npy", "no array", "cannot be read from .*array.npy"),
    ],
)
def test_files_that_hold_no_table_are_refused(tmp_path, file, content, message):
    if content is not None:
        (tmp_path / file).write_text(content)
    with pytest.raises(el.errors.GroupError, match=message):
        el.Group.from_file(tmp_path / file)


def test_a_group_without_a_title_is_called_by_its_order():
    assert el.Group.from_table(KLEIN).name == "group of order 4"
    product = el.groups.DirectProduct(factors=[el.Group.from_table(KLEIN), "Z2"])
    assert product.label() == "(group of order 4)xZ2"
