import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from functools import partial
from importlib.metadata import version
from types import SimpleNamespace

import pandas as pd
import pytest

from elegans.cli import bench, main
from elegans.cli.app import COMMANDS
from elegans.cli.commands.experiments import _seen
from elegans.cli.common import interrupted
from elegans.cli.listing import FAMOUS
from elegans.experiments.registry import entries
from elegans.store import Store
from elegans.store.status import status_of
from elegans.sweeps.example import EXAMPLE_TOML

TINY = ["--n", "10", "--k", "2", "--width", "50", "--init", "sparse:2", "--steps", "2000"]


@pytest.fixture
def elegans_apart(run_apart, tmp_path):
    """Run a command line in a process of its own, whose classes are not those of other tests."""
    return partial(run_apart, tmp_path, "-m", "elegans")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The store of the example sweep, run to its end."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "example.toml").write_text(EXAMPLE_TOML)
    assert main(["sweep", str(folder / "example.toml"), "--store", str(folder / "runs.db"), "--workers", "1"]) == 0
    return folder / "runs.db"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(elegans, command):
    code, out, _ = elegans(command, "--help")
    assert code == 0
    assert f"Example: elegans {command}" in " ".join(out.split())


def test_without_a_command_the_commands_are_listed(elegans):
    code, out, _ = elegans()
    assert code == 0
    assert all(f"  {command} " in out for command in COMMANDS)


BAD = {
    "k above n": (["train", "--n", 50, "--k", 60], "k must be at most n: k=60, n=50"),
    "no inputs": (["train", "--n", 0, "--k", 1], "n must be greater than or equal to 1: n=0"),
    "no width": (["train", *TINY, "--width", 0], "width must be greater than or equal to 1: width=0"),
    "no steps": (["train", *TINY, "--steps", 0], "steps must be greater than or equal to 1: steps=0"),
    "no batch": (
        ["train", *TINY, "--batch-size", -1],
        "batch_size must be greater than or equal to 1: batch_size=-1",
    ),
    "no sample": (["train", *TINY, "--sample-size", 0], "size must be greater than or equal to 1: size=0"),
    "no number": (["train", *TINY, "--width", "wide"], "width='wide'"),
    "too many non-zeros": (
        ["train", *TINY, "--init", "sparse:60"],
        "nonzeros of a sparse init must be at most n: nonzeros=60, n=10",
    ),
    "missing field": (["train", "--n", 50], "the task sparse-parity needs --k, which is missing"),
    "missing fields": (["train", "--steps", "1e9"], "the task sparse-parity needs --n and --k, which are missing"),
    "no digits": (["train", *TINY, "--steps", "many"], "steps must be a whole number: steps='many'"),
    "unknown command": (["trian"], "No such command 'trian'"),
    "unknown option": (["train", *TINY, "--widht", 5], "no such option: --widht; did you mean '--width'?"),
    "option of run": (
        ["run", "success-frontier", "--sclae", "smoke"],
        "no such option of success-frontier: --sclae; did you mean '--scale'?",
    ),
    "unknown task": (
        ["train", "--task", "sparse-partiy"],
        "unknown task 'sparse-partiy'; did you mean 'sparse-parity'?",
    ),
    "unknown model": (["train", *TINY, "--model", "mpl"], "unknown model 'mpl'; did you mean 'mlp'?"),
    "unknown init": (["train", *TINY, "--init", "spars:2"], "unknown init 'spars'; did you mean 'sparse'?"),
    "unknown loss": (["train", *TINY, "--loss", "hing"], "unknown loss 'hing'; did you mean 'hinge'?"),
    "unknown probe": (
        ["train", *TINY, "--probe", "fourier-gp"],
        "unknown probe 'fourier-gp'; did you mean 'fourier-gap'?",
    ),
    "unknown engine": (["train", *TINY, "--engine", "fusd"], "unknown engine 'fusd'; did you mean 'fused'?"),
    "unknown field": (["train", *TINY, "--set", "model.widht=5"], "MLP has no field 'widht'; did you mean 'width'?"),
    "no field": (
        ["train", *TINY, "--set", "model.width"],
        "--set must be path=value, as in model.width=100: 'model.width'",
    ),
    "field of a number": (["train", *TINY, "--set", "seed.x=1"], "'seed' has no fields of its own: 'seed.x'"),
    "no value": (["train", *TINY, "--noise"], "an option must have a value: '--noise'"),
    "stray word": (["train", *TINY, "stray"], "an option must begin with two dashes: 'stray'"),
    "no extension": (["train", *TINY, "--import", "mine.py"], "no such file: mine.py"),
    "unknown experiment": (
        ["run", "succes-frontier"],
        "unknown experiment 'succes-frontier'; did you mean 'success-frontier'?",
    ),
    "unknown scale": (
        ["run", "success-frontier", "--scale", "smok"],
        "success-frontier has no scale 'smok'; known: smoke, laptop, ",
    ),
    "option of another experiment": (
        ["run", "grokking", "--group", "S4"],
        "no such option of grokking: --group; group-margins has it",
    ),
    "experiment to verify": (
        ["verify", "grokking"],
        "verify needs a claim, and grokking is an experiment; its claims: progress/",
    ),
    "no seeds": (
        ["run", "success-frontier", "--seeds", 0],
        "must be a whole number of at least 1, and of at most 18 digits: '0'",
    ),
    "no workers": (
        ["run", "success-frontier", "--workers", "two"],
        "must be a whole number of at least 1, and of at most 18 digits: 'two'",
    ),
    "no sweep": (["sweep"], "a sweep needs its FILE"),
    "endless word": (
        ["train", *TINY, "--engine", "x" * 10**5],
        f"error: unknown engine '{'x' * 79}…; known: ",
    ),
    "endless value": (["train", *TINY, "--noise", "x" * 10**5], "noise must be a number: noise='xxx"),
    "no such sweep": (["sweep", "no.toml"], "a sweep file must be readable: no.toml"),
    "no such store": (["status", "no.db"], "no.db"),
    "no store to export": (["export", "no.db", "out.csv"], "no.db"),
}


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_with_rule_and_value_and_starts_nothing(elegans, tmp_path, arguments, said):
    code, out, err = elegans(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.startswith("error: ") and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("widht = 3", "sweep file has no key 'widht'"),
        (EXAMPLE_TOML.replace("width = 100", "widht = 100"), "MLP has no field 'widht'; did you mean 'width'?"),
        (EXAMPLE_TOML.replace('"model.width"', '"model.widht"'), "MLP has no field 'widht'; did you mean 'width'?"),
        (EXAMPLE_TOML.replace("[10, 100]", "[]"), "an axis must have at least one value: model.width=[]"),
        (EXAMPLE_TOML.replace("n = 20", "n = 1"), "k must be at most n: k=2, n=1"),
        ("[trial", "a sweep file must be TOML"),
    ],
)
def test_a_bad_sweep_file_is_one_line_and_starts_nothing(elegans, tmp_path, written, said):
    (tmp_path / "bad.toml").write_text(written)
    code, out, err = elegans("sweep", "bad.toml")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


def not_a_database(path):
    path.write_text("a diary, not a database\n" * 100)


def somebody_elses(path):
    with sqlite3.connect(path) as database:
        database.execute("create table diary (day text)")
    database.close()


@pytest.mark.parametrize("made", [not_a_database, somebody_elses])
def test_a_store_that_is_not_ours_is_refused_and_left_as_it_is(elegans, tmp_path, made):
    path = tmp_path / "theirs.db"
    made(path)
    before = path.read_bytes()
    (tmp_path / "my.toml").write_text(EXAMPLE_TOML)
    for arguments in (["status", path], ["export", path, "out.csv"], ["sweep", "my.toml", "--store", path]):
        code, out, err = elegans(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "theirs.db" in err
    assert path.read_bytes() == before


def test_a_store_in_no_folder_is_refused(elegans, tmp_path):
    (tmp_path / "my.toml").write_text(EXAMPLE_TOML)
    code, out, err = elegans("sweep", "my.toml", "--store", tmp_path / "nowhere" / "runs.db")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "nowhere" in err


def test_results_that_cannot_be_written_are_refused(elegans, tmp_path):
    (tmp_path / "taken").write_text("")
    code, out, err = elegans("run", "success-frontier", "--scale", "smoke", "--out", "taken")
    loading, error = err.splitlines()
    assert (code, out, loading) == (2, "", "loading success-frontier at scale smoke")
    assert "taken" in error


def test_input_is_refused_where_the_output_is_closed_too(elegans, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["claims", "no-such-claim"]) == 2
    assert capsys.readouterr().err.startswith("error: unknown claim 'no-such-claim'")


SMALL = """
task = { kind = "sparse-parity", n = 10, k = 2 }
regime = "online"
model = { kind = "mlp", width = 5 }
training = { kind = "sgd", steps = 20 }
"""
PRINTING = [
    *("list", "claims", "theory", "theory information_bits n=50 k=3", "explain trial.toml", "sweep --example"),
    *("status runs.db", "check runs.db", "export runs.db out.csv", "report runs.db", "doctor", "--help"),
    *("train --n 10 --k 2 --width 5 --steps 20", "plan disjoint-lemmas --scale smoke"),
]
"""Quick commands that print something."""
FULL = "error: [Errno 28] No space left on device\n"
WAYS = {
    "> /dev/full": (2, FULL),
    "2> /dev/full > /dev/full": (2, ""),
    ">&-": (0, ""),
    "<&- 2>&- >&-": (0, ""),
    "| exit 0": (1, ""),
}
"""Outputs that cannot be written, and how a command then ends: its code, and what else it says."""
UNWRITTEN = [(command, list(WAYS)[place % len(WAYS)]) for place, command in enumerate(PRINTING)]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "way"), UNWRITTEN)
def test_output_that_cannot_be_written_ends_a_command_in_silence_or_one_line(tmp_path, command, way):
    (tmp_path / "trial.toml").write_text(SMALL)
    Store(tmp_path / "runs.db").close()
    run = f'set -o pipefail; "{sys.executable}" -m elegans {command} {way}'
    done = subprocess.run(["bash", "-c", run], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == WAYS[way]


@pytest.mark.slow
def test_an_explorer_whose_output_is_closed_ends_when_it_is_told_to(tmp_path):
    Store(tmp_path / "runs.db").close()
    command = f'"{sys.executable}" -m elegans explore runs.db --no-open --with-stdin >&-'
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, input="", capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (130, "")


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["sys.stdout.close()", "sys.stdout = object()", "os.close(1)"])
def test_an_extension_that_closes_the_output_ends_a_command_in_one_line(tmp_path, ends):
    (tmp_path / "mine.py").write_text(f"import os, sys\n{ends}\n")
    Store(tmp_path / "runs.db").close()
    command = [sys.executable, "-m", "elegans", "check", "runs.db", "--import", "mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert re.fullmatch("error: (a class of your own closed the standard output|.*Bad file descriptor)\n", done.stderr)


def test_list_has_one_line_per_experiment_study_by_study_the_best_known_first(elegans, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = elegans("list")
    *blocks, last = out.strip().split("\n\n")
    assert code == 0 and last.startswith(f"{len(entries())} experiments; ")
    assert max(map(len, "\n".join(blocks).split("\n"))) <= 80
    names = [[line.split()[0] for line in block.split("\n")[1:]] for block in blocks]
    assert sorted(name for of_study in names for name in of_study) == sorted(entries())
    assert [len({entries()[name].study for name in of_study}) for of_study in names] == [1] * len(names)
    assert names[0][:2] == ["success-frontier", "lottery-tickets"]
    famous = [min((FAMOUS.index(name) for name in of_study if name in FAMOUS), default=99) for of_study in names]
    assert famous == sorted(famous) and set(FAMOUS) <= set(entries())


def test_list_takes_a_word_and_shows_a_single_experiment_in_full(elegans, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    for name, entry in entries().items():
        code, out, _ = elegans("list", name)
        assert code == 0 and out.startswith(f"{name}\n  shows   {entry.shows}\n")
        for text in (entry.source, *entry.scales, *entry.options.values(), *(claim.id for claim in entry.claims)):
            assert text in out
    listed = elegans("list", "LOTTERY")[1]
    assert listed.startswith("lottery-tickets\n") or "  lottery-tickets " in listed
    assert "success-frontier" in elegans("list", "pareto frontiers")[1]
    message = "error: no experiment mentions 'lotery-tickets'; did you mean 'lottery-tickets'?\n"
    assert elegans("list", "lotery-tickets") == (2, "", message)


def test_the_version_is_that_of_the_distribution(elegans):
    assert elegans("--version") == (0, f"elegans {version('elegans')}\n", "")


def test_train_says_when_it_solved(elegans):
    code, out, _ = elegans("train", *TINY, "--task", "sparse-parity", "--sample-size", 1000, "--seed", 3)
    assert code == 0
    assert out.splitlines()[-1].startswith("solved at step ")
    assert "test error" in out.splitlines()[-1] and "train error" in out.splitlines()[-1]


def test_train_takes_any_field_by_its_path_and_any_task_field_by_its_name(elegans):
    changes = [
        "--set",
        "training.stopping.every=7",
        "--set",
        "training.stopping.stop=false",
        "--set",
        "training.steps=70",
    ]
    code, out, _ = elegans("train", *TINY, "--noise=0.5", "--support", "[1, 2]", *changes, "--probe", "fourier-gap")
    assert code == 0
    assert "unsolved after 70 steps" in out
    assert "fourier-gap: relaxed " in out


def test_train_says_where_it_diverged(elegans):
    code, out, _ = elegans("train", *TINY, "--learning-rate", "1e30")
    assert code == 0
    assert out.startswith("diverged at step ")


MAJORITY = """
import numpy as np
import elegans as el
from elegans import random

class Majority(el.Task):
    n: int

    @property
    def input_size(self):
        return self.n

    def examples(self, hidden, key, index):
        x = random.rademacher(key, index, self.n)
        return x, 2 * (x.sum(axis=1) > 0).astype(np.float32) - 1
"""


@pytest.mark.slow
def test_train_takes_a_task_of_the_users_own(elegans_apart, tmp_path):
    (tmp_path / "majority.py").write_text(MAJORITY)
    chosen = ["--task", "majority", "--n", "5", "--width", "20"]
    code, out, err = elegans_apart("train", "--import", "majority.py", *chosen)
    assert code == 0
    assert err.startswith("note: the jax engine trains this") and err.count("\n") == 1
    assert out.splitlines()[-1].startswith("solved at step ")


def test_a_plan_says_that_nothing_is_trained_and_how_long_the_kept_run_took(elegans):
    code, out, _ = elegans("plan", "disjoint-lemmas", "--scale", "paper")
    assert code == 0
    first, second, third = out.splitlines()
    assert first.startswith("disjoint-lemmas at scale paper: 0 trials in 0 cells")
    assert second == "nothing is trained: this experiment only computes"
    assert third.startswith("before ") and third.endswith(" s for the run whose evidence is kept")


def test_the_example_sweep_parses_and_its_text_is_what_is_printed(elegans):
    code, out, _ = elegans("sweep", "--example")
    assert (code, out) == (0, EXAMPLE_TOML)
    assert {"trial", "axes", "seeds"} <= tomllib.loads(out).keys()


def test_the_example_sweep_runs_and_a_second_time_does_nothing_not_even_read_its_table(elegans, store, monkeypatch):
    monkeypatch.delattr("elegans.store.Store.table")
    code, out, _ = elegans("sweep", store.parent / "example.toml", "--store", store)
    assert code == 0
    assert out.splitlines()[-1].startswith("20 of 20 trials done (0 of them by this run")


def test_a_folder_of_results_stands_for_the_store_in_it(elegans, store, tmp_path):
    folder = tmp_path / "results" / "sweep"
    folder.mkdir(parents=True)
    shutil.copy(store, folder / "runs.db")
    assert elegans("status", folder)[1] == elegans("status", folder / "runs.db")[1] != ""
    assert elegans("export", folder, tmp_path / "out.csv")[0] == elegans("check", folder)[0] == 0


def test_status_tells_cells_and_trials(elegans, store):
    code, out, _ = elegans("status", store)
    assert code == 0
    assert "4 of 4 done" in out


def test_a_plan_counts_one_cell_in_the_singular(elegans, tmp_path):
    file = tmp_path / "one.py"
    file.write_text(
        "import elegans as el\n"
        "parts = {'task': el.SparseParity(n=5, k=1), 'regime': 'online', 'model': el.MLP(width=5)}\n"
        "trial = el.Trial(**parts, training=el.SGD(steps=4000))\n"
        "scales = {'smoke': el.experiments.Scale(el.grid(trial, {}), trials=1)}\n"
        "EXPERIMENT = el.Experiment(name='one', shows='', source='', scales=scales, analyse=lambda results: {})\n"
    )
    _, out, err = elegans("plan", "one.py", "--workers", 1)
    assert err == "note: the cells of scale smoke are timed on this machine, usually for less than a minute\n"
    assert out.startswith("one at scale smoke: 1 trial in 1 cell, at most 4,000 training steps\n")
    assert " with 1 worker; " in out and "1 of 1 shape of cells" in out


@pytest.mark.parametrize(("name", "read"), [("out.csv", pd.read_csv), ("out.parquet", pd.read_parquet)])
def test_export_writes_a_row_a_trial(elegans, tmp_path, store, name, read):
    code, _, _ = elegans("export", store, name)
    table = read(tmp_path / name)
    assert code == 0
    assert len(table) == 20
    assert {"model.width", "regime.size", "seed", "state", "solved_at", "test_error", "steps", "seconds"} <= set(table)


def test_export_names_the_suffixes_that_it_knows(elegans, tmp_path, store):
    code, out, err = elegans("export", store, "out.xlsx")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert ".parquet" in err and ".csv" in err and "out.xlsx" in err
    assert list(tmp_path.iterdir()) == []


FAILING = """
import elegans as el

class Failing(el.Model):
    def initialise(self, key, task):
        raise RuntimeError("no such luck")

    def apply(self, parameters, x):
        return x[:, 0]
"""


@pytest.mark.slow
def test_a_failed_trial_is_in_the_last_line_and_in_the_exit_code(elegans_apart, tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    written = EXAMPLE_TOML.replace('kind = "mlp"', 'kind = "failing"').replace("width = 100", "")
    written = written.replace('init = "sparse:2"', "").replace('"model.width" = [10, 100]', "")
    (tmp_path / "my.toml").write_text(written)
    code, out, err = elegans_apart("sweep", "my.toml", "--import", "failing.py", "--workers", "1")
    assert code == 1
    assert "10 failed" in out.splitlines()[-1]
    assert "no such luck" not in out
    assert "10 of 10 trials failed" in err and "RuntimeError: no such luck" in err and "in initialise" in err


def test_a_warning_of_elegans_is_a_line_without_its_place_in_the_code():
    warn = "import warnings, elegans.errors as e; warnings.warn('some failed', e.ElegansWarning); warnings.warn('x')"
    program = f"import sys; sys.argv = ['elegans', '--version']; from elegans.cli import main; main(); {warn}"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
    assert said.startswith("warning: some failed\n") and "UserWarning: x" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (
            "RuntimeError('no such luck')",
            1,
            "error: the trial failed: RuntimeError: no such luck\nTraceback (most recent",
        ),
        ("SystemExit(7)", 2, "error: a class of your own ended the program: SystemExit: 7\n"),
    ],
)
def test_what_a_users_own_class_raises_in_train_is_said_in_a_line(elegans_apart, tmp_path, raised, code, said):
    (tmp_path / "failing.py").write_text(FAILING.replace('RuntimeError("no such luck")', raised))
    ended = elegans_apart(
        "train", *TINY, "--model", "failing", "--set", "model={kind='failing'}", "--import", "failing.py"
    )
    assert ended.code == code
    assert said in ended.err


def test_an_output_that_is_no_longer_read_ends_a_command_silently(elegans, monkeypatch):
    def unread(*_, **__):
        try:
            raise BrokenPipeError
        except BrokenPipeError:
            raise SystemExit(1)  # noqa: B904 (as rich does)

    monkeypatch.setattr("elegans.cli.app.app.main", unread)
    assert elegans("list") == (1, "", "")


def test_run_ends_with_where_things_lie(elegans, tmp_path):
    code, out, _ = elegans("run", "success-frontier", "--scale", "smoke", "--seeds", 1, "--out", "here", "--workers", 1)
    assert code == 0
    folder = tmp_path / "here" / "success-frontier" / "smoke"
    for name in ("figure.png", "figure.pdf", "table.csv", "record.json"):
        assert str(folder.relative_to(tmp_path) / name) in out
        assert (folder / name).stat().st_size > 0
    record = json.loads((folder / "record.json").read_text())
    assert record["command"] == "elegans run success-frontier --scale smoke --seeds 1 --out here --workers 1"
    assert "solved" in out.splitlines()[-1]


def test_doctor_tells_versions_machine_and_engines(elegans):
    code, out, _ = elegans("doctor")
    assert code == 0
    for word in ("versions", "python", "cores", "memory", "instruction set", "fused", "jax", "jax devices"):
        assert word in out


@pytest.mark.slow
def test_bench_prints_one_json_object(elegans, monkeypatch):
    monkeypatch.setattr(bench, "WIDTHS", (10,))
    monkeypatch.setattr(bench, "SECONDS", 0.05)
    code, out, _ = elegans("bench", "--json")
    assert code == 0
    assert out.count("\n") == 1
    measured = json.loads(out)
    assert {rate["width"] for rate in measured["rates"]} == {10}
    assert all(rate["gflops"] > 0 and rate["trials_per_second"] > 0 for rate in measured["rates"])


@pytest.mark.slow
def test_bench_prints_a_row_a_measurement_and_the_peak(elegans, monkeypatch):
    monkeypatch.setattr(bench, "WIDTHS", (10,))
    monkeypatch.setattr(bench, "SECONDS", 0.05)
    code, out, _ = elegans("bench")
    assert code == 0
    assert "GFLOP/s" in out.splitlines()[1]
    assert any(line.startswith("jax") for line in out.splitlines())


@pytest.mark.parametrize(
    "code", ["import elegans", "import elegans.cli", "from elegans import cli; cli.main(['--help'])"]
)
def test_jax_is_not_loaded_before_it_is_needed(code):
    heavy = {"jax", "pandas", "matplotlib", "numpy", "sqlalchemy"}
    check = f"{code}\nimport sys\nfound = {heavy} & set(sys.modules)\nassert not found, found"
    subprocess.run([sys.executable, "-c", check], check=True, capture_output=True)


LONG = EXAMPLE_TOML.replace("seeds = 5", "seeds = 100000").replace("width = 100", "width = 300")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_signals_however_many_end_a_run_soon_and_say_what_is_kept_and_how_to_go_on(tmp_path, interruptible, number):
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("the signal is ignored here, as SIGHUP is under nohup")
    (tmp_path / "long.toml").write_text(LONG)
    command = [sys.executable, "-m", "elegans", "sweep", "long.toml", "--workers", "1"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not outcomes(tmp_path / "long.db") and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(5):
        process.send_signal(number)
    out, err = process.communicate(timeout=30)  # the sweep itself would take many minutes
    assert (process.returncode, err) == (130, "")
    last = out.splitlines()[-1]
    kept = outcomes(tmp_path / "long.db")
    assert kept > 0
    assert last.startswith(f"interrupted: {kept:,} of 400,000 trials are kept in long.db; ")
    assert last.endswith("to continue: elegans sweep long.toml --workers 1")
    assert status_of(tmp_path / "long.db").runs[0].finished


@pytest.mark.parametrize(
    ("done", "store", "said"),
    [
        (2, "runs.db", "interrupted: 2 of 180 trials are kept in runs.db; to continue: elegans verify\n"),
        (
            2,
            None,
            "interrupted: 2 of 180 trials are lost, since no --out names a folder; to start again: elegans verify\n",
        ),
        (None, None, "interrupted: nothing was started; to continue: elegans verify\n"),
    ],
)
def test_an_interrupted_run_says_what_is_kept_or_lost(capsys, done, store, said):
    progress = None if done is None else SimpleNamespace(done=done, trials=180)
    assert interrupted(progress, store, "elegans verify") == 130
    assert capsys.readouterr().out == said


def test_a_small_run_names_the_next_larger_one_with_its_options(elegans):
    code, out, _ = elegans("run", "success-frontier", "--scale", "smoke", "--parts", "large")
    assert code == 0
    assert "the next larger run: elegans run success-frontier --scale laptop --parts large" in " ".join(out.split())


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_ctrl_c_before_a_run_is_one_line(tmp_path, interruptible):
    again = "for _ in range(5):\n    os.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "mine.py").write_text(f"import os, signal\n\n{again}")
    (tmp_path / "my.toml").write_text(f'import = ["mine.py"]\n{EXAMPLE_TOML}')
    command = [sys.executable, "-m", "elegans", "sweep", "my.toml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (
        130,
        "import  mine.py\ninterrupted: nothing was started\n",
        "",
    )
    assert not (tmp_path / "my.db").exists()


def test_a_sweep_announces_what_it_imports_or_refuses_it(elegans, tmp_path):
    (tmp_path / "mine.py").write_text("print('it runs')\n")
    (tmp_path / "my.toml").write_text(f'import = ["mine.py"]\n{EXAMPLE_TOML.replace("seeds = 5", "seeds = 1")}')
    code, out, err = elegans("sweep", "my.toml", "--no-import")
    assert (code, out) == (2, "") and "a sweep file must not import files where imports are refused" in err
    code, out, _ = elegans("sweep", "my.toml")
    assert code == 0 and out.startswith("import  mine.py\nit runs\n")


ATTACKED = """
import os, signal, sys
event, part, left = sys.argv[1], sys.argv[2], [int(sys.argv[3])]
def attack(name, given):
    if name == event and part in str(given[0]) and left[0] >= 0:
        left[0] -= 1
        if left[0] < 0:
            for _ in range(4):
                os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(attack)
if event == "call":
    sys.setprofile(lambda frame, what, _: what == "call" and attack("call", [frame.f_code.co_qualname]))
from elegans.cli import main
sys.argv = ["elegans", *sys.argv[4:]]
sys.exit(main())
"""
"""Runs a command that gets four signals at the n-th event of a kind, counted from 0, whose subject has a part.

Events are those of Python's audit, and calls of functions in the main thread."""


def assert_four_signals_are_one_line(code, out, err):
    if code == 0:
        pytest.fail(f"there was no such moment: {out[-300:]}")
    assert (code, err.strip()) == (130, "")
    assert [line.startswith("interrupted") for line in out.splitlines()].count(True) == 1
    assert out.splitlines()[-1].startswith("interrupted")


@pytest.fixture
def attacked(tmp_path):
    """Write the program that is attacked, and the sweep that it runs; return its command line."""
    (tmp_path / "my.toml").write_text(EXAMPLE_TOML.replace("seeds = 5", "seeds = 20"))
    (tmp_path / "attacked.py").write_text(ATTACKED)
    return lambda event, part, number: ("attacked.py", event, part, str(number), "sweep", "my.toml")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize(("part", "number"), [("threading", 0), ("click", 3), ("numpy", 10), ("sqlalchemy", 20)])
def test_four_signals_while_a_library_is_imported_are_one_line(tmp_path, interruptible, attacked, part, number):
    command = [sys.executable, *attacked("import", part, number)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert_four_signals_are_one_line(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "part", "number"),
    [
        *(("import", name, 0) for name in ("elegans.cli.app", "elegans.sweeps.runner", "elegans.store.status")),
        ("sqlite3.connect", "", 0),
        *(("call", f"Dispatcher.{name}", 0) for name in ("_claim", "_turn", "_commit")),
        *(("call", name, 0) for name in ("ending", "ended", "Store.close", "Engine.dispose")),
        *(("call", "Connection.close", number) for number in (0, 8)),
    ],
)
def test_four_signals_at_any_later_moment_are_one_line(run_apart, tmp_path, attacked, event, part, number):
    assert_four_signals_are_one_line(*run_apart(tmp_path, *attacked(event, part, number)))


def outcomes(path):
    """Return how many trials a store has finished, 0 where it is not there yet."""
    if not path.exists():
        return 0
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return database.execute("select count(*) from trials where state in ('solved', 'unsolved')").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        database.close()


def test_a_learner_that_is_no_network_has_no_training(elegans):
    code, out, _ = elegans("train", "--model", "subset-search", "--n", 20, "--k", 3, "--sample-size", 100)
    assert code == 0
    assert out.splitlines()[-1].startswith("solved at step ")


RUN = ("run", "success-frontier", "--scale", "smoke")


@pytest.mark.slow
def test_what_a_store_has_is_drawn_without_training(elegans, tmp_path):
    for options in (["--seeds", "1"], ["--draw-only"]):
        code, out, _ = elegans(*RUN, *options)
        assert code == 0
        assert "figure.png" in out
    record = json.loads((tmp_path / "results" / "success-frontier" / "smoke" / "record.json").read_text())
    assert record["trials"] == 18
    assert record["command"].endswith("--draw-only")
    code, _, err = elegans(*RUN, "--draw-only", "--out", "elsewhere")
    assert code == 2
    assert err.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(
    "wrong", [["--engine", "fusd"], ["--store", "notes.txt"], ["--seeds", "0"], ["--scale", "lap"]]
)
def test_a_refused_run_leaves_no_folder(elegans, tmp_path, wrong):
    (tmp_path / "notes.txt").write_text("not a store")
    code, _, err = elegans(*RUN, *wrong)
    assert code == 2
    assert err.splitlines()[-1].startswith("error: ")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_small_run_of_tasks_with_other_fields_names_its_cells():
    """Cells of one task lack the columns of the other."""
    trials = pd.DataFrame(
        {
            "task.n": [8, 8, 16],
            "task.link": ["h3", "h3", None],
            "task.sets": [None, None, "[[0]]"],
            "restart": 0,
            "state": ["solved", "solved", "unsolved"],
        }
    )
    seen = _seen(SimpleNamespace(results=SimpleNamespace(trials=trials)))
    assert seen.startswith("2 of 2 trials solved at n = 8") and "0 of 1 trial solved at n = 16" in seen


def test_a_small_run_says_once_what_tells_its_cells_apart():
    """A component's name tells its fields; rates of layers that are equal are one; missing fields are none."""
    trials = pd.DataFrame(
        {
            "model.init": ["dense", "sparse:2"],
            "model.init.nonzeros": [None, 2.0],
            "model.init.convention": ["fan-in", None],
            "training.layers.hidden.learning_rate": [0.1, 0.001 / 3],
            "training.layers.output.learning_rate": [0.1, 0.001 / 3],
            "restart": 0,
            "state": ["solved", "unsolved"],
        }
    )
    seen = _seen(SimpleNamespace(results=SimpleNamespace(trials=trials)))
    assert seen == (
        "1 of 1 trial solved at dense initialisation, learning rate = 0.1; "
        "0 of 1 trial solved at sparse initialisation (2 non-zeros), learning rate = 0.000333333"
    )
