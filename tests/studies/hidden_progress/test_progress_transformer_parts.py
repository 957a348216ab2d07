"""The parity transformer with one more part: against the plain one, and against a direct implementation."""

import numpy as np
import pytest
from scipy import special

import elegans as el
from elegans.studies.hidden_progress.models import ExtendedTransformer

TASK = el.SparseParity(n=5, k=2)
SIZES = {"width": 8, "heads": 2, "head_size": 4, "mlp_width": 6}
PLAIN = el.ParityTransformer(**SIZES)
X = np.random.default_rng(1).choice([-1, 1], (12, 5)).astype(np.float32)


def drawn(model):
    return model.initialise(el.random.stream(0, "init"), TASK)


def outputs(model, parameters):
    import jax

    return np.asarray(jax.jit(model.apply)(parameters, X))


@pytest.mark.parametrize("part", ["norms", "tied", "class-position"])
def test_what_both_transformers_have_is_drawn_alike(part):
    plain, own = drawn(PLAIN), drawn(ExtendedTransformer(part=part, **SIZES))
    shared = [(layer, name) for layer in own for name in own[layer] if name in plain.get(layer, {})]
    assert len(shared) == 11 + (part == "norms") + (part == "class-position")
    assert all(np.array_equal(own[layer][name], plain[layer][name]) for layer, name in shared)


def test_a_class_position_of_zero_and_a_tied_readout_are_the_plain_transformer():
    placed, tied = (ExtendedTransformer(part=part, **SIZES) for part in ("class-position", "tied"))
    parameters = drawn(placed)
    parameters["embedding"]["class_position"] *= 0
    assert outputs(placed, parameters) == pytest.approx(outputs(PLAIN, drawn(PLAIN)), abs=1e-5)
    plain = drawn(PLAIN)
    signs = plain["embedding"]["sign"]
    plain["output"]["weight"] = (signs[1] - signs[0]) / np.sqrt(8)
    assert outputs(tied, drawn(tied)) == pytest.approx(outputs(PLAIN, plain), abs=1e-5)


def test_a_class_position_adds_to_the_class_token():
    placed = ExtendedTransformer(part="class-position", **SIZES)
    parameters, plain = drawn(placed), drawn(PLAIN)
    plain["embedding"]["class"] = plain["embedding"]["class"] + parameters["embedding"]["class_position"]
    assert outputs(placed, parameters) == pytest.approx(outputs(PLAIN, plain), abs=1e-5)


def normed(row):
    return (row - row.mean()) / np.sqrt(row.var() + 1e-5)


def test_norms_are_those_of_a_direct_implementation():
    model = ExtendedTransformer(part="norms", **SIZES)
    parameters, expected = drawn(model), []
    e, a = parameters["embedding"], parameters["attention"]
    for x in X:
        tokens = [e["sign"][int(sign > 0)] + e["position"][place] for place, sign in enumerate(x)] + [e["class"]]
        rows, z = np.array([normed(token.astype(float)) for token in tokens]), tokens[-1].astype(float)
        for query, key, value, output in zip(a["query"], a["key"], a["value"], a["output"], strict=True):
            weights = special.softmax((rows[-1] @ query) @ (rows @ key).T / 2)
            z = z + weights @ (rows @ value) @ output
        inner = parameters["hidden"]["weight"] @ normed(z)
        z = z + parameters["residual"]["weight"] @ (inner * (1 + special.erf(inner / np.sqrt(2))) / 2)
        expected.append(parameters["output"]["weight"] @ normed(z))
    assert outputs(model, parameters) == pytest.approx(np.array(expected), abs=1e-4)
