"""What every calculator of ``elegans.theory`` is held to: arguments of the kinds that it states, finite and bounded.

The kinds are read from a function's annotations, so no calculator repeats them. ``domain.AtMost`` in an annotation
bounds a whole number that the time or memory of a computation grows with; all others end at ``LARGEST``.
"""

import dataclasses
import functools
import inspect
import itertools
import math
import numbers
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, NoReturn, TypeVar

import numpy as np

from elegans.calculators.domain import AtMost, WithInfinity
from elegans.errors import ElegansError, TheoryError, article, shown

LARGEST = 2**1000
"""The largest size of a whole number."""
DIGITS = 1100
"""How many binary digits the terms of a fraction may have: the smallest float needs 1074."""
ENTRIES = 10**7
"""The largest number of entries of an array or a list."""

Function = TypeVar("Function", bound=Callable[..., Any])
Check = Callable[[str, Any], Any]
"""From an argument's name and value to the value that the function is given."""


def guarded(function: Function) -> Function:
    """Return a calculator that refuses what it is not defined for, before it computes anything.

    Raises:
        TheoryError: an argument is of another kind, not a number, infinite or too large; or the formula has no value
            there, or none that this machine can compute.
    """

    @functools.wraps(function)
    def checked(*given: Any, **named: Any) -> Any:
        signature, checks = _checks(function)
        try:
            bound = signature.bind(*given, **named)
        except TypeError as error:
            raise TypeError(f"{function.__name__}: {error}") from None
        for name, value in bound.arguments.items():
            bound.arguments[name] = checks[name](name, value)
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                value = function(*bound.args, **bound.kwargs)
        except ElegansError:
            raise
        except (ArithmeticError, ValueError, IndexError, MemoryError, RecursionError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise TheoryError(f"{function.__name__} has no value here: {reason}: {_quoted(bound.arguments)}") from error
        if isinstance(value, float) and math.isnan(value):
            raise TheoryError(f"{function.__name__} has no value here: {_quoted(bound.arguments)}")
        return value

    return typing.cast(Function, checked)


@functools.cache
def _checks(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Check]]:
    """Return a function's signature and the check of each of its arguments."""
    signature, hints = inspect.signature(function), typing.get_type_hints(function, include_extras=True)
    return signature, {
        name: _optional(_check(hints[name])) if one.default is None else _check(hints[name])
        for name, one in signature.parameters.items()
    }


def _check(annotation: Any, marks: Sequence[Any] = ()) -> Check:
    """Return the check of an annotation."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _check(parts[0], parts[1:])
    if origin is not None:
        return _composed(origin, parts, marks)
    if annotation is int:
        return functools.partial(_whole, next((mark.limit for mark in marks if isinstance(mark, AtMost)), LARGEST))
    if annotation is float:
        return functools.partial(_real, WithInfinity in marks)
    if annotation is Any or hasattr(annotation, "dtypes"):  # what jaxtyping makes of shapes
        return functools.partial(_array, WithInfinity in marks)
    return _bool if annotation is bool else functools.partial(_record, annotation)


def _composed(origin: Any, parts: Sequence[Any], marks: Sequence[Any]) -> Check:
    """Return the check of an annotation that has parts."""
    if origin in (typing.Union, types.UnionType):
        return _union(parts, marks)
    if origin is typing.Literal:
        return functools.partial(_word, parts)
    if origin is Callable:
        return _callable
    if origin is tuple and parts[-1] is not Ellipsis:
        return functools.partial(_tuple, [_check(part) for part in parts])
    return functools.partial(_sequence, _check(parts[0], marks))


def _union(parts: Sequence[Any], marks: Sequence[Any]) -> Check:
    """Return the check of what may be one of several kinds."""
    if set(parts) == {int, float, Fraction}:
        return _exact
    if type(None) in parts:
        rest = [part for part in parts if part is not type(None)]
        return _optional(_check(rest[0], marks) if len(rest) == 1 else _union(rest, marks))
    return functools.partial(_either, [_check(part, marks) for part in parts])


def _optional(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def _either(checks: Sequence[Check], name: str, value: Any) -> Any:
    """Return what the first check that does not refuse makes of a value."""
    refusal = None
    for check in checks:
        try:
            return check(name, value)
        except TheoryError as error:
            refusal = error
    assert refusal is not None
    raise refusal


def _word(allowed: Sequence[Any], name: str, value: Any) -> Any:
    if not isinstance(value, str | int) or value not in allowed:
        _refuse(f"{name} must be one of {', '.join(map(str, allowed))}", name, value)
    return value


def _scalar(value: Any) -> Any:
    """Return the Python number of an array that holds one, or the value itself."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def _whole(limit: int, name: str, value: Any) -> int:
    value = _scalar(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or value % 1:
        _refuse(f"{name} must be a whole number", name, value)
    if abs(value) > limit:
        _refuse(f"{name} must be at most {shown(limit)}", name, value)
    return int(value)


def _real(infinite: bool, name: str, value: Any) -> Any:
    value = _scalar(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        _refuse(f"{name} must be a number", name, value)
    try:
        size = float(value)
    except OverflowError:
        _refuse(f"{name} must be at most 1.8e308", name, value)
    if not (math.isfinite(size) or (infinite and not math.isnan(size))):
        _refuse(f"{name} must be finite", name, value)
    return value


def _exact(name: str, value: Any) -> Any:
    value = _real(False, name, value)
    terms = (value.numerator, value.denominator) if isinstance(value, numbers.Rational) else ()
    if any(int(term).bit_length() > DIGITS for term in terms):
        _refuse(f"the terms of {name} must be below 2^{DIGITS}", name, value)
    return value


def _bool(name: str, value: Any) -> bool:
    if not isinstance(_scalar(value), bool | int):
        _refuse(f"{name} must be True or False", name, value)
    return bool(value)


def _sequence(check: Check, name: str, value: Any) -> Any:
    """Return a sequence whose every member passes; an iterator, which can be read once, as a tuple."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        _refuse(f"{name} must be a list", name, value)
    if isinstance(value, Iterator):
        value = tuple(itertools.islice(value, ENTRIES + 1))
    if len(value) > ENTRIES:
        _refuse(f"{name} must have at most {ENTRIES} entries", name, value)
    for member in value:
        check(name, member)
    return value


def _tuple(checks: Sequence[Check], name: str, value: Any) -> Any:
    if not isinstance(value, Sequence) or len(value) != len(checks):
        _refuse(f"{name} must have {len(checks)} entries", name, value)
    for check, member in zip(checks, value, strict=True):
        check(name, member)
    return value


def _callable(name: str, value: Any) -> Any:
    if not callable(value):
        _refuse(f"{name} must be a function", name, value)
    return value


def _array(infinite: bool, name: str, value: Any) -> Any:
    """Return what holds numbers, refusing ragged lists, objects and values that are not finite."""
    if isinstance(value, Sequence) and (len(value) > ENTRIES or any(map(_endless, value))):
        _refuse(f"{name} must have at most {ENTRIES} entries", name, value)
    try:
        entries = np.asarray(value)
        numeric = entries.astype(np.complex128) if entries.dtype == object else entries
    except (ValueError, TypeError, OverflowError, MemoryError):
        _refuse(f"{name} must be an array of numbers", name, value)
    if numeric.dtype.kind not in "biufc":
        _refuse(f"{name} must be an array of numbers", name, value)
    if entries.size > ENTRIES:
        _refuse(f"{name} must have at most {ENTRIES} entries", name, value)
    bad = np.isnan(numeric) if infinite else ~np.isfinite(numeric)
    if bad.any():
        _refuse(f"{name} must be finite", name, numeric[bad][0])
    return value


def _endless(member: Any) -> bool:
    return isinstance(member, range) and len(member) > ENTRIES


def _record(kind: Any, name: str, value: Any) -> Any:
    """Return an object of a class; where that is a record of fields, its arrays must be finite."""
    if not isinstance(value, kind):
        _refuse(f"{name} must be {article(kind.__name__)}", name, value)
    if kind is str or not (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
        return value
    fields = getattr(value, "_fields", None) or [field.name for field in dataclasses.fields(value)]
    for field in fields:
        inner = getattr(value, field)
        if isinstance(inner, np.ndarray | float):
            _array(True, f"{name}.{field}", inner)
    return value


def _refuse(rule: str, name: str, value: Any) -> NoReturn:
    raise TheoryError(f"{rule}: {name}={shown(value, str)}")


def _quoted(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in arguments.items())
