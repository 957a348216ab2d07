"""The Fourier gap probe against exact values."""

import math

import numpy as np
import pytest

import elegans as el


def gap_of(weight, bias, task, examples=200_000):
    neurons = len(weight)
    parameters = {
        "hidden": {"weight": np.asarray(weight, np.float32), "bias": np.asarray(bias, np.float32)},
        "output": {"weight": np.ones(neurons, np.float32), "bias": np.float32(0)},
    }
    snapshot = el.Snapshot(
        step=0,
        task=task,
        model=el.MLP(width=neurons),
        hidden=task.draw(el.random.stream(0, "task")),
        sample_size=None,
        key=lambda name: el.random.stream(0, name),
        read_parameters=lambda: parameters,
        wrong=lambda stream, index: np.zeros(len(index), bool),
    )
    return el.probes.FourierGap(examples=examples).measure(snapshot)


def test_a_majority_neuron_has_half_of_the_gap_of_majority():
    """(n, k) = (15, 2): 0.0966796875 (half of |xi_1| - |xi_3|), to 5 standard errors of the estimate."""
    task = el.SparseParity(n=15, k=2)
    measured = gap_of(np.ones((1, 15)), [0.0], task)
    for name in ("relaxed", "strict"):
        assert measured[name] == pytest.approx(0.0966796875, abs=5 * 2 / math.sqrt(200_000))
    assert measured["positive"] == 1


def test_a_dead_neuron_has_no_gap():
    assert gap_of(np.ones((3, 9)), [-10.0] * 3, el.SparseParity(n=9, k=2), 1000) == {
        "relaxed": 0,
        "strict": 0,
        "positive": 0,
    }
