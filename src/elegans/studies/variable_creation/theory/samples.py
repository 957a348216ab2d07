"""How many examples identify the support of a sparse Boolean function, whatever the learner.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    function: a symmetric function, as text or component.
    p: the probability of a one; results are exact if it is a fraction.
    task: the function, the number of bits and their bias.
    seed: the seed of all draws.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, NamedTuple

import numpy as np

from elegans import random
from elegans.calculators.domain import AtMost, Binomial, Listed, Number, Seed, require, require_parity
from elegans.tasks.boolean import BooleanFunction, SparseBoolean

LARGEST_DRAWN = 200_000
"""The largest number of examples drawn and searched: a few seconds of work."""


class Identifiability(NamedTuple):
    """How often random samples identify the support, with 95% Wilson intervals.

    Args:
        sizes: numbers of examples.
        share: the share of random samples of each size that are consistent with only one support.
        low: the lower ends.
        high: the upper ends.
    """

    sizes: np.ndarray
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray


def support_agreement(
    function: str | BooleanFunction, k: Binomial, overlap: Binomial, p: Number = Fraction(1, 2)
) -> Number:
    """Return the probability that a symmetric function agrees on two supports that share some coordinates.

    For balanced conjunctions of three bits it is at most 0.794: no other conjunction is right on more than 0.8 of the
    inputs, so requiring more than 0.99 of held-out labels requires the right one.

    Formula: sum_u P(u) sum_c P(f = c | u shared ones)^2, u ~ Bin(overlap, p); for conjunctions
        1 - 2 (p^k - p^(2k - overlap)).
    Source: derived here.

    Args:
        k: the size of both supports.
        overlap: how many coordinates they share, from 0 to k.
    """
    counts = _counts(function, k)
    require(0 <= overlap <= k, "overlap must lie in 0..k", overlap=overlap, k=k)
    require(0 <= p <= 1, "p must lie in [0, 1]", p=p)
    total: Number = 0
    for shared in range(overlap + 1):
        one = sum(_binomial(k - overlap, own, p) for own in range(k - overlap + 1) if counts[shared + own])
        total = total + _binomial(overlap, shared, p) * (one * one + (1 - one) * (1 - one))
    return total


def expected_consistent(
    function: str | BooleanFunction, n: Binomial, k: Binomial, m: int, p: Number = Fraction(1, 2)
) -> Number:
    """Return the expected number of wrong supports that agree with all labels of a random sample.

    The support is not identified with at most this probability.

    Formula: sum_{j < k} C(k, j) C(n - k, k - j) a_j^m, a_j the ``support_agreement`` at an overlap of j.
    Source: derived here; the union bound behind m >= log2 C(n, k) (thesis, section 4.6) computed exactly.

    Args:
        n: the number of bits.
        k: the size of the support.
        m: the number of examples, at least 0.
    """
    require_parity(n, k, "a sparse function")
    require(m >= 0, "m must be at least 0", m=m)
    total: Number = 0
    for overlap in range(max(0, 2 * k - n), k):
        supports = math.comb(k, overlap) * math.comb(n - k, k - overlap)
        total = total + supports * support_agreement(function, k, overlap, p) ** m
    return total


def identifying_samples(
    task: SparseBoolean, draws: Annotated[int, AtMost(10_000)] = 400, largest: Listed = 256, seed: Seed = 0
) -> np.ndarray:
    """Return, for random sequences of examples, after how many of them only one support is consistent.

    Formula: min {m : |{J : f_J agrees with the first m labels}| = 1}, by bisection: consistent supports only become
        fewer.
    Source: derived here; the thesis redraws samples that leave more than one (appendix A.3.1).

    Args:
        draws: how many sequences, each with its own support.
        largest: the longest sequence.

    Returns:
        int64 of shape (draws,); largest + 1 where several remain after the whole sequence.
    """
    require(min(draws, largest) >= 1, "draws and largest must be at least 1", draws=draws, largest=largest)
    require(draws * largest <= LARGEST_DRAWN, f"draws times largest must be at most {LARGEST_DRAWN}", draws=draws)
    index = np.arange(largest, dtype=np.uint32)
    found = []
    for draw in range(draws):
        support = task.draw(random.stream(seed, "task").fold(draw))
        x, y = task.examples(support, random.stream(seed, "sample").fold(draw), index)
        low, high = -1, largest + 1
        while high - low > 1:
            middle = (low + high) // 2
            alone = len(task.consistent(x[:middle], y[:middle], most=2)) == 1
            low, high = (low, middle) if alone else (middle, high)
        found.append(high)
    return np.array(found, np.int64)


def identifiability(
    task: SparseBoolean, sizes: Sequence[int], draws: Annotated[int, AtMost(10_000)] = 400, seed: Seed = 0
) -> Identifiability:
    """Return the probability that random samples of given sizes identify the support.

    Formula: P(|{J : f_J agrees with m labels}| = 1), the share among independent draws, with a 95% Wilson interval; the
        same draws serve all sizes, so the curve never falls.
    Source: derived here; for the filter of the thesis' appendix A.3.1.

    Args:
        sizes: numbers m of examples.
    """
    from scipy.stats import binomtest

    require(len(sizes) > 0, "sizes must be at least one", sizes=sizes)
    least = identifying_samples(task, draws, max(sizes), seed)
    hits = [int((least <= size).sum()) for size in sizes]
    intervals = [binomtest(hit, draws).proportion_ci(method="wilson") for hit in hits]
    low, high = np.array([(interval.low, interval.high) for interval in intervals]).T
    return Identifiability(np.array(sizes), np.array(hits) / draws, low, high)


def _counts(function: str | BooleanFunction, k: int) -> np.ndarray:
    require(k >= 1, "k must be at least 1", k=k)
    boolean = BooleanFunction.parse(function)
    counts = boolean.by_count(k)
    require(counts is not None, "the function must be symmetric", function=boolean.label())
    return np.asarray(counts)


def _binomial(n: int, ones: int, p: Number) -> Number:
    return math.comb(n, ones) * p**ones * (1 - p) ** (n - ones)
