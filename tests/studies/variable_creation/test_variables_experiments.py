"""Sparse functions of bits learned by transformers: what is trained, begun anew, counted and drawn."""

import json
import math
from functools import partial

import numpy as np
import pandas as pd
import pytest

import elegans as el
from elegans.errors import ExperimentError
from elegans.experiments import EXPERIMENTS, draw_experiment, find, run_experiment
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Results, StoredResults, one_table
from elegans.experiments.run import _followed
from elegans.studies.variable_creation import (
    and_curves as curves,
    and_samples as samples,
    parity_transformer as parity,
    settings,
)
from elegans.sweeps import Sweep, grid
from elegans.tasks import IdentifiableSample

NAMES = ["and-samples", "and-curves", "parity-transformer"]


def row(one, solved_at=None, state=None):
    """A trial as a store's table has it."""
    ended = state or ("unsolved" if solved_at is None else "solved")
    return {**one.columns(), "seed": one.seed, "state": ended, "solved_at": solved_at}


def frame(rows):
    made = pd.DataFrame(rows)
    return made.assign(solved_at=made["solved_at"].astype("Int64"))


def results_of(sweep, solves, state=None):
    """The results of a sweep; ``solves`` says of a trial whether it is solved."""
    return Results(frame([row(one, 50 if solves(one) else None, state) for one in sweep]), sweep=sweep)


# what is trained


def test_half_of_the_labels_of_a_conjunction_are_positive():
    """Exactly in the mean; of 4000 drawn ones five standard deviations are 0.04."""
    task = settings.conjunction(30).task
    assert task.p == pytest.approx(0.5 ** (1 / 3), abs=1e-12)
    assert task.function.chance(3, task.p) == pytest.approx(0.5, abs=1e-12)
    for drawn in (task, settings.parity(15).task):
        hidden, key = drawn.draw(el.random.stream(1, "task")), el.random.stream(1, "sample")
        y = drawn.examples(hidden, key, np.arange(4000, dtype=np.uint32))[1]
        assert (y > 0).mean() == pytest.approx(0.5, abs=0.04)


def test_the_network_and_its_training_are_the_published_ones():
    one = settings.conjunction(100, 60)
    model, training = one.model, one.training
    assert (model.width, model.heads, model.head_width, model.sizes, model.dropout) == (64, 16, 4, (256,), 0.1)
    assert (training.learning_rate, training.beta1, training.beta2, training.clip) == (1e-3, 0.9, 0.999, 1.0)
    assert (training.batch_size, training.batches, training.steps) == (60, "epochs", 1000)
    assert training.stopping.allowed == 99 and training.stopping.every == 10
    assert training.rates("attention.query")[1] == training.rates("output.weight")[1] == 1e-4
    assert not any(training.rates(name)[1] for name in ("embedding.token", "norm1.scale", "attention.key_bias"))
    assert (settings.parity(15).training.batch_size, settings.parity(15).regime) == (2048, el.Online())


def test_the_paper_scales_are_the_published_ones():
    sweep = find("and-samples").scales["paper"].cells(40)
    sizes = {cell.regime.size for cell in sweep.cells}
    bits = {cell.task.n for cell in sweep.cells}
    assert len(sweep.cells) == 288 and len(sweep) == 11_520
    assert sizes == set(range(50, 201, 10)) and bits == {*range(100, 801, 50), 900, 1000, 1100}
    assert find("and-samples").scales["paper"].rounds + 1 == 5
    assert all(isinstance(cell.regime, IdentifiableSample) for cell in sweep.cells)
    curves = find("and-curves").scales["paper"].cells(40).cells
    published = [(size, start) for size in (200, 50) for start in range(5)]
    assert [(cell.regime.size, cell.restart) for cell in curves[:10]] == published
    assert {cell.regime.size for cell in curves} == {50, 70, 100, 140, 200}
    parities = find("parity-transformer").scales["paper"].cells(10).cells
    assert [(cell.task.n, cell.model.dropout) for cell in parities] == [(10, 0.1), (15, 0.1), (10, None), (15, None)]


def test_further_starts_keep_the_seeds_of_a_run_that_begins_elsewhere():
    first = samples.thresholds((20,), (20,), 100, trials=2).shifted(1000)
    second = samples.further(first, results_of(first, lambda one: False), 2)
    assert [tuple(seeds) for _, seeds in second.parts] == [(1000, 1001)]


def test_options_choose_numbers_of_bits_and_another_function():
    experiment = find("and-samples")
    few = experiment.with_options({"bits": "100,300"}).scales["part"].cells(1)
    assert {cell.task.n for cell in few.cells} == {100, 300}
    other = experiment.with_options({"function": "majority"}).scales["smoke"].cells(1).cells[0].task
    assert (other.function.label(), other.p) == ("majority", 0.5)
    with pytest.raises(el.errors.ExperimentError, match="bits must be numbers separated by commas: bits='few'"):
        experiment.with_options({"bits": "few"})
    with pytest.raises(el.errors.ExperimentError, match="bits must be among the scale's numbers of bits: 100, "):
        experiment.with_options({"bits": "7"}).scales["part"].cells(1)


# starts that follow from others


def test_only_what_no_start_has_solved_is_begun_anew():
    first = samples.thresholds((20, 50), (20, 30), 100, trials=3)
    trials = results_of(first, lambda one: one.task.n == 20 or one.seed == 1)
    second = samples.further(first, trials, 3)
    assert {(cell.task.n, cell.restart) for cell in second.cells} == {(50, 1)}
    assert [seeds for _, seeds in second.parts] == [(0, 2), (0, 2)]
    both = first + second
    trials = results_of(both, lambda one: one.task.n == 20 or one.seed == 1 or (one.restart == 1 and one.seed == 2))
    third = samples.further(both, trials, 3)
    assert [(cell.restart, tuple(seeds)) for cell, seeds in third.parts] == [(2, (0,)), (2, (0,))]
    assert all(cell.key("sample") == first.cells[2].key("sample") for cell in third.cells[:1])


def test_what_has_not_ended_is_not_begun_anew():
    first = samples.thresholds((20,), (20,), 100, trials=2)
    assert len(samples.further(first, results_of(first, lambda one: False, "interrupted"), 2)) == 0


def _is_at_least(one, least):
    return one.restart >= least


def test_further_trials_are_asked_for_until_there_are_none_or_the_rounds_are_over():
    first = samples.thresholds((20,), (20,), 100, trials=2)
    for solved_by, rounds, starts in ((5, 2, 3), (1, 4, 2), (0, 4, 1)):
        take = partial(results_of, solves=partial(_is_at_least, least=solved_by))
        results = _followed(find("and-samples"), take(first), 2, rounds, take)
        assert len(results.sweep) == len(results.trials) == 2 * starts
    plain = Experiment("x", "", "", {"smoke": Scale(first, 1)}, samples.plot, one_table(lambda rows: rows))
    results = results_of(first, lambda one: False)
    assert _followed(plain, results, 2, 3, results_of) is results


# tables


@pytest.fixture(scope="module")
def thresholds():
    """Ten trials a cell: all succeed from 20, 30, 40 examples on, seven of ten below, half of them at the first."""
    bits = {16: 20, 32: 30, 64: 40}
    first = samples.thresholds(tuple(bits), (20, 30, 40, 50), 100, trials=10)
    again = Sweep(tuple((cell.replace("restart", 1), seeds) for cell, seeds in first.parts))

    def solves(one):
        enough = one.regime.size >= bits[one.task.n]
        return (enough or one.seed < 7) and (one.restart == 1 or one.seed % 2 == 0)

    return samples.analyse(results_of(first + again, solves))


@pytest.mark.slow
@pytest.mark.compiles
def test_cells_count_trials_that_some_start_solves(thresholds):
    cells = thresholds["cells"].set_index(["n", "m"])
    assert len(cells) == 12 and (cells["trials"] == 10).all() and (cells["starts_left"] == 0).all()
    assert cells.loc[(32, 20), ["solved", "first"]].tolist() == [7, 4]
    assert cells.loc[(32, 30), ["solved", "first"]].tolist() == [10, 5]
    assert cells.loc[(32, 30), "low"] == pytest.approx(0.7225, abs=1e-4)
    task = settings.conjunction(32).task
    rejected = np.mean([IdentifiableSample(size=20).rejected(task, seed) for seed in range(10)])
    assert cells.loc[(32, 20), "rejected"] == pytest.approx(rejected)


@pytest.mark.compiles
@pytest.mark.slow
def test_thresholds_are_where_four_in_five_succeed(thresholds):
    rows = thresholds["thresholds"].set_index("n")
    assert rows["threshold"].to_dict() == {16: 20, 32: 30, 64: 40}
    assert rows.loc[32, "information"] == pytest.approx(math.log2(math.comb(32, 3)))
    assert (rows["identified"] > rows["information"]).all()
    assert rows.loc[32, ["threshold_low", "threshold_high"]].tolist() == [20, 30]
    everyone = samples.findings(thresholds)
    assert everyone["thresholds"]["64"]["threshold"] == 40
    assert (everyone["by_doubling"], everyone["power"], everyone["residual"]["logarithm"]) == (10, 0, 0)
    assert everyone["starts_left"] == 0


def test_starts_that_are_missing_are_counted():
    first = samples.thresholds((20,), (20,), 100, trials=2)
    again = grid(first.cells[0].replace("restart", 1), {}, seeds=[1])
    tables = samples.analyse(results_of(first + again, lambda one: False))
    assert tables["cells"]["starts_left"].tolist() == [1]
    assert samples.findings(tables)["thresholds"]["20"]["threshold"] is None


def losses(sweep, *curves):
    """The curves of a sweep's trials, a point every 100 steps."""
    points = [(trial, 100 * place, loss) for trial, curve in enumerate(curves) for place, loss in enumerate(curve, 1)]
    table = pd.DataFrame(points, columns=["trial", "step", "loss"]).assign(error=0.5)
    return table.assign(seed=[sweep[trial].seed for trial in table["trial"]])


def test_a_plateau_ends_where_the_loss_leaves_chance():
    falling = [0.695, 0.692, 0.694, 0.69, 0.4, 0.01, *[0.001] * 4]
    straying = [0.72, 0.693, 0.72, *[0.693] * 7]
    trials = [settings.parity(n, steps=1000, consecutive=3) for n in (10, 15)]
    solved = frame([row(one, at) for one, at in zip(trials, (620, None), strict=True)])
    tables = parity.analyse(Results(solved, {"curve": losses(trials, falling, straying)}))
    found = tables["table"].groupby("n").first()
    assert found.loc[10, ["plateau", "above_99", "fall"]].tolist() == [400, 600, 200]
    assert found.loc[10, "stray"] == pytest.approx(math.log(2) - 0.69)
    assert found.loc[15, "plateau"] == 1000 and math.isnan(found.loc[15, "above_99"])
    stated = parity.findings(tables)
    for n, count in ((10, 1), (15, 0)):
        assert [stated[str(n)][name]["count"] for name in ("solved", "flat", "abrupt")] == [count] * 3
        assert [stated[str(n)][name]["of"] for name in ("solved", "flat", "abrupt")] == [1] * 3
    assert len(parity.plot(tables).axes) == 2


def test_of_each_replicate_the_best_start_is_shown():
    sweep = curves.replicates(20, (60, 10), 2, 100, 50, trials=2)
    errors = {(60, 0): [0.5, 0.2, 0.3], (60, 1): [0.5, 0.4, 0.0], (10, 0): [0.5, 0.3, 0.3], (10, 1): [0.5, 0.4, 0.4]}
    places = pd.DataFrame({"trial": np.repeat(range(8), 3), "step": 8 * [0, 50, 100]})
    measures = {
        "test-error": places.assign(error=[x for one in sweep for x in errors[one.regime.size, one.restart]]),
        "train-error": places.assign(error=8 * [0.5, 0.1, 0]),
        "curve": places.assign(loss=0.001),
    }
    tables = curves.analyse(Results(frame([row(one) for one in sweep]), measures))
    starts = tables["table"].groupby(["m", "seed"])["start"].first()
    assert starts.to_dict() == {(10, 0): 0, (10, 1): 0, (60, 0): 1, (60, 1): 1}
    stated = curves.findings(tables)
    assert (stated["60"]["generalise"]["count"], stated["10"]["generalise"]["count"]) == (2, 0)
    assert stated["10"]["best"]["range"] == [0.7, 0.7]
    assert stated["60"]["all_of_the_sample_right"]["count"] == 2
    few, many, fitted = curves.plot(tables).axes
    assert [len(ax.lines) for ax in (few, many, fitted)] == [2, 2, 2]
    assert [ax.get_title(loc="left").partition(": ")[2] for ax in (few, many)] == [
        "0 of 2 generalise",
        "2 of 2 generalise",
    ]


# figures and options


@pytest.mark.compiles
@pytest.mark.slow
def test_thresholds_are_drawn_with_what_any_learner_needs(thresholds):
    figure = samples.plot(thresholds)
    assert len(figure.axes) == 1 + len(set(thresholds["cells"]["n"]))
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"threshold m", "threshold in the thesis", "support identified", "proportional to T"} <= set(names)


def test_level_and_accuracy_may_be_chosen():
    chosen = find("and-samples").with_options({"level": "0.5", "accuracy": "0.95"})
    cell = chosen.scales["laptop"].cells(1).cells[0]
    assert cell.training.stopping.allowed == 500
    first = samples.thresholds((20,), (20, 30), 100, trials=10)
    tables = chosen.analyse(results_of(first, lambda one: one.seed < 6))
    assert tables["thresholds"]["threshold"].tolist() == [20]
    with pytest.raises(ExperimentError, match="level must be above 0 and at most 1: level='80%'"):
        find("and-samples").with_options({"level": "80%"})
    with pytest.raises(ExperimentError, match=r"accuracy must be above 0 and at most 1: accuracy=\[1\]"):
        find("and-samples").with_options({"accuracy": [1]})


# what networks do


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("name", NAMES)
def test_each_experiment_writes_figure_table_and_findings(name, tmp_path):
    result = run_experiment(name, "smoke", out=tmp_path)
    assert all(path.stat().st_size > 0 for path in result.files.values())
    record = json.loads(result.files["record"].read_text())
    assert record["findings"] and record["failed"] == 0
    drawn = draw_experiment(name, "smoke", out=tmp_path)
    assert drawn.tables.keys() == result.tables.keys()
    for kind, table in result.tables.items():
        pd.testing.assert_frame_equal(drawn.tables[kind], table)
    assert len(drawn.trials) == len(result.trials) >= EXPERIMENTS[name].scales["smoke"].trials


@pytest.mark.slow
def test_five_times_as_many_bits_take_less_than_twice_as_many_examples():
    """Five starts each. Measured of others: all 20 succeed with 60 examples of 20 bits and with 100 of 100 bits, none
    of 60 with 20 of 100. Were the true rates 95% and 5%, one of the three lines would fail with probability 0.07."""
    seeds = range(100, 105)

    def solved(n, size):
        return sum(el.train(settings.conjunction(n, size, steps=300).with_seed(seed)).solved for seed in seeds)

    assert solved(20, 60) >= 4
    assert solved(100, 100) >= 4
    assert solved(100, 20) <= 1


@pytest.mark.slow
def test_parities_are_learned_abruptly_after_a_plateau():
    """Five networks on 6 bits. Measured of three others: losses within 0.004 of log 2 on plateaus of 260 to 1240 steps,
    and an accuracy above 99% 30 to 50 steps after. Were one network in ten not to learn, two or more of five would not
    with probability 0.08."""
    sweep = grid(settings.parity(6, batch_size=512, steps=2000, consecutive=3), {}, seeds=range(100, 105))
    with el.Store() as store:
        el.run(sweep, store)
        runs = parity.analyse(StoredResults(store, sweep))["table"].groupby("seed").first()
    solved = runs[runs["above_99"].notna()]
    assert len(solved) >= 4
    assert (solved["plateau"] >= 100).all() and (solved["fall"] <= parity.ABRUPT).all()
    assert (solved["stray"] <= parity.CLOSE).all()
