"""From a row a trial to a row a cell: the trials that differ only in their seed."""

from typing import Any

import numpy as np
import pandas as pd

from elegans.analysis.intervals import wilson
from elegans.errors import ExperimentError
from elegans.training.outcome import FINISHED

PARTS = ("task", "regime", "model", "training")
BASICS = ("task", "task.n", "task.k", "regime", "regime.size", "model", "model.init", "model.width")
"""The parameters that always have a column, where the trials have them."""
STATISTICS = ("trials", "solved", "rate", "low", "high", "median_steps", "failed")


def cells(table: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Sum up a table of trials: how often and how fast each cell was solved.

    Trials that failed or were interrupted came to no answer: they are not unsolved, and are counted in
    ``failed`` alone. Diverged trials count as unsolved, unless they had been solved before.

    Args:
        table: a row a trial, as ``elegans.run`` returns it; or a row a cell, as ``Store.cells_table`` does,
            which is much faster where there are a million trials.
        confidence: of the Wilson intervals.

    Returns:
        A row a cell, ordered by its parameters, online after every sample size. The parameters that vary,
        beside task, regime, model and their sizes, and then: ``trials`` (that came to an answer), ``solved``
        and their ``rate`` (NaN without trials) with its Wilson interval ``low`` to ``high``; ``median_steps``,
        the median time to solve with unsolved trials counted as infinite (NaN where that is not finite); and
        ``failed``.

    Raises:
        ExperimentError: a column that is needed is missing.
    """
    needed = ("regime", "model", *(("median_steps",) if "median_steps" in table else ("state", "solved_at")))
    for name in needed:
        if name not in table:
            raise ExperimentError(f"a table of trials must have a column {name!r}: {', '.join(map(str, table))}")
    rows, counts = _counted_already(table) if "median_steps" in table else _count(table)
    found = rows[_parameters(rows)].reset_index(drop=True)
    low, high = wilson(counts["solved"], counts["trials"], confidence)
    with np.errstate(invalid="ignore"):
        rate = counts["solved"] / counts["trials"]
    statistics = {**counts, "rate": rate, "low": low, "high": high}
    for name in STATISTICS:
        found[name] = statistics[name]
    return _ordered(found)


def _count(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Return a row of each cell of a table of trials, and what its trials came to."""
    codes, first = _group(table)
    counted = table["state"].isin(FINISHED).to_numpy()
    times = table["solved_at"].to_numpy(float, na_value=np.nan)
    return table.iloc[first], {
        "trials": np.bincount(codes[counted], minlength=len(first)),
        "solved": np.bincount(codes[counted & np.isfinite(times)], minlength=len(first)),
        "median_steps": _medians(codes[counted], times[counted], len(first)),
        "failed": np.bincount(codes[~counted], minlength=len(first)),
    }


def _counted_already(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Return the rows of a table of cells, and what their trials came to."""
    counts = {name: table[name].to_numpy() for name in ("trials", "solved", "median_steps")}
    return table, {**counts, "failed": (table["failed"] + table["interrupted"]).to_numpy()}


def _group(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's cell number, and the first row of each cell."""
    codes = np.zeros(len(table), np.int64)
    for name in table:
        if not _is_parameter(name):
            continue
        column = table[name]
        own, values = pd.factorize(_hashable(column), use_na_sentinel=False)
        if len(values) > 1:
            codes = pd.factorize(codes * len(values) + own)[0]
    return codes, np.unique(codes, return_index=True)[1] if len(codes) else np.zeros(0, np.int64)


def _hashable(column: pd.Series) -> Any:
    """Return a column whose values can be told apart by hashing; a value that many rows share is read once."""
    if column.dtype != object:
        return column
    values = column.to_list()
    distinct = {id(value): value for value in values}
    texts = {key: str(value) if isinstance(value, list | tuple | dict) else value for key, value in distinct.items()}
    return pd.Series([texts[id(value)] for value in values], dtype=object)


def _is_parameter(name: Any) -> bool:
    return str(name).partition(".")[0] in PARTS


def _parameters(rows: pd.DataFrame) -> list[str]:
    """Return the basics, and the parameters that are not settled by the label of the component they belong to.

    In a sweep over initialisations ``model.init`` is kept and ``model.init.nonzeros`` is not: within each
    label (``sparse:2``) it has one value.
    """
    kept = [name for name in BASICS if name in rows]
    for name in rows:
        if _is_parameter(name) and name not in BASICS and not _settled(rows, str(name)):
            kept.append(str(name))
    return kept


def _settled(rows: pd.DataFrame, name: str) -> bool:
    own = pd.factorize(_hashable(rows[name]), use_na_sentinel=False)[0]
    parent = name.rpartition(".")[0]
    if parent not in rows:
        return len(np.unique(own)) <= 1
    labels = pd.factorize(rows[parent], use_na_sentinel=False)[0]
    return len(np.unique(labels * (own.max(initial=0) + 1) + own)) == len(np.unique(labels))


def _medians(codes: np.ndarray, times: np.ndarray, count: int) -> np.ndarray:
    """Return the median time of each cell, unsolved trials being infinite and an infinite median NaN."""
    times = np.where(np.isfinite(times), times, np.inf)
    order = np.lexsort((times, codes))
    times = np.append(times[order], np.nan)
    sizes = np.bincount(codes, minlength=count)
    begin = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int) if count else sizes
    lower, upper = begin + np.maximum(sizes - 1, 0) // 2, begin + sizes // 2
    middle = (times[lower] + times[np.minimum(upper, len(times) - 1)]) / 2
    return np.where((sizes > 0) & np.isfinite(middle), middle, np.nan)


def _ordered(found: pd.DataFrame) -> pd.DataFrame:
    """Order by task, other parameters, width, and sample size with online last."""
    last = [name for name in ("model.width", "regime.size") if name in found]
    keys = [str(name) for name in found if name not in (*last, "regime", *STATISTICS)]
    by = [*keys, *last]
    if not by:
        return found
    return found.sort_values(by, key=_sortable, kind="stable", ignore_index=True)


def _sortable(column: pd.Series) -> pd.Series:
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if numbers.notna().any() else column.astype(str)
