"""How long a fresh process takes to import elegans, and the command to print its help."""

import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.measure import in_turns, seconds, spread
from benchmarks.record import Result, Target

LIMIT = 0.3
INSIDE = "import time; begun = time.perf_counter(); import elegans; print(time.perf_counter() - begun)"


def run(*, quick: bool) -> Result:
    """Start processes in turns."""
    repetitions = 5 if quick else 25
    script = Path(sys.executable).parent / "elegans"
    command = [str(script)] if script.exists() else [sys.executable, "-c", "from elegans.cli import main; main()"]
    contenders = {
        "python -c pass": partial(_process, [sys.executable, "-c", "pass"]),
        "python -c 'import elegans'": partial(_process, [sys.executable, "-c", "import elegans"]),
        "import elegans, inside the process": _inside,
        "elegans --help": partial(_process, [*command, "--help"]),
    }
    for contender in contenders.values():
        contender()
    figures = in_turns(contenders, repetitions)
    whole = figures["python -c 'import elegans'"]
    return Result(
        settings={"repetitions": repetitions},
        repetitions={"seconds": figures},
        summary=[{"what": name, "ms": spread([1e3 * value for value in values])} for name, values in figures.items()],
        targets=[
            Target(
                "import elegans in a fresh process, the interpreter's start included", median(whole), LIMIT, " s", False
            )
        ],
    )


def _process(command: Sequence[str]) -> float:
    return seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))


def _inside() -> float:
    done = subprocess.run([sys.executable, "-c", INSIDE], check=True, capture_output=True, text=True)
    return float(done.stdout)
