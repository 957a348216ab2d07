"""Curves of several cells: the medians of each, named by what varies between them."""

import json

import numpy as np
import pytest
from exploring import filled, outcome
from laboratory import TRIAL

import elegans as el
from elegans.errors import ExperimentError
from elegans.explorer.cells import Cells
from elegans.explorer.several import MOST, several_record
from elegans.store import Store
from elegans.training import ErrorCurve


def lines(record):
    """Return the curves of a figure that the legend names: values by name."""
    return {
        one["name"]: one["y"]
        for one in record["figure"]["data"]
        if "median" not in one and one.get("showlegend") is None
    }


def test_cells_are_named_by_what_varies_between_them_and_the_title_has_the_rest(store, cells):
    record = json.loads(json.dumps(several_record(store, cells, [9, 1], "minibatch error"), allow_nan=False))
    assert record["cells"] == [1, 9]  # in the order of the axes
    assert [row["name"] for row in record["rows"]] == ["m = 100, width 10", "m = 300, width 20"]
    assert list(lines(record)) == [f"{row['name']} (8 trials)" for row in record["rows"]]
    assert record["title"] == "minibatch error, init dense"


def test_each_curve_is_the_median_over_the_trials_of_its_cell(tmp_path):
    def end(trial):
        errors = [0.5, trial.model.width / 100 + trial.seed / 1000]
        curve = ErrorCurve(step=[1, 10], loss=[1.0, 0.5], train_error=[0.5, 0.0], test_error=errors)
        return outcome(trial).__class__(**{**vars(outcome(trial)), "errors": curve})

    with Store(
        filled(tmp_path / "runs.db", el.grid(TRIAL, {"model.width": [10, 20]}, seeds=5), end), create=False
    ) as store:
        record = several_record(store, Cells(store), [1, 2])
        assert record["what"] == "held-out error" and record["known"][:2] == ["held-out error", "train error"]
        assert {name: one[-1] for name, one in lines(record).items()} == pytest.approx(
            {"width 10 (5 trials)": 0.102, "width 20 (5 trials)": 0.202}
        )
        assert record["figure"]["layout"]["xaxis"]["type"] == "log"


def test_measures_that_are_numbers_can_be_laid_over_each_other_too(store, cells):
    record = several_record(store, cells, [1, 2], "probe.gap")
    assert [one[-1] for one in lines(record).values()] == [np.median(range(8))] * 2
    assert not {"probe.row", "probe.map"} & set(record["known"])


def test_one_cell_is_named_by_all_that_varies_in_the_store(store, cells):
    (row,) = several_record(store, cells, [3])["rows"]
    assert row["name"] == cells.name(3) and row["rate"] == "85.7%" and row["trials"] == "7"


@pytest.mark.parametrize(
    ("numbers", "message"),
    [([], "1 to 12"), (range(1, MOST + 2), "a cell must be|1 to 12"), ([99], "must be in the store")],
)
def test_none_too_many_or_unknown_cells_are_refused(store, cells, numbers, message):
    with pytest.raises(ExperimentError, match=message):
        several_record(store, cells, numbers)
