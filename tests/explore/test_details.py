"""One cell: what is shown is what the store has, bounded, and what is copied makes the same trial again."""

import json
import shlex
import tomllib
from dataclasses import replace

import pytest
from exploring import SWEEP, changed, filled, outcome
from laboratory import TRIAL

import elegans as el
from elegans.cli.app import app
from elegans.errors import ExperimentError, StoreError
from elegans.explorer import details
from elegans.explorer.cells import Cells
from elegans.explorer.details import cell_record, trials_table
from elegans.explorer.snippets import copies, more_seeds
from elegans.store import Store

TRIALS = {
    "defaults": TRIAL,
    "other kinds": TRIAL.replace("model.init", "sparse:2").replace("training.loss", "square").replace("seed", 2**63),
    "a restart": TRIAL.replace("restart", 3),
    "a learner": el.Trial(
        task=el.SparseParity(n=8, k=2), regime=el.Sample(50), model=el.learners.SubsetSearch(), training=None
    ),
}


def test_a_cells_record_is_json_with_all_that_the_store_has(store, cells):
    found = json.loads(json.dumps(cell_record(store, cells, 4), allow_nan=False))
    assert found["counts"] == {
        "trials": 7,
        "solved": 6,
        "unsolved": 1,
        "diverged": 0,
        "failed": 1,
        "interrupted": 0,
        "running": 0,
        "missing": 0,
    }
    assert [one["name"] for one in found["figures"]] == ["curves", "survival", "measure"]
    assert found["measures"] == ["probe.gap", "probe.row", "probe.map"]
    assert found["trials_total"] == len(found["trials"]) == 8
    assert found["trials"][0] == {
        "seed": 7,
        "state": "failed",
        "solved_at": None,
        "test_error": None,
        "seconds": 8.0,
        "error": "ValueError: <script>alert(1)</script>",
    }
    assert [one["seed"] for one in found["failures"]] == [7]
    assert found["failures"][0]["traceback"].endswith("ValueError: <script>alert(1)</script>")
    own = cells.row(4)
    assert found["columns"]["model.width"] == own["model.width"] and "trials" not in found["columns"]


@pytest.mark.parametrize(
    ("measure", "kind"), [("probe.gap", "scatter"), ("probe.row", "heatmap"), ("probe.map", "heatmap")]
)
def test_a_measure_is_drawn_as_what_it_is(store, cells, measure, kind):
    figure = cell_record(store, cells, 1, measure=measure)["figures"][-1]
    assert (figure["title"], figure["figure"]["data"][0]["type"]) == (measure, kind)


@pytest.mark.parametrize(("cell", "measure"), [(99, None), (1, "probe.nothing")])
def test_what_there_is_not_is_refused(store, cells, cell, measure):
    with pytest.raises(ExperimentError, match="a cell must be in|a measure must be recorded"):
        cell_record(store, cells, cell, measure=measure)


def test_a_cell_whose_trial_is_another_one_s_is_refused(place, store, cells):
    changed(place, "UPDATE cells SET trial=(SELECT trial FROM cells WHERE id=2) WHERE id=1")
    for read in (lambda: cell_record(store, cells, 1), lambda: trials_table(store, 1)):
        with pytest.raises(StoreError, match="the trial of a cell must have the cell's hash"):
            read()


def test_a_measure_beyond_the_range_of_floats_is_not_drawn(tmp_path):
    def end(trial):
        return replace(outcome(trial), measures={"probe": {"step": [0, 10], "gap": [1, 10**400]}})

    with Store(filled(tmp_path / "runs.db", el.grid(TRIAL, {}, seeds=1), end), create=False) as found:
        record = cell_record(found, Cells(found), 1)
    assert [one["name"] for one in record["figures"]] == ["curves", "survival"]


def test_what_is_read_of_a_large_cell_is_bounded(tmp_path, monkeypatch):
    for name, most in (("LISTED", 20), ("DRAWN", 5), ("TRACED", 2), ("LONGEST", 10)):
        monkeypatch.setattr(details, name, most)

    def end(trial):
        return outcome(trial) if trial.seed % 2 else replace(outcome(trial.with_seed(7)), trial=trial)

    sweep = el.Sweep(((SWEEP.cells[0], tuple(range(40))),))
    with Store(filled(tmp_path / "runs.db", sweep, end), create=False) as store:
        found = cell_record(store, Cells(store), 1)
    assert (len(found["trials"]), found["trials_total"], len(found["failures"])) == (20, 40, 2)
    assert all(len(one["traceback"]) == 10 for one in found["failures"])
    curves = found["figures"][0]["figure"]["data"]
    assert len([trace for trace in curves if trace.get("name", "").startswith("seed")]) == 2 * 5


def test_the_table_of_a_cells_trials_is_that_of_the_store(store):
    own = trials_table(store, 1)
    table = store.table()
    whole = table[(table["model.width"] == 10) & (table["regime"] == "sample:100") & (table["model.init"] == "dense")]
    for name in ("seed", "state", "solved_at", "test_error", "seconds", "error"):
        assert [None if value != value else value for value in own[name]] == [
            None if value != value else value for value in whole[name]
        ]


@pytest.mark.parametrize("trial", TRIALS.values(), ids=TRIALS)
def test_python_toml_and_command_make_the_same_trial(trial, monkeypatch):
    found = copies(json.loads(trial.model_dump_json(exclude={"seed"})), trial.seed)
    assert el.Trial.from_toml(found["toml"]) == trial
    names = {}
    exec(found["python"].replace("outcome = el.train(trial)", ""), names)
    assert names["trial"] == trial
    made = []
    monkeypatch.setattr("elegans.cli.commands.training._train", lambda trial, *_: made.append(trial) or 0)
    words = shlex.split(found["command"])[1:]
    app.main(words, prog_name="elegans", standalone_mode=False, obj=words)
    assert made == [trial]


@pytest.mark.parametrize(
    ("value", "toml"),
    [({"a": [1, "b"], "c": None}, '{"a" = [1, "b"]}'), (float("inf"), "inf"), ((True,), "[true]")],
)
def test_a_value_of_any_form_is_copied_on_one_line_of_toml(value, toml):
    record = {"task": {"kind": "my-own", "value": value}, "seed": 0}
    words = shlex.split(copies(record, 3)["command"])
    (setting,) = [word for word in words if word.startswith("task=")]
    assert tomllib.loads(f"value = {toml}") == {"value": tomllib.loads(setting)["task"]["value"]}


def test_a_trial_of_a_class_that_is_not_imported_can_be_copied():
    record = json.loads(TRIAL.model_dump_json(exclude={"seed"}))
    record["task"] = {"kind": "my-own", "text": 'a"""b\\'}
    found = copies(record, 3)
    assert tomllib.loads(found["toml"])["task"] == record["task"]
    compile(found["python"], "copied", "exec")


def test_the_command_for_more_seeds_trains_further_seeds_of_the_cell(store, tmp_path):
    command = cell_record(store, Cells(store), 1)["more"]
    head, *lines, end, call = command.splitlines()
    assert (head, end) == ("cat > cell-1.toml <<'END'", "END")
    assert call == f"elegans sweep cell-1.toml --store {store.place}"
    sweep = el.Sweep.from_toml("\n".join(lines))
    assert [template.cell for template in sweep.cells] == [SWEEP.cells[0].cell]
    assert sweep.seeds == tuple(range(8, 28))
    quoted = more_seeds(json.loads(TRIAL.model_dump_json(exclude={"seed"})), "my runs.db", 1, 0)
    assert quoted.endswith("--store 'my runs.db'")
