"""Turns the arguments of ``elegans theory`` into catalogue entries and values of calculators."""

import dataclasses
import inspect
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from elegans import theory
from elegans.calculators.catalogue import Calculator
from elegans.cli.listing import mentions, nearest
from elegans.cli.options import literal
from elegans.discovery import studies
from elegans.errors import TheoryError, suggest

_EXAMPLES = {
    "Sequence[Sequence[int]]": "[[0, 1], [2, 3]]",
    "Iterable[int]": "[0, 1, 2]",
    "Sequence[int]": "[0, 1, 2]",
    "Sequence[float]": "[0.5, 0.25]",
}
"""How a value of a type is written in Python."""
_PLAIN = (int, float, str, bool, Fraction)
"""Types that a typed value can become."""


def matching(part: str | None) -> list[Calculator]:
    """Return the calculators that mention a word, the one with exactly this name first, then study by study.

    Raises:
        TheoryError: there is none; the nearest is suggested.
    """
    known = sorted(theory.catalogue(), key=lambda entry: (entry.study in studies(), entry.study, entry.name))
    entries = [entry for entry in known if part is None or mentions(part, entry.name, entry.summary, entry.source)]
    if not entries:
        near = nearest(str(part), [entry.name for entry in known], "; `elegans theory` lists all")
        raise TheoryError(f"no calculator is called {part!r} or mentions it{near}")
    return sorted(entries, key=lambda entry: entry.name != part)


def title(study: str) -> str:
    """Return the heading of a study's calculators, or of the calculators that several studies use."""
    return studies()[study].title() if study in studies() else "Boolean functions"


def described(entry: Calculator) -> list[tuple[str, str]]:
    """Return what describes a calculator: titles with their texts, its arguments with theirs, and how it is called."""
    function, known = _function(entry.name), dict[str, str]()
    for docstring in (sys.modules[function.__module__].__doc__, function.__doc__):
        for block in re.findall(
            r"(?m)^(?:Args|Shared arguments):\n((?: {4}.*\n?)+)", inspect.cleandoc(docstring or "")
        ):
            for names, text in re.findall(r"(?m)^(\w[\w, ]*): (.*(?:\n +.*)*)", textwrap.dedent(block)):
                known |= dict.fromkeys(names.split(", "), text)
    titles = [(title, getattr(entry, title)) for title in ("summary", "formula", "source")]
    arguments = [(name, known[name]) for name in inspect.signature(function).parameters if name in known]
    rows = [*titles, *arguments, ("call", _usage(entry.name))]
    return [(title, plain(" ".join(text.split()))) for title, text in rows]


def plain(text: str) -> str:
    """Return a text of a docstring as the terminal shows it."""
    return text.replace("``", "`")


def _usage(name: str) -> str:
    """Return how to evaluate a calculator here or, where an argument cannot be typed, in Python."""
    parameters = inspect.signature(_function(name)).parameters
    needed = [key for key, parameter in parameters.items() if parameter.default is parameter.empty]
    if not _lacking(name):
        return " ".join(["elegans theory", name, *(f"{key}=…" for key in needed)])
    types = {key: str(parameters[key].annotation).replace("collections.abc.", "") for key in needed}
    values = (f"{key}={_EXAMPLES.get(text, '…')}" for key, text in types.items())
    return f"in Python: elegans.theory.{name}({', '.join(values)})"


def evaluate(name: str, given: Sequence[str]) -> list[str]:
    """Return the lines of a calculator's value.

    Args:
        name: a calculator's name, in full.
        given: its arguments, each as ``name=value``: numbers, fractions such as 1/2, or text.

    Raises:
        TheoryError: an argument is unknown, missing, or none of these; or the calculator refuses it.
    """
    entry = max(matching(name), key=lambda entry: (entry.name == name, name in entry.name))
    if entry.name != name:
        raise TheoryError(f"a calculator must be named in full to be evaluated: {name!r}; for example {entry.name!r}")
    if lacking := _lacking(name):
        raise TheoryError(f"{lacking[0]} is neither a number nor a string, so call {name} {_usage(name)}")
    function, values = _function(name), {}
    hints, parameters = typing.get_type_hints(function), inspect.signature(function).parameters
    for word in given:
        key, equals, text = word.partition("=")
        if not equals:
            raise TheoryError(f"an argument must be name=value, as in n=50: {word!r}")
        if key not in parameters:
            raise TheoryError(f"{name} has no argument {key!r}{suggest(key, list(parameters))}")
        values[key] = _read(key, text, hints.get(key))
    for key, parameter in parameters.items():
        if key not in values and parameter.default is parameter.empty:
            raise TheoryError(f"{name} needs {key!r}: {name}{entry.signature}")
    try:
        return _shown(function(**values))
    except ArithmeticError as error:
        raise TheoryError(f"{name} has no value that can be computed here: {error}") from None


def _function(name: str) -> Callable[..., Any]:
    return typing.cast(Callable[..., Any], getattr(theory, name))


def _lacking(name: str) -> list[str]:
    """Return the required arguments that are neither numbers nor text."""
    function = _function(name)
    hints = typing.get_type_hints(function)
    parameters = inspect.signature(function).parameters.items()
    return [key for key, one in parameters if one.default is one.empty and not _allowed(hints.get(key))]


def _allowed(annotation: Any) -> set[Any]:
    """Return the plain types, and the words of a Literal, that an annotation allows."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return set().union(*(_allowed(option) for option in typing.get_args(annotation)))
    if typing.get_origin(annotation) is typing.Literal:
        return set(typing.get_args(annotation))
    return {annotation} if annotation in _PLAIN else set()


def _read(key: str, text: str, annotation: Any) -> Any:
    """Return a typed value in the form that an argument takes."""
    allowed = _allowed(annotation)
    if not allowed:
        raise TheoryError(f"{key} must be given from Python: it is neither a number nor a string")
    words = sorted(word for word in allowed if isinstance(word, str))
    if words and str not in allowed:
        if text not in words:
            raise TheoryError(f"{key} must be one of {', '.join(words)}: {key}={text!r}")
        return text
    if str in allowed:
        return text
    value = Fraction(text) if re.fullmatch(r"-?\d+/[1-9]\d*", text) else literal(text)
    if bool in allowed and isinstance(value, bool):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise TheoryError(f"{key} must be a number: {key}={text!r}")
    return _number(key, text, value, allowed)


def _number(key: str, text: str, value: Any, allowed: set[Any]) -> Any:
    """Return a number of the type that an argument takes: whole where it must be, exact where it may be."""
    if float in allowed or Fraction in allowed:
        return value if Fraction in allowed or not isinstance(value, Fraction) else float(value)
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):
        raise TheoryError(f"{key} must be a whole number: {key}={text!r}")
    return int(value)


def _shown(value: Any) -> list[str]:
    """Return a value as lines: a record's fields one below the other, fractions with their decimals."""
    if dataclasses.is_dataclass(value):
        fields = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    elif hasattr(value, "_asdict"):
        fields = list(value._asdict().items())
    elif isinstance(value, Fraction) and value.denominator > 1:
        return [f"{value} = {float(value):.10g}" if value.denominator < 10**12 else f"{float(value):.10g}"]
    elif isinstance(value, tuple):
        return [", ".join(line for part in value for line in _shown(part))]
    else:
        return [f"{value:.10g}" if isinstance(value, float) else str(value)]
    width = max(len(name) for name, _ in fields)
    return [f"{name:{width}}  {line}" for name, part in fields for line in _shown(part)]
