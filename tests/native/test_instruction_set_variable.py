"""The environment variable ELEGANS_INSTRUCTION_SET chooses the instruction set at import."""

import os
import subprocess
import sys
from pathlib import Path

CODE = "from conftest import load; print(load().instruction_set())"


def run(name):
    environment = {**os.environ, "ELEGANS_INSTRUCTION_SET": name}
    command = [sys.executable, "-c", CODE]
    folder = Path(__file__).parent
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def test_the_variable_forces_a_set():
    assert run("baseline").stdout.strip() == "baseline"


def test_a_wrong_name_is_refused_at_import():
    finished = run("mmx")
    assert finished.returncode != 0
    assert "ELEGANS_INSTRUCTION_SET must be one of baseline" in finished.stderr
