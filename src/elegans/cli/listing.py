"""Lists with one line per item, as wide as the terminal, the best-known items first."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import click

from elegans.cli.common import say
from elegans.errors import printable, suggest

FAMOUS = (
    "success-frontier",
    "lottery-tickets",
    "grokking-delay",
    "slingshots",
    "hidden-progress",
    "grokking",
    "induction-phases",
    "xor-phases",
    "modular-addition",
)
"""The best-known experiments: they are listed first, and so are their studies."""
COLOURS = {"holds": "green", "holds with correction": "green", "holds in part": "cyan", "fails": "red"}
"""The colours of verdicts; the others are yellow."""


def famous_first(items: Iterable[Any], experiment: str = "name") -> list[Any]:
    """Return experiments, claims or calculators study by study, the best-known experiments and their studies first.

    Args:
        items: what is listed; each has a ``study``.
        experiment: the attribute that names an item's experiment.
    """
    from elegans.experiments.registry import entries

    known, places = entries(), {name: place for place, name in enumerate(FAMOUS)}
    studies = {known[name].study: places[name] for name in reversed(FAMOUS) if name in known}

    def rank(item: Any) -> tuple[int, int]:
        return studies.get(item.study, len(FAMOUS)), places.get(getattr(item, experiment), len(FAMOUS))

    return sorted(items, key=rank)


def mentions(word: str, *texts: str) -> bool:
    """Return whether a word stands in one of the texts, in small or capital letters."""
    return any(word.casefold() in text.casefold() for text in texts)


def nearest(word: str, names: Iterable[str], otherwise: str) -> str:
    """Return ``; did you mean …?`` for the nearest name or word of a name, or else the given ending of a message."""
    known = {*names}
    return suggest(word, known | {part for name in known for part in re.findall("[a-z]{3,}", name)}, otherwise)


def columns() -> int | None:
    """Return the width of the terminal, or the number in ``COLUMNS``; None if the output is no terminal."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return max(40, int(given))
    return max(40, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def fitted(text: str, least: int = 0) -> str:
    """Return a line that is no wider than the terminal, cut at a word, but not within its first ``least`` signs."""
    width = columns()
    if width is None or len(text) <= width:
        return text
    return f"{text[:least]}{text[least : max(least, width - 1)].rpartition(' ')[0].rstrip(' ,;:')}…"


def say_fitted(text: str, verdict: str = "", indent: str = "", name: str = "") -> None:
    """Print one line that is no wider than the terminal: a verdict in its colour, a name in full, and the text."""
    start = len(indent) + len(verdict)
    line = fitted(f"{indent}{verdict}{name}{text}", start + len(name))
    _say_coloured(line[:start], line[start:], verdict.strip())


def say_wrapped(title: str, text: str, indent: str = "  ", verdict: str = "") -> None:
    """Print a text after its title, wrapped at words, the further lines below the first."""
    start, width = f"{indent}{title}", columns()
    room = None if width is None else width - len(start)
    parts = [text] if room is None or room < 30 else textwrap.wrap(text, room, break_on_hyphens=False)
    first, *more = parts or [""]
    _say_coloured(start, first, verdict)
    for line in more:
        say(" " * len(start) + line)


def _say_coloured(start: str, rest: str, verdict: str) -> None:
    if verdict:
        click.echo(click.style(printable(start), fg=COLOURS.get(verdict, "yellow")), nl=False)
        say(rest)
    else:
        say(start + rest)


def widest(names: Sequence[str]) -> int:
    """Return the length of the longest name."""
    return max(map(len, names), default=0)
