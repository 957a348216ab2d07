"""The checks of every calculator of ``elegans.theory``: arguments have the stated types, are finite and bounded.

The types are read from a function's annotations, so no calculator repeats them. ``domain.AtMost`` in an annotation
bounds a whole number with which the time or memory of a computation grows; ``LARGEST`` bounds all others.
"""

import dataclasses
import functools
import math
import numbers
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from elegans.arguments import Check, Types, answer, bind, bound_of, scalar
from elegans.calculators.domain import AtMost, WithInfinity
from elegans.errors import TheoryError, shown
from elegans.lengths import ENTRIES

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
        bound = bind(function, Numbers, given, named)
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            value = answer(function, bound, TheoryError)
        undefined = isinstance(value, float) and math.isnan(value)
        unbounded = not all(map(math.isfinite, _floats(value))) and _extreme(bound.arguments)
        if undefined or unbounded or _overflowed(function, value):
            quoted = ", ".join(f"{name}={shown(value)}" for name, value in bound.arguments.items())
            raise TheoryError(f"{function.__name__} has no value here: {quoted}")
        return value

    return typing.cast(Function, call)


class Numbers(Types):
    """The checks of a calculator's arguments."""

    refusal = TheoryError
    text_of = staticmethod(str)
    longest = read = 10**5
    lazily = False

    def anything(self, marks: Sequence[Any]) -> Check:
        return self.array(marks)

    def array(self, marks: Sequence[Any], annotation: Any = None) -> Check:
        return functools.partial(self._array, WithInfinity in marks, annotation)

    def whole(self, marks: Sequence[Any]) -> Check:
        return functools.partial(self._whole, bound_of(marks) or LARGEST)

    def real(self, marks: Sequence[Any]) -> Check:
        return functools.partial(self._real, WithInfinity in marks)

    def union(self, parts: Sequence[Any], marks: Sequence[Any]) -> Check:
        return self._exact if set(map(str, parts)) == _EXACT else super().union(parts, marks)

    def word(self, allowed: Sequence[Any]) -> Check:
        return functools.partial(self._word, allowed)

    def record(self, name: str, value: Any) -> None:
        """Refuse a record with fields of other kinds than its annotations state, or that are not finite."""
        if (entries := _entries(value)) > ENTRIES:
            self.refuse(f"{name} must have at most {ENTRIES} entries", "entries", entries)
        hints = typing.get_type_hints(type(value), include_extras=True) if _field_names(value) else {}
        for field in _field_names(value):
            self._inner(f"{name}.{field}", hints[field], getattr(value, field))

    def _inner(self, name: str, hint: Any, value: Any) -> None:
        """Check a field of a record."""
        infinite, parts = _marked(hint), typing.get_args(hint)
        hint = parts[0] if typing.get_origin(hint) is typing.Annotated else hint
        if typing.get_origin(hint) is tuple:
            if type(value) is not tuple:
                self.refuse(f"{name} must be a tuple", name, value)
            for one in value:
                self._inner(name, parts[0], one)
        elif hasattr(hint, "dim_str") or hint in (float, np.ndarray):
            self._array(infinite, hint if hasattr(hint, "dim_str") else None, name, value)
        elif isinstance(hint, type) and _has_fields(hint):
            self._object(hint, name, value)

    def members(self, kind: Any, value: Any) -> Iterable[Any]:
        """Return the members of a list to check: all of them, since any may break a bound, or the ends of a range."""
        return (*value[:1], *value[-1:]) if isinstance(value, range) else value

    def _list(self, kind: Any, check: Check, lazily: bool, name: str, value: Any) -> Any:
        """Return the members of a list or an array as Python's numbers: NumPy's overflow without a word."""
        value = super()._list(kind, check, lazily, name, value)
        if isinstance(value, np.ndarray):
            value = value.tolist()
        return type(value)(check(name, one) for one in value) if type(value) in (list, tuple) else value

    def _tuple(self, checks: Sequence[Check], name: str, value: Any) -> Any:
        value = super()._tuple(checks, name, value)
        return tuple(check(name, one) for check, one in zip(checks, value, strict=True))

    def _word(self, allowed: Sequence[Any], name: str, value: Any) -> Any:
        if not isinstance(value, str | int) or value not in allowed:
            self.refuse(f"{name} must be one of {', '.join(map(str, allowed))}", name, value)
        return value

    def _whole(self, bound: AtMost, name: str, value: Any) -> Any:
        plain = scalar(value)
        if isinstance(plain, bool) or not isinstance(plain, numbers.Real) or plain % 1:
            self.refuse(f"{name} must be a whole number", name, value)
        value = int(value)
        self.within(bound, name, value)
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

    def _array(self, infinite: bool, annotation: Any, name: str, value: Any) -> Any:
        """Return an array of numbers, refusing ragged lists, objects and values that are not finite."""
        self.whole_and_short(name, value, ENTRIES)
        try:
            entries = np.asarray(value)
            numeric = entries.astype(np.float64) if entries.dtype == object else entries
        except (ValueError, TypeError, OverflowError, MemoryError):
            self.refuse(f"{name} must be an array of numbers", name, value)
        if value is None or numeric.dtype.kind not in "biuf":
            self.refuse(f"{name} must be an array of real numbers", name, value)
        self.axes(annotation, name, numeric.ndim, value)
        bad = np.isnan(numeric) if infinite else ~np.isfinite(numeric)
        if bad.any():
            self.refuse(f"{name} must be finite", name, numeric[bad][0])
        return _widened(value)


_EXACT = {str(kind) for kind in (int, float, Fraction)}


def _widened(array: Any) -> Any:
    """Return an array of NumPy's widest type of its kind, in which negation and sums of small numbers are exact."""
    if not isinstance(array, np.ndarray | np.generic) or np.ma.isMaskedArray(array):
        return array
    wide = {"b": np.int64, "i": np.int64, "u": np.int64, "f": np.float64}.get(array.dtype.kind)
    if array.dtype == np.uint64 and array.size and array.max() >= 2**63:
        wide = np.float64
    return array if wide is None or array.dtype.itemsize > 8 else array.astype(wide)


def _extreme(arguments: Mapping[str, Any]) -> bool:
    """Return whether a number is so large or small that a product of a few exceeds the range of floats."""
    sizes: list[Any] = [
        abs(value) for value in arguments.values() if isinstance(value, int | float | Fraction) and value
    ]
    return any(math.isfinite(size) and not 1 / FAR < size < FAR for size in sizes)


def _overflowed(function: Callable[..., Any], value: Any) -> bool:
    """Return whether a number is infinite that is not marked so: Python's floats overflow without a word."""
    if isinstance(value, float):
        return math.isinf(value) and not _marked(function.__annotations__.get("return"))
    if type(value) is tuple:
        parts = typing.get_args(function.__annotations__.get("return")) or [None] * len(value)
        return any(
            isinstance(one, float) and math.isinf(one) and not _marked(part)
            for one, part in zip(value, parts, strict=False)
        )
    infinite = [
        name for name in _field_names(value) if isinstance(one := getattr(value, name), float) and math.isinf(one)
    ]
    return any(not _marked(type(value).__annotations__.get(name)) for name in infinite)


def _entries(value: Any) -> int:
    """Return how many numbers a record holds."""
    inner = value if type(value) is tuple else [getattr(value, name) for name in _field_names(value)]
    return sum(map(_entries, inner)) if len(inner) else int(getattr(value, "size", 1) or 1)


def _has_fields(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")


def _field_names(value: Any) -> Sequence[str]:
    """Return the names of the fields of a record, none of anything else."""
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return getattr(value, "_fields", ()) if isinstance(value, tuple) else ()


def _marked(annotation: Any) -> bool:
    return WithInfinity in getattr(annotation, "__metadata__", ())


def _floats(value: Any) -> list[float]:
    """Return a number, or the numbers among a record's fields, as floats."""
    fields = vars(value).values() if dataclasses.is_dataclass(value) else value if isinstance(value, tuple) else [value]
    return [one for one in fields if isinstance(one, float)]
