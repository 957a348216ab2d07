from .base import Group as Group, Irrep as Irrep
from .cyclic import Cyclic as Cyclic, Dihedral as Dihedral, ElementaryAbelian as ElementaryAbelian
from .permutations import Alternating as Alternating, Symmetric as Symmetric
from .products import DirectProduct as DirectProduct
from .tables import TableGroup as TableGroup
