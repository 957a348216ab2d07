"""Networks for tables: gradients, optimisers, draws, and members side by side."""


import numpy as np
import pytest

from elegans.tabular import Settings, start
from elegans.tabular.descent import Data, _Descent

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
    networks = start(settings(head=head, hidden=hidden, init="dense"), [3], X.shape[1], HEADS[head])
    data = Data.of(X, y, networks.settings, networks.heads, weights)
    descent = _Descent(networks, 0, len(X))
    every = np.arange(len(X))
    before = [layer.copy() for layer in networks.layers]
    descent.backward(data.slopes(descent.forward(data.inputs, every), every) * weights[:, None] / len(X))
    for depth, layer in enumerate(before):
        for place in [(0, 0, 0), (0, layer.shape[1] - 1, 1), (0, 0, layer.shape[2] - 1)]:
            losses = []
            for change in (1e-6, -1e-6):
                networks.layers[:] = [each.copy() for each in before]
                networks.layers[depth][place] += change
                losses.append(networks.mean_loss(X, y, weights)[0])
            # the gradient array still holds what the update was made of
            assert descent.gradients[depth][place[1:]] == pytest.approx((losses[0] - losses[1]) / 2e-6, abs=1e-7)
