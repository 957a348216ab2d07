"""Networks on pairs agree with a float64 reference, whatever the instruction set."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from native_reference import threefry

ONE = np.ones(1, np.float32)
# A step in float32 against the same step in float64: sums of up to 1000 terms of size below one.
TOLERANCE = {"rtol": 2e-5, "atol": 3e-6}


@dataclass(frozen=True)
class Problem:
    """What a network on pairs is constructed from, and one step of its training in float64."""

    order: int = 7
    width: int = 20
    activation: str = "power"
    degree: int = 2
    population: bool = True
    batch_size: int = 49
    learning_rates: tuple = (0.5, 0.5)
    decays: tuple = (0.0, 0.0)
    decay_in_gradient: bool = True
    penalty: float = 0.0
    penalty_norm: float = 3.0
    penalty_exponent: float = 3.0
    loss: tuple = ("cross-entropy", 1.0)
    sample_key: tuple = (11, 22)
    gain: float = 1.0
    seed: int = 0

    def but(self, **change):
        return replace(self, **change)

    def of(self, order, width, **change):
        return self.but(order=order, width=width, batch_size=order**2, **change)

    def start(self):
        random = np.random.default_rng(self.seed)
        hidden = random.uniform(-1, 1, (self.width, 2 * self.order)).astype(np.float32)
        output = random.uniform(-1, 1, (self.order, self.width)).astype(np.float32)
        return np.float32(self.gain) * hidden, np.float32(self.gain * self.width**-0.5) * output

    def table(self):
        """A latin square that is no group's: rows of the cyclic one, in another order."""
        places = np.arange(self.order)
        cyclic = (places[:, None] + places) % self.order
        return cyclic[np.random.default_rng(self.order).permutation(self.order)].astype(np.int32)

    def network(self, native, start=None, **more):
        options = {name: getattr(self, name) for name in OPTIONS}
        return native.PairNetwork(*(self.start() if start is None else start), self.table(), **{**options, **more})

    def minibatch(self, step):
        index = np.arange(self.batch_size, dtype=np.uint32)
        if self.population:
            return index
        w0, w1 = threefry(self.sample_key, np.uint32(step * self.batch_size) + index, 0)
        words = [(int(a) << 32) + int(b) for a, b in zip(w0, w1, strict=True)]
        return np.array([word * self.order**2 >> 64 for word in words], np.uint32)

    def hidden(self, parameters, pairs):
        weight = np.asarray(parameters[0], np.float64)
        z = weight[:, pairs // self.order].T + weight[:, self.order + pairs % self.order].T
        if self.activation == "relu":
            return np.maximum(z, 0), (z > 0) * 1.0
        return z**self.degree, self.degree * z ** (self.degree - 1)

    def outputs(self, parameters, pairs):
        return self.hidden(parameters, pairs)[0] @ np.asarray(parameters[1], np.float64).T

    def margins(self, parameters, pairs):
        outputs, label = self.outputs(parameters, pairs), self.table().ravel()[pairs]
        own = np.take_along_axis(outputs, label[:, None], 1)[:, 0]
        np.put_along_axis(outputs, label[:, None], -np.inf, 1)
        return own - outputs.max(axis=1)

    def mean_loss(self, parameters, pairs):
        """The mean over pairs, and its derivatives by their outputs."""
        outputs, label = self.outputs(parameters, pairs), self.table().ravel()[pairs]
        kind, scale = self.loss
        if kind == "one-hot-square":
            missed = outputs - np.eye(self.order)[label]
            return scale * (missed**2).sum(axis=1).mean() / 2, scale * missed / len(pairs)
        logarithms = outputs - np.logaddexp.reduce(outputs, axis=1, keepdims=True)
        share = np.exp(logarithms)
        share[np.arange(len(pairs)), label] -= 1
        return -logarithms[np.arange(len(pairs)), label].mean(), share / len(pairs)

    def norm_penalty(self, parameters):
        """penalty * (sum over neurons of |neuron|_2^b)^(r/b), and its derivatives by the parameters."""
        hidden, output = (np.asarray(p, np.float64) for p in parameters)
        norms = np.sqrt((hidden**2).sum(axis=1) + (output**2).sum(axis=0))
        b, r = self.penalty_norm, self.penalty_exponent
        total = (norms**b).sum() ** (1 / b)
        strength = self.penalty * r * total ** (r - b) * norms ** (b - 2)
        return self.penalty * total**r, (strength[:, None] * hidden, strength * output)

    def gradients(self, parameters, pairs):
        value, derivative = self.hidden(parameters, pairs)
        _, slope = self.mean_loss(parameters, pairs)
        back = (slope @ np.asarray(parameters[1], np.float64)) * derivative
        hidden = np.zeros_like(parameters[0], np.float64)
        np.add.at(hidden.T, pairs // self.order, back)
        np.add.at(hidden.T, self.order + pairs % self.order, back)
        return [g + own for g, own in zip((hidden, slope.T @ value), self.norm_penalty(parameters)[1], strict=True)]

    def step(self, parameters, step, factor=1.0):
        """Parameters after a step, and the minibatch's mean loss and mean error."""
        pairs = self.minibatch(step)
        after = [
            p - rate * factor * g - (rate * factor if self.decay_in_gradient else 1) * decay * p
            for p, g, rate, decay in zip(
                (np.asarray(p, np.float64) for p in parameters),
                self.gradients(parameters, pairs),
                self.learning_rates,
                self.decays,
                strict=True,
            )
        ]
        return after, self.mean_loss(parameters, pairs)[0], (self.margins(parameters, pairs) <= 0).mean()


OPTIONS = (
    "activation",
    "degree",
    "population",
    "batch_size",
    "learning_rates",
    "decays",
    "decay_in_gradient",
    "penalty",
    "penalty_norm",
    "penalty_exponent",
    "loss",
    "sample_key",
)


def assert_equal(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_steps_agree(native, problem, factors=(1.0, 0.3)):
    before = problem.start()
    for step, factor in enumerate(factors):
        after, loss, error = problem.step(before, step, factor)
        network = problem.network(native, start=before, step=step)
        assert network.advance(np.full(1, factor, np.float32)) == 1
        assert network.step == step + 1
        for got, wanted in zip(network.parameters(), after, strict=True):
            np.testing.assert_allclose(got, wanted, **TOLERANCE)
        np.testing.assert_allclose(network.loss, loss, **TOLERANCE)
        np.testing.assert_allclose(network.error, error, **TOLERANCE)
        before = tuple(np.asarray(p, np.float32) for p in after)


def test_the_reference_descends_the_gradient_of_its_loss():
    problem = Problem().of(5, 4, degree=3, penalty=0.1, penalty_norm=2.5, penalty_exponent=1.5)
    parameters = [np.asarray(p, np.float64) for p in problem.start()]
    pairs = problem.minibatch(0)
    loss = lambda: problem.mean_loss(parameters, pairs)[0] + problem.norm_penalty(parameters)[0]  # noqa: E731
    for array, gradient in zip(parameters, problem.gradients(parameters, pairs), strict=True):
        for place in np.ndindex(array.shape):
            middle, values = array[place], []
            for move in (-1e-5, 1e-5):
                array[place] = middle + move
                values.append(loss())
            array[place] = middle
            np.testing.assert_allclose((values[1] - values[0]) / 2e-5, gradient[place], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("activation", "degree"), [("relu", 1), *(("power", degree) for degree in (1, 2, 3, 5))])
@pytest.mark.parametrize("order", [1, 2, 5, 6, 16, 23])
def test_steps_agree_with_the_reference(native, order, activation, degree):
    for width in (1, 31, 32, 33, 130):
        assert_steps_agree(native, Problem().of(order, width, activation=activation, degree=degree, gain=0.7))


@pytest.mark.parametrize("width", [100, 500])
def test_steps_agree_with_the_reference_at_a_published_size(native, width):
    assert_steps_agree(native, Problem().of(71, width, penalty=1e-4), factors=(1.0,))


@pytest.mark.parametrize("batch_size", [1, 2, 7, 12, 13, 33, 95, 96, 97, 300])
def test_steps_on_fresh_pairs_agree_with_the_reference(native, batch_size):
    assert_steps_agree(native, Problem(order=11, width=40, population=False, batch_size=batch_size, gain=0.7))


@pytest.mark.parametrize(("order", "width"), [(2, 5), (11, 40), (23, 100)])
def test_steps_on_the_square_loss_agree_with_the_reference(native, order, width):
    for scale in (0.3, 2.0):
        problem = Problem(loss=("one-hot-square", scale), decays=(0.1, 0.0), gain=0.7)
        assert_steps_agree(native, problem.of(order, width, learning_rates=(0.05, 0.05)))


@pytest.mark.parametrize("loss", [("cross-entropy", 1.0), ("one-hot-square", 0.3)])
def test_adam_agrees_with_the_reference(native, loss):
    """Kingma and Ba's algorithm 1 with decoupled weight decay; epsilon is large, so that directions are smooth."""
    problem = Problem(loss=loss, penalty=0.01, width=40, gain=0.7, learning_rates=(0.02, 0.01), decays=(0.5, 0.1))
    beta1, beta2, epsilon = 0.8, 0.95, 1e-3
    network = problem.network(native, optimiser="adam", beta1=beta1, beta2=beta2, epsilon=epsilon)
    parameters = [np.asarray(p, np.float64) for p in problem.start()]
    first, second = ([np.zeros_like(p) for p in parameters] for _ in range(2))
    factors = np.linspace(1, 0.5, 30, dtype=np.float32)
    for step, factor in enumerate(factors, 1):
        gradients = problem.gradients(parameters, problem.minibatch(step))
        first = [beta1 * m + (1 - beta1) * g for m, g in zip(first, gradients, strict=True)]
        second = [beta2 * v + (1 - beta2) * g**2 for v, g in zip(second, gradients, strict=True)]
        for layer, p in enumerate(parameters):
            direction = first[layer] / (1 - beta1**step)
            direction = direction / (np.sqrt(second[layer] / (1 - beta2**step)) + epsilon)
            parameters[layer] = p - problem.learning_rates[layer] * factor * (direction + problem.decays[layer] * p)
    assert network.advance(factors) == 30
    for got, wanted in zip(network.parameters(), parameters, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4)


def test_adam_starts_at_the_first_step(native_module):
    for change, message in (
        ({"step": 3}, "step must be 0 with optimiser='adam': step=3"),
        ({"beta1": 1.0}, r"betas must be in \[0, 1\): got 1"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"loss": ("hinge", 1.0)}, "loss must be one of cross-entropy, one-hot-square"),
    ):
        with pytest.raises(ValueError, match=message):
            Problem().network(native_module, optimiser="adam", **change)


@dataclass(frozen=True)
class Given(Problem):
    """A problem whose minibatches are given to the network: pairs in any order, some of them twice."""

    def minibatch(self, step):
        return np.random.default_rng(step).integers(0, self.order**2, self.batch_size, dtype=np.uint32)


@pytest.mark.parametrize("batch_size", [1, 13, 96, 97, 300])
def test_steps_on_given_pairs_agree_with_the_reference(native, batch_size):
    problem = Given(order=11, width=40, population=False, batch_size=batch_size, gain=0.7)
    before, factors = problem.start(), np.array([1.0, 0.3], np.float32)
    together = problem.network(native)
    assert together.advance(factors, np.stack([problem.minibatch(step) for step in range(2)])) == 2
    one_by_one = problem.network(native)
    for step, factor in enumerate(factors):
        after, loss, error = problem.step(before, step, float(factor))
        one_by_one.advance(factors[step : step + 1], problem.minibatch(step)[None])
        for got, wanted in zip(one_by_one.parameters(), after, strict=True):
            np.testing.assert_allclose(got, wanted, **TOLERANCE)
        np.testing.assert_allclose([one_by_one.loss, one_by_one.error], [loss, error], **TOLERANCE)
        before = one_by_one.parameters()
    assert_equal(together.parameters(), before)


def test_given_pairs_are_checked(native_module):
    network = Problem(population=False, batch_size=3).network(native_module)
    for pairs, message in (
        (np.zeros((2, 3), np.uint32), "pairs must have length the number of factors=1: got 2"),
        (np.zeros((1, 4), np.uint32), "a row of pairs must have length batch_size=3: got 4"),
        (np.array([[0, 48, 49]], np.uint32), r"pairs must be below order\^2=49: got 49"),
    ):
        with pytest.raises(ValueError, match=message):
            network.advance(ONE, pairs)
    assert network.step == 0
    with pytest.raises(ValueError, match="pairs must not be given with population=True"):
        Problem().network(native_module).advance(ONE, np.zeros((1, 49), np.uint32))


@pytest.mark.parametrize("norm", [1.0, 1.5, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, 4.5])
def test_penalties_agree_with_the_reference(native, norm, exponent):
    for gain in (0.1, 1.0):
        problem = Problem(penalty=0.01, penalty_norm=norm, penalty_exponent=exponent, width=40, gain=gain)
        assert_steps_agree(native, problem)


@pytest.mark.parametrize("decay_in_gradient", [False, True])
def test_layers_have_their_own_rates_and_decays(native, decay_in_gradient):
    problem = Problem(learning_rates=(0.3, 0.1), decays=(0.2, 0.05), decay_in_gradient=decay_in_gradient, penalty=0.01)
    assert_steps_agree(native, problem, (1.0, 0.3, 2.0))


def test_a_trajectory_agrees_with_the_reference(native):
    problem = Problem(width=40, penalty=1e-3, gain=0.5, learning_rates=(1.0, 1.0))
    network, parameters = problem.network(native), problem.start()
    assert network.advance(np.ones(300, np.float32)) == 300
    for step in range(300):
        parameters, loss, _ = problem.step(parameters, step)
    assert loss < 0.5 * np.log(problem.order)  # it has learned
    for got, wanted in zip(network.parameters(), parameters, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-3)


@pytest.mark.parametrize(("order", "batch_size"), [(2, 1), (11, 33), (120, 1000)])
def test_minibatches_are_the_references(native, order, batch_size):
    problem = Problem(order=order, batch_size=batch_size, population=False, width=3)
    for step in (0, 1, 2, 50, 4_000_000):
        network = problem.network(native, step=step)
        network.advance(ONE)
        for got, wanted in zip(network.parameters(), problem.step(problem.start(), step)[0], strict=True):
            np.testing.assert_allclose(got, wanted, **TOLERANCE)


@pytest.mark.parametrize("population", [False, True])
def test_results_do_not_depend_on_how_steps_are_grouped(native, population):
    problem = Problem(width=50, penalty=1e-3, population=population)
    factors = np.linspace(1, 0.1, 60, dtype=np.float32)
    whole, parts = problem.network(native), problem.network(native)
    whole.advance(factors)
    for part in np.split(factors, [1, 2, 20, 33]):
        parts.advance(part)
        parts.wrong(np.arange(5, dtype=np.uint32))
    assert_equal(whole.parameters(), parts.parameters())
    first = problem.network(native)
    first.advance(factors[:33])
    resumed = problem.network(native, start=first.parameters(), step=33)
    resumed.advance(factors[33:])
    assert_equal(whole.parameters(), resumed.parameters())


@pytest.mark.parametrize("margin", [5.0, 20.0, 60.0])
def test_small_probabilities_of_a_mistake_are_not_lost(native, margin):
    """Of a network that is sure: loss and gradient to a relative precision, however small they are."""
    problem = Problem(width=50, learning_rates=(0.0, 1.0))
    right = np.arange(7) == problem.table().reshape(49, 1)
    pairs = problem.minibatch(0)
    hidden = np.zeros((50, 14), np.float32)  # a neuron a pair: 1 there, 1/4 elsewhere on its row and its column
    hidden[pairs, pairs // 7] = hidden[pairs, 7 + pairs % 7] = 0.5
    hidden[49] = hidden[0]  # and one to be moved
    output = np.pad(margin * right.T, ((0, 0), (0, 1))).astype(np.float32)
    outputs = problem.outputs((hidden, output), pairs)
    odds = np.where(right, 0, np.exp(outputs - outputs[right][:, None]))
    others = odds.sum(axis=1, keepdims=True)
    slope = np.where(right, -others, odds) / (1 + others) / 49
    network = problem.network(native, start=(hidden, output))
    network.advance(ONE)
    np.testing.assert_allclose(network.loss, np.log1p(others).mean(), rtol=1e-4)
    wanted = -problem.hidden((hidden, output), pairs)[0][:, 49] @ slope
    np.testing.assert_allclose(network.parameters()[1][:, 49], wanted, rtol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("array", range(2))
@pytest.mark.parametrize("activation", ["relu", "power"])
def test_a_network_that_is_not_finite_diverges_at_once(native, array, bad, activation):
    if activation == "relu" and array == 0 and bad == -np.inf:
        return  # such a neuron never fires
    problem = Problem(activation=activation)
    start = problem.start()
    start[array].flat[-1] = bad
    network = problem.network(native, start=start)
    assert network.advance(np.ones(5, np.float32)) == 0
    assert network.diverged_at == network.step == 0
    assert_equal(network.parameters(), start)
    touched = np.isnan(network.outputs(problem.minibatch(0))).any(axis=1)
    assert network.wrong(problem.minibatch(0))[touched].all()


def test_subnormal_numbers_count_as_zero_inside_and_only_there(native):
    tiny = np.float32(1e-39)
    faded = Problem().network(native, start=[p * tiny for p in Problem().start()])
    faded.advance(ONE)
    assert all((p == 0).all() for p in faded.parameters())
    assert tiny * np.float32(0.5) > 0


@pytest.mark.parametrize(("order", "width"), [(2, 1), (7, 20), (23, 130)])
@pytest.mark.parametrize("count", [0, 1, 3, 97, 1000])
def test_outputs_and_wrong_agree_with_the_reference(native, order, width, count):
    problem = Problem().of(order, width)
    pairs = np.random.default_rng(count).integers(0, order**2, count, dtype=np.uint32)
    network = problem.network(native)
    wanted = problem.outputs(problem.start(), pairs)
    np.testing.assert_allclose(network.outputs(pairs), wanted, rtol=1e-5, atol=1e-5)
    margin = problem.margins(problem.start(), pairs)
    clear = abs(margin) > 1e-4  # signs that float32 cannot turn
    assert clear.sum() >= 0.98 * count
    np.testing.assert_array_equal(network.wrong(pairs)[clear], margin[clear] <= 0)


def test_a_tie_is_wrong(native):
    network = Problem().network(native, start=[np.zeros_like(p) for p in Problem().start()])
    assert network.wrong(np.arange(49, dtype=np.uint32)).all()


def test_parameters_come_back_as_they_went_in(native):
    for order, width in itertools.product((1, 7, 33), (1, 32, 50)):
        problem = Problem().of(order, width)
        assert_equal(problem.network(native).parameters(), problem.start())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activation": "relu6"}, "activation must be one of relu, power: got 'relu6'"),
        ({"degree": 0}, "degree must be in 1 ... 32: degree=0"),
        ({"batch_size": 48}, "batch_size of the population must be order^2=49: batch_size=48"),
        ({"batch_size": 0, "population": False}, "batch_size must be in 1 ... 2^24: batch_size=0"),
        ({"learning_rates": (1.0,)}, "learning_rates must have length 2: got 1"),
        ({"learning_rates": (1.0, float("inf"))}, "learning_rates must be finite: got inf"),
        ({"decays": (0.0,) * 3}, "decays must have length 2: got 3"),
        ({"decays": (float("nan"), 0.0)}, "decays must be finite: got nan"),
        ({"penalty": -1.0}, "penalty must be at least 0: penalty=-1"),
        ({"penalty_norm": 0.0}, "penalty_norm must be positive: penalty_norm=0"),
        ({"penalty_exponent": float("nan")}, "penalty_exponent must be positive: penalty_exponent=nan"),
    ],
)
def test_bad_options_are_refused_by_rule_and_value(native_module, change, message):
    with pytest.raises(ValueError) as caught:
        Problem().but(**change).network(native_module)
    assert str(caught.value) == message


def test_bad_arrays_are_refused_by_rule_and_value(native_module):
    hidden, output = Problem().start()
    with pytest.raises(ValueError, match=r"a row of hidden must have length 2\*order=14: got 13"):
        Problem().network(native_module, start=(hidden[:, 1:].copy(), output))
    with pytest.raises(ValueError, match="output must have length order=7: got 6"):
        Problem().network(native_module, start=(hidden, output[1:]))
    with pytest.raises(ValueError, match="a row of output must have length width=20: got 19"):
        Problem().network(native_module, start=(hidden, output[:, 1:].copy()))
    table = Problem().table()
    table[3, 4] = 7
    with pytest.raises(ValueError, match=r"table must be in 0 \.\.\. order-1: 7 with order=7"):
        native_module.PairNetwork(hidden, output, table, **{name: getattr(Problem(), name) for name in OPTIONS})
    network = Problem().network(native_module)
    for evaluate in (network.wrong, network.outputs):
        with pytest.raises(ValueError, match=r"pairs must be below order\^2=49: got 49"):
            evaluate(np.array([3, 49], np.uint32))


def test_draws_that_would_repeat_are_refused(native_module):
    problem = Problem(population=False, batch_size=64)
    with pytest.raises(ValueError, match=r"online training has 2\^32 examples"):
        problem.network(native_module, step=2**26).advance(ONE)
    with pytest.raises(ValueError, match="step must not be negative: step=-1"):
        problem.network(native_module, step=-1)
