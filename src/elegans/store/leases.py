"""Runs, which hold the trials that they are training, and record outcomes of these; each step is one transaction."""

import json
import math
import sqlite3
import uuid
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import Connection, bindparam, case, delete, func, insert, select, text, update

from elegans.errors import StoreError, counted, printable
from elegans.extensions import code_of, own_classes
from elegans.probes import Probe
from elegans.store import liveness
from elegans.store.cells import cell_numbers, register
from elegans.store.codec import pack_curves, pack_measures, read_measures, storable
from elegans.store.codes import changed_runs
from elegans.store.connection import Database
from elegans.store.coverage import Coverage, read_coverage
from elegans.store.location import locate
from elegans.store.postgresql import as_table, insert_rows, read_clock
from elegans.store.queries import RESULTS, signed
from elegans.store.rescue import LostStore, RunFiles, State
from elegans.store.schema import CELLS, CODES, DETAILS, RUNS, TRIALS
from elegans.store.status import read_holders
from elegans.training.outcome import Outcome
from elegans.training.states import FINISHED
from elegans.training.trial import Trial
from elegans.training.trial_set import TrialSet

_T = TypeVar("_T")


class Run:
    """A run of a sweep, which counts as running from its beginning (see ``Store.begin``) until it is released.

    Args:
        database: of the store.
        sweep: the sweep.
        name: its name in the store's status.
        probes: the probes whose measures an outcome must have, or else the trial is trained again.
        retry_failed: whether to train failed trials again although the code of their classes is unchanged.

    Attributes:
        number: its number in the store.
        token: a name that no other run has.
        classes: the user-defined classes that a cell needs, by its hash.
        files: the files of a store in SQLite, which the run keeps open.
        changed: the runs that trained with code that has changed, by cell; their failed trials are trained again.
        retrain_changed: whether all their trials are trained again.
    """

    def __init__(
        self, database: Database, sweep: TrialSet, name: str | None, probes: Sequence[Probe], retry_failed: bool
    ) -> None:
        self.database, self.sweep, self.name, self.retry_failed = database, sweep, name, retry_failed
        self.probes = frozenset(json.dumps(probe.model_dump(mode="json"), sort_keys=True) for probe in probes)
        classes = ((template.cell, own_classes((template, *probes))) for template in sweep.cells)
        self.classes = {cell: parts for cell, parts in classes if parts}
        self.number, self.token = 0, uuid.uuid4().hex
        self.files: RunFiles | None = None
        self.changed: Mapping[str, frozenset[int]] = {}
        self.retrain_changed = False

    def begin(self, retrain_changed: bool) -> Coverage:
        """Register the run, and return what the store has of its sweep."""
        liveness.ACTIVE.add(self.token)
        self.retrain_changed = retrain_changed
        try:
            coverage = self.database.write(lambda connection, again: _begin(connection, self, again))
            if self.database.file is not None:
                self.files = RunFiles(self.database, self.token)
            return coverage
        except BaseException:
            liveness.ACTIVE.discard(self.token)
            raise

    def settles(self, state: str | None, probes: str | None) -> bool:
        """Return whether an outcome meets the run's conditions: finished with the measures, or failed."""
        if state == "failed":
            return not self.retry_failed
        return state in FINISHED and self.probes <= _probe_set(probes)

    def outdates(self, cell: str, row: Any) -> bool:
        """Return whether the code of an outcome in a cell has changed, so that it is trained again."""
        return row.run in self.changed.get(cell, ()) and (self.retrain_changed or row.state == "failed")

    def claim(self, trials: Iterable[Trial], most: float = math.inf) -> list[Trial]:
        """Claim trials in one transaction, and return the trials that the run received.

        A trial cannot be claimed once it is settled (finished with the measures that the run needs, or
        failed and not to be retried), nor while another living run holds it.

        Args:
            trials: the trials, in the order in which they are wanted.
            most: the number of trials at which to stop.
        """
        wanted = list(trials)
        return self._write(lambda connection, again: _claim(connection, self, wanted, again, most))

    def record(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Record the outcomes of trials that the run has claimed, in one transaction.

        An interrupted outcome does not replace a finished one. Measures of other probes that the store
        has of a trial are kept beside the new ones.

        Returns:
            The outcomes that were not recorded, since another run has taken over the trial while this one was cut off
            from the store for more than a minute.
        """
        return self._write(lambda connection, again: _record(connection, self, outcomes))

    def heartbeat(self) -> None:
        """Record that the run is alive; this counts for a minute on other machines."""
        self._write(lambda connection, again: _stamp(connection, self, "heartbeat"))

    def release(self) -> None:
        """End the run, which frees the trials that it still holds."""
        liveness.ACTIVE.discard(self.token)
        self._write(lambda connection, again: _release(connection, self))
        if self.files is not None:
            self.files.finish()

    def check_files(self) -> None:
        """Check that the store's files are still the files that the run opened.

        Raises:
            LostStore: they are not; ``rescue`` keeps what can be kept.
        """
        if self.files is not None:
            self.files.check()

    def _write(self, work: Callable[[Connection, bool], _T]) -> _T:
        """Do work in one transaction, on files that are the store's before and afterwards."""
        self.check_files()
        result = self.database.write(work)
        self.check_files()
        return result

    def rescue(self, outcomes: Sequence[Outcome], error: StoreError) -> StoreError:
        """End the run of a store that fails; a fresh store keeps what the run could not write.

        If the store's files are lost, it also has what can be copied of them: everything if they are only moved.

        Args:
            outcomes: what the run could not write.
            error: what has happened.

        Returns:
            The error to raise, which names the fresh store.
        """
        files, former = self.files, self.database
        try:
            self.check_files()
        except LostStore as lost:
            error = lost
        state = error.state if isinstance(error, LostStore) else None
        ended = [outcome for outcome in outcomes if outcome.state != "interrupted"]
        self.files = None
        if files is not None and (ended or state in ("moved", "damaged")):
            error = self._recorded_elsewhere(files, state, ended, error)
        self.database = former
        liveness.ACTIVE.discard(self.token)
        if state in (None, "moved"):
            with suppress(StoreError):
                self.release()
        if files is not None:
            files.leave(state)
        return error

    def _recorded_elsewhere(
        self, files: RunFiles, state: State | None, ended: Sequence[Outcome], error: StoreError
    ) -> StoreError:
        for file, copied in files.fresh(state):
            try:
                files.copy_to(file, copied)
                with closing(Database(locate(file))) as self.database:
                    self.database.write(lambda connection, again: _begin(connection, self, again=True))
                    self.record(ended)
                    self.release()
                    count = self.database.read(lambda connection: connection.scalar(select(func.count(TRIALS.c.state))))
            except (StoreError, sqlite3.Error, OSError):  # such as a full disk, or a part that cannot be read
                with suppress(OSError):
                    file.unlink()
            else:
                names = {"moved": "everything", "damaged": "what could be kept", None: "what was not yet written"}
                what = names[copied]
                return StoreError(f"{error}; {what} ({counted(count or 0, 'outcome')}) is in {printable(str(file))}")
        return StoreError(f"{error}; nothing could be kept, since no fresh store could be written")

    def coverage(self) -> Coverage:
        """Return what the store has of the run's sweep now."""

        def read(connection: Connection) -> Coverage:
            numbers = cell_numbers(connection, (template.cell for template in self.sweep.cells))
            return read_coverage(connection, self.sweep, numbers, self.settles, self.changed, self.retrain_changed)

        return self.database.read(read)

    def holders(self) -> tuple[str, ...]:
        """Return which other runs are training trials of this store, and how many."""
        return self.database.read(lambda connection: read_holders(connection, self.number))


@lru_cache(maxsize=1024)
def _probe_set(text: str | None) -> frozenset[str]:
    return frozenset(json.dumps(probe, sort_keys=True) for probe in json.loads(text or "[]"))


def _begin(connection: Connection, run: Run, again: bool) -> Coverage:
    """Register a run and its sweep's cells; return what the store has of the sweep.

    ``again`` means here and below that the work is repeated, since the answer of an earlier commit was lost.
    """
    sweep = run.sweep
    numbers = register(connection, sweep.cells)
    codes = {part: code_of(cls) for part, cls in ChainMap(*run.classes.values()).items()}
    run.changed = changed_runs(connection, run.classes, codes)
    coverage = read_coverage(connection, sweep, numbers, run.settles, run.changed, run.retrain_changed)
    counts = [
        {"number": numbers[template.cell], "count": int(len(seeds) + others)}
        for (template, seeds), others in zip(sweep.parts, coverage.others, strict=True)
    ]
    more = case((CELLS.c.wanted < bindparam("count"), bindparam("count")), else_=CELLS.c.wanted)
    connection.execute(update(CELLS).where(CELLS.c.id == bindparam("number")).values(wanted=more), counts)
    known = connection.scalar(select(RUNS.c.id).where(RUNS.c.token == run.token)) if again else None
    if known is not None:
        run.number = known
        return coverage
    process, now = liveness.this_process(), read_clock(connection).now
    row = {"token": run.token, "name": run.name, "host": process.host, "pid": process.pid, "boot": process.boot}
    times = {"process_started": process.started, "started": now, "heartbeat": now}
    missing = len(sweep) - int(np.count_nonzero(coverage.settled))
    sizes = {"cells": len(sweep.parts), "trials": len(sweep), "missing": missing}
    key = connection.execute(insert(RUNS), row | times | sizes).inserted_primary_key
    assert key is not None
    run.number = int(key[0])
    if codes:
        rows = [{"run": run.number, "part": part, "code": code} for part, code in codes.items()]
        connection.execute(insert(CODES), rows)
    return coverage


_STATE = select(TRIALS.c.seed, TRIALS.c.state, TRIALS.c.probes, TRIALS.c.run, TRIALS.c.claim).where(
    TRIALS.c.cell == bindparam("number"), TRIALS.c.seed.in_(bindparam("seeds", expanding=True))
)
_TAKE = (
    update(TRIALS)
    .where(TRIALS.c.cell == bindparam("number"), TRIALS.c.seed == bindparam("signed"))
    .values(claim=bindparam("by"))
)


def _claim(
    connection: Connection, run: Run, trials: Iterable[Trial], again: bool = False, most: float = math.inf
) -> list[Trial]:
    """Claim the first trials that are neither settled nor held by a living run, and return them."""
    cells: dict[str, dict[int, Trial]] = {}
    for trial in trials:
        cells.setdefault(trial.cell, {})[trial.seed] = trial
    numbers = register(connection, (next(iter(seeds.values())) for seeds in cells.values()))
    claimed: list[Trial] = []
    new, old = [], []
    living: dict[int, bool] = {run.number: not again}
    for key, by_seed in cells.items():
        wanted = {"number": numbers[key], "seeds": [signed(seed) for seed in by_seed]}
        rows = {row.seed: row for row in connection.execute(_STATE.with_for_update(), wanted)}
        for seed, trial in by_seed.items():
            if len(claimed) >= most:
                break
            row = rows.get(signed(seed))
            if row is None:
                new.append({"cell": numbers[key], "seed": signed(seed), "claim": run.number, "attempts": 0})
            elif (run.settles(row.state, row.probes) and not run.outdates(key, row)) or _held(
                connection, row.claim, living
            ):
                continue
            else:
                old.append({"number": numbers[key], "signed": signed(seed), "by": run.number})
            claimed.append(trial)
    if new:
        insert_rows(connection, TRIALS, new)
    if old:
        connection.execute(_TAKE, old)
    return claimed


def _held(connection: Connection, holder: int | None, living: dict[int, bool]) -> bool:
    if holder is None:
        return False
    if holder not in living:
        row = connection.execute(select(RUNS).where(RUNS.c.id == holder)).first()
        living[holder] = row is not None and liveness.is_alive(row, read_clock(connection))
    return living[holder]


_OUTCOME = (*RESULTS, "probes", "run", "recorded")
"""The columns of an outcome."""
_STOPPED = ("state", "steps", "seconds", "evaluation_seconds", "engine", "run", "recorded")
"""The columns of an interrupted outcome, whose trial its run still holds."""
_ENDED = ", claim = NULL, attempts = attempts + 1"
_UNFINISHED = " AND (trials.state IS NULL OR trials.state = 'interrupted')"
_FORGET = delete(DETAILS).where(
    DETAILS.c.cell == bindparam("number"), DETAILS.c.seed.in_(bindparam("seeds", expanding=True))
)


def _record(connection: Connection, run: Run, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Record outcomes of a run's trials, and return the outcomes that are dropped: another run has their trials now.

    Trials are taken over from a run that has been cut off from the store for so long that it counts as dead. Trials
    among them that are free again are claimed anew. An interrupted outcome never replaces a finished one.
    """
    numbers = cell_numbers(connection, (outcome.trial.cell for outcome in outcomes))
    now = read_clock(connection).now
    rows = [(_row(run, numbers, outcome, now), outcome) for outcome in outcomes]
    _update(connection, [row for row, outcome in rows if outcome.state == "interrupted"], _STOPPED, also=_UNFINISHED)
    lost = _record_ended(connection, run, [each for each in rows if each[1].state != "interrupted"])
    free = {(trial.cell, trial.seed) for trial in _claim(connection, run, [outcome.trial for _, outcome in lost])}
    _record_ended(connection, run, [each for each in lost if (each[1].trial.cell, each[1].trial.seed) in free])
    return [outcome for _, outcome in lost if (outcome.trial.cell, outcome.trial.seed) not in free]


_Rows = Sequence[tuple[dict[str, Any], Outcome]]
"""Outcomes, each with its row of trials."""


def _record_ended(connection: Connection, run: Run, rows: _Rows) -> _Rows:
    """Record outcomes of trials that the run holds, and return the others, unless the run had recorded them."""
    if not rows:
        return []
    details = [_details(connection, run, row, outcome) for row, outcome in rows]
    lost: _Rows = []
    if _update(connection, [row for row, _ in rows], _OUTCOME, more=_ENDED) != len(rows):
        recorded = {
            (number, row.seed)
            for number, seeds in _by_cell(row for row, _ in rows).items()
            for row in connection.execute(_STATE, {"number": number, "seeds": seeds})
            if row.run == run.number and row.claim is None  # now or in an earlier transaction
        }
        lost = [each for each in rows if (each[0]["number"], each[0]["signed"]) not in recorded]
        rows = [each for each in rows if (each[0]["number"], each[0]["signed"]) in recorded]
        details = [detail for detail in details if (detail["cell"], detail["seed"]) in recorded]
    for number, seeds in _by_cell(row for row, _ in rows).items():
        connection.execute(_FORGET, {"number": number, "seeds": seeds})
    present = [detail for detail in details if any(detail[name] is not None for name in ("curve", "measures", "error"))]
    if present:
        insert_rows(connection, DETAILS, present)
    return lost


def _update(
    connection: Connection, rows: Sequence[Mapping[str, Any]], names: Sequence[str], *, more: str = "", also: str = ""
) -> int:
    """Set columns of trials that their run holds, and return how many these are.

    Others have taken over the trials of a run that was silent for too long. In PostgreSQL all rows are set by one
    statement.
    """
    if not rows:
        return 0
    keys = {"number": TRIALS.c.cell, "signed": TRIALS.c.seed, "holder": TRIALS.c.claim}
    source, value = "", ":{}".format
    parameters: Any = [{name: row[name] for name in (*keys, *names)} for row in rows]
    if connection.dialect.name == "postgresql":
        given, parameters = as_table(connection, keys | {name: TRIALS.c[name] for name in names}, rows)
        source, value = f" FROM {given}", "given.{}".format
    held = " AND ".join(f"trials.{column.name} = {value(name)}" for name, column in keys.items())
    values = ", ".join(f"{name} = {value(name)}" for name in names)
    return connection.execute(text(f"UPDATE trials SET {values}{more}{source} WHERE {held}{also}"), parameters).rowcount


def _by_cell(rows: Iterable[Mapping[str, Any]]) -> dict[int, list[int]]:
    seeds: dict[int, list[int]] = {}
    for row in rows:
        seeds.setdefault(row["number"], []).append(row["signed"])
    return seeds


def _row(run: Run, numbers: Mapping[str, int], outcome: Outcome, now: float) -> dict[str, Any]:
    probes = ", ".join(sorted(run.probes)) if outcome.state in FINISHED else ""
    return {
        "number": numbers[outcome.trial.cell],
        "signed": signed(outcome.trial.seed),
        "holder": run.number,
        **{name: getattr(outcome, name) for name in RESULTS},
        "probes": f"[{probes}]" if probes else None,
        "run": run.number,
        "recorded": now,
    }


def _details(connection: Connection, run: Run, row: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    measures: Mapping[str, Any] = outcome.measures
    if run.probes and outcome.state in FINISHED:
        measures = _with_earlier(connection, row, measures)
    return {
        "cell": row["number"],
        "seed": row["signed"],
        "curve": pack_curves(outcome.curve, outcome.errors),
        "measures": pack_measures(measures) if measures else None,
        "error": None if outcome.error is None else storable(outcome.error),
    }


def _with_earlier(connection: Connection, row: dict[str, Any], measures: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keep earlier measures of other probes: the trial is the same, and they would measure the same again."""
    trial = (TRIALS.c.cell == row["number"]) & (TRIALS.c.seed == row["signed"])
    before = connection.scalar(select(TRIALS.c.probes).where(trial))
    if not before:
        return measures
    details = (DETAILS.c.cell == row["number"]) & (DETAILS.c.seed == row["signed"])
    packed = connection.scalar(select(DETAILS.c.measures).where(details))
    probes = {probe["kind"]: probe for probe in (*json.loads(before), *json.loads(row["probes"]))}
    row["probes"] = json.dumps([probes[kind] for kind in sorted(probes)], sort_keys=True)
    return {**read_measures(packed), **measures}


def _stamp(connection: Connection, run: Run, column: str) -> None:
    connection.execute(update(RUNS).where(RUNS.c.id == run.number).values({column: read_clock(connection).now}))


def _release(connection: Connection, run: Run) -> None:
    connection.execute(delete(TRIALS).where(TRIALS.c.claim == run.number, TRIALS.c.state.is_(None)))
    connection.execute(update(TRIALS).where(TRIALS.c.claim == run.number).values(claim=None))
    _stamp(connection, run, "finished")
