"""What hides a parity from gradients and what finds it: adversarial noise, searches, marginals and kernels.

The lower bound is tested on all parities at once: along the path that descent takes without labels, the noise needed to
hide a parity is its largest correlation with an entry of the gradient, and one Walsh-Hadamard transform of an entry
gives its correlations with all parities.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import combinations
from operator import xor
from typing import Any, NamedTuple

import numpy as np

from elegans.boolean.fourier import fourier_coefficients, sign_table, walsh_hadamard
from elegans.experiments import Experiment, Results, Tables
from elegans.experiments.checks import COMPUTED, check, checks
from elegans.experiments.rules import share_limits
from elegans.studies.pareto_frontiers.statistical_queries_claims import CLAIMS, EXPONENT, KERNELS
from elegans.studies.pareto_frontiers.theory import frontier
from elegans.studies.pareto_frontiers.theory.lower_bound import noise_forcing_demo, parity_weight, target_free_noise
from elegans.studies.pareto_frontiers.theory.search import exhaustive_search, random_subset_search

Rows = Iterator[dict[str, Any]]
LEVEL = 0.01
"""The error rate of each comparison of a share with its bound."""
BOUND, MEAN = "pareto/proposition-3-lower-bound", "pareto/lemma-6-mean-correlation"
SEARCH = "pareto/statistical-limit-and-search"
MARGINALS = "pareto/marginals-say-nothing"
CONTROL = f"{BOUND}: where it says nothing"
"""A control, which decides nothing: it shows that the noise can exceed the tolerance."""
FORMS: dict[str, frontier.SQForm] = {"as printed": "printed", "corrected": "strict"}


class HiddenPath(NamedTuple):
    """A network and its descent: n signs, parities of k, hidden units and steps."""

    n: int
    k: int
    width: int
    steps: int

    def tolerance(self, delta: float, form: frontier.SQForm) -> float:
        """Return the smallest noise that the lower bound allows."""
        resource = frontier.sq_resource(self.width * (self.n + 1) + 1, self.steps, 1, delta)
        return math.sqrt(resource / frontier.sq_threshold(self.n, self.k, form))


def forcing(settings: Sequence[HiddenPath], starts: int) -> Rows:
    """Yield the checks of Proposition 3: noise of the smallest tolerance that it covers hides some parity.

    The adversary succeeds at a start where no entry of the noise exceeds the tolerance. The parity is chosen
    beforehand, on as many other starts. As a control, the noise is kept below half of what that parity needs at the
    median start, where the bound does not apply.
    """
    for one in settings:
        label = f"({one.n}, {one.k}), {one.width} wide, {one.steps} steps"
        noise = np.array([target_free_noise(**one._asdict(), seed=seed) for seed in range(2 * starts)])
        best = noise[:starts].max(axis=0).argmin()
        taken = noise[starts:, best]
        for delta in (0.5, 0.9):
            for name, form in FORMS.items():
                tolerance = one.tolerance(delta, form)
                failures = int((taken > tolerance).sum())
                what = f"P(noise above {tolerance:.3g}), {label}, delta = {delta:g}, {name}"
                yield check(BOUND, what, share_limits(failures, starts, LEVEL)[0], delta, error_rate=LEVEL)
        low = float(np.median(taken)) / 2
        failures = int((taken > low).sum())
        yield check(CONTROL, f"P(noise above {low:.3g}), {label}", share_limits(failures, starts, LEVEL)[0], 0.5)


def descent_under_noise(setting: HiddenPath, sample: int, seeds: int) -> Rows:
    """Yield the checks that noise within the tolerance keeps the whole path, with exact gradients and on samples."""
    tolerance = setting.tolerance(0.9, "strict")
    for name, size in (("exact gradients", None), (f"batches of {sample}", sample)):
        n, k, width, steps = setting
        runs = [
            noise_forcing_demo(n, k, width=width, steps=steps, tau=tolerance, seed=seed, sample=size)
            for seed in range(seeds)
        ]
        yield check(BOUND, f"noise as a share of the tolerance, {name}", [one.noise / tolerance for one in runs], 1)
        yield check(BOUND, f"departure from the path without labels, {name}", [one.departure for one in runs], 1e-12)


def mean_correlations(networks: int, largest: int) -> Rows:
    """Yield the checks of Lemma 6: derivatives of random halfspaces, random signs and noisy parities."""
    generator = np.random.default_rng(6)
    found: dict[str, list[float]] = {"halfspaces": [], "signs": [], "sparse functions": []}
    for number in range(networks):
        n = int(generator.integers(4, largest + 1))
        x = sign_table(n)
        active = x @ generator.standard_normal(n) + generator.standard_normal() > 0
        made = {
            "halfspaces": active * x[:, number % n],
            "signs": generator.choice([-1, 1], 2**n),
            "sparse functions": np.prod(x[:, : number % n + 1], axis=1) * (generator.random(2**n) < 0.9),
        }
        for name, values in made.items():
            shares = [float(parity_weight(values, k)) * math.comb(n, k) for k in range(1, n + 1)]
            found[name].append(max(shares))
    for name, shares in found.items():
        yield check(MEAN, f"share of 1 / C(n, k), {name}", shares, 1 + 1e-12)


def searches(sizes: Sequence[tuple[int, int]], draws: int) -> Rows:
    """Yield the checks of searches: identification from the stated sample, random subsets, answers to queries."""
    generator = np.random.default_rng(21)
    for n, k in sizes:
        cost = exhaustive_search(n, k)
        limit = frontier.statistical_limit(n, k)
        for name, sample in (("the stated sample", cost.sample), ("half of it", limit // 2)):
            failures = sum(ambiguous(n, k, sample, generator) for _ in range(draws))
            if sample == cost.sample:
                low = share_limits(failures, draws, LEVEL)[0]
                yield check(SEARCH, f"P(another parity fits {name}), ({n}, {k})", low, 0.01, error_rate=LEVEL)
            else:
                high = share_limits(failures, draws, LEVEL)[1]
                yield check(SEARCH, f"P(only one parity fits {name}), ({n}, {k})", 1 - high, 0.9, error_rate=LEVEL)
        total = math.comb(n, k)
        tried = [max(1, round(total * share)) for share in (0.05, 0.2, 0.5, 0.8)]
        deviations = []
        for queries in tried:
            p = float(random_subset_search(n, k, 1, queries).success)
            # the position of the right parity in a random order is uniform: it is found if it is among the first
            # queries
            hits = sum(int(generator.permutation(total)[:queries].min() == 0) for _ in range(draws))
            deviations.append(abs(hits - draws * p) / math.sqrt(draws * p * (1 - p)))
        name = f"success of random subsets, standard errors, ({n}, {k})"
        yield check(SEARCH, name, deviations, 3.7, error_rate=0.001)


def ambiguous(n: int, k: int, sample: int, generator: np.random.Generator) -> bool:
    """Return whether a k-parity other than that of the first k inputs agrees with it on a random sample."""
    words = [int.from_bytes(generator.bytes(-(-sample // 8))) >> (-sample % 8) for _ in range(n)]
    target = reduce(xor, words[:k])
    fits = 0
    for head in combinations(range(n), k - 1):
        rest = reduce(xor, (words[place] for place in head), target)
        fits += words[head[-1] + 1 if head else 0 :].count(rest)
        if fits > 1:
            return True
    return False


def queries(sizes: Sequence[tuple[int, int]], tau: float) -> Rows:
    """Yield the checks of statistical queries: an adversary answers 0 until one parity is left.

    The learner queries majorities of as many remaining parities as correlate with them by more than the tolerance, or
    for a single one: up to a constant, this eliminates fastest.
    """
    shares, asked = [], []
    for n, k in sizes:
        remaining = np.flatnonzero(np.bitwise_count(np.arange(2**n)) == k)
        total, count = len(remaining), 0
        while len(remaining) > 1:
            for size in (max(1, int(0.5 / tau**2) // 2 * 2 + 1), 1):
                chosen = np.zeros(2**n)
                chosen[remaining[:size]] = 1
                met = np.abs(fourier_coefficients(np.sign(walsh_hadamard(chosen)))[remaining]) > tau
                count += 1
                shares.append(float(met.sum() / total / frontier.sq_correlated_fraction(n, k, tau)))
                if met.any():
                    break
            remaining = remaining[~met]
        asked.append(frontier.sq_queries(n, k, tau) / count)
    yield check(SEARCH, "parities that a query meets, share of the bound", shares, 1)
    yield check(SEARCH, "queries that are needed, share of those asked", asked, 1)


def marginals(largest: int, draws: int) -> Rows:
    """Yield the checks that lower-order correlations vanish, and on samples are distributed as without a target."""
    from scipy.stats import binom, kstest

    rest = []
    for n in range(2, largest + 1):
        for k in range(1, n + 1):
            coefficients = fourier_coefficients(np.prod(sign_table(n)[:, :k], axis=1))
            rest.append(float(np.abs(np.delete(coefficients, 2**k - 1)).max()))
    yield check(MARGINALS, "largest of all other Fourier coefficients", rest, 0)
    generator = np.random.default_rng(23)
    n, k, sample = 20, 3, 1000
    agree: dict[str, list[int]] = {"single inputs": [], "pairs": []}
    for _ in range(draws):
        x = generator.choice(np.array([-1, 1], np.int8), (sample, n))
        y = x[:, :k].prod(axis=1)
        agree["single inputs"].append(int((x[:, 0] == y).sum()))
        agree["pairs"].append(int((x[:, 0] * x[:, 1] == y).sum()))
    for name, counts in agree.items():
        # spread uniformly within its step of the distribution function, a count becomes exactly uniform
        below, mass = binom.cdf(np.array(counts) - 1, sample, 0.5), binom.pmf(counts, sample, 0.5)
        p = float(kstest(below + mass * generator.random(draws), "uniform").pvalue)
        yield check(MARGINALS, f"1 - p of the law without a target, {name}", 1 - p, 0.99, error_rate=0.01)


def kernels(cells: dict[int, Sequence[int]], draws: int, given: tuple[int, int, int], repetitions: int) -> Rows:
    """Yield the checks of kernel regression: the exponent of the sample with squared error 1/2, and errors at one.

    The exponents are judged by the ends of the 95% t interval of their mean over draws.
    """
    from scipy.stats import t

    for k, sizes in cells.items():
        samples = np.log([[kernel_sample(n, k, draw) for n in sizes] for draw in range(draws)])
        slopes = np.array([np.polyfit(np.log(sizes), one, 1)[0] for one in samples])
        half = float(t.ppf(0.975, draws - 1) * slopes.std(ddof=1) / math.sqrt(draws))
        at = f"k = {k}, n = {sizes[0]} to {sizes[-1]}"
        for (name, limit), end in zip(EXPONENT.items(), (slopes.mean() - half, slopes.mean() + half), strict=True):
            yield check(KERNELS, f"{name}, {at}", k - end, limit, error_rate=0.025)
    n, k, sample = given
    errors = [kernel_errors(n, k, sample, np.random.default_rng([25, draw]))[1] for draw in range(repetitions)]
    yield check(KERNELS, f"1/2 less the error at ({n}, {k}), {sample} examples", 0.5 - np.array(errors), 0.1)


def tangent_kernel(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the tangent kernel of a two-layer ReLU network of infinite width on signs.

    Both layers are trained. The bias is as large as all weights together: without it no odd parity of more than one
    input is in the kernel's range.
    Source: Jacot, Gabriel and Hongler (2018); Cho and Saul, "Kernel methods for deep learning" (2009).
    """
    cosine = np.clip((1 + x @ z.T / x.shape[1]) / 2, 0, 1)
    hidden = cosine * (math.pi - np.arccos(cosine))
    return np.asarray((np.sqrt(1 - cosine**2) + 2 * hidden) / (2 * math.pi))


def kernel_errors(n: int, k: int, sample: int, generator: np.random.Generator) -> tuple[float, float]:
    """Return the smallest squared error and error rate on held-out examples, each at its best ridge."""
    x = generator.choice([-1.0, 1.0], (sample, n))
    z = generator.choice([-1.0, 1.0], (1000, n))
    values, vectors = np.linalg.eigh(tangent_kernel(x, x))
    across = tangent_kernel(z, x) @ vectors
    moment, label = vectors.T @ x[:, :k].prod(axis=1), z[:, :k].prod(axis=1)
    found = [across @ (moment / (values + ridge)) for ridge in 10.0 ** np.arange(-6, 3)]
    return (
        min(float(((output - label) ** 2).mean()) for output in found),
        min(float((output * label <= 0).mean()) for output in found),
    )


def kernel_sample(n: int, k: int, seed: int) -> float:
    """Return the sample size at which the squared error falls to 1/2, interpolated between powers of sqrt(2)."""
    generator = np.random.default_rng([24, n, k, seed])
    sample, before = 8.0, 1.0
    while (error := kernel_errors(n, k, round(sample), generator)[0]) > 0.5:
        sample, before = sample * math.sqrt(2), max(error, 0.5)
    return float(sample * 2 ** (-0.5 * (0.5 - error) / (before - error)))


PARTS: tuple[tuple[Callable[..., Rows], tuple[Any, ...], tuple[Any, ...]], ...] = (
    (
        forcing,
        ([HiddenPath(12, 6, 1, 3)], 20),
        ([HiddenPath(12, 6, 1, steps) for steps in (3, 1)] + [HiddenPath(14, 7, width, 1) for width in (1, 4)], 200),
    ),
    (descent_under_noise, (HiddenPath(12, 6, 1, 3), 3000, 3), (HiddenPath(12, 6, 1, 3), 3000, 200)),
    (mean_correlations, (30, 8), (1000, 12)),
    (searches, (((10, 2),), 100), (((20, 3), (30, 3), (50, 3)), 300)),
    (queries, (((8, 3), (9, 4)), 0.25), (((10, 5), (12, 4), (12, 6), (14, 4)), 0.1)),
    (marginals, (6, 500), (10, 10_000)),
    (
        kernels,
        ({2: (8, 16)}, 2, (30, 3, 100), 1),
        ({2: (10, 20, 40, 80), 3: (8, 12, 16, 20)}, 6, (50, 3, 1000), 20),
    ),
)
"""Functions that yield checks, with their arguments at the scales smoke and paper."""


def analyse(results: Results) -> Tables:
    """Return one row per check."""
    return checks(row for part, *sizes in PARTS for row in part(*sizes[results.scale == "paper"]))


EXPERIMENT = Experiment(
    name="statistical-queries",
    shows="Bounded noise hides a parity from descent as far as the lower bound says; searches and kernels find it",
    source="Proposition 3, Lemma 6, sections 2.1 and 3.2",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    claims=CLAIMS,
)
