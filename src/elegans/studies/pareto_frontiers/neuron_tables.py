"""Computed tables beside trainings by Theorems 4 and 5: samples of single good neurons, dense neurons, exact widths."""

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pandas as pd

from elegans.calculators.domain import Form
from elegans.studies.pareto_frontiers.theory import luck, over_sparse, under_sparse
from elegans.studies.pareto_frontiers.theory.dense import dense_gradients, expected_best, fourier_gap

Sizes = Sequence[tuple[str, int, int, int, int]]
RECOVERY: dict[str, tuple[Sizes, int]] = {
    "smoke": ((("over", 20, 2, 9, 1), ("over", 20, 2, 17, 1), ("under", 15, 4, 2, 1)), 8),
    "laptop": (
        (*(("over", 80, 2, s, 3) for s in (9, 17, 33)), *(("under", n, 4, 2, 3) for n in (15, 31, 63))), 20,
    ),
    "paper": (
        (
            *(("over", 80, 2, s, 6) for s in (9, 17, 33, 65)),
            *(("over", 40, 4, s, 6) for s in (17, 25)),
            *(("under", n, 4, 2, 24) for n in (15, 31, 63, 127, 255)),
            *(("under", n, 6, 4, 24) for n in (11, 15, 21, 31, 63, 127)),
            *(("under", n, 6, 2, 6) for n in (11, 15, 21, 31)),
        ),
        20,
    ),
}  # fmt: skip
"""By scale: (kind, n, k, s) of single good neurons with their replicates, and draws per size of the sample."""


def recovers(kind: str, n: int, k: int, s: int, sample: int, generator: np.random.Generator) -> bool:
    """Return whether a good neuron's largest correlations on a sample identify what is missing: S, or the rest of S.

    The support is the first k inputs, the ones the first s.
    """
    sums = np.zeros(n)
    weight = np.where(np.arange(n) < s, 1.0, 0.0 if kind == "over" else 0.5 / n).astype(np.float32)
    for first in range(0, sample, 2**16):
        count = min(2**16, sample - first)
        x = (2 * generator.integers(0, 2, (count, n), np.int8) - 1).astype(np.float32)
        active = x @ weight > (0 if kind == "over" else -0.1 / n)
        sums += (x[active].prod(axis=1, where=np.arange(n) < k)) @ x[active]
    sizes = np.abs(sums)
    missing = sizes[s:k] if kind == "under" else sizes[:k]
    return bool(missing.min() > sizes[k:].max())


def half_point(kind: str, n: int, k: int, s: int, draws: int, generator: np.random.Generator) -> float:
    """Return the sample size at which half of the draws recover the support, interpolated between logarithms."""
    gap = over_sparse.over_sparse_gap(k, s) if kind == "over" else under_sparse.under_sparse_gap(n, k, s)
    sample, before = 1 / float(gap) ** 2, 0.0
    while True:
        share = sum(recovers(kind, n, k, s, round(sample), generator) for _ in range(draws)) / draws
        if share >= 0.5:
            return float(sample * 2 ** (-0.5 * (share - 0.5) / (share - before)))
        sample, before = sample * math.sqrt(2), share


def recovery(sizes: Sizes, draws: int) -> pd.DataFrame:
    """Return one row per good neuron and replicate: its sample of half of the successes, and how rare it is."""
    rows = []
    for kind, n, k, s, replicates in sizes:
        for replicate in range(replicates):
            sample = half_point(kind, n, k, s, draws, np.random.default_rng([6, n, k, s, replicate]))
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
