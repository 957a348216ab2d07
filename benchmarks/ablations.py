"""Classifiers of tables with one setting changed at a time, on the tables, rows and splits that chose the defaults."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from benchmarks.measure import short
from benchmarks.record import COARSE, RESULTS, Result, at_most
from benchmarks.tables import Fit, assess, measured
from benchmarks.tables_report import with_interval

TABLES = (
    "california",
    "eye_movements",
    "covertype_16pct",
    "heloc",
    "credit",
    "pol",
    "MagicTelescope",
    "bank-marketing",
    "jannis_18pct",
    "MiniBooNE_18pct",
)
SPLITS, ROWS = (0, 1), 4000
DEFAULT = "default"
SEEDS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "another seed": {"random_state": 1},
    "a third seed": {"random_state": 2},
}
VARIANTS = SEEDS | {
    "a tenth held out": {"early_stopping": True},
    "dropout 0": {"dropout": 0.0},
    "dropout 0.3": {"dropout": 0.3},
    "constant rate": {"schedule": "constant"},
    "half the epochs": {"epochs": 5},
    "twice the epochs": {"epochs": 20},
    "1 member": {"n_members": 1},
    "4 members": {"n_members": 4},
    "8 members": {"n_members": 8},
    "8 bins": {"n_bins": 8},
    "128 bins": {"n_bins": 128},
    "no bins": {"encoding": "standard"},
    "width 128": {"width": 128},
    "width 512": {"width": 512},
}


def measure(kind: str, name: str, train: int, split: int, variant: str) -> dict[str, float]:
    """Fit one variant in this process, and return its errors on test rows, its time and its memory."""
    from elegans import SparseMLPClassifier

    return assess(SparseMLPClassifier(**{"random_state": 0} | VARIANTS[variant]), kind, name, train, split)


def run(*, quick: bool, report: bool = False) -> Result:
    """Fit every variant on the same rows of every table, or report what has been measured so far."""
    names, splits = (TABLES[:2], SPLITS[:1]) if quick else (TABLES, SPLITS)
    rows = 200 if quick else ROWS
    fits: list[Fit] = [("classes", name, rows, split, each) for split in splits for name in names for each in VARIANTS]
    figures = measured((COARSE if quick else RESULTS) / "ablations.csv", [] if report else fits, measure)
    seeds = figures[figures["contender"].isin(SEEDS)]
    return Result(
        settings={"tables": names, "splits": splits, "training rows": rows},
        repetitions="ablations.csv",
        summary=summary(figures),
        targets=[] if quick else [at_most("mean error, 3 seeds, less 19.15%", seeds["error"].mean() - 19.15, 0, "")],
    )


def summary(figures: pd.DataFrame) -> list[Mapping[str, Any]]:
    """Return one row per variant: its mean differences to the default over tables, with 95% intervals, and its time."""
    wide = figures.pivot_table(index=["table", "split"], columns="contender", values=["error", "loss", "cpu"])
    rows: list[Mapping[str, Any]] = []
    for variant in figures["contender"].unique():
        row: dict[str, Any] = {"variant": variant}
        for score, unit in (("error", "error, points"), ("loss", "log-loss")):
            apart = (wide[score][variant] - wide[score][DEFAULT]).dropna()
            means = apart.groupby("table").mean()
            row |= {"tables": len(means), "fits": len(apart)}
            row[f"{unit}, less the default"] = "" if variant == DEFAULT else with_interval(means.to_numpy())
        rows.append(row | {"error": short(wide["error"][variant].mean()), "cpu": short(wide["cpu"][variant].mean(), 2)})
    return rows
