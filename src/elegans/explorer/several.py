"""Curves of several cells in one figure, with a legend by what varies between them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection

from elegans.errors import ExperimentError, printable
from elegans.explorer import charts
from elegans.explorer.cells import Cells
from elegans.explorer.details import curves_of, measures_of
from elegans.explorer.figures import as_json, shown_number
from elegans.explorer.statistics import STATISTICS
from elegans.store import Store

MOST = 12
"""The maximum number of cells whose curves are drawn at once."""


def several_record(store: Store, cells: Cells, numbers: Sequence[int], what: str | None = None) -> dict[str, Any]:
    """Return the curves of some cells as in JSON, and what the map says about each cell.

    Args:
        store: the store.
        cells: its cells.
        numbers: the numbers of the cells.
        what: an error, the loss, or a measure that is a number, as ``kind.quantity``; the first one by default.

    Raises:
        ExperimentError: there is no such cell or quantity, or there are too many cells or none.
    """
    chosen = sorted(
        dict.fromkeys(numbers), key=lambda number: cells.codes[cells.places(cells.checked(number))].tolist()
    )
    if not 0 < len(chosen) <= MOST:
        raise ExperimentError(f"from 1 to {MOST} cells must be chosen: {len(chosen)}")
    codes = cells.codes[cells.places(chosen)]
    differ = [axis.name for axis, column in zip(cells.axes, codes.T, strict=True) if len(set(column.tolist())) > 1]
    names = {number: cells.name(number, differ) if differ else cells.name(number) for number in chosen}
    known, lines = store.database.read(lambda connection: _lines(connection, chosen, what))
    if what is not None and what not in known:
        raise ExperimentError(f"a curve must be recorded: {printable(what[:60])!r}; {', '.join(known) or 'none is'}")
    what = what or next(iter(known), "")
    alike = cells.name(chosen[0], [axis.name for axis in cells.axes if axis.name not in differ]) if differ else ""
    shown = {names[number]: lines[number] for number in chosen if lines[number]}
    return {
        "cells": chosen,
        "what": what,
        "known": known,
        "title": ", ".join(filter(None, [what, "" if alike.startswith("cell ") else alike])),
        "figure": as_json(charts.overlay(shown, what)) if shown else None,
        "rows": [{"cell": number, "name": names[number], **_statistics(cells, number)} for number in chosen],
    }


def _lines(
    connection: Connection, numbers: Sequence[int], what: str | None
) -> tuple[list[str], dict[int, Mapping[int, charts.Line]]]:
    """Return the quantities that have curves, and for one of them each cell's lines by seed."""
    by_cell = {number: charts.lines_by_name(curves_of(connection, number)) for number in numbers}
    errors = [name for name in next(iter(by_cell.values())) if any(lines[name] for lines in by_cell.values())]
    measures = measures_of(connection, numbers[0])
    names = {f"{kind}.{name}" for by_kind in measures.values() for kind, values in by_kind.items() for name in values}
    known = [*errors, *(name for name in sorted(names) if _numeric(charts.measured(measures, name)))]
    wanted = what or next(iter(known), "")
    if wanted in errors or wanted not in known:
        return known, {number: lines.get(wanted, {}) for number, lines in by_cell.items()}
    return known, {number: _numeric(charts.measured(measures_of(connection, number), wanted)) for number in numbers}


def _numeric(lines: Mapping[int, tuple[Any, Any]]) -> dict[int, charts.Line]:
    return {seed: (steps, values) for seed, (steps, values) in lines.items() if np.ndim(values) == 1}


def _statistics(cells: Cells, number: int) -> dict[str, str]:
    """Return what the statistics of the map are for a cell, in words."""
    place = cells.places(number)
    words = {
        name: shown_number(value, statistic) if np.isfinite(value) else "none"
        for name, statistic in STATISTICS.items()
        for value in [float(cells.column(statistic.column)[place])]
    }
    return {**words, "trials": str(int(cells.column("trials")[place]))}
