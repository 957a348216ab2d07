"""Two-layer MLPs and the exact distributions of their initialisations."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
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


def test_a_network_has_only_the_parts_that_it_is_said_to_have():
    full = initial(el.MLP(width=5))
    bare = initial(el.MLP(width=5, hidden_bias=False, output_bias=False))
    single = initial(el.MLP(width=5, readout=False))
    assert {name: set(part) for name, part in bare.items()} == {"hidden": {"weight"}, "output": {"weight"}}
    assert set(single) == {"hidden"}
    assert np.array_equal(bare["output"]["weight"], full["output"]["weight"])
    x = np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32)
    sums = np.maximum(x @ full["hidden"]["weight"].T + full["hidden"]["bias"], 0)
    assert el.MLP(width=5, readout=False).apply(single, x) == pytest.approx(sums.sum(axis=1), abs=1e-5)


LAWS = {
    "dense:fan-in": (el.DenseInit(), 40**-0.5, 500**-0.5),
    "dense:glorot": (el.DenseInit(convention="glorot"), (6 / 540) ** 0.5, (6 / 501) ** 0.5),
    "bernoulli:fan-in": (el.BernoulliInit(), 40**-0.5, 500**-0.5),
    "bernoulli:glorot": (el.BernoulliInit(convention="glorot"), (6 / 540) ** 0.5, (6 / 501) ** 0.5),
    "gaussian:kaiming": (el.GaussianInit(), (2 / 40) ** 0.5, (2 / 500) ** 0.5),
    "gaussian:glorot": (el.GaussianInit(convention="glorot"), (2 / 540) ** 0.5, (2 / 501) ** 0.5),
    "gaussian:0.3": (el.GaussianInit(std=0.3), 0.3, 0.3),
}


@pytest.mark.parametrize(("init", "hidden", "output"), LAWS.values(), ids=LAWS)
def test_affine_laws_draw_every_array_by_its_layers_sizes(init, hidden, output):
    """Kolmogorov-Smirnov on weights and biases of both layers; all together fail for less than one seed in 10^4."""
    parameters = initial(el.MLP(width=500, init=init))
    for array, scale in [
        (parameters["hidden"]["weight"], hidden),
        (parameters["hidden"]["bias"], hidden),
        (parameters["output"]["weight"], output),
    ]:
        if init.kind == "bernoulli":
            assert set(np.unique(array)) == {-np.float32(scale), np.float32(scale)}
            assert stats.binomtest(int((array > 0).sum()), array.size).pvalue > 3e-6
        else:
            law = stats.norm(0, scale) if init.kind == "gaussian" else stats.uniform(-scale, 2 * scale)
            assert stats.kstest(array.ravel(), law.cdf).pvalue > 3e-6
