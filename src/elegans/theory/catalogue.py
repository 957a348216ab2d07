"""The list of all calculators, read from their docstrings."""

import inspect
import re
from types import ModuleType
from typing import NamedTuple


class Calculator(NamedTuple):
    """What one calculator computes.

    Args:
        name: the function's name in ``elegans.theory``.
        signature: its arguments.
        summary: the first line of its docstring.
        formula: the formula, in one line.
        source: the theorem or lemma that it comes from.
    """

    name: str
    signature: str
    summary: str
    formula: str
    source: str


def entries(module: ModuleType) -> list[Calculator]:
    """Return an entry for each public function of a module whose docstring has a formula and a source."""
    listed = [_entry(name, getattr(module, name)) for name in sorted(module.__all__)]
    return [entry for entry in listed if entry is not None]


def _entry(name: str, member: object) -> Calculator | None:
    if not inspect.isfunction(member) or not (text := inspect.getdoc(member)):
        return None
    formula, source = _paragraph(text, "Formula"), _paragraph(text, "Source")
    if formula is None or source is None:
        return None
    arguments = ", ".join(inspect.signature(member).parameters)
    return Calculator(name, f"({arguments})", text.splitlines()[0], formula, source)


def _paragraph(text: str, title: str) -> str | None:
    """Return the text after a title, up to the next title or empty line, as one line."""
    found = re.search(rf"^{title}: (.*?)(?=\n\w+: |\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else None
