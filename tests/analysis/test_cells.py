"""From a row a trial to a row a cell."""

import math
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import elegans as el
from elegans.analysis import bootstrap_interval, median, median_interval, quantile, summarise_cells, wilson
from elegans.analysis.aggregation import _varies
from elegans.errors import AnalysisError, ExperimentError


def trials(init="dense", size=1000.0, width=10, times=(200.0,), states=None, **others):
    """A table of trials of one cell; a time of NaN is unsolved."""
    states = states or ["unsolved" if math.isnan(time) else "solved" for time in times]
    return pd.DataFrame(
        [
            {
                "task": "sparse-parity",
                "task.n": 50,
                "task.k": 3,
                "task.support": None,
                "regime": "online" if size is None else f"sample:{size:.0f}",
                "regime.size": math.nan if size is None else size,
                "model": "mlp",
                "model.width": width,
                "model.init": init,
                "model.init.nonzeros": 2 if init == "sparse:2" else math.nan,
                "training": "sgd",
                "training.learning_rate": 0.1,
                "training.layers": {},
                **others,
                "seed": seed,
                "state": state,
                "solved_at": time,
            }
            for seed, (time, state) in enumerate(zip(times, states, strict=True))
        ]
    )


def test_a_cell_has_its_rate_interval_and_censored_median():
    row = summarise_cells(trials(times=[200, 400, 600, math.nan])).iloc[0]
    assert (row.trials, row.solved, row.rate, row.median_steps, row.failed) == (4, 3, 0.75, 500, 0)
    assert (row.low, row.high) == pytest.approx(wilson(3, 4))


def test_failed_and_interrupted_trials_are_left_out_and_counted():
    states = ["solved", "failed", "interrupted", "unsolved", "diverged"]
    row = summarise_cells(trials(times=[200, math.nan, math.nan, math.nan, math.nan], states=states)).iloc[0]
    assert (row.trials, row.solved, row.failed) == (3, 1, 2)


def test_a_cell_without_an_answer_has_no_rate():
    row = summarise_cells(trials(times=[math.nan], states=["failed"])).iloc[0]
    assert (row.trials, row.failed) == (0, 1)
    assert np.isnan([row.rate, row.low, row.high, row.median_steps]).all()


def test_parameters_are_the_basics_and_what_varies():
    table = pd.concat([trials(), trials(init="sparse:2"), trials(**{"training.learning_rate": 0.2})])
    found = summarise_cells(table)
    assert list(found)[:-7] == [
        "task",
        "task.n",
        "task.k",
        "regime",
        "regime.size",
        "model",
        "model.init",
        "model.width",
        "training.learning_rate",
    ]
    assert len(found) == 3


def test_cells_are_ordered_by_numbers_with_online_last():
    table = pd.concat([trials(size=size, width=width) for width in (100, 30) for size in (None, 10000.0, 600.0)])
    found = summarise_cells(table)
    assert list(found["model.width"]) == [30, 30, 30, 100, 100, 100]
    assert list(found["regime"])[:3] == ["sample:600", "sample:10000", "online"]


def test_an_empty_table_has_no_cells():
    assert summarise_cells(trials().iloc[:0]).empty


def test_a_table_without_states_is_refused():
    with pytest.raises(ExperimentError, match="must have a column 'state'"):
        summarise_cells(trials().drop(columns="state"))


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([10, 100]),
            st.sampled_from([300.0, None]),
            st.sampled_from([math.nan, 200.0, 400.0, 600.0]),
            st.sampled_from(["as it is", "failed"]),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_cells_agree_with_counting_one_by_one(drawn):
    cells = defaultdict(list)
    for width, size, time, state in drawn:
        end = state if state == "failed" else "unsolved" if math.isnan(time) else "solved"
        cells[width, size].append((math.nan if end == "failed" else time, end))
    columns = [(cell, *zip(*ends, strict=True)) for cell, ends in cells.items()]
    rows = [trials(width=width, size=size, times=times, states=ends) for (width, size), times, ends in columns]
    table = pd.concat(rows).sample(frac=1, random_state=0)
    for _, row in summarise_cells(table).iterrows():
        size = None if math.isnan(row["regime.size"]) else row["regime.size"]
        mine = [item for item in drawn if item[:2] == (row["model.width"], size)]
        times = np.array([time for *_, time, state in mine if state != "failed"], float)
        assert (row["trials"], row["failed"]) == (len(times), len(mine) - len(times))
        assert row["solved"] == np.isfinite(times).sum()
        assert row["median_steps"] == pytest.approx(median(times), nan_ok=True)


def test_medians_have_the_intervals_and_quantiles_that_are_asked_for():
    times, nothing = [200, 300, 400, 600, 800, math.nan], [math.nan]
    table = pd.concat([trials(times=times), trials(width=30, times=nothing, states=["failed"])])
    shares = {"tenth": 0.1, "most": 0.9}
    order, resampled = (summarise_cells(table, intervals=kind, quantiles=shares) for kind in ("order", "bootstrap"))
    ends = bootstrap_interval(np.array(times), generator=np.random.default_rng(0))
    for found, expected, without in ((order, median_interval(np.array(times)), 0), (resampled, ends, math.nan)):
        first, second = found.iloc[0], found.iloc[1]
        assert (first.median_low, first.median_high) == expected
        np.testing.assert_equal([second.median_low, second.median_high], [without, math.inf])
        assert (first.tenth, math.isnan(first.most)) == (quantile(np.array(times), 0.1), True)
        assert np.isnan([second.tenth, second.most]).all()


def test_cells_may_be_made_by_some_columns_and_then_keep_the_order_of_trials():
    table = pd.concat([trials(width=width, size=size) for width in (100, 30) for size in (None, 600.0)])
    found = summarise_cells(table, by=["model.width", "training.layers"])
    assert list(found)[:2] == ["model.width", "training.layers"]
    assert found["model.width"].tolist() == [100, 30] and found["trials"].tolist() == [2, 2]
    with pytest.raises(ExperimentError, match=r"must have a column 'model.widht'"):
        summarise_cells(table, by=["model.widht"])


def test_a_table_of_cells_has_no_intervals_of_times():
    with pytest.raises(ExperimentError, match="must have a column 'state'"):
        summarise_cells(summarise_cells(trials()), intervals="order")


def test_a_store_s_sums_give_the_same_cells_as_its_trials(tmp_path):
    trial = el.Trial(
        task=el.SparseParity(n=12, k=2),
        regime=el.Online(),
        model=el.MLP(width=10),
        training=el.SGD(steps=400, stopping=el.StoppingRule(every=50, examples=200)),
    )
    with el.Store(tmp_path / "runs.db") as store:
        sweep = el.grid(trial, {"regime": ["sample:50", "sample:500", "online"], "model.width": [4, 30]}, seeds=3)
        table = el.run(sweep, store)
        summed = el.analysis.summarise_cells(store.cells_table())
    pd.testing.assert_frame_equal(el.analysis.summarise_cells(table), summed, check_dtype=False)


def test_intervals_of_another_name_are_refused():
    table = pd.DataFrame({"seed": [0], "state": ["solved"], "solved_at": [4.0], "model.width": [10]})
    with pytest.raises(AnalysisError, match="intervals must be order or bootstrap: intervals=''"):
        summarise_cells(table, intervals="")


def test_a_parameter_varies_unless_its_component_determines_it():
    rows = pd.DataFrame({"model.init": ["a", "b", "b"], "model.init.scale": [1, 2, 3]})
    assert _varies(rows, "model.init.scale")
    assert not _varies(rows.iloc[:2], "model.init.scale")
