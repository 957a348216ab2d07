"""Computed tables beside trainings by Theorems 4 and 5: samples of single good neurons, dense neurons, exact widths."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product

import numpy as np
import pandas as pd

from elegans.calculators.domain import Form
from elegans.studies.pareto_frontiers.theory import luck, over_sparse, under_sparse
from elegans.studies.pareto_frontiers.theory.dense import dense_gradients, expected_best, fourier_gap

Sizes = Sequence[tuple[str, int, int, int, int]]
UNDER = (15, 31, 63, 127, 255, 511)
"""The n at which the exponents of Theorem 5 are measured."""
RECOVERY: dict[str, tuple[Sizes, int]] = {
    "smoke": ((("over", 20, 2, 9, 1), ("over", 20, 2, 17, 1), ("under", 15, 4, 2, 1)), 8),
    "laptop": (
        (*(("over", 80, 2, s, 3) for s in (9, 17, 33)), *(("under", n, 4, 2, 3) for n in (15, 31, 63))), 20,
    ),
    "paper": (
        (
            *(("over", 80, 2, s, 24) for s in (9, 17, 33, 65)),
            *(("over", 80, 4, s, 48) for s in (17, 33, 65)),
            *(("under", n, k, s, 24) for k, s in ((4, 2), (6, 4), (6, 2)) for n in UNDER),
        ),
        20,
    ),
}  # fmt: skip
"""By scale: (kind, n, k, s) of single good neurons with their replicates, and draws per size of the sample."""


@lru_cache(maxsize=1)
def _classes(kind: str, n: int, k: int, s: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the signs of the inputs that are to be found, and the probabilities of the classes of active examples.

    A class is the label (-1, 1), these signs, and how many of the irrelevant inputs with a weight are positive.

    - Over-sparse: the weights are 1 on the first s inputs, of which the first k are to be found, and 0 elsewhere.
    - Under-sparse: they are 1 on the first s of the k relevant inputs and 1/2n elsewhere, the bias is 1/10n: all but an
      even split of the s signs decides alone whether the neuron is active. The k - s others are to be found.
    """
    from scipy.stats import binom

    sought, weighted = (k, s - k) if kind == "over" else (k - s, n - k)
    patterns = np.array(list(product((-1, 1), repeat=sought)))
    positive = np.arange(weighted + 1)
    split, few = binom.pmf(positive, weighted, 0.5), binom.pmf(range(s + 1), s, 0.5)
    chances = np.zeros((2, len(patterns), weighted + 1))
    for place, pattern in enumerate(patterns):
        rest = pattern.sum() + 2 * positive - weighted
        if kind == "over":
            chances[int(pattern.prod() > 0), place] = split / len(patterns) * (rest > 0)
            continue
        for negative in range(s // 2 + 1):
            label = int((-1) ** negative * pattern.prod() > 0)
            chances[label, place] += few[negative] / len(patterns) * split * ((negative < s / 2) | (rest > -0.2))
    return patterns, chances


def recovers(kind: str, n: int, k: int, s: int, sample: int, draws: int, generator: np.random.Generator) -> int:
    """Return in how many draws a good neuron's largest correlations are with the inputs that are to be found.

    These are S for an over-sparse neuron, and the k - s inputs of S that it lacks for an under-sparse one. Samples are
    drawn exactly, at a cost that does not grow with their size: first the numbers of examples of each class; then, one
    irrelevant input after the other, the numbers of examples in which it is positive, given how many positive ones each
    example has left; inputs without a weight are positive in half of the examples.
    """
    sought, chances = _classes(kind, n, k, s)
    shares = np.append(chances.ravel(), max(0.0, 1 - chances.sum()))
    counts = generator.multinomial(sample, shares / shares.sum(), draws)[:, :-1].reshape(draws, *chances.shape)
    least = np.abs((counts[:, 1] - counts[:, 0]).sum(axis=-1) @ sought).min(axis=1)
    if kind == "over":
        active = counts.sum(axis=(1, 2, 3))[:, None]
        good = np.abs(2 * generator.binomial(active, 0.5, (draws, n - s)) - active).max(axis=1) < least
        counts, least = counts[good], least[good]
    left, first = counts.sum(axis=2), 0
    for inputs in range(left.shape[-1] - 1, 0, -1):
        if not len(least):
            return 0
        some = np.flatnonzero(left.any(axis=(0, 1)))
        first, left = first + some[0], left[..., some[0] : some[-1] + 1]
        positive = generator.binomial(left, (first + np.arange(left.shape[-1])) / inputs)
        negative, positives = (2 * positive - left).sum(axis=-1).T
        good = np.abs(positives - negative) < least
        first, left = first - 1, np.pad((left - positive)[good], ((0, 0), (0, 0), (1, 0)))
        left[..., :-1] += positive[good]
        least = least[good]
    return len(least)


def half_point(kind: str, n: int, k: int, s: int, draws: int, generator: np.random.Generator) -> float:
    """Return the sample size at which half of the draws recover the support, interpolated between logarithms."""
    gap = over_sparse.over_sparse_gap(k, s) if kind == "over" else under_sparse.under_sparse_gap(n, k, s)
    sample, before = 1 / float(gap) ** 2, 0.0
    while True:
        share = recovers(kind, n, k, s, round(sample), draws, generator) / draws
        if share >= 0.5:
            return float(sample * 2 ** (-0.5 * (share - 0.5) / (share - before)))
        sample, before = sample * math.sqrt(2), share


def recovery(sizes: Sizes, draws: int, first_seed: int) -> pd.DataFrame:
    """Return one row per good neuron and replicate: its sample of half of the successes, and how rare it is.

    Replicates are drawn with the seeds from ``first_seed`` on.
    """
    rows = []
    for kind, n, k, s, replicates in sizes:
        for replicate in range(replicates):
            sample = half_point(kind, n, k, s, draws, np.random.default_rng([39, n, k, s, first_seed + replicate]))
            chance = luck.p_good_over(n, k, s) if kind == "over" else luck.p_good_under(n, k, s)
            rows.append([kind, n, k, s, replicate, sample, float(1 / chance)])
    return pd.DataFrame(rows, columns=["kind", "n", "k", "s", "replicate", "sample", "width"])


def dense(sizes: Sequence[int], neurons: int) -> pd.DataFrame:
    """Return the expected largest Fourier gap among many dense neurons, by n, for parities of two and four inputs."""
    rows = []
    for k, n in product((2, 4), sizes):
        gaps = fourier_gap(dense_gradients(n, range(k), neurons), range(k))
        rows += [[n, k, 2**power, expected_best(gaps, 2**power)] for power in range(int(math.log2(neurons)))]
    return pd.DataFrame(rows, columns=["n", "k", "width", "gap"])


def widths() -> pd.DataFrame:
    """Return the smallest width that has a good neuron of every bias with probability 0.99, for two families of s."""
    families: dict[str, Callable[[int], int]] = {"linear": lambda n: n // 4 * 2 + 1, "constant": lambda n: 17}
    rows = [
        [family, k, n, ones(n), 2 * luck.neurons_for_all_biases(luck.p_good_over(n, k, ones(n)), k // 2, 0.01)]
        for family, ones in families.items()
        for k in (2, 4)
        for n in (40, 100, 400, 1000, 4000, 10_000)
    ]
    return pd.DataFrame(rows, columns=["family", "k", "n", "s", "width"])


def printed_losses() -> pd.DataFrame:
    """Return the smallest hinge loss of any readout with the printed and the corrected biases, exactly."""
    forms: tuple[Form, ...] = ("printed", "corrected")
    rows = [
        [k, form, float(over_sparse.smallest_hinge_loss(k, over_sparse.over_sparse_biases(k, form=form)))]
        for k in (2, 4, 6)
        for form in forms
    ]
    return pd.DataFrame(rows, columns=["k", "biases", "loss"])
