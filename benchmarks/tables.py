"""Classifiers and regressors of tables at their defaults, side by side on the same splits: errors, time, memory.

The splits 0 and 1 chose the estimators' defaults; the benchmark takes splits 5 to 9, a coarse run the first ones.
"""

import importlib.util
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.measure import short
from benchmarks.record import Result
from elegans.tabular.datasets import load_table, table_names

SPLITS, COARSE_SPLITS = (5, 6, 7, 8, 9), (0,)
FEW, MANY, TEST = 500, 8000, 10_000
"""Training rows of the two sizes, the second at most 70% of the table, and the most test rows."""
FLOOR = 1e-9
DRAWS = 10_000
OURS = "elegans"
BUNDLED = ("breast-cancer", "digits", "wine", "shops", "patients")
"""Tables that need no file: three of scikit-learn's, and two drawn ones with categories and gaps."""
SLOW = {"TabM": (3, 1)}
"""Contenders that take minutes a fit, and on how many tables and splits they are measured."""


@lru_cache(maxsize=1)
def classification(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table's columns and classes."""
    from sklearn import datasets as bundled

    if name in ("breast-cancer", "digits", "wine"):
        X, y = getattr(bundled, f"load_{name.replace('-', '_')}")(return_X_y=True)
        return pd.DataFrame(X).rename(columns=str), np.asarray(y)
    if name in ("shops", "patients"):
        return _drawn(name)
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

    ending, ours = ("Classifier", SparseMLPClassifier) if kind == "classes" else ("Regressor", SparseMLPRegressor)
    linear = linear_model.LogisticRegression if kind == "classes" else linear_model.Ridge
    made: dict[str, Callable[[], Any]] = {
        OURS: lambda: ours(random_state=seed),
        "classic": lambda: _plain(ours.classic(random_state=seed)),
        "forest": lambda: _plain(getattr(ensemble, f"RandomForest{ending}")(random_state=seed, n_jobs=2)),
        "extra trees": lambda: _plain(getattr(ensemble, f"ExtraTrees{ending}")(random_state=seed, n_jobs=2)),
        "boosting": lambda: _boosting(getattr(ensemble, f"HistGradientBoosting{ending}")(random_state=seed)),
        "MLP": lambda: _plain(getattr(neural_network, f"MLP{ending}")(random_state=seed)),
        "linear": lambda: _plain(linear()),
    }
    if importlib.util.find_spec("pytabkit") is not None:
        peers = importlib.import_module("pytabkit")
        for name, peer in {"RealMLP": f"RealMLP_TD_{ending}", "TabM": f"TabM_D_{ending}"}.items():
            made[name] = lambda peer=peer: getattr(peers, peer)(random_state=seed, device="cpu", n_threads=2)  # type: ignore[misc]
    return made


def measure(kind: str, name: str, train: int, split: int, contender: str) -> dict[str, float]:
    """Fit one contender in this process, and return its errors on test rows, its time and its memory."""
    warnings.simplefilter("ignore")
    frame, y = (classification if kind == "classes" else regression)(name)
    for column in frame.select_dtypes(exclude="number"):
        frame[column] = frame[column].astype("category")
    order = np.random.RandomState(split).permutation(len(y))
    rows, test = order[:train], order[train : train + TEST]
    made = contenders(kind, split)[contender]
    begun, used, before = time.perf_counter(), time.process_time(), _peak()
    model = made().fit(frame.iloc[rows], y[rows])
    figures = {"wall": time.perf_counter() - begun, "cpu": time.process_time() - used, "mib": _peak() - before}
    begun = time.perf_counter()
    predicted = model.predict(frame.iloc[test]) if kind == "numbers" else model.predict_proba(frame.iloc[test])
    figures["predict"] = time.perf_counter() - begun
    return figures | (_scores if kind == "classes" else _scores_of_numbers)(model, predicted, y[test])


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


def run(*, quick: bool) -> Result:
    """Fit every contender on the same rows of every table, each in a process of its own."""
    files = [
        name for name in table_names() if name not in ("breast-cancer", "even-digits", "noisy-parity", "random-tree")
    ]
    names = [*files, *BUNDLED] if not quick else [*files[-1:], "wine", "patients"]
    numbers = [*files, "diabetes", "friedman1", "friedman2", "friedman3"] if not quick else ["diabetes"]
    splits = COARSE_SPLITS if quick else SPLITS
    figures: list[dict[str, Any]] = []
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.tables", "sklearn.ensemble", "elegans.tabular.estimators"])
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as process:

        def one(kind: str, name: str, train: int, split: int, contender: str) -> dict[str, Any]:
            measured = process.submit(measure, kind, name, train, split, contender).result()
            return {"kind": kind, "table": name, "rows": train, "split": split, "contender": contender, **measured}

        for kind, tables in {"classes": names, "numbers": numbers}.items():
            for number, name in enumerate(tables):
                count = len((classification if kind == "classes" else regression)(name)[1])
                large = min(MANY, count * 7 // 10)
                if kind == "numbers" and name in files and not 0.2 < one(kind, name, large, 0, "forest")["r2"] < 0.98:
                    continue
                for train, split in product(sorted({min(FEW, large), large}), splits):
                    for contender in contenders(kind, split):
                        most = SLOW.get(contender, (len(tables), len(splits)))
                        if number < most[0] and splits.index(split) < most[1]:
                            figures.append(one(kind, name, train, split, contender))
    return Result(
        settings={
            "tables": names,
            "targets": numbers,
            "splits": splits,
            "training rows": [FEW, MANY],
            "test rows": TEST,
        },
        repetitions=figures,
        summary=summary(pd.DataFrame(figures)),
    )


def summary(figures: pd.DataFrame) -> list[Mapping[str, Any]]:
    """Return one row per size and contender, those that beat ours first: means over tables, and our differences."""
    rows: list[Mapping[str, Any]] = []
    figures = figures.assign(size=np.where(figures["rows"] <= FEW, f"{FEW} rows", "most rows"))
    for (kind, size), group in figures.groupby(["kind", "size"], sort=False):
        scores = ("error", "loss", "auc") if kind == "classes" else ("r2",)
        means = group.groupby(["contender", "table"], sort=False)[[*scores, "cpu", "wall", "mib"]].mean()
        first = means[scores[0]].unstack("table") * (1 if kind == "classes" else -1)
        ranks = first.rank(axis=0).mean(axis=1)
        block = []
        for name in first.index:
            row: dict[str, Any] = {"": f"{size}, {kind}", "contender": name, "tables": int(first.loc[name].count())}
            row |= {score: short(means.loc[name, score].mean()) for score in scores}
            row |= {
                f"{OURS} less it, {score}": _difference(means[score].unstack("table"), name) for score in scores[:2]
            }
            row |= {"rank": short(ranks[name], 2)}
            row |= {unit: short(means.loc[name, unit].mean(), 2) for unit in ("cpu", "wall", "mib")}
            ahead = float((first.loc[OURS] - first.loc[name]).mean())
            block.append((name == OURS, -ahead, row))
        rows += [row for *_, row in sorted(block, key=lambda each: each[:2])]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    absent = [name for name in ("RealMLP", "TabM") if name not in set(figures["contender"])]
    rows += [{"": "not installed", "contender": name} for name in absent]
    return [{column: row.get(column, "") for column in columns} for row in rows]


def _difference(scores: pd.DataFrame, name: str) -> str:
    """Return the mean of our differences over tables, and its 95% interval over resampled tables."""
    apart = (scores.loc[OURS] - scores.loc[name]).dropna().to_numpy(float)
    if name == OURS or len(apart) < 2:
        return ""
    return "{} ({} to {})".format(*(short(value) for value in (apart.mean(), *interval(apart))))


def interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Return the 2.5% and 97.5% quantiles of the mean of resampled values."""
    drawn = np.random.default_rng(0).choice(np.asarray(values), (DRAWS, len(values)))
    low, high = np.quantile(drawn.mean(axis=1), [0.025, 0.975])
    return float(low), float(high)
