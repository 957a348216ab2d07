"""Finite groups and their representations: what the tasks on groups are made of, and what theory reads from them."""

from elegans.groups.base import Group, Irrep
from elegans.groups.cyclic import Cyclic, Dihedral, ElementaryAbelian
from elegans.groups.permutations import Alternating, Symmetric
from elegans.groups.products import DirectProduct
from elegans.groups.tables import TableGroup

__all__ = [
    "Alternating",
    "Cyclic",
    "Dihedral",
    "DirectProduct",
    "ElementaryAbelian",
    "Group",
    "Irrep",
    "Symmetric",
    "TableGroup",
]
