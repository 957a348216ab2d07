"""Checks of public functions' arguments against their annotations: a wrong type is reported at the call itself.

A package exports its functions with these checks (``exports``); inside the package they are called without. NumPy is
imported only where arrays are checked: quick commands do without it.
"""

import functools
import inspect
import itertools
import numbers
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple, NoReturn, TypeVar

from elegans.errors import ArgumentError, ElegansError, article, shown

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


ENTRIES = 10**7
"""Maximum number of entries of an array or a list."""
ENDLESS = 10**6
"""Maximum number of entries of an iterator that a function reads itself, which takes a second."""
FAILURES = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""What functions raise for numbers and tables that they were not made for."""
Seed = Annotated[int, AtMost(2**64 - 1, least=0)]
"""The seed of a random number generator."""
_SINGULAR = {int: "a whole number", float: "a number", str: "a string", bool: "True or False", Mapping: "a dictionary"}
_PLURAL = {int: "whole numbers", float: "numbers", str: "strings"}


class Types:
    """Makes checks from annotations; a subclass may check more of numbers, arrays and records than their type."""

    refusal: type[ElegansError] = ArgumentError
    text_of: Callable[[object], str] = repr
    bound: AtMost | None = None
    """The bound of whole numbers whose annotation states none."""
    longest = ENTRIES
    """Maximum number of entries of a list, or of an iterator, which may be endless."""
    lazily = True
    """Whether an iterator given for an iterable is passed on as an iterator, instead of being read in full."""

    def check(self, hint: Any, marks: Sequence[Any] = ()) -> Check:
        """Return the check of an annotation, with the marks that ``Annotated`` gives it."""
        origin, parts = typing.get_origin(hint), typing.get_args(hint)
        if origin is Annotated:
            return self.check(parts[0], parts[1:])
        if origin is not None:
            return self._composed(origin, parts, marks)
        if hasattr(hint, "dim_str"):  # jaxtyping's annotations of arrays
            return partial(self._array, marks, hint)
        if hint in (Any, object) or isinstance(hint, str | TypeVar):
            return partial(self._anything, marks)
        bound = next((mark for mark in marks if isinstance(mark, AtMost)), self.bound)
        numeric: dict[Any, Check] = {int: partial(self._whole, bound), float: partial(self._real, marks)}
        return numeric.get(hint) or partial(self._object, hint)

    def _composed(self, origin: Any, parts: Sequence[Any], marks: Sequence[Any]) -> Check:
        if origin in (typing.Union, types.UnionType):
            kinds = [part for part in parts if part is not types.NoneType]
            return partial(self._either, len(kinds) < len(parts), kinds, [self.check(kind, marks) for kind in kinds])
        if origin in (typing.Literal, Callable):
            return partial(self._word, parts) if origin is typing.Literal else partial(self._callable, parts[0])
        if origin is tuple and parts[-1] is not Ellipsis:
            return partial(self._tuple, [self.check(part) for part in parts])
        if issubclass(origin, Mapping):
            return partial(self._mapping, self.check(parts[0]), self.check(parts[1]))
        lazily = self.lazily and not issubclass(origin, Sequence)
        return partial(self._list, lazily, parts[0], self.check(parts[0], marks))

    def refuse(self, rule: str, name: str, value: Any, hint: str = "") -> NoReturn:
        """Raise the error of an argument that breaks a rule, such as ``must be a function``."""
        raise self.refusal(f"{name} {rule}: {name}={shown(value, self.text_of)}{hint}")

    def need(self, condition: bool, rule: str, name: str, value: Any) -> None:
        """Refuse an argument unless a condition holds."""
        if not condition:
            self.refuse(rule, name, value)

    def _either(self, optional: bool, kinds: Sequence[Any], checks: Sequence[Check], name: str, value: Any) -> Any:
        if value is None and optional:
            return None
        for check in checks:
            try:
                return check(name, value)
            except self.refusal:
                if len(checks) == 1:
                    raise
        return self.refuse(f"must be {_described(kinds)}", name, value)

    def _anything(self, marks: Sequence[Any], name: str, value: Any) -> Any:
        return value

    def _array(self, marks: Sequence[Any], hint: Any, name: str, value: Any) -> Any:
        """Return an array with the axes of jaxtyping's annotation."""
        import numpy as np

        self._whole_and_short(name, value, ENTRIES)
        try:
            array = value if hasattr(value, "__array_namespace__") else np.asarray(value)
            array = array.astype(float) if array.dtype == object and value is not None else array
        except (ValueError, TypeError, OverflowError, MemoryError):
            array = np.asarray(None)
        numeric = array.dtype.kind in "biuf" or array.dtype.name == "bfloat16"
        self.need(numeric, "must be an array of real numbers", name, value)
        if hint is not None:
            free = hint.index_variadic is not None
            more = array.ndim - (len(hint.dims) - free)
            self.need(more == 0 or (free and more > 0), f"must have the axes ({hint.dim_str})", name, value)
        return widened(array, "iu")

    def _whole_and_short(self, name: str, value: Any, longest: int) -> None:
        import numpy as np

        self.need(not too_long(value, longest), f"must have at most {longest} entries", name, value)
        self.need(not np.ma.is_masked(value), "must not be masked", name, value)

    def _whole(self, bound: AtMost | None, name: str, value: Any) -> Any:
        plain = scalar(value)
        whole = isinstance(plain, numbers.Real) and not isinstance(plain, bool) and not plain % 1
        self.need(whole and int(value) == value, "must be a whole number", name, value)
        number = int(value)
        if bound is not None and abs(number) > bound.limit:
            self.refuse(f"must be at most {shown(bound.limit)}", name, value)
        if bound is not None and bound.least is not None and number < bound.least:
            self.refuse(f"must be at least {bound.least}", name, value)
        return number

    def _real(self, marks: Sequence[Any], name: str, value: Any) -> Any:
        plain = scalar(value)
        real = isinstance(plain, numbers.Real) and not isinstance(plain, bool)
        self.need(real, "must be a number", name, value)
        try:
            as_float = float(plain)
        except OverflowError:
            self.refuse("must be at most 1.8e308", name, value)
        return plain if isinstance(plain, int | float) else as_float

    def _word(self, allowed: Sequence[Any], name: str, value: Any) -> Any:
        return self._object(type(allowed[0]), name, value)  # the function itself refuses other words

    def _object(self, kind: Any, name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            hint = kind.hint_for(value) if hasattr(kind, "hint_for") else ""
            self.refuse(f"must be {_described([kind])}", name, value, hint)
        if kind is str and any("\ud800" <= sign <= "\udfff" for sign in value):
            self.refuse("must be a string that UTF-8 can encode", name, value)
        return value

    def _callable(self, takes: Any, name: str, value: Any) -> Any:
        self.need(callable(value) and not isinstance(value, type), "must be a function", name, value)
        try:
            if isinstance(takes, list):
                inspect.signature(value).bind(*takes)
        except TypeError:
            self.refuse(f"must be a function of {len(takes)} argument{'s' * (len(takes) != 1)}", name, value)
        except ValueError:  # a builtin without a signature
            pass
        return value

    def _mapping(self, keys: Check, values: Check, name: str, value: Any) -> Any:
        for key, member in self._object(Mapping, name, value).items():
            keys(f"a key of {name}", key)
            values(f"{name}[{shown(key)}]", member)
        return value

    def _tuple(self, checks: Sequence[Check], name: str, value: Any) -> Any:
        members = value.tolist() if hasattr(value, "tolist") else value
        paired = isinstance(members, Sequence) and len(members) == len(checks)
        self.need(paired, f"must have {len(checks)} entries", name, value)
        return tuple(check(name, member) for check, member in zip(checks, members, strict=True))

    def _list(self, lazily: bool, kind: Any, check: Check, name: str, value: Any) -> Any:
        """Return the members of a list, set or array as Python's numbers, which do not overflow."""
        if isinstance(value, Iterator):
            return self._checked(check, name, value) if lazily else self._read(check, name, value)
        listed = hasattr(value, "__iter__") and hasattr(value, "__len__") and getattr(value, "ndim", 1) != 0
        if not listed or isinstance(value, (str, bytes, Mapping)):
            self.refuse(f"must be a list of {_plural(kind)}", name, value)
        self._whole_and_short(name, value, self.longest)
        if isinstance(value, range):
            for end in (*value[:1], *value[-1:]):  # all others lie between
                check(name, end)
            return value
        members = [check(name, member) for member in (value.tolist() if hasattr(value, "tolist") else value)]
        return tuple(members) if isinstance(value, tuple) else members

    def _read(self, check: Check, name: str, value: Iterator[Any]) -> tuple[Any, ...]:
        """Return the members of an iterator, which are counted first: checking an endless one would take long."""
        members = list(itertools.islice(value, self.longest + 1))
        self.need(len(members) <= self.longest, f"must have at most {self.longest} entries", name, value)
        return tuple(check(name, member) for member in members)

    def _checked(self, check: Check, name: str, value: Iterator[Any]) -> Iterator[Any]:
        for count, member in enumerate(value):
            self.need(count < ENDLESS, f"must have at most {ENDLESS} entries", name, value)
            yield check(name, member)


def checked(function: Function, refusal: type[ElegansError] | None = None, types: Types | None = None) -> Function:
    """Return a function that first checks its arguments' types against its annotations.

    Args:
        function: the function.
        refusal: the error to raise where arguments of the right types cannot be computed with; None for functions that
            run user code, which raises its own errors.
        types: makes the checks; by default they check types only.

    Raises:
        ArgumentError: an argument has the wrong type.
    """
    maker = types or Types()

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        signature, checks = _checks(function, maker)
        try:
            bound = signature.bind(*given, **named)
        except TypeError as error:
            raise TypeError(f"{function.__name__}: {error}") from None
        for name, check in checks.items():
            if name in bound.arguments:
                bound.arguments[name] = check(name, bound.arguments[name])
        try:
            return function(*bound.args, **bound.kwargs)
        except ElegansError:
            raise
        except (Warning, *FAILURES) as error:
            if refusal is None:
                raise
            reason = shown(" ".join(str(error).split()) or type(error).__name__, str)
            quoted = ", ".join(f"{name}={shown(value)}" for name, value in bound.arguments.items())
            raise refusal(f"{function.__name__} has no value here: {reason}: {quoted}") from error

    return typing.cast(Function, call)


def methods_checked(refusal: type[ElegansError] | None = None) -> Callable[[Class], Class]:
    """Return a decorator that makes a class's public methods, and an ``__init__`` that it has, check their arguments.

    Args:
        refusal: the error to raise where arguments of the right types cannot be computed with, as in ``checked``.
    """

    def decorate(kind: Class) -> Class:
        for name, method in list(vars(kind).items()):
            if isinstance(method, types.FunctionType) and (name == "__init__" or not name.startswith("_")):
                setattr(kind, name, checked(method, refusal))
        return kind

    return decorate


@functools.cache
def _checks(function: Callable[..., Any], maker: Types) -> tuple[inspect.Signature, dict[str, Check]]:
    """Return a function's signature, and the checks of arguments whose annotations not only type checkers can read."""
    signature, checks, scope = inspect.signature(function), {}, inspect.unwrap(function).__globals__
    for name, parameter in signature.parameters.items():
        hint = parameter.annotation
        try:
            hint = eval(hint, scope) if isinstance(hint, str) else hint
        except (NameError, TypeError):
            continue
        if hint is not parameter.empty and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            checks[name] = maker.check(hint | None if parameter.default is None else hint)
    return signature, checks


def too_long(value: Any, longest: int) -> bool:
    """Return whether a list or an array has too many entries, or a list a range with too many."""
    if isinstance(value, range):  # ``len`` cannot return each range's length
        return bool(value[longest:])
    if isinstance(value, Sequence):
        return len(value) > longest or any(isinstance(member, range) and member[ENTRIES:] for member in value)
    return hasattr(value, "dtype") and isinstance(value.size, int) and value.size > longest


def widened(array: Any, kinds: str) -> Any:
    """Return a NumPy array of some kinds as int64 or float64, in which small numbers do not overflow."""
    import numpy as np

    if not isinstance(array, np.ndarray | np.generic) or array.dtype.kind not in kinds or np.ma.isMaskedArray(array):
        return array
    huge = array.dtype == np.uint64 and array.size and array.max() >= 2**63
    return array.astype(np.float64 if huge or array.dtype.kind == "f" else np.int64)


def scalar(value: Any) -> Any:
    """Return the Python number of an array that holds one, or the value itself: an entry that is masked has none."""
    if not hasattr(value, "item") or getattr(value, "shape", None) != () or hasattr(value, "mask"):
        return value
    plain = value.item()
    return float(plain) if hasattr(plain, "dtype") else plain  # NumPy has longer numbers than Python


def _described(kinds: Sequence[Any]) -> str:
    """Return types in words: ``a string, a Path or a Store``."""
    words = [
        f"a list of {_plural(typing.get_args(kind)[0])}"
        if typing.get_origin(kind) in (Iterable, Sequence)
        else _SINGULAR.get(typing.get_origin(kind) or kind) or article(kind.__name__)
        for kind in kinds
    ]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _plural(kind: Any) -> str:
    return _PLURAL.get(kind) or f"{getattr(kind, '__name__', 'value').lower().removesuffix('s')}s"
