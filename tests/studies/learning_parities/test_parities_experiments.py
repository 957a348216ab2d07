"""Networks beside linear predictors, on biased parities and strips of digits: the experiments and what they claim."""

import json

import numpy as np
import pandas as pd
import pytest

import elegans as el
from elegans import theory
from elegans.boolean.fourier import sign_table
from elegans.experiments import EXPERIMENTS, run_experiment
from elegans.studies.learning_parities import biased_parity, digit_parity
from elegans.studies.learning_parities.biased_parity import ABLATIONS, LEARNERS, STARTS, arms
from elegans.studies.learning_parities.probes import ComponentLosses, PredictorSize
from elegans.studies.learning_parities.training import FirstStep, MirroredSigns, SampledStep


def final(name, trial, examples=20_000):
    """Return the measures of an arm at its last step."""
    trial = trial.with_seed(0)
    probes = [ComponentLosses(every=trial.steps, examples=examples)]
    if isinstance(trial.model, el.models.LinearPredictor):
        probes.append(PredictorSize(every=trial.steps))
    measures = el.train(trial, probes=probes).measures
    found = {key: value[-1] for kind in measures.values() for key, value in kind.items()}
    assert all(np.isfinite(value) for value in found.values()), name
    return found


def test_losses_are_taken_on_each_part_and_weighted_by_its_probability():
    """The losses of a predictor with given weights on either part, by enumeration; its N and B, by hand.

    20000 examples: standard errors below 0.015; the bound of 0.08 fails for fewer than one seed in 10^6.
    """
    task = el.BiasedParity(n=9, k=3, support=(0, 1, 2), mix=0.25)
    weight = np.array([0.5, -0.5, 2.0, *[0.1] * 6], np.float32)
    trial = el.Trial(task=task, regime=el.Online(), model=el.models.LinearPredictor(), training=el.SGD(steps=1))
    snapshot = el.Snapshot(
        step=0,
        task=task,
        model=trial.model,
        hidden=task.draw(trial.key("task")),
        sample_size=None,
        key=trial.key,
        read_parameters=lambda: {"output": {"weight": weight, "bias": np.float32(0.2)}},
        wrong=lambda stream, index: np.zeros(len(index), bool),
    )
    found = ComponentLosses(examples=20_000).measure(snapshot)
    signs = sign_table(9)
    parts = {"d1": 0.0, "d2": 1.0}
    for part, mix in parts.items():
        table = theory.biased_table(9, (0, 1, 2), mix)
        margin = table.label * (signs @ weight / 3 + 0.2)
        parts[part] = (table.probability * np.maximum(1 - margin, 0)).sum()
        assert found[f"hinge.{part}"] == pytest.approx(parts[part], abs=0.08)
        assert found[f"error.{part}"] == pytest.approx((table.probability * (margin <= 0)).sum(), abs=0.08)
    assert found["hinge"] == pytest.approx(0.75 * found["hinge.d1"] + 0.25 * found["hinge.d2"])
    size = PredictorSize().measure(snapshot)
    assert size == {"features": 10, "norm": pytest.approx(np.hypot(np.linalg.norm(weight) / 3, 0.2))}


@pytest.mark.parametrize("probe", [ComponentLosses(), PredictorSize()])
def test_probes_of_biased_parities_refuse_other_trials(probe):
    trial = el.Trial(
        task=el.SparseParity(n=9, k=3), regime=el.Online(), model=el.MLP(width=4), training=el.SGD(steps=1)
    )
    with pytest.raises(el.errors.TrialError, match="needs a .* on a biased-parity: mlp on sparse-parity"):
        el.train(trial, probes=[probe])


def test_every_arm_is_named_by_its_trial():
    """Whatever its seed, a trial of any size is found among the arms of that size, and among no other arms."""
    for chosen in (LEARNERS, ABLATIONS, STARTS):
        for size in ((49, 3, 32, 400), (101, 5, 128, 4000)):
            made = arms(*size, chosen)
            assert len({one.cell for one in made.values()}) == len(made)
            for name, one in made.items():
                assert biased_parity._name(one.with_seed(3), chosen) == name


def test_a_sampled_step_is_the_first_step_of_the_same_start():
    """From signs, 65536 examples: within 5 standard errors of the population's step, of parts of at most n / k = 3."""
    task = el.BiasedParity(n=9, k=3, support=(0, 1, 2))
    key = el.random.stream(0, "init")
    exact = FirstStep().parameters(key, 16, task)
    sampled = SampledStep(start=MirroredSigns()).parameters(key, 16, task)
    for layer in exact:
        for name, array in exact[layer].items():
            assert sampled[layer][name] == pytest.approx(array, abs=5 * 3 / 2**8)


def test_gaussian_starts_take_the_place_of_all_arms_and_other_starts_are_refused():
    experiment = EXPERIMENTS["biased-parity"]
    assert experiment.with_options({"starts": "mirrored"}) is experiment
    chosen = experiment.with_options({"starts": "gaussian"})
    assert {len(chosen.scale(scale).cells(2)) for scale in experiment.scales} == {2 * len(STARTS)}
    with pytest.raises(el.errors.ExperimentError, match="starts must be mirrored or gaussian: starts='large'"):
        experiment.with_options({"starts": "large"})


@pytest.mark.slow
def test_the_first_step_makes_large_gaussian_weights_small_enough_to_learn():
    """n = 101, k = 5, q = 128, 2400 steps. At a standard deviation of 1, hinge losses of five trials at step 2000 were
    0 to 0.06 with the first step and 0.54 to 0.55 without it."""
    large = arms(101, 5, 128, 2400, STARTS)
    with_step, without = (final(name, large[f"Gaussian (1), {name}"]) for name in ("first step", "no first step"))
    assert with_step["hinge"] <= 0.1 < 0.45 <= without["hinge"]


def learned(panel, arm, **columns):
    steps = [0, 10, 20]
    falling = {"hinge": [1, 0.6, 0.5], "hinge_d1": [1, 1, 1], "hinge_d2": [1, 0.2, 0], "error_d1": [0.5, 0.6, 0.7]}
    common = {"panel": panel, "n": 49, "k": 3, "arm": arm, "step": steps, "error": 0.3, "error_d2": 0.0}
    return pd.concat([pd.DataFrame({**common, **falling, "seed": seed, **columns}) for seed in (0, 1)])


def test_findings_are_medians_of_last_and_best_and_the_figure_has_the_last():
    tables = {
        "table": pd.concat(
            [
                learned("learners", "network"),
                learned("learners", "linear in the inputs", features=50.0, norm=0.5, theorem2=0.1, fourier=0.4),
                learned("ablations", "network", hinge=[0.9, 0.1, 0.4]),
            ]
        )
    }
    found = biased_parity.findings(tables)
    assert found["ablations, n = 49, k = 3"]["network"]["best_hinge"] == 0.1
    linear = found["learners, n = 49, k = 3"]["linear in the inputs"]
    assert (linear["hinge"], linear["norm"], linear["fourier"], linear["trials"]) == (0.5, 0.5, 0.4, 2)
    left, right = biased_parity.plot(tables).axes
    losses, bounds = left.lines[:2]
    assert losses.get_xdata().tolist() == [0.5] * 4 and np.nanmax(bounds.get_xdata()) == 0.4
    assert right.lines[0].get_xdata().tolist() == [0.7] * 4


def test_digit_findings_and_curves_have_a_panel_for_each_length():
    rows = [
        {"images": "digits", "k": k, "model": model, "strips": "fresh", "seed": seed, "epoch": epoch, "seconds": 1.0}
        | {"train_accuracy": 0.6 + epoch / 10, "test_accuracy": 0.5 + epoch * (2 - epoch) / 10}
        for k in (1, 3)
        for model in digit_parity.MODELS
        for seed in (0, 1)
        for epoch in (0, 1, 2)
    ]
    tables = {"table": pd.DataFrame(rows)}
    found = digit_parity.findings(tables)["k = 3"]["network"]
    expected = {"trials": 2, "test_accuracy": 0.5, "best_test_accuracy": 0.6, "train_accuracy": 0.8, "seconds": 2.0}
    assert found == expected
    figure = digit_parity.plot(tables)
    titles = [ax.get_title(loc="left").partition("  ")[2] for ax in figure.axes]
    assert titles == ["One digit", "Sum of 3 digits", "", ""]
    assert [[label.get_text() for label in ax.texts] for ax in figure.axes[2:]] == [["even", "odd"]] * 2


def test_an_epoch_is_counted_in_strips_and_only_linear_predictors_keep_their_readout():
    one = digit_parity.trial(3, digit_parity.MODELS["network"], "digits", 60_000, 20)
    assert one.training.steps == 20 * 469 and one.training.stopping.every == 469
    gates = digit_parity.trial(3, digit_parity.MODELS["frozen gates (NTK)"], "digits", 60_000, 20)
    assert gates.training.rates("output.weight")[0] == 0 and gates.training.rates("hidden.weight")[0] == 1


def test_mnist_that_cannot_be_had_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("ELEGANS_MNIST", str(tmp_path / "absent.npz"))
    with pytest.raises(el.errors.TrialError, match="No such file"):
        run_experiment("digit-parity", "paper", out=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("name", ["biased-parity", "digit-parity"])
def test_each_writes_figure_table_and_record_with_its_findings(name, tmp_path):
    result = run_experiment(name, "smoke", out=tmp_path)
    assert all(path.stat().st_size > 0 for path in result.files.values())
    record = json.loads(result.files["record"].read_text())
    assert record["findings"] and record["failed"] == 0
    assert len(pd.read_csv(result.files["table"])) == len(result.tables["table"]) > 0
    assert len(EXPERIMENTS[name].scales["smoke"].cells(1)) == len(result.trials)


@pytest.mark.slow
def test_a_network_learns_what_no_linear_predictor_does():
    """n = 101, k = 3, q = 128, 4000 steps. Seeds 0 to 2 ended with hinge losses of at most 0.001 for the network and of
    at least 0.49 for the predictors, on 20000 examples: standard errors below 0.01."""
    learners = arms(101, 3, 128, 4000, LEARNERS)
    network = final("network", learners["network"])
    assert network["hinge"] <= 0.05 and network["error"] == 0
    for name in ("linear in the inputs", "random ReLU features"):
        found = final(name, learners[name])
        assert found["hinge"] >= 0.45
        assert found["hinge.d1"] >= 0.95 and found["hinge.d2"] <= 0.1
        sharper = theory.biased_fourier_bound(101, 3, int(found["features"]), found["norm"])
        assert found["hinge"] >= sharper - 0.03
        assert found["error"] < 0.4  # an accuracy that says nothing of what was learned


@pytest.mark.slow
def test_uniform_inputs_teach_nothing_even_with_their_own_first_step():
    """n = 101, k = 5, q = 128, 2000 steps: 20000 examples, errors within 0.02 of chance (5 standard errors) on D1."""
    found = final("uniform", arms(101, 5, 128, 2000, ABLATIONS)["uniform inputs, their first step"])
    assert found["hinge.d1"] > 0.95
    assert found["error.d1"] == pytest.approx(0.5, abs=0.02)


@pytest.mark.slow
def test_three_digits_are_learned_by_the_network_and_not_by_random_features():
    """Strips of the bundled digits, 20 epochs of 20000. At this seed: 75% for the network and 51 to 53% for predictors;
    the standard error on 10000 strips is below 0.005."""

    def accuracy(name):
        trial = digit_parity.trial(3, digit_parity.MODELS[name], "digits", 20_000, 20)
        return 1 - el.train(trial).test_error

    features = accuracy("random ReLU features")
    assert features == pytest.approx(0.5, abs=0.06)
    assert accuracy("network") - features > 0.2
