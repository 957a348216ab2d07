"""What public functions take, checked by their annotations: a wrong type is named at the door, not from inside.

A package's face (``attach``) hands its functions out with the check; inside the package they are called without it.
"""

import functools
import inspect
import numbers
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NoReturn, TypeVar

import numpy as np

from elegans.errors import ArgumentError, ElegansError, article, shown

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)
Check = Callable[[str, Any], Any]
"""From an argument's name and value to the value that the function is given."""


class Types:
    """The check of an annotation; a subclass may ask more of numbers, arrays and records than their type.

    Args:
        function: the name of the function, for messages.
    """

    refusal: type[ElegansError] = ArgumentError
    text_of: Callable[[object], str] = repr

    def __init__(self, function: str) -> None:
        self.function = function

    def check(self, annotation: Any, marks: Sequence[Any] = ()) -> Check:
        """Return the check of an annotation, with the marks that ``Annotated`` gives it."""
        origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is Annotated:
            return self.check(parts[0], parts[1:])
        if origin is not None:
            return self._composed(origin, parts, marks)
        if annotation in (Any, object) or isinstance(annotation, str | TypeVar):
            return self.anything(marks)
        if hasattr(annotation, "dim_str"):  # what jaxtyping makes of shapes
            return self.array(marks)
        plain = {int: self.whole, float: self.real}
        return plain[annotation](marks) if annotation in plain else functools.partial(self._object, annotation)

    def anything(self, marks: Sequence[Any]) -> Check:
        """Return the check of what has no annotation but ``Any``."""
        return lambda name, value: value

    def array(self, marks: Sequence[Any]) -> Check:
        """Return the check of an array."""

        def check(name: str, value: Any) -> Any:
            try:
                entries = np.asarray(value)
                numeric = entries.astype(float) if entries.dtype == object else entries
            except (ValueError, TypeError, OverflowError):
                self.refuse(f"{name} must be an array of numbers", name, value)
            if value is None or numeric.dtype.kind not in "biufc":
                self.refuse(f"{name} must be an array of numbers", name, value)
            return value

        return check

    def whole(self, marks: Sequence[Any]) -> Check:
        """Return the check of a whole number."""

        def check(name: str, value: Any) -> Any:
            plain = scalar(value)
            if isinstance(plain, bool) or not isinstance(plain, numbers.Integral):
                self.refuse(f"{name} must be a whole number", name, value)
            return value

        return check

    def real(self, marks: Sequence[Any]) -> Check:
        """Return the check of a number."""

        def check(name: str, value: Any) -> Any:
            plain = scalar(value)
            if isinstance(plain, bool) or not isinstance(plain, numbers.Real):
                self.refuse(f"{name} must be a number", name, value)
            return value

        return check

    def word(self, allowed: Sequence[Any]) -> Check:
        """Return the check of one of several words: its type; the function refuses others."""
        return functools.partial(self._object, type(allowed[0]))

    def member(self, kind: Any, marks: Sequence[Any]) -> Check:
        """Return the check of a list's members: those of numbers are the function's own."""
        return self.check(kind, marks) if kind not in (int, float, str) else self.anything(marks)

    def record(self, name: str, value: Any) -> None:
        """Refuse an object of the right class for what it holds."""

    def iterator(self, name: str, value: Iterator[Any]) -> Any:
        """Return what the function is given for an iterator, which can be read once: the iterator itself."""
        return value

    def union(self, parts: Sequence[Any], marks: Sequence[Any]) -> Check:
        """Return the check of what may be one of several kinds."""
        checks = [self.check(part, marks) for part in parts if part is not type(None)]

        def check(name: str, value: Any) -> Any:
            if value is None and type(None) in parts:
                return None
            if len(checks) == 1:
                return checks[0](name, value)
            for one in checks:
                try:
                    return one(name, value)
                except self.refusal:
                    continue
            return self.refuse(f"{name} must be {described(parts)}", name, value)

        return check

    def refuse(self, rule: str, name: str, value: Any) -> NoReturn:
        """Raise the error of this check."""
        raise self.refusal(f"{rule}: {name}={shown(value, self.text_of)}")

    def _composed(self, origin: Any, parts: Sequence[Any], marks: Sequence[Any]) -> Check:
        """Return the check of an annotation that has parts."""
        if origin in (typing.Union, types.UnionType):
            return self.union(parts, marks)
        if origin is typing.Literal:
            return self.word(parts)
        if origin is Callable:
            return self._callable
        if origin is tuple and parts[-1] is not Ellipsis:
            return functools.partial(self._tuple, [self.check(part) for part in parts])
        if issubclass(origin, Mapping):
            return functools.partial(self._object, Mapping)
        return functools.partial(self._list, parts[0], self.member(parts[0], marks))

    def _object(self, kind: type, name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            if kind in (str, int, bool, Mapping):
                self.refuse(f"{name} must be {described([kind])}", name, value)
            of = "" if name == kind.__name__.lower() else f" as {name}"
            raise self.refusal(f"{self.function} takes {article(kind.__name__)}{of}: got {_named(value)}")
        self.record(name, value)
        return value

    def _callable(self, name: str, value: Any) -> Any:
        if not callable(value):
            self.refuse(f"{name} must be a function", name, value)
        return value

    def _tuple(self, checks: Sequence[Check], name: str, value: Any) -> Any:
        if not isinstance(value, Sequence) or len(value) != len(checks):
            self.refuse(f"{name} must have {len(checks)} entries", name, value)
        for check, member in zip(checks, value, strict=True):
            check(name, member)
        return value

    def _list(self, kind: Any, check: Check, name: str, value: Any) -> Any:
        """Return a list, set or array whose every member passes, or what ``iterator`` makes of an iterator."""
        if isinstance(value, Iterator):
            return self.iterator(name, value)
        listed = isinstance(value, Iterable) and hasattr(value, "__len__") and getattr(value, "ndim", 1) == 1
        if isinstance(value, str | bytes | Mapping) or not listed:
            self.refuse(f"{name} must be a list of {described([kind], several=True)}", name, value)
        alike = isinstance(value, range) or hasattr(value, "dtype")
        for member in value[:1] if alike else value:
            check(name, member)
        return value


def checked(function: Function, kind: Callable[[str], Types] = Types) -> Function:
    """Return a function that refuses arguments of other types than its annotations state, before it does anything.

    Raises:
        ArgumentError: an argument is of another type.
    """

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        bound = bind(function, kind, given, named)
        return function(*bound.args, **bound.kwargs)

    return typing.cast(Function, call)


def methods_checked(kind: Class) -> Class:
    """Return a class whose public methods and whose making refuse arguments of other types than they state."""
    for name, method in list(vars(kind).items()):
        if isinstance(method, types.FunctionType) and (name == "__init__" or not name.startswith("_")):
            setattr(kind, name, checked(method))
    return kind


def bind(
    function: Callable[..., Any], kind: Callable[[str], Types], given: Sequence[Any], named: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Return the arguments of a call by name, each checked.

    Raises:
        TypeError: an argument is missing, unknown or given twice, as Python has it.
    """
    signature, checks = _checks(function, kind)
    try:
        bound = signature.bind(*given, **named)
    except TypeError as error:
        raise TypeError(f"{function.__name__}: {error}") from None
    for name, value in bound.arguments.items():
        if name in checks:
            bound.arguments[name] = checks[name](name, value)
    return bound


@functools.cache
def _checks(function: Callable[..., Any], kind: Callable[[str], Types]) -> tuple[inspect.Signature, dict[str, Check]]:
    """Return a function's signature and the check of each of its arguments that has an annotation."""
    signature, maker = inspect.signature(function), kind(function.__qualname__.removesuffix(".__init__"))
    hints = _hints(function)
    return signature, {
        name: maker.union((hints[name], type(None)), ()) if one.default is None else maker.check(hints[name])
        for name, one in signature.parameters.items()
        if name in hints and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a function's annotations, without those that only type checkers can evaluate."""
    found = {}
    for name, hint in function.__annotations__.items():
        try:
            found[name] = eval(hint, function.__globals__) if isinstance(hint, str) else hint
        except (NameError, TypeError):
            continue
    return found


def scalar(value: Any) -> Any:
    """Return the Python number of an array that holds one, or the value itself."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def described(kinds: Sequence[Any], several: bool = False) -> str:
    """Return types in words: ``a text, a path or a Store``."""
    one = {int: "a whole number", float: "a number", str: "a text", bool: "True or False", Mapping: "a dictionary"}
    many = {int: "whole numbers", float: "numbers", str: "texts", Any: "values"}
    words = []
    for kind in kinds:
        name = getattr(kind, "__name__", "") or "value"
        if several:
            words.append(many.get(kind, f"{name.lower()}s"))
        elif kind is not type(None):
            words.append(one.get(typing.get_origin(kind) or kind, article(name)))
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _named(value: Any) -> str:
    """Return what a value of the wrong type is: its type, with the value where that is short."""
    name = article(type(value).__name__)
    return f"{name}: {shown(value)}" if isinstance(value, str | int | float) else name
