"""Places that cannot be written, or are no files: refused in one line, and nothing that was there is harmed."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest
from laboratory import TRIAL

import elegans as el
from elegans import extensions
from elegans.errors import ElegansError, StoreError, SweepError
from elegans.experiments.record import write_json
from elegans.files import replaced
from elegans.store import Store, connection as opening, export
from elegans.sweeps import Sweep

SWEEP = el.grid(TRIAL, {}, seeds=3)


@pytest.fixture
def filled(tmp_path, toy):
    """A store with three outcomes."""
    toy()
    el.run(SWEEP, tmp_path / "runs.db", engine="toy")
    return tmp_path / "runs.db"


@pytest.mark.slow
def test_a_store_in_a_read_only_place_is_read(filled):
    """SQLite itself needs to make files beside it: here in a mount of its own that forbids it."""
    code = (
        "import sys; from elegans.store import Store; store = Store(sys.argv[1], create=False);"
        "print(len(store.table()), store.status().trials)"
    )
    place = filled.parent
    mount = f'mount --bind {place} {place} && mount -o remount,ro,bind {place} && exec "$@"'
    command = ["unshare", "-rm", "sh", "-c", mount, "sh", sys.executable, "-c", code, str(filled)]
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("this user cannot mount")
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("3 3\n", "")


def test_a_log_beside_a_store_is_never_ignored(filled, monkeypatch):
    """What is in it was committed: only where there is none may a store be read as if nobody could write."""
    with Store(filled) as writer:
        writer.begin(SWEEP)[0].release()
        assert filled.with_name("runs.db-wal").stat().st_size
        assert not opening._only_readable(filled)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_export_that_fails_leaves_the_former_file(filled, tmp_path, monkeypatch, suffix):
    file = tmp_path / f"out{suffix}"

    def write(table, draft, suffix):
        draft.write_text("half of ")
        raise OSError(28, "No space left on device")

    with Store(filled) as store:
        store.export(file)
        before = file.read_bytes()
        monkeypatch.setattr("elegans.store.store.write_table", write)
        with pytest.raises(StoreError, match="an export must go to a writable file: .* .No space left"):
            store.export(file)
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"out{suffix}", "runs.db"]


def test_a_replaced_file_keeps_its_mode_and_a_link_its_target(tmp_path):
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to(target)
    with replaced(link) as draft:
        draft.write_text("after")
    assert link.is_symlink() and target.read_text() == "after" and target.stat().st_mode & 0o777 == 0o640


def test_texts_that_a_spreadsheet_would_compute_are_quoted_and_numbers_are_not(tmp_path):
    import pandas as pd

    table = pd.DataFrame({"=name": ["=1+1", "-x", "@y", "+z", "plain", "-1.5"], "number": [-1.0, 2, 3, 4, 5, 6]})
    export.write_table(table, tmp_path / "out.csv", ".csv")
    read = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert list(read) == ["'=name", "number"]
    assert read["'=name"].tolist() == ["'=1+1", "'-x", "'@y", "'+z", "plain", "-1.5"]
    assert read["number"].tolist() == ["-1.0", "2.0", "3.0", "4.0", "5.0", "6.0"]


def test_a_column_of_mixed_values_is_exported_to_parquet(tmp_path):
    import pandas as pd

    table = pd.DataFrame({"mixed": ["dense", 2, (1, 2), None]})
    export.write_table(table, tmp_path / "out.parquet", ".parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")["mixed"].fillna("none").tolist() == [
        "dense",
        "2",
        "[1, 2]",
        "none",
    ]


@pytest.mark.parametrize("use", [Store, Sweep.from_toml, extensions.load, lambda path: Store().export(path)])
@pytest.mark.parametrize(
    "place", ["fifo", "/dev/full", "folder", "", "a\0b", "x" * 5000, "x" * 300, "~nobody-of-this-name/x"]
)
def test_what_is_no_file_is_refused_at_once(tmp_path, monkeypatch, use, place):
    monkeypatch.chdir(tmp_path)
    if place == "fifo":
        os.mkfifo(tmp_path / place)
    elif place == "folder":
        (tmp_path / place).mkdir()
    with pytest.raises(ElegansError) as raised:
        use(place)
    assert str(raised.value).isprintable() and len(str(raised.value)) < 500


def test_a_store_whose_logs_would_have_too_long_a_name_is_refused(tmp_path):
    with pytest.raises(StoreError, match="a store must be a file that can be opened: .*File name too long"):
        Store(tmp_path / ("x" * 253))


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_log_that_is_no_file_is_refused_at_once(filled, end, make):
    for file in filled.parent.glob("runs.db-*"):
        file.unlink()
    make(f"{filled}{end}")
    for create in (False, True):
        with pytest.raises(StoreError, match=f"a store and its logs must be regular files: .*{end}"):
            Store(filled, create=create)


@pytest.mark.parametrize("query", ["timeout=abc", "timeout=1", "mode=memory2", "cache=shared", "vfs=unix"])
def test_a_url_asks_for_nothing_but_to_read(tmp_path, query):
    with pytest.raises(StoreError, match="the URL of an SQLite file may only ask for mode=ro"):
        Store(f"sqlite:///{tmp_path / 'runs.db'}?{query}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", ["rwc", "rw", "ro"])
def test_a_reader_makes_no_file(tmp_path, mode):
    with pytest.raises(StoreError, match="a store must exist to be read"):
        Store(f"sqlite:///file:{tmp_path / 'runs.db'}?mode={mode}&uri=true", create=False)
    assert not list(tmp_path.iterdir())


def test_a_link_to_itself_is_no_extension_and_is_replaced_by_an_export(filled, tmp_path):
    loop = tmp_path / "loop.py"
    loop.symlink_to(loop)
    with pytest.raises(SweepError, match=r"no such file: .*loop\.py"):
        extensions.load(loop)
    out = tmp_path / "loop.csv"
    out.symlink_to(out)
    with Store(filled) as store:
        assert store.export(out) == 3
    assert out.is_file()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("class Own(BaseException): pass\nraise Own('no')", "line 2: Own: no"),
        ("raise GeneratorExit", "line 1: GeneratorExit"),
        ("class Own(Exception):\n    def __str__(self): return 1 / 0\nraise Own", "line 3: Own"),
        (
            "import elegans as el\nclass Own(el.Task, kind=3): pass",
            "TrialError: the kind of a class must be a printable",
        ),
    ],
)
def test_an_extension_may_raise_whatever_it_likes(tmp_path, code, said):
    (tmp_path / "mine.py").write_text(code)
    with pytest.raises(SweepError, match=f"an extension must import without an error: .*{said}"):
        extensions.load(tmp_path / "mine.py")


@pytest.mark.parametrize("content", [b"x", b"a diary"])
def test_a_file_of_a_few_bytes_is_no_store(tmp_path, content):
    (tmp_path / "mine.db").write_bytes(content)
    with pytest.raises(StoreError, match="a store must be an SQLite file: .*mine.db"):
        Store(tmp_path / "mine.db")
    assert (tmp_path / "mine.db").read_bytes() == content


def test_a_trial_whose_class_ends_the_program_fails_alone(toy, tmp_path, monkeypatch):
    engine = toy()
    init = engine.init

    def ends(trials):
        if any(trial.seed == 1 for trial in trials):
            raise SystemExit(7)
        return init(trials)

    monkeypatch.setattr(engine, "init", ends)
    with pytest.warns(el.errors.ElegansWarning, match="1 of 3 trials failed"):
        table = el.run(SWEEP, tmp_path / "runs.db", engine="toy")
    assert (table["state"] == "failed").tolist() == [False, True, False]


def test_a_record_of_a_path_that_is_no_text_is_written(tmp_path):
    write_json(tmp_path / "record.json", {"store": "runs\udcff.db"})
    assert json.loads((tmp_path / "record.json").read_text(encoding="utf-8")) == {"store": "runs\udcff.db"}


def test_an_extension_that_ends_the_program_is_refused_with_its_line(tmp_path):
    (tmp_path / "mine.py").write_text("import sys\nsys.exit(7)\n")
    with pytest.raises(
        SweepError, match=r"an extension must import without an error: .*mine.py, line 2: SystemExit: 7"
    ):
        extensions.load(tmp_path / "mine.py")


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (10**12, "a sweep must have at most 100,000,000 trials: 1000000000000"),
        (2**63, "a sweep must have at most 100,000,000 trials: 9223372036854775808"),
        (10**30, "a seed must be from 0 to 2^64 - 1: seed=999999999999999999999999999999"),
        (10**5000, "a seed must be from 0 to 2^64 - 1: seed=2^16609 or more"),
        (-(10**5000), "the number of seeds must be at least 1: seeds=-2^16609 or more"),
        (range(0, 2**64, 7), "a sweep must have at most 100,000,000 trials: 2635249153387078803"),
        (range(-5, 10**12), "a seed must be from 0 to 2^64 - 1: seed=-5"),
    ],
    ids=range(7),
)
def test_seeds_are_checked_by_their_ends(seeds, message):
    with pytest.raises(SweepError) as raised:
        el.grid(TRIAL, {}, seeds=seeds)
    assert str(raised.value) == message


def test_a_grid_of_too_many_cells_is_refused_before_they_are_made():
    axes = {"model.width": range(1, 10**4), "regime.size": range(1, 10**4)}
    with pytest.raises(SweepError, match="a grid must have at most 100,000 cells: 99980001"):
        el.grid(TRIAL, axes)


@pytest.mark.parametrize("seeds", [range(10), range(3, 50, 7), range(20, 2, -3), range(2**64 - 5, 2**64), (5, 3, 9)])
def test_seeds_that_follow_a_rule_are_found_without_a_list_of_them(seeds, toy, tmp_path):
    toy()
    sweep = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=seeds)
    table = el.run(sweep, tmp_path / "runs.db", engine="toy")
    assert table["seed"].tolist() == [*seeds] * 2
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        assert connection.execute("SELECT count(*), sum(attempts) FROM trials").fetchone() == (2 * len(seeds),) * 2


@pytest.mark.parametrize("store", ["", "sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
def test_a_commands_store_outlives_it(tmp_path, monkeypatch, capsys, store):
    from elegans.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(el.sweeps.EXAMPLE_TOML)
    for command in (["sweep", "my.toml"], ["run", "success-frontier", "--scale", "smoke"]):
        assert main([*command, "--store", store]) == 2
        assert "a command's store must be a file or a server's database" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["my.toml"]


@pytest.mark.parametrize("store", ["sqlite_memory.db", "sqlite:///memory.db", "sqlite:///memory/runs.db"])
def test_a_file_may_have_memory_in_its_name(store):
    from elegans.cli.common import lasting

    assert lasting(store) == store


def test_a_path_with_a_nul_is_refused_by_the_commands(capsys):
    from elegans.cli import main

    for command in (
        ["export", "runs.db", "a\0.csv"],
        ["sweep", "a\0.toml"],
        ["check", "runs.db", "--import", "a\0.py"],
    ):
        assert main(command) == 2
        assert "must be a path without NUL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite+pysqlcipher://x", "a store in SQLite must be opened by Python's own driver: sqlite.pysqlcipher"),
        ("sqlite+pysqlcipher://:secret@/x.db", "a store in SQLite must be opened by Python's own driver"),
        ("sqlite+aiosqlite:///x.db", "a store in SQLite must be opened by Python's own driver"),
        ("sqlite+nothing:///x.db", "a store in SQLite must be opened by Python's own driver"),
        ("mysql://u:secret@h/x", "the driver of a store's database must be installed: mysql://"),
        ("oracle://h/x", "the driver of a store's database must be installed: oracle://"),
        ("mssql+pyodbc://h/x", "the driver of a store's database must be installed: mssql"),
        ("nonsense://h/x", "the driver of a store's database must be installed: nonsense://"),
        (f"postgresql+psycopg://{'a' * 300}/x", "a store must be "),
    ],
)
@pytest.mark.parametrize("create", [True, False])
def test_a_driver_that_cannot_be_used_is_refused_in_one_line(tmp_path, monkeypatch, url, message, create):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=message) as raised:
        Store(url, create=create)
    assert "\n" not in str(raised.value) and "secret" not in str(raised.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("url", ["sqlite:///b.db?mode=memory", "sqlite:///file:b?mode=memory&cache=shared&uri=true"])
def test_a_url_in_memory_makes_no_file_and_warns_of_nothing(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with Store(url) as store:
        assert len(store.table()) == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_whose_name_is_no_text_is_exported_to(filled, tmp_path, ending):
    place = tmp_path / os.fsdecode(b"\x80." + ending.encode())
    with Store(filled) as store:
        assert store.export(place) == 3
    assert place.is_file()


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), lambda path: path.write_bytes(b"x")])
def test_a_line_break_in_the_name_of_a_store_is_escaped(tmp_path, make):
    make(tmp_path / "a\nb.db")
    with pytest.raises(StoreError, match=r"a\\nb.db"):
        Store(tmp_path / "a\nb.db", create=False)
