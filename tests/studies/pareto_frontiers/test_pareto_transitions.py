"""Curves over sample size hold what they claim to show, and so do errors, tickets and the lines of theory."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from elegans.errors import ExperimentError
from elegans.plots import figure_of, success_frontier
from elegans.studies.pareto_frontiers import lottery_tickets, training_curves
from elegans.studies.pareto_frontiers.overlay import overlay_theory
from elegans.studies.pareto_frontiers.plots import success_and_time, timed_cells
from elegans.studies.pareto_frontiers.theory.frontier import statistical_limit


def table(k=3, inits=("dense",), widths=(10, 1000), sizes=(300.0, 1000.0, None)):
    """Ten trials per cell of (50, k): all solved online at 200 steps, 7 of 10 at width 1000 elsewhere."""
    rows = []
    for init, width, size, seed in itertools.product(inits, widths, sizes, range(10)):
        solved = size is None or (width == 1000 and seed < 7)
        regime = {"regime": f"sample:{size:.0f}" if size else "online", "regime.size": size}
        model = {"model": "mlp", "model.init": init, "model.width": width}
        outcome = {"state": "solved" if solved else "unsolved", "solved_at": 200.0 if solved else math.nan}
        outcome |= {"training.steps": 1000}
        rows.append({"task": "sparse-parity", "task.n": 50, "task.k": k, **regime, **model, **outcome})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def timed():
    return timed_cells(table(inits=("dense", "sparse:2")))


def test_times_have_order_statistic_intervals_and_missing_medians(timed):
    online = timed[timed["regime"] == "online"]
    assert (online[["median_low", "median_steps", "median_high"]] == 200).all().all()
    narrow = timed[(timed["model.width"] == 10) & (timed["regime"] == "sample:300")]
    assert narrow["median_steps"].isna().all() and np.isinf(narrow["median_high"]).all()


def test_curves_are_drawn_with_their_intervals_and_online_stands_apart(timed):
    figure = success_and_time(timed, curve="model.width", panel="model.init")
    rate, _, below, _ = figure.axes
    assert rate.get_title(loc="left").endswith("Dense initialisation: trials solved")
    legend = figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["width = 10", "width = 1000"]
    wide = next(bars for bars in rate.containers if bars.get_label() == "width = 1000")
    points, _, (intervals,) = wide.lines
    np.testing.assert_allclose(points.get_ydata()[:2], [0.7, 0.7])
    low = timed[(timed["model.width"] == 1000) & (timed["regime"] == "sample:300")]["low"].iloc[0]
    bottoms = [path.vertices[:, 1].min() for path in intervals.get_paths()]
    assert any(bottom == pytest.approx(low) for bottom in bottoms)
    assert [label.get_text() for label in below.get_xticklabels()] == ["300", "1k", "online"]


def errors():
    rows = [
        {"model.init": init, "model.width": 100, "regime.size": size, "seed": seed, "step": step}
        | {"train_error": 0.5 / (1 + step), "test_error": 0.5, "task.n": 50, "task.k": 3}
        | {"train_at": math.nan, "test_at": math.nan, "delay": math.nan, "known": ""}
        for init, size, seed, step in itertools.product(("dense", "sparse:2"), (300, 1000), (0, 1), (0, 100, 200))
    ]
    return pd.DataFrame(rows)


def test_error_curves_have_two_lines_a_network_and_a_panel_a_cell():
    axes = training_curves.plot({"table": errors()}).axes
    titles = [f"{size} examples: memorised only" for size in ("300", "1,000")]
    assert [ax.get_title(loc="left").split("  ")[1] for ax in axes] == 2 * titles
    curves = [line for line in axes[0].lines if len(line.get_xdata()) == 2 and line.get_xdata()[0] == 100]
    assert len(curves) == 4


def drawn_tickets(decays):
    """Return the figure of two arms, whose errors are 30% and of which a half, or none of those chosen late, solve."""
    band = {"error": 0.3, "error_10": 0.2, "error_90": 0.4, "low": 0.4, "high": 0.6}
    rows = [
        {"decay": decay, "chosen": chosen, "arm": arm, "step": step, "solved": 0.5 if chosen == "solved" else 0} | band
        for decay, chosen, arm, step in itertools.product(decays, ("solved", "end"), ("product", "wide"), (100, 200))
    ]
    task = pd.DataFrame({"task.n": [50], "task.k": [5]})
    return lottery_tickets.plot({"table": pd.DataFrame(rows), "networks": task})


def test_tickets_are_drawn_in_the_order_of_their_names():
    left, right = drawn_tickets((0.01,)).axes
    for ax, height in ((left, 0.3), (right, 0.5)):
        drawn = {line.get_label(): line for line in ax.lines if len(line.get_xdata())}
        assert list(drawn) == [lottery_tickets.ARMS[arm] for arm in ("wide", "product")]
        assert all((line.get_ydata() == height).all() for line in drawn.values())


def test_tickets_of_several_weight_decays_have_a_panel_each():
    axes = drawn_tickets((0.0, 0.001, 0.003, 0.01)).axes
    decays = ("0", "0.001", "0.003", "0.01")
    assert [ax.get_title(loc="left").split("  ")[1] for ax in axes] == [
        f"Weight decay {decay}: tickets 50%" for decay in decays
    ]
    assert all((line.get_ydata() == 0.5).all() for ax in axes for line in ax.lines if len(line.get_xdata()))


def published():
    """The paper's 24 panels with made-up successes: more with width, samples, sparsity; fewer with n and k."""
    sizes = [*(a * 10**j for j in range(2, 6) for a in (1, 2, 3, 6)), 10**6, None]
    widths = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
    rows = []
    for n, k, init, width, size in itertools.product(range(50, 301, 50), (3, 4), ("dense", "sparse:2"), widths, sizes):
        score = math.log10(size or 10**6) + 0.5 * math.log10(width) - 0.01 * n - k + (init != "dense")
        rate = round(50 / (1 + math.exp(-2 * score))) / 50
        rows.append(
            {
                "task": "sparse-parity",
                "task.n": n,
                "task.k": k,
                "model": "mlp",
                "model.init": init,
                "model.width": width,
            }
            | {"regime": "online" if size is None else f"sample:{size}", "regime.size": size}
            | {"trials": 50, "solved": round(50 * rate), "rate": rate, "low": rate, "high": rate}
            | {"median_steps": math.nan, "failed": 0}
        )
    return pd.DataFrame(rows)


@pytest.mark.parametrize("missing", [pytest.param(0, marks=pytest.mark.slow), 3000])
def test_the_published_layout_has_24_panels_whole_or_in_part(missing):
    """Twelve rows (n, k), dense and sparse across, on the width of a page; cells that were not run are grey."""
    cells = published().iloc[: 3888 - missing]
    axes = success_frontier(cells)
    assert axes.shape == (12 if not missing else 3, 2)
    heads = [ax.get_title(loc="left") for ax in axes[0]]
    assert heads == ["dense initialisation", "sparse initialisation (2 non-zeros)"]
    assert figure_of(axes).get_figwidth() == 7
    figure_of(axes).draw_without_rendering()
    boxes = [ax.get_window_extent() for ax in axes.flat]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_the_lines_of_theory_lie_where_their_formulas_say():
    """(50, 4) on a grid of powers of ten, where positions are logarithms."""
    sizes, widths = [1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0], (1, 10, 100, 1000, 10_000)
    trials = table(k=4, widths=widths, sizes=sizes)
    ax = overlay_theory(success_frontier(trials), trials, steps=1)
    drawn = {tuple(np.round([line.get_xdata()[0], line.get_ydata()[0]], 6)): line for line in ax.lines}
    limit = next(line for line in ax.lines if np.ptp(line.get_xdata()) == 0)
    assert limit.get_xdata()[0] == pytest.approx(0.5 + math.log10(statistical_limit(50, 4)))
    # Theorem 5 at s = 0: width 1 and (n/k)^3 examples; Theorem 4 at s = 5: width 10^4 and 2500 x 1.25^3 examples
    for width, size in ((1, 12.5**3), (10**4, 2500 * 1.25**3)):
        assert tuple(np.round([0.5 + math.log10(size), 0.5 + math.log10(width)], 6)) in drawn


def test_theorems_for_even_k_are_drawn_on_panels_of_even_k_alone():
    """On a grid that holds all lines: five where k = 4, only the two bounds where k = 3, in one figure too."""
    sizes, widths = [1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0], (1, 10, 100, 1000, 10_000)
    odd, even = (table(k=k, widths=widths, sizes=sizes) for k in (3, 4))
    before = [len(ax.lines) for ax in success_frontier(pd.concat([odd, even])).flat]
    axes = overlay_theory(success_frontier(pd.concat([odd, even])), pd.concat([odd, even]), steps=1)
    assert [len(ax.lines) - old for ax, old in zip(axes.flat, before, strict=True)] == [2, 5]


def test_the_legend_states_constants_and_what_theory_does_not_cover():
    trials = table()
    ax = overlay_theory(success_frontier(trials), trials, steps=20_000, constant=3)
    legend = figure_of(ax).legends[0]
    assert legend.get_title().get_text().endswith("\nTheory (Theorems 4 and 5 hold for even k)")
    labels = [text.get_text() for text in legend.get_texts()]
    assert any("T = 20,000 steps" in label for label in labels)
    assert any(label.startswith("Theorem 5: width (n/k)^s, 3 (n/k)^(k-s-1)") for label in labels)
    assert all("not on the grid" in label for label in labels)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"steps": 1, "constant": 0}])
def test_theory_refuses_numbers_that_are_not_positive(wrong):
    trials = table()
    with pytest.raises(ExperimentError, match="must be positive"):
        overlay_theory(success_frontier(trials), trials, **wrong)
