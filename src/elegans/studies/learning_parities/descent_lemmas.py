"""Theorem 13 and lemmas 15 and 16 computed: online gradient descent, and how far a network moves after the first step.

Source: Daniely and Malach (2020), section 5.2.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from elegans.experiments import Claim, Experiment, Results, Tables
from elegans.experiments.checks import COMPUTED, check, checks
from elegans.experiments.rules import theorem
from elegans.studies.learning_parities.theory.step import biased_first_step
from elegans.studies.learning_parities.theory.training import biased_drift, biased_loss_drift, online_descent_bound
from elegans.studies.learning_parities.theory.window import CAP

DESCENT, DRIFT, LOSS = "parities/theorem-13", "parities/lemma-15", "parities/lemma-16"
SEQUENCES = {"smoke": 20, "paper": 1000}
LONG = 30
"""The number of steps of a random sequence of convex functions."""
N, K, BATCH, POINTS = 101, 3, 256, 200
RUNS = {"smoke": ((16,), 50), "paper": ((64, 512), 1000)}
"""By scale, half widths and steps."""
TRENDS = {"smoke": ((16, 64), 2, 50), "paper": ((32, 128, 512), 6, 300)}
"""By scale, half widths, seeds and steps of the trend of the drift."""
SMALL_RATE, FEW = 1e-4, 10
"""The step size and the steps at which the bound on first-layer weights is tested as printed."""
SPEEDS = (1, 10, 100)
"""Multiples of the printed step size."""


def analyse(results: Results) -> Tables:
    """Return the table ``checks``; sequences and runs are drawn from the run's first seed."""
    scale, seed = results.scale, results.first_seed
    drifts = (*_drifts(*RUNS[scale], seed), *_printed(RUNS[scale][0], seed), *_trend(*TRENDS[scale], seed))
    return checks([*_online(SEQUENCES[scale], seed), *drifts, *_as_far_as_allowed(seed)])


class Convex(NamedTuple):
    """One convex function of a point: its value and a subgradient."""

    value: Callable[[np.ndarray], float]
    gradient: Callable[[np.ndarray], np.ndarray]


def _function(kind: int, a: np.ndarray, c: float) -> Convex:
    if kind == 0:
        return Convex(lambda w: abs(float(a @ w) - c), lambda w: a * np.sign(a @ w - c))
    if kind == 1:
        return Convex(lambda w: float(((w - a) ** 2).sum()) / 4, lambda w: (w - a) / 2)
    return Convex(lambda w: max(0.0, 1 - c * float(a @ w)), lambda w: -c * a * (c * (a @ w) < 1))


def _online(count: int, first_seed: int) -> Iterator[dict[str, Any]]:
    """Yield Theorem 13's inequality for random and for adversarial sequences, as value - bound."""
    generator, random, chosen = np.random.default_rng([0, first_seed]), list[float](), list[float]()
    for trial in range(count):
        size, rate = int(generator.integers(1, 21)), float(10 ** generator.uniform(-3, 1))
        theta = generator.normal(size=size) * generator.choice((0.0, 1.0, 5.0))
        start, adversarial = float(np.linalg.norm(theta)), trial % 4 == 3
        functions, values, norms = [], [], []
        for _ in range(LONG):
            a, c = generator.normal(size=size) / math.sqrt(size), float(generator.normal())
            if adversarial:  # a hinge with the current point on its wrong side
                functions.append(_function(2, a, -float(np.sign(a @ theta)) or 1.0))
            else:
                functions.append(_function(int(generator.integers(3)), a, c))
            gradient = functions[-1].gradient(theta)
            values.append(functions[-1].value(theta))
            norms.append(float(np.linalg.norm(gradient)))
            theta = theta - rate * gradient
        for star in (generator.normal(size=size) * 2, _hindsight(functions, size)):
            losses = [one.value(star) for one in functions]
            bound = online_descent_bound(losses, float(np.linalg.norm(star)), norms, rate, start)
            (chosen if adversarial else random).append((float(np.mean(values)) - bound) / max(1.0, bound))
    yield check(DESCENT, "mean loss above the bound, random sequences", random, 1e-12)
    yield check(DESCENT, "mean loss above the bound, hinges chosen against the point", chosen, 1e-12)


def _hindsight(functions: list[Convex], size: int) -> Float[np.ndarray, " size"]:
    """Return a point close to the best one for all functions together, by subgradient steps."""
    point, best, least = np.zeros(size), np.zeros(size), math.inf
    for step in range(1, 101):
        value = sum(one.value(point) for one in functions)
        if value < least:
            best, least = point, value
        gradient = np.mean([one.gradient(point) for one in functions], axis=0)
        point = point - gradient / math.sqrt(step)
    return best


class ReferenceNetwork(NamedTuple):
    """The parameters of 2q mirrored neurons."""

    weight: Float[np.ndarray, "neurons n"]
    bias: Float[np.ndarray, " neurons"]
    output: Float[np.ndarray, " neurons"]


def descent(q: int, steps: int, rate: float, decay: float, seed: int) -> Iterator[ReferenceNetwork]:
    """Yield the network after the exact first step and after every further step on a fresh batch."""
    generator = np.random.default_rng((q, seed))
    initial, u = generator.integers(-1, 2, (q, N)), generator.uniform(-N / K, N / K, q)
    first = biased_first_step(initial, 1 / (8 * K), u, range(K))
    one = ReferenceNetwork(
        np.vstack([first.weight, -first.weight]),
        np.concatenate([first.bias, 2 / (8 * K) - first.bias]),
        np.concatenate([first.output, first.output]),
    )
    yield one
    for _ in range(steps):
        signs = generator.choice((-1.0, 1.0), (BATCH, N))
        signs[: BATCH // 2, :K] = signs[: BATCH // 2, :1]
        x, y = signs / math.sqrt(N), signs[:, :K].prod(axis=1)
        v = x @ one.weight.T + one.bias
        hidden = np.clip(v, 0, CAP)
        slope = -y * (y * (hidden @ one.output) < 1) / BATCH
        into = slope[:, None] * ((v > 0) & (v < CAP)) * one.output
        one = ReferenceNetwork(
            one.weight - rate * (into.T @ x + 2 * decay * one.weight),
            one.bias - rate * into.sum(axis=0),
            one.output - rate * (slope @ hidden + 2 * decay * one.output),
        )
        yield one


def _drifts(widths: tuple[int, ...], steps: int, first_seed: int) -> Iterator[dict[str, Any]]:
    """Yield the largest ratio of drift to bound over runs, and of the change of a fixed readout's loss."""
    drifts: dict[str, list[float]] = defaultdict(list)
    losses = []
    for q, speed, decay in itertools.product(widths, SPEEDS, (0.0, K / N)):
        rate = min(0.5, speed * K**2 / (steps * math.sqrt(q)))
        run = descent(q, steps, rate, decay, first_seed)
        start = next(run)
        readouts, generator = _readouts(q, start, first_seed), np.random.default_rng([q + 1, first_seed])
        x = generator.choice((-1.0, 1.0), (POINTS, N)) / math.sqrt(N)
        before = np.clip(x @ start.weight.T + start.bias, 0, CAP) @ readouts.T
        for step, one in enumerate(run, 1):
            if step % max(1, steps // 50):
                continue
            bound = biased_drift(N, K, rate, step, decay)
            moved = np.linalg.norm(one.weight - start.weight, axis=1).max()
            drifts["second-layer weights"].append(float(np.abs(one.output).max() / bound.output))
            drifts["first-layer weights"].append(float(moved / bound.weight))
            drifts["biases"].append(float(np.abs(one.bias - start.bias).max() / bound.bias))
            after = np.clip(x @ one.weight.T + one.bias, 0, CAP) @ readouts.T
            losses += _loss_ratios(readouts, before, after, rate, step, decay)
    for name, ratios in drifts.items():
        yield check(DRIFT, f"drift of {name} over the bound", ratios, 1)
    yield check(LOSS, "change of any example's loss over the bound", losses, 1)


def _printed(widths: tuple[int, ...], first_seed: int) -> Iterator[dict[str, Any]]:
    """Yield the largest ratio of the drift of first-layer weights to the printed bound, in a few small steps."""
    ratios = []
    for q, decay in itertools.product(widths, (0.0, K / N)):
        start, *run = descent(q, FEW, SMALL_RATE, decay, first_seed)
        for step, one in enumerate(run, 1):
            moved = np.linalg.norm(one.weight - start.weight, axis=1).max()
            ratios.append(float(moved / biased_drift(N, K, SMALL_RATE, step, decay, form="printed").weight))
    yield check(DRIFT, "drift of first-layer weights over the bound, as printed", ratios, 1)


def _readouts(q: int, start: ReferenceNetwork, first_seed: int) -> Float[np.ndarray, "three neurons"]:
    """Return fixed readouts: one neuron, all with random signs, and a third of them with random weights."""
    generator = np.random.default_rng([q, first_seed])
    single = np.zeros(2 * q)
    single[int(np.linalg.norm(start.weight, axis=1).argmax())] = 1
    part = generator.normal(size=2 * q) * (np.arange(2 * q) % 3 == 0)
    return np.stack([single, generator.choice((-1.0, 1.0), 2 * q), part])


def _loss_ratios(
    readouts: np.ndarray, before: np.ndarray, after: np.ndarray, rate: float, step: int, decay: float
) -> list[float]:
    changes = [np.abs(np.maximum(1 - y * after, 0) - np.maximum(1 - y * before, 0)) for y in (-1, 1)]
    ratios = []
    for readout, change in zip(readouts, np.max(changes, axis=(0, 1)), strict=True):
        size, norm = int((readout != 0).sum()), float(np.linalg.norm(readout))
        bound = biased_loss_drift(N, K, rate, step, readout_norm=norm, readout_size=size, decay=decay)
        ratios.append(float(change) / bound)
    return ratios


def _as_far_as_allowed(first_seed: int) -> Iterator[dict[str, Any]]:
    """Yield Lemma 16's ratio where each neuron moves along an input by exactly the bounds of Lemma 15."""
    generator, ratios = np.random.default_rng([16, first_seed]), []
    for size, decay, step in itertools.product((1, 30), (0.0, K / N), (1, 10, 100)):
        bound, x = biased_drift(N, K, 1e-3, step, decay), generator.choice((-1.0, 1.0), N) / math.sqrt(N)
        weight, readout = np.tile(CAP / 2 * x, (size, 1)), np.full((1, size), 0.1)
        before, after = (
            np.clip((weight + part * bound.weight * x) @ x + part * bound.bias, 0, CAP)[None] @ readout.T
            for part in (0, 1)
        )
        ratios += _loss_ratios(readout, before, after, 1e-3, step, decay)
    yield check(LOSS, "change of the loss over the bound, neurons moved as far as Lemma 15 allows", ratios, 1 + 1e-9)


def _trend(widths: tuple[int, ...], seeds: int, steps: int, first_seed: int) -> Iterator[dict[str, Any]]:
    """Yield the slope, in the logarithm of q, of the drift at the printed steps relative to the first layer's norm."""
    slopes = []
    for seed in range(first_seed, first_seed + seeds):
        drifts = []
        for q in widths:
            run = list(descent(q, steps, K**2 / (steps * math.sqrt(q)), 0.0, seed))
            start = run[0].weight
            drifts.append(np.linalg.norm(run[-1].weight - start) / np.linalg.norm(start))
        slopes.append(float(np.polyfit(np.log(widths), np.log(drifts), 1)[0]))
    yield check(DRIFT, "slope of the relative drift in ln q", slopes, 0, error_rate=0.5**seeds)


CLAIMS = (
    Claim(
        id="parities/theorem-13",
        statement="Online gradient descent on convex functions: the mean loss exceeds the mean loss at any fixed "
        "point by at most ||theta*||^2 / (2 eta T) + ||theta_1|| mean ||grad|| + eta mean ||grad||^2.",
        source="Theorem 13",
        setting="any convex sequence, any start",
        rule="1000 sequences of absolute values, quadratics and hinges, in 1 to 20 dimensions, eta from 1e-3 to 10; a "
        "quarter are hinges chosen against the current point. Each is compared with random points and with "
        "a point near the best in hindsight (100 subgradient steps). Fails on any violation.",
        decide=theorem(DESCENT),
    ),
    Claim(
        id="parities/lemma-15",
        statement="After t steps second-layer weights are at most 6 eta t + k/sqrt(n), first-layer weights stay within "
        "6 eta^2 t^2 + eta t k/sqrt(n) + eta t lambda n/k of their values after the first step, and biases within the "
        "same without lambda.",
        source="Lemma 15, sketch in section 5",
        setting="eta and lambda in [0, 1/2]; the bound on first-layer weights is printed without a plus sign and with "
        "a factor 2 and a factor t more, as 6 eta^2 t^2 + (eta t k/sqrt(n)) (2 eta t^2 lambda n/k); Lemma 16 uses the "
        "sum of three terms that is stated here. We prove this sum for n >= (1 + sqrt(k))^2 alone, which is 8 at k = 3",
        rule="Runs at (101, 3), q = 64 and 512, 1000 steps on batches of 256, with 1, 10 and 100 times the printed "
        "step size, weight decay 0 and k/n. At every 20th step no ratio of drift to bound may exceed 1. At the printed "
        "steps the drift relative to the first layer must fall with q in 6 of 6 seeds (1/64 by chance); the lemma does "
        "not say this (our addition). The printed bound is tested in ten steps of size 1e-4. Fails on any violation, "
        "but holds with correction if only the printed bound is violated.",
        revised="Five seeds judged the fall with q, with an error rate of 1/32; we computed a sixth. The verdict is "
        "the same. The rule tested the bound of Lemma 16 alone, and the claim held. Now it tests the printed bound "
        "too, which is violated, so the claim holds with correction.",
        decide=theorem(DRIFT, corrected="a sum of the three terms, as Lemma 16 uses it"),
    ),
    Claim(
        id="parities/lemma-16",
        statement="For any fixed second layer u*, moving the first layer from its first-step value changes any "
        "example's loss by at most 2 ||u*||_2 sqrt(||u*||_0) times the drift bound.",
        source="Lemma 16",
        setting="as Lemma 15, any u*",
        rule="The runs of Lemma 15, three second layers, both labels of 200 inputs, at every 20th step; and neurons "
        "that move along an input by exactly the bounds of Lemma 15, with 1 and 30 equal second-layer weights. Fails "
        "if the change ever exceeds the bound.",
        revised="Only runs were judged, in which the change is below 1% of the bound. Neurons that move as far as "
        "Lemma 15 allows were added: without weight decay they reach the bound. The verdict is the same.",
        decide=theorem(LOSS),
    ),
)

EXPERIMENT = Experiment(
    name="descent-lemmas",
    shows="Theorem 13 and Lemmas 15 and 16 computed: online descent, and how far a network moves after the first step",
    source="Theorem 13, Lemmas 15 and 16",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    claims=CLAIMS,
)
