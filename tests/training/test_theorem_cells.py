"""Cells of an independent pilot of Theorems 4 and 5, with stated error rates."""

import numpy as np
import pytest
from scipy import stats

import elegans as el
from elegans import random
from elegans.studies.pareto_frontiers.training import OverSparse, OverSparseInit, UnderSparse, UnderSparseInit
from elegans.training import FeatureSelection, LastIterate
from elegans.training.layerwise.correlations import correlations

ONCE = el.StoppingRule(stop=False, every=2**31, error=0, examples=4000)
RECOVERED = [
    ((15, 4, 2), 1000, 21),
    ((15, 4, 2), 3000, 37),
    ((31, 4, 2), 3000, 23),
    ((31, 4, 2), 10_000, 40),
    ((51, 4, 2), 10_000, 32),
    ((31, 6, 4), 10_000, 36),
]
"""(n, k, s), sample size, and in how many of the pilot's 40 trials a good neuron recovered the rest of the support."""


def over_sparse(n, k, s, width, m, offset, seed, **fields):
    trial = el.Trial(
        task=el.SparseParity(n=n, k=k),
        regime=el.Sample(m),
        model=el.MLP(width=width, init=OverSparseInit(s, offset)),
        training=OverSparse(stopping=ONCE, **fields),
        seed=seed,
    )
    outcome = el.train(trial, probes=[FeatureSelection(every=2**31)])
    return outcome, {name: values[-1] for name, values in outcome.measures["feature-selection"].items()}


def recovered(correlation, chosen, support):
    """Return whether the k - s largest correlations of a neuron, without its chosen coordinates, are on the support."""
    size = np.abs(correlation)
    size[chosen] = -1.0  # in expectation their correlation is 0
    largest = np.argsort(-size, kind="stable")[: len(support) - len(chosen)]
    return bool(np.isin(largest, support).all())


def count_recovered(n, k, s, m, trials=40):
    """Return in how many trials the k - s largest correlations of one good neuron are the rest of the support."""
    found = 0
    for seed in range(trials):
        task = el.SparseParity(n=n, k=k)
        support = task.draw(random.stream(seed, "task"))
        init = UnderSparseInit(s)
        weight = np.full((2, n), init.epsilon, np.float32)
        weight[:, support[:s]] = 1
        bias = np.float32(init.biases(task)[seed % k])
        parameters = {"hidden": {"weight": weight, "bias": np.array([bias, bias], np.float32)}}
        gates = UnderSparse().gates(init, parameters)
        key = random.stream(seed, "sample")
        seen = correlations(*gates, lambda index, s=support, key=key, task=task: task.examples(s, key, index), m)
        found += recovered(seen[0], support[:s], support)
    return found


@pytest.mark.parametrize(("cell", "m", "expected"), RECOVERED)
def test_good_neurons_recover_the_rest_of_the_support_as_often_as_in_the_pilot(cell, m, expected):
    """40 trials against 40: Fisher's exact test, one cell of the six fails for one set of seeds in 10^3."""
    found = count_recovered(*cell, m)
    assert stats.fisher_exact([[found, 40 - found], [expected, 40 - expected]]).pvalue > 1e-3 / 6


@pytest.mark.parametrize("n", [20, 30])
def test_truncation_makes_three_hundred_examples_enough(n):
    """k = 2, s = 9, width 400, offset 0.9: the pilot's 3 seeds of 3; here all of 5."""
    errors = [over_sparse(n, 2, 9, 400, 300, 0.9, seed, truncate=True, readout="ridge")[0] for seed in range(5)]
    assert [outcome.test_error for outcome in errors] == [0] * 5


def test_without_truncation_errors_fall_with_the_sample():
    """The pilot's ranges over seeds: 0.01 to 0.2 at m = 300, below 0.005 at m = 1000 to 3000; medians of 5 here."""
    medians = [
        float(np.median([over_sparse(20, 2, 9, 400, m, 0.9, seed, readout="ridge")[0].test_error for seed in range(5)]))
        for m in (300, 1000, 3000)
    ]
    assert 0.002 < medians[0] < 0.2
    assert max(medians[1:]) < 0.005


def test_gradient_descent_on_selected_features_ends_without_error():
    outcome, seen = over_sparse(20, 2, 9, 200, 3000, 0.75, 0, truncate=True, readout=LastIterate(epsilon=0.3))
    assert (seen["active"], seen["bad_active"]) == (2 * seen["good"], 0)
    assert outcome.test_error == 0 and seen["hinge"] < 1e-3 and outcome.curve.loss[-1] < 1


@pytest.mark.slow
@pytest.mark.parametrize(("s", "width"), [(9, 1000), (13, 300)])
def test_a_million_examples_select_the_support_of_four(s, width):
    """n = 20: the threshold is 5 standard errors of a gradient's entry away from either side's mean, about.

    After 4000 steps the last iterate of gradient descent still errs for one seed in four; after 16000 for none seen.
    """
    for readout, steps in (("ridge", 2), (LastIterate(), 16_001)):
        outcome, seen = over_sparse(20, 4, s, width, 10**6, 0.75, 0, truncate=True, readout=readout, steps=steps)
        assert (seen["active"], seen["bad_active"]) == (2 * seen["good"], 0)
        assert outcome.test_error == 0


@pytest.mark.slow
def test_thirty_thousand_examples_do_not_select_the_support_of_four():
    outcome, seen = over_sparse(20, 4, 9, 1000, 30_000, 0.75, 0, truncate=True, readout="ridge")
    assert seen["bad_active"] > 0 or outcome.test_error > 0
