"""What a command may write: a new file or a regular one, and never the store that it reads."""

import ast
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from benchmarks import record
from matplotlib.figure import Figure

import elegans as el
from elegans.cli import app
from elegans.errors import ElegansError
from elegans.experiments import Results, find
from elegans.experiments.base import Result
from elegans.store.export import write_table


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A store whose name could be that of an export."""
    store = tmp_path_factory.mktemp("outputs") / "runs.csv"
    trial = el.Trial(
        task=el.SparseParity(n=5, k=1), regime=el.Online(), model=el.MLP(width=2), training=el.SGD(steps=2)
    )
    el.run(el.grid(trial, {}, seeds=2), store)
    return store


def same_file(folder, store, how):
    """Return a path that leads to the store's file, or to SQLite's files beside it."""
    place = folder / "out.csv"
    if how == "itself":
        return store
    if how == "a link":
        place.symlink_to(store)
    elif how == "a hard link":
        os.link(store, place)
    elif how == "another spelling":
        return store.parent / ".." / store.parent.name / store.name
    else:
        place = store.with_name(store.name + how)
    return place


@pytest.mark.parametrize("how", ["itself", "a link", "a hard link", "another spelling", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("command", ["export", "report"])
def test_an_output_is_never_the_store_that_is_read(kept, tmp_path, how, command, capsys):
    place, before = same_file(tmp_path, kept, how), kept.read_bytes()
    if command == "export" and how.startswith("-"):
        pytest.skip("an export ends in .csv or .parquet")
    arguments = [str(kept), str(place)] if command == "export" else [str(kept), "-o", str(place)]
    assert app.run([command, *arguments]) == 2
    assert "must not go to the store that it is made from" in capsys.readouterr().err
    assert kept.read_bytes() == before
    with el.Store(kept) as store:
        assert len(store.table()) == 2


@pytest.mark.parametrize("what", ["a folder", "a FIFO", "a device", "a link to a device", "a socket"])
@pytest.mark.parametrize("command", ["export", "report"])
def test_an_output_is_a_regular_file(kept, tmp_path, what, command, capsys):
    place = tmp_path / "out.csv"
    if what == "a folder":
        place.mkdir()
    elif what == "a FIFO":
        os.mkfifo(place)
    elif what == "a socket":
        import socket

        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(str(place))
    else:
        place.symlink_to(os.devnull)
    before = os.lstat(place)
    arguments = [str(kept), str(place)] if command == "export" else [str(kept), "-o", str(place)]
    assert app.run([command, *arguments]) == 2
    assert "must go to a regular file" in capsys.readouterr().err
    assert os.lstat(place)[:3] == before[:3]


def test_a_link_to_a_regular_file_is_written_through(kept, tmp_path):
    real = tmp_path / "real.csv"
    real.write_text("earlier")
    link = tmp_path / "link.csv"
    link.symlink_to(real)
    assert app.run(["export", str(kept), str(link)]) == 0
    assert link.is_symlink()
    assert len(real.read_text().splitlines()) == 3


@pytest.mark.parametrize("name", ["figure.png", "record.json"])
def test_a_run_writes_its_results_over_nothing_but_files(tmp_path, name, capsys):
    place = tmp_path / "first-steps" / "smoke" / name
    place.mkdir(parents=True)
    assert app.run(["run", "first-steps", "--scale", "smoke", "--out", str(tmp_path)]) == 2
    assert "a file of results must go to a regular file" in capsys.readouterr().err


def test_a_run_writes_no_result_over_its_store(tmp_path, capsys):
    store = tmp_path / "success-frontier" / "smoke" / "figure.png"
    store.parent.mkdir(parents=True)
    arguments = ["run", "success-frontier", "--scale", "smoke", "--out", str(tmp_path), "--store", str(store)]
    assert app.run(arguments) == 2
    assert "must not go to the store that it is made from" in capsys.readouterr().err


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder of an experiment's results."""
    folder = tmp_path_factory.mktemp("results")
    assert app.run(["run", "coarse-optimum", "--scale", "smoke", "--out", str(folder)]) == 0
    return folder / "coarse-optimum"


@pytest.mark.parametrize("name", ["runs.db", "runs.db-wal", "smoke/record.json"])
def test_a_report_is_never_written_over_the_results_that_it_shows(results, name, capsys):
    before = (results / name).read_bytes() if (results / name).exists() else None
    assert app.run(["report", str(results), "-o", str(results / name)]) == 2
    assert "that it is made from" in capsys.readouterr().err
    assert ((results / name).read_bytes() if (results / name).exists() else None) == before


class Half(Exception):
    """What interrupts the writing of a file."""


def test_an_extra_file_that_is_half_written_leaves_the_old_one(tmp_path):
    def half(tables, path):
        path.write_text("half")
        raise Half

    experiment = replace(find("first-steps"), extras={"extra.txt": half}, plot=lambda tables: Figure())
    record = {"failed": 0, "interrupted": 0, "verdicts": {}}
    result = Result(experiment, Results(pd.DataFrame(), scale="laptop"), {}, record, tmp_path)
    (tmp_path / "extra.txt").write_text("earlier")
    with pytest.raises(Half):
        result.write()
    assert (tmp_path / "extra.txt").read_text() == "earlier"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["extra.txt", "record.json"]


@pytest.mark.parametrize("what", ["a folder", "a FIFO", "a device"])
def test_a_benchmark_refuses_its_result_before_it_measures(tmp_path, what):
    place = tmp_path / "start.json"
    {"a folder": place.mkdir, "a FIFO": lambda: os.mkfifo(place), "a device": lambda: place.symlink_to(os.devnull)}[
        what
    ]()
    with pytest.raises(ElegansError, match="a benchmark's result must go to a regular file"):
        record.destination(tmp_path, "start")


OF_PATHS = ("write_text", "write_bytes")
OF_ARGUMENTS = ("to_csv", "to_parquet", "savefig", "savez", "savez_compressed")
"""Methods that write to the path whose they are, and to their first argument."""


def test_the_package_writes_files_only_as_drafts_that_replace_them():
    """A draft is what `replaced` yields; experiments' extras and the writers of tables are given one."""
    given_drafts = {"attention_page", "maps", "write_table", "write_csv"}
    bare = []
    for path in sorted(Path(el.__file__).parent.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text if any(map(text.__contains__, (*OF_PATHS, *OF_ARGUMENTS))) else "")
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            drafts = {
                item.optional_vars.id
                for node in ast.walk(function)
                if isinstance(node, ast.With)
                for item in node.items
                if isinstance(item.optional_vars, ast.Name)
                and getattr(getattr(item.context_expr, "func", None), "id", "") == "replaced"
            }
            for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
                method = getattr(call.func, "attr", "")
                if method in OF_PATHS:
                    target = call.func.value
                elif method in OF_ARGUMENTS and call.args:
                    target = call.args[0]
                else:
                    continue
                if function.name not in given_drafts and getattr(target, "id", "") not in drafts | {"image"}:
                    bare.append(f"{path.name}:{call.lineno}")
    assert bare == []


def test_a_path_that_the_system_cannot_encode_is_refused():
    with pytest.raises(ElegansError, match=r"a store must be a path that this system can encode: x.ud800"):
        el.Store(Path("x\ud800"))


def test_a_removed_folder_is_named_in_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert app.run(["report", "x"]) == 2
    assert capsys.readouterr().err == "error: the current folder must exist: it has been removed\n"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_long_error_text_is_cut_in_a_file(tmp_path, ending):
    table = pd.DataFrame({"state": ["failed", "solved"], "error": ["x" * 10**6, None]})
    write_table(table, tmp_path / f"out.{ending}", f".{ending}")
    assert (tmp_path / f"out.{ending}").stat().st_size < 20_000
    assert len(table["error"][0]) == 10**6
