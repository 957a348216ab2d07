"""Comparisons: which trials stand on either side, and what their difference is."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from exploring import filled, outcome
from laboratory import TRIAL

import elegans as el
from elegans.analysis.differences import newcombe
from elegans.errors import ExperimentError
from elegans.explorer import compare as comparing
from elegans.explorer.cells import Cells
from elegans.explorer.compare import compare
from elegans.explorer.differences import difference_record, differences_in_words
from elegans.explorer.view import View
from elegans.store import Store

WIDTHS = el.grid(TRIAL, {"model.width": [10, 20]}, seeds=7)
RATES = {"training.learning_rate": [0.1, 0.2, 0.3]}


def end(trial):
    """Return an outcome that seeds up to 5 solve, with width 20 none; its test error is the learning rate."""
    found = outcome(trial)
    if trial.model.width == 20:
        found = replace(found, state="unsolved", solved_at=None)
    return replace(found, test_error=trial.training.learning_rate)


@pytest.fixture
def cells_of(tmp_path):
    """Return the cells of a new store that has all of a sweep."""
    opened = []

    def made(sweep, end=end):
        opened.append(Store(filled(tmp_path / f"{len(opened)}.db", sweep, end), create=False))
        return Cells(opened[-1])

    yield made
    for store in opened:
        store.close()


def test_the_difference_of_two_cells_is_that_of_their_paired_trials(cells_of):
    (row,) = compare({"by": "model.width", "a": "10", "b": "20"}, cells_of(WIDTHS)).rows.to_dict("records")
    assert (row["a"], row["b"], row["difference"], row["n"], row["paired"]) == (6 / 7, 0, 6 / 7, 7, True)
    assert (row["low"], row["high"]) == pytest.approx(newcombe((6, 7), (0, 7), both=0))


def test_trials_without_a_number_are_left_out_but_unsolved_ones_count(cells_of):
    def failing(trial):
        return replace(outcome(trial.with_seed(7)), trial=trial) if trial.seed < 3 else end(trial)

    cells = cells_of(el.grid(TRIAL, {"model.width": [10, 20], **RATES}, seeds=7), failing)
    asked = {"by": "training.learning_rate", "a": "0.1", "b": "0.3"}
    errors = compare(asked | {"stat": "test_error"}, cells).rows
    assert list(errors["n"]) == [4, 4]
    assert list(errors["difference"]) == pytest.approx([-0.2, -0.2])
    steps = compare(asked | {"stat": "median_steps"}, cells).rows
    assert steps["a"][0] == 5.5  # seeds 3, 4 and 5 are solved after 4, 5 and 6 steps, 6 is not
    assert np.isnan(steps["a"][1])  # that of networks of which none is solved


def test_a_side_of_failed_trials_alone_has_no_difference(cells_of):
    def failing(trial):
        return replace(outcome(trial.with_seed(7)), trial=trial) if trial.model.width == 20 else end(trial)

    found = compare({"by": "model.width", "a": "10", "b": "20"}, cells_of(WIDTHS, failing))
    (row,) = found.rows.to_dict("records")
    assert row["n"] == 0 and np.isnan([row["a"], row["difference"], row["low"]]).all()
    figure = difference_record(cells_of(WIDTHS), found.view, found.rows)
    assert figure["data"][0]["text"] == ["no trials on one side"]


def test_along_one_axis_differences_are_points_with_their_intervals(cells_of):
    cells = cells_of(el.grid(TRIAL, {"model.width": [10, 20], **RATES}, seeds=7))
    found = compare({"by": "model.width", "a": "10", "b": "20", "x": "training.learning_rate", "y": ""}, cells)
    figure = difference_record(cells, found.view, found.rows)
    (points,) = figure["data"]
    assert list(points["y"]) == pytest.approx([6 / 7] * 3)
    low, high = newcombe((6, 7), (0, 7), both=0)
    assert list(points["error_y"]["array"]) == pytest.approx([high - 6 / 7] * 3)
    assert list(points["error_y"]["arrayminus"]) == pytest.approx([6 / 7 - low] * 3)
    assert points["text"][0].startswith("85.7% minus 0%: 85.7%") and points["text"][0].endswith("n = 7, paired by seed")
    assert figure["layout"]["yaxis"]["title"]["text"].startswith("difference of the")
    assert figure["layout"]["yaxis"]["tickformat"] == ".0%"
    assert figure["layout"]["plot_bgcolor"] == "rgba(0,0,0,0)"  # the grey of a map is for squares without trials


def test_stores_are_compared_where_both_have_one_cell(cells_of):
    first, other = cells_of(el.grid(TRIAL, RATES, seeds=7)), cells_of(el.grid(TRIAL, {**RATES, "task.n": [20, 30]}))
    assert compare({"other": "1"}, first, first).rows["n"].tolist() == [7, 7, 7]
    assert compare({"other": "1"}, first, other).rows.empty  # two cells of the other are equal on the first's axes
    sampled, fresh = (
        cells_of(el.grid(TRIAL, {"regime.size": [10, 20]})),
        cells_of(el.grid(TRIAL, {"regime": ["online"]})),
    )
    with pytest.raises(ExperimentError, match=r"must share their axes: .*3.db lacks regime.size"):
        compare({"other": "1"}, sampled, fresh)


def test_what_cannot_be_compared_is_refused(cells_of, monkeypatch):
    with pytest.raises(ExperimentError, match="a comparison must have an axis: the store has none"):
        compare({}, cells_of(el.grid(TRIAL, {}, seeds=3)))
    cells = cells_of(WIDTHS)
    asked = {"by": "model.width", "a": "10", "b": "20"}
    monkeypatch.setattr(comparing, "TRIALS_READ", 6)
    with pytest.raises(ExperimentError, match="a comparison must have at most 6 trials: 7; fix more axes"):
        compare(asked, cells)
    monkeypatch.undo()
    assert cells.store is not None
    with pytest.raises(ExperimentError, match="only stores can be compared: a table does not list seeds by cell"):
        compare(asked, Cells.of_table(cells.store.table()))


def in_words(comparison_view, rows):
    """Return differences in words, ~ for the minus sign."""
    words = differences_in_words(comparison_view, rows)
    return [{name: text.replace("\N{MINUS SIGN}", "~") for name, text in row.items()} for row in words]


def test_rows_are_sorted_by_value_and_rounded_as_far_as_their_interval_allows(cells_of):
    cells = cells_of(el.grid(TRIAL, {"regime.size": [1000, 600, 2000], "model.width": [20, 10]}, seeds=7))
    found = compare({"by": "model.width", "a": "20", "b": "10", "x": "regime.size", "y": ""}, cells)
    assert list(found.rows["regime.size"]) == ["600", "1000", "2000"]
    assert in_words(found.view, found.rows) == 3 * [
        {"a": "0%", "b": "86%", "difference": "~86", "interval": "~97 to ~34"}
    ]


def test_differences_in_words_have_minus_signs_infinities_and_no_negative_zero():
    numbers = {"a": [2.0, np.inf, np.nan], "b": [2.01, 100.0, 1.0], "difference": [-0.01, np.inf, np.nan]}
    rows = pd.DataFrame(numbers | {"low": [-0.8124, np.nan, np.nan], "high": [-0.00005557, np.nan, np.nan]})
    words = in_words(View(stat="median_steps"), rows)
    assert [one["interval"] for one in words] == ["~0.81 to 0.00", "none", "none"]
    assert [one["difference"] for one in words] == ["~0.01", "∞", "none"]
