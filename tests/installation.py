"""A smoke run of an installed elegans: `python tests/installation.py [--native yes|no]`, from any folder.

It takes nothing from the checkout, and runs in the environment whose Python runs it: `elegans doctor`, then three
experiments at their smallest scale, on three native engines where there are native ones, an experiment that `elegans
new` writes, and the verdicts on the evidence that is installed.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENTS = {
    "success-frontier": "fused",
    "modular-addition": "pairs",
    "parity-transformer": "bits",
}
"""Experiments, and the native engine that trains each."""


def elegans(*arguments: str, folder: str) -> str:
    """Run a command and return what it prints; end the smoke run where it fails."""
    command = [sys.executable, "-I", "-m", "elegans", *arguments]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False)
    print(f"{time.perf_counter() - began:6.1f} s  elegans {' '.join(arguments)}", flush=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}elegans {' '.join(arguments)} must end with 0: {done.returncode}")
    return done.stdout


def require(holds: bool, rule: str, value: object) -> None:
    """End the smoke run with one line unless a rule holds."""
    if not holds:
        sys.exit(f"{rule}: {value}")


def main() -> None:
    """Run everything in an empty folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--native", choices=["yes", "no"], default="yes", help="whether native engines must work")
    native = parser.parse_args().native == "yes"
    with tempfile.TemporaryDirectory() as folder:
        report = elegans("doctor", folder=folder)
        print(report)
        works = [line.split()[0] for line in report.splitlines() if line.endswith(" works")]
        for engine in EXPERIMENTS.values():
            require((engine in works) == native, f"{engine} must work: {native}; engines that work", works)
        require("jax" in works, "jax must work; engines that work", works)
        require(("also lost" in report) != native, "doctor must say what is lost without native engines", report)
        for name in EXPERIMENTS:
            elegans("run", name, "--scale", "smoke", "--workers", "1", folder=folder)
            made = {path.name for path in (Path(folder) / "results" / name / "smoke").iterdir()}
            require(made >= {"figure.png", "record.json"}, f"{name} must leave a figure and a record", sorted(made))
        elegans("new", "experiment", "my-first", folder=folder)
        said = elegans("run", "my_first.py", "--scale", "smoke", "--workers", "1", folder=folder)
        require("holds" in said, "a new experiment must run and be judged", said)
        judged = elegans("claims", folder=folder)
        require(judged.count("holds") > 100, "claims must have verdicts on installed evidence", judged)


if __name__ == "__main__":
    main()
