"""Checks of public functions' arguments against their annotations: a wrong type is reported at the call itself.

A package's face (``attach``) exports its functions with these checks; inside the package they are called without them.
"""

import functools
import inspect
import itertools
import numbers
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from elegans.errors import ArgumentError, ElegansError, article, shown
from elegans.lengths import ENTRIES, too_long

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)
Check = Callable[[str, Any], Any]
"""Takes an argument's name and value; returns the value passed to the function."""


class AtMost(NamedTuple):
    """Bounds a whole number in an annotation: ``n: Annotated[int, AtMost(10_000)]``.

    Args:
        limit: the largest value that can be computed in a few seconds and gigabytes.
        least: the smallest value; None where the function checks it itself.
    """

    limit: int
    least: int | None = None


FAILURES = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""What functions raise for numbers and tables that they were not made for."""
Seed = Annotated[int, AtMost(2**64 - 1, least=0)]
"""The seed of a random number generator."""


class Types:
    """Makes checks from annotations; subclasses may check more of numbers, arrays and records than their type.

    Args:
        function: the name of the function, for messages.
    """

    refusal: type[ElegansError] = ArgumentError
    text_of: Callable[[object], str] = repr
    longest = ENTRIES
    """Maximum number of entries of a list."""
    read = 10**6
    """Maximum number of entries read from an iterator, which may be endless."""
    lazily = True
    """Whether an iterator given for an iterable is passed on as an iterator, instead of being read in full."""

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
        if hasattr(annotation, "dim_str"):  # jaxtyping's annotations of arrays
            return self.array(marks, annotation)
        plain = {int: self.whole, float: self.real}
        return plain[annotation](marks) if annotation in plain else functools.partial(self._object, annotation)

    def anything(self, marks: Sequence[Any]) -> Check:
        """Return the check of an argument of any type."""
        return lambda name, value: value

    def array(self, marks: Sequence[Any], annotation: Any = None) -> Check:
        """Return the check of an array with the axes of jaxtyping's annotation; the function receives an array."""

        def check(name: str, value: Any) -> Any:
            self.whole_and_short(name, value, ENTRIES)
            try:
                entries = value if hasattr(value, "__array_namespace__") else np.asarray(value)
                numeric = entries.astype(float) if entries.dtype == object else entries
            except (ValueError, TypeError, OverflowError, MemoryError):
                self.refuse(f"{name} must be an array of real numbers", name, value)
            if value is None or not (numeric.dtype.kind in "biuf" or numeric.dtype.name == "bfloat16"):
                self.refuse(f"{name} must be an array of real numbers", name, value)
            self.axes(annotation, name, numeric.ndim, value)
            return numeric

        return check

    def whole_and_short(self, name: str, value: Any, longest: int) -> None:
        """Refuse a list or an array with masked entries, or with too many."""
        if too_long(value, longest):
            self.refuse(f"{name} must have at most {longest} entries", name, value)
        if np.ma.is_masked(value):
            self.refuse(f"{name} must not be masked", name, value)

    def axes(self, annotation: Any, name: str, count: int, value: Any) -> None:
        """Refuse an array whose number of axes is not that of its annotation."""
        if annotation is None or count == (needed := len(annotation.dims)):
            return
        free = annotation.index_variadic is not None
        if not free or count < needed - 1:
            fewest = f"at least {needed - 1}" if free else str(needed)
            shape = f" ({annotation.dim_str})" if needed else ""
            self.refuse(f"{name} must have {fewest} {'axis' if fewest.endswith('1') else 'axes'}{shape}", name, value)

    def whole(self, marks: Sequence[Any]) -> Check:
        """Return the check of a whole number."""

        def check(name: str, value: Any) -> Any:
            plain = scalar(value)
            if isinstance(plain, bool) or not isinstance(plain, numbers.Integral):
                self.refuse(f"{name} must be a whole number", name, value)
            self.within(bound_of(marks), name, int(plain))
            return value

        return check

    def within(self, bound: AtMost | None, name: str, value: int) -> None:
        """Refuse a whole number that is out of bounds."""
        if bound is not None and abs(value) > bound.limit:
            self.refuse(f"{name} must be at most {shown(bound.limit)}", name, value)
        if bound is not None and bound.least is not None and value < bound.least:
            self.refuse(f"{name} must be at least {bound.least}", name, value)

    def real(self, marks: Sequence[Any]) -> Check:
        """Return the check of a number."""

        def check(name: str, value: Any) -> Any:
            plain = scalar(value)
            if isinstance(plain, bool) or not isinstance(plain, numbers.Real):
                self.refuse(f"{name} must be a number", name, value)
            try:
                as_float = float(plain)
            except OverflowError:
                self.refuse(f"{name} must be at most 1.8e308", name, value)
            return value if isinstance(plain, int | float) else as_float

        return check

    def word(self, allowed: Sequence[Any]) -> Check:
        """Return the check of a ``Literal``: only the type, since the function itself refuses other words."""
        return functools.partial(self._object, type(allowed[0]))

    def record(self, name: str, value: Any) -> None:
        """Refuse an object of the right class whose contents are unsuitable."""

    def union(self, parts: Sequence[Any], marks: Sequence[Any]) -> Check:
        """Return the check of a union of types."""
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
        """Return the check of an annotation with parameters."""
        if origin in (typing.Union, types.UnionType):
            return self.union(parts, marks)
        if origin is typing.Literal:
            return self.word(parts)
        if origin is Callable:
            return functools.partial(self._callable, parts[0])
        if origin is tuple and parts[-1] is not Ellipsis:
            return functools.partial(self._tuple, [self.check(part) for part in parts])
        if issubclass(origin, Mapping):
            return functools.partial(self._mapping, [self.check(part) for part in parts])
        lazily = self.lazily and not issubclass(origin, Sequence)
        return functools.partial(self._list, parts[0], self.check(parts[0], marks), lazily)

    def _object(self, kind: Any, name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            if kind in (str, int, bool, Mapping):
                self.refuse(f"{name} must be {described([kind])}", name, value)
            of = "" if name == kind.__name__.lower() else f" as {name}"
            raise self.refusal(f"{self.function} takes {article(kind.__name__)}{of}: got {_named(value)}")
        if kind is str and any("\ud800" <= sign <= "\udfff" for sign in value):
            self.refuse(f"{name} must be a string that UTF-8 can encode", name, value)
        self.record(name, value)
        return value

    def _callable(self, takes: Any, name: str, value: Any) -> Any:
        if not callable(value) or isinstance(value, type):
            self.refuse(f"{name} must be a function", name, value)
        try:
            signature = inspect.signature(value)
        except (ValueError, TypeError):  # a builtin without a signature
            return value
        if isinstance(takes, list):
            try:
                signature.bind(*takes)
            except TypeError:
                several = f"{len(takes)} argument{'s' * (len(takes) != 1)}"
                self.refuse(f"{name} must be a function of {several}", name, value)
        return value

    def _mapping(self, checks: Sequence[Check], name: str, value: Any) -> Any:
        self._object(Mapping, name, value)
        keys, values = checks
        for key, member in value.items():
            keys(f"a key of {name}", key)
            values(f"{name}[{shown(key)}]", member)
        return value

    def _tuple(self, checks: Sequence[Check], name: str, value: Any) -> Any:
        if not isinstance(value, Sequence) or len(value) != len(checks):
            self.refuse(f"{name} must have {len(checks)} entries", name, value)
        for check, member in zip(checks, value, strict=True):
            check(name, member)
        return value

    def _list(self, kind: Any, check: Check, lazily: bool, name: str, value: Any) -> Any:
        """Return a list, set or array whose members all pass; an iterator is checked as it is read."""
        if isinstance(value, Iterator):
            members = self._checked(check, name, value)
            return members if lazily else tuple(members)
        listed = isinstance(value, Iterable) and hasattr(value, "__len__") and getattr(value, "ndim", 1) == 1
        if isinstance(value, str | bytes | Mapping) or not listed:
            self.refuse(f"{name} must be a list of {described([kind], several=True)}", name, value)
        self.whole_and_short(name, value, self.longest)
        for member in self.members(kind, value):
            check(name, member)
        return value

    def members(self, kind: Any, value: Any) -> Iterable[Any]:
        """Return the members of a list that need a check: one is enough where all have the same type."""
        numbers = getattr(getattr(value, "dtype", None), "kind", "")
        alike = isinstance(value, range) or numbers in ("i", "u") or (numbers == "f" and kind is float)
        return np.asarray(value[:1]) if numbers and alike else value[:1] if alike else value

    def _checked(self, check: Check, name: str, value: Iterator[Any]) -> Iterator[Any]:
        for member in itertools.islice(value, self.read):
            yield check(name, member)
        if next(value, value) is not value:
            self.refuse(f"an iterator must have at most {self.read} entries", name, value)


def checked(function: Function, refusal: type[ElegansError] | None = None) -> Function:
    """Return a function that first checks its arguments' types against its annotations.

    Args:
        function: the function.
        refusal: the error to raise where arguments of the right types cannot be computed with; None for functions that
            run user code, which raises its own errors.

    Raises:
        ArgumentError: an argument has the wrong type.
    """

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        bound = bind(function, Types, given, named)
        if refusal is None:
            return function(*bound.args, **bound.kwargs)
        return answer(function, bound, refusal)

    return typing.cast(Function, call)


def answer(function: Callable[..., Any], bound: inspect.BoundArguments, refusal: type[ElegansError]) -> Any:
    """Return the value of a function that runs no user code; its failures are reported as refusals of its arguments."""
    try:
        return function(*bound.args, **bound.kwargs)
    except ElegansError:
        raise
    except (Warning, *FAILURES) as error:
        reason = shown(" ".join(str(error).split()) or type(error).__name__, str)
        quoted = ", ".join(f"{name}={shown(value)}" for name, value in bound.arguments.items())
        raise refusal(f"{function.__name__} has no value here: {reason}: {quoted}") from error


def methods_checked(refusal: type[ElegansError] | None = None, *, making: bool = True) -> Callable[[Class], Class]:
    """Return a decorator that makes a class's public methods check the types of their arguments.

    Args:
        refusal: the error to raise where arguments of the right types cannot be computed with, as in ``checked``.
        making: whether the constructor's arguments are checked too.
    """

    def decorate(kind: Class) -> Class:
        for name, method in list(vars(kind).items()):
            public = not name.startswith("_") or (making and name == "__init__")
            if isinstance(method, types.FunctionType) and public:
                setattr(kind, name, checked(method, refusal))
        return kind

    return decorate


def bind(
    function: Callable[..., Any], kind: Callable[[str], Types], given: Sequence[Any], named: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Return the arguments of a call by name, each checked.

    Raises:
        TypeError: an argument is missing, unknown or given twice, as in any call.
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
    """Return a function's signature and the check of each annotated argument."""
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


def bound_of(marks: Sequence[Any]) -> AtMost | None:
    """Return the bound among an annotation's marks, or None."""
    return next((mark for mark in marks if isinstance(mark, AtMost)), None)


def scalar(value: Any) -> Any:
    """Return the Python number of an array that holds one, or the value itself: an entry that is masked has none."""
    plain = hasattr(value, "item") and getattr(value, "shape", None) == () and not hasattr(value, "mask")
    return value.item() if plain else value


def described(kinds: Sequence[Any], several: bool = False) -> str:
    """Return types in words: ``a string, a Path or a Store``."""
    one = {int: "a whole number", float: "a number", str: "a string", bool: "True or False", Mapping: "a dictionary"}
    many = {int: "whole numbers", float: "numbers", str: "strings", Any: "values"}
    words = []
    for kind in kinds:
        name = getattr(kind, "__name__", "") or "value"
        if several:
            words.append(many.get(kind, f"{name.lower().removesuffix('s')}s"))
        elif typing.get_origin(kind) in (Iterable, Sequence):
            words.append(f"a list of {described(typing.get_args(kind), several=True)}")
        elif kind is not type(None):
            words.append(one.get(typing.get_origin(kind) or kind, article(name)))
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _named(value: Any) -> str:
    """Return the type of a wrong value, with the value itself where it is short."""
    name = article(type(value).__name__)
    return f"{name}: {shown(value)}" if isinstance(value, str | int | float) else name
