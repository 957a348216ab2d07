"""``elegans theory``."""

from collections.abc import Sequence
from itertools import groupby

import click

from elegans.cli import completion
from elegans.cli.common import Exit, say


@click.command
@click.argument(
    "name", required=False, shell_complete=completion.calculators, help="A calculator's name, or part of one."
)
@click.argument("values", nargs=-1, metavar="[ARGUMENT=VALUE]...", help="Evaluate it: numbers, fractions or text.")
def theory(name: str | None, values: Sequence[str]) -> int:
    """List the calculators of proved results, study by study.

    Each with its arguments, formula and source. Given values for its arguments, evaluate one calculator.

    Example: elegans theory information_bits n=50 k=3
    """
    from elegans.cli.calculators import described, evaluate, matching, title, usage

    if name is not None and values:
        for line in evaluate(name, values):
            say(line)
        return Exit.OK
    entries = matching(name)
    for study, found in groupby(entries, key=lambda entry: entry.study):
        say(f"{title(study)}\n")
        for entry in found:
            for line in described(entry):
                say(line)
            if len(entries) == 1:
                say(f"  {'call':8} {usage(entry)}")
            say()
    return Exit.OK
