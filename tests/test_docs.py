"""Every code block of a page that has Python in it runs as it stands, and so do the notebooks."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import notebooks
import pytest
from benchmarks.page import PAGE, rendered

ROOT = Path(__file__).parents[1]
OWN = tuple(f"docs/how-to/own-{part}.md" for part in ("experiment", "parts", "study"))
NAMES = "capacity claims clusters learning-coefficients margins pipeline tabular tokens trace"
LONG = tuple(f"docs/how-to/{page}.md" for page in NAMES.split())
SLOW = (*OWN, *LONG, "first-figure", "first-sweep")
"""Pages and notebooks that are left to the slow tests."""
NEED_TORCH = ("docs/how-to/pytorch.md",)
"""Pages whose code needs PyTorch: where it is missing, readers and tests have the outputs of a kept run."""
APART = ("README.md", "docs/index.md")
"""Pages of which a reader pastes one block alone."""
BLOCK = re.compile(r'^```(python|toml|shell)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [
    str(path.relative_to(ROOT))
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if re.search("^(```python|elegans new )", path.read_text(), re.MULTILINE)
]
WITHOUT_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: make test-torch")
MARKED = [
    pytest.param(page, marks=[pytest.mark.slow] * (page in SLOW) + [WITHOUT_TORCH] * (page in NEED_TORCH))
    for page in PAGES
]
NOTEBOOKS = [
    pytest.param(path, marks=[pytest.mark.slow] * (path.stem in SLOW))
    for path in sorted(notebooks.FOLDER.glob("*.ipynb"))
]


COUNTED = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\d+) (?:more |further |other )?"
    r"(?:phenomena|studies|experiments|calculators|notebooks)\b",
    re.IGNORECASE,
)


def test_no_page_counts_by_hand_what_grows():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"), *ROOT.glob("docs/*/*.md")]
    counts = {
        str(path.relative_to(ROOT)): typed
        for path in pages
        if (typed := COUNTED.findall(path.read_text())) and path.parent.name != "experiments"
    }
    assert counts == {"docs/releasing.md": ["three experiments"]}  # tests/installation.py runs these three


def test_no_page_drops_unsolved_trials_from_a_median():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    assert [path for path in pages if re.search(r'solved_at\\?"\]\.(median|mean)\(', path.read_text())] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/README.md"])
def test_a_link_of_a_page_outside_the_site_has_its_target(page):
    path = ROOT / page
    for link in re.findall(r"\]\(([^)#:]*)(#[^)]*)?\)", path.read_text()):
        target = path.parent / link[0] if link[0] else path
        assert target.exists(), link
        headings = re.findall(r"^#+ (.*)$", target.read_text() if link[1] else "", re.MULTILINE)
        anchors = ["#" + re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings]
        assert not link[1] or link[1] in anchors, link


def test_a_reference_page_has_the_title_that_the_navigation_gives_it():
    entries = re.findall(r"- ([^:\n]+): (reference/.*\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert len(entries) > 11
    for title, page in entries:
        assert (ROOT / "docs" / page).read_text().startswith(f"# {title}\n"), page


@pytest.mark.slow
@pytest.mark.parametrize("page", MARKED)
def test_the_code_of_a_page_runs_when_pasted_alone(run_apart, page, tmp_path):
    def run(*arguments):
        ended = run_apart(tmp_path, *arguments, MPLBACKEND="agg")
        assert ended.code == 0, ended.out + ended.err
        return ended.out

    assert len(PAGES) > 20
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert blocks
    program, commands = [], []
    for language, title, text in blocks:
        if title:
            (tmp_path / title).write_text(text)
        elif language == "python":
            program.append(text)
        elif language == "shell":
            commands += [line.split("  #")[0] for line in text.splitlines() if line.startswith("elegans ")]
    programs = program if page in APART else ["\n".join(program)]
    new = [command for command in commands if command.startswith("elegans new ")]  # files that the program may use
    for command in new:
        run("-m", *shlex.split(command))
    printed = ""
    for text in programs:
        (tmp_path / "page.py").write_text(text)
        printed += run("page.py")
    assert page not in NEED_TORCH or printed == "".join(OUTPUT.findall((ROOT / page).read_text()))
    for command in [command for command in commands if command not in new]:
        call, _, file = command.partition(" > ")
        out = run("-m", *shlex.split(call))
        if file:
            (tmp_path / file.strip()).write_text(out)
    assert list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_getting_started_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    cells = notebooks.executed(path, tmp_path).cells
    kept = notebooks.nbformat.read(path, 4).cells
    for cell, old in zip(cells, kept, strict=True):
        kinds = [[output.output_type for output in one.get("outputs", [])] for one in (cell, old)]
        assert kinds[0] == kinds[1], f"make notebooks: {cell.source}"


def test_tables_of_speed_are_those_of_the_committed_results() -> None:
    pages = rendered(ROOT / "benchmarks" / "results")
    assert PAGE in pages
    assert {page.name: text for page, text in pages.items()} == {page.name: page.read_text() for page in pages}
