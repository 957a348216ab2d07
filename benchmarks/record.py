"""The results and circumstances of benchmarks: one JSON file each."""

import datetime
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from elegans.errors import ElegansError
from elegans.files import checked_path, replaced, writable
from elegans.machine import cores as cores, machine, versions

RESULTS = Path("benchmarks/results")
COARSE = Path("build/benchmarks")
"""The folders of results, of whole runs and of coarse ones."""


@dataclass(frozen=True)
class Target:
    """A target and its measured value.

    Args:
        what: what is measured, in words.
        measured: the figure (a median if there are repetitions).
        limit: the target.
        unit: the unit of both, as printed after them.
        at_least: whether more is better.
    """

    what: str
    measured: float
    limit: float
    unit: str
    at_least: bool

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


def at_least(what: str, measured: float, limit: float, unit: str) -> Target:
    """Return a target for which more is better."""
    return Target(what, measured, limit, unit, at_least=True)


def at_most(what: str, measured: float, limit: float, unit: str) -> Target:
    """Return a target for which less is better."""
    return Target(what, measured, limit, unit, at_least=False)


@dataclass(frozen=True)
class Result:
    """The result of a benchmark.

    Args:
        settings: what was measured: sizes, steps, repetitions.
        repetitions: every figure of every repetition, by contender.
        summary: the rows of the table on the page: medians, ratios, and the smallest and largest.
        targets: the targets of this benchmark.
    """

    settings: Mapping[str, Any]
    repetitions: Any
    summary: Sequence[Mapping[str, Any]]
    targets: Sequence[Target] = field(default_factory=list)


def write(result: Result, folder: Path, name: str, *, quick: bool, seconds: float, load: float) -> Path:
    """Write a result with its circumstances as ``<folder>/<name>.json`` and return the path.

    Args:
        result: the result.
        folder: the folder, created if missing.
        name: the benchmark's name.
        quick: whether the run was a coarse one.
        seconds: how long it took.
        load: the machine's load average before it began, due to other programs.
    """
    record = {
        "benchmark": name,
        "command": f"python -m benchmarks {name}{' --quick' if quick else ''}",
        "quick": quick,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "load_before": round(load, 2),
        "machine": machine(),
        "versions": versions("torch"),
        "settings": result.settings,
        "summary": result.summary,
        "targets": [{**asdict(target), "met": target.met} for target in result.targets],
        "repetitions": result.repetitions,
    }
    path = destination(folder, name)
    with replaced(path) as draft:
        draft.write_text(json.dumps(rounded(record), indent=1) + "\n", encoding="utf-8")
    return path


def destination(folder: Path, name: str) -> Path:
    """Return the file of a benchmark's result, whose folder is made; refuse one that cannot be written."""
    try:
        checked_path(folder, "a folder of results", ElegansError).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ElegansError(f"results must have a folder that can be created: {error}") from None
    return writable(folder / f"{name}.json", "a benchmark's result", ElegansError)


def rounded(value: Any) -> Any:
    """Return a nested record in plain values, with numbers rounded to six digits, more than a clock can resolve."""
    if isinstance(value, np.generic):
        return rounded(value.item())
    if isinstance(value, Mapping):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def restrict(count: int) -> None:
    """Restrict this process and its children to a number of cores, if the system supports it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
