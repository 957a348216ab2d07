"""Exit codes, options and closing lines that several commands share."""

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elegans.cli import completion
from elegans.errors import StoreError, printable, without_passwords
from elegans.files import checked_path

if TYPE_CHECKING:
    from rich.console import Console

    from elegans.sweeps import Progress


class Exit(IntEnum):
    """The meaning of a command's exit code."""

    OK = 0
    SOME_FAILED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130


EXITS = {
    Exit.OK: "The command did what it was asked. Trials that stay unsolved or diverge, and claims that fail or are "
    "undecided, are results like any other.",
    Exit.SOME_FAILED: "A trial failed with an error, or a comparison, a check or a verification found a difference.",
    Exit.BAD_INPUT: "The input was refused, and nothing was run.",
    Exit.INTERRUPTED: "Ctrl-C or a signal ended the command. Trials that had ended are kept.",
}
"""What each exit code says."""


class Count(click.ParamType[int]):
    """A whole number of at least 1."""

    name = "count"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the number."""
        text = str(value)
        if not text.isdecimal() or len(text) > 18 or int(text) < 1:
            self.fail(f"must be a whole number of at least 1, and of at most 18 digits: {text[:40]!r}", param, ctx)
        return int(text)


class File(click.Path):
    """A file or folder, which need not exist."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it."""
        if "\0" in str(value):
            self.fail(f"must be a path without NUL: {printable(str(value))[:40]!r}", param, ctx)
        try:
            os.fsencode(value)
        except UnicodeEncodeError:
            self.fail(f"must be a path that this system can encode: {printable(str(value))[:40]}", param, ctx)
        return super().convert(value, param, ctx)


OPEN = {"allow_extra_args": True, "ignore_unknown_options": True}
"""For commands whose further options are fields of a task, or an experiment's own."""
FILE = File(path_type=Path)
"""The type of every argument that is a path."""

retry_failed = click.option(
    "--retry-failed", is_flag=True, help="Run failed trials again, even if your code is the same."
)
retrain_changed = click.option(
    "--retrain-changed", is_flag=True, help="Retrain trials whose user-defined classes have changed."
)
imports = click.option(
    "--import",
    "imports",
    type=FILE,
    multiple=True,
    metavar="FILE.py",
    help="Load your own tasks, models and probes; can be given several times.",
)
no_cache = click.option("--no-cache", is_flag=True, help="Neither load nor keep compiled JAX programs on disk.")
workers = click.option(
    "--workers", type=Count(), metavar="N", show_default="all cores", help="The number of training threads."
)
scheduler = click.option(
    "--scheduler",
    metavar="ADDRESS|FILE|local:N",
    help="Train on the workers of a Dask scheduler, or in N processes here.",
)
instruction_set = click.option(
    "--instruction-set",
    metavar="NAME",
    show_default="the best that all workers have",
    help="The instruction set of the scheduler's workers.",
)
seeds = click.option("--seeds", type=Count(), metavar="N", show_default="the scale's own", help="Trials per cell.")
engine = click.option(
    "--engine",
    metavar="NAME",
    default="auto",
    shell_complete=completion.engines,
    help="The engine; `elegans doctor` lists all.",
)
experiment = click.argument(
    "experiment",
    metavar="EXPERIMENT|FILE.py",
    shell_complete=completion.experiments,
    help="The experiment's name (see `elegans list`), or your own file that defines it.",
)
store_place = click.argument("store", help="A store (a file or a database URL), or a folder of results with one.")


def lasting(store: str) -> str:
    """Return the place of a store that outlives the command."""
    in_memory = False
    if store.startswith("sqlite") and "://" in store:
        from elegans.store.location import locate  # here, because quick commands do without SQLAlchemy

        in_memory = locate(store).in_memory
    if not store or in_memory:
        raise click.UsageError(f"a command's store must be a file or a server's database: {store!r}")
    return store


def store_in(place: str) -> str:
    """Return a store, or the one in the folder of an experiment's results or of one of its scales."""
    if "://" in lasting(place):
        return place
    path = checked_path(place, "a store", StoreError)
    with suppress(OSError):  # such as a name that is too long, which opening the store reports
        for folder in (path, path.parent) if (path / "record.json").exists() else (path,):
            if (folder / "runs.db").exists():
                return str(folder / "runs.db")
    return place


def say(text: str = "") -> None:
    """Print lines without passwords, and with terminal control characters escaped: names may come from anywhere."""
    lines = without_passwords(text).split("\n")
    click.echo("\n".join("\t".join(map(printable, line.split("\t"))) for line in lines))


def console() -> "Console":
    """Return the console on which live views are drawn."""
    from rich.console import Console

    return Console(highlight=False, markup=False, soft_wrap=True)


def prepare(imports: Sequence[Path], no_cache: bool) -> None:
    """Import a user's files, which registers their classes, and decide whether compiled programs are kept."""
    if no_cache:
        from elegans import compilation

        compilation.turn_off()
    if imports:
        from elegans import extensions

        for file in imports:
            extensions.load(file)


def named(context: click.Context) -> list[str]:
    """Return a command's own options."""
    return [option for parameter in context.command.params for option in parameter.opts]


def typed(context: click.Context) -> str:
    """Return the command line as it was typed."""
    return shlex.join(["elegans", *context.obj])


def ended(progress: "Progress") -> int:
    """Print how a run ended as the last line, and return its exit code."""
    from elegans.sweeps.progress import ending

    say(ending(progress))
    return Exit.SOME_FAILED if progress.failed else Exit.OK


def interrupted(progress: "Progress | None", store: str | None, command: str) -> int:
    """Print as the last line what a stopped run has kept, or that it has kept nothing, and how it continues."""
    done = f"{progress.done:,} of {progress.trials:,} trials" if progress else ""
    if done and store is None:
        say(f"interrupted: {done} are lost, since no --out names a folder; to start again: {command}")
    else:
        say(f"interrupted: {f'{done} are kept in {store}' if done else 'nothing was started'}; to continue: {command}")
    return Exit.INTERRUPTED
