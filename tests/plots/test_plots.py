"""Figures show what they claim to show."""

import io
import itertools
import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import elegans as el
from elegans.analysis import summarise_cells
from elegans.errors import ExperimentError
from elegans.plots import feature_importances, figure_of, learning_curve, success_frontier
from elegans.plots.style import (
    MEDIUM,
    RATES,
    SMALL,
    contrast_colour,
    despine,
    figure_legend,
    logarithmic,
    panel_legend,
    panels,
    short,
)


def table(n=(50,), k=(3,), inits=("dense", "sparse:2"), widths=(10, 1000), sizes=(300.0, 1000.0, None), solved=7):
    """Ten trials per cell, all solved online, ``solved`` of them at width 1000 and none at width 10."""
    rows = []
    for one_n, one_k, init, width, size, seed in itertools.product(n, k, inits, widths, sizes, range(10)):
        success = size is None or (width == 1000 and seed < solved)
        rows.append(
            {
                "task": "sparse-parity",
                "task.n": one_n,
                "task.k": one_k,
                "regime": "online" if size is None else f"sample:{size:.0f}",
                "regime.size": size,
                "model": "mlp",
                "model.init": init,
                "model.width": width,
                "state": "solved" if success else "unsolved",
                "solved_at": 200.0 if success else math.nan,
            }
        )
    return pd.DataFrame(rows)


def written(ax):
    return [text.get_text() for text in ax.texts]


def test_a_frontier_of_cells_with_intervals_and_quantiles_has_no_further_panels():
    cells = summarise_cells(table(), intervals="order", quantiles={"fast": 0.1})
    assert len(success_frontier(cells).flat) == len(success_frontier(table()).flat) == 2


def test_a_frontier_has_one_panel_for_each_initialisation():
    axes = success_frontier(table())
    assert [ax.get_title(loc="left") for ax in axes.flat] == [
        "dense initialisation",
        "sparse initialisation (2 non-zeros)",
    ]
    assert {ax.get_title(loc="right") for ax in axes.flat} == {"10 trials per cell"}


def test_cells_show_percentages_and_ticks_where_all_succeeded():
    ax = success_frontier(table(inits=("dense",)))
    assert sorted(written(ax)) == sorted(["0", "0", "70", "70", "✓", "✓"])


def test_trials_and_cells_give_the_same_figure():
    trials = table()
    for one, other in zip(success_frontier(trials).flat, success_frontier(summarise_cells(trials)).flat, strict=True):
        assert written(one) == written(other)


def test_columns_of_whole_numbers_that_may_be_missing_are_drawn():
    trials = table().astype({"regime.size": "Int64", "solved_at": "Int64", "model.width": "Int64"})
    assert written(success_frontier(trials).flat[0]) == written(success_frontier(table()).flat[0])


def test_columns_are_initialisations_and_rows_sizes_of_inputs_and_of_supports_on_the_width_of_a_page():
    axes = success_frontier(table(n=(50, 100), k=(3, 4)))
    assert axes.shape == (4, 2)
    heads = ["dense initialisation", "sparse initialisation (2 non-zeros)"]
    assert [ax.get_title(loc="left") for ax in axes[0]] == heads
    assert [ax.get_ylabel().splitlines()[:2] for ax in axes[:, 0]] == [
        [f"n = {n}", f"k = {k}"] for n in (50, 100) for k in (3, 4)
    ]
    assert figure_of(axes).get_figwidth() == 7


def test_the_online_column_stands_apart_at_the_right():
    ax = success_frontier(table(inits=("dense",)))
    places = ax.get_xticks()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["300", "1k", "online"]
    assert places[2] - places[1] > places[1] - places[0]


def test_a_rate_near_one_is_not_rounded_to_all():
    trials = pd.concat([table(inits=("dense",), widths=(1000,), sizes=(300.0,), solved=10)] * 100)
    trials.iloc[0, trials.columns.get_loc("solved_at")] = math.nan
    assert written(success_frontier(trials)) == ["99"]


def test_a_frontier_is_drawn_on_given_axes_and_refuses_too_few():
    given = Figure().subplots(1, 2)
    assert list(success_frontier(table(), given).flat) == list(given)
    with pytest.raises(ExperimentError, match="axes=1, panels=2"):
        success_frontier(table(), Figure().subplots())


def test_a_frontier_refuses_tables_that_it_cannot_draw():
    with pytest.raises(ExperimentError, match=r"'model\.width'"):
        success_frontier(table().drop(columns="model.width"))
    with pytest.raises(ExperimentError, match="at least one cell"):
        success_frontier(summarise_cells(table()).iloc[:0])
    with pytest.raises(ExperimentError, match=r"must have a column '.*': it has no columns$"):
        success_frontier(pd.DataFrame())
    found = summarise_cells(table())
    with pytest.raises(ExperimentError, match="must have one cell"):
        success_frontier(pd.concat([found, found]))


@pytest.mark.parametrize("sizes", [[a * 10.0**j for j in (2, 3, 4, 5) for a in (1, 2, 3, 6)] + [1e6, None], [300.0]])
def test_no_labels_overlap_in_a_large_or_a_small_frontier(sizes):
    axes = success_frontier(table(n=(50, 100), k=(3,), widths=(10, 1000, 100000), sizes=sizes))
    canvas = FigureCanvasAgg(axes[0, 0].figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    for ax in axes.flat:
        left, right = (title.get_window_extent(renderer) for title in (ax._left_title, ax._right_title))
        assert left.x1 < right.x0
        boxes = [text.get_window_extent(renderer) for text in ax.texts]
        assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


@pytest.mark.parametrize(
    ("number", "text"), [(30, "30"), (1000, "1k"), (2500, "2.5k"), (10_000, "10k"), (1_000_000, "1M")]
)
def test_sizes_are_written_short(number, text):
    assert short(number) == text


def test_text_can_be_read_on_every_colour():
    """WCAG asks for a contrast of 3 for large text; the scale's middle tones give black or white at least that."""
    for rate in np.linspace(0, 1, 101):
        luminance = sum(
            weight * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
            for weight, part in zip((0.2126, 0.7152, 0.0722), RATES(rate)[:3], strict=True)
        )
        contrast = (luminance + 0.05) / 0.05 if contrast_colour(RATES(rate)) == "black" else 1.05 / (luminance + 0.05)
        assert contrast > 4


@pytest.fixture(scope="module")
def outcome():
    trial = el.Trial(
        task=el.SparseParity(n=10, k=2),
        regime=el.Sample(300),
        model=el.MLP(width=30, init=el.SparseInit(2)),
        training=el.SGD(steps=400, stopping=el.StoppingRule(every=50, examples=1000)),
    )
    probes = [el.probes.HeldOutErrorRate(every=50), el.probes.FourierGap(every=100, examples=500)]
    return el.train(trial, probes=probes, engine="jax")


def test_a_learning_curve_shows_loss_error_and_measures(outcome):
    ax = learning_curve(outcome)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {
        "minibatch loss",
        "train error (minibatches)",
        "held-out error",
        "test error",
        "fourier gap: strict",
    } <= set(labels)
    assert (f"solved at {outcome.solved_at:,}" in labels) == outcome.solved
    measured = next(line for line in ax.lines if line.get_label() == "test error")
    np.testing.assert_allclose(measured.get_ydata(), outcome.measures["test-error"]["error"])


def test_a_learning_curve_is_drawn_on_given_axes(outcome):
    ax = Figure().subplots()
    assert learning_curve(outcome, ax) is ax


def _fitted(members=1, features=5, **options):
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(120, features)), columns=[f"gene {place}" for place in range(features)])
    model = el.SparseMLPClassifier(width=20, epochs=20, n_members=members, random_state=0, **options)
    return model.fit(X, X["gene 3"] > 0)


def test_importances_are_bars_with_names_the_largest_on_top_and_members_are_points():
    model = _fitted(members=3)
    ax = feature_importances(model)
    assert [bar.get_width() for bar in ax.patches] == sorted(model.feature_importances_, reverse=True)
    assert ax.get_yticklabels()[0].get_text() == "gene 3"
    assert ax.yaxis_inverted()
    points = np.array([line.get_xdata() for line in ax.lines])
    order = np.argsort(-model.feature_importances_)
    np.testing.assert_array_equal(points, model.member_importances_[:, order])
    np.testing.assert_allclose(model.member_importances_.sum(axis=1), 1)


def test_importances_of_many_features_say_how_many_are_left_out():
    ax = feature_importances(_fitted(features=9), most=4)
    assert len(ax.patches) == 4
    assert ax.get_ylabel() == "4 of 9 features"
    assert not ax.lines


class Fitted:
    """An estimator of somebody else's, with these attributes."""

    def __init__(self, importances, **others):
        self.feature_importances_ = importances
        self.__dict__.update(others)


def test_names_of_features_are_shown_as_they_are_on_one_short_line_each():
    names = ["$\\bad{$", "a\nb", "\ud800", "x" * 10**5]
    ax = feature_importances(Fitted(np.array([0.4, 0.3, 0.2, -0.1]), feature_names_in_=names))
    ax.figure.savefig(io.BytesIO())
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert shown == ["$\\bad{$", "a\\nb", "\\ud800", "x" * 80 + "…"]
    assert ax.get_xlim()[0] < -0.1


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (pd.DataFrame(), {}, "a fitted estimator that has feature_importances_: got DataFrame"),
        (el.SparseMLPClassifier(), {}, "a fitted estimator that has feature_importances_: got SparseMLPClassifier"),
        (el.SparseMLPClassifier, {}, "a fitted estimator that has feature_importances_: got SparseMLPClassifier"),
        (_fitted(), {"most": 0}, "most must be at least 1: most=0"),
        (Fitted([0.5, np.nan]), {}, "feature_importances_ must be an array of finite numbers: Fitted has "),
        (Fitted(["a", "b"]), {}, "feature_importances_ must be an array of finite numbers: Fitted has "),
        (Fitted(np.ones((2, 2))), {}, "feature_importances_ must have one entry per feature: Fitted's shape is "),
        (Fitted([]), {}, "feature_importances_ must have one entry per feature"),
        (Fitted([0.5, 0.5], member_importances_=np.ones(2)), {}, "names and importances must have the same features"),
        (Fitted([0.5, 0.5], feature_names_in_=["a"]), {}, "names and importances must have the same features"),
        (Fitted([0.5, 0.5], feature_names_in_=3), {}, "names and importances must have the same features"),
        (_fitted(), {"ax": Figure().subplots(subplot_kw={"projection": "polar"})}, "rectangular axes: got a PolarAxes"),
    ],
)
def test_importances_need_a_fitted_estimator(estimator, options, message):
    with pytest.raises(ExperimentError, match=message):
        feature_importances(estimator, **options)


def test_a_panels_own_legend_lies_below_it():
    figure, ((ax,),) = panels(1, 1, height=2.0, width=5.0)
    ax.plot([0, 1], [0, 1], label="a line")
    ax.set_xlabel("steps", fontsize=MEDIUM)
    despine(ax)
    panel_legend(ax)
    figure.draw_without_rendering()
    (name,) = ax.get_legend().get_texts()
    assert 0 < name.get_window_extent().y0 < name.get_window_extent().y1 < ax.xaxis.label.get_window_extent().y0


@pytest.mark.parametrize(
    ("ends", "shown"),
    [((410, 495), ["420", "440", "460", "480"]), ((1000, 1900), ["1k", "1.2k", "1.4k", "1.6k", "1.8k"])],
)
def test_a_logarithmic_axis_of_less_than_a_factor_of_two_has_numbers_in_one_small_size(ends, shown):
    figure, ((ax,),) = panels(1, 1)
    ax.plot([0, 1], ends)
    logarithmic(ax)
    figure.draw_without_rendering()
    low, high = ax.get_ylim()
    ticks = [*ax.yaxis.get_major_ticks(), *ax.yaxis.get_minor_ticks()]
    labels = {tick.get_loc(): tick.label1 for tick in ticks if low <= tick.get_loc() <= high and tick.label1.get_text()}
    assert [labels[place].get_text() for place in sorted(labels)] == shown
    assert {label.get_fontsize() for label in labels.values()} == {SMALL}
    plain, ((ax,),) = panels(1, 1)
    ax.plot([0, 1], ends)
    ax.set_yscale("log")
    plain.draw_without_rendering()
    assert {tick.label1.get_fontsize() for tick in ax.yaxis.get_minor_ticks()} == {SMALL}


def test_a_legend_below_a_narrow_figure_has_as_many_columns_as_fit():
    figure, ((ax,),) = panels(1, 1, width=3.5)
    for name in ("on the sample", "held out, dense initialisation", "held out, sparse initialisation", "solved"):
        ax.plot([0, 1], label=name)
    figure_legend(figure, ax, columns=4)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert 0 < box.x0 < box.x1 < figure.bbox.width
    assert len({round(text.get_window_extent().x0) for text in legend.get_texts()}) < 4
