"""Experiments run by name, write their files, and refuse what does not exist."""

import json
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import elegans as el
from elegans import discovery
from elegans.analysis import summarise_cells
from elegans.errors import ExperimentError, RunError
from elegans.experiments import EXPERIMENTS, Experiment, Result, Results, Scale, find, registry, run_experiment
from elegans.experiments.base import Option
from elegans.experiments.claims import HOLDS, UNDECIDED
from elegans.experiments.evidence import collected
from elegans.models import MLP
from elegans.plots.style import figure_legend, panels, title_figure
from elegans.stopping import StoppingRule
from elegans.studies.pareto_frontiers.settings import SIZES
from elegans.tabular import datasets
from elegans.tasks.images import is_available
from elegans.training.engines import ENGINES

PAGES = Path(__file__).parents[2] / "docs" / "experiments"
SCALES = [
    pytest.param(name, scale, marks=[pytest.mark.slow] * ((name, scale) == ("robust-space", "paper")))
    for name, experiment in EXPERIMENTS.items()
    for scale in experiment.scales
]

MULTIPLES = {
    ("success-frontier", "part"): {3: 2},
    ("convergence-scaling", "part"): {"1/5": 52, "1/4": 89},
    ("critical-fraction", "laptop"): {2: 4},
    ("feature-selection-theorems", "smoke"): {"3": 3, "3/5": 4},
    ("feature-selection-theorems", "laptop"): {"3": 3, "3/5": 16},
    ("feature-selection-theorems", "paper"): {"3": 3, "3/5": 54},
    ("grokking", "part"): {"6/5": 1},
    ("grokking-delay", "paper"): {4: 1},
    ("grokking-measures", "laptop"): {"3/4": 1},
    ("hidden-progress", "paper"): {"2": 4, "3": 2, "4": 6, "8": 2, "9": 2},
    ("layer-by-layer", "part"): {"4": 12, "3": 9, "8": 3, "2": 4},
    ("disjoint-polynet", "part"): {"4": 3, "2": 4},
    ("disjoint-polynet", "paper"): {"4": 3, "2": 4},
    ("no-plateau", "part"): {"2": 2, "4": 5, "6": 1, "8": 3, "40": 3},
    ("one-neuron", "smoke"): {"5": 4},
    ("one-neuron", "laptop"): {"5": 14},
    ("one-neuron", "paper"): {"5": 15, "20": 3},
    ("icl-double-descent", "smoke"): {"10": 6},
    ("icl-double-descent", "laptop"): {"10": 6, "5": 6, "2": 6},
    ("icl-double-descent", "paper"): {"10": 6, "5": 6, "2": 6},
    ("icl-loss-curves", "smoke"): {"1/2": 3},
    ("icl-loss-curves", "laptop"): {"1/2": 3},
    ("icl-loss-curves", "paper"): {"1/2": 3},
    ("not-random-search", "paper"): {"1/100": 2},
    ("stagewise", "smoke"): {"1/4": 4},
    ("stagewise", "laptop"): {"1/4": 4},
    ("stagewise", "paper"): {"1/4": 4},
    ("one-layer-fails", "paper"): {"1/2": 4, "5/2": 4},
    ("reuse", "laptop"): {"6": 6},
    ("reuse", "paper"): {"4": 14, "2": 8},
    ("robust-space", "part"): {"2": 75, "5": 270},
    ("sparsity-sweep", "part"): {"12": 6},
    ("sparsity-sweep", "paper"): {"12": 6},
    ("theorem-5.8", "part"): {"1/10": 1},
    ("staircase-plateaus", "smoke"): {"3/4": 3},
    ("staircase-plateaus", "laptop"): {"3": 2, "3/4": 9},
    ("staircase-plateaus", "paper"): {"3/4": 12},
    ("leap-scaling", "paper"): {"1/2": 1},
    ("width-sparse", "paper"): {"2": 112},
    ("training-curves", "paper"): {"5": 2},
    ("training-curves-zoo", "part"): {"4": 39, "60": 6},
    ("training-curves-zoo", "paper"): {"4": 39, "60": 6},
    ("width", "part"): {"3/10": 4, "1/4": 3, "1/20": 1},
}
"""By experiment and scale: how many cells have a multiple of the trials asked for."""
OWN_NUMBERS = {
    ("biased-parity-scaling", "paper"): {3: 5},
    ("disjoint-polynet", "part"): {1: 9},
    ("modular-addition", "part"): {6: 3},
    ("not-random-search", "smoke"): {3: 8},
    ("not-random-search", "laptop"): {12: 40},
    ("not-random-search", "part"): {10: 560},
    ("not-random-search", "paper"): {10: 560},
    ("parity-margin", "paper"): {8: 4},
    ("theorem-5.5", "part"): {6: 22, 30: 3, 108: 10, 25: 20},
    ("theorem-5.5", "paper"): {30: 4, 108: 10, 25: 61},
    ("xor-phases", "paper"): {10: 2, 56: 4},
    ("xor-variants", "part"): {10: 3},
}
"""How many cells have a number of trials of their own, however many are asked for."""


def has_benchmark():
    return all(datasets.is_available(task.name) for task in datasets.BENCHMARK)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """``success-frontier`` at smoke scale, with the folder that it was written to."""
    out = tmp_path_factory.mktemp("results")
    return run_experiment("success-frontier", "smoke", out=out, command="elegans run …"), out


def test_a_run_writes_figure_table_and_record(smoke):
    result, out = smoke
    names = {"figure.png", "figure.pdf", "table.csv", "record.json"}
    assert {path.name for path in (out / "success-frontier").iterdir()} == {"runs.db", "smoke"}
    assert {path.name for path in result.folder.iterdir()} == names
    assert {path.name for path in result.files.values()} == names
    assert all(path.stat().st_size > 0 for path in result.files.values())


@pytest.mark.slow
def test_a_run_at_another_scale_or_with_other_options_replaces_no_file_of_an_earlier_one(tmp_path):
    def apply(experiment, value):
        return replace(experiment, shows=value)

    one = replace(EXPERIMENTS["first-steps"], options={"title": Option("the finding", apply)}, claims=(), plot=None)
    one = replace(one, scales=dict.fromkeys(("smoke", "laptop"), one.scales["smoke"]))
    runs = [("smoke", {}), ("laptop", {}), ("laptop", {"title": "a/b"}), ("laptop", {})]
    results = [run_experiment(one, scale, out=tmp_path, options=options, workers=1) for scale, options in runs]
    names = ["smoke", "laptop", "laptop.title=a-b", "laptop"]
    assert [result.folder.relative_to(tmp_path / "first-steps").as_posix() for result in results] == names
    assert all((result.folder / "record.json").exists() for result in results)


def test_the_table_has_a_row_a_cell(smoke):
    result, _ = smoke
    table = pd.read_csv(result.files["table"])
    assert {"task.n", "task.k", "regime.size", "model.width", "model.init"} <= set(table)
    assert list(table)[-7:] == ["trials", "solved", "rate", "low", "high", "median_steps", "failed"]
    assert len(table) == 2 * 3 * 3
    assert (table["trials"] == EXPERIMENTS["success-frontier"].scales["smoke"].trials).all()
    assert table["rate"].between(table["low"], table["high"]).all()


def test_the_record_says_how_it_was_made(smoke):
    result, _ = smoke
    record = json.loads(result.files["record"].read_text())
    assert (record["experiment"], record["scale"], record["command"]) == ("success-frontier", "smoke", "elegans run …")
    assert {"python", "numpy", "jax", "elegans"} <= set(record["versions"])
    assert set(record["machine"]) == {"processor", "cores", "instruction_set", "memory_gib", "system"}
    assert record["trials"] == len(result.trials) == sum(record["states"].values()) == sum(record["engines"].values())
    assert (record["failed"], record["interrupted"]) == (result.failed, result.interrupted) == (0, 0)
    assert 0 < record["evaluation_share"] < 1
    assert record["seconds"] > 0 and record["date"]


@pytest.mark.slow
def test_failed_trials_are_trained_again_only_when_asked(tmp_path, monkeypatch):
    def fail(self, key, task):
        raise RuntimeError("no such luck")

    def failed(**settings):
        return run_experiment("success-frontier", "smoke", out=tmp_path, seeds=1, workers=1, **settings).failed

    with monkeypatch.context() as patched:
        patched.setattr(MLP, "initialise", fail)
        with pytest.raises(RunError, match=r"18 of 18 trials failed .*no such luck"):
            failed()
    with pytest.raises(RunError, match=r"18 of 18 trials failed .*no such luck"):
        failed()
    assert failed(retry_failed=True) == 0


def test_the_figure_has_a_panel_for_each_initialisation(smoke):
    result, _ = smoke
    figure = result.experiment.plot(result.tables)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles[:2] == ["dense initialisation", "sparse initialisation (2 non-zeros)"]


@pytest.mark.skipif(ENGINES["fused"].unavailable() is not None, reason="its error rate is that of the fused engine")
def test_the_smoke_scale_shows_that_width_saves_examples(smoke):
    """8 trials a cell; true rates 98% (width 1000) and 3% (width 3), from 60 others: fails with probability 0.003."""
    solved = smoke[0].tables["table"].set_index(["model.init", "model.width", "regime"])["solved"]
    assert solved["sparse:2", 1000, "sample:1000"] >= 6
    assert solved["sparse:2", 3, "sample:1000"] <= 2


def test_running_again_trains_nothing(smoke):
    result, out = smoke
    again = run_experiment("success-frontier", "smoke", out=out)
    pd.testing.assert_frame_equal(again.trials, result.trials)
    assert again.record["seconds"] < result.record["seconds"]


def test_progress_counts_the_trials_of_all_probes_and_of_further_rounds(tmp_path, monkeypatch):
    stopping = StoppingRule(examples=10, every=1)
    trial = el.Trial(
        task=el.SparseParity(n=4, k=2),
        regime="online",
        model=MLP(width=2),
        training=el.SGD(steps=2, batch_size=2, stopping=stopping),
    )
    scale = Scale(lambda trials: el.grid(trial, {"model.width": [2, 3]}, seeds=trials), trials=2)
    experiment = Experiment(
        name="parts",
        shows="",
        source="",
        scales={"smoke": scale},
        probes=lambda cell: [el.probes.HeldOutErrorRate()] if cell.model.width == 3 else [],
        further=lambda sweep, results, count: el.grid(trial.replace("model.width", 4), {}, seeds=count),
        analyse=lambda results: {"table": summarise_cells(results.trials)},
        plot=lambda tables: panels(1, 1)[0],
    )
    monkeypatch.setattr("elegans.experiments.run.find", lambda name: experiment)
    for trained in (6, 0):
        told = []
        run_experiment("parts", "smoke", out=tmp_path, watch=told.append)
        assert {progress.trials for progress in told} == {4, 6}
        assert all(one.done <= other.done and one.elapsed <= other.elapsed for one, other in pairwise(told))
        last = told[-1]
        assert (last.cells, last.cells_done, last.trials, last.done, last.this_run) == (3, 3, 6, 6, trained)
        assert last.solved + last.unsolved + last.diverged == 6 and last.seconds_left == 0
    alone = replace(experiment, further=None)
    monkeypatch.setattr("elegans.experiments.run.find", lambda name: alone)
    run_experiment("parts", "smoke", out=tmp_path / "alone", watch=told.append)
    assert (told[-1].trials, told[-1].done) == (4, 4)


def test_seeds_sets_the_trials_of_a_cell(smoke):
    _, out = smoke
    result = run_experiment("success-frontier", "smoke", out=out, seeds=2)
    assert (result.tables["table"]["trials"] == 2).all()


def test_a_table_of_scales_on_a_page_has_every_scale():
    for name, experiment in EXPERIMENTS.items():
        page = (PAGES / f"{name}.md").read_text()
        missing = [scale for scale in experiment.scales if f"\n| `{scale}` |" not in page]
        assert "\n| scale |" not in page or not missing, (name, missing)


def test_a_page_does_not_say_of_a_scale_with_evidence_that_it_was_not_run():
    for kept in collected():
        page = " ".join((PAGES / f"{kept.experiment}.md").read_text().split())
        assert not re.search(rf"`{kept.scale}` scale[^.;]{{0,40}} not (run|trained)", page), kept


def test_the_registry_goes_by_the_experiments_names():
    assert all(find(name).name == name for name in EXPERIMENTS)


def test_scales_stand_in_the_order_of_their_size_and_every_experiment_has_a_page():
    for name, experiment in EXPERIMENTS.items():
        assert [scale for scale in ("smoke", "laptop", "part", "paper") if scale in experiment.scales] == list(
            experiment.scales
        )
        assert experiment.shows and experiment.source
        assert (PAGES / f"{name}.md").exists(), name


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_each_cell_has_the_trials_asked_for_or_the_multiple_or_number_declared_for_it(name, scale):
    if (name, scale) == ("digit-parity", "paper") and not is_available("mnist"):
        pytest.skip("MNIST is not at hand: ELEGANS_MNIST names no file")
    if (name.partition("-")[0], scale) == ("tabular", "paper") and not has_benchmark():
        pytest.skip("the benchmark's 16 tables are not at hand")
    count = 1 if name.startswith("tabular") else 700  # tables end; some cells have a hundredth of the trials
    parts = EXPERIMENTS[name].scales[scale].cells(count).parts
    expected = Counter(OWN_NUMBERS.get((name, scale), {}))
    for multiple, size in MULTIPLES.get((name, scale), {}).items():
        expected[int(Fraction(multiple) * count)] += size
    expected[count] += len(parts) - expected.total()
    assert Counter(len(seeds) for _, seeds in parts) == expected


@pytest.mark.slow
def test_the_paper_scale_is_the_published_grid():
    """24 panels x 9 widths x (17 sample sizes and online) x 50 trials: the roughly 200K runs of appendix C."""
    sweep = EXPERIMENTS["success-frontier"].scales["paper"].cells(50)
    assert len(SIZES) == 17 and SIZES[:5] == (100, 200, 300, 600, 1000) and SIZES[-1] == 1_000_000
    assert len(sweep) == 24 * 9 * 18 * 50 == 194_400
    first = sweep.cells[0]
    assert (first.training.steps, first.training.batch_size) == (100_000, 32)
    assert (first.training.learning_rate, first.training.weight_decay) == (0.1, 0.01)
    assert (first.training.stopping.error, first.training.stopping.examples) == (0.1, 10_000)


@pytest.mark.parametrize(
    ("name", "scale", "seeds", "message"),
    [
        ("success-frontiers", "smoke", None, "did you mean 'success-frontier'"),
        ("grokking-by-moonlight", "smoke", None, "`elegans list` lists all"),
        ("success-frontier", "labtop", None, "known: smoke, laptop, part"),
        ("success-frontier", "smoke", 0, "seeds must be at least 1: seeds=0"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_is_made(name, scale, seeds, message, tmp_path):
    with pytest.raises(ExperimentError, match=message):
        run_experiment(name, scale, out=tmp_path, seeds=seeds)
    assert not list(tmp_path.iterdir())


def test_results_that_cannot_be_written_are_an_error_of_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ExperimentError, match="results must have a folder that can be created"):
        run_experiment("success-frontier", "smoke", out=tmp_path / "file")


@pytest.mark.parametrize(
    ("scale", "verdicts", "note"),
    [
        ("smoke", [UNDECIDED, HOLDS, UNDECIDED], "Scale smoke is too small to decide 2 of 3 claims."),
        ("smoke", [HOLDS, HOLDS], None),
        ("smoke", [], None),
        ("laptop", [UNDECIDED], None),
    ],
)
def test_a_smoke_figure_says_which_claims_it_is_too_small_for(tmp_path, scale, verdicts, note):
    figure, axes = panels(1, 1)
    axes[0, 0].set_xlabel("steps")
    experiment = replace(find("success-frontier"), plot=lambda tables: figure, extras={})
    record = {"verdicts": {f"work/{place}": {"verdict": verdict} for place, verdict in enumerate(verdicts)}}
    Result(experiment, Results(pd.DataFrame(), scale=scale), {}, record, tmp_path).write()
    assert figure.get_supxlabel() == (note or "")
    if note:
        drawn = FigureCanvasAgg(figure).get_renderer()
        below = next(text for text in figure.texts if text.get_text() == note).get_window_extent(drawn)
        assert below.y0 >= 0 and below.x0 >= 0 and below.x1 <= figure.bbox.width
        assert below.y1 <= axes[0, 0].get_tightbbox(drawn).y0


@pytest.mark.parametrize(
    ("trials", "verdicts", "title"),
    [
        (4, [HOLDS, UNDECIDED], "Scale smoke: too few trials for a finding\n"),
        (4, [], "Scale smoke: too few trials for a finding\n"),
        (4, [HOLDS], "Networks learn\n"),
        (12, [UNDECIDED], "Networks learn\n"),
        (0, [], "Networks learn\n"),
    ],
)
def test_a_smoke_figure_of_few_trials_states_no_finding(tmp_path, trials, verdicts, title):
    figure, ((drawn, empty),) = panels(1, 2)
    drawn.plot([0, 1])
    empty.plot([np.nan], [np.nan])
    title_figure(figure, "Networks learn", "Parities of two of ten bits")
    height = figure.get_figheight()
    experiment = replace(find("success-frontier"), plot=lambda tables: figure, extras={})
    record = {"trials": trials, "cells": 2}
    record["verdicts"] = {f"work/{place}": {"verdict": verdict} for place, verdict in enumerate(verdicts)}
    Result(experiment, Results(pd.DataFrame(), scale="smoke"), {}, record, tmp_path).write()
    assert figure.get_suptitle() == title
    assert figure.get_figheight() == pytest.approx(height + 0.2 * (UNDECIDED in verdicts))
    assert [text.get_text() for text in (*drawn.texts, *empty.texts)] == ["nothing to show at scale smoke"]


@pytest.mark.parametrize(
    ("name", "seen", "named"),
    [
        ("subtask-curves", "Subtasks are learned suddenly", "Losses of single subtasks"),
        ("polygon-levels", "Larger starts find hexagons", "Levels by start"),
        ("xor-variants", "Without biases the parity stays hidden", "Weights on the relevant directions"),
    ],
)
def test_panels_of_a_few_trials_are_named_by_what_they_show(name, seen, named):
    kept = next(each for each in collected() if (each.experiment, each.scale) == (name, "laptop"))
    few = {
        table: rows[rows["seed"] < rows["seed"].min() + 2]
        if "seed" in rows
        else rows.assign(trials=1)
        if "trials" in rows
        else rows
        for table, rows in kept.tables.items()
    }
    for tables, title, other in ((kept.tables, seen, named), (few, named, seen)):
        drawn = " ".join(ax.get_title(loc="left") for ax in find(name).plot(tables).axes)
        assert title in drawn and other not in drawn


def test_a_smoke_figure_with_a_note_of_its_own_counts_claims_below_it(tmp_path):
    figure, _ = panels(1, 1)
    figure.suptitle("The finding")
    figure.supxlabel("In each cell: trials solved.", fontsize=7)
    experiment = replace(find("success-frontier"), plot=lambda tables: figure, extras={})
    free = next(claim.id for claim in experiment.claims if claim.arithmetic)
    record = {"verdicts": {free: {"verdict": HOLDS}, "work/open": {"verdict": UNDECIDED}}}
    Result(experiment, Results(pd.DataFrame(), scale="smoke"), {}, record, tmp_path).write()
    assert figure.get_supxlabel() == "In each cell: trials solved.\nScale smoke is too small to decide the claim."


def test_a_smoke_figure_s_note_and_its_legend_do_not_overlap(tmp_path):
    figure, axes = panels(1, 1)
    axes[0, 0].plot([0, 1], label="networks")
    figure_legend(figure, axes[0, 0])
    experiment = replace(find("success-frontier"), plot=lambda tables: figure, extras={})
    record = {"verdicts": {"work/open": {"verdict": UNDECIDED}}}
    Result(experiment, Results(pd.DataFrame(), scale="smoke"), {}, record, tmp_path).write()
    note, label = figure.legends[0].get_title(), figure.legends[0].get_texts()[0]
    assert note.get_text() == "Scale smoke is too small to decide the claim."
    FigureCanvasAgg(figure).draw()
    assert note.get_window_extent().y0 >= label.get_window_extent().y1 - 1


@pytest.mark.parametrize(
    ("written", "computed"),
    [('{"smoke": Scale', "SCALES"), ('name="own"', "name=NAME"), ('shows="it"', "shows=f'{it}'")],
)
def test_what_is_read_from_a_study_s_text_must_be_literals(tmp_path, written, computed):
    text = 'EXPERIMENT = Experiment(name="own", shows="it", source="mine", scales={"smoke": Scale})\n'
    study = discovery.Study("mine", "mine", tmp_path)
    file = tmp_path / "own.py"
    file.write_text(text)
    assert [entry.name for entry in registry._entries(study, "mine.own", file)] == ["own"]
    file.write_text(text.replace(f"{written}}}" if "{" in written else written, computed))
    with pytest.raises(ExperimentError, match=r"^the name, shows and source .* must be literals: own\.py of mine$"):
        list(registry._entries(study, "mine.own", file))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, one in EXPERIMENTS.items() if "parts" in one.options])
def test_a_part_of_an_experiment_is_named_in_its_scales_and_other_words_are_refused(name):
    experiment = EXPERIMENTS[name]
    names = re.findall(r"(?<= or )(\w+):", experiment.options["parts"].chooses)
    assert names
    for each in names:
        part = experiment.with_options({"parts": each})
        assert all(scale.part for scale in part.scales.values()) and list(part.scales) == list(experiment.scales)
        fewer = len(part.scales["smoke"].cells(1).parts) < len(experiment.scales["laptop"].cells(3).parts)
        assert fewer or part.further is not experiment.further
    assert experiment.with_options({"parts": "all"}) is experiment
    with pytest.raises(ExperimentError, match=f"parts must be all or {' or '.join(names)}: parts='some'"):
        experiment.with_options({"parts": "some"})
