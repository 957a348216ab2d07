import os
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from laboratory import PROCESSES, TRIAL, ToyEngine, process, run_toy, untimed, wait_for_outcomes
from pandas.testing import assert_frame_equal
from sqlalchemy import select

import elegans as el
from elegans import discovery
from elegans.errors import EngineError, StoreError, SweepError, TrialError
from elegans.store import Store
from elegans.store.leases import Run
from elegans.store.schema import TRIALS
from elegans.sweeps import Interrupted, dispatcher
from elegans.training.engines import ENGINES

SWEEP = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=20)


def attempts(store):
    with store.engine.connect() as connection:
        return Counter(connection.scalars(select(TRIALS.c.attempts)).all())


def same(one, other):
    assert_frame_equal(untimed(one), untimed(other))


def test_only_what_is_missing_is_trained(toy, place):
    engine = toy()
    some = el.grid(TRIAL, {"model.width": [20]}, seeds=range(5, 12))
    el.run(some, place, engine="toy")
    assert engine.trained == sorted((trial.cell, trial.seed) for trial in some)
    table = el.run(SWEEP, place, engine="toy")
    assert engine.trained == sorted((trial.cell, trial.seed) for trial in SWEEP)
    same(table, el.run(SWEEP, engine="toy"))
    assert list(zip(table["model.width"], table.seed, strict=True)) == [(t.model.width, t.seed) for t in SWEEP]


def test_the_table_says_how_each_trial_ended(toy):
    toy()
    table = el.run(SWEEP, engine="toy")
    states = ["diverged" if seed % 7 == 5 else ["solved", "solved", "unsolved"][seed % 3] for seed in table.seed]
    assert table.state.tolist() == states
    assert (table.solved_at.notna() == (table.state == "solved")).all()
    assert set(table.engine) == {"toy"}


def test_a_run_may_return_its_cells_summed_up(toy, place):
    toy()
    cells = el.run(SWEEP, place, engine="toy", table="cells")
    assert cells["model.width"].tolist() == [10, 20]
    states = el.run(SWEEP, place, engine="toy").groupby("model.width").state.value_counts()
    assert cells.set_index("model.width").solved.to_dict() == states.xs("solved", level="state").to_dict()
    assert cells.trials.tolist() == [20, 20]


def test_the_number_of_workers_changes_nothing(toy):
    toy()
    tables = [el.run(SWEEP, engine="toy", workers=workers) for workers in (1, 2, 5)]
    same(tables[0], tables[1])
    same(tables[0], tables[2])


def test_the_native_or_general_engine_trains_a_sweep():
    sweep = el.grid(TRIAL, {"regime": ["online", "sample:50"]}, seeds=2)
    table = el.run(sweep)
    assert len(table) == 4 and set(table.state) <= {"solved", "unsolved"}
    alone = [el.train(trial) for trial in sweep]
    assert table.test_error.tolist() == [outcome.test_error for outcome in alone]


def test_trials_of_one_signature_train_side_by_side_across_cells_in_batches_of_one_size(toy):
    engine = toy(side_by_side=16)
    sweep = el.grid(TRIAL, {"regime": ["sample:10", "sample:20", "online"], "model.width": [10, 20]}, seeds=10)
    table = el.run(sweep, engine="toy")
    assert [len(batch) for batch in engine.batches] == [15] * 4
    assert len(table) == 60 and len(set(engine.trained)) == 60
    width = {trial.cell: trial.model.width for trial in sweep}
    assert all(len({width[cell] for cell, _ in batch}) == 1 for batch in engine.batches)
    toy()
    same(table, el.run(sweep, engine="toy"))


def test_an_engine_says_how_many_trials_of_a_signature_train_side_by_side(toy, monkeypatch):
    engine = toy(side_by_side=16)
    monkeypatch.setattr(engine, "together", lambda trial: 4 if trial.model.width == 20 else 16, raising=False)
    el.run(el.grid(TRIAL, {"model.width": [10, 20]}, seeds=12), engine="toy")
    assert sorted(map(len, engine.batches)) == [4, 4, 4, 12]


@pytest.mark.filterwarnings("ignore:.* trials failed:elegans.errors.ElegansWarning")
@pytest.mark.parametrize("side_by_side", [1, 8])
def test_a_trial_that_raises_fails_alone_and_is_retried_only_when_asked(toy, side_by_side, store):
    engine = toy(broken=[3], side_by_side=side_by_side)
    table = el.run(SWEEP, store, engine="toy")
    failed = table[table.state == "failed"]
    assert failed.seed.tolist() == [3, 3] and len(table) == 40
    trial = next(trial for trial in SWEEP if trial.seed == 3)
    assert store.outcome(trial).error.startswith("Traceback (most recent call last)")
    assert store.outcome(trial).error.endswith("RuntimeError: seed 3 is broken\n")
    engine.batches.clear()
    same(el.run(SWEEP, store, engine="toy"), table)
    assert engine.batches == []
    same(el.run(SWEEP, store, engine="toy", retry_failed=True), table)
    assert {seed for _, seed in engine.trained} == {3}
    engine.broken.clear()
    assert el.run(SWEEP, store, engine="toy", retry_failed=True).state.tolist().count("failed") == 0
    assert store.outcome(trial).error is None


@pytest.mark.filterwarnings("ignore:.* trials failed:elegans.errors.ElegansWarning")
def test_a_users_own_model_that_raises_fails_with_its_traceback_and_the_rest_is_trained(tmp_path, store, monkeypatch):
    monkeypatch.setattr(discovery, "LOADED", {})  # which a Dask client would send to the workers of later tests
    (tmp_path / "mine.py").write_text(
        "from elegans.models import MLP\n"
        "class Moody(MLP):\n"
        "    'Cannot start where its first weight would be negative.'\n"
        "    def initialise(self, key, task):\n"
        "        parameters = super().initialise(key, task)\n"
        "        if parameters['output']['bias'] < 0:\n"
        "            raise RuntimeError('not in the mood')\n"
        "        return parameters\n"
    )
    el_sweep = 'import = ["mine.py"]\nseeds = 6\n[trial.model]\nkind = "moody"\nwidth = 5\n'
    rest = "[trial]\ntask = {kind = 'sparse-parity', n = 5, k = 1}\nregime = 'online'\n"
    rest += "training = {kind = 'sgd', steps = 3, stopping = {examples = 10}}\n"
    (tmp_path / "mine.toml").write_text(el_sweep.replace("[trial.model]", rest + "[trial.model]"))
    el.Model._members.pop("moody", None)  # of another store
    sweep = el.Sweep.from_toml(tmp_path / "mine.toml")
    table = el.run(sweep, store)
    expected = [el.MLP(width=5).initialise(t.key("init"), t.task)["output"]["bias"] < 0 for t in sweep]
    assert (table.state == "failed").tolist() == expected
    assert 0 < sum(expected) < 6
    failed = next(each for each in store.outcomes() if each.state == "failed")
    assert "mine.py" in failed.error and "not in the mood" in failed.error


def test_a_trial_without_the_measures_that_are_asked_for_is_missing(toy, store):
    engine = toy()
    sweep = el.grid(TRIAL, {}, seeds=3)
    el.run(sweep, store, engine="toy")
    el.run(sweep, store, engine="toy", probes=[el.probes.HeldOutErrorRate(every=2, examples=10)])
    assert len(engine.batches) == 6
    el.run(sweep, store, engine="toy", probes=[el.probes.HeldOutErrorRate(every=2, examples=10)])
    el.run(sweep, store, engine="toy")
    assert len(engine.batches) == 6
    measures = store.outcome(next(iter(sweep))).measures
    assert measures == {"test-error": {"step": [0, 2], "error": [0.0, 0.0]}}


class Unplain(el.Probe):
    """Measures what JSON does not know."""

    def measure(self, snapshot):
        return {"number": np.float32(0.5), "row": np.arange(2)}


def test_measures_may_be_numpys_own(toy, store):
    toy()
    el.run(el.grid(TRIAL, {}), store, engine="toy", probes=[Unplain(every=4)])
    assert store.outcome(TRIAL).measures["unplain"]["row"].tolist() == [[0, 1], [0, 1]]


impossible = el.grid(TRIAL, {"task.n": [12, 13]})


@pytest.mark.parametrize(
    ("sweep", "options", "error", "message"),
    [
        (SWEEP, {"engine": "fusde"}, EngineError, "unknown engine 'fusde'; did you mean 'fused'?"),
        (impossible, {"engine": "toy"}, EngineError, "no engine for this trial: the toy engine takes no task"),
        (el.Sweep(()), {}, SweepError, "a sweep must have at least one trial: trials=0"),
        (SWEEP, {"workers": 0}, SweepError, "workers must be from 1 to 1024: workers=0"),
        (SWEEP, {"table": "cell"}, SweepError, "table must be trials or cells: table='cell'"),
        (
            SWEEP,
            {"probes": [el.probes.HeldOutErrorRate(), el.probes.HeldOutErrorRate(every=7)]},
            SweepError,
            "probes must be of different kinds: test-error occurs 2 times",
        ),
        (
            el.grid(TRIAL, {"task.k": [2, 20]}),
            {"probes": [el.probes.FourierGap()]},
            TrialError,
            "fourier-gap must have irrelevant inputs to compare with: k=20, n=20",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(tmp_path, toy, sweep, options, error, message):
    engine = toy()
    with pytest.raises(error) as raised:
        el.run(sweep, tmp_path / "runs.db", **{"engine": "toy", **options})
    assert str(raised.value).startswith(message)
    assert engine.batches == [] and not (tmp_path / "runs.db").exists()


def test_a_sweep_names_its_own_engine_and_store(toy, place):
    engine = toy()
    sweep = el.Sweep(SWEEP.parts, engine="toy", store=str(place))
    el.run(sweep)
    assert len(engine.batches) == 40
    with Store(place, create=False) as store:
        assert len(store.table()) == 40


@pytest.mark.filterwarnings("ignore:.* trials failed:elegans.errors.ElegansWarning")
def test_progress_is_told_at_most_ten_times_a_second_and_ends_with_everything(toy):
    toy(seconds=0.005, broken=[3])
    seen = []
    begun = time.monotonic()
    el.run(SWEEP, engine="toy", watch=seen.append)
    assert 2 <= len(seen) <= 10 * (time.monotonic() - begun) + 2
    last = seen[-1]
    assert (last.cells, last.cells_done, last.trials, last.done, last.this_run) == (2, 2, 40, 40, 40)
    assert (last.failed, last.interrupted, last.seconds_left) == (2, 0, 0.0)
    assert last.solved + last.unsolved + last.diverged == 38
    assert all(one.done <= two.done and one.elapsed <= two.elapsed for one, two in pairwise(seen))


def test_a_watcher_that_raises_ends_the_run_and_what_had_ended_is_kept(toy, place):
    toy(seconds=0.02)

    def watch(progress):
        if progress.done > 5:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        el.run(SWEEP, place, engine="toy", watch=watch)
    with Store(place) as store:
        assert 5 < len(store.table()) < 40
        assert store.status().states["running"] == 0


def test_a_run_in_another_thread_works_and_leaves_signals_alone(toy):
    toy()
    tables = []
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: tables.append(el.run(SWEEP, engine="toy")))
    thread.start()
    thread.join()
    assert len(tables[0]) == 40
    el.run(SWEEP, engine="toy")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_two_runs_in_one_process_share_a_sweep(toy, place):
    engine = toy(seconds=0.002)
    tables = []
    threads = [threading.Thread(target=lambda: tables.append(el.run(SWEEP, place, engine="toy"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(engine.trained)) == len(engine.trained) == 40
    for table in tables[1:]:
        assert_frame_equal(table, tables[0])


def toy_sweep(seeds):
    return el.grid(TRIAL, {"model.width": [10, 20]}, seeds=seeds)


@pytest.mark.slow
def test_two_processes_on_one_store_train_every_trial_once(toy, place):
    report, together = PROCESSES.Queue(), PROCESSES.Barrier(2)
    children = [process(run_toy, place, 50, 0.05, report, together) for _ in range(2)]
    assert [report.get() for _ in children] == ["complete"] * 2
    for child in children:
        child.join()
    with Store(place) as store:
        assert attempts(store) == {1: 100}
        with store.engine.connect() as connection:
            shares = Counter(connection.scalars(select(TRIALS.c.run)).all())
        toy()
        same(store.table(toy_sweep(50)), el.run(toy_sweep(50), engine="toy"))
    assert sorted(shares) == [1, 2]


def test_a_run_takes_over_what_a_killed_one_held(toy, place):
    child = process(run_toy, place, 3, 1000.0)
    with Store(place) as store:
        while store.status().states["running"] < 2:
            time.sleep(0.01)
        toy()
        tables = []
        waiting = threading.Thread(target=lambda: tables.append(el.run(toy_sweep(3), place, engine="toy")))
        waiting.start()
        while store.status().states.get("pending") or len(store.table()) < 4:
            time.sleep(0.01)
        assert waiting.is_alive()
        child.kill()
        child.join()
        waiting.join()
        assert len(tables[0]) == 6
        assert attempts(store) == {1: 6}


@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_a_sweep_killed_at_random_moments_ends_with_the_same_table(toy, new_place, times):
    toy()
    seeds, moments = 50, random.Random(0)
    sweep = toy_sweep(seeds)
    expected = el.run(sweep, engine="toy")
    kept = []
    for number in range(times):
        place = new_place()
        child = process(run_toy, place, seeds, 0.001)
        if number % 4:
            wait_for_outcomes(place, moments.randint(1, seeds), child)
            time.sleep(moments.uniform(0, 0.01))
        else:  # every fourth one is killed while it still starts
            time.sleep(moments.uniform(0, 0.2))
        child.kill()
        child.join()
        with Store(place) as store:
            kept.append(len(store.table()))
            same(el.run(sweep, store, engine="toy"), expected)
            assert attempts(store) == {1: 2 * seeds}
    assert any(0 < count < 2 * seeds for count in kept)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_and_keeps_what_had_ended(toy, place, number):
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("the signal is ignored here, as SIGHUP is under nohup")
    report = PROCESSES.Queue()
    child = process(run_toy, place, 200, 0.15, report)
    wait_for_outcomes(place, 1, child)
    time.sleep(0.1)  # the workers are at their next trials
    os.kill(child.pid, number)
    ended = report.get()
    child.join()
    assert ended.startswith("Interrupted: interrupted: ")
    assert ended.endswith(" of 400 trials are done; run it again to continue from there")
    with Store(place) as store:
        table = store.table()
        assert 0 < len(table) < 400 and "interrupted" in set(table.state)
        assert f" {(table.state != 'interrupted').sum()} of " in ended
        assert store.status().runs[0].finished and store.status().states["running"] == 0
        toy()
        same(el.run(toy_sweep(200), store, engine="toy"), el.run(toy_sweep(200), engine="toy"))
        kept = store.table().merge(table[table.state != "interrupted"][["seed", "model.width", "seconds"]])
        assert len(kept) == (table.state != "interrupted").sum()


class StuckEngine(ToyEngine):
    """Does not come back from a step before it is let go, as a compilation may not for a long time."""

    def __init__(self):
        super().__init__()
        self.stuck, self.let_go, self.came_back = threading.Event(), threading.Event(), threading.Event()

    def advance(self, state, plan):
        self.stuck.set()
        self.let_go.wait(60)
        self.came_back.set()
        return super().advance(state, plan)


@pytest.mark.slow
def test_an_engine_that_does_not_come_back_does_not_hold_up_an_interruption(monkeypatch, tmp_path, interruptible):
    engine = StuckEngine()
    monkeypatch.setitem(ENGINES, "toy", engine)

    def interrupt():
        engine.stuck.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(Interrupted) as raised:
        el.run(SWEEP, tmp_path / "runs.db", engine="toy")
    assert not engine.came_back.is_set()
    engine.let_go.set()
    assert isinstance(raised.value, KeyboardInterrupt)
    with Store(tmp_path / "runs.db") as store:
        assert store.status().states["running"] == 0


def test_a_store_that_breaks_in_the_middle_ends_the_run_with_a_store_error(toy, place):
    toy(seconds=0.02)

    def watch(progress):
        if progress.done:
            with store.engine.begin() as connection:
                connection.exec_driver_sql("ALTER TABLE trials RENAME TO elsewhere")

    with Store(place) as store, pytest.raises(StoreError, match="a store must hold the tables of its format: "):
        el.run(SWEEP, store, engine="toy", watch=watch)


def test_a_run_that_does_not_get_its_threads_is_released(toy, tmp_path, monkeypatch):
    def start(thread, usual=threading.Thread.start):
        if thread.name == "elegans-2":
            raise RuntimeError("can't start new thread")
        usual(thread)

    toy()
    monkeypatch.setattr(threading.Thread, "start", start)
    with Store(tmp_path / "runs.db") as store:
        with pytest.raises(
            SweepError, match="workers must be at most the number of threads that the system allows: workers=3"
        ):
            el.run(SWEEP, store, engine="toy", workers=3)
        (run,) = store.status().runs
        assert run.finished and not run.running
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("elegans-") and thread.is_alive()]


@pytest.mark.parametrize("workers", [0, -1, 1025, 10**30, 10**5000], ids=range(5))
def test_a_number_of_workers_that_no_machine_has_is_refused(workers):
    with pytest.raises(SweepError, match="workers must be from 1 to 1024: workers="):
        el.run(SWEEP, workers=workers)


def stop_between_commits(path, pid):
    """Stop a process where it does not hold the lock of a store."""
    free = False
    with sqlite3.connect(path, timeout=0, isolation_level=None) as connection:
        while not free:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.05)
            try:
                connection.execute("BEGIN IMMEDIATE")
                free = True
            except sqlite3.OperationalError:
                os.kill(pid, signal.SIGCONT)
        connection.execute("ROLLBACK")
    connection.close()


@pytest.mark.slow
def test_a_run_says_for_whom_it_waits_and_the_status_who_is_stopped(toy, tmp_path, monkeypatch):
    toy()
    monkeypatch.setattr(dispatcher, "PATIENT_SECONDS", 0.0)
    path, told = tmp_path / "runs.db", []
    child = process(run_toy, path, 6, 0.1)
    wait_for_outcomes(path, 1, child)
    stop_between_commits(path, child.pid)
    with Store(path) as store:

        def watch(progress):
            told.extend(progress.waits_for)
            if told:
                with suppress(ProcessLookupError):  # it may have ended since
                    os.kill(child.pid, signal.SIGCONT)

        while not store.status().runs[0].running:  # it was stopped after it had recorded all that it held
            os.kill(child.pid, signal.SIGCONT)
            time.sleep(0.05)
            stop_between_commits(path, child.pid)
        while not store.status().runs[0].stopped:
            time.sleep(0.01)
        assert f"continues (kill -CONT {child.pid}) or ends" in str(store.status())
        el.run(toy_sweep(6), store, engine="toy", watch=watch)
    child.join()
    assert f":{child.pid}, stopped) with " in told[0]


@pytest.mark.slow
def test_a_run_looks_ever_farther_for_free_trials_where_another_holds_the_next_ones(toy, new_store, monkeypatch):
    toy()
    sweep, asked, claim = toy_sweep(300), [], Run.claim

    def counted(run, trials, most):
        found = claim(run, trials, most)
        asked.append((len(trials), len(found)))
        return found

    with new_store() as store:
        other, _ = store.begin(sweep)
        other.claim(list(sweep)[:500])

        def watch(progress):
            if progress.done == 100:
                other.release()

        monkeypatch.setattr(Run, "claim", counted)
        assert len(el.run(sweep, store, engine="toy", workers=2, watch=watch)) == 600
    assert asked[:4] == [(2, 0), (8, 0), (32, 0), (128, 0)] and asked[4] == (430, 2)
    assert sum(found for _, found in asked) == 600
