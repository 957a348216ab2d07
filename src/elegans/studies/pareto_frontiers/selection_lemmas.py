"""The lemmas on sparse neurons' first gradients and on what follows from them, computed.

Closed forms are compared with enumerations of all inputs in exact arithmetic; statements about samples are tested on
samples of the size that the lemma requires. Samples of millions of examples are multinomial counts over all inputs.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from elegans import random
from elegans.boolean.fourier import (
    half_coefficient,
    limit_weight,
    majority_coefficient,
    majority_weight,
    sign_table,
    symmetric_coefficient,
)
from elegans.boolean.learning import parity_of_sum
from elegans.calculators.domain import Form
from elegans.experiments import Experiment
from elegans.experiments.checks import COMPUTED, check
from elegans.studies.pareto_frontiers.checking import Part, Rows, computed, rare
from elegans.studies.pareto_frontiers.selection_lemmas_claims import CLAIMS
from elegans.studies.pareto_frontiers.theory import luck, neurons, over_sparse, theorem16, under_sparse
from elegans.studies.pareto_frontiers.training import OverSparseInit

FORMS: dict[str, Form] = {"as printed": "printed", "corrected": "corrected"}
ROUNDING = 1e-9
OVER = ((12, 2, 9), (14, 2, 9), (18, 4, 17))
"""(n, k, s) of over-sparse neurons with s > 4k that are enumerated."""
UNDER = ((9, 4, 0), (10, 2, 0), (11, 4, 2), (12, 4, 2), (13, 6, 2), (14, 6, 4))


def good_neurons(largest: int, count: int) -> Rows:
    """Yield the checks of Lemma 7: the exact probability, and that of the initialiser."""
    claim = "pareto/lemma-7-good-neuron"
    sizes = ((n, k, s) for n in range(5, largest + 1) for k in range(1, 7) for s in range(4 * k + 1, n + 1))
    ratios = [float(luck.p_good_over_bounds(*size)[0] / luck.p_good_over(*size)) for size in sizes]
    yield check(claim, f"the bound as a share of the probability, n up to {largest}", ratios, 1)
    n, k, s = 20, 2, 9
    weight = OverSparseInit(s).weights(random.stream(0, "init"), 2 * count, n)[:count]
    p = float(luck.p_good_over(n, k, s))
    deviation = abs((weight[:, :k] == 1).all(axis=1).sum() - count * p) / math.sqrt(count * p * (1 - p))
    yield check(claim, "the initialiser's share, in standard errors", deviation, 3.3, error_rate=0.001)


def _deviation(closed: Iterable[Fraction], enumerated: Iterable[Fraction]) -> float:
    return float(max(abs(formula - value) for formula, value in zip(closed, enumerated, strict=True)))


def _biases(k: int) -> tuple[Fraction, ...]:
    return (
        Fraction(0),
        Fraction(-99, 100),
        *over_sparse.over_sparse_biases(k),
        *over_sparse.over_sparse_biases(k, form="printed"),
    )


def gradients_of_good_neurons(sizes: Sequence[tuple[int, int, int]]) -> Rows:
    """Yield the checks of the first parts of Lemma 8."""
    found = []
    for n, k, s in sizes:
        closed = neurons.over_sparse_gradient(n, range(k), range(s))
        weight = [int(i < s) for i in range(n)]
        found += [_deviation(closed, neurons.population_gradient(weight, bias, range(k))) for bias in _biases(k)]
    yield check("pareto/lemma-8-gradients-of-good-neurons", "closed forms against enumeration", found, 0)


def bounds_of_good_neurons(largest: int) -> Rows:
    """Yield the checks of the bounds of Lemma 8."""
    claim = "pareto/lemma-8-bounds"
    sizes = [(k, s) for k in range(2, 11, 2) for s in range(4 * k + 1, largest + 1, 2)]
    size = [float(abs(neurons.over_sparse_relevant(k, s))) for k, s in sizes]
    for name, form in FORMS.items():
        ratios = [neurons.over_sparse_lower_bound(k, s, form) / one for (k, s), one in zip(sizes, size, strict=True)]
        yield check(claim, f"lower bound as a share of |C|, rho {name}", ratios, 1)
    ratios = [float(neurons.over_sparse_ratio(k, s) * s / (4 * k)) for k, s in sizes]
    yield check(claim, "|c| / |C| as a share of 4k / s", ratios, 1)
    weights = [float(majority_weight(s, k - 1)) / limit_weight(k - 1, "printed") for k, s in sizes]
    yield check(claim, "rho as a share of the Fourier weight", [1 / one for one in weights], 1)
    yield check(claim, "the Fourier weight as a share of 2 rho, as printed", [one / 2 for one in weights], 1)


def bad_neurons(sizes: Sequence[tuple[int, int, int]]) -> Rows:
    """Yield the checks of Lemma 9: every possible number of missed coordinates."""
    claim = "pareto/lemma-9-bad-neurons"
    norms, signed, counts, closed = [], [], [], []
    for n, k, s in sizes:
        high = neurons.over_sparse_relevant(k, s)
        for missed in range(1, min(k, n - s) + 1):
            ones = range(missed, missed + s)
            for bias in _biases(k):
                found = neurons.population_gradient([int(i in ones) for i in range(n)], bias, range(k))
                norm = sum(map(abs, found))
                norms.append(float(norm - abs(high)))
                signed.append(float(norm - high))
                counts.append(sum(map(bool, found)))
                closed.append(_deviation(neurons.over_sparse_gradient(n, range(k), ones), found))
    yield check(claim, "closed forms against enumeration", closed, 0)
    yield check(claim, "non-zero correlations", counts, 1)
    yield check(claim, "l1 norm beyond |C|", norms, 0)
    yield check(claim, "l1 norm beyond C, as printed", signed, 0)


def concentration(tau: float, samples: int) -> Rows:
    """Yield the check of Lemma 10: how often the deviation exceeds tau, at (20, 2) with s = 9 and 40 neurons."""
    n, k, s, count, delta = 20, 2, 9, 40, 0.1
    sample = theorem16.lemma10_sample(n, count, tau, delta)
    weight = OverSparseInit(s).weights(random.stream(0, "init"), 2 * count, n)[:count]
    means = np.array([neurons.over_sparse_gradient(n, range(k), np.flatnonzero(row).tolist()) for row in weight], float)
    generator = np.random.default_rng(10)
    failures = 0
    for _ in range(samples):
        x = generator.choice(np.array([-1, 1], np.float32), (sample, n))
        found = (weight @ x.T > 0).astype(np.float32) @ (x * x[:, :k].prod(axis=1)[:, None]) / sample
        failures += int(np.abs(found - means).max() > tau)
    yield rare("pareto/lemma-10-concentration", "probability of a deviation above tau", failures, samples, delta)


def features(sizes: Sequence[tuple[int, int, int]], runs: int) -> Rows:
    """Yield the checks of Lemma 11, for all inputs: at the width of Lemma 15 and the sample of Lemma 10.

    Neurons with the same ones and bias have the same features: each is computed once and weighted by its number.
    """
    claim, delta = "pareto/lemma-11-features", 0.01
    for name, form in FORMS.items():
        lists = {k: over_sparse.over_sparse_biases(k, form=form) for k in (2, 4, 6)}
        losses = [float(over_sparse.smallest_hinge_loss(k, biases)) for k, biases in lists.items()]
        yield check(claim, f"smallest loss of a readout of the ideal features, {name}", losses, 0)
    slopes = [
        float(over_sparse.over_sparse_rate(k, s) * abs(neurons.over_sparse_irrelevant(k, s)) * s / 2)
        for k in (2, 4, 6, 8, 10)
        for s in range(4 * k + 1, 402, 2)
    ]
    yield check(claim, "|eta c| as a share of 2 / s", slopes, 1)
    for n, k, s in sizes:
        generator = np.random.default_rng([11, n])
        found = np.array([_features(n, k, s, delta, generator) for _ in range(runs)])
        failures = (found > 1 + ROUNDING).sum(axis=0)
        events = [*(f"a {what} beyond its bound" for what in ("norm", "distance", "loss")), "a bad neuron that fires"]
        for name, count in zip(events, failures.tolist(), strict=True):
            yield rare(claim, f"probability of {name}, ({n}, {k}), s = {s}", count, runs, delta)


def _features(n: int, k: int, s: int, delta: float, generator: np.random.Generator) -> list[float]:
    """Return norm, distance and loss as shares of their bounds, and 2 if a bad neuron fires on any input, else 0."""
    width, rate = luck.lemma15_width(n, k, s, delta), float(over_sparse.over_sparse_rate(k, s))
    tau, r_prime = theorem16.lemma11_precision(n, k, rate), luck.good_per_bias(n, k, s, width)
    biases = np.array(over_sparse.over_sparse_biases(k), np.float32)
    x = sign_table(n).astype(np.float32)
    y = x[:, :k].prod(axis=1)
    seen = generator.multinomial(theorem16.lemma10_sample(n, width, tau, delta), np.full(2**n, 2.0**-n))
    rows = np.array([[i in ones for i in range(n)] for ones in itertools.combinations(range(n), s)], np.float32)
    counts = generator.multinomial(width // 2, np.full(len(rows) * len(biases), 1 / len(rows) / len(biases)))
    counts = counts.reshape(len(rows), len(biases))
    share = (seen / seen.sum() * y).astype(np.float32)[:, None] * x
    step = np.float32(rate) * np.array([(x @ row > 0).astype(np.float32) @ share for row in rows])
    means = [neurons.over_sparse_gradient(n, range(k), np.flatnonzero(row).tolist()) for row in rows]
    exact = (rate * np.array(means, float)).astype(np.float32)
    norm, distance, output = np.zeros(2**n), np.zeros(2**n), np.zeros(2**n)
    readout = np.array(over_sparse.over_sparse_readout(k), float)
    good = np.asarray((rows[:, :k] == 1).all(axis=1))
    fires = False
    direction = 1 if neurons.over_sparse_relevant(k, s) > 0 else -1
    for place, bias in enumerate(biases):
        group = counts[good, place].sum()
        for row in np.flatnonzero(counts[:, place]):
            towards, sampled = x @ exact[row], x @ step[row]
            for sign in (1, -1):
                ideal, noisy = np.maximum(sign * towards + bias, 0), np.maximum(sign * sampled + bias, 0)
                norm += counts[row, place] * ideal**2
                distance += counts[row, place] * (ideal - noisy) ** 2
                if good[row]:
                    weight = readout[1 + place + (0 if sign == direction else len(biases))]
                    output += weight * counts[row, place] / group * ideal
                else:
                    fires |= bool(noisy.any())
    loss = float(np.maximum(1 - y * (readout[0] + output), 0).mean())
    return [
        math.sqrt(norm.max()) / theorem16.lemma11_feature_norm(k, r_prime),
        math.sqrt(distance.max()) / theorem16.lemma11_distance(n, k, r_prime, rate, tau),
        loss / theorem16.lemma11_loss(k, s, r_prime, over_sparse.readout_norm(over_sparse.over_sparse_readout(k))),
        2.0 * fires,
    ]


def lipschitz(pairs: int) -> Rows:
    """Yield the checks of Lemma 12: random features, readouts and labels, on all inputs and on samples."""
    generator = np.random.default_rng(12)
    everything, sampled = [], []
    for _ in range(pairs):
        n, width = int(generator.integers(2, 11)), int(generator.integers(1, 30))
        first = generator.standard_normal((2**n, width))
        second = first + 10 ** generator.uniform(-3, 1) * generator.standard_normal((2**n, width))
        readout, y = generator.standard_normal(width), generator.choice([-1, 1], 2**n)
        losses = [np.maximum(1 - y * (values @ readout), 0) for values in (first, second)]
        bound = theorem16.lemma12_bound(
            float(np.linalg.norm(readout)), float(np.linalg.norm(first - second, axis=1).max())
        )
        chosen = generator.integers(0, 2**n, 20)
        everything.append(abs(losses[0].mean() - losses[1].mean()) / bound)
        sampled.append(abs(losses[0][chosen].mean() - losses[1][chosen].mean()) / bound)
    yield check("pareto/lemma-12-lipschitz", "change of the population's loss, share of the bound", everything, 1)
    yield check("pareto/lemma-12-lipschitz", "change of a sample's loss, share of the bound", sampled, 1)


def generalisation(samples: int) -> Rows:
    """Yield the checks of Lemma 13 with exact features: the largest gap that subgradient ascent finds, at (10, 2)."""
    n, k, norm, delta, starts = 10, 2, 15.0, 0.1, 8
    generator = np.random.default_rng(13)
    x = sign_table(n).astype(float)
    y = x[:, :k].prod(axis=1)
    hidden = np.maximum(x @ generator.standard_normal((n, 20)) / math.sqrt(n), 0)
    psi = np.column_stack([np.ones(len(x)), hidden]) * y[:, None]
    size = float(np.linalg.norm(psi, axis=1).max())
    for sample in (50, 200, 1000):
        bound = theorem16.lemma13_excess(norm, size, 0.0, sample, delta)
        failures = 0
        for _ in range(samples):
            weight = generator.multinomial(sample, np.full(len(x), 1 / len(x))) / sample - 1 / len(x)
            readout = generator.standard_normal((psi.shape[1], starts))
            best = 0.0
            for step in range(60):
                readout *= np.minimum(1, norm / np.linalg.norm(readout, axis=0))
                margin = psi @ readout
                best = max(best, float((-weight @ np.maximum(1 - margin, 0)).max()))
                ascent = psi.T @ (weight[:, None] * (margin < 1))
                length = np.maximum(np.linalg.norm(ascent, axis=0), 1e-12)
                readout = readout + norm / math.sqrt(1 + step) * ascent / length
            failures += int(best > bound)
        name = f"probability of an excess beyond the bound, {sample} examples"
        yield rare("pareto/lemma-13-generalisation", name, failures, samples, delta)


def readout_descent(runs: int, losses: Sequence[float], corrected_steps: bool) -> Rows:
    """Yield the checks of Lemma 14 at k = 2: readouts of the ideal features, for both offsets."""
    claim, k, delta = "pareto/lemma-14-readout-descent", 2, 0.05
    generator = np.random.default_rng(14)
    cases = [(offset, epsilon, "as printed") for offset in (Fraction(1, 16), Fraction(3, 4)) for epsilon in losses]
    if corrected_steps:
        cases.append((Fraction(3, 4), 0.3, "corrected"))
    for offset, epsilon, name in cases:
        biases = over_sparse.over_sparse_biases(k, offset)
        psi = np.array(over_sparse.readout_features(k, biases), float)
        norm = over_sparse.readout_norm(over_sparse.over_sparse_readout(k, biases))
        size = float(np.linalg.norm(psi, axis=1).max())
        sample = theorem16.lemma14_sample(norm, size, epsilon, delta)
        found = _descend(
            psi,
            generator.multinomial(sample, [0.25, 0.5, 0.25], runs) / sample,
            epsilon / norm**2,
            theorem16.lemma14_steps(norm, size, epsilon, FORMS[name]),
        )
        failures = int((found > theorem16.lemma14_loss(epsilon, "printed")).sum())
        case = f"probability of loss above 7 epsilon, offset {float(offset):g}, epsilon = {epsilon:g}, T {name}"
        yield rare(claim, case, failures, runs, 2 * delta)
    ratios, repaired = [], []
    for _ in range(200):
        values, readout = generator.standard_normal((8, 3)), generator.standard_normal(3)
        norm = 10 ** generator.uniform(-2, 1)
        readout *= norm * generator.random() / np.linalg.norm(readout)
        bound = norm * float(np.linalg.norm(values, axis=1).max())
        loss = float(np.maximum(1 - values @ readout, 0).mean())
        ratios.append(loss / bound)
        repaired.append(loss / (1 + bound))
    yield check(claim, "Claim 1: loss as a share of 1 + B ||psi||, corrected", repaired, 1)
    yield check(claim, "Claim 1: loss as a share of B ||psi||, as printed", ratios, 1)


def _descend(psi: np.ndarray, share: np.ndarray, decay: float, steps: int) -> np.ndarray:
    """Return the population losses of the last iterates, one run per row of ``share`` over the sum's values."""
    labels = np.array(parity_of_sum(len(psi) - 1), float)
    signed = psi * labels[:, None]
    readout = np.zeros((len(share), psi.shape[1]))
    for step in range(1, steps + 1):
        active = (readout @ signed.T < 1) * share
        readout += (active @ signed / decay - readout) / step
    chance = np.array([0.25, 0.5, 0.25])
    return np.asarray(np.maximum(1 - readout @ signed.T, 0) @ chance)


def enough_good_neurons(sizes: Sequence[tuple[int, int, int]]) -> Rows:
    """Yield the checks of Lemma 15: exact probabilities of the two-sided event at the width that it requires."""
    for name, form in FORMS.items():
        short = []
        for (n, k, s), delta in itertools.product(sizes, (0.1, 0.01)):
            width, biases = luck.lemma15_width(n, k, s, delta), max(1, k // 2)
            r_prime = luck.good_per_bias(n, k, s, width, form=form)
            short.append(1 - delta - luck.p_r_prime_good(width // 2, luck.p_good_over(n, k, s), biases, r_prime))
        label = f"missing probability with r' {name}"
        yield check("pareto/lemma-15-enough-good-neurons", label, short, ROUNDING)


def closed_forms(largest: int) -> Rows:
    """Yield the checks of Lemma 17: closed forms against sums over all values of the sum of signs."""
    claim = "pareto/lemma-17-closed-form"
    half, odd, majority = [], [], []
    for n in range(1, largest + 1):
        sums = range(n, -n - 1, -2)
        for degree in range(n + 1):
            if n % 2 == 0:
                counted = symmetric_coefficient([int(value == 0) for value in sums], degree)
                half.append(float(abs(counted - half_coefficient(n, degree))))
                if degree % 2:
                    odd.append(float(abs(counted)))
            for tie in (-1, 0, 1):
                values = [(value > 0) - (value < 0) or tie for value in sums]
                counted = symmetric_coefficient(values, degree)
                majority.append(float(abs(counted - majority_coefficient(n, degree, tie))))
    yield check(claim, f"Half, up to {largest} signs", half, 0)
    yield check(claim, "odd degrees of Half", odd, 0)
    yield check(claim, f"majority, up to {largest} signs, any value at a tie", majority, 0)


def under_sparse_neurons(sizes: Sequence[tuple[int, int, int]]) -> Rows:
    """Yield the checks of Lemmas 18 to 20: every overlap of S and S', dyadic epsilon, the theorem's biases."""
    relevant, irrelevant, levels, small = [], [], [], []
    for n, k, s in sizes:
        epsilon = Fraction(1, 2 ** (n - s).bit_length())
        for inside in range(max(0, s - (n - k)), s + 1):
            ones = (*range(inside), *range(k, k + s - inside))
            weight = [1 if i in ones else epsilon for i in range(n)]
            closed = neurons.under_sparse_gradient(n, range(k), ones)
            first = neurons.population_gradient(weight, 0, range(k))
            relevant.append(_deviation(closed[:k], first[:k]))
            irrelevant.append(_deviation(closed[k:], first[k:]))
            for bias in under_sparse.under_sparse_biases(k, epsilon):
                small.append(_deviation(first, neurons.population_gradient(weight, bias, range(k))))
            if inside == s:
                rest = (neurons.under_sparse_relevant(n, k, s),) * (k - s) + (
                    neurons.under_sparse_irrelevant(n, k, s),
                ) * (n - k)
                levels.append(_deviation((Fraction(0),) * s + rest, first))
    yield check("pareto/lemma-18-relevant-coordinates", "closed form against enumeration", relevant, 0)
    yield check("pareto/lemma-19-irrelevant-coordinates", "closed form against enumeration", irrelevant, 0)
    yield check("pareto/lemma-20-good-neurons", "three levels against enumeration", levels, 0)
    yield check(STEP, "change of the first gradient by the bias", small, 0)


STEP = "pareto/theorem-21-step-and-precision"


def gap_ratio(largest: int) -> Rows:
    """Yield the checks of the ratio of the two correlations in the proof of Theorem 21."""
    claim = "pareto/theorem-21-gap-ratio"
    sizes = [(n, k, s) for k in range(2, 9, 2) for s in range(0, k, 2) for n in range(k + 1, largest + 1)]
    exact = [abs(neurons.under_sparse_relevant(*one)) / abs(neurons.under_sparse_irrelevant(*one)) for one in sizes]
    for name, form in FORMS.items():
        pairs = zip(sizes, exact, strict=True)
        found = [float(abs(neurons.under_sparse_ratio(*one, form) / ratio - 1)) for one, ratio in pairs]
        yield check(claim, f"relative deviation of the ratio, {name}", found, 0)
    wide = [float(1 / ratio) for (n, k, s), ratio in zip(sizes, exact, strict=True) if n > 2 * k]
    yield check(claim, "inverse of the ratio, n > 2k", wide, 1)
    order = [float((n - s) / ((k - s - 1) * ratio)) for (n, k, s), ratio in zip(sizes, exact, strict=True) if n > 2 * k]
    yield check(claim, "printed ratio as a multiple of the exact one, n > 2k", order, 2)


def step_and_precision(sizes: Sequence[tuple[int, int, int]], largest: int) -> Rows:
    """Yield the other checks of the proof of Theorem 21: weights after the step, precision, number of neurons."""
    corrected, printed = [], []
    for n, k, s in sizes:
        if n - k <= k - s - 1:
            continue
        epsilon = Fraction(1, 2**10)
        sign = 1 if neurons.under_sparse_relevant(n, k, s) > 0 else -1
        found = under_sparse.under_sparse_step(n, range(k), range(s), epsilon, sign=sign)
        unit = epsilon / (2 * k)
        levels = (unit,) * s + ((1 + epsilon) * unit,) * (k - s) + (epsilon * unit,) * (n - k)
        corrected.append(_deviation(levels, found) / float(epsilon * unit))
        stated = (unit,) * k + (2 * epsilon * unit,) * (n - k)
        printed.append(_deviation(stated, found) / float(epsilon * unit))
    yield check(STEP, "weights after the step, in units of epsilon^2/2k, corrected", corrected, 0)
    yield check(STEP, "weights after the step, in units of epsilon^2/2k, as printed", printed, 0)
    slopes: dict[str, list[float]] = {"as printed": [], "corrected": []}
    for k, s in ((4, 2), (6, 2), (6, 4), (8, 4)):
        ends = [abs(float(neurons.under_sparse_irrelevant(n, k, s))) for n in (largest // 10, largest)]
        slope = -math.log(ends[1] / ends[0]) / math.log((largest - s) / (largest // 10 - s))
        slopes["as printed"].append(abs(slope - (k - s - 1) / 2))
        slopes["corrected"].append(abs(slope - (k - s + 1) / 2))
    for name, deviations in slopes.items():
        yield check(STEP, f"deviation of the exponent of the precision, {name}", deviations, 0.05)
    chances, made = [], []
    for k in (2, 4, 6, 8):
        chances.append(abs(1 / len(under_sparse.under_sparse_biases(k, 1)) - 1 / (k + 1)))
        labelled = zip(under_sparse.under_sparse_features(k), parity_of_sum(k), strict=True)
        readout = under_sparse.under_sparse_readout(k)
        made += [float(abs(sum(map(Fraction.__mul__, row, readout)) - y)) for row, y in labelled]
    yield check(STEP, "parity by k neurons and a constant", made, 0)
    yield check(STEP, "chance of a bias beside 1/(k + 1), as printed", chances, 0)


PARTS: tuple[Part, ...] = (
    (good_neurons, (40, 10_000), (200, 100_000)),
    (gradients_of_good_neurons, (OVER[:1],), (OVER,)),
    (bounds_of_good_neurons, (101,), (2001,)),
    (bad_neurons, (OVER[:2],), ((*OVER, (18, 2, 9), (15, 4, 9), (17, 4, 13)),)),
    (concentration, (0.15, 40), (0.05, 300)),
    (features, (OVER[:1], 2), (OVER[::2], 100)),
    (lipschitz, (100,), (1000,)),
    (generalisation, (10,), (300,)),
    (readout_descent, (20, (0.3,), False), (100, (0.3, 0.1), True)),
    (enough_good_neurons, (((20, 2, 9),),), (((20, 2, 9), (50, 4, 17), (100, 4, 21)),)),
    (closed_forms, (9,), (21,)),
    (under_sparse_neurons, (UNDER[:3],), (UNDER,)),
    (gap_ratio, (30,), (101,)),
    (step_and_precision, (UNDER, 1000), (UNDER, 10_000)),
)

EXPERIMENT = Experiment(
    name="selection-lemmas",
    shows="The lemmas behind Theorems 4 and 5, by exact enumeration and on samples of the size that they require",
    source="appendix B: Lemmas 7 to 20, proof of Theorem 21",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=computed(PARTS),
    claims=CLAIMS,
)
