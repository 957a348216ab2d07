"""What is measured of margins and neurons: exact on theory's networks, brute force on others, and what is refused."""

import math

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.errors import ElegansError
from elegans.probes import Snapshot
from elegans.studies.feature_margins.probes import (
    Decomposition,
    FrequencyPower,
    IrrepPower,
    NormalisedMargin,
    ParityNeurons,
)

SUPPORT = (1, 2, 4, 6)
ADDITION, COMPOSITION, PARITY = el.ModularAddition(p=11), el.GroupComposition(group="S4"), el.SparseParity(n=7, k=4)


def network(task, width=12, activation=None, **fields):
    activation = activation or el.models.Power(task.k if isinstance(task, el.SparseParity) else 2)
    fields = {"hidden_bias": False, "output_bias": False, "output_count": None if task.classes else 2} | fields
    return el.MLP(width=width, activation=activation, **fields)


def snapshot(task, weights=None, **fields):
    """A network as a probe sees it, float64; without weights, as it begins."""
    model = network(task, **({} if weights is None else {"width": len(weights.w)}), **fields)
    if weights is None:
        given = model.initialise(el.random.stream(0, "init"), task)
    else:
        inward = [weights.u, weights.v] if isinstance(weights, theory.PairWeights) else [weights.u]
        given = {"hidden": {"weight": np.concatenate(inward, axis=1)}, "output": {"weight": weights.w.T}}
    return Snapshot(
        step=0,
        task=task,
        model=model,
        hidden=task.draw(el.random.stream(0, "task")),
        sample_size=None,
        key=lambda name: el.random.stream(0, name),
        read_parameters=lambda: given,
        wrong=lambda stream, index: np.zeros(len(index), bool),
    )


def parity(n=7, k=4):
    return el.SparseParity(n=n, k=k, support=SUPPORT[:k])


def largest(task):
    """Theory's network of the largest margin."""
    if isinstance(task, el.SparseParity):
        return theory.parity_construction(task.n, task.support)
    if isinstance(task, el.GroupComposition):
        return theory.group_construction(task.group, theory.margin_game(task.group).shares)
    return theory.cyclic_construction(task.p)


def group(name):
    return el.GroupComposition(group=name)


@pytest.mark.parametrize(
    "task",
    [el.ModularAddition(p=p) for p in (3, 9, 11)]
    + [parity(n, k) for n, k in ((5, 2), (5, 3), (7, 4))]
    + [group(name) for name in ("Z2^3", "S3", "D4", "S4", "A5")],
    ids=lambda task: task.label() + str(getattr(task, "k", "")),
)
def test_networks_of_the_largest_margin_have_it_at_any_scale(task):
    found = NormalisedMargin().measure(snapshot(task, largest(task).scaled(1.7)))
    assert found["ratio"] == pytest.approx(1, abs=1e-9)
    assert found["norm"] == pytest.approx(1.7 ** network(task).homogeneity)
    assert found["margin"] == pytest.approx(found["normalised"] * found["norm"])
    assert found["accuracy"] == 1
    assert found["spread"] < 1e-9 * found["margin"]
    fit = Decomposition().measure(snapshot(task, largest(task).scaled(1.7)))
    wrong_labels_tie = not isinstance(task, el.GroupComposition) or task.group.name != "A5"  # where positivity fails
    assert (fit["residual"] < 1e-9) == wrong_labels_tie
    if wrong_labels_tie:
        assert fit["gamma"] == pytest.approx(found["margin"])
        assert fit["normalised"] == pytest.approx(found["normalised"])


@pytest.mark.parametrize("activation", [el.models.Power(2), el.models.ReLU()])
@pytest.mark.parametrize("task", [el.ModularAddition(p=5), group("S3")], ids=lambda task: task.label())
def test_margins_on_pairs_against_the_network_itself(task, activation):
    seen = snapshot(task, activation=activation)
    check_against_the_network(seen, np.arange(task.population, dtype=np.uint32))


@pytest.mark.parametrize("power", [3, 4])
def test_margins_on_signs_against_the_network_itself(power):
    seen = snapshot(PARITY, activation=el.models.Power(power))
    assert ("ratio" in NormalisedMargin().measure(seen)) == (power == PARITY.k)
    check_against_the_network(seen, np.arange(2**PARITY.n, dtype=np.uint32))


def check_against_the_network(seen, index):
    x, y = seen.task.member(seen.hidden, index)
    right = y.astype(int) if seen.task.classes else (y < 0).astype(int)
    output = seen.model.apply(seen.parameters, x)
    margins = np.array([row[of] - np.delete(row, of).max() for row, of in zip(output, right, strict=True)])
    neurons = np.abs(seen.model.neurons(seen.parameters))
    degree = seen.model.homogeneity
    for inner, outer in ((2, None), (1, 4.5)):
        found = NormalisedMargin(inner=inner, outer=outer).measure(seen)
        outer = outer or degree
        norm = sum(sum(neuron**inner) ** (outer / inner) for neuron in neurons)
        assert found["margin"] == pytest.approx(margins.min(), rel=1e-4)
        assert found["spread"] == pytest.approx(margins.max() - margins.min(), rel=1e-4)
        assert found["accuracy"] == (margins > 0).mean()
        assert found["norm"] == pytest.approx(norm, rel=1e-5)
        assert found["normalised"] == pytest.approx(margins.min() / norm ** (degree / outer), rel=1e-4)
    known = {"normalised", "margin", "norm", "accuracy", "spread"}
    assert set(found) == known, "under another norm than L_{2,nu} there is no largest margin to compare with"


def test_relu_has_no_largest_margin_to_compare_with():
    assert "ratio" not in NormalisedMargin().measure(snapshot(ADDITION, activation=el.models.ReLU()))


def test_the_fit_is_that_of_least_squares():
    task = el.ModularAddition(p=5)
    seen = snapshot(task)
    x, y = task.member(None, np.arange(25, dtype=np.uint32))
    logits = seen.model.apply(seen.parameters, x).astype(float)
    design = np.column_stack([np.repeat(np.eye(25), 5, axis=0), np.eye(5)[y].ravel()])
    solution, (left,), *_ = np.linalg.lstsq(design, logits.ravel())
    found = Decomposition().measure(seen)
    assert found["gamma"] == pytest.approx(solution[-1], abs=1e-6)
    variation = ((logits - logits.mean(axis=1, keepdims=True)) ** 2).sum()
    assert found["residual"] == pytest.approx(math.sqrt(left / variation), rel=1e-5)


def test_what_no_answer_depends_on_does_not_count():
    """A neuron with one weight to all outputs adds an F(a, b) and nothing else; the dense network is an indicator."""
    flat = theory.PairWeights(np.arange(11.0)[None], np.ones((1, 11)), np.ones((1, 11)))
    joined = theory.PairWeights.joined([theory.cyclic_construction(11), flat])
    found = Decomposition().measure(snapshot(ADDITION, joined))
    assert found["gamma"] == pytest.approx(theory.cyclic_maximum_margin(11))
    assert found["residual"] < 1e-8
    dense = theory.dense_classifier(np.add.outer(np.arange(11), np.arange(11)) % 11)
    assert Decomposition().measure(snapshot(ADDITION, dense))["gamma"] == pytest.approx(1)


@pytest.mark.parametrize("p", [5, 11])
def test_frequencies_of_a_network_of_the_largest_margin(p):
    task, count = el.ModularAddition(p=p), p // 2
    found = FrequencyPower().measure(snapshot(task, largest(task)))
    assert found["power"] == pytest.approx(np.ones(4 * (p - 1)))
    assert found["size"] == pytest.approx(np.ones(4 * (p - 1)))
    assert np.array_equal(found["frequency"], np.repeat(1 + np.arange(count), 8))
    assert np.array_equal(found["neurons"], np.full(count, 8))
    assert found["share"] == pytest.approx(np.full(count, 2 / (p - 1)))
    for name in ("power.mean", "power.least", "joint.mean", "joint.least"):
        assert found[name] == found[f"{name}.all"] == pytest.approx(1)
    assert found["power.weighted"] == pytest.approx(1) and found["joint.weighted"] == pytest.approx(1)
    for name in ("share.distance", "phase.largest", "phase.rms", "amplitude.largest", "amplitude.rms"):
        assert abs(found[name]) < 1e-7


def test_powers_are_shares_of_cosines_sines_and_the_mean():
    task, p = el.ModularAddition(p=7), 7
    seen = snapshot(task)
    u = np.split(seen.parameters["hidden"]["weight"].astype(float), 2, axis=1)[0]
    angles = 2 * np.pi * np.outer(np.arange(4), np.arange(p)) / p
    powers = sum((u @ wave(angles).T) ** 2 for wave in (np.cos, np.sin)) * 2 / p
    powers[:, 0] /= 2
    assert powers.sum(axis=1) == pytest.approx((u**2).sum(axis=1))
    found = FrequencyPower().measure(seen)
    assert np.array_equal(found["frequency"], 1 + powers[:, 1:].argmax(axis=1))
    shares = powers[:, 1:].max(axis=1) / powers.sum(axis=1)
    assert found["power"] == pytest.approx(shares, rel=1e-5)
    assert found["power.mean"] == pytest.approx(shares.mean())
    assert found["power.least"] == pytest.approx(shares.min())


def test_negligible_neurons_are_in_the_second_of_two_numbers_only():
    """Forty good neurons and a weak one of two frequencies, whose phases are off by 0.3 and whose w is too large."""
    good, p = theory.cyclic_construction(11), 11
    first, second = (theory.cyclic_neurons(p, [zeta], [0.1], [0.2]) for zeta in (2, 5))
    turned = theory.cyclic_neurons(p, [2], [0.1], [0.5])  # its w has the phase 0.6
    weak = theory.PairWeights(first.u + 0.5 * second.u, first.v, 2 * turned.w)
    weak = weak.scaled(0.04 * good.norms.max() / weak.norms)
    seen = snapshot(ADDITION, theory.PairWeights.joined([good, weak]))
    found = FrequencyPower().measure(seen)
    assert found["power.least"] == pytest.approx(1)
    assert found["power.least.all"] == pytest.approx(0.8)
    assert found["phase.largest"] < 1e-7
    assert found["phase.largest.all"] == pytest.approx(0.3)
    assert found["phase.rms.all"] == pytest.approx(0.3 / math.sqrt(41))
    assert found["amplitude.largest.all"] == pytest.approx(0.5)
    joint = (1.0 + 1 + 4) / (1.25 + 1 + 4)
    assert found["joint.least.all"] == pytest.approx(joint)
    mass = 40 / (40 + 0.04**3)  # of the forty; their norms are one
    assert found["power.weighted"] == pytest.approx(mass + (1 - mass) * 0.8, abs=1e-12)
    assert found["phase.weighted"] == pytest.approx((1 - mass) * 0.3, abs=1e-12)
    assert found["amplitude.weighted"] == pytest.approx((1 - mass) * 0.5, abs=1e-12)
    assert found["neurons"].tolist() == [8, 8, 8, 8, 8]
    assert found["neurons.all"].tolist() == [8, 9, 8, 8, 8]
    stricter = FrequencyPower(negligible=0.03).measure(seen)
    assert stricter["power.least"] == pytest.approx(0.8)


def test_neurons_that_are_0_are_in_no_summary():
    zero = theory.PairWeights(*np.zeros((3, 1, 11)))
    found = FrequencyPower().measure(
        snapshot(ADDITION, theory.PairWeights.joined([theory.cyclic_construction(11), zero]))
    )
    assert found["power.least.all"] == pytest.approx(1)
    assert found["neurons.all"].sum() == 40
    assert np.isnan(found["power"][-1]) and found["size"][-1] == 0


@pytest.mark.parametrize("name", ["S3", "D4", "S4"])
def test_irreps_of_a_network_of_the_largest_margin(name):
    task = group(name)
    dimensions = np.array([irrep.dimension for irrep in task.group.irreps])
    found = IrrepPower().measure(snapshot(task, largest(task)))
    assert found["power"] == pytest.approx(np.ones(2 * (dimensions[1:] ** 3).sum()))
    assert found["neurons"].tolist() == [0, *(2 * dimensions[1:] ** 3)]
    assert found["neurons.all"].tolist() == found["neurons"].tolist()
    assert found["share"][0] == 0
    assert found["share"][1:] == pytest.approx(dimensions[1:] ** 2.5 / (dimensions[1:] ** 2.5).sum())
    for name in ("power.mean", "power.least", "joint.mean", "joint.least", "alignment.mean", "alignment.least"):
        assert found[name] == found[f"{name}.all"] == pytest.approx(1)
    for name in ("share.distance", "rank.largest", "rank.rms", "amplitude.largest", "amplitude.rms"):
        assert abs(found[name]) < 1e-7


def test_a_group_without_positivity_has_the_shares_of_the_game():
    task = group("A5")
    found = IrrepPower().measure(snapshot(task, largest(task)))
    assert found["share"] == pytest.approx([0, 0.361037, 0.361037, 0.277926, 0], abs=1e-6)
    assert found["share.distance"] < 1e-9


def test_random_rank_one_neurons_are_aligned_until_w_changes_sign():
    s4 = COMPOSITION.group
    neurons = theory.random_group_neurons(s4, 3, 20, el.random.Key(5, 6))
    found = IrrepPower().measure(snapshot(COMPOSITION, neurons))
    assert set(found["irrep"]) == {3}
    assert found["rank.largest"] < 1e-7 and found["rank.weighted"] < 1e-7
    assert found["alignment.least"] == pytest.approx(1)
    turned = IrrepPower().measure(snapshot(COMPOSITION, theory.PairWeights(neurons.u, neurons.v, -neurons.w)))
    assert turned["alignment.mean"] == turned["alignment.weighted"] == pytest.approx(-1)
    assert turned["rank.largest"] < 1e-7


def test_coefficients_that_are_the_identity_are_of_full_rank():
    s4 = COMPOSITION.group
    trace = np.einsum("gii->g", s4.irreps[3].matrices)[None]
    found = IrrepPower().measure(snapshot(COMPOSITION, theory.PairWeights(trace, trace, trace)))
    assert found["power.least"] == pytest.approx(1)
    assert found["rank.largest"] == pytest.approx(1)
    assert found["alignment.least"] == pytest.approx(3**-0.5)


def test_irrep_powers_are_those_of_projections():
    seen = snapshot(COMPOSITION)
    u = np.split(seen.parameters["hidden"]["weight"].astype(float), 2, axis=1)[0]
    powers = []
    for irrep in COMPOSITION.group.irreps:
        basis = irrep.matrices.reshape(24, -1)
        fit = basis @ np.linalg.lstsq(basis, u.T)[0]
        powers.append((fit**2).sum(axis=0) / (u**2).sum(axis=1))
    found = IrrepPower().measure(seen)
    assert np.array_equal(found["irrep"], np.argmax(powers, axis=0))
    assert found["power"] == pytest.approx(np.max(powers, axis=0), rel=1e-5)


@pytest.mark.parametrize(("n", "k"), [(5, 2), (5, 3), (7, 4)])
def test_neurons_of_a_parity_of_the_largest_margin(n, k):
    found = ParityNeurons().measure(snapshot(parity(n, k), largest(parity(n, k)).scaled(3)))
    assert found["neurons"] == found["neurons.all"] == 2 ** (k - 1)
    assert found["size"] == pytest.approx(np.ones(2 ** (k - 1)))
    for name in ("magnitude.largest", "magnitude.least", "alignment.mean", "alignment.least", "sign.share"):
        assert found[name] == found[f"{name}.all"] == pytest.approx(1)
    assert found["outside.largest"] == found["outside.rms.all"] == 0


def test_each_condition_of_a_parity_by_hand():
    """Three neurons on the support {1, 2}: a good one, one that breaks every condition, and a negligible one."""
    u = np.array([[0, 1, -1], [3, 4, 2], [0.01, 0.01, 0]])
    w = np.array([[-1, 1], [3, 4], [1, 0]]) / np.array([[math.sqrt(2)], [5 / 2], [100]])
    task = parity(3, 2)
    found = ParityNeurons(negligible=0.05).measure(snapshot(task, theory.ParityWeights(u, w, 2)))
    assert found["neurons"] == 2 and found["neurons.all"] == 3
    assert found["outside.largest"] == pytest.approx(9 / 29)
    assert found["outside.largest.all"] == pytest.approx(1 / 2)
    assert found["magnitude.largest"] == pytest.approx(2)
    assert found["magnitude.least"] == pytest.approx(1)
    assert found["magnitude.least.all"] == 0
    assert found["alignment.least"] == pytest.approx(1 / (5 * math.sqrt(2)))
    assert found["alignment.mean"] == pytest.approx((1 + 1 / (5 * math.sqrt(2))) / 2)
    assert found["sign.share"] == pytest.approx(1 / 2)
    assert found["sign.share.all"] == pytest.approx(2 / 3)
    mass = np.sqrt((u**2).sum(axis=1) + (w**2).sum(axis=1)) ** 3
    strong = ParityNeurons().measure(snapshot(task, theory.ParityWeights(u, w, 2)))
    assert strong["neurons"] == 1 and strong["outside.largest"] == found["outside.largest"]
    assert found["sign.weighted"] == pytest.approx((mass[0] + mass[2]) / mass.sum())
    assert found["outside.weighted"] == pytest.approx(mass @ [0, 9 / 29, 1 / 2] / mass.sum())


@pytest.mark.parametrize("bad", [0.0, math.nan, math.inf])
@pytest.mark.parametrize(
    ("probe", "task"),
    [
        (NormalisedMargin(), ADDITION),
        (Decomposition(), COMPOSITION),
        (FrequencyPower(), ADDITION),
        (IrrepPower(), COMPOSITION),
        (ParityNeurons(), PARITY),
    ],
    ids=lambda value: value.kind,
)
def test_networks_that_are_0_or_not_finite_have_nan_of_the_usual_shapes(probe, task, bad):
    usual, seen = probe.measure(snapshot(task)), snapshot(task)
    if bad == 0:
        for layer in seen.parameters.values():
            layer["weight"] = np.zeros_like(layer["weight"])
    else:
        seen.parameters["hidden"]["weight"] = np.full_like(seen.parameters["hidden"]["weight"], bad)
    found = probe.measure(seen)
    assert {name: np.shape(value) for name, value in found.items()} == {
        name: np.shape(value) for name, value in usual.items()
    }
    assert all(np.isnan(value).all() for value in found.values())
    assert all(np.asarray(found[name]).dtype == np.asarray(usual[name]).dtype for name in usual)


PAIRS = "needs addition mod p, composition in a group, or a sparse parity"
TWO_LAYER = "needs a two-layer mlp without biases"
REFUSED = [
    (NormalisedMargin(), el.XOR(n=4), network(ADDITION), f"{PAIRS}: task='xor'"),
    (FrequencyPower(), COMPOSITION, network(COMPOSITION), "addition mod p: task='group-composition:S4'"),
    (FrequencyPower(), PARITY, network(PARITY), "addition mod p"),
    (IrrepPower(), ADDITION, network(ADDITION), "composition in a group: task='modular-addition:11'"),
    (IrrepPower(), group("Z5"), network(group("Z5")), "the irrep 'frequency 1' of Z5"),
    (ParityNeurons(), ADDITION, network(ADDITION), "a sparse parity: task='modular-addition:11'"),
    (ParityNeurons(), PARITY, network(PARITY, activation=el.models.Power(3)), "degree=3, k=4"),
    (Decomposition(), el.ModularAddition(p=257), network(ADDITION), "must be at most 256: 257"),
    (Decomposition(), el.SparseParity(n=21, k=2), network(parity(5, 2)), "must be at most 20: 21"),
    (NormalisedMargin(), ADDITION, network(ADDITION, hidden_bias=True), f"{TWO_LAYER}: model='mlp'"),
    (NormalisedMargin(), ADDITION, network(ADDITION, readout=False), f"{TWO_LAYER}: model='mlp'"),
    (NormalisedMargin(), ADDITION, network(ADDITION, scaling="mean-field"), "scaling='mean-field'"),
    (NormalisedMargin(), ADDITION, network(ADDITION, output_count=4), "outputs=4, classes=11"),
    (NormalisedMargin(), PARITY, network(PARITY, output_count=1), "outputs=1, classes=2"),
    (NormalisedMargin(), ADDITION, network(ADDITION, activation=el.models.Power(3)), "power:2 or relu on .*'power:3'"),
    (NormalisedMargin(), PARITY, network(PARITY, activation=el.models.ReLU()), "a power on sparse-parity: 'relu'"),
]


@pytest.mark.parametrize(("probe", "task", "model", "message"), REFUSED, ids=[case[3] for case in REFUSED])
def test_what_is_refused(probe, task, model, message):
    with pytest.raises((ValueError, ElegansError), match=message):
        probe.check(task, model)


@pytest.mark.parametrize(
    "fields", [{"inner": 0.5}, {"outer": 0}, {"outer": math.inf}], ids=lambda fields: str(next(iter(fields.items())))
)
def test_exponents_that_make_no_norm_are_refused(fields):
    with pytest.raises(el.errors.TrialError, match=next(iter(fields))):
        NormalisedMargin(**fields)


@pytest.mark.parametrize("negligible", [-0.1, 1.0])
def test_a_share_of_the_largest_norm_lies_between_0_and_1(negligible):
    with pytest.raises(el.errors.TrialError, match="negligible"):
        FrequencyPower(negligible=negligible)


def test_measures_of_a_training():
    trial = el.Trial(
        task=el.ModularAddition(p=5),
        regime=el.Population(),
        model=network(el.ModularAddition(p=5), width=20),
        training=el.SGD(learning_rate=0.1, batch_size=25, steps=40, loss="cross-entropy"),
    )
    probes = [NormalisedMargin(every=20), Decomposition(every=20), FrequencyPower(every=20)]
    measures = el.train(trial, probes=probes).measures
    assert measures["normalised-margin"]["step"] == [0, 20, 40]
    assert measures["normalised-margin"]["ratio"][0] < 0
    assert measures["normalised-margin"]["ratio"][2] > measures["normalised-margin"]["ratio"][0]
    assert np.stack(measures["frequency-power"]["power"]).shape == (3, 20)
    assert np.stack(measures["frequency-power"]["share"]).sum(axis=1) == pytest.approx(np.ones(3))
    with pytest.raises(el.errors.TrialError, match="irrep-power"):
        el.train(trial, probes=[IrrepPower()])
