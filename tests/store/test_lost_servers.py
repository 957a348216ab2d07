"""Runs and readers that lose the connection to their PostgreSQL server, and runs that count as dead meanwhile."""

import os
import time
import warnings
from collections import Counter
from contextlib import contextmanager
from functools import partial

import pytest
from laboratory import PROCESSES, TRIAL, ToyEngine, process, untimed
from pandas.testing import assert_frame_equal
from postgres import Proxy
from sqlalchemy import event, func, select

import elegans as el
from elegans.explorer.cells import Cells
from elegans.explorer.compare import compare
from elegans.explorer.details import cell_record, trials_table
from elegans.explorer.overview import overview
from elegans.store import Store, liveness, postgresql, queries
from elegans.store.changes import CommitWatcher
from elegans.store.schema import RUNS, TRIALS
from elegans.sweeps import dispatcher
from elegans.training import Curve, Outcome
from elegans.training.engines import ENGINES

pytest.importorskip("psycopg")

SWEEP = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=12)
KEPT = 7
MISSING = SWEEP.trial(KEPT)
LARGE = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=60)


def outcome(trial):
    solved = bool(trial.seed % 3)
    curve = Curve([2, 4], [1.0, 0.5], [0.5, 0.25])
    measures = {"test-error": {"step": [2, 4], "error": [0.5, 1 / (1 + trial.seed)]}}
    return Outcome(
        trial, "solved" if solved else "unsolved", solved_at=4 if solved else None, steps=4, seconds=1.0,
        test_error=0.25, engine="toy", curve=curve, measures=measures,
    )  # fmt: skip


def record(store, trials):
    run, _ = store.begin(SWEEP)
    run.claim(trials)
    run.record([outcome(trial) for trial in trials])
    run.release()


@pytest.fixture
def filled(postgres):
    """A store in PostgreSQL with an outcome of most trials."""
    with Store(postgres) as store:
        record(store, [trial for trial in SWEEP if trial.seed < KEPT])
        yield store


def explored(store, work):
    cells = Cells(store)
    try:
        return work(cells)
    finally:
        cells.close()


@contextmanager
def restarted(server, store, at):
    """Restart the server before one of the statements of a store's; yield these."""
    statements = []

    def count(*given):
        statements.append(given[2])
        if len(statements) == at:
            server.stop()
            server.start()

    event.listen(store.engine, "before_cursor_execute", count)
    try:
        yield statements
    finally:
        event.remove(store.engine, "before_cursor_execute", count)


READS = {
    "outcomes": lambda store: list(store.outcomes(SWEEP)),
    "by_cell": lambda store: [(cell.cell, rows.to_csv()) for cell, rows in store.by_cell(SWEEP)],
    "outcome": lambda store: store.outcome(SWEEP.trial(3)),
    "trial": lambda store: store.trial(store.table().iloc[3]),
    "table": lambda store: store.table(SWEEP).to_csv(),
    "curves": lambda store: store.curves(SWEEP).to_csv(),
    "measures": lambda store: store.measures(SWEEP, "test-error").to_csv(),
    "cells_table": lambda store: store.cells_table(SWEEP).to_csv(),
    "totals": lambda store: store.totals(SWEEP).to_csv(),
    "recorded": lambda store: len(store.recorded(SWEEP)),
    "status": lambda store: str(store.status()),
    "mark": lambda store: CommitWatcher(store.database).mark() is None,
    "map": lambda store: explored(store, lambda cells: cells.table.to_csv()),
    "overview": lambda store: explored(store, lambda cells: overview(store, cells, [])["trials"]),
    "one cell": lambda store: explored(store, lambda cells: cell_record(store, cells, 1)),
    "trials of a cell": lambda store: trials_table(store, 1).to_csv(),
    "comparison": lambda store: explored(
        store, lambda cells: compare({"by": "model.width", "a": "10", "b": "20"}, cells).rows.to_csv()
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("read", READS)
def test_a_read_whose_server_is_restarted_in_the_middle_returns_everything_once(read, server, filled, monkeypatch):
    monkeypatch.setattr(queries, "ROWS_AT_ONCE", 5)
    monkeypatch.setattr(queries, "OUTCOMES_AT_ONCE", 5)
    with restarted(server, filled, at=0) as statements:
        expected = READS[read](filled)
    place = (len(statements) + 1) // 2
    with restarted(server, filled, at=place) as statements:
        assert READS[read](filled) == expected
    assert len(statements) > place


@pytest.mark.slow
def test_what_has_changed_is_added_up_once_wherever_the_server_is_restarted(server, filled):
    """Each time before another statement of the refresh."""
    cells = Cells(filled)
    missing = [trial for trial in SWEEP if trial.seed >= KEPT]
    with Store(filled.place) as other:
        run, _ = other.begin(SWEEP)
        cells.refresh()
        cells.ended_by(1)
        for place, trial in enumerate(missing, start=1):
            run.claim([trial])
            run.record([outcome(trial)])
            with restarted(server, filled, at=place) as statements:
                assert cells.refresh()
            assert cells.ended_by(run.number) == place
            fresh = Cells(other)
            assert_frame_equal(cells.table, fresh.table)
            fresh.close()
            if len(statements) < place:
                break
        assert 4 < place < len(missing)
    cells.close()


def test_streams_go_on_after_a_restart_between_two_of_their_rows(server, filled, monkeypatch):
    monkeypatch.setattr(queries, "ROWS_AT_ONCE", 12)
    monkeypatch.setattr(queries, "OUTCOMES_AT_ONCE", 3)
    streams = {"outcomes": filled.outcomes, "by_cell": partial(filled.by_cell, SWEEP)}
    for name, stream in streams.items():
        rows = stream()
        seen = [next(rows)]
        server.stop()
        server.start()
        seen += rows
        keys = [(each.trial.cell, each.trial.seed) if name == "outcomes" else each[0].cell for each in seen]
        assert len(keys) == len(set(keys)) == {"outcomes": 2 * KEPT, "by_cell": 2}[name]


def test_outcomes_are_read_in_the_order_of_seeds_of_any_size(postgres, monkeypatch):
    monkeypatch.setattr(queries, "OUTCOMES_AT_ONCE", 2)
    seeds = [0, 1, 5, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1]
    with Store(postgres) as store:
        for some in (seeds[::2], seeds[1::2]):
            record(store, [TRIAL.with_seed(seed) for seed in some])
        assert [each.trial.seed for each in store.outcomes()] == seeds


def test_a_change_is_noticed_without_looking_at_a_table(filled):
    statements = []
    event.listen(filled.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    watch = CommitWatcher(filled.database)
    marks = [watch.mark()]
    with Store(filled.place) as other:
        run, _ = other.begin(SWEEP)
        for work in (
            lambda: None,
            lambda: run.claim([MISSING]),
            lambda: run.record([outcome(MISSING)]),
            lambda: run.heartbeat(),
            lambda: run.release(),
        ):
            work()
            marks.append(watch.mark())
    assert len(set(marks)) == len(marks)
    assert any(watch.mark() == watch.mark() for _ in range(20))  # unless the server cleans up each time
    assert set(statements) == {"SELECT pg_current_snapshot()::text"}


SILENCE = 2.0


def run_elsewhere(boot, place, seconds, report, together):
    """Run the large sweep as if on a machine of its own, on which runs count as dead after two seconds of silence."""
    started = liveness.this_process().started
    liveness.this_process = lambda: liveness.Process("vm", os.getpid(), started, boot)
    liveness.SILENCE_SECONDS, dispatcher.HEARTBEAT_SECONDS, postgresql.WRITER_IDLE_SECONDS = SILENCE, 0.2, 1
    ENGINES["toy"] = ToyEngine(seconds)
    together.wait()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            el.run(LARGE, place, engine="toy", workers=2)
            ended = "complete"
        except BaseException as error:
            ended = f"{type(error).__name__}: {error}"
    report.put((boot, ended, [str(each.message) for each in said]))


def wait_until_at_work(store, boot, child):
    """Wait until a run has recorded a trial and holds another."""
    while child.is_alive():
        with store.engine.connect() as connection:
            run = select(RUNS.c.id).where(RUNS.c.boot == boot).scalar_subquery()
            counts = [
                connection.scalar(select(func.count()).where(column == run)) for column in TRIALS.c["run", "claim"]
            ]
        if all(counts):
            return
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("silent", [False, True])
def test_six_machines_one_killed_and_one_cut_off_give_the_same_table_as_one(server, postgres, toy, silent):
    """The one that is cut off comes back when the others have done everything, and its own outcomes are dropped."""
    toy()
    report, together = PROCESSES.Queue(), PROCESSES.Barrier(6)
    with Proxy(server) as proxy, Store(postgres) as store:
        places = [proxy.url(postgres), *[postgres] * 5]
        children = [
            process(run_elsewhere, f"boot {number}", place, 0.05, report, together)
            for number, place in enumerate(places)
        ]
        wait_until_at_work(store, "boot 0", children[0])
        proxy.cut(silent=silent)
        wait_until_at_work(store, "boot 1", children[1])
        children[1].kill()
        ended = [report.get(timeout=600) for _ in range(4)]
        with store.engine.connect() as connection:
            assert connection.scalar(select(func.count()).where(TRIALS.c.state.is_not(None))) == len(LARGE)
        proxy.mend()
        ended.append(report.get(timeout=600))
        assert sorted(each[:2] for each in ended) == [(f"boot {number}", "complete") for number in (0, 2, 3, 4, 5)]
        said = {boot: messages for boot, _, messages in ended}
        assert said.pop("boot 0") == [dispatcher.OVERTAKEN]
        assert all(
            messages in ([], [dispatcher.OVERTAKEN]) for messages in said.values()
        )  # under load others are silent too
        with store.engine.connect() as connection:
            assert Counter(connection.execute(select(TRIALS.c.attempts, TRIALS.c.claim)).all()) == {
                (1, None): len(LARGE)
            }
        assert_frame_equal(untimed(store.table(LARGE)), untimed(el.run(LARGE, engine="toy")))
