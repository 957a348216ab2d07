"""What every test shares."""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from processes import Run, forking

pytest_plugins = ["stores"]

# All processes of a test run, and those that they start, share what JAX compiles with each other and with later runs.
os.environ.setdefault("ELEGANS_COMPILATION_CACHE", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))

# Each worker has a core to itself: the threads of its BLAS would only wait for those of the others.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Where compiling counts most, XLA takes its older emitter of fused loops, which compiles two to three times as fast,
# and compiles a program whole: in parts, for several cores, takes a third longer in all.
if "JAX_DISABLE_MOST_OPTIMIZATIONS" in os.environ:
    fast = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ.setdefault("XLA_FLAGS", fast)

# The same examples on every machine and in every run, and no deadline: a busy machine is no failure.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None, print_blob=True)
settings.load_profile("fixed")


os.environ.pop("COLUMNS", None)  # output that goes to no terminal is not cut


@pytest.fixture(scope="session")
def run_apart() -> Iterator[Run]:
    """Run a program in a process of its own, as ``processes.Run`` says."""
    if not hasattr(os, "fork"):
        pytest.skip("programs are run in forks of one process, which this system does not have")
    with forking() as run:
        yield run


@pytest.fixture
def elegans(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Run a command line in an empty folder; return its exit code, output and error output.

    Each call says its notes as a new process does. Files of experiments that it loads are forgotten after the test.
    """
    from elegans import discovery
    from elegans.cli import main
    from elegans.display import note

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(discovery, "LOADED", dict(discovery.LOADED))

    def call(*arguments: object) -> tuple[int, str, str]:
        note.cache_clear()
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Handle SIGINT as in the foreground of a terminal, here and in commands started from here.

    A shell starts what it runs in the background with SIGINT ignored, and children inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests more time than the others have, which pyproject.toml says; tell which of them train for long."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(900))
            if "studies" in item.path.parts and not item.get_closest_marker("compiles"):
                item.add_marker(pytest.mark.trains)


def pytest_collection() -> None:
    """Collect no garbage while tests are collected: what is made then stays to the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave what collection has made out of every later collection of garbage, and collect more rarely than usual.

    A program that JAX traces takes tens of thousands of small objects, few of which are garbage.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
