"""Closed forms, bounds and constructions proved about the studies' tasks.

Every function states its theorem, formula and domain; arguments that violate a theorem's hypotheses, are not finite or
are too large to compute with raise ``TheoryError``. Probabilities, correlations and constructions are exact fractions.
Each function is defined in its study's ``theory`` folder or, if several studies use it, in ``elegans.boolean``;
``catalogue()`` lists them all.

Where a printed statement is wrong, the corrected one is the default and the printed one is ``form="printed"``; the
docstring states the difference.
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
        from elegans.calculators.guard import guarded  # here, because the catalogue is listed without NumPy

        value = guarded(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
