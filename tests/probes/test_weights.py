"""The first layer's weights along the way, compactly kept."""

import numpy as np
import pytest

import elegans as el
from elegans.errors import TrialError
from elegans.probes import RelevantWeights, WeightMovement, WeightTrajectory


def trial(model, k=2):
    return el.Trial(
        task=el.SparseParity(n=12, k=k), regime=el.Online(), model=model, training=el.SGD(steps=40, learning_rate=0.05)
    )


def test_a_trajectory_begins_with_the_initial_weights_and_ends_with_the_last(tmp_path):
    one = trial(el.MLP(width=5))
    probes = [WeightTrajectory(every=10), WeightMovement(every=10)]
    with el.Store(tmp_path / "runs.db") as store:
        el.run(el.grid(one, {}), store, probes=probes)
        measures = store.outcome(one).measures
    weight = measures["weight-trajectory"]["weight"]
    assert weight.shape == (5, 5, 12) and weight.dtype == np.float32
    np.testing.assert_array_equal(weight[0], one.model.initialise(one.key("init"), one.task)["hidden"]["weight"])
    np.testing.assert_array_equal(weight[-1], el.train(one).parameters["hidden"]["weight"])
    moved = np.abs(weight - weight[0]).max(axis=(1, 2))
    np.testing.assert_array_equal(moved, np.float32(measures["weight-movement"]["movement"]))


def test_some_neurons_may_be_chosen():
    one = trial(el.MLP(width=5))
    outcome = el.train(one, probes=[WeightTrajectory(every=40, neurons=(3, 1))])
    last = outcome.measures["weight-trajectory"]["weight"][-1]
    np.testing.assert_array_equal(last, outcome.parameters["hidden"]["weight"][[3, 1]])
    with pytest.raises(TrialError, match=r"neurons must be below the width, at least one: neurons=\(0, 5\), width=5"):
        el.train(one, probes=[WeightTrajectory(neurons=(0, 5))])


def test_factors_of_disjoint_blocks_make_one_row_of_all_inputs():
    one = trial(el.DisjointPolyNet(degree=2)).replace("task", el.DisjointParity(n=12, k=2))
    outcome = el.train(one, probes=[WeightTrajectory(every=40), WeightMovement(every=40)])
    last = outcome.measures["weight-trajectory"]["weight"][-1]
    np.testing.assert_array_equal(last, outcome.parameters["hidden"]["weight"].reshape(1, 12))
    assert outcome.measures["weight-movement"]["movement"][-1] > 0


def test_relevant_weights_are_compared_with_the_others():
    one = trial(el.MLP(width=5))
    outcome = el.train(one, probes=[RelevantWeights(every=40)])
    size, support = np.abs(outcome.parameters["hidden"]["weight"]), one.task.draw(one.key("task"))
    measured = {name: values[-1] for name, values in outcome.measures["relevant-weights"].items()}
    on, off = size[:, support], np.delete(size, support, axis=1)
    margins = on.min(axis=1) - off.max(axis=1)
    assert measured == pytest.approx(
        {
            "step": 40,
            "minimum": on.min(),
            "mean": on.mean(),
            "maximum": on.max(),
            "irrelevant": off.max(),
            "best": margins.argmax(),
            "margin": margins.max(),
        }
    )
    with pytest.raises(TrialError, match="relevant-weights must have irrelevant inputs to compare with: k=12, n=12"):
        el.train(trial(el.MLP(width=5), k=12), probes=[RelevantWeights()])


def test_outgoing_weights_are_there_when_asked_for():
    one = trial(el.MLP(width=5))
    outcome = el.train(one, probes=[WeightTrajectory(every=40, neurons=(3, 1), outgoing=True)])
    last = outcome.measures["weight-trajectory"]["outgoing"][-1]
    np.testing.assert_array_equal(last, outcome.parameters["output"]["weight"][[3, 1], None])
    with pytest.raises(TrialError, match="outgoing weights need an mlp with a second layer: disjoint-poly"):
        disjoint = trial(el.DisjointPolyNet(degree=2)).replace("task", el.DisjointParity(n=12, k=2))
        el.train(disjoint, probes=[WeightTrajectory(outgoing=True)])
