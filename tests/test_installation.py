"""What an installation offers with and without native code, and where its version stands."""

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import elegans as el
from elegans.cli.doctor import examine

ROOT = Path(__file__).parents[1]
NATIVE = ("fused", "pairs", "attention", "bits")


@pytest.fixture
def without_native_code(monkeypatch):
    """The package as it is where no native module was built."""
    monkeypatch.delattr(el, "_native", raising=False)
    monkeypatch.setitem(sys.modules, "elegans._native", None)


def test_with_native_code_doctor_names_its_file_and_nothing_is_lost():
    report = examine()
    assert report["native module"]["file"].startswith("_native.")
    assert {report["engines"][name] for name in NATIVE} == {"works"}


@pytest.mark.usefixtures("without_native_code")
def test_without_native_code_doctor_says_what_is_lost():
    report = examine()
    assert set(report["native module"]) == {"missing", "lost", "also lost", "remedy"}
    assert report["machine"]["instruction set"] == "none: no native engine"
    for name, answer in report["engines"].items():
        assert answer.startswith("does not work: its native module does not load") == (name in NATIVE), name


@pytest.mark.usefixtures("without_native_code")
def test_without_native_code_trials_of_native_engines_train_on_jax():
    trial = el.Trial(
        task=el.SparseParity(n=8, k=2), regime=el.Online(), model=el.MLP(width=8), training=el.SGD(steps=20), seed=1
    )
    outcome = el.train(trial)
    assert outcome.engine == "jax" and outcome.steps == 20


@pytest.mark.usefixtures("without_native_code")
def test_without_native_code_networks_for_tables_say_what_they_need():
    estimator = el.SparseMLPClassifier(width=4, epochs=1)
    with pytest.raises(ImportError, match="networks for tables must have native code, see `elegans doctor`"):
        estimator.fit(np.eye(6), np.arange(6) % 2)


def test_the_version_stands_in_one_place_and_in_the_readme():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    elsewhere = [*ROOT.glob("src/elegans/*.py"), ROOT / "CITATION.cff", ROOT / "CMakeLists.txt", ROOT / "mkdocs.yml"]
    assert [path.name for path in elsewhere if version in path.read_text()] == []
    assert f"Version {version}: [changes]" in (ROOT / "README.md").read_text()


def test_actions_are_pinned_by_commit():
    named = {
        use
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for use in re.findall(r"uses: (.*)", path.read_text())
    }
    assert len(named) > 4
    assert [use for use in named if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use)] == []
