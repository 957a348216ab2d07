"""Probes of networks on addition mod p, on networks for which everything is known."""

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.studies.modular_grokking.probes import (
    AnalyticForm,
    ProgressMeasures,
    analytic_form,
    cross_entropy,
    gini,
    sum_means,
)
from elegans.studies.modular_grokking.settings import mean_field, network, transformer

P = 11
SUMS = np.add.outer(np.arange(P), np.arange(P)).ravel() % P


def key(seed=0):
    return el.random.stream(seed, "probe")


def snapshot(weights, fraction=0.5, trained=None, parameters=None):
    """A snapshot of a quadratic network with the given u, v and w, or of a trial with the given parameters."""
    u, v, w = weights
    one = trained or network(el.ModularAddition(p=P), fraction, width=len(u))
    parameters = parameters or {"hidden": {"weight": np.concatenate([u, v], axis=1)}, "output": {"weight": w.T}}
    return el.Snapshot(
        step=0,
        task=one.task,
        model=one.model,
        hidden=None,
        sample_size=one.regime.sample_size(one.task),
        key=one.key,
        read_parameters=lambda: parameters,
        wrong=lambda stream, index: np.zeros(len(index), bool),
        regime=one.regime,
    )


def test_the_analytic_solution_has_its_form_whatever_the_scale_of_its_neurons():
    weights = theory.analytic_weights(P, 200, key())
    found = analytic_form(*(3.0 * part for part in weights))
    assert found["share"] == pytest.approx(1) and found["phase"] == pytest.approx(0, abs=1e-6)
    accuracy = theory.analytic_accuracy(P, 200, key())
    assert found["accuracy"] == found["cosines"] == found["analytic"] == accuracy > 0.99
    assert (found["shares"], found["frequencies"]) == (pytest.approx(1), 5)


def test_noise_and_shifted_phases_are_seen_and_the_analytic_phases_repair_a_network():
    u, v, w = theory.analytic_weights(P, 400, key())
    shifted = np.roll(w, 1, axis=1)  # computes a + b + 1, with phases off by 2 pi k / p
    found = analytic_form(u, v, shifted)
    frequencies = theory.analytic_frequencies(P, 400)
    angle = 2 * np.pi * frequencies / P
    assert np.allclose(found["phase"], np.minimum(angle, 2 * np.pi - angle), atol=1e-5)
    assert found["accuracy"] == found["cosines"] == 0 and found["analytic"] > 0.99
    noisy = analytic_form(u, v, w + np.random.default_rng(0).normal(size=w.shape))
    assert noisy["shares"] < 0.85 and noisy["cosines"] > 0.95


def test_a_network_of_zeros_has_no_power_and_no_correct_pair():
    found = analytic_form(*np.zeros((3, 4, P)))
    assert (found["shares"], found["accuracy"], found["frequencies"]) == (0, 0, 1)


def test_means_by_sum_keep_what_depends_on_the_sum_alone():
    table = np.random.default_rng(0).normal(size=(P, P))
    assert np.allclose(sum_means(table[SUMS], P), table)
    difference = (np.arange(P)[:, None] - np.arange(P)).ravel() % P
    assert np.allclose(sum_means((table - table.mean(axis=0))[difference], P), 0)


def test_the_restricted_loss_ignores_noise_and_the_excluded_loss_misses_the_waves():
    weights = theory.analytic_weights(P, 600, key())
    plain = ProgressMeasures(keys=5).measure(snapshot([0.3 * part for part in weights]))
    assert plain["key"] > 0.4
    assert plain["restricted"] < plain["train"] < plain["excluded"]
    assert plain["excluded"] >= np.log(P) - 0.3
    fewer = ProgressMeasures(keys=1).measure(snapshot([0.3 * part for part in weights]))
    assert fewer["restricted"] > plain["restricted"] and fewer["excluded"] < plain["excluded"]
    assert plain["norm"] == pytest.approx(0.09 * sum((part**2).sum() for part in weights))


def test_losses_are_those_of_the_two_parts_of_the_pairs():
    weights = np.random.default_rng(1).normal(size=(3, 20, P)) / 3
    one = snapshot(weights, fraction=0.3)
    found = ProgressMeasures(keys=2).measure(one)
    for stream, count in (("sample", 36), ("test", 85)):
        x, label = one.examples(stream, count)
        loss = cross_entropy(np.asarray(one.model.apply(one.parameters, x), float), label)
        assert found["train" if stream == "sample" else "test"] == pytest.approx(loss.mean())


@pytest.mark.compiles
@pytest.mark.slow
def test_a_transformer_is_measured_at_its_outputs_and_its_embedding_of_numbers():
    """An embedding of cosines and sines of two frequencies, three times as much power in the first."""
    one = transformer(el.ModularAddition(p=P), 0.5, width=4, mlp_width=8, steps=1, every=1)
    parameters = one.model.initialise(one.key("init"), one.task)
    turn = 2 * np.pi * np.arange(P) / P
    waves = [np.sqrt(3) * np.cos(2 * turn), np.sqrt(3) * np.sin(2 * turn), np.cos(3 * turn), np.sin(3 * turn)]
    parameters["embedding"]["number"] = np.stack(waves, axis=1).astype(np.float32)
    seen = snapshot(np.zeros((3, 4, P)), trained=one, parameters=parameters)
    found = ProgressMeasures(keys=1).measure(seen)
    assert found["first"] == pytest.approx(0.75)
    assert found["gini"] == pytest.approx(gini(np.array([0, 3, 1, 0, 0])))
    assert found["norm"] == pytest.approx(
        sum(float((a**2).sum()) for part in parameters.values() for a in part.values())
    )
    x, label = seen.examples("test", 61)
    wrong = np.asarray(one.model.apply(parameters, x)).argmax(axis=1) != label
    assert found["error"] == pytest.approx(wrong.mean())


@pytest.mark.parametrize(("values", "expected"), [([1, 1, 1], 0), ([0, 0, 0, 7], 0.75), ([1, 3], 0.25), ([0, 0], 0)])
def test_the_gini_coefficient_is_that_of_small_examples(values, expected):
    assert gini(np.array(values, float)) == pytest.approx(expected)


def test_a_single_frequency_has_the_largest_gini_coefficient():
    u, v, w = (part[:1] for part in theory.analytic_weights(P, 5, key()))
    assert ProgressMeasures().measure(snapshot((u, v, w)))["gini"] == pytest.approx(1 - 1 / 5)


def test_the_mean_field_network_is_the_source_s_parametrisation():
    """Weights W1 / sqrt(2p) and W2 / N: standard normal W1 and W2, whose first two moments are within 5 deviations."""
    one = mean_field(el.ModularAddition(p=P), 0.5, width=300, optimiser="gd", learning_rate=2.0, steps=1, every=1)
    start = one.model.initialise(one.key("init"), one.task)
    for array, factor in ((start["hidden"]["weight"], (2 * P) ** 0.5), (start["output"]["weight"], 300.0)):
        scaled = array * factor
        assert abs(scaled.mean()) < 5 / scaled.size**0.5 and abs(scaled.var() - 1) < 5 * (2 / scaled.size) ** 0.5
    assert one.training.rates("hidden.weight") == (2.0 / (2 * P), 0)
    assert one.training.rates("output.weight") == (2.0 / 300**2, 0)
    adam = mean_field(el.ModularAddition(p=P), 0.5, width=300, weight_decay=2.0, steps=1, every=1).training
    for name, factor in (("hidden.weight", (2 * P) ** 0.5), ("output.weight", 300.0)):
        rate, decay = adam.rates(name)
        assert rate == pytest.approx(0.01 / factor) and rate * decay == pytest.approx(0.01 * 2.0)


@pytest.mark.parametrize(
    ("change", "probe", "message"),
    [
        ({"task": "group-composition:S3"}, ProgressMeasures(), "progress-measures needs addition mod p: task="),
        ({"task": "modular-addition:129"}, AnalyticForm(), "p must be at most 127: p=129"),
        ({"model.activation": "relu"}, AnalyticForm(), "analytic-form needs a quadratic mlp without biases: model="),
    ],
)
def test_what_a_probe_cannot_measure_is_refused(change, probe, message):
    one = network(el.ModularAddition(p=P), steps=1, every=1)
    for path, value in change.items():
        one = one.replace(path, value)
    with pytest.raises(ValueError, match=message):
        probe.check(one.task, one.model)
