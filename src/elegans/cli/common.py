"""What several commands share: exit codes, options, and how a run ends."""

import shlex
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elegans.cli import completion

if TYPE_CHECKING:
    from rich.console import Console

    from elegans.sweeps import Progress


class Exit(IntEnum):
    """What a command's exit code says."""

    WELL = 0
    SOME_FAILED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"must be a whole number of at least 1: {text!r}")
    return int(text)


RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Run failed trials again.")]
Imports = Annotated[
    list[Path] | None,
    typer.Option("--import", metavar="FILE.py", help="Load your own tasks, models and probes; may be repeated."),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither load nor keep compiled JAX programs on disk.")]
Workers = Annotated[
    int | None, typer.Option(parser=count, metavar="N", help="Threads that train.", show_default="all cores")
]
EngineName = Annotated[
    str, typer.Option(metavar="NAME", autocompletion=completion.engines, help="The engine; `elegans doctor` lists all.")
]
StorePlace = Annotated[str, typer.Argument(metavar="STORE", help="A store: a file or a database URL.")]


def say(text: str = "") -> None:
    """Write a line."""
    typer.echo(text)


def console() -> "Console":
    """Return where live views are drawn."""
    from rich.console import Console

    return Console(highlight=False, markup=False, soft_wrap=True)


def prepare(imports: list[Path] | None, no_cache: bool) -> None:
    """Import a user's own files, so that their classes are known by their kinds, and settle where programs are kept."""
    if no_cache:
        from elegans import compilation

        compilation.turn_off()
    if imports:
        from elegans import extensions

        for file in imports:
            extensions.load(file)


def named(context: typer.Context) -> list[str]:
    """Return the options that a command has by itself."""
    return [option for parameter in context.command.params for option in parameter.opts]


def typed(context: typer.Context) -> str:
    """Return the command line as it was typed."""
    return shlex.join(["elegans", *context.obj])


def ended(progress: "Progress") -> int:
    """Say in the last line how a run ended, and return its exit code."""
    from elegans.cli.progress import ending

    say(ending(progress))
    return Exit.SOME_FAILED if progress.failed else Exit.WELL


def interrupted(progress: "Progress | None", store: str, command: str) -> int:
    """Say in the last line what a stopped run leaves behind and which command continues it."""
    kept = f"{progress.done} of {progress.trials} trials are kept in {store}" if progress else "nothing was begun"
    say(f"interrupted: {kept}; to go on: {command}")
    return Exit.INTERRUPTED
