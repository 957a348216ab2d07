"""Errors and fit times of classifiers of tables on the same splits."""

import importlib.util
import time
import warnings
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from benchmarks.measure import short
from benchmarks.record import Result
from benchmarks.tabular import plain_training
from elegans.tabular import Settings, SparseMLPClassifier
from elegans.tabular.datasets import is_available, load_table

TABLES = ("california", "pol", "eye_movements", "heloc")
OFFLINE = ("noisy-parity", "random-tree", "breast-cancer")
"""The tables to use if no others are available."""
TRAINING, TEST = 3000, 5000
ABSENT = {"pytabkit": "RealMLP, TabM", "lightgbm": "LightGBM", "xgboost": "XGBoost"}

Fitted = Callable[[np.ndarray], np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray, int], Fitted]


def run(*, quick: bool) -> Result:
    """Fit every contender on the same rows of every table, and count mistakes on the same test rows."""
    names = [name for name in TABLES if is_available(name)] or list(OFFLINE)
    names = names[:1] if quick else names
    warnings.simplefilter("ignore", ConvergenceWarning)  # scikit-learn's networks take all epochs
    figures = {name: _split(name, 0) for name in names}
    summary = [_row(name, figures) for name in CONTENDERS]
    missing = [peer for package, peer in ABSENT.items() if importlib.util.find_spec(package) is None]
    summary += [
        {column: "not installed" if column != "contender" else peer for column in summary[0]} for peer in missing
    ]
    return Result(
        settings={"tables": names, "training rows": TRAINING, "test rows": TEST},
        repetitions=figures,
        summary=summary,
    )


def _split(name: str, seed: int) -> dict[str, dict[str, float]]:
    table = load_table(name)
    rest = min(TEST, len(table.y) - min(TRAINING, len(table.y) * 7 // 10))
    rows = train_test_split(
        np.arange(len(table.y)), train_size=min(TRAINING, len(table.y) - rest), test_size=rest, random_state=seed
    )
    scaler = StandardScaler().fit(table.x[rows[0]])
    x, x_test = (scaler.transform(table.x[part]).astype(np.float32) for part in rows)
    y, y_test = (table.y[part] for part in rows)
    found = {}
    for contender, fit in CONTENDERS.items():
        begun = time.perf_counter()
        predict = fit(x, y, seed)
        seconds = time.perf_counter() - begun
        found[contender] = {"error": float((predict(x_test) != y_test).mean()), "seconds": seconds}
    return found


def _row(contender: str, figures: dict[str, dict[str, dict[str, float]]]) -> dict[str, str]:
    errors = {name: table[contender]["error"] for name, table in figures.items()}
    return {
        "contender": contender,
        **{f"{name}, % wrong": short(100 * error) for name, error in errors.items()},
        "median s a fit": short(median(table[contender]["seconds"] for table in figures.values())),
    }


def _scikit(make: Callable[[int], object]) -> Fit:
    def fit(x: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
        return make(seed).fit(x, y).predict  # type: ignore[attr-defined, no-any-return]

    return fit


def _plain(x: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    torch.manual_seed(seed)
    settings = Settings(weight_decay=SparseMLPClassifier().weight_decay)
    network, train = plain_training(torch.from_numpy(x), torch.from_numpy(y.astype(np.float32)), settings)
    train(settings.epochs)

    def predict(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(network(torch.from_numpy(rows))[:, 0] > 0)

    return predict


CONTENDERS: dict[str, Fit] = {
    "SparseMLPClassifier": _scikit(lambda seed: SparseMLPClassifier(random_state=seed)),
    "… early_stopping=False": _scikit(lambda seed: SparseMLPClassifier(early_stopping=False, random_state=seed)),
    "… init='dense'": _scikit(lambda seed: SparseMLPClassifier(init="dense", random_state=seed)),
    "… n_members=8": _scikit(lambda seed: SparseMLPClassifier(n_members=8, random_state=seed)),
    "PyTorch plain loop": _plain,
    "MLPClassifier": _scikit(
        lambda seed: MLPClassifier(
            (300, 300), batch_size=256, max_iter=100, tol=0, n_iter_no_change=1000, random_state=seed
        )
    ),
    "RandomForestClassifier, 300 trees": _scikit(lambda seed: RandomForestClassifier(300, n_jobs=2, random_state=seed)),
    "HistGradientBoostingClassifier": _scikit(lambda seed: HistGradientBoostingClassifier(random_state=seed)),
}
"""Networks have width 300, depth 2, at most 100 epochs, batch size 256, learning rate 0.001, unless stated."""
