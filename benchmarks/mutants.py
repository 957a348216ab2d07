"""A mutation check of what decides verdicts: the lab's statistics, and the rules of claims.

``make mutants`` changes one place of the source at a time (an operator, a comparison, a number; the changes are those
of cosmic-ray) and runs the tests of that file, first those that run code of it. A mutant that passes them has survived:
a test is missing there, or the change makes no difference. ``python -m benchmarks.mutants [statistics|rules …]
[--count N] [--seed S]`` samples N places of each target with a fixed seed, one change per place, and prints the
survivors and the counts.
"""

import argparse
import ast
import importlib
import itertools
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
TARGETS = {
    "statistics": ("src/elegans/analysis/*.py",),
    "rules": (
        "src/elegans/experiments/rules.py",
        "src/elegans/studies/*/rules.py",
        "src/elegans/studies/*/*_claims.py",
    ),
}
"""The files of each target."""
JUDGING = "test_*claims.py", "test_*verdicts.py", "test_*errata.py"
"""Tests of rules in a study's folder."""
OMITTED = ("RemoveDecorator", "ExceptionReplacer")
"""Operators whose mutants make no difference (a cache) or cannot run."""
NO_OPERATION = "dictorsetmaker", "lambdef", "parameters"
"""Where ``*``, ``**`` and ``/`` stand for themselves and combine no values: parso's names of what holds them."""
LIBRARIES = (
    "equinox",
    "jax.experimental",
    "matplotlib.pyplot",
    "numpy",
    "optax",
    "pandas",
    "pyarrow",
    "pydantic",
    "rich.live",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.base",
    "sqlalchemy",
    "statsmodels.api",
)
"""Imported once, before the process of each mutant is forked."""
FORK = multiprocessing.get_context("fork")
Job = TypeVar("Job")
KILLED, SURVIVED, TIMEOUT = "killed", "survived", "killed by time"


@dataclass(frozen=True)
class Mutant:
    """One change of one place in a source file.

    Args:
        path: the file.
        operator: cosmic-ray's name of the change.
        occurrence: which of the places in the file that the operator can change.
        start: line and column of the place.
    """

    path: Path
    operator: str
    occurrence: int
    start: tuple[int, int]

    def code(self) -> str:
        """Return the changed source of the file."""
        found = mutate_code(self.path.read_text(encoding="utf-8"), get_operator(self.operator)(), self.occurrence)
        assert isinstance(found, str)
        return found

    def __str__(self) -> str:
        before, after = self.path.read_text(encoding="utf-8").splitlines(), self.code().splitlines()
        changed = next((old, new) for old, new in itertools.zip_longest(before, after, fillvalue="") if old != new)
        place = f"{self.path.relative_to(ROOT)}:{self.start[0]}"
        return f"{place} ({self.operator.rpartition('/')[2]})\n  - {changed[0].strip()}\n  + {changed[1].strip()}"


class Changed(SourceFileLoader):
    """Loads a module from changed source, and leaves its file as it is."""

    def __init__(self, name: str, path: Path, code: str) -> None:
        super().__init__(name, str(path))
        self.changed = code

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.changed, self.path, "exec", dont_inherit=True)


class Finder(MetaPathFinder):
    """Finds the module of a file with changed source."""

    def __init__(self, path: Path, code: str) -> None:
        self.path, self.code = path, code
        self.name = ".".join(path.relative_to(SOURCES).with_suffix("").parts)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        return spec_from_file_location(fullname, self.path, loader=Changed(fullname, self.path, self.code))


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield all changes of a file, except in annotations and of marks in signatures, such as a bare ``*``."""
    source = path.read_text(encoding="utf-8")
    tree, annotated = get_ast(source), _annotations(source)
    for name in operator_names():
        kind = get_operator(name)
        if name.rpartition("/")[2] in OMITTED or kind.arguments():
            continue
        places = ((node, start) for node in ast_nodes(tree) for start, _ in kind().mutation_positions(node))
        for occurrence, (node, start) in enumerate(places):
            is_mark = node.type == "operator" and node.parent.type in NO_OPERATION
            if not is_mark and not any(first <= start < last for first, last in annotated):
                yield Mutant(path, name, occurrence, start)


def _annotations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where the annotations of a file begin and end."""
    found = []
    for node in ast.walk(ast.parse(source)):
        for one in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(one, ast.expr):
                found.append(((one.lineno, one.col_offset), (one.end_lineno or 0, one.end_col_offset or 0)))
    return found


def sample(target: str, count: int, seed: int) -> tuple[list[Mutant], int]:
    """Return a sample of a target's mutants, at most one per place, and how many it has in all."""
    everything = [one for glob in TARGETS[target] for path in sorted(ROOT.glob(glob)) for one in mutants(path)]
    random.Random(seed).shuffle(everything)
    chosen: dict[tuple[Path, tuple[int, int]], Mutant] = {}
    for one in everything:
        if len(chosen) < count:
            chosen.setdefault((one.path, one.start), one)
    return list(chosen.values()), len(everything)


def tests_of(path: Path) -> list[str]:
    """Return the test files of a source file."""
    part = path.relative_to(SOURCES / "elegans")
    tests = ROOT / "tests"
    if part.parts[0] == "analysis":
        found = sorted((tests / "analysis").glob("test_*.py"))
    else:
        folders = [tests / "experiments"] if part.parts[0] == "experiments" else []
        folders += [tests / "studies" / (part.parts[1] if part.parts[0] == "studies" else "*")]
        found = [one for folder in folders for glob in JUDGING for one in sorted(ROOT.glob(_under(folder / glob)))]
    return [str(one) for one in found]


def _under(pattern: Path) -> str:
    return str(pattern.relative_to(ROOT))


@dataclass(frozen=True)
class Test:
    """A test that passes without a change.

    Args:
        name: pytest's name of it.
        seconds: how long it took.
        entered: the source files whose code it ran.
    """

    name: str
    seconds: float
    entered: frozenset[str]


class Watcher:
    """A plugin of pytest that notes the source files whose code each test runs, and how long it takes."""

    def __init__(self) -> None:
        self.found: list[tuple[str, float, list[str]]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        entered: set[str] = set()

        def enter(frame: FrameType, event: str, given: object) -> None:
            entered.add(frame.f_code.co_filename)

        began = time.monotonic()
        sys.settrace(enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            inside = sorted(one for one in entered if one.startswith(str(SOURCES)))
            self.found.append((item.nodeid, time.monotonic() - began, inside))


def _run(tests: Sequence[str], plugin: object = None) -> int:
    """Run tests in this process without a word, and return pytest's exit code."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    # plain: a plugin that is imported already would be a warning, and so an error
    options = ["-x", "-q", "--assert=plain", "-m", "not slow", "-p", "no:cacheprovider"]
    return int(pytest.main([*options, *tests], plugins=[] if plugin is None else [plugin]))


def _watch(file: str, result: Path) -> None:
    """Run the tests of a file in this process, write what they entered, and end it with their exit code."""
    watcher = Watcher()
    ended = _run([file], watcher)
    result.write_text(json.dumps(watcher.found), encoding="utf-8")
    os._exit(ended)


def _try(one: Mutant, tests: Sequence[str]) -> None:
    """Run tests with a change in this process, and end it with their exit code."""
    sys.meta_path.insert(0, Finder(one.path, one.code()))
    try:
        os._exit(_run(tests))
    except BaseException:
        os._exit(1)


def watched(files: Sequence[str], workers: int) -> dict[str, list[Test]]:
    """Return the tests of each test file; raise if one fails without any change."""
    found: dict[str, list[Test]] = {}
    with tempfile.TemporaryDirectory() as folder:
        results = {file: Path(folder) / str(number) for number, file in enumerate(files)}
        jobs = [(file, partial(_watch, file, result), float("inf")) for file, result in results.items()]
        for file, code in _side_by_side(jobs, workers):
            assert code == 0, f"tests must pass without a change: {file}"
            rows = json.loads(results[file].read_text(encoding="utf-8"))
            found[file] = [Test(name, seconds, frozenset(entered)) for name, seconds, entered in rows]
    return found


def judged(chosen: Sequence[Mutant], tests: Mapping[str, Sequence[Test]], workers: int) -> Iterator[tuple[Mutant, str]]:
    """Yield each mutant with what became of it, in the order in which their tests end.

    Tests that run the changed file come first, the shortest before. Only a mutant that passes them all meets the other
    tests of its file, which may see a constant of it.
    """
    left = list(chosen)
    for runs_it in (True, False):
        jobs = []
        for one in left:
            every = [test for file in tests_of(one.path) for test in tests[file]]
            mine = [test for test in every if (str(one.path) in test.entered) is runs_it]
            names = [test.name for test in sorted(mine, key=lambda test: test.seconds)]
            if names:
                jobs.append((one, partial(_try, one, names), 3 * sum(test.seconds for test in mine) + 300))
        for one, code in _side_by_side(jobs, workers):
            if code != 0:
                left.remove(one)
                yield one, TIMEOUT if code is None else KILLED
    yield from ((one, SURVIVED) for one in left)


def _side_by_side(
    jobs: Sequence[tuple[Job, Callable[[], None], float]], workers: int
) -> Iterator[tuple[Job, int | None]]:
    """Call functions in processes of their own; yield each job with its exit code, or None if its seconds are over."""
    waiting = list(reversed(jobs))
    running: dict[BaseProcess, tuple[Job, float]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            job, function, limit = waiting.pop()
            child: BaseProcess = FORK.Process(target=function)
            child.start()
            running[child] = job, time.monotonic() + limit
        wait([child.sentinel for child in running], timeout=1)
        for child, (job, deadline) in list(running.items()):
            if child.is_alive() and time.monotonic() < deadline:
                continue
            code = None if child.is_alive() else child.exitcode
            child.kill()
            child.join()
            del running[child]
            yield job, code


def main() -> None:
    """Check the targets, and print the survivors and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], default=list(TARGETS))
    parser.add_argument("--count", type=int, default=120, help="mutants of each target")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the sample")
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1), help="mutants tried at once")
    given = parser.parse_args()
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    for name in LIBRARIES:
        importlib.import_module(name)
    assert "elegans" not in sys.modules, "each mutant imports elegans itself"
    for target in given.targets or TARGETS:
        chosen, total = sample(target, given.count, given.seed)
        tests = watched(sorted({test for one in chosen for test in tests_of(one.path)}), given.workers)
        counts: dict[str, int] = dict.fromkeys((KILLED, TIMEOUT, SURVIVED), 0)
        for one, result in judged(chosen, tests, given.workers):
            counts[result] += 1
            if result == SURVIVED:
                print(one, flush=True)
        print(_summary(target, total, chosen, counts), flush=True)


def _summary(target: str, total: int, chosen: Sequence[Mutant], counts: Mapping[str, int]) -> str:
    ended = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"{target}: {len(chosen)} of {total} mutants sampled: {ended}"


if __name__ == "__main__":
    main()
