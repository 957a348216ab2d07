"""Weight movement: what the largest change of a first-layer weight is, and where."""

import numpy as np
import pytest

import elegans as el
from elegans.errors import TrialError
from elegans.probes import WeightMovement


def trial(model, *, k=3, noise=0.0, steps=60):
    return el.Trial(
        task=el.SparseParity(n=12, k=k, noise=noise),
        regime=el.Online(),
        model=model,
        training=el.SGD(steps=steps, learning_rate=0.05),
    )


MODELS = {
    "relu network": el.MLP(width=7),
    "sinusoidal neuron": el.MLP(width=1, activation=el.models.Sinusoid(3), readout=False),
    "polynet": el.PolyNet(degree=3),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_movement_is_the_largest_difference_from_the_initial_weights(model):
    one = trial(model)
    outcome = el.train(one, probes=[WeightMovement(every=20)])
    initial = one.model.initialise(one.key("init"), one.task)["hidden"]["weight"]
    moved = np.abs(outcome.parameters["hidden"]["weight"] - initial).max(axis=0)
    support = one.task.draw(one.key("task"))
    last = {name: values[-1] for name, values in outcome.measures["weight-movement"].items()}
    assert last["step"] == 60
    assert last["movement"] == max(last["relevant"], last["irrelevant"]) == moved.max()
    assert last["relevant"] == moved[support].max()
    assert last["irrelevant"] == np.delete(moved, support).max()
    assert last["leader"] == (last["relevant"] > last["irrelevant"])


def test_nothing_has_moved_before_the_first_step():
    taken = el.train(trial(el.MLP(width=3)), probes=[WeightMovement(every=60)]).measures["weight-movement"]
    assert [values[0] for values in taken.values()] == [0, 0, 0, 0, 0]


def test_without_irrelevant_inputs_there_is_nothing_to_compare_with():
    taken = el.train(trial(el.MLP(width=3), k=12), probes=[WeightMovement(every=60)]).measures["weight-movement"]
    assert list(taken) == ["step", "movement", "relevant"]


def test_learners_without_hidden_weights_are_refused():
    search = el.Trial(task=el.SparseParity(n=8, k=2), regime=el.Sample(100), model=el.learners.SubsetSearch())
    with pytest.raises(TrialError, match="weight-movement needs a network with hidden weights: subset-search"):
        el.train(search, probes=[WeightMovement()])
