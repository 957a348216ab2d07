"""A store whose file is replaced, removed or overwritten under a run: the run stops, and what it trained is kept."""

import os
import re
import shutil
import sqlite3
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from laboratory import TRIAL

import elegans as el
from elegans.errors import StoreError
from elegans.store import Store
from elegans.store.integrity import check
from elegans.store.status import status_of
from elegans.training import Outcome

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody replace or remove an open file")
SWEEP = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=5000)
"""More trials than a test would wait for."""
OTHER = el.grid(TRIAL, {"model.width": [30, 40, 50]}, seeds=100)
SWEEP_FILE = """
seeds = 5000
engine = "toy"
[axes]
"model.width" = [10, 20]
[trial]
task = { kind = "sparse-parity", n = 20, k = 2 }
regime = "sample:100"
model = { kind = "mlp", width = 10 }
training = { kind = "sgd", steps = 4 }
"""
EARLY = 30
"""Trials after which the fault happens."""


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another store, in one file, larger than that of the run."""
    path = tmp_path_factory.mktemp("other") / "other.db"
    with Store(path) as store:
        run, _ = store.begin(OTHER)
        for part in range(0, len(OTHER), 100):
            run.record([ended(trial) for trial in run.claim([OTHER.trial(part + n) for n in range(100)])])
        run.release()
    return path


def ended(trial):
    return Outcome(trial, "unsolved", test_error=0.25, steps=4, seconds=1.0, engine="toy")


def replaced_by(path, other):
    shutil.copy(other, path.with_name("draft"))
    path.with_name("draft").replace(path)


def replaced_by_text(path, other):
    path.with_name("draft").write_text("no store")
    path.with_name("draft").replace(path)


def all_removed(path, other):
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink()


def log_removed(path, other):
    path.with_name(path.name + "-wal").unlink()


def folder_renamed(path, other):
    path.parent.rename(path.parent.with_name("renamed"))


def folder_removed(path, other):
    shutil.rmtree(path.parent)


MOVED = {
    "replaced": replaced_by,
    "replaced by a text": replaced_by_text,
    "removed": lambda path, other: path.unlink(),
    "removed with its logs": all_removed,
    "moved": lambda path, other: path.rename(path.with_name("elsewhere.db")),
    "its log removed": log_removed,
    "folder renamed": folder_renamed,
    "folder removed": folder_removed,
}


def overwritten(path, content):
    with path.open("wb") as file:
        file.write(content)


OVERWRITTEN = {
    "truncated": lambda path, other: os.truncate(path, 0),
    "cut short": lambda path, other: os.truncate(path, 5000),
    "overwritten by noise": lambda path, other: overwritten(path, os.urandom(path.stat().st_size)),
    "overwritten by another store": lambda path, other: overwritten(path, other.read_bytes()),
}


class Fault:
    """Does something to a store as soon as its run has trained some trials; ``done`` counts those up to then."""

    def __init__(self, act, *arguments):
        self.act, self.arguments, self.done = act, arguments, None

    def __call__(self, progress):
        if self.done is None and progress.this_run >= EARLY:
            self.done = progress.this_run
            self.act(*self.arguments)


def stopped(path, fault):
    """Run the sweep until it stops for a fault; return the fresh file that its line names, or None."""
    with pytest.raises(StoreError) as raised:
        el.run(SWEEP, path, engine="toy", workers=2, watch=fault)
    said = str(raised.value)
    assert said.isprintable() and said.startswith("a store must stay in its place, as it is, while a run writes to it")
    assert fault.done is not None
    named = re.search(r" (?:is|are) in (\S+)$", said)
    return named and Path(named[1])


@pytest.fixture
def path(tmp_path, toy, monkeypatch):
    toy(seconds=0.001)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "here" / "runs.db"


@pytest.mark.parametrize("name", MOVED)
def test_everything_trained_on_a_store_that_is_replaced_or_removed_is_in_a_fresh_file(path, other, name):
    fault = Fault(MOVED[name], path, other)
    fresh = stopped(path, fault)
    assert fresh.parent == (path.parent if path.parent.exists() else Path.cwd())
    assert check(fresh).sound
    with Store(fresh) as store:
        assert fault.done <= len(store.table()) < len(SWEEP)
        assert not any(run.alive for run in store.status().runs)
    sweep = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=50)
    assert len(el.run(sweep, fresh, engine="toy")) == 100  # it is a store on which a sweep goes on


@pytest.mark.slow
@pytest.mark.parametrize("name", ["replaced", "overwritten by another store"])
def test_another_store_that_took_the_place_of_a_run_s_is_not_written_to(path, other, name):
    stopped(path, Fault((MOVED | OVERWRITTEN)[name], path, other))
    assert path.read_bytes() == other.read_bytes()
    assert check(path).sound
    with Store(path, create=False) as store:
        assert len(store.table(OTHER)) == len(store.table()) == len(OTHER)


def test_a_store_that_is_moved_is_complete_at_its_new_place(path, other):
    fault = Fault(MOVED["moved"], path, other)
    stopped(path, fault)
    with Store(path.with_name("elsewhere.db")) as store:
        assert len(store.table()) >= fault.done
        assert store.status().runs[0].finished


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (number > 0)) for number, name in enumerate(OVERWRITTEN)]
)
def test_what_was_not_yet_written_when_a_store_was_overwritten_is_in_a_fresh_file(path, other, name):
    fresh = stopped(path, Fault(OVERWRITTEN[name], path, other))
    assert fresh.parent == path.parent and check(fresh).sound
    with Store(fresh) as store:
        table = store.table()
    assert len(table) and set(table["model.width"]) <= {10, 20}


def test_a_store_that_is_overwritten_after_its_run_stays_as_it_was_written(path, other):
    """All of the log is in the file when a run ends, so that SQLite has nothing to write when the store is closed."""
    with Store(path) as store:
        el.run(el.grid(TRIAL, {}, seeds=50), store, engine="toy", progress=False)
        overwritten(path, other.read_bytes())
    assert path.read_bytes() == other.read_bytes()


def test_a_command_whose_store_is_replaced_ends_with_one_line_that_names_the_fresh_file(path, other, elegans):
    Path("my.toml").write_text(SWEEP_FILE)

    def replace():
        solved = 0
        while solved < EARLY:
            time.sleep(0.1)
            with suppress(StoreError):  # it does not exist yet, or is empty
                solved = status_of(path).states.get("solved", 0)
        replaced_by(path, other)

    thread = threading.Thread(target=replace, daemon=True)
    thread.start()
    code, out, err = elegans("sweep", "my.toml", "--store", path)
    assert (code, out, err.count("\n")) == (2, "", 1) and str(path.with_name("runs.kept-1.db")) in err


@pytest.mark.parametrize("connected", [True, False])
def test_a_store_that_was_replaced_between_two_runs_of_a_program_is_refused(path, other, connected):
    with Store(path) as store:
        el.run(OTHER, store, engine="toy", progress=False)
        replaced_by(path, other)
        if not connected:
            store.engine.dispose()
        with pytest.raises(StoreError, match=r"^a store must stay in its place.*runs\.db"):
            el.run(el.grid(TRIAL, {}), store, engine="toy")
    assert path.read_bytes() == other.read_bytes()


@pytest.mark.slow
def test_another_process_that_writes_to_a_store_does_not_stop_a_run(path, toy):
    """Its log is written into the file, which is rebuilt."""

    def maintained():
        with sqlite3.connect(path, isolation_level=None, timeout=20) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()

    sweep, fault = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=400), Fault(maintained)
    assert len(el.run(sweep, path, engine="toy", workers=2, watch=fault)) == 800
    assert fault.done is not None and check(path).sound
