"""Networks that share a trunk: gradients, look-ups, members, the learning rate, threads."""

import dataclasses
import pickle

import numpy as np
import pytest

from elegans import _native
from elegans.tabular import StopSignal
from elegans.tabular.encoding import Bins, Encoded, Inputs, RawRows
from elegans.tabular.shared import SharedSettings, init_shared

HEADS = {"logistic": 1, "softmax": 3, "square": 2}


def rows(count=400, seed=0, gaps=True):
    """Return rows of numbers with gaps, one of few levels, one of two, and one of many."""
    random = np.random.default_rng(seed)
    values = np.zeros((count, 6))
    values[:, :3] = random.normal(size=(count, 3))
    values[:, 1] = values[:, 1] > 0.3  # a single bin
    if gaps:
        values[::7, 2] = np.nan
    texts = [np.array([f"{name}" for name in random.integers(0, levels, count)], object) for levels in (4, 2, 12)]
    return RawRows(values, dict(zip((3, 4, 5), texts, strict=True)))


def made(head="square", count=400, members=3, dtype="float64", embed=True, **changes):
    raw = rows(count)
    encoding = Bins(4, embed).fit(raw, range(6))
    random = np.random.default_rng(1)
    if head == "square":
        targets = random.normal(size=(count, 2))
    else:
        targets = random.integers(0, max(2, HEADS[head]), (count, 1)).astype(float)
    options = {"hidden": (20, 18), "init": "dense", "epochs": 3, "batch_size": 7, "learning_rate": 0.01, "dropout": 0.0}
    settings = SharedSettings(**{**options, "head": head, "dtype": dtype, **changes})
    networks = init_shared(settings, list(range(5, 5 + members)), encoding.inputs, HEADS[head])
    return networks, encoding.transform(raw, dtype), targets


@pytest.mark.parametrize("hidden", [(18,), (20, 18), (70, 16, 33)])
@pytest.mark.parametrize("head", HEADS)
def test_gradients_are_those_of_finite_differences(head, hidden):
    networks, data, targets = made(head, hidden=hidden)
    random = np.random.default_rng(2)
    weights = random.uniform(0.5, 2, len(data))
    gradient, before = networks.gradient(data, targets, weights)[1], networks.values.copy()
    for place in random.choice(len(before), 60, replace=False):
        losses = []
        for change in (1e-7, -1e-7):
            networks.values = before.copy()
            networks.values[place] += change
            losses.append(networks.gradient(data, targets, weights)[0])
        assert gradient[place] == pytest.approx((losses[0] - losses[1]) / 2e-7, abs=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
def test_looking_up_equals_the_dense_product_in_outputs_and_gradients(dtype, tolerance):
    networks, data, targets = made(dtype=dtype, embed=False)
    flat = networks.inputs.expand(data)
    inputs = Inputs(6, np.zeros((0, 3), np.int32), networks.inputs.owner.astype(np.int32), np.zeros(0, np.int32))
    dense = dataclasses.replace(networks, inputs=inputs)
    none = np.zeros((len(data), 0))
    wide = Encoded(none.astype(np.uint16), none, flat, none.astype(np.int32))
    np.testing.assert_allclose(dense.outputs(wide), networks.outputs(data), rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(networks.gradient(data, targets), dense.gradient(wide, targets), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)


def test_a_single_member_without_signs_is_a_plain_network_on_encoded_inputs():
    networks, data, _ = made("softmax", members=1)
    parts = networks.parts()
    parts["factors"][:] = 1
    embeddings = parts["embeddings"].copy()
    hidden = networks.inputs.expand(data, None, embeddings) @ parts["first"]
    for depth in (0, 1):
        hidden = np.maximum((hidden if depth == 0 else hidden @ parts["weights1"].T) + parts[f"biases{depth}"], 0)
    expected = hidden @ parts["heads"][0].T + parts["head_biases"][0]
    np.testing.assert_allclose(networks.outputs(data)[0], expected, rtol=1e-10, atol=1e-10)


def test_the_sign_of_a_column_negates_its_inputs():
    networks, data, _ = made(embed=False)
    before = networks.outputs(data)
    parts = networks.parts()
    parts["factors"][:, 0] *= -1
    parts["first"][networks.inputs.owner == 0] *= -1
    np.testing.assert_allclose(networks.outputs(data), before, rtol=1e-12, atol=1e-12)


def test_gradients_of_members_with_opposite_outputs_do_not_cancel():
    networks, data, _ = made("logistic", members=2)
    parts = networks.parts()
    parts["factors"][:] = 1
    parts["head_biases"][:] = 0
    parts["heads"][1] = -parts["heads"][0]
    ones = np.ones((len(data), 1))
    heads = networks.parts(networks.gradient(data, ones)[1])["heads"]
    np.testing.assert_allclose(networks.outputs(data)[0], -networks.outputs(data)[1])
    assert np.abs(heads).max(axis=2).min() > 1e-3  # those of the mean output would be equal, of members they are not
    assert np.abs(heads[0] - heads[1]).max() > 1e-4


def test_the_learning_rate_has_four_cycles_of_doubling_length_and_ends_at_zero():
    rates = [_native.learning_rate(each / 15, 0.002, True) for each in (0, 1, 3, 7, 15)]
    np.testing.assert_allclose(rates, 0, atol=1e-17)
    tops = [_native.learning_rate((2**half - 1) / 15, 0.002, True) for half in (0.5, 1.5, 2.5, 3.5)]
    np.testing.assert_allclose(tops, 0.002)
    assert _native.learning_rate(0.3, 0.002, False) == 0.002


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [2, 3])
def test_threads_change_no_bit(dtype, count):
    trained = []
    for threads in (1, count):
        networks, data, targets = made("softmax", dtype=dtype, hidden=(150, 90), dropout=0.2)
        losses = networks.train(data, targets, threads=threads)
        trained.append((networks.values.tolist(), losses, networks.outputs(data).tolist()))
    assert trained[0] == trained[1]
    assert trained[0][1][-1] < trained[0][1][0]


def test_a_step_is_the_published_rule_after_clipping_and_without_decay_of_biases_and_factors():
    networks, data, targets = made(batch_size=1000, cycles=False, weight_decay=0.5, dtype="float64")
    expected, first, second = networks.values.copy(), 0, 0
    decayed = networks._layout().decayed
    for step in (1, 2, 3):
        gradient = networks.gradient(data, targets)[1]
        gradient *= min(1, 1 / np.linalg.norm(gradient))
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        expected[:decayed] *= 1 - 0.01 * 0.5
        expected -= 0.01 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        networks.train(data, targets, epochs=1)
        np.testing.assert_allclose(networks.values, expected, rtol=1e-9, atol=1e-12)
    assert set(networks.parts()) >= {"first", "heads", "embeddings", "biases0", "head_biases", "factors"}
    assert decayed == sum(networks.parts()[name].size for name in ("first", "weights1", "heads", "embeddings"))


def test_plain_descent_has_the_decay_in_the_gradient():
    networks, data, targets = made(batch_size=1000, cycles=False, weight_decay=0.5, optimiser="sgd")
    before, gradient = networks.values.copy(), networks.gradient(data, targets)[1]
    assert np.linalg.norm(gradient) < 1
    networks.train(data, targets, epochs=1)
    decay = 0.5 * before * (np.arange(len(before)) < networks._layout().decayed)
    np.testing.assert_allclose(networks.values, before - 0.01 * (gradient + decay), rtol=1e-9, atol=1e-12)


def test_each_member_takes_every_row_once_an_epoch_in_its_own_order():
    networks, data, targets = made(batch_size=7, learning_rate=1e-12, cycles=False)
    at_rest = networks.gradient(data, targets)[0]
    assert networks.train(data, targets, epochs=2) == [pytest.approx(at_rest)] * 2
    assert (networks.step, networks.epochs) == (116, 2)


def test_dropout_leaves_out_its_share_of_neurons_and_keeps_the_mean():
    losses = []
    for dropout in (0.0, 0.3):
        networks, data, _ = made("square", count=400, hidden=(64,), learning_rate=1e-12, cycles=False, dropout=dropout)
        parts = networks.parts()
        for name, value in {"first": 0, "biases0": 1, "heads": 1 / 64, "head_biases": 0}.items():
            parts[name][:] = value
        losses.append(networks.train(data, np.ones((400, 2)), epochs=1)[0])
    # outputs are means of 64 masks of mean 1 and variance 0.3 / 0.7: two outputs, half the squared error
    assert losses[0] == pytest.approx(0, abs=1e-12)
    assert losses[1] == pytest.approx(0.3 / 0.7 / 64, rel=0.2)


def test_weights_of_rows_multiply_their_losses():
    networks, data, targets = made()
    weights = np.arange(len(data)) % 3.0
    whole = networks.gradient(
        data[np.repeat(np.arange(len(data)), weights.astype(int))],
        targets[np.repeat(np.arange(len(data)), weights.astype(int))],
    )
    loss, gradient = networks.gradient(data, targets, weights / weights.mean())
    assert loss == pytest.approx(whole[0])
    np.testing.assert_allclose(gradient, whole[1], rtol=1e-9, atol=1e-14)


def test_a_time_limit_ends_training_with_the_rate_near_zero():
    networks, data, targets = made(count=400, epochs=10**6)
    networks.train(data, targets, stop=StopSignal(0.4))
    assert 0 < networks.step < 10**6 * 50
    assert networks.rate < 0.3 * networks.settings.learning_rate  # a busy machine may lose the last steps
    before = networks.step
    assert networks.train(data, targets, stop=StopSignal(-1)) == []
    assert networks.step == before


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", float(np.finfo("float32").eps)), ("float64", 0)])
def test_the_prediction_of_a_row_ignores_its_neighbours(dtype, rounding):
    """OpenBLAS's kernels for AVX2 (Haswell) round float32 products by a row's place; outputs are below 1."""
    networks, data, targets = made(count=200, dtype=dtype)
    networks.train(data, targets)
    together = networks.outputs(data)
    np.testing.assert_allclose(networks.outputs(data[[150]])[:, 0], together[:, 150], rtol=0, atol=rounding)
    np.testing.assert_allclose(networks.outputs(data[::-1])[:, ::-1], together, rtol=0, atol=rounding)


def test_unseen_levels_read_as_the_mean_embedding():
    networks, data, _ = made()
    begin, end = networks.inputs.embedded_ranges[0]
    levels = np.full_like(data.levels, end - 1)
    unseen = dataclasses.replace(data, levels=levels)
    networks.parts()["embeddings"][end - 1] = 99  # never read
    mean = networks.parts()["embeddings"][begin : end - 1].mean(axis=0)
    outputs = networks.outputs(unseen)
    networks.parts()["embeddings"][begin] = mean
    expected = dataclasses.replace(networks)
    np.testing.assert_allclose(
        expected.outputs(dataclasses.replace(data, levels=np.full_like(levels, begin))), outputs, rtol=1e-9
    )


@pytest.mark.parametrize("init", ["sparse:2", "dense"])
def test_a_sparse_initialisation_gives_neurons_few_inputs_of_uniform_weight(init):
    networks, _, _ = made(init=init, hidden=(512, 16))
    first = networks.parts()["first"]
    if init == "dense":
        assert (first != 0).all()
        assert np.abs(first).max() <= 1 / np.sqrt(networks.inputs.count)
    else:
        assert ((first != 0).sum(axis=0) == 2).all()
        assert 0.65 < np.abs(first).max() <= 1 / np.sqrt(2)
        assert np.abs(first[first != 0]).mean() == pytest.approx(0.5 / np.sqrt(2), rel=0.1)


def test_networks_go_through_pickle_and_go_on():
    networks, data, targets = made(dropout=0.1)
    networks.train(data, targets, epochs=1)
    copy = pickle.loads(pickle.dumps(networks))
    for each in (networks, copy, twin := networks.copy()):
        each.train(data, targets, epochs=1)
    assert networks.values.tolist() == copy.values.tolist() == twin.values.tolist()


def test_more_nonzeros_than_inputs_are_refused():
    with pytest.raises(ValueError, match="must not have more non-zeros than its layer has inputs: nonzeros=500"):
        made(init="sparse:500")
