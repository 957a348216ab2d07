import json
import sqlite3
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import psutil
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from laboratory import TRIAL, ToyEngine, process
from pandas.testing import assert_frame_equal
from sqlalchemy import event, insert, select, update

import elegans as el
from elegans.errors import ArgumentError, EngineError, StoreError, counted
from elegans.store import Store, liveness
from elegans.store.queries import ROWS_AT_ONCE
from elegans.store.schema import RUNS, TRIALS
from elegans.store.status import RunStatus, Status
from elegans.training import Curve, Outcome

SWEEP = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=3)
STATES = ["solved", "unsolved", "diverged", "failed", "interrupted"]


def outcome(trial, state="solved", **fields):
    solved_at = 4 if state == "solved" else None
    return Outcome(trial, state, **{"solved_at": solved_at, "steps": 4, "seconds": 1.0, "engine": "toy", **fields})


def fill(store, outcomes, **options):
    run, _ = store.begin(SWEEP, **options)
    claimed = run.claim([each.trial for each in outcomes])
    assert len(claimed) == len(outcomes)
    run.record(outcomes)
    run.release()
    return run


small = st.floats(width=32, allow_nan=False)
curves = st.lists(st.tuples(small, st.floats(0, 1, width=32)), max_size=5).map(
    lambda points: Curve([*range(1, len(points) + 1)], [loss for loss, _ in points], [error for _, error in points])
)
measures = st.dictionaries(
    st.sampled_from(["test-error", "fourier-gap"]),
    st.dictionaries(st.integers(0, 9), st.floats(allow_nan=False)).map(
        lambda taken: {"step": sorted(taken), "x": [*taken.values()]}
    ),
)


def possible(outcome):
    """Return an outcome that an engine can have brought about, as like another as can be."""
    solved_at = outcome.solved_at or 0 if outcome.state == "solved" else None
    return replace(outcome, solved_at=solved_at, steps=max(outcome.steps, solved_at or 0))


outcomes = st.builds(
    Outcome,
    st.builds(TRIAL.with_seed, st.integers(0, 2**64 - 1)),
    st.sampled_from(STATES[:4]),
    solved_at=st.none() | st.integers(0, 2**32),
    test_error=st.none() | st.floats(0, 1),
    train_error=st.none() | st.floats(0, 1),
    steps=st.integers(0, 2**32),
    seconds=st.floats(0, 1e9),
    evaluation_seconds=st.floats(0, 1e9),
    engine=st.sampled_from(["fused", "jax", None]),
    error=st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    curve=curves,
    measures=measures,
).map(possible)


ONE_SERVER = [HealthCheck.function_scoped_fixture]
"""Examples may share what makes new stores."""


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=ONE_SERVER)
@given(recorded=st.lists(outcomes, min_size=1, max_size=5, unique_by=lambda each: each.trial.seed))
def test_an_outcome_is_read_back_as_it_was_recorded(recorded, new_store):
    with new_store() as store:
        fill(store, recorded)
        assert [store.outcome(each.trial) for each in recorded] == recorded
        in_order = sorted(recorded, key=lambda each: each.trial.seed)
        assert list(store.outcomes()) == in_order
        assert store.table().seed.tolist() == [each.trial.seed for each in in_order]


def test_the_table_has_the_trials_columns_and_then_the_outcomes(store):
    sweep = el.grid(TRIAL, {"regime": ["online", "sample:100"], "model.init": ["dense", "sparse:2"]}, seeds=2)
    fill(store, [outcome(trial, STATES[trial.seed]) for trial in sweep])
    table = store.table(sweep)
    parts = [name for name in TRIAL.columns() if name != "seed"]
    parts.insert(parts.index("model.init") + 1, "model.init.nonzeros")
    parts.insert(parts.index("model.init") + 2, "model.init.value")
    results = ["state", "solved_at", "test_error", "train_error", "steps", "seconds", "evaluation_seconds", "engine"]
    assert list(table) == [*parts, "seed", *results, "error"]
    assert table["regime.size"].dtype == "Int64" and table["regime.size"].isna().sum() == 4
    assert table["model.width"].dtype == table.seed.dtype == table.steps.dtype == np.int64
    assert table.solved_at.dtype == float and table.solved_at.isna().sum() == 4
    assert table["model.init"].tolist() == ["dense"] * 2 + ["sparse:2"] * 2 + ["dense"] * 2 + ["sparse:2"] * 2


def test_the_table_is_in_the_sweeps_order_or_by_cell_and_seed(store):
    sweep = el.grid(TRIAL, {"model.width": [20, 10]}, seeds=[2**64 - 1, 3, 5])
    fill(store, [outcome(trial) for trial in list(sweep)[::-1]])
    rows = store.table(sweep)
    assert list(zip(rows["model.width"], rows.seed, strict=True)) == [(t.model.width, t.seed) for t in sweep]
    assert store.table().seed.tolist() == [3, 5, 2**64 - 1] * 2
    some = el.grid(TRIAL, {"model.width": [10, 99]}, seeds=[3, 4])
    assert store.table(some)[["model.width", "seed"]].to_numpy().tolist() == [[10, 3]]


def test_a_table_can_be_filtered_by_columns(store):
    fill(store, [outcome(trial) for trial in SWEEP])
    assert set(store.table(where={"model.width": 20})["model.width"]) == {20}
    assert len(store.table(where={"model.width": [10, 20], "task.k": 2})) == 6
    assert len(store.table(where={"model.width": 30})) == len(store.cells_table(where={"model.width": 30})) == 0
    with pytest.raises(StoreError, match=r"a filter must name a column of the trials: 'model.widht'; did you mean"):
        store.table(where={"model.widht": 10})


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=ONE_SERVER)
@given(states=st.lists(st.sampled_from(STATES), min_size=1, max_size=8), data=st.data())
def test_cells_are_summed_up_as_their_trials_say(states, data, new_store):
    sweep = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=len(states))
    steps = st.integers(1, 100).map(lambda step: 10 * step)
    with new_store() as store:
        fill(store, [outcome(t, states[t.seed], solved_at=data.draw(steps), steps=1000) if states[t.seed] == "solved"
                     else outcome(t, states[t.seed]) for t in sweep])  # fmt: skip
        table, cells = store.table(), store.cells_table()
    for width, cell in zip([10, 20], cells.to_dict("records"), strict=True):
        own = table[table["model.width"] == width]
        ended = own[own.state.isin(STATES[:3])]
        middle = np.median(ended.solved_at.fillna(np.inf)) if len(ended) else np.inf
        assert cell["model.width"] == width
        assert cell["trials"] == len(ended) and cell["solved"] == ended.solved_at.notna().sum()
        assert all(cell[state] == (own.state == state).sum() for state in STATES)
        assert cell["seconds"] == own.seconds.sum()
        assert cell["median_steps"] == middle or (np.isinf(middle) and np.isnan(cell["median_steps"]))


def test_a_trial_is_claimed_by_one_run_at_a_time(store):
    trials = list(SWEEP)
    (one, _), (two, _) = store.begin(SWEEP), store.begin(SWEEP)
    assert one.claim(trials[:4]) == trials[:4]
    assert two.claim(trials) == trials[4:]
    one.record([outcome(trials[0])])
    one.release()
    assert two.claim(trials) == trials[1:4]
    two.release()


@pytest.mark.parametrize(
    ("how", "free"),
    [
        ({"name": "still at work"}, False),
        ({"finished": 1.0}, True),
        ({"token": "another run of this process"}, True),
        ({"process_started": 5.0}, True),
        ({"pid": 2**22 + 1}, True),
        ({"pid": 1, "process_started": 5.0}, True),
        ({"boot": None, "heartbeat": 5.0}, True),
        ({"boot": "another start of this machine"}, False),  # or another one of this name: its heartbeat tells
        ({"boot": "another start of this machine", "heartbeat": 5.0}, True),
        ({"host": "elsewhere", "pid": 1}, False),
        ({"host": "elsewhere", "heartbeat": 5.0}, True),
        ({"host": "elsewhere", "heartbeat": time.time() + 3600}, False),  # its clock is ahead
        ({"host": "elsewhere", "heartbeat": time.time() + 10**9}, True),
    ],
)
def test_a_claim_is_free_once_its_holder_is_gone(how, free, store):
    (one, _), (two, _) = store.begin(SWEEP), store.begin(SWEEP)
    one.claim(SWEEP)
    with store.engine.begin() as connection:
        connection.execute(update(RUNS).where(RUNS.c.id == one.number).values(**how))
    assert len(two.claim(SWEEP)) == (len(SWEEP) if free else 0)
    one.release()
    two.release()


@pytest.mark.parametrize("retry_failed", [False, True])
def test_interrupted_trials_are_always_free_and_failed_ones_when_asked(retry_failed, store):
    sweep = el.grid(TRIAL, {}, seeds=5)
    fill(store, [outcome(trial, STATES[trial.seed]) for trial in sweep])
    run, found = store.begin(sweep, retry_failed=retry_failed)
    claimed = run.claim(sweep)
    assert [STATES[trial.seed] for trial in claimed] == ["failed"] * retry_failed + ["interrupted"]
    assert np.count_nonzero(~found.settled) == len(claimed)
    run.release()


def test_a_finished_outcome_is_not_lost_to_an_interruption(store):
    probe = el.probes.HeldOutErrorRate()
    trial = next(iter(SWEEP))
    fill(store, [outcome(trial, test_error=0.25)])
    run, _ = store.begin(SWEEP, probes=[probe])
    assert run.claim([trial]) == [trial]
    run.record([outcome(trial, "interrupted")])
    run.release()
    assert store.outcome(trial).test_error == 0.25


def test_measures_of_other_probes_are_kept(store):
    trial = next(iter(SWEEP))
    for kind in ("test-error", "train-error"):
        probe = el.Probe.parse({"kind": kind})
        fill(store, [outcome(trial, measures={kind: {"step": [0], "error": [0.5]}})], probes=[probe])
    assert set(store.outcome(trial).measures) == {"test-error", "train-error"}
    for probes in ([], [el.probes.HeldOutErrorRate()], [el.probes.HeldOutErrorRate(), el.probes.TrainErrorRate()]):
        run, found = store.begin(SWEEP, probes=probes)
        run.release()
        assert found.settled.sum() == 1
    run, found = store.begin(SWEEP, probes=[el.probes.HeldOutErrorRate(every=7)])
    run.release()
    assert found.settled.sum() == 0


def test_measures_that_are_arrays_come_back_as_arrays_to_the_last_bit(store):
    trial = next(iter(SWEEP))
    rows = [np.float32([[step, 0.1], [np.nan, -np.inf]]) for step in range(3)]
    ragged = [np.arange(size) for size in (1, 2, 3)]
    taken = {"step": [0, 2, 4], "weight": rows, "ragged": ragged, "error": [0.1, 1 / 3, float("nan")]}
    fill(store, [outcome(trial, measures={"mine": taken, "other": {"step": [0], "place": [np.arange(4)]}})])
    mine, other = store.outcome(trial).measures.values()
    assert mine["weight"].dtype == np.float32
    np.testing.assert_array_equal(mine["weight"], np.stack(rows))
    assert mine["ragged"] == [[0], [0, 1], [0, 1, 2]]
    np.testing.assert_array_equal(mine["error"], taken["error"])
    np.testing.assert_array_equal(other["place"], [[0, 1, 2, 3]])


def test_a_trajectory_takes_little_more_than_its_numbers(tmp_path):
    """100 measurements of 50 weights: 20000 bytes as float32, where JSON takes 100000."""
    trial = next(iter(SWEEP))
    walk = list(np.random.default_rng(0).normal(size=(100, 50)).cumsum(axis=0).astype(np.float32))
    with Store(tmp_path / "runs.db") as store:
        fill(store, [outcome(trial, measures={"mine": {"step": list(range(100)), "weight": walk}})])
    connection = sqlite3.connect(tmp_path / "runs.db")
    ((size,),) = connection.execute("SELECT length(measures) FROM details").fetchall()
    connection.close()
    assert size < 21_000


def measured(trial):
    """Two steps of a number, of an array and of one that only even seeds have; none for the last seed."""
    if trial.seed == 2:
        return {}
    value = trial.model.width + trial.seed
    rows = [np.full(3, value, np.float32), np.full(3, value + 0.5, np.float32)]
    mine = {"step": [0, 5], "number": [value, value + 0.5], "array": rows, "ragged": [np.arange(1), np.arange(2)]}
    return {"mine": mine | ({"even": [1.0, 2.0]} if trial.seed % 2 == 0 else {}), "other": {"step": [9], "x": [1]}}


def test_measures_are_one_row_per_trial_and_step_in_the_order_of_the_table(store):
    sweep = el.grid(TRIAL, {"model.width": [20, 10]}, seeds=[2, 1, 0])
    recorded = [trial for trial in sweep if (trial.model.width, trial.seed) != (20, 1)]
    fill(store, [outcome(trial, measures=measured(trial)) for trial in recorded[::-1]])
    trials, mine = store.table(sweep), store.measures(sweep, "mine")
    with pytest.raises(StoreError, match="measures must come from a recorded probe: 'mien'; did you mean"):
        store.measures(sweep, "mien")
    assert store.recorded(sweep) == el.sweeps.Sweep((
        (sweep.cells[0], (2, 0)), (sweep.cells[1], (2, 1, 0)),
    ))  # fmt: skip
    assert len(store.recorded(el.grid(TRIAL, {"model.width": [30]}))) == 0
    assert list(mine) == ["trial", "seed", "step", "number", "array", "ragged", "even"]
    assert mine.trial.tolist() == [1, 1, 3, 3, 4, 4]
    assert mine.step.tolist() == [0, 5] * 3
    assert mine.seed.tolist() == trials.seed[mine.trial].tolist()
    values = (trials["model.width"] + trials.seed)[mine.trial].to_numpy() + mine.step.to_numpy() / 10
    np.testing.assert_array_equal(mine.number, values)
    np.testing.assert_array_equal(np.stack(mine.array), np.repeat(values[:, None], 3, axis=1))
    assert [len(each) for each in mine.ragged] == [1, 2] * 3 and isinstance(mine.ragged[0], np.ndarray)
    np.testing.assert_array_equal(mine.even, [1, 2, np.nan, np.nan, 1, 2])


def test_curves_are_one_row_per_trial_and_point(store):
    assert list(store.curves(SWEEP)) == ["trial", "seed", "step", "loss", "error"]
    kept = [trial for trial in SWEEP if trial.seed != 1]
    fill(store, [outcome(t, curve=Curve([4, 8], [t.seed, 0.5], [1 / t.model.width, 0.25])) for t in kept])
    trials, curves = store.table(SWEEP), store.curves(SWEEP)
    assert curves.trial.tolist() == [0, 0, 1, 1, 2, 2, 3, 3] and curves.step.tolist() == [4, 8] * 4
    np.testing.assert_array_equal(curves.loss[::2], trials.seed)
    np.testing.assert_allclose(curves.error[::2], 1 / trials["model.width"], rtol=1e-7)


@pytest.mark.parametrize("fate", ["held", "ended", "given up", "never claimed"])
def test_an_outcome_of_a_trial_that_another_run_took_over_is_recorded_once(store, fate):
    """A run that is cut off from its store counts as dead after a minute, and may come back."""
    trials, measured = list(SWEEP), [el.probes.HeldOutErrorRate(every=20, examples=50)]
    one, _ = store.begin(SWEEP, probes=measured)
    two, _ = store.begin(SWEEP, probes=measured)
    ours = [outcome(trial, "unsolved", steps=7, engine="ours") for trial in trials]
    if fate != "never claimed":
        one.claim(trials)
        liveness.ACTIVE.discard(one.token)
        assert two.claim(trials[:2]) == trials[:2]
        liveness.ACTIVE.add(one.token)
    if fate == "ended":
        assert two.record([outcome(trial, "unsolved", steps=7, engine="theirs") for trial in trials[:2]]) == []
    if fate == "given up":
        two.release()
    dropped = one.record(ours)
    assert one.record(ours) == dropped == (ours[:2] if fate in ("held", "ended") else [])
    one.record([replace(ours[0], state="interrupted", steps=3)])
    if fate == "held":
        assert two.record([outcome(trial, "unsolved", steps=7, engine="theirs") for trial in trials[:2]]) == []
    with store.engine.connect() as connection:
        assert set(connection.execute(select(TRIALS.c.attempts, TRIALS.c.claim))) == {(1, None)}
    engines = ["theirs" if fate in ("held", "ended") else "ours"] * 2 + ["ours"] * (len(trials) - 2)
    assert store.table(SWEEP).engine.tolist() == engines and set(store.table(SWEEP).steps) == {7}


def foreign(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def no_sqlite(path):
    path.write_text("This is a text and nothing else, and long enough to be looked at. " * 20)


def other_tables(path):
    foreign(path, "CREATE TABLE sales (id)")


def other_meta(path):
    foreign(path, "CREATE TABLE meta (key, value)", "INSERT INTO meta VALUES ('format', 'something')")


def of_version(version):
    def make(path):
        Store(path).close()
        foreign(path, f"UPDATE meta SET value = '{version}' WHERE key = 'version'")

    return make


OTHER_VERSION = "a store must have format version 4, which this version of elegans reads: {path} has format version "


@pytest.mark.parametrize(
    ("make", "create", "message"),
    [
        (no_sqlite, True, "a store must be an SQLite file: {path} (file is not a database)"),
        (other_tables, True, "a store must be made by elegans: {path} holds other tables (sales)"),
        (other_meta, True, "a store must be made by elegans: {path} holds other tables (meta)"),
        (of_version(2), True, OTHER_VERSION + "2"),
        (of_version(5), False, OTHER_VERSION + "5"),
        (lambda path: path.mkdir(), True, "a store must be a file, not a folder: {path}"),
        (lambda path: None, False, "a store must exist to be read: {path}"),
        (lambda path: path.touch(), False, "a store must hold a table of outcomes: {path} is empty"),
    ],
)
def test_what_is_no_store_is_refused_with_rule_and_value(tmp_path, make, create, message):
    path = tmp_path / "runs.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError) as raised:
        Store(path, create=create)
    assert str(raised.value) == message.format(path=path)
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nowhere/runs.db", "the folder of a store must exist: nowhere (of runs.db)"),
        ("sqlite:///nowhere/runs.db", "the folder of a store must exist: nowhere (of runs.db)"),
        ("://", "a store must be a path or an SQLAlchemy URL: '://'"),
        ("oracel://host/db", "the driver of a store's database must be installed: oracel://host/db"),
    ],
)
def test_a_wrong_url_is_refused_with_rule_and_value(url, message):
    with pytest.raises(StoreError) as raised:
        Store(url)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_a_store_that_cannot_be_written_is_refused_before_anything_starts(tmp_path, toy):
    path = tmp_path / "runs.db"
    Store(path).close()
    engine = toy()
    for url in (f"sqlite:///file:{path}?mode=ro&uri=true", None):
        store = Store(url) if url else Store(path, create=False)
        with store, pytest.raises(StoreError, match="a store must be writable to run a sweep: "):
            el.run(SWEEP, store, engine="toy")
    assert engine.batches == []


def test_a_commit_waits_until_it_is_on_the_disk(tmp_path):
    with Store(tmp_path / "runs.db") as store, store.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL


def test_a_full_disk_ends_the_run_and_keeps_what_was_committed(tmp_path, toy):
    toy()
    path = tmp_path / "runs.db"
    sweep = el.grid(TRIAL, {}, seeds=600)
    with Store(path) as store:
        limit = store.engine.raw_connection()
        pages = limit.cursor().execute("PRAGMA page_count").fetchone()[0]
        limit.cursor().execute(f"PRAGMA max_page_count = {pages + 8}")
        event.listen(store.engine, "connect", lambda raw, _: raw.execute(f"PRAGMA max_page_count = {pages + 8}"))
        limit.close()
        message = r"a store must have room on its disk \(what was committed is kept\): .*\(database or disk is full\)"
        with pytest.raises(StoreError, match=message):
            el.run(sweep, store, engine="toy")
    with Store(path) as store:
        kept = store.table()
        assert 0 < len(kept) < 600
        whole = el.run(sweep, store, engine="toy")
        assert len(whole) == 600
        assert_frame_equal(whole[whole.seed.isin(kept.seed)].reset_index(drop=True), kept)


def read_while(path, ready, answer):
    with Store(path, create=False) as store:
        ready.wait()
        answer.put((len(store.table()), store.status().trials, len(store.cells_table())))


def test_readers_see_what_is_committed_while_another_process_writes(tmp_path):
    from laboratory import PROCESSES

    path = tmp_path / "runs.db"
    with Store(path) as store:
        fill(store, [outcome(trial) for trial in SWEEP])
        ready, answer = PROCESSES.Event(), PROCESSES.Queue()
        child = process(read_while, path, ready, answer)
        with store.engine.connect().execution_options(writing=True) as connection, connection.begin():
            connection.execute(update(TRIALS).values(steps=5))
            ready.set()
            assert answer.get(timeout=60) == (6, 6, 2)
        child.join()


def test_the_status_of_a_store_in_which_nothing_has_run_says_what_writes_to_it(store):
    assert str(store.status()).splitlines()[2:] == [
        "next    no run has begun: `elegans run` and `elegans sweep` train into this store by --store"
    ]


def test_counts_of_thousands_have_separators_and_one_thing_is_singular():
    run = RunStatus(1, None, "here", 7, 0.0, 1.0, False, False, 9000, 12000, 0, {"solved": 12000}, 0, 0.0, None)
    status = str(Status(9000, 9000, 0, 0, 12000, {"solved": 12000}, 0.0, None, (run,)))
    assert "cells   9,000 of 9,000 done" in status and "trials  12,000: 12,000 solved" in status
    assert status.endswith(": 12,000 solved") and "next" not in status
    assert (counted(1, "cell"), counted(1000, "cell")) == ("1 cell", "1,000 cells")


def test_the_status_counts_cells_and_trials(store):
    trials = list(SWEEP)
    run, _ = store.begin(SWEEP, name="my sweep")
    run.claim(trials[:5])
    run.record([outcome(trial, state) for trial, state in zip(trials, STATES[:4], strict=False)])
    status = store.status()
    assert (status.cells, status.cells_done, status.cells_running, status.cells_failed) == (2, 1, 1, 1)
    assert status.trials == 6
    expected = {"solved": 1, "unsolved": 1, "diverged": 1, "failed": 1, "running": 1, "pending": 1}
    assert status.states == expected
    assert status.per_second > 0 and status.seconds_left > 0
    assert status.runs[0].alive and status.runs[0].running == 1 and status.runs[0].missing == 6
    assert "run 1 my sweep (running" in str(status)
    run.release()
    ended = store.status()
    assert ended.states["running"] == 0 and ended.states["pending"] == 2
    assert ended.seconds_left is None and not ended.runs[0].alive
    again = "\nnext    the command of the last run, given again, trains 2 missing trials\n"
    assert again in str(ended) and "next " not in str(status)
    wider = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=[1, 2, 3])
    store.begin(wider)[0].release()
    assert store.status().trials == 8


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_export_holds_the_table(tmp_path, suffix, store):
    sweep = el.grid(TRIAL, {"task.support": [None, (0, 1)], "regime": ["online", "sample:5"]}, seeds=2)
    fill(store, [outcome(trial) for trial in sweep])
    assert store.export(tmp_path / f"out{suffix}") == 8
    table = store.table()
    read = (pd.read_csv if suffix == ".csv" else pd.read_parquet)(tmp_path / f"out{suffix}")
    assert list(read) == list(table)
    assert read["seed"].tolist() == table["seed"].tolist()
    assert json.loads(read["task.support"].iloc[-1]) == [0, 1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("out.xlsx", "an export must be a .csv or .parquet file: {file}"),
        ("nowhere/out.csv", "an export must go to a writable file: {file}"),
        ("nowhere/out.parquet", "an export must go to a writable file: {file}"),
    ],
)
def test_a_wrong_export_is_refused_with_rule_and_value(tmp_path, name, message, store):
    fill(store, [outcome(trial) for trial in SWEEP])
    with pytest.raises(StoreError) as raised:
        store.export(tmp_path / name)
    assert str(raised.value).startswith(message.format(file=tmp_path / name))


@pytest.mark.slow
def test_a_table_that_is_read_in_two_parts_is_as_the_rows_say(store):
    sweep = el.grid(TRIAL, {"model.width": range(1, 51)}, seeds=500)
    assert len(sweep) > ROWS_AT_ONCE
    run, _ = store.begin(sweep)
    run.release()
    row = {"state": "solved", "test_error": 0.1, "steps": 10**6, "seconds": 1.0, "evaluation_seconds": 0.0}
    rows = [
        {**row, "cell": cell, "seed": seed, "solved_at": cell * 1000 + seed, "engine": "toy", "attempts": 1}
        for cell in range(1, 51)
        for seed in range(500)
    ]
    with store.engine.begin() as connection:
        connection.execute(insert(TRIALS), rows)
        assert len(connection.execute(select(TRIALS.c.cell).where(TRIALS.c.cell == 7)).all()) == 500
    table, cells = store.table(sweep), store.cells_table(sweep)
    assert (table.solved_at == table["model.width"] * 1000 + table.seed).all()
    assert (cells.median_steps == cells["model.width"] * 1000 + 249.5).all()
    assert (cells.trials == 500).all()


def test_a_store_in_memory_is_gone_when_it_is_closed():
    store = Store()
    fill(store, [outcome(trial) for trial in SWEEP])
    assert len(store.table()) == 6
    store.close()
    assert len(Store("sqlite://").table()) == 0


def test_a_heartbeat_is_written_down(store):
    run, _ = store.begin(SWEEP)
    with store.engine.begin() as connection:
        connection.execute(update(RUNS).values(heartbeat=5.0))
    begun = time.time()
    run.heartbeat()
    with store.engine.connect() as connection:
        assert connection.scalar(select(RUNS.c.heartbeat)) >= begun
    run.release()


def test_setting_the_clock_does_not_end_a_run(monkeypatch, store):
    """Neither here, where processes' starting times on the clock shift with it, nor for the run that is asked."""
    (one, _), (two, _) = store.begin(SWEEP), store.begin(SWEEP)
    one.claim(SWEEP)
    create_time = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: create_time(process) + 3600)
    monkeypatch.setattr(time, "time", lambda now=time.time: now() + 3600)
    assert two.claim(SWEEP) == []
    one.release()
    two.release()


def test_a_traceback_keeps_the_signs_that_a_database_cannot_hold_as_escapes(store):
    trial = next(iter(SWEEP))
    fill(store, [outcome(trial, "failed", error="ValueError: \0, \ud800 and \U0001f600\n")])
    assert store.outcome(trial).error == "ValueError: \\x00, \\ud800 and \U0001f600\n"
    assert store.table().error[0] == "ValueError: \\x00, \\ud800 and \U0001f600"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("engine", "x" * 33),
        ("engine", ""),
        ("steps", 2**63),
        ("steps", 2**53 + 1),
        ("steps", -1),
        ("solved_at", 2**64),
        ("solved_at", 5),
        ("solved_at", None),
        ("test_error", 1.5),
        ("seconds", float("inf")),
        ("seconds", float("nan")),
    ],
)
def test_what_a_column_does_not_hold_is_refused_by_every_database(store, field, value):
    run, _ = store.begin(SWEEP)
    trials = run.claim(SWEEP)
    with pytest.raises(StoreError, match="a value in a store must fit its column: ") as raised:
        run.record([outcome(trials[0]), outcome(trials[1], **{field: value})])
    assert str(raised.value).isprintable()
    assert len(store.table()) == 0
    run.record([outcome(trials[0])])
    run.release()
    assert len(store.table()) == 1


def test_a_name_of_a_run_that_is_no_text_is_refused(store):
    with pytest.raises(ArgumentError, match="name must be a string that UTF-8 can encode"):
        store.begin(SWEEP, name="a\ud800b")
    assert store.status().runs == ()


def test_seeds_of_64_bits_are_kept_and_found(store):
    seeds = [0, 2**31, 2**63 - 1, 2**63, 2**64 - 1]
    sweep = el.grid(TRIAL, {"task.support": [(0, 1)]}, seeds=seeds)
    run, _ = store.begin(sweep)
    assert run.claim(sweep) == list(sweep)
    run.record([outcome(trial) for trial in sweep])
    assert run.claim(sweep) == []
    run.release()
    assert store.table().seed.tolist() == store.table(sweep).seed.tolist() == seeds
    assert store.recorded(sweep) == sweep and store.cells_table().trials.tolist() == [5]
    assert [store.trial(row).seed for _, row in store.table().iterrows()] == seeds


def test_an_engine_s_name_must_fit_into_a_store():
    with pytest.raises(EngineError, match="an engine's name must have 1 to 32 printable characters: name='xxx"):
        type("Long", (ToyEngine,), {"name": "x" * 33})
