"""The XOR in two phases: what is proved of large networks is there in small ones, with measured numbers.

Seeds are fixed, so on one type of machine a test passes always or never; where a range is given as measured, it is that
of five other seeds (100 to 104) unless it says otherwise.
"""

import json

import numpy as np
import pandas as pd
import pytest

import elegans as el
from elegans import theory
from elegans.errors import ExperimentError
from elegans.experiments import run_experiment
from elegans.experiments.results import Results
from elegans.studies.xor_two_phases import xor_heavy
from elegans.studies.xor_two_phases.probes import XORMargins, XORParts
from elegans.studies.xor_two_phases.settings import trial
from elegans.studies.xor_two_phases.xor_samples import KERNELS, learners, summarise
from elegans.studies.xor_two_phases.xor_variants import VARIANTS, variants

SEEDS = range(5)


def run(task=None, *, steps=200, batch_size=256, every=10, seed=0, **changes):
    """A network of 128 neurons with margins and parts measured: a table with a row a measurement."""
    one = trial(task or el.XOR(n=32), width=128, batch_size=batch_size, steps=steps, every=every).with_seed(seed)
    for path, value in changes.items():
        one = one.replace(path.replace("__", "."), value)
    taken = el.train(one, probes=[XORParts(every=every), XORMargins(every=every)]).measures
    parts, margins = taken["xor-parts"], taken["xor-margins"]
    four = np.array(margins["margin"])
    names = {"loss": margins["loss"], "error": margins["error"], "fit": margins["fit"]}
    noise = np.array(parts["noise"]) / parts["noise"][0]
    return pd.DataFrame(
        {
            **names,
            "step": parts["step"],
            "balance": four.max(1) / four.min(1),
            "noise": noise,
            "excess": parts["excess"],
        }
    ).set_index("step")


@pytest.fixture(scope="module")
def runs():
    """Five runs with n = 32 and minibatches of 256."""
    return [run(seed=seed) for seed in SEEDS]


def test_the_staircase_is_the_formula_and_half_of_the_labels_are_positive():
    task = variants(6, 8, 1, 4, 2).cells[list(VARIANTS).index("staircase of 3, biases")].task
    key = el.random.stream(0, "sample")
    x, y = task.examples(None, key, np.arange(500, dtype=np.uint32))
    one, two, three = x[:, :3].T
    assert np.array_equal(y, (one + one * two + one * two * three - one * three) / 2)
    assert np.array_equal(y, one * np.sign(1 + two + two * three))


def test_a_smaller_factor_asks_for_no_larger_zeta(monkeypatch):
    monkeypatch.setattr(xor_heavy, "RUNS", {"smoke": (2, 8, 16, 6)})
    experiment = xor_heavy.EXPERIMENT.with_options({"kappas": "1,400"})
    tables = experiment.analyse(Results(pd.DataFrame(), scale="smoke"))
    by_kappa = tables["kappas"].pivot(index=["seed", "time"], columns="kappa", values="zeta")
    assert list(by_kappa.index.unique("time")) == [0, 1, 2, 3, 4, 5, 6] and len(by_kappa) == 14
    assert (by_kappa[1.0] <= by_kappa[400.0]).all() and (by_kappa[1.0] < by_kappa[400.0]).any()
    last = by_kappa.xs(6, level="time").median()
    found = experiment.findings(tables)
    assert [one["zeta"] for one in found.values()] == pytest.approx(list(last), rel=0.01)
    assert len(experiment.plot(tables).axes[0].lines) == 3
    for wrong in ("0", "1,", "inf", "many"):
        with pytest.raises(ExperimentError, match=f"kappas must be positive numbers .* kappas='{wrong}'"):
            xor_heavy.EXPERIMENT.with_options({"kappas": wrong})


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("name", ["xor-phases", "xor-samples", "xor-variants"])
def test_each_experiment_writes_figure_table_and_findings(name, tmp_path):
    result = run_experiment(name, "smoke", out=tmp_path)
    assert all(path.stat().st_size > 0 for path in result.files.values())
    record = json.loads(result.files["record"].read_text())
    assert record["findings"] and record["failed"] == 0
    assert len(pd.read_csv(result.files["table"])) == len(result.tables["table"]) > 0


@pytest.mark.slow
def test_the_error_falls_before_the_loss_and_both_fall_in_a_few_dozen_steps(runs):
    """Measured: an error below 1% at steps 40 to 60, while the loss is 1.376 to 1.384; at step 200 a loss of 0.090
    to 0.098 and a smallest margin of 2.75 to 3.01."""
    for one in runs:
        right = one.index[one["error"] < 0.01][0]
        assert right <= 60
        assert one["loss"][right] > 1
        assert one["loss"][200] < 0.15
        assert 2.5 < one["fit"][200] < 3.5


@pytest.mark.slow
def test_noise_shrinks_to_nothing_and_hardly_ever_rises(runs):
    """E||w_perp + w_opp||^2, relative to the start: measured 0.014 to 0.058 at step 200, rises of at most 0.02."""
    for one in runs:
        assert one["noise"][200] < 0.06
        assert one["noise"][one.index >= 30].diff().max() < 0.03


@pytest.mark.slow
def test_margins_balance_in_the_second_phase(runs):
    """The largest over the smallest margin: measured 1.33 to 2.52 where all reach 0.3, 1.04 to 1.14 at step 200."""
    for one in runs:
        first = one.index[one["fit"] >= 0.3][0]
        assert one["balance"][200] < min(1.15, one["balance"][first])


@pytest.mark.slow
def test_output_weights_never_exceed_the_norms_of_hidden_ones(runs):
    """From equality and with a step size of 0.1: |a| <= ||w||, but for the rounding of single precision."""
    assert all(one["excess"].max() < 1e-6 for one in runs)


@pytest.mark.slow
def test_margins_of_a_second_layer_that_stays_are_less_balanced(runs):
    """Measured at step 200: ratios of 1.08 to 1.65, each larger than that of the run with both layers; the error is 0
    all the same. Were either as likely to be larger, all three would be so once in 8 times."""
    frozen = {
        "training__layers": {"output": el.training.LayerRates(learning_rate=0)},
        "model__init": el.models.SphereInit(0.1, 1.0),
    }
    for seed in range(3):
        one = run(seed=seed, **frozen)
        assert one["error"][200] < 0.01
        assert one["balance"][200] > runs[seed]["balance"][200]


@pytest.mark.slow
def test_gaussian_inputs_are_learned_more_slowly_and_not_to_the_end():
    """Measured: errors of 0.10 to 0.24 at step 100 and of 0.015 to 0.021 at step 400, where signs have 0."""
    one = run(el.XOR(n=32, inputs="gaussian"), steps=400, batch_size=512, every=50)
    assert one["error"][100] > 0.05
    assert 0.005 < one["error"][400] < 0.08


@pytest.mark.slow
def test_neurons_grow_as_the_surrogate_map_predicts():
    """80 steps of 0.05 on minibatches of 2048 with n = 64: signals of neurons above the median err by less than 4% in
    the median, and grow at tau_1 = 0.399. Measured: errors of 1.6% to 2.4%, rates of 0.400 to 0.401."""
    one = trial(el.XOR(n=64, basis="random"), width=256, batch_size=2048, steps=80, every=80)
    one = one.replace("training.learning_rate", 0.05)
    basis = one.task.draw(one.key("task"))
    start, end = (
        theory.xor_sizes(of["hidden"]["weight"], of["output"]["weight"], basis)
        for of in (one.model.initialise(one.key("init"), one.task), el.train(one).parameters)
    )
    size = np.full(256, 0.1)
    predicted = theory.xor_surrogate_trajectory([start.signal, start.opposite, start.rest, size], 0.05, 80)[-1]
    strong = start.signal > np.median(start.signal)
    assert np.median(np.abs(predicted[0] / end.signal - 1)[strong]) < 0.04
    assert 0.37 < np.median(np.log(end.signal / start.signal)[strong]) / (0.05 * 80) < 0.42


@pytest.mark.slow
def test_networks_need_nearly_linearly_many_examples_and_kernels_the_square():
    """Exponents over n = 32, 64, 128 and 16, 24, 32, three trials each; the page of the experiment has
    the intervals of ten trials and more sizes, which are 0.1 wide for networks and 0.15 for kernels."""
    table = summarise(el.run(learners((32, 64, 128), (16, 24, 32), 3))).groupby("learner").first()["exponent"]
    kernels = table[list(KERNELS)]
    assert table.drop(list(KERNELS)).between(0.9, 1.6).all()
    assert kernels.between(1.6, 2.4).all()
    assert kernels.min() > table.drop(list(KERNELS)).max()


@pytest.mark.slow
def test_in_128_dimensions_the_network_is_right_where_the_kernel_is_not():
    """8000 fresh examples for the network, 6400 for the tangent kernel. Measured with seeds 100 to 129: a median error
    of 0.7%, 22 of 30 below 2%, so that the median of 15 exceeds 2% once in 80 times; the kernel's is 9.3% to 10.0%."""
    network = trial(el.XOR(n=128), width=128, batch_size=64, steps=125, every=125)
    kernel = el.Trial(task=el.XOR(n=128), regime=el.Sample(6400), model=el.KernelRidge())
    assert np.median([el.train(network.with_seed(seed)).test_error for seed in range(15)]) < 0.02
    assert el.train(kernel).test_error > 0.06
