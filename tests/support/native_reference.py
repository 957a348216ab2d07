"""The contracts of the native engine again, written for clearness in NumPy: slow, and in float64."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

Parameters = Sequence[Any]
"""Hidden weights and biases, output weights and bias."""

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


def threefry(key: Sequence[Any] | np.ndarray, c0: ArrayLike, c1: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Threefry-2x32 with 20 rounds, as the paper states it."""
    c0, c1 = np.broadcast_arrays(np.asarray(c0, np.uint32), np.asarray(c1, np.uint32))
    schedule = [np.asarray(word, np.uint32) for word in key]
    schedule.append(schedule[0] ^ schedule[1] ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        x0, x1 = c0 + schedule[0], c1 + schedule[1]
        for number in range(20):
            turn = np.uint32(ROTATIONS[number % 8])
            x0 = x0 + x1
            x1 = (x1 << turn) | (x1 >> (np.uint32(32) - turn))
            x1 = x1 ^ x0
            if number % 4 == 3:
                i = number // 4 + 1
                x0 = x0 + schedule[i % 3]
                x1 = x1 + schedule[(i + 1) % 3] + np.uint32(i)
    return x0, x1


def signs(key: Sequence[int], index: np.ndarray, n: int) -> np.ndarray:
    """Inputs (N, n) of the examples with these indices."""
    words = [word for block in range(-(-n // 64)) for word in threefry(key, index, block)]
    bits = np.stack(words, axis=1)[:, :, None] >> np.arange(32, dtype=np.uint32) & 1
    return 1.0 - 2 * bits.reshape(len(index), 32 * len(words))[:, :n]


def permuted(batches_key: Sequence[int], m: int, epoch: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Where the permutations of epochs of a sample of size m send places: arrays (N,) of both."""
    if m == 1:
        return np.zeros(len(place), np.uint32)
    key = np.stack(threefry(batches_key, epoch, 0xFFFFFFFF))
    bits = max(2, (m - 1).bit_length())
    low_bits = bits // 2
    high_bits = bits - low_bits
    x = np.array(place, np.uint32)
    outside = np.full(len(x), True)
    while outside.any():
        low, high = x[outside] & (2**low_bits - 1), x[outside] >> low_bits
        for number in range(8):
            if number % 2 == 0:
                low ^= threefry(key[:, outside], number, high)[0] & (2**low_bits - 1)
            else:
                high ^= threefry(key[:, outside], number, low)[0] & (2**high_bits - 1)
        x[outside] = high << low_bits | low
        outside = x >= m
    return x


def points(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the oscillating activations have their prescribed values, and these: in increasing order."""
    places = np.arange(-degree, degree + 1, 2.0)
    return places, (-1.0) ** ((degree - places) / 2)


def coefficients(degree: int) -> np.ndarray:
    """Coefficients, of degree 0 first, of the polynomial through the points."""
    places, values = points(degree)
    return np.linalg.solve(np.vander(places, increasing=True), values)


def wave(z: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """A triangle wave of period 4 and amplitude 1, and its slope to the left: 1 at the degree."""
    angle = np.pi / 2 * (z - degree)
    phase = (degree - z) % 4
    return 2 / np.pi * np.arcsin(np.cos(angle)), np.where(phase < 2, 1.0, -1.0)


def zigzag(z: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Straight pieces through the points, the outer two going on for ever."""
    places, values = points(degree)
    slopes = np.diff(values) / np.diff(places)
    piece = np.clip(np.ceil((z + degree) / 2).astype(int) - 1, 0, degree - 1)
    return values[piece] + slopes[piece] * (z - places[piece]), slopes[piece]


def activate(name: str, z: np.ndarray, degree: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Values and derivatives of an activation."""
    if name == "relu":
        return np.maximum(z, 0), (z > 0) * 1.0
    if name == "relu6":
        return np.clip(z, 0, 6), ((z > 0) & (z < 6)) * 1.0
    if name == "power":
        return z**degree, degree * z ** (degree - 1)
    if name == "oscillating-polynomial":
        polynomial = np.polynomial.Polynomial(coefficients(degree))
        return polynomial(z), polynomial.deriv()(z)
    if name == "sinusoid":
        angle = np.pi / 2 * (scale * z + 1 - degree)
        return np.sin(angle), np.pi / 2 * scale * np.cos(angle)
    if name in SMOOTH:
        return SMOOTH[name](z, scale)
    return {"zigzag": zigzag, "triangle-wave": wave}[name](z, degree)


def gelu_tanh(z: np.ndarray, _: float) -> tuple[np.ndarray, np.ndarray]:
    inner = np.sqrt(8 / np.pi) * (z + 0.044715 * z**3)
    share, slope = special.expit(inner), np.sqrt(8 / np.pi) * (1 + 3 * 0.044715 * z**2)
    return z * share, share + z * share * special.expit(-inner) * slope


# Values and derivatives that are exact to about 1e-15 of themselves, for the number that the activation has if any.
SMOOTH: dict[str, Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]]] = {
    "leaky-relu": lambda z, slope: (np.where(z > 0, z, slope * z), np.where(z > 0, 1.0, slope)),
    "elu": lambda z, alpha: (
        np.where(z > 0, z, alpha * np.expm1(np.minimum(z, 0))),
        np.where(z > 0, 1.0, alpha * np.exp(np.minimum(z, 0))),
    ),
    "tanh": lambda z, _: (np.tanh(z), 4 * special.expit(2 * z) * special.expit(-2 * z)),
    "sigmoid": lambda z, _: (special.expit(z), special.expit(z) * special.expit(-z)),
    "silu": lambda z, _: (z * special.expit(z), special.expit(z) * (1 + z * special.expit(-z))),
    "softplus": lambda z, _: (np.maximum(z, 0) + np.log1p(np.exp(-abs(z))), special.expit(z)),
    "gelu": lambda z, _: (
        z * special.ndtr(z),
        special.ndtr(z) + z * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi),
    ),
    "gelu-tanh": gelu_tanh,
    "sine": lambda z, frequency: (np.sin(frequency * z), frequency * np.cos(frequency * z)),
}


@dataclass(frozen=True)
class Problem:
    """What a network is constructed from, and one step of its training in float64."""

    n: int = 7
    width: int = 10
    support: tuple[int, ...] = (0, 1)
    label_sign: int = 1
    mix: float = 0.0
    noise: float = 0.0
    sample_size: int = 100
    order: str = "replacement"
    batch_size: int = 32
    activation: str = "relu"
    degree: int = 1
    scale: float = 1.0
    gain: float = 1.0
    loss: str = "hinge"
    loss_scale: float = 1.0
    learning_rates: tuple[float, ...] = (0.1, 0.1, 0.1, 0.1)
    decays: tuple[float, ...] = (0.01, 0.01, 0.01, 0.01)
    decay_in_gradient: bool = True
    sample_key: tuple[int, int] = (11, 22)
    batches_key: tuple[int, int] = (33, 44)
    noise_key: tuple[int, int] = (55, 66)
    seed: int = 0

    def but(self, **change: Any) -> "Problem":
        return replace(self, **change)

    def start(self) -> Parameters:
        random = np.random.default_rng(self.seed)

        def uniform(fan_in: int, *shape: int) -> Any:
            return random.uniform(-(fan_in**-0.5), fan_in**-0.5, shape).astype(np.float32)

        hidden = (
            np.float32(self.gain) * uniform(self.n, self.width, self.n),
            np.float32(self.gain) * uniform(self.n, self.width),
        )
        output = uniform(self.width, self.width), float(uniform(self.width))
        return (*hidden, *((np.ones(self.width, np.float32), 0.0) if self.activation == "product" else output))

    def network(self, native: Any, start: Parameters | None = None, **more: Any) -> Any:
        return native.Network(
            *(self.start() if start is None else start),
            support=list(self.support),
            label_sign=self.label_sign,
            mix=self.mix,
            noise=self.noise,
            sample_size=self.sample_size,
            order=self.order,
            batch_size=self.batch_size,
            activation=self.activation,
            degree=self.degree,
            scale=self.scale,
            coefficients=list(coefficients(self.degree)) if self.activation == "oscillating-polynomial" else [],
            loss=(self.loss, self.loss_scale),
            learning_rates=list(self.learning_rates),
            decays=list(self.decays),
            decay_in_gradient=self.decay_in_gradient,
            sample_key=self.sample_key,
            batches_key=self.batches_key,
            noise_key=self.noise_key,
            **more,
        )

    def inputs(self, key: Sequence[int], index: np.ndarray) -> np.ndarray:
        x = signs(key, index, self.n)
        w0, w1 = threefry(key, index, -(-self.n // 64))
        aligned = (w1 >> np.uint32(8)).astype(np.float32) * np.float32(2**-24) < np.float32(self.mix)
        common = np.where(w0 & np.uint32(1), -1.0, 1.0)
        for j in self.support:
            x[:, j] = np.where(aligned, common, x[:, j])
        return x

    def labels(self, key: Sequence[int], index: np.ndarray, noisy: bool) -> np.ndarray:
        y: np.ndarray = self.label_sign * self.inputs(key, index)[:, list(self.support)].prod(axis=1)
        if noisy:
            uniform = (threefry(self.noise_key, index, 0)[0] >> np.uint32(8)).astype(np.float32)
            y = np.where(uniform * np.float32(2**-24) < np.float32(self.noise), -y, y)
        return y

    def minibatch(self, step: int) -> np.ndarray:
        positions = step * self.batch_size + np.arange(self.batch_size)
        if self.sample_size == 0:
            return positions.astype(np.uint32)
        if self.order == "replacement":
            w0, w1 = threefry(self.batches_key, step, np.arange(self.batch_size))
            words = [(int(a) << 32) + int(b) for a, b in zip(w0, w1, strict=True)]
            return np.array([word * self.sample_size >> 64 for word in words], np.uint32)
        return permuted(self.batches_key, self.sample_size, *np.divmod(positions, self.sample_size))

    def step(self, parameters: Parameters, step: int, factor: float = 1.0) -> tuple[list[Any], float, float]:
        """Parameters after a step, and the minibatch's mean loss and mean error."""
        weight, bias, output, output_bias = (np.asarray(p, np.float64) for p in parameters)
        index = self.minibatch(step)
        x = self.inputs(self.sample_key, index)
        y = self.labels(self.sample_key, index, noisy=True)
        f, derivative, value = self.forward(parameters, x)
        if self.loss == "hinge":
            loss, slope = np.maximum(1 - y * f, 0), np.where(1 - y * f > 0, -y, 0)
        elif self.loss == "square":
            loss, slope = (f - y) ** 2 / 2, f - y
        elif self.loss == "correlation":
            loss, slope = -y * f, -y
        else:
            loss, slope = np.logaddexp(0, -y * f), -y / (1 + np.exp(y * f))
        loss, slope = self.loss_scale * loss, self.loss_scale * slope / self.batch_size
        back = slope[:, None] * derivative
        gradients = (back.T @ x, back.sum(axis=0), slope @ value, slope.sum())
        after = [
            p - rate * factor * g - (rate * factor if self.decay_in_gradient else 1) * decay * p
            for p, g, rate, decay in zip(
                (weight, bias, output, output_bias),
                gradients,
                self.learning_rates,
                self.decays,
                strict=True,
            )
        ]
        return after, loss.mean(), (y * f <= 0).mean()

    def forward(self, parameters: Parameters, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Outputs, their derivatives by the hidden sums, and by the output weights."""
        weight, bias, output, output_bias = (np.asarray(p, np.float64) for p in parameters)
        sums = x @ weight.T + bias
        if self.activation == "product":
            others = [np.delete(sums, i, axis=1).prod(axis=1) for i in range(self.width)]
            return sums.prod(axis=1), np.stack(others, axis=1), np.zeros_like(sums)
        value, derivative = activate(self.activation, sums, self.degree, self.scale)
        return value @ output + output_bias, derivative * output, value

    def outputs(self, parameters: Parameters, x: np.ndarray) -> np.ndarray:
        return self.forward(parameters, x)[0]


@cache
def trajectory(problem: Problem, factors: tuple[float, ...]) -> list[Any]:
    """Parameters (float32) before, and what `step` gives, for each of the first steps."""
    rows: list[Any] = []
    before: Parameters = problem.start()
    for step, factor in enumerate(factors):
        after = problem.step(before, step, factor)
        rows.append((before, after))
        before = [*(np.float32(p) for p in after[0][:3]), float(after[0][3])]
    return rows
