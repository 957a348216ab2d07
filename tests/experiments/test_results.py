"""What an analysis receives of a sweep of which not all trials have run."""

import pandas as pd
import pytest

import elegans as el
from elegans.experiments import EXPERIMENTS
from elegans.experiments.results import Results, StoredResults, summary_by
from elegans.sweeps import Sweep

DRAW_NOTHING = {"character-condition", "tabular-data"}
EXACT_ON_ALL_DRAWS = {"dense-classifier", "leap-table"}
"""Experiments whose draws satisfy statements exactly: at scale smoke their tables are the same for every first seed."""
COMPUTING = {name for name, one in EXPERIMENTS.items() if not len(one.scale("smoke").cells(1))}


def test_the_rows_of_trials_belong_to_the_trials_that_ran():
    one = el.Trial(
        task=el.SparseParity(n=4, k=2),
        regime="online",
        model=el.MLP(width=2),
        training=el.SGD(steps=2, batch_size=2, stopping={"examples": 10, "every": 1}),
    )
    whole = el.grid(one, {"model.width": [2, 3]}, seeds=3)
    narrow, wide = whole.cells
    with el.Store() as store:
        el.run(Sweep(((narrow, (2,)), (wide, (0, 2)))), store)
        results = StoredResults(store, whole)
        described = [results.trial(place) for place in results.trials.index]
        by_cell = [(cell, list(rows["seed"])) for cell, rows in results.by_cell("state")]
        totals = store.totals(whole)
    assert [(trial.model.width, trial.seed) for trial in described] == [(2, 2), (3, 0), (3, 2)]
    assert list(results.trials["model.width"]) == [2, 3, 3] and list(results.trials["seed"]) == [2, 0, 2]
    assert results.sweep == whole
    assert by_cell == [(narrow, [2]), (wide, [0, 2])]
    assert totals["trials"].sum() == 3 and totals["seconds"].sum() == results.trials["seconds"].sum()


def test_cells_are_those_of_the_table_whether_it_is_in_memory_or_in_a_store(monkeypatch):
    monkeypatch.setattr("elegans.store.queries.ROWS_AT_ONCE", 4)  # several bundles
    one = el.Trial(
        task=el.SparseParity(n=4, k=2),
        regime="online",
        model=el.MLP(width=2),
        training=el.SGD(steps=2, batch_size=2, stopping={"examples": 10, "every": 1}),
    )
    sweep = el.grid(one, {"model.width": [5, 2, 3, 4]}, seeds=3)
    with el.Store() as store:
        table = el.run(sweep, store)
        el.run(sweep.shifted(1000), store)  # other seeds of the same cells
        held, read = Results(table, sweep=sweep), StoredResults(store, sweep)
        names = ("state", "solved_at", "seconds")
        for (cell, rows), (same, again) in zip(held.by_cell(*names), read.by_cell(*names), strict=True):
            assert cell == same
            pd.testing.assert_frame_equal(rows, again)
        assert store.totals(sweep)["trials"].sum() == len(sweep)


def test_measures_have_the_columns_of_their_trials_beside_them():
    trials = pd.DataFrame({"seed": [5, 6], "model.width": [10, 30], "solved_at": [100.0, None]})
    measures = pd.DataFrame({"trial": [0, 0, 1], "seed": [5, 5, 6], "step": [0, 50, 0], "share": [0.1, 0.9, 0.2]})
    rows = Results(trials, {"support-share": measures}).measured("support-share", "model.width", "solved_at")
    assert list(rows) == ["trial", "seed", "step", "share", "model.width", "solved_at"]
    assert list(rows["model.width"]) == [10, 10, 30]


def test_findings_are_named_by_the_values_of_their_groups_in_order():
    table = pd.DataFrame({"network": ["wide", "wide", "narrow"], "rate": [0.1, 0.1, 1.0], "steps": [5, 7, 9]})
    found = summary_by(table, ["network", "rate"], "{}, rate {:g}", trials=len, steps=lambda rows: rows["steps"].max())
    assert found == {"wide, rate 0.1": {"trials": 2, "steps": 7}, "narrow, rate 1": {"trials": 1, "steps": 9}}
    assert list(summary_by(table, "network", "{}", trials=len)) == ["wide", "narrow"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(COMPUTING - DRAW_NOTHING - EXACT_ON_ALL_DRAWS))
def test_experiments_without_trials_draw_from_the_runs_first_seed(name):
    def tables(first_seed):
        results = Results(pd.DataFrame(), scale="smoke")
        results.first_seed = first_seed
        return EXPERIMENTS[name].analyse(results)

    first, fresh = tables(0), tables(1000)
    assert first.keys() == fresh.keys()
    assert any(not first[table].equals(fresh[table]) for table in first)
