"""The ``elegans`` command: its subcommands and exit codes.

Modules of commands import nothing heavy before the command runs, so that listing names, refusing an input and printing
help are instant.
"""

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from elegans.cli.commands import (
    claims,
    experiments,
    explore,
    machine,
    new,
    report,
    show,
    sweeps,
    theory,
    training,
    verification,
)
from elegans.cli.common import EXITS, Exit, say
from elegans.errors import QUOTED, ElegansError, ElegansWarning, RunError, printable
from elegans.leaving import leave

LONGEST_WORD = 500
"""Maximum number of characters of a word of an error, which may be a path."""

COMMANDS = {
    "show": show.show,
    "list": experiments.list_experiments,
    "plan": experiments.plan,
    "run": experiments.run,
    "new": new.new,
    "claims": claims.claims,
    "rejudge": claims.rejudge,
    "verify": verification.verify,
    "rerun": verification.rerun,
    "train": training.train,
    "explain": training.explain,
    "sweep": sweeps.sweep,
    "status": sweeps.status,
    "explore": explore.explore,
    "report": report.report,
    "export": sweeps.export,
    "check": sweeps.check,
    "doctor": machine.doctor,
    "bench": machine.bench,
    "theory": theory.theory,
}
"""Every command by name, in the order of the help."""


class _InOrder(click.Group):
    """A group whose help keeps the order of its commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"elegans {version('elegans')}")
        context.exit()


def _show_completion(context: click.Context, _: click.Parameter, shell: str | None) -> None:
    if shell:
        from click.shell_completion import get_completion_class

        script = get_completion_class(shell)
        assert script is not None
        say(script(app, {}, "elegans", "_ELEGANS_COMPLETE").source())
        context.exit()


_EXITS = (f"  {code:3}  {text.partition('. ')[0].rstrip('.')}" for code, text in EXITS.items())
EPILOG = "\n".join(["\b", "Exit codes:", *_EXITS])


@click.group(cls=_InOrder, commands=COMMANDS, context_settings={"show_default": True}, epilog=EPILOG)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.option(
    "--completion",
    type=click.Choice(["bash", "zsh", "fish"]),
    is_eager=True,
    expose_value=False,
    callback=_show_completion,
    help="Print the script that completes commands in a shell, and exit.",
)
def app() -> None:
    """Train thousands of small, exactly understood networks, and compare them with theory."""


def run(arguments: Sequence[str] | None) -> int:
    """Run one command line and return its exit code; None stands for the arguments of the process."""
    if arguments is None:
        _open_closed()
        warnings.formatwarning = _format_warning
    code = _run(list(sys.argv[1:] if arguments is None else arguments) or ["--help"])
    if arguments is None:
        _close_output()
        leave.ended = code
        if code == Exit.INTERRUPTED:
            os._exit(code)  # after Ctrl-C nobody waits for a compilation to end; all that matters is in the store
    return code


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Return a warning of elegans without the line of code that gave it, and any other as Python does."""
    if issubclass(category, ElegansWarning):
        return f"warning: {message}\n"
    return _FORMAT(message, category, filename, lineno, line)


_FORMAT = warnings.formatwarning


def _open_closed() -> None:
    """Open the null device for closed standard streams: a file would get their numbers, and what is printed to them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _close_output() -> None:
    """Flush the output, or discard what cannot be written: Python would try again, and fail, at its end."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            stream.flush()
        except (AttributeError, ValueError):  # it is closed, or not an output at all
            setattr(sys, name, None)
        except OSError:  # its disk is full, or its reader is gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(given: list[str]) -> int:
    try:
        return int(app.main(given, prog_name="elegans", standalone_mode=False, obj=given) or Exit.OK)
    except RunError as error:
        _refuse(str(error))
        with suppress(OSError, ValueError):
            print(*error.__notes__, sep="\n", file=sys.stderr)
        return Exit.SOME_FAILED
    except (click.ClickException, ElegansError, OSError) as error:
        return _refuse(error.format_message() if isinstance(error, click.ClickException) else _said(error))
    except SystemExit as error:  # a command returns its exit code
        # the reader of the output, such as `head`, has left, as click or rich has noticed
        enough = hasattr(sys.stdout, "wrapped") or isinstance(error.__context__, BrokenPipeError)
        return Exit.SOME_FAILED if enough else _refuse(f"a class of your own ended the program: SystemExit: {error}")
    except (KeyboardInterrupt, click.Abort):
        with suppress(OSError, ValueError):
            say("interrupted")
        return Exit.INTERRUPTED
    except (AttributeError, ValueError):
        if sys.stdout is None or (hasattr(sys.stdout, "write") and not getattr(sys.stdout, "closed", False)):
            raise
        return _refuse("a class of your own closed the standard output")


def _said(error: ElegansError | OSError) -> str:
    if isinstance(error, FileNotFoundError) and error.filename is None:
        try:
            Path.cwd()
        except FileNotFoundError:
            return "the current folder must exist: it has been removed"
    return str(error)


def _refuse(reason: str) -> int:
    """Print in one line what was wrong with the input, whose words may be of any length."""
    with suppress(AttributeError, OSError, ValueError):  # it may be closed or full
        sys.stdout.flush()
    words = (word if len(word) <= LONGEST_WORD else f"{word[:QUOTED]}…" for word in reason.split())
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print("error:", printable(" ".join(words)), file=sys.stderr)
    return Exit.BAD_INPUT
