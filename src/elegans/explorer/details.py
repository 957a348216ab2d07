"""One cell: its trials, curves, survival, measures and errors. Reads are bounded, however large the cell is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import BigInteger, Column, Connection, func, select

from elegans.errors import ExperimentError, StoreError, printable
from elegans.explorer import charts, snippets
from elegans.explorer.cells import Cells
from elegans.explorer.figures import as_json, plain
from elegans.store import Store
from elegans.store.cells import read_record
from elegans.store.codec import read_curves, read_measures
from elegans.store.queries import DETAILED, RESULTS, unsigned
from elegans.store.schema import CELLS, DETAILS, TRIALS
from elegans.store.tables import reason
from elegans.training.outcome import Curve, ErrorCurve
from elegans.training.states import FINISHED, STATES

LISTED = 500
"""The maximum number of trials of a cell that are listed."""
TIMED = 20_000
"""The maximum number of trials of a cell whose times to solve are drawn."""
DRAWN = 100
"""The maximum number of trials of a cell whose curves and measures are drawn."""
TRACED = 20
"""The maximum number of failed trials whose tracebacks are shown."""
LONGEST = 20_000
"""The maximum number of characters shown of a traceback: its last ones."""
PACKED = 2**24
"""The maximum number of compressed bytes of curves, or of measures, that are read for one cell."""


@dataclass(frozen=True)
class Trials:
    """What is read of a cell's trials.

    Args:
        listed: the first trials by seed, the failed ones before the others.
        total: how many have an outcome.
        times: the step at which each finished trial was solved, NaN where it was not.
        until: the step up to which each of them was trained.
        curves: by seed.
        measures: by seed, as in ``Outcome``.
        tracebacks: by seed.
    """

    listed: Sequence[Mapping[str, Any]]
    total: int
    times: np.ndarray
    until: np.ndarray
    curves: Mapping[int, tuple[Curve, ErrorCurve]]
    measures: Mapping[int, Mapping[str, Mapping[str, Any]]]
    tracebacks: Mapping[int, str]

    @property
    def measured(self) -> list[str]:
        """The recorded measures, each as ``kind.quantity``."""
        names = (
            f"{kind}.{name}"
            for measures in self.measures.values()
            for kind, quantities in measures.items()
            for name in quantities
            if name != "step"
        )
        return list(dict.fromkeys(names))


def cell_record(
    store: Store, cells: Cells, cell: int, *, measure: str | None = None, points: int | None = None
) -> dict[str, Any]:
    """Return a cell as JSON has it: columns, counts, figures, trials, failures, and what can be copied of it.

    Args:
        store: the store.
        cells: its cells.
        cell: the cell's number.
        measure: the measure that is drawn, as ``kind.quantity``; the first one by default.
        points: the maximum number of points per curve.

    Raises:
        ExperimentError: there is no such cell or measure.
    """
    row = cells.row(cell)
    template, trials, next_seed = store.database.read(
        lambda connection: (_template(connection, cell), read_trials(connection, cell), _next_seed(connection, cell))
    )
    measured = trials.measured
    if measure is not None and measure not in measured:
        recorded = ", ".join(measured) or "none is"
        raise ExperimentError(f"a measure must be recorded: {printable(measure[:60])!r}; {recorded}")
    figures = [
        ("curves", "learning curves", charts.curves(trials.curves, points)),
        ("survival", "times to solve", charts.survival(trials.times, trials.until)),
        ("measure", measure or next(iter(measured), ""), charts.measure(trials.measures, measure, points)),
    ]
    first = min((one["seed"] for one in trials.listed), default=0)
    return {
        "cell": cell,
        "name": cells.name(cell),
        "columns": {name: plain(row[name]) for name in map(str, row.index) if name.partition(".")[0] in template},
        "counts": {name: int(row[name]) for name in ("trials", *STATES, "running", "missing")},
        "figures": [
            {"name": name, "title": title, "figure": as_json(one)} for name, title, one in figures if one is not None
        ],
        "measures": measured,
        "trials": [plain(dict(one)) for one in trials.listed],
        "trials_total": trials.total,
        "failures": [{"seed": seed, "traceback": text} for seed, text in trials.tracebacks.items()],
        "copy": snippets.copies(template, first),
        "more": snippets.more_seeds(template, store.place, cell, next_seed),
    }


def read_trials(connection: Connection, cell: int) -> Trials:
    """Read what the page shows about a cell's trials."""
    condition = (TRIALS.c.cell == cell) & TRIALS.c.state.is_not(None)
    columns = ("seed", "state", "solved_at", "test_error", "seconds")
    listed = select(*(TRIALS.c[name] for name in columns)).where(condition)
    rows = connection.execute(listed.order_by(TRIALS.c.state != "failed", TRIALS.c.seed).limit(LISTED)).mappings().all()
    timed = select(TRIALS.c.solved_at, TRIALS.c.steps).where(condition, TRIALS.c.state.in_(FINISHED)).limit(TIMED)
    times = [(np.nan if step is None else step, steps) for step, steps in connection.execute(timed)]
    errors = select(DETAILS.c.seed, DETAILS.c.error).where(DETAILS.c.cell == cell, DETAILS.c.error.is_not(None))
    tracebacks = {
        unsigned(seed): error for seed, error in connection.execute(errors.order_by(DETAILS.c.seed).limit(LISTED))
    }
    solved_at, until = np.array(times, float).reshape(-1, 2).T
    return Trials(
        [
            {name: row[name] for name in columns}
            | {"seed": unsigned(row["seed"]), "error": reason(tracebacks.get(unsigned(row["seed"])))}
            for row in rows
        ],
        connection.scalar(select(func.count()).select_from(TRIALS).where(condition)) or 0,
        solved_at,
        until,
        curves_of(connection, cell),
        measures_of(connection, cell),
        {seed: error[-LONGEST:] for seed, error in list(tracebacks.items())[:TRACED]},
    )


def curves_of(connection: Connection, cell: int) -> dict[int, tuple[Curve, ErrorCurve]]:
    """Return the curves of a cell's first trials by seed."""
    return {seed: read_curves(packed) for seed, packed in _packed(connection, cell, DETAILS.c.curve)}


def measures_of(connection: Connection, cell: int) -> dict[int, dict[str, Any]]:
    """Return the measures of a cell's first trials by seed."""
    return {seed: read_measures(packed) for seed, packed in _packed(connection, cell, DETAILS.c.measures)}


def trials_table(store: Store, cell: int) -> pd.DataFrame:
    """Return the trials of a cell that have an outcome, with why the failed ones failed."""
    query = select(*(TRIALS.c[name] for name in ("seed", *RESULTS)), DETAILS.c.error).join(
        DETAILS, DETAILED, isouter=True
    )
    ordered = query.where(TRIALS.c.cell == cell, TRIALS.c.state.is_not(None)).order_by(TRIALS.c.seed)

    def read(connection: Connection) -> list[dict[str, Any]]:
        _template(connection, cell)
        rows = connection.execute(ordered).mappings().all()
        return [{**row, "seed": unsigned(row["seed"]), "error": reason(row["error"])} for row in rows]

    return pd.DataFrame(store.database.read(read), columns=["seed", *RESULTS, "error"])


def _packed(connection: Connection, cell: int, column: Column[Any]) -> Iterator[tuple[int, bytes]]:
    """Yield the seed and the packed details of a cell's first trials, as many as there is room for."""
    query = select(DETAILS.c.seed, func.length(column)).where(DETAILS.c.cell == cell, column.is_not(None))
    room, seeds = PACKED, list[int]()
    for seed, size in connection.execute(query.order_by(DETAILS.c.seed).limit(DRAWN)):
        room -= size
        if room < 0 and seeds:
            break
        seeds.append(seed)
    for seed in seeds:
        packed = connection.scalar(select(column).where(DETAILS.c.cell == cell, DETAILS.c.seed == seed))
        if packed is not None:
            yield unsigned(seed), packed


def _template(connection: Connection, cell: int) -> dict[str, Any]:
    query = select(CELLS.c.trial, CELLS.c.hash).where(CELLS.c.id == cell)
    row = connection.execute(query).first()
    if row is None:
        raise StoreError(f"a cell must be in the store: cell={cell}")
    return read_record(row.trial, row.hash)


def _next_seed(connection: Connection, cell: int) -> int:
    """Return the first seed behind all that a cell has."""
    seeds = (TRIALS.c.cell == cell) & (TRIALS.c.seed >= 0)
    last = connection.scalar(select(func.max(TRIALS.c.seed, type_=BigInteger())).where(seeds))
    return 0 if last is None else last + 1
