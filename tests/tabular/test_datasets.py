"""Tables: files of a folder, the benchmark from a stub of OpenML, bundled and drawn ones, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from scipy import stats

from elegans import random
from elegans.errors import TrialError
from elegans.tabular import datasets
from elegans.tabular.datasets import (
    BENCHMARK,
    BUNDLED,
    benchmark_task,
    is_available,
    is_reduced,
    load_table,
    noisy_parity,
    random_tree,
    table_names,
)

POL = next(task for task in BENCHMARK if task.name == "pol")


def arrays(rows=30, features=3, seed=0):
    draws = np.random.default_rng(seed)
    y = np.arange(rows) % 2
    names = [f"feature {column}" for column in range(features)]
    return {"X": draws.normal(size=(rows, features)), "y": y, "feature_names": names, "class_names": ["no", "yes"]}


def write(file, **changes):
    np.savez(file, **{**arrays(), **changes})
    return file


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("own", "heloc", "covertype_16pct"):
        write(tmp_path / f"{name}.npz")
    monkeypatch.setenv(datasets.FOLDER, str(tmp_path))
    return tmp_path


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty data folder of scikit-learn, and no folder of tables."""
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    monkeypatch.delenv(datasets.FOLDER, raising=False)
    return tmp_path / "home"


def openml(monkeypatch, rows=POL.rows, features=POL.features, classes=("N", "P")):
    """Stand in for OpenML: a table of a given size, whose calls are counted."""
    asked = []

    def fetch(**given):
        asked.append(given)
        columns = [f"x{column}" for column in range(features)]
        x = pd.DataFrame(np.random.default_rng(0).normal(size=(rows, features)), columns=columns)
        target = pd.Categorical([classes[row % len(classes)] for row in range(rows)])
        return SimpleNamespace(data=x, target=pd.Series(target))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    return asked


def test_the_files_of_the_folder_are_tables_in_the_benchmarks_order(folder):
    assert table_names() == ["covertype_16pct", "heloc", "own"]
    found = load_table("own")
    assert (found.x.dtype, found.y.dtype) == (np.float32, bool)
    np.testing.assert_array_equal(found.x, arrays()["X"].astype(np.float32))
    assert (found.y == (arrays()["y"] == 1)).all()
    assert (found.feature_names[0], found.class_names) == ("feature 0", ("no", "yes"))


def test_a_folder_may_be_an_argument_and_a_table_a_file(tmp_path, monkeypatch):
    monkeypatch.delenv(datasets.FOLDER, raising=False)
    file = write(tmp_path / "own.npz")
    assert load_table("own", tmp_path).x.shape == load_table(str(file)).x.shape == (30, 3)
    assert table_names(tmp_path) == ["own"] and table_names() == list(BUNDLED)


def test_names_tell_the_benchmarks_tasks_and_parts_of_them():
    assert benchmark_task("covertype_16pct") == benchmark_task("covertype") == BENCHMARK[2]
    assert benchmark_task("higgs_subset").name == "Higgs" and benchmark_task("own") is None
    assert [is_reduced(name) for name in ("covertype_16pct", "higgs_subset", "covertype", "a/jannis_18pct.npz")] == [
        True,
        True,
        False,
        True,
    ]


def test_the_benchmark_has_sixteen_tasks_of_the_published_sizes():
    """Rows and columns of Pareto frontiers, table 1, whose columns count the class."""
    assert [task.number for task in BENCHMARK] == list(range(1, 17))
    rows = (16714, 38474, 566602, 10082, 13488, 13376, 10578, 72998, 940160, 7608, 71090, 57580, 13272, 3434, 20634)
    assert tuple(task.rows for task in BENCHMARK) == (*rows, 10000)
    columns = (11, 8, 11, 27, 17, 11, 8, 51, 25, 21, 8, 55, 21, 420, 9, 23)
    assert tuple(task.features + 1 for task in BENCHMARK) == columns
    assert len({task.data_id for task in BENCHMARK}) == 16


def test_a_task_of_the_benchmark_is_fetched_once_and_kept_with_its_checksum(home, monkeypatch):
    asked = openml(monkeypatch)
    first = load_table("pol")
    assert [call["data_id"] for call in asked] == [POL.data_id]
    assert first.x.shape == (POL.rows, POL.features) and first.class_names == ("N", "P")
    assert first.y[:4].tolist() == [False, True, False, True]
    assert is_available("pol") and not is_available("credit")
    datasets._from_file.cache_clear()
    again = load_table("pol")
    assert len(asked) == 1
    np.testing.assert_array_equal(again.x, first.x)
    assert sorted(file.name for file in (home / "elegans").iterdir()) == ["pol.npz", "pol.sha256"]


def test_a_kept_table_that_has_changed_is_refused(home, monkeypatch):
    openml(monkeypatch)
    load_table("pol")
    file = home / "elegans" / "pol.npz"
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(TrialError, match="a kept table must have the checksum noted beside it"):
        load_table("pol")


@pytest.mark.parametrize(
    ("fetched", "message"),
    [
        ({"rows": 100}, "pol of suite 337 must have 10082 x 26 rows x features: 100 x 26"),
        ({"features": 25}, "pol of suite 337 must have 10082 x 26 rows x features: 10082 x 25"),
        ({"classes": ("a", "b", "c")}, "y must have the two classes 0 and 1"),
    ],
)
def test_another_table_than_the_benchmarks_is_refused_and_not_kept(fetched, message, home, monkeypatch):
    openml(monkeypatch, **fetched)
    with pytest.raises(TrialError, match=message):
        load_table("pol")
    assert not is_available("pol")


def test_without_network_and_file_the_error_says_what_to_do(home, monkeypatch):
    def fetch(**given):
        raise OSError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    rule = "pol must be pol.npz in the folder that ELEGANS_TABULAR names, or come from OpenML: no route to host"
    with pytest.raises(TrialError, match=rule):
        load_table("pol")


REFUSED = [
    ({"X": np.ones((30, 3), "U1")}, "X must be numbers of shape"),
    ({"X": np.ones(30)}, "X must be numbers of shape"),
    ({"X": np.full((30, 3), np.nan)}, "X must be finite: .* has 90 values that are not"),
    ({"y": np.arange(30) % 3}, r"y must have the two classes 0 and 1: .* \[0, 1, 2\]"),
    ({"y": np.zeros(30, int)}, r"y must have the two classes 0 and 1: .* \[0\]"),
    ({"y": np.arange(29) % 2}, "y must be a whole number per row"),
    ({"feature_names": ["a"]}, "a name for each of 3 features and 2 classes"),
    ({"class_names": ["a"]}, "a name for each of 3 features and 2 classes"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_arrays_that_are_no_table_are_refused(changes, message, tmp_path):
    file = write(tmp_path / "bad.npz", **changes)
    with pytest.raises(TrialError, match=message):
        load_table(str(file))


def test_files_that_are_none_are_refused(tmp_path, monkeypatch):
    np.savez(tmp_path / "lacking.npz", X=np.ones((4, 2)))
    (tmp_path / "text.npz").write_text("no archive")
    for name, message in (
        ("lacking", "must have the arrays X, y, feature_names, class_names"),
        ("text", "a table must be numbers in a .npz file"),
        ("missing", "a table's file must exist"),
    ):
        with pytest.raises(TrialError, match=message):
            load_table(str(tmp_path / f"{name}.npz"))
    with pytest.raises(TrialError, match="did you mean 'electricity'"):
        load_table("electrcity", tmp_path)
    with pytest.raises(TrialError, match=r"the folder of tables \(ELEGANS_TABULAR\) must exist"):
        load_table("own", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TrialError, match="a folder of tables must have .npz files"):
        table_names(tmp_path / "empty")


@pytest.mark.parametrize("name", list(BUNDLED))
def test_bundled_tables_need_nothing_and_are_the_same_every_time(name, home):
    found = load_table(name)
    assert is_available(name) and not home.exists()
    assert len(found.x) == len(found.y) > 500 and 0.3 < found.y.mean() < 0.7
    assert len(found.feature_names) == found.x.shape[1]
    datasets._bundled.cache_clear()
    np.testing.assert_array_equal(load_table(name).x, found.x)


def test_the_class_of_a_noisy_parity_is_that_of_a_few_thresholded_features():
    """Each of the chosen columns alone says little; together, with thresholds found on a grid, all but the noise."""
    clean, noisy = (noisy_parity(rows=2000, features=6, k=2, noise=noise, seed=3) for noise in (0, 0.1))
    np.testing.assert_array_equal(clean.x, noisy.x)
    assert (clean.y != noisy.y).mean() == pytest.approx(0.1, abs=0.025)  # 3.7 deviations
    grid = np.linspace(-0.5, 0.5, 21)
    above = clean.x[:, :, None] > grid  # (rows, columns, thresholds)
    signs = (2.0 * above - 1).transpose(1, 2, 0)
    target = 2.0 * clean.y - 1
    pairs = [(abs((signs[i] * target) @ signs[j].T).max() / len(target), i, j) for i in range(6) for j in range(i)]
    ordered = sorted(pairs, reverse=True)
    assert ordered[0][0] > 0.9 and ordered[1][0] < 0.5


def test_the_class_of_a_random_tree_depends_on_its_features_alone():
    """A library's tree of the same depth on the informative columns fits nearly all; on the others, hardly more than a
    coin. Chi-square of the class against each other column's sign: fails for one seed in 1000 over 15 columns."""
    from sklearn.tree import DecisionTreeClassifier

    found = random_tree(rows=4000, features=20, k=5, depth=6, noise=0.0, seed=1)
    whole = DecisionTreeClassifier(random_state=0).fit(found.x[:3000], found.y[:3000])
    assert (whole.predict(found.x[3000:]) == found.y[3000:]).mean() > 0.75
    informative = random.subsets(random.stream(1, "task"), rows=1, n=20, size=5)[0]
    others = [column for column in range(20) if column not in informative]
    tables = [pd.crosstab(found.x[:, column] > 0, found.y) for column in others]
    assert min(stats.chi2_contingency(table).pvalue for table in tables) > 0.001 / 15
    fit = DecisionTreeClassifier(random_state=0).fit(found.x[:3000][:, others], found.y[:3000])
    assert (fit.predict(found.x[3000:][:, others]) == found.y[3000:]).mean() < 0.6


@pytest.mark.parametrize(
    ("draw", "given", "message"),
    [
        (noisy_parity, {"k": 21}, "k of a drawn table must be from 1 to its features: k=21, features=20"),
        (noisy_parity, {"noise": 0.6}, "noise must be from 0 to 1/2"),
        (random_tree, {"rows": 1}, "a drawn table must have at least 2 rows"),
        (random_tree, {"depth": 0}, "depth of a random tree must be from 1 to 20"),
    ],
)
def test_drawn_tables_that_cannot_be_are_refused(draw, given, message):
    with pytest.raises(TrialError, match=message):
        draw(**given)
