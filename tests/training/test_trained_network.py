"""A trained network is a function, in NumPy and Equinox."""

import numpy as np
import pytest

import elegans as el
from elegans.training.mistakes import wrong

STOPPING = el.StoppingRule(examples=50, every=5)
SIGNS = el.Trial(
    task=el.SparseParity(n=8, k=2),
    regime=el.Online(),
    model=el.MLP(width=5),
    training=el.SGD(steps=5, stopping=STOPPING),
)
TOKENS = el.Trial(
    task=el.MarkovChains(k=3, length=6),
    regime=el.Online(),
    model=el.AttentionOnly(width=4),
    training=el.Adam(steps=5, loss="cross-entropy", stopping=STOPPING),
)
GROUP = el.Trial(
    task=el.ModularAddition(p=5),
    regime=el.Population(),
    model=el.MLP(width=4, hidden_bias=False, output_bias=False),
    training=el.SGD(steps=5, batch_size=25, loss="cross-entropy", stopping=STOPPING),
)
DEEP = SIGNS.replace("model", el.DeepMLP(widths=(4, 3)))
POLYNET = SIGNS.replace("model", el.PolyNet(degree=2))
TRIALS = pytest.mark.parametrize("trial", [SIGNS, GROUP, DEEP, POLYNET, TOKENS], ids=lambda trial: trial.model.label())


class Named(el.Probe):
    def measure(self, snapshot):
        return {"norm": float(np.linalg.norm(snapshot.weights["hidden.weight"]))}


def test_arrays_have_the_same_names_in_a_snapshot_an_outcome_and_a_network():
    outcome = el.train(SIGNS, probes=[Named()])
    weight = outcome.weights["hidden.weight"]
    assert weight is outcome.parameters["hidden"]["weight"] and weight.shape == (5, 8)
    assert outcome.network.weights.keys() == outcome.weights.keys() == {*SIGNS.model.parameter_names(SIGNS.task)}
    assert outcome.measures["named"]["norm"][-1] == pytest.approx(float(np.linalg.norm(weight)))
    names = "'hidden', not hidden.bias, hidden.weight, output.bias, output.weight"
    with pytest.raises(KeyError, match=f"weights must be named as the network names them: {names}"):
        outcome.weights["hidden"]


@pytest.mark.slow
@TRIALS
def test_a_network_answers_as_its_trial_was_evaluated(trial):
    outcome = el.train(trial)
    x, y = outcome.network.examples(50)
    assert wrong(outcome.network(x), y).mean() == outcome.test_error
    assert all(type(array) is np.ndarray for array in outcome.network.weights.values())


@pytest.mark.slow
@pytest.mark.parametrize("trial", [SIGNS, POLYNET], ids=lambda trial: trial.model.label())
def test_an_equinox_module_returns_the_same_and_has_gradients(trial):
    import equinox
    import jax

    network = el.train(trial).network
    x, _ = network.examples(4)
    module = network.to_equinox()
    np.testing.assert_allclose(module(x), network(x), rtol=1e-4, atol=1e-5)
    gradients = equinox.filter_grad(lambda module: (module(x) ** 2).mean())(module)
    assert sum(abs(leaf).sum() for leaf in jax.tree.leaves(gradients)) > 0
