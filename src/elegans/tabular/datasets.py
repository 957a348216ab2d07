"""Tables of numbers with two classes: a benchmark's 16 tasks, files, scikit-learn's own, and random ones."""

import hashlib
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Annotated
from zipfile import BadZipFile

import numpy as np
from jaxtyping import Bool, Float32

from elegans import random
from elegans.arguments import AtMost, Seed
from elegans.display import displayed
from elegans.errors import TrialError, shown, suggest
from elegans.files import readable, replaced

FOLDER = "ELEGANS_TABULAR"
"""The environment variable that names the folder with ``<name>.npz`` files."""
ARRAYS = ("X", "y", "feature_names", "class_names")
"""The arrays of a file."""
REDUCED = re.compile(r"_(\d+pct|subset)$")
"""Endings of names that stand for part of a benchmark's table."""

RowCount = Annotated[int, AtMost(10_000_000)]
"""Number of rows of a random table."""
FeatureCount = Annotated[int, AtMost(100_000)]
"""Number of features of a random table."""


@dataclass(frozen=True)
class BenchmarkTask:
    """One of the 16 tasks of the numerical classification suite 337 of OpenML.

    Args:
        number: its number in the paper's tables, from 1.
        name: its name at OpenML.
        data_id: the number of its data set at OpenML.
        rows: how many examples it has.
        features: how many inputs: one less than the paper's count, which includes the column of classes.
    """

    number: int
    name: str
    data_id: int
    rows: int
    features: int

    def check_size(self, rows: "Rows") -> None:
        """Refuse a table that does not have the benchmark's numbers of rows and features."""
        if rows.x.shape != (self.rows, self.features):
            size, expected = (" x ".join(map(str, shape)) for shape in (rows.x.shape, (self.rows, self.features)))
            raise TrialError(f"{self.name} of suite 337 must have {expected} rows x features: {size}")


BENCHMARK: tuple[BenchmarkTask, ...] = (
    BenchmarkTask(1, "credit", 44089, 16714, 10),
    BenchmarkTask(2, "electricity", 44120, 38474, 7),
    BenchmarkTask(3, "covertype", 44121, 566602, 10),
    BenchmarkTask(4, "pol", 44122, 10082, 26),
    BenchmarkTask(5, "house_16H", 44123, 13488, 16),
    BenchmarkTask(6, "MagicTelescope", 44125, 13376, 10),
    BenchmarkTask(7, "bank-marketing", 44126, 10578, 7),
    BenchmarkTask(8, "MiniBooNE", 44128, 72998, 50),
    BenchmarkTask(9, "Higgs", 44129, 940160, 24),
    BenchmarkTask(10, "eye_movements", 44130, 7608, 20),
    BenchmarkTask(11, "Diabetes130US", 45022, 71090, 7),
    BenchmarkTask(12, "jannis", 45021, 57580, 54),
    BenchmarkTask(13, "default-of-credit-card-clients", 45020, 13272, 20),
    BenchmarkTask(14, "Bioresponse", 45019, 3434, 419),
    BenchmarkTask(15, "california", 45028, 20634, 8),
    BenchmarkTask(16, "heloc", 45026, 10000, 22),
)
"""The benchmark of Grinsztajn, Oyallon and Varoquaux (2022), in the order of Pareto frontiers, table 1."""


@displayed
@dataclass(frozen=True)
class Rows:
    """A table: numeric features and one of two classes per row.

    Args:
        x: the features in their own units, shape (rows, features).
        y: whether a row is of the second class, shape (rows,).
        feature_names: the features' names.
        class_names: the names of the first and of the second class.
    """

    x: Float32[np.ndarray, "rows features"]
    y: Bool[np.ndarray, " rows"]
    feature_names: tuple[str, ...]
    class_names: tuple[str, str]


@cache
def benchmark_task(name: str) -> BenchmarkTask | None:
    """Return the benchmark task to which a table belongs, by its name; None for any other table."""
    bare = REDUCED.sub("", Path(name).stem if name.endswith(".npz") else name).lower()
    return next((task for task in BENCHMARK if task.name.lower() == bare), None)


def is_reduced(name: str) -> bool:
    """Return whether a name ends in ``_16pct`` or ``_subset``: errors on parts do not compare with published ones."""
    return REDUCED.search(name.removesuffix(".npz")) is not None


def table_names(folder: str | Path | None = None) -> list[str]:
    """Return the tables that need no download: the tables of the folder if there is one, else the bundled ones.

    Args:
        folder: a folder with ``<name>.npz`` files; by default the environment variable ``ELEGANS_TABULAR`` names it.
            Tables of the benchmark come first, in its order.
    """
    directory = _folder(folder)
    if directory is None:
        return list(BUNDLED)
    names = sorted(file.stem for file in directory.glob("*.npz"))
    if not names:
        raise TrialError(f"a folder of tables must have .npz files: {directory}")
    return sorted(names, key=lambda name: task.number if (task := benchmark_task(name)) else len(BENCHMARK) + 1)


def load_table(name: str, folder: str | Path | None = None) -> Rows:
    """Return a table by its name; it stays in memory.

    Args:
        name: one of ``BUNDLED`` or ``XORS``; the path of an ``.npz`` file; the name of a file in the folder, without
            its ending; or one of the 16 tasks of ``BENCHMARK``, which is then downloaded once from OpenML and cached in
            scikit-learn's data folder.
        folder: the folder of ``<name>.npz``; by default the environment variable ``ELEGANS_TABULAR`` names it.

    Raises:
        TrialError: the table does not exist, the download is not the benchmark's table, a cached table has changed, or
            a file's arrays are not a table.
    """
    if name in BUNDLED or name in XORS:
        return _bundled(name)
    if file := _file(name, folder):
        return _from_file(str(file))
    task = next((task for task in BENCHMARK if task.name == name), None)
    if task is None:
        names = [*BUNDLED, *(task.name for task in BENCHMARK)]
        raise TrialError(
            f"a table must be bundled, a task of OpenML's suite 337, an .npz file, or one in the folder that {FOLDER} "
            f"names: {shown(name)}{suggest(name, names)}"
        )
    return _openml(task)


def is_available(name: str) -> bool:
    """Return whether a table can be loaded without a download."""
    return name in BUNDLED or name in XORS or _file(name, None) is not None or _cached(name).is_file()


def _folder(folder: str | Path | None) -> Path | None:
    folder = folder or os.environ.get(FOLDER)
    directory = Path(folder).expanduser() if folder else None
    if directory is not None and not directory.is_dir():
        raise TrialError(f"the folder of tables ({FOLDER}) must exist: {directory}")
    return directory


def _file(name: str, folder: str | Path | None) -> Path | None:
    readable(name, "a table", TrialError)
    if name.endswith(".npz"):
        if not Path(name).is_file():
            raise TrialError(f"a table's file must exist: {shown(name, str)}")
        return Path(name)
    directory = _folder(folder)
    return directory / f"{name}.npz" if directory and (directory / f"{name}.npz").is_file() else None


@lru_cache(maxsize=32)
def _from_file(path: str) -> Rows:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            x, y, features, classes = (arrays[name] for name in ARRAYS)
    except KeyError:
        raise TrialError(f"a file of a table must have the arrays {', '.join(ARRAYS)}: {path}") from None
    except (OSError, ValueError, TypeError, BadZipFile) as error:
        raise TrialError(f"a table must be numbers in a .npz file: {path}: {error}") from None
    return _rows(path, x, y, features, classes)


def _rows(name: str, x: np.ndarray, y: np.ndarray, features: np.ndarray, classes: np.ndarray) -> Rows:
    if x.ndim != 2 or x.dtype.kind not in "fiub" or not x.size:
        raise TrialError(f"X must be numbers of shape (rows, features): {name} has {x.dtype} of shape {x.shape}")
    if not np.isfinite(x).all():
        raise TrialError(f"X must be finite: {name} has {int((~np.isfinite(x)).sum())} values that are not")
    if y.shape != x.shape[:1] or y.dtype.kind not in "iub":
        raise TrialError(f"y must be a whole number per row: {name} has {y.dtype} of shape {y.shape}, {len(x)} rows")
    if set(np.unique(y).tolist()) != {0, 1}:
        raise TrialError(f"y must have the two classes 0 and 1: {name} has {sorted(set(y.tolist()))[:5]}")
    if features.shape != x.shape[1:] or classes.shape != (2,):
        shapes = f"{features.shape} and {classes.shape}"
        raise TrialError(f"there must be a name for each of {x.shape[1]} features and 2 classes: {name} has {shapes}")
    first, second = map(str, classes)
    return Rows(x.astype(np.float32), y.astype(bool), tuple(map(str, features)), (first, second))


def _cached(name: str) -> Path:
    from sklearn.datasets import get_data_home

    return Path(get_data_home()) / "elegans" / f"{name}.npz"


def _openml(task: BenchmarkTask) -> Rows:
    """Return a task of the benchmark: the cached copy, after checking it, or else a download, which is cached."""

    def checksum(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    file, note = _cached(task.name), _cached(task.name).with_suffix(".sha256")
    if not file.is_file():
        rows = _download(task)
        file.parent.mkdir(parents=True, exist_ok=True)
        arrays = (rows.x, rows.y.astype(np.int64), np.array(rows.feature_names), np.array(rows.class_names))
        with replaced(file) as draft:
            np.savez_compressed(draft, **dict(zip(ARRAYS, arrays, strict=True)))  # type: ignore[arg-type]
            with replaced(note) as noted:
                noted.write_text(f"{checksum(draft)}\n", encoding="utf-8")
    if not note.is_file() or note.read_text(encoding="utf-8").strip() != checksum(file):
        raise TrialError(f"a kept table must have the checksum noted beside it (delete both to fetch it again): {file}")
    rows = _from_file(str(file))
    task.check_size(rows)
    return rows


def _download(task: BenchmarkTask) -> Rows:
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings(action="ignore"):  # each attempt warns: the last one's error is enough
            data = fetch_openml(data_id=task.data_id, as_frame=True, cache=False, parser="auto")
    except OSError as error:
        raise TrialError(
            f"{task.name} must be {task.name}.npz in the folder that {FOLDER} names, or come from OpenML: {error}"
        ) from None
    classes, y = np.unique(np.asarray(data.target).astype(str), return_inverse=True)
    rows = _rows(task.name, data.data.to_numpy(np.float32), y, np.array(list(map(str, data.data.columns))), classes)
    task.check_size(rows)
    return rows


def noisy_parity(
    *,
    rows: RowCount = 4000,
    features: FeatureCount = 20,
    k: int = 3,
    noise: float = 0.05,
    seed: Seed = 0,
) -> Rows:
    """Draw a table whose class is the parity of k thresholded features.

    It has the three traits that make tables hard for networks: the features have no rotational symmetry, most are
    uninformative, and the class jumps where a feature passes its threshold.

    Formula: y = 1 where an odd number of the k drawn columns j have x_j > t_j, with t_j uniform on [-1/2, 1/2); flipped
    with probability ``noise``.

    Source: the traits come from Grinsztajn et al. (2022), as listed in Pareto frontiers, section 4.2.

    Args:
        rows: how many examples.
        features: how many columns, all standard normal.
        k: how many of them the class depends on.
        noise: the probability of a flip.
        seed: the seed of all draws.
    """
    x = _inputs(rows, features, k, noise, seed)
    key = random.stream(seed, "task")
    support = random.subsets(key, rows=1, n=features, size=k)[0]
    threshold = random.uniform_signed(key.fold(1), np.arange(k, dtype=np.uint32)) / 2
    return _with_noise(x, (x[:, support] > threshold).sum(axis=1) % 2 == 1, noise, seed)


def random_tree(
    *,
    rows: RowCount = 4000,
    features: FeatureCount = 20,
    k: int = 5,
    depth: int = 6,
    noise: float = 0.05,
    seed: Seed = 0,
) -> Rows:
    """Draw a table whose class is the output of a complete decision tree over k features; sibling leaves differ.

    A node tests whether one of k drawn columns, uniformly drawn, exceeds a standard normal threshold; at the last
    forks, a fair coin decides which side is of the second class. Classes are flipped with probability ``noise``. There
    are ``depth`` tests between the root and a leaf.

    Arguments and source as for ``noisy_parity``.
    """
    if not 1 <= depth <= 20:
        raise TrialError(f"depth of a random tree must be from 1 to 20: depth={depth}")
    x = _inputs(rows, features, k, noise, seed)
    nodes = np.arange(2**depth - 1, dtype=np.uint32)
    key = random.stream(seed, "task")
    support = random.subsets(key, rows=1, n=features, size=k)[0]
    tested = support[random.integers(key.fold(1), nodes, bound=np.uint32(k))]
    threshold = random.normal(key.fold(2), nodes)
    coin = random.uniform_signed(key.fold(3), nodes) < 0
    node, above = np.zeros(rows, np.int64), np.zeros(rows, bool)
    for level in range(depth):
        above = x[np.arange(rows), tested[node]] > threshold[node]
        node = node if level == depth - 1 else 2 * node + 1 + above
    return _with_noise(x, above ^ coin[node], noise, seed)


def _inputs(rows: int, features: int, k: int, noise: float, seed: int) -> Float32[np.ndarray, "rows features"]:
    if not 1 <= k <= features:
        raise TrialError(f"k of a drawn table must be from 1 to its features: k={k}, features={features}")
    if rows < 2:
        raise TrialError(f"a drawn table must have at least 2 rows: rows={rows}")
    if not 0 <= noise <= 0.5:
        raise TrialError(f"noise must be from 0 to 1/2: noise={noise}")
    row, column = np.arange(rows, dtype=np.uint32), np.arange(features, dtype=np.uint32)
    return np.asarray(random.normal(random.stream(seed, "sample"), row[:, None], lane=column[None, :]), np.float32)


def _with_noise(x: Float32[np.ndarray, "rows features"], y: Bool[np.ndarray, " rows"], noise: float, seed: int) -> Rows:
    flips = random.uniform(random.stream(seed, "noise"), np.arange(len(x), dtype=np.uint32)) < noise
    return Rows(x, np.asarray(y ^ flips), tuple(f"x{column}" for column in range(x.shape[1])), ("0", "1"))


def _breast_cancer() -> Rows:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    return _rows("breast-cancer", data.data, data.target, data.feature_names, data.target_names)


def _even_digits() -> Rows:
    from sklearn.datasets import load_digits

    data = load_digits()
    return _rows("even-digits", data.data, data.target % 2, np.array(data.feature_names), np.array(["even", "odd"]))


BUNDLED: dict[str, Callable[[], Rows]] = {
    "breast-cancer": _breast_cancer,
    "even-digits": _even_digits,
    "noisy-parity": noisy_parity,
    "random-tree": random_tree,
}
"""Tables that need neither a file nor a download: two of scikit-learn's, and two random ones of default size."""
XORS: dict[str, Callable[[], Rows]] = {
    f"threshold-xor-{features}": partial(noisy_parity, rows=10_000, features=features, k=2) for features in (10, 50)
}
"""The same for an exclusive or of two thresholded features among ten or fifty."""


@lru_cache(maxsize=len(BUNDLED) + len(XORS))
def _bundled(name: str) -> Rows:
    return (BUNDLED | XORS)[name]()
