from .base import Group as Group
from .cyclic import Cyclic as Cyclic, Dihedral as Dihedral, ElementaryAbelian as ElementaryAbelian
from .irreps import Irrep as Irrep
from .permutations import Alternating as Alternating, Symmetric as Symmetric
from .products import DirectProduct as DirectProduct
from .tables import TableGroup as TableGroup
