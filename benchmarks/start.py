"""The time to import elegans in a fresh process, and the processor time of quick commands."""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.measure import in_turns, seconds, spread
from benchmarks.record import Result, Target

IMPORT_LIMIT, COMMAND_LIMIT = 0.3, 0.5
INSIDE = "import time; begun = time.perf_counter(); import elegans; print(time.perf_counter() - begun)"
COMMAND = [sys.executable, "-m", "elegans"]
QUICK = (
    "--help",
    "--version",
    "list",
    "theory",
    "theory information_bits n=50 k=3",
    "claims",
    "status runs.db",
    "train --k 60 --n 50",
    "train --task sparse-party",
    "run succes-frontier",
    "sweep bad.toml",
)


def run(*, quick: bool) -> Result:
    """Start processes alternately."""
    repetitions = 3 if quick else 15
    with tempfile.TemporaryDirectory() as folder:
        _prepare(Path(folder))
        clock: dict[str, Callable[[], float]] = {
            "python -c pass": partial(_wall, [sys.executable, "-c", "pass"]),
            "python -c 'import elegans'": partial(_wall, [sys.executable, "-c", "import elegans"]),
            "import elegans, inside the process": _inside,
        }
        commands: dict[str, Callable[[], float]] = {
            f"elegans {line}": partial(_processor, [*COMMAND, *line.split()], folder) for line in QUICK
        }
        for contender in (*clock.values(), *commands.values()):
            contender()
        walls, processor = in_turns(clock, repetitions), in_turns(commands, repetitions)
    whole = median(walls["python -c 'import elegans'"])
    slowest = max(map(median, processor.values()))
    return Result(
        settings={"repetitions": repetitions},
        repetitions={"seconds": walls, "processor_seconds": processor},
        summary=[
            *(_row(name, "ms", values) for name, values in walls.items()),
            *(_row(name, "ms of processor time", values) for name, values in processor.items()),
        ],
        targets=[
            Target(
                "import elegans in a fresh process, the interpreter's start included", whole, IMPORT_LIMIT, " s", False
            ),
            Target("processor time of the slowest quick command", slowest, COMMAND_LIMIT, " s", False),
        ],
    )


def _row(name: str, unit: str, values: Sequence[float]) -> dict[str, str]:
    return {"what": name, "unit": unit, "median (range)": spread([1e3 * value for value in values])}


def _prepare(folder: Path) -> None:
    """Write a store, and a sweep that names an unknown model."""
    example = subprocess.run([*COMMAND, "sweep", "--example"], check=True, capture_output=True, text=True).stdout
    (folder / "good.toml").write_text(example, encoding="utf-8")
    (folder / "bad.toml").write_text(example.replace('kind = "mlp"', 'kind = "mpl"'), encoding="utf-8")
    subprocess.run(
        [*COMMAND, "sweep", "good.toml", "--store", "runs.db"], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )


def _wall(command: Sequence[str]) -> float:
    return seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))


def _processor(command: Sequence[str], folder: str) -> float:
    """Return the user and system seconds of a command, which may refuse its input."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _inside() -> float:
    done = subprocess.run([sys.executable, "-c", INSIDE], check=True, capture_output=True, text=True)
    return float(done.stdout)
