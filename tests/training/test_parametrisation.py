"""Parametrisations: their agreement at the base width, their symmetries, and what does not depend on the width."""

import numpy as np
import pytest

import elegans as el
from elegans.errors import TrialError
from elegans.models import LayeredInit
from elegans.studies.width_transfer.theory.scalings import plain_scaling, shifted_scaling
from elegans.training import Parametrisation
from elegans.training.parametrisation import POWERS

NAMES = ("standard", "ntk", "maximal-update")
TASK = el.SparseParity(n=10, k=2)
ROLES = {"first": "hidden.weight", "inner": "hidden2.weight", "last": "output.weight"}


def trial(width, depth=1, optimiser=el.SGD, rate=0.05, **fields):
    if depth == 1:
        model = el.MLP(width=width, init="gaussian")
    else:
        model = el.DeepMLP(widths=(width,) * depth, activation="relu", init="gaussian")
    training = optimiser(learning_rate=rate, loss="square", steps=20, stopping={"examples": 10}, **fields)
    return el.Trial(task=TASK, regime="online", model=model, training=training)


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", [el.SGD, el.Adam])
def test_all_kinds_are_the_same_network_at_the_base_width(optimiser):
    applied = [Parametrisation(name=name, base_width=8).apply(trial(8, 2, optimiser)) for name in NAMES]
    ends = [el.train(each).parameters for each in applied]
    for other in ends[1:]:
        for layer, arrays in ends[0].items():
            for name, array in arrays.items():
                assert np.abs(other[layer][name] - array).max() < 1e-6


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("kind", "optimiser"), [("sgd", el.SGD), ("adam", el.Adam)])
def test_powers_of_rates_and_initial_values_are_those_of_the_table(name, kind, optimiser):
    applied = Parametrisation(name=name, base_width=8).apply(trial(32, 2, optimiser))
    drawn = {}
    for width in (64, 1024):
        one = Parametrisation(name=name, base_width=8).apply(trial(width, 2, optimiser))
        drawn[width] = one.model.initialise(el.random.stream(0, "init"), TASK)
    for role, parameter in ROLES.items():
        scaling = plain_scaling(name, role, kind)
        assert applied.training.rates(parameter)[0] == pytest.approx(0.05 * 4 ** -float(scaling.c))
        assert POWERS[name][optimiser].get(role, 0) == -scaling.c
        layer = parameter.partition(".")[0]
        few, many = (float(np.std(drawn[width][layer]["weight"])) for width in (64, 1024))
        assert np.log(many / few) / np.log(16) == pytest.approx(-float(scaling.b), abs=0.1)
    assert applied.training.rates("hidden2.bias") == applied.training.rates("hidden.weight")
    assert applied.training.rates("output.bias")[0] == 0.05


def by_hand(scalings, optimiser, width=16, steps=20, epsilon=1e-30):
    """Train a two-layer ReLU network in the abc form in double precision; return its outputs after each step."""
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(12, 5)), generator.normal(size=12)
    w = [generator.normal(size=(width, 5)), generator.normal(size=width)]
    w = [part * float(width) ** -float(each.b) for part, each in zip(w, scalings, strict=True)]
    a, rates = ([float(width) ** -float(getattr(each, name)) for each in scalings] for name in ("a", "c"))
    first, second = [np.zeros_like(part) for part in w], [np.zeros_like(part) for part in w]
    outputs = []
    for step in range(1, steps + 1):
        z = x @ (a[0] * w[0]).T
        outputs.append(np.maximum(z, 0) @ (a[1] * w[1]))
        residual = (outputs[-1] - y) / len(y)
        gradients = [
            a[0] * ((residual[:, None] * (z > 0) * (a[1] * w[1])).T @ x),
            a[1] * (np.maximum(z, 0).T @ residual),
        ]
        for layer, gradient in enumerate(gradients):
            if optimiser == "adam":
                first[layer] = 0.9 * first[layer] + 0.1 * gradient
                second[layer] = 0.999 * second[layer] + 0.001 * gradient**2
                means = first[layer] / (1 - 0.9**step), second[layer] / (1 - 0.999**step)
                gradient = means[0] / (np.sqrt(means[1]) + epsilon)
            w[layer] = w[layer] - 0.01 * rates[layer] * gradient
    return np.array(outputs)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_a_multiplier_can_be_moved_into_initial_values_and_rates(optimiser):
    plain = [plain_scaling("maximal-update", role, optimiser) for role in ("first", "last")]
    shifted = [shifted_scaling(plain[0], 0.5, optimiser), plain[1]]
    same = by_hand(plain, optimiser)
    assert np.abs(by_hand(shifted, optimiser) - same).max() < 1e-10 * np.abs(same).max()
    if optimiser == "adam":
        wrong = [shifted_scaling(plain[0], 0.5, "sgd"), plain[1]]
        assert np.abs(by_hand(wrong, optimiser) - same).max() > 1e-3 * np.abs(same).max()


@pytest.mark.parametrize("engine", ["fused", "jax"])
def test_mean_field_scaling_is_the_maximal_update_form(engine):
    """A mean over neurons with output weights of order 1, and gradients times the width: the form at base width 1."""
    width, last = 32, el.GaussianInit(std=1.0)
    training = el.SGD(learning_rate=0.05, loss="square", steps=100, stopping={"examples": 10, "every": 100})
    plain = el.MLP(width=width, init=LayeredInit(first="gaussian", last=last), output_bias=False)
    mean = el.Trial(task=TASK, regime="online", model=plain.replace("scaling", "mean-field"), training=training, seed=3)
    standard = plain.replace("init.last", el.models.ScaledInit(factor=width**-0.5, of=last))
    ours = Parametrisation(name="mean-field", base_width=1).apply(mean.replace("model", standard))
    outcomes = [el.train(each, engine=engine) for each in (mean, ours)]
    x = np.random.default_rng(0).choice([-1, 1], (50, 10)).astype(np.float32)
    outputs = [outcome.network(x) for outcome in outcomes]
    assert np.std(outputs[0]) > 0.01
    assert outputs[1] == pytest.approx(outputs[0], rel=2e-3, abs=2e-4)


def test_a_zero_readout_stops_the_first_step_of_all_other_layers():
    one = Parametrisation(name="maximal-update", base_width=8, zero_readout=True).apply(trial(32, 2))
    measures = el.train(one, probes=[el.probes.CoordinateCheck(every=1)]).measures["coordinate-check"]
    assert measures["f"][0] == measures["dh1"][1] == measures["dh2"][1] == 0
    assert min(measures["df"][1], measures["dh1"][2], measures["dh2"][2]) > 0


@pytest.mark.parametrize(("optimiser", "decay"), [(el.SGD, "gradient"), (el.SGD, "parameters"), (el.Adam, None)])
def test_the_decay_of_a_step_does_not_depend_on_the_width(optimiser, decay):
    fields = {"weight_decay": 0.1} | ({"decay": decay} if decay else {})
    for width in (8, 64):
        applied = Parametrisation(name="maximal-update", base_width=8).apply(trial(width, 2, optimiser, **fields))
        for parameter in applied.model.parameter_names(TASK):
            rate, shrink = applied.training.rates(parameter)
            assert (shrink if decay == "parameters" else rate * shrink) == pytest.approx(
                0.1 if decay == "parameters" else 0.005
            )


def test_rows_of_signed_non_zeros_are_as_long_as_dense_ones():
    x = np.random.default_rng(0).choice([-1, 1], (32, 50)).astype(np.float32)
    key = el.random.stream(0, "init")
    sizes = []
    for init in (el.GaussianInit(), el.SparseInit(4, 0.5**0.5, signed=True)):
        weight = init.weights(key, 4096, 50)
        sizes.append(np.sqrt(np.mean((x @ weight.T) ** 2)))
    assert sizes[1] == pytest.approx(sizes[0], rel=0.03)


def test_what_has_no_parametrisation_is_refused():
    uneven = trial(8, 2).replace("model.widths", (8, 16))
    layered = trial(8).replace("training.layers", {"hidden": {"learning_rate": 1.0}})
    for name, one, rule in (
        ("ntk", uneven, "hidden layers of one width"),
        ("mean-field", trial(8, 2), "only one hidden layer"),
        ("ntk", layered, "without layers"),
        ("ntk", trial(8).replace("model", el.PolyNet(degree=2)), "an mlp or deep-mlp"),
    ):
        with pytest.raises(TrialError, match=rule):
            Parametrisation(name=name).apply(one)
