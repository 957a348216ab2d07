"""What a map shows: chosen where nothing is asked for, and looked up among what the store has."""

from urllib.parse import parse_qsl

import pytest
from exploring import filled
from laboratory import TRIAL

import elegans as el
from elegans.errors import ExperimentError
from elegans.explorer.cells import Cells
from elegans.explorer.view import View
from elegans.store import Store


def test_sample_size_by_width_is_shown_with_facets_by_initialisation_where_nothing_is_asked_for(cells):
    view = View.parse({}, cells)
    assert (view.x, view.y, view.facet, view.at, view.stat) == (
        "regime.size",
        "model.width",
        "model.init",
        {},
        "rate",
    )


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"facet": ""},
        {"x": "model.init", "y": "model.width", "facet": "", "at.regime.size": "online"},
        {"stat": "median_steps", "contour": "0", "theory": "1"},
    ],
)
def test_a_view_is_read_back_from_its_query(cells, query):
    view = View.parse(query, cells)
    assert View.parse(dict(parse_qsl(view.query(), keep_blank_values=True)), cells) == view


def test_an_axis_without_a_place_has_a_value(cells):
    assert View.parse({"facet": ""}, cells).at == {"model.init": "dense"}
    assert View.parse({"facet": "", "at.model.init": "sparse:2"}, cells).at == {"model.init": "sparse:2"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"x": "<script>"}, "an axis must be swept: '<script>'; regime.size, model.width, model.init"),
        ({"x": "training.steps"}, "an axis must be swept: 'training.steps'"),
        ({"x": "model.width", "y": "model.width"}, "x, y and facet must be different axes: model.width, model.width"),
        ({"stat": "rates"}, "unknown statistic 'rates'; did you mean 'rate'"),
        ({"facet": "", "at.model.init": "1; DROP TABLE trials"}, "model.init must be one of its values"),
        ({"at.task.n": "20"}, "an axis must be swept: 'task.n'"),
        ({"contour": "yes"}, "contour must be 0 or 1: contour='yes'"),
    ],
)
def test_what_there_is_not_is_refused_with_rule_and_value(cells, query, message):
    with pytest.raises(ExperimentError, match=message.replace("(", r"\(")):
        View.parse(query, cells)


def test_a_value_that_no_cell_has_with_the_others_gives_way_to_one_that_some_have(tmp_path):
    axes = {"model.width": [10, 20], "training.learning_rate": [0.1, 0.2]}
    trials = [TRIAL] + [TRIAL.replace("task.n", n).replace("training.steps", 8) for n in (30, 40)]
    sweep = sum((el.grid(trial, axes) for trial in trials), el.Sweep(()))
    asked = {
        "x": "model.width",
        "y": "training.learning_rate",
        "facet": "",
        "at.task.n": "20",
        "at.training.steps": "8",
    }
    with Store(filled(tmp_path / "runs.db", sweep), create=False) as store:
        cells = Cells(store)
        view = View.parse(asked, cells)
        assert view.at == {"task.n": "20", "training.steps": "4"}
        assert view.shown(cells).sum() == 4


def test_a_facet_of_many_values_is_refused(tmp_path):
    sweep = el.grid(TRIAL, {"model.width": range(1, 15), "task.n": [20, 30]})
    with (
        Store(filled(tmp_path / "runs.db", sweep), create=False) as store,
        pytest.raises(ExperimentError, match="a facet must have at most 12 values: model.width has 14"),
    ):
        View.parse({"facet": "model.width"}, Cells(store))
