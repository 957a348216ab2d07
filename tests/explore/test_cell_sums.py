"""The cells of a store: what the database adds up is what the trials say, and what changes is read."""

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from exploring import SWEEP, changed, filled, outcome
from laboratory import TRIAL

import elegans as el
from elegans.analysis import median, median_interval, wilson
from elegans.errors import StoreError
from elegans.explorer.cells import Cells
from elegans.store import Store
from elegans.training import Outcome

STATISTICS = (
    "trials",
    "solved",
    "failed",
    "rate",
    "low",
    "high",
    "median_steps",
    "median_low",
    "test_error",
    "seconds",
)


def test_every_statistic_is_that_of_the_trials(store, cells):
    table = store.table()
    assert len(cells.table) == 12
    for _, row in cells.table.iterrows():
        own = table[(table["model.width"] == row["model.width"]) & (table["regime"] == row["regime"])]
        own = own[own["model.init"] == row["model.init"]]
        ended = own[own["state"] != "failed"]
        assert (row["trials"], row["solved"], row["failed"], row["ended"]) == (7, 6, 1, 8)
        assert (row["low"], row["high"]) == wilson(6, 7)
        assert row["median_steps"] == median(ended["solved_at"].to_numpy())
        assert (row["median_low"], row["median_high"]) == median_interval(ended["solved_at"].to_numpy())
        assert row["test_error"] == pytest.approx(ended["test_error"].mean())
        assert row["seconds"] == pytest.approx(own["seconds"].mean())


def test_the_interval_of_a_mean_is_students(cells):
    from scipy.stats import t

    seconds = 1.0 + np.arange(8)
    low, high = t.interval(0.95, 7, seconds.mean(), seconds.std(ddof=1) / np.sqrt(8))
    row = cells.table.iloc[0]
    assert (row["seconds_low"], row["seconds_high"]) == (pytest.approx(max(low, 0)), pytest.approx(high))


def test_a_table_of_trials_has_the_same_cells(store, cells):
    own = Cells.of_table(store.table())
    key = ["model.width", "regime", "model.init"]
    one, other = (each.table.sort_values(key).reset_index(drop=True) for each in (cells, own))
    names = list(STATISTICS)
    pd.testing.assert_frame_equal(one[names], other[names], check_dtype=False)
    assert [(axis.name, axis.texts) for axis in own.axes] == [(axis.name, axis.texts) for axis in cells.axes]


def test_axes_are_the_swept_parameters_with_a_component_as_its_label_or_its_only_number(cells):
    found = {axis.name: axis.texts for axis in cells.axes}
    assert found == {
        "regime.size": ("100", "300", "online"),
        "model.width": ("10", "20"),
        "model.init": ("dense", "sparse:2"),
    }
    assert [axis.numeric for axis in cells.axes] == [axis.name != "model.init" for axis in cells.axes]


def test_parameters_that_differ_together_are_one_axis(tmp_path):
    sweep = el.grid(TRIAL, {"model.width": [10]}) + el.grid(
        TRIAL.replace("training.learning_rate", 0.5), {"model.width": [20]}
    )
    with Store(filled(tmp_path / "runs.db", sweep), create=False) as store:
        assert [axis.name for axis in Cells(store).axes] == ["model.width"]


def test_a_cells_place_on_each_axis_is_that_of_its_value(cells):
    for (_, row), codes in zip(cells.table.iterrows(), cells.codes, strict=True):
        named = {axis.name: axis.texts[code] for axis, code in zip(cells.axes, codes, strict=True)}
        assert named["model.width"] == str(row["model.width"])
        assert named["regime.size"] == row["regime"].removeprefix("sample:")
        assert named["model.init"] == row["model.init"]


def test_nothing_is_read_where_nothing_was_committed(cells, monkeypatch):
    monkeypatch.setattr(type(cells.store.database), "read", None)
    assert not cells.refresh()
    assert cells.version == 1


def test_a_commit_of_another_process_is_noticed_and_its_cell_added_up_again(place, cells):
    before = cells.table
    changed(
        place, "UPDATE trials SET state='unsolved', solved_at=NULL, recorded=? WHERE cell=3 AND seed=0", time.time()
    )
    assert cells.refresh()
    assert cells.version == 2
    assert cells.table.loc[3, "solved"] == 5
    others = cells.table.index != 3
    pd.testing.assert_frame_equal(cells.table[others], before[others])
    assert before.loc[3, "solved"] == 6


def test_an_outcome_that_another_process_stamped_earlier_is_read(place, cells):
    with cells.store.engine.connect() as connection:
        latest = connection.exec_driver_sql("SELECT max(recorded) FROM trials").scalar()
    assert not cells.refresh()
    earlier = latest - 5
    changed(place, "UPDATE trials SET state='unsolved', solved_at=NULL, recorded=? WHERE cell=2 AND seed=1", earlier)
    cells.refresh()
    assert cells.table.loc[2, "solved"] == 5


def test_deltas_one_after_the_other_give_what_a_whole_read_gives(tmp_path):
    path = tmp_path / "runs.db"
    with Store(path) as writer, Store(path, create=False) as reader:
        run, _ = writer.begin(SWEEP)
        cells = Cells(reader)
        trials = list(SWEEP)
        for first in range(0, len(trials), 17):
            claimed = run.claim(trials[first : first + 17])
            run.record([outcome(trial) for trial in claimed])
            cells.refresh()
            assert cells.column("ended").sum() == first + len(claimed)
        pd.testing.assert_frame_equal(cells.table, Cells(reader).table)
        assert cells.ended_by(run.number) == len(trials)
        run.release()
        cells.close()


def test_trials_of_a_living_run_are_running_and_the_rest_of_its_sweep_is_missing(tmp_path):
    path = tmp_path / "runs.db"
    with Store(path) as writer, Store(path, create=False) as reader:
        run, _ = writer.begin(SWEEP)
        run.claim(list(SWEEP)[:3])
        cells = Cells(reader)
        assert cells.column("running").tolist() == [3] + [0] * 11
        assert cells.column("missing").tolist() == [5] + [8] * 11
        run.release()
        assert cells.refresh()
        assert cells.column("running").sum() == 0
        cells.close()


def test_cells_of_a_later_run_are_found(place, cells):
    more = el.grid(TRIAL, {"model.width": [40]}, seeds=2)
    filled(place, more)
    assert cells.refresh()
    assert len(cells.table) == 13
    assert cells.axis("model.width")[1].texts == ("10", "20", "40")
    assert cells.table.iloc[-1]["trials"] == 2


def test_a_large_store_is_added_up_in_parts(place, cells, monkeypatch):
    monkeypatch.setattr("elegans.explorer.cells.MANY", 1)
    with Store(place, create=False) as store:
        pd.testing.assert_frame_equal(Cells(store).table, cells.table)


def test_the_store_is_not_changed(place):
    before, content = Path(place).stat(), Path(place).read_bytes()
    with Store(place, create=False) as store:
        cells = Cells(store)
        cells.refresh()
        cells.close()
    assert Path(place).read_bytes() == content
    assert Path(place).stat().st_mtime_ns == before.st_mtime_ns


def test_a_store_that_disappears_gives_one_line(place, cells):
    Path(place).unlink()
    with pytest.raises(StoreError, match="a store must exist to be read: .*runs.db"):
        cells.refresh()


def test_a_store_that_takes_the_place_of_another_is_read(place, cells, tmp_path):
    other = filled(tmp_path / "other.db", el.grid(TRIAL, {"model.width": [5]}, seeds=3))
    Path(other).replace(place)
    assert cells.refresh()
    assert len(cells.table) == 1


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE trials SET cell=99 WHERE cell=1", "a trial must belong to a cell of the store: cell 99"),
        ("UPDATE cells SET columns='[' WHERE id=1", "a value in a store must fit its column: .*EOF"),
        ("UPDATE cells SET columns='[1]' WHERE id=1", "a value in a store must fit its column"),
    ],
)
def test_damage_gives_one_line(place, statement, message):
    changed(place, statement)
    with Store(place, create=False) as store, pytest.raises(StoreError, match=message):
        Cells(store)


def test_an_empty_store_and_one_without_outcomes_have_cells_without_statistics(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        assert len(Cells(store).table) == 0
        run, _ = store.begin(SWEEP)
        found = Cells(store).table
        assert found["rate"].isna().all() and (found["missing"] == 8).all()
        run.release()


def test_only_the_columns_of_the_trial_and_the_statistics_are_in_the_table(cells):
    assert {name for name in cells.table if "." not in name} > {"task", "model", "trials", "running", "missing"}


def test_a_trial_that_was_never_solved_counts_as_infinite(tmp_path):
    def end(trial):
        return Outcome(trial, "unsolved", steps=4, test_error=0.5, seconds=1.0, engine="toy")

    place = filled(tmp_path / "runs.db", el.grid(TRIAL, {}, seeds=8), end)
    with Store(place, create=False) as store:
        row = Cells(store).table.iloc[0]
    assert np.isnan(row["median_steps"]) and np.isinf(row["median_low"]) and np.isinf(row["median_high"])
