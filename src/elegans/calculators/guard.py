"""The checks of every calculator of ``elegans.theory``: arguments have the stated types, are finite and bounded.

The types are read from a function's annotations, so no calculator repeats them. ``domain.AtMost`` in an annotation
bounds a whole number with which the time or memory of a computation grows; ``LARGEST`` bounds all others.
"""

import functools
import itertools
import math
import numbers
import typing
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from types import NoneType
from typing import Any, TypeVar

import numpy as np

from elegans.arguments import ENTRIES, Check, Types, checked, scalar, widened
from elegans.calculators.domain import AtMost, WithInfinity
from elegans.errors import TheoryError

LARGEST = AtMost(2**1000)
"""The default bound of whole numbers, whose size a float can represent."""
FAR = 10**60
"""If an argument is above this or below its reciprocal, an infinite result is an overflow and not a value."""
DIGITS = 1100
"""Maximum number of binary digits of a fraction's terms: the smallest float needs 1074."""

Function = TypeVar("Function", bound=Callable[..., Any])


def guarded(function: Function) -> Function:
    """Return a calculator that refuses unsuitable arguments before it computes anything.

    Raises:
        TheoryError: an argument has the wrong type, is not a number, infinite or too large; or the formula has no value
            there, or none that this machine can compute. A value is infinite only where its annotation says so.
    """

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            value = function(*given, **named)
        parts = _floats(value, function.__annotations__.get("return"))
        if isinstance(value, float) and math.isnan(value):  # a neuron without weights has a share that is NaN
            raise ArithmeticError("the result is not a number")
        infinite = [hint for hint, part in parts if isinstance(part, float) and math.isinf(part)]
        if not all(WithInfinity in getattr(hint, "__metadata__", ()) for hint in infinite) or (
            infinite and _extreme([*given, *named.values()])
        ):
            raise ArithmeticError("the result is infinite")
        return value

    return checked(typing.cast(Function, call), TheoryError, Numbers())


class Numbers(Types):
    """The checks of a calculator's arguments: numbers become Python's, arrays hold the widest type of their kind."""

    refusal = TheoryError
    text_of = staticmethod(str)
    bound = LARGEST
    longest = 10**5
    lazily = False

    def check(self, hint: Any, marks: Sequence[Any] = ()) -> Check:
        if hint is np.ndarray:
            return partial(self._anything, marks)
        kinds = typing.get_args(hint)
        if Fraction in kinds and int in kinds:
            return partial(self._exact, NoneType in kinds)
        return super().check(hint, marks)

    def _anything(self, marks: Sequence[Any], name: str, value: Any) -> Any:
        return self._array(marks, None, name, value)

    def _array(self, marks: Sequence[Any], hint: Any, name: str, value: Any) -> Any:
        array = super()._array(marks, hint, name, value)
        suitable = ~np.isnan(array) if WithInfinity in marks else np.isfinite(array)
        if not suitable.all():
            self.refuse("must be finite", name, array[~suitable][0].item())
        of_objects = hasattr(value, "dtype") and value.dtype.kind == "O"  # results would be objects too
        return widened(array if of_objects else value, "biuf")

    def _real(self, marks: Sequence[Any], name: str, value: Any) -> Any:
        super()._real(marks, name, value)
        plain = scalar(value)
        size = float(plain)
        finite = math.isfinite(size) or (WithInfinity in marks and not math.isnan(size))
        self.need(finite, "must be finite", name, value)
        return plain if isinstance(plain, int | float | Fraction) else size  # other libraries have other numbers

    def _exact(self, optional: bool, name: str, value: Any) -> Any:
        if value is None and optional:
            return None
        value = self._real((), name, value)
        terms = (value.numerator, value.denominator) if isinstance(value, numbers.Rational) else ()
        if any(int(term).bit_length() > DIGITS for term in terms):
            self.refuse(f"must have terms below 2^{DIGITS}", name, value)
        return value

    def _word(self, allowed: Sequence[Any], name: str, value: Any) -> Any:
        known = isinstance(value, str | int) and value in allowed
        self.need(known, f"must be one of {', '.join(map(str, allowed))}", name, value)
        return value

    def _object(self, kind: Any, name: str, value: Any) -> Any:
        """Refuse a record with fields of other kinds than its annotations state, or that are not finite."""
        super()._object(kind, name, value)
        self.need(_entries(value) <= ENTRIES, f"must have at most {ENTRIES} entries", name, value)
        for field, hint in _fields(value).items():
            self.check(hint)(f"{name}.{field}", getattr(value, field))
        return value


def _extreme(values: Iterable[Any]) -> bool:
    """Return whether a number is so large or small that a product of a few exceeds the range of floats."""
    sizes: list[Any] = [abs(value) for value in values if isinstance(value, int | float | Fraction) and value]
    return any(math.isfinite(size) and not 1 / FAR < size < FAR for size in sizes)


def _floats(value: Any, hint: Any) -> list[tuple[Any, Any]]:
    """Return a number, or the numbers and arrays among a record's fields or a tuple's members, with annotations."""
    if type(value) is tuple:
        hints = [part for part in typing.get_args(hint) if part is not Ellipsis] or [None]
        parts = list(zip(itertools.chain(hints, itertools.repeat(hints[-1])), value, strict=False))
    else:
        parts = [(part, getattr(value, name)) for name, part in _fields(value).items()] or [(hint, value)]
    return [(part, number) for part, number in parts if isinstance(number, float) or _holds_floats(number)]


def _holds_floats(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "f"


def _entries(value: Any) -> int:
    """Return how many numbers a record holds."""
    inner = value if type(value) is tuple else [getattr(value, name) for name in _fields(value)]
    return sum(map(_entries, inner)) if len(inner) else int(getattr(value, "size", 1) or 1)


def _fields(value: Any) -> dict[str, Any]:
    """Return the annotations of a record's fields; of any other value, none."""
    names = [*getattr(value, "__dataclass_fields__", getattr(value, "_fields", ()) if isinstance(value, tuple) else ())]
    hints = typing.get_type_hints(type(value), include_extras=True) if names else {}
    return {name: hints[name] for name in names}
