"""The command: ``python -m benchmarks [names …] [--quick | --report] [--out FOLDER]``; ``… faults`` tries faults."""

import argparse
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import page, record
from benchmarks.record import COARSE, RESULTS
from elegans.errors import ElegansError

NAMES = (
    "start",
    "overhead",
    "cluster",
    "postgres",
    "explore",
    "models",
    "probes",
    "curves",
    "subnormals",
    "labels",
    "chains",
    "peak",
    "steps",
    "parts",
    "pairs",
    "transformers",
    "attention",
    "bits",
    "groups",
    "projection",
    "trace",
    "tabular",
    "tables",
    "ablations",
)
RESUMED = ("tables", "ablations")
CORES = 2


def main() -> int:
    """Run the named benchmarks (all by default), each in its own process; return 1 if one fails."""
    if sys.argv[1:2] == ["faults"]:
        return int(importlib.import_module("benchmarks.faults").main(sys.argv[2:]))
    arguments = _arguments()
    out = arguments.out or (COARSE if arguments.quick else RESULTS)
    failed = []
    if len(arguments.names) == 1:
        _run(arguments.names[0], out, quick=arguments.quick, **({"report": True} if arguments.report else {}))
    else:
        options = ["--quick"] if arguments.quick else []
        for name in arguments.names or NAMES:
            command = [sys.executable, "-m", "benchmarks", name, "--out", str(out), *options]
            if subprocess.run(command, check=False).returncode:
                failed.append(name)
    if out == RESULTS and not arguments.quick:
        page.render(out)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure the speed of elegans and its peers."
    )
    parser.add_argument("names", nargs="*", help=f"which benchmarks: {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions; the page is not changed")
    parser.add_argument(
        "--report", action="store_true", help=f"only report what a stopped run has measured: {', '.join(RESUMED)}"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help=f"folder of the results (by default {RESULTS}, which docs/performance.md shows; with --quick {COARSE})",
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in NAMES]
    if arguments.report and (len(arguments.names) != 1 or arguments.names[0] not in RESUMED):
        parser.error(f"--report is for one of {', '.join(RESUMED)}")
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are: {', '.join(NAMES)}")
    return arguments


def _run(name: str, out: Path, *, quick: bool, **options: bool) -> None:
    """Run one benchmark on two cores, write its result and print its table."""
    record.destination(out, name)  # before minutes of measuring
    record.restrict(CORES)
    load = os.getloadavg()[0]
    print(f"{name}: …", flush=True)
    begun = time.perf_counter()
    result = importlib.import_module(f"benchmarks.{name}").run(quick=quick, **options)
    spent = time.perf_counter() - begun
    path = record.write(result, out, name, quick=quick, seconds=spent, load=load)
    for row in result.summary:
        print("  " + ", ".join(f"{key}: {value}" for key, value in row.items()))
    for target in result.targets:
        sign = "at least" if target.at_least else "at most"
        verdict = "met" if target.met else "MISSED"
        print(f"  {verdict}: {target.what}: {target.measured:.4g}{target.unit} ({sign} {target.limit:g}{target.unit})")
    print(f"  {path} ({spent:.0f} s)", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ElegansError as error:
        sys.exit(f"error: {error}")
