"""Every code block of the README, the tutorial and the how-to pages runs as it stands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "docs/tutorial.md",
    "docs/how-to/extend.md",
    "docs/how-to/sweeps.md",
    "docs/how-to/trace.md",
    "docs/how-to/certify.md",
    "docs/how-to/margins.md",
    "docs/how-to/capacity.md",
    "docs/how-to/tabular.md",
]
BLOCK = re.compile(r'^```(python|toml|shell)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
ELEGANS = f"{shlex.quote(sys.executable)} -m elegans"


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page, tmp_path):
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert blocks
    program, commands = ["import elegans as el", "import matplotlib", "matplotlib.use('agg')"], []
    for language, title, text in blocks:
        if title:
            (tmp_path / title).write_text(text)
        elif language == "python":
            program.append(text)
        elif language == "shell":
            commands += [line.split("  #")[0] for line in text.splitlines() if line.startswith("elegans ")]
    (tmp_path / "page.py").write_text("\n".join(program))
    run([sys.executable, "-W", "error", "page.py"], tmp_path)
    for command in commands:
        run(["sh", "-c", re.sub(r"^elegans", ELEGANS, command)], tmp_path)
    assert list(tmp_path.iterdir())
