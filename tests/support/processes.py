"""Programs that run in children of a process which has imported the large libraries.

Such a child imports all of elegans itself, as a new interpreter does, but not again what others have written, which
would take it seconds.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

LIBRARIES = (
    *("equinox", "jax.experimental", "matplotlib.pyplot", "matplotlib.backends.backend_agg", "numpy", "optax"),
    *("matplotlib.backends.backend_pdf", "pandas", "pyarrow", "pydantic", "rich.console", "rich.live", "click"),
    *("scipy.optimize", "scipy.stats", "sqlalchemy.dialects.sqlite"),
)

SERVER = """
import gc, importlib, json, multiprocessing, os, runpy, signal, sys

for name in sys.argv[1:]:
    importlib.import_module(name)
assert "elegans" not in sys.modules


def become(job):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in the foreground of a terminal
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["variables"])
    for number, name in ((1, job["out"]), (2, job["err"])):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    sys.path[0] = job["folder"]
    flag, *sys.argv = job["arguments"]
    if flag == "-m":
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv.insert(0, flag)
        runpy.run_path(flag, run_name="__main__")


gc.freeze()
for line in sys.stdin:
    child = multiprocessing.get_context("fork").Process(target=become, args=[json.loads(line)])
    child.start()
    child.join()
    print(child.exitcode, flush=True)
"""


class Ended(NamedTuple):
    """A program that has ended: its exit code and what it wrote."""

    code: int
    out: str
    err: str


class Run(Protocol):
    """Runs a program of a folder, or after ``-m`` a module, with every warning being an error, and waits for it."""

    def __call__(self, folder: Path, *arguments: str, **variables: str) -> Ended: ...


@contextmanager
def forking() -> Iterator[Run]:
    """Provide what runs programs in children of one process, one after the other."""
    command = [sys.executable, "-W", "error", "-c", SERVER, *LIBRARIES]
    with (
        TemporaryDirectory() as written,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdin and server.stdout
        job, results = server.stdin, server.stdout

        def run(folder: Path, *arguments: str, **variables: str) -> Ended:
            out, err = Path(written, "out"), Path(written, "err")
            for file in (out, err):
                file.write_text("")
            told = {"folder": str(folder), "arguments": arguments, "variables": {**os.environ, **variables}}
            print(json.dumps({**told, "out": str(out), "err": str(err)}), file=job, flush=True)
            return Ended(int(results.readline()), out.read_text(), err.read_text())

        yield run
