"""Sweeps on workers of a Dask scheduler, all on this machine: tables equal those of threads, and nothing is lost."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from laboratory import TRIAL, untimed
from pandas.testing import assert_frame_equal
from sqlalchemy import select

import elegans as el
from elegans import extensions
from elegans.errors import StoreError, SweepError
from elegans.experiments import run_experiment
from elegans.machine import instruction_sets
from elegans.store import Store
from elegans.store.schema import TRIALS
from elegans.sweeps import Interrupted, dask_worker
from elegans.sweeps.runner import complete  # noqa: F401 (complete: for a script below)
from elegans.training.engines import ENGINES

dask = pytest.importorskip("dask", reason="Dask is not installed (the extra elegans[cluster])")
distributed = pytest.importorskip("distributed", reason="Dask is not installed (the extra elegans[cluster])")
from elegans.sweeps.dask_client import Cluster, DaskWorkers  # noqa: E402

LABORATORY = Path(__file__).parents[1] / "support" / "cluster_laboratory.py"
TOY = el.grid(TRIAL, {"model.width": [1, 2]}, seeds=20)


@pytest.fixture(autouse=True)
def laboratory(monkeypatch):
    """The user's file, whose engines are known during a test."""
    module = extensions.load(LABORATORY)
    for name in module.OWN:
        ENGINES.pop(name, None)
        monkeypatch.setitem(ENGINES, name, module.OWN[name])
    return module


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes on this machine."""
    with Cluster("local:2") as connected:
        yield connected


def same(one, other):
    assert_frame_equal(untimed(one), untimed(other))


@pytest.mark.parametrize(
    ("count", "engine"),
    [(2, "auto"), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((2, "jax"), (8, "auto")))],
)
def test_the_table_equals_that_of_threads(count, engine, cluster):
    axes = {"model.width": [10, 30], "regime": ["online", "sample:50"]}
    sweep = el.grid(TRIAL.replace("training.steps", 60), axes, seeds=6)
    given = {"engine": engine, "probes": [el.probes.HeldOutErrorRate(every=20, examples=50)]}
    here = el.run(sweep, **given)
    with Store() as store:
        same(el.run(sweep, store, scheduler=cluster if count == 2 else f"local:{count}", **given), here)
        outcome = store.outcome(sweep.trial(7))
    alone = el.train(sweep.trial(7), **given)
    assert outcome.curve.loss == pytest.approx(alone.curve.loss) and outcome.measures == alone.measures


@pytest.mark.parametrize("engine", ["slow", "slow-sets"])
def test_classes_and_engines_of_the_users_files_reach_the_workers(cluster, laboratory, engine):
    with Store() as store:
        table = el.run(TOY, store, scheduler=cluster, engine=engine, probes=[laboratory.Process(every=4)])
        numbers = {value for outcome in store.outcomes() for value in outcome.measures["process"]["number"]}
    same(table, el.run(TOY, engine=engine))
    assert len(numbers) == 2 and os.getpid() not in numbers


def test_a_worker_with_an_older_version_of_a_file_is_refused(cluster):
    def prepared(run, text):
        files = (("elegans_extension_older", "/nowhere/older.py", text),)
        setup = dask_worker.Setup(run, run, dask_worker.identity()["versions"], None, files)
        return cluster.client.run(dask_worker.prepare, setup)

    assert set(prepared("first", b"answer = 1").values()) == {None}
    assert set(prepared("second", b"answer = 1").values()) == {None}
    with pytest.raises(SweepError, match="the run's version of a file: restart the workers of .*, which have an older"):
        prepared("third", b"answer = 2")


@pytest.mark.parametrize(
    "reply",
    [b"", b"\x80", pickle.dumps(None), pickle.dumps(([], [], 0.0)), pickle.dumps(dask_worker.BatchReport({7: {}})),
     pickle.dumps(dask_worker.BatchReport({0: {"state": "solved", "unknown": 1}})), None, "text", 7,
     pickle.dumps(dask_worker.BatchReport({}, 0.0, (int, ("x",)))), b"cnowhere\nNothing\n."],
    ids=repr,
)  # fmt: skip
def test_a_reply_that_is_no_report_ends_the_run_in_one_line(cluster, monkeypatch, reply):
    monkeypatch.setattr(dask_worker, "train_batch", lambda packed: reply)
    with Store() as store:
        with pytest.raises(SweepError, match="a worker must return the report of its batch: tcp://") as raised:
            el.run(el.grid(TRIAL, {}, seeds=3), store, scheduler=cluster)
        assert "\n" not in str(raised.value)
        assert all(not run.alive for run in store.status().runs)


@pytest.mark.parametrize("told", [None, {}, {"key": 1}, {"key": [], "steps": 1}, {"steps": [1, 2, 3]}, "text", 7])
@pytest.mark.parametrize("steps", [None, [1], [1, 0, 1], ["a", "b", "c"], [1, 2, 3, 4], [float("nan"), 1, 1]])
def test_what_a_worker_tells_that_is_no_progress_is_ignored(cluster, told, steps):
    workers = DaskWorkers(cluster, [], threading.Event())
    workers.flights["batch"] = None
    workers._told((0.0, told))
    workers._told((0.0, {"key": "batch", "steps": steps}))
    assert workers.under_way == {}
    workers._told((0.0, {"key": "batch", "steps": [1, 2, 3]}))
    assert workers.under_way == {"batch": (1, 2, 3)}


def test_a_class_that_no_file_defines_is_refused(cluster):
    own = type("Own", (el.MLP,), {"__module__": "__main__", "__doc__": "Mine."})
    with pytest.raises(SweepError, match="a class must be in a file that is imported: model 'own'"):
        el.run(el.grid(TRIAL.replace("model", own(width=3)), {}, seeds=2), scheduler=cluster)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* trials failed:elegans.errors.ElegansWarning")
def test_only_the_trial_that_kills_its_worker_fails(cluster):
    sweep = el.grid(TRIAL, {"model.width": [1]}, seeds=20)
    with Store() as store:
        table = el.run(sweep, store, scheduler=cluster, engine="deadly")
        assert table[table.state == "failed"].seed.tolist() == [7] and len(table) == 20
        failed = store.outcome(sweep.trial(7))
    assert failed.error.startswith("every worker that trained this trial died, by a signal or for want of memory")
    same(table[table.seed != 7], el.run(sweep, engine="slow").assign(engine="deadly").query("seed != 7"))


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_only_time(cluster):
    sweep = el.grid(TRIAL, {"model.width": [20, 30]}, seeds=30)  # 80 and 120 ms each

    def kill():
        for _ in range(2):
            time.sleep(0.7)
            numbers = []
            while not numbers:  # a killed process takes a while to start again
                numbers = list(cluster.client.run(os.getpid, on_error="ignore").values())
                time.sleep(0.05)
            os.kill(numbers[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with Store() as store:
        table = el.run(sweep, store, scheduler=cluster, engine="slow")
        assert sum(outcome.state in ("solved", "unsolved") for outcome in store.outcomes()) == 60
    killer.join()
    same(table, el.run(sweep, engine="slow", workers=4))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody remove an open file")
def test_a_store_that_is_removed_under_a_run_on_workers_is_kept_beside_it(cluster, tmp_path):
    path, done = tmp_path / "runs.db", []

    def remove(progress):
        if progress.this_run and not done:
            done.append(progress.this_run)
            path.unlink()

    with pytest.raises(
        StoreError, match=r"runs\.db was removed; everything \(\d+ outcomes\) is in .*runs\.kept-1\.db$"
    ):
        el.run(TOY, path, scheduler=cluster, engine="slow", watch=remove)
    with Store(path.with_name("runs.kept-1.db")) as store:
        assert done[0] <= len(store.table()) < len(TOY)
    same(el.run(TOY, path.with_name("runs.kept-1.db"), engine="slow"), el.run(TOY, engine="slow"))


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_its_workers_have_done(cluster, tmp_path, interruptible):
    sweep = el.grid(TRIAL, {"model.width": [25, 50]}, seeds=200)  # 100 and 200 ms each: 30 s
    threading.Timer(2.0, os.kill, [os.getpid(), signal.SIGINT]).start()
    begun = time.monotonic()
    with pytest.raises(Interrupted, match=r"interrupted: \d+ of 400 trials are done"):
        el.run(sweep, tmp_path / "runs.db", scheduler=cluster, engine="slow")
    assert time.monotonic() - begun < 15
    with Store(tmp_path / "runs.db") as store:
        states = store.totals(sweep).groupby("state").trials.sum()
    assert states.get("solved", 0) + states.get("unsolved", 0) >= 4
    until = time.monotonic() + 20
    while any(cluster.client.processing().values()) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(cluster.client.processing().values())


def worker_of(address, *options):
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard", "--death-timeout=20"]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*command, "--nthreads=1", *options], start_new_session=True, **silent)


def end(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(20)


@pytest.fixture
def bare():
    """A scheduler without workers, and a function that starts one."""
    started = []
    with distributed.LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
    ) as own:

        def start(*options):
            started.append(worker_of(own.scheduler_address, *options))
            return started[-1]

        yield own, start
        for process in started:
            end(process)


@pytest.mark.slow
def test_workers_that_join_late_are_used_and_waited_for(bare, tmp_path, monkeypatch):
    monkeypatch.setattr("elegans.sweeps.dask_client.PATIENT_SECONDS", 0.5)
    scheduler, start = bare
    seen = []

    def watch(progress):
        if progress.waits_for and not seen:
            start()
        seen.extend(progress.waits_for)

    table = el.run(TOY, scheduler=scheduler.scheduler_address, engine="slow", watch=watch)
    assert set(seen) == {f"workers to join {scheduler.scheduler_address}"}
    same(table, el.run(TOY, engine="slow"))


@pytest.mark.slow
def test_a_scheduler_that_may_steal_work_has_every_trial_trained_once(tmp_path, monkeypatch):
    """Work stealing is the default of schedulers that others have started, which decide when to move batches."""
    begun = tmp_path / "begun"
    monkeypatch.setenv("ELEGANS_TRIALS_BEGUN", str(begun))
    monkeypatch.setattr("elegans.sweeps.dask_client.BATCH_SECONDS", 0.2)
    monkeypatch.setattr("elegans.sweeps.dask_client.IN_FLIGHT", 32)
    monkeypatch.setattr("elegans.sweeps.dask_client.COUNT_SECONDS", 1e6)  # the first worker has a long queue throughout
    quiet = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    saturated = {"distributed.scheduler.worker-saturation": "inf", "distributed.scheduler.work-stealing": True}
    started = []

    def watch(progress):
        if progress.done and len(started) == 1:
            started.append(worker_of(own.scheduler_address))

    with dask.config.set(saturated), distributed.LocalCluster(n_workers=0, **quiet) as own:
        try:
            started.append(worker_of(own.scheduler_address))
            sweep = el.grid(TRIAL, {"model.width": [40, 50]}, seeds=60)
            table = el.run(sweep, scheduler=own.scheduler_address, engine="noted", watch=watch)
        finally:
            for process in started:
                end(process)
    same(table, el.run(sweep, engine="slow").assign(engine="noted"))
    trials = begun.read_text().splitlines()
    assert len(started) == 2 and len(trials) == len(set(trials)) == len(sweep)


@pytest.mark.slow
def test_a_scheduler_that_is_lost_ends_the_run_and_what_is_recorded_stays(bare, tmp_path):
    scheduler, start = bare
    start("--nworkers=2")
    sweep = el.grid(TRIAL, {"model.width": [50]}, seeds=200)
    kept = []

    def watch(progress):
        if progress.done >= 4 and not kept:
            kept.append(progress.done)
            threading.Thread(target=scheduler.close).start()

    with pytest.raises(SweepError, match="the scheduler must stay reachable during a run: tcp://127"):
        el.run(sweep, tmp_path / "runs.db", scheduler=scheduler.scheduler_address, engine="slow", watch=watch)
    with Store(tmp_path / "runs.db") as store:
        found = store.recorded(sweep)
        assert len(found) >= kept[0] >= 4


class Elsewhere:
    """Is another version of one thing here, and what the module has where it is sent."""

    def __init__(self, own, name):
        self.found = {**own, "versions": {**own["versions"], name: "0.0"}}

    def __call__(self):
        return self.found

    def __reduce__(self):
        return getattr, (dask_worker, "identity")


@pytest.mark.parametrize("name", ["elegans", "native build", "python"])
def test_workers_of_another_version_are_refused(cluster, monkeypatch, name):
    monkeypatch.setattr(dask_worker, "identity", Elsewhere(dask_worker.identity(), name))
    with pytest.raises(
        SweepError, match=f"a worker must have the same versions as the run: .* {name} .* in place of 0.0"
    ):
        Cluster(cluster.client)


def test_a_worker_that_ends_while_versions_are_compared_is_left_out(cluster, monkeypatch):
    run, gone = cluster.client.run, {"tcp://127.0.0.1:9": distributed.comm.CommClosedError("the worker was killed")}
    monkeypatch.setattr(cluster.client, "run", lambda *given, **options: run(*given, **options) | gone)
    assert Cluster(cluster.client).hosts == cluster.hosts


def test_a_worker_of_another_version_that_joins_late_ends_the_run(cluster):
    versions = {**dask_worker.identity()["versions"], "jax": "0.0"}
    setup = dask_worker.Setup("run", "token", versions, None)
    batch = dask_worker.Batch("key", setup, "slow", (), (), 1.0)
    with pytest.raises(SweepError, match="a worker must have the same versions as the run"):
        cluster.client.submit(dask_worker.train_batch, pickle.dumps(batch), pure=False).result()


@pytest.mark.slow
def test_every_worker_uses_the_instruction_set_that_is_asked_for():
    known = instruction_sets()[1]
    if len(known) < 2:
        pytest.skip("this machine has one instruction set")
    sweep = el.grid(TRIAL.replace("training.steps", 40), {}, seeds=4)
    with Cluster("local:1", instruction_set=known[0]) as low:
        assert low.record() == {"hosts": 1, "slots": 1, "instruction_set": known[0]}
        el.run(sweep, scheduler=low)
        assert {value[0] for value in low.client.run(instruction_sets).values()} == {known[0]}
        el.run(sweep, scheduler=low.client)
        assert {value[0] for value in low.client.run(instruction_sets).values()} == {known[-1]}
        el.run(sweep, scheduler=low, engine="jax")
        with pytest.raises(SweepError, match=f"before JAX computes: restart the workers of .* to use {known[-1]}"):
            el.run(sweep, scheduler=low.client, engine="jax")
        with pytest.raises(SweepError, match=r"instruction_set must be available on every worker \(baseline.*'z80'"):
            Cluster(low.client, instruction_set="z80")


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ("local:0", "local:N must have a number of processes from 1 to 1024: local:0"),
        ("local:many", "local:N must have a number of processes from 1 to 1024: local:many"),
        ("tcp://127.0.0.1:9", "a scheduler must be reachable within 1 s: tcp://127.0.0.1:9"),
        ("nowhere.json", "a scheduler's file must exist: nowhere.json"),
        (3, "scheduler must be an address, a file, local:N or a Client: got 3"),
    ],
)
def test_a_scheduler_that_cannot_be_is_refused_before_anything_is_made(scheduler, message, tmp_path, monkeypatch):
    monkeypatch.setattr("elegans.sweeps.dask_client.CONNECT_SECONDS", 1.0)
    with pytest.raises(SweepError) as raised:
        el.run(TOY, tmp_path / "runs.db", scheduler=scheduler, engine="slow")
    assert str(raised.value).startswith(message)
    assert not (tmp_path / "runs.db").exists()


def test_workers_beside_a_scheduler_are_refused():
    with pytest.raises(SweepError, match="workers and scheduler are mutually exclusive: workers=2"):
        el.run(TOY, scheduler="local:2", workers=2)


def test_batches_take_seconds_and_are_shared_out_at_the_end(cluster, laboratory):
    pool = DaskWorkers(cluster, (), threading.Event())
    sent = []
    pool._submit = lambda engine, trials: sent.append(len(trials)) or pool.flights.update({str(len(sent)): None})
    pool.mean = 0.25
    engine = laboratory.Slow()
    pool.train(engine, [TRIAL.with_seed(seed) for seed in range(200)])
    assert sent == [28] * 4  # of 7 s each, two for each of two workers
    pool.flights.clear()
    pool._send()
    assert sent[4:] == [22] * 4


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_of_workers_and_of_the_run_lose_double_and_change_nothing(tmp_path):
    """12 workers and 3 runs are killed in a sweep of 6000 trials."""
    script = tmp_path / "run.py"
    script.write_text(
        "import sys\nsys.path[:0] = sys.argv[2:]\nfrom test_dask import LABORATORY, big, complete, extensions\n"
        "extensions.load(LABORATORY)\n"
        "complete(big(), 'runs.db', scheduler=sys.argv[1], engine='slow')\n"
    )
    with distributed.LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
    ) as own:
        address = own.scheduler_address
        workers = worker_of(address, "--nworkers=2", "--memory-limit=0")
        try:
            with distributed.Client(address, set_as_default=False) as client:
                client.wait_for_workers(2, timeout=60)
                command = [sys.executable, str(script), address, str(Path(__file__).parent), str(LABORATORY.parent)]
                for _ in range(3):
                    run = subprocess.Popen(command, cwd=tmp_path)
                    for _ in range(4):
                        time.sleep(1)
                        numbers = list(client.run(os.getpid, on_error="ignore").values())
                        if numbers:
                            os.kill(numbers[0], signal.SIGKILL)
                    assert run.poll() is None
                    run.kill()
                    run.wait()
            subprocess.run(command, cwd=tmp_path, check=True, timeout=600)
        finally:
            end(workers)
    with Store(tmp_path / "runs.db") as store:
        table = store.table(big())
        with store.engine.connect() as connection:
            assert set(connection.scalars(select(TRIALS.c.attempts))) == {1}  # recorded once
    assert len(table) == 6000
    same(table, el.run(big(), engine="slow", workers=64))


def big():
    """6000 trials of four milliseconds each."""
    return el.grid(TRIAL.replace("training.steps", 1), {"model.width": [4]}, seeds=6000)


@pytest.mark.slow
def test_panels_are_traced_at_once_with_the_result_of_tracing_them_in_turn(cluster, tmp_path):
    one, other = (
        run_experiment("success-frontier", "smoke", out=tmp_path / name, adaptive=True, **given)
        for name, given in (("here", {"workers": 2}), ("there", {"scheduler": cluster}))
    )
    assert one.record["findings"] == other.record["findings"] and one.record["trials"] == other.record["trials"]
    assert "cluster" not in one.record and other.record["cluster"]["slots"] == 2


def any_trial(path):
    """Return whether a store has a finished trial."""
    try:
        with Store(path, create=False) as store:
            return len(store.table()) > 0
    except StoreError:  # it is being made
        return False


@pytest.mark.slow
def test_one_signal_stops_panels_that_are_traced_at_once(cluster, tmp_path, interruptible):
    path = tmp_path / "success-frontier" / "runs.db"

    def interrupt():
        until = time.monotonic() + 60
        while not (path.exists() and any_trial(path)) and time.monotonic() < until:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(Interrupted):
        run_experiment("success-frontier", "laptop", out=tmp_path, adaptive=True, scheduler=cluster)
    assert cluster.stop is None
    with Store(path) as store:
        assert len(store.table()) > 0


@pytest.fixture
def networks():
    """Three network namespaces joined by a bridge: their names, and the addresses 10.77.0.1 to 3."""
    names = [f"elegans-{os.getpid()}-{number}" for number in range(3)]
    bridge = f"el{os.getpid()}"[:12]

    def ip(*words, check=True):
        return subprocess.run(["ip", *map(str, words)], check=check, capture_output=True, text=True)

    if shutil.which("ip") is None or ip("netns", "add", names[0], check=False).returncode:
        pytest.skip("network namespaces cannot be made here (they need ip and root)")
    try:
        ip("link", "add", bridge, "type", "bridge")
        ip("addr", "add", "10.77.0.100/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for number, name in enumerate(names):
            if number:
                ip("netns", "add", name)
            ip("link", "add", f"{bridge}v{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"{bridge}v{number}", "master", bridge, "up")
            ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                ip("-n", name, "link", "set", device, "up")
        yield names
    finally:
        for name in names:
            ip("netns", "del", name, check=False)
        ip("link", "del", bridge, check=False)


@pytest.mark.slow
def test_workers_in_two_networks_and_a_scheduler_in_a_third_give_the_table_of_threads(networks):
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    dask = [sys.executable, "-m"]
    first = [*dask, "distributed.cli.dask_scheduler", "--host", "10.77.0.1", "--port", "8786", "--no-dashboard"]
    other = [*dask, "distributed.cli.dask_worker", "tcp://10.77.0.1:8786", "--nthreads=1", "--no-dashboard"]
    started = []
    try:
        for name, command in zip(networks, (first, other, other), strict=True):
            started.append(subprocess.Popen(["ip", "netns", "exec", name, *command], **silent))
            time.sleep(2 if command is first else 0)
        with distributed.Client("tcp://10.77.0.1:8786", timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            assert {address.split(":")[1] for address in client.nthreads()} == {"//10.77.0.2", "//10.77.0.3"}
        sweep = el.grid(TRIAL.replace("training.steps", 60), {"model.width": [10, 30]}, seeds=40)
        same(el.run(sweep, scheduler="tcp://10.77.0.1:8786"), el.run(sweep))
    finally:
        for process in started:
            end(process)
