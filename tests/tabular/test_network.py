"""Networks for tables: gradients, optimisers, draws, and members side by side."""

import dataclasses
import pickle
import re

import numpy as np
import pytest

from elegans import MLP, SparseParity
from elegans.errors import ElegansWarning
from elegans.random import stream
from elegans.tabular import BestEpoch, Settings, StopSignal, fit, init_networks
from elegans.tabular.descent import random_order

HEADS = {"logistic": 1, "softmax": 3, "square": 2}


def table(rows=40, features=5, head="logistic", seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, features))
    if head == "square":
        return X, random.normal(size=(rows, HEADS[head]))
    return X, random.permutation(np.arange(rows) % (2 if head == "logistic" else 3))


def settings(**changes):
    return Settings(**{"hidden": (7, 6), "epochs": 3, "batch_size": 16, "dtype": "float64"} | changes)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("hidden", [(6,), (5, 4), (4, 3, 5)])
def test_a_step_of_descent_follows_the_finite_differences_of_the_weighted_loss(head, hidden):
    X, y = table(head=head)
    weights = np.random.default_rng(1).uniform(0, 2, len(X))
    weights /= weights.mean()
    networks = init_networks(settings(head=head, hidden=hidden, init="dense"), [3], X.shape[1], HEADS[head])
    gradients = gradients_of(networks, X, y, weights)
    before = [layer.copy() for layer in networks.layers]
    for depth, layer in enumerate(before):
        for place in [(0, 0, 0), (0, layer.shape[1] - 1, 1), (0, 0, layer.shape[2] - 1)]:
            losses = []
            for change in (1e-6, -1e-6):
                networks.layers[:] = [each.copy() for each in before]
                networks.layers[depth][place] += change
                losses.append(networks.mean_loss(X, y, weights)[0])
            assert gradients[depth][place[1:]] == pytest.approx((losses[0] - losses[1]) / 2e-6, abs=1e-7)


def test_plain_descent_is_the_textbook_rule_with_decay_in_the_gradient():
    X, y = table()
    before = init_networks(settings(optimiser="sgd"), [3], X.shape[1])
    after = init_networks(
        settings(optimiser="sgd", learning_rate=0.3, weight_decay=0.2, batch_size=len(X)), [3], X.shape[1]
    )
    after.train(X, y, epochs=1)
    for layer, gradient, new in zip(before.layers, gradients_of(before, X, y), after.layers, strict=True):
        np.testing.assert_allclose(new[0], layer[0] - 0.3 * (gradient + 0.2 * layer[0]), rtol=1e-12, atol=1e-14)


def test_adamw_is_the_published_rule():
    X, y = table()
    rate, decay = 0.05, 0.3
    networks = init_networks(settings(learning_rate=rate, weight_decay=decay, batch_size=len(X)), [3], X.shape[1])
    expected = [layer[0].copy() for layer in networks.layers]
    first, second = ([np.zeros_like(each) for each in expected] for _ in range(2))
    for step in range(1, 4):
        gradients = gradients_of(networks, X, y)
        for layer, gradient in enumerate(gradients):
            first[layer] = 0.9 * first[layer] + 0.1 * gradient
            second[layer] = 0.999 * second[layer] + 0.001 * gradient**2
            move = (first[layer] / (1 - 0.9**step)) / (np.sqrt(second[layer] / (1 - 0.999**step)) + 1e-8)
            expected[layer] = expected[layer] * (1 - rate * decay) - rate * move
        networks.train(X, y, epochs=1)
        for layer, weights in zip(networks.layers, expected, strict=True):
            np.testing.assert_allclose(layer[0], weights, rtol=1e-9, atol=1e-12)


def gradients_of(networks, X, y, weights=None):
    """Return the first network's gradients: its displacement by one step on all rows at a learning rate of 1."""
    plain = {"optimiser": "sgd", "learning_rate": 1.0, "weight_decay": 0.0, "batch_size": len(X)}
    copy = networks.select([0])
    copy.settings, copy.moments = dataclasses.replace(networks.settings, **plain), []
    copy.train(X, y, weights=weights, epochs=1)
    return [before[0] - after[0] for before, after in zip(networks.layers, copy.layers, strict=True)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("head", HEADS)
def test_a_member_is_the_same_network_alone_and_beside_others(head, dtype):
    X, y = table(head=head)
    together = fit(X, y, settings(head=head, dtype=dtype), [5, 6, 7])
    for member, seed in enumerate([5, 6, 7]):
        alone = fit(X, y, settings(head=head, dtype=dtype), [seed])
        for mine, ours in zip(alone.layers, together.layers, strict=True):
            np.testing.assert_allclose(mine[0], ours[member], rtol=1e-12 if dtype == "float64" else 1e-4, atol=1e-5)


def test_seeds_repeat_a_training_to_the_bit_and_differ_from_each_other():
    X, y = table()
    networks, again = fit(X, y, settings(), [5, 6]), fit(X, y, settings(), [5, 6])
    for mine, its in zip(networks.layers, again.layers, strict=True):
        assert (mine == its).all()
        assert (mine[0] != mine[1]).any()


def test_every_epoch_has_an_order_of_its_own_that_takes_each_row_once():
    orders = [random_order(3, epoch, 100) for epoch in range(5)]
    assert all(sorted(order.tolist()) == list(range(100)) for order in orders)
    assert len({tuple(order.tolist()) for order in orders}) == 5
    assert (random_order(3, 1, 100) == orders[1]).all()
    assert (random_order(4, 1, 100) != orders[1]).any()


@pytest.mark.parametrize(("init_layers", "sparse"), [("first", [True, False, False]), ("all", [True, True, False])])
def test_a_sparse_init_is_for_the_first_hidden_layer_or_for_all_of_them(init_layers, sparse):
    layers = init_networks(settings(init="sparse:2", init_layers=init_layers), [0, 1], 5).layers
    for layer, is_sparse in zip(layers, sparse, strict=True):
        nonzeros = (layer[:, :, :-1] != 0).sum(axis=2)
        assert (nonzeros == 2).all() == is_sparse
        bound = 1 / np.sqrt(layer.shape[2] - 1)
        assert (np.abs(layer[:, :, -1]) <= bound).all()


def test_the_first_layer_of_one_hidden_layer_is_drawn_as_an_mlp_draws_it():
    task = SparseParity(n=5, k=2)
    drawn = MLP(width=7, init="sparse:2").initialise(stream(9, "init"), task)
    layers = init_networks(settings(hidden=(7,)), [9], 5).layers
    np.testing.assert_allclose(layers[0][0, :, :-1], drawn["hidden"]["weight"])
    np.testing.assert_allclose(layers[0][0, :, -1], drawn["hidden"]["bias"], rtol=1e-6)


@pytest.mark.parametrize("head", HEADS)
def test_a_row_of_weight_three_counts_as_three_rows(head):
    X, y = table(head=head)
    weights = np.arange(len(X)) % 4
    repeated = np.repeat(np.arange(len(X)), weights)
    whole = settings(head=head, batch_size=1000)
    networks = fit(X, y, whole, [1], weights=weights)
    other = fit(X[repeated], y[repeated], whole, [1])
    np.testing.assert_allclose(networks.outputs(X), other.outputs(X), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(networks.mean_loss(X, y, weights), other.mean_loss(X[repeated], y[repeated]), rtol=1e-9)


def test_members_on_rows_of_their_own_are_fits_of_these_rows():
    X, y = table()
    rows = np.array([np.arange(20), np.arange(19, 39)])
    networks = fit(X, y, settings(), [1, 2], rows=rows)
    for member, seed in enumerate([1, 2]):
        alone = fit(X[rows[member]], y[rows[member]], settings(), [seed])
        np.testing.assert_allclose(networks.outputs(X)[member], alone.outputs(X)[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_epochs_in_two_trainings_are_the_epochs_of_one(optimiser):
    X, y = table()
    whole = fit(X, y, settings(optimiser=optimiser, epochs=5), [1, 2])
    parts = init_networks(settings(optimiser=optimiser), [1, 2], 5)
    losses = [parts.train(X, y, epochs=2), parts.train(X, y, epochs=3)]
    assert [each.shape for each in losses] == [(2, 2), (3, 2)]
    assert parts.epochs.tolist() == [5, 5]
    for mine, its in zip(whole.layers, parts.layers, strict=True):
        assert (mine == its).all()


def test_the_loss_is_that_of_the_epochs_minibatches():
    X, y = table()
    networks = init_networks(settings(optimiser="sgd", learning_rate=1e-12), [1, 2], 5)
    at_rest = networks.mean_loss(X, y)
    np.testing.assert_allclose(networks.train(X, y, epochs=1)[0], at_rest, rtol=1e-9)


def test_a_callback_sees_every_epoch_and_stops_members():
    X, y = table()
    seen = []

    def callback(epoch):
        seen.append((epoch.number, np.isnan(epoch.losses).tolist(), epoch.networks.epochs.tolist()))
        return [epoch.number >= 2, epoch.number >= 4]

    losses = init_networks(settings(epochs=9), [1, 2], 5).train(X, y, callback=callback)
    assert seen == [
        (1, [False, False], [1, 1]),
        (2, [False, False], [2, 2]),
        (3, [True, False], [2, 3]),
        (4, [True, False], [2, 4]),
    ]
    assert np.isnan(losses).tolist() == [[False, False], [False, False], [True, False], [True, False]]
    assert losses.shape == (4, 2)


def test_time_that_is_over_ends_a_training_before_its_first_step():
    X, y = table()
    networks = init_networks(settings(), [1], 5)
    assert networks.train(X, y, stop=StopSignal(seconds=-1)).shape == (0, 1)


def test_an_epoch_that_ends_before_its_first_step_is_none():
    class JustBegun(StopSignal):
        """Set as soon as the first epoch has been let through."""

        asked = 0

        def __bool__(self):
            self.asked += 1
            answer = super().__bool__()
            if self.asked == 2:
                self.set()
            return answer

    X, y = table()
    networks, told = init_networks(settings(), [0], X.shape[1], HEADS["logistic"]), []
    assert networks.train(X, y, stop=JustBegun(), callback=told.append).shape == (0, 1)
    assert not told
    assert networks.steps.tolist() == networks.epochs.tolist() == [0]
    assert networks.steps.tolist() == [0]


def test_best_keeps_each_members_lowest_loss_and_waits_its_patience():
    X, y = table(rows=60)
    networks = init_networks(settings(epochs=60, learning_rate=0.05), [1, 2, 3], 5)
    watched = BestEpoch(X[40:], y[40:], patience=4)
    networks.train(X[:40], y[:40], callback=watched)
    curve = np.array(watched.losses)
    best = np.nanargmin(curve, axis=0)
    assert watched.best.epochs.tolist() == (best + 1).tolist()
    np.testing.assert_allclose(watched.best.mean_loss(X[40:], y[40:]), np.nanmin(curve, axis=0), rtol=1e-9)
    assert (~np.isnan(curve)).sum(axis=0).tolist() == (best + 1 + 4).tolist()


def test_networks_go_through_pickle_and_go_on():
    X, y = table()
    networks = fit(X, y, settings(), [1, 2])
    copy = pickle.loads(pickle.dumps(networks))
    for each in (networks, copy):
        each.train(X, y, epochs=2)
    for mine, its in zip(networks.layers, copy.layers, strict=True):
        assert (mine == its).all()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"hidden": ()}, "hidden must be one or more widths of at least 1: hidden=()"),
        ({"hidden": (3, 0)}, "hidden must be one or more widths of at least 1: hidden=(3, 0)"),
        ({"head": "hinge"}, "head must be one of logistic, softmax, square: head='hinge'"),
        ({"optimiser": "adam"}, "optimiser must be one of sgd, adamw: optimiser='adam'"),
        ({"init_layers": "last"}, "init_layers must be one of first, all: init_layers='last'"),
        ({"dtype": "float16"}, "dtype must be one of float32, float64: dtype='float16'"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0 and finite: learning_rate=0.0"),
        ({"weight_decay": -1.0}, "weight_decay must be at least 0 and finite: weight_decay=-1.0"),
        ({"batch_size": 0}, "batch_size must be at least 1 and below 2^31: batch_size=0"),
        ({"epochs": -1}, "epochs must be at least 0 and below 2^31: epochs=-1"),
        ({"init": "sprase:2"}, "did you mean"),
    ],
)
def test_settings_refuse_what_breaks_a_rule(change, rule):
    with pytest.raises(ValueError, match=re.escape(rule)):
        settings(**change)


def test_more_nonzeros_than_inputs_are_refused():
    with pytest.raises(
        ValueError, match=re.escape("more non-zeros than its layer has inputs: nonzeros=6, n_features=5")
    ):
        init_networks(settings(init="sparse:6"), [0], 5)
    with pytest.raises(ValueError, match="nonzeros=5, n_features=9, narrowest layer 4"):
        init_networks(settings(init="sparse:5", init_layers="all", hidden=(4, 9)), [0], 9)


@pytest.mark.parametrize(("inputs", "heads"), [(0, 1), (5, 0), (5, -1), (5, 2**31), (10**30, 1)])
def test_networks_have_inputs_and_outputs(inputs, heads):
    with pytest.raises(ValueError, match="inputs and heads must be at least 1 and below 2\\^31: inputs="):
        init_networks(settings(init="dense"), [0], inputs, heads)


@pytest.mark.parametrize("seeds", [[-1], [2**64], [1.5], ["a"], 3, [[1], [2, 3]]])
def test_seeds_are_whole_numbers_of_64_bits(seeds):
    with pytest.raises(ValueError, match=re.escape("seeds must be whole numbers from 0 to 2^64 - 1: seeds=")):
        init_networks.__wrapped__(settings(), seeds, 5)


@pytest.mark.parametrize("members", [3, [2], ["a"], [1.0], [10**30]])
def test_members_are_selected_by_their_numbers(members):
    networks = init_networks(settings(), np.array([4, 5]), 5)
    assert networks.select([1, -1]).seeds == [5, 5]
    with pytest.raises(ValueError, match="members must be whole numbers from 0 to 1: "):
        networks.select(members)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_networks_that_diverge_are_counted_in_a_warning():
    X, y = table()
    with pytest.warns(ElegansWarning, match="2 of 2 networks diverged: their weights are no longer finite"):
        fit(X, y, settings(learning_rate=1e200, optimiser="sgd"), [0, 1])


def test_many_classes_need_no_square_matrix():
    model = fit(np.zeros((3, 2)), [0, 1, 10**6], settings(head="softmax", hidden=(2,), epochs=1), [0])
    assert model.heads == 10**6 + 1


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"X": np.zeros((3, 4))}, "X must have as many features as the networks: 4, not 5"),
        ({"X": np.zeros(3)}, "X must have two dimensions: 1"),
        ({"X": np.zeros((3, 5), complex)}, "X must be an array of real numbers: complex128"),
        ({"X": np.zeros((3, 5), "M8[D]")}, "X must be an array of real numbers: datetime64[D]"),
        ({"X": [["a"] * 5] * 3}, "X must be an array of real numbers: <U1"),
        ({"X": np.full((3, 5), np.nan)}, "X must hold finite numbers"),
        ({"weights": "abc"}, "weights must be an array of real numbers: <U3 of shape ()"),
        ({"rows": [[0.5, 1]]}, "rows must be whole numbers: float64"),
        ({"rows": [[0], [0, 1]]}, "rows must be an array of real numbers: [[0], [0, 1]]"),
        ({"y": [None, "a", {}]}, "y must be an array of real numbers: [None, 'a', {}]"),
        ({"epochs": -1}, "epochs must be at least 0 and below 2^31: epochs=-1"),
        ({"epochs": float("nan")}, "epochs must be a whole number: epochs=nan"),
        ({"y": [0, 1]}, "X and y must have equally many rows, at least one: 3 and 2"),
        ({"y": [0, 1, 2]}, "y must hold whole numbers from 0 to 1"),
        ({"y": [0, 0.5, 1]}, "y must hold whole numbers from 0 to 1"),
        ({"weights": [1, -1, 1]}, "weights must be one per row, finite, at least 0, and not all 0"),
        ({"weights": [0, 0, 0]}, "weights must be one per row, finite, at least 0, and not all 0"),
        ({"weights": [1, 1]}, "weights must be one per row, finite, at least 0, and not all 0"),
        ({"rows": [[0, 3]]}, "rows must be from 0 to 2: 0 to 3"),
        ({"rows": [[0], [1]]}, "rows must have one row of indices per member"),
    ],
)
def test_rows_that_do_not_fit_are_refused(change, rule):
    arguments = {"X": np.zeros((3, 5)), "y": [0, 1, 1]} | change
    with pytest.raises(ValueError, match=re.escape(rule)):
        init_networks(settings(), [0], 5).train(**arguments)
