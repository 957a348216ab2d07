"""The commands under one name, and their exit codes.

No module of a command imports anything heavy before the command runs: what only reads names, refuses an input or prints
help answers at once.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from elegans.cli.commands import claims, experiments, machine, sweeps, theory, training
from elegans.cli.common import Exit, say
from elegans.errors import ElegansError

COMMANDS: dict[str, Any] = {
    "list": experiments.list_experiments,
    "plan": experiments.plan,
    "run": experiments.run,
    "claims": claims.claims,
    "verify": claims.verify,
    "train": training.train,
    "sweep": sweeps.sweep,
    "status": sweeps.status,
    "export": sweeps.export,
    "doctor": machine.doctor,
    "bench": machine.bench,
    "theory": theory.theory,
}
"""Every command by name, in the order of the help."""
OPEN = {"allow_extra_args": True, "ignore_unknown_options": True}
"""For commands whose further options are fields of a task, or an experiment's own."""

app = typer.Typer(name="elegans", rich_markup_mode=None, pretty_exceptions_enable=False)
for _name, _command in COMMANDS.items():
    app.command(_name, context_settings=OPEN if _name in ("plan", "run", "train") else {})(_command)
_ClickError: Any = typer.BadParameter.__mro__[2]
"""The base of click's errors; typer carries a click of its own from some version on."""


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"elegans {version('elegans')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train thousands of small, exactly understood networks, and compare them with theory."""


def run(arguments: Sequence[str] | None) -> int:
    """Run one command line and return its exit code; None stands for the arguments of the process."""
    code = _run(list(sys.argv[1:] if arguments is None else arguments) or ["--help"])
    if code == Exit.INTERRUPTED and arguments is None:
        # whoever pressed Ctrl-C does not wait for a compilation to end; everything that counts is in the store
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _run(given: list[str]) -> int:
    try:
        return int(app(given, prog_name="elegans", standalone_mode=False, obj=given) or Exit.WELL)
    except _ClickError as error:
        return _refuse(error.format_message())
    except (ElegansError, OSError) as error:
        return _refuse(str(error))
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED


def _refuse(reason: str) -> int:
    """Say in one line what was wrong with the input."""
    sys.stdout.flush()
    print("error:", " ".join(reason.split()), file=sys.stderr)
    return Exit.BAD_INPUT
