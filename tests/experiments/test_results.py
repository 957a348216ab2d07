"""What an analysis receives of a sweep of which not all trials have run."""

import pandas as pd

import elegans as el
from elegans.experiments.results import Results, StoredResults
from elegans.sweeps import Sweep


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
