"""Stores that are damaged or that someone else has made: each read gives what was recorded, or a StoreError."""

import hashlib
import json
import shutil
import sqlite3
import zlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from laboratory import TRIAL

import elegans as el
from elegans.errors import ElegansWarning, StoreError
from elegans.store.integrity import check
from elegans.sweeps import Store, frames, measures
from elegans.sweeps.runner import report
from elegans.training import Curve, Outcome

PROBES = [el.probes.TestError()]
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
        return [repr(row) for row in found.itertuples(index=False)]
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


DAMAGE = {
    **{
        f"trials.{column} = {value}": [f"UPDATE trials SET {column} = {value} WHERE cell = 1 AND seed = 0"]
        for column, value in [
            ("steps", "'abc'"),
            ("steps", "x'00ff'"),
            ("steps", "1.5"),
            ("steps", "-1"),
            ("solved_at", "1e300"),
            ("solved_at", "'4'||'x'"),
            ("test_error", "'abc'"),
            ("test_error", "1.5"),
            ("train_error", "x'00'"),
            ("seconds", "-1"),
            ("seconds", "'abc'"),
            ("evaluation_seconds", "x'00'"),
        ]
    },
    **{
        f"trials.{column} missing": [f"UPDATE trials SET {column} = NULL WHERE cell = 1 AND seed = 0"]
        for column in ("steps", "seconds", "evaluation_seconds")
    },
    **{
        f"trials.{column} = {value}": [f"UPDATE trials SET {column} = {value} WHERE cell = 1 AND seed = 0"]
        for column, value in [
            ("state", "'finished'"),
            ("state", "x'736f6c766564'"),
            ("state", "CAST(x'ff' AS TEXT)"),
            ("engine", "x'00'"),
            ("engine", "''"),
            ("engine", "char(27) || '[2J'"),
            ("probes", "'{'"),
            ("probes", "'[1]'"),
            ("probes", "'{}'"),
            ("probes", "''"),
            ("probes", "x'5b5d'"),
            ("recorded", "'soon'"),
            ("claim", "'me'"),
        ]
    },
    **{
        f"trial {seed} with {change}": [f"UPDATE trials SET {change} WHERE cell = 1 AND seed = {seed}"]
        for change, seed in [
            ("solved_at = NULL", 0),
            ("solved_at = steps + 1", 0),
            ("state = 'unsolved'", 0),
            ("state = 'failed'", 0),
            ("state = 'solved'", 1),
            ("state = 'solved'", 2),
        ]
    },
    "a seed that is a text": ["UPDATE trials SET seed = 'first' WHERE cell = 1 AND seed = 0"],
    "a seed that is no whole number": ["UPDATE trials SET seed = 0.5 WHERE cell = 1 AND seed = 0"],
    **{
        f"cells.{column} = {value[:20]}": [(f"UPDATE cells SET {column} = ? WHERE id = 1", (value,))]
        for column, value in [
            ("columns", "{"),
            ("columns", "[" * 100_000),
            ("columns", "9" * 5000),
            ("trial", "{"),
            ("trial", '{"task": 1}'),
        ]
    },
    "columns of another cell": ["UPDATE cells SET columns = (SELECT columns FROM cells WHERE id = 2) WHERE id = 1"],
    **{
        f"columns with {new}": [("UPDATE cells SET columns = replace(columns, ?, ?) WHERE id = 1", (old, new))]
        for old, new in [
            ('"model.width": 10', '"model.width": 11'),
            ('"model.width": 10', '"model.width": 10.0'),
            ('"model.width": 10, ', ""),
            ('"model.width": 10', '"model.width": 10, "seed": 5'),
            ('"task.support": null', '"task.support": [1, 2]'),
            ('"training.layers": {}', '"training.layers": {"a": 1}'),
            ('"relu"', '"\\ud800"'),
            ('"relu"', '"rely"'),
            ('"sample:100"', '"sample:10"'),
            ('"model.activation": "relu", ', ""),
        ]
    },
    "columns as bytes": ["UPDATE cells SET columns = x'00' WHERE id = 1"],
    "wanted as text": ["UPDATE cells SET wanted = 'all' WHERE id = 1"],
    "a curve that is a text": [details("curve", "abc")],
    "a curve that is a number": [details("curve", 7)],
    "a curve that is not compressed": [details("curve", b"abc")],
    "a curve cut short": [details("curve", Curve([1], [1.0], [1.0]).to_bytes()[:-3])],
    "a curve that goes on": [details("curve", Curve([1], [1.0], [1.0]).to_bytes() + b"more")],
    "an empty curve": [details("curve", b"")],
    "a curve of no points": [details("curve", Curve().to_bytes())],
    "a curve of 128 points": [details("curve", Curve([*range(128)], [1.0] * 128, [1.0] * 128).to_bytes())],
    "a curve that goes back": [details("curve", Curve([4, 2], [1.0] * 2, [1.0] * 2).to_bytes())],
    "a curve that stands still": [details("curve", Curve([2, 2], [1.0] * 2, [1.0] * 2).to_bytes())],
    "a curve from step 0": [details("curve", Curve([0], [1.0], [1.0]).to_bytes())],
    "a curve of an error of 7": [details("curve", Curve([2], [1.0], [7.0]).to_bytes())],
    "empty measures": [details("measures", b"")],
    "a curve of half points": [details("curve", zlib.compress(b"12345"))],
    "a curve that is too long": [details("curve", zlib.compress(bytes(10**7)))],
    "measures that are not compressed": [details("measures", b"abc")],
    "measures of two bytes": [details("measures", zlib.compress(b"ab"))],
    "measures that end too soon": [details("measures", zlib.compress(b"\xff\0\0\0{}"))],
    "measures that go on": [details("measures", packed("{}", b"more"))],
    "measures of a name that acts on a terminal": [details("measures", packed('{"\\u001b[2J": {"step": [0]}}'))],
    **{
        f"measures at step {step[:9]}": [details("measures", packed(f'{{"test-error": {{"step": [{step}]}}}}'))]
        for step in ('"a"', "NaN", "true", "7, 0", "7, 7", "-1", "0.5", "9" * 4000, "[0]")
    },
    **{
        f"measures with the text {text!a}": [
            details("measures", packed(f'{{"test-error": {{"step": [0, 4], "error": ["a", {text}]}}}}'))
        ]
        for text in (r'"\u001b[2J"', r'["b", "\b"]', '"\x7f"', '{"a": "\x9b2J"}')
    },
    "measures without a step": [details("measures", packed('{"test-error": {"error": [1, 2]}}'))],
    "measures of nothing": [details("measures", packed('{"test-error": {}}'))],
    "measures of two values at one step": [
        details("measures", packed('{"test-error": {"step": [0], "error": [1, 2]}}'))
    ],
    "measures of no value at one step": [details("measures", packed('{"test-error": {"step": [0], "error": []}}'))],
    "measures of a quantity without a name": [details("measures", packed('{"test-error": {"step": [0], "": [1]}}'))],
    "measures of the trial": [details("measures", packed('{"test-error": {"step": [0], "trial": [1]}}'))],
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
            {"type": "<f8", "shape": [-1]},
            {"type": "<f8", "shape": ["a"]},
            {"type": "<f8", "shape": [10**12, 10**12]},
            {"type": "<f8", "shape": []},
            {"type": None, "shape": [2]},
            {"type": "O", "shape": [1]},
            {"type": "S9", "shape": [1]},
            {"type": 7, "shape": 7},
        )
    },
    "an error that is bytes": [details("error", b"\xff")],
    **{
        f"runs.{column} = {value}": [f"UPDATE runs SET {column} = {value}"]
        for column, value in [
            ("host", "x'00'"),
            ("pid", "'me'"),
            ("pid", "99999999999"),
            ("process_started", "'abc'"),
            ("process_started", "9e999"),
            ("started", "1e300"),
            ("missing", "'all'"),
            ("name", "x'00'"),
        ]
    },
}


ABSENT = {
    "a trial of no cell": ["UPDATE trials SET cell = 30000000000 WHERE cell = 1 AND seed = 0"],
    "a trial of a negative cell": ["UPDATE trials SET cell = -3 WHERE cell = 1 AND seed = 0"],
    "a cell that is gone": ["DELETE FROM cells WHERE id = 1"],
    "a huge number of a cell": ["UPDATE cells SET id = 30000000000 WHERE id = 2"],
    "a cell of another hash": [f"UPDATE cells SET hash = '{'f' * 64}' WHERE id = 1"],
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


def test_rows_that_are_there_twice_are_refused_although_the_schema_says_that_they_cannot_be(sound, tmp_path):
    twice = "INSERT INTO trials SELECT * FROM former"
    path = unkeyed(sound, tmp_path, "trials", "PRIMARY KEY (cell, seed)", twice)
    with Store(path, create=False) as store:
        for read in (store.table, store.table, store.outcomes):
            with pytest.raises(StoreError, match="two rows have the same cell and seed|malformed"):
                list(read(SWEEP))
    again = "INSERT INTO cells SELECT 7, hash, trial, columns, wanted FROM former WHERE id = 1"
    path = unkeyed(sound, tmp_path, "cells", "UNIQUE (hash)", again)
    with Store(path, create=False) as store:
        for read in (store.table, store.cells_table, store.recorded, lambda sweep: store.outcome(sweep.trial(0))):
            with pytest.raises(StoreError, match="a cell must occur only once: two have the same hash|malformed"):
                read(SWEEP)


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
            with pytest.raises(StoreError, match="a trial must be of a cell that the store has: cell 2"):
                read()
        other = el.grid(TRIAL, {"model.width": [30]})  # SQLite would give this one the number of the cell that is gone
        with pytest.raises(StoreError, match="a trial must be of a cell that the store has: cell 2"):
            store.begin(other)
        assert len(store.table(el.grid(TRIAL, {"model.width": [10]}, seeds=4))) == 4


def test_a_small_row_cannot_fill_the_memory(sound, tmp_path, monkeypatch):
    monkeypatch.setattr(measures, "LARGEST_DETAILS", 10**6)
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
    "curve": ("UPDATE details SET curve = ?", (Curve([1], [2.0], [0.5]).to_bytes(),)),
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
    "a missing column": (
        ["ALTER TABLE cells DROP COLUMN wanted"],
        "a store must hold the tables of its format: .*: column cells.wanted",
    ),
    "a computed column": (
        ["DROP INDEX recorded", "ALTER TABLE trials DROP COLUMN recorded",
         "ALTER TABLE trials ADD COLUMN recorded FLOAT GENERATED ALWAYS AS (cell) VIRTUAL"],
        "a store must have no computed columns: .*: trials.recorded",
    ),
    "no key": (
        ["ALTER TABLE runs RENAME TO former", "CREATE TABLE runs AS SELECT * FROM former"],
        "a store must hold the tables of its format: .*: column runs.id",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("create", [False, True])
def test_tables_that_no_elegans_has_made_are_refused_when_the_store_is_opened(sound, tmp_path, name, create):
    statements, message = FOREIGN[name]
    with pytest.raises(StoreError, match=message):
        Store(damaged(sound, tmp_path, *statements), create=create)


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


def test_a_check_finds_outcomes_whose_state_is_gone(sound, tmp_path):
    path = damaged(sound, tmp_path, "UPDATE trials SET state = NULL WHERE cell = 1")
    assert "a trial that has no outcome must have no steps: its state is missing" in str(check(path))
    check(path, repair=True)
    assert check(path).sound


def test_columns_are_those_of_their_trial_whatever_json_makes_of_it():
    group = el.Trial(
        task=el.GroupComposition(group="S3"),
        regime="online",
        model=el.MLP(width=5),
        training=el.SGD(steps=4, loss="cross-entropy"),
    )
    layered = TRIAL.replace("training.layers", {"hidden": {"learning_rate": 0.5}})
    for trial in (
        TRIAL,
        layered,
        group,
        TRIAL.replace("task.support", (3, 1)),
        TRIAL.replace("model.init", "sparse:2"),
    ):
        record = json.loads(trial.model_dump_json(exclude={"seed"}))
        columns = trial.columns()
        del columns["seed"]
        assert frames.read_columns(frames.columns_of(trial), record) == columns


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


def written(name, value):
    def change(record, columns):
        record["training"][name] = columns[f"training.{name}"] = value

    return change


def nested(levels, empty, one):
    value = empty
    for _ in range(levels):
        value = one(value)
    return value


@pytest.mark.parametrize(
    "change",
    [
        with_field("width", -5),
        with_field("width", "ten"),
        with_field("width", None),
        with_field("depth", 3),
        with_field("depth", None),
        with_field("\x1b[2J", 3),
        with_field("deep", nested(400, 1, lambda inner: [inner])),
        with_field("deep", nested(400, 1, lambda inner: {"a": inner})),
        with_field("width", 10.0),
        with_field("width", True),
        written("learning_rate", 1),
        written("learning_rate", "0.1"),
        written("weight_decay", 0),
        lambda record, columns: record.update(regime="sample:100"),
        lambda record, columns: record.update(seed=0),
        lambda record, columns: (record.clear(), columns.clear()),
    ],
    ids=range(16),
)
def test_trials_that_elegans_does_not_take_are_refused_although_their_hash_fits(sound, tmp_path, change):
    path = forged(sound, tmp_path, change)
    with Store(path, create=False) as store:
        for read in (store.table, store.cells_table, store.outcomes):
            with pytest.raises(StoreError, match="the (trial|columns) of a cell must (be|have)") as raised:
                list(read())
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
    fields = {"width": 10**30, **{f"x{number}": 1 for number in range(3000)}}
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


@pytest.mark.parametrize(
    "change",
    [
        of_a_class_that_is_not_imported("\x1b[2J", "\x1b[2J"),
        of_a_class_that_is_not_imported("a\nb", "a\nb"),
        of_a_class_that_is_not_imported("", ""),
        of_a_class_that_is_not_imported(7, 7),
        of_a_class_that_is_not_imported(label="\x1b[2J"),
        of_a_class_that_is_not_imported(label=None),
        of_a_class_that_is_not_imported(**{"\x1b[2J": 1}),
        of_a_class_that_is_not_imported(inner={"kind": "\x1b[2J", "width": 1}),
        of_a_class_that_is_not_imported(text="\x1b[2J"),
        of_a_class_that_is_not_imported(texts=["a", "\x1b[2J"]),
    ],
    ids=range(10),
)
def test_names_and_kinds_of_classes_that_are_not_imported_cannot_act_on_a_terminal(sound, tmp_path, change):
    path = forged(sound, tmp_path, change)
    with Store(path, create=False) as store:
        for read in (store.table, store.cells_table, lambda: store.trial({"seed": 0})):
            with pytest.raises(StoreError, match="must have printable names|is not printable") as raised:
                list(read())
            assert str(raised.value).isprintable()
    assert not check(path).sound
    check(path, repair=True)
    assert check(path).sound


def test_a_trial_whose_texts_could_not_be_read_back_is_not_kept(sound, tmp_path):
    class Named(el.MLP):
        note: str

    trial = el.Trial(
        task=TRIAL.task, regime=TRIAL.regime, model=Named(width=10, note="a\x1b[2J"), training=TRIAL.training
    )
    with Store(damaged(sound, tmp_path)) as store:
        with pytest.raises(StoreError, match=r"a trial must have printable names, kinds and texts .*: 'a\\x1b\[2J'"):
            store.begin(el.grid(trial, {}))
        store.release(store.begin(el.grid(trial.replace("model.note", "two\nlines\tlong"), {}))[0])
        assert len(store.table()) == 8 and len(list(store.outcomes())) == 8


def test_measures_whose_texts_could_not_be_read_back_are_not_packed():
    for text in ("\x1b[2J", ["a", "\x7f"], {"a": "\x9b2J"}):
        with pytest.raises(StoreError, match="measures must have printable texts"):
            measures.pack_measures({"probe": {"step": [0], "said": [text]}})
    taken = {"probe": {"step": [0, 1], "said": ["two\nlines\tlong", "\\u001b \\b é ✓"]}}
    assert measures.read_measures(measures.pack_measures(taken)) == taken


def test_a_schema_whose_text_is_damaged_is_refused_in_one_line(sound, tmp_path):
    path = damaged(sound, tmp_path)
    content = path.read_bytes().replace(b"CREATE INDEX claims", b"CREATE IND\xce\xce claims")
    path.write_bytes(content)
    for read in (lambda: Store(path), lambda: Store(path, create=False), lambda: check(path)):
        with pytest.raises(StoreError, match="a store must be an undamaged SQLite file"):
            read()
    assert check(path, repair=True).kept.read_bytes() == content
    assert check(path).sound


REPAIRABLE = DAMAGE | ABSENT


@pytest.mark.parametrize("name", DAMAGE | ABSENT)
def test_a_damaged_row_is_refused_found_moved_aside_and_trained_again(sound, known, tmp_path, name):
    path = damaged(sound, tmp_path, *(DAMAGE | ABSENT)[name])
    report, before = check(path), rows_of(path)
    found, refused = answers(path)
    if name in DAMAGE:
        assert refused and found == {read: known[read] for read in found}
    else:  # what asks for the trials of a sweep finds the others
        assert {"table", "cells"} <= refused.keys()
        assert set(found.get("table of a sweep", [])) < set(known["table of a sweep"])
    assert not report.sound and "--repair" in str(report)
    assert check(path, repair=True).aside
    assert rows_of(path) >= before
    assert check(path).sound
    with Store(path) as store:
        kept = shaped(store.table(SWEEP))
        assert set(kept) <= set(known["table"]) and len(kept) >= (4 if "cell" in name else 7)
        run, _ = store.begin(SWEEP, probes=PROBES)
        run.record([outcome(trial) for trial in run.claim(SWEEP)])
        run.release()
        assert shaped(store.table(SWEEP)) == known["table"]


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
    assert check(path).sound
    with Store(path) as store:
        assert len(store.table()) == 8


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
    with pytest.raises(StoreError, match="a store to be checked must be an SQLite file"):
        check(url)
