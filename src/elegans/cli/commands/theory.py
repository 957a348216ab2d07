"""``elegans theory``."""

from collections.abc import Sequence
from itertools import groupby

import click

from elegans.cli import completion
from elegans.cli.common import Exit, say
from elegans.cli.listing import famous_first, say_fitted, say_wrapped


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
    from elegans.cli.calculators import described, evaluate, matching, title, usage

    if name is not None and values:
        for line in evaluate(name, values):
            say(line)
        return Exit.OK
    entries = matching(name)
    if len(entries) == 1:
        entry = entries[0]
        say(f"{entry.name}{entry.signature}")
        for heading, text in described(entry):
            say_wrapped(f"{heading:9}", text)
        say(f"  {'call':9}{usage(entry)}")
        return Exit.OK
    for study, found in groupby(famous_first(entries), key=lambda entry: entry.study):
        say_fitted(title(study))
        for entry in found:
            say_fitted(f"  {entry.name}{entry.signature}  {entry.summary}")
        say()
    say(
        f"{len(entries)} calculators; `elegans theory NAME` shows one, `elegans theory WORD` lists the calculators "
        "that mention a word"
    )
    return Exit.OK
