"""What is measured of networks on the XOR: by hand, in any basis, in either scaling."""

import math
from dataclasses import replace

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.probes import Snapshot
from elegans.studies.xor_two_phases.probes import SignalHeavy, SubspaceShare, XORMargins, XORParts

N, RADIUS = 6, 0.3
ALIGNED = np.array([[3, -3, 0, 0, 0, 0], [-3, 3, 0, 0, 0, 0], [3, 3, 0.1, 0, 0, 0], [-3, -3, 0, 0, 0, 0]], np.float32)
OUTPUT = np.array([4, 4, -4, -4], np.float32)
ALL = (XORParts(), XORMargins(examples=500), SignalHeavy(), SubspaceShare())


def network(width=4, scaling="mean-field", **fields):
    return el.MLP(
        width=width, init=el.models.SphereInit(RADIUS), scaling=scaling, hidden_bias=False, output_bias=False, **fields
    )


def snapshot(weight=ALIGNED, output=OUTPUT, *, task=None, model=None, step=0):
    """A network as a probe sees it; without weights, as it begins."""
    task, model = task or el.XOR(n=N), model or network()
    initial = model.initialise(el.random.stream(0, "init"), task)
    given = {"hidden": {"weight": weight}, "output": {"weight": output}}
    return Snapshot(
        step=step,
        task=task,
        model=model,
        hidden=task.draw(el.random.stream(0, "task")),
        sample_size=None,
        key=lambda name: el.random.stream(0, name),
        read_parameters=lambda: initial if weight is None else given,
        wrong=lambda stream, index: np.zeros(len(index), bool),
    )


def test_parts_of_an_aligned_network():
    found = XORParts().measure(snapshot())
    root = math.sqrt(18)
    assert found["signal"] == pytest.approx([root] * 3)
    assert found["opposite"] == pytest.approx([0, 0, 0])
    assert found["rest"] == pytest.approx([0, 0, 0.07])
    assert found["output"] == pytest.approx([4, 4, 4])
    assert found["weight_square"] == pytest.approx(18 + 0.01 / 4)
    assert found["output_square"] == pytest.approx(16)
    assert found["noise"] == pytest.approx(0.01 / 4)
    assert found["excess"] == pytest.approx(4 / root - 1)


def test_what_moved_is_measured_from_the_start():
    model = network(width=64)
    begun = XORParts().measure(snapshot(None, model=model))
    assert (begun["moved"], begun["drift"]) == (0, 0)
    start = model.initialise(el.random.stream(0, "init"), el.XOR(n=N))
    weight, output = np.array(start["hidden"]["weight"]), start["output"]["weight"]
    weight[:, 2] += 0.06
    weight[:, 0] += 5
    found = XORParts().measure(snapshot(weight, 1.25 * output, model=model))
    assert found["moved"] == pytest.approx(0.06 / RADIUS, rel=1e-5)
    assert found["drift"] == pytest.approx(0.25, rel=1e-5)


def test_the_signal_of_a_tenth_and_the_heavy_neurons_mass():
    found = XORMargins(examples=10).measure(snapshot())
    assert found["tenth"] == pytest.approx(math.sqrt(18)) == found["heavy_signal"]
    assert (found["heavy_share"], found["heavy_mass"]) == (1, 1)
    assert found["largest"] == pytest.approx(6, rel=0.1)
    one_sided = XORMargins(examples=10).measure(snapshot(output=np.abs(OUTPUT)))
    assert one_sided["tenth"] == 0
    assert (one_sided["heavy_share"], one_sided["heavy_mass"]) == (0.5, pytest.approx(0.5, abs=1e-3))


def test_parts_change_places_with_the_sign_of_the_output_weight():
    upright, turned = (XORParts().measure(snapshot(output=sign * OUTPUT)) for sign in (1, -1))
    assert np.array_equal(upright["signal"], turned["opposite"])
    assert np.array_equal(upright["opposite"], turned["signal"])


def test_margins_of_an_aligned_network():
    """Each cluster has one neuron of four, w . mu = 6: a margin of 4 x 6 / 4."""
    found = XORMargins(examples=1000).measure(snapshot())
    assert found["margin"] == pytest.approx([6] * 4) == found["heavy"]
    assert found["slope"] == pytest.approx(2 / (1 + math.exp(6)))
    assert found["share"] == pytest.approx([0.25] * 4)
    assert (found["least_share"], found["fit"]) == (0.25, pytest.approx(6))
    assert found["dominance"] == pytest.approx(6 / (0.01 / 4))
    assert found["error"] == 0
    assert 0.5 < found["loss"] / (2 * math.log(1 + math.exp(-6))) < 2


def test_at_the_start_nothing_is_known():
    found = XORMargins(examples=4000).measure(snapshot(None, model=network(width=64)))
    assert found["loss"] == pytest.approx(2 * math.log(2), abs=0.05)
    assert found["error"] == pytest.approx(0.5, abs=0.1)


def test_an_aligned_network_is_signal_heavy():
    weight = 0.3 * ALIGNED.copy()
    weight[2, 2] = 0
    found = SignalHeavy().measure(snapshot(weight, np.sign(OUTPUT) * np.float32(0.3 * math.sqrt(18))))
    assert found["holds"] == 1
    assert found["asked"] == pytest.approx(math.exp(-10)) and found["scale"] == 1
    assert found["relaxed"] <= found["zeta"] < 1e-6


def test_noise_and_large_output_weights_undo_it():
    noisy = SignalHeavy(kappa=2, scale=10).measure(snapshot(output=np.sign(OUTPUT) * 4))
    # one neuron has ||w_perp|| = 0.1 and ||w_sig|| = sqrt(18); the layers' gap 18 - 16 asks for zeta H >= 2.0025
    assert noisy["relaxed"] == pytest.approx(0.20025, rel=1e-6)
    assert noisy["zeta"] == math.inf  # with exp(60) for kappa that neuron is left out, and its cluster has no other
    assert noisy["holds"] == 0
    assert SignalHeavy().measure(snapshot(output=2 * OUTPUT))["relaxed"] == math.inf


def test_the_share_of_the_subspace():
    assert SubspaceShare().measure(snapshot())["share"] == pytest.approx(72 / 72.01)
    one = SubspaceShare().measure(snapshot(task=el.XOR(n=N, k=1)))
    assert one["share"] == pytest.approx(36 / 72.01)
    start = SubspaceShare().measure(snapshot(None, model=network(width=4000)))
    assert start["share"] == pytest.approx(2 / N, abs=0.02)


@pytest.mark.parametrize("probe", ALL, ids=lambda probe: probe.kind)
def test_measures_are_the_same_in_every_basis_and_scaling(probe):
    expected = probe.measure(snapshot())
    turned = snapshot(task=el.XOR(n=N, basis="random"))
    weight = ALIGNED @ turned.hidden.T
    in_basis = replace(turned, read_parameters=lambda: {"hidden": {"weight": weight}, "output": {"weight": OUTPUT}})
    standard = snapshot(ALIGNED / 2, OUTPUT / 2, model=network(scaling="standard"))
    for other in (in_basis, standard):
        found = probe.measure(other)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            if name in ("moved", "drift"):  # their start is the model's, which is not turned along
                continue
            assert found[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


REFUSED = [
    (el.SparseParity(n=4, k=2), network(), "needs the xor of two directions: task='sparse-parity'"),
    (el.XOR(n=4, k=3), network(), "task='xor' with k=3, function='parity'"),
    (el.XOR(n=4), el.MLP(width=3), "needs a two-layer relu mlp without biases: model='mlp'"),
    (el.XOR(n=4), network().replace("activation", "relu6"), "without biases: model='mlp'"),
    (el.XOR(n=4), el.models.LinearPredictor(), "without biases: model='linear-predictor'"),
]


@pytest.mark.parametrize("probe", ALL[:3], ids=lambda probe: probe.kind)
@pytest.mark.parametrize(("task", "model", "message"), REFUSED)
def test_other_tasks_and_networks_are_refused(probe, task, model, message):
    with pytest.raises(ValueError, match=f"{probe.kind} needs.*{message.removeprefix('needs')}"):
        probe.check(task, model)


def test_shares_are_of_tasks_with_few_directions():
    with pytest.raises(ValueError, match="subspace-share must have a task of few directions: task='sparse-parity'"):
        SubspaceShare().check(el.SparseParity(n=4, k=2), network())
    SubspaceShare().check(el.XOR(n=4, k=3), el.MLP(width=3))


def test_probes_run_along_with_a_training():
    training = el.SGD(steps=4, loss={"kind": "logistic", "scale": 2}, stopping={"examples": 100})
    one = el.Trial(task=el.XOR(n=N, basis="random"), regime=el.Online(), model=network(), training=training)
    outcome = el.train(one, probes=[probe.replace("every", 2) for probe in ALL])
    assert np.shape(outcome.measures["xor-margins"]["margin"]) == (3, 4)
    assert np.shape(outcome.measures["xor-parts"]["signal"]) == (3, 3)
    assert all(outcome.measures[probe.kind]["step"] == [0, 2, 4] for probe in ALL)
    last = outcome.parameters
    margins = theory.xor_margins(last["hidden"]["weight"], last["output"]["weight"], one.task.draw(one.key("task")))
    assert outcome.measures["xor-margins"]["margin"][-1] == pytest.approx(margins)
