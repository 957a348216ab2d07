"""`elegans new` writes files from which a user begins: each runs as it is written, under any name."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

import elegans as el
from elegans import discovery
from elegans.cli import scaffold
from elegans.cli.scaffold import TEMPLATES

PARTS = [name for name, template in TEMPLATES.items() if template.family]


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """Forget after a test which files it has loaded."""
    monkeypatch.setattr(discovery, "LOADED", {})


def test_the_list_has_a_line_for_each_template(elegans):
    code, out, _ = elegans("new", "--list")
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, list(TEMPLATES))
    assert elegans("new")[1] == out
    assert {TEMPLATES[name].family for name in PARTS} <= {one.name for one in discovery.classes()}


@pytest.mark.slow
def test_a_new_experiment_runs_resumes_and_is_judged_again_by_another_threshold(run_apart, tmp_path):
    def run(*arguments, code=0):
        ended = run_apart(tmp_path, "-m", "elegans", *arguments)
        assert ended.code == code, ended.out + ended.err
        return ended.out

    out = run("new", "experiment", "my-first")
    assert out.splitlines()[:2] == ["wrote  my_first.py", "next   elegans run my_first.py --scale smoke"]
    file = tmp_path / "my_first.py"
    text = file.read_text()
    assert len([line for line in text.splitlines() if line]) <= 70 and "key.fold(1)" in text
    out = run("run", "my_first.py", "--scale", "smoke", "--evidence")
    assert "holds          my-first/200-examples: networks that solve the task: 6 of 6 (0.521 to 1)" in out
    assert {"figure.png", "cells.csv"} <= {path.name for path in (tmp_path / "results/my-first/smoke").iterdir()}
    assert "(0 of them by this run" in run("run", "my_first.py", "--scale", "smoke")
    assert "1 equal" in run("rejudge", "my_first.py")
    file.write_text(text.replace("above=0.5", "above=0.7"))
    assert "  verdict: holds before, undecided now\n" in run("rejudge", "my_first.py", code=1)
    assert re.search(r"scales  smoke \(.*\), laptop\n", run("list", "my_first.py"))


@pytest.mark.slow
@pytest.mark.parametrize("template", PARTS)
def test_a_new_part_trains_by_the_command_that_is_printed(elegans, template):
    _, out, _ = elegans("new", template, f"tried-{template}")
    (command,) = re.findall(r"^next   elegans (.*)$", out, re.MULTILINE)
    code, out, err = elegans(*shlex.split(command))
    assert code == 0, err
    assert re.search(r"^solved at step \d+, test error [0-9.]+%", out, re.MULTILINE)


@pytest.mark.slow
def test_a_new_study_is_listed_and_run_where_it_is_installed_and_passes_its_tests(run_apart, elegans, tmp_path):
    code, out, _ = elegans("new", "study", "my-study")
    assert code == 0
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {*re.findall(r"^wrote  (.*)$", out, re.MULTILINE)} == written
    project = tomllib.loads((tmp_path / "my-study" / "pyproject.toml").read_text())
    (name, package), *_ = project["project"]["entry-points"]["elegans.studies"].items()
    information = tmp_path / "my-study" / "my_study-0.1.0.dist-info"  # which pip would write
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-study\nVersion: 0.1.0\n")
    (information / "entry_points.txt").write_text(f"[elegans.studies]\n{name} = {package}\n")

    def run(*arguments):
        ended = run_apart(tmp_path / "my-study", *arguments)
        assert ended.code == 0, ended.out + ended.err
        return ended.out

    assert re.search(r"^My study: .*\n  my-study-examples  ", run("-m", "elegans", "list"), re.MULTILINE)
    assert run("-m", "elegans", "theory", "my_study_majorities", "n=5") == "10\n"
    assert "4 passed" in run("-m", "pytest", "-p", "no:cacheprovider")


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_written_under_its_name_in_every_form(elegans, tmp_path, template):
    _, out, _ = elegans("new", template, "Odd2Try")
    assert "odd2-try" in out or "odd2_try" in out
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        text = str(path.relative_to(tmp_path)) + path.read_text()
        assert not re.search("my.?first", text, re.IGNORECASE), path


def test_several_new_experiments_live_in_one_process(elegans):
    for name in ("to-be", "or_not"):
        elegans("new", "experiment", name)
    assert [el.find(file).name for file in ("to_be.py", "or_not.py")] == ["to-be", "or-not"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("optimizer", "x"), "unknown template 'optimizer'; did you mean 'optimiser'?"),
        (("task",), "a task must have a name: elegans new task NAME"),
        (("experiment",), "an experiment must have a name: elegans new experiment NAME"),
        (("task", ""), "a new file must have a name: ''"),
        (
            ("task", "my task"),
            "a new name must be at most 60 letters and digits in words that begin with a letter, joined",
        ),
        (("task", "2nd"), "a new name must be at most 60 letters"),
        (
            ("task", "x-y"),
            "a new name must match its class, in which single letters in a row count as one word: 'x-y', XY",
        ),
        (("task", "né"), "a new name must be at most 60 letters"),
        (("task", "x" * 61), "a new name must be at most 60 letters"),
        (("task", "class"), "a new name must not be a word of Python: 'class'"),
        (("task", "numpy"), "a new file must not hide an installed module: 'numpy'"),
        (("experiment", "elegans"), "a new file must not hide an installed module: 'elegans'"),
        (("experiment", "grokking"), "a new experiment must have a name of its own: 'grokking' is taken"),
        (("study", "pareto-frontiers"), "a new study must have a name of its own: 'pareto-frontiers' is taken"),
        (("study", "few"), "a new study must have a name of its own: 'few' is taken"),
        (("activation", "relu"), "a new activation must have a kind of its own: 'relu' is taken"),
        (("task", "nowhere/mine"), "a new file must go into a folder that exists: nowhere"),
        (("task", "../../../../nowhere/mine"), "a new file must go into a folder that exists: "),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_in_a_line_and_nothing_is_written(elegans, tmp_path, arguments, message):
    code, out, err = elegans("new", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {message}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("template", ["task", "study"])
def test_a_file_that_exists_is_never_replaced(elegans, tmp_path, template):
    target = tmp_path / ("mine" if template == "study" else "mine.py")
    target.symlink_to(tmp_path / "nowhere")  # it exists, although what it points to does not
    code, _, err = elegans("new", template, "mine")
    assert (code, err) == (2, f"error: a new file must not replace one that exists: {target.name}\n")
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_a_path_names_the_folder(elegans, tmp_path):
    (tmp_path / "to a").mkdir()
    _, out, _ = elegans("new", "probe", "to a/mine.py")
    assert out.startswith("wrote  to a/mine.py\n") and "--import 'to a/mine.py'" in out
    assert (tmp_path / "to a" / "mine.py").read_text().startswith('"""Your own probe')


def test_templates_are_no_components_of_the_package():
    files = list(Path(scaffold.FOLDER).rglob("*.py"))
    assert len(files) > 10
    assert not any(one.module.startswith("elegans.cli.templates") for one in discovery.classes())
