"""Stores of the former format version: read as they are, and brought up to date in one transaction."""

import os
import sqlite3
from contextlib import closing

import pytest
from laboratory import TRIAL, process
from pandas.testing import assert_frame_equal

import elegans as el
from elegans.errors import StoreError
from elegans.store import Store, format as formats
from elegans.store.integrity import check
from elegans.store.postgresql import begun
from elegans.store.schema import TABLES, checks
from elegans.training import Curve, Outcome

FORMER = """
CREATE TABLE meta ("key" VARCHAR(64) NOT NULL, value TEXT NOT NULL, PRIMARY KEY ("key"));
CREATE TABLE cells (
    id INTEGER NOT NULL, hash VARCHAR(64) NOT NULL, trial TEXT NOT NULL, columns TEXT NOT NULL,
    wanted INTEGER NOT NULL, PRIMARY KEY (id), UNIQUE (hash));
CREATE TABLE runs (
    id INTEGER NOT NULL, token VARCHAR(32) NOT NULL, name TEXT, host TEXT NOT NULL, pid INTEGER NOT NULL,
    process_started FLOAT NOT NULL, boot TEXT, started FLOAT NOT NULL, heartbeat FLOAT NOT NULL, finished FLOAT,
    cells INTEGER NOT NULL, trials INTEGER NOT NULL, missing INTEGER NOT NULL, PRIMARY KEY (id));
CREATE TABLE trials (
    cell INTEGER NOT NULL, seed BIGINT NOT NULL, state VARCHAR(16), solved_at BIGINT, test_error FLOAT,
    train_error FLOAT, steps BIGINT, seconds FLOAT, evaluation_seconds FLOAT, engine VARCHAR(32), probes TEXT,
    run INTEGER, claim INTEGER, attempts INTEGER NOT NULL, recorded FLOAT, PRIMARY KEY (cell, seed),
    FOREIGN KEY(cell) REFERENCES cells (id)) WITHOUT ROWID;
CREATE TABLE details (
    cell INTEGER NOT NULL, seed BIGINT NOT NULL, curve BLOB, measures BLOB, error TEXT, PRIMARY KEY (cell, seed),
    FOREIGN KEY(cell) REFERENCES cells (id)) WITHOUT ROWID;
CREATE TABLE codes (
    run INTEGER NOT NULL, part VARCHAR(255) NOT NULL, code VARCHAR(64) NOT NULL, PRIMARY KEY (run, part),
    FOREIGN KEY(run) REFERENCES runs (id));
CREATE INDEX claims ON trials (claim) WHERE claim IS NOT NULL;
CREATE INDEX recorded ON trials (recorded) WHERE recorded IS NOT NULL;
INSERT INTO meta VALUES ('format', 'elegans-store'), ('version', '3');
"""
SWEEP = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=4)
STATES = ["solved", "unsolved", "failed", "solved"]


def outcome(trial):
    state = STATES[trial.seed]
    solved_at, error = (4 if state == "solved" else None), ("Traceback: broken" if state == "failed" else None)
    return Outcome(
        trial, state, solved_at=solved_at, test_error=0.25, steps=4, seconds=1.0, engine="toy", error=error,
        curve=Curve([2, 4], [1.0, 0.5], [0.5, 0.25]), measures={"test-error": {"step": [0, 4], "error": [0.5, 0.25]}},
    )  # fmt: skip


def fill(place):
    with Store(place) as store:
        run, _ = store.begin(SWEEP, name="mine")
        run.record([outcome(trial) for trial in run.claim(SWEEP)])
        run.release()
        return contents(store)


def contents(store):
    return store.table(SWEEP), store.cells_table(), store.curves(SWEEP), store.measures(SWEEP, "test-error")


def same(store, expected):
    for table, other in zip(contents(store), expected, strict=True):
        assert_frame_equal(table, other)


@pytest.fixture
def former(tmp_path):
    """A store of the former version, and the tables that it must show."""
    expected = fill(tmp_path / "now.db")
    with closing(sqlite3.connect(tmp_path / "former.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(FORMER)
        connection.execute("ATTACH ? AS now", (str(tmp_path / "now.db"),))
        for name in TABLES.tables.keys() - {"meta"}:
            connection.execute(f"INSERT INTO {name} SELECT * FROM now.{name}")
    return tmp_path / "former.db", expected


def version(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()[0]


def test_a_reader_reads_a_store_of_the_former_version_and_changes_nothing(former):
    path, expected = former
    before = path.read_bytes()
    with Store(path, create=False) as store:
        same(store, expected)
        assert store.status().runs[0].name == "mine"
        with pytest.raises(StoreError, match="a store must be writable to run a sweep"):
            store.begin(SWEEP)
    assert check(path).sound and path.read_bytes() == before


def test_a_writer_brings_it_up_to_date_and_goes_on(former, toy):
    path, expected = former
    toy()
    with Store(path) as store:
        same(store, expected)
        run, found = store.begin(SWEEP)
        assert found.settled.all() and run.number == 2
        run.release()
        assert len(el.run(el.grid(TRIAL, {"model.width": [30]}, seeds=2), store, engine="toy")) == 2
    assert version(path) == "4" and check(path).sound
    with closing(sqlite3.connect(path)) as connection:
        there = {
            name for (name,) in connection.execute("SELECT name FROM pragma_table_list WHERE strict AND type = 'table'")
        }
        assert there == set(TABLES.tables)
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute("UPDATE trials SET steps = 'abc'")


def test_a_damaged_one_is_left_as_it_is_until_it_is_repaired(former):
    path, expected = former
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE trials SET steps = 'abc' WHERE cell = 1 AND seed = 0")
        connection.execute("UPDATE trials SET test_error = 7 WHERE cell = 1 AND seed = 1")
        connection.commit()
    message = r"of format version 3 can be brought up to date only if it is undamaged: .* \(.*; elegans check --repair"
    with pytest.raises(StoreError, match=message):
        Store(path)
    assert version(path) == "3"
    with Store(path, create=False) as store, pytest.raises(StoreError, match="a value in a store must fit its"):
        store.table()
    report = check(path, repair=True)
    assert report.aside == 4 and check(path).sound
    with Store(path) as store:
        assert_frame_equal(store.table(SWEEP), expected[0].iloc[2:].reset_index(drop=True))
    assert version(path) == "4"


def stop_in_the_middle(path):
    formats._create = lambda connection, create=formats._create: (create(connection), os._exit(9))
    Store(path)


@pytest.mark.slow
def test_a_process_that_is_killed_in_the_middle_leaves_the_former_store(former):
    path, expected = former
    child = process(stop_in_the_middle, path)
    child.join()
    assert child.exitcode == 9 and version(path) == "3"
    with Store(path, create=False) as store:
        same(store, expected)
    with Store(path) as store:
        same(store, expected)
    assert version(path) == "4"


def test_a_store_on_a_server_is_brought_up_to_date(postgres):
    expected = fill(postgres)
    with Store(postgres) as store, begun(store.engine) as connection:
        query = "SELECT conrelid::regclass, conname FROM pg_constraint WHERE contype = 'c' AND connamespace = "
        rules = connection.exec_driver_sql(f"{query}current_schema()::regnamespace").all()
        assert len(rules) == sum(1 for table in TABLES.sorted_tables for _ in checks(table))
        for table, rule in rules:
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP CONSTRAINT {rule}")
        connection.exec_driver_sql("UPDATE meta SET value = '3' WHERE key = 'version'")
    with Store(postgres, create=False) as store:
        same(store, expected)
    with Store(postgres) as store, begun(store.engine) as connection:
        again = connection.exec_driver_sql(f"{query}current_schema()::regnamespace").all()
        assert sorted(map(str, again)) == sorted(map(str, rules))
    with Store(postgres) as store:
        same(store, expected)
