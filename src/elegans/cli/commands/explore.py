"""``elegans explore``."""

import threading
from collections.abc import Sequence
from pathlib import Path

import click

from elegans.cli.common import Exit, imports, lasting, prepare, say


@click.command
@click.argument("stores", metavar="STORE…", nargs=-1, required=True, help="Stores: files or database URLs.")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", help="The interface to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", default=0, help="The port; 0 for any free one.")
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@imports
def explore(stores: Sequence[str], host: str, port: int, no_open: bool, imports: Sequence[Path]) -> int:
    """See sweeps live in the browser: the map of their cells, learning curves, comparisons.

    Stores are only read. Only this machine can open the page, unless --host names another interface: then its address
    has a token.

    Example: elegans explore results/success-frontier/runs.db
    """
    for store in stores:
        lasting(store)
    prepare(imports, False)
    from elegans.explorer.server import Server
    from elegans.interruption import stopped_by_signals

    stop = threading.Event()
    with Server(stores, host, port) as server, stopped_by_signals(stop):
        say(f"explorer {server.address} (Ctrl-C ends it)")
        if not no_open:
            import webbrowser

            webbrowser.open(server.address)
        stop.wait()
    say("interrupted: the explorer is closed, and its stores are as they were")
    return Exit.INTERRUPTED
