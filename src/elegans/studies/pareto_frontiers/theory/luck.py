"""Luck: how likely good neurons are, how many a network of a given width has, and what width suffices.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    n: the number of inputs.
    k: the size of the support.
    neurons: how many neurons r are drawn independently: half the width where each has a mirrored copy.
    p: the probability that a neuron is good.
    s: how many weights of the neuron are large, from 0 to k.
    biases: the number B of values of the bias, from 1 to 30.
    delta: the probability of failure, between 0 and 1.
    r_prime: the number r'.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated

import numpy as np

from elegans.boolean.learning import neurons_for_any_good
from elegans.calculators.domain import (
    AtMost,
    Binomial,
    Form,
    Listed,
    Number,
    binomial,
    power,
    require,
    require_form,
    require_parity,
    require_positive,
    require_probability,
)


def p_good_over(n: Binomial, k: Binomial, s: Binomial) -> Fraction:
    """Return the probability that s random ones cover the support.

    Formula: C(n - k, s - k) / C(n, s) = prod_{i<k} (s - i) / (n - i).
    Source: Pareto frontiers, Lemma 7 (any k; its theorems need k even and s odd).

    Args:
        s: how many weights of the neuron are 1, from k to n.
    """
    require_parity(n, k, "Lemma 7")
    require(k <= s <= n, "s must lie in k..n (Lemma 7)", s=s, k=k, n=n)
    return math.prod((Fraction(s - i, n - i) for i in range(k)), start=Fraction(1))


def p_good_over_bounds(n: int, k: int, s: int) -> tuple[Fraction, Fraction]:
    """Return bounds on the probability that s random ones cover the support.

    Formula: (s / 2n)^k <= p <= (s / n)^k.
    Source: Pareto frontiers, Lemma 7 (lower); the factors of the exact product (upper).

    Args:
        s: how many weights of the neuron are 1, from 2k to n.
    """
    require_parity(n, k, "Lemma 7")
    require(2 * k <= s <= n, "s must lie in 2k..n (Lemma 7)", s=s, k=k, n=n)
    return power(Fraction(s, 2 * n), k), power(Fraction(s, n), k)


def p_good_under(n: int, k: int, s: int) -> Fraction:
    """Return the probability that s random ones all lie in the support.

    Formula: C(k, s) / C(n, s), of order (k / n)^s.
    Source: Pareto frontiers, proof of Theorem 21 (any k and s; the theorem needs both even).

    Returns:
        The exact probability; with s = k the chance 1 / C(n, k) of drawing the support itself.
    """
    require_parity(n, k, "Theorem 21")
    require(0 <= s <= k, "s must lie in 0..k (Theorem 21)", s=s, k=k)
    return Fraction(binomial(k, s), binomial(n, s))


def p_good_under_bounds(n: int, k: int, s: int) -> tuple[Fraction, Fraction]:
    """Return bounds on the probability that s random ones all lie in the support.

    Formula: ((k - s + 1) / (n - s + 1))^s <= p <= (k / n)^s.
    Source: the factors (k - i) / (n - i) of the exact product fall with i.
    """
    require_parity(n, k, "Theorem 21")
    require(0 <= s <= k, "s must lie in 0..k (Theorem 21)", s=s, k=k)
    return power(Fraction(k - s + 1, n - s + 1), s), power(Fraction(k, n), s)


def expected_good(neurons: int, p: Number) -> Number:
    """Return the expected number of good neurons.

    Formula: r p.
    Source: linearity of expectation.
    """
    _require_draw(neurons, p)
    return neurons * p


def p_any_good(neurons: int, p: Number) -> float:
    """Return the probability of at least one good neuron.

    Formula: 1 - (1 - p)^r.
    Source: independence of the neurons.

    Returns:
        The probability, accurate also where it is tiny.
    """
    _require_draw(neurons, p)
    if p == 1:
        return float(neurons > 0)
    return -math.expm1(neurons * math.log1p(-float(p)))


def p_all_biases_good(neurons: int, p: Number, biases: int) -> float:
    """Return the probability that every value of the bias has a good neuron.

    Each neuron is good with probability p and takes one of B biases uniformly and independently.

    Formula: sum_j (-1)^j C(B, j) (1 - j p / B)^r (inclusion and exclusion).
    Source: required by the readouts of Pareto frontiers, Theorems 16 and 21.

    Returns:
        The probability, to an absolute error of about 2^B times 1e-16.
    """
    _require_draw(neurons, p)
    require(1 <= biases <= 30, "biases must lie in 1..30 for inclusion and exclusion in floating point", biases=biases)
    if neurons < biases:
        return 0.0
    terms = []
    for j in range(biases + 1):
        missed = float(p) * j / biases
        stays = math.exp(neurons * math.log1p(-missed)) if missed < 1 else 0.0
        terms.append((-1) ** j * math.comb(biases, j) * stays)
    return min(1.0, max(0.0, math.fsum(terms)))


def neurons_for_all_biases(p: Number, biases: int, delta: float) -> int:
    """Return how many neurons provide a good one for every value of the bias with probability at least 1 - delta.

    Formula: the smallest r with ``p_all_biases_good(r, p, B)`` >= 1 - delta, by bisection.
    Source: required by the readouts of Pareto frontiers, Theorems 16 and 21.

    Args:
        p: the probability that one is good, above 0.

    Returns:
        The number of independently drawn neurons: half the width where each has a mirrored copy.
    """
    high = neurons_for_any_good(Fraction(p) / biases, delta / biases)
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if p_all_biases_good(middle, p, biases) >= 1 - delta else (middle, high)
    return high


def good_per_bias(
    n: Binomial, k: Binomial, s: Binomial, width: int, *, biases: int | None = None, form: Form = "corrected"
) -> float:
    """Return r': about how many good over-sparse neurons each value of the bias gets.

    The printed r' is a lower bound of the expectation, low by a factor of about 2^(k + 1): with it, "at most 2 r'
    neurons per bias" fails almost surely at the very width that Lemma 15 requires.

    Formula: (r / 2) p / B with p = ``p_good_over(n, k, s)``; printed: (r / 2k) (s / 2n)^k.
    Source: Pareto frontiers, Lemma 15.

    Args:
        s: how many weights of each neuron are 1, from 2k to n.
        width: the width r, half of it mirrored copies.
        biases: the number B of values of the bias; k / 2, as the corrected list has, where it is None.
        form: "corrected" for the exact expectation, "printed" for the paper's.
    """
    require_form(form)
    low, _ = p_good_over_bounds(n, k, s)
    values = max(1, k // 2) if biases is None else biases
    require_positive("Lemma 15", width=width, biases=values)
    return float(width * low / (2 * k) if form == "printed" else width * p_good_over(n, k, s) / (2 * values))


def is_r_prime_good(counts: Sequence[int], r_prime: float) -> bool:
    """Return whether every value of the bias has between r'/2 and 2r' good neurons.

    Formula: r'/2 <= |I_j| <= 2r' for all j.
    Source: Pareto frontiers, the definition before Lemma 11.

    Args:
        counts: how many good neurons |I_j| each value of the bias has, mirrored copies not counted.
    """
    return all(r_prime / 2 <= count <= 2 * r_prime for count in counts)


def p_r_prime_good(neurons: Listed, p: Number, biases: Annotated[int, AtMost(1_000)], r_prime: float) -> float:
    """Return the exact probability that an initialisation is r'-good.

    Formula: N! [z^t] (sum_{r'/2 <= c <= 2r'} (q z)^c / c!)^B (1 - B q)^(N - t) / (N - t)!, summed over t;
        q = p / B (the counts are multinomial).
    Source: the event of Pareto frontiers, Lemma 15.

    Args:
        neurons: how many neurons N are drawn independently: half the width.
        p: the probability that one is good, below 1.
        biases: the number B of equally likely values of the bias.

    Returns:
        The probability, to a relative error of about 1e-10.
    """
    _require_draw(neurons, p)
    require(0 < p < 1, "p must lie between 0 and 1", p=p)
    require_positive("Lemma 15", biases=biases, r_prime=r_prime, neurons=neurons)
    low, high = math.ceil(r_prime / 2), min(math.floor(2 * r_prime), neurons)
    if low > high:
        return 0.0
    rule = "biases x counts must be at most 30000 for the exact distribution"
    require(biases * (high - low) <= 30_000, rule, biases=biases, counts=high - low)
    mean, good = neurons * float(p) / biases, float(p)
    counts = np.arange(low, high + 1)
    one = np.exp([c * math.log(mean) - mean - math.lgamma(c + 1) for c in counts])
    together = np.ones(1)
    for _ in range(biases):
        together = np.convolve(together, one)
    # together holds the convolved Poisson counts; each total t then gets its multinomial weight
    total = 0.0
    for place, chance in enumerate(together):
        t = biases * low + place
        if t <= neurons and chance > 0:
            free = math.lgamma(neurons + 1) - math.lgamma(neurons - t + 1) - t * math.log(neurons)
            total += chance * math.exp(free + (neurons - t) * math.log1p(-good) + biases * mean)
    return min(1.0, total)


def lemma15_width(n: Binomial, k: Binomial, s: Binomial, delta: float) -> int:
    """Return the width at which an over-sparse initialisation is r'-good with probability at least 1 - delta.

    The claim holds with the exact r' (``good_per_bias``), and fails with the printed one. The printed
    Chernoff inequalities have their directions exchanged.

    Formula: r >= 20 k (2n / s)^k ln(2k / delta).
    Source: Pareto frontiers, Lemma 15.

    Args:
        s: how many weights of each neuron are 1, from 2k to n.

    Returns:
        The smallest even width.
    """
    low, _ = p_good_over_bounds(n, k, s)
    require_probability("delta", delta, "Lemma 15")
    return 2 * math.ceil(10 * k * float(1 / low) * math.log(2 * k / delta))


def _require_draw(neurons: int, p: Number) -> None:
    require(neurons >= 0, "neurons must be at least 0", neurons=neurons)
    require(0 <= p <= 1, "p must lie between 0 and 1", p=p)
