"""``elegans theory``."""

from collections.abc import Sequence
from itertools import groupby

import click

from elegans.cli import completion
from elegans.cli.common import Exit, say
from elegans.cli.listing import famous_first, say_fitted, say_wrapped, widest
from elegans.errors import counted


@click.command
@click.argument(
    "name",
    required=False,
    shell_complete=completion.calculators,
    metavar="[NAME|WORD]",
    help="A calculator, to show it in full; or a word, to list the calculators that mention it.",
)
@click.argument(
    "values", nargs=-1, metavar="[ARGUMENT=VALUE]...", help="Arguments to evaluate it: numbers, fractions or text."
)
def theory(name: str | None, values: Sequence[str]) -> int:
    """List, show or evaluate calculators.

    Calculators compute proved results. Each line has a calculator, its arguments and what it returns. Name a calculator
    to see its formula and source.

    Example: elegans theory information_bits n=50 k=3
    """
    from elegans.cli.calculators import described, evaluate, matching, plain, title

    if name is not None and values:
        for line in evaluate(name, values):
            say(line)
        return Exit.OK
    entries = matching(name)
    if len(entries) == 1 or entries[0].name == name:
        entry = entries.pop(0)
        rows = described(entry)
        width = max(9, 1 + widest([heading for heading, _ in rows]))
        say(f"{entry.name}{entry.signature}")
        for heading, text in rows:
            say_wrapped(f"{heading:{width}}", text)
        if not entries:
            return Exit.OK
        say(f"\nothers that mention {name}:")
    for study, found in groupby(famous_first(entries), key=lambda entry: entry.study):
        say_fitted(title(study))
        for entry in found:
            say_fitted(f"  {entry.name}{entry.signature}  {plain(entry.summary)}")
        say()
    say(
        f"{counted(len(entries), 'calculator')}; `elegans theory NAME` shows one, `elegans theory WORD` lists the "
        "calculators that mention a word"
    )
    return Exit.OK
