"""Runs are sent to an experiment tracker; the tests of Weights & Biases run where it is installed, offline."""

import json
from pathlib import Path

import pytest

import elegans as el
from elegans.errors import SweepError

TRIAL = el.Trial(
    task=el.SparseParity(n=8, k=2),
    regime=el.Online(),
    model=el.MLP(width=5),
    training=el.SGD(steps=40, stopping=el.StoppingRule(examples=50, every=20, stop=False)),
)
SWEEP = el.grid(TRIAL, {"model.width": [4, 5]}, seeds=2)


def test_an_unknown_tracker_is_refused_before_anything_is_trained(tmp_path):
    with pytest.raises(SweepError, match="track must be wandb or None: track='wanbd'"):
        el.run(SWEEP, store=tmp_path / "runs.db", track="wanbd")
    assert not (tmp_path / "runs.db").exists()


def test_a_tracker_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(SweepError, match=r"needs wandb: pip install 'elegans\[wandb\]'"):
        el.run(SWEEP, track="wandb")


@pytest.fixture
def wandb(monkeypatch, tmp_path):
    module = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    return module


def tables(folder, name):
    files = folder.glob(f"wandb/offline-run-*/files/media/table/{name}_*.table.json")
    return [json.loads(file.read_text()) for file in files]


@pytest.mark.filterwarnings("default")
def test_a_run_sends_its_cells_and_curves(wandb, tmp_path):
    table = el.run(SWEEP, store=tmp_path / "runs.db", track="wandb", name="small", progress=False)
    assert len(table) == 4 and wandb.run is None
    (cells,) = tables(tmp_path, "cells")
    width = cells["columns"].index("model.width")
    assert [row[width] for row in cells["data"]] == [4, 5]
    (curves,) = tables(tmp_path, "curves")
    assert curves["columns"] == ["cell", "seed", "step", "loss", "error"]
    with el.Store(tmp_path / "runs.db") as store:
        curve = store.outcome(SWEEP.trial(0)).curve
    assert [row[3] for row in curves["data"] if row[0] == "cell 0"] == curve.loss


@pytest.mark.filterwarnings("default")
def test_an_experiment_sends_its_figure_and_a_run_of_the_user_is_continued(wandb, tmp_path):
    with wandb.init(project="mine", dir=tmp_path) as run:
        el.run_experiment("success-frontier", "smoke", out=tmp_path, seeds=1, track="wandb")
        assert wandb.run is run
        assert run.summary["verdicts"] is not None
        assert list(Path(run.dir).glob("media/images/figure_*.png"))
