"""The command line, a thin layer over the Python package."""

from elegans import leaving


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        arguments: what follows ``elegans``; by default what the process was called with.
    """
    if arguments is None:
        leaving.install()
    from elegans.cli.app import run

    return run(arguments)
