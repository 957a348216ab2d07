"""Writes runs, their claims and outcomes to a store; each function is called within one transaction."""

import json
import math
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from sqlalchemy import Connection, bindparam, case, delete, insert, null, select, text, update

from elegans.component import HAVE_LATER_FIELDS
from elegans.errors import StoreError
from elegans.extensions import code_of, own_classes
from elegans.probes import Probe
from elegans.sweeps import liveness
from elegans.sweeps.columns import Damage, read_probes, storable, unprintable, written
from elegans.sweeps.database import make_indexes
from elegans.sweeps.frames import columns_of
from elegans.sweeps.measures import pack_measures, read_measures
from elegans.sweeps.reading import RESULTS, cell_numbers, chunks, signed
from elegans.sweeps.schema import CELLS, CODES, DETAILS, RUNS, TRIALS
from elegans.sweeps.server import as_table, insert_rows, read_clock
from elegans.sweeps.survey import Survey, survey
from elegans.sweeps.sweep import Sweep
from elegans.training.outcome import Outcome
from elegans.training.states import FINISHED
from elegans.training.trial import Trial


@dataclass(frozen=True)
class Run:
    """A run's number in its store, and the conditions that settle a trial for it.

    Args:
        number: its number in the store.
        token: a name that no other run has.
        probes: the probes whose measures an outcome must have, as JSON.
        retry_failed: whether to train failed trials again.
        changed: the runs whose outcomes are to be trained again because their code has changed, by cell.
    """

    number: int
    token: str
    probes: frozenset[str]
    retry_failed: bool
    changed: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def settles(self, state: str | None, probes: str | None) -> bool:
        """Return whether an outcome meets the run's conditions: finished with the measures, or failed."""
        if state == "failed":
            return not self.retry_failed
        return state in FINISHED and self.probes <= probe_set(probes)


@lru_cache(maxsize=1024)
def probe_set(text: str | None) -> frozenset[str]:
    """Return the probes named in a row, each as JSON."""
    return frozenset(json.dumps(probe, sort_keys=True) for probe in read_probes(text))


def probe_texts(probes: Iterable[Probe]) -> frozenset[str]:
    """Return probes as JSON."""
    records = [probe.model_dump(mode="json") for probe in probes]
    return frozenset(json.dumps(record, sort_keys=True) for record in records)


def begin(
    connection: Connection,
    sweep: Sweep,
    name: str | None,
    probes: Sequence[Probe],
    retry_failed: bool,
    retrain_changed: bool,
    token: str,
    again: bool,
) -> tuple[Run, Survey]:
    """Register a run and its sweep's cells; return the run and what the store has of the sweep.

    ``again`` means here and below that the work is repeated, since the answer of an earlier commit was lost.
    """
    make_indexes(connection)
    run = Run(0, token, probe_texts(probes), retry_failed)
    ids = _register(connection, sweep.cells)
    classes = {template.cell: own_classes((template, *probes)) for template in sweep.cells}
    known = {part: code_of(cls) for part, cls in ChainMap(*classes.values()).items()}
    changed = _changed(connection, classes, known) if known else {}
    if retrain_changed:
        run = replace(run, changed=changed)
    found = survey(connection, sweep, run.settles, changed=changed, retrain_changed=retrain_changed)
    wanted = [
        {"number": ids[template.cell], "count": int(len(seeds) + others)}
        for (template, seeds), others in zip(sweep.parts, found.others, strict=True)
    ]
    more = case((CELLS.c.wanted < bindparam("count"), bindparam("count")), else_=CELLS.c.wanted)
    connection.execute(update(CELLS).where(CELLS.c.id == bindparam("number")).values(wanted=more), wanted)
    number = connection.scalar(select(RUNS.c.id).where(RUNS.c.token == token)) if again else None
    if number is None:
        number = _register_run(connection, run, name, sweep, found, known)
    return replace(run, number=number), found


def _register_run(
    connection: Connection, run: Run, name: str | None, sweep: Sweep, found: Survey, known: Mapping[str, str]
) -> int:
    """Record a run of this process with the code of its user-defined classes, and return its number."""
    process = liveness.this_process()
    now = read_clock(connection).now
    row = {
        "token": run.token,
        "name": name,
        "host": process.host,
        "pid": process.pid,
        "process_started": process.started,
        "boot": process.boot,
        "started": now,
        "heartbeat": now,
        "cells": len(sweep.parts),
        "trials": len(sweep),
        "missing": len(sweep) - int(np.count_nonzero(found.settled)),
    }
    key = connection.execute(insert(RUNS), written(RUNS, row)).inserted_primary_key
    assert key is not None
    if known:
        rows = [{"run": key[0], "part": part, "code": code} for part, code in known.items()]
        connection.execute(insert(CODES), [written(CODES, row) for row in rows])
    return int(key[0])


def _changed(
    connection: Connection, parts: Mapping[str, Iterable[str]], known: Mapping[str, str]
) -> dict[str, frozenset[int]]:
    """Return the runs in which the code of some class differs from the present one, by cell.

    A run that did not use a class counts with the code of the latest run before it, whose measures it may have kept.
    """
    CODES.create(connection, checkfirst=True)
    runs = connection.scalars(select(RUNS.c.id).order_by(RUNS.c.id)).all()
    query = select(CODES.c.part, CODES.c.run, CODES.c.code).where(CODES.c.part.in_(known))
    stale: dict[str, set[int]] = {part: set() for part in known}
    recorded = {(part, run): code for part, run, code in connection.execute(query)}
    for part, now in known.items():
        code = now
        for run in runs:
            code = recorded.get((part, run), code)
            if code != now and code.partition(":")[0] == now.partition(":")[0]:
                stale[part].add(run)
    return {cell: frozenset().union(*(stale[part] for part in own)) for cell, own in parts.items()}


def _register(connection: Connection, templates: Iterable[Trial]) -> dict[str, int]:
    by_hash = {template.cell: template for template in templates}
    ids = cell_numbers(connection, by_hash)
    new = [template for key, template in by_hash.items() if key not in ids]
    for some in chunks(new):  # a server takes a long time without a statement for the end of the process
        connection.execute(insert(CELLS), [_cell_row(template) for template in some])
    known = [by_hash[key] for key in ids] if HAVE_LATER_FIELDS else []
    for template in known:  # the store may be older than a field
        columns = CELLS.c.columns, columns_of(template)
        changed = update(CELLS).where(CELLS.c.id == ids[template.cell], columns[0] != columns[1])
        connection.execute(changed.values(columns=columns[1]))
    if new:
        before, ids = ids, cell_numbers(connection, by_hash)
        for numbers in chunks([ids[key] for key in ids.keys() - before.keys()]):
            orphan = connection.scalar(select(TRIALS.c.cell).where(TRIALS.c.cell.in_(numbers)).limit(1))
            if orphan is not None:  # SQLite reuses numbers: the trials would become those of another cell
                raise Damage(f"a trial must be of a cell that the store has: cell {orphan}")
    return ids


def _cell_row(template: Trial) -> dict[str, Any]:
    record = template.identified
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    if (bad := unprintable(record)) is not None:  # it could not be read back
        raise StoreError(f"a trial must have printable names, kinds and texts to be kept in a store: {bad}")
    return written(CELLS, {"hash": template.cell, "trial": text, "columns": columns_of(template), "wanted": 0})


_CLAIMED = select(TRIALS.c.seed, TRIALS.c.state, TRIALS.c.probes, TRIALS.c.run, TRIALS.c.claim).where(
    TRIALS.c.cell == bindparam("number"), TRIALS.c.seed.in_(bindparam("seeds", expanding=True))
)
_CLAIM = (
    update(TRIALS)
    .where(TRIALS.c.cell == bindparam("number"), TRIALS.c.seed == bindparam("place"))
    .values(claim=bindparam("by"))
)


def claim(
    connection: Connection, run: Run, trials: Iterable[Trial], again: bool, most: float = math.inf
) -> list[Trial]:
    """Claim the first trials that are neither settled nor held by a living run, and return them."""
    cells: dict[str, dict[int, Trial]] = {}
    for trial in trials:
        cells.setdefault(trial.cell, {})[trial.seed] = trial
    ids = _register(connection, (next(iter(seeds.values())) for seeds in cells.values()))
    claimed: list[Trial] = []
    new, old = [], []
    living: dict[int, bool] = {run.number: not again}
    for key, by_seed in cells.items():
        asked = {"number": ids[key], "seeds": [signed(seed) for seed in by_seed]}
        rows = {row.seed: row for row in connection.execute(_CLAIMED.with_for_update(), asked)}
        for seed, trial in by_seed.items():
            if len(claimed) >= most:
                break
            row = rows.get(signed(seed))
            if row is None:
                new.append({"cell": ids[key], "seed": signed(seed), "claim": run.number, "attempts": 0})
            elif (run.settles(row.state, row.probes) and row.run not in run.changed.get(key, ())) or _held(
                connection, row.claim, living
            ):
                continue
            else:
                old.append({"number": ids[key], "place": signed(seed), "by": run.number})
            claimed.append(trial)
    if new:
        insert_rows(connection, TRIALS, new)
    if old:
        connection.execute(_CLAIM, old)
    return claimed


def _held(connection: Connection, holder: int | None, living: dict[int, bool]) -> bool:
    if holder is None:
        return False
    if holder not in living:
        row = connection.execute(select(RUNS).where(RUNS.c.id == holder)).first()
        living[holder] = row is not None and liveness.is_alive(row, read_clock(connection))
    return living[holder]


_HELD = (
    (TRIALS.c.cell == bindparam("number"))
    & (TRIALS.c.seed == bindparam("place"))
    & (TRIALS.c.claim == bindparam("holder"))
)
"""The row of a trial that the run still holds: others take over those of a run that has been silent for too long."""
_OUTCOME = (*RESULTS, "probes", "run", "recorded")
"""The columns of an outcome."""
_RECORD = (
    update(TRIALS)
    .where(_HELD)
    .values(
        {name: bindparam(name) for name in _OUTCOME} | {"claim": null(), "attempts": TRIALS.c.attempts + 1},
    )
)
_RECORD_ALL = (
    "UPDATE trials SET claim = NULL, attempts = attempts + 1, "
    + ", ".join(f"{name} = given.{name}" for name in _OUTCOME)
    + " FROM {given} WHERE trials.cell = given.number AND trials.seed = given.place AND trials.claim = given.holder"
)
"""The same for many rows in one statement of PostgreSQL."""
_STOPPED = (
    update(TRIALS)
    .where(_HELD)
    .where(TRIALS.c.state.is_(None) | (TRIALS.c.state == "interrupted"))
    .values(
        {
            name: bindparam(name)
            for name in ("state", "steps", "seconds", "evaluation_seconds", "engine", "run", "recorded")
        }
    )
)
_FORGET = delete(DETAILS).where(
    DETAILS.c.cell == bindparam("number"), DETAILS.c.seed.in_(bindparam("seeds", expanding=True))
)


def record(connection: Connection, run: Run, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Record outcomes of a run's trials, and return those that are dropped since another run has their trials now.

    Trials are taken over from a run that has been cut off from the store for so long that it counts as dead. Those of
    them that are free again are claimed anew. An interrupted outcome never replaces a finished one.
    """
    ids = cell_numbers(connection, (outcome.trial.cell for outcome in outcomes))
    now = read_clock(connection).now
    stopped = [_row(run, ids, outcome, now) for outcome in outcomes if outcome.state == "interrupted"]
    if stopped:
        names = {"number", "place", *(key for key in _STOPPED.compile().params if key in stopped[0])}
        connection.execute(_STOPPED, [{name: row[name] for name in names} for row in stopped])
    lost = _record(connection, run, ids, now, [outcome for outcome in outcomes if outcome.state != "interrupted"])
    free = {(trial.cell, trial.seed) for trial in claim(connection, run, [each.trial for each in lost], again=False)}
    parts: tuple[list[Outcome], list[Outcome]] = [], []
    for outcome in lost:
        parts[(outcome.trial.cell, outcome.trial.seed) in free].append(outcome)
    _record(connection, run, ids, now, parts[True])
    return parts[False]


def _record(
    connection: Connection, run: Run, ids: Mapping[str, int], now: float, outcomes: Sequence[Outcome]
) -> list[Outcome]:
    """Record outcomes of trials that the run holds, and return the others, unless the run had recorded them."""
    if not outcomes:
        return []
    rows = [_row(run, ids, outcome, now) for outcome in outcomes]
    details = [_details(row, outcome) for row, outcome in zip(rows, outcomes, strict=True)]
    if run.probes:
        for row, detail, outcome in zip(rows, details, outcomes, strict=True):
            _keep_measures(connection, row, detail, outcome)
    lost: list[Outcome] = []
    if _update(connection, rows) != len(rows):
        own = _ended(connection, run, rows)
        lost = [each for row, each in zip(rows, outcomes, strict=True) if (row["number"], row["place"]) not in own]
        rows = [row for row in rows if (row["number"], row["place"]) in own]
        details = [detail for detail in details if (detail["cell"], detail["seed"]) in own]
    for number, seeds in _by_cell(rows).items():
        connection.execute(_FORGET, {"number": number, "seeds": seeds})
    kept = [detail for detail in details if any(detail[name] is not None for name in ("curve", "measures", "error"))]
    if kept:
        insert_rows(connection, DETAILS, kept)
    return lost


def _update(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
    """Set the outcomes of trials that their run holds, and return how many these are."""
    if connection.dialect.name != "postgresql":
        return connection.execute(_RECORD, rows).rowcount
    held = {"number": TRIALS.c.cell, "place": TRIALS.c.seed, "holder": TRIALS.c.claim}
    given, arrays = as_table(connection, held | {name: TRIALS.c[name] for name in _OUTCOME}, rows)
    return connection.execute(text(_RECORD_ALL.format(given=given)), arrays).rowcount


def _ended(connection: Connection, run: Run, rows: Sequence[Mapping[str, Any]]) -> set[tuple[int, int]]:
    """Return the cell and signed seed of those trials that the run has recorded, now or in an earlier transaction."""
    return {
        (number, row.seed)
        for number, seeds in _by_cell(rows).items()
        for row in connection.execute(_CLAIMED, {"number": number, "seeds": seeds})
        if row.run == run.number and row.claim is None
    }


def _by_cell(rows: Iterable[Mapping[str, Any]]) -> dict[int, list[int]]:
    """Return the signed seeds of rows by the number of their cell."""
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row["number"], []).append(row["place"])
    return found


def _row(run: Run, ids: Mapping[str, int], outcome: Outcome, now: float) -> dict[str, Any]:
    probes = [json.loads(text) for text in sorted(run.probes)] if outcome.state in FINISHED else []
    row = {
        "number": ids[outcome.trial.cell],
        "place": signed(outcome.trial.seed),
        "holder": run.number,
        "state": outcome.state,
        "solved_at": outcome.solved_at,
        "test_error": outcome.test_error,
        "train_error": outcome.train_error,
        "steps": outcome.steps,
        "seconds": outcome.seconds,
        "evaluation_seconds": outcome.evaluation_seconds,
        "engine": outcome.engine,
        "probes": json.dumps(probes, sort_keys=True) if probes else None,
        "run": run.number,
        "recorded": now,
    }
    return written(TRIALS, row)


def _details(row: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    return {
        "cell": row["number"],
        "seed": row["place"],
        "curve": outcome.curve.to_bytes() if outcome.curve.step else None,
        "measures": pack_measures(outcome.measures) if outcome.measures else None,
        "error": None if outcome.error is None else storable(outcome.error),
    }


def _keep_measures(connection: Connection, row: dict[str, Any], detail: dict[str, Any], outcome: Outcome) -> None:
    """Keep earlier measures of other probes: the trial is the same, and they would measure the same again."""
    if outcome.state not in FINISHED:
        return
    here = (DETAILS.c.cell == row["number"]) & (DETAILS.c.seed == row["place"])
    there = (TRIALS.c.cell == row["number"]) & (TRIALS.c.seed == row["place"])
    before = connection.scalar(select(TRIALS.c.probes).where(there))
    if not before:
        return
    measures = {**read_measures(connection.scalar(select(DETAILS.c.measures).where(here))), **outcome.measures}
    detail["measures"] = pack_measures(measures)
    probes = {probe["kind"]: probe for probe in (*read_probes(before), *json.loads(row["probes"]))}
    row["probes"] = json.dumps([probes[kind] for kind in sorted(probes)], sort_keys=True)


def beat(connection: Connection, run: Run) -> None:
    """Record that a run is alive."""
    connection.execute(update(RUNS).where(RUNS.c.id == run.number).values(heartbeat=read_clock(connection).now))


def release(connection: Connection, run: Run) -> None:
    """Free the trials that a run still holds, and record that it has ended."""
    connection.execute(delete(TRIALS).where(TRIALS.c.claim == run.number, TRIALS.c.state.is_(None)))
    connection.execute(update(TRIALS).where(TRIALS.c.claim == run.number).values(claim=None))
    connection.execute(update(RUNS).where(RUNS.c.id == run.number).values(finished=read_clock(connection).now))
