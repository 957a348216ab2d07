"""Progress and figures show by themselves on terminals and in notebooks, and nowhere else."""

import io
import re
import sys
from itertools import pairwise
from types import SimpleNamespace

import matplotlib
import pytest
from laboratory import TRIAL as TOY
from matplotlib import pyplot
from rich.console import Console

import elegans as el
from elegans import display
from elegans.store import Store
from elegans.sweeps.progress import Meter, Progress, SweepView, pace
from elegans.training.view import TrainView

TRIAL = el.Trial(
    task=el.SparseParity(n=10, k=1),
    regime=el.Sample(50),
    model=el.MLP(width=5),
    training=el.SGD(steps=3000, stopping=el.StoppingRule(examples=50, stop=False, every=5)),
)
SWEEP = el.grid(TRIAL, {"model.width": [5, 6]}, seeds=4)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Returns a function that puts a terminal in place of stderr, which pytest would replace before the test begins."""
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(display, "LIVE_EVERY", 0.0)

    def put():
        monkeypatch.setattr(sys, "stderr", Terminal())
        return sys.stderr

    return put


@pytest.fixture
def notebook(monkeypatch):
    """Returns what the cells of a notebook show, each as a list of its successive contents."""
    cells = []

    def show(content, raw, display_id):
        assert raw and display_id
        cells.append([content["text/plain"]])
        return SimpleNamespace(update=lambda content, raw: cells[-1].append(content["text/plain"]))

    kernel = SimpleNamespace(kernel=object())
    fake = SimpleNamespace(get_ipython=lambda: kernel, display=SimpleNamespace(display=show))
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setattr(display, "LIVE_EVERY", 0.0)
    return cells


def test_a_run_and_a_training_show_their_progress_on_a_terminal(terminal):
    shown = terminal()
    el.run(SWEEP)
    assert re.search(r"of 8 trials[^,]*(, (starting or compiling|\S+ trials/s)|$)", shown.getvalue())
    shown = terminal()
    el.train(TRIAL)
    assert "of 3,000" in shown.getvalue()


def test_they_show_it_in_a_notebook_and_leave_the_last_word(notebook):
    el.run(SWEEP)
    (shown,) = notebook
    assert "of 8 trials" in shown[0] and shown[-1].startswith("8 of 8 trials done (8 of them by this run")
    el.train(TRIAL)
    assert "step " in notebook[1][0]


@pytest.mark.parametrize("options", [{"progress": False}, {"watch": lambda progress: None}])
def test_who_asks_for_none_or_watches_is_shown_none(terminal, options):
    shown = terminal()
    el.run(SWEEP, **options)
    el.train(TRIAL, **options)
    assert shown.getvalue() == ""


def test_nothing_is_shown_where_nobody_looks_unless_asked_for(capsys, monkeypatch):
    monkeypatch.setattr(display.LiveView, "is_due", lambda self: True)
    el.run(SWEEP)
    el.train(TRIAL)
    assert capsys.readouterr() == ("", "")
    told = []
    el.run(SWEEP, progress=True, watch=told.append)
    assert "8 of 8 trials" in capsys.readouterr().err and told[-1].done == 8


def progress(**fields):
    counts = dict.fromkeys(("solved", "unsolved", "diverged", "failed", "interrupted", "cells_done", "done"), 0)
    fixed = {"cells": 1, "trials": 2, "this_run": 0, "per_second": 0.002, "seconds_left": 600.0, "elapsed": 300.0}
    return Progress(**{**counts, **fixed, **fields})


def test_long_trials_are_shown_by_their_steps_with_the_projected_end():
    running = progress(under_way=((41_000, 100_000, 1), (38_000, 100_000, 1)))
    assert running.share == pytest.approx(0.79)
    said = pace(running)
    assert "0 of 2 trials (step 41,000 of 100,000; step 38,000 of 100,000)" in said
    assert "10 min left, until " in said
    assert "(64 trials at step 5 of 1,000)" in pace(progress(under_way=((5, 1000, 64),)))
    assert "1,200 of 194,400 trials" in pace(progress(done=1200, trials=194_400))
    assert "step" not in pace(progress(under_way=((5, 10, 1),), per_second=50.0))


def test_no_speed_is_told_before_the_first_steps():
    unknown = {"per_second": 0.0, "seconds_left": None}
    assert pace(progress(**unknown)) == "0 of 1 cell, 0 of 2 trials, starting or compiling"
    first = progress(**unknown, under_way=((1, 1000, 2),))
    assert pace(first) == "0 of 1 cell, 0 of 2 trials (2 trials at step 1 of 1,000)"
    assert pace(progress(**unknown, waits_for=("run 1",))) == "0 of 1 cell, 0 of 2 trials; waiting for run 1"


def test_a_run_that_finds_every_trial_done_neither_starts_nor_has_time_left():
    complete = progress(cells_done=1, done=2, solved=2, per_second=0.0, seconds_left=0.0)
    assert pace(complete) == "1 of 1 cell, 2 of 2 trials"


def test_without_a_terminal_no_line_is_repeated_and_lines_become_rare(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("elegans.display.time.monotonic", lambda: clock[0])
    stream = io.StringIO()
    view = SweepView(Console(file=stream, soft_wrap=True))
    times = []
    for step in range(4000):
        clock[0] = float(step)
        written = stream.tell()
        view(progress(done=step // 20))
        if stream.tell() > written:
            times.append(step)
    gaps = [after - before for before, after in pairwise(times)]
    assert times[0] == 5 and len(set(stream.getvalue().splitlines())) == len(times)
    assert gaps[1] <= 40 and 60 <= gaps[-1] <= 80 and len(times) < 110


def test_the_time_of_a_compilation_is_no_part_of_the_time_left(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("elegans.sweeps.progress.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("elegans.training.view.time.monotonic", lambda: clock[0])
    meter, shown = Meter(), []
    view = TrainView(1000)
    view.is_due, view.show = lambda: True, lambda text, line: shown.append(line)
    clock[0] += 60  # compiling
    meter.note(0.001)
    view(1, 1)
    assert meter.seconds_left(1) is None and shown == ["step 1 of 1,000"]
    clock[0] += 1
    meter.note(0.101)
    view(101, 1)
    assert meter.seconds_left(1) == pytest.approx(9, rel=0.01)
    assert shown[1] == "step 101 of 1,000, 100 steps/s, 9.0 s left at most"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.00312, "3.12 ms"),
        (0.0996, "0.1 s"),
        (2.54, "2.5 s"),
        (9.96, "10 s"),
        (85, "85 s"),
        (99.6, "1.7 min"),
        (630, "10 min"),
        (5999, "1.7 h"),
        (12 * 3600, "12 h"),
        (3 * 86400, "3.0 days"),
        (10**8, "1,157 days"),
    ],
)
def test_a_duration_is_told_in_the_unit_that_suits_it(seconds, text):
    assert display.span(seconds) == text


def test_the_time_left_is_known_before_the_first_trial_has_ended(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("elegans.sweeps.progress.time.monotonic", lambda: clock[0])
    meter = Meter()
    assert meter.seconds_left(2) is None
    for second in range(1, 101):
        clock[0] = 100.0 + second
        meter.note(second / 400)
    assert meter.per_second == pytest.approx(1 / 400)
    assert meter.seconds_left(2) == pytest.approx(2 * 400 - 100)
    meter.add(1)
    meter.note(0.0)
    assert meter.seconds_left(1) < 400


@pytest.mark.slow
def test_a_run_of_one_long_trial_tells_its_steps(toy):
    toy(seconds=0.025)
    seen = []
    el.run(el.grid(TOY.replace("training.steps", 40), {}, seeds=[2]), engine="toy", watch=seen.append)
    running = [told for told in seen if told.under_way]
    steps = [told.under_way[0][0] for told in running]
    assert len(set(steps)) > 2 and steps == sorted(steps) and running[0].under_way[0][1:] == (40, 1)
    assert any(told.seconds_left for told in running if told.done == 0)
    assert seen[-1].under_way == ()


def test_figures_show_in_a_notebook_and_register_with_pyplot_nowhere_else(monkeypatch):
    monkeypatch.setattr("elegans.plots.style.in_notebook", lambda: True)
    outcome = el.train(TRIAL)
    with matplotlib.rc_context({"backend": "agg"}):
        before = pyplot.get_fignums()
        ax = el.plots.learning_curve(outcome)
        assert len(pyplot.get_fignums()) == len(before) + 1
        pyplot.close(ax.figure)
        monkeypatch.undo()
        figure = el.plots.figure_of(el.plots.learning_curve(outcome))
        assert pyplot.get_fignums() == before
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_representations_are_short_and_say_what_matters():
    outcome = el.train(TRIAL, probes=[el.probes.WeightMovement(every=500)])
    for text in (repr(outcome), repr(SWEEP), repr(Store())):
        assert len(text) < 1000 and text.count("\n") < 6
    assert "solved at step" in repr(outcome) or "unsolved" in repr(outcome)
    assert "weight-movement (7 times)" in repr(outcome) and "hidden.weight (5, 10)" in repr(outcome)
    assert repr(SWEEP) == "Sweep(8 trials of 2 cells; model.width: 5, 6)"
    many = el.grid(TRIAL, {"model.width": range(1, 100)})
    assert repr(many) == "Sweep(99 trials of 99 cells; model.width: 1, 2, 3, …, 99)"
    assert repr(Store()) == "Store('memory')"
