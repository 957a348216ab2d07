"""What is proved about learning small tasks, sparse parities first: closed forms, bounds and constructions.

Every function names its theorem, its formula and its domain; arguments outside a theorem's hypotheses raise
``TheoryError``. Probabilities, correlations and constructions are exact fractions. ``catalogue()`` lists them all.

Source of all that names no other: Edelman, Goel, Kakade, Malach and Zhang, "Pareto Frontiers in Deep Feature Learning:
Data, Compute, Width, and Luck" (NeurIPS 2023), called *Pareto frontiers* here. Where a printed statement errs,
the corrected one is the default and the printed one has a name, ``form="printed"``; the docstring says how they differ.
"""

import sys

from elegans.theory import attention, biased, chains, margins, progress, sparse, xor
from elegans.theory.attention import *  # noqa: F403
from elegans.theory.biased import *  # noqa: F403
from elegans.theory.catalogue import Calculator, entries
from elegans.theory.chains import *  # noqa: F403
from elegans.theory.margins import *  # noqa: F403
from elegans.theory.progress import *  # noqa: F403
from elegans.theory.sparse import *  # noqa: F403
from elegans.theory.xor import *  # noqa: F403

__all__ = ["Calculator", "catalogue"]
__all__ += attention.__all__
__all__ += biased.__all__
__all__ += chains.__all__
__all__ += margins.__all__
__all__ += progress.__all__
__all__ += sparse.__all__
__all__ += xor.__all__


def catalogue() -> list[Calculator]:
    """Return every calculator with its formula and its source, by name."""
    return entries(sys.modules[__name__])
