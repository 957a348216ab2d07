"""Transformers that are read at a class token agree with a float64 reference, whatever the instruction set."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest
from native_reference import Problem as Parity, threefry
from scipy.special import erf

NORM_EPSILON = 1e-5
KEY = (7, 11)
DIRECTIONS = 3
"""How many random directions a gradient is checked in for each array, by central differences in float64."""
TOLERANCE = {"rtol": 5e-4, "atol": 2e-5}


@dataclass(frozen=True)
class Problem:
    """What a network is constructed from, and its outputs in float64, token by token."""

    n: int = 6
    width: int = 8
    heads: int = 2
    head_size: int = 3
    hidden: int = 5
    encoding: str = "trained"
    drop: int = 20000
    loss: str = "logistic"
    loss_scale: float = 1.0
    batch_size: int = 7
    seed: int = 0

    def but(self, **change):
        return replace(self, **change)

    def shapes(self):
        """The arrays by name, in the constructor's order."""
        features, row = self.heads * self.head_size, (self.width,)
        return {
            "token": (0 if self.encoding == "bag" else 2, self.width),
            "position": (self.n + (self.encoding == "trained"), self.width),
            "class": row,
            **dict.fromkeys(("query", "key", "value", "merge"), (features, self.width)),
            **dict.fromkeys(("query_bias", "key_bias", "value_bias"), (features,)),
            "merge_bias": row,
            **dict.fromkeys([f"{name}{number}" for number in (1, 2, 3) for name in ("scale", "shift")], row),
            "hidden": (self.hidden, self.width),
            "hidden_bias": (self.hidden,),
            "residual": (self.width, self.hidden),
            "residual_bias": row,
            "output": (2, self.width),
        }

    def arrays(self, flat):
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes().values()])
        parts = np.split(np.asarray(flat, np.float64), ends)
        return {
            name: part.reshape(shape) for (name, shape), part in zip(self.shapes().items(), parts[:-1], strict=True)
        }

    def start(self, std=0.5):
        size = sum(int(np.prod(shape)) for shape in self.shapes().values())
        return np.random.default_rng(self.seed).normal(0, std, size).astype(np.float32)

    def examples(self, count=20):
        random = np.random.default_rng(self.seed + 1)
        bits = random.integers(0, 2, (count, self.n)).astype(np.uint8)
        return bits, random.choice([-1, 1], count).astype(np.float32)

    def index(self, steps=1):
        return np.random.default_rng(self.seed + 2).integers(0, 20, (steps, self.batch_size)).astype(np.uint32)

    def network(self, native, start=None, rate=1.0, decay=0.0, **more):
        start = self.start() if start is None else start
        rates = [np.broadcast_to(np.float32(number), start.shape).copy() for number in (rate, decay)]
        names = ("n", "width", "heads", "head_size", "hidden", "encoding", "drop", "batch_size")
        options = {name: getattr(self, name) for name in names} | {"loss": (self.loss, self.loss_scale)}
        return native.BitsNetwork(start, *rates, **{**options, "optimiser": "sgd", "dropout_key": KEY, **more})

    def attended(self, a, bits, step=None):
        """Tokens (count, n + 1, width), the class token's scores (count, heads, n + 1), values by head."""
        count, bit, position = len(bits), bits[:, :, None], a["position"][: self.n]
        tokens = bit * position if self.encoding == "bag" else position + np.where(bit, a["token"][1], a["token"][0])
        own = a["class"] + (a["position"][self.n] if self.encoding == "trained" else 0)
        tokens = np.concatenate([tokens, np.broadcast_to(own, (count, 1, self.width))], axis=1)
        tokens = tokens * self.kept(step, 0, tokens.shape)
        inner = norm(a, 1, tokens)
        read = {name: inner @ a[name].T + a[f"{name}_bias"] for name in ("query", "key", "value")}
        by_head = {name: array.reshape(count, self.n + 1, self.heads, -1) for name, array in read.items()}
        scores = np.einsum("bha,bnha->bhn", by_head["query"][:, -1], by_head["key"]) / np.sqrt(self.head_size)
        return tokens, scores, by_head["value"]

    def outputs(self, flat, bits, step=None):
        """Outputs of parameters in a row, as training sees them at a step or, by default, without dropout."""
        a, count = self.arrays(flat), len(bits)
        tokens, scores, values = self.attended(a, bits, step)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights = weights / weights.sum(axis=2, keepdims=True)
        weights = weights * self.kept(step, 1, weights.shape)
        found = np.einsum("bhn,bnha->bha", weights, values).reshape(count, -1)
        merged = found @ a["merge"] + a["merge_bias"]
        z = tokens[:, -1] + merged * self.kept(step, 2, merged.shape)
        sums = norm(a, 2, z) @ a["hidden"].T + a["hidden_bias"]
        added = (sums * (1 + erf(sums / np.sqrt(2))) / 2) @ a["residual"].T + a["residual_bias"]
        z = z + added * self.kept(step, 3, added.shape)
        logits = norm(a, 3, z) @ a["output"].T
        return logits[:, 1] - logits[:, 0]

    def kept(self, step, site, shape):
        if step is None:
            return 1.0
        key = KEY
        for number in (step, site):
            key = tuple(int(word) for word in threefry(key, 0, number))
        place = np.arange(int(np.prod(shape[1:])))
        words = threefry(key, np.arange(shape[0])[:, None], place // 4)
        halves = np.where(place % 4 < 2, *words) >> np.where(place % 2, 16, 0).astype(np.uint32) & 0xFFFF
        return ((halves >= self.drop) * 65536 / (65536 - self.drop)).reshape(shape)

    def mean_loss(self, output, label):
        margin = output * label
        values = {
            "logistic": np.logaddexp(0, -margin),
            "hinge": np.maximum(1 - margin, 0),
            "square": (output - label) ** 2 / 2,
            "correlation": -margin,
        }
        return self.loss_scale * values[self.loss].mean()


def norm(arrays, number, z):
    centred = z - z.mean(axis=-1, keepdims=True)
    unit = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + NORM_EPSILON)
    return unit * arrays[f"scale{number}"] + arrays[f"shift{number}"]


def gradient(native, problem, start, index, clip=np.inf):
    """Return how far one step of rate 1 goes."""
    network = problem.network(native, start=start, clip=clip)
    assert network.advance(*problem.examples(), index, np.ones(1, np.float32)) == 1
    return np.float64(start) - network.parameters()


CASES = {
    "default": Problem(),
    "without dropout": Problem(drop=0),
    "fixed positions": Problem(encoding="fixed"),
    "a bag": Problem(encoding="bag", drop=0),
    "a bag with dropout": Problem(encoding="bag"),
    "one bit": Problem(n=1, batch_size=1),
    "whole vectors": Problem(n=15, width=16, heads=16, head_size=1, hidden=16, batch_size=32),
    "odd sizes": Problem(n=17, width=19, heads=3, head_size=7, hidden=33, batch_size=17),
    "many heads": Problem(n=37, width=20, heads=18, head_size=2, batch_size=50),
    "as in the thesis": Problem(n=20, width=64, heads=16, head_size=4, hidden=256, batch_size=5, drop=6554),
    "smallest": Problem(n=2, width=2, heads=1, head_size=1, hidden=1, batch_size=2, drop=1),
    "hinge": Problem(loss="hinge", drop=0),
    "square": Problem(loss="square", loss_scale=2.0),
    "correlation": Problem(loss="correlation"),
}


@lru_cache
def slopes(problem):
    """Return each array's name, a direction in it and the loss's derivative there, of the first batch."""
    (bits, labels), index, start = problem.examples(), problem.index()[0], np.float64(problem.start())
    random, found, used = np.random.default_rng(5), [], 0
    for name, shape in problem.shapes().items():
        size = int(np.prod(shape))
        for _ in range(DIRECTIONS if size else 0):
            direction = np.zeros(len(start))
            direction[used : used + size] = random.normal(size=size) / np.sqrt(size)
            values = [
                problem.mean_loss(problem.outputs(start + move * direction, bits[index], 0), labels[index])
                for move in (-1e-5, 1e-5)
            ]
            fixed = name == "position" and problem.encoding != "trained"
            found.append((name, direction, 0.0 if fixed else (values[1] - values[0]) / 2e-5))
        used += size
    return found


@pytest.mark.parametrize("name", CASES)
def test_outputs_loss_and_gradients_agree_with_the_reference(native, name):
    problem = CASES[name]
    (bits, labels), index, start = problem.examples(), problem.index(), problem.start()
    network = problem.network(native)
    np.testing.assert_allclose(network.outputs(bits), problem.outputs(start, bits), rtol=1e-4, atol=3e-5)
    slope = gradient(native, problem, start, index)
    for array, direction, wanted in slopes(problem):
        assert slope @ direction == pytest.approx(wanted, rel=TOLERANCE["rtol"], abs=TOLERANCE["atol"]), array
    network.advance(bits, labels, index, np.ones(1, np.float32))
    output = problem.outputs(start, bits[index[0]], 0)
    assert network.loss == pytest.approx(problem.mean_loss(output, labels[index[0]]), rel=2e-5, abs=1e-6)
    assert network.error == pytest.approx((output * labels[index[0]] <= 0).mean())


def test_dropout_is_drawn_anew_at_every_step_and_for_every_place_in_the_minibatch(native):
    problem = Problem(batch_size=40)
    (bits, labels), start, index = problem.examples(), problem.start(), problem.index(4)
    index[1:] = index[0, ::-1]
    network = problem.network(native, rate=0.0)
    for step in range(4):
        network.advance(bits, labels, index[step : step + 1], np.ones(1, np.float32))
        wanted = problem.mean_loss(problem.outputs(start, bits[index[step]], step), labels[index[step]])
        assert network.loss == pytest.approx(wanted, rel=2e-5)


def test_a_gradient_is_clipped_to_its_largest_length(native):
    problem = Problem()
    start, index = problem.start(), problem.index()
    whole = gradient(native, problem, start, index)
    length = np.linalg.norm(whole)
    short = gradient(native, problem, start, index, clip=length / 3)
    np.testing.assert_allclose(short, whole / 3, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(gradient(native, problem, start, index, clip=1.1 * length), whole)


def test_adam_moves_by_the_running_means_with_their_decay_outside(native):
    problem = Problem(drop=0)
    examples, index = problem.examples(), problem.index(5)
    factors = np.array([1, 0.5, 2, 1, 1], np.float32)
    rates = np.random.default_rng(1).uniform(0.001, 0.02, len(problem.start())).astype(np.float32)
    decays = np.random.default_rng(2).uniform(0, 0.5, len(rates)).astype(np.float32)
    network = problem.network(native, rate=rates, decay=decays, beta1=0.8, beta2=0.9, epsilon=1e-3, optimiser="adam")
    parameters, mean, square = np.float64(problem.start()), 0.0, 0.0
    for step in range(5):
        here = slice(step, step + 1)
        slope = gradient(native, problem, np.float32(parameters), index[here])
        mean, square = 0.8 * mean + 0.2 * slope, 0.9 * square + 0.1 * slope**2
        unbiased = mean / (1 - 0.8 ** (step + 1)), square / (1 - 0.9 ** (step + 1))
        direction = unbiased[0] / (np.sqrt(unbiased[1]) + 1e-3)
        parameters = parameters - rates * factors[step] * (direction + decays * parameters)
        assert network.advance(*examples, index[here], factors[here]) == 1
        np.testing.assert_allclose(network.parameters(), parameters, rtol=1e-4, atol=3e-5)


@pytest.mark.parametrize("decay_in_gradient", [False, True])
def test_parameters_have_their_own_rates_and_decays(native, decay_in_gradient):
    problem = Problem()
    start, index = problem.start(), problem.index()
    slope = gradient(native, problem, start, index)
    rates, decays = (np.random.default_rng(seed).uniform(0, 0.5, len(start)) for seed in range(2))
    network = problem.network(native, rate=rates, decay=decays, decay_in_gradient=decay_in_gradient)
    network.advance(*problem.examples(), index, np.full(1, 0.3, np.float32))
    shrink = decays * (rates * 0.3 if decay_in_gradient else 1)
    np.testing.assert_allclose(network.parameters(), start - 0.3 * rates * slope - shrink * start, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("factor", [1.0, 3.0, 30.0])
def test_outputs_are_right_however_far_scores_lie_apart(native, factor):
    problem = Problem(n=12, width=16, heads=4, head_size=4)
    arrays, bits = problem.arrays(problem.start()), problem.examples(200)[0]
    for name in ("query", "query_bias", "key"):
        arrays[name] *= factor
    start = np.concatenate([array.ravel() for array in arrays.values()]).astype(np.float32)
    found = problem.network(native, start=start).outputs(bits)
    # at 30 scores are about 10^4, where float32 has a spacing of 10^-3: now and then two of them are as close
    wanted = problem.outputs(start, bits)
    top, everyone = (problem.attended(arrays, rows)[1].max(axis=2) for rows in (bits, np.uint8([[0] * 12, [1] * 12])))
    assert (everyone.max(axis=0) - top > 100).any() == (factor == 30)  # beside other tokens, all weights vanish
    assert np.isfinite(found).all()
    off = np.abs(found - wanted) > 1e-3 + 1e-3 * np.abs(wanted)
    assert off.mean() <= (0.02 if factor == 30 else 0)


def test_an_example_is_answered_alike_alone_and_among_others(native):
    problem = Problem()
    network, bits = problem.network(native), problem.examples(100)[0]
    together = network.outputs(bits)
    for place in (0, 7, 99):
        np.testing.assert_array_equal(network.outputs(bits[place : place + 1])[0], together[place])
    assert network.outputs(bits[:0]).shape == (0,)


@pytest.mark.parametrize("order", ["replacement", "epochs"])
@pytest.mark.parametrize(("sample_size", "batch_size"), [(1, 3), (20, 20), (37, 16), (100, 300)])
def test_minibatches_are_those_of_the_reference(native, sample_size, batch_size, order):
    parity = Parity(sample_size=sample_size, order=order, batch_size=batch_size)
    wanted = [parity.minibatch(step) for step in range(3, 8)]
    options = {"batch_size": batch_size, "sample_size": sample_size, "order": order}
    np.testing.assert_array_equal(native.minibatches(parity.batches_key, 3, 5, **options), wanted)


def test_bad_arguments_are_refused_with_rule_and_value(native):
    problem = Problem()
    for change, message in [
        ({"n": 0}, "n must be in 1 ... 65536: n=0"),
        ({"width": 5000}, "width must be in 1 ... 4096: width=5000"),
        ({"heads": 0}, "heads must be in 1 ... 4096: heads=0"),
        ({"head_size": 0}, "head_size must be in 1 ... 4096: head_size=0"),
        ({"hidden": 0}, "hidden must be in 1 ... 65536: hidden=0"),
        ({"encoding": "none"}, "encoding must be one of trained, fixed, bag: got 'none'"),
        ({"drop": 65536}, r"drop must be below 2\^16: drop=65536"),
        ({"loss": ("zero-one", 1.0)}, "loss must be one of hinge, square, logistic, correlation: got 'zero-one'"),
        ({"loss": ("hinge", 0.0)}, "loss_scale must be positive: loss_scale=0"),
        ({"batch_size": 0}, "batch_size must be at least 1: batch_size=0"),
        ({"optimiser": "newton"}, "optimiser must be one of adam, sgd, momentum, nesterov: got 'newton'"),
        ({"clip": 0.0}, "clip must be positive: clip=0"),
        ({"beta1": 1.0}, r"betas must be in \[0, 1\): got 1"),
        ({"epsilon": 0.0}, "epsilon must be positive: epsilon=0"),
        ({"hidden": 6}, "parameters must have length"),
    ]:
        with pytest.raises(ValueError, match=message):
            problem.network(native, **change)
    network, (bits, labels), index = problem.network(native), problem.examples(), problem.index()
    one = np.ones(1, np.float32)
    for arguments, message in [
        ((2 * bits, labels, index, one), "bits must be 0 or 1"),
        ((np.ascontiguousarray(bits[:, 1:]), labels, index, one), "bits must have n=6 columns: got 5"),
        ((bits, labels[1:], index, one), "bits and labels must have one length: got 20 and 19"),
        ((bits, labels, index + np.uint32(20), one), "index must be below the number of examples 20"),
        ((bits, labels, index, np.ones(2, np.float32)), r"shape \(steps=2, batch_size=7\): got \(1, 7\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            network.advance(*arguments)
    with pytest.raises(ValueError, match="bits must be 0 or 1"):
        network.outputs(bits + np.uint8(1))
    with pytest.raises(ValueError, match="sample_size must be in 1 ... 2\\^30: sample_size=0"):
        native.minibatches(KEY, 0, 1, batch_size=1, sample_size=0, order="epochs")
    with pytest.raises(ValueError, match="order must be one of replacement, epochs: got 'online'"):
        native.minibatches(KEY, 0, 1, batch_size=1, sample_size=1, order="online")
