"""Networks that begin where another trial's began, or some neurons of it, are trials like any other."""

import numpy as np
import pytest

import elegans as el
from elegans.errors import TrialError
from elegans.models import SeededInit
from elegans.studies.pareto_frontiers.models import Ticket
from elegans.training.engines import ENGINES, choose

PARENT = el.Trial(
    task=el.SparseParity(n=20, k=3),
    regime=el.Online(),
    model=el.MLP(width=50, init=el.SparseInit(2)),
    training=el.SGD(steps=100, weight_decay=0.01),
    seed=7,
)


def ticket(neurons=(3, 17, 41), width=3):
    support = tuple(int(place) for place in PARENT.task.draw(PARENT.key("task")))
    return el.Trial(
        task=el.SparseParity(n=20, k=3, support=support),
        regime=el.Online(),
        model=el.MLP(width=width, init=Ticket(of=PARENT.model, seed=7, neurons=neurons)),
        training=PARENT.training,
        seed=123,
    )


def test_a_ticket_has_the_neurons_initial_values_whatever_its_own_seed():
    whole = PARENT.model.initialise(PARENT.key("init"), PARENT.task)
    for seed in (0, 123):
        one = ticket().with_seed(seed)
        part = one.model.initialise(one.key("init"), one.task)
        for name in ("weight", "bias"):
            np.testing.assert_array_equal(part["hidden"][name], whole["hidden"][name][[3, 17, 41]])
        np.testing.assert_array_equal(part["output"]["weight"], whole["output"]["weight"][[3, 17, 41]])
        assert part["output"]["bias"] == whole["output"]["bias"]


def test_a_ticket_is_a_record_with_a_hash_of_its_content():
    one = ticket()
    assert el.Trial.from_json(one.to_json()) == one
    assert el.Trial.from_json(one.to_json()).identity == one.identity
    assert ticket((3, 17, 40)).identity != one.identity


@pytest.mark.parametrize("name", ["fused", "jax"])
def test_both_engines_train_tickets_and_end_with_equal_weights(name):
    if ENGINES[name].unavailable() is not None:
        pytest.skip(f"{name} is not available")
    one = ticket()
    assert choose(one, name).name == name
    weight = el.train(one, engine=name).parameters["hidden"]["weight"]
    np.testing.assert_allclose(weight, el.train(one, engine="jax").parameters["hidden"]["weight"], atol=1e-4)


@pytest.mark.parametrize(
    ("neurons", "width", "message"),
    [
        ((3, 3, 4), 3, "must be distinct"),
        ((), 1, "at least one neuron"),
        ((3, 17, 50), 3, "below the width"),
        ((3, 17, 41), 4, "width must be the ticket's number of neurons: width=4"),
    ],
)
def test_tickets_that_cannot_be_are_refused(neurons, width, message):
    with pytest.raises(TrialError, match=message):
        ticket(neurons, width)


KEY = PARENT.with_seed(5).key("init")


def seeded(seed, of="dense"):
    return PARENT.replace("model.init", SeededInit(of=of, seed=seed))


@pytest.mark.parametrize("of", ["dense", "gaussian", "sparse:2"])
def test_a_seeded_network_begins_where_the_trial_of_that_seed_does_whatever_its_own_seed(of):
    usual = PARENT.replace("model.init", of)
    for model in (usual.model, el.PolyNet(degree=3, init=of)):
        expected = model.initialise(usual.with_seed(5).key("init"), PARENT.task)
        own = type(model)(**{**dict(model), "init": SeededInit(of=of, seed=5)})
        for seed in (0, 123):
            found = own.initialise(PARENT.with_seed(seed).key("init"), PARENT.task)
            for layer, arrays in expected.items():
                for name, values in arrays.items():
                    np.testing.assert_array_equal(found[layer][name], values)
    n = PARENT.task.n
    np.testing.assert_array_equal(
        SeededInit(of=of, seed=5).weights(PARENT.key("init"), 50, n), usual.model.init.weights(KEY.fold(0), 50, n)
    )


def test_seeded_networks_of_different_seeds_are_different_cells_that_train_side_by_side():
    one, other = seeded(5), seeded(6)
    assert one.cell != other.cell
    assert ENGINES["jax"].signature(one) == ENGINES["jax"].signature(other)
    assert el.Trial.from_json(one.to_json()) == one


def test_a_seeded_network_has_data_of_its_own():
    """The same initial values, other examples: after 100 steps weights differ; with the same seed they do not."""
    support = tuple(int(place) for place in PARENT.task.draw(PARENT.key("task")))
    ends = [
        el.train(seeded(5).replace("task.support", support).with_seed(seed)).parameters["hidden"]["weight"]
        for seed in (1, 2, 2)
    ]
    assert np.abs(ends[0] - ends[1]).max() > 1e-3
    np.testing.assert_array_equal(ends[1], ends[2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": -1}, "greater than or equal to 0"),
        ({"seed": 2**32}, "less than 4294967296"),
        ({"seed": 0, "of": "sparse:99"}, "nonzeros of a sparse init must be at most n: nonzeros=99, n=20"),
    ],
)
def test_a_seed_or_law_that_cannot_be_is_refused(settings, message):
    with pytest.raises(TrialError, match=message):
        PARENT.replace("model.init", SeededInit(**settings))
