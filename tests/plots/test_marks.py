"""Marks: what they draw, from the numbers that they are given."""

import numpy as np
import pandas as pd
import pytest

from elegans.plots.marks import band, bands, curves, dots, estimates, heat_map, survival
from elegans.plots.style import panels, title_figure


@pytest.fixture
def ax():
    return panels(1, 1)[1][0, 0]


def lines(ax):
    return [np.column_stack(line.get_data()) for line in ax.lines]


def test_a_band_is_drawn_around_its_line_and_leaves_the_figure_where_it_has_no_end(ax):
    band(ax, [1, 2], [3, 4], [2, 3], [5, np.inf], label="rate")
    assert lines(ax)[0].tolist() == [[1, 3], [2, 4]]
    corners = ax.collections[0].get_paths()[0].vertices
    assert {tuple(corner) for corner in corners.tolist()} >= {(1, 2), (2, 3), (1, 5)}
    assert corners[:, 1].max() > 1e9
    assert ax.get_legend_handles_labels()[1] == ["rate"]


def test_dots_of_one_place_lie_side_by_side_in_the_units_of_the_axis(ax):
    dots(ax, [1, 1, 2], [5, 5, 7], spread=0.2, shift=0.1)
    assert np.allclose(lines(ax)[0], [[1.05, 5], [1.15, 5], [2.1, 7]])
    ax.set_xscale("log")
    dots(ax, [1, 1, 2], [5, 5, 7], spread=0.2, shift=0.1)
    assert np.allclose(np.log(lines(ax)[1][:, 0]), [0.05, 0.15, np.log(2) + 0.1])


def test_bands_are_quantiles_over_trials_by_group(ax):
    rows = [
        {"step": step, "error": seed / 10 + step, "width": width}
        for width in (30, 10)
        for step in (0, 1)
        for seed in range(11)
    ]
    bands(ax, pd.DataFrame(rows), "step", "error", "width", label="width {}")
    assert np.allclose(lines(ax), [[[0, 0.5], [1, 1.5]]] * 2)
    assert ax.get_legend_handles_labels()[1] == ["width 30", "width 10"]
    low, high = np.quantile(np.arange(11) / 10, [0.1, 0.9])
    assert np.allclose(np.unique(ax.collections[0].get_paths()[0].vertices[:, 1]), [low, high, 1 + low, 1 + high])


def test_a_table_without_groups_is_one_band(ax):
    bands(ax, pd.DataFrame({"step": [0, 0, 1], "error": [1.0, 3.0, 5.0]}), "step", "error")
    assert lines(ax)[0].tolist() == [[0, 2], [1, 5]]


def test_curves_are_one_per_trial_with_one_label(ax):
    table = pd.DataFrame({"seed": [0, 0, 1, 1], "step": [0, 1, 0, 1], "loss": [3.0, 2.0, 1.0, 0.0]})
    curves(ax, table, "step", "loss", label="trials")
    assert [line[:, 1].tolist() for line in lines(ax)] == [[3, 2], [1, 0]]
    assert ax.get_legend_handles_labels()[1] == ["trials"]


@pytest.mark.parametrize("across", [False, True])
def test_estimates_have_intervals_or_a_triangle_where_these_do_not_end(ax, across):
    estimates(ax, [1, 2, 3], [10.0, 20.0, np.nan], [8, 15, np.nan], [13, np.inf, np.nan], across=across)
    (bars,) = (container for container in ax.containers if container.has_yerr or container.has_xerr)
    segments = [segment[:, 0 if across else 1].tolist() for segment in bars[2][0].get_segments()]
    assert segments == [[8, 13], [15, 20]]
    endless = ax.lines[-1].get_data()
    assert tuple(np.ravel(endless)) == ((20, 2) if across else (2, 20))


def test_a_map_has_its_first_row_at_the_top_and_no_colour_where_a_cell_is_unknown(ax):
    table = pd.DataFrame([[0.0, 1.0], [np.nan, 0.5]], index=["first", "second"], columns=[10.0, 20.0])
    heat_map(ax, table, text="{:.1f}".format)
    assert ax.collections[0].get_array().mask.tolist() == [[False, False], [True, False]]
    assert [patch.get_xy() for patch in ax.patches] == [(-0.5, 0.5)]  # grey, as it has a text
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    assert [label.get_text() for label in (*ax.get_yticklabels(), *ax.get_xticklabels())] == [
        "first",
        "second",
        "10",
        "20",
    ]
    assert [text.get_text() for text in ax.texts] == ["0.0", "1.0", "nan", "0.5"]


def test_survival_counts_the_trials_whose_event_has_not_occurred(ax):
    survival(ax, [30.0, np.nan, 10.0, np.inf], end=50)
    assert lines(ax)[0].tolist() == [[0, 0], [10, 0.25], [30, 0.5], [50, 0.5]]


@pytest.mark.parametrize("task", ["one line", "several lines " * 20])
def test_a_figure_grows_by_its_title_so_that_its_panels_keep_their_height(ax, task):
    def height(axes):
        axes.figure.draw_without_rendering()
        return axes.get_window_extent().height / axes.figure.dpi

    titled = panels(1, 1)[1][0, 0]
    title_figure(titled.figure, "a finding of a few words " * 5, task)
    assert height(titled) == pytest.approx(height(ax), abs=0.15)
