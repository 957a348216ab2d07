"""What the experiments on depth, plateaus, disjoint PolyNets and the two theorems show, with error rates stated."""

import json

import numpy as np
import pandas as pd
import pytest

import elegans as el
from elegans.experiments import EXPERIMENTS, run_experiment
from elegans.experiments.results import Results, StoredResults
from elegans.studies.hidden_progress import disjoint_polynet, no_plateau, theorem_5_8
from elegans.studies.hidden_progress.layer_by_layer import first_gradient, signal, trial as layers
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.theorem_5_5 import trial as feature_trial
from elegans.studies.hidden_progress.theory.disjoint import disjoint_error
from elegans.studies.hidden_progress.theory.gradient_flow import relevant_flow
from elegans.tasks.base import corners
from elegans.training import FeatureSelection


@pytest.mark.parametrize(("widths", "largest"), [((3,), 2), ((2, 1), 4), ((4, 3, 1), 8)])
def test_the_first_layer_has_a_signal_exactly_up_to_the_degree_of_the_network(widths, largest):
    """The population gradient of quadratic networks is 0, not nearly, beyond 2^(L - 1) signs."""
    for k in range(1, 10):
        assert (signal(widths, k, n=9) > 0) == (k <= largest)


def test_the_enumerated_signal_is_the_gradient_of_the_network():
    """Central differences in every weight of the first layer; the exact value is that of weights rounded to 2^-10."""
    model, x = el.DeepMLP(widths=(4, 3, 2)), corners(np.arange(64, dtype=np.uint32), 6).astype(float)
    y = x[:, :3].prod(axis=1)
    drawn = model.initialise(el.random.stream(0, "init"), el.SparseParity(n=6, k=3))
    parameters = {layer: {name: np.float64(array) for name, array in part.items()} for layer, part in drawn.items()}
    expected = np.zeros((4, 6))
    for place in np.ndindex(4, 6):
        for step in (1e-5, -1e-5):
            parameters["hidden"]["weight"][place] += step
            expected[place] += (y * model.apply(parameters, x)).sum() / (2 * step)
            parameters["hidden"]["weight"][place] -= step
    found = first_gradient(model, parameters, x, y)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert signal((4, 3, 2), 3, n=6, seeds=1) == pytest.approx(np.abs(found).max() / 64, rel=0.02)


def test_a_plateau_is_timed_by_its_two_errors():
    base = {"task.n": 9, "task.k": 3, "model.width": 5, "training.batch_size": 2, "model.activation": "relu"}
    base |= {"training.learning_rate": 0.1}
    errors = [0.5, 0.49, 0.4, 0.2, 0.04]
    curves = [
        pd.DataFrame({"trial": seed, "seed": seed, "step": range(0, 10 * count, 10), "error": errors[:count]})
        for seed, count in enumerate((5, 3))
    ]
    tables = no_plateau.analyse(Results(pd.DataFrame([base] * 2), {"test-error": pd.concat(curves, ignore_index=True)}))
    found = tables["table"].groupby("seed").first()
    assert found.loc[0, ["leaves", "ends", "plateau", "halfway"]].tolist() == [20, 40, 0.5, 0.4]
    assert found.loc[1, "leaves"] == 20 and np.isnan(found.loc[1, ["ends", "plateau", "halfway"]].astype(float)).all()


def test_the_transformer_trains_by_adam_with_glorots_matrices():
    trial = configuration("*iii", 50, 3, learning_rate=5e-4)
    assert trial.training.kind == "adam" and trial.training.learning_rate == 5e-4
    assert (trial.model.width, trial.model.heads, trial.model.head_size) == (1024, 128, 8)
    assert trial.model.init == el.DenseInit(convention="glorot")
    assert configuration("*iii", 10, 2, init="bernoulli").model.init == el.BernoulliInit()
    assert configuration("i", 10, 2).training.kind == "sgd"


@pytest.mark.slow
@pytest.mark.compiles
def test_theorem_55_runs_and_says_what_it_found(tmp_path):
    result = run_experiment("theorem-5.5", "smoke", out=tmp_path)
    found = json.loads(result.files["record"].read_text())["findings"]
    assert set(found) == {"(15, 2), exact gradient", "(15, 2), first batch 10000"}
    assert all(cell["error"] == 0 for cell in found.values())  # seeds 0 and 1 of two
    assert found["(15, 2), exact gradient"]["on_support"] == 0.25


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("name", ["layer-by-layer", "no-plateau", "disjoint-polynet", "theorem-5.8"])
def test_experiments_run_at_smoke_scale(name, tmp_path):
    result = run_experiment(name, "smoke", out=tmp_path)
    assert (result.failed, result.interrupted) == (0, 0)
    assert all(map(len, result.tables.values())) and result.record["findings"]
    panels = {"disjoint-polynet": 4, "layer-by-layer": 1}.get(name, 2)
    assert len(result.experiment.plot(result.tables).axes) == panels
    assert EXPERIMENTS[name].scales["paper"].cells(1).cells


def measured(experiment, sweep):
    """Return the tables of an experiment for a sweep."""
    with el.Store() as store:
        el.run(sweep, store, probes=experiment.probes_of(sweep.cells[0]))
        return experiment.analyse(StoredResults(store, sweep))


def trained(trial, seeds):
    """Return the table of so many trials, with infinite times where unsolved."""
    return el.run(el.grid(trial, {}, seeds=seeds)).fillna({"solved_at": np.inf})


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.parametrize(("n", "k", "least"), [(10, 2, 7), (10, 4, 7), (20, 3, 6)])
def test_three_quadratic_layers_learn_up_to_four_signs(n, k, least):
    """Ten seeds within 20,000 steps. At n = 10 another program had medians of 375 to 2150 steps and one seed of 40
    stuck; here all are solved, medians 600 to 2050: fewer than 7 have probability 0.001 at a rate of 95%. At n = 20,
    k = 3 it had 9; here 9 too (fewer than 6 at a rate of 90%: 0.002).
    """
    found = trained(layers((2, 1), n, k, 20_000), seeds=10)
    assert np.isfinite(found["solved_at"]).sum() >= least
    if n == 10:
        assert 375 / 2 <= found["solved_at"].median() <= 2 * 2150


@pytest.mark.slow
def test_four_layers_learn_six_signs():
    """(10, 10, 1) at n = 10: all ten seeds within 15,400 steps, of which another program's ten took the longest. Here
    five others took at most 11,600. A share of 5% that takes longer would show with probability 0.4."""
    found = trained(layers((10, 10, 1), 10, 6, 15_400), seeds=10)
    assert np.isfinite(found["solved_at"]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("widths", "k", "biased"), [((2, 1), 5, True), ((10,), 3, True), ((2, 1), 3, False)])
def test_quadratic_networks_stay_at_chance_beyond_their_degree_and_without_an_output_bias(widths, k, biased):
    """Five seeds, 5000 steps: errors on 8192 examples within 0.025 of a half, 4.5 standard errors. They cannot learn:
    the population gives no signal, or an output weight times a square has one sign."""
    found = trained(layers(widths, 10, k, 5000, output_bias=biased), seeds=5)
    assert not np.isfinite(found["solved_at"]).any()
    assert found["test_error"].to_numpy() == pytest.approx(0.5, abs=0.025)


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.parametrize(("n", "k", "width", "head", "seeds"), [(10, 2, 64, 8, 3), (20, 3, 128, 16, 1)])
def test_transformers_learn_parities_in_hundreds_of_steps(n, k, width, head, seeds):
    """Ten seeds at (10, 2) took 40 to 140 steps, five at (20, 3) up to 1680, in the median 1430."""
    trial = configuration("*iii", n, k, steps=3000, learning_rate=3e-4)
    for path, value in {"width": width, "heads": 8, "head_size": head}.items():
        trial = trial.replace(f"model.{path}", value)
    assert np.isfinite(trained(trial, seeds)["solved_at"]).all()


@pytest.mark.slow
def test_the_plateau_takes_the_share_of_the_time_that_theory_says():
    """Population descent from signs is deterministic; the explosion comes late by some hundreds of steps' worth."""
    found = measured(disjoint_polynet.EXPERIMENT, disjoint_polynet.plateaus((25, 100), (3, 4), 1e-3, 1))["plateaus"]
    assert list(found["k"]) == [3, 3, 4, 4]
    assert found["share"].to_numpy() == pytest.approx(found["exact_share"].to_numpy(), abs=0.02)
    assert found["exact_share"].is_monotonic_increasing


@pytest.mark.parametrize("block", [2, 10, 17])
def test_errors_of_many_weights_at_once_are_the_exact_ones(block):
    """Normal weights have no ties; with 16 irrelevant weights their sums are tabulated in two parts."""
    weights = np.random.default_rng(0).normal(size=(2, 3, block))
    expected = [float(disjoint_error(rows.tolist())) for rows in weights]
    assert disjoint_polynet.errors(weights) == pytest.approx(expected, abs=1e-12)
    times = np.array([0.0, 0.1, 0.0, 0.05])
    along = np.repeat(weights[:1], len(times), axis=0)
    along[:, :, 0] = relevant_flow(weights[0, :, 0].tolist(), [0.0, 0.05, 0.1])[[0, 2, 0, 1]]
    flow = disjoint_polynet.flow_errors(weights[0], times)
    assert flow == pytest.approx(disjoint_polynet.errors(along), abs=1e-12)


@pytest.mark.slow
def test_the_first_batch_decides_what_theorem_55_learns():
    """(31, 2), six seeds, 2001 steps: medians of 32% (25 to 39%), 2% (0.4 to 3.4%), 0 and 0 with first batches of 10^2
    to 10^5. Another program had errors of 6%, 0.2% and 0 with 10^3 to 10^5."""
    errors = {
        batch: el.run(el.grid(feature_trial(31, 2, batch, 2001), {}, seeds=6))["test_error"].median()
        for batch in (100, 1000, 10_000, 100_000)
    }
    assert errors[100] > 0.15
    assert errors[1000] <= 0.06 and errors[10_000] <= 0.002 and errors[100_000] == 0


def selected(trial, seeds):
    """Return the errors, hinge losses and numbers of good neurons of so many seeds."""
    sweep = el.grid(trial, {}, seeds=seeds)
    with el.Store() as store:
        el.run(sweep, store, probes=[FeatureSelection(every=2**31, examples=4000)])
        outcomes = list(store.outcomes(sweep))
    taken = [outcome.measures["feature-selection"] for outcome in outcomes]
    return np.array(
        [(out.test_error, own["hinge"][-1], own["good"][-1]) for out, own in zip(outcomes, taken, strict=True)]
    )


@pytest.mark.slow
def test_the_readout_of_exact_features_at_the_theorems_rate_has_no_error():
    """(15, 2), 32 neurons, T = 4001: no error in ten seeds, and a median hinge loss within a factor of 2 of another
    program's 0.038; the seeds have 0.007 to 0.38."""
    found = selected(feature_trial(15, 2, None, 4001, rate=None).replace("model.width", 32), seeds=10)
    assert (found[:, 0] == 0).all()
    assert 0.038 / 2 <= np.median(found[:, 1]) <= 2 * 0.038


@pytest.mark.slow
@pytest.mark.parametrize(("width", "error", "hinge"), [(256, 0.02, 0.05), (1024, 0.0, 0.001)])
def test_exact_features_of_four_signs_need_a_thousand_neurons(width, error, hinge):
    """(31, 4), readout at learning rate 1, 2001 steps, eight seeds. Another program's only trial with 256 neurons had
    an accuracy of at least 99.97%. Here 256 neurons have errors of 0 to 1% and hinge losses of up to 0.024, since 8 to
    18 good ones must share 7 biases: with 16,001 steps errors are still up to 0.3%. With 1024 neurons, 51 to 75 good
    ones, all trials are perfect. Limits are twice what was measured."""
    found = selected(feature_trial(31, 4, None, 2001, rate=1.0).replace("model.width", width), seeds=8)
    assert (found[:, 0] <= error).all() and (found[:, 1] <= hinge).all()
    assert np.median(found[:, 0]) <= 0.003


@pytest.mark.slow
def test_four_of_21_signs_are_not_selected_even_with_a_million_examples():
    """Three seeds at (21, 4): errors of 27, 30 and 9% with a first batch of 10^6, 2, 10 and 1% with its exact gradient:
    irrelevant weights are (k - 1) / (n - k) = 18% of relevant ones."""
    sampled = selected(feature_trial(21, 4, 10**6, 2001), seeds=3)[:, 0]
    exact = selected(feature_trial(21, 4, None, 2001), seeds=3)[:, 0]
    assert np.median(sampled) > 0.05 and np.median(exact) > 0.003
    assert np.median(exact) < np.median(sampled)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "block", "steps"), [(2, 5, None), (2, 10, 10**6), (3, 3, 10**6)])
def test_the_schedule_of_theorem_58_learns_at_its_own_size_and_with_a_tenth_of_its_steps(k, block, steps):
    """Four seeds, epsilon = 0.1, delta = 0.01, printed rates. The theorem's 1.04e6 steps at (2, 5) end with relevant
    weights of 62.3 to 62.5; 10^6 of 1.19e7 steps at (2, 10) with 42.3 to 42.5, of 9.74e6 at (3, 3) with 57.2 to 57.3
    (the whole takes minutes). Irrelevant weights never exceed 1.18, where another program's trial had 1.10; the bound
    is 3/2. The theorem has all four right with probability at least 0.96."""
    sweep = el.grid(theorem_5_8.trial(block, k, "printed", steps), {}, seeds=4)
    rows = measured(theorem_5_8.EXPERIMENT, sweep)["table"]
    last = rows.groupby("seed").last()
    assert (last["error"] == 0).all() and (last["irrelevant"] <= 1.5).all()
    assert (last["relevant"] >= last["needed"]).all() and len(rows) < 4 * 2 * theorem_5_8.KEPT
    if steps is None:
        assert last["relevant"].to_numpy() == pytest.approx(62, abs=1)
        assert last["irrelevant"].median() == pytest.approx(1.1, abs=0.1)


def test_a_table_has_the_measurement_nearest_the_bound_and_the_last():
    steps = np.arange(0, 1_000_000, 500)
    measured = pd.DataFrame({"step": steps, "minimum": 1e3, "irrelevant": 1.0})
    measured.loc[777, "minimum"] = 0.0
    row = {"task.k": 2, "task.n": 10, "training.steps": 1_000_000, "training.form": "printed", "seed": 0}
    rows = theorem_5_8._bounded(row, measured, np.ones(10))
    assert {0, 777 * 500, steps[-1]} < set(rows["step"]) and len(rows) < 2 * theorem_5_8.KEPT
    assert (rows["relevant"] < rows["relevant_bound"]).sum() == 1


@pytest.mark.slow
def test_ten_thousand_steps_do_not_always_suffice_for_theorem_58():
    """Two blocks of 5, 40 seeds: weights end at 3.9 to 4.1, where the error is 0, 6 or 12% by chance, and above
    epsilon, 10%, in 12 trials. So 10^4 steps, with which another program's one trial succeeded, fail in a third: at a
    rate of 30% fewer than 4 or more than 24 have probability 0.001."""
    sweep = el.grid(theorem_5_8.trial(5, 2, "printed", 10_000), {}, seeds=40)
    last = measured(theorem_5_8.EXPERIMENT, sweep)["table"].groupby("seed").last()
    assert 4 <= (last["error"] > theorem_5_8.EPSILON).sum() <= 24
    assert last["error"].max() < 0.12


@pytest.mark.slow
def test_wide_power_networks_leave_chance_earlier():
    """Batches of 128, six seeds: shares of 0.51 (0.46 to 0.59) at width 1000, 0.74 (0.65 to 0.76) at width 100, and
    0.76 (0.71 to 0.91) with ReLU neurons."""
    found = measured(no_plateau.EXPERIMENT, no_plateau.networks(50, (100, 1000), (100,), (128,), 6))["table"]
    shares = found.groupby(["network", "model.width", "seed"])["plateau"].first()
    medians = shares.groupby(["network", "model.width"]).median()
    assert medians["z^k", 1000] < min(medians["z^k", 100], medians["relu", 100])
