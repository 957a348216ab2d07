"""Experiments whose frontier is traced."""

import json

import pandas as pd
import pytest

from elegans.cli import main
from elegans.errors import ExperimentError
from elegans.experiments import run_experiment


@pytest.mark.slow
def test_a_traced_frontier_takes_fewer_steps_and_writes_them_down(tmp_path, capsys):
    command = ["run", "success-frontier", "--scale", "smoke", "--adaptive", "--out", str(tmp_path), "--workers", "1"]
    assert main(command) == 0
    folder = tmp_path / "success-frontier" / "smoke"
    for name in ("figure.png", "figure.pdf"):
        assert (folder / name).stat().st_size > 5000
    record, table = json.loads((folder / "record.json").read_text()), pd.read_csv(folder / "table.csv")
    found = record["findings"]
    assert "--adaptive" in record["command"] and record["cells"] == len(table) and record["states"]
    assert [each["panel"] for each in found["contours"]] == ["dense", "sparse:2"]
    assert found["steps"] == sum(each["steps"] for each in found["contours"])
    assert table["regime.size"].notna().all() and (table["trials"] <= 8).all()
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{record['trials']} of {record['trials']} trials done")

    whole = run_experiment("success-frontier", "smoke", out=tmp_path, workers=1)
    offline = whole.trials[whole.trials["regime"] != "online"]
    assert found["steps"] < offline["steps"].sum()

    again = run_experiment("success-frontier", "smoke", out=tmp_path, adaptive=True, workers=1)
    assert again.record["findings"] == found


def test_an_experiment_without_a_grid_is_refused(tmp_path):
    with pytest.raises(ExperimentError, match="must be a grid of several sample sizes and widths: 'lottery-tickets'"):
        run_experiment("lottery-tickets", "smoke", out=tmp_path, adaptive=True)
