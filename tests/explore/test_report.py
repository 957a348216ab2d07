"""The report: one file with all answers in it, of bounded size, in which no text becomes markup."""

import base64
import gzip
import json
import os
import re

import pytest
from invented import TRIAL, fill, outcome, sweep

import elegans as el
from elegans.cli import main
from elegans.errors import ExperimentError, StoreError
from elegans.explorer import report
from elegans.explorer.report import write_report
from elegans.store import Store

SMALL = {"model.width": [10, 30], "regime.size": [100, 300], "training.learning_rate": [0.05, 0.1]}
ENDING = "</script><script>window.owned = 1</script><!--"


@pytest.fixture(autouse=True)
def little(monkeypatch):
    """Drawing many maps takes a while."""
    monkeypatch.setattr(report, "MAPS", 60_000)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    trials = sweep(SMALL, seeds=4)
    return fill(tmp_path_factory.mktemp("reported") / "runs.db", trials, {1: f"ValueError: {ENDING}\n"})


def answers(file):
    """Return what the page of a report reads."""
    text = file.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="report">(.*?)</script>', text, re.DOTALL)
    told = json.loads(found[1])
    packed = told["cells"]
    return told | {"cells": {name: json.loads(gzip.decompress(base64.b64decode(one))) for name, one in packed.items()}}


def test_a_report_has_maps_of_each_statistic_and_value_and_every_cell_with_its_trials(store, tmp_path):
    written = write_report(store, tmp_path / "report.html")
    found = answers(tmp_path / "report.html")
    shown = {(one["view"]["stat"], tuple(one["view"]["at"].items())) for one in found["maps"]}
    statistics = {one["name"] for one in found["overview"]["stores"][0]["statistics"]}
    assert {name for name, _ in shown} == statistics
    assert written.kept == written.cells == len(found["cells"]) == 8
    assert written.size == (tmp_path / "report.html").stat().st_size
    assert all(len(cell["trials"]) == 4 for cell in found["cells"].values())
    assert found["cells"]["1"]["measures"][1] in found["cells"]["1"]["measured"]
    assert found["csv"].count("\n") == 9


def test_its_text_cannot_end_a_script_and_only_its_own_scripts_may_run(store, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "MAPS", 1)
    write_report(store, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text.count("</script>") == text.count("<script") == 2 + len(report.SCRIPTS)
    assert ENDING not in text and ENDING in answers(tmp_path / "report.html")["cells"]["1"]["failures"][0]["traceback"]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy and policy.count("'sha256-") == 1 + len(report.SCRIPTS)
    assert re.search(r"script-src[^;]*unsafe", policy) is None
    assert not re.search(r'(src|href)="(?!data:)', text.partition('id="report"')[0])


def test_curves_are_thinned_to_the_points_that_the_report_states(store, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "POINTS", (5,))
    written = write_report(store, tmp_path / "report.html")
    found = answers(tmp_path / "report.html")
    assert written.points == 5 and found["record"]["curves"] == f"at most {written.points} points each"
    figures = [one["figure"] for cell in found["cells"].values() for one in cell["figures"] if one["name"] == "curves"]
    lines = [line for figure in figures for line in figure["data"]]
    assert max(len(line["x"]) for line in lines) == written.points


@pytest.mark.slow
def test_cells_for_which_there_is_no_room_are_left_out_and_counted(store, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "CELLS", 20_000)
    monkeypatch.setattr(report, "MAPS", 1)
    written = write_report(store, tmp_path / "report.html")
    found = answers(tmp_path / "report.html")
    assert written.points == report.POINTS[-1]
    assert 0 < written.kept == len(found["cells"]) < written.cells == 8 and written.maps == 1
    assert found["record"]["cells"] == f"{written.kept} of 8 with curves and trials"


@pytest.mark.parametrize(
    ("value", "kept"), [(1 / 3, 0.33333), (2000.0, 2000), (123_456.0, 123_456), (1.23456789e-9, 1.2346e-09)]
)
def test_numbers_keep_five_digits_and_whole_numbers_all(value, kept):
    assert report.short({"figure": [value]}) == {"figure": [kept]}


@pytest.mark.slow
def test_results_of_an_experiment_bring_their_record_and_verdicts_with_statements(tmp_path, capsys):
    folder = tmp_path / "success-frontier"
    folder.mkdir()
    fill(folder / "runs.db", sweep(SMALL, seeds=2))
    claim = next(iter(el.experiments.registry.entries()["success-frontier"].claims))
    record = {"experiment": "success-frontier", "scale": "smoke", "seconds": float("nan"), "command": "elegans run"}
    verdict = {"verdict": "holds", "because": "every row rises", "numbers": {}}
    for scale, seconds in (("smoke", 2e9), ("laptop", 1e9)):
        (folder / scale).mkdir()
        file = folder / scale / "record.json"
        file.write_text(
            json.dumps({**record, "scale": scale, "verdicts": {claim.id: verdict}, "machine": {"cpu": "x"}})
        )
        os.utime(file, (seconds, seconds))
    for place, scale in ((folder / "laptop", "laptop"), (folder, "smoke")):  # the latest
        assert main(["report", str(place), "-o", str(tmp_path / "report.html")]) == 0
        assert "8 of 8 with trials and curves" in capsys.readouterr().out
        assert answers(tmp_path / "report.html")["record"]["scale"] == scale
    found = answers(tmp_path / "report.html")
    experiment = found["overview"]["stores"][0]["experiments"][0]
    assert (experiment["name"], experiment["scale"]) == ("success-frontier", "smoke")
    assert experiment["verdicts"] == [{"id": claim.id, "verdict": "holds", "because": "every row rises"}]
    assert found["claims"] == {claim.id: claim.statement}
    assert found["record"]["machine.cpu"] == "x" and found["record"]["seconds"] is None


def test_a_folder_without_a_record_and_a_place_that_cannot_be_written_are_refused(store, tmp_path):
    with pytest.raises(ExperimentError, match=r"must have a record\.json"):
        write_report(tmp_path, tmp_path / "report.html")
    with pytest.raises(StoreError):
        write_report(tmp_path / "none.db", tmp_path / "report.html")
    with pytest.raises(ExperimentError, match="must go to a writable file"):
        write_report(store, tmp_path / "no" / "folder.html")


def test_the_report_of_a_sweep_without_axes_and_of_one_with_running_trials_is_written(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        run, _ = store.begin(sweep({}, seeds=3), name="one cell")
        claimed = run.claim(sweep({}, seeds=3))
        run.record([outcome(claimed[0])])
        assert write_report(tmp_path / "runs.db", tmp_path / "report.html").kept == 1
        run.release()
    assert TRIAL.task.kind in answers(tmp_path / "report.html")["cells"]["1"]["copy"]["toml"]
