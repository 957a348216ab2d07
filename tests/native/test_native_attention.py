"""Transformers of causal attention agree with a float64 reference, whatever the instruction set."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest

NORM_EPSILON = 1e-5
# A gradient in float32 against central differences in float64, both of entries of size up to one.
TOLERANCE = {"rtol": 2e-4, "atol": 3e-6}


@dataclass(frozen=True)
class Problem:
    """What a network is constructed from, and its loss in float64, written with loops over positions."""

    symbols: int = 3
    width: int = 4
    length: int = 6
    heads: tuple = (2, 1)
    normed: bool = True
    absolute: bool = False
    mlp_width: int = 0
    batch_size: int = 5
    optimiser: str = "sgd"
    seed: int = 0

    def but(self, **change):
        return replace(self, **change)

    def shapes(self):
        """The arrays in the constructor's order."""
        width, norm, table = self.width, [(self.width,)] * 2 * self.normed, [(self.length, self.width)]
        layer = [*norm, (width, 3 * width), *table * (not self.absolute), *[(width, width)] * self.normed]
        if hidden := self.mlp_width:
            layer += [*norm, (width, hidden), (hidden,), (hidden, width), (width,)]
        return [(self.symbols, width), *table * self.absolute, *layer * len(self.heads), *norm, (width, self.symbols)]

    def start(self, std=0.5):
        size = sum(int(np.prod(shape)) for shape in self.shapes())
        return np.random.default_rng(self.seed).normal(0, std, size).astype(np.float32)

    def batches(self, steps=1):
        random = np.random.default_rng(self.seed + 1)
        shape = (2, steps, self.batch_size, self.length)
        return tuple(random.integers(0, self.symbols, shape).astype(np.int32))

    def network(self, native, start=None, rate=1.0, decay=0.0, **more):
        start = self.start() if start is None else start
        rates = [np.broadcast_to(np.float32(number), start.shape).copy() for number in (rate, decay)]
        names = ("symbols", "width", "length", "heads", "normed", "absolute", "mlp_width", "batch_size", "optimiser")
        options = {name: getattr(self, name) for name in names}
        return native.AttentionNetwork(start, *rates, **{**options, **more})

    def arrays(self, parameters):
        arrays, used = [], 0
        for shape in self.shapes():
            size = int(np.prod(shape))
            arrays.append(parameters[used : used + size].reshape(shape))
            used += size
        return iter(arrays)

    def logits(self, parameters, tokens):
        arrays = self.arrays(np.asarray(parameters, np.float64))
        z = next(arrays)[tokens]
        if self.absolute:
            z = z + next(arrays)
        for heads in self.heads:
            inner = self.norm(arrays, z)
            query, key, value = np.split(inner @ next(arrays), 3, axis=-1)
            relative = np.zeros((self.length, self.width)) if self.absolute else next(arrays)
            size = self.width // heads
            mixed = np.zeros_like(z)
            for head in range(heads):
                own = slice(head * size, (head + 1) * size)
                for i in range(self.length):
                    keys = key[:, : i + 1, own] + relative[i::-1, own]
                    scores = np.einsum("bjf,bf->bj", keys, query[:, i, own]) / np.sqrt(size)
                    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
                    weights /= weights.sum(axis=1, keepdims=True)
                    mixed[:, i, own] = np.einsum("bj,bjf->bf", weights, value[:, : i + 1, own])
            z = z + (mixed @ next(arrays) if self.normed else mixed)
            if self.mlp_width:
                hidden = self.norm(arrays, z) @ next(arrays) + next(arrays)
                gelu = hidden / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)))
                z = z + gelu @ next(arrays) + next(arrays)
        return self.norm(arrays, z) @ next(arrays)

    def norm(self, arrays, z):
        if not self.normed:
            return z
        scale, shift = next(arrays), next(arrays)
        centred = z - z.mean(axis=-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + NORM_EPSILON) * scale + shift

    def loss(self, parameters, tokens, labels):
        logits = self.logits(parameters, tokens)
        own = np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
        return (np.logaddexp.reduce(logits, axis=-1) - own).mean()

    def slopes(self, parameters, tokens, labels):
        """Central differences of the loss by the parameters."""
        found, middle = [], np.asarray(parameters, np.float64)
        for place in range(len(middle)):
            values = []
            for move in (-1e-5, 1e-5):
                moved = middle.copy()
                moved[place] += move
                values.append(self.loss(moved, tokens, labels))
            found.append((values[1] - values[0]) / 2e-5)
        return np.array(found)


def gradient(native, problem, start, tokens, labels):
    """Return how far one step of rate 1 goes."""
    network = problem.but(optimiser="sgd").network(native, start=start)
    assert network.advance(tokens, labels, np.ones(1, np.float32)) == 1
    return np.float64(start) - network.parameters()


CASES = {
    "plain": Problem(normed=False),
    "normed": Problem(),
    "one position": Problem(length=1),
    "one position, plain": Problem(length=1, normed=False, heads=(1,)),
    "whole blocks": Problem(length=8, heads=(1,), batch_size=16),
    "a block and a position": Problem(length=9, heads=(4, 1), batch_size=1),
    "more than the lanes": Problem(length=3, batch_size=33, normed=False),
    "odd sizes": Problem(length=7, width=15, heads=(3, 5), symbols=2, batch_size=17),
    "three layers": Problem(length=5, width=6, heads=(1, 3, 2), symbols=7, normed=False),
    "absolute": Problem(absolute=True, length=5),
    "absolute, plain": Problem(absolute=True, normed=False, heads=(1,)),
    "with MLPs": Problem(mlp_width=7, length=3),
    "with an MLP, plain": Problem(mlp_width=5, normed=False, heads=(1,), batch_size=17),
    "absolute, with an MLP": Problem(absolute=True, mlp_width=3, length=5, heads=(2,)),
    "one feature, one symbol": Problem(width=1, heads=(1,), symbols=1, normed=False),
}


SLOW = ("odd sizes",)


@lru_cache
def slopes(problem):
    """Return the reference's gradient of the first batch, once for all instruction sets."""
    tokens, labels = problem.batches()
    return problem.slopes(problem.start(), tokens[0], labels[0])


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASES])
def test_outputs_loss_and_gradients_agree_with_the_reference(native, name):
    problem = CASES[name]
    tokens, labels = problem.batches()
    start = problem.start()
    network = problem.network(native)
    np.testing.assert_allclose(network.outputs(tokens[0]), problem.logits(start, tokens[0]), rtol=1e-4, atol=3e-5)
    np.testing.assert_allclose(gradient(native, problem, start, tokens, labels), slopes(problem), **TOLERANCE)
    network.advance(tokens, labels, np.ones(1, np.float32))
    assert network.loss == pytest.approx(problem.loss(start, tokens[0], labels[0]), rel=1e-5, abs=1e-7)


def test_adam_moves_by_the_running_means_with_their_decay_outside(native):
    problem = Problem(optimiser="adam")
    tokens, labels = problem.batches(5)
    factors = np.array([1, 0.5, 2, 1, 1], np.float32)
    rates = np.random.default_rng(1).uniform(0.001, 0.02, len(problem.start())).astype(np.float32)
    decays = np.random.default_rng(2).uniform(0, 0.5, len(rates)).astype(np.float32)
    network = problem.network(native, rate=rates, decay=decays, beta1=0.8, beta2=0.9, epsilon=1e-3)
    parameters, mean, square = np.float64(problem.start()), 0.0, 0.0
    for step in range(5):
        here = slice(step, step + 1)
        slope = gradient(native, problem, np.float32(parameters), tokens[here], labels[here])
        mean, square = 0.8 * mean + 0.2 * slope, 0.9 * square + 0.1 * slope**2
        unbiased = mean / (1 - 0.8 ** (step + 1)), square / (1 - 0.9 ** (step + 1))
        direction = unbiased[0] / (np.sqrt(unbiased[1]) + 1e-3)
        parameters = parameters - rates * factors[step] * (direction + decays * parameters)
        assert network.advance(tokens[here], labels[here], factors[here]) == 1
        np.testing.assert_allclose(network.parameters(), parameters, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("decay_in_gradient", [False, True])
def test_parameters_have_their_own_rates_and_decays(native, decay_in_gradient):
    problem = Problem(normed=False)
    tokens, labels = problem.batches()
    start = problem.start()
    slope = gradient(native, problem, start, tokens, labels)
    rates, decays = (np.random.default_rng(seed).uniform(0, 0.5, len(start)) for seed in range(2))
    network = problem.network(native, rate=rates, decay=decays, decay_in_gradient=decay_in_gradient)
    network.advance(tokens, labels, np.full(1, 0.3, np.float32))
    shrink = decays * (rates * 0.3 if decay_in_gradient else 1)
    np.testing.assert_allclose(network.parameters(), start - 0.3 * rates * slope - shrink * start, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("change", [{}, {"normed": False}, {"absolute": True, "mlp_width": 3}])
def test_a_future_token_never_changes_an_output(native, change):
    problem = Problem(length=11, heads=(2, 2), **change)
    network, tokens = problem.network(native), problem.batches()[0][0]
    before = network.outputs(tokens)
    for place in range(problem.length):
        changed = tokens.copy()
        changed[:, place] = (changed[:, place] + 1) % problem.symbols
        after = network.outputs(changed)
        np.testing.assert_array_equal(after[:, :place], before[:, :place])
        assert (after[:, place] != before[:, place]).any()


def test_a_sequence_is_answered_alike_alone_and_among_others(native):
    problem = Problem(batch_size=40)
    network, tokens = problem.network(native), problem.batches()[0][0]
    together = network.outputs(tokens)
    for place in (0, 7, 39):
        np.testing.assert_array_equal(network.outputs(tokens[place : place + 1])[0], together[place])
    assert network.outputs(tokens[:0]).shape == (0, problem.length, problem.symbols)


def test_an_example_is_wrong_where_its_last_position_is(native):
    problem = Problem(batch_size=50)
    network = problem.network(native)
    tokens, labels = (array[0] for array in problem.batches())
    last = network.outputs(tokens)[:, -1]
    own = np.arange(problem.symbols) == labels[:, -1:]
    wrong = last[own] <= np.where(own, -np.inf, last).max(axis=1)
    np.testing.assert_array_equal(network.wrong(tokens, labels), wrong)
    assert 0 < wrong.mean() < 1
    network.advance(tokens[None], labels[None], np.ones(1, np.float32))
    assert network.error == pytest.approx(wrong.mean())
    ties = problem.network(native, start=0 * problem.start())
    assert ties.wrong(tokens, labels).all()


def test_bad_arguments_are_refused_with_rule_and_value(native):
    problem = Problem()
    for change, message in [
        ({"heads": (3,)}, "heads must divide the width: heads=3, width=4"),
        ({"heads": ()}, "heads must have at least one layer"),
        ({"symbols": 0}, "symbols must be in 1 ... 4096: symbols=0"),
        ({"length": 0}, "length must be in 1 ... 65536: length=0"),
        ({"mlp_width": -1}, "mlp_width must be in 0 ... 16384: mlp_width=-1"),
        ({"batch_size": 0}, "batch_size must be at least 1: batch_size=0"),
        ({"optimiser": "newton"}, "optimiser must be one of adam, sgd, momentum, nesterov: got 'newton'"),
        ({"beta1": 1.0}, r"betas must be in \[0, 1\): got 1"),
        ({"epsilon": 0.0}, "epsilon must be positive: epsilon=0"),
        ({"width": 8}, "parameters must have length"),
    ]:
        with pytest.raises(ValueError, match=message):
            problem.network(native, start=problem.start(), **change)
    network = problem.network(native)
    tokens, labels = problem.batches()
    one = np.ones(1, np.float32)
    with pytest.raises(ValueError, match="tokens and labels must be in 0 ... symbols-1 with symbols=3"):
        network.advance(tokens + 1, labels, one)
    with pytest.raises(ValueError, match="tokens and labels must be in 0 ... symbols-1 with symbols=3"):
        network.wrong(tokens[0], labels[0] - 1)
    with pytest.raises(ValueError, match="sequences must have length 6: got 5"):
        network.outputs(np.ascontiguousarray(tokens[0][:, :5]))
    with pytest.raises(ValueError, match=r"shape \(steps=2, batch_size=5, ...\): got \(1, 5, ...\)"):
        network.advance(tokens, labels, np.ones(2, np.float32))
