"""Arithmetic modulo p other than addition: predict the result of an operation on two one-hot numbers.

Source: Power, Burda, Edwards, Babuschkin and Misra, "Grokking: generalization beyond overfitting on small algorithmic
datasets" (2022), whose operations modulo 97 these are.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

import numpy as np
from jaxtyping import Int32
from pydantic import Field, model_validator

from elegans.tasks.arrays import Indices
from elegans.tasks.groups import LARGEST_MODULUS
from elegans.tasks.pairs import PairTask

Operation = Literal["x-y", "x*y", "x/y", "x^2+y^2", "x^2+xy+y^2", "x^2+xy+y^2+x", "x^3+xy", "x^3+xy^2+y"]
POLYNOMIALS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "x-y": lambda x, y, p: x + p - y,
    "x*y": lambda x, y, p: x * y,
    "x^2+y^2": lambda x, y, p: x * x % p + y * y % p,
    "x^2+xy+y^2": lambda x, y, p: x * (x + y) % p + y * y % p,
    "x^2+xy+y^2+x": lambda x, y, p: x * (x + y) % p + y * y % p + x,
    "x^3+xy": lambda x, y, p: x * ((x * x + y) % p),
    "x^3+xy^2+y": lambda x, y, p: x * ((x * x % p + y * y) % p) % p + y,
}
"""Each operation but division, of residues as 32-bit numbers, before a last reduction modulo p."""


class ModularArithmetic(PairTask):
    """An operation modulo p: the class of the pair (x, y) is its result.

    Pairs are uniform; (x, y) is member x p + y of the population. ``x/y`` has a prime p and no y = 0: there (x, y) is
    member x (p - 1) + y - 1.

    Args:
        p: the modulus, from 3 to 32767.
        operation: one of the formulas above; addition is the task ``ModularAddition``.
    """

    p: Annotated[int, Field(ge=3, le=LARGEST_MODULUS)]
    operation: Operation

    @model_validator(mode="before")
    @classmethod
    def _is_not_addition(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and fields.get("operation") == "x+y":
            operations = ", ".join(get_args(Operation))
            raise ValueError(f"operation must be one of {operations} (addition is modular-addition): 'x+y'")
        return fields

    @model_validator(mode="after")
    def _divides_by_units(self) -> "ModularArithmetic":
        if self.operation == "x/y" and any(self.p % k == 0 for k in range(2, int(self.p**0.5) + 1)):
            raise ValueError(f"p must be prime for division: p={self.p}")
        return self

    def label(self) -> str:
        return f"{self.operation} mod {self.p}"

    @property
    def order(self) -> int:
        return self.p

    @property
    def population(self) -> int:
        return self.p * (self.p - (self.operation == "x/y"))

    def pairs(self, index: Indices) -> Indices:
        """Return the numbers x p + y of the members of the population."""
        return index if self.operation != "x/y" else index + index // np.uint32(self.p - 1) + np.uint32(1)

    def results(self, pairs: Indices) -> Int32[Any, " count"]:
        """Return the results modulo p; x/y with y = 0, which is not an input, gives 0."""
        p = np.uint32(self.p)
        x, y = pairs // p, pairs % p
        if self.operation == "x/y":
            inverses = np.array([0, *(pow(number, -1, self.p) for number in range(1, self.p))], np.uint32)
            result = x * pairs.__array_namespace__().asarray(inverses)[y]
        else:
            result = POLYNOMIALS[self.operation](x, y, p)
        return (result % p).astype(np.int32)
