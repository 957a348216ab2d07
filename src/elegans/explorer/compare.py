"""Two values of an axis, or two stores, compared cell by cell: the difference of a statistic with its interval."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pandas as pd
from sqlalchemy import select

from elegans.analysis.differences import bootstrap_difference, newcombe
from elegans.analysis.intervals import median
from elegans.errors import ExperimentError, printable
from elegans.explorer.axes import texts
from elegans.explorer.cells import Cells
from elegans.explorer.statistics import STATISTICS
from elegans.explorer.view import View
from elegans.store.cells import chunks
from elegans.store.schema import TRIALS
from elegans.training.states import FINISHED

TRIALS_READ = 400_000
"""The maximum number of trials that are compared."""
RESAMPLES = 500
SEED = 0
"""The seed of the bootstrap: the same comparison has the same interval."""


@dataclass(frozen=True)
class Comparison:
    """What is compared.

    Args:
        view: the plane of the comparison; its ``at`` lacks the axis ``by``.
        by: the axis whose values are compared, or None for two stores.
        a, b: the two values as texts, or the names of the stores.
        other: the index of the other store, or None.
        rows: one row per pair: what each has on the axes, ``a``, ``b``, ``difference`` (first minus second) with
            ``low`` and ``high``, ``n`` trials on the smaller side, whether they are ``paired`` by seed, and ``cell``.
    """

    view: View
    by: str | None
    a: str
    b: str
    other: str | None
    rows: pd.DataFrame

    def query(self) -> str:
        """Return the comparison as a query."""
        parameters = {name: getattr(self.view, name) or "" for name in ("x", "y")}
        parameters |= {f"at.{name}": value for name, value in self.view.at.items()}
        parameters |= {"by": self.by, "a": self.a, "b": self.b} if self.by else {"other": self.other or ""}
        return urlencode(parameters | {"stat": self.view.stat})

    @property
    def title(self) -> str:
        """What is compared, in words."""
        sides = f"{self.by}: {self.a} minus {self.b}" if self.by else f"{self.a} minus {self.b}"
        fixed = [f"{name} = {value}" for name, value in self.view.at.items()]
        return ", ".join([f"difference of the {STATISTICS[self.view.stat].label}", sides, *fixed])


def compare(query: Mapping[str, str], cells: Cells, other: Cells | None = None) -> Comparison:
    """Return a comparison of two values of an axis of a store, or of two stores.

    Args:
        query: ``by``, ``a`` and ``b``, or ``other``; and ``x``, ``y``, ``at.AXIS`` and ``stat`` as of a map.
        cells: the store's cells.
        other: the cells of the other store, if two are compared.

    Raises:
        ExperimentError: the query names what there is not, or asks for too much at once.
    """
    if other is not None:
        by, sides = None, (_name(cells), _name(other))
    else:
        by, sides = _by(query, cells)
    parameters = {name: value for name, value in query.items() if name != "facet"} | {"facet": ""}
    view = View.parse(parameters, cells, without=by)
    if view.stat not in STATISTICS:
        raise ExperimentError(f"a comparison needs one number per trial: {view.stat}")
    pairs = dict(_pairs(cells, other, view, by, sides))
    rows = _compared(cells, other or cells, pairs, view.stat)
    plane = [(*cells.axis(name), name) for name in (view.y, view.x) if name is not None]
    codes = cells.codes[cells.places(list(pairs))]
    for index, axis, name in reversed(plane):
        rows.insert(0, name, [axis.texts[code] for code in codes[:, index]])
    if plane:
        rows = rows.iloc[np.lexsort([codes[:, index] for index, *_ in reversed(plane)])].reset_index(drop=True)
    return Comparison(view, by, *sides, query.get("other") or None, rows)


def _name(cells: Cells) -> str:
    return printable(cells.store.place) if cells.store is not None else "table"


def _by(query: Mapping[str, str], cells: Cells) -> tuple[str, tuple[str, str]]:
    if not cells.axes:
        raise ExperimentError("a comparison must have an axis: the store has none")
    usual = min(cells.axes, key=lambda axis: (axis.name in ("regime.size", "model.width"), len(axis.values)))
    axis = cells.axis(query.get("by") or usual.name)[1]
    a = query.get("a") or axis.texts[0]
    b = query.get("b") or next(text for text in axis.texts if text != a)
    for value in (a, b):
        axis.place(value)
    if a == b:
        raise ExperimentError(f"two different values must be compared: {axis.name}={printable(a)!r}")
    return axis.name, (a, b)


def _pairs(
    cells: Cells, other: Cells | None, view: View, by: str | None, sides: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """Yield the numbers of cells that belong together: equal on all axes but ``by``."""
    rows = np.flatnonzero(view.shown(cells))
    numbers = cells.numbers
    if by is None:
        assert other is not None
        yield from _across(cells, other, rows)
        return
    index, axis = cells.axis(by)
    a, b = (axis.place(side) for side in sides)
    rest = np.delete(cells.codes, index, axis=1)
    partners = {tuple(rest[row]): numbers[row] for row in rows if cells.codes[row, index] == b}
    for row in rows:
        if cells.codes[row, index] == a and tuple(rest[row]) in partners:
            yield int(numbers[row]), int(partners[tuple(rest[row])])


def _across(cells: Cells, other: Cells, rows: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield pairs of cells of two stores that are equal on the axes of the first, where there is one partner."""
    names = [axis.name for axis in cells.axes]
    lacking = [name for name in names if name not in other.table]
    if lacking:
        raise ExperimentError(f"stores that are compared must share their axes: {_name(other)} lacks {lacking[0]}")
    other_keys = texts(other.table, names)
    counts = Counter(other_keys)
    partners = {key: number for number, key in zip(other.numbers, other_keys, strict=True) if counts[key] == 1}
    cell_rows = cells.table.iloc[rows]
    for number, key in zip(cells.numbers[rows], texts(cell_rows, names), strict=True):
        if key in partners:
            yield int(number), int(partners[key])


def _compared(cells: Cells, other: Cells, pairs: Mapping[int, int], stat: str) -> pd.DataFrame:
    first, second = _trials(cells, list(pairs), stat), _trials(other, list(pairs.values()), stat)
    generator = np.random.default_rng(SEED)
    rows = [
        {"cell": a, **_difference(first.get(a, _NOTHING), second.get(b, _NOTHING), stat, generator)}
        for a, b in pairs.items()
    ]
    names = ("cell", "a", "b", "difference", "low", "high", "n", "paired")
    return pd.DataFrame(rows, columns=list(names))


_NOTHING = pd.Series(dtype=float)


def _trials(cells: Cells, numbers: Sequence[int], stat: str) -> dict[int, "pd.Series[Any]"]:
    """Return the compared number of each finished trial by cell, indexed by signed seed."""
    count = int(cells.column("trials")[cells.places(numbers)].sum())
    if count > TRIALS_READ:
        raise ExperimentError(f"a comparison must have at most {TRIALS_READ:,} trials: {count:,}; fix more axes")
    if cells.store is None:
        raise ExperimentError("only stores can be compared: a table does not list seeds by cell")
    column = {"rate": "solved_at", "median_steps": "solved_at"}.get(stat, stat)
    query = select(TRIALS.c.cell, TRIALS.c.seed, TRIALS.c[column]).where(TRIALS.c.state.in_(FINISHED))
    parts = [query.where(TRIALS.c.cell.in_(batch)) for batch in chunks(sorted(set(numbers)))]
    rows = cells.store.database.read(lambda connection: [row for part in parts for row in connection.execute(part)])
    table = pd.DataFrame(rows, columns=["cell", "seed", "value"])
    table["value"] = pd.to_numeric(table["value"])
    if stat == "rate":
        table["value"] = table["value"].notna().astype(float)
    elif stat != "median_steps":
        table = table.dropna()
    return {cell: cell_trials.set_index("seed")["value"] for cell, cell_trials in table.groupby("cell")}  # type: ignore[misc]


def _difference(
    first: "pd.Series[Any]", second: "pd.Series[Any]", stat: str, generator: np.random.Generator
) -> dict[str, Any]:
    """Return a difference with its interval: paired by seed where every seed of the smaller side is on both."""
    seeds = first.index.intersection(second.index)
    paired = bool(len(seeds)) and 2 * len(seeds) > min(len(first), len(second))
    sides = [side.loc[seeds] if paired else side for side in (first, second)]
    values, other_values = (side.to_numpy(float) for side in sides)
    n = min(len(values), len(other_values))
    if not n:
        return {"a": np.nan, "b": np.nan, "difference": np.nan, "low": np.nan, "high": np.nan, "n": 0, "paired": False}
    middle = median if stat == "median_steps" else np.mean
    a, b = float(middle(values)), float(middle(other_values))
    if stat == "rate":
        both = int((values * other_values).sum()) if paired else None
        low, high = newcombe((int(values.sum()), len(values)), (int(other_values.sum()), len(other_values)), both=both)
    else:
        of: Any = "median" if stat == "median_steps" else "mean"
        drawing: dict[str, Any] = {"generator": generator, "resamples": RESAMPLES}
        low, high = bootstrap_difference(values, other_values, of=of, paired=paired, **drawing)
    with np.errstate(invalid="ignore"):
        return {"a": a, "b": b, "difference": a - b, "low": low, "high": high, "n": n, "paired": paired}
