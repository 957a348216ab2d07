"""Classifiers and regressors of tables at their defaults, side by side on the same splits: errors, time, memory.

The splits 0 and 1 chose the estimators' defaults; the benchmark takes splits 5 to 9, a coarse run the first one. Each
fit is a row of ``tables.csv`` as soon as it ends; a run that is repeated measures what is missing, split by split.
"""

import csv
import importlib.util
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.record import COARSE, RESULTS, Result
from benchmarks.tables_report import BOOSTING, CLASSIC, FEW, FOREST, MANY, OURS, acceptance, by_table, summary
from elegans.tabular.datasets import load_table, table_names

SPLITS, COARSE_SPLITS = (5, 6, 7, 8, 9), (0,)
TEST = 10_000
"""The most test rows."""
FLOOR = 1e-9
BUNDLED = ("breast-cancer", "digits", "wine", "shops", "patients")
"""Tables that need no file: three of scikit-learn's, and two drawn ones with categories and gaps."""
DRAWN_NUMBERS = ("diabetes", "friedman1", "friedman2", "friedman3")
"""Real targets that need no file."""
SLOW = {"RealMLP": 14, "TabM": 3}
"""Contenders that take minutes a fit, and on how many tables they are measured, on the first split only."""
KEY = ["kind", "table", "rows", "split", "contender"]
FIGURES = ["error", "loss", "auc", "r2", "cpu", "wall", "predict", "mib"]
REAL = ("numbers", "screen")
"""Kinds of fits whose targets are numbers; a table is compared if a forest's R² on split 0 is in 0.2 to 0.98."""
Fit = tuple[str, str, int, int, str]
"""The kind (``classes``, ``numbers``, ``screen``, ``speed``), table, training rows, split and contender of a fit."""


@lru_cache(maxsize=1)
def classification(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table's columns and classes."""
    from sklearn import datasets as bundled

    if name in ("breast-cancer", "digits", "wine"):
        X, y = getattr(bundled, f"load_{name.replace('-', '_')}")(return_X_y=True)
        return pd.DataFrame(X).rename(columns=str), np.asarray(y)
    if name in ("shops", "patients"):
        return _drawn(name)
    if name.startswith("normal-"):
        x = np.random.default_rng(0).normal(size=(20_000, int(name.removeprefix("normal-"))))
        return pd.DataFrame(x).rename(columns=str), (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(int)
    table = load_table(name)
    return pd.DataFrame(table.x.astype(float), columns=list(table.feature_names)), table.y.astype(int)


def _drawn(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw a table in which levels, gaps and numbers interact; a tenth of the classes is flipped."""
    random = np.random.default_rng(BUNDLED.index(name))
    rows, levels = 12_000, {"shops": 40, "patients": 6}[name]
    numbers = pd.DataFrame(random.normal(size=(rows, 6))).rename(columns="x{}".format)
    level, side = random.integers(0, levels, rows), random.integers(0, 2, rows)
    worth = random.normal(size=levels)[level]
    absent = random.uniform(size=rows) < 0.2 + 0.2 * side
    score = numbers["x0"] * np.where(side == 1, 1, -1) + worth + absent * numbers["x1"] + (numbers["x2"] > 0.5)
    y = ((score > score.median()) ^ (random.uniform(size=rows) < 0.1)).astype(int)
    numbers.loc[absent, "x3"] = np.nan
    frame = numbers.assign(level=pd.Categorical([f"level {number}" for number in level]))
    return frame.assign(side=np.where(side == 1, "left", "right")), y.to_numpy()


@lru_cache(maxsize=1)
def regression(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return columns and a target: of a table of classes, the first of the columns with most distinct values."""
    from sklearn import datasets as bundled

    if name == "diabetes":
        X, y = bundled.load_diabetes(return_X_y=True)
    elif name.startswith("friedman"):
        noise = {"friedman1": 1.0, "friedman2": 60.0, "friedman3": 0.1}[name]
        X, y = getattr(bundled, f"make_{name}")(n_samples=12_000, noise=noise, random_state=0)
    else:
        frame, _ = classification(name)
        target = str(frame.nunique().idxmax())
        return frame.drop(columns=target), frame[target].to_numpy()
    return pd.DataFrame(X).rename(columns=str), np.asarray(y)


def _plain(estimator: Any) -> Any:
    """Return an estimator behind filled gaps, levels of one input each, and standardised numbers."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")), (levels, make_column_selector(dtype_exclude="number"))
    )
    return make_pipeline(columns, estimator)


def _boosting(estimator: Any) -> Any:
    return estimator.set_params(categorical_features="from_dtype")


def contenders(kind: str, seed: int) -> dict[str, Callable[[], Any]]:
    """Return functions that make each contender at its defaults."""
    from sklearn import ensemble, linear_model, neural_network

    from elegans import SparseMLPClassifier, SparseMLPRegressor

    ending, ours = ("Regressor", SparseMLPRegressor) if kind in REAL else ("Classifier", SparseMLPClassifier)
    linear = linear_model.Ridge if kind in REAL else linear_model.LogisticRegression
    made: dict[str, Callable[[], Any]] = {
        OURS: lambda: ours(random_state=seed),
        CLASSIC: lambda: _plain(ours.classic(random_state=seed)),
        FOREST: lambda: _plain(getattr(ensemble, f"RandomForest{ending}")(random_state=seed, n_jobs=2)),
        "extra trees": lambda: _plain(getattr(ensemble, f"ExtraTrees{ending}")(random_state=seed, n_jobs=2)),
        BOOSTING: lambda: _boosting(getattr(ensemble, f"HistGradientBoosting{ending}")(random_state=seed)),
        "MLP": lambda: _plain(getattr(neural_network, f"MLP{ending}")(random_state=seed)),
        "linear": lambda: _plain(linear()),
    }
    if importlib.util.find_spec("pytabkit") is not None:
        peers = importlib.import_module("pytabkit")
        for name, peer in {"RealMLP": f"RealMLP_TD_{ending}", "TabM": f"TabM_D_{ending}"}.items():
            made[name] = lambda peer=peer: getattr(peers, peer)(random_state=seed, device="cpu", n_threads=1)  # type: ignore[misc]
    return made


def measure(kind: str, name: str, train: int, split: int, contender: str) -> dict[str, float]:
    """Fit one contender in this process, and return its errors on test rows, its time and its memory."""
    return assess(contenders(kind, split)[contender](), kind, name, train, split)


def assess(model: Any, kind: str, name: str, train: int, split: int) -> dict[str, float]:
    """Fit a model to the first rows of a split, and return its errors on the next ones, its time and its memory."""
    warnings.simplefilter("ignore")
    frame, y = _columns_and_targets(kind, name)
    for column in frame.select_dtypes(exclude="number"):
        frame[column] = frame[column].astype("category")
    order = np.random.RandomState(split).permutation(len(y))
    rows, test = order[:train], order[train : train + TEST]
    begun, used, before = time.perf_counter(), time.process_time(), _peak()
    model.fit(frame.iloc[rows], y[rows])
    figures = {"wall": time.perf_counter() - begun, "cpu": time.process_time() - used, "mib": _peak() - before}
    begun = time.perf_counter()
    predicted = model.predict(frame.iloc[test]) if kind in REAL else model.predict_proba(frame.iloc[test])
    figures["predict"] = time.perf_counter() - begun
    return figures | (_scores_of_numbers if kind in REAL else _scores)(model, predicted, y[test])


def _columns_and_targets(kind: str, name: str) -> tuple[pd.DataFrame, np.ndarray]:
    return (regression if kind in REAL else classification)(name)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _scores(model: Any, probability: np.ndarray, y: np.ndarray) -> dict[str, float]:
    from sklearn.metrics import roc_auc_score

    place = np.searchsorted(model.classes_, y)
    known = np.isin(y, model.classes_)  # a class that the training rows lack is an error of probability 0
    right = np.where(known, probability[np.arange(len(y)), np.minimum(place, len(model.classes_) - 1)], 0)
    auc = np.mean(
        [roc_auc_score(y == label, column) for label, column in zip(model.classes_, probability.T, strict=True)]
    )
    error = np.mean(model.classes_[probability.argmax(axis=1)] != y)
    return {"error": 100 * float(error), "loss": -float(np.log(np.maximum(right, FLOOR)).mean()), "auc": float(auc)}


def _scores_of_numbers(model: Any, predicted: np.ndarray, y: np.ndarray) -> dict[str, float]:
    from sklearn.metrics import r2_score

    return {"r2": float(r2_score(y, predicted))}


def measured(path: Path, fits: Iterable[Fit], measure: Callable[..., dict[str, float]] = measure) -> pd.DataFrame:
    """Return the figures in a file, to which those of missing fits are added, each as soon as it ends."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.tables", "sklearn.ensemble", "elegans.tabular.estimators"])
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text(",".join([*KEY, *FIGURES]) + "\n", encoding="utf-8")
    done = set(pd.read_csv(path)[KEY].itertuples(index=False, name=None))
    with (
        ProcessPoolExecutor(1, context, max_tasks_per_child=1) as process,
        path.open("a", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, [*KEY, *FIGURES], lineterminator="\n")
        for fit in fits:
            if fit not in done:
                figures = process.submit(measure, *fit).result()
                writer.writerow(dict(zip(KEY, fit, strict=True)) | {key: f"{x:.5g}" for key, x in figures.items()})
                file.flush()
    return pd.read_csv(path)


def files() -> list[str]:
    """Return the names of the tables in the folder ``ELEGANS_TABULAR``."""
    drawn = ("breast-cancer", "even-digits", "noisy-parity", "random-tree")
    return [name for name in table_names() if name not in drawn]


def plan(names: Sequence[str], numbers: Sequence[str], splits: Sequence[int]) -> list[Fit]:
    """Return fits: classes of few rows first, then split by split; those that take minutes last."""
    fits = []
    for kind, tables in {"classes": names, "numbers": numbers}.items():
        for place, name in enumerate(tables):
            large = _large(kind, name)
            for train in sorted({min(FEW, large), large}):
                for split in splits:
                    slow = {contender for contender, most in SLOW.items() if place >= most or split != splits[0]}
                    fits += [(kind, name, train, split, each) for each in contenders(kind, split) if each not in slow]
    return sorted(fits, key=lambda fit: (fit[4] in SLOW, fit[0] != "classes" or fit[2] > FEW, fit[3], fit[0], fit[2]))


def _large(kind: str, name: str) -> int:
    return min(MANY, len(_columns_and_targets(kind, name)[1]) * 7 // 10)


def run(*, quick: bool, report: bool = False) -> Result:
    """Fit every contender on the same rows of every table, or report what has been measured so far."""
    names, numbers = ([*files(), *BUNDLED], files()) if not quick else (["wine", "patients"], [])
    splits, path = (COARSE_SPLITS, COARSE / "tables.csv") if quick else (SPLITS, RESULTS / "tables.csv")
    if quick:
        path.unlink(missing_ok=True)
    screened = [] if report else [("screen", name, _large("screen", name), 0, FOREST) for name in numbers]
    screen = measured(path, screened).query("kind == 'screen' and 0.2 < r2 < 0.98")
    numbers = [*screen["table"], *DRAWN_NUMBERS][: 1 if quick else None]
    speed: list[Fit] = [("speed", f"normal-{columns}", rows, 0, OURS) for rows, columns in ((1000, 20), (10_000, 50))]
    figures = measured(path, [] if report else [*speed, *plan(names, numbers, splits)])
    return Result(
        settings={"tables": names, "targets": numbers, "splits": splits, "rows": [FEW, MANY], "test rows": TEST},
        repetitions={} if quick else by_table(figures),
        summary=summary(figures),
        targets=[] if quick else acceptance(figures, files()),
    )
