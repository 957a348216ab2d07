"""Stores in PostgreSQL, on a real server."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from laboratory import PROCESSES, TRIAL, process, run_toy, untimed, wait_for_outcomes
from pandas.testing import assert_frame_equal
from sqlalchemy import select, update

import elegans as el
from elegans.errors import StoreError, without_passwords
from elegans.explorer.cells import Cells
from elegans.explorer.overview import overview
from elegans.explorer.snippets import more_seeds
from elegans.store import Store, connection as opening, liveness, queries
from elegans.store.integrity import check
from elegans.store.postgresql import begun
from elegans.store.schema import RUNS, TRIALS
from elegans.store.status import status_of
from elegans.training import Outcome

psycopg = pytest.importorskip("psycopg")

SEEDS = 30
SWEEP = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=SEEDS)


def attempts(store):
    with store.engine.connect() as connection:
        return Counter(connection.scalars(select(TRIALS.c.attempts)))


def same(store):
    assert_frame_equal(untimed(store.table(SWEEP)), untimed(el.run(SWEEP, engine="toy")))


@pytest.mark.slow
def test_six_runs_at_once_begin_one_store_and_train_every_trial_once(toy, postgres):
    toy()
    report, together = PROCESSES.Queue(), PROCESSES.Barrier(6)
    children = [process(run_toy, postgres, SEEDS, 0.01, report, together) for _ in range(6)]
    assert [report.get(timeout=600) for _ in children] == ["complete"] * 6
    for child in children:
        child.join()
    with Store(postgres) as store:
        assert attempts(store) == {1: 2 * SEEDS}
        assert len(store.status().runs) == 6
        same(store)


@pytest.mark.slow
def test_a_killed_run_loses_what_it_was_training_and_another_trains_that(toy, postgres):
    toy()
    child = process(run_toy, postgres, SEEDS, 0.05)
    wait_for_outcomes(postgres, 3, child)
    child.kill()
    child.join()
    with Store(postgres) as store:
        kept = store.table()
        assert 3 <= len(kept) < 2 * SEEDS
        el.run(SWEEP, store, engine="toy")
        assert attempts(store) == {1: 2 * SEEDS}
        same(store)
        on = store.table().merge(kept[["model.width", "seed", "seconds"]])
        assert len(on) == len(kept)


def lose_the_answer(store, monkeypatch, times=1):
    """Commit, but then lose the connection, as often as said."""
    left, commit = [times], store.engine.dialect.do_commit

    def committed(raw):
        commit(raw)
        if left[0]:
            left[0] -= 1
            raw.driver_connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(store.engine.dialect, "do_commit", committed)
    return left


def test_what_was_committed_although_the_answer_was_lost_is_not_done_twice(postgres, monkeypatch):
    trials = list(SWEEP)
    outcomes = [Outcome(trial, "unsolved", steps=4, engine="toy") for trial in trials]
    with Store(postgres) as store:
        left = lose_the_answer(store, monkeypatch, 5)
        for each in ("begin", "claim", "record", "heartbeat", "release"):
            left[0] = 1
            if each == "begin":
                run, found = store.begin(SWEEP)
                assert not found.settled.any()
            elif each == "claim":
                assert run.claim(trials) == trials
            else:
                getattr(run, each)(*([outcomes] if each == "record" else []))
            assert not left[0]
        assert attempts(store) == {1: len(trials)}
        assert len(store.status().runs) == 1 and store.status().runs[0].finished


def test_a_run_does_not_claim_what_it_is_training(postgres):
    with Store(postgres) as store:
        run, _ = store.begin(SWEEP)
        assert len(run.claim(SWEEP)) == len(SWEEP)
        assert run.claim(SWEEP) == []


@pytest.mark.slow
def test_a_server_that_is_restarted_costs_a_run_nothing_but_time(toy, server, postgres):
    toy()
    report = PROCESSES.Queue()
    children = [process(run_toy, postgres, SEEDS, 0.05, report) for _ in range(2)]
    for kept in (3, SEEDS):
        wait_for_outcomes(postgres, kept, children[0])
        server.stop()
        time.sleep(1)
        server.start()
    assert [report.get(timeout=600) for _ in children] == ["complete"] * 2
    with Store(postgres) as store:
        assert attempts(store) == {1: 2 * SEEDS}
        assert len(store.status().runs) == 2
        same(store)


@pytest.mark.slow
def test_a_run_whose_server_does_not_come_back_ends_with_one_line_and_keeps_what_was_committed(
    toy, server, postgres, monkeypatch
):
    monkeypatch.setattr(opening, "LOST_SECONDS", 1.0)
    toy(seconds=0.01)
    stopped = []

    def watch(progress):
        if progress.done >= 3 and not stopped:
            stopped.append(progress.done)
            server.stop()

    try:
        with Store(postgres) as store, pytest.raises(StoreError) as raised:
            el.run(SWEEP, store, engine="toy", watch=watch)
    finally:
        server.start()
    said = "the server of a store must answer within 1 seconds of a lost connection (what was committed is kept): "
    assert str(raised.value).startswith(said) and "\n" not in str(raised.value)
    with Store(postgres) as store:
        assert stopped[0] <= len(store.table()) < len(SWEEP)
        el.run(SWEEP, store, engine="toy")
        assert attempts(store) == {1: len(SWEEP)}
        same(store)


def test_an_interrupted_run_does_not_wait_for_its_server(toy, server, postgres, interruptible, monkeypatch):
    monkeypatch.setattr(opening, "LOST_SECONDS", 1e6)
    toy(seconds=0.01)
    stopped = []

    def watch(progress):
        if progress.done and not stopped:
            stopped.append(progress.done)
            server.stop()
            os.kill(os.getpid(), signal.SIGINT)

    try:
        with Store(postgres) as store, pytest.raises(StoreError, match="must answer before a run that is stopped ends"):
            el.run(SWEEP, store, engine="toy", watch=watch)
    finally:
        server.start()


def elsewhere(monkeypatch, boot, host="vm"):
    """Let this process be one of another machine."""
    process = liveness.Process(host, os.getpid(), liveness.this_process().started, boot)
    monkeypatch.setattr(liveness, "this_process", lambda: process)


@pytest.mark.parametrize("lead", [-3600, 3600])
def test_a_run_on_a_machine_whose_clock_is_an_hour_off_keeps_its_trials(postgres, monkeypatch, lead):
    with Store(postgres) as store:
        with monkeypatch.context() as there:
            elsewhere(there, "boot 1")
            there.setattr(time, "time", lambda now=time.time: now() + lead)
            one, _ = store.begin(SWEEP)
            one.claim(list(SWEEP)[:3])
            one.record([Outcome(SWEEP.trial(0), "unsolved", engine="toy")])
            one.heartbeat()
        elsewhere(monkeypatch, "boot 2")
        two, _ = store.begin(SWEEP)
        assert two.claim(SWEEP) == list(SWEEP)[3:]
        assert two.holders() == (f"run 1 (vm:{os.getpid()}) with 2 trials",)
        status = store.status()
        assert [run.alive for run in status.runs] == [True, True]
        assert status.runs[0].per_second > 0 and abs(status.runs[0].started - status.runs[1].started) < 60 < abs(lead)
        with begun(store.engine) as connection:
            connection.execute(update(RUNS).where(RUNS.c.id == one.number).values(heartbeat=RUNS.c.heartbeat - 1000))
        assert len(two.claim(SWEEP)) == 2


@pytest.mark.parametrize(
    ("heartbeat", "alive"), [(-30, True), (-90, False), (-110, True), (-220, True), (-300, False), (60, True)]
)
def test_a_run_counts_as_silent_only_while_it_could_be_heard(heartbeat, alive):
    """The server started 100 seconds ago, or 50 seconds ago where runs were last heard before that."""
    now, up = 1e9, 100 if heartbeat > -100 else 50
    run = SimpleNamespace(host="elsewhere", boot="x", finished=None, heartbeat=now + heartbeat)
    assert liveness.is_alive(run, liveness.Clock(now, now - up)) is alive


def test_two_machines_of_one_name_do_not_take_each_other_s_trials(new_store, monkeypatch):
    """Machines cloned from one image are called the same and number their processes alike."""
    with new_store() as store:
        with monkeypatch.context() as there:
            elsewhere(there, "boot 1 pid:[4026531836]")
            one, _ = store.begin(SWEEP)
            one.claim(list(SWEEP)[:3])
        for boot in ("boot 2 pid:[4026531836]", "boot 1 pid:[4026532000]"):
            with monkeypatch.context() as there:
                elsewhere(there, boot)
                two, _ = store.begin(SWEEP)
                assert len(two.claim(SWEEP)) == len(SWEEP) - 3
                two.release()
        monkeypatch.setattr(liveness, "_boot", lambda: None)  # a system without /proc
        liveness._this_process.cache_clear()
        assert liveness.this_process().boot.startswith("hardware ")
        liveness._this_process.cache_clear()


def tables(server, schema):
    """Create the tables of another program in a schema."""
    server.execute(f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.sales (id integer)")


def test_a_store_has_a_schema_of_its_own_beside_other_tables(toy, server):
    toy()
    tables(server, "theirs")
    theirs, ours = server.url("postgres", schema="theirs"), server.new()
    for place in (theirs, server.url("postgres", options="-csearch_path=theirs")):
        with pytest.raises(StoreError) as raised:
            Store(place)
        said = f"a store must be made by elegans: {place} holds other tables (sales); "
        assert str(raised.value) == said + "a schema of its own is asked for by ?schema=NAME"
    with pytest.raises(StoreError, match="a store must hold a table of outcomes: .* is empty"):
        Store(ours, create=False)
    el.run(SWEEP, ours, engine="toy")
    other = server.url("postgres", schema='Our "own"; %DROP')
    with Store(other) as store:
        el.run(SWEEP, store, engine="toy")
        assert len(store.status().runs) == 1
    with Store(ours, create=False) as store:
        assert len(store.status().runs) == 1
        same(store)
        with pytest.raises(StoreError, match="a store must be writable to run a sweep: "):
            store.begin(SWEEP)


@pytest.mark.parametrize("schema", ["pg_toast", "a\nb", "x" * 64])
def test_a_schema_that_no_store_can_have_is_refused(server, schema):
    with pytest.raises(StoreError, match="schema must"):
        Store(server.url("postgres", schema=schema))


def broken(*statements):
    """Return what makes a store that lacks something."""

    def make(server):
        place = server.new()
        with Store(place) as store, begun(store.engine) as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
        return place

    return make


def without_rights(server):
    place = server.new()
    Store(place).close()
    server.execute("DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN")
    schema = place.rpartition("=")[2]
    server.execute(f"GRANT USAGE ON SCHEMA {schema} TO guest")
    return place.replace("elegans@", "guest:secret@")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda server: server.url("nowhere"), "the database of a store must exist: an empty one becomes a store: "),
        (
            lambda server: server.url("postgres").replace("elegans@", "nobody:secret@"),
            "the server of a store must know",
        ),
        (
            lambda server: "postgresql://me:secret@localhost:1/db?sslpassword=secret",
            "a store must be a database that answers: postgresql://me:***@localhost:1/db?sslpassword=***",
        ),
        (lambda server: "postgresql://me:secret@host:port/db", "a store must be a path or an SQLAlchemy URL: "),
        (lambda server: "nosuch://me:secret@host/db", "the driver of a store's database must be installed: "),
        (without_rights, "the user of a store must be allowed to read and write its tables: postgresql://guest:***@/"),
        (broken("UPDATE meta SET value = '99' WHERE key = 'version'"), "a store must have format version 4"),
        (
            broken("DROP TABLE meta", "CREATE TABLE meta (key integer, value integer)"),
            "a store must be made by elegans: ",
        ),
    ],
)
def test_what_is_no_store_is_refused_in_one_line_without_a_password(server, make, said):
    with pytest.raises(StoreError) as raised:
        Store(make(server))
    assert str(raised.value).startswith(said) and "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_what_a_store_must_not_hold_is_said_as_what_it_is(postgres):
    rows = "INSERT INTO trials (cell, seed, attempts) VALUES (1, 1, 0), (1, 1, 0)"
    with Store(postgres) as store:
        store.begin(SWEEP)[0].release()
        for statement, said in [
            (rows, r"the rows of a store must be unique, and refer to .* \(duplicate key value .*trials_pkey"),
            (rows.replace("(1, 1", "(99, 1"), "the rows of a store must be unique, and refer to rows that it has: "),
            ("SELECT 1e30::bigint", "a value in a store must fit its column: .* out of range"),
            ("DROP TABLE codes, nothing", "a store must hold the tables of its format: "),
        ]:
            with pytest.raises(StoreError, match=said):
                store.database.write(lambda connection, again, text=statement: connection.exec_driver_sql(text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sweep --store 'postgresql://me:a:b/c@host/db' x", "sweep --store 'postgresql://me:***@host/db' x"),
        (
            "postgresql+psycopg://me@host/db?password=a&sslpassword=b",
            "postgresql+psycopg://me@host/db?password=***&sslpassword=***",
        ),
        ("http://127.0.0.1:8000/?token=a@b", "http://127.0.0.1:8000/?token=a@b"),
        ("runs.db", "runs.db"),
    ],
)
def test_passwords_in_a_text_are_hidden(text, shown):
    assert without_passwords(text) == shown


def test_no_message_or_record_shows_the_password_of_a_store(toy, postgres):
    toy()
    place = postgres.replace("elegans@", "elegans:secret@")
    with Store(place) as store:
        el.run(SWEEP, store, engine="toy")
        assert "elegans:***@" in store.place and "secret" not in repr(store) + str(store.status())
        told = overview(store, Cells(store), [])
        assert "secret" not in json.dumps(told) and "***" in told["name"]
        assert "secret" not in more_seeds(SWEEP.cells[0].model_dump(mode="json"), store.place, 1, 0)
    assert len(status_of(place).runs) == 1
    with pytest.raises(StoreError, match="only a store in an SQLite file can be checked: .*:[*]{3}@"):
        check(place)


def test_rows_of_a_large_table_stay_on_the_server_until_they_are_read(toy, postgres, monkeypatch):
    toy()
    monkeypatch.setattr(queries, "ROWS_AT_ONCE", 7)
    with Store(postgres) as store:
        table = el.run(SWEEP, store, engine="toy")
        with store.engine.connect() as connection:
            open_cursors = "SELECT count(*) FROM pg_cursors WHERE NOT is_holdable AND name LIKE 'c\\_%%'"
            query = select(TRIALS.c.seed).order_by(TRIALS.c.cell, TRIALS.c.seed)
            pieces = queries.fetch_pieces(connection, query, [queries.seeds])
            seeds = next(pieces)[0].tolist()
            assert len(seeds) == 7 and connection.exec_driver_sql(open_cursors).scalar() == 1
            seeds += [seed for (piece,) in pieces for seed in piece.tolist()]
            assert seeds == table.seed.tolist() and connection.exec_driver_sql(open_cursors).scalar() == 0


START_AND_WAIT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from postgres import Server, programs
print(Server(programs()).folder, flush=True)
time.sleep(1000)
"""


@pytest.mark.slow
def test_a_server_of_the_tests_ends_with_them_even_if_they_are_killed(server):
    command = [sys.executable, "-c", START_AND_WAIT, str(Path(__file__).parents[1] / "support")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tests:
        folder = Path(tests.stdout.readline().strip())
        pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        assert psutil.pid_exists(pid)
        tests.kill()
    while folder.exists():  # it is deleted once the server has stopped
        time.sleep(0.01)
    with suppress(psutil.NoSuchProcess):
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
