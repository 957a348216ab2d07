"""Transformers on pairs agree with a float64 reference, whatever the instruction set."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from test_pairs import Problem

# A step in float32 against the same step in float64: sums of up to 1000 terms of size below one.
TOLERANCE = {"rtol": 2e-5, "atol": 5e-6}


@dataclass(frozen=True)
class Transformer(Problem):
    """What a transformer on pairs is constructed from, and one step of its training in float64."""

    width: int = 12
    heads: int = 3
    head_size: int = 4
    mlp_width: int = 10
    activation: str = "relu"
    degree: int = 1
    learning_rates: tuple = (0.5,)
    decays: tuple = (0.0,)
    given: bool = False

    def but(self, **change):
        return replace(self, **change)

    @property
    def shapes(self):
        projection = (self.heads, self.width, self.head_size)
        return {
            "number": (self.order, self.width),
            "equals": (self.width,),
            "position": (3, self.width),
            "query": projection,
            "key": projection,
            "value": projection,
            "merge": (self.heads, self.head_size, self.width),
            "hidden": (self.mlp_width, self.width),
            "hidden_bias": (self.mlp_width,),
            "residual": (self.width, self.mlp_width),
            "residual_bias": (self.width,),
            "output": (self.order, self.width),
        }

    def named(self, row):
        """The arrays of a row of parameters, as views."""
        sizes = np.cumsum([np.prod(shape) for shape in self.shapes.values()])
        parts = np.split(row, sizes[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def start(self):
        size = sum(int(np.prod(shape)) for shape in self.shapes.values())
        row = np.random.default_rng(self.seed).uniform(-1, 1, size).astype(np.float32)
        for name, array in self.named(row).items():
            array *= np.float32(self.gain * (1 if name in ("number", "equals", "position") else self.width**-0.5))
        return row

    def minibatch(self, step):
        if not self.given:
            return super().minibatch(step)
        return np.random.default_rng(step).integers(0, self.order**2, self.batch_size, dtype=np.uint32)

    def network(self, native, start=None, **more):
        names = ("heads", "head_size", "mlp_width", "activation", "degree", "population", "batch_size")
        options = {name: getattr(self, name) for name in ("width", *names, "loss", "sample_key", "decay_in_gradient")}
        row = self.start() if start is None else start
        rates = [np.full(len(row), each[0], np.float32) for each in (self.learning_rates, self.decays)]
        return native.PairTransformer(row, *rates, self.table(), **{**options, **more})

    def layers(self, row, pairs):
        """What the forward pass computes, by name: only "=" is a query."""
        p = self.named(np.asarray(row, np.float64))
        tokens = np.stack(
            [p["number"][pairs // self.order], p["number"][pairs % self.order], [p["equals"]] * len(pairs)], axis=1
        )
        tokens = tokens + p["position"]
        query = np.einsum("bd,hds->bhs", tokens[:, 2], p["query"])
        key, value = (np.einsum("btd,hds->bths", tokens, p[name]) for name in ("key", "value"))
        scores = np.einsum("bhs,bths->bht", query, key) / np.sqrt(self.head_size)
        share = np.exp(scores - scores.max(axis=2, keepdims=True))
        share /= share.sum(axis=2, keepdims=True)
        mixed = np.einsum("bht,bths->bhs", share, value)
        stream = tokens[:, 2] + np.einsum("bhs,hsd->bd", mixed, p["merge"])
        inner = stream @ p["hidden"].T + p["hidden_bias"]
        relu = self.activation == "relu"
        active = np.maximum(inner, 0) if relu else inner**self.degree
        slope = (inner > 0) * 1.0 if relu else self.degree * inner ** (self.degree - 1)
        last = stream + active @ p["residual"].T + p["residual_bias"]
        forward = {"tokens": tokens, "asked": query, "keys": key, "values": value, "share": share, "mixed": mixed}
        return {**p, **forward, "stream": stream, "active": active, "slope": slope, "last": last}

    def outputs(self, row, pairs):
        found = self.layers(row, pairs)
        return found["last"] @ found["output"].T

    def gradient(self, row, pairs):
        """The derivatives of the mean loss by the row."""
        f = self.layers(row, pairs)
        slope = self.mean_loss(row, pairs)[1]
        grad = np.zeros(len(row))
        into = self.named(grad)
        by_last = slope @ f["output"]
        by_inner = (by_last @ f["residual"]) * f["slope"]
        by_stream = by_last + by_inner @ f["hidden"]
        into["output"][:] = slope.T @ f["last"]
        into["residual"][:], into["residual_bias"][:] = by_last.T @ f["active"], by_last.sum(axis=0)
        into["hidden"][:], into["hidden_bias"][:] = by_inner.T @ f["stream"], by_inner.sum(axis=0)
        into["merge"][:] = np.einsum("bhs,bd->hsd", f["mixed"], by_stream)
        by_mixed = np.einsum("bd,hsd->bhs", by_stream, f["merge"])
        by_value = np.einsum("bht,bhs->bths", f["share"], by_mixed)
        by_share = np.einsum("bths,bhs->bht", f["values"], by_mixed)
        by_score = f["share"] * (by_share - (f["share"] * by_share).sum(axis=2, keepdims=True))
        by_score /= np.sqrt(self.head_size)
        by_key = np.einsum("bht,bhs->bths", by_score, f["asked"])
        by_query = np.einsum("bht,bths->bhs", by_score, f["keys"])
        by_token = np.einsum("bths,hds->btd", by_value, f["value"])
        by_token += np.einsum("bths,hds->btd", by_key, f["key"])
        by_token[:, 2] += np.einsum("bhs,hds->bd", by_query, f["query"]) + by_stream
        into["value"][:] = np.einsum("btd,bths->hds", f["tokens"], by_value)
        into["key"][:] = np.einsum("btd,bths->hds", f["tokens"], by_key)
        into["query"][:] = np.einsum("bd,bhs->hds", f["tokens"][:, 2], by_query)
        into["position"][:], into["equals"][:] = by_token.sum(axis=0), by_token[:, 2].sum(axis=0)
        np.add.at(into["number"], pairs // self.order, by_token[:, 0])
        np.add.at(into["number"], pairs % self.order, by_token[:, 1])
        return grad

    def step(self, row, step, factor=1.0):
        """The row after a step, and the minibatch's mean loss and mean error."""
        pairs, before = self.minibatch(step), np.asarray(row, np.float64)
        rate, decay = self.learning_rates[0] * factor, self.decays[0]
        keep = 1 - (rate if self.decay_in_gradient else 1) * decay
        after = keep * before - rate * self.gradient(before, pairs)
        return after, self.mean_loss(before, pairs)[0], (self.margins(before, pairs) <= 0).mean()


def assert_steps_agree(native, problem, factors=(1.0, 0.3)):
    before, network = problem.start(), problem.network(native)
    for step, factor in enumerate(factors):
        after, loss, error = problem.step(before, step, factor)
        given = (problem.minibatch(step)[None],) if problem.given else ()
        assert network.advance(np.full(1, factor, np.float32), *given) == 1
        assert network.step == step + 1
        np.testing.assert_allclose(network.parameters(), after, **TOLERANCE)
        np.testing.assert_allclose([network.loss, network.error], [loss, error], **TOLERANCE)
        before = network.parameters()


def test_the_reference_descends_the_gradient_of_its_loss():
    problem = Transformer(order=5, width=4, heads=2, head_size=3, mlp_width=3, batch_size=25)
    row, pairs = np.asarray(problem.start(), np.float64), problem.minibatch(0)
    gradient = problem.gradient(row, pairs)
    for place, middle in enumerate(row.copy()):
        values = []
        for move in (-1e-5, 1e-5):
            row[place] = middle + move
            values.append(problem.mean_loss(row, pairs)[0])
        row[place] = middle
        np.testing.assert_allclose((values[1] - values[0]) / 2e-5, gradient[place], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, 1, 1, 1),
        (2, 12, 3, 4, 10),
        (5, 32, 1, 8, 33),
        (12, 33, 4, 17, 16),
        pytest.param((23, 31, 2, 16, 100), marks=pytest.mark.slow),
        (13, 70, 5, 3, 13),
    ],
    ids=str,
)
def test_steps_agree_with_the_reference(native, sizes):
    order, width, heads, head_size, mlp_width = sizes
    problem = Transformer(order=order, width=width, heads=heads, head_size=head_size, mlp_width=mlp_width)
    for activation, degree in (("relu", 1), ("power", 2), ("power", 3)):
        for loss in (("cross-entropy", 1.0), ("one-hot-square", 0.3)):
            one = problem.but(activation=activation, degree=degree, loss=loss, batch_size=order**2, gain=0.7)
            assert_steps_agree(native, one.but(learning_rates=(0.05,), decays=(0.1,)))


@pytest.mark.parametrize("given", [False, True])
def test_steps_on_some_pairs_agree_with_the_reference(native, given):
    for batch_size in (1, 15, 16, 17, 32, 33, 48, 49, 95, 96, 97, 300):
        problem = Transformer(order=11, population=False, batch_size=batch_size, given=given, gain=0.7)
        assert_steps_agree(native, problem)


def test_adam_agrees_with_the_reference(native):
    """Kingma and Ba's algorithm 1 with decoupled weight decay; epsilon is large, so that directions are smooth."""
    problem = Transformer(learning_rates=(0.02,), decays=(0.5,), gain=0.7)
    beta1, beta2, epsilon = 0.8, 0.95, 1e-3
    network = problem.network(native, optimiser="adam", beta1=beta1, beta2=beta2, epsilon=epsilon)
    row = np.asarray(problem.start(), np.float64)
    first = second = np.zeros_like(row)
    factors = np.linspace(1, 0.5, 20, dtype=np.float32)
    for step, factor in enumerate(factors, 1):
        gradient = problem.gradient(row, problem.minibatch(step))
        first, second = beta1 * first + (1 - beta1) * gradient, beta2 * second + (1 - beta2) * gradient**2
        direction = first / (1 - beta1**step) / (np.sqrt(second / (1 - beta2**step)) + epsilon)
        row = row - problem.learning_rates[0] * factor * (direction + problem.decays[0] * row)
    assert network.advance(factors) == 20
    np.testing.assert_allclose(network.parameters(), row, rtol=0, atol=1e-4)


@pytest.mark.parametrize("population", [False, True])
def test_results_do_not_depend_on_how_steps_are_grouped(native, population):
    problem = Transformer(population=population)
    factors = np.linspace(1, 0.1, 20, dtype=np.float32)
    whole, parts = problem.network(native), problem.network(native)
    whole.advance(factors)
    for part in np.split(factors, [1, 2, 13]):
        parts.advance(part)
        parts.wrong(np.arange(5, dtype=np.uint32))
    np.testing.assert_array_equal(whole.parameters(), parts.parameters())


def test_outputs_and_mistakes_are_those_of_the_reference(native):
    problem = Transformer(order=11, batch_size=121, gain=1.0)
    pairs = np.random.default_rng(1).permutation(121).astype(np.uint32)[:100]
    network = problem.network(native)
    np.testing.assert_allclose(network.outputs(pairs), problem.outputs(problem.start(), pairs), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(network.wrong(pairs), problem.margins(problem.start(), pairs) <= 0)


def test_large_scores_do_not_overflow(native):
    problem = Transformer()
    row = problem.start()
    problem.named(row)["key"][:] *= 1e4
    pairs = np.arange(49, dtype=np.uint32)
    found = problem.network(native, start=row).outputs(pairs)
    np.testing.assert_allclose(found, problem.outputs(row, pairs), rtol=1e-4, atol=1e-4)


def test_an_exploding_network_stops_where_its_outputs_are_not_finite(native):
    network = Transformer(learning_rates=(1e30,)).network(native)
    done = network.advance(np.ones(20, np.float32))
    assert (done, network.diverged_at) == (network.step, network.step)
    assert 1 <= done < 20


def test_bad_arguments_are_refused(native_module):
    row = Transformer().start()
    for problem, more, message in (
        (Transformer(), {"start": row[1:]}, f"parameters must have length {len(row)}: got {len(row) - 1}"),
        (Transformer(mlp_width=0), {}, r"mlp_width must be in 1 \.\.\. 16384: mlp_width=0"),
        (Transformer(), {"width": 2**14, "heads": 2**10}, r"must be at most 2\^26: order=7, width=16384, heads=1024"),
        (Transformer(), {"activation": "tanh"}, "activation must be one of relu, power: got 'tanh'"),
        (Transformer(), {"batch_size": 48}, r"batch_size of the population must be order\^2=49: batch_size=48"),
    ):
        with pytest.raises(ValueError, match=message):
            problem.network(native_module, **more)
