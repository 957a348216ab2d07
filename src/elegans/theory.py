"""What is proved about the studies' tasks: closed forms, bounds and constructions, all under one name.

Every function names its theorem, its formula and its domain; arguments outside a theorem's hypotheses raise
``TheoryError``. Probabilities, correlations and constructions are exact fractions. Each lives in its study's ``theory``
folder or, where several studies use it, in ``elegans.boolean``; ``catalogue()`` lists them all.

Where a printed statement errs, the corrected one is the default and the printed one has a name, ``form="printed"``; the
docstring says how they differ.
"""

from typing import Any

from elegans import discovery
from elegans.calculators.catalogue import Calculator, catalogue

__all__ = ["Calculator", "catalogue", *discovery.calculator_homes()]


def __getattr__(name: str) -> Any:
    if name not in discovery.calculator_homes():
        raise AttributeError(f"module 'elegans.theory' has no attribute {name!r}")
    value = globals()[name] = discovery.load(discovery.calculator_homes()[name], name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
