"""Fourier coefficients of majorities, halves and thresholds, exactly.

The coefficient of a function f of n signs at a set A is the mean of f times the product of the signs in
A, over all 2^n inputs. If f depends only on the sum of the signs, it depends only on the size d of A.
All results are whole numbers or fractions, except results that involve pi or an array.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.

Shared arguments:
    degree: the size d of the set, from 0 to n.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from elegans.calculators.domain import Binomial, Form, Number, Side, require, require_form

LARGEST_TABLE = 24
"""Maximum number of signs of a tabulated function: 2^24 values."""

LARGEST_ROW = 2_000
"""Maximum number of signs for listing the values of their sum."""


def krawtchouk(n: Side, degree: int, minus_ones: int) -> int:
    """Return a Krawtchouk polynomial.

    It is the sum of chi_A(x) over all x with the given number of -1s, for any A with ``degree`` members.

    Formula: K_n(d, a) = sum_j (-1)^j C(d, j) C(n - d, a - j).
    Source: O'Donnell, "Analysis of Boolean Functions" (2014), chapter 5.

    Args:
        n: the number of signs.
        minus_ones: the number a of signs that are -1, from 0 to n.

    Returns:
        A whole number.
    """
    require(0 <= minus_ones <= n, "minus_ones must lie in 0..n", minus_ones=minus_ones, n=n)
    return _krawtchouk_row(n, degree)[minus_ones]


@lru_cache(maxsize=4096)
def _krawtchouk_row(n: int, degree: int) -> tuple[int, ...]:
    """Return K_n(degree, a) for a = 0..n: the coefficients of (1 - z)^degree (1 + z)^(n - degree)."""
    require(0 <= degree <= n, "degree must lie in 0..n", degree=degree, n=n)
    row = [math.comb(n - degree, a) for a in range(n - degree + 1)]
    for _ in range(degree):
        row = [here - before for here, before in zip([*row, 0], [0, *row], strict=True)]
    return tuple(row)


def symmetric_coefficient(values: Sequence[Number], degree: int) -> Fraction:
    """Return a Fourier coefficient of a function of the sum of n signs.

    Formula: hat f(d) = 2^-n sum_{a=0..n} F(n - 2a) K_n(d, a).
    Source: O'Donnell, "Analysis of Boolean Functions" (2014), chapter 5.

    Args:
        values: F(n), F(n - 2), …, F(-n): n + 1 values, indexed by the number of -1s.
        degree: the size of the set, from 0 to n.
    """
    n = len(values) - 1
    require(n <= LARGEST_ROW, f"values must be at most {LARGEST_ROW + 1}", values=n + 1)
    row = _krawtchouk_row(n, degree)
    total = sum((Fraction(value) * count for value, count in zip(values, row, strict=True)), Fraction(0))
    return total / Fraction(2**n)


def half_coefficient(n: Binomial, degree: int) -> Fraction:
    """Return a Fourier coefficient of Half: 1 if the sum of n signs is 0, else 0.

    Formula: with n = 2M and d = 2j: (-1)^j C(M, j) / C(2M, 2j) C(2M, M) / 2^(2M); 0 for odd d.
    Source: Pareto frontiers, Lemma 17; O'Donnell (2014), Theorem 5.19.

    Args:
        n: the number of signs, even.
    """
    require(n >= 0 and n % 2 == 0, "n must be even (Lemma 17, Half)", n=n)
    require(0 <= degree <= n, "degree must lie in 0..n", degree=degree, n=n)
    if degree % 2:
        return Fraction(0)
    middle, j = n // 2, degree // 2
    return Fraction((-1) ** j * math.comb(middle, j) * math.comb(n, middle), math.comb(n, degree) * 2**n)


def majority_coefficient(n: Binomial, degree: int, tie: int = 0) -> Fraction:
    """Return a Fourier coefficient of the majority of n signs.

    For odd n, they follow from Half on n - 1 signs, which is the derivative of the majority of n. For even n a tie
    is possible: with the value 0 at a tie the odd coefficients equal the coefficients of n + 1 signs, and the value at
    a tie affects only the coefficients of even degree.

    Formula: for odd n and odd d: hat Half_{n-1}(d - 1); even n, odd d: hat Maj_{n+1}(d); even d: tie times
        hat Half_n(d).
    Source: Pareto frontiers, Lemma 17 (odd n); for even n checked against enumeration.

    Args:
        n: the number of signs, at least 1.
        tie: the value where the sum is 0: -1 (as the paper defines the sign), 0 or 1. Unused for odd n.
    """
    require(n >= 1, "n must be at least 1 (Lemma 17, Maj)", n=n)
    require(0 <= degree <= n, "degree must lie in 0..n", degree=degree, n=n)
    require(tie in (-1, 0, 1), "tie must be -1, 0 or 1", tie=tie)
    if degree % 2:
        return half_coefficient(n - n % 2, degree - 1)
    return tie * half_coefficient(n, degree) if n % 2 == 0 else Fraction(0)


def majority_size(n: int, degree: int) -> float:
    """Return |hat Maj_n(d)| for odd n and d, by Stirling's series if exact binomials would have too many digits."""
    if n <= 10_000:
        return abs(float(majority_coefficient(n, degree)))
    middle, j = (n - 1) // 2, (degree - 1) // 2
    central = (1 - 1 / (8 * middle) + 1 / (128 * middle**2) + 5 / (1024 * middle**3)) / math.sqrt(math.pi * middle)
    return math.comb(middle, j) / math.comb(2 * middle, 2 * j) * central


def majority_ratio(n: int, degree: int) -> Fraction:
    """Return how much smaller a majority's next odd coefficient is, in absolute value.

    Formula: |hat Maj_n(d + 2)| / |hat Maj_n(d)| = d / (n - d - 1), with opposite signs.
    Source: follows from Pareto frontiers, Lemma 17.

    Args:
        n: the number of signs, odd.
        degree: the smaller degree d, odd, at most n - 2.

    Returns:
        The exact ratio of absolute values.
    """
    require(n % 2 == 1, "n must be odd (Lemma 17, Maj)", n=n)
    require(degree % 2 == 1, "degree must be odd (Lemma 17, Maj)", degree=degree)
    require(1 <= degree <= n - 2, "degree must lie in 1..n-2", degree=degree, n=n)
    return Fraction(degree, n - degree - 1)


def majority_weight(n: Binomial, degree: int) -> Fraction:
    """Return the Fourier weight of the majority of n signs at a degree.

    Formula: W_n(d) = C(n, d) hat Maj_n(d)^2; for odd n these sum to 1 over d.
    Source: Pareto frontiers, proof of Lemma 8.

    Args:
        n: the number of signs, odd.
        degree: the degree d, from 0 to n.
    """
    require(n % 2 == 1, "n must be odd (Lemma 8)", n=n)
    return math.comb(n, degree) * majority_coefficient(n, degree) ** 2


def limit_weight(degree: Binomial, form: Form = "corrected") -> float:
    """Return the limit of the majority's Fourier weight at an odd degree as n grows.

    The weights W_n(d) fall towards rho*(d) as n grows, and the rho* sum to 1. The printed rho is half of it:
    W_n(d) >= rho(d) is true, but W_n(d) <= 2 rho(d), which the proof of Lemma 8 also uses, fails at every
    finite n (at n = 17, d = 3: 0.11655 against 0.10610).

    Formula: rho*(d) = 4 / (pi d 2^d) C(d - 1, (d - 1) / 2); printed: 2 / (pi d 2^d) C(d - 1, (d - 1) / 2).
    Source: O'Donnell (2014), Theorem 5.22; printed in Pareto frontiers, proof of Lemma 8.

    Args:
        degree: the degree d, odd.
        form: "corrected" for rho*, "printed" for the paper's rho.
    """
    require(degree >= 1 and degree % 2 == 1, "degree must be odd (Lemma 8)", degree=degree)
    require_form(form)
    weight: float = 4 * math.comb(degree - 1, (degree - 1) // 2) / (math.pi * degree * 2**degree)
    return weight if form == "corrected" else weight / 2


def two_level_coefficient(
    n: Side, s: int, degrees: tuple[int, int], *, epsilon: Number = 0, bias: Number = 0
) -> Fraction:
    """Return a Fourier coefficient of a threshold with weights 1 on s signs and epsilon on the others.

    Pass fractions: a float is taken as the dyadic rational that it stores; ties among the smaller
    signs are exact even then.

    Formula: 2^-n sum_{a, c} K_s(d1, a) K_{n-s}(d2, c) 1{(s - 2a) + epsilon (n - s - 2c) + bias > 0}.
    Source: the formula behind Pareto frontiers, Lemmas 8, 18 and 19.

    Args:
        n: the number of signs.
        s: how many have weight 1, from 0 to n.
        degrees: (d1, d2), the numbers of the set's members among the s signs and among the others.
        epsilon: the weight of the others, at least 0.
        bias: the number added to the weighted sum.

    Returns:
        The exact coefficient of the indicator.
    """
    require(0 <= s <= n, "s must lie in 0..n", s=s, n=n)
    require(epsilon >= 0, "epsilon must be at least 0", epsilon=epsilon)
    small, offset = Fraction(epsilon), Fraction(bias)
    inner, outer = _krawtchouk_row(s, degrees[0]), _krawtchouk_row(n - s, degrees[1])
    total = 0
    for a, weight in enumerate(inner):
        above = (s - 2 * a) + offset
        total += weight * sum(count for c, count in enumerate(outer) if above + small * (n - s - 2 * c) > 0)
    return Fraction(total, 2**n)


def set_index(members: Iterable[int]) -> int:
    """Return the position of a set's coefficient in a table of all sets.

    Formula: sum_{i in S} 2^i.
    Source: the order of the Walsh-Hadamard transform.

    Args:
        members: the elements of S, distinct, counted from 0.
    """
    return sum(1 << member for member in members)


def sign_table(n: int) -> np.ndarray:
    """Return all inputs of n signs in the order of tables.

    Formula: row i has x_j = -1 if bit j of i is 1, else +1.
    Source: the order of the Walsh-Hadamard transform.

    Args:
        n: the number of signs, at most 24.

    Returns:
        int8 of shape (2^n, n).
    """
    require(0 <= n <= LARGEST_TABLE, f"n must be at most {LARGEST_TABLE} for a table of all inputs", n=n)
    return (1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)).astype(np.int8)


def walsh_hadamard(values: Any) -> np.ndarray:
    """Return the sums of a function times every parity, by the fast Walsh-Hadamard transform.

    Formula: H(A) = sum_x f(x) chi_A(x) for all 2^n sets A at once, in n 2^n additions.
    Source: the definition; O'Donnell (2014), chapter 1.

    Args:
        values: f at all 2^n inputs in the order of ``sign_table``, shape (..., 2^n); whole numbers stay exact
            where all sums are below 2^63.

    Returns:
        int64 or float64 of the same shape; the entry of a set has the index whose 1 bits are its members.
    """
    table = np.asarray(values)
    sums = np.array(table, np.int64 if table.dtype.kind in "bui" else np.float64, order="C")
    size = sums.shape[-1]
    require(size > 0 and size & (size - 1) == 0, "a table of a function must have 2^n values", size=size)
    if sums.dtype == np.int64 and sums.size and max(int(sums.max()), -int(sums.min())) * size >= 2**63:
        sums = sums.astype(np.float64)
    half = 1
    while half < size:
        pairs = sums.reshape(*sums.shape[:-1], size // (2 * half), 2, half)
        pairs[..., 0, :], pairs[..., 1, :] = pairs.sum(axis=-2), pairs[..., 0, :] - pairs[..., 1, :]
        half *= 2
    return sums


def fourier_coefficients(values: Any) -> np.ndarray:
    """Return all 2^n Fourier coefficients of a tabulated function.

    Formula: hat f(A) = 2^-n sum_x f(x) chi_A(x).
    Source: O'Donnell (2014), section 1.2.

    Args:
        values: f at all 2^n inputs in the order of ``sign_table``, shape (..., 2^n).

    Returns:
        float64 of the same shape; the coefficient of A is at index ``set_index(A)``.
    """
    sums = walsh_hadamard(values)
    return np.asarray(sums / sums.shape[-1])
