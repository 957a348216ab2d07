"""Repeating recorded runs."""

import json
import shutil

import pandas as pd
import pytest

from elegans.cli import main
from elegans.errors import ElegansError, ExperimentError
from elegans.experiments import run_experiment
from elegans.experiments.rerun import read, rerun

RECORD = '{"experiment": "success-frontier", "scale": "smoke", "first_seed": 0, %s}'


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder of a run of eight cells with four trials each, on other seeds than usual."""
    out = tmp_path_factory.mktemp("kept")
    result = run_experiment("success-frontier", "smoke", out=out, seeds=2, first_seed=30, workers=2)
    return result.folder


def test_the_record_names_build_arguments_and_trials(kept):
    record = json.loads((kept / "record.json").read_text())
    assert record["arguments"] == {"seeds": 2, "adaptive": False, "engine": "auto", "options": {}}
    assert set(record["build"]) == {"source", "native"}
    assert record["build"]["source"].startswith(("commit ", "wheel ", "unknown"))
    assert len(record["identities"]) == 64


@pytest.mark.slow
def test_a_rerun_gives_the_same_trials_and_tables(kept, tmp_path, capsys):
    found = rerun(kept / "record.json", out=tmp_path, workers=2)
    assert found.within == () and found.around == {}
    assert found.result.record["first_seed"] == 30
    assert main(["rerun", str(kept / "record.json"), "--workers", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "the results are the same: 36 trials"


@pytest.mark.slow
def test_a_rerun_says_what_differs(kept, tmp_path, capsys):
    folder = tmp_path / "other"
    shutil.copytree(kept, folder, ignore=shutil.ignore_patterns("*.db*"))
    record = json.loads((folder / "record.json").read_text())
    record["versions"]["jax"], record["build"]["native"] = "0.1", "0" * 12
    record["states"], record["identities"] = {"solved": 36}, "f" * 64
    first = next(iter(record["verdicts"]))
    record["verdicts"][first]["verdict"] = "fails"
    (folder / "record.json").write_text(json.dumps(record))
    table = pd.read_csv(folder / "table.csv")
    table.loc[[1, 4], "rate"] -= [0.25, 0.5]
    table.to_csv(folder / "table.csv", index=False)
    assert main(["rerun", str(folder / "record.json"), "--out", str(tmp_path / "new"), "--workers", "2"]) == 1
    said = capsys.readouterr().out
    now = record["versions"]
    for line in (
        "versions jax: 0.1 before, ",
        "build native: 000000000000 before, ",
        "identities: ffffffffffff before, ",
        'states: {"solved": 36} before, {"',
        f"verdict of {first}: fails before, ",
        "table table: rate in 2 of ",
        "by at most 0.5\nthe results differ: 36 trials\n",
    ):
        assert line in said, (line, said, now)


@pytest.mark.slow
def test_a_rerun_says_which_table_is_damaged_and_compares_the_rest(kept, tmp_path):
    folder = tmp_path / "other"
    shutil.copytree(kept, folder, ignore=shutil.ignore_patterns("*.db*"))
    (folder / "table.csv").write_text("")
    found = rerun(folder / "record.json", out=tmp_path / "new", workers=2)
    assert found.within == ("table table: table.csv cannot be read: No columns to parse from file",)


def test_evidence_can_be_repeated():
    from elegans.experiments.evidence import collected

    kept = next(one for one in collected() if (one.experiment, one.scale) == ("success-frontier", "smoke"))
    record = read(kept.path)
    assert record["arguments"]["options"] == {} and record["first_seed"] == 1000 and record["verdicts"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"a record must be readable: .* \(No such file or directory\)"),
        ("{", "a record must be JSON written by a run: .*JSONDecodeError"),
        ("[]", "a record must be JSON written by a run: .*"),
        ('{"record": {"experiment": "success-frontier"}}', "a record must be JSON written by a run: .*KeyError"),
        ('{"experiment": "success-frontier"}', "a record must come from a run: .*: Record needs 'scale'"),
        (RECORD % '"arguments": {"seeds": "many"}', "arguments.seeds must be a valid integer: arguments.seeds='many'"),
        (RECORD % '"arguments": {"speed": 1}', "Record has no field 'arguments.speed'"),
        (RECORD % '"verdicts": [1]', "verdicts must be a valid dictionary"),
        (RECORD % '"verdicts": {"one": 3}', "verdicts.one must be a valid dictionary: verdicts.one=3"),
        (
            '{"experiment": "x", "scale": "smoke", "first_seed": 0, "command": "elegans run x --draw-only"}',
            "a record must come from a run: .*--draw-only",
        ),
        ('{"experiment": "x", "scale": "smoke", "first_seed": 0}', "unknown experiment"),
    ],
)
def test_what_is_no_record_is_refused(text, message, tmp_path):
    if text is not None:
        (tmp_path / "record.json").write_text(text)
    with pytest.raises(ExperimentError, match=message):
        rerun(tmp_path / "record.json", out=tmp_path / "new")


def test_a_rerun_does_not_write_over_its_record(kept):
    with pytest.raises(ExperimentError, match="out must not be the folder of the record"):
        rerun(kept / "record.json", out=kept.parents[1])


@pytest.mark.parametrize("field", ["experiment", "scale"])
def test_a_record_with_half_a_character_is_refused_in_one_line(tmp_path, field):
    record = {"experiment": "first-steps", "scale": "smoke", "first_seed": 0} | {field: "\ud800"}
    (tmp_path / "record.json").write_text(json.dumps(record))
    with pytest.raises(ElegansError) as raised:
        rerun(tmp_path / "record.json", out=tmp_path / "out")
    assert str(raised.value).isprintable()
    assert not (tmp_path / "out").exists()
