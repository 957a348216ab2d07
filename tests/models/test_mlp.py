"""Two-layer perceptrons and the exact laws of their initialisations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import elegans as el

TASK = el.SparseParity(n=40, k=3)


def initial(model, seed=0):
    return model.initialise(el.random.stream(seed, "init"), TASK)


def test_parameters_have_their_shapes_and_are_float32():
    parameters = initial(el.MLP(width=7))
    shapes = {
        f"{layer}.{name}": (array.shape, array.dtype)
        for layer, part in parameters.items()
        for name, array in part.items()
    }
    assert shapes == {
        "hidden.weight": ((7, 40), np.float32),
        "hidden.bias": ((7,), np.float32),
        "output.weight": ((7,), np.float32),
        "output.bias": ((), np.float32),
    }
    assert el.MLP(width=7).parameter_names(TASK) == list(shapes)
    assert el.Model.parameter_names(el.MLP(width=7), TASK) == sorted(
        shapes, key=lambda name: (name.split(".")[0], name)
    )


def test_dense_parameters_are_uniform_within_fan_in_bounds():
    """Kolmogorov-Smirnov on each array; all four fail together less than once in 10^4 seeds."""
    parameters = initial(el.MLP(width=500))
    for array, bound in [
        (parameters["hidden"]["weight"], 40**-0.5),
        (parameters["hidden"]["bias"], 40**-0.5),
        (parameters["output"]["weight"], 500**-0.5),
    ]:
        assert np.abs(array).max() <= np.float32(bound)
        assert stats.kstest(array.ravel(), "uniform", (-bound, 2 * bound)).pvalue > 3e-5
    biases = [float(initial(el.MLP(width=4), seed)["output"]["bias"]) for seed in range(500)]
    assert stats.kstest(biases, "uniform", (-0.5, 1)).pvalue > 3e-5


@given(nonzeros=st.integers(1, 40), value=st.floats(0.125, 4, width=32), seed=st.integers(0, 2**64 - 1))
def test_sparse_rows_have_exactly_the_given_non_zeros(nonzeros, value, seed):
    weight = initial(el.MLP(width=5, init=el.SparseInit(nonzeros, value)), seed)["hidden"]["weight"]
    assert ((weight != 0).sum(axis=1) == nonzeros).all()
    assert set(np.unique(weight)) <= {0, np.float32(value)}


def test_sparse_rows_choose_every_coordinate_equally_often():
    """Chi-square over 40 coordinates in 5000 rows of 2 (slightly conservative); would fail for one seed in 10^4."""
    weight = initial(el.MLP(width=5000, init=el.SparseInit(2)))["hidden"]["weight"]
    assert stats.chisquare(weight.sum(axis=0)).pvalue > 1e-4


def test_initialisations_share_biases_and_output_weights():
    dense, sparse = initial(el.MLP(width=9)), initial(el.MLP(width=9, init="sparse:3"))
    assert np.array_equal(dense["hidden"]["bias"], sparse["hidden"]["bias"])
    assert np.array_equal(dense["output"]["weight"], sparse["output"]["weight"])


def test_outputs_are_the_formula():
    parameters = initial(el.MLP(width=6))
    x = np.random.default_rng(0).normal(size=(11, 40)).astype(np.float32)
    hidden = np.maximum(x @ parameters["hidden"]["weight"].T + parameters["hidden"]["bias"], 0)
    expected = hidden @ parameters["output"]["weight"] + parameters["output"]["bias"]
    assert el.MLP(width=6).apply(parameters, x) == pytest.approx(expected, abs=1e-6)
