"""Columns of an experiment's tables as statistics of its cells: whose a row is, and what a cell has of several rows."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from exploring import outcome
from starlette.testclient import TestClient

import elegans as el
from elegans.analysis import median_interval, wilson
from elegans.errors import ExperimentError
from elegans.experiments import find
from elegans.explorer import verdicts
from elegans.explorer.analysed import statistics_of
from elegans.explorer.cells import Cells
from elegans.explorer.compare import compare
from elegans.explorer.figures import map_record, map_table
from elegans.explorer.server import LOOPBACK, Explored, Explorer, application
from elegans.explorer.statistics import STATISTICS
from elegans.explorer.verdicts import judged
from elegans.explorer.view import View
from elegans.store import Store
from elegans.store.cells import cell_numbers

NAME = "training-curves"
SEEDS = 8
SWEEP = el.Sweep(tuple((cell, tuple(range(SEEDS))) for cell in find(NAME).scale("laptop").cells(1).cells))
KNOWN = {cell.cell: 10 - place for place, cell in enumerate(SWEEP.cells)}
"""Numbers of the cells, the last one's first: a store need not have them in the order of the sweep."""


def given(**columns):
    """Return a table with one row per cell, trial and step, from functions of these."""
    rows = [
        {
            "model.width": cell.model.width,
            "model.init": cell.model.init.label(),
            "regime.size": float(cell.regime.size),
            "seed": seed,
            "step": step,
            **{name: value(place, seed, step) for name, value in columns.items()},
        }
        for place, cell in enumerate(SWEEP.cells)
        for seed in range(SEEDS)
        for step in (5, 10)
    ]
    return pd.DataFrame(rows)


def found(table, name="table"):
    return statistics_of(find(NAME), SWEEP, KNOWN, {name: table})


def test_a_row_per_trial_and_step_gives_the_median_over_trials_at_the_last_step():
    one = found(given(gap=lambda cell, seed, step: cell + seed**2 + (100 if step == 5 else 0)))[f"{NAME}/table/gap"]
    assert one.numbers.tolist() == sorted(KNOWN.values())
    for place, cell in enumerate(SWEEP.cells):
        at = one.numbers.tolist().index(KNOWN[cell.cell])
        taken = place + np.arange(float(SEEDS)) ** 2
        low, high = median_interval(taken)
        own = {
            name: values[at] for name, values in zip(("value", "low", "high", "n"), one.columns.values(), strict=True)
        }
        assert own == {"value": np.median(taken), "low": low, "high": high, "n": SEEDS}
    assert one.statistic.label == f"median of gap ({NAME})"


def test_truth_values_give_the_share_of_trials_with_its_wilson_interval():
    one = found(given(learned=lambda cell, seed, step: seed < cell + 2))[f"{NAME}/table/learned"]
    shares = dict(zip(one.numbers.tolist(), zip(*list(one.columns.values())[:3], strict=True), strict=True))
    assert one.statistic.percent
    for place, cell in enumerate(SWEEP.cells):
        assert shares[KNOWN[cell.cell]] == pytest.approx((min(place + 2, 8) / 8, *wilson(min(place + 2, 8), 8)))


def test_a_row_of_several_cells_is_of_each_of_them_and_keeps_its_own_interval():
    table = given(exponent=lambda cell, seed, step: 0).drop(columns=["seed", "step", "exponent", "model.width"])
    table = table.drop_duplicates().reset_index(drop=True)
    table = table.assign(exponent=np.arange(len(table)), exponent_low=-1.0, exponent_high=table.index + 0.5)
    one = found(table)[f"{NAME}/table/exponent"]
    values = dict(zip(one.numbers.tolist(), zip(*list(one.columns.values())[:3], strict=True), strict=True))
    for cell in SWEEP.cells:
        same = (table["model.init"] == cell.model.init.label()) & (table["regime.size"] == cell.regime.size)
        assert values[KNOWN[cell.cell]] == (table.index[same][0], -1, table.index[same][0] + 0.5)
    assert f"{NAME}/table/exponent_low" not in found(table)


def test_rows_that_say_which_trial_they_are_of_need_no_columns():
    trials = np.arange(len(SWEEP))
    table = pd.DataFrame({"trial": trials, "seed": trials % SEEDS, "mass": trials // SEEDS})
    one = found(table)[f"{NAME}/table/mass"]
    values = next(iter(one.columns.values()))
    assert {KNOWN[cell.cell]: place for place, cell in enumerate(SWEEP.cells)} == dict(
        zip(one.numbers.tolist(), values, strict=True)
    )


def test_columns_that_do_not_tell_cells_apart_are_left_out():
    table = given(same=lambda *_: 1.0, neuron=lambda cell, seed, step: cell, solved_at=lambda cell, *_: cell)
    assert found(table.drop(columns="neuron")) == {}
    assert found(pd.concat([table, table.assign(neuron=9)])) == {}
    assert found(table[["seed", "step", "neuron"]]) == {}
    assert found(table.assign(neuron="text")) == {}


def test_numbers_are_bounded(monkeypatch):
    table = given(**{f"c{place}": lambda cell, *_: cell for place in range(9)})
    monkeypatch.setattr("elegans.explorer.analysed.VALUES", 4 * len(SWEEP.cells))
    assert len(found(table)) == 4
    monkeypatch.setattr("elegans.explorer.analysed.ROWS", 5)
    assert found(table) == {}


def test_values_of_few_trials_have_no_interval_and_say_how_many_they_are_of(tmp_path):
    table = given(delay=lambda cell, seed, step: 1 + cell if seed < 3 and cell else np.nan)
    with Store(tmp_path / "runs.db") as store:
        record(store, NAME, SWEEP)
        with store.engine.connect() as connection:
            known = cell_numbers(connection, KNOWN)
        cells = Cells(store)
        cells.analysed = statistics_of(find(NAME), SWEEP, known, {"table": table})
        view = View.parse({"stat": f"{NAME}/table/delay", "x": "regime.size", "y": "model.width"}, cells)
        traces = [trace for trace in map_record(cells, view)["data"] if trace["type"] == "heatmap"]
        said = [text for trace in traces for row in trace["hovertext"] for text in row if text]
        numbers = map_table(cells, view)
        with pytest.raises(ExperimentError, match="a comparison needs one number per trial"):
            compare({"stat": view.stat}, cells)
        cells.close()
    assert sum("(n = 3, no interval)" in text for text in said) == len(SWEEP.cells) - 1
    assert sum(": no value" in text for text in said) == 1
    assert sorted(numbers[view.stat].dropna()) == list(range(2, len(SWEEP.cells) + 1))


def end(trial):
    """Return an outcome whose time to solve grows as n squared with ReLU networks, as its cube with others."""
    steps = trial.seed + trial.task.n ** (2 if trial.model.kind == "mlp" else 3)
    return replace(outcome(trial), solved_at=steps, steps=10_000, state="solved", error=None)


def record(store, name, sweep, end=outcome):
    run, _ = store.begin(sweep, name=name)
    run.record([end(trial) for trial in run.claim(sweep)])
    run.release()


@pytest.fixture
def scaling(tmp_path):
    """A store of an experiment whose tables name a cell by its network."""
    with Store(tmp_path / "runs.db") as store:
        record(store, "noisy-scaling", find("noisy-scaling").scale("smoke").cells(4), end)
    return str(tmp_path / "runs.db")


def test_the_tables_of_a_recognised_experiment_are_statistics_of_its_map(scaling):
    name = "noisy-scaling/table/exponent"
    explored = Explored(scaling)
    with TestClient(application(Explorer([explored]), LOOPBACK, None), base_url="http://127.0.0.1") as client:
        reply = client.get("/api/map", params={"stat": name})  # as a link: nothing has been judged yet
        known = {one["name"]: one["compared"] for one in client.get("/api/overview").json()["stores"][0]["statistics"]}
        unknown = client.get("/api/map", params={"stat": "noisy-scaling/table/<b>"})
    (experiment,), statistics = judged(explored.store, explored.cells)
    explored.close()
    assert reply.status_code == 200, reply.text
    assert reply.json()["view"]["stat"] == name
    assert {one: compared for one, compared in known.items() if compared} == dict.fromkeys(STATISTICS, True)
    assert set(known) == {*STATISTICS, *statistics} and name in known
    assert unknown.status_code == 400 and unknown.json()["error"].startswith("unknown statistic")
    assert experiment["scale"] == "smoke"
    kinds = explored.cells.table["model"].eq("mlp")
    assert statistics[name].column(name, explored.cells.numbers) == pytest.approx(np.where(kinds, 2, 3), abs=0.1)
    figure = el.explore(scaling, stat=name)
    assert [trace.type for trace in figure.data] == [one["type"] for one in reply.json()["figure"]["data"]]


def test_statistics_are_made_once_for_each_change_of_the_store(scaling, monkeypatch):
    made = []
    monkeypatch.setattr(verdicts, "statistics_of", lambda *given: made.append(1) or statistics_of(*given))
    explored = Explored(scaling)
    assert not made  # nothing is analysed before a page asks
    assert explored.verdicts.latest() and not explored.refresh().analysed  # it is being analysed
    assert "noisy-scaling/table/exponent" in explored.having("noisy-scaling/table/exponent").statistics
    for _ in range(3):
        explored.verdicts.latest()
        time.sleep(0.05)
    assert len(made) == 1
    assert explored.refresh().analysed is explored.verdicts.statistics and explored.verdicts.version == 1
    explored.close()
