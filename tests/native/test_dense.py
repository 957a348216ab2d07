"""Epochs of networks for tables agree with NumPy's, whatever the instruction set."""

import threading
import time

import numpy as np
import pytest

from elegans.tabular import Settings, StopSignal, init_networks
from elegans.tabular.descent import Data, epoch, forward, gemm, inverse_link

ROWS, FEATURES = 75, 5
HEADS = {"logistic": 1, "softmax": 3, "square": 2}
# 30 steps, each of sums of up to 40 terms of size one, against the same in another order.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}


def epoch_by_numpy(settings, weights, moments, data, order, scale, step, stop):
    """Take an epoch's steps as their formulas say."""
    total, rate, decay = 0.0, settings.learning_rate, 1 - settings.learning_rate * settings.weight_decay
    for begin in range(0, len(order), settings.batch_size):
        step, index = step + 1, order[begin : begin + settings.batch_size]
        below = [data.inputs[index]]
        for weight in weights[:-1]:
            fired = np.maximum(below[-1] @ weight.T, 0)
            below.append(np.concatenate([fired, np.ones((len(index), 1), fired.dtype)], axis=1))
        outputs = forward(weights, data.inputs[index])
        own = np.ones(len(index)) if data.weights is None else data.weights[index] * scale
        total += float((data.losses(outputs, index) * own).sum())
        slope = (inverse_link(outputs, settings.head) - data.targets[index]) * own[:, None] / len(index)
        gradients = []
        for weight, fired in zip(weights[::-1], below[::-1], strict=True):
            gradients.insert(0, slope.T @ fired)
            slope = (slope @ weight[:, :-1]) * (fired[:, :-1] > 0)
        for layer, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
            move = gradient
            if moments:
                first, second = moments[layer]
                first[:] = 0.9 * first + 0.1 * gradient
                second[:] = 0.999 * second + 0.001 * gradient**2
                move = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
            weight[:] = weight * decay - rate * move
    return total, len(order), step


def arrays(networks, member):
    moments = [(first[member], second[member]) for first, second in networks.moments]
    return [layer[member] for layer in networks.layers], moments


def trained(epoch, settings, weighted=False, epochs=6, stop=None):
    random = np.random.default_rng(0)
    heads = HEADS[settings.head]
    X = random.normal(size=(ROWS, FEATURES))
    y = random.normal(size=(ROWS, heads)) if settings.head == "square" else np.arange(ROWS) % max(2, heads)
    data = Data.of(X, y, settings, heads, random.uniform(0, 2, ROWS) if weighted else None)
    networks = init_networks(settings, [1, 2], FEATURES, heads)
    scale = 1.0 if data.weights is None else float(1 / data.weights.mean())
    losses = []
    for number in range(epochs):
        order = np.random.default_rng(number).permutation(ROWS)
        step, ended = int(networks.steps[1]), StopSignal() if stop is None else stop
        total, seen, networks.steps[1] = epoch(settings, *arrays(networks, 1), data, order, scale, step, ended)
        losses.append(total)
    return networks, losses, seen


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
@pytest.mark.parametrize(
    ("head", "hidden", "weighted"),
    [("logistic", (40,), True), ("softmax", (17, 6), False), ("square", (4, 3, 33), True)],
)
def test_steps_are_those_of_numpy(head, hidden, weighted, optimiser, dtype):
    settings = Settings(
        hidden=hidden, head=head, optimiser=optimiser, dtype=dtype, batch_size=16, weight_decay=0.1, learning_rate=0.02
    )
    ours, losses, seen = trained(epoch, settings, weighted)
    theirs, wanted, _ = trained(epoch_by_numpy, settings, weighted)
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(losses, wanted, rtol=tolerance, atol=tolerance)
    for mine, other in zip(ours._arrays(), theirs._arrays(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance)
    assert seen == ROWS
    assert ours.steps.tolist() == [0, 6 * 5]
    assert (ours.layers[0][0] == init_networks(settings, [1], FEATURES, HEADS[head]).layers[0][0]).all()


def test_a_network_that_diverges_has_a_loss_that_is_no_number():
    losses = trained(epoch, Settings(hidden=(8,), head="square", optimiser="sgd", learning_rate=1e6))[1]
    assert not np.isfinite(losses[-1])


def test_a_set_stop_and_one_whose_time_is_over_end_an_epoch_before_its_next_step():
    for stop in (StopSignal(), StopSignal(seconds=-1.0)):
        if stop.until is None:
            stop.set()
        networks, losses, seen = trained(epoch, Settings(hidden=(8,)), epochs=1, stop=stop)
        assert (seen, losses, networks.steps.tolist()) == (0, [0.0], [0, 0])


def test_a_stop_from_another_thread_ends_an_epoch_that_is_under_way():
    settings = Settings(hidden=(64, 64), batch_size=1)
    networks = init_networks(settings, [1], FEATURES)
    data = Data.of(np.ones((1_000_000, FEATURES)), np.zeros(1_000_000), settings, 1)
    stop, found = StopSignal(), []
    worker = threading.Thread(
        target=lambda: found.append(epoch(settings, *arrays(networks, 0), data, np.arange(1_000_000), 1.0, 0, stop))
    )
    before = networks.layers[-1].copy()
    worker.start()
    while (networks.layers[-1] == before).all() and worker.is_alive():
        time.sleep(0.01)
    stop.set()
    worker.join()
    _, seen, steps = found[0]
    assert 0 < seen == steps < 1_000_000


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"order": np.array([ROWS])}, r"order must be in 0 ... rows-1 with rows=\d+"),
        ({"order": np.array([-1])}, r"order must be in 0 ... rows-1 with rows=\d+"),
        ({"head": "hinge"}, "head must be one of logistic, softmax, square: got 'hinge'"),
        ({"targets": np.zeros((ROWS, 2))}, "targets must have 1 columns, as many as outputs: got 2"),
        ({"targets": np.zeros((3, 1))}, r"targets must have \d+ rows, as the inputs: got 3"),
        ({"row_weights": np.zeros(3)}, r"row_weights must have length \d+, one per row: got 3"),
        ({"batch": 0}, "batch must be at least 1: batch=0"),
        ({"step": -1}, r"step must be in 0 ... 2\^62: step=-1"),
        ({"step": 2**63 - 1}, r"step must be in 0 ... 2\^62: step=9223372036854775807"),
        (
            {"weights": [np.zeros((3, 6)), np.zeros((0, 4))], "targets": np.zeros((ROWS, 0))},
            "a layer must have at least one output: layer 1 has none",
        ),
        ({"stop": np.zeros(2, bool)}, "stop must have length 1: got 2"),
        ({"inputs": np.zeros((ROWS, 4))}, "inputs must have 6 columns, as the first layer's weights: got 4"),
        ({"first": [np.zeros((3, 6))]}, "moments must be two per layer, or none: got 1 and 0 for 2 layers"),
        (
            {"weights": [np.zeros((3, 6)), np.zeros((1, 3))]},
            "one column per output of the previous layer, and one for the bias: layer 1 has 3",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(native, change, rule):
    arguments = {
        "gemm": gemm("float64"),
        "weights": [np.zeros((3, 6)), np.zeros((1, 4))],
        "first": [],
        "second": [],
        "inputs": np.zeros((ROWS, 6)),
        "targets": np.zeros((ROWS, 1)),
        "row_weights": None,
        "row_weight_scale": 1.0,
        "order": np.arange(ROWS),
        "batch": 16,
        "head": "logistic",
        "learning_rate": 0.1,
        "weight_decay": 0.0,
        "step": 0,
        "stop": np.zeros(1, bool),
        "seconds": None,
    }
    with pytest.raises(ValueError, match=rule):
        native.dense_epoch(**arguments | change)
