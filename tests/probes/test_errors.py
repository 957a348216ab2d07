"""Losses on held-out examples."""

import numpy as np
import pytest

import elegans as el
from elegans.errors import TrialError
from elegans.probes import HeldOutErrorRate, HeldOutLoss


@pytest.mark.parametrize("model", [el.MLP(width=5), el.PolyNet(degree=3)], ids=lambda model: model.kind)
def test_the_loss_is_the_hinge_of_the_outputs_and_the_error_that_of_the_engine(model):
    trial = el.Trial(task=el.SparseParity(n=10, k=3), regime=el.Online(), model=model, training=el.SGD(steps=50))
    outcome = el.train(trial, probes=[HeldOutLoss(every=50, examples=300), HeldOutErrorRate(every=50, examples=300)])
    x, y = trial.task.examples(trial.task.draw(trial.key("task")), trial.key("test"), np.arange(300, dtype=np.uint32))
    margin = y * np.asarray(model.apply(outcome.parameters, x))
    taken = outcome.measures["test-loss"]
    assert taken["hinge"][-1] == pytest.approx(np.maximum(1 - margin, 0).mean())
    assert taken["error"] == outcome.measures["test-error"]["error"]


def test_learners_without_outputs_are_refused():
    search = el.Trial(task=el.SparseParity(n=8, k=2), regime=el.Sample(100), model=el.learners.SubsetSearch())
    with pytest.raises(TrialError, match="test-loss needs a network: subset-search"):
        el.train(search, probes=[HeldOutLoss()])


@pytest.mark.parametrize(
    ("task", "model", "loss", "labels"),
    [
        (el.MonomialSum(n=8, k=2, sets=[[0], [0, 1]]), el.MLP(width=5), "square", "real labels"),
        (el.ModularAddition(p=5), el.models.PairTransformer(width=8, heads=2), "cross-entropy", "classes"),
    ],
    ids=["real", "classes"],
)
def test_labels_that_are_no_signs_are_refused(task, model, loss, labels):
    trial = el.Trial(task=task, regime=el.Sample(10), model=model, training=el.SGD(loss=loss, steps=5))
    with pytest.raises(TrialError, match=f"hinge loss of signs, not of {labels}; test-error .*: task='{task.kind}'"):
        el.train(trial, probes=[HeldOutLoss()])
