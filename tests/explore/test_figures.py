"""The figures: what plotly takes, with every cell in its place and nothing that acts on a page."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from exploring import AXES, SWEEP, filled, outcome
from laboratory import TRIAL

import elegans as el
from elegans.analysis import wilson
from elegans.errors import ExperimentError
from elegans.experiments import find
from elegans.experiments.base import Line
from elegans.experiments.registry import entries
from elegans.explorer import charts, figures
from elegans.explorer.axes import Axis, words_of
from elegans.explorer.cells import Cells
from elegans.explorer.figures import (
    UNDER,
    as_json,
    map_figure,
    map_record,
    map_table,
    number_in,
    places_on,
    plain,
)
from elegans.explorer.statistics import STATISTICS
from elegans.explorer.view import View
from elegans.store import Store
from elegans.training import Curve, ErrorCurve


@pytest.mark.parametrize("stat", STATISTICS)
def test_a_map_has_every_cell_at_its_place(cells, stat):
    record = as_json(map_figure(cells, View.parse({"stat": stat}, cells)))
    heat = [trace for trace in record["data"] if trace["type"] == "heatmap"]
    assert [trace["xaxis"] for trace in heat] == ["x", "x2"]
    numbers = [number for trace in heat for row in trace["customdata"] for number in row]
    assert sorted(numbers) == cells.numbers.tolist()
    init = list(AXES["model.init"])
    for name, trace in zip(init, heat, strict=True):
        for row, up in zip(trace["customdata"], ("10", "20"), strict=True):
            for number, across in zip(row, ("100", "300", "online"), strict=True):
                own = cells.table.loc[number]
                assert (str(own["model.width"]), own["regime"].removeprefix("sample:")) == (up, across)
                assert own["model.init"] == name


def test_the_hover_says_value_interval_and_number_of_trials(cells):
    heat = map_record(cells, View.parse({}, cells))["data"][0]
    low, high = wilson(6, 7)
    told = heat["hovertext"][0][0]
    assert f"success rate: 85.7%<br>{100 * low:.3g}% to {100 * high:.3g}% (Wilson 95%), n = 7" in told
    assert told.endswith("6 of 7 trials solved, 1 failed")


def test_numbers_that_are_not_finite_are_null(cells, tmp_path):
    record = map_record(cells, View.parse({"stat": "median_steps"}, cells))
    record["data"][0]["z"][0][0] = math.nan
    text = json.dumps(as_json(record), allow_nan=False)
    assert json.loads(text)["data"][0]["z"][0][0] is None
    assert plain({"a": [np.nan, np.inf, np.int64(3), np.array([1.0, np.nan])]}) == {"a": [None, None, 3, [1.0, None]]}


def test_places_without_a_cell_are_gaps(tmp_path):
    sweep = el.grid(TRIAL, {"model.width": [10, 20], "task.n": [20]}) + el.grid(TRIAL, {"task.n": [30]})
    with Store(filled(tmp_path / "runs.db", sweep), create=False) as store:
        cells = Cells(store)
        heat = as_json(map_record(cells, View.parse({}, cells)))["data"][0]
    missing = [number for row in heat["customdata"] for number in row].count(None)
    assert missing == 1
    assert [value for row in heat["z"] for value in row].count(None) == 1


def test_running_cells_are_hatched(tmp_path):
    path = tmp_path / "runs.db"
    with Store(path) as writer:
        run, _ = writer.begin(SWEEP)
        run.claim(list(SWEEP)[:1])
        cells = Cells(writer)
        bars = [trace for trace in map_record(cells, View.parse({}, cells))["data"] if trace["type"] == "bar"]
        (bar,) = bars
        assert (bar["x"].tolist(), bar["base"].tolist()) == ([0], [-0.48])
        assert bar["marker"]["pattern"]["shape"] == "/"
        run.release()


def test_the_contour_lies_where_half_of_the_trials_are_solved(tmp_path):
    sweep = el.grid(TRIAL, {"regime.size": [100, 400], "model.width": [10, 20]}, seeds=4)

    def end(trial):
        return replace(outcome(trial.with_seed(0 if trial.regime.size == 400 else 6)), trial=trial)

    with Store(filled(tmp_path / "runs.db", sweep, end), create=False) as store:
        cells = Cells(store)
        shown = map_record(cells, View.parse({}, cells))["data"]
        contour = next(trace for trace in shown if trace.get("legendgroup") == "contour")
        hidden = map_record(cells, View.parse({"contour": "0"}, cells))["data"]
    assert contour["x"] == pytest.approx((0.5, 0.5)) and contour["y"] == (0 - UNDER, 1 - UNDER)
    assert "= 200, interpolated" in contour["text"][0]
    assert not any(trace.get("legendgroup") == "contour" for trace in hidden)


def test_numbers_between_named_values_lie_on_a_logarithmic_scale():
    axis = Axis("regime.size", (100, 400, None), True, "online")
    assert places_on(axis, [100, 200, 400]) == pytest.approx([0, 0.5, 1])
    assert np.isnan(places_on(axis, [50, 800])).all()


def test_lines_of_theory_are_those_of_the_experiment(tmp_path, monkeypatch):
    with Store(tmp_path / "runs.db") as writer:
        run, _ = writer.begin(SWEEP, name="success-frontier")
        run.release()
        cells = Cells(writer)
        line = Line("<a> line", {"model.width": np.array([10.0, 20.0]), "regime.size": np.array([100.0, 300.0])})
        monkeypatch.setattr(
            "elegans.explorer.figures._lines", lambda cells, view, columns: [line] * (columns["task.n"] == 20)
        )
        drawn = map_record(cells, View.parse({"theory": "1"}, cells))["data"]
        lines = [trace for trace in drawn if trace["type"] == "scatter" and trace["name"] == "&lt;a&gt; line"]
        assert len(lines) == 2 * 2 + 1  # each panel's line with its edge, and one in the legend
        assert lines[0]["x"][[0, -1]].tolist() == [0, 1] and lines[0]["y"][[0, -1]].tolist() == [0, 1]
        other = map_record(cells, View.parse({"theory": "1", "x": "model.init"}, cells))["data"]
        assert not any(trace.get("mode") == "lines" for trace in other)


def test_success_frontier_has_lines_of_theory():
    from elegans.studies.pareto_frontiers.overlay import theory_lines

    found = theory_lines({"task.n": 50, "task.k": 4, "training.steps": 1000})
    assert len(found) == 5
    assert all(set(line.columns) == {"model.width", "regime.size"} for line in found)
    assert len(theory_lines({"task.n": 50, "task.k": 3, "training.steps": 1000})) == 2
    assert theory_lines({"task.n": 50}) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [entry.name for entry in entries().values() if entry.lines])
def test_lines_of_theory_cross_the_plane_that_they_are_of(name):
    experiment, drawn = find(name), set()
    assert entries()[name].lines == tuple(experiment.lines)
    for scale in experiment.scales.values():
        columns = pd.DataFrame([cell.columns() for cell in scale.cells(1).cells])
        for plane, lines in experiment.lines.items():
            if columns[list(plane)].nunique().min() < 2:
                continue  # such a scale has no map of this plane
            spans = [columns[axis].agg(["min", "max"]) for axis in plane]
            alike = [one for one in ("training", "task.k", "training.truncate") if one in columns]
            for row in columns.drop_duplicates(alike).to_dict("records"):
                found = lines(row)
                assert found and all(set(line.columns) == set(plane) for line in found)
                for line in found:
                    x, y = (pd.Series(line.columns[axis]) for axis in plane)
                    assert len(x) == len(y) and (x > 0).all() and (y > 0).all()
                    drawn |= {plane} if (x.between(*spans[0]) & y.between(*spans[1])).any() else set()
    assert drawn == set(experiment.lines)


def test_a_map_of_too_many_squares_is_refused(cells, monkeypatch):
    monkeypatch.setattr("elegans.explorer.figures.SQUARES", 5)
    with pytest.raises(ExperimentError, match="a map must have at most 5 squares.*: 3 x 2 squares in 2 panels"):
        map_record(cells, View.parse({}, cells))


def test_a_maps_table_has_a_row_for_each_cell_that_it_shows(cells):
    view = View.parse({"facet": "", "at.model.init": "dense"}, cells)
    table = map_table(cells, view)
    assert len(table) == 6 and set(table["model.init"]) == {"dense"}
    assert table["rate"].tolist() == [6 / 7] * 6


def test_a_store_a_place_and_a_table_give_the_same_figure(place, store):
    figures = [el.explore(each) for each in (place, store, store.table())]
    assert all(isinstance(figure, go.Figure) for figure in figures)
    assert len({tuple(map(tuple, figure.data[0].z)) for figure in figures}) == 1


def test_what_is_no_table_of_trials_is_refused(store):
    with pytest.raises(ExperimentError, match="a table of trials must have a column 'state'"):
        el.explore(store.table().drop(columns="state"))
    with pytest.raises(ExperimentError, match="an axis must be swept"):
        el.explore(store, x="nothing")
    with pytest.raises(ExperimentError, match="must have a store, its place or a table of trials: store_or_table=None"):
        el.explore(None)


def test_charts_of_a_cell_are_figures():
    curve = {seed: Curve([1, 5, 9], [1.0, 0.5, 0.1 * seed], [0.5, 0.4, 0.3]) for seed in range(3)}
    curves = {seed: (one, ErrorCurve()) for seed, one in curve.items()}
    drawn = charts.curves(curves)
    assert len(go.Figure(drawn).data) == 2 * (3 + 2 + 1)
    median = next(trace for trace in drawn["data"] if "median" in trace.get("name", ""))
    assert "of 3 trials" in median["name"] and median["y"].tolist() == pytest.approx([0.5, 0.4, 0.3])
    assert charts.curves({}) is None and charts.survival(np.zeros(0), np.zeros(0)) is None


def test_a_trial_that_has_ended_keeps_its_last_value_in_the_median():
    early = ErrorCurve([1, 2], [1.0, 0.5], [0.5, 0.0], [0.5, 0.0])
    late = ErrorCurve([1, 2, 4], [1.0, 1.0, 1.0], [0.5, 0.4, 0.4], [0.5, 0.4, 0.4])
    drawn = charts.curves({0: (Curve(), early), 1: (Curve(), late)})
    median = next(trace for trace in drawn["data"] if trace.get("name", "").startswith("held-out error"))
    assert median["y"].tolist() == pytest.approx([0.5, 0.2, 0.2])
    assert drawn["layout"]["xaxis"]["title"]["text"] == "steps; ended trials keep their last value"


def test_a_survival_curve_states_censoring():
    drawn = charts.survival(np.array([2.0, 4.0, np.nan, np.nan]), np.array([10.0, 10.0, 10.0, 6.0]))
    go.Figure(drawn)
    line = next(trace for trace in drawn["data"] if trace.get("name", "").startswith("unsolved"))
    assert line["y"].tolist() == pytest.approx([1, 0.75, 0.5, 0.5])
    assert drawn["data"][-1]["name"] == "2 of 4 stopped unsolved (censored)"


def test_an_array_measure_has_a_slider_of_its_steps():
    taken = {0: {"probe": {"step": [0, 5], "map": np.arange(12.0).reshape(2, 2, 3) - 3}}}
    drawn = charts.measure(taken, "probe.map")
    go.Figure(drawn)
    assert [one["label"] for one in drawn["layout"]["sliders"][0]["steps"]] == ["0", "5"]
    assert [frame["name"] for frame in drawn["frames"]] == ["0", "5"]
    assert (drawn["data"][0]["zmin"], drawn["data"][0]["zmax"]) == (-8, 8)


def test_points_are_thinned_to_the_budget():
    curve = Curve(list(range(1, 301)), [1.0] * 300, [0.5] * 300)
    drawn = charts.curves({0: (curve, ErrorCurve())}, points=20)
    assert max(len(trace["x"]) for trace in drawn["data"]) == 20


@pytest.mark.parametrize(
    ("stat", "value", "text"),
    [
        ("rate", 0.857, "86%"),
        ("rate", math.nan, ""),
        ("median_steps", math.inf, "∞"),
        ("median_steps", 250.0, "250"),
        ("median_steps", 12_345.0, "12.3k"),
        ("median_steps", 2_500_000.0, "2.5M"),
        ("seconds", 0.0123, "0.012"),
        ("seconds", -0.5, "\N{MINUS SIGN}0.5"),
    ],
)
def test_a_square_has_a_number_that_is_short(stat, value, text):
    assert number_in(value, STATISTICS[stat]) == text


def test_squares_have_numbers_as_long_as_there_are_few(cells, monkeypatch):
    def numbers():
        traces = map_record(cells, View.parse({}, cells))["data"]
        return [trace["text"].tolist() for trace in traces if trace["name"] == "numbers"]

    assert numbers() == [["86%"] * 6] * 2
    monkeypatch.setattr(figures, "NUMBERED", 5)
    assert numbers() == []


def test_numbers_on_squares_without_a_colour_have_the_ink_of_the_page(cells):
    panel = figures.MapPanel(cells, View.parse({}, cells), np.arange(3))
    colours = {"colorscale": figures.SHADES, "cmin": 0, "cmax": 1}
    _, on_colours, on_grey = panel.squares(np.array([0, np.inf, 1]), ["", "", ""], ["0", "∞", "1"], colours, "")
    assert on_colours["textfont"]["color"].tolist() == ["white", "black"]
    assert on_grey["text"].tolist() == ["∞"] and "color" not in on_grey["textfont"]


def test_cells_are_named_by_what_varies(cells, tmp_path):
    assert cells.name(3) == "m = 300, width 10, init dense"
    assert cells.name(3, ["model.width"]) == "width 10"
    axes = {"task.n": [20, 30], "training.learning_rate": [0.1, 0.2]}
    with Store(filled(tmp_path / "one.db", el.grid(TRIAL, axes, seeds=1)), create=False) as store:
        assert Cells(store).name(4) == "n = 30, learning rate 0.2"
    with Store(filled(tmp_path / "only.db", el.grid(TRIAL, {}, seeds=1)), create=False) as store:
        assert Cells(store).name(1) == "cell 1"
    axes = [Axis(name, (1, 2), True) for name in ("model.width", "teacher.width", "regime.size", "task.m")]
    assert words_of(axes) == ("model.width", "teacher.width", "regime.size", "task.m")
