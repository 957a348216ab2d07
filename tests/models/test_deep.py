"""Deep MLPs."""

import numpy as np
import pytest

import elegans as el
from elegans.errors import TrialError

TASK = el.SparseParity(n=7, k=3)
KEY = el.random.stream(3, "init")


def test_one_hidden_layer_is_the_two_layer_network():
    deep = el.DeepMLP(widths=(6,), activation="power:3")
    plain = el.MLP(width=6, activation="power:3")
    ours, theirs = deep.initialise(KEY, TASK), plain.initialise(KEY, TASK)
    assert deep.parameter_names(TASK) == plain.parameter_names(TASK)
    for layer, arrays in theirs.items():
        for name, array in arrays.items():
            assert np.array_equal(ours[layer][name], array)
    x = np.random.default_rng(0).choice([-1, 1], (20, 7)).astype(np.float32)
    assert np.array_equal(deep.apply(ours, x), plain.apply(theirs, x))


def test_outputs_are_the_formula_and_layers_have_their_names_and_sizes():
    model = el.DeepMLP(widths=(4, 3, 2))
    parameters = model.initialise(KEY, TASK)
    assert {name: part["weight"].shape for name, part in parameters.items()} == {
        "hidden": (4, 7),
        "hidden2": (3, 4),
        "hidden3": (2, 3),
        "output": (2,),
    }
    assert model.parameter_names(TASK) == [f"{layer}.{name}" for layer in parameters for name in parameters[layer]]
    x = np.random.default_rng(0).choice([-1, 1], (20, 7)).astype(np.float32)
    z = x
    for layer in ("hidden", "hidden2", "hidden3"):
        z = (z @ parameters[layer]["weight"].T + parameters[layer]["bias"]) ** 2
    expected = z @ parameters["output"]["weight"] + parameters["output"]["bias"]
    assert model.apply(parameters, x) == pytest.approx(expected, rel=1e-5)
    bounds = {"hidden": 7, "hidden2": 4, "hidden3": 3, "output": 2}
    assert all(np.abs(part["weight"]).max() <= bounds[name] ** -0.5 for name, part in parameters.items())


def test_without_an_output_bias_all_else_is_drawn_alike():
    full = el.DeepMLP(widths=(4, 3)).initialise(KEY, TASK)
    bare = el.DeepMLP(widths=(4, 3), output_bias=False).initialise(KEY, TASK)
    del full["output"]["bias"]
    assert {name: set(part) for name, part in bare.items()} == {name: set(part) for name, part in full.items()}
    assert np.array_equal(bare["output"]["weight"], full["output"]["weight"])


@pytest.mark.parametrize("depth", [1, 2])
def test_a_quadratic_network_of_one_neuron_a_layer_is_a_polynomial_of_degree_two_to_the_depth(depth):
    """Along a line of inputs, differences of order 2^depth + 1 vanish and those of order 2^depth do not."""
    model = el.DeepMLP(widths=(1,) * depth)
    parameters = model.initialise(KEY, TASK)
    wide = {name: {key: array.astype(np.float64) for key, array in part.items()} for name, part in parameters.items()}
    outputs = model.apply(wide, np.arange(8.0)[:, None] * np.ones(7))
    differences = [np.abs(np.diff(outputs, order)).max() for order in (2**depth, 2**depth + 1)]
    assert differences[1] < 1e-9 < differences[0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"widths": ()}, "widths .*at least 1"),
        ({"widths": (3, 0)}, "widths.1 must be greater than or equal to 1"),
        (
            {"widths": (3,), "init": "sphere:1"},
            r"must fit any layer \(one of bernoulli, .*: init='sphere'",
        ),
        ({"widths": (3,), "init": "dens"}, "did you mean 'dense'"),
    ],
)
def test_what_makes_no_network_is_refused(fields, message):
    with pytest.raises(TrialError, match=message):
        el.DeepMLP(**fields)


def test_a_deep_network_is_trained_by_the_general_engine():
    """(5, 2) on the whole cube with the square loss: deterministic; it fits far below the loss of the zero function."""
    trial = el.Trial(
        task=el.SparseParity(n=5, k=2, support=(0, 3)),
        regime="population",
        model=el.DeepMLP(widths=(6, 4), activation="relu", init=el.GaussianInit()),
        training=el.SGD(learning_rate=0.1, batch_size=32, loss="square", steps=500, stopping={"examples": 100}),
    )
    outcome = el.train(trial.from_json(trial.to_json()))
    assert (outcome.engine, outcome.state) == ("jax", "solved")


def test_each_role_of_a_layer_has_its_own_distribution():
    sparse = el.SparseInit(2, signed=True)
    init = el.models.LayeredInit(first=sparse, inner="gaussian", last=el.models.ScaledInit(of="gaussian", factor=0))
    drawn = el.DeepMLP(widths=(40, 30), init=init).initialise(KEY, TASK)
    plain = el.DeepMLP(widths=(40, 30), init="gaussian").initialise(KEY, TASK)
    assert (np.count_nonzero(drawn["hidden"]["weight"], axis=1) == 2).all()
    assert set(np.unique(drawn["hidden"]["weight"])) == {-1, 0, 1}
    assert np.array_equal(drawn["hidden2"]["weight"], plain["hidden2"]["weight"])
    assert not drawn["output"]["weight"].any() and not drawn["output"]["bias"]
    two_layer = el.MLP(width=40, init=init).initialise(KEY, TASK)
    assert np.array_equal(two_layer["hidden"]["weight"], drawn["hidden"]["weight"])
    with pytest.raises(TrialError, match="nonzeros of a sparse init must be at most n: nonzeros=9, n=7"):
        el.Trial(
            task=TASK, regime="online", model=el.DeepMLP(widths=(20, 20), init="sparse:9"), training=el.SGD(steps=1)
        )


def test_a_deep_network_has_an_output_for_each_class():
    task = el.tasks.ModularAddition(p=5)
    deep, plain = el.DeepMLP(widths=(6,), activation="relu"), el.MLP(width=6)
    ours, theirs = deep.initialise(KEY, task), plain.initialise(KEY, task)
    assert all(np.array_equal(ours[layer][name], theirs[layer][name]) for layer in theirs for name in theirs[layer])
    x = np.random.default_rng(0).normal(size=(4, task.input_size)).astype(np.float32)
    assert np.array_equal(deep.apply(ours, x), plain.apply(theirs, x))
