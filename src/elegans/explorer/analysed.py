"""Numbers that the claims of an experiment are decided from, as statistics of its cells.

A rule reads the tables of the experiment's analysis, so the statistics are the numeric columns of these tables. A row
is of the cells that have its parameters. Where a table has a row per trial, a cell has the median over its trials, or
for a column of truth values their share; where it has a row per step, too, that is of each trial's last one. Where rows
of one trial at one step differ, such as one per neuron, the column says nothing of a cell and is left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from elegans.analysis.aggregation import is_parameter
from elegans.analysis.intervals import median_intervals, medians, wilson
from elegans.errors import printable
from elegans.explorer.axes import texts
from elegans.explorer.statistics import COLUMNS, Statistic
from elegans.sweeps import Sweep

if TYPE_CHECKING:
    from elegans.experiments import Experiment

MOST = 30
"""The maximum number of statistics of an experiment's tables."""
VALUES = 500_000
"""The maximum number of values of these statistics, over all cells."""
ROWS = 2_000_000
"""The number of rows above which a table is left out."""
FEW = 6
"""The number of values below which order statistics give no 95% interval of the median."""
WIDE = 100.0
"""The ratio of the largest value to the smallest above which colours are logarithmic."""
KNOWN = frozenset({*COLUMNS, "trial", "seed", "step", "solved", "solved_at", "steps"})
"""Columns that say where a row belongs, or what every store has as a statistic."""
GROUP = " group"
"""The column of the cells that a row belongs to; no table has a column of this name."""


@dataclass(frozen=True)
class Analysed:
    """A column of an experiment's tables, by cell.

    Args:
        statistic: the statistic; its columns have the same names as in ``columns``.
        numbers: the numbers of cells that have a value, increasing.
        columns: values, ends of intervals, and the number of values behind each.
    """

    statistic: Statistic
    numbers: np.ndarray
    columns: Mapping[str, np.ndarray]

    def column(self, name: str, numbers: np.ndarray) -> np.ndarray:
        """Return one of the columns for some cells: NaN, or no values, where there are none."""
        values = np.full(len(numbers), 0.0 if name == self.statistic.trials else np.nan)
        positions = np.searchsorted(self.numbers, numbers).clip(max=len(self.numbers) - 1)
        present = self.numbers[positions] == numbers
        values[present] = self.columns[name][positions[present]]
        return values


def statistics_of(
    experiment: "Experiment", recorded: Sweep, numbers_by_hash: Mapping[str, int], tables: Mapping[str, pd.DataFrame]
) -> dict[str, Analysed]:
    """Return the columns of an experiment's tables that say something of its cells, by ``experiment/table/column``.

    Args:
        experiment: the experiment.
        recorded: the trials that its analysis was given, in their order.
        numbers_by_hash: the numbers of their cells by hash.
        tables: what its analysis returned.
    """
    hashes = [template.cell for template, _ in recorded.parts]
    parts = [part for part, identity in enumerate(hashes) if identity in numbers_by_hash]
    parts.sort(key=lambda part: numbers_by_hash[hashes[part]])
    numbers = np.array([numbers_by_hash[hashes[part]] for part in parts], np.int64)
    if len(numbers) < 2:
        return {}
    cells = _Cells(experiment, recorded, parts)
    room = min(MOST, VALUES // len(numbers))
    statistics: dict[str, Analysed] = {}
    for name, table in tables.items():
        rows = cells.rows(table) if 0 < len(table) <= ROWS else None
        if rows is None:
            continue
        for column, kind, values in _reduced(table, *rows):
            if len(statistics) == room:
                return statistics
            key = f"{experiment.name}/{name}/{column}"
            label = f"{column} ({experiment.name}{'' if name == 'table' else f': {name}'})"
            analysed = _analysed(key, printable(label), kind, values, numbers)
            if analysed is not None:
                statistics[key] = analysed
    return statistics


def alike(first: Mapping[str, Analysed], second: Mapping[str, Analysed]) -> bool:
    """Return whether two statistics are equal, including their numbers."""
    return first.keys() == second.keys() and all(
        analysed.statistic == second[name].statistic
        and np.array_equal(analysed.numbers, second[name].numbers)
        and all(
            np.array_equal(values, second[name].columns[column], equal_nan=True)
            for column, values in analysed.columns.items()
        )
        for name, analysed in first.items()
    )


class _Cells:
    """The cells of an experiment: which rows of its tables belong to which cell.

    Args:
        experiment: the experiment.
        recorded: its trials, in the order of its analysis.
        parts: the indices of the sweep's parts that are its cells, in the order of their numbers.
    """

    def __init__(self, experiment: "Experiment", recorded: Sweep, parts: Sequence[int]) -> None:
        templates = [recorded.parts[part_index][0] for part_index in parts]
        labels: Any = experiment.labels or (lambda _: {})
        columns = pd.DataFrame([{**template.columns(), **labels(template)} for template in templates])
        self.columns = columns.drop(columns="seed", errors="ignore")
        self.first = recorded.first
        self.places = np.full(len(recorded.parts), -1)
        self.places[list(parts)] = np.arange(len(parts))

    def rows(self, table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray] | None:
        """Return a group for each row, -1 for none, and for each cell; None where rows do not say whose they are."""
        if "trial" in table and pd.api.types.is_integer_dtype(table["trial"]) and "seed" in table:
            trials = table["trial"].to_numpy(np.int64)
            if trials.min() >= 0 and trials.max() < self.first[-1]:
                part = np.searchsorted(self.first, trials, side="right") - 1
                return self.places[part], np.arange(len(self.columns))
        names = [str(name) for name in table if name in self.columns]
        if not any(len({*self.columns[name].map(str)}) > 1 for name in names):
            return None
        codes: dict[tuple[str, ...], int] = {}
        cell_codes = [codes.setdefault(key, len(codes)) for key in texts(self.columns, names)]
        return np.array([codes.get(key, -1) for key in texts(table, names)], np.int64), np.array(cell_codes, np.int64)


def _reduced(table: pd.DataFrame, group: np.ndarray, cells: np.ndarray) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield each column that says something of cells: its name, what is taken of it, and that for each cell.

    What is taken is the ``value`` of a row, the ``median`` over trials, or the ``share`` of trials; for each cell there
    are ``value``, ``low``, ``high`` and the number ``n`` of trials that it is of.
    """
    numeric = [str(name) for name in table if _numeric(table[name]) and not is_parameter(name)]
    ends = {f"{name}_{end}" for name in numeric for end in ("low", "high")}
    rows = table.assign(**{GROUP: group})[group >= 0]
    by_trial = "seed" in table
    keys = [GROUP, "seed"] if by_trial else [GROUP]
    if "step" in table:
        rows = rows[rows["step"] == rows.groupby(keys, sort=False)["step"].transform("max")]
    for name in numeric:
        if name in KNOWN or name in ends:
            continue
        values = _only(rows, keys, name)
        kind = "value" if not by_trial else "share" if pd.api.types.is_bool_dtype(table[name]) else "median"
        summary = _TAKEN[kind](values)
        if kind == "value":
            for end in ("low", "high"):
                other = f"{name}_{end}"
                summary[end] = _only(rows, keys, other) if other in numeric else np.nan
        yield name, kind, summary.reindex(cells).reset_index(drop=True)


def _only(rows: pd.DataFrame, keys: list[str], name: str) -> "pd.Series[Any]":
    """Return the values of a column by group, or by group and trial, where all rows of each have the same."""
    ends = rows.groupby(keys)[name].agg(["min", "max"]).astype(float)
    alike = ends["min"].eq(ends["max"]) | ends["min"].isna()
    values: pd.Series[Any] = ends["max"][alike.groupby(level=0).transform("all")].dropna()
    return values


def _numeric(column: "pd.Series[Any]") -> bool:
    return bool(pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column))


def _values(values: "pd.Series[Any]") -> pd.DataFrame:
    return pd.DataFrame({"value": values, "n": np.nan})


def _shares(values: "pd.Series[Any]") -> pd.DataFrame:
    """Return for each group the share of trials with a property, with its Wilson interval."""
    by = values.groupby(level=0)
    hits, counts = by.sum(), by.size()
    low, high = wilson(hits.to_numpy(), counts.to_numpy())
    return pd.DataFrame({"value": hits / counts, "low": low, "high": high, "n": counts})


def _medians(values: "pd.Series[Any]") -> pd.DataFrame:
    """Return for each group the median over its trials, with its interval by order statistics."""
    groups = values.index.get_level_values(0).to_numpy()
    order = np.lexsort((values.to_numpy(), groups))
    names, counts = np.unique(groups, return_counts=True)
    ordered = values.to_numpy()[order]
    low, high = (np.where(counts < FEW, np.nan, end) for end in median_intervals(ordered, counts, counts))
    return pd.DataFrame({"value": medians(ordered, counts, counts), "low": low, "high": high, "n": counts}, index=names)


_TAKEN: Mapping[str, Callable[["pd.Series[Any]"], pd.DataFrame]] = {
    "value": _values,
    "share": _shares,
    "median": _medians,
}
INTERVALS = {"value": "as analysed", "share": "Wilson 95%", "median": "order statistics, 95%"}
"""What the interval of a statistic is."""


def _analysed(key: str, label: str, kind: str, summary: pd.DataFrame, numbers: np.ndarray) -> Analysed | None:
    """Return a column as a statistic, or None where it does not tell cells apart."""
    finite = np.isfinite(summary["value"].to_numpy(float))
    finite_rows = summary[finite]
    if finite_rows["value"].nunique() < 2:
        return None
    smallest, largest = finite_rows["value"].min(), finite_rows["value"].max()
    value, low, high, n = key, f"{key} low", f"{key} high", f"{key} n"
    statistic = Statistic(
        label if kind == "value" else f"{kind} of {label}",
        value,
        low,
        high,
        n,
        INTERVALS[kind],
        percent=kind == "share",
        logarithmic=bool(smallest > 0 and largest > WIDE * smallest),
    )
    names = {"value": value, "low": low, "high": high, "n": n}
    columns = {name: finite_rows[source].to_numpy(float) for source, name in names.items()}
    return Analysed(statistic, numbers[finite], columns)
