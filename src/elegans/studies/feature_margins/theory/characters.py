"""The characters of groups, which determine their largest margins."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int64, Num

from elegans.calculators.domain import require
from elegans.groups import Group

MOST_IRREPS = 1_000
"""Maximum number of irreps, or of conjugacy classes, whose characters are multiplied with each other."""


class CharacterTable(NamedTuple):
    """The characters of a finite group all of whose irreps are real.

    Args:
        order: the number of elements, |G|.
        sizes: the sizes of the conjugacy classes, the identity's first, shape (classes,).
        characters: one row per irrep, the trivial one first, shape (irreps, classes).
        class_names: names of the classes.
        irrep_names: names of the irreps.
    """

    order: int
    sizes: Int64[np.ndarray, " classes"]
    characters: Float64[np.ndarray, "irreps classes"]
    class_names: tuple[str, ...]
    irrep_names: tuple[str, ...]

    @property
    def dimensions(self) -> Float64[np.ndarray, " irreps"]:
        """The dimensions d of the irreps, the trivial one's first."""
        return self.characters[:, 0].copy()


def characters_of(group: Group) -> CharacterTable:
    """Return a group's characters."""
    names = tuple(irrep.name for irrep in group.real_irreps())
    return CharacterTable(group.order, group.class_sizes, group.characters, group.class_names, names)


def conjugate_irreps(group: Group) -> Int64[np.ndarray, " irreps"]:
    """Return the index of each irrep's complex conjugate; a real character is its own."""
    refuse_many(group)
    return _largest((group.characters * group.class_sizes) @ group.characters.T)


def inverse_classes(group: Group) -> Int64[np.ndarray, " classes"]:
    """Return the index of each conjugacy class's class of inverses."""
    refuse_many(group)
    return _largest(group.characters.T @ group.characters)


def folded(group: Group, values: Float[np.ndarray, "*many irreps"]) -> Float[np.ndarray, "*many irreps"]:
    """Return one value per irrep; a conjugate's value is added to the first of the two and replaced by 0."""
    partners, places = conjugate_irreps(group), np.arange(len(group.irreps))
    both = np.where(partners == places, values, values + values[..., partners])
    return np.where(partners >= places, both, 0.0)


def refuse_many(group: Group) -> None:
    """Refuse a group with so many irreps that matrices of them take minutes."""
    count = len(group.class_sizes)
    require(
        count <= MOST_IRREPS, f"irreps must be at most {MOST_IRREPS} to be compared", irreps=count, order=group.order
    )


def _largest(overlaps: Num[np.ndarray, "count count"]) -> Int64[np.ndarray, " count"]:
    """Return the index of each row's only non-zero entry, by the orthogonality of characters."""
    return np.asarray(overlaps.real.argmax(axis=1))
