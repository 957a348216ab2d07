"""Stores that are damaged or that someone else has made.

The database refuses values that its columns do not hold; a read ends in one line where rows cannot be read or belong to
nothing; a check finds every damaged row, and a repair moves it aside.
"""

import hashlib
import json
import os
import re
import shutil
import sqlite3
import zlib
from contextlib import closing
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from laboratory import TRIAL

import elegans as el
from elegans.errors import ElegansWarning, StoreError
from elegans.store import Store, codec
from elegans.store.cells import columns_of, read_columns
from elegans.store.codec import pack_curves
from elegans.store.integrity import check
from elegans.sweeps.runner import report
from elegans.training import Curve, ErrorCurve, Outcome

PROBES = [el.probes.HeldOutErrorRate()]
SWEEP = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=4)
STATES = ["solved", "unsolved", "failed", "solved"]


def outcome(trial):
    state = STATES[trial.seed]
    return Outcome(
        trial,
        state,
        solved_at=4 if state == "solved" else None,
        test_error=0.25,
        steps=4,
        seconds=1.0,
        engine="toy",
        error="Traceback: broken" if state == "failed" else None,
        curve=Curve([2, 4], [1.0, 0.5], [0.5, 0.25]),
        measures={"test-error": {"step": [0, 4], "error": [0.5, 0.25], "place": [np.zeros(2), np.ones(2)]}},
    )


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A store with every kind of row, in one file."""
    path = tmp_path_factory.mktemp("sound") / "runs.db"
    with Store(path) as store:
        run, _ = store.begin(SWEEP, name="mine", probes=PROBES)
        run.record([outcome(trial) for trial in run.claim(SWEEP)])
        run.release()
    return path


@pytest.fixture(scope="module")
def known(sound, tmp_path_factory):
    """What each read gives of it."""
    found, refused = answers(damaged(sound, tmp_path_factory.mktemp("known")))
    assert not refused
    return found


def shaped(found):
    """Return what a read gave in a form that can be compared."""
    if isinstance(found, pd.DataFrame):
        rows = zip(*(found[name].tolist() for name in found), strict=True)
        return [repr(dict(zip(found, row, strict=True))) for row in rows]
    if isinstance(found, Outcome):
        return repr(found)
    return str(found) if not hasattr(found, "__next__") else [shaped(each) for each in found]


def cells_by_name(store):
    return {str(cell): shaped(table) for cell, table in store.by_cell(SWEEP)}


def survey(store):
    run, found = store.begin(SWEEP, probes=PROBES)
    run.release()
    return found.settled.tolist()


READS = {
    "table": lambda store: store.table(),
    "table of a sweep": lambda store: store.table(SWEEP),
    "cells": lambda store: store.cells_table(),
    "cells of a sweep": lambda store: store.cells_table(SWEEP),
    "by cell": cells_by_name,
    "totals": lambda store: store.totals(SWEEP),
    "recorded": lambda store: store.recorded(SWEEP).parts,
    "outcomes": lambda store: store.outcomes(),
    "outcome": lambda store: store.outcome(next(iter(SWEEP))),
    "measures": lambda store: store.measures(SWEEP, "test-error"),
    "curves": lambda store: store.curves(SWEEP),
    "status": lambda store: store.status(),
    "begin": survey,
}


def answers(path):
    """Return what each read of a store gives, or the StoreError that it ends in, and the StoreErrors alone."""
    found, refused = {}, {}
    try:
        with Store(path) as store:
            for name, read in READS.items():
                try:
                    found[name] = shaped(read(store))
                except StoreError as error:
                    refused[name] = str(error)
    except StoreError as error:
        refused["open"] = str(error)
    assert all(said.isprintable() for said in refused.values())  # one line, and nothing that a terminal would act on
    return found, refused


def damaged(path, tmp_path, *statements):
    """Return a copy of a store on which statements were run."""
    copy = tmp_path / "damaged.db"
    shutil.copy(path, copy)
    connection = sqlite3.connect(copy)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        connection.execute(*([statement] if isinstance(statement, str) else statement))
    connection.commit()
    connection.close()
    return copy


def packed(text, *more):
    content = text if isinstance(text, bytes) else text.encode()
    return zlib.compress(len(content).to_bytes(4, "little") + content + b"".join(more))


def details(column, value):
    return (f"UPDATE details SET {column} = ? WHERE cell = 1 AND seed = 0", (value,))


def of_trial(column, value):
    return f"UPDATE trials SET {column} = {value} WHERE cell = 1 AND seed = 0"


WRONG = {
    **{
        f"trials.{column} = {value}": of_trial(column, value)
        for column, value in [
            ("seed", "'first'"),
            ("seed", "0.5"),
            ("steps", "'abc'"),
            ("steps", "x'00ff'"),
            ("steps", "1.5"),
            ("solved_at", "1e300"),
            ("solved_at", "'4'||'x'"),
            ("test_error", "'abc'"),
            ("train_error", "x'00'"),
            ("seconds", "'abc'"),
            ("evaluation_seconds", "x'00'"),
            ("state", "x'736f6c766564'"),
            ("engine", "x'00'"),
            ("probes", "x'5b5d'"),
            ("recorded", "'soon'"),
            ("claim", "'me'"),
        ]
    },
    "columns as bytes": "UPDATE cells SET columns = x'00' WHERE id = 1",
    "wanted as text": "UPDATE cells SET wanted = 'all' WHERE id = 1",
    "a curve that is a text": "UPDATE details SET curve = 'abc'",
    "a curve that is a number": "UPDATE details SET curve = 7",
    "an error that is bytes": "UPDATE details SET error = x'ff'",
    **{
        f"runs.{column} = {value}": f"UPDATE runs SET {column} = {value}"
        for column, value in [("host", "x'00'"), ("pid", "'me'"), ("process_started", "'abc'"), ("missing", "'all'")]
    },
}
"""Values of another type than their column's."""

IMPOSSIBLE = {
    **{
        f"trials.{column} = {value}": of_trial(column, value)
        for column, value in [
            ("steps", "-1"),
            ("steps", "NULL"),
            ("seconds", "NULL"),
            ("seconds", "-1"),
            ("evaluation_seconds", "NULL"),
            ("test_error", "1.5"),
            ("state", "'finished'"),
            ("state", "CAST(x'ff' AS TEXT)"),
            ("state", "NULL"),
            ("engine", "''"),
        ]
    },
    **{
        f"trial {seed} with {change}": f"UPDATE trials SET {change} WHERE cell = 1 AND seed = {seed}"
        for change, seed in [
            ("solved_at = NULL", 0),
            ("solved_at = steps + 1", 0),
            ("state = 'unsolved'", 0),
            ("state = 'failed'", 0),
            ("state = 'solved'", 1),
            ("state = 'solved'", 2),
        ]
    },
    "runs.pid = 99999999999": "UPDATE runs SET pid = 99999999999",
    "runs.process_started = 9e999": "UPDATE runs SET process_started = 9e999",
    "runs.started = 1e300": "UPDATE runs SET started = 1e300",
}
"""Values of the right type that no trial, cell or run has."""

DAMAGE = {
    "probes that are no JSON": [of_trial("probes", "'{'")],
    **{
        f"cells.{column} = {value[:20]}": [(f"UPDATE cells SET {column} = ? WHERE id = 1", (value,))]
        for column, value in [
            ("columns", "{"),
            ("columns", "[" * 100_000),
            ("columns", "9" * 5000),
            ("columns", "[1]"),
            ("trial", "{"),
            ("trial", '{"task": 1}'),
        ]
    },
    "a trial that is not UTF-8": ["UPDATE cells SET trial = CAST(x'ff' AS TEXT) WHERE id = 1"],
    "a curve that is not compressed": [details("curve", b"abc")],
    "a curve cut short": [details("curve", pack_curves(Curve([1], [1.0], [1.0]), ErrorCurve())[:-3])],
    "a curve that goes on": [details("curve", pack_curves(Curve([1], [1.0], [1.0]), ErrorCurve()) + b"more")],
    "an empty curve": [details("curve", b"")],
    "a curve of 128 points": [
        details("curve", pack_curves(Curve([*range(128)], [1.0] * 128, [1.0] * 128), ErrorCurve()))
    ],
    "a curve of half points": [details("curve", zlib.compress(b"12345"))],
    "a curve that is too long": [details("curve", zlib.compress(bytes(10**7)))],
    "empty measures": [details("measures", b"")],
    "measures that are not compressed": [details("measures", b"abc")],
    "measures of two bytes": [details("measures", zlib.compress(b"ab"))],
    "measures that end too soon": [details("measures", zlib.compress(b"\xff\0\0\0{}"))],
    "measures without a step": [details("measures", packed('{"test-error": {"error": [1, 2]}}'))],
    "measures of two values at one step": [
        details("measures", packed('{"test-error": {"step": [0], "error": [1, 2]}}'))
    ],
    "measures that are no text": [details("measures", packed(b"\xff\xff"))],
    "measures that are a list": [details("measures", packed("[]"))],
    "measures of a number": [details("measures", packed('{"test-error": 7}'))],
    "measures nested deeply": [details("measures", packed("[" * 200_000))],
    "measures of 5000 digits": [details("measures", packed("9" * 5000))],
    **{
        f"measures with {facts}": [details("measures", packed(json.dumps({"test-error": {"step": facts}}), bytes(16)))]
        for facts in (
            {},
            {"type": "<f8", "shape": [3]},
            {"type": "<f8", "shape": ["a"]},
            {"type": "<f8", "shape": [10**12, 10**12]},
            {"type": "<f8", "shape": []},
            {"type": "O", "shape": [1]},
            {"type": 7, "shape": 7},
        )
    },
}
"""Texts and bytes that cannot be read."""


ABSENT = {
    "a trial of no cell": ["UPDATE trials SET cell = 30000000000 WHERE cell = 1 AND seed = 0"],
    "a trial of a negative cell": ["UPDATE trials SET cell = -3 WHERE cell = 1 AND seed = 0"],
    "a cell that is gone": ["DELETE FROM cells WHERE id = 1"],
    "a huge number of a cell": ["UPDATE cells SET id = 30000000000 WHERE id = 2"],
}


def unkeyed(path, tmp_path, table, key, *statements):
    """Return a copy of a store whose table has a key that nothing enforces: its rows were written without it."""
    copy = damaged(path, tmp_path)
    connection = sqlite3.connect(copy)
    ((text,),) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchall()
    assert key in text
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(f"ALTER TABLE {table} RENAME TO former")
    connection.execute(text.replace(key, "CHECK (1)").replace("WITHOUT ROWID", ""))
    for statement in (f"INSERT INTO {table} SELECT * FROM former", *statements, "DROP TABLE former"):
        connection.execute(statement)
    keyed = text.replace("WITHOUT ROWID", "")
    connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (keyed, table))
    connection.commit()
    connection.close()
    return copy


def test_rows_that_are_there_twice_are_found_although_the_schema_says_that_they_cannot_be(sound, tmp_path):
    twice = "INSERT INTO trials SELECT * FROM former"
    assert not check(unkeyed(sound, tmp_path, "trials", "PRIMARY KEY (cell, seed)", twice)).sound
    again = "INSERT INTO cells SELECT 7, hash, trial, columns, wanted FROM former WHERE id = 1"
    assert not check(unkeyed(sound, tmp_path, "cells", "UNIQUE (hash)", again)).sound


def test_measures_that_are_lists_of_any_shape_have_a_table(sound, tmp_path):
    deep, ragged = "[" * 70 + "1" + "]" * 70, "[[1], [1, 2]]"
    taken = f'{{"test-error": {{"step": [0, 1, 2], "error": [{deep}, {ragged}, [1, 2]]}}}}'
    path = damaged(sound, tmp_path, details("measures", packed(taken)))
    with Store(path) as store:
        found = store.measures(SWEEP, "test-error")["error"]
    assert found[0] == json.loads(deep) and found[1] == [[1], [1, 2]] and found[2].tolist() == [1, 2]


def test_trials_are_never_shown_with_the_parameters_of_another_cell(sound, tmp_path):
    path = damaged(sound, tmp_path, "DELETE FROM cells WHERE id = 2")
    with Store(path) as store:
        for read in (store.table, store.cells_table, store.status):
            with pytest.raises(StoreError, match="a trial must belong to a cell of the store: cell 2"):
                read()
        other = el.grid(TRIAL, {"model.width": [30]})
        run, _ = store.begin(other)
        assert len(run.claim(other)) == 1  # the number of the cell that is gone is not given again
        run.release()
        assert len(store.table(el.grid(TRIAL, {"model.width": [10]}, seeds=4))) == 4


def test_a_small_row_cannot_fill_the_memory(sound, tmp_path, monkeypatch):
    monkeypatch.setattr(codec, "LARGEST_MEASURES", 10**6)
    path = damaged(sound, tmp_path, details("measures", zlib.compress(bytes(10**7))))
    with Store(path) as store, pytest.raises(StoreError, match="measures must take at most 1,000,000 bytes: 9,"):
        store.outcome(next(iter(SWEEP)))


POSSIBLE = {
    "seed": "UPDATE trials SET seed = 77 WHERE seed = 1; UPDATE details SET seed = 77 WHERE seed = 1",
    "state": "UPDATE trials SET state = 'diverged' WHERE state = 'solved'",
    "solved_at": "UPDATE trials SET solved_at = 2 WHERE state = 'solved'",
    "test_error": "UPDATE trials SET test_error = 0.5",
    "train_error": "UPDATE trials SET train_error = 0.5",
    "steps": "UPDATE trials SET steps = 7",
    "seconds": "UPDATE trials SET seconds = 7.0",
    "evaluation_seconds": "UPDATE trials SET evaluation_seconds = 7.0",
    "engine": "UPDATE trials SET engine = 'another'",
    "bookkeeping of trials": "UPDATE trials SET run = 9, claim = 9, attempts = 9, recorded = 9",
    "trials of another cell": "UPDATE cells SET id = CASE id WHEN 1 THEN 2 ELSE 1 END + 5 WHERE id < 5; "
    "UPDATE cells SET id = id - 5",
    "wanted": "UPDATE cells SET wanted = 99",
    "curve": ("UPDATE details SET curve = ?", (pack_curves(Curve([1], [2.0], [0.5]), ErrorCurve()),)),
    "measures": ("UPDATE details SET measures = ?", (packed('{"test-error": {"step": [1], "error": [2]}}'),)),
    "error": "UPDATE details SET error = 'Another: reason' WHERE error IS NOT NULL",
    "no details": "DELETE FROM details",
    "runs": "UPDATE runs SET name = 'another', host = 'another', pid = 7, started = 7, finished = 8, missing = 9",
    "no runs": "DELETE FROM runs",
}
"""One value of each kind that elegans could have written, as the page on reliability lists them."""


@pytest.mark.parametrize("name", POSSIBLE)
def test_a_value_that_is_still_possible_is_shown(sound, known, tmp_path, name):
    statements = POSSIBLE[name].split("; ") if isinstance(POSSIBLE[name], str) else [POSSIBLE[name]]
    path = damaged(sound, tmp_path, *statements)
    found, refused = answers(path)
    assert not refused and check(path).sound and found != known


FOREIGN = {
    "an endless view": (
        ["DROP TABLE details", "CREATE VIEW details AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
         "SELECT x AS cell, x AS seed, NULL AS curve, NULL AS measures, NULL AS error FROM n"],
        "a store must have only plain tables: .* has the view 'details'",
    ),
    "a trigger": (
        ["CREATE TRIGGER more AFTER UPDATE ON trials BEGIN DELETE FROM trials; END"],
        "a store must have only plain tables: .* has the trigger 'more'",
    ),
    "no key": (
        ["ALTER TABLE runs RENAME TO former", "CREATE TABLE runs AS SELECT * FROM former"],
        "a store must hold the tables of its format: .*: runs",
    ),
    "a missing table": (["DROP TABLE codes"], "a store must hold the tables of its format: .*: codes"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("create", [False, True])
def test_tables_that_no_elegans_has_made_are_refused_when_the_store_is_opened(sound, tmp_path, name, create):
    statements, message = FOREIGN[name]
    with pytest.raises(StoreError, match=message):
        Store(damaged(sound, tmp_path, *statements), create=create)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 10**9), st.integers(0, 7))
def test_a_flipped_bit_raises_nothing_but_a_store_error(sound, tmp_path_factory, place, bit):
    content = bytearray(sound.read_bytes())
    content[place % len(content)] ^= 1 << bit
    path = tmp_path_factory.getbasetemp() / "flipped.db"
    path.write_bytes(content)
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    answers(path)


def test_a_missing_column_is_refused_when_it_is_read(sound, tmp_path):
    path = damaged(sound, tmp_path, "ALTER TABLE cells DROP COLUMN wanted")
    message = "a store must hold the tables of its format: .*no such column"
    with Store(path) as store, pytest.raises(StoreError, match=message):
        store.status()


@pytest.mark.parametrize(
    "trial",
    [
        TRIAL,
        TRIAL.replace("training.layers", {"hidden": {"learning_rate": 0.5}}),
        TRIAL.replace("task.support", (3, 1)),
        TRIAL.replace("model.init", "sparse:2"),
    ],
    ids=range(4),
)
def test_columns_are_those_of_their_trial_whatever_json_makes_of_it(trial):
    columns = trial.columns()
    del columns["seed"]
    assert {name: values[0] for name, values in read_columns([columns_of(trial)]).items()} == columns


def test_tracebacks_from_a_store_cannot_act_on_a_terminal(sound, tmp_path):
    said = "T\x1b[2J\nValueError: \x1b]0;x\x07" + "y" * 10**6
    path = damaged(sound, tmp_path, ("UPDATE details SET error = ? WHERE error IS NOT NULL", (said,)))
    with Store(path) as store:
        with pytest.warns(ElegansWarning) as caught:
            report(store, SWEEP, np.array([2]))
        lines = str(caught[0].message).splitlines() + repr(store.outcome(SWEEP.trial(2))).splitlines()
        assert all(line.isprintable() and len(line) <= 600 for line in lines)
        assert all(map(str.isprintable, store.table().error.dropna()))
    with Store(damaged(sound, tmp_path, ("UPDATE details SET error = ' '",))) as store:
        assert repr(store.outcome(SWEEP.trial(2)))


def test_names_from_a_store_cannot_act_on_a_terminal(sound, tmp_path):
    path = damaged(sound, tmp_path, "UPDATE runs SET name = printf('%.1000000c', 'x'), host = name")
    with Store(path) as store:
        assert all(len(line) < 500 for line in str(store.status()).splitlines())
    names = "UPDATE runs SET name = 'a' || char(27) || '[2J' || char(10) || 'b', host = char(27) || ']0;x' || char(7)"
    path = damaged(sound, tmp_path, names)
    with Store(path) as store:
        assert all(line.isprintable() for line in str(store.status()).splitlines())
        assert r"run 1 a\x1b[2J\nb (finished" in str(store.status())


def forged(path, tmp_path, change):
    """Return a copy of a store whose first cell is of another trial, with a hash that fits it."""
    copy = damaged(path, tmp_path)
    connection = sqlite3.connect(copy)
    ((trial, columns),) = connection.execute("SELECT trial, columns FROM cells WHERE id = 1").fetchall()
    record, columns = json.loads(trial), json.loads(columns)
    change(record, columns)
    key = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    values = (key, json.dumps(record), json.dumps(columns))
    connection.execute("UPDATE cells SET hash = ?, trial = ?, columns = ? WHERE id = 1", values)
    connection.commit()
    connection.close()
    return copy


def with_field(name, value):
    def change(record, columns):
        record["model"][name] = columns[f"model.{name}"] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        with_field("width", -5),
        with_field("width", "ten"),
        with_field("width", None),
        with_field("depth", 3),
        with_field("\x1b[2J", 3),
        with_field("deep", [[[[1]]]]),
        lambda record, columns: record.update(regime="sample:x"),
        lambda record, columns: (record.clear(), columns.clear()),
    ],
    ids=range(8),
)
def test_trials_that_elegans_does_not_take_are_refused_although_their_hash_fits(sound, tmp_path, change):
    path = forged(sound, tmp_path, change)
    with Store(path, create=False) as store:
        with pytest.raises(StoreError, match="the trial of a cell must be valid") as raised:
            list(store.outcomes())
        assert str(raised.value).isprintable()
    assert not check(path).sound
    check(path, repair=True)
    assert check(path).sound


def of_a_class_that_is_not_imported(kind="mine", label="mine", **fields):
    def change(record, columns):
        record["model"] = {"kind": kind, **fields}
        for name in [name for name in columns if name.startswith("model.")]:
            del columns[name]
        columns.update({"model": label} | {f"model.{name}": value for name, value in fields.items()})

    return change


def test_trials_of_a_class_that_is_not_imported_have_a_table_and_no_outcomes(sound, tmp_path):
    fields = {"width": 10**30, **{f"x{number}": 1 for number in range(1100)}}
    path = forged(sound, tmp_path, of_a_class_that_is_not_imported(**fields))
    with Store(path, create=False) as store:
        assert store.table()["model.width"].tolist() == [10**30] * 4 + [20] * 4
        store.export(tmp_path / "table.parquet")
        for read in (store.outcomes, lambda: store.trial({"model": "mine", "seed": 0})):
            with pytest.raises(
                StoreError, match="the classes of a store's trials must be imported: unknown model 'mine'"
            ):
                list(read())
    assert check(path).sound


def test_texts_of_a_trial_are_kept_as_they_are_and_escaped_where_they_are_printed(sound, tmp_path, capsys):
    from elegans.cli import main

    class Named(el.MLP):
        note: str

    text = "a\x1b[2J\nb"
    trial = el.Trial(task=TRIAL.task, regime=TRIAL.regime, model=Named(width=10, note=text), training=TRIAL.training)
    path = damaged(sound, tmp_path)
    taken = {"test-error": {"step": [0], "error": [0.5], "said": [text]}}
    with Store(path) as store:
        run, _ = store.begin(el.grid(trial, {}), name=text)
        run.record([replace(outcome(each), measures=taken) for each in run.claim([trial])])
        run.release()
        assert store.outcome(trial).measures == taken
        assert text in store.table()["model.note"].tolist()
    assert main(["status", str(path)]) == 0
    assert main(["check", str(path)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    el.Model._members.pop("named")


def test_a_schema_whose_text_is_damaged_is_refused_in_one_line(sound, tmp_path):
    path = damaged(sound, tmp_path)
    content = path.read_bytes().replace(b"CREATE INDEX claims", b"CREATE IND\xce\xce claims")
    path.write_bytes(content)
    for read in (lambda: Store(path), lambda: Store(path, create=False), lambda: check(path)):
        with pytest.raises(StoreError, match="a store must be an undamaged SQLite file"):
            read()
    assert check(path, repair=True).kept.read_bytes() == content
    assert check(path).sound


@pytest.mark.parametrize("name", WRONG | IMPOSSIBLE)
def test_a_value_that_its_column_does_not_hold_cannot_be_written_by_any_program(sound, tmp_path, name):
    with closing(sqlite3.connect(damaged(sound, tmp_path))) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute((WRONG | IMPOSSIBLE)[name])


def repaired(path, known, least=7):
    """Repair a store, train what it lacks, and compare it with the sound one."""
    before = rows_of(path)
    report = check(path)
    assert not report.sound and "--repair" in str(report) and all(map(str.isprintable, str(report).splitlines()))
    assert check(path, repair=True).aside
    assert rows_of(path) >= before
    assert check(path).sound
    with Store(path) as store:
        kept = shaped(store.table(SWEEP))
        assert set(kept) <= set(known["table"]) and len(kept) >= least
        run, _ = store.begin(SWEEP, probes=PROBES)
        run.record([outcome(trial) for trial in run.claim(SWEEP)])
        run.release()
        assert shaped(store.table(SWEEP)) == known["table"]


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_row_that_breaks_a_rule_is_found_moved_aside_and_trained_again(sound, known, tmp_path, name):
    path = damaged(sound, tmp_path, IMPOSSIBLE[name])
    answers(path)
    repaired(path, known)


@pytest.mark.parametrize("name", [name for name in WRONG if name.startswith(("trials", "columns", "a curve"))])
def test_a_value_of_another_type_raises_nothing_but_a_store_error_and_is_found(sound, tmp_path, name):
    """Only who forges the schema can write it."""
    path = damaged(sound, tmp_path)
    forge, there = (
        "UPDATE sqlite_master SET sql = ? WHERE name = ?",
        "SELECT sql, name FROM sqlite_master WHERE sql > ''",
    )
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute(there).fetchall()
        connection.execute("PRAGMA writable_schema = ON")
        connection.executemany(forge, [(re.sub(r",?\s+STRICT", "", text), table) for text, table in tables])
        connection.commit()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(WRONG[name])
        connection.execute("PRAGMA writable_schema = ON")
        connection.executemany(forge, tables)
        connection.commit()
    answers(path)
    assert not check(path).sound


@pytest.mark.parametrize("name", DAMAGE | ABSENT)
def test_what_cannot_be_read_is_refused_found_moved_aside_and_trained_again(sound, known, tmp_path, name):
    """A repair moves a row whatever its measures are: one kind of them is repaired, the others are found."""
    path = damaged(sound, tmp_path, *(DAMAGE | ABSENT)[name])
    found, refused = answers(path)
    assert refused
    if name in DAMAGE:
        assert found == {read: known[read] for read in found}
    else:  # what asks for the trials of a sweep finds the others
        assert {"table", "cells", "status"} <= refused.keys()
        assert set(found.get("table of a sweep", [])) < set(known["table of a sweep"])
    if name.startswith("measures") and name != "measures that are a list":
        assert not check(path).sound
    else:
        repaired(path, known, 4 if "cell" in name or "trial" in name else 7)


def test_a_cell_of_another_hash_is_refused_where_its_trial_is_made(sound, known, tmp_path):
    path = damaged(sound, tmp_path, f"UPDATE cells SET hash = '{'f' * 64}' WHERE id = 1")
    found, refused = answers(path)
    assert "the trial of a cell must have the cell's hash" in refused["outcomes"]
    assert set(found["table of a sweep"]) < set(known["table of a sweep"])
    repaired(path, known, 4)


def test_columns_of_another_cell_are_found_and_mended(sound, known, tmp_path):
    path = damaged(sound, tmp_path, "UPDATE cells SET columns = (SELECT columns FROM cells WHERE id = 2) WHERE id = 1")
    assert "the columns of a cell must match its trial" in str(check(path))
    check(path, repair=True)
    assert check(path).sound and answers(path)[0] == known


def rows_of(path):
    """Return every value of every trial's row that a store holds, wherever it holds it."""
    connection = sqlite3.connect(path)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE name LIKE '%trials'")]
    names = "seed, state, solved_at, test_error, steps, seconds, engine"
    quoted = ", ".join(f"hex({name})" for name in names.split(", "))
    found = {row for table in tables for row in connection.execute(f"SELECT {quoted} FROM {table}")}
    connection.close()
    return found


def test_a_sound_store_is_sound_and_a_repair_changes_nothing(sound, tmp_path):
    path = damaged(sound, tmp_path)
    before = path.read_bytes()
    report = check(path, repair=True)
    assert report.sound and path.read_bytes() == before
    assert report.counts == {"cells": 2, "runs": 1, "codes": 0, "trials": 8, "details": 8}


def test_a_store_is_sound_while_a_run_holds_trials_that_have_no_outcome_yet(sound, tmp_path):
    path = damaged(sound, tmp_path)
    with Store(path) as store:
        sweep = el.grid(TRIAL, {"model.width": [30]}, seeds=2)
        run, _ = store.begin(sweep)
        assert len(run.claim(sweep)) == 2
        assert check(path).sound
        run.release()


def test_a_file_that_sqlite_finds_damaged_is_written_anew_and_kept(sound, tmp_path):
    path = damaged(sound, tmp_path)
    connection = sqlite3.connect(path)
    ((page,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'details'").fetchall()
    connection.close()
    content = bytearray(path.read_bytes())
    content[4096 * (page - 1) : 4096 * (page - 1) + 16] = b"\xff" * 16
    path.write_bytes(content)
    assert not check(path).sound
    report = check(path, repair=True)
    assert report.kept.read_bytes() == content and "could only be read in part" in str(report)
    assert report.repaired and "repaired trials recovered: 8; " in str(report)
    assert check(path).sound
    with Store(path) as store:
        assert len(store.table()) == 8


def test_a_repair_that_recovers_no_trial_says_so_and_fails(sound, tmp_path):
    path = damaged(sound, tmp_path)
    path.write_bytes(path.read_bytes()[:8192])
    report = check(path, repair=True)
    assert not report.repaired and "lost    no trial could be recovered; " in str(report)
    assert str(check(path)).endswith("empty   the store has no trials")


def rows_by_page(path):
    """Return for each page of the trials in order of the file its number, whether it is a leaf, and its rows."""
    with closing(sqlite3.connect(path)) as connection:
        try:
            query = "SELECT pageno, pagetype = 'leaf', ncell FROM dbstat WHERE name = 'trials' ORDER BY pageno"
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            pytest.skip("SQLite was built without its table of pages")


def test_of_a_file_that_was_cut_short_everything_before_the_cut_is_recovered(tmp_path):
    """The order in which two workers record decides which pages hold trials: we cut from the last of these on."""
    path = tmp_path / "runs.db"
    el.run(el.grid(TRIAL, {"model.width": [3, 4, 5, 6]}, seeds=40), path, progress=False)
    whole, pages = path.stat().st_size, rows_by_page(path)
    page, leaf, lost = pages[-1]
    assert leaf and sum(rows for _, _, rows in pages) == 160 and lost > 10
    os.truncate(path, (page - 1) * 4096)
    cut = path.read_bytes()
    report = check(path, repair=True)
    left = int(re.search(r"repaired trials recovered: (\d+); ", str(report))[1])
    assert left == 160 - lost and f"the file was cut short: {len(cut)} of {whole} bytes are left" in str(report)
    assert report.kept.read_bytes() == cut and check(path).sound
    assert not path.with_name("runs.db.padded").exists()
    with Store(path) as store:
        assert len(store.table()) == left


def test_a_store_is_not_repaired_while_a_run_is_at_work(sound, tmp_path):
    path = damaged(sound, tmp_path, *DAMAGE["cells.columns = {"])
    with Store(path) as store:
        run, _ = store.begin(el.grid(TRIAL, {"model.width": [30]}))
        with pytest.raises(StoreError, match="a store must be idle to be repaired: run 2 "):
            check(path, repair=True)
        run.release()
    assert check(path, repair=True).aside == 1


@pytest.mark.parametrize("url", ["sqlite://", "postgresql://host/db"])
def test_only_a_file_can_be_checked(url):
    with pytest.raises(StoreError, match="only a store in an SQLite file can be checked"):
        check(url)
