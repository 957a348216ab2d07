"""The command line, a thin layer over the Python package."""

from collections.abc import Sequence

from elegans import interruption


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        arguments: what follows ``elegans``; by default what the process was called with.
    """
    if arguments is None:
        interruption.install()
    from elegans.cli.app import run

    return run(arguments)
