"""The coordinate check against its formula."""

import numpy as np
import pytest

import elegans as el
from elegans.errors import TrialError

TASK = el.SparseParity(n=8, k=2)


def test_sizes_and_changes_are_root_mean_squares_over_neurons_and_inputs():
    trial = el.Trial(
        task=TASK,
        regime="online",
        model=el.DeepMLP(widths=(6, 5), activation="relu"),
        training=el.SGD(steps=2, learning_rate=0.5, stopping={"examples": 10}),
    )
    outcome = el.train(trial, probes=[el.probes.CoordinateCheck(every=2, examples=20)])
    measures = outcome.measures["coordinate-check"]
    assert measures["step"] == [0, 2]
    x, _ = outcome.network.examples(20)
    start = trial.model.initialise(trial.key("init"), TASK)
    before, after = (x @ each["hidden"]["weight"].T + each["hidden"]["bias"] for each in (start, outcome.parameters))
    assert measures["h1"] == pytest.approx([np.sqrt((z**2).mean()) for z in (before, after)])
    assert measures["dh1"] == pytest.approx([0, np.sqrt(((after - before) ** 2).mean())], rel=1e-4)
    change = outcome.network(x) - trial.model.apply(start, x)
    assert measures["df"] == pytest.approx([0, np.sqrt((change**2).mean())], rel=1e-4)
    assert measures["dh2"][1] > 0


def test_other_models_are_refused():
    trial = el.Trial(task=TASK, regime="online", model=el.PolyNet(degree=2), training=el.SGD(steps=1))
    with pytest.raises(TrialError, match="coordinate-check needs an mlp or a deep-mlp: poly-net"):
        el.train(trial, probes=[el.probes.CoordinateCheck()])
