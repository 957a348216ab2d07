"""Finite groups against their tables in print, against the orthogonality relations, and against each other."""

import numpy as np
import pytest

import elegans as el
from elegans.groups.decomposition import decompose, is_unitary_homomorphism
from elegans.groups.young import character, partitions

BUILT_IN = [
    *("Z1", "Z2", "Z3", "Z4", "Z31", "S1", "S2", "S3", "S4", "S5", "A3", "A4", "A5", "Z2^1", "Z2^3", "Z2^6"),
    *("D1", "D2", "D3", "D4", "D5", "D59", "D60", "S4xZ2", "S3xS3", "S3xA4", "D4xZ3xZ2^2", "S3^2xZ2"),
]
REAL = ["S3", "S4", "S5", "A5", "Z2^4", "D4", "D7", "S4xZ2", "S3xS3"]
QUATERNIONS = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [1, 4, 3, 6, 5, 0, 7, 2],
        [2, 7, 4, 1, 6, 3, 0, 5],
        [3, 2, 5, 4, 7, 6, 1, 0],
        [4, 5, 6, 7, 0, 1, 2, 3],
        [5, 0, 7, 2, 1, 4, 3, 6],
        [6, 3, 0, 5, 2, 7, 4, 1],
        [7, 6, 1, 0, 3, 2, 5, 4],
    ]
)
"""1, i, j, k, -1, -i, -j, -k."""


def quaternions():
    return el.Group.from_table(QUATERNIONS, ["1", "i", "j", "k", "-1", "-i", "-j", "-k"], title="Q8")


def groups():
    return [*map(el.Group.parse, BUILT_IN), quaternions(), el.groups.DirectProduct(factors=[quaternions()] * 2)]


def table_of(name):
    group = el.Group.parse(name)
    return {
        irrep.name: dict(zip(group.class_names, irrep.character.tolist(), strict=True)) for irrep in group.irreps
    }, dict(zip(group.class_names, group.class_sizes.tolist(), strict=True))


def expected(classes, rows):
    return {name: dict(zip(classes, values, strict=True)) for name, values in rows.items()}


def test_the_character_table_of_three_points():
    """Thesis, appendix D."""
    classes = ["e", "(12)", "(123)"]
    characters, sizes = table_of("S3")
    assert sizes == dict(zip(classes, [1, 3, 2], strict=True))
    assert characters == expected(classes, {"trivial": [1, 1, 1], "sign": [1, -1, 1], "standard": [2, 0, -1]})


def test_the_character_table_of_four_points():
    """Thesis, appendix D."""
    classes = ["e", "(12)", "(12)(34)", "(123)", "(1234)"]
    characters, sizes = table_of("S4")
    assert sizes == dict(zip(classes, [1, 6, 3, 8, 6], strict=True))
    rows = {
        "trivial": [1, 1, 1, 1, 1],
        "sign": [1, -1, 1, 1, -1],
        "(2,2)": [2, 0, 2, -1, 0],
        "standard": [3, 1, -1, 0, -1],
        "standard⊗sign": [3, -1, -1, 0, 1],
    }
    assert characters == expected(classes, rows)


def test_the_character_table_of_five_points():
    """Thesis, Table D.1, with the labels of its two irreps of dimension 4 exchanged: the standard one has at a
    transposition as many as there are fixed points, 3, less 1."""
    classes = ["e", "(12)", "(12)(34)", "(123)", "(1234)", "(12345)", "(12)(345)"]
    characters, sizes = table_of("S5")
    assert sizes == dict(zip(classes, [1, 10, 15, 20, 30, 24, 20], strict=True))
    rows = {
        "trivial": [1, 1, 1, 1, 1, 1, 1],
        "sign": [1, -1, 1, 1, -1, 1, -1],
        "standard": [4, 2, 0, 1, 0, -1, -1],
        "standard⊗sign": [4, -2, 0, 1, 0, -1, 1],
        "(3,2)": [5, 1, 1, -1, -1, 0, 1],
        "(2,2,1)": [5, -1, 1, -1, 1, 0, -1],
        "(3,1,1)": [6, 0, -2, 0, 0, 1, 0],
    }
    assert characters == expected(classes, rows)


def test_the_icosahedron_has_golden_characters():
    """A_5 has two irreps of dimension 3, which exchange the two classes of 5-cycles."""
    characters, sizes = table_of("A5")
    golden = (1 + 5**0.5) / 2
    assert sizes == {"e": 1, "(12)(34)": 15, "(123)": 20, "(12345)": 12, "(12354)": 12}
    assert [characters[name]["(12345)"] for name in ("3_1", "3_2")] == pytest.approx([golden, 1 - golden])
    assert [characters[name]["(12354)"] for name in ("3_1", "3_2")] == pytest.approx([1 - golden, golden])
    assert [characters["4"][name] for name in ("(12)(34)", "(123)", "(12345)")] == [0, 1, -1]
    assert [characters["5"][name] for name in ("(12)(34)", "(123)", "(12345)")] == [1, -1, 0]


@pytest.mark.parametrize("group", groups(), ids=lambda group: group.name)
def test_every_group_has_its_irreps(group):
    """Matrices are unitary homomorphisms, real where the indicator says so; their traces are the characters; rows and
    columns of the character table are orthogonal; the trivial irrep is first, then they go by dimension."""
    assert np.array_equal(group.table[0], np.arange(group.order))
    assert not group.table[np.arange(group.order), group.inverses].any()
    assert sorted(np.concatenate(group.classes).tolist()) == list(range(group.order))
    assert group.class_sizes.tolist() == [len(members) for members in group.classes]
    assert group.classes[0].tolist() == [0]
    assert len(set(group.elements)) == group.order and set(group.class_names) <= set(group.elements)
    assert group.irreps[0].name == "trivial" and (group.irreps[0].character == 1).all()
    assert len({irrep.name for irrep in group.irreps}) == len(group.classes)
    dimensions = np.array([irrep.dimension for irrep in group.irreps])
    assert (np.diff(dimensions) >= 0).all() and (dimensions**2).sum() == group.order
    table = group.characters
    assert np.isrealobj(table) == all(irrep.indicator for irrep in group.irreps)
    rows = (table * group.class_sizes) @ table.conj().T
    columns = table.conj().T @ table * group.class_sizes
    assert rows == pytest.approx(group.order * np.eye(len(table)), abs=1e-9)
    assert columns == pytest.approx(group.order * np.eye(len(table)), abs=1e-9)
    for irrep in group.irreps:
        assert irrep.matrices.shape == (group.order, irrep.dimension, irrep.dimension)
        assert irrep.matrices.dtype == (float if irrep.indicator == 1 else complex)
        assert is_unitary_homomorphism(group, irrep.matrices)
        trace = np.trace(irrep.matrices, axis1=1, axis2=2)
        assert trace == pytest.approx(irrep.character[group.class_of], abs=1e-10)
        squares = irrep.character[group.class_of[np.diagonal(group.table)]]
        assert squares.mean() == pytest.approx(irrep.indicator, abs=1e-10)


@pytest.mark.parametrize("name", REAL)
def test_entries_of_irreps_are_a_basis_with_known_sums(name):
    """Thesis, Lemma D.10: the |G| vectors of entries are orthogonal with squared norm |G| / d; over each class entries
    off the diagonal sum to 0 and those on it to |C| chi(C) / d."""
    group = el.Group.parse(name)
    basis = np.concatenate([irrep.matrices.reshape(group.order, -1) for irrep in group.real_irreps()], axis=1)
    norms = np.concatenate([[group.order / irrep.dimension] * irrep.dimension**2 for irrep in group.irreps])
    assert basis.T @ basis == pytest.approx(np.diag(norms), abs=1e-10)
    for irrep in group.irreps:
        for size, value, members in zip(group.class_sizes, irrep.character, group.classes, strict=True):
            sums = irrep.matrices[members].sum(axis=0)
            assert sums == pytest.approx(size * value / irrep.dimension * np.eye(irrep.dimension), abs=1e-10)


def test_permutations_compose_from_right_to_left():
    group = el.Group.parse("S3")
    assert group.elements == ("e", "(23)", "(12)", "(123)", "(132)", "(13)")
    product = group.table[group.elements.index("(12)"), group.elements.index("(23)")]
    assert group.elements[product] == "(123)"  # 3 goes to 2 and on to 1


def test_the_permutation_representation_is_the_trivial_and_the_standard_one():
    for n in (3, 4, 5):
        group = el.Group.parse(f"S{n}")
        standard = next(irrep for irrep in group.irreps if irrep.name == "standard")
        fixed = [n - sum(map(str.isdigit, name)) for name in group.class_names]
        assert (standard.character + 1).tolist() == fixed


def test_rotations_and_reflections_of_a_square():
    group = el.Group.parse("D4")
    number = group.elements.index
    assert group.elements == ("e", "r", "r^2", "r^3", "s", "r s", "r^2 s", "r^3 s")
    assert group.table[number("s"), number("r")] == number("r^3 s")
    assert group.class_names == ("e", "r", "r^2", "s", "r s")


def test_strings_of_bits_have_parities():
    group = el.Group.parse("Z2^3")
    parity = next(irrep for irrep in group.irreps if irrep.name == "parity {0,2}")
    bits = np.array([list(map(int, name)) for name in group.elements])
    assert np.array_equal(bits[group.table], bits[:, None] ^ bits)
    assert np.array_equal(parity.character, (-1.0) ** bits[:, [0, 2]].sum(axis=1))


@pytest.mark.parametrize("n", [6, 7, 8, 12])
def test_characters_of_many_points_need_no_table(n):
    """The classes of S_8 and S_12, by the sizes of centralisers, and the Murnaghan-Nakayama rule."""
    group = el.Group.parse(f"S{n}")
    assert group.class_sizes.sum() == group.order
    products = (group.characters * group.class_sizes) @ group.characters.T
    assert np.array_equal(products, group.order * np.eye(len(products)))
    if n > 7:
        with pytest.raises(
            el.errors.GroupError, match=f"the order must be at most 5040 for a table: order={group.order}"
        ):
            _ = group.table
        with pytest.raises(el.errors.GroupError, match="at most 5040 for a list of matrices"):
            _ = group.irreps[2].matrices


def test_characters_of_symmetric_groups_are_traces_of_youngs_matrices():
    group = el.Group.parse("S6")
    for irrep in group.irreps:
        assert np.trace(irrep.matrices, axis1=1, axis2=2) == pytest.approx(irrep.character[group.class_of], abs=1e-10)


def test_the_hook_of_a_long_cycle_is_a_sign():
    """Only hooks have a character at an n-cycle that is not 0: minus one to the number of rows less one."""
    for shape in partitions(7):
        hook = len(shape) == 1 or shape[1] == 1
        assert character(shape, (7,)) == (hook and (-1) ** (len(shape) - 1))


@pytest.mark.parametrize("name", ["S4", "D6", "Z6", "S3xS3", "A4", "Z2^4"])
def test_a_numerical_decomposition_finds_the_irreps_in_closed_form(name):
    group = el.Group.parse(name)
    found = decompose(group)
    assert sorted(irrep.indicator for irrep in found) == sorted(irrep.indicator for irrep in group.irreps)
    products = np.stack([irrep.character for irrep in found]) * group.class_sizes @ group.characters.conj().T
    matched = np.abs(products) / group.order
    assert np.sort(matched, axis=1)[:, :-1] == pytest.approx(0, abs=1e-9)
    assert matched.max(axis=0) == pytest.approx(1, abs=1e-9) and matched.max(axis=1) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "indicators"),
    [
        ("Z3", [1, 0, 0]),
        ("Z4", [1, 0, 1, 0]),
        ("A4", [1, 0, 0, 1]),
        ("D4", [1] * 5),
        ("S3xZ3", [1, 0, 0, 1, 0, 0, 1, 0, 0]),
    ],
)
def test_indicators_say_which_irreps_are_real(name, indicators):
    assert [irrep.indicator for irrep in el.Group.parse(name).irreps] == indicators


def test_the_irrep_of_the_quaternions_has_a_real_character_and_no_real_matrices():
    group = quaternions()
    assert [(irrep.dimension, irrep.indicator) for irrep in group.irreps] == [(1, 1)] * 4 + [(2, -1)]
    assert dict(zip(group.class_names, group.irreps[4].character, strict=True))["-1"] == -2
    assert group.characters.dtype == float
    square = el.groups.DirectProduct(factors=[group, group])
    assert square.irreps[-1].indicator == 1 and square.irreps[-1].matrices.dtype == float


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("Z3", "'frequency 1' of Z3, of dimension 1, has the Frobenius-Schur indicator 0, its character is not real"),
        ("A4", "'1_1' of A4, of dimension 1, has the Frobenius-Schur indicator 0, its character is not real"),
        (quaternions(), "'2' of Q8, of dimension 2, has the Frobenius-Schur indicator -1, its character is real but"),
    ],
)
def test_theory_on_real_irreps_refuses_others_and_says_which(group, message):
    with pytest.raises(el.errors.GroupError, match=message):
        el.Group.parse(group).real_irreps()


@pytest.mark.parametrize("name", REAL)
def test_real_irreps_are_all_where_all_are_real(name):
    group = el.Group.parse(name)
    assert group.real_irreps() == group.irreps


@pytest.mark.parametrize("group", groups(), ids=lambda group: group.name)
def test_groups_are_written_and_read_back(group):
    assert el.Group.model_validate_json(group.model_dump_json()) == group
    assert hash(el.Group.model_validate_json(group.model_dump_json())) == hash(group)
    assert group.label() == group.name


@pytest.mark.parametrize("name", BUILT_IN)
def test_names_are_read_back(name):
    group = el.Group.parse(name)
    assert el.Group.parse(group.name) == group


def test_what_is_computed_is_shared_and_cannot_be_written_to():
    first, second = el.Group.parse("S4"), el.groups.Symmetric(n=4)
    assert first.table is second.table and first.irreps is second.irreps
    for array in (first.table, first.characters, first.irreps[2].matrices, first.classes[1], first.class_of):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("C4", r"a group must be one of Z7 \(cyclic\), .* D4 \(dihedral, of order 2 x 4\), .*: 'C4'"),
        ("S4x", "a group must be one of"),
        ("Z0", "n must be greater than or equal to 1: n=0"),
        ("S13", "n must be less than or equal to 12: n=13"),
        ("A2", "n must be greater than or equal to 3: n=2"),
        ("Z3^0", "a power of a group must be at least 1: 'Z3\\^0'"),
        ("Z100xZ100", "a product must have at most 5040 classes: 10000 of Z100xZ100"),
        ({"kind": "cyclic"}, "Cyclic needs 'n'"),
        ({"kind": "cylic", "n": 3}, "unknown group 'cylic'; did you mean 'cyclic'?"),
        (7, "group must be a group or a record: 7"),
    ],
)
def test_what_is_no_group_is_refused(text, message):
    with pytest.raises(el.errors.GroupError, match=message):
        el.Group.parse(text)


def test_a_group_of_your_own_needs_an_order_and_a_table():
    class Affine(el.Group):
        """The maps x -> ax + b modulo a prime."""

        p: int

        @property
        def name(self):
            return f"AGL(1,{self.p})"

        @property
        def order(self):
            return self.p * (self.p - 1)

        def make_table(self):
            a, b = np.divmod(np.arange(self.order), self.p)
            a = a + 1
            product = a[:, None] * a % self.p - 1
            return product * self.p + (a[:, None] * b + b[:, None]) % self.p

    group = el.Group.parse({"kind": "affine", "p": 5})
    assert [irrep.dimension for irrep in group.irreps] == [1, 1, 1, 1, 4]
    assert group.class_sizes.tolist() == [1, 4, 5, 5, 5]
    del el.Group._members["affine"]
