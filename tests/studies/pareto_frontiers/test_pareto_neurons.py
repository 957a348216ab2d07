"""The strongest neurons are those with the largest norms."""

import numpy as np
import pytest

import elegans as el
from elegans.errors import TrialError
from elegans.studies.pareto_frontiers.probes import StrongestNeurons


def trained(count, width=12):
    trial = el.Trial(
        task=el.SparseParity(n=10, k=2),
        regime=el.Online(),
        model=el.MLP(width=width),
        training=el.SGD(steps=50, weight_decay=0.01),
    )
    return el.train(trial, probes=[StrongestNeurons(every=50, count=count)])


def test_strongest_neurons_are_named_in_order_by_both_norms():
    outcome = trained(4)
    hidden, output = outcome.parameters["hidden"]["weight"], outcome.parameters["output"]["weight"]
    norm = np.linalg.norm(hidden, axis=1)
    for name, values in (("weight", norm), ("product", norm * np.abs(output))):
        named = [outcome.measures["strongest-neurons"][f"{name}.{rank}"][-1] for rank in (1, 2, 3, 4)]
        assert named == list(np.argsort(-values)[:4])


def test_more_neurons_than_there_are_are_refused():
    with pytest.raises(TrialError, match="count must be at most the width: count=13, width=12"):
        trained(13)
