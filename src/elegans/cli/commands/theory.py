"""``elegans theory``."""

from itertools import groupby
from typing import Annotated

import typer

from elegans.cli import completion
from elegans.cli.common import Exit, say


def theory(
    name: Annotated[
        str | None,
        typer.Argument(autocompletion=completion.calculators, help="A calculator's name, or a part of names."),
    ] = None,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="ARGUMENT=VALUE...", help="Evaluate it: numbers, fractions or text.")
    ] = None,
) -> int:
    """List the calculators of what is proved, study by study.

    Each with its arguments, formula and source. With values for its arguments, print the value of one.

    Example: elegans theory information_bits n=50 k=3
    """
    from elegans.cli.calculators import described, evaluate, matching, title, usage

    if name is not None and values:
        for line in evaluate(name, values):
            say(line)
        return Exit.WELL
    entries = matching(name)
    for study, found in groupby(entries, key=lambda entry: entry.study):
        say(f"{title(study)}\n")
        for entry in found:
            for line in described(entry):
                say(line)
            if len(entries) == 1:
                say(f"  {'call':8} {usage(entry)}")
            say()
    return Exit.WELL
