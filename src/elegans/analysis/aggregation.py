"""Summaries with one row per cell (the trials that differ only in their seed) instead of one row per trial."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from elegans.analysis.intervals import bootstrap_interval, median, median_interval, quantile, wilson
from elegans.errors import AnalysisError, ExperimentError, shown
from elegans.training.states import FINISHED

PARTS = ("task", "regime", "model", "training")
BASICS = ("task", "task.n", "task.k", "regime", "regime.size", "model", "model.init", "model.width")
"""Parameters that always have a column if the trials have them."""
STATISTICS = ("trials", "solved", "rate", "low", "high", "median_steps", "failed")


def summarise_cells(
    table: pd.DataFrame,
    confidence: float = 0.95,
    *,
    by: Sequence[str] | None = None,
    intervals: Literal["order", "bootstrap"] | None = None,
    quantiles: Mapping[str, float] = {},
) -> pd.DataFrame:
    """Summarise a table of trials: how often and how fast each cell was solved.

    Trials that failed or were interrupted count in ``failed`` only, not as unsolved. Diverged trials count as unsolved
    unless they had been solved before.

    Args:
        table: one row per trial, from ``elegans.run``; or one row per cell, from ``Store.cells_table``, which is much
            faster for a million trials.
        confidence: the confidence of all intervals.
        by: the columns that define a cell, which keep the order of the trials; by default all parameters of the trial.
        intervals: adds the interval of each median time to solve, ``median_low`` to ``median_high``, by ``order``
            statistics or by ``bootstrap`` (with a fixed seed). The upper end is infinite if too few trials are solved.
        quantiles: further quantiles of the time to solve, from 0 to 1, by the name of their column.

    Returns:
        One row per cell, ordered by its parameters, with online after all sample sizes. The columns are task, regime,
        model, their sizes and the parameters that vary, or the columns ``by``; then ``trials`` (finished), ``solved``
        and the success ``rate`` (NaN without trials) with its Wilson interval ``low`` to ``high``; ``median_steps``,
        the median time to solve, where unsolved trials count as infinite (NaN if it is not finite); ``failed``; and the
        columns of ``intervals`` and ``quantiles``.
    """
    if intervals not in (None, "order", "bootstrap"):
        raise AnalysisError(f"intervals must be order or bootstrap: intervals={shown(intervals)}")
    per_cell = "median_steps" in table and intervals is None and not quantiles
    required = ("median_steps",) if per_cell else ("state", "solved_at")
    for name in (*(("regime", "model") if by is None else by), *required):
        if name not in table:
            columns = ", ".join(map(str, table)) or "it has no columns"
            raise ExperimentError(f"a table of trials must have a column {shown(name)}: {columns}")
    rows, times = table, list[np.ndarray]()
    if per_cell:
        counts = {name: table[name].to_numpy() for name in ("trials", "solved", "median_steps")}
        counts["failed"] = (table["failed"] + table["interrupted"]).to_numpy()
    else:
        rows, counts, times = _count(table, by)
    names = _parameters(rows) if by is None else list(by)
    summary = rows[names].reset_index(drop=True)
    low, high = wilson(counts["solved"], counts["trials"], confidence)
    with np.errstate(invalid="ignore"):
        rate = counts["solved"] / counts["trials"]
    statistics = {**counts, "rate": rate, "low": low, "high": high}
    for name in STATISTICS:
        summary[name] = statistics[name]
    if intervals is not None:
        ends = np.array([_interval(cell_times, intervals, confidence) for cell_times in times]).reshape(-1, 2)
        summary["median_low"], summary["median_high"] = ends.T
    for name, share in quantiles.items():
        summary[name] = [quantile(cell_times, share) if len(cell_times) else np.nan for cell_times in times]
    return summary if by is not None else _ordered(summary, names)


def _interval(times: np.ndarray, kind: Literal["order", "bootstrap"], confidence: float) -> tuple[float, float]:
    if kind == "order":
        return median_interval(times, confidence)
    if not len(times):
        return np.nan, np.inf
    return bootstrap_interval(times, generator=np.random.default_rng(0), confidence=confidence)


def _count(
    table: pd.DataFrame, by: Sequence[str] | None
) -> tuple[pd.DataFrame, dict[str, np.ndarray], list[np.ndarray]]:
    """Return the first row, the statistics and the times to solve of each cell of a table of trials."""
    codes = np.zeros(len(table), np.int64)  # each row's cell, in the order of first appearance
    for name in [name for name in table if is_parameter(name)] if by is None else by:
        value_codes, values = pd.factorize(hashable(table[name]), use_na_sentinel=False)
        if len(values) > 1:
            codes = pd.factorize(codes * len(values) + value_codes)[0]
    first = np.unique(codes, return_index=True)[1]
    finished = table["state"].isin(FINISHED).to_numpy()
    solved_at = table["solved_at"].to_numpy(float, na_value=np.nan)
    order = np.argsort(codes[finished], kind="stable")
    trials = np.bincount(codes[finished], minlength=len(first))
    times = np.split(solved_at[finished][order], np.cumsum(trials)[:-1]) if len(first) else []
    counts = {
        "trials": trials,
        "solved": np.bincount(codes[finished & np.isfinite(solved_at)], minlength=len(first)),
        "median_steps": np.array([median(cell_times) for cell_times in times], float),
        "failed": np.bincount(codes[~finished], minlength=len(first)),
    }
    return table.iloc[first], counts, times


def hashable(column: pd.Series) -> Any:
    """Return a column with hashable values; a value that many rows share is converted once."""
    if column.dtype != object:
        return column
    values = column.to_list()
    distinct = {id(value): value for value in values}
    texts = {key: str(value) if isinstance(value, list | tuple | dict) else value for key, value in distinct.items()}
    return pd.Series([texts[id(value)] for value in values], dtype=object)


def is_parameter(name: Any) -> bool:
    """Return whether a column of a table is a parameter of its trials."""
    return str(name).partition(".")[0] in PARTS


def cell_parameters(cells: pd.DataFrame) -> list[str]:
    """Return the columns of ``summarise_cells`` that say which cell a row is, not what its trials did."""
    names = [str(name) for name in cells]
    further = names[names.index("failed") :] if "failed" in names else []  # where intervals and quantiles are
    outcomes = {*STATISTICS, *(name for name in further if not is_parameter(name))}
    return [name for name in names if name not in outcomes]


def _parameters(rows: pd.DataFrame) -> list[str]:
    """Return the basic parameters, and those not determined by the label of their component.

    ``model.init`` (``sparse:2``) is included, ``model.init.nonzeros`` is not: each label has only one value.
    """
    others = [str(name) for name in rows if is_parameter(name) and name not in BASICS]
    return [name for name in BASICS if name in rows] + [name for name in others if _varies(rows, name)]


def _varies(rows: pd.DataFrame, name: str) -> bool:
    """Return whether a parameter varies among rows with the same label of its component."""
    values = pd.factorize(hashable(rows[name]), use_na_sentinel=False)[0]
    parent = name.rpartition(".")[0]
    labels = pd.factorize(rows[parent], use_na_sentinel=False)[0] if parent in rows else np.zeros_like(values)
    return len(np.unique(labels * (values.max(initial=0) + 1) + values)) > len(np.unique(labels))


def _ordered(summary: pd.DataFrame, parameters: Sequence[str]) -> pd.DataFrame:
    """Order by task, other parameters, width, and sample size, with online last."""

    def sortable(column: pd.Series) -> pd.Series:
        numbers = pd.to_numeric(column, errors="coerce")
        return numbers if numbers.notna().any() else column.astype(str)

    last = [name for name in ("model.width", "regime.size") if name in parameters]
    by = [*(name for name in parameters if name not in (*last, "regime")), *last]
    return summary.sort_values(by, key=sortable, kind="stable", ignore_index=True) if by else summary
