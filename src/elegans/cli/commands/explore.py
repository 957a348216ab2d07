"""``elegans explore``, and ``--explore`` of the commands that run trials."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from elegans.cli.common import Exit, imports, prepare, say, store_in

beside = click.option("--explore", is_flag=True, help="Open the explorer on the store until the run ends.")
"""The option of commands that run trials."""
LOOK_SECONDS = 0.5


@click.command
@click.argument(
    "stores",
    metavar="STORE|FOLDER|FILE.py…",
    nargs=-1,
    required=True,
    help="Stores (files or database URLs), folders of results, even before they have a store, or files of your own "
    "experiments.",
)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", help="The network interface to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", default=0, help="The port; 0 for any free one.")
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option("--with-stdin", is_flag=True, hidden=True, help="End when the standard input is closed.")
@imports
def explore(
    stores: Sequence[str], host: str, port: int, no_open: bool, with_stdin: bool, imports: Sequence[Path]
) -> int:
    """See sweeps live in the browser.

    The page has a map of the cells, learning curves and comparisons. It only reads stores. Only this machine can open
    it, unless --host names another interface; its address then has a token.

    Example: elegans explore results/success-frontier
    """
    places = [place for store in stores for place in _places(store)]
    prepare(imports, False)
    from elegans.explorer.server import Server
    from elegans.interruption import stopped_by_signals

    stop, server = threading.Event(), Server(places, host, port)
    with stopped_by_signals(stop), server:
        say(f"explorer {server.address} (Ctrl-C ends it)")
        for awaited in filter(None, (explored.awaited for explored in server.stores)):
            say(f"waiting for a store in {awaited.parent}: the page shows it once a run has made it")
        sys.stdout.flush()
        if with_stdin:
            threading.Thread(target=_wait_for_end, args=(stop,), daemon=True).start()
        if not no_open:
            import webbrowser

            webbrowser.open(server.address)
        while not stop.wait(LOOK_SECONDS):
            pass  # a signal that another thread has received is handled once the main thread wakes up
    with suppress(BrokenPipeError):  # who has ended it may not read on
        say("interrupted: the explorer is closed; its stores were only read")
    return Exit.INTERRUPTED


def _places(store: str) -> list[str]:
    """Return a store, or the stores in the folder ``results`` of the experiments that a user's file defines."""
    from elegans.experiments.registry import is_file, own_experiments

    return (
        [store_in(f"results/{entry.name}") for entry in own_experiments(store)] if is_file(store) else [store_in(store)]
    )


def _wait_for_end(stop: threading.Event) -> None:
    with suppress(OSError, ValueError):
        sys.stdin.read()
    stop.set()


@contextmanager
def exploring(wanted: bool, store: str, imports: Sequence[Path]) -> Iterator[None]:
    """Keep the explorer open on a store, in a separate process for which training does not wait.

    The process ends with this one, even if this one is killed, since its standard input is then closed.
    """
    if not wanted:
        yield
        return
    from elegans.store import Store

    if "://" not in store:
        Path(store).parent.mkdir(parents=True, exist_ok=True)
    Store(store).close()  # a store must exist to be explored
    command = [sys.executable, "-m", "elegans", "explore", store, "--with-stdin"]
    command += [word for file in imports for word in ("--import", str(file))]
    pipe = subprocess.PIPE
    # in its own session, so that Ctrl-C ends the run, which then ends the explorer
    child = subprocess.Popen(command, text=True, start_new_session=True, stdin=pipe, stdout=pipe)
    assert child.stdin is not None and child.stdout is not None
    try:
        said = child.stdout.readline().strip()
        if said:
            say(said.replace("Ctrl-C ends it", "it ends with the run"))
        yield
    finally:
        child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=5)
        if child.poll() is None:
            child.kill()
        say(f"to open it again: elegans explore {store}")
