"""Tracing a frontier: error rates on laws of success that are known, and real trials."""

import math

import numpy as np
import pandas as pd
import pytest

import elegans as el
from elegans.analysis import SequentialTest, crossings
from elegans.analysis.contours import Segment, segments
from elegans.analysis.frontier_search import FrontierSearch
from elegans.errors import SweepError, TrialError

ROWS, COLUMNS, LONGEST, SHORT = 5, 17, 20_000, 3000
TEST = SequentialTest()


def law(name):
    """Success rates by row (width, increasing) and column (sample size)."""
    if name in ("zero", "one"):
        return np.full((ROWS, COLUMNS), float(name == "one"))
    middle = np.array([5.3, 4.8, 4.4, 4.1, 3.4])[:, None]
    rates = 1 / (1 + np.exp((middle - np.arange(COLUMNS)) / 0.4))
    if name == "dip":
        rates[:3, 9:13] = 0.05
    return rates


def traced(rates, seed, gap=4, monotone=True, budget=None):
    """Trace a law; each cell's outcomes follow from the seed, in whatever order they are asked for."""
    solved = np.random.default_rng(seed).random((*rates.shape, TEST.maximum)) < rates[..., None]
    search = FrontierSearch(*rates.shape, TEST, gap, monotone, LONGEST, budget)
    search.run(
        lambda asked: {
            place: [(bool(solved[place][each]), SHORT if solved[place][each] else LONGEST) for each in seeds]
            for place, seeds in asked.items()
        }
    )
    return search


def is_right(found, rates):
    """Return whether the segments of a row hold its true crossings, each of them one."""
    above = rates > 0.5
    if not above.any() or above.all():
        return found == [Segment("gained", None, 0) if above.all() else Segment("gained", COLUMNS - 1, None)]
    true = [column for column in range(1, COLUMNS) if above[column] != above[column - 1]]
    return len(found) == len(true) and all(
        (each.left is None or each.left < at) and (each.right is None or each.right >= at)
        for each, at in zip(found, true, strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "share"), [("monotone", 0.2), ("dip", 0.25), ("zero", 0.05), ("one", 0.3)])
def test_the_band_holds_every_crossing_in_99_of_100_rows_at_a_fraction_of_the_grid_s_steps(name, share):
    """60 traces of 5 rows, each a simulated grid: 0.2% of rows wrong in 1500; 1% allowed, with 5 standard errors.

    A flat law, whose trials all end alike, is never misjudged in 6 traces; a dip of four columns is found and both of
    its edges are followed.
    """
    rates = law(name)
    wrong, steps, traces = 0, 0, 6 if name in ("zero", "one") else 60
    for seed in range(traces):
        search = traced(rates, seed)
        steps += search.steps
        wrong += sum(not is_right(segments(search.known(row)), rates[row]) for row in range(ROWS))
        assert search.complete
    assert wrong / (ROWS * traces) <= 0.01 + 5 * math.sqrt(0.01 * 0.99 / (ROWS * traces))
    assert wrong == 0 or name in ("monotone", "dip")
    grid = TEST.maximum * (rates * SHORT + (1 - rates) * LONGEST).sum()
    assert steps / traces < share * grid


@pytest.mark.slow
def test_where_success_falls_with_width_carrying_is_given_up_and_the_contour_is_right():
    rates = law("monotone")
    rates[0] = law("monotone")[-1]
    rates[0, 2:] = 1
    for seed in range(20):
        search = traced(rates, seed)
        assert not search.carries
        assert is_right(segments(search.known(0)), rates[0])


def test_without_carrying_every_row_rests_on_its_own_cells():
    search = traced(law("monotone"), 0, monotone=False)
    for row in range(ROWS):
        assert set(search.known(row)) == {column for own, column in search.trials if own == row}


def test_what_is_asked_follows_from_the_outcomes_alone():
    """A trace that is cut short by its budget is the beginning of the whole one."""
    rates = law("dip")
    whole = traced(rates, 1)
    part = traced(rates, 1, budget=whole.steps // 3)
    assert not part.complete and part.steps <= whole.steps // 3
    for place, answers in part.trials.items():
        assert whole.trials[place][: len(answers)] == answers


def test_no_two_examined_cells_of_one_verdict_are_further_apart_than_the_gap():
    for gap in (1, 2, 4, 6):
        search = traced(law("monotone"), 2, gap=gap)
        for row in range(ROWS):
            assert np.diff([-1, *sorted(search.known(row))]).max() <= gap + 1
            assert np.diff(sorted(search.known(row))).max() <= gap


def test_failed_trials_are_no_answers():
    search = FrontierSearch(1, 2, TEST, 4, False, 100, None)
    search.run(lambda asked: {place: [(None, 0)] * len(seeds) for place, seeds in asked.items()})
    assert search.counts((0, 1)) == (0, 0) and search.verdict((0, 1)) == 0


TRIAL = el.Trial(
    task=el.SparseParity(n=14, k=2),
    regime=el.Sample(100),
    model=el.MLP(width=10, init="sparse:2"),
    training=el.SGD(steps=1000, weight_decay=0.01, stopping=el.StoppingRule(every=50, examples=500)),
)
SIZES, WIDTHS = (10, 20, 40, 80, 160, 320, 640), (4, 16, 64)


@pytest.mark.slow
def test_a_real_frontier_is_traced_resumed_and_free_where_the_grid_is_there(place):
    store = place
    first = el.trace_frontier(TRIAL, xs=SIZES, ys=WIDTHS, store=store, workers=1)
    seen = []
    again = el.trace_frontier(TRIAL, xs=SIZES, ys=WIDTHS, store=store, workers=1, watch=seen.append)
    assert seen[-1].this_run == 0 and seen[-1].done == len(first.trials)
    for name in ("crossings", "cells", "trials"):
        pd.testing.assert_frame_equal(getattr(first, name), getattr(again, name))
    assert first.complete and first.steps == again.steps == first.trials["steps"].sum() == first.cells["steps"].sum()
    assert list(first.crossings) == ["model.width", "direction", "low", "crossing", "high"]
    wide = first.crossings.set_index("model.width").loc[64]
    assert 10 <= wide["low"] < wide["crossing"] < wide["high"] <= 640
    grid = el.run(el.grid(TRIAL, {"model.width": WIDTHS, "regime.size": SIZES}, seeds=20), store)
    full = el.analysis.summarise_cells(grid)
    for width, rows in first.crossings.groupby("model.width"):
        if rows["crossing"].notna().any():
            cells = full[full["model.width"] == width]
            exact = crossings(cells["regime.size"], cells["rate"])[0]
            assert abs(math.log2(exact / rows["crossing"].iloc[0])) <= 1


@pytest.mark.slow
def test_a_trace_that_was_cut_short_goes_on_to_the_same_contour(place):
    store = place
    part = el.trace_frontier(TRIAL, xs=SIZES, ys=WIDTHS, store=store, workers=1, budget=20_000)
    whole = el.trace_frontier(TRIAL, xs=SIZES, ys=WIDTHS, store=store, workers=2)
    fresh = el.trace_frontier(TRIAL, xs=SIZES, ys=WIDTHS, workers=1)
    assert not part.complete and 0 < len(part.trials) < len(whole.trials)
    pd.testing.assert_frame_equal(whole.crossings, fresh.crossings)
    pd.testing.assert_frame_equal(whole.cells, fresh.cells)


def test_a_budget_that_is_used_up_leaves_an_open_contour():
    found = el.trace_frontier(TRIAL, xs=SIZES, ys=WIDTHS, workers=1, budget=9000)
    assert not found.complete and found.steps <= 9000
    assert set(found.crossings["model.width"]) == set(WIDTHS)
    assert found.crossings["crossing"].isna().any()


def test_another_axis_takes_its_values():
    found = el.trace_frontier(
        TRIAL, x="task.noise", y="model.init", xs=[0.0, 0.45], ys=["dense", "sparse:2"], seeds=8, workers=1
    )
    assert not found.monotone and list(found.cells)[:2] == ["model.init", "task.noise"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": 1.0}, "level must lie between 0 and 1: level=1.0"),
        ({"confidence": 0}, "confidence must lie between 0 and 1: confidence=0"),
        ({"seeds": 5}, "there must be enough trials to tell a rate of 0 or 1 from 0.5 at 0.99: trials=5"),
        (
            {"budget": 10},
            "budget must be at least the steps of one cell's first trials (8 trials of 1000 steps, ",
        ),
        ({"xs": []}, "xs must have at least one value: xs=[]"),
        ({"xs": [100, 10]}, "xs must be increasing numbers: xs=[100, 10]"),
        ({"ys": [10, 4]}, "ys must be increasing numbers: ys=[10, 4]"),
        ({"gap": 0}, "gap must be at least 1: gap=0"),
        ({"x": "task.noise"}, "xs must be given where x is neither regime.size nor model.width: x='task.noise'"),
    ],
)
def test_a_bad_trace_is_refused_before_anything_runs(arguments, message):
    with pytest.raises(SweepError) as raised:
        el.trace_frontier(TRIAL, **arguments)
    assert str(raised.value).startswith(message) and "\n" not in str(raised.value)


def test_a_learner_whose_steps_nothing_bounds_is_not_traced():
    search = el.Trial(task=TRIAL.task, regime="sample:30", model="subset-search")
    with pytest.raises(SweepError, match="a traced trial must have a training, whose steps are saved: model=subset"):
        el.trace_frontier(search, y="task.n", ys=[10, 20])


def test_an_unknown_path_is_refused_and_the_nearest_suggested():
    with pytest.raises(TrialError, match="no field 'sise'; did you mean 'size'"):
        el.trace_frontier(TRIAL, x="regime.sise", xs=[10, 20])


def test_rows_that_do_not_wait_for_each_other_are_asked_for_at_once():
    rounds = {monotone: [] for monotone in (True, False)}
    for monotone, seen in rounds.items():
        search = FrontierSearch(ROWS, COLUMNS, TEST, 4, monotone, LONGEST, None)
        while rows := search.wanted():
            seen.append(len(rows))
            for row in rows:
                for (at, column), seeds in row.items():
                    solved = column >= law("monotone").argmax(axis=1)[at] // 2 + 4
                    search.trials.setdefault((at, column), []).extend([(bool(solved), SHORT)] * len(seeds))
    assert set(rounds[True]) == {1} and rounds[False][0] == ROWS
    assert len(rounds[False]) * 2 < len(rounds[True])
