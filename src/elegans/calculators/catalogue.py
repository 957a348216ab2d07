"""The list of all calculators, read from their docstrings without importing them."""

import ast
import re
from typing import NamedTuple

from elegans import discovery


class Calculator(NamedTuple):
    """One calculator's entry in the catalogue.

    Args:
        name: the function's name in ``elegans.theory``.
        study: the study that it belongs to, or ``boolean`` if several use it.
        signature: its arguments.
        summary: what it returns: the first line of its docstring.
        formula: the formula, in one line.
        source: the theorem or lemma from which it comes.
    """

    name: str
    study: str
    signature: str
    summary: str
    formula: str
    source: str


def catalogue() -> list[Calculator]:
    """Return every calculator with its formula and its source, by name."""
    entries = []
    for module, path in discovery.calculator_modules():
        parts = module.split(".")
        study = parts[parts.index("theory") - 1] if "theory" in parts else "boolean"
        for _, text in discovery.definitions(path):
            if text.startswith("def") and "\n    Formula: " in text:
                entries += _entry(text, study)
    return sorted(entries)


def _entry(function: str, study: str) -> list[Calculator]:
    """Return the entry of a function, given as source text, whose docstring has a formula and a source."""
    statement, docstring, _ = function.split('"""', 2)
    node = ast.parse(f'{statement}"""{docstring}"""').body[0]  # without the body: a third of the time
    assert isinstance(node, ast.FunctionDef)
    text = ast.get_docstring(node) or ""
    formula, source = _paragraph(text, "Formula"), _paragraph(text, "Source")
    if formula is None or source is None:
        return []
    arguments = ", ".join(argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
    return [Calculator(node.name, study, f"({arguments})", as_entry(text.splitlines()[0]), formula, source)]


def as_entry(docstring: str) -> str:
    """Return a docstring as an entry of a list, which begins with what is returned: "Return the leap" is "The leap"."""
    text = re.sub(r"^Return,? ", "", docstring)
    word = re.match(r"a\b|[a-z]{2,}(?=[ ,'])", text) if text != docstring else None
    return text[0].upper() + text[1:] if word else text


def _paragraph(text: str, title: str) -> str | None:
    paragraph = re.search(rf"^{title}: (.*?)(?=\n\w+: |\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return " ".join(paragraph[1].split()) if paragraph else None
