"""Components: the frozen, validated parts of a trial, their names and their serialisation.

A *component* is a small immutable record: a task, a regime, a model, an initialisation, a loss, a training, a probe.
Each family (``Task``, ``Model``, …) registers its members by *kind*, the class name in kebab case: a component can be
written as JSON and read back, and a class defined outside the package is a member once its file has been imported.
"""

import difflib
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, wraps
from importlib import import_module
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo

from elegans import discovery
from elegans.arguments import ENTRIES
from elegans.errors import TrialError, UnknownKind, article, shown, suggest

LARGEST = 2**31
"""The bound of whole numbers whose field states none: engines count in 32 bits."""


class Traced:
    """Marks a whole-number field whose value may differ between trials that train side by side.

    Floating-point fields are traced without being marked: inside an engine that trains many trials at once they hold an
    array element, not a Python number. All other fields are part of a trial's signature, which a batch shares.
    """


class Later:
    """Marks a field added after trials of its class existed: ``patience: Annotated[int | None, Later] = None``.

    Its default is None, which must stand for what the class did before it had the field, for good. At None it is left
    out of what identifies a trial and of its columns: earlier trials keep their identity, and stores their outcomes.
    """


IDENTITY = {"identity": True}
"""The context in which components are dumped without later fields at their defaults."""


def none_if_zero(value: Any) -> Any:
    """Return None for 0 or False, and any other value unchanged: the validator of options that can be off."""
    return None if isinstance(value, int | float) and value == 0 else value


class Component(BaseModel):
    """A frozen, validated record with a kind; the base of everything that a trial holds.

    Subclassing a *family* (a class made with ``family=True``) registers the subclass under its kind. Methods
    named ``check`` refuse unsuitable values with a ValueError that states the rule and the value.

    Raises:
        TrialError: a field is missing, unknown, or breaks a rule; the message names rule and value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    kind: ClassVar[str]
    shorthand: ClassVar[str | None] = None
    """The field that may be written after the kind, as in ``sparse:2``."""
    host_only: ClassVar[bool] = False
    """Whether engines ignore the fields: then none is traced and all are part of the signature."""
    _members: ClassVar[dict[str, type[Self]]]
    _is_family: ClassVar[bool] = True
    _later: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, *, family: bool = False, kind: str | None = None, **options: Any) -> None:
        """Set the class's kind and register the class with its family."""
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = _explained(cls.__init__)  # type: ignore[method-assign]
        cls._is_family = family
        if family:
            cls._members = {}
            return
        if kind is not None and not (isinstance(kind, str) and kind and kind.isprintable()):
            rule = "the kind of a class must be a printable string that is not empty"
            raise TrialError(f"{rule}: {cls.__name__}, kind={shown(kind)}")
        cls.kind = kind or discovery.kebab(cls.__name__)
        members = getattr(cls, "_members", None)
        if members is None:
            return
        other = members.get(cls.kind, cls)
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            owner = f"{other.__module__}.{other.__qualname__}"
            files = [getattr(sys.modules.get(one.__module__), "__file__", None) for one in (cls, other)]
            remedy = "; its file is loaded twice: import it or give its path, not both" if files[0] == files[1] else ""
            raise TrialError(f"a kind must belong to one class: {cls.kind!r} is already {owner}{remedy}")
        members[cls.kind] = cls

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Find the later fields, and refuse one whose default is not None."""
        cls._later = tuple(name for name, field in cls.model_fields.items() if _is_marked(field, Later))
        for name in cls._later:
            if cls.model_fields[name].get_default(call_default_factory=True) is not None:
                raise TrialError(f"a field that is marked as later must be None by default: {cls.__name__}.{name}")

    def __init__(self, *values: Any, **fields: Any) -> None:
        if values:
            cls, names = type(self), [*type(self).model_fields]
            given = ", ".join(f"{name}={shown(value)}" for name, value in zip(names, values, strict=False))
            rule = f"{cls.__name__} must have its fields by name" if names else f"{cls.__name__} has no fields"
            raise TrialError(f"{rule}: {given or shown(values[0])}")
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise _refusal(error, type(self)) from None

    def __str__(self) -> str:
        return repr(self)  # pydantic's own string has no class

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(name, value)
        except ValidationError:
            raise self._unchangeable(name, f".replace({name!r}, {shown(value)})") from None

    def __delattr__(self, name: str) -> None:
        try:
            super().__delattr__(name)
        except ValidationError:
            raise self._unchangeable(name, f".replace({name!r}, …)") from None

    def _unchangeable(self, name: str, call: str) -> TrialError:
        owner = type(self).__name__
        if name not in type(self).model_fields:
            return TrialError(f"{owner} has no field {shown(name)}{suggest(name, type(self).model_fields)}")
        return TrialError(
            f"{article(owner)} must not be changed; {family_name(type(self))}{call} returns a copy: {name!r}"
        )

    @classmethod
    def members(cls) -> dict[str, type[Self]]:
        """Return every class of this family by kind; all of their files are imported."""
        for definition in discovery.below(cls.__name__):
            import_module(definition.module)
        return dict(cls._members)

    @classmethod
    def kinds(cls) -> list[str]:
        """Return the kinds of this family, without importing the files that define them."""
        return sorted(discovery.kinds(cls.__name__).union(cls._members))

    @classmethod
    def of_kind(cls, kind: Any) -> type[Self]:
        """Return the class of a kind, importing the file that defines it.

        Raises:
            UnknownKind: there is no such class; the nearest is suggested.
        """
        if not isinstance(kind, str):
            raise ValueError(f"the kind of {article(family_name(cls))} must be a string: kind={shown(kind)}")
        if kind not in cls._members:
            for definition in discovery.below(cls.__name__):
                if definition.kind == kind:
                    import_module(definition.module)
        if kind in cls._members:
            return cls._members[kind]
        raise UnknownKind(f"unknown {family_name(cls)} {shown(kind)}{suggest(kind, cls.kinds())}")

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Make a component of this family from a record with a ``kind``, a shorthand or a component.

        Raises:
            TrialError: the kind is unknown (the nearest is suggested) or a field breaks a rule.
        """
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise _refusal(error, cls) from None

    @model_validator(mode="wrap")
    @classmethod
    def _from_record(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and hasattr(cls, "_members"):
            value = cls._from_text(value)
        if not isinstance(value, Mapping):
            if not hasattr(cls, "_members"):
                return handler(value)
            rule = f"{family_name(cls)} must be {article(family_name(cls))} or a record"
            raise ValueError(f"{rule}: {shown(value)}{cls._short_for(value)}")
        fields = dict(value)
        if not cls._is_family:
            kind = fields.pop("kind", cls.kind)
            if kind != cls.kind:
                raise ValueError(f"the kind of {article(cls.__name__)} must be {cls.kind!r}: {shown(kind)}")
            _check_numbers(cls, fields)
            return handler(fields)
        if "kind" not in fields:
            kinds = ", ".join(cls.kinds())
            raise ValueError(f"{family_name(cls)} must name its kind (one of {kinds}): {shown(fields)}")
        kind = fields.pop("kind")
        member = cls.of_kind(kind)
        if inspect.isabstract(member):
            raise ValueError(f"the kind {kind!r} is abstract and cannot be used itself")
        return member(**fields)

    @classmethod
    def _from_text(cls, text: str) -> dict[str, Any]:
        kind, colon, argument = text.partition(":")
        record: dict[str, Any] = {"kind": kind}
        if colon:
            member = cls.of_kind(kind)
            if member.shorthand is None:
                raise ValueError(f"{kind!r} takes nothing after a colon: {text!r}")
            record[member.shorthand] = _number_in(argument) if member.shorthand in _numbers(member)[0] else argument
        return record

    @classmethod
    def _short_for(cls, value: Any) -> str:
        """Return ``; did you mean …?`` where the value after a kind and a colon makes a component of this family."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            for kind, member in cls._members.items():
                if member.shorthand is not None and not inspect.isabstract(member):
                    with suppress(TrialError):
                        member(**{member.shorthand: value})
                        return f"; did you mean '{kind}:{value}'?"
        return ""

    @classmethod
    def hint_for(cls, value: Any) -> str:
        """Return ``; did you mean FourierGap(every=…)?`` for a kind or a class instead of a component."""
        member = value
        if isinstance(value, str) and hasattr(cls, "_members") and value in cls.kinds():
            member = cls.of_kind(value)
        if not (isinstance(member, type) and issubclass(member, cls)):
            return ""
        needed = ", ".join(f"{name}=…" for name, field in member.model_fields.items() if field.is_required())
        return f"; did you mean {member.__name__}({needed})?"

    @model_serializer(mode="wrap")
    def _with_kind(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        fields = handler(self)
        if info.context == IDENTITY:
            for name in self._later:
                if getattr(self, name) is None:
                    del fields[name]
        return {"kind": self.kind, **fields} if hasattr(type(self), "_members") else fields

    def label(self) -> str:
        """Return the kind, with the shorthand's value where the class has one: ``sparse:2``."""
        return self.kind if self.shorthand is None else f"{self.kind}:{getattr(self, self.shorthand)}"

    def replace(self, path: str, value: Any) -> Self:
        """Return a copy with the field at a dotted path changed and validated.

        Args:
            path: field names joined by dots, as in ``model.width``.
            value: the new value, in any form that the field accepts.

        Raises:
            TrialError: there is no such field, or the value breaks a rule.
        """
        if not isinstance(path, str):
            raise TrialError(f"a path must be a string: {shown(path)}")
        name, _, rest = path.partition(".")
        if name not in type(self).model_fields:
            suggestion = suggest(name, type(self).model_fields)
            raise TrialError(f"{type(self).__name__} has no field {shown(name)}{suggestion}")
        current = getattr(self, name)
        if rest:
            if not isinstance(current, Component):
                raise TrialError(f"{name!r} of {type(self).__name__} has no fields of its own: {path!r}")
            value = current.replace(rest, value)
        fields = {field: getattr(self, field) for field in type(self).model_fields}
        return type(self)(**{**fields, name: value})

    def columns(self, prefix: str = "") -> dict[str, Any]:
        """Return the fields as dotted columns; a component's own column holds its label."""
        values = ((path, value) for path, _, value in walk(self, prefix))
        return {path: value.label() if isinstance(value, Component) else value for path, value in values}

    def traced(self) -> dict[str, float]:
        """Return, by dotted path, the numbers that may differ within a batch of trials."""
        return {path: value for path, is_traced, value in walk(self) if is_traced}

    def substitute(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with traced fields replaced, without validation: values may be array elements."""
        changes, inner = by_field(values)
        for name, parts in inner.items():
            current = getattr(self, name)
            if isinstance(current, Component):
                changes[name] = current.substitute(parts)
            else:
                changes[name] = _substitute_members(current, parts)
        return self.model_copy(update=changes)


def _explained(init: Callable[..., None]) -> Callable[..., None]:
    """Return a class's own ``__init__``; missing and unknown arguments are refused as in other classes."""

    @wraps(init)
    def explained(self: Component, *values: Any, **fields: Any) -> None:
        try:
            init(self, *values, **fields)
        except TypeError as error:
            parameters = [each for each in inspect.signature(init).parameters.values() if each.kind != each.VAR_KEYWORD]
            names = [each.name for each in parameters[1:]]
            if len(values) > len(names):
                raise TrialError(str(error)) from None
            Component.__init__(self, **{**fields, **dict(zip(names, values, strict=False))})
            raise

    return explained


def by_field(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Split values by dotted path into values of fields and, for each outer field, values of its inner fields."""
    direct: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        name, _, rest = path.partition(".")
        if rest:
            nested.setdefault(name, {})[rest] = value
        else:
            direct[name] = value
    return direct, nested


def _substitute_members(members: Mapping[str, Component], parts: Mapping[str, Any]) -> dict[str, Component]:
    changed = dict(members)
    for key, member in members.items():
        values = {path.removeprefix(f"{key}."): value for path, value in parts.items() if path.startswith(f"{key}.")}
        values = {path: value for path, value in values.items() if path in type(member).model_fields}
        if values:
            changed[key] = member.substitute(values)
    return changed


def walk(component: Component, prefix: str = "") -> Iterator[tuple[str, bool, Any]]:
    """Yield (dotted path, whether it is traced, value) for each field but later ones at None, outer before inner."""
    for name, field in type(component).model_fields.items():
        value = getattr(component, name)
        if value is None and name in component._later:
            continue
        path = f"{prefix}{name}"
        if isinstance(value, Component):
            yield path, False, value
            yield from walk(value, f"{path}.")
        elif isinstance(value, Mapping) and any(isinstance(item, Component) for item in value.values()):
            for key in sorted(value):
                yield from walk(value[key], f"{path}.{key}.")
        else:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            may_differ = _is_marked(field, Traced) or _is_float(field.annotation)
            yield path, is_number and not component.host_only and may_differ, value


def _is_marked(field: FieldInfo, mark: type) -> bool:
    return any(isinstance(item, mark) or item is mark for item in field.metadata)


def _is_float(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _is_float(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return any(_is_float(option) for option in typing.get_args(annotation))
    return annotation is float


_PLAIN = frozenset({bool, dict, float, int, list, str, tuple, type(None)})
"""Types of values that are neither ranges nor iterators."""


def _check_length(name: str, value: Any) -> None:
    """Refuse ranges that are too long, and iterators, which may be endless."""
    if isinstance(value, range) and value[ENTRIES:]:  # ``len`` overflows
        raise ValueError(f"{name} must have at most {ENTRIES} entries: {name}={shown(value)}")
    if isinstance(value, Iterator):
        raise ValueError(f"{name} must be a list, not an iterator: {name}={shown(value)}")


def _check_numbers(cls: type[Component], fields: Mapping[str, Any]) -> None:
    """Refuse values that pydantic accepts: texts and booleans for numbers, large whole numbers, iterators for lists."""
    numeric, logical, unbounded = _numbers(cls)
    for name, value in fields.items():
        if type(value) not in _PLAIN:  # every trial has dozens of values: other checks take longer
            _check_length(name, value)
        if name not in numeric and name not in logical:
            continue
        members = value if isinstance(value, list | tuple) else (value,)
        if name in numeric and any(isinstance(member, bool) for member in members):
            raise ValueError(f"{name} must be a number: {name}={shown(value)}")
        if name in numeric and _writes_number(value):
            raise ValueError(f"{name} must be a number, not a string: {name}={shown(value)}")
        if name in logical and isinstance(value, str | bytes):
            raise ValueError(f"{name} must be True or False, not a string: {name}={shown(value)}")
        if name in unbounded and any(isinstance(member, int) and abs(member) >= LARGEST for member in members):
            raise ValueError(f"{name} must be below 2^31: {name}={shown(value)}")


@cache
def _numbers(cls: type[Component]) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the fields of numbers without booleans, the fields of booleans, and whole numbers without upper bound."""
    numeric, logical, unbounded = set(), set(), set()
    for name, field in cls.model_fields.items():
        kinds = re.findall(r"\b(int|float|bool|str)\b", repr(field.annotation))
        if kinds and set(kinds) == {"bool"}:
            logical.add(name)
        if kinds and "bool" not in kinds and "str" not in kinds:
            numeric.add(name)
            if "float" not in kinds and not re.search(r"\bL[te]\(", repr(field)):
                unbounded.add(name)
    return frozenset(numeric), frozenset(logical), frozenset(unbounded)


def _writes_number(value: Any, levels: int = 3) -> bool:
    """Return whether a value is a text that pydantic would take for a number, or a list of such."""
    if isinstance(value, list | tuple):
        return levels > 0 and any(_writes_number(member, levels - 1) for member in value)
    return isinstance(value, str | bytes) and not isinstance(_number_in(value), str | bytes)


def _number_in(text: str | bytes) -> int | float | str | bytes:
    """Return the number that a text writes, or else the text itself."""
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    return text


def family_name(cls: type[Component]) -> str:
    """Return the name of a class's family in lower case, as messages use it."""
    for base in cls.__mro__:
        if issubclass(base, Component) and base is not Component and base._is_family:
            return base.__name__.lower()
    return cls.__name__.lower()


def _refusal(error: ValidationError, cls: type[BaseModel]) -> TrialError:
    unknown = isinstance(_first(error).get("ctx", {}).get("error"), UnknownKind)
    return (UnknownKind if unknown else TrialError)(explain(error, cls))


def _first(error: ValidationError) -> Any:
    errors = error.errors(include_url=False)
    return next((item for item in errors if item["type"] == "extra_forbidden"), errors[0])


def explain(error: ValidationError, cls: type[BaseModel]) -> str:
    """Return a validation error as one line that states the rule and the value."""
    first = _first(error)
    path = ".".join(str(part) for part in first["loc"]) or cls.__name__.lower()
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    if first["type"] == "extra_forbidden":
        return f"{cls.__name__} has no field {path!r}{suggest(path, cls.model_fields)}"
    if first["type"] == "missing":
        return f"{cls.__name__} needs {path!r}"
    if first["type"] == "literal_error":
        allowed = [part.strip("' ") for part in re.split(r", | or ", first["ctx"]["expected"])]
        value = shown(first["input"])
        near = difflib.get_close_matches(value.strip("'"), allowed, n=1)
        suggestion = f"; did you mean {near[0]!r}?" if near else ""
        return f"{path} must be one of {', '.join(allowed)}: {path}={value}{suggestion}"
    if first["type"] in ("int_parsing", "float_parsing"):
        rule = "a whole number" if first["type"] == "int_parsing" else "a number"
        return f"{path} must be {rule}: {path}={shown(first['input'])}"
    rule = first["msg"].removeprefix("Input ").replace("should be", "must be").replace("should have", "must have")
    return f"{path} {rule[0].lower()}{rule[1:]}: {path}={shown(first['input'])}"
