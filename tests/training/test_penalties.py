"""Penalties of norms: against NumPy in double precision, their gradients by differences, and what they refuse."""

import jax
import numpy as np
import pytest

import elegans as el
from elegans.training import NormPenalty

RNG = np.random.default_rng(0)
LAYERS = {
    "hidden": {"weight": RNG.normal(size=(5, 4)).astype(np.float32)},
    "output": {"weight": RNG.normal(size=(3, 5)).astype(np.float32)},
}
NETWORK = el.MLP(width=5, activation="power:2", hidden_bias=False, output_bias=False, output_count=3)


def reference(layers, strength, a, b, r):
    omega = np.concatenate([layers["hidden"]["weight"], layers["output"]["weight"].T], axis=1).astype(np.float64)
    sizes = (np.abs(omega) ** a).sum(axis=1) ** (1 / a)
    return strength * (sizes**b).sum() ** (r / b)


@pytest.mark.parametrize(("a", "b", "r"), [(2, 3, 3), (2, 3, 1), (2, 2, 2), (1, 3, 2), (3, 2, 5)])
def test_the_penalty_is_the_norms_power(a, b, r):
    penalty = NormPenalty(0.1, inner=a, outer=b, exponent=r)
    assert float(penalty.value(NETWORK, LAYERS)) == pytest.approx(reference(LAYERS, 0.1, a, b, r), rel=1e-5)


def test_by_default_both_exponents_are_the_networks_degree():
    assert NETWORK.homogeneity == 3
    assert NormPenalty(1.0).exponents(NETWORK) == (3, 3)
    assert NormPenalty(1.0).exponents(NETWORK.replace("activation", "relu")) == (2, 2)


@pytest.mark.slow
def test_a_neuron_of_norm_0_has_gradient_0():
    dead = jax.tree.map(np.copy, LAYERS)
    dead["hidden"]["weight"][0] = dead["output"]["weight"][:, 0] = 0
    gradients = jax.grad(lambda layers: NormPenalty(1.0).value(NETWORK, layers))(dead)
    assert np.isfinite(gradients["hidden"]["weight"]).all() and (gradients["hidden"]["weight"][0] == 0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": el.MLP(width=3)}, "outer and exponent of a norm penalty must be given .*outer=None"),
        ({"model": el.PolyNet(degree=2)}, "a norm penalty must have a model with neurons: model='poly-net'"),
    ],
)
def test_models_without_the_degree_or_neurons_are_refused(changes, message):
    fields = {"task": el.SparseParity(n=6, k=2), "regime": el.Online(), "training": el.SGD(steps=1, penalty="norm:0.1")}
    with pytest.raises(el.errors.TrialError, match=message):
        el.Trial(**fields, **changes)


@pytest.mark.slow
def test_a_parity_with_two_outputs_descends_loss_and_penalty_together():
    """One step of the jax engine on the whole cube against a gradient taken in NumPy by differences."""
    task = el.SparseParity(n=4, k=2, support=(0, 1))
    model = el.MLP(width=3, activation="power:2", hidden_bias=False, output_bias=False, output_count=2)
    training = el.SGD(
        steps=1,
        batch_size=16,
        learning_rate=0.1,
        loss="cross-entropy",
        penalty=NormPenalty(0.05),
        stopping={"stop": False},
    )
    trial = el.Trial(task=task, regime=el.Population(), model=model, training=training)
    before = model.initialise(trial.key("init"), task)
    after = el.train(trial, engine="jax").parameters
    x, y = task.member(task.draw(trial.key("task")), np.arange(16, dtype=np.uint32))

    def objective(weight, output):
        f = (x.astype(np.float64) @ weight.T) ** 2 @ output.T
        loss = np.log1p(np.exp(-y * (f[:, 0] - f[:, 1]))).mean()
        omega = np.concatenate([weight, output.T], axis=1)
        return loss + 0.05 * (np.linalg.norm(omega, axis=1) ** 3).sum()

    weight, output = (before[layer]["weight"].astype(np.float64) for layer in ("hidden", "output"))
    for array, moved in ((weight, after["hidden"]["weight"]), (output, after["output"]["weight"])):
        for place in np.ndindex(array.shape):
            kept = array[place]
            array[place] = kept + 1e-5
            above = objective(weight, output)
            array[place] = kept - 1e-5
            slope = (above - objective(weight, output)) / 2e-5
            array[place] = kept
            assert moved[place] == pytest.approx(kept - 0.1 * slope, abs=1e-5)
