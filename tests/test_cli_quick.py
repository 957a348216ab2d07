"""Commands that only read names, refuse an input or print help import no large library, most not even NumPy."""

import json
import os
import subprocess
import sys

import pytest

from elegans.cli import main
from elegans.experiments.registry import entries
from elegans.sweeps.example import EXAMPLE_TOML
from elegans.training.engines import ENGINES

HEAVY = {"jax", "jaxlib", "matplotlib", "optax", "equinox", "pandas", "scipy", "sklearn", "statsmodels"}
CALL = """
import json, sys
from elegans.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as exit:
    code = exit.code
print("\\n" + json.dumps([code, sorted(sys.modules)]))
"""
IN_TURN = """
import json, sys
from elegans.cli import main
results = []
for command in sys.argv[1:]:
    try:
        code = main(command.split())
    except SystemExit as exit:
        code = exit.code
    results.append([code, sorted(sys.modules)])
print("\\n" + json.dumps(results))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a store, and with a sweep that names an unknown model."""
    folder = tmp_path_factory.mktemp("quick")
    (folder / "my.toml").write_text(EXAMPLE_TOML.replace("seeds = 5", "seeds = 1"))
    (folder / "bad.toml").write_text(EXAMPLE_TOML.replace('kind = "mlp"', 'kind = "mpl"'))
    assert main(["sweep", str(folder / "my.toml"), "--store", str(folder / "runs.db"), "--workers", "1"]) == 0
    return folder


@pytest.mark.slow
def test_a_run_without_a_terminal_says_what_it_loads_before_it_imports_large_libraries(tmp_path):
    watching = (
        "import builtins, sys; print = builtins.print; from elegans import display; from elegans.cli import main\n"
    )
    watching += "display.note.__wrapped__.__globals__['print'] = lambda text, file: print(text, 'jax' in sys.modules)\n"
    command = [sys.executable, "-c", watching + "main(sys.argv[1:])", "run", "success-frontier", "--seeds", "1"]
    (tmp_path / "taken").touch()
    done = subprocess.run([*command, "--out", "taken"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "loading success-frontier at scale laptop False\n"
    assert done.stderr.startswith("error: results must have a folder")


def called(folder, *arguments, **variables):
    """Run a command in a new process; return its exit code, its output and the modules that it has imported."""
    done = subprocess.run(
        [sys.executable, "-c", CALL, *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    out, _, last = done.stdout.rstrip("\n").rpartition("\n")
    code, modules = json.loads(last)
    return code, out.strip(), set(modules)


def called_in_turn(folder, commands):
    """Run commands in one new process; return each one's exit code and all modules that are imported after it.

    Modules stay imported, so that the first command after which one is there has imported it.
    """
    done = subprocess.run(
        [sys.executable, "-c", IN_TURN, *commands], cwd=folder, capture_output=True, text=True, check=True
    )
    results = json.loads(done.stdout.splitlines()[-1])
    return {command: (code, set(modules)) for command, (code, modules) in zip(commands, results, strict=True)}


@pytest.mark.slow
def test_a_quick_command_imports_no_large_library(folder):
    expected = {
        "theory information_bits n=50 k=3": 0,
        "theory information_bits n=abc k=3": 2,
        "status runs.db": 0,
        "sweep bad.toml": 2,
        "train --n 20 --k 2 --loss hing": 2,
        "train --n 20 --k 2 --width 0": 2,
    }
    for command, (code, modules) in called_in_turn(folder, expected).items():
        assert (code, modules & {*HEAVY, "jaxtyping"}) == (expected[command], set()), command


def test_a_command_that_needs_only_names_or_fields_of_a_task_imports_no_numpy(folder):
    expected = {
        "--help": 0,
        "--version": 0,
        "list": 0,
        "new --list": 0,
        "new task my-task": 0,
        "new experiment grokking": 2,
        "claims": 0,
        "theory": 0,
        "sweep --example": 0,
        "train --task sparse-party": 2,
        "train --k 60 --n 50": 2,
        "train --k 3 --n 50 --suport 1": 2,
        "train --k 3 --n 50 --model mpl": 2,
        "run succes-frontier": 2,
        "run success-frontier --scale lap": 2,
        "run success-frontier --sclae smoke": 2,
    }
    for command, (code, modules) in called_in_turn(folder, expected).items():
        assert (code, modules & {*HEAVY, "jaxtyping", "numpy"}) == (expected[command], set()), command


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("elegans ru", ["run"]),
        ("elegans run digit-p", ["digit-parity"]),
        ("elegans run success-frontier --scale ", ["smoke", "laptop", "part", "paper"]),
        ("elegans train --engine ", ["auto", *ENGINES]),
        ("elegans new ex", ["experiment"]),
        ("elegans train --task sparse-p", ["sparse-parity"]),
        ("elegans theory information_b", ["information_bits"]),
    ],
)
def test_a_shell_completes_names_without_importing_what_they_name(folder, typed, expected):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    _, out, modules = called(folder, _ELEGANS_COMPLETE="bash_complete", **words)
    assert (out.split(), modules & HEAVY) == ([f"plain,{word}" for word in expected], set())


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_offered_the_experiments_too(folder, shell):
    words = {"COMP_WORDS": "elegans run ", "COMP_CWORD": {"zsh": "2", "fish": ""}[shell]}
    _, out, _ = called(folder, _ELEGANS_COMPLETE=f"{shell}_complete", **words)
    assert all(name in out for name in entries())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_the_command(folder, shell):
    code, out, _ = called(folder, "--completion", shell)
    assert code == 0
    assert f"_ELEGANS_COMPLETE={shell}_complete" in out
