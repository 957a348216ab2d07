"""What the largest margins of groups depend on: their characters."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from elegans.groups import Group


class CharacterTable(NamedTuple):
    """The characters of a finite group all of whose irreps are real.

    Args:
        order: the number of elements, |G|.
        sizes: the sizes of the conjugacy classes, the identity's first, shape (classes,).
        characters: a row for each irrep, the trivial one first, shape (irreps, classes).
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
    """Return a group's characters.

    Raises:
        GroupError: an irrep that is not real, by name.
    """
    names = tuple(irrep.name for irrep in group.real_irreps())
    return CharacterTable(group.order, group.class_sizes, group.characters, group.class_names, names)
