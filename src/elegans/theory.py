"""What is proved about the studies' tasks: closed forms, bounds and constructions, all under one name.

Every function names its theorem, its formula and its domain; arguments outside a theorem's hypotheses, not finite, or
too large to be computed with raise ``TheoryError``. Probabilities, correlations and constructions are exact fractions.
Each lives in its study's ``theory`` folder or, where several studies use it, in ``elegans.boolean``; ``catalogue()``
lists them all.

Where a printed statement errs, the corrected one is the default and the printed one has a name, ``form="printed"``; the
docstring says how they differ.
"""

from types import FunctionType
from typing import Any

from elegans import discovery
from elegans.calculators.catalogue import Calculator, catalogue

__all__ = ["Calculator", "catalogue", *discovery.calculator_homes()]


def __getattr__(name: str) -> Any:
    if name not in discovery.calculator_homes():
        raise AttributeError(f"module 'elegans.theory' has no attribute {name!r}")
    value = discovery.load(discovery.calculator_homes()[name], name)
    if isinstance(value, FunctionType):
        from elegans.calculators.guard import guarded  # not before: the catalogue is listed without NumPy

        value = guarded(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
