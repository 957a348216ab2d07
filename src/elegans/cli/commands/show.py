"""``elegans show``."""

import os
from pathlib import Path

import click

from elegans.cli import completion
from elegans.cli.common import FILE, Exit, console, say
from elegans.cli.listing import say_wrapped, widest


@click.command
@click.argument(
    "name", required=False, shell_complete=completion.phenomena, help="The phenomenon to train; omit it to list all."
)
@click.option(
    "--out", type=FILE, metavar="FILE", show_default="NAME.html", help="The page to write, which a browser can open."
)
@click.option(
    "--seed", type=click.IntRange(min=0, max=2**32), metavar="N", default=0, help="The seed of all random draws."
)
def show(name: str | None, out: Path | None, seed: int) -> int:
    """Watch a phenomenon of training, in a minute.

    The network trains live. The result is kept as a page with a slider over the steps.

    Example: elegans show grokking
    """
    from elegans.phenomena.listing import phenomena

    if name is None:
        width = widest(list(phenomena()))
        for listed in phenomena().values():
            say_wrapped(f"{listed.name:{width}}  ", listed.shows, "")
        say("\n`elegans show NAME` trains one, which takes up to a minute on two cores")
        return Exit.OK
    from elegans.cli.curve import CurveView
    from elegans.errors import PhenomenonError, printable
    from elegans.files import writable
    from elegans.phenomena.showing import show as train, watched

    if name not in phenomena():
        train(name)  # raises: it suggests the nearest name
    file = writable(out or f"{name}.html", "a page", PhenomenonError)  # before the training, which takes a minute
    if not os.access(file.parent, os.W_OK):
        raise PhenomenonError(f"a page must go to a writable folder: {printable(str(file))}")
    shown = train(name, seed=seed, trainer=watched(lambda trial: CurveView(console(), trial)))
    say(f"{shown.phenomenon.shows}.\n")
    say_wrapped("setting  ", shown.phenomenon.setting, "")
    for moment in sorted(shown.story.moments, key=lambda moment: moment.step)[:MOMENTS]:
        say_wrapped(f"{moment.step:>7,}  ", moment.text, "")
    if len(shown.story.moments) > MOMENTS:
        say(f"      …  {len(shown.story.moments) - MOMENTS} further moments are on the page")
    say_wrapped("found    ", shown.story.finding, "")
    say(f"page     {shown.write(file)} (open it in a browser)")
    return Exit.OK


MOMENTS = 6
"""The largest number of moments that are printed."""
