"""The lemmas of the XOR that hold for any network, computed: by enumeration of all inputs, and along runs.

Runs are minibatch SGD in double precision. Networks outside a lemma's hypotheses are checked too, under claims named
``...: outside the hypotheses``, which decide nothing.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from elegans.boolean.fourier import sign_table
from elegans.calculators.domain import Form
from elegans.experiments import Experiment, Results, Tables
from elegans.experiments.checks import COMPUTED, check, checks
from elegans.experiments.rules import LEVEL, share_limits
from elegans.studies.xor_two_phases.reference import (
    CLUSTERS,
    heavy_network,
    lopsided_network,
    on_sphere,
    random_networks,
    signs,
    steps,
)
from elegans.studies.xor_two_phases.theory import errors, surrogate
from elegans.studies.xor_two_phases.theory.heavy import xor_least_slope, xor_marks
from elegans.studies.xor_two_phases.theory.network import (
    ROOT2,
    xor_gradients,
    xor_heaviness,
    xor_label,
    xor_margins,
    xor_output,
    xor_parts,
    xor_sizes,
    xor_slope,
)
from elegans.studies.xor_two_phases.xor_lemmas_claims import CLAIMS, HALFWAY, WIDE

Rows = Iterator[dict[str, Any]]
C4, C2, C3 = "xor/lemma-c4", "xor/lemma-c2", "xor/lemma-c3"
BALANCE, NOISE, SPREAD = "xor/layer-balance", "xor/minibatch-concentration", "xor/sphere-spread"
SLOPE, DIRECTIONS = "xor/slope-bounds", "xor/max-margin-directions"
FORMS: dict[str, Form] = {"B4 as printed": "printed", "B4, sign reversed": "corrected"}
OUTSIDE = ": outside the hypotheses"
SLOPE_BOUNDS: tuple[tuple[Form, str], ...] = (("printed", "E||aw||"), ("corrected", "sqrt(2) E||aw||"))
DISTANCES = (
    (C2, "hidden gradient, {}"),
    (C2, "output gradient, {}"),
    (C2, "mean square of the slope, {}"),
    (C2, "slope after a flip of any but x_1 and x_2, {}"),
    (C2, "slope after a flip of x_1 or x_2, {}, as printed"),
    (C2, "slope less its value at zero output, after any flip, {}"),
    (C3, "single weights, {}"),
)
"""For each bound of Lemmas C.2, C.5 and C.3, the claim and the name of its check."""
EXACT, BOUND = 1e-12, 1 + 1e-10
"""How far identities may deviate, and by how much a side may exceed its bound, due to rounding."""
PARTS = {NOISE: 5, SPREAD: 2}
"""Comparisons of a claim that chance may violate, which share its error rate."""
LOPSIDED = (1.0, 2.0, 3.0, 4.0, 5.0)
"""The values of H of the signal-heavy networks with nearly all neurons on one cluster."""
SMALL = (4, 6, 8, 12, 16)
"""The dimensions over which the rate of violations is followed; the population's gradients are exact."""
RARE = 0.005
"""The share of vectors that may not be well spread."""


def closed_forms(dimensions: Sequence[int], neurons: int, first_seed: int) -> Rows:
    """Yield the checks of Lemma C.4: closed forms of the surrogate's gradient against the mean over all inputs."""
    generator = np.random.default_rng([4, first_seed])
    deviations: dict[str, list[float]] = defaultdict(list)
    for d in dimensions:
        for weight, output in random_networks(generator, 4, neurons // 4, d):
            counted = xor_gradients(weight, output, sign_table(d), slope="zero").weight
            size = np.abs(output) * np.linalg.norm(weight, axis=1)
            growth = surrogate.xor_surrogate_growth(weight, output, distribution="exact")
            parts = zip(("B1, signal", "B2, opposite", "B3, rest"), xor_parts(weight, output), growth, strict=True)
            for name, part, closed in parts:
                deviations[name].extend(np.abs(closed + (part * counted).sum(axis=1)) / size)
            single = -(weight * counted)[:, 2:]
            for name, form in FORMS.items():
                closed = surrogate.xor_surrogate_coordinates(weight, output, form=form)
                deviations[name].extend((np.abs(closed - single) / size[:, None]).max(axis=1))
    for name, worst in deviations.items():
        yield check(C4, name, worst, EXACT)


def distances(dimensions: Sequence[int], networks: int, first_seed: int) -> Rows:
    """Yield the checks of Lemmas C.2, C.5 and C.3: the loss against the surrogate, network by network."""
    for kind, made in _kinds(dimensions, networks, first_seed):
        ratios = zip(*(_distance(weight, output) for weight, output in made), strict=True)
        for (claim, name), worst in zip(DISTANCES, ratios, strict=True):
            yield check(claim, name.format(kind), worst, BOUND)


def _kinds(dimensions: Sequence[int], networks: int, first_seed: int) -> Iterator[tuple[str, list[Any]]]:
    generator = np.random.default_rng([2, first_seed])
    count = max(1, networks // len(dimensions))
    yield "random networks", [one for d in dimensions for one in random_networks(generator, count, 12, d)]
    d = dimensions[-1]
    run = steps(on_sphere(generator, 16, d, 0.1), 0.1, 20 * d, min(400, networks), generator)
    yield "trained networks", [network for number, (network, _) in enumerate(run) if number % 10 == 0]
    aligned = []
    for _ in range(max(1, networks // 20)):
        direction, size = generator.standard_normal(d) * (generator.random(d) < 0.5), 10 ** generator.uniform(-2, 0.5)
        direction[0] += 1
        aligned.append((np.tile(size * direction / np.linalg.norm(direction), (4, 1)), np.full(4, size)))
    yield "neurons along one direction", aligned


def _distance(weight: np.ndarray, output: np.ndarray) -> list[float]:
    """Return the largest ratios of both sides, in the order of ``DISTANCES``."""
    d = weight.shape[1]
    x = sign_table(d).astype(float)
    true, zero = (xor_gradients(weight, output, x, slope=slope) for slope in ("network", "zero"))
    bound = errors.xor_surrogate_errors(weight, output)
    values, label = xor_output(weight, output, x), xor_label(x)
    slope = -label * xor_slope(label * values)
    row = np.arange(2**d)
    flips, moved = (
        [np.abs(one - one[row ^ (1 << i)]).max() / bound.flip[i] if bound.flip[i] > 0 else 0.0 for i in range(d)]
        for one in (slope, slope + label)
    )
    heaviness = xor_heaviness(weight, output)
    beyond = math.sqrt(d) * float((np.abs(values) > math.log(d) * heaviness).mean()) * heaviness
    single = errors.xor_coordinate_errors(weight, output, x) - errors.LIPSCHITZ * np.abs(output)[:, None] * beyond
    return [
        (np.linalg.norm(true.weight - zero.weight, axis=1) / bound.weight).max(),
        (np.abs(true.output - zero.output) / bound.output).max(),
        ((slope + label) ** 2).mean() / bound.slope,
        max(flips[2:]),
        max(flips[:2]),
        max(moved),
        (np.abs(true.weight - zero.weight) / (single + EXACT * bound.weight[:, None])).max(),
    ]


def weak_influence(dimensions: Sequence[int], runs: int, points: int, first_seed: int) -> Rows:
    """Yield the second part of Lemma C.3: in the plane the network's influence is below the signal's own gradient.

    Measured halfway to where the signal is found, from theta = 0.01; both gradients are means over the same points.
    """
    few: list[float] = []
    strong: list[float] = []
    for d, seed in itertools.product(dimensions, range(runs)):
        generator = np.random.default_rng([3, d, first_seed + seed])
        passed = []
        for network, _ in steps(on_sphere(generator, 128, d, 0.01), 0.1, 10 * d, 400, generator):
            passed.append(network)
            if xor_marks(*network).share.min() >= 0.1:
                break
        start, half = (_influence(*passed[index], generator, points) for index in (0, (len(passed) - 1) // 2))
        few.append(1 - float((half[0] < 1).mean()))
        strong += [float(ratio[wide].max(initial=0)) for ratio, wide in (start, half)]
    yield check(C3, HALFWAY, few, 0.5)
    yield check(C3, WIDE, strong, 1.0)


def _influence(
    weight: np.ndarray, output: np.ndarray, generator: np.random.Generator, points: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return each neuron's ratio of both gradients in the plane, and whether its signal exceeds 100 E||a w_12||."""
    true, zero = np.zeros((2, len(output), 2))
    rounds = max(1, points // 20_000)
    for _ in range(rounds):
        x = signs(generator, 20_000, weight.shape[1])
        for total, slope in ((true, "network"), (zero, "zero")):
            total += xor_gradients(weight, output, x, slope=slope).weight[:, :2] / rounds  # type: ignore[arg-type]
    plane = np.linalg.norm(weight[:, :2], axis=1)
    gradient = np.abs(output) * surrogate.PHASE_ONE_RATE * plane / np.linalg.norm(weight, axis=1)
    wide = xor_sizes(weight, output).signal > 100 * float((np.abs(output) * plane).mean())
    return np.linalg.norm(true - zero, axis=1) / gradient, wide


def layer_balance(d: int, runs: int, time: float, first_seed: int) -> Rows:
    """Yield the checks of Lemma B.13 on every step and neuron of runs, and of gradient flow's exact balance."""
    for batch, claim in ((math.ceil(d * math.log(d) ** 2), BALANCE), (2 * d, BALANCE + OUTSIDE)):
        excesses = [
            _balance(d, rate, batch, round(time / rate), np.random.default_rng([13, first_seed + seed]))
            for rate in (0.05, 0.1, 0.25)
            for seed in range(runs)
        ]
        for name in ("S1", "S2", "S3", "S4"):
            yield check(claim, f"{name}, batches of {batch}", [excess[name] for excess in excesses], EXACT)
    rates, drifts = np.array([0.1, 0.05, 0.025]), []
    x = sign_table(8).astype(float)
    for rate in rates:
        weight, output = on_sphere(np.random.default_rng([13, first_seed]), 24, 8, 0.3)
        for _ in range(round(10 / rate)):
            gradient = xor_gradients(weight, output, x)
            weight, output = weight - rate * gradient.weight, output - rate * gradient.output
        drifts.append(np.abs((weight**2).sum(axis=1) - output**2).mean())
    slope = float(np.polyfit(np.log(rates), np.log(drifts), 1)[0])
    yield check(BALANCE, "flow: power of the step size of the drift, off 1", abs(slope - 1), 0.1)


def _balance(d: int, rate: float, batch: int, count: int, generator: np.random.Generator) -> dict[str, float]:
    """Return the largest relative amount by which each bound is exceeded over a run."""
    worst: dict[str, float] = defaultdict(lambda: -math.inf)
    before = None
    for (weight, output), gradient in steps(on_sphere(generator, 32, d, 0.1), rate, batch, count, generator):
        bound, norms = errors.xor_layer_bounds(weight, output, rate), np.linalg.norm(weight, axis=1)
        excess = {
            "S1": np.linalg.norm(gradient.weight, axis=1) / bound.weight - 1,
            "S2": np.abs(gradient.output) / bound.output - 1,
            "S3": np.abs(output) / norms - 1,
        }
        gap = norms**2 - output**2
        if before is not None:
            excess["S4"] = (gap - before) / norms**2
        before = gap + bound.gap
        for name, values in excess.items():
            worst[name] = max(worst[name], float(values.max()))
    return worst


def concentration(minibatches: int, points: int, first_seed: int) -> Rows:
    """Yield the checks of Lemma B.12: minibatches of d log(d)^2 against the population, along a run.

    At d = 64 no bound may be exceeded. Over small d the rate at which a neuron's gradient exceeds one must fall ever
    faster on double logarithmic axes, as a power of 1/d does not.
    """
    level = LEVEL / PARTS[NOISE]
    rates: dict[str, list[np.ndarray]] = defaultdict(list)
    for d in (*SMALL, 64):
        generator = np.random.default_rng([12, d, first_seed])
        run = [network for network, _ in steps(on_sphere(generator, 32, d, 0.1), 0.1, 10 * d, 150, generator)]
        batch = math.ceil(d * math.log(d) ** 2)
        bound = errors.xor_gradient_noise(d, batch)
        ratios: dict[str, list[np.ndarray]] = defaultdict(list)
        for weight, output in (run[0], run[60], run[-1]):
            whole = _population(weight, output, generator, points)
            for _ in range(minibatches // 3 if d == 64 else 6 * minibatches):
                part = xor_gradients(weight, output, signs(generator, batch, d))
                away = (part.weight - whole[0]) ** 2 / output[:, None] ** 2
                outer = (part.output - whole[1]) ** 2 / (weight**2).sum(axis=1)
                ratios["hidden weights"].append(away.sum(axis=1) / bound.weight)
                ratios["single weights"].append(away.ravel() / bound.coordinate)
                ratios["output weight"].append(outer / bound.output)
        for name, values in ratios.items():
            if d == 64:
                largest = [value.max() for value in values]
                yield check(NOISE, f"{name}, d = {d}", largest, 1.0, error_rate=level)
            else:
                rates[name].append(np.array([(value > 1).mean() for value in values]))
    for name in ("single weights", "output weight"):
        yield check(
            NOISE, f"{name}: curvature of the rate of violations", _curvature(rates[name], level), 0.0, error_rate=level
        )


def _curvature(rates: Sequence[np.ndarray], level: float) -> float:
    """Return the upper limit of the curvature of the logarithm of a rate over log d, each rate a mean over minibatches.

    The curvature is a parabola's, by weighted least squares; infinite where a rate is 0.
    """
    from scipy.stats import norm

    means = np.array([values.mean() for values in rates])
    if not means.all():
        return math.inf
    errors_of = np.array([values.std(ddof=1) / math.sqrt(len(values)) for values in rates]) / means
    logs = np.log(SMALL) - np.log(SMALL).mean()
    (square, *_), covariance = np.polyfit(logs, np.log(means), 2, w=1 / errors_of, cov="unscaled")
    return float(square + norm.isf(level) * math.sqrt(covariance[0, 0]))


def _population(
    weight: np.ndarray, output: np.ndarray, generator: np.random.Generator, points: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the population gradients: exact up to 16 inputs, else a mean over random points."""
    d = weight.shape[1]
    if d <= 16:
        return xor_gradients(weight, output, sign_table(d))
    rounds = max(1, points // 50_000)
    parts = [xor_gradients(weight, output, signs(generator, 50_000, d)) for _ in range(rounds)]
    into, outward = zip(*parts, strict=True)
    return np.mean(into, axis=0), np.mean(outward, axis=0)


def spread(dimensions: Sequence[int], vectors: int, largest: int, first_seed: int) -> Rows:
    """Yield the checks of Lemmas B.2 and B.6 and of Theorem B.5."""
    generator = np.random.default_rng([6, first_seed])
    shares = {d: float(errors.is_well_spread(generator.standard_normal((vectors, d)), 5).mean()) for d in dimensions}
    level = LEVEL / PARTS[SPREAD]
    wide = [_upper(share, vectors, level / 2) for d, share in shares.items() if d >= 1024]
    yield check(SPREAD, "B.2, upper limit of the share not well spread, d >= 1024", wide, RARE, error_rate=level)
    falls = np.diff(list(shares.values()))
    yield check(SPREAD, "B.2, fall of the share as d grows", -falls, RARE, error_rate=level)
    gaps, balls = [], []
    for size in range(4, largest + 1, 4):
        x = sign_table(size).astype(float)
        for vector in _vectors(generator, size, max(4, vectors // 50)):
            sums = np.sort(x @ vector)
            gaps.append(_gap(sums, float(np.linalg.norm(vector))) / float(errors.berry_esseen_bound(vector)))
            balls.append(1 / math.sqrt(size) / float((np.abs(sums) <= 2 * np.abs(vector).max() + 1e-12).mean()))
    yield check(SPREAD, "B.5 with C = 0.56, dense and sparse", gaps, BOUND)
    yield check(SPREAD, "B.6 with C = 2", balls, BOUND)


def _upper(share: float, trials: int, level: float) -> float:
    """Return the exact upper limit of one minus a share of trials."""
    return share_limits(round((1 - share) * trials), trials, level)[1]


def _vectors(generator: np.random.Generator, size: int, count: int) -> Iterator[np.ndarray]:
    """Yield Gaussian, sparse, geometric and equal entries, and the worst ones for B.6 that a search finds."""
    for number in range(count):
        vector = generator.standard_normal(size)
        yield vector * (generator.random(size) < 0.3 + 0.7 * (number % 2)) + (np.arange(size) == 0)
    for ratio in (1.0, 0.9, 0.7, 0.5):
        yield ratio ** np.arange(size)
    x = sign_table(min(size, 12)).astype(float)
    worst = np.ones(x.shape[1])

    def inside(vector: np.ndarray) -> float:
        return float((np.abs(x @ vector) <= 2).mean())

    for _ in range(10 * count):
        moved = np.clip(worst + 0.2 * generator.standard_normal(len(worst)), -1, 1)
        moved /= np.abs(moved).max()
        worst = moved if inside(moved) < inside(worst) else worst
    yield np.pad(worst, (0, size - len(worst)))


def _gap(sums: np.ndarray, norm: float) -> float:
    """Return the largest distance between the distribution of sorted sums and the Gaussian with the given deviation."""
    from scipy.special import ndtr

    shares = [1 - np.searchsorted(sums, sums + side) / len(sums) for side in (-1e-9, 1e-9)]
    return float(np.abs(np.array(shares) - ndtr(-sums / norm)).max())


def slopes(networks: int, first_seed: int) -> Rows:
    """Yield the checks of Equation D.1, as printed and with the clusters' norm."""
    generator = np.random.default_rng([1, first_seed])
    aligned = [
        (np.tile(size * np.pad(CLUSTERS[0], (0, 4)), (4, 1)), np.full(4, size))
        for size in np.linspace(0.1, 2.5, networks)
    ]
    run = steps(on_sphere(generator, 64, 12, 0.1), 0.1, 360, 3 * networks, generator)
    trained = [network for network, _ in run]
    kinds = {
        "random and aligned networks": [*random_networks(generator, networks, 12, 8), *aligned],
        "signal-heavy networks": [
            *(heavy_network(generator, 40, 12, math.exp(-10)) for _ in range(networks)),
            *(lopsided_network(400, 6, scale) for scale in LOPSIDED),
        ],
        "a run": trained,
    }
    for kind, made in kinds.items():
        g = [xor_slope(xor_margins(*network)) for network in made]
        for form, bound in SLOPE_BOUNDS:
            least = [xor_least_slope(xor_heaviness(*network), form) for network in made]
            ratios = [bounded / slope.min() for bounded, slope in zip(least, g, strict=True)]
            yield check(SLOPE, f"exp(-{bound}) <= g_min, {kind}{', as printed' * (form == 'printed')}", ratios, BOUND)
        yield check(SLOPE, f"g_max <= 2, {kind}", [slope.max() for slope in g], 2.0)


def directions(dimensions: Sequence[int], starts: int, first_seed: int) -> Rows:
    """Yield the checks that no direction has a larger margin per unit of norm than the signal's directions.

    E[y relu(w . x)] = E[max(sqrt(2) s, |w . xi|) - max(sqrt(2) o, |w . xi|)] / 4 for a > 0, which is at most sqrt(2)
    s / 4, and that only where w . xi and o are 0.
    """
    generator = np.random.default_rng([5, first_seed])
    identity, excess, ties = [], [], []
    for d in dimensions:
        x = sign_table(d).astype(float)
        label = xor_label(x)
        for weight in generator.standard_normal((starts, d)):
            weight = weight / np.linalg.norm(weight)
            parts = xor_sizes(weight[None], np.ones(1))
            signal, opposite = (
                np.maximum(ROOT2 * part[0], np.abs(x[:, 2:] @ weight[2:])) for part in (parts.signal, parts.opposite)
            )
            identity.append(abs(_margin(weight, x, label) - (signal - opposite).mean() / 4))
            for step in 0.5 * 0.9 ** np.arange(120):
                slope = ((x @ weight > 0) * label) @ x / len(x)
                weight = weight + step * slope / max(np.linalg.norm(slope), 1e-12)
                weight /= np.linalg.norm(weight)
            excess.append(_margin(weight, x, label) - ROOT2 / 4)
            if excess[-1] > -1e-7:
                ties.append(1 - float(xor_sizes(weight[None], np.ones(1)).signal[0]))
    yield check(DIRECTIONS, "identity from which the maximum follows", identity, EXACT)
    yield check(DIRECTIONS, "ascent: margin above sqrt(2)/4", excess, 1e-9)
    yield check(DIRECTIONS, "ascent: maximisers off the signal", ties or [math.inf], 1e-6)


def _margin(weight: np.ndarray, x: np.ndarray, label: np.ndarray) -> float:
    return float((label * np.maximum(x @ weight, 0)).mean())


SIZES: dict[str, tuple[Callable[[int], Rows], ...]] = {
    "smoke": (
        lambda seed: closed_forms((6, 8), 16, seed),
        lambda seed: distances((8,), 20, seed),
        lambda seed: layer_balance(12, 1, 4, seed),
        lambda seed: slopes(20, seed),
        lambda seed: directions((4, 6), 10, seed),
        lambda seed: spread((64, 1024), 1100, 8, seed),
    ),
    "paper": (
        lambda seed: closed_forms((6, 8, 10, 12, 14), 100, seed),
        lambda seed: distances((8, 10, 12, 14), 1000, seed),
        lambda seed: weak_influence((64, 256), 5, 60_000, seed),
        lambda seed: layer_balance(32, 5, 20, seed),
        lambda seed: concentration(1000, 2_000_000, seed),
        lambda seed: spread((64, 256, 1024, 4096), 4000, 20, seed),
        lambda seed: slopes(300, seed),
        lambda seed: directions((4, 6, 8, 10, 12), 200, seed),
    ),
}
"""The checks at each scale, with their sizes, for a first seed."""


def analyse(results: Results) -> Tables:
    """Return one row per check; networks and examples are drawn from the run's first seed."""
    return checks(row for part in SIZES[results.scale] for row in part(results.first_seed))


EXPERIMENT = Experiment(
    name="xor-lemmas",
    shows="The lemmas behind the two phases of the XOR, by enumeration and along runs in double precision",
    source="sections 4, B, C and D: lemmas",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    claims=CLAIMS,
)
