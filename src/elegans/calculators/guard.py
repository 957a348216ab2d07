"""What every calculator of ``elegans.theory`` is held to: arguments of the types that it states, finite and bounded.

The types are read from a function's annotations, so no calculator repeats them. ``domain.AtMost`` in an annotation
bounds a whole number that the time or memory of a computation grows with; all others end at ``LARGEST``.
"""

import dataclasses
import functools
import itertools
import math
import numbers
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from elegans.arguments import Check, Types, bind, scalar
from elegans.calculators.domain import AtMost, WithInfinity
from elegans.errors import ElegansError, TheoryError, shown

LARGEST = AtMost(2**1000)
"""The bound of whole numbers that have none of their own: a float holds its size."""
DIGITS = 1100
"""How many binary digits the terms of a fraction may have: the smallest float needs 1074."""
ENTRIES = 10**7
"""The largest number of entries of an array or a list."""

Function = TypeVar("Function", bound=Callable[..., Any])


def guarded(function: Function) -> Function:
    """Return a calculator that refuses what it is not defined for, before it computes anything.

    Raises:
        TheoryError: an argument is of another type, not a number, infinite or too large; or the formula has no value
            there, or none that this machine can compute.
    """

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        bound = bind(function, Numbers, given, named)
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                value = function(*bound.args, **bound.kwargs)
        except ElegansError:
            raise
        except (ArithmeticError, ValueError, IndexError, TypeError, MemoryError, RecursionError, Warning) as error:
            reason = shown(" ".join(str(error).split()) or type(error).__name__, str)
            raise TheoryError(f"{function.__name__} has no value here: {reason}: {_quoted(bound.arguments)}") from error
        if isinstance(value, float) and math.isnan(value):
            raise TheoryError(f"{function.__name__} has no value here: {_quoted(bound.arguments)}")
        return value

    return typing.cast(Function, call)


class Numbers(Types):
    """The checks of a calculator's arguments."""

    refusal = TheoryError
    text_of = staticmethod(str)

    def anything(self, marks: Sequence[Any]) -> Check:
        return self.array(marks)

    def array(self, marks: Sequence[Any]) -> Check:
        return functools.partial(self._array, WithInfinity in marks)

    def whole(self, marks: Sequence[Any]) -> Check:
        return functools.partial(self._whole, next((mark for mark in marks if isinstance(mark, AtMost)), LARGEST))

    def real(self, marks: Sequence[Any]) -> Check:
        return functools.partial(self._real, WithInfinity in marks)

    def union(self, parts: Sequence[Any], marks: Sequence[Any]) -> Check:
        return self._exact if set(map(str, parts)) == _EXACT else super().union(parts, marks)

    def word(self, allowed: Sequence[Any]) -> Check:
        return functools.partial(self._word, allowed)

    def member(self, kind: Any, marks: Sequence[Any]) -> Check:
        return self.check(kind, marks)

    def iterator(self, name: str, value: Iterator[Any]) -> Any:
        listed = tuple(itertools.islice(value, ENTRIES + 1))
        if len(listed) > ENTRIES:
            self.refuse(f"{name} must have at most {ENTRIES} entries", name, value)
        return listed

    def record(self, name: str, value: Any) -> None:
        """Refuse a record of fields whose arrays hold what is not a number."""
        if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
            for field in getattr(value, "_fields", None) or [one.name for one in dataclasses.fields(value)]:
                inner = getattr(value, field)
                if isinstance(inner, np.ndarray | float):
                    self._array(True, f"{name}.{field}", inner)

    def _word(self, allowed: Sequence[Any], name: str, value: Any) -> Any:
        if not isinstance(value, str | int) or value not in allowed:
            self.refuse(f"{name} must be one of {', '.join(map(str, allowed))}", name, value)
        return value

    def _whole(self, bound: AtMost, name: str, value: Any) -> Any:
        plain = scalar(value)
        if isinstance(plain, bool) or not isinstance(plain, numbers.Real) or plain % 1:
            self.refuse(f"{name} must be a whole number", name, value)
        value = int(value)
        if abs(value) > bound.limit:
            self.refuse(f"{name} must be at most {shown(bound.limit)}", name, value)
        if bound.least is not None and value < bound.least:
            self.refuse(f"{name} must be at least {bound.least}", name, value)
        return value

    def _real(self, infinite: bool, name: str, value: Any) -> Any:
        value = scalar(value)
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            self.refuse(f"{name} must be a number", name, value)
        try:
            size = float(value)
        except OverflowError:
            self.refuse(f"{name} must be at most 1.8e308", name, value)
        if not (math.isfinite(size) or (infinite and not math.isnan(size))):
            self.refuse(f"{name} must be finite", name, value)
        return value

    def _exact(self, name: str, value: Any) -> Any:
        value = self._real(False, name, value)
        terms = (value.numerator, value.denominator) if isinstance(value, numbers.Rational) else ()
        if any(int(term).bit_length() > DIGITS for term in terms):
            self.refuse(f"the terms of {name} must be below 2^{DIGITS}", name, value)
        return value

    def _array(self, infinite: bool, name: str, value: Any) -> Any:
        """Return what holds numbers, refusing ragged lists, objects and values that are not finite."""
        if isinstance(value, Sequence) and (len(value) > ENTRIES or any(map(_endless, value))):
            self.refuse(f"{name} must have at most {ENTRIES} entries", name, value)
        try:
            entries = np.asarray(value)
            numeric = entries.astype(np.float64) if entries.dtype == object else entries
        except (ValueError, TypeError, OverflowError, MemoryError):
            self.refuse(f"{name} must be an array of numbers", name, value)
        if numeric.dtype.kind not in "biuf":
            self.refuse(f"{name} must be an array of real numbers", name, value)
        if entries.size > ENTRIES:
            self.refuse(f"{name} must have at most {ENTRIES} entries", name, value)
        bad = np.isnan(numeric) if infinite else ~np.isfinite(numeric)
        if bad.any():
            self.refuse(f"{name} must be finite", name, numeric[bad][0])
        return value


_EXACT = {str(kind) for kind in (int, float, Fraction)}


def _endless(member: Any) -> bool:
    return isinstance(member, range) and len(member) > ENTRIES


def _quoted(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in arguments.items())
