"""Committed evidence is judged again: what differs is shown, and kept with a reason."""

import json
import os
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from elegans import discovery
from elegans.cli import app
from elegans.errors import ClaimError
from elegans.experiments import EXPERIMENTS, evidence, registry, rejudge as module
from elegans.experiments.base import Result
from elegans.experiments.checks import COMPUTED
from elegans.experiments.claims import Claim, Verdict
from elegans.experiments.rejudge import _same as same, keep_rejudged, rejudge
from elegans.experiments.results import Results
from elegans.experiments.rules import table

THRESHOLD = 0.4


def by_mean(tables):
    mean = float(table(tables, "table", "a table")["x"].mean())
    return Verdict(
        "holds" if mean > THRESHOLD else "fails", f"the mean is {mean:.3g}", {"mean": mean, "all": [mean, None]}
    )


CLAIM = Claim(id="made/mean", statement="It is large.", source="figure 1", rule="By its mean.", decide=by_mean)
EXPERIMENT = replace(EXPERIMENTS["lottery-tickets"], name="made", scales={"paper": COMPUTED}, claims=(CLAIM,))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A study with one piece of evidence, whose claim holds."""
    study = next(iter(discovery.studies().values()))._replace(name="made", folder=tmp_path)
    monkeypatch.setattr(discovery, "studies", lambda: {"made": study})
    monkeypatch.setattr(module, "find", lambda name: EXPERIMENT)
    entry = registry.ClaimEntry("made/mean", "It is large.", "figure 1", "made", "made")
    monkeypatch.setattr(registry, "find_claim", lambda name: entry)
    tables = {"table": pd.DataFrame({"x": np.linspace(0, 1, 1000)})}
    record = {"failed": 0, "interrupted": 0, "command": "elegans run made", "date": "2026-01-01", "seconds": 1.0}
    record |= {"training_seconds": 1.0, "machine": {"cores": 2}}
    evidence.keep(Result(EXPERIMENT, Results(pd.DataFrame(), scale="paper"), tables, record, tmp_path), "made", {})
    yield tmp_path / "evidence"
    evidence.of_folder.cache_clear()


def kept(folder):
    return json.loads((folder / "made.paper.json").read_text())["verdicts"]["made/mean"]


def said(capsys, *arguments):
    code = app.run(["rejudge", *arguments])
    out, err = capsys.readouterr()
    return code, re.sub(r"verdict in [\d.]+ m?s:", "verdict in 0 s:", out + err).splitlines()


def test_equal_verdicts_are_counted(folder, capsys):
    before = kept(folder)
    assert [one.differences for one in rejudge()] == [[]]
    code, lines = said(capsys)
    assert (code, len(lines)) == (0, 1)
    assert lines[0].startswith("1 verdict in 0 s: 1 equal, 0 differ, 0 cannot be judged")
    assert said(capsys, "--write")[0] == 0
    assert kept(folder) == before


def test_a_changed_threshold_changes_version_and_verdict_which_are_kept_with_a_reason(folder, capsys, monkeypatch):
    before = kept(folder)
    monkeypatch.setitem(by_mean.__globals__, "THRESHOLD", 0.6)
    code, lines = said(capsys, "made/mean")
    assert (code, lines[:2]) == (1, ["made/mean (made.paper)", "  verdict: holds before, fails now"])
    assert kept(folder) == before
    assert said(capsys, "--write") == (2, [*lines[:2], said(capsys)[1][2], lines_of_refusal()])
    assert kept(folder) == before
    assert said(capsys, "--write", "--reason", "a stricter threshold")[0] == 0
    now = kept(folder)
    assert (now["verdict"], now["rule"] != before["rule"]) == ("fails", True)
    (trail,) = now["rejudged"]
    assert (trail["reason"], trail["differences"]) == ("a stricter threshold", ["verdict: holds before, fails now"])
    monkeypatch.setitem(by_mean.__globals__, "THRESHOLD", 0.4)
    assert said(capsys, "--write", "--reason", "the earlier threshold")[0] == 0
    assert [one["reason"] for one in kept(folder)["rejudged"]] == ["a stricter threshold", "the earlier threshold"]


def lines_of_refusal():
    return "error: a reason must be given to keep verdicts that differ: reason=''"


def test_a_rule_of_the_same_meaning_is_kept_without_a_reason(folder, capsys, monkeypatch):
    """The threshold 0.45 decides alike; only the rule's version differs."""
    before = kept(folder)
    monkeypatch.setitem(by_mean.__globals__, "THRESHOLD", 0.45)
    assert said(capsys, "--write")[0] == 0
    now = kept(folder)
    assert {**now, "rule": ""} == {**before, "rule": ""}
    assert now["rule"] != before["rule"]


@pytest.mark.parametrize(
    ("before", "differences"), [(0.4, ["numbers.all[0]: 0.4 before, 0.5 now"]), (0.5 + 1e-7, []), (0.5 + 1e-4, 1)]
)
def test_numbers_that_differ_by_more_than_rounding_are_shown(folder, before, differences):
    path = folder / "made.paper.json"
    content = json.loads(path.read_text())
    content["verdicts"]["made/mean"]["numbers"]["all"] = [before, None]
    evidence.write(path, content)
    (one,) = rejudge(study="made")
    assert differences in (one.differences, len(one.differences))


def test_a_difference_that_cancels_to_nothing_is_equal_on_machines_that_round_otherwise():
    assert same(-1.20469e-16, -1.11022e-16)
    assert not same(1e-12, 1e-14)


def test_a_table_that_is_not_whole_is_an_error_and_never_a_verdict(folder, capsys):
    path = folder / "made.paper.json"
    content = json.loads(path.read_text())
    content["tables"]["table"]["rows"] = 5000
    evidence.write(path, content)
    (one,) = rejudge()
    assert (one.now, one.refusal) == (
        None,
        "a table of evidence must be whole: made.paper.csv has 1000 of 5000 rows",
    )
    assert said(capsys)[0] == 1
    before = kept(folder)
    assert said(capsys, "--write")[0] == 1
    assert kept(folder) == before


def test_an_installation_without_the_tables_says_so(folder, capsys):
    (folder / "made.paper.csv").unlink()
    code, lines = said(capsys)
    assert code == 1
    assert "which are in the repository but not in an installed wheel" in lines[1]


def test_a_verdict_without_its_claim_cannot_be_judged(folder, monkeypatch):
    monkeypatch.setattr(module, "find", lambda name: replace(EXPERIMENT, claims=()))
    assert next(rejudge()).refusal == "a verdict must belong to a claim of its experiment"


def test_wrong_options_are_refused(folder, capsys):
    assert said(capsys, "--reason", "none")[0] == 2
    assert "unknown study 'other'" in said(capsys, "--study", "other")[1][0]
    with pytest.raises(ClaimError, match="a reason must be given"):
        keep_rejudged([replace(next(rejudge()), now={"verdict": "fails", "error_rate": 0.02, "numbers": {}})], " ")


@pytest.fixture
def altered(tmp_path, monkeypatch):
    """Copies of one piece of evidence of a study, the only evidence there is, and a function that runs a command."""
    study = discovery.studies()["xor_two_phases"]
    folder = tmp_path / "evidence"
    folder.mkdir()
    for file in (study.folder / "evidence").glob("xor-few-examples.paper.*"):
        shutil.copy(file, folder)
    monkeypatch.setattr(
        evidence,
        "discovery",
        SimpleNamespace(studies=lambda: {"xor_two_phases": study._replace(folder=tmp_path)}, own_studies=dict),
    )
    evidence.of_folder.cache_clear()
    yield folder / "xor-few-examples.paper.json", folder / "xor-few-examples.paper.csv"
    evidence.of_folder.cache_clear()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("verdicts",), [], r"it.verdicts=\[\]"),
        (("verdicts",), {"xor/x": None}, "it.verdicts.xor/x=None"),
        (("record",), {}, "it.record has no command"),
        (("record", "seconds"), "1", "it.record.seconds='1'"),
        (("record", "machine"), {"cores": None}, "it.record.machine.cores=None"),
        (("options",), {"\x1b[2J": 1}, r"it.options.\\x1b\[2J=1"),
        (("tables",), {"table": {"file": "x.csv"}}, "it.tables.table has no rows"),
        (("experiment",), True, "it.experiment=True"),
        (("record", "seconds"), 10**400, "it.record.seconds="),
        (("record", "training_seconds"), float("nan"), "it.record.training_seconds=nan"),
    ],
)
def test_altered_records_are_refused_in_one_line(altered, capsys, path, value, said):
    record, _ = altered
    content = json.loads(record.read_text())
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    record.write_text(json.dumps(content))
    for command in (["claims"], ["rejudge"], ["list"]):
        evidence.of_folder.cache_clear()
        assert app.run(command) == 2
        refusal = capsys.readouterr().err
        assert re.match(f"error: evidence must be as a run wrote it: xor-few-examples.paper.json: {said}", refusal)
        assert refusal.count("\n") == 1


@pytest.mark.parametrize("text", ["[" * 10**5, "\ud800".encode("utf-8", "surrogatepass"), b"\0", "{", "[]", b""])
def test_a_damaged_record_is_refused_in_one_line(altered, capsys, text):
    altered[0].write_bytes(text.encode() if isinstance(text, str) else text)
    assert app.run(["claims"]) == 2
    assert capsys.readouterr().err.startswith("error: evidence must ")


@pytest.mark.parametrize("how", ["bytes", "columns", "words", "rows", "another folder", "a FIFO"])
def test_an_altered_table_is_a_claim_that_cannot_be_judged(altered, capsys, how):
    record, table = altered
    lines = table.read_text().splitlines()
    if how == "bytes":
        table.write_bytes(b"\xff\0" * 100)
    elif how == "columns":
        table.write_text("\n".join(["x" * 5, *lines[1:]]) + "\n")
    elif how == "words":
        table.write_text("\n".join([lines[0], *(re.sub("[0-9.]+", "x", line) for line in lines[1:])]) + "\n")
    elif how == "rows":
        table.write_text("\n".join(lines[:-1]) + "\n")
    elif how == "another folder":
        record.write_text(record.read_text().replace(table.name, f"../evidence/{table.name}"))
    else:
        table.unlink()
        os.mkfifo(table)
    assert app.run(["rejudge"]) == 1
    said = capsys.readouterr()
    assert said.err == "" and ": 0 equal, " in said.out
