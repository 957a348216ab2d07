"""The lemmas on sparse neurons' first gradients and on what follows from them, computed.

Closed forms are compared with enumerations of all inputs in exact arithmetic; ``selection_samples`` tests statements
about samples.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from elegans import random
from elegans.boolean.fourier import (
    half_coefficient,
    limit_weight,
    majority_coefficient,
    majority_weight,
    symmetric_coefficient,
)
from elegans.boolean.learning import parity_of_sum
from elegans.experiments import Experiment
from elegans.experiments.checks import COMPUTED, check
from elegans.studies.pareto_frontiers.checking import Part, Rows, computed, exact
from elegans.studies.pareto_frontiers.selection_lemmas_claims import CLAIMS
from elegans.studies.pareto_frontiers.selection_samples import (
    FORMS,
    ROUNDING,
    concentration,
    features,
    generalisation,
    lipschitz,
    readout_descent,
)
from elegans.studies.pareto_frontiers.theory import luck, neurons, over_sparse, under_sparse
from elegans.studies.pareto_frontiers.training import OverSparseInit

OVER = ((12, 2, 9), (14, 2, 9), (18, 4, 17))
"""(n, k, s) of over-sparse neurons with s > 4k that are enumerated."""
UNDER = ((9, 4, 0), (10, 2, 0), (11, 4, 2), (12, 4, 2), (13, 6, 2), (14, 6, 4))


def good_neurons(largest: int, count: int, first_seed: int) -> Rows:
    """Yield the checks of Lemma 7: the exact probability, and the initialiser's probability."""
    claim = "pareto/lemma-7-good-neuron"
    sizes = ((n, k, s) for n in range(5, largest + 1) for k in range(1, 7) for s in range(4 * k + 1, n + 1))
    ratios = [float(luck.p_good_over_bounds(*size)[0] / luck.p_good_over(*size)) for size in sizes]
    yield check(claim, f"the bound as a share of the probability, n up to {largest}", ratios, 1)
    n, k, s = 20, 2, 9
    weight = OverSparseInit(s).weights(random.stream(first_seed, "init"), 2 * count, n)[:count]
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
    yield check(
        claim, "the Fourier weight as a share of 2 rho, as printed in the proof", [one / 2 for one in weights], 1
    )


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
    (exact(gradients_of_good_neurons), (OVER[:1],), (OVER,)),
    (exact(bounds_of_good_neurons), (101,), (2001,)),
    (exact(bad_neurons), (OVER[:2],), ((*OVER, (18, 2, 9), (15, 4, 9), (17, 4, 13)),)),
    (concentration, (0.15, 40), (0.05, 300)),
    (features, (OVER[:1], 2), (OVER[::2], 100)),
    (lipschitz, (100,), (1000,)),
    (generalisation, (10,), (300,)),
    (readout_descent, (20, False), (100, True)),
    (exact(enough_good_neurons), (((20, 2, 9),),), (((20, 2, 9), (50, 4, 17), (100, 4, 21)),)),
    (exact(closed_forms), (9,), (21,)),
    (exact(under_sparse_neurons), (UNDER[:3],), (UNDER,)),
    (exact(gap_ratio), (30,), (101,)),
    (exact(step_and_precision), (UNDER, 1000), (UNDER, 10_000)),
)

EXPERIMENT = Experiment(
    name="selection-lemmas",
    shows="The lemmas behind Theorems 4 and 5, by exact enumeration and on samples of the size that they require",
    source="appendix B: Lemmas 7 to 20, proof of Theorem 21",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=computed(PARTS),
    claims=CLAIMS,
)
