"""The figure of a traced frontier."""

from dataclasses import replace

import numpy as np
import pytest

import elegans as el
from elegans.errors import ExperimentError
from elegans.plots import figure_of, traced_frontier

TRIAL = el.Trial(
    task=el.SparseParity(n=14, k=2),
    regime=el.Sample(100),
    model=el.MLP(width=10, init="sparse:2"),
    training=el.SGD(steps=1000, weight_decay=0.01, stopping=el.StoppingRule(every=50, examples=500)),
)


def contour(init="sparse:2", **settings):
    return el.trace_frontier(
        TRIAL.replace("model.init", init), xs=[10, 20, 40, 80, 160, 320, 640], ys=[4, 16, 64], workers=1, **settings
    )


@pytest.fixture(scope="module")
def contours():
    return [contour("dense"), contour("sparse:2")]


def test_each_contour_has_a_panel_with_all_places_and_the_examined_cells(contours):
    axes = traced_frontier(contours)
    assert axes.shape == (1, 2)
    for ax, own in zip(axes.flat, contours, strict=True):
        assert (len(ax.get_xticks()), len(ax.get_yticks())) == (7, 3)
        assert len(ax.texts) == len(own.cells)
        assert ax.get_title(loc="right") == f"{own.steps / 1e6:.2g} million steps"


def test_a_crossing_is_drawn_at_its_size_and_width(contours):
    own = contours[1]
    ax = traced_frontier(own)
    wide = own.crossings.set_index("model.width").loc[64]
    dots = [line.get_xydata()[0] for line in ax.lines if line.get_marker() == "o"]
    expected = np.interp(np.log(wide["crossing"]), np.log(own.xs), np.arange(7) + 0.5)
    assert any(np.allclose(dot[0], expected) and 2 < dot[1] < 2.5 for dot in dots)


def test_an_open_end_has_an_arrow():
    ax = traced_frontier(contour(budget=9000))
    assert any(line.get_marker() == ">" for line in ax.lines)


def test_the_note_says_how_sure_a_cell_is(contours):
    assert "wrong with probability at most 0.92%" in figure_of(traced_frontier(contours)).get_supxlabel()


def test_other_axes_are_refused():
    other = el.trace_frontier(TRIAL, x="task.noise", xs=[0.0, 0.45], ys=[4, 16], seeds=8, workers=1)
    with pytest.raises(
        ExperimentError, match=r"must have the axes regime.size and model.width: task.noise, model.width"
    ):
        traced_frontier(other)


def test_the_title_compares_the_narrowest_and_the_widest_networks(contours):
    wider = contours[1].crossings["model.width"]
    traced = [
        replace(own, crossings=own.crossings.assign(crossing=np.where(wider == 64, 40, 40 * ratio)))
        for own, ratio in zip(contours, (1.5, 2.0), strict=True)
    ]
    title = figure_of(traced_frontier(traced)).get_suptitle()
    assert title.startswith("The narrowest networks need 1.5 and 2 times as many examples as the widest\n")
    assert figure_of(traced_frontier(contours)).get_suptitle() == "Success rate: sparse parity, n = 14, k = 2"
