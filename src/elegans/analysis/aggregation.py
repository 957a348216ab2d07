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


def cells(
    table: pd.DataFrame,
    confidence: float = 0.95,
    *,
    by: Sequence[str] | None = None,
    intervals: Literal["order", "bootstrap"] | None = None,
    quantiles: Mapping[str, float] = {},
) -> pd.DataFrame:
    """Summarise a table of trials: how often and how fast each cell was solved.

    Trials that failed or were interrupted have no result: they do not count as unsolved, but only in ``failed``.
    Diverged trials count as unsolved, unless they had been solved before.

    Args:
        table: one row per trial, as ``elegans.run`` returns it; or one row per cell, as ``Store.cells_table``
            does, which is much faster for a million trials.
        confidence: the confidence of all intervals.
        by: the columns whose values define the cells, which then keep the order of the trials; by default all
            parameters of the trial.
        intervals: whether to add the interval of each median time to solve, ``median_low`` to ``median_high``: by
            ``order`` statistics or by ``bootstrap`` (with a fixed seed). Unsolved trials have an infinite time, so
            the upper end may be infinite.
        quantiles: further quantiles of the time to solve, from 0 to 1, by the name of their column.

    Returns:
        One row per cell, ordered by its parameters, with online after all sample sizes. The columns are task, regime,
        model, their sizes and the parameters that vary, or those of ``by``; then ``trials`` (that finished), ``solved``
        and the success ``rate`` (NaN without trials) with its Wilson interval ``low`` to ``high``; ``median_steps``,
        the median time to solve with unsolved trials counted as infinite (NaN if it is not finite);
        ``failed``; and the further columns requested.
    """
    summed = "median_steps" in table
    if intervals not in (None, "order", "bootstrap"):
        raise AnalysisError(f"intervals must be order or bootstrap: intervals={shown(intervals)}")
    times_needed = intervals is not None or bool(quantiles)
    counted = ("median_steps",) if summed and not times_needed else ("state", "solved_at")
    for name in (*(("regime", "model") if by is None else by), *counted):
        if name not in table:
            raise ExperimentError(f"a table of trials must have a column {shown(name)}: {', '.join(map(str, table))}")
    rows, counts = _counted_already(table) if counted == ("median_steps",) else _count(table, by)
    times = counts.pop("times", [])
    names = _parameters(rows) if by is None else list(by)
    found = rows[names].reset_index(drop=True)
    low, high = wilson(counts["solved"], counts["trials"], confidence)
    with np.errstate(invalid="ignore"):
        rate = counts["solved"] / counts["trials"]
    statistics = {**counts, "rate": rate, "low": low, "high": high}
    for name in STATISTICS:
        found[name] = statistics[name]
    if intervals is not None:
        ends = np.array([_interval(own, intervals, confidence) for own in times]).reshape(-1, 2)
        found["median_low"], found["median_high"] = ends.T
    for name, share in quantiles.items():
        found[name] = [quantile(own, share) if len(own) else np.nan for own in times]
    return found if by is not None else _ordered(found, names)


def _interval(times: np.ndarray, kind: Literal["order", "bootstrap"], confidence: float) -> tuple[float, float]:
    if kind == "order":
        return median_interval(times, confidence)
    if not len(times):
        return np.nan, np.inf
    return bootstrap_interval(times, generator=np.random.default_rng(0), confidence=confidence)


def _count(table: pd.DataFrame, by: Sequence[str] | None) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the first row, the statistics and the times to solve of each cell of a table of trials."""
    codes, first = _group(table, [name for name in table if is_parameter(name)] if by is None else by)
    counted = table["state"].isin(FINISHED).to_numpy()
    every = table["solved_at"].to_numpy(float, na_value=np.nan)
    order = np.argsort(codes[counted], kind="stable")
    trials = np.bincount(codes[counted], minlength=len(first))
    times = np.split(every[counted][order], np.cumsum(trials)[:-1]) if len(first) else []
    return table.iloc[first], {
        "trials": trials,
        "solved": np.bincount(codes[counted & np.isfinite(every)], minlength=len(first)),
        "median_steps": np.array([median(own) for own in times], float),
        "failed": np.bincount(codes[~counted], minlength=len(first)),
        "times": times,
    }


def _counted_already(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    counts = {name: table[name].to_numpy() for name in ("trials", "solved", "median_steps")}
    return table, {**counts, "failed": (table["failed"] + table["interrupted"]).to_numpy()}


def _group(table: pd.DataFrame, names: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's cell number, in the order of first appearance, and the first row of each cell."""
    codes = np.zeros(len(table), np.int64)
    for name in names:
        own, values = pd.factorize(hashable(table[name]), use_na_sentinel=False)
        if len(values) > 1:
            codes = pd.factorize(codes * len(values) + own)[0]
    return codes, np.unique(codes, return_index=True)[1] if len(codes) else np.zeros(0, np.int64)


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


def _parameters(rows: pd.DataFrame) -> list[str]:
    """Return the basic parameters, and those not determined by the label of their component.

    In a sweep over initialisations ``model.init`` is kept and ``model.init.nonzeros`` is not: it has only one value
    for each label (``sparse:2``).
    """
    kept = [name for name in BASICS if name in rows]
    for name in rows:
        if is_parameter(name) and name not in BASICS and not _settled(rows, str(name)):
            kept.append(str(name))
    return kept


def _settled(rows: pd.DataFrame, name: str) -> bool:
    own = pd.factorize(hashable(rows[name]), use_na_sentinel=False)[0]
    parent = name.rpartition(".")[0]
    if parent not in rows:
        return len(np.unique(own)) <= 1
    labels = pd.factorize(rows[parent], use_na_sentinel=False)[0]
    return len(np.unique(labels * (own.max(initial=0) + 1) + own)) == len(np.unique(labels))


def _ordered(found: pd.DataFrame, parameters: Sequence[str]) -> pd.DataFrame:
    """Order by task, other parameters, width, and sample size, with online last."""
    last = [name for name in ("model.width", "regime.size") if name in parameters]
    keys = [name for name in parameters if name not in (*last, "regime")]
    by = [*keys, *last]
    if not by:
        return found
    return found.sort_values(by, key=_sortable, kind="stable", ignore_index=True)


def _sortable(column: pd.Series) -> pd.Series:
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if numbers.notna().any() else column.astype(str)
