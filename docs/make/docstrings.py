"""Docstrings on the pages of the reference: formulas are typeset, and components have signatures of their fields."""

import inspect
import re
from functools import reduce
from html import escape
from importlib import import_module
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from formulas import formatted
from griffe import Class, Extension, Function, Module, Object, Parameter, ParameterKind, Parameters
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typeset import typeset

from elegans.calculators.catalogue import as_entry
from elegans.component import Component
from elegans.discovery import calculator_homes

PARAGRAPH = re.compile(r"^(Formula|Source): (.*?)(?=\n\w+: |\n\n|\Z)\n*", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"(?<=[;.]) (printed|Printed)\b")
ARGUMENTS = re.compile(r"^Shared arguments:\n((?: {4}.*\n?)+)", re.MULTILINE)
ARGUMENT = re.compile(r"^ {4}(\w+(?:, \w+)*): ", re.MULTILINE)
SAME = re.compile(r"^Args: as (.+?)(,? and)?$", re.MULTILINE)
"""The arguments of another class, perhaps with further ones below."""
QUALIFIED = re.compile(r"\b(?:\w+\.)+(?=\w)")
KEPT = re.compile(
    r"(``.*?``|`[^`]+`|^ {4,}\w+(?:, \w+)*:|(?<= )\*\w[\w -]*\*|^ *(?:>>>|\.\.\.)[^\n]*)", re.MULTILINE | re.DOTALL
)
STAR = re.compile(r"(?<=[\w)}])\*(?!\*)")


class Formulas(Extension):
    """Sets the formulas in the docstrings of ``elegans.boolean`` and of the studies' theory, and components' fields."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Replace the lines of a docstring that state its formula and its source."""
        theory = ".theory" in obj.path or obj.path.startswith("elegans.boolean")
        if obj.docstring and theory:
            text = as_entry(obj.docstring.value)
            obj.docstring.value = with_formulas(ARGUMENTS.sub(_as_list, text))

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Give a component a signature with its fields, and say whose arguments it shares."""
        if cls.docstring:
            cls.docstring.value = with_shared_arguments(cls.docstring.value)
        module = cls.parent.path if isinstance(cls.parent, Module) else ""
        if module.startswith("elegans.") and issubclass(kind := _kind(module, cls.name), Component):
            parameters = Parameters(*(_parameter(name, field) for name, field in kind.model_fields.items()))
            cls.set_member("__init__", Function("__init__", parameters=parameters))


def _kind(module: str, name: str) -> type:
    """Return the class itself; object where only type checkers see it, or its module needs a missing package."""
    try:
        found: type = getattr(import_module(module), name, object)
    except ImportError:
        return object
    return found


def _parameter(name: str, field: FieldInfo) -> Parameter:
    default = field.get_default(call_default_factory=True)
    return Parameter(
        name,
        annotation=QUALIFIED.sub("", inspect.formatannotation(_plain(field.annotation))),
        kind=ParameterKind.keyword_only,
        default=None if default is PydanticUndefined else repr(default),
    )


def _plain(annotation: Any) -> Any:
    """Return a type without the constraints of pydantic, which the list of arguments states."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (None, Literal):
        return annotation
    parts = tuple(_plain(part) for part in get_args(annotation))
    return reduce(or_, parts) if get_origin(annotation) in (Union, UnionType) else get_origin(annotation)[parts]


def with_shared_arguments(docstring: str) -> str:
    """Return a docstring whose arguments are, in part, those of another class, as prose and a list."""
    return SAME.sub(lambda match: f"Arguments as for {match[1]}" + (", and:\n\nArgs:" if match[2] else ""), docstring)


def with_formulas(docstring: str) -> str:
    """Return a docstring with its formula and its source as paragraphs of HTML."""
    parts = PARAGRAPH.split(docstring)
    text = _prose(parts[0])
    for title, body, rest in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        flat = " ".join(body.split())
        shown = formula(flat) if title == "Formula" else worded(flat)
        text += f'<p class="{title.lower()}"><b>{title}.</b> {shown}</p>\n\n' + _prose(rest)
    return text


def _prose(text: str) -> str:
    """Return the rest of a docstring with powers and indices set, but for code, examples and names of arguments."""
    parts = KEPT.split(text)
    parts[::2] = [STAR.sub(r"\\*", _set(part)) for part in parts[::2]]
    return "".join(parts)


def _set(text: str) -> str:
    plain = re.sub(r"\bsum_(?=[\w{])", "Σ_", re.sub(r"\bprod_(?=[\w{])", "Π_", text))
    return formatted(escape(plain.replace("<=", "≤").replace(">=", "≥"), quote=False))


def _as_list(block: re.Match[str]) -> str:
    """Return arguments that the functions of a module share as a list."""
    return "**Shared arguments**\n\n" + re.sub(
        r"^ {8}", "    ", ARGUMENT.sub(r"- `\1`: ", block[1]), flags=re.MULTILINE
    )


def formula(text: str) -> str:
    """Return a formula as HTML, what is printed in the source on a line of its own."""
    return PRINTED.sub(r"<br><i>\1</i>", typeset(text, linked))


def worded(text: str) -> str:
    """Return the source of a formula, or a summary, as HTML."""
    parts = re.split("``(.*?)``", text)
    return "".join(linked(part) if place % 2 else _set(part) for place, part in enumerate(parts))


def linked(code: str) -> str:
    """Return code as HTML; the name of a calculator links to its docstring."""
    home = calculator_homes().get(code)
    shown = f"<code>{escape(code, quote=False)}</code>"
    return f'<autoref identifier="{home}.{code}">{shown}</autoref>' if home else shown
