"""Networks that are means over neurons, from the sphere: their steps, their standard twins, and rotations."""

import math

import numpy as np
import pytest
from scipy import stats

import elegans as el
from elegans import theory
from elegans.models.inits import Layers

ROTATION = np.linalg.qr(np.random.default_rng(3).normal(size=(16, 16)))[0]


class TurnedSphere(el.models.SphereInit, kind="turned-sphere"):
    """The sphere's weights, turned by ``ROTATION``."""

    def parameters(self, key, width, task) -> Layers:
        """Draw as ever, and turn."""
        drawn = super().parameters(key, width, task)
        drawn["hidden"]["weight"] = (drawn["hidden"]["weight"].astype(float) @ ROTATION.T).astype(np.float32)
        return drawn


def network(width=32, *, init="sphere:0.1", scaling="mean-field", **fields):
    return el.MLP(width=width, init=init, hidden_bias=False, output_bias=False, scaling=scaling, **fields)


def trial(model, *, n=16, steps=1, batch_size=64, task=None, loss=None, regime=None, learning_rate=0.1, **fields):
    loss = loss or {"kind": "logistic", "scale": 2}
    fields = {"stopping": {"examples": 256}, **fields}
    training = el.SGD(steps=steps, batch_size=batch_size, learning_rate=learning_rate, loss=loss, **fields)
    return el.Trial(task=task or el.XOR(n=n), regime=regime or el.Online(), model=model, training=training)


def trained(one):
    """A trial's parameters before and after, float64."""
    initial, final = one.model.initialise(one.key("init"), one.task), el.train(one).parameters
    return [(of["hidden"]["weight"].astype(float), of["output"]["weight"].astype(float)) for of in (initial, final)]


def test_a_step_is_that_of_the_scaled_gradients():
    one = trial(network(init="sphere:1"), learning_rate=0.25)
    (weight, output), (moved, turned) = trained(one)
    x, _ = one.task.examples(None, one.key("sample"), np.arange(64, dtype=np.uint32))
    gradient = theory.xor_gradients(weight, output, x)
    assert (moved - weight) / 0.25 == pytest.approx(-gradient.weight, abs=3e-6)
    assert (turned - output) / 0.25 == pytest.approx(-gradient.output, abs=3e-6)


def test_the_correlation_loss_on_the_cube_has_the_surrogates_population_gradient():
    one = trial(
        network(init="sphere:1"), n=10, regime=el.Population(), batch_size=1024, loss="correlation", learning_rate=1
    )
    (weight, output), (moved, turned) = trained(one)
    gradient = theory.xor_surrogate_gradient(weight, output)
    assert moved - weight == pytest.approx(-gradient.weight, abs=2e-6)
    assert turned - output == pytest.approx(-gradient.output, abs=2e-6)


@pytest.mark.parametrize("hidden_bias", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_standard_network_of_smaller_parameters_goes_the_same_way(hidden_bias):
    """One over sqrt(width) of all parameters, ordinary gradients: the same function at every step."""
    mean = trial(network(), steps=80).replace("model.hidden_bias", hidden_bias)
    plain = trial(network(init=el.models.SphereInit(0.1 / math.sqrt(32)), scaling="standard"), steps=80)
    plain = plain.replace("model.hidden_bias", hidden_bias)
    (_, _), (weight, output) = trained(mean)
    (_, _), (standard, outer) = trained(plain)
    assert np.linalg.norm(weight) > 3 * 0.1 * math.sqrt(32)
    assert np.abs(math.sqrt(32) * standard - weight).max() < 1e-4 * np.abs(weight).max()
    assert np.abs(math.sqrt(32) * outer - output).max() < 1e-4 * np.abs(output).max()


def test_turned_data_and_turned_weights_go_the_turned_way():
    """Exactly, but for rounding: 80 steps in single precision, in which signals grow more than tenfold."""
    (start, _), (weight, output) = trained(trial(network(), steps=80))
    (turned_start, _), (turned, outer) = trained(
        trial(network(init=TurnedSphere(0.1)), steps=80, task=el.XOR(n=16, basis=ROTATION))
    )
    signal = theory.xor_sizes(weight, output).signal
    assert signal.max() > 10 * theory.xor_sizes(start, output).signal.max()
    assert turned_start == pytest.approx(start @ ROTATION.T, abs=1e-7)
    assert np.abs(turned - weight @ ROTATION.T).max() < 1e-3 * np.abs(weight).max()
    assert np.abs(outer - output).max() < 1e-3 * np.abs(output).max()


@pytest.mark.slow
def test_the_order_of_neurons_changes_rounding_alone():
    """Neurons exchange their places by way of a ticket: one network's neurons in two orders."""
    model = network()
    orders = [range(32), [(7 * place) % 32 for place in range(32)]]
    found = []
    for order in orders:
        ticket = el.studies.Ticket(of=model, seed=5, neurons=tuple(order))
        found.append(trained(trial(network(init=ticket), steps=80))[1][0])
    assert np.abs(found[1] - found[0][list(orders[1])]).max() < 1e-4 * np.abs(found[0]).max()


@pytest.mark.parametrize("loss", [{"kind": "logistic", "scale": 2}, "hinge"])
def test_a_step_changes_the_balance_of_layers_by_the_identity(loss):
    """a^2 - ||w||^2 changes by rate^2 (G_a^2 - ||G_w||^2) whatever the loss; single precision rounds by about 1e-7."""
    rate = 0.25
    one = trial(network(init="sphere:1"), learning_rate=rate, loss=loss)
    (weight, output), (moved, turned) = trained(one)
    gradients = (weight - moved) / rate, (output - turned) / rate
    change = turned**2 - (moved**2).sum(axis=1) - output**2 + (weight**2).sum(axis=1)
    assert np.abs(change).max() > 1e-3
    assert change == pytest.approx(theory.xor_balance_change(*gradients, rate), abs=2e-6)


def test_weights_from_the_sphere_are_uniform_and_balanced():
    """Coordinates of uniform unit vectors in three dimensions are uniform on [-1, 1] (Archimedes): Kolmogorov-Smirnov
    on three of them and a binomial test of the signs, at 10^-4 each."""
    parameters = network(4000, init="sphere:0.5").initialise(el.random.stream(0, "init"), el.XOR(n=3))
    weight, output = parameters["hidden"]["weight"], parameters["output"]["weight"]
    assert np.linalg.norm(weight, axis=1) == pytest.approx(0.5, abs=1e-6)
    assert np.array_equal(np.abs(output), np.full(4000, 0.5, np.float32))
    assert all(stats.kstest(column, "uniform", (-0.5, 1)).pvalue > 1e-4 for column in weight.T)
    assert stats.binomtest(int((output > 0).sum()), 4000).pvalue > 1e-4
    assert abs(stats.pearsonr(weight[:, 0], output).statistic) < 4 / math.sqrt(4000)


@pytest.mark.parametrize(("field", "value"), [("output_bias", True), ("readout", False)])
def test_a_mean_with_a_bias_of_its_own_or_no_second_layer_is_refused(field, value):
    with pytest.raises(el.errors.TrialError, match="a mean-field network must have a second layer and no output bias"):
        network().replace(field, value)
    with pytest.raises(el.errors.TrialError, match="radius must be greater than 0"):
        el.models.SphereInit(0)


@pytest.mark.compiles
@pytest.mark.slow
def test_a_learner_on_the_sphere_takes_as_long_in_every_basis():
    """Times to an error of 1% in the standard and in random bases, 40 trials each, by Mann and Whitney's test at 0.001;
    of normal times, a shift by one standard deviation is found out with probability 82%, by half of one with 11%."""
    success = {"error": 0.01, "examples": 2000, "every": 2}
    base = trial(network(64), steps=200, batch_size=32, stopping=success)
    table = el.run(el.grid(base, {"task.basis": ["standard", "random"]}, seeds=40))
    times = [rows["solved_at"].fillna(np.inf) for _, rows in table.groupby("task.basis")]
    assert all(np.isfinite(each).mean() > 0.9 for each in times)
    assert stats.mannwhitneyu(*times).pvalue > 0.001
